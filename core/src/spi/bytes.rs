//! Requests and responses as bytes, for stores that hand them from process to process and for tests
//! that keep them.
//!
//! One byte for the layout, one for the kind, then the content: numbers in little-endian order at
//! their full width, a length of 4 bytes before texts and lists, one byte before what may be absent
//! and for the variant of an enum. Two processes that exchange requests have to agree on the
//! layout: [`LAYOUT`] changes with it. A new kind does not change it: an unknown number is no
//! request.

use std::sync::Arc;
use std::time::Duration;

use super::{
    Acquire, Acquired, Attach, Attached, Cancel, ChunkRead, Clear, Decide, Ending, FilterRecord, FilterState,
    Force, ForceRelease, Inspect, KeepPlaces, Kept, LimitAsk, Limited, List, ListPart, Look, Looked, Merge,
    Merged, Object, Opening, ParameterCheck, Ping, Poll, Polled, Probe, ProbeItems, Probed, Purpose, Read,
    Refund, Release, Renew, Request, RequestId, Reset, Resize, Response, SetQuota, Split, Survey, Surveyed,
    Total, Usage,
};
use crate::bloom::{FilterTerms, Shape};
use crate::limiter::{ExactQuota, Reserved, Verdict};
use crate::{FencingToken, Holder, Inspection, Kind, Listed, Name, OnMismatch, Outcome, Quota, Ticket, Ttl};

/// The layout of the bytes.
const LAYOUT: u8 = 1;

impl Request {
    /// Writes the request as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT, self.kind() as u8];
        self.write_content(&mut bytes);
        bytes
    }

    /// Reads a request; `None` if the bytes are not exactly one of this layout.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read_all(bytes, Self::read_content)
    }
}

impl Response {
    /// Writes the response as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![LAYOUT, self.kind() as u8];
        self.write_content(&mut bytes);
        bytes
    }

    /// Reads a response; `None` if the bytes are not exactly one of this layout.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        read_all(bytes, Self::read_content)
    }
}

fn read_all<T>(bytes: &[u8], read: impl FnOnce(u8, &mut &[u8]) -> Option<T>) -> Option<T> {
    let [LAYOUT, kind, content @ ..] = bytes else { return None };
    let mut content = content;
    read(*kind, &mut content).filter(|_| content.is_empty())
}

/// What can be written as bytes and read back.
pub(super) trait Bytes: Sized {
    fn write(&self, bytes: &mut Vec<u8>);

    /// Reads from the front of the bytes, and takes what it read; `None` if that is no such value.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// Of structs whose fields are all written, in this order.
macro_rules! of_struct {
    ($($type:ident { $($field:ident),* })*) => {
        $(impl Bytes for $type {
            fn write(&self, _bytes: &mut Vec<u8>) {
                $(self.$field.write(_bytes);)*
            }

            fn read(_bytes: &mut &[u8]) -> Option<Self> {
                $(let $field = Bytes::read(_bytes)?;)*
                Some(Self { $($field),* })
            }
        })*
    };
}

/// Of enums: the number of each variant, and its fields.
macro_rules! of_enum {
    ($($type:ident {
        $($number:literal => $variant:ident $({ $($field:ident),* })? $(( $($place:ident),* ))?),* $(,)?
    })*) => {
        $(impl Bytes for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(( $($place),* ))? => {
                        bytes.push($number);
                        $($($field.write(bytes);)*)?
                        $($($place.write(bytes);)*)?
                    })*
                }
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                Some(match u8::read(bytes)? {
                    $($number => {
                        $($(let $field = Bytes::read(bytes)?;)*)?
                        $($(let $place = Bytes::read(bytes)?;)*)?
                        Self::$variant $({ $($field),* })? $(( $($place),* ))?
                    })*
                    _ => return None,
                })
            }
        })*
    };
}

/// Of numbers.
macro_rules! of_number {
    ($($type:ty)*) => {
        $(impl Bytes for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend(self.to_le_bytes());
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                let (number, rest) = bytes.split_first_chunk()?;
                *bytes = rest;
                Some(Self::from_le_bytes(*number))
            }
        })*
    };
}

/// Of values that are written as another one.
macro_rules! as_another {
    ($($type:ty, |$value:ident| $write:expr, |$read:ident: $other:ty| $made:expr;)*) => {
        $(impl Bytes for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                let $value = self;
                $write.write(bytes);
            }

            fn read(bytes: &mut &[u8]) -> Option<Self> {
                let $read = <$other>::read(bytes)?;
                $made
            }
        })*
    };
}

of_number! { u8 u32 u64 u128 }

