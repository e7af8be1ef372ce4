//! The parameters: their ranges, and clients with different ones.

use std::time::Duration;

use stanchion_core::bloom::Shape;
use stanchion_core::{BloomOptions, ErrorKind, OnMismatch};

use super::{client, contains, insert, items, precise, yes};
use crate::harness::Harness;
use crate::support::{kind_of, unique};

pub(crate) async fn b5_c20_other_parameters_are_never_silent(h: &dyn Harness) {
    let name = unique("filter");
    let first = client(h, &name, BloomOptions::new(31_111, 1e-6)).await;
    let inside = items("inside", 30);
    insert(first.as_ref(), &inside).await;
    for other in [
        BloomOptions::new(52_222, 1e-6),
        BloomOptions::new(31_111, 2e-6),
        BloomOptions::new(31_111, 1e-6).ttl(Duration::from_secs(60)),
    ] {
        let refusing = client(h, &name, other.clone()).await;
        let error = refusing.insert(b"a").await.expect_err("a difference is never silent");
        assert_eq!(error.kind(), ErrorKind::ConfigMismatch, "{other:?}");
        assert!(error.to_string().contains("31111"), "names the store's: {error}");
        assert_eq!(kind_of(refusing.contains(b"a").await), Some(ErrorKind::ConfigMismatch));
        assert_eq!(kind_of(refusing.export().await), Some(ErrorKind::ConfigMismatch));
        assert_eq!(kind_of(refusing.len_estimate().await), Some(ErrorKind::ConfigMismatch));
        assert_eq!(kind_of(refusing.union_with(&name).await), Some(ErrorKind::ConfigMismatch));

        let adopting = client(h, &name, other.on_mismatch(OnMismatch::Adopt)).await;
        assert_eq!(yes(&contains(adopting.as_ref(), &inside).await), 30, "the store's parameters stand");
        assert_eq!(adopting.shape(), first.shape());
        assert_eq!(yes(&insert(adopting.as_ref(), &inside).await), 0);
    }
    assert!(!first.contains(b"a").await.expect("an answer"), "a refused insert inserts nothing");
    let adopting = client(h, &name, BloomOptions::new(9, 0.5).on_mismatch(OnMismatch::Adopt)).await;
    assert_eq!(
        yes(&insert(adopting.as_ref(), &inside).await),
        0,
        "adopted by the first call, whichever it is"
    );
}

pub(crate) async fn c19_b5_bad_parameters_are_refused(h: &dyn Harness) {
    let store = h.store().await;
    let good = precise();
    for bad in [
        BloomOptions::new(0, 0.01),
        BloomOptions::new(Shape::MAX_CAPACITY + 1, 0.01),
        BloomOptions::new(1, 0.0),
        BloomOptions::new(1, 1e-10),
        BloomOptions::new(1, 0.6),
        BloomOptions::new(1, f64::NAN),
        BloomOptions::new(1, f64::INFINITY),
        good.clone().ttl(Duration::from_millis(999)),
        good.clone().ttl(Duration::MAX),
        good.clone().on_mismatch(OnMismatch::Replace),
    ] {
        let refused = store.bloom_filter("f", bad.clone());
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "{bad:?}");
    }
    for name in ["", "a\0", &"x".repeat(513)] {
        let refused = store.bloom_filter(name, good.clone());
        assert_eq!(kind_of(refused), Some(ErrorKind::InvalidArgument), "{name:?}");
    }
    for (capacity, rate) in [(1, 0.5), (Shape::MAX_CAPACITY, Shape::MIN_RATE)] {
        let filter =
            store.bloom_filter(&unique("filter"), BloomOptions::new(capacity, rate)).expect("a filter");
        assert!(!filter.contains(b"a").await.expect("an answer"), "{capacity} {rate}");
    }
}

/// C12: a closed store object refuses every call; other store objects on the same state continue to
/// work.
pub(crate) async fn c12_b5_a_closed_store_refuses_filters(h: &dyn Harness) {
    let name = unique("filter");
    let store = h.store().await;
    let filter = store.bloom_filter(&name, precise()).expect("a filter");
    let exported = filter.export().await.expect("exported");
    assert!(filter.insert(b"a").await.expect("inserted"));
    store.close().await.expect("close");
    let closed = Some(ErrorKind::Closed);
    assert_eq!(kind_of(store.bloom_filter(&name, precise())), closed);
    assert_eq!(kind_of(filter.insert(b"b").await), closed);
    assert_eq!(kind_of(filter.contains(b"a").await), closed);
    assert_eq!(kind_of(filter.len_estimate().await), closed);
    assert_eq!(kind_of(filter.union_with("other").await), closed);
    assert_eq!(kind_of(filter.import(&exported).await), closed);
    assert_eq!(kind_of(filter.export().await), closed);
    assert_eq!(kind_of(filter.clear().await), closed);
    let other = client(h, &name, precise()).await;
    assert!(other.contains(b"a").await.expect("an answer"));
    assert!(!other.contains(b"b").await.expect("an answer"));
}
