//! Grants, their ends, and what is left of them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use stanchion_core::Ticket;
use stanchion_core::engine::steps::{Acquire, Acquired, Attach, Force, Kept, PermitSteps, Renew};
use tokio::time::sleep;

use super::*;

fn renewal(request: &Acquire) -> Renew {
    Renew { object: request.object.clone(), ticket: request.ticket, lease: request.lease }
}

#[tokio::test]
async fn c2_a_retried_acquire_gives_the_same_token_and_no_second_hold() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let request = ask_many(&object, 2, 5);
    let token = granted(&process, &request).await;
    assert_eq!(granted(&process, &request).await, token);
    let inspection = process.callers.inspect(&object).await.unwrap();
    assert_eq!((inspection.holders.len(), inspection.holders[0].weight), (1, 2));
    granted(&process, &ask_many(&object, 3, 5)).await;
}

#[tokio::test]
async fn c2_a_retried_acquire_has_its_lease_anew() {
    let process = Bed::shared().process().await;
    let request = Acquire { lease: ttl(400), ..ask(&mutex("m")) };
    let token = granted(&process, &request).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(200)).await;
        assert_eq!(granted(&process, &request).await, token);
    }
}

#[tokio::test]
async fn c4_a_cancel_that_overtakes_its_acquire_leaves_a_tombstone() {
    let process = Bed::shared().process().await;
    let request = Acquire { lease: ttl(300), ..ask(&mutex("m")) };
    cancel(&process, &request).await;
    assert_eq!(acquire(&process, &request).await, Acquired::Cancelled);
    granted(&process, &ask(&mutex("m"))).await;
    sleep(Duration::from_millis(400)).await;
    assert_ne!(acquire(&process, &request).await, Acquired::Cancelled, "the tombstone ends with the lease");
}

#[tokio::test]
async fn c4_a_cancelled_hold_is_free_and_a_late_copy_of_its_acquire_refused() {
    let process = Bed::shared().process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    cancel(&process, &request).await;
    cancel(&process, &request).await;
    assert_eq!(acquire(&process, &request).await, Acquired::Cancelled);
    granted(&process, &ask(&mutex("m"))).await;
}

#[tokio::test]
async fn c4_a_cancelled_waiter_is_gone_and_the_next_one_woken() {
    let bed = Bed::shared();
    let (first, second) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    granted(&first, &ask_many(&object, 3, 4)).await;
    let (large, small) = (ask_many(&object, 2, 4), ask_many(&object, 1, 4));
    waits(&first, &large).await;
    waits(&second, &small).await;
    cancel(&first, &large).await;
    assert_eq!(hint(&second).await, [small.ticket]);
    granted(&second, &small).await;
    assert_eq!(first.callers.inspect(&object).await.unwrap().waiters, 0);
}

#[tokio::test]
async fn c4_a_release_in_doubt_refuses_a_late_copy_of_its_acquire() {
    let process = Bed::shared().process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    let release = freeing(&request, Some(request.lease));
    assert_eq!(all(process.own.release(&[release.clone(), release]).await), [Kept::Yes, Kept::No]);
    assert_eq!(acquire(&process, &request).await, Acquired::Cancelled);
}

#[tokio::test]
async fn c8_an_expired_hold_is_grantable_and_stays_gone() {
    let process = Bed::shared().process().await;
    let object = mutex("m");
    let request = Acquire { lease: ttl(200), ..ask(&object) };
    let token = granted(&process, &request).await;
    waits(&process, &Acquire { queue: false, ..ask(&object) }).await;
    sleep(Duration::from_millis(210)).await;
    assert_eq!(all(process.own.renew(&[renewal(&request)]).await), [Kept::No]);
    assert_eq!(release(&process, &request).await, Kept::No);
    assert!(process.callers.inspect(&object).await.unwrap().holders.is_empty());
    assert!(granted(&process, &ask(&object)).await > token);
    assert_eq!(release(&process, &request).await, Kept::No);
    assert_eq!(process.callers.inspect(&object).await.unwrap().holders.len(), 1);
}