as_another! {
    (), |_value| 0_u8, |zero: u8| (zero == 0).then_some(());
    bool, |value| u8::from(*value), |number: u8| (number < 2).then_some(number == 1);
    usize, |value| u64::try_from(*value).unwrap_or(u64::MAX), |number: u64| number.try_into().ok();
    String, |value| value.as_bytes().to_vec(), |bytes: Vec<u8>| Self::from_utf8(bytes).ok();
    Arc<str>, |value| value.to_string(), |text: String| Some(Self::from(text));
    Duration, |value| (value.as_secs(), value.subsec_nanos()), |parts: (u64, u32)| duration(parts);
    Ticket, |value| value.as_u128(), |bits: u128| Some(Self::from(bits));
    FencingToken, |value| value.get(), |token: u64| Self::new(token).ok();
    Ttl, |value| value.get(), |ttl: Duration| Self::new(ttl).ok();
    Kind, |value| value.letter().to_string(), |letter: String| Self::of_letter(&letter);
    Name, |value| value.as_str().to_owned(), |name: String| Self::new(&name).ok();
    ExactQuota, |value| (value.amount(), (value.period(), value.burst())), |parts: (u64, (u64, u64))| quota(parts);
    Shape, |value| ((value.capacity(), value.rate_bits()), (value.bits(), value.hashes())),
        |parts: ((u64, u64), (u64, u32))| shape(parts);
}

fn duration((seconds, nanoseconds): (u64, u32)) -> Option<Duration> {
    (nanoseconds < 1_000_000_000).then(|| Duration::new(seconds, nanoseconds))
}

fn quota((amount, (period, burst)): (u64, (u64, u64))) -> Option<ExactQuota> {
    Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().ok()
}

fn shape(((capacity, rate), (bits, hashes)): ((u64, u64), (u64, u32))) -> Option<Shape> {
    Shape::stored(capacity, rate, bits, hashes).ok()
}

impl<A: Bytes, B: Bytes> Bytes for (A, B) {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?))
    }
}

impl<T: Bytes> Bytes for Option<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.is_some().write(bytes);
        self.iter().for_each(|value| value.write(bytes));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        if bool::read(bytes)? { T::read(bytes).map(Some) } else { Some(None) }
    }
}

impl<T: Bytes> Bytes for Vec<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).write(bytes);
        self.iter().for_each(|value| value.write(bytes));
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let count = usize::try_from(u32::read(bytes)?).ok()?;
        // Each value has a byte at least: a length that lies makes no room.
        (count <= bytes.len()).then(|| (0..count).map(|_| T::read(bytes)).collect())?
    }
}

of_struct! {
    Object { kind, name }
    RequestId { sequence, number }
    Acquire { object, ticket, weight, lease, limit, check, queue, max_waiters, label, purpose }
    Renew { object, ticket, lease }
    Release { object, ticket, ending, tombstone, call }
    Cancel { object, ticket, tombstone }
    Poll { object }
    KeepPlaces { object }
    Polled { ready, next, is_first, epoch }
    Attach { object, from, to, lease, label }
    Attached { token, weight, epoch }
    Inspect { object }
    Inspection { holders, waiters, limit }
    Holder { ticket, label, token, weight, age, lease_left }
    Total { object }
    Usage { weight, limit }
    Resize { object, limit }
    ForceRelease { object, force }
    Look { object, watch, hint }
    Looked { epoch, count, generation, ended, next }
    Outcome { finished, abandoned, expired }
    Split { object, from, into, lease }
    Decide { id, object, quota, check, ask }
    Verdict { allowed, limit, remaining, retry_after, reset_after }
    Reserved { ready_at, wait }
    Refund { object, ticket }
    SetQuota { object, quota }
    Reset { object }
    FilterTerms { shape, ttl }
    FilterRecord { generation, ends }
    Opening { object, terms, seen, fresh }
    Probe { id, of, items }
    Merge { of, chunk, bytes }
    Clear { object }
    Survey { object, seen }
    FilterState { terms, record, bits_set }
    Read { object, seen, chunk }
    List { kind, prefix, count, after }
    ListPart { entries, next }
    Listed { kind, name, holders, weight, waiters, limit, tokens, last_used }
    Ping {}
}

of_enum! {
    OnMismatch { 0 => Refuse, 1 => Adopt, 2 => Replace }
    ParameterCheck { 0 => Follow, 1 => First(on_mismatch) }
    Ending { 0 => Finished, 1 => Abandoned }
    Purpose { 0 => Guard, 1 => Transaction }
    Kept { 0 => No, 1 => Yes }
    Force { 0 => All, 1 => One(ticket) }
    Acquired {
        0 => Granted { token, limit, epoch }, 1 => Waiting { limit, epoch }, 2 => Cancelled,
        3 => Mismatch { stored }, 4 => TooLarge { limit }, 5 => Overloaded,
    }
    LimitAsk { 0 => Take { cost }, 1 => Reserve { ticket, cost, max_wait } }
    Limited {
        0 => Taken { verdict, quota, settled }, 1 => Reserved { place, quota }, 2 => Cancelled,
        3 => Mismatch { stored }, 4 => TooLarge { quota },
    }
    ProbeItems { 0 => Insert(positions), 1 => Contains(positions) }
    Probed { 0 => Told { answers, record }, 1 => Empty { record }, 2 => Mismatch { stored }, 3 => Lost }
    Merged { 0 => Done(record), 1 => Mismatch(stored), 2 => Lost }
    Surveyed { 0 => Live(state), 1 => Empty(record), 2 => Lost }
    ChunkRead { 0 => Bytes(bytes_read), 1 => Empty, 2 => Lost }
}

#[cfg(test)]
mod tests;
