//! The supervisor: the process between the client, which keeps the hold, and the command.
//!
//! It leads a session of its own and is a subreaper, so that it sees every descendant of the
//! command. It ends all of them before the hold's deadline by its own clock, whatever the client
//! does: a client that is stopped sends no further deadline, and a killed client closes the socket.
//! A signal that asks it to end says nothing while the client lives, but that a service manager has
//! signalled all processes of a unit: then the command has what the client passes on already.
//! It has one thread and no runtime.

mod channel;
pub(crate) mod clock;
pub(crate) mod descendants;
mod ending;
pub(crate) mod ignored;
pub(crate) mod killing;
mod program;
pub(crate) mod protocol;
pub(crate) mod timing;
pub(crate) mod wake;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Pid, Signal, set_child_subreaper, set_parent_process_death_signal, setsid};

use self::channel::Channel;
pub(crate) use self::channel::send_descriptor;
use self::program::{Client, Program};
use self::timing::Timing;
use self::wake::Wake;
use crate::exit::Exit;

/// Its command line.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Supervise {
    /// The client's process id.
    #[arg(long)]
    pub(crate) parent: i32,
    /// The lease, in ms.
    #[arg(long)]
    pub(crate) lease: u64,
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Runs the command of a client, and ends when the command and all its descendants have.
pub(crate) fn supervise(options: &Supervise) -> Exit {
    match prepared(options).map(Program::run) {
        Ok(()) => Exit::DONE,
        Err(error) => {
            crate::output::message(format_args!("the supervisor could not begin: {error}"));
            Exit::INTERNAL
        }
    }
}

fn prepared(options: &Supervise) -> io::Result<Program> {
    // Before anything else, so that no death of the client is missed; where it died before, it is
    // no longer the parent.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let client = Client::of(options.parent).ok_or_else(|| io::Error::other("its client has ended"))?;
    setsid()?;
    // Any number but 0 turns it on.
    set_child_subreaper(Pid::from_raw(1))?;
    let wake = Wake::new()?;
    let channel = Channel::on_stdin()?;
    let timing = Timing::of_lease(Duration::from_millis(options.lease));
    Ok(Program::new(options.command.clone(), client, channel, wake, timing))
}
