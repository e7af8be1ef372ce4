//! Signals that come to the program.

use std::fs;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use stanchion_testbed::faults::Process;
use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture, on_each_store, state};

on_each_store!(ctrl_c_stops_the_command_and_releases_the_lock);

fn ctrl_c_stops_the_command_and_releases_the_lock(fixture: &Fixture) {
    let mut running = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    running.signal(Signal::INT);
    assert_eq!(running.code(), 130);
    assert_eq!(fixture.processes(), []);
    let mut next = fixture.start(&["--skip-if-held"], &fixture.ledger.short_work());
    assert_eq!(next.code(), 0, "{}", next.errors());
    assert_eq!(fixture.ledger.is_exclusive().len(), 2);
}

#[test]
fn signals_are_passed_on() {
    let fixture = Fixture::redis();
    for (signal, name) in [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ] {
        let ready = fixture.ledger.writes(name);
        let script = format!("trap 'exit 9' {name}; {ready}; while :; do sleep 0.01; done");
        let mut running = fixture.start(&[], &script);
        fixture.ledger.wait_for_word(name);
        running.signal(signal);
        assert_eq!(running.code(), 9, "{name}: {}", running.errors());
    }
}

#[test]
fn a_stopped_command_keeps_its_lock_and_goes_on() {
    let fixture = Fixture::redis();
    let mut running = fixture.start(&[], &format!("exec sh -c '{}; exec sleep 600'", "true"));
    let sleeper = wait_until(FOR_EVER, || fixture.processes().first().copied()).unwrap();
    let wait_for_state = |wanted: &str| {
        let seen = wait_until(FOR_EVER, || state(sleeper).ok().filter(|&state| wanted.contains(state)));
        assert!(seen.is_some(), "{:?}", state(sleeper));
    };
    running.signal(Signal::TSTP);
    wait_for_state("T");
    assert_eq!(fixture.code(&["run", "NAME", "--skip-if-held", "--", "true"]), 75);
    running.signal(Signal::CONT);
    wait_for_state("SR");
    running.signal(Signal::TSTP);
    wait_for_state("T");
    running.signal(Signal::TERM);
    assert_eq!(running.code(), 143, "a stopped one goes on to end");
}

/// A service manager signals every process of a unit. The lease is healthy, so that the command has
/// the time that it takes, and it gets the signal once: another one would end its `sleep`.
#[test]
fn a_signal_to_all_processes_of_a_unit_is_that_of_the_command() {
    let fixture = Fixture::redis();
    let [alive, asked, done] = ["alive", "asked", "done"].map(|word| fixture.ledger.writes(word));
    // Longer than the grace of this lease, 1.6 s.
    let script = format!(
        "ends() {{ {asked}; sleep 3 && {done}; exit 7; }}; trap ends TERM; {alive}; while :; do sleep 0.01; done"
    );
    let mut running = fixture.start(&["--ttl", "8s"], &script);
    fixture.ledger.wait_for_word("alive");
    let shell = fixture.processes().into_iter().min_by_key(|pid| pid.as_raw_nonzero()).unwrap();
    let unit = [running.supervisor(), shell, running.pid()].map(|pid| pid.as_raw_nonzero().to_string());
    // A process with the name of one, which lives on.
    let manager = fixture.folder.path().join("systemd");
    fs::copy("/bin/sh", &manager).unwrap();
    let manages =
        format!("for pid in {}; do kill -TERM $pid; done; while :; do sleep 0.05; done", unit.join(" "));
    let mut manager = Process::spawn(Command::new(manager).args(["-c", &manages])).unwrap();
    assert_eq!(running.code(), 7, "{}", running.errors());
    manager.kill().unwrap();
    let words: Vec<_> = fixture.ledger.entries().into_iter().map(|entry| entry.word).collect();
    assert_eq!(words, ["alive", "asked", "done"]);
}

/// As `killall` finds them by their program: the command is no such process.
#[test]
fn a_signal_to_client_and_supervisor_reaches_the_command() {
    let fixture = Fixture::redis();
    let mut running = fixture.start(&["--ttl", "8s"], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    for process in [running.supervisor(), running.pid()] {
        kill_process(process, Signal::TERM).unwrap();
    }
    assert_eq!(running.code(), 143, "{}", running.errors());
}

/// A signal to the supervisor alone ends nothing while its client lives.
#[test]
fn a_signal_to_the_supervisor_ends_nothing() {
    let fixture = Fixture::redis();
    let file = fixture.folder.path().join("goes on");
    let script = format!(
        "{}; until [ -e '{}' ]; do sleep 0.01; done; exit 5",
        fixture.ledger.writes("alive"),
        file.display()
    );
    let mut running = fixture.start(&["--ttl", "8s"], &script);
    fixture.ledger.wait_for_word("alive");
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT] {
        kill_process(running.supervisor(), signal).unwrap();
    }
    // Longer than the grace of this lease, 1.6 s.
    assert!(wait_until(std::time::Duration::from_secs(3), || None::<()>).is_none());
    fs::write(&file, "").unwrap();
    assert_eq!(running.code(), 5, "{}", running.errors());
}

/// A shell goes on with its loop after a command that has exited, whatever its code.
#[test]
fn ctrl_c_ends_a_loop_of_a_script() {
    let fixture = Fixture::redis();
    let file = fixture.folder.path().join("loop");
    let script = format!(
        "for i in 1 2 3; do '{}' run '{}' -- sh -c 'echo begun >> \"{file}\"; exec sleep 600'; done; echo after >> '{file}'",
        env!("CARGO_BIN_EXE_stanchion"),
        fixture.name,
        file = file.display(),
    );
    let mut shell = Command::new("env");
    shell.args(["--default-signal", "bash", "-c", &script]).env("STANCHION_URL", &fixture.url);
    // A terminal signals the group in its foreground.
    shell.stdin(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut shell = Process::spawn(&mut shell).unwrap();
    let text = || fs::read_to_string(&file).unwrap_or_default();
    assert!(wait_until(FOR_EVER, || text().contains("begun").then_some(())).is_some());
    kill_process_group(Pid::from_raw(shell.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    let status = shell.wait(FOR_EVER).unwrap().unwrap();
    assert_eq!((status.signal(), &*text()), (Some(2), "begun\n"));
}

/// The signals that end jobs end this program, too; it reports the others by its code.
#[test]
fn a_command_that_a_signal_has_ended_ends_the_program_by_it() {
    let fixture = Fixture::redis();
    for (name, number, is_passed) in [
        ("INT", 2, true),
        ("QUIT", 3, true),
        ("TERM", 15, true),
        ("HUP", 1, true),
        ("PIPE", 13, true),
        ("KILL", 9, false),
        ("USR1", 10, false),
    ] {
        let status = fixture.output(&["run", "NAME", "--", "sh", "-c", &format!("kill -{name} $$")]).status;
        let expected = if is_passed { (None, Some(number)) } else { (Some(128 + number), None) };
        assert_eq!((status.code(), status.signal()), expected, "{name}");
        assert!(!status.core_dumped());
    }
}
