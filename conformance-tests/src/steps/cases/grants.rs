//! Grants, their leases and tokens.

use crate::steps::StepCalls;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use stanchion_core::clock::{Instant, now, sleep, wall_micros};
use stanchion_core::spi::{Acquire, Acquired, Kept, Usage};

use super::super::drive::*;
use super::super::harness::StepHarness;
use crate::support::TICK;

pub(super) async fn c2_a_retried_acquire_gives_the_same_token_and_no_second_hold(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let request = ask_many(&object, 2, 5);
    let token = granted(&process, &request).await;
    assert_eq!(granted(&process, &request).await, token);
    let inspection = process.callers.inspect(&object).await.expect("an answer");
    assert_eq!((inspection.holders.len(), inspection.holders[0].weight), (1, 2));
    granted(&process, &ask_many(&object, 3, 5)).await;
}

/// A lease that outlives three of the pauses of the cases about renewal, and not four of them. In
/// milliseconds.
const LASTING: u64 = 2_500;

/// Returns whether a hold whose lease began at `since` or later may have ended: the machine stood
/// still for a whole lease.
fn is_over(since: Instant) -> bool {
    since.elapsed() >= Duration::from_millis(LASTING)
}

pub(super) async fn c2_a_retried_acquire_has_its_lease_anew(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = Acquire { lease: ttl(LASTING), ..ask(&mutex("m")) };
    let mut since = now();
    let mut token = granted(&process, &request).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(800)).await;
        let sent = now();
        let again = granted(&process, &request).await;
        // If the hold has ended, this is another one.
        if !is_over(since) {
            assert_eq!(again, token);
        }
        (since, token) = (sent, again);
    }
}

pub(super) async fn c2_a_retry_finds_its_hold_and_its_label(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = Acquire { label: Some("a b\n = c".into()), ..ask(&mutex("m")) };
    let token = granted(&process, &request).await;
    assert_eq!(granted(&process, &request).await, token);
    let inspection = process.callers.inspect(&request.object).await.expect("an answer");
    assert_eq!(inspection.holders[0].label.as_deref(), Some("a b\n = c"));
    assert_eq!(inspection.holders[0].ticket, Some(request.ticket));
}

pub(super) async fn c5_entries_of_one_batch_meet_each_other(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let (first, second) = (ask(&mutex("m")), ask(&mutex("m")));
    let third = Acquire { queue: false, ..ask(&mutex("m")) };
    let answers = all(process.callers.acquire(&[first.clone(), second.clone(), third]).await);
    assert!(matches!(
        answers.as_slice(),
        [Acquired::Granted { .. }, Acquired::Waiting { .. }, Acquired::Waiting { .. }]
    ));
    let both = [freeing(&first, None), freeing(&first, None)];
    assert_eq!(all(process.own.release(&both).await), [Kept::Yes, Kept::No]);
    assert_eq!(process.hint().await, second.ticket);
    granted(&process, &second).await;
}

pub(super) async fn c8_an_expired_hold_is_grantable_and_stays_gone(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = mutex("m");
    let request = Acquire { lease: ttl(30_000), ..ask(&object) };
    let token = granted(&process, &request).await;
    waits(&process, &Acquire { queue: false, ..ask(&object) }).await;
    shorten(&process, std::slice::from_ref(&request), ttl(800)).await;
    sleep(Duration::from_millis(810)).await;
    assert_eq!(renew(&process, &request).await, Kept::No);
    assert_eq!(release(&process, &request).await, Kept::No);
    assert!(process.callers.inspect(&object).await.expect("an answer").holders.is_empty());
    assert!(granted(&process, &ask(&object)).await > token);
    assert_eq!(release(&process, &request).await, Kept::No);
    assert_eq!(process.callers.inspect(&object).await.expect("an answer").holders.len(), 1);
}

