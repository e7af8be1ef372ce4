//! What is done to a wait group.

use proptest::prelude::*;

use crate::sequential::terms::{CLIENTS, HANDLES};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// One member, with a time limit or without, or several at once.
    Add {
        handle: usize,
        millis: Option<u64>,
    },
    AddMany {
        handle: usize,
        count: u32,
    },
    GiveUp(usize),
    Done(usize),
    Drop(usize),
    DoneByTicket {
        handle: usize,
        ticket: usize,
    },
    Detach(usize, u64),
    Attach {
        handle: usize,
        ticket: usize,
    },
    Wait {
        handle: usize,
        millis: Option<u64>,
    },
    StopWaiting(usize),
    Count(usize),
    Advance(u64),
    Close(usize),
    LoseData,
}

pub(crate) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let handle = || 0..HANDLES;
    let millis = || prop_oneof![3 => Just(None), 2 => (1..600_u64).prop_map(Some), 1 => Just(Some(0))];
    let any = any::<usize>;
    let op = prop_oneof![
        10 => (handle(), millis()).prop_map(|(handle, millis)| Op::Add { handle, millis }),
        4 => (handle(), 0..5_u32).prop_map(|(handle, count)| Op::AddMany { handle, count }),
        2 => any().prop_map(Op::GiveUp),
        10 => any().prop_map(Op::Done),
        6 => any().prop_map(Op::Drop),
        4 => (handle(), any()).prop_map(|(handle, ticket)| Op::DoneByTicket { handle, ticket }),
        4 => (any(), 60..900_u64).prop_map(|(member, lease)| Op::Detach(member, lease)),
        4 => (handle(), any()).prop_map(|(handle, ticket)| Op::Attach { handle, ticket }),
        8 => (handle(), millis()).prop_map(|(handle, millis)| Op::Wait { handle, millis }),
        2 => any().prop_map(Op::StopWaiting),
        4 => handle().prop_map(Op::Count),
        8 => (1..500_u64).prop_map(Op::Advance),
        1 => (0..CLIENTS * 3).prop_map(Op::Close),
        1 => Just(Op::LoseData),
    ];
    prop::collection::vec(op, 1..80)
}
