//! The faults that the contract calls safe.

use std::fmt;

/// A fault under which the whole contract holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// A process with a hold is killed (`SIGKILL`).
    HolderKill,
    /// A process with a hold is stopped for longer than its leases, and resumed.
    HolderPause,
    /// A process that waits is killed.
    WaiterKill,
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
    /// Wake-ups are lost, and nothing else.
    WakeUpsDropped,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::HolderKill,
        Self::HolderPause,
        Self::WaiterKill,
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
        Self::WakeUpsDropped,
    ];

    /// Returns its name on the command line: lower case, with dashes.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HolderKill => "holder-kill",
            Self::HolderPause => "holder-pause",
            Self::WaiterKill => "waiter-kill",
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
            Self::WakeUpsDropped => "wake-ups-dropped",
        }
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
