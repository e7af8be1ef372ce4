//! The members of wait groups: each ends once, and is counted where it ends.

use std::time::Duration;

use stanchion_core::Ticket;
use stanchion_core::engine::steps::{
    Acquire, Acquired, Attach, Cancel, Ending, GroupSteps, Kept, PermitSteps, Release, Split,
};

use super::groups::*;
use super::*;

#[tokio::test]
async fn w2_w8_a_call_is_answered_the_same_when_it_is_sent_again() {
    let bed = Bed::shared();
    let (process, other) = (bed.process().await, bed.process().await);
    let object = wait_group("g");
    let (member, kept) = (added(&process, &object).await, added(&process, &object).await);
    let by = |member: &Acquire, call| Release { call: Some(call), ..freeing(member, Some(ttl(5_000))) };
    let (first, second) = (Ticket::random(), Ticket::random());
    let answers = async |release: Release| one(other.callers.release(&[release]).await);
    assert_eq!(answers(by(&member, first)).await, Kept::Yes);
    assert_eq!(answers(by(&member, second)).await, Kept::No, "another call");
    assert_eq!(answers(by(&member, first)).await, Kept::Yes, "again");
    assert_eq!(end(&process, &member, Ending::Abandoned).await, Kept::No, "its own guard");
    assert_eq!(look(&process, &object, None).await.count, 1, "ended once");
    let unknown = members(&object, 1);
    for _ in 0..2 {
        assert_eq!(answers(by(&unknown, first)).await, Kept::No, "unknown, also when sent again");
    }
    // A copy of the acquire that was still under way is refused.
    let late = acquire(&process, &member).await;
    assert_eq!(late, Acquired::Cancelled);
    end(&process, &kept, Ending::Finished).await;
    assert_eq!(ended(look(&process, &object, None).await), Some((2, 0, 0)));
}

#[tokio::test]
async fn c2_a_split_is_made_once() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let whole = Acquire { label: Some("a b".into()), ..members(&object, 1_200) };
    let token = granted(&process, &whole).await;
    let split = split_of(&whole);
    for _ in 0..3 {
        assert!(process.callers.split(&split).await.unwrap());
    }
    assert!(!process.callers.split(&Split { into: split_of(&whole).into, ..split.clone() }).await.unwrap());
    let inspection = process.callers.inspect(&object).await.unwrap();
    let mut held: Vec<_> = inspection.holders.iter().map(|holder| holder.ticket).collect();
    let mut into = split.into.clone();
    held.sort_unstable();
    into.sort_unstable();
    assert_eq!(held, into);
    for holder in &inspection.holders {
        assert_eq!((holder.weight, holder.token, holder.label.as_deref()), (1, token, Some("a b")));
        assert!(holder.lease_left.is_some_and(|left| left <= Duration::from_secs(5)));
    }
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation), (1_200, 1));
    // A late copy of the acquire, and the end of the whole, find nothing.
    let late = acquire(&process, &whole).await;
    assert_eq!(late, Acquired::Cancelled);
    assert_eq!(end(&process, &whole, Ending::Finished).await, Kept::No);
    let parts: Vec<_> = split.into.iter().map(|part| Acquire { ticket: *part, ..whole.clone() }).collect();
    let releases: Vec<_> = parts.iter().map(|part| freeing(part, None)).collect();
    for batch in releases.chunks(400) {
        assert!(all(process.own.release(batch).await).iter().all(|kept| *kept == Kept::Yes));
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((1_200, 0, 0)));
}

#[tokio::test]
async fn c4_a_cancel_that_overtakes_the_split_leaves_no_member() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    for whole_first in [true, false] {
        let whole = members(&object, 3);
        granted(&process, &whole).await;
        let split = split_of(&whole);
        let cancelling = |ticket: Ticket| Cancel { object: object.clone(), ticket, lease: ttl(5_000) };
        let parts: Vec<_> = split.into.iter().map(|part| cancelling(*part)).collect();
        if whole_first {
            cancel(&process, &whole).await;
        } else {
            all(process.own.cancel(&parts[2..]).await);
        }
        assert!(!process.callers.split(&split).await.unwrap());
        all(process.own.cancel(&parts).await);
        cancel(&process, &whole).await;
        assert!(!process.callers.split(&split).await.unwrap());
        let looked = look(&process, &object, None).await;
        assert_eq!((looked.count, ended(looked)), (0, Some((0, 0, 0))));
    }
    // What was split and then cancelled counts as none, too.
    let whole = members(&object, 2);
    granted(&process, &whole).await;
    let split = split_of(&whole);
    assert!(process.callers.split(&split).await.unwrap());
    for ticket in &split.into {
        cancel(&process, &Acquire { ticket: *ticket, ..whole.clone() }).await;
    }
    assert_eq!(ended(look(&process, &object, None).await), Some((0, 0, 0)));
}

#[tokio::test]
async fn c24_w4_a_moved_member_is_counted_where_it_ends() {
    let bed = Bed::shared();
    let process = bed.process().await;
    let object = wait_group("g");
    let member = added(&process, &object).await;
    let born = look(&process, &object, None).await.born;
    let (to, lease) = (Ticket::random(), ttl(5_000));
    let attach = Attach { object: object.clone(), from: member.ticket, to, lease, label: None };
    for _ in 0..2 {
        let attached = process.callers.attach(&attach).await.unwrap().unwrap();
        assert_eq!((attached.weight, attached.born), (1, born));
    }
    let looked = look(&process, &object, None).await;
    assert_eq!((looked.count, looked.generation, looked.ended), (1, 1, None));
    assert_eq!(end(&process, &member, Ending::Finished).await, Kept::No, "the old ticket is spent");
    assert_eq!(end(&process, &Acquire { ticket: to, ..member }, Ending::Finished).await, Kept::Yes);
    assert_eq!(ended(look(&process, &object, None).await), Some((1, 0, 0)));
}
