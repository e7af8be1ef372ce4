//! What wakes the supervisor, and the client that does its work: a byte for each signal.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Origin;

use super::ignored::Ignored;

/// Signals that ask the supervisor to end. The kernel sends the first one when the client dies.
const END: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// The name of a process that manages services, that of the machine's or that of a user's.
const MANAGER: &str = "systemd";
/// Signals about children, and signals that would end or stop the supervisor.
const OTHERS: [Signal; 6] =
    [Signal::CHILD, Signal::USR1, Signal::USR2, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Signals that came.
pub(crate) struct Wake(SignalDelivery<UnixStream, WithOrigin>);

/// A signal that asks this process to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) signal: Signal,
    /// The process that sent it; 0 for one outside of the container, which may be any, and `None`
    /// for the kernel.
    sender: Option<i32>,
}

impl Wish {
    /// Whether a service manager sent it: that signals every process of a unit.
    pub(crate) fn is_of_a_manager(self) -> bool {
        self.sender.is_some_and(|sender| {
            let name = || fs::read_to_string(format!("/proc/{sender}/comm")).unwrap_or_default();
            sender == 1 || name().trim_end() == MANAGER
        })
    }
}

impl Wake {
    /// Begins to catch signals. Signals that this process ignores stay ignored, so that the command
    /// inherits that: a command begun by `nohup` outlives its terminal.
    pub(crate) fn new() -> io::Result<Self> {
        let (bytes, sender) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        sender.set_nonblocking(true)?;
        let ignored = Ignored::read();
        let is_caught = |signal: &Signal| *signal == Signal::CHILD || !ignored.contains(*signal);
        let caught = END.into_iter().chain(OTHERS).filter(is_caught).map(Signal::as_raw);
        SignalDelivery::with_pipe(bytes, sender, WithOrigin::default(), caught).map(Self)
    }

    /// Forgets the signals that came, and returns those that ask this process to end.
    pub(crate) fn take(&mut self) -> Vec<Wish> {
        self.0.pending().filter_map(|origin| wish(&origin)).collect()
    }
}

fn wish(origin: &Origin) -> Option<Wish> {
    let signal = END.into_iter().find(|end| end.as_raw() == origin.signal)?;
    Some(Wish { signal, sender: origin.process.map(|process| process.pid) })
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake(..)")
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manager_is_the_first_process_or_has_its_name() {
        let of = |sender| Wish { signal: Signal::TERM, sender }.is_of_a_manager();
        let own = Some(std::process::id().cast_signed());
        assert_eq!([Some(1), Some(0), own, None].map(of), [true, false, false, false]);
    }
}
