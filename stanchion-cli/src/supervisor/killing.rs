//! The killing of processes, which is repeated until none is left: they can start others meanwhile.

use std::collections::HashSet;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal};

use super::clock::timespec;
use super::descendants::{Process, Ticks, kill_groups};
use super::wake::Wake;

/// How often processes are looked for: at first, and once all that is left was killed or cannot be.
/// Such a process can be there for hours, and a look reads all of `/proc`.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_INTERVAL: Duration = Duration::from_secs(1);

/// The processes that were killed, and the others.
#[derive(Debug)]
pub(crate) struct Killing {
    /// The processes of the last step that could be signalled.
    killed: HashSet<(Pid, Option<Ticks>)>,
    stuck: HashSet<Pid>,
    interval: Duration,
}

impl Killing {
    pub(crate) fn new() -> Self {
        Self { killed: HashSet::new(), stuck: HashSet::new(), interval: MIN_INTERVAL }
    }

    /// Kills these processes and their groups. Returns the processes that cannot be signalled, once
    /// each.
    pub(crate) fn step(&mut self, left: &[Process]) -> Vec<Pid> {
        kill_groups(left);
        // A process of another user ends by itself or not at all.
        let (killed, stuck): (Vec<_>, Vec<_>) =
            left.iter().partition(|process| process.signal(Signal::KILL).is_ok());
        let killed: HashSet<_> = killed.into_iter().map(Process::identity).collect();
        let is_new = !killed.is_subset(&self.killed);
        self.killed = killed;
        self.interval = if is_new { MIN_INTERVAL } else { (self.interval * 2).min(MAX_INTERVAL) };
        stuck.into_iter().map(|process| process.pid).filter(|pid| self.is_newly_stuck(*pid)).collect()
    }

    /// Notes a process that cannot be signalled. Returns whether it was not known.
    pub(crate) fn is_newly_stuck(&mut self, pid: Pid) -> bool {
        self.stuck.insert(pid)
    }

    /// Returns when to look again. A signal reports the end of a child.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }
}

/// The end of the wait was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interrupted;

/// The reports while processes are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// This process cannot be signalled.
    Stuck(Pid),
    /// A signal came that asks this program to end. Another one ends the wait.
    Asked,
}

/// Kills the processes that `left` returns until it returns none.
///
/// It blocks the thread. Without `wake` no signal ends the wait, and the end of a process is seen
/// only at the next look.
///
/// # Errors
/// `Interrupted` at the second signal that asks this program to end.
pub(crate) fn kill_until_gone(
    mut wake: Option<&mut Wake>,
    mut left: impl FnMut() -> Vec<Process>,
    mut tell: impl FnMut(Told),
) -> Result<(), Interrupted> {
    let (mut killing, mut is_asked) = (Killing::new(), false);
    loop {
        let wishes = wake.as_mut().map(|wake| wake.take()).unwrap_or_default();
        let left = left();
        if left.is_empty() {
            return Ok(());
        }
        killing.step(&left).into_iter().map(Told::Stuck).for_each(&mut tell);
        if !wishes.is_empty() {
            if is_asked {
                return Err(Interrupted);
            }
            is_asked = true;
            tell(Told::Asked);
        }
        let mut events: Vec<_> = wake.iter().map(|wake| PollFd::new(&**wake, PollFlags::IN)).collect();
        // An interrupted wait counts as over.
        let _ = poll(&mut events, Some(&timespec(killing.interval())));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::process::{Child, Command};

    use rustix::process::kill_process;

    use super::*;
    use crate::supervisor::descendants;

    /// Starts a process that, once killed, is there until it is waited for.
    fn child() -> (Child, Process) {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let process = descendants::all().into_iter().find(|process| process.pid == pid).unwrap();
        (child, process)
    }

    #[test]
    fn what_stays_is_looked_for_less_often() {
        let (mut first, one) = child();
        let (mut second, other) = child();
        let mut killing = Killing::new();
        assert_eq!(killing.step(&[one]), []);
        assert_eq!(killing.interval(), MIN_INTERVAL, "it was killed just now");
        let mut steps = 0;
        while killing.interval() < MAX_INTERVAL {
            killing.step(&[one]);
            steps += 1;
        }
        assert_eq!(steps, 7);
        killing.step(&[one, other]);
        assert_eq!(killing.interval(), MIN_INTERVAL, "one more");
        killing.step(&[other]);
        assert_eq!(killing.interval(), MIN_INTERVAL * 2, "one less");
        assert!(!first.wait().unwrap().success() && !second.wait().unwrap().success());
    }

    #[test]
    fn a_second_signal_ends_the_wait() {
        let (mut child, process) = child();
        let own = Pid::from_raw(std::process::id().cast_signed()).unwrap();
        // From now on no such signal ends this process.
        let mut wake = Wake::new().unwrap();
        let (sent, told) = (Cell::new(0), RefCell::new(Vec::new()));
        let left = || {
            // Each signal once the one before was seen: it can reach any thread, at any time.
            if sent.get() == told.borrow().len() {
                sent.set(sent.get() + 1);
                kill_process(own, Signal::TERM).unwrap();
            }
            vec![process]
        };
        let ended = kill_until_gone(Some(&mut wake), left, |one| told.borrow_mut().push(one));
        assert_eq!((ended, sent.get(), told.into_inner()), (Err(Interrupted), 2, vec![Told::Asked]));
        assert_eq!(kill_until_gone(Some(&mut wake), Vec::new, |_| {}), Ok(()));
        assert!(!child.wait().unwrap().success());
    }
}
