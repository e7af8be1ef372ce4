//! How a parameter of a call is compared with the stored one.

use crate::OnMismatch;

/// How the caller's limit or quota is compared with the stored one ([C20]).
///
/// [C20]: crate::contract#c20
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterCheck {
    /// The handle's first operation.
    First(OnMismatch),
    /// Later operations: the stored value is followed; the caller's is used only if none is stored.
    Follow,
}

impl ParameterCheck {
    /// The letter for stores: `r` refuses, `p` replaces, `a` adopts or follows the stored value.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::First(OnMismatch::Refuse) => "r",
            Self::First(OnMismatch::Replace) => "p",
            Self::First(OnMismatch::Adopt) | Self::Follow => "a",
        }
    }
}
