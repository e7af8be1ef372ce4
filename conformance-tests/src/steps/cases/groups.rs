//! Wait groups: how members are counted, which processes learn of the end, and what is kept of it.

use crate::steps::StepCalls;
use std::time::Duration;

use stanchion_core::Ticket;
use stanchion_core::clock::{now, sleep};
use stanchion_core::spi::{Acquire, Acquired, Ending, Force, Kept, Looked};

use super::super::drive::*;
use super::super::harness::StepHarness;

pub(super) async fn w4_w5_generations_are_counted_and_their_outcomes_told(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    assert_eq!(ended(look(&process, &object, Some(0)).await), Some((0, 0, 0)));
    assert_eq!(look(&process, &object, None).await.epoch, 0);
    assert_eq!(harness.records().await, 0, "asking makes no record");
    let (three, one) = (members(&object, 3), members(&object, 1));
    granted(&process, &three).await;
    granted(&process, &one).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (4, 1, None));
    assert!(looked.epoch > 0);
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::Yes);
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::No, "once");
    assert_eq!(look(&process, &object, Some(1)).await.ended, None);
    let sent = now();
    shorten(&process, &[one], ttl(1_000)).await;
    let looked = look(&process, &object, None).await;
    if sent.elapsed() < Duration::from_secs(1) {
        assert!(looked.next.is_some_and(|next| next <= Duration::from_secs(1)), "{looked:?}");
    }
    sleep(Duration::from_millis(1_010)).await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.count, looked.generation, ended(looked)), (0, 1, Some((3, 0, 1))));
    generation(&process, &object, Ending::Abandoned).await;
    let open = added(&process, &object).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (1, 3, None));
    assert_eq!(ended(look(&process, &object, Some(1)).await), Some((3, 0, 1)));
    assert_eq!(ended(look(&process, &object, Some(2)).await), Some((0, 1, 0)));
    assert_eq!(look(&process, &object, Some(3)).await.ended, None);
    process.own.force(&object, Force::All).await.expect("an answer");
    assert_eq!(ended(look(&process, &object, Some(3)).await), Some((0, 1, 0)), "forced is abandoned");
    assert_eq!(end(&process, &open, Ending::Finished).await, Kept::No);
    let forced = added(&process, &object).await;
    assert_eq!(process.own.force(&object, Force::One(forced.ticket)).await.expect("an answer"), 1);
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 1, 0)));
}

pub(super) async fn w4_expiry_ends_a_generation_before_the_step_that_finds_it(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let two = members(&object, 2);
    granted(&process, &two).await;
    shorten(&process, &[two], ttl(400)).await;
    sleep(Duration::from_millis(410)).await;
    let member = added(&process, &object).await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.count, looked.generation, ended(looked)), (1, 2, Some((0, 0, 2))));
    assert_eq!(look(&process, &object, None).await.ended, None);
    end(&process, &member, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}

pub(super) async fn w4_thousands_that_expire_together_are_all_counted(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let added: Vec<_> = (0..5_000).map(|_| members(&object, 1)).collect();
    for part in added.chunks(500) {
        acquire_all(&process, part).await;
    }
    shorten(&process, &added, ttl(2_000)).await;
    sleep(Duration::from_millis(2_010)).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 5_000)));
}

pub(super) async fn c4_a_generation_of_cancelled_calls_never_had_a_member(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let cancelled = added(&process, &object).await;
    cancel(&process, &cancelled).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 0)));
    generation(&process, &object, Ending::Finished).await;
    let cancelled = added(&process, &object).await;
    assert_eq!(look(&process, &object, None).await.generation, 3);
    cancel(&process, &cancelled).await;
    let looked = look(&process, &object, Some(3)).await;
    assert_eq!(ended(looked), Some((1, 0, 0)), "the outcome before it stands");
    // Beside a live member, a cancelled one does not count and does not end the generation.
    let (member, cancelled) = (added(&process, &object).await, added(&process, &object).await);
    cancel(&process, &cancelled).await;
    assert_eq!(look(&process, &object, Some(4)).await.ended, None);
    end(&process, &member, Ending::Abandoned).await;
    assert_eq!(ended(look(&process, &object, Some(4)).await), Some((0, 1, 0)));
}