#[tokio::test]
async fn c8_a_renewed_hold_lasts_from_its_renewal() {
    let process = Bed::shared().process().await;
    let request = Acquire { lease: ttl(400), ..ask(&mutex("m")) };
    granted(&process, &request).await;
    for _ in 0..4 {
        sleep(Duration::from_millis(200)).await;
        assert_eq!(all(process.own.renew(&[renewal(&request)]).await), [Kept::Yes]);
        waits(&process, &Acquire { queue: false, ..ask(&mutex("m")) }).await;
    }
    // A shorter lease counts at once.
    let shorter = Renew { lease: ttl(100), ..renewal(&request) };
    assert_eq!(all(process.own.renew(&[shorter]).await), [Kept::Yes]);
    sleep(Duration::from_millis(110)).await;
    granted(&process, &ask(&mutex("m"))).await;
}

#[tokio::test]
async fn c11_a_release_frees_its_own_hold_only() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let (first, second) = (ask_many(&object, 1, 2), ask_many(&object, 1, 2));
    granted(&process, &first).await;
    granted(&process, &second).await;
    assert_eq!(release(&process, &first).await, Kept::Yes);
    assert_eq!(release(&process, &first).await, Kept::No);
    assert_eq!(release(&process, &ask(&object)).await, Kept::No);
    let holders = process.callers.inspect(&object).await.unwrap().holders;
    assert_eq!(holders.iter().map(|holder| holder.ticket).collect::<Vec<_>>(), [second.ticket]);
}

#[tokio::test]
async fn c13_many_holds_are_renewed_by_one_command() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let requests: Vec<_> = (0..300).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    let answers = all(process.callers.acquire(&requests).await);
    assert!(answers.iter().all(|answer| matches!(answer, Acquired::Granted { .. })));
    assert_eq!(release(&process, &requests[7]).await, Kept::Yes);
    let kept = all(process.own.renew(&requests.iter().map(renewal).collect::<Vec<_>>()).await);
    let gone: Vec<_> = (0..kept.len()).filter(|index| kept[*index] == Kept::No).collect();
    assert_eq!(gone, [7]);
}

#[tokio::test]
async fn m2_tokens_grow_with_every_grant() {
    let process = Bed::shared().process().await;
    let mut last = None;
    for _ in 0..50 {
        let request = ask(&mutex("m"));
        let token = granted(&process, &request).await;
        assert!(Some(token) > last);
        last = Some(token);
        release(&process, &request).await;
    }
}

#[tokio::test]
async fn m3_tokens_grow_also_when_the_store_lost_its_data() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let before = granted(&process, &ask(&mutex("m"))).await;
    bed.forget().await;
    let after = granted(&process, &ask(&mutex("m"))).await;
    assert!(after > before);
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros();
    assert!(
        u128::from(after.get()).abs_diff(clock) < 60_000_000,
        "tokens are microseconds of the server's clock"
    );
}

#[tokio::test]
async fn c23_inspect_tells_holders_labels_and_waiters() {
    let process = Bed::shared().process().await;
    let object = semaphore("s");
    let first = Acquire { label: Some(Arc::from("a b\nc")), ..ask_many(&object, 2, 3) };
    let token = granted(&process, &first).await;
    let second = Acquire { label: Some(Arc::from("")), lease: ttl(5_000), ..ask_many(&object, 1, 3) };
    granted(&process, &second).await;
    waits(&process, &ask_many(&object, 1, 3)).await;
    let inspection = process.callers.inspect(&object).await.unwrap();
    assert_eq!((inspection.waiters, inspection.limit), (1, Some(3)));
    let holder = &inspection.holders[0];
    assert_eq!((holder.ticket, holder.token, holder.weight), (first.ticket, token, 2));
    assert_eq!(holder.label.as_deref(), Some("a b\nc"));
    assert!(holder.age < Duration::from_secs(3));
    assert_eq!(inspection.holders[1].label.as_deref(), Some(""));
    let left = inspection.holders[1].lease_left.unwrap();
    assert!(left > Duration::from_secs(2) && left <= Duration::from_secs(5), "{left:?}");
    let unused = process.callers.inspect(&semaphore("unused")).await.unwrap();
    assert_eq!((unused.holders.len(), unused.waiters, unused.limit), (0, 0, None));
}

