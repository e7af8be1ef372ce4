//! Wait groups: how members are counted, who is told of the end, and what is kept of it.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

mod harness;

use std::time::Duration;

use harness::groups::*;
use harness::*;
use redis::aio::MultiplexedConnection;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Ending, Force, GroupSteps, Kept, Looked, PermitSteps, WakeSource,
};
use stanchion_core::{ErrorKind, Ticket};
use tokio::time::{sleep, timeout};

#[tokio::test]
async fn w4_w5_generations_are_counted_and_their_outcomes_told() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    assert_eq!(ended(look(&process, &object, Some(0)).await), Some((0, 0, 0)));
    assert_eq!(look(&process, &object, None).await.born, 0);
    assert_eq!(bed.keys().await, Vec::<String>::new(), "asking makes no record");
    let (three, one) = (members(&object, 3), members(&object, 1));
    granted(&process, &three).await;
    granted(&process, &Acquire { lease: ttl(200), ..one.clone() }).await;
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (4, 1, None));
    assert!(looked.born > 0);
    assert!(looked.next.is_some_and(|next| next <= Duration::from_millis(200)), "{looked:?}");
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::Yes);
    assert_eq!(end(&process, &three, Ending::Finished).await, Kept::No, "once");
    assert_eq!(look(&process, &object, Some(1)).await.ended, None);
    sleep(Duration::from_millis(210)).await;
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
    granted(&process, &Acquire { lease: ttl(100), ..members(&object, 2) }).await;
    sleep(Duration::from_millis(110)).await;
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
        let left: Vec<_> = bed.keys().await.into_iter().filter(|key| key.contains(":wv:")).collect();
        assert_eq!(left, Vec::<String>::new(), "{ends}: nobody watches any more");
        assert_eq!(hint(&processes[0]).await, [hints[0]], "{ends}");
        assert_eq!(hint(&processes[1]).await, [hints[1]], "{ends}");
        for process in &processes {
            let more = timeout(Duration::from_millis(50), process.wake.next()).await;
            assert!(more.is_err(), "{ends}: once, and only who watches");
        }
        // Too late to be noted: it is told by the answer.
        assert!(watch(2, Some(round as u64 + 1)).await.ended.is_some());
        assert_eq!(bed.keys().await.iter().filter(|key| key.contains(":wv:")).count(), 0, "{ends}");
    }
}

#[tokio::test]
async fn c25_who_watches_no_more_is_forgotten() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    look(&process, &object, Some(0)).await;
    let mut raw = bed.raw().await;
    let key = bed.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let ttl_of = async |raw: &mut MultiplexedConnection| -> i64 {
        redis::cmd("PTTL").arg(&key).query_async(raw).await.unwrap()
    };
    let left = ttl_of(&mut raw).await;
    assert!((1..=10_000).contains(&left), "{left} ms");
    // Asking again soon writes nothing, later it notes the watcher anew and removes those who fell silent.
    let _: () = redis::cmd("ZADD").arg(&key).arg(1).arg("00:11").query_async(&mut raw).await.unwrap();
    let _: () = redis::cmd("PEXPIRE").arg(&key).arg(5_000).query_async(&mut raw).await.unwrap();
    look(&process, &object, Some(0)).await;
    assert!(ttl_of(&mut raw).await <= 5_000);
    sleep(Duration::from_millis(1_010)).await;
    look(&process, &object, Some(0)).await;
    assert!(ttl_of(&mut raw).await > 5_000);
    let watchers: Vec<String> =
        redis::cmd("ZRANGE").arg(&key).arg(0).arg(-1).query_async(&mut raw).await.unwrap();
    assert_eq!(watchers.len(), 1, "{watchers:?}");
    assert!(watchers[0].ends_with(&Ticket::from(1).to_string()));
    end(&process, &member, Ending::Finished).await;
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
    let mut raw = bed.raw().await;
    let _: () = redis::cmd("DEL").arg(bed.keys().await).query_async(&mut raw).await.unwrap();
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.generation), (0, 0, 0));
    let again = birth(acquire(&process, &members(&object, 1)).await);
    assert!(again > born);
    let looked = look(&process, &object, Some(1)).await;
    assert_eq!((looked.born, looked.count, looked.ended), (again, 1, None));
    // Of other objects it is not told.
    assert_eq!(birth(acquire(&process, &ask(&mutex("m"))).await), 0);
}

#[tokio::test]
async fn c25_w6_zero_is_kept_for_the_retention_time() {
    let bed = Bed::shared();
    let retention = Duration::from_secs(1);
    let process = bed.builder().retention(retention, retention).steps().await.unwrap();
    let object = wait_group("g");
    let member = Acquire { lease: ttl(200), ..members(&object, 2) };
    granted(&process, &member).await;
    look(&process, &object, Some(0)).await;
    assert!(bed.keys().await.iter().any(|key| key.contains(":wv:")));
    end(&process, &member, Ending::Finished).await;
    sleep(retention).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((2, 0, 0)));
    // The look above tidied up, which is a use.
    sleep(retention * 9 / 8 + Duration::from_millis(50)).await;
    assert_eq!(
        look(&process, &object, None).await,
        Looked { ended: Some(Default::default()), ..Looked::default() }
    );
    let left: Vec<_> = bed.keys().await.into_iter().filter(|key| !key.contains(":box:")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn c21_foreign_values_are_told_and_left_alone() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let (object, ours) = (wait_group("g"), wait_group("ours"));
    let member = added(&process, &object).await;
    let other = added(&process, &ours).await;
    look(&process, &object, Some(0)).await;
    let mut raw = bed.raw().await;
    let watchers = bed.keys().await.into_iter().find(|key| key.contains(":wv:")).expect("a watcher");
    let set = async |key: &str, raw: &mut MultiplexedConnection| -> () {
        redis::cmd("SET").arg(key).arg("foreign").query_async(raw).await.unwrap()
    };
    set(&watchers, &mut raw).await;
    let looks = [watching(&object, Some(0), Ticket::random()), watching(&ours, Some(0), Ticket::random())];
    let answers = process.callers.look(&looks).await;
    let error = answers[0].as_ref().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains(&watchers) && error.to_string().contains("string"), "{error}");
    assert_eq!(answers[1].as_ref().unwrap().count, 1, "the others of a batch do not suffer");
    // It costs the watchers their hints only.
    assert_eq!(look(&process, &object, None).await.count, 1);
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
    let value: String = redis::cmd("GET").arg(&watchers).query_async(&mut raw).await.unwrap();
    assert_eq!(value, "foreign");
    let record = bed.keys().await.into_iter().find(|key| key.ends_with("}:w:g")).expect("a record");
    set(&record, &mut raw).await;
    let refused = process.callers.look(&[watching(&object, None, Ticket::random())]).await.remove(0);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    let whole = members(&object, 2);
    assert_eq!(
        process.callers.split(&split_of(&whole)).await.unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
    assert_eq!(end(&process, &other, Ending::Finished).await, Kept::Yes);
}