pub(super) async fn c7_c8_expiry_is_judged_by_the_clock_after_the_wait_for_a_record(
    harness: &dyn StepHarness,
) {
    const BUSY: Duration = Duration::from_millis(1_200);
    let (harness, _server) = harness.alone().await;
    let (holder, other) = (harness.process().await, harness.process().await);
    other.callers.ping().await.expect("it is connected");
    let held = Acquire { lease: ttl(800), ..ask(&mutex("m")) };
    let token = granted(&holder, &held).await;
    let busy = now();
    harness.keep_busy(&held.object, BUSY).await;
    // The request arrives while the hold lives, and gets the record after the hold has ended.
    let request = Acquire { queue: false, ..ask(&held.object) };
    assert!(granted(&other, &request).await > token);
    let took = busy.elapsed();
    assert!(took + TICK >= BUSY, "nobody else could use the record, but this took {took:?}");
}

pub(super) async fn c8_a_renewed_hold_lasts_from_its_renewal(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = Acquire { lease: ttl(LASTING), ..ask(&mutex("m")) };
    let mut since = now();
    granted(&process, &request).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(800)).await;
        let sent = now();
        let kept = renew(&process, &request).await;
        if is_over(since) {
            return;
        }
        assert_eq!(kept, Kept::Yes);
        since = sent;
        let tried = acquire(&process, &Acquire { queue: false, ..ask(&mutex("m")) }).await;
        if is_over(since) {
            return;
        }
        assert!(matches!(tried, Acquired::Waiting { .. }), "{tried:?}");
    }
    // A shorter lease applies at once.
    shorten(&process, &[request], ttl(200)).await;
    sleep(Duration::from_millis(210)).await;
    granted(&process, &ask(&mutex("m"))).await;
}

pub(super) async fn c8_an_expired_hold_is_not_released_and_the_name_is_free(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = Acquire { lease: ttl(300), ..ask(&mutex("m")) };
    let token = granted(&process, &request).await;
    sleep(Duration::from_millis(310)).await;
    assert_eq!(release(&process, &request).await, Kept::No);
    let tried = Acquire { queue: false, lease: ttl(300), ..ask(&mutex("n")) };
    granted(&process, &tried).await;
    sleep(Duration::from_millis(310)).await;
    let again = Acquire { queue: false, ..ask(&mutex("n")) };
    granted(&process, &again).await;
    assert!(granted(&process, &ask(&mutex("m"))).await > token);
}

pub(super) async fn c13_many_holds_are_renewed_by_one_command(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let requests: Vec<_> = (0..300).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    let answers = all(process.callers.acquire(&requests).await);
    assert!(answers.iter().all(|answer| matches!(answer, Acquired::Granted { .. })));
    assert_eq!(release(&process, &requests[7]).await, Kept::Yes);
    let kept = all(process.own.renew(&requests.iter().map(renewal).collect::<Vec<_>>()).await);
    let gone: Vec<_> = (0..kept.len()).filter(|index| kept[*index] == Kept::No).collect();
    assert_eq!(gone, [7]);
}

pub(super) async fn m2_tokens_grow_with_every_grant(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let mut last = None;
    for _ in 0..50 {
        let request = ask(&mutex("m"));
        let token = granted(&process, &request).await;
        assert!(Some(token) > last);
        last = Some(token);
        release(&process, &request).await;
    }
}

pub(super) async fn m3_tokens_grow_also_when_the_store_lost_its_data(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let before = granted(&process, &ask(&mutex("m"))).await;
    harness.lose_data().await;
    let after = granted(&process, &ask(&mutex("m"))).await;
    assert!(after > before);
    assert!(
        after.get().abs_diff(wall_micros()) < 60_000_000,
        "tokens are microseconds of the server's clock"
    );
}

pub(super) async fn m3_a_stored_token_ahead_of_the_clock_is_passed(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let request = ask(&mutex("m"));
    let token = granted(&process, &request).await.get() + 3_600_000_000;
    release(&process, &request).await;
    harness.set_token(&request.object, token).await;
    assert_eq!(granted(&process, &ask(&mutex("m"))).await.get(), token + 1);
}

