//! The error of a parser of the protocols.

/// The reason why a buffer has no frame at its front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// More bytes are needed.
    Part,
    /// The bytes are of another protocol.
    Foreign,
}