pub(super) async fn w4_what_is_forgotten_is_in_the_sum(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    generation(&process, &object, Ending::Abandoned).await;
    for _ in 0..15 {
        generation(&process, &object, Ending::Finished).await;
    }
    let of = async |watch| ended(look(&process, &object, Some(watch)).await);
    assert_eq!(of(1).await, Some((0, 1, 0)), "16 are kept");
    cancel(&process, &added(&process, &object).await).await;
    for number in 2..=17 {
        assert_eq!(of(number).await, Some((1, 0, 0)), "generation {number}");
    }
    assert_eq!(of(1).await, Some((1, 1, 0)), "the sum of what is forgotten, and the oldest known");
    for _ in 0..30 {
        generation(&process, &object, Ending::Finished).await;
    }
    assert_eq!(look(&process, &object, None).await.generation, 47);
    assert_eq!(of(47).await, Some((1, 0, 0)));
    assert_eq!(of(32).await, Some((1, 0, 0)));
    // 30 of 31 are forgotten: all but the cancelled one count.
    assert_eq!(of(31).await, Some((30, 1, 0)));
}

pub(super) async fn w3_every_watching_process_gets_one_hint_at_the_end(harness: &dyn StepHarness) {
    let processes = [harness.process().await, harness.process().await, harness.process().await];
    let object = wait_group("g");
    let hints = [Ticket::random(), Ticket::random(), Ticket::random()];
    let watch = async |index: usize, generation| {
        let answers = processes[index].callers.look(&[watching(&object, generation, hints[index])]).await;
        one(answers)
    };
    for (round, ends) in ["release", "cancel", "force", "expiry"].into_iter().enumerate() {
        let member = members(&object, 1);
        granted(&processes[0], &member).await;
        for _ in 0..3 {
            watch(0, Some(0)).await;
            watch(1, Some(round as u64 + 1)).await;
        }
        assert_eq!(watch(2, None).await.ended, None, "who only asks is not told");
        match ends {
            "release" => drop(end(&processes[2], &member, Ending::Finished).await),
            "cancel" => cancel(&processes[2], &member).await,
            "force" => drop(processes[2].own.force(&object, Force::All).await.expect("an answer")),
            _ => {
                shorten(&processes[0], &[member], ttl(1_000)).await;
                sleep(Duration::from_millis(1_010)).await;
                watch(2, None).await;
            }
        }
        assert_eq!(harness.watched().await, 0, "{ends}: nobody watches any more");
        assert_eq!(processes[0].hint().await, hints[0], "{ends}");
        assert_eq!(processes[1].hint().await, hints[1], "{ends}");
        for process in &processes {
            assert!(process.is_silent().await, "{ends}: once, and only who watches");
        }
        // Too late to be registered: the answer itself reports the end.
        assert!(watch(2, Some(round as u64 + 1)).await.ended.is_some());
        assert_eq!(harness.watched().await, 0, "{ends}");
    }
}

pub(super) async fn w6_another_record_has_another_birth(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = wait_group("g");
    let first = acquire(&process, &members(&object, 1)).await;
    let epoch = look(&process, &object, None).await.epoch;
    let birth = |answer| match answer {
        Acquired::Granted { epoch, .. } => epoch,
        other => panic!("{other:?}"),
    };
    assert_eq!(birth(first), epoch, "the grant that makes the record tells its birth");
    assert_eq!(birth(acquire(&process, &members(&object, 1)).await), epoch);
    harness.lose_data().await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.epoch, looked.count, looked.generation), (0, 0, 0));
    let again = birth(acquire(&process, &members(&object, 1)).await);
    assert!(again > epoch);
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.epoch, looked.count, looked.ended), (again, 1, None));
    // Answers for other objects have no epoch.
    assert_eq!(birth(acquire(&process, &ask(&mutex("m"))).await), 0);
}

pub(super) async fn c25_w6_zero_is_kept_for_the_retention_time(harness: &dyn StepHarness) {
    let retention = Duration::from_secs(1);
    let process = harness.forgetful_process(retention, retention).await;
    let object = wait_group("g");
    // The record outlives the lease by the retention time. So the lease is short, and can be over
    // before the member is ended; and the record can be gone before the look.
    let member = Acquire { lease: ttl(1_000), ..members(&object, 2) };
    let (sent, lease) = (now(), member.lease.get());
    granted(&process, &member).await;
    look(&process, &object, Some(0)).await;
    let watched = harness.watched().await;
    assert!(watched == 1 || sent.elapsed() >= lease, "{watched} watch");
    end(&process, &member, Ending::Finished).await;
    let in_time = sent.elapsed() < lease;
    sleep(retention).await;
    let told = ended(look(&process, &object, None).await);
    if in_time && sent.elapsed() < lease + retention {
        assert_eq!(told, Some((2, 0, 0)));
    }
    // The look above cleaned the record up, which counts as a use.
    sleep(retention * 9 / 8 + Duration::from_millis(50)).await;
    assert_eq!(harness.records().await, 0);
    assert_eq!(
        look(&process, &object, None).await,
        Looked { ended: Some(Default::default()), ..Looked::default() }
    );
    assert_eq!(harness.records().await, 0);
}
