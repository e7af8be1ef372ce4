//! What was seen of a name at one moment.

use stanchion_core::{Holder, Inspection};

use super::holds::Grant;
use crate::clock::Moment;

/// The state of a name at one moment. It is read under the name's lock; what is told of it is made without (C27).
#[derive(Debug)]
pub(crate) struct Inspected {
    pub(super) at: Moment,
    pub(super) grants: Vec<Grant>,
    pub(super) waiters: u64,
    pub(super) limit: Option<u32>,
}

impl Inspected {
    /// Returns what is told, oldest grant first (C23).
    pub(crate) fn inspection(self) -> Inspection {
        let mut holders: Vec<Holder> = self.grants.iter().map(|grant| grant.holder(self.at)).collect();
        holders.sort_unstable_by_key(|holder| holder.token);
        Inspection::new(holders, self.waiters, self.limit)
    }
}
