//! All descendants of this process, however they are related to it and to each other.
//!
//! This process is a subreaper: an orphan among its descendants becomes its child. So the tree of
//! parents below it is complete, and it has no descendant exactly if it has no child.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::process;

use rustix::param::clock_ticks_per_second;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, WaitStatus, getpgid, kill_process, kill_process_group, pidfd_open,
    pidfd_send_signal, wait,
};
use rustix::time::{ClockId, clock_gettime};

use super::protocol::Status;

/// In the place of a session that is not known. No process is in it.
const UNKNOWN: i32 = -1;

/// A process, with the time that distinguishes it from a later process with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    parent: i32,
    group: i32,
    session: i32,
    /// When it started. `None` for a child of this process of which the kernel shows no more: its
    /// number is not used again before it is collected here.
    started: Option<Ticks>,
}

/// A time of the kernel's, in ticks since the machine's start: hundredths of a second as a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Ticks(u64);

impl Ticks {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
        let each = clock_ticks_per_second();
        Self(seconds * each + nanos * each / 1_000_000_000)
    }
}

impl Process {
    /// Returns what stays the same as long as it lives.
    pub(crate) fn identity(&self) -> (Pid, Option<Ticks>) {
        (self.pid, self.started)
    }

    /// Whether it had begun then, or in the same tick, as far as the kernel shows it.
    pub(crate) fn has_begun_by(&self, then: Ticks) -> bool {
        self.started.is_none_or(|started| started <= then)
    }

    /// Whether it had begun in an earlier tick.
    pub(crate) fn has_begun_before(&self, then: Ticks) -> bool {
        self.started.is_none_or(|started| started < then)
    }

    /// Sends a signal to this process, and to no other that has its number by now.
    ///
    /// # Errors
    /// `PermissionDenied` for a process of another user. A process that is gone is no error.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        let sent = match pidfd_open(self.pid, PidfdFlags::empty()) {
            Ok(descriptor)
                if self.started.is_none() || of(self.pid).is_some_and(|now| now.started == self.started) =>
            {
                pidfd_send_signal(descriptor, signal)
            }
            Ok(_) => Ok(()),
            // A kernel before 5.3.
            Err(rustix::io::Errno::NOSYS) => kill_process(self.pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Err(rustix::io::Errno::SRCH) => Ok(()),
            other => other.map_err(io::Error::from),
        }
    }
}

/// Returns the descendants of this process, also the ones that have ended and were not collected.
pub(crate) fn all() -> Vec<Process> {
    all_but(|_| false)
}

/// As [`all`], without the processes that `is_left_out` names, and without their descendants.
fn all_but(is_left_out: impl Fn(&Process) -> bool) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = process.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        if let Some(process) = pid.and_then(of) {
            children.entry(process.parent).or_default().push(process);
        }
    }
    let mut found = Vec::new();
    let mut parents = vec![process::id().cast_signed()];
    // Processes that start while the folder is read can look like a circle.
    let mut seen = HashSet::new();
    while let Some(parent) = parents.pop() {
        if !seen.insert(parent) {
            continue;
        }
        for child in children.get(&parent).into_iter().flatten().filter(|child| !is_left_out(child)) {
            parents.push(child.pid.as_raw_nonzero().get());
            found.push(*child);
        }
    }
    let is_shown = |pid: &Pid| children.values().flatten().any(|process| process.pid == *pid);
    let hidden = own_children().into_iter().filter(|child| !is_shown(child)).map(of_hidden_child);
    found.extend(hidden.filter(|child| !is_left_out(child)));
    found
}

/// Processes that are none of the command's, although they are descendants of this process: they
/// were there before the command, such as the jobs of a shell that became this program by `exec`.
#[derive(Debug)]
pub(crate) struct Inherited {
    /// The session of this process. The supervisor begins one of its own, and no process goes back
    /// to an earlier one.
    session: i32,
    /// By their numbers, and when they started, if that is known.
    processes: HashMap<Pid, Option<Ticks>>,
}

impl Inherited {
    /// Notes the descendants that this process has now.
    pub(crate) fn now() -> Self {
        // 0 is a session outside of the container, which no process here begins.
        let own = Pid::from_raw(process::id().cast_signed()).and_then(of);
        let session = own.map_or(UNKNOWN, |own| own.session);
        let processes = all().into_iter().map(|process| (process.pid, process.started)).collect();
        Self { session, processes }
    }

    /// Collects the children that have ended, and returns the descendants of this process that came
    /// later.
    ///
    /// An orphan of an inherited process counts among these if it has left the session, too.
    pub(crate) fn others(&mut self) -> Vec<Process> {
        // From now on its number may be that of another process.
        for (ended, _) in reap().into_iter().flatten() {
            self.processes.remove(&ended);
        }
        all_but(|process| {
            let noted = self.processes.get(&process.pid);
            let is_noted = noted.is_some_and(|started| started.is_none() || *started == process.started);
            is_noted || process.session == self.session && process.session != UNKNOWN
        })
    }
}

/// Returns the children of this process, also the ones that a `/proc` with `hidepid` does not show.
fn own_children() -> Vec<Pid> {
    let mut children = Vec::new();
    for thread in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let list = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        children.extend(list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)));
    }
    children
}

fn of_hidden_child(pid: Pid) -> Process {
    let group = getpgid(Some(pid)).map_or(0, |group| group.as_raw_nonzero().get());
    Process { pid, parent: process::id().cast_signed(), group, session: UNKNOWN, started: None }
}

