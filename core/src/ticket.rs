//! Tickets, which name acquisitions, and fencing tokens, which order grants.

use std::fmt;
use std::str::FromStr;

use crate::{Error, Result};

/// 128 random bits that name one acquisition (C1).
///
/// Made by the client before anything is sent and sent again by every retry, so that a retry is recognised. It
/// prints as 32 hexadecimal digits and parses back, which makes a detached hold portable between processes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(u128);

impl Ticket {
    /// A new random ticket.
    #[must_use]
    #[inline]
    pub fn random() -> Self {
        Self(rand::random())
    }

    /// The bits.
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

/// A number below 2^53 that grows with every grant of the same name (M2), also after the store lost its data
/// (M3): `max(stored + 1, store time in µs)`.
///
/// Send it with every write to the guarded resource, and let the resource refuse a token smaller than the
/// largest it has seen.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FencingToken(u64);

impl FencingToken {
    /// One more than the largest token.
    pub const LIMIT: u64 = 1 << 53;

    /// A token from its number.
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

    /// The number.
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
