//! Why a hold was lost.

/// Why a hold was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossCause {
    /// Its deadline has passed.
    Deadline,
    /// The store says that it is gone.
    Gone,
    /// This process released it by force.
    Forced,
    /// Its store object was closed.
    Closed,
}

impl LossCause {
    /// All causes.
    pub const ALL: &'static [Self] = &[Self::Deadline, Self::Gone, Self::Forced, Self::Closed];

    /// Its word in logs and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Gone => "gone",
            Self::Forced => "forced",
            Self::Closed => "closed",
        }
    }
}
