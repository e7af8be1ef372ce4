//! The connections that nobody uses.

use std::mem;
use std::time::Duration;

use super::Pool;
use super::registry::CountedConnection;
use super::runtime_connections::OpenConnection;
use crate::connector::NumberedConnection;

impl Pool {
    /// Returns the number of open connections; one in use is open, or is being made.
    pub(crate) fn open_connections(&self) -> usize {
        let runtimes = self.registry.runtimes();
        runtimes.iter().filter(|((sort, _), _)| *sort == self.sort).map(|(_, local)| local.open()).sum()
    }

    /// Closes connections, of these requests and of those beside them, that were idle for `time`.
    pub(crate) fn close_idle(&self, time: Duration) {
        self.registry.runtimes().iter().for_each(|(_, local)| local.close_idle(time));
    }

    /// Takes over an idle connection that this runtime made.
    pub(crate) fn take_over(&self, connection: NumberedConnection) {
        if let (None, Ok(local)) = (self.user_pool(), self.local()) {
            let counted = CountedConnection::new(connection, self.begin.is_none(), &self.registry.counter());
            local.put_back(OpenConnection::Own(counted));
        }
    }

    /// Takes over the idle connections that another pool beside this one has on this runtime.
    pub(crate) fn inherit(&self, other: &Self) {
        if let (Ok(from), Ok(to)) = (other.local(), self.local()) {
            let idle = mem::take(&mut *from.idle());
            idle.into_iter().for_each(|idle| to.keep(idle));
        }
    }
}