/// Kills the groups of these processes, but not that of this process. A process that starts another
/// one and ends has a new number whenever it is looked for, but stays in its group.
pub(crate) fn kill_groups(processes: &[Process]) {
    let Ok(own) = getpgid(None) else { return };
    for group in other_groups(processes, own) {
        // It may have ended by now, or be another user's.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Returns the groups of these processes that may be signalled as a whole. To the kernel group 0 is
/// the group of the sender, and group 1 means every process: a process that entered this container
/// from outside shows the first, the container's own first process the second.
fn other_groups(processes: &[Process], own: Pid) -> HashSet<Pid> {
    let groups = processes
        .iter()
        .map(|process| process.group)
        .filter(|group| *group > Pid::INIT.as_raw_nonzero().get());
    groups.filter_map(Pid::from_raw).filter(|group| *group != own).collect()
}

/// Sends a signal to a group of which a descendant is a member; does nothing if there is none.
pub(crate) fn signal_group(group: Pid, signal: Signal) {
    if all().iter().any(|process| process.group == group.as_raw_nonzero().get()) {
        // It may have ended by now.
        let _ = kill_process_group(group, signal);
    }
}

/// Reads the kernel's record of a process. A zombie counts as a process: its other threads may run
/// on.
fn of(pid: Pid) -> Option<Process> {
    let stat = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    parsed(pid, &stat)
}

/// The fields behind the name, which stands in brackets and may contain any byte: state, parent,
/// group, session, …, start as the 20th.
fn parsed(pid: Pid, stat: &[u8]) -> Option<Process> {
    let end_of_name = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(&stat[end_of_name + 1..]).ok()?;
    let fields: Vec<_> = fields.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse().ok();
    let started = Some(Ticks(fields.get(19)?.parse().ok()?));
    Some(Process { pid, parent: number(1)?, group: number(2)?, session: number(3)?, started })
}

/// Collects the children that have ended. Returns `None` if no child is left.
pub(crate) fn reap() -> Option<Vec<(Pid, Status)>> {
    let mut ended = Vec::new();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => ended.extend(status_of(status).map(|status| (pid, status))),
            Ok(None) | Err(rustix::io::Errno::INTR) => return Some(ended),
            Err(_) if ended.is_empty() => return None,
            Err(_) => return Some(ended),
        }
    }
}

fn status_of(status: WaitStatus) -> Option<Status> {
    status.exit_status().map(Status::Exit).or_else(|| status.terminating_signal().map(Status::Signal))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, Read as _};
    use std::os::unix::process::CommandExt as _;

    use super::*;

    #[test]
    fn a_name_of_any_bytes_is_no_field() {
        let pid = Pid::from_raw(7).unwrap();
        let rest = "S 3 5 6 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 4242 0";
        for name in [&b"a) S 1 (b"[..], b"cut in a letter \xc3", b""] {
            let stat = |rest: &str| [b"7 (", name, b") ", rest.as_bytes()].concat();
            let process = parsed(pid, &stat(rest)).unwrap();
            assert_eq!((process.parent, process.group, process.session), (3, 5, 6));
            assert_eq!(process.started, Some(Ticks(4242)));
            assert_eq!(parsed(pid, &stat(&rest.replacen('S', "Z", 1))), Some(process));
        }
        assert_eq!(parsed(pid, b""), None);
    }

    #[test]
    fn a_process_has_begun_by_now_and_not_before() {
        let before = Ticks(Ticks::now().0 - 1);
        let mut child = process::Command::new("sleep").arg("600").spawn().unwrap();
        let seen = of(Pid::from_raw(child.id().cast_signed()).unwrap()).unwrap();
        assert!(seen.has_begun_by(Ticks::now()) && !seen.has_begun_by(before), "{seen:?} {before:?}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn neither_everybody_nor_the_own_group_is_signalled() {
        let own = getpgid(None).unwrap();
        let of_group = |group: i32| Process { group, ..of_hidden_child(own) };
        let number = own.as_raw_nonzero().get();
        assert_eq!(other_groups(&[i32::MIN, -1, 0, 1, number].map(of_group), own), HashSet::new());
        let other = Pid::from_raw(number + 1).unwrap();
        assert_eq!(other_groups(&[0, 1, number, number + 1].map(of_group), own), HashSet::from([other]));
        // Of a child that is gone no group is known.
        let mut child = process::Command::new("true").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        child.wait().unwrap();
        assert_eq!(other_groups(&[of_hidden_child(pid)], own), HashSet::new());
    }

    /// As of a process that was started after the look.
    #[test]
    fn a_member_of_a_group_that_was_not_seen_is_killed() {
        let mut leader = process::Command::new("sh");
        leader.args(["-c", "sleep 600 & echo $!; wait"]).process_group(0).stdout(process::Stdio::piped());
        let mut leader = leader.spawn().unwrap();
        // The pipe is closed once both are gone.
        let mut output = io::BufReader::new(leader.stdout.take().unwrap());
        let mut number = String::new();
        output.read_line(&mut number).unwrap();
        let seen = of(Pid::from_raw(leader.id().cast_signed()).unwrap()).unwrap();
        kill_groups(&[seen]);
        output.read_to_string(&mut number).unwrap();
        assert!(!leader.wait().unwrap().success());
    }

    #[test]
    fn a_child_is_found_in_both_ways() {
        let mut child = process::Command::new("sleep").arg("600").spawn().unwrap();
        let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
        let hidden = of_hidden_child(pid);
        assert!(own_children().contains(&pid) && all().iter().any(|process| process.pid == pid));
        assert_eq!((hidden.group, hidden.parent), (of(pid).unwrap().group, of(pid).unwrap().parent));
        hidden.signal(Signal::KILL).unwrap();
        assert!(!child.wait().unwrap().success());
    }
}
