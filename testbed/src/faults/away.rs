//! How a server goes away.

use std::fmt;

use super::{Direction, Proxy};
use crate::servers::{Server, ServerError};

/// A way in which a server behind a [`Proxy`] goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// It was killed.
    Killed,
    /// It was stopped: its connections stay open, and nothing is answered.
    Stopped,
    /// Its connections were reset, and new ones are refused.
    CutOff,
    /// Nothing arrives any more, either way.
    Silent,
}

impl Away {
    /// All ways.
    pub const ALL: [Self; 4] = [Self::Killed, Self::Stopped, Self::CutOff, Self::Silent];

    /// Makes the server go away.
    ///
    /// # Errors
    ///
    /// [`ServerError::Io`] if the supervising shell is gone.
    pub fn begin(self, server: &Server, proxy: &Proxy) -> Result<(), ServerError> {
        match self {
            Self::Killed => server.kill()?,
            Self::Stopped => server.pause()?,
            Self::CutOff => {
                proxy.refuse();
                proxy.reset();
            }
            Self::Silent => proxy.black_hole(Direction::Both),
        }
        Ok(())
    }

    /// Brings the server back. One that was killed starts again.
    ///
    /// # Errors
    ///
    /// The reason why it did not start; [`ServerError::Io`] if the supervising shell is gone.
    pub fn end(self, server: &Server, proxy: &Proxy) -> Result<(), ServerError> {
        match self {
            Self::Killed => server.restart(),
            Self::Stopped => server.resume(),
            Self::CutOff | Self::Silent => {
                proxy.heal();
                Ok(())
            }
        }
    }
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Killed => "killed",
            Self::Stopped => "stopped",
            Self::CutOff => "cut off",
            Self::Silent => "silent",
        })
    }
}