pub(super) async fn c19_any_name_is_its_own_object(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let long = "ü".repeat(256);
    let names = [
        " ",
        "a",
        "e:a",
        "q:a",
        "{",
        "}",
        "{}",
        "{x}y",
        "a:b",
        "'\"`$(x)",
        "%s%d",
        "\u{1f512}",
        "\r\n",
        "*",
        &long,
    ];
    for name in names {
        for object in [mutex(name), semaphore(name)] {
            granted(&process, &ask(&object)).await;
            waits(&process, &Acquire { queue: false, ..ask(&object) }).await;
        }
    }
    let other = harness.other_namespace().await;
    granted(&other, &ask(&mutex("a"))).await;
}

pub(super) async fn c23_inspect_tells_holders_labels_and_waiters(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let first = Acquire { label: Some(Arc::from("a b\nc")), ..ask_many(&object, 2, 3) };
    let token = granted(&process, &first).await;
    let second = Acquire { label: Some(Arc::from("")), lease: ttl(5_000), ..ask_many(&object, 1, 3) };
    granted(&process, &second).await;
    waits(&process, &ask_many(&object, 1, 3)).await;
    let inspection = process.callers.inspect(&object).await.expect("an answer");
    assert_eq!((inspection.waiters, inspection.limit), (1, Some(3)));
    let holder = &inspection.holders[0];
    assert_eq!((holder.ticket, holder.token, holder.weight), (Some(first.ticket), Some(token), 2));
    assert_eq!(holder.label.as_deref(), Some("a b\nc"));
    assert!(holder.age.is_some_and(|age| age < Duration::from_secs(3)));
    assert_eq!(inspection.holders[1].label.as_deref(), Some(""));
    let left = inspection.holders[1].lease_left.expect("a lease");
    assert!(left > Duration::from_secs(2) && left <= Duration::from_secs(5), "{left:?}");
    assert_eq!(process.callers.usage(&object).await.expect("an answer"), Usage::new(3, Some(3)));
    let unused = process.callers.inspect(&semaphore("unused")).await.expect("an answer");
    assert_eq!((unused.holders.len(), unused.waiters, unused.limit), (0, 0, None));
    let unused = process.callers.usage(&semaphore("unused")).await.expect("an answer");
    assert_eq!(unused, Usage::default());
}

/// So many holds are told in several requests, while some of them are renewed and others released.
pub(super) async fn c23_c27_all_of_thousands_of_holds_are_told(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let requests: Vec<Acquire> =
        (0..6_000).map(|_| Acquire { lease: ttl(600_000), ..ask_many(&object, 1, 10_000) }).collect();
    for part in requests.chunks(500) {
        assert!(acquire_all(&process, part).await.iter().all(is_granted));
    }
    let (lasting, ending) = requests.split_at(4_000);
    let told = async || {
        let holders = process.callers.inspect(&object).await.expect("an answer").holders;
        let tickets: HashSet<_> = holders.iter().filter_map(|holder| holder.ticket).collect();
        assert_eq!(tickets.len(), holders.len(), "each once");
        assert!(lasting.iter().all(|request| tickets.contains(&request.ticket)), "a hold that lasts is told");
        assert!(holders.iter().map(|holder| holder.token).is_sorted(), "oldest grant first");
        tickets
    };
    let changing = async {
        for part in 0..8 {
            let renewed: Vec<_> = lasting.iter().skip(part * 250).take(500).map(renewal).collect();
            let released: Vec<_> =
                ending[part * 250..][..250].iter().map(|hold| freeing(hold, None)).collect();
            all(process.own.renew(&renewed).await);
            all(process.own.release(&released).await);
        }
    };
    let looking = async {
        for _ in 0..4 {
            told().await;
        }
    };
    tokio::join!(changing, looking);
    let tickets = told().await;
    assert_eq!(tickets.len(), lasting.len(), "an ended hold is not told");
    let usage = process.callers.usage(&object).await.expect("an answer");
    assert_eq!(usage, Usage::new(4_000, Some(10_000)));
}
