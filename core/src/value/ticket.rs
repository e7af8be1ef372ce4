//! Tickets, which identify acquisitions, and fencing tokens, which order grants.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// 127 random bits that identify one acquisition ([C1]), and one that says whether the ticket is
/// that of a detached hold.
///
/// The client makes it before the first request and sends it with every retry, so that a retry is
/// recognised. It prints as 32 hexadecimal digits and can be parsed from them, with or without the
/// hyphens of a UUID.
///
/// The mark makes sure on every store that only a detached hold is taken over ([C24]): the ticket
/// of a guard never has it.
///
/// [C1]: crate::contract#c1
/// [C24]: crate::contract#c24
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u128);

/// The mark of the tickets of detached holds.
const DETACHED: u128 = 1 << 127;

impl Ticket {
    /// No ticket: random ones never have these bits.
    pub(crate) const NONE: Self = Self(0);

    /// Returns a new ticket from the operating system's random source, so that a forked child or a
    /// cloned machine makes other tickets than its original.
    ///
    /// # Panics
    /// If the operating system has no random source.
    #[must_use]
    pub fn random() -> Self {
        let mut bits = [0; 16];
        if let Err(error) = getrandom::fill(&mut bits) {
            panic!("the operating system has no random source: {error}");
        }
        Self(u128::from_ne_bytes(bits) & !DETACHED)
    }

    /// Returns a new ticket from this thread's generator, faster than [`random`](Self::random).
    /// Only for stores that live in one process: a forked child can make the same tickets.
    #[must_use]
    #[inline]
    pub fn random_in_process() -> Self {
        Self(rand::random::<u128>() & !DETACHED)
    }

    /// Returns a new ticket for a detached hold, made as by [`random`](Self::random).
    #[must_use]
    pub fn detached() -> Self {
        Self(Self::random().0 | DETACHED)
    }

    /// Returns whether this is the ticket of a detached hold.
    #[must_use]
    pub fn is_detached(self) -> bool {
        self.0 & DETACHED != 0
    }

    /// Returns the bits.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0
    }
}

impl From<Ticket> for u128 {
    fn from(ticket: Ticket) -> Self {
        ticket.0
    }
}

impl From<u128> for Ticket {
    fn from(bits: u128) -> Self {
        Self(bits)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ticket({self})")
    }
}

impl FromStr for Ticket {
    type Err = Error;

    /// # Errors
    /// `InvalidArgument` unless the text is 32 hexadecimal digits, or these with hyphens as in a
    /// UUID.
    fn from_str(text: &str) -> Result<Self> {
        let is_hyphen = |at: usize| matches!(at, 8 | 13 | 18 | 23);
        let is_uuid =
            text.len() == 36 && text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == is_hyphen(at));
        let digits: String = if is_uuid { text.replace('-', "") } else { text.to_owned() };
        let is_ticket = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(&digits, 16) {
            Ok(bits) if is_ticket => Ok(Self(bits)),
            _ => Err(Error::invalid_argument("a ticket is 32 hexadecimal digits")),
        }
    }
}

/// A number below 2^53 that grows with every grant of the same name ([M2]), also after the store
/// lost its data ([M3]): `max(stored + 1, store time in µs)`.
///
/// Send it with every write to the guarded resource, and let the resource refuse a token smaller
/// than the largest it has seen.
///
/// [M2]: crate::contract#m2
/// [M3]: crate::contract#m3
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Upper bound of tokens, exclusive.
    pub const LIMIT: u64 = 1 << 53;

    /// Makes a token of its number.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not below 2^53.
    #[inline]
    pub fn new(value: u64) -> Result<Self> {
        if value < Self::LIMIT { Ok(Self(value)) } else { Err(out_of_range()) }
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        token.0.cast_signed() // below 2^53
    }
}

impl TryFrom<u64> for FencingToken {
    type Error = Error;

    /// # Errors
    /// As [`new`](Self::new).
    fn try_from(value: u64) -> Result<Self> {
        Self::new(value)
    }
}

impl TryFrom<i64> for FencingToken {
    type Error = Error;

    /// # Errors
    /// `InvalidArgument` if it is negative, or not below 2^53.
    fn try_from(value: i64) -> Result<Self> {
        u64::try_from(value).map_or_else(|_| Err(out_of_range()), Self::new)
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    /// # Errors
    /// `InvalidArgument` unless the text is a decimal number below 2^53.
    fn from_str(text: &str) -> Result<Self> {
        text.parse().map_or_else(|_| Err(out_of_range()), Self::new)
    }
}

fn out_of_range() -> Error {
    Error::invalid_argument("a fencing token is a number below 2^53")
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FencingToken({})", self.0)
    }
}
