//! What the outbox delivers.

use std::mem::{Discriminant, discriminant};

use crate::Ticket;
use crate::spi::{Cancel, Refund, Release, Steps};

/// The messages of one kind to one lane: they leave together, one request at a time, independent of other channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Channel {
    pub(super) kind: Discriminant<Message>,
    pub(super) lane: usize,
    /// They failed before. What is new does not wait for them: an entry can fail on its own, again and again (C27).
    pub(super) is_again: bool,
}

/// One message. Each is idempotent by ticket, so an attempt whose reply was lost is repeated.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    Release(Release),
    Cancel(Cancel),
    Refund(Refund),
}

impl Message {
    pub(super) fn ticket(&self) -> Ticket {
        match self {
            Self::Release(release) => release.ticket,
            Self::Cancel(cancel) => cancel.ticket,
            Self::Refund(refund) => refund.ticket,
        }
    }

    pub(super) fn channel(&self, steps: &Steps) -> Channel {
        let lane = match self {
            Self::Release(release) => steps.permits.lane(&release.object),
            Self::Cancel(cancel) => steps.permits.lane(&cancel.object),
            Self::Refund(refund) => steps.limits.as_ref().map_or(0, |limits| limits.lane(&refund.object)),
        };
        Channel { kind: discriminant(self), lane, is_again: false }
    }
}
