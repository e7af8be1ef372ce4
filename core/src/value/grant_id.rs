//! What a fence checks.

use crate::{FencingToken, Guard, GuardKind, Ticket};

/// The fencing token and the ticket of one grant: what a resource checks before a write ([M9]).
///
/// A guard makes one; so does a pair that a request brought. With the feature `serde`, it can be
/// sent with the request.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> stanchion::Result<()> {
/// # let store = stanchion::connect("memory:").await?;
/// use stanchion::{FencingToken, GrantId, Ticket};
///
/// let guard = store.mutex("report", Default::default())?.lock().await?;
/// let (token, ticket) = (guard.fencing_token().to_string(), guard.ticket().to_string()); // as headers
/// let received = GrantId::new(token.parse()?, ticket.parse()?);
/// assert_eq!(received, GrantId::from(&guard));
/// # Ok(())
/// # }
/// ```
///
/// [M9]: crate::contract#m9
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct GrantId {
    /// The fencing token of the grant.
    pub token: FencingToken,
    /// The ticket of the acquisition.
    pub ticket: Ticket,
}

impl GrantId {
    /// Makes one of its parts.
    #[must_use]
    pub const fn new(token: FencingToken, ticket: Ticket) -> Self {
        Self { token, ticket }
    }
}

impl<K: GuardKind> From<&Guard<K>> for GrantId {
    fn from(guard: &Guard<K>) -> Self {
        Self::new(guard.fencing_token(), guard.ticket())
    }
}

impl From<(FencingToken, Ticket)> for GrantId {
    fn from((token, ticket): (FencingToken, Ticket)) -> Self {
        Self::new(token, ticket)
    }
}
