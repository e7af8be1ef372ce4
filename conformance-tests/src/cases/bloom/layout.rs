//! The layout, which is the same on every store.

use stanchion_core::bloom::{Shape, header};
use stanchion_core::{BloomOptions, ErrorKind};

use super::{client, contains, insert, items, yes};
use crate::harness::Harness;
use crate::support::{kind_of, unique};

/// Returns the exported bytes of a filter, built bit by bit.
fn image(shape: &Shape, items: &[Vec<u8>]) -> Vec<u8> {
    let mut bits = vec![0_u8; usize::try_from(shape.bytes()).expect("a small filter")];
    for position in items.iter().flat_map(|item| shape.positions(item)) {
        bits[usize::try_from(position / 8).expect("a small filter")] |= 0x80 >> (position % 8);
    }
    [header(shape).to_vec(), bits].concat()
}

pub(crate) async fn b4_exported_bytes_are_those_of_the_layout(h: &dyn Harness) {
    for (capacity, rate) in [(1, 0.5), (100, 0.01), (200_000, 1e-5)] {
        let filter = client(h, &unique("filter"), BloomOptions::new(capacity, rate)).await;
        let shape = filter.shape();
        assert!(filter.export().await.expect("exported") == image(&shape, &[]), "{shape}: without items");
        let inside = items("inside", 60);
        insert(filter.as_ref(), &inside).await;
        let exported = filter.export().await.expect("exported");
        assert!(exported == image(&shape, &inside), "{shape}: bit for bit");
    }
}

pub(crate) async fn b4_exported_bytes_load_elsewhere(h: &dyn Harness) {
    let options = BloomOptions::new(100_000, 1e-5);
    let shape = Shape::new(100_000, 1e-5).expect("a shape");
    let (theirs, ours) = (items("theirs", 100), items("ours", 100));
    let filter = client(h, &unique("filter"), options.clone()).await;
    insert(filter.as_ref(), &ours).await;
    filter.import(&image(&shape, &theirs)).await.expect("imported");
    for inside in [&ours, &theirs] {
        assert_eq!(yes(&contains(filter.as_ref(), inside).await), 100, "nothing is lost by it");
        assert_eq!(yes(&insert(filter.as_ref(), inside).await), 0, "not new any more");
    }
    let copy = client(h, &unique("copy"), options).await;
    let exported = filter.export().await.expect("exported");
    copy.import(&exported).await.expect("imported");
    assert!(copy.export().await.expect("exported") == exported, "bit for bit");
    copy.import(&exported).await.expect("imported again: nothing changes");
    assert!(copy.export().await.expect("exported") == exported);
}

pub(crate) async fn b4_bytes_that_do_not_fit_are_refused(h: &dyn Harness) {
    let filter = client(h, &unique("filter"), BloomOptions::new(1_000, 0.01)).await;
    insert(filter.as_ref(), &items("inside", 10)).await;
    let before = filter.export().await.expect("exported");
    for foreign in [&b""[..], b"stanchbf", &before[..before.len() - 1], &before[1..]] {
        assert_eq!(kind_of(filter.import(foreign).await), Some(ErrorKind::InvalidArgument));
    }
    for (capacity, rate) in [(1_001, 0.01), (1_000, 0.011)] {
        let unlike = Shape::new(capacity, rate).expect("a shape");
        let refused = filter.import(&image(&unlike, &items("other", 5))).await;
        assert_eq!(kind_of(refused), Some(ErrorKind::ConfigMismatch), "{unlike}");
    }
    assert!(filter.export().await.expect("exported") == before, "nothing is changed");
}

pub(crate) async fn b4_a_union_has_the_items_of_both(h: &dyn Harness) {
    let options = BloomOptions::new(100_000, 1e-5);
    let (name, other_name) = (unique("filter"), unique("other"));
    let (filter, other) = (client(h, &name, options.clone()).await, client(h, &other_name, options).await);
    let (own, others) = (items("own", 100), items("others", 100));
    insert(filter.as_ref(), &own).await;
    filter.union_with(&unique("absent")).await.expect("one that is not there adds nothing");
    filter.union_with(&name).await.expect("nor does the same");
    assert_eq!(yes(&contains(filter.as_ref(), &others).await), 0);
    insert(other.as_ref(), &others).await;
    filter.union_with(&other_name).await.expect("united");
    let shape = filter.shape();
    let both = image(&shape, &[own.clone(), others].concat());
    assert!(filter.export().await.expect("exported") == both, "bit for bit");
    assert_eq!(yes(&contains(other.as_ref(), &own).await), 0, "the other stays as it is");

    let unlike = client(h, &unique("unlike"), BloomOptions::new(100_001, 1e-5)).await;
    insert(unlike.as_ref(), &own).await;
    let before = unlike.export().await.expect("exported");
    assert_eq!(kind_of(unlike.union_with(&name).await), Some(ErrorKind::ConfigMismatch));
    assert!(unlike.export().await.expect("exported") == before, "nothing is changed");
    assert_eq!(kind_of(unlike.union_with("a\0").await), Some(ErrorKind::InvalidArgument));
}
