//! Wait groups: how members are counted, who is told of the end, and what is kept of it.

use std::time::Duration;

use stanchion_core::Ticket;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Ending, Force, GroupSteps, Kept, Look, Looked, NO_LIMIT, PermitSteps, Split,
};
use tokio::time::sleep;

use super::*;

/// Who watches in this namespace.
const WATCHERS: &str = "SELECT count(*) FROM stanchion.watchers w JOIN stanchion.objects x ON x.id = w.object \
                        WHERE x.namespace = $N";

pub(super) fn wait_group(name: &str) -> Object {
    Object { kind: Kind::WaitGroup, name: Name::new(name).expect("a name") }
}

/// A request for members of a group without a limit.
pub(super) fn members(object: &Object, weight: u32) -> Acquire {
    ask_many(object, weight, NO_LIMIT)
}

pub(super) async fn added(process: &Process, object: &Object) -> Acquire {
    let member = members(object, 1);
    granted(process, &member).await;
    member
}

pub(super) async fn end(process: &Process, member: &Acquire, ending: Ending) -> Kept {
    let release = Release { ending, ..freeing(member, None) };
    one(process.own.release(&[release]).await)
}

pub(super) fn watching(object: &Object, watch: Option<u64>, hint: Ticket) -> Look {
    Look { object: object.clone(), watch, hint }
}

pub(super) async fn look(process: &Process, object: &Object, watch: Option<u64>) -> Looked {
    one(process.callers.look(&[watching(object, watch, Ticket::from(1))]).await)
}

/// Finished, abandoned, expired.
pub(super) fn ended(looked: Looked) -> Option<(u64, u64, u64)> {
    looked.ended.map(|outcome| (outcome.finished, outcome.abandoned, outcome.expired))
}

/// One generation with one member.
pub(super) async fn generation(process: &Process, object: &Object, ending: Ending) {
    let member = added(process, object).await;
    assert_eq!(end(process, &member, ending).await, Kept::Yes);
}

/// Into as many as it weighs, with leases of 5 s.
pub(super) fn split_of(whole: &Acquire) -> Split {
    let into = (0..whole.weight).map(|_| Ticket::random()).collect();
    Split { object: whole.object.clone(), from: whole.ticket, into, lease: ttl(5_000) }
}

#[tokio::test]
async fn w4_w5_generations_are_counted_and_their_outcomes_told() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    assert_eq!(ended(look(&process, &object, Some(0)).await), Some((0, 0, 0)));
    assert_eq!(look(&process, &object, None).await.born, 0);
    let mut raw = bed.raw().await;
    let records = bed.number(&mut raw, "SELECT count(*) FROM stanchion.objects WHERE namespace = $N").await;
    assert_eq!(records, 0, "asking makes no record");
    let (three, one) = (members(&object, 3), members(&object, 1));
    granted(&process, &three).await;
    granted(&process, &Acquire { lease: ttl(1_000), ..one.clone() }).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (4, 1, None));
    assert!(looked.born > 0);
    assert!(looked.next.is_some_and(|next| next <= Duration::from_secs(1)), "{looked:?}");
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::Yes);
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::No, "once");
    assert_eq!(look(&process, &object, Some(1)).await.ended, None);
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
    process.own.force(&object, Force::All).await.unwrap();
    assert_eq!(ended(look(&process, &object, Some(3)).await), Some((0, 1, 0)), "forced is abandoned");
    assert_eq!(end(&process, &open, Ending::Finished).await, Kept::No);
    let forced = added(&process, &object).await;
    assert_eq!(process.own.force(&object, Force::One(forced.ticket)).await.unwrap(), 1);
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 1, 0)));
}

#[tokio::test]
async fn w4_expiry_ends_a_generation_before_the_step_that_finds_it() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    granted(&process, &Acquire { lease: ttl(400), ..members(&object, 2) }).await;
    sleep(Duration::from_millis(410)).await;
    let member = added(&process, &object).await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.count, looked.generation, ended(looked)), (1, 2, Some((0, 0, 2))));
    assert_eq!(look(&process, &object, None).await.ended, None);
    end(&process, &member, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}

