//! The one shape of what a store is asked, and the one of what it answers.

use std::time::Duration;

use super::{
    Acquire, Acquired, Attach, Attached, Cancel, ChunkRead, Clear, Decide, FilterRecord, ForceRelease,
    Inspect, KeepPlaces, Kept, Limited, List, ListPart, Look, Looked, Merge, Merged, Object, Ping, Poll,
    Polled, Probe, Probed, Read, Refund, Release, Renew, RequestId, Reset, Resize, SetQuota, Split, Survey,
    Surveyed, Total, Usage,
};
use crate::{Error, ErrorKind, Inspection, Result, Ticket, Ttl};

/// A typed request: the content of one variant of [`Request`].
pub trait Ask: Into<Request> + Clone + Send + Sync + 'static {
    /// What the store answers.
    type Answer: Send + 'static;

    /// The variant.
    const KIND: RequestKind;

    /// Returns the content of a request of this kind; `None` for another kind.
    fn of(request: &Request) -> Option<&Self>;

    /// Returns the content of the response to a request of this kind.
    ///
    /// # Errors
    /// `Unknown` for the response to another kind.
    fn answer(response: Response) -> Result<Self::Answer>;

    /// Makes the response to a request of this kind.
    fn response(answer: Self::Answer) -> Response;
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident, $text:literal, $number:literal => $answer:ty;)*) => {
        /// The kinds of requests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum RequestKind {
            $($(#[$doc])* $name = $number,)*
        }

        /// A request to a store. A kind that a store does not know is answered by
        /// [`Request::unsupported`].
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Request {
            $($(#[$doc])* $name($name),)*
        }

        /// The response to a request of the same name.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Response {
            $($(#[$doc])* $name($answer),)*
        }

        impl RequestKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Returns the word for the kind in logs and metrics.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }

        impl Request {
            /// Returns the kind.
            #[must_use]
            pub const fn kind(&self) -> RequestKind {
                match self { $(Self::$name(_) => RequestKind::$name,)* }
            }

            pub(super) fn write_content(&self, bytes: &mut Vec<u8>) {
                match self { $(Self::$name(content) => super::bytes::Bytes::write(content, bytes),)* }
            }

            pub(super) fn read_content(number: u8, bytes: &mut &[u8]) -> Option<Self> {
                match number {
                    $($number => super::bytes::Bytes::read(bytes).map(Self::$name),)*
                    _ => None,
                }
            }
        }

        impl Response {
            /// Returns the kind.
            #[must_use]
            pub const fn kind(&self) -> RequestKind {
                match self { $(Self::$name(_) => RequestKind::$name,)* }
            }

            pub(super) fn write_content(&self, bytes: &mut Vec<u8>) {
                match self { $(Self::$name(content) => super::bytes::Bytes::write(content, bytes),)* }
            }

            pub(super) fn read_content(number: u8, bytes: &mut &[u8]) -> Option<Self> {
                match number {
                    $($number => super::bytes::Bytes::read(bytes).map(Self::$name),)*
                    _ => None,
                }
            }
        }

        $(
            impl From<$name> for Request {
                fn from(content: $name) -> Self {
                    Self::$name(content)
                }
            }

            impl Ask for $name {
                type Answer = $answer;

                const KIND: RequestKind = RequestKind::$name;

                fn of(request: &Request) -> Option<&Self> {
                    match request {
                        Request::$name(content) => Some(content),
                        _ => None,
                    }
                }

                fn answer(response: Response) -> Result<$answer> {
                    match response {
                        Response::$name(answer) => Ok(answer),
                        _ => Err(mixed_up()),
                    }
                }

                fn response(answer: $answer) -> Response {
                    Response::$name(answer)
                }
            }
        )*
    };
}

requests! {
    /// Requests permits, or a place in the queue for them.
    Acquire, "acquire", 1 => Acquired;
    /// Sets the lease of a hold anew.
    Renew, "renew", 2 => Kept;
    /// Ends a hold.
    Release, "release", 3 => Kept;
    /// Withdraws an acquisition.
    Cancel, "cancel", 4 => ();
    /// Asks which waiters of the process may be granted.
    Poll, "poll", 5 => Polled;
    /// Tells that the waiters of the process are live.
    KeepPlaces, "keep_places", 6 => Option<Polled>;
    /// Takes a detached hold over; `None` if it is certainly gone.
    Attach, "attach", 7 => Option<Attached>;
    /// Asks for the holders and the waiters of an object.
    Inspect, "inspect", 8 => Inspection;
    /// Asks for the totals of an object.
    Total, "usage", 9 => Usage;
    /// Sets the limit of an object.
    Resize, "resize", 10 => ();
    /// Releases holds by force; answered with their number.
    ForceRelease, "force", 11 => u32;
    /// Asks for the state of a wait group.
    Look, "look", 12 => Looked;
    /// Splits a hold into several; `false` if it is certainly gone, or weighs too little.
    Split, "split", 13 => bool;
    /// Asks a limiter for a decision.
    Decide, "decide", 14 => Limited;
    /// Cancels a reservation; answered with how much that gave back, 0 if nothing was left to give
    /// back.
    Refund, "refund", 15 => u64;
    /// Sets the quota of a limiter.
    SetQuota, "set_quota", 16 => ();
    /// Fills the bucket of a limiter.
    Reset, "reset", 17 => ();
    /// Inserts items into a Bloom filter, or asks for them.
    Probe, "probe", 18 => Probed;
    /// Sets all bits of a Bloom filter that are set in a piece of an image.
    Merge, "merge", 19 => Merged;
    /// Clears a Bloom filter; answered with its record, `None` if there is none.
    Clear, "clear", 20 => Option<FilterRecord>;
    /// Counts the bits of a Bloom filter that are set.
    Survey, "survey", 21 => Surveyed;
    /// Reads a piece of the bits of a Bloom filter.
    Read, "read", 22 => ChunkRead;
    /// Asks for a part of the names that have state.
    List, "list", 23 => ListPart;
    /// Makes one round trip to the store itself.
    Ping, "ping", 24 => ();
}

/// Maximum number of entries of a batch ([C27]).
///
/// [C27]: crate::contract#c27
pub(crate) const MAXIMUM_BATCH: usize = 500;

impl RequestKind {
    /// Returns the maximum number of entries of a batch of the engine's, whoever waits for it:
    /// callers, renewals, questions for waiters, or the outbox.
    pub(crate) fn maximum_batch(self) -> usize {
        match self {
            // The entries of one lane wait for each other: a short request lets the next ones go.
            Self::Acquire | Self::Look => 128,
            Self::Release | Self::Cancel | Self::Refund => 256,
            _ => MAXIMUM_BATCH,
        }
    }

    /// Whether one batch of a lane leaves after the other, however long each takes: the store keeps
    /// the answer to the last one.
    pub(crate) fn is_in_turn(self) -> bool {
        matches!(self, Self::Decide | Self::Probe)
    }
}

impl Request {
    /// Returns the object that the request is about; `None` for a listing or a ping.
    #[must_use]
    pub fn object(&self) -> Option<&Object> {
        Some(match self {
            Self::Acquire(request) => &request.object,
            Self::Renew(request) => &request.object,
            Self::Release(request) => &request.object,
            Self::Cancel(request) => &request.object,
            Self::Poll(request) => &request.object,
            Self::KeepPlaces(request) => &request.object,
            Self::Attach(request) => &request.object,
            Self::Inspect(request) => &request.object,
            Self::Total(request) => &request.object,
            Self::Resize(request) => &request.object,
            Self::ForceRelease(request) => &request.object,
            Self::Look(request) => &request.object,
            Self::Split(request) => &request.object,
            Self::Decide(request) => &request.object,
            Self::Refund(request) => &request.object,
            Self::SetQuota(request) => &request.object,
            Self::Reset(request) => &request.object,
            Self::Probe(request) => &request.of.object,
            Self::Merge(request) => &request.of.object,
            Self::Clear(request) => &request.object,
            Self::Survey(request) => &request.object,
            Self::Read(request) => &request.object,
            Self::List(_) | Self::Ping(_) => return None,
        })
    }

    /// Returns the lease that a timely answer matters to.
    fn lease(&self) -> Option<Ttl> {
        match self {
            Self::Acquire(request) => Some(request.lease),
            Self::Renew(request) => Some(request.lease),
            Self::Attach(request) => Some(request.lease),
            Self::Split(request) => Some(request.lease),
            _ => None,
        }
    }

    /// Returns the time limit of this request alone.
    #[must_use]
    pub fn time_limit(&self, timeout: Duration) -> Duration {
        self.lease().map_or(timeout, |lease| lease.request_limit(timeout))
    }

    /// Returns the time limit of a batch ([C17]): `timeout`, at most a third of a lease if all
    /// entries carry one. Each caller of an acquire has a limit of its own, so the longest lease
    /// counts, and a short one ends nothing that leaves with it; of renewals the shortest.
    ///
    /// [C17]: crate::contract#c17
    #[must_use]
    pub fn time_limit_of(batch: &[Self], timeout: Duration) -> Duration {
        let limits = batch.iter().map(|request| request.time_limit(timeout));
        let limit = match batch.first() {
            Some(Self::Renew(_)) => limits.min(),
            _ => limits.max(),
        };
        limit.unwrap_or(timeout)
    }

    /// Returns the error of a store that does not know the request.
    #[must_use]
    pub fn unsupported(&self) -> Error {
        let detail = format!("this store does not know the request `{}`", self.kind().as_str());
        Error::new(ErrorKind::Unsupported, detail)
    }

    /// Sets the id of a batch that the request leaves in, if the store keeps answers by it.
    pub(crate) fn set_id(&mut self, id: RequestId) {
        match self {
            Self::Decide(request) => request.id = id,
            Self::Probe(request) => request.id = id,
            _ => {}
        }
    }

    /// Returns the ticket of a request that ends what the ticket names.
    pub(crate) fn ended_ticket(&self) -> Option<Ticket> {
        match self {
            Self::Release(request) => Some(request.ticket),
            Self::Cancel(request) => Some(request.ticket),
            Self::Refund(request) => Some(request.ticket),
            _ => None,
        }
    }
}

fn mixed_up() -> Error {
    Error::new(ErrorKind::Unknown, "the store's answers are not in the order of the entries")
}
