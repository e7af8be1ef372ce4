//! The claim of a request: its ticket, weight, store object and terms.

use stanchion_core::Ticket;

use super::terms::Terms;
use crate::session_id::SessionId;

/// The claim of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'a> {
    pub(crate) ticket: Ticket,
    pub(crate) weight: u32,
    pub(crate) session: SessionId,
    pub(crate) terms: &'a Terms,
}
