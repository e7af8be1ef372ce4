//! What a command gets, and what its caller gets of it.

use std::io::Write as _;
use std::process::Stdio;

use crate::common::{Fixture, on_each_store, text};

on_each_store!(exclusive_among_eight, a_semaphore_lets_two_run, the_command_gets_token_and_name);

/// Eight at once, each of which appends its begin and its end.
fn exclusive_among_eight(fixture: &Fixture) {
    let work = fixture.ledger.short_work();
    let mut all: Vec<_> = (0..8).map(|_| fixture.start(&[], &work)).collect();
    for one in &mut all {
        assert_eq!(one.code(), 0, "{}", one.errors());
    }
    assert_eq!(fixture.ledger.is_exclusive().len(), 8);
    assert_eq!(fixture.ledger.most_at_a_time(), 1);
    assert_eq!(fixture.ledger.entries().iter().filter(|entry| entry.word == "end").count(), 8);
}

fn a_semaphore_lets_two_run(fixture: &Fixture) {
    // The first ends when the second has begun.
    let (begin, end) = (fixture.ledger.writes("begin"), fixture.ledger.writes("end"));
    let other = fixture.folder.path().join("other");
    let other = other.display();
    let waits = format!("{begin}; until [ -e '{other}' ]; do sleep 0.01; done; {end}");
    let mut first = fixture.start(&["--semaphore", "2"], &waits);
    fixture.ledger.wait_for_word("begin");
    let mut second = fixture.start(&["--semaphore", "2"], &format!("{begin}; touch '{other}'; {end}"));
    assert_eq!((first.code(), second.code()), (0, 0));
    assert_eq!(fixture.ledger.most_at_a_time(), 2);

    let mut crowd: Vec<_> =
        (0..6).map(|_| fixture.start(&["--semaphore", "2"], &fixture.ledger.short_work())).collect();
    assert!(crowd.iter_mut().all(|one| one.code() == 0));
    assert_eq!(fixture.ledger.most_at_a_time(), 2);
    assert_eq!(fixture.code(&["run", "NAME", "--semaphore", "3", "--", "true"]), 78, "another number");
}

fn the_command_gets_token_and_name(fixture: &Fixture) {
    let script = "echo $STANCHION_TOKEN; echo $STANCHION_TICKET; echo $STANCHION_NAME; cat; echo error >&2";
    let mut command = fixture.program(&["run", "NAME", "--", "sh", "-c", script]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"of the caller\n").unwrap();
    let output = child.wait_with_output().unwrap();
    // The store may have warned before.
    assert!(output.status.success() && output.stderr.ends_with(b"error\n"), "{output:?}");
    let text = text(&output);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].parse::<u64>().unwrap() > 0);
    assert!(lines[1].len() == 32 && lines[1].bytes().all(|byte| byte.is_ascii_hexdigit()));
    assert_eq!(lines[2..], [&*fixture.name, "of the caller"]);
}

#[test]
fn the_exit_status_is_passed_on() {
    let fixture = Fixture::redis();
    for (script, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -9 $$", 137), ("kill -15 $$", 143)]
    {
        assert_eq!(fixture.code(&["run", "NAME", "--", "sh", "-c", script]), code, "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_started_has_the_codes_of_a_shell() {
    let fixture = Fixture::redis();
    for (program, code) in
        [("/no/such/program", 127), ("no-such-program", 127), ("/etc/passwd", 126), ("/", 126)]
    {
        assert_eq!(fixture.code(&["run", "NAME", "--", program]), code, "{program}");
    }
    assert_eq!(fixture.code(&["run", "NAME", "--skip-if-held", "--", "true"]), 0, "the lock was released");
}

/// What `nohup` sets stays set.
#[test]
fn a_signal_that_the_caller_ignores_is_ignored_by_the_command() {
    let fixture = Fixture::redis();
    let program = env!("CARGO_BIN_EXE_stanchion");
    let script =
        format!("trap '' HUP; exec '{program}' run '{}' -- sh -c 'kill -HUP $$; exit 5'", fixture.name);
    let status =
        std::process::Command::new("sh").args(["-c", &script]).env("STANCHION_URL", &fixture.url).status();
    assert_eq!(status.unwrap().code(), Some(5));
}

/// There a killed client's mutex is free at once.
#[test]
fn mutexes_of_sessions_are_refused() {
    let fixture = Fixture::postgres();
    let url = format!("{}&mutex=session", fixture.url);
    let output = fixture.program_at(&url, &["run", "NAME", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--semaphore 1"));
    let semaphore = fixture.program_at(&url, &["run", "NAME", "--semaphore", "1", "--", "true"]).status();
    assert!(semaphore.unwrap().success());
}
