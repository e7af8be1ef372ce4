//! Tickets, which identify acquisitions, and fencing tokens, which order grants.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// 128 random bits that identify one acquisition ([C1]).
///
/// The client makes it before the first request and sends it with every retry, so that a retry is recognised. It prints as 32
/// hexadecimal digits and can be parsed from them, so that a detached hold can be passed to another process.
///
/// [C1]: crate::contract#c1
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u128);

impl Ticket {
    /// Returns a new ticket from the operating system's random source, so that a forked child or a cloned machine makes
    /// other tickets than its original.
    ///
    /// # Panics
    /// If the operating system has no random source.
    #[must_use]
    pub fn random() -> Self {
        let mut bits = [0; 16];
        if let Err(error) = getrandom::fill(&mut bits) {
            panic!("the operating system has no random source: {error}");
        }
        Self(u128::from_ne_bytes(bits))
    }

    /// Returns a new ticket from this thread's generator, faster than [`random`](Self::random). Only for stores that live in
    /// one process: a forked child can make the same tickets.
    #[must_use]
    #[inline]
    pub fn random_in_process() -> Self {
        Self(rand::random())
    }

    /// Returns the bits.
    #[must_use]
    pub fn as_u128(self) -> u128 {
        self.0
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
    /// `InvalidArgument` unless the text is exactly 32 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        match u128::from_str_radix(text, 16) {
            Ok(bits) if digits => Ok(Self(bits)),
            _ => Err(Error::invalid_argument("a ticket is 32 hexadecimal digits")),
        }
    }
}

/// A number below 2^53 that grows with every grant of the same name ([M2]), also after the store lost its data
/// ([M3]): `max(stored + 1, store time in µs)`.
///
/// Send it with every write to the guarded resource, and let the resource refuse a token smaller than the
/// largest it has seen.
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
        if value < Self::LIMIT {
            Ok(Self(value))
        } else {
            Err(Error::invalid_argument("a fencing token is below 2^53"))
        }
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
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
