//! Large batches.

use crate::steps::StepCalls;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use stanchion_core::clock::now;
use stanchion_core::spi::{
    Acquire, Acquired, Ask, Cancel, Kept, Object, ParameterCheck, Release, Renew, Request,
};
use stanchion_core::{FencingToken, Kind, OnMismatch};
use std::time::Duration;
use tokio::task::JoinSet;

use super::super::drive::*;
use super::super::harness::StepHarness;

pub(super) async fn s2_batches_over_the_same_names_in_opposite_orders_never_deadlock(
    harness: &dyn StepHarness,
) {
    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let process = harness.process().await;
        tasks.spawn(async move {
            for round in 0..25 {
                let mut batch: Vec<_> = (0..16)
                    .map(|index| Acquire {
                        queue: index % 2 == 0,
                        lease: ttl(30_000),
                        ..ask(&if index % 3 == 0 {
                            mutex(&format!("n{round}/{index}"))
                        } else {
                            semaphore(&format!("n{round}/{index}"))
                        })
                    })
                    .collect();
                if task % 2 == 0 {
                    batch.reverse();
                }
                let answers = all(process.callers.acquire(&batch).await);
                let (held, queued): (Vec<_>, Vec<_>) =
                    batch.iter().zip(&answers).partition(|(_, answer)| is_granted(answer));
                let renewals: Vec<_> = held
                    .iter()
                    .map(|(request, _)| Renew {
                        object: request.object.clone(),
                        ticket: request.ticket,
                        lease: ttl(30_000),
                    })
                    .collect();
                let objects: Vec<_> = queued.iter().map(|(request, _)| request.object.clone()).collect();
                let releases: Vec<_> = held.iter().rev().map(|(request, _)| freeing(request, None)).collect();
                let cancels: Vec<_> = queued
                    .iter()
                    .map(|(request, _)| Cancel {
                        object: request.object.clone(),
                        ticket: request.ticket,
                        tombstone: Some(ttl(5_000)),
                    })
                    .collect();
                let (kept, polled) =
                    tokio::join!(process.own.renew(&renewals), process.callers.poll(&objects));
                assert!(all(kept).iter().all(|kept| *kept == Kept::Yes));
                all(polled);
                let (kept, cancelled) =
                    tokio::join!(process.own.release(&releases), process.callers.cancel(&cancels));
                all(cancelled);
                assert!(all(kept).iter().all(|kept| *kept == Kept::Yes));
            }
        });
    }
    tasks.join_all().await;
}

/// What an answer says apart from tokens and epochs.
fn decision(answer: &Acquired) -> (std::mem::Discriminant<Acquired>, Option<u32>) {
    let limit = match answer {
        Acquired::Granted { limit, .. } | Acquired::Waiting { limit, .. } | Acquired::TooLarge { limit } => {
            Some(*limit)
        }
        Acquired::Mismatch { stored } => Some(*stored),
        _ => None,
    };
    (std::mem::discriminant(answer), limit)
}

pub(super) async fn s4_a_batch_over_many_names_decides_as_each_of_its_entries_alone(
    harness: &dyn StepHarness,
) {
    let process = harness.process().await;
    let mut random = StdRng::seed_from_u64(11);
    let names = |which: &str| -> Vec<Object> {
        let one = |number: usize| {
            let name = format!("{which}{number}");
            if number.is_multiple_of(3) { semaphore(&name) } else { mutex(&name) }
        };
        (0..12).map(one).collect()
    };
    let (joined, apart) = (names("joined"), names("apart"));
    let mut known: Vec<Vec<Acquire>> = vec![Vec::new(); joined.len()];
    // The others have no waiters and no tombstones.
    let has_queue = |number: usize| number >= 7;
    for round in 0..300 {
        let mut picked: Vec<_> = (0..joined.len()).collect();
        picked.shuffle(&mut random);
        picked.truncate(random.random_range(2..=8));
        let alone =
            |request: &Acquire, number: usize| Acquire { object: apart[number].clone(), ..request.clone() };
        if random.random_bool(0.5) {
            let requests: Vec<_> = (picked.iter())
                .map(|number| {
                    let old = known[*number].choose(&mut random).filter(|_| random.random_bool(0.3)).cloned();
                    let new = || Acquire {
                        queue: has_queue(*number) && random.random_bool(0.5),
                        check: if random.random_bool(0.8) {
                            ParameterCheck::Follow
                        } else {
                            ParameterCheck::First(OnMismatch::Refuse)
                        },
                        ..match joined[*number].kind {
                            Kind::Mutex => ask(&joined[*number]),
                            _ => ask_many(
                                &joined[*number],
                                random.random_range(1..=3),
                                random.random_range(2..=4),
                            ),
                        }
                    };
                    old.unwrap_or_else(new)
                })
                .collect();
            let answers = acquire_all(&process, &requests).await;
            for ((number, request), answer) in picked.iter().zip(&requests).zip(&answers) {
                let other = acquire(&process, &alone(request, *number)).await;
                assert_eq!(decision(answer), decision(&other), "round {round}: {request:?}");
                known[*number].push(request.clone());
            }
        } else {
            let mut ended = |number: &usize| {
                let count = known[*number].len();
                (count > 0).then(|| known[*number].remove(random.random_range(0..count)))
            };
            let ended: Vec<_> = picked.iter().filter_map(|number| Some((*number, ended(number)?))).collect();
            let releases: Vec<_> = (ended.iter())
                .map(|(number, request)| {
                    let leaves_tombstone = has_queue(*number) && random.random_bool(0.2);
                    freeing(request, leaves_tombstone.then_some(ttl(5_000)))
                })
                .collect();
            let kept = all(process.own.release(&releases).await);
            for (((number, request), release), kept) in ended.iter().zip(releases).zip(kept) {
                let alone = alone(request, *number);
                let other =
                    one(process.own.release(&[Release { object: alone.object.clone(), ..release }]).await);
                assert_eq!(kept, other, "round {round}: {request:?}");
                if request.queue && kept == Kept::No {
                    cancel(&process, request).await;
                    cancel(&process, &alone).await;
                }
            }
        }
    }
    for object in joined.iter().chain(&apart) {
        harness.check(object).await;
    }
}

