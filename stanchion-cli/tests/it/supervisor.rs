//! The supervisor, told by a test what its client would tell it, and killed.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{self, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture, state};

/// A signal that comes between the grant and the start of the command: it would have ended the
/// command.
#[test]
fn a_signal_before_the_start_ends_what_was_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("begun");
    let (mut own, other) = UnixStream::pair().unwrap();
    // Both are there when the supervisor reads for the first time.
    own.write_all(b"deadline 18446744073709551615\nsignal 2\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stanchion"))
        .args(["supervise-command", &format!("--parent={}", process::id()), "--lease=8000", "--", "touch"])
        .arg(&file)
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()
        .unwrap();
    let mut report = String::new();
    BufReader::new(own).read_line(&mut report).unwrap();
    assert_eq!(report, "killed 2 itself\n");
    assert!(child.wait().unwrap().success());
    assert!(!file.exists());
}

/// Returns the child of a process that is a supervisor.
fn supervisor_of(client: u32) -> Option<Pid> {
    let children = fs::read_to_string(format!("/proc/{client}/task/{client}/children")).ok()?;
    let is_supervisor = |pid: &&str| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("supervise-command"))
    };
    Pid::from_raw(children.split_whitespace().find(is_supervisor)?.parse().ok()?)
}

/// Jobs of a shell that becomes this program by `exec`: one in its session and one in another.
#[test]
fn children_from_before_outlive_a_killed_supervisor() {
    let fixture = Fixture::redis();
    let script = format!(
        "sleep 600 & echo $!; setsid sleep 600 & echo $!; exec '{}' run '{}' -- sh -c \"$WORK\"",
        env!("CARGO_BIN_EXE_stanchion"),
        fixture.name
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("WORK", fixture.ledger.writes_on()).env("STANCHION_URL", &fixture.url);
    let mut client = shell.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    let jobs: Vec<_> =
        (0..2).map(|_| Pid::from_raw(lines.next().unwrap().unwrap().parse().unwrap()).unwrap()).collect();
    fixture.ledger.wait_for_word("alive");
    kill_process(supervisor_of(client.id()).unwrap(), Signal::KILL).unwrap();
    let code = wait_until(FOR_EVER, || client.try_wait().unwrap()).and_then(|status| status.code());
    assert_eq!((code, fixture.processes()), (Some(125), Vec::new()));
    for job in jobs {
        assert_eq!(state(job).unwrap(), 'S', "{job:?}");
        kill_process(job, Signal::KILL).unwrap();
    }
}

/// Each link of the chain starts the next one and ends: whenever a link is looked for, another one
/// is there.
#[test]
fn a_chain_of_processes_ends_after_a_killed_supervisor() {
    let fixture = Fixture::redis();
    // Each link touches it, and none goes on without it, whatever this test finds.
    let file = fixture.folder.path().join("touched");
    fs::write(&file, "").unwrap();
    let touched = || fs::metadata(&file).unwrap().modified().unwrap();
    let chain = "perl -e 'while (utime undef, undef, $ARGV[0]) { exit if fork }'";
    let script = format!("{chain} '{}' & {}", file.display(), fixture.ledger.writes_on());
    let mut running = fixture.start(&[], &script);
    fixture.ledger.wait_for_word("alive");
    let begin = touched();
    assert!(wait_until(FOR_EVER, || (touched() > begin).then_some(())).is_some(), "{}", running.errors());
    kill_process(running.supervisor(), Signal::KILL).unwrap();
    assert_eq!(running.code(), 125, "{}", running.errors());
    let end = touched();
    assert!(
        wait_until(Duration::from_millis(300), || (touched() > end).then_some(())).is_none(),
        "it goes on"
    );
}
