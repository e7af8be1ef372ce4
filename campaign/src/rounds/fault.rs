//! The faults of a campaign.

use std::fmt;

/// A fault under which the whole contract holds, [`ServerClockStep`](Self::ServerClockStep) apart.
/// [`Deployment::faults`](super::Deployment::faults) says which of them can strike a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A process with a hold is killed (`SIGKILL`).
    HolderKill,
    /// A process with a hold is stopped for longer than its leases, and resumed.
    HolderPause,
    /// A process that waits is killed.
    WaiterKill,
    /// A process with 1,000 waiters for one mutex is killed.
    CrowdKill,
    /// All futures of a process are dropped at their current await points.
    TaskCancel,
    /// The wall clock of the clients jumps, forward and back.
    ClientClockStep,
    /// A request is executed, and its reply is lost.
    ReplyDrop,
    /// A request is lost.
    RequestDrop,
    /// A connection breaks in the middle of a request or a reply.
    CutMidFrame,
    /// No data passes in either direction, and neither side gets an error.
    BlackHole,
    /// No data passes in one direction.
    OneWayBlackHole,
    /// The server is stopped and resumed.
    StoreStall,
    /// The server is killed and started again with its data.
    StoreCrash,
    /// The server ends its clients' connections.
    ConnectionKill,
    /// The server ends its clients' connections every 20 ms for some time.
    ConnectionStorm,
    /// Wake-ups are lost, and nothing else.
    WakeUpsDropped,
    /// Another client's scripts keep the server busy for 50 ms of each second.
    NeighbourScript,
    /// The server's clock is 10 s ahead for a moment, and right again. Leases may end early;
    /// everything goes on.
    ServerClockStep,
    /// A node of a cluster is stopped and resumed.
    NodeStall,
    /// Slots of a cluster with our keys are moved to another node.
    SlotMove,
    /// Another client keeps rows of one kind's names locked, for up to 5 s.
    RowsLocked,
    /// Another client keeps a transaction with an old snapshot open.
    OldSnapshot,
    /// The server's queue of notifications is full: no hint can be sent.
    NotifyQueueFull,
    /// The server takes no writes for some seconds.
    ReadOnlySwitch,
    /// An administrator cancels running statements of ours (`pg_cancel_backend`).
    StatementCancel,
    /// An administrator terminates connections of ours, some at a time (`pg_terminate_backend`).
    BackendTerminate,
    /// Another client keeps a table of ours locked, as a change of the table does, for up to 2 s.
    TableLocked,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::HolderKill,
        Self::HolderPause,
        Self::WaiterKill,
        Self::CrowdKill,
        Self::TaskCancel,
        Self::ClientClockStep,
        Self::ReplyDrop,
        Self::RequestDrop,
        Self::CutMidFrame,
        Self::BlackHole,
        Self::OneWayBlackHole,
        Self::StoreStall,
        Self::StoreCrash,
        Self::ConnectionKill,
        Self::ConnectionStorm,
        Self::WakeUpsDropped,
        Self::NeighbourScript,
        Self::ServerClockStep,
        Self::NodeStall,
        Self::SlotMove,
        Self::RowsLocked,
        Self::OldSnapshot,
        Self::NotifyQueueFull,
        Self::ReadOnlySwitch,
        Self::StatementCancel,
        Self::BackendTerminate,
        Self::TableLocked,
    ];

    /// Returns its name on the command line: lower case, with dashes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HolderKill => "holder-kill",
            Self::HolderPause => "holder-pause",
            Self::WaiterKill => "waiter-kill",
            Self::CrowdKill => "crowd-kill",
            Self::TaskCancel => "task-cancel",
            Self::ClientClockStep => "client-clock-step",
            Self::ReplyDrop => "reply-drop",
            Self::RequestDrop => "request-drop",
            Self::CutMidFrame => "cut-mid-frame",
            Self::BlackHole => "black-hole",
            Self::OneWayBlackHole => "one-way-black-hole",
            Self::StoreStall => "store-stall",
            Self::StoreCrash => "store-crash",
            Self::ConnectionKill => "connection-kill",
            Self::ConnectionStorm => "connection-storm",
            Self::WakeUpsDropped => "wake-ups-dropped",
            Self::NeighbourScript => "neighbour-script",
            Self::ServerClockStep => "server-clock-step",
            Self::NodeStall => "node-stall",
            Self::SlotMove => "slot-move",
            Self::RowsLocked => "rows-locked",
            Self::OldSnapshot => "old-snapshot",
            Self::NotifyQueueFull => "notify-queue-full",
            Self::ReadOnlySwitch => "read-only-switch",
            Self::StatementCancel => "statement-cancel",
            Self::BackendTerminate => "backend-terminate",
            Self::TableLocked => "table-locked",
        }
    }

    /// Returns what a neighbour's deed on Postgres is counted in; `None` for all other faults.
    #[must_use]
    pub fn deed(self) -> Option<&'static str> {
        Some(match self {
            Self::RowsLocked => "rows locked",
            Self::OldSnapshot => "transactions outlasted by the snapshot",
            Self::NotifyQueueFull => "hints refused",
            Self::ReadOnlySwitch => "writes refused",
            Self::StatementCancel => "statements cancelled",
            Self::BackendTerminate => "backends terminated",
            Self::TableLocked => "tables locked",
            _ => return None,
        })
    }

    /// Returns whether it concerns some names only, so that the others must not notice (C27).
    pub(super) fn spares_names(self) -> bool {
        matches!(self, Self::RowsLocked | Self::TableLocked)
    }

    /// Returns the fault of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::Fault;

    #[test]
    fn each_has_a_name_of_its_own() {
        for fault in Fault::ALL {
            assert_eq!(Fault::named(fault.name()), Some(fault));
        }
        assert_eq!(Fault::named("flood"), None);
    }
}