pub(super) async fn c16_a_batch_is_carried_out_in_order_whatever_is_in_it(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let object = semaphore("s");
    let mut batch: Vec<_> = (0..64).map(|_| ask_many(&object, 1, 40)).collect();
    // The same ticket again, and an entry for another object in between.
    batch.push(batch[3].clone());
    batch.push(batch[50].clone());
    batch.insert(7, ask(&mutex("m")));
    let answers = all(process.callers.acquire(&batch).await);
    let token = |index: usize| match answers[index] {
        Acquired::Granted { token, .. } => Some(token),
        Acquired::Waiting { epoch, .. } => {
            assert!(epoch > 0);
            None
        }
        ref other => panic!("{other:?}"),
    };
    assert_eq!(token(65), token(3), "a repeated ticket has the same hold");
    assert_eq!(token(66), None, "or the same place");
    let tokens: Vec<_> = (0..65).filter(|index| *index != 7).map(token).collect();
    assert!(tokens[..40].windows(2).all(|pair| pair[0] < pair[1]));
    assert!(tokens[40..].iter().all(Option::is_none));
    assert!(token(7).is_some());
    let inspection = process.callers.inspect(&object).await.expect("an answer");
    assert_eq!((inspection.holders.len(), inspection.waiters), (40, 24));
    // The same batch again changes nothing.
    assert_eq!(all(process.callers.acquire(&batch).await), answers);
    let releases: Vec<Release> = batch[..30].iter().map(|request| freeing(request, None)).collect();
    let mut kept = all(process.own.release(&releases).await);
    assert!(kept.iter().all(|kept| *kept == Kept::Yes));
    kept = all(process.own.release(&[freeing(&batch[31], None), freeing(&batch[31], None)]).await);
    assert_eq!(kept, [Kept::Yes, Kept::No]);
    // The waiters in front are granted in queue order within one batch, whatever the order of its
    // entries.
    let mut woken: Vec<_> = batch[41..65].to_vec();
    let answers = all(process.callers.acquire(&woken).await);
    assert!(answers.iter().all(is_granted), "{answers:?}");
    woken.extend(batch[32..41].iter().cloned());
    woken.push(batch[30].clone());
    let releases: Vec<Release> = woken.iter().map(|request| freeing(request, None)).collect();
    assert!(all(process.own.release(&releases).await).iter().all(|kept| *kept == Kept::Yes));
    assert_eq!(process.callers.inspect(&object).await.expect("an answer").holders.len(), 0);
}

pub(super) async fn c16_a_mixed_batch_answers_each_entry_as_if_it_were_alone(harness: &dyn StepHarness) {
    let process = harness.process().await;
    let objects = [mutex("m"), semaphore("s"), mutex("free")];
    let held = [ask(&objects[0]), ask(&objects[1])];
    for request in &held {
        granted(&process, request).await;
    }
    let next = objects.each_ref().map(|object| Acquire { queue: false, ..ask(object) });
    // An acquire stands before the release that makes room for it, and one release has nothing to
    // end.
    let batch = [
        Request::from(next[0].clone()),
        Request::from(freeing(&held[0], None)),
        Request::from(next[1].clone()),
        Request::from(freeing(&ask(&objects[2]), None)),
        Request::from(next[2].clone()),
        Request::from(freeing(&held[1], None)),
    ];
    let answers = all(process.callers.send(&batch, now() + Duration::from_secs(2)).await);
    let kept =
        [1, 3, 5].map(|index: usize| Release::answer(answers[index].clone()).expect("a release's answer"));
    assert_eq!(kept, [Kept::Yes, Kept::No, Kept::Yes], "{answers:?}");
    let asked =
        [0, 2, 4].map(|index: usize| Acquire::answer(answers[index].clone()).expect("an acquire's answer"));
    assert!(is_granted(&asked[2]), "{answers:?}");
    let definite = |answer: &Acquired| is_granted(answer) || matches!(answer, Acquired::Waiting { .. });
    assert!(asked.iter().all(definite), "{answers:?}");
    // Sent again, all have their grants: the releases end other holds, and these are gone.
    let again = all(process.callers.send(&batch, now() + Duration::from_secs(2)).await);
    for (index, before) in [0, 2, 4].into_iter().zip(asked) {
        let answer = Acquire::answer(again[index].clone()).expect("an acquire's answer");
        assert!(is_granted(&answer), "{again:?}");
        assert!(
            !is_granted(&before) || token_of(&answer) == token_of(&before),
            "{before:?} and then {answer:?}"
        );
    }
    for (request, object) in next.iter().zip(&objects) {
        let other = Acquire { queue: false, ..ask(object) };
        assert!(!is_granted(&one(process.callers.acquire(&[other]).await)));
        assert_eq!(one(process.callers.release(&[freeing(request, None)]).await), Kept::Yes);
    }
}

fn token_of(answer: &Acquired) -> Option<FencingToken> {
    match answer {
        Acquired::Granted { token, .. } => Some(*token),
        _ => None,
    }
}