#[tokio::test]
async fn c24_an_attach_takes_the_hold_over_once() {
    let bed = Bed::shared();
    let (first, second) = (bed.process().await, bed.process().await);
    let object = semaphore("s");
    let request = ask_many(&object, 2, 3);
    let token = granted(&first, &request).await;
    let attach = |to| Attach {
        object: object.clone(),
        from: request.ticket,
        to,
        lease: request.lease,
        label: Some(Arc::from("new")),
    };
    let (to, other) = (attach(Ticket::random()), attach(Ticket::random()));
    let attached = second.callers.attach(&to).await.unwrap().unwrap();
    assert_eq!((attached.token, attached.weight), (token, 2));
    assert_eq!(second.callers.attach(&to).await.unwrap(), Some(attached), "a retry is answered as the first");
    assert_eq!(second.callers.attach(&other).await.unwrap(), None);
    assert_eq!(all(first.own.renew(&[renewal(&request)]).await), [Kept::No]);
    assert_eq!(release(&first, &request).await, Kept::No);
    assert_eq!(acquire(&first, &request).await, Acquired::Cancelled);
    let inspection = first.callers.inspect(&object).await.unwrap();
    assert_eq!(inspection.holders.len(), 1);
    assert_eq!((inspection.holders[0].ticket, inspection.holders[0].label.as_deref()), (to.to, Some("new")));
    let again = Attach { from: to.to, to: Ticket::random(), label: None, ..to.clone() };
    second.callers.attach(&again).await.unwrap().unwrap();
    let inspection = first.callers.inspect(&object).await.unwrap();
    assert_eq!(inspection.holders[0].label.as_deref(), Some("new"), "kept where no other is given");
    let to = again;
    waits(&first, &Acquire { queue: false, ..ask_many(&object, 2, 3) }).await;
    assert_eq!(release(&second, &Acquire { ticket: to.to, ..request.clone() }).await, Kept::Yes);
    granted(&first, &ask_many(&object, 3, 3)).await;
}

#[tokio::test]
async fn c24_a_cancelled_attach_is_refused() {
    let process = Bed::shared().process().await;
    let request = ask(&mutex("m"));
    granted(&process, &request).await;
    let to = ask(&mutex("m"));
    cancel(&process, &to).await;
    let attach = Attach {
        object: request.object.clone(),
        from: request.ticket,
        to: to.ticket,
        lease: to.lease,
        label: None,
    };
    assert_eq!(process.callers.attach(&attach).await.unwrap(), None);
    assert_eq!(release(&process, &request).await, Kept::Yes);
}

#[tokio::test]
async fn m8_force_frees_and_wakes() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = semaphore("s");
    let requests: Vec<_> = (0..3).map(|_| ask_many(&object, 1, 3)).collect();
    for request in &requests {
        granted(&process, request).await;
    }
    let waiter = ask_many(&object, 2, 3);
    waits(&process, &waiter).await;
    let steps = &process.callers;
    assert_eq!(steps.force(&object, Force::One(requests[0].ticket)).await.unwrap(), 1);
    assert_eq!(steps.force(&object, Force::One(requests[0].ticket)).await.unwrap(), 0);
    assert_eq!(poll(&process, &object).await.ready, []);
    assert_eq!(steps.force(&object, Force::All).await.unwrap(), 2);
    assert_eq!(hint(&process).await, [waiter.ticket]);
    assert_eq!(all(process.own.renew(&[renewal(&requests[1])]).await), [Kept::No]);
    for request in &requests {
        assert_eq!(acquire(&process, request).await, Acquired::Cancelled, "a late copy of a freed acquire");
    }
    granted(&process, &waiter).await;
    granted(&process, &ask_many(&object, 1, 3)).await;
}

#[tokio::test]
async fn c19_any_name_is_its_own_object() {
    let bed = Bed::shared();
    let process = bed.process().await;
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
    let other = Bed::on(&bed.url).process().await;
    granted(&other, &ask(&mutex("a"))).await;
}

#[tokio::test]
async fn c25_a_used_name_keeps_its_token_and_an_idle_one_forgets_its_limit() {
    let bed = Bed::shared();
    let retention = (Duration::from_secs(60), Duration::from_secs(1));
    let process = bed.retaining(retention.0, retention.1).process().await;
    let object = semaphore("s");
    let first = ask_many(&object, 1, 3);
    let token = granted(&process, &first).await;
    sleep(Duration::from_millis(1_200)).await;
    let limit = |answer| match answer {
        Acquired::Granted { limit, .. } => limit,
        other => panic!("{other:?}"),
    };
    let second = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &second).await), 3, "in use");
    release(&process, &first).await;
    release(&process, &second).await;
    let third = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &third).await), 3, "idle, but not for long");
    release(&process, &third).await;
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(process.callers.inspect(&object).await.unwrap().limit, None);
    let fourth = ask_many(&object, 1, 5);
    assert_eq!(limit(acquire(&process, &fourth).await), 5);
    assert!(granted(&process, &fourth).await > token);
}