#[tokio::test]
async fn w4_thousands_that_expire_together_are_all_counted() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    for _ in 0..10 {
        let batch: Vec<_> = (0..500).map(|_| Acquire { lease: ttl(2_000), ..members(&object, 1) }).collect();
        all(process.callers.acquire(&batch).await);
    }
    assert_eq!(look(&process, &object, None).await.count, 5_000);
    sleep(Duration::from_millis(2_010)).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 5_000)));
}

#[tokio::test]
async fn c4_a_generation_of_cancelled_calls_never_had_a_member() {
    let bed = Bed::shared();
    let process = bed.process().await;
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
    // Beside a member it counts as none, and does not end its generation.
    let (member, cancelled) = (added(&process, &object).await, added(&process, &object).await);
    cancel(&process, &cancelled).await;
    assert_eq!(look(&process, &object, Some(4)).await.ended, None);
    end(&process, &member, Ending::Abandoned).await;
    assert_eq!(ended(look(&process, &object, Some(4)).await), Some((0, 1, 0)));
}

#[tokio::test]
async fn w4_what_is_forgotten_is_in_the_sum() {
    let bed = Bed::shared();
    let process = bed.process().await;
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

#[tokio::test]
async fn w3_every_watching_process_gets_one_hint_at_the_end() {
    let bed = Bed::shared();
    let processes = [bed.process().await, bed.process().await, bed.process().await];
    let object = wait_group("g");
    let hints = [Ticket::random(), Ticket::random(), Ticket::random()];
    let watch = async |index: usize, generation| {
        let answers = processes[index].callers.look(&[watching(&object, generation, hints[index])]).await;
        one(answers)
    };
    let mut raw = bed.raw().await;
    let expiring = Acquire { lease: ttl(300), ..members(&object, 1) };
    for (round, ends) in ["release", "cancel", "force", "expiry"].into_iter().enumerate() {
        let member = if ends == "expiry" { expiring.clone() } else { members(&object, 1) };
        granted(&processes[0], &member).await;
        for _ in 0..3 {
            watch(0, Some(0)).await;
            watch(1, Some(round as u64 + 1)).await;
        }
        assert_eq!(watch(2, None).await.ended, None, "who only asks is not told");
        match ends {
            "release" => drop(end(&processes[2], &member, Ending::Finished).await),
            "cancel" => cancel(&processes[2], &member).await,
            "force" => drop(processes[2].own.force(&object, Force::All).await.unwrap()),
            _ => {
                sleep(Duration::from_millis(310)).await;
                watch(2, None).await;
            }
        }
        let left = bed.number(&mut raw, WATCHERS).await;
        assert_eq!(left, 0, "{ends}: nobody watches any more");
        assert_eq!(hint(&processes[0]).await, [hints[0]], "{ends}");
        assert_eq!(hint(&processes[1]).await, [hints[1]], "{ends}");
        for process in &processes {
            assert!(process.wake.is_silent().await, "{ends}: once, and only who watches");
        }
        // Too late to be noted: it is told by the answer.
        assert!(watch(2, Some(round as u64 + 1)).await.ended.is_some());
        assert_eq!(bed.number(&mut raw, WATCHERS).await, 0, "{ends}");
    }
}

#[tokio::test]
async fn w6_another_record_has_another_birth() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let first = acquire(&process, &members(&object, 1)).await;
    let born = look(&process, &object, None).await.born;
    let birth = |answer| match answer {
        Acquired::Granted { born, .. } => born,
        other => panic!("{other:?}"),
    };
    assert_eq!(birth(first), born, "the grant that makes the record tells its birth");
    assert_eq!(birth(acquire(&process, &members(&object, 1)).await), born);
    bed.forget().await;
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.generation), (0, 0, 0));
    let again = birth(acquire(&process, &members(&object, 1)).await);
    assert!(again > born);
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.ended), (again, 1, None));
    // Of other objects it is not told.
    assert_eq!(birth(acquire(&process, &ask(&mutex("m"))).await), 0);
}
