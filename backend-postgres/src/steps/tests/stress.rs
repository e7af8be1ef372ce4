//! Many connections at once, large batches, and the sweep.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use stanchion_core::engine::steps::{Acquire, Acquired, Cancel, Kept, PermitSteps, Release, Renew};
use tokio::task::JoinSet;

use super::groups::{added, look, members, wait_group};
use super::*;

const ROWS: &str = "
SELECT (SELECT count(*) FROM stanchion.objects WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.processes WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.grace WHERE namespace = $N)
     + (SELECT count(*) FROM stanchion.holds h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object))
     + (SELECT count(*) FROM stanchion.waiters h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object))
     + (SELECT count(*) FROM stanchion.watchers h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object)
        AND h.noted < stanchion.now() - 10000000)
     + (SELECT count(*) FROM stanchion.tombstones h WHERE NOT EXISTS (SELECT FROM stanchion.objects x WHERE x.id = h.object)
        AND h.expiry < stanchion.now())";

fn is_granted(answer: &Acquired) -> bool {
    matches!(answer, Acquired::Granted { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_m2_concurrent_batches_never_exceed_the_limit_and_tokens_grow() {
    const LIMIT: u32 = 7;
    let bed = Bed::shared();
    let (held, last) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let (process, held, last) = (bed.process().await, Arc::clone(&held), Arc::clone(&last));
        tasks.spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..60 {
                let before = last.load(SeqCst);
                let batch: Vec<_> = (1..=4)
                    .map(|weight| Acquire {
                        queue: false,
                        ..ask_many(&semaphore("s"), weight % 2 + 1, LIMIT)
                    })
                    .collect();
                let answers = all(process.callers.acquire(&batch).await);
                let mine: Vec<_> =
                    batch.iter().zip(&answers).filter(|(_, answer)| is_granted(answer)).collect();
                for (request, answer) in &mine {
                    let now = held.fetch_add(u64::from(request.weight), SeqCst) + u64::from(request.weight);
                    assert!(now <= u64::from(LIMIT), "{now} of {LIMIT}");
                    let Acquired::Granted { token, .. } = answer else { continue };
                    assert!(token.get() > before, "a later grant has a larger token");
                    last.fetch_max(token.get(), SeqCst);
                    tokens.push(token.get());
                }
                tokio::task::yield_now().await;
                let releases: Vec<_> = mine
                    .iter()
                    .map(|(request, _)| {
                        held.fetch_sub(u64::from(request.weight), SeqCst);
                        freeing(request, None)
                    })
                    .collect();
                if !releases.is_empty() {
                    assert!(all(process.own.release(&releases).await).iter().all(|kept| *kept == Kept::Yes));
                }
            }
            tokens
        });
    }
    let mut tokens: Vec<u64> = tasks.join_all().await.into_iter().flatten().collect();
    let count = tokens.len();
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), count, "no token twice");
    let inspection = bed.process().await.callers.inspect(&semaphore("s")).await.unwrap();
    assert_eq!(inspection.holders.len(), 0);
    println!("{count} grants, never more than {LIMIT} permits");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_over_the_same_names_in_opposite_orders_never_deadlock() {
    let bed = Bed::shared();
    let mut tasks = JoinSet::new();
    for task in 0..6 {
        let process = bed.process().await;
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
                        lease: ttl(5_000),
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

#[tokio::test]
async fn a_batch_is_carried_out_in_order_whatever_is_in_it() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    let mut batch: Vec<_> = (0..64).map(|_| ask_many(&object, 1, 40)).collect();
    // The same ticket again, and a stranger's object between.
    batch.push(batch[3].clone());
    batch.push(batch[50].clone());
    batch.insert(7, ask(&mutex("m")));
    let answers = all(process.callers.acquire(&batch).await);
    let token = |index: usize| match answers[index] {
        Acquired::Granted { token, .. } => Some(token),
        Acquired::Waiting { born, .. } => {
            assert!(born > 0);
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
    let inspection = process.callers.inspect(&object).await.unwrap();
    assert_eq!((inspection.holders.len(), inspection.waiters), (40, 24));
    // The same batch again changes nothing.
    assert_eq!(all(process.callers.acquire(&batch).await), answers);
    let releases: Vec<Release> = batch[..30].iter().map(|request| freeing(request, None)).collect();
    let mut kept = all(process.own.release(&releases).await);
    assert!(kept.iter().all(|kept| *kept == Kept::Yes));
    kept = all(process.own.release(&[freeing(&batch[31], None), freeing(&batch[31], None)]).await);
    assert_eq!(kept, [Kept::Yes, Kept::No]);
    // Those in front are granted in order, in one batch, whoever is named first; one of them is behind itself.
    let mut woken: Vec<_> = batch[41..65].to_vec();
    let answers = all(process.callers.acquire(&woken).await);
    assert!(answers.iter().all(is_granted), "{answers:?}");
    woken.extend(batch[32..41].iter().cloned());
    woken.push(batch[30].clone());
    let releases: Vec<Release> = woken.iter().map(|request| freeing(request, None)).collect();
    assert!(all(process.own.release(&releases).await).iter().all(|kept| *kept == Kept::Yes));
    assert_eq!(process.callers.inspect(&object).await.unwrap().holders.len(), 0);
}

#[tokio::test]
async fn c25_the_sweep_leaves_no_row() {
    let moment = Duration::from_millis(50);
    let bed = Bed::shared().retaining(moment, moment);
    let process = bed.process().await;
    for object in [mutex("m"), semaphore("s"), wait_group("g")] {
        let lease = ttl(200);
        let held = Acquire { lease, ..ask(&object) };
        granted(&process, &held).await;
        waits(&process, &Acquire { lease, ..ask(&object) }).await;
        poll(&process, &object).await;
        cancel(&process, &Acquire { lease, ..ask(&object) }).await;
    }
    look(&process, &wait_group("g"), Some(0)).await;
    let mut raw = bed.raw().await;
    let sweep = "SELECT stanchion.sweep_permits($N, 2)";
    bed.number(&mut raw, sweep).await;
    assert!(bed.number(&mut raw, "SELECT count(*) FROM stanchion.objects WHERE namespace = $N").await == 3);
    sleep(Duration::from_millis(500)).await;
    let mut sweeps = 0;
    while bed.number(&mut raw, sweep).await > 0 {
        sweeps += 1;
        assert!(sweeps < 1_000);
    }
    assert_eq!(bed.number(&mut raw, ROWS).await, 0);
    // A swept name is used again.
    granted(&process, &ask(&mutex("m"))).await;
    added(&process, &wait_group("g")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c25_sweeps_and_uses_of_the_same_names_do_each_other_no_harm() {
    let moment = Duration::from_millis(1);
    let bed = Arc::new(Bed::shared().retaining(moment, moment));
    let mut tasks = JoinSet::new();
    for _ in 0..3 {
        let process = bed.process().await;
        tasks.spawn(async move {
            for round in 0..80 {
                let request = Acquire {
                    lease: ttl(5_000),
                    queue: false,
                    ..members(&wait_group(&format!("g{}", round % 3)), 1)
                };
                granted(&process, &request).await;
                assert_eq!(release(&process, &request).await, Kept::Yes);
                sleep(Duration::from_millis(round % 7)).await;
            }
        });
        let bed = Arc::clone(&bed);
        tasks.spawn(async move {
            let mut raw = bed.raw().await;
            for _ in 0..100 {
                // As if the retention were over.
                let idle = "UPDATE stanchion.objects SET expires = 0 WHERE namespace = $N AND used = 0";
                bed.execute(&mut raw, idle).await;
                bed.number(&mut raw, "SELECT stanchion.sweep_permits($N, 100)").await;
                sleep(Duration::from_millis(3)).await;
            }
        });
    }
    tasks.join_all().await;
}

#[tokio::test]
async fn the_views_show_names_times_and_labels() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = mutex("shown");
    granted(&process, &Acquire { label: Some("by whom".into()), ..ask(&object) }).await;
    waits(&process, &ask(&object)).await;
    let mut raw = bed.raw().await;
    let shown = "SELECT kind || ' ' || name || ' ' || label FROM stanchion.holders WHERE namespace = $N \
                 AND lease_left BETWEEN interval '20 s' AND interval '30 s' AND granted > now() - interval '1 min'";
    let rows = bed.execute(&mut raw, shown).await;
    assert_eq!(rows[0].get::<String, _>(0), "mutex shown by whom");
    let queued = "SELECT count(*) FROM stanchion.waiting WHERE namespace = $N AND name = 'shown' \
                  AND heard > now() - interval '1 min'";
    assert_eq!(bed.number(&mut raw, queued).await, 1);
}
