//! What wakes the supervisor, and the client that does its work: a byte for each signal.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use signal_hook::{flag, low_level::pipe};

use super::ignored::Ignored;

/// Signals that ask the supervisor to end. The kernel sends the first one when the client dies.
const END: [Signal; 4] = [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT];
/// Signals about children, and signals that would end or stop the supervisor.
const OTHERS: [Signal; 6] =
    [Signal::CHILD, Signal::USR1, Signal::USR2, Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Signals that came.
#[derive(Debug)]
pub(crate) struct Wake {
    bytes: UnixStream,
    is_asked_to_end: Arc<AtomicBool>,
}

impl Wake {
    /// Begins to catch signals. Signals that this process ignores stay ignored, so that the command
    /// inherits that: a command begun by `nohup` outlives its terminal.
    pub(crate) fn new() -> io::Result<Self> {
        let (bytes, sender) = UnixStream::pair()?;
        bytes.set_nonblocking(true)?;
        let is_asked_to_end = Arc::new(AtomicBool::new(false));
        let ignored = Ignored::read();
        for signal in END.into_iter().filter(|&signal| !ignored.contains(signal)) {
            // Before the byte, which makes the flag read.
            flag::register(signal.as_raw(), Arc::clone(&is_asked_to_end))?;
            pipe::register(signal.as_raw(), sender.try_clone()?)?;
        }
        for signal in
            OTHERS.into_iter().filter(|&signal| signal == Signal::CHILD || !ignored.contains(signal))
        {
            pipe::register(signal.as_raw(), sender.try_clone()?)?;
        }
        Ok(Self { bytes, is_asked_to_end })
    }

    /// Forgets the bytes that came.
    pub(crate) fn clear(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.bytes.read(&mut bytes), Ok(1..)) {}
    }

    /// Returns whether a signal has asked this process to end, and forgets it.
    pub(crate) fn takes_wish_to_end(&self) -> bool {
        self.is_asked_to_end.swap(false, Ordering::SeqCst)
    }
}

impl AsFd for Wake {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bytes.as_fd()
    }
}
