//! The signals that come to this program.

use std::future::poll_fn;
use std::process;
use std::task::Poll;

use rustix::process::{Pid, Signal, getpgrp, getppid, getsid, kill_process, kill_process_group};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::exit::{Exit, Failure};
use crate::supervisor::ignored::Ignored;

/// Signals that the command gets as they come.
const PASSED_ON: [Signal; 8] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::TSTP,
    Signal::CONT,
];

/// Stops this process until it is told to go on, as at the terminal's wish. Not, where nobody would
/// tell it so: with a parent in another session there is no shell that controls jobs, and the
/// kernel stops no such process at the terminal's wish either.
pub(crate) fn stop() {
    let has_shell = getsid(getppid()).is_ok_and(|session| Ok(session) == getsid(None));
    if let Some(own) = Pid::from_raw(process::id().cast_signed()).filter(|_| has_shell) {
        let _ = kill_process(own, Signal::STOP);
    }
}

/// Does what the terminal's key for it does: asks all processes of this job to stop.
pub(crate) fn stop_group() {
    let _ = kill_process_group(getpgrp(), Signal::TSTP);
}

/// The signals, each in a stream of its own. Signals that this program was started to ignore stay
/// ignored.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, Stream)>);

impl Signals {
    pub(crate) fn new() -> Result<Self, Failure> {
        let ignored = Ignored::read();
        let caught = PASSED_ON.into_iter().filter(|&signal| !ignored.contains(signal));
        let streams = caught.map(|number| Ok((number, signal(SignalKind::from_raw(number.as_raw()))?)));
        streams.collect::<Result<_, _>>().map(Self).map_err(Failure::system("signals cannot be caught"))
    }

    /// Waits for the next signal. Several of a kind can become one, as everywhere.
    ///
    /// # Cancel safety
    /// A dropped call loses no signal.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|cx| {
            for (number, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Waits for a signal that ends a program that has no command yet. Stops this process as usual
    /// at the terminal's wish.
    pub(crate) async fn ends_waiting(&mut self) -> Exit {
        loop {
            match self.next().await {
                Signal::TSTP => stop(),
                Signal::CONT => {}
                other => return Exit::signal(other.as_raw()),
            }
        }
    }
}
