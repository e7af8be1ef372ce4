//! The program at a terminal.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture};

/// Runs a script of bash at a terminal of its own, at which this is typed.
fn at_a_terminal(fixture: &Fixture, script: &str, typed: &str) {
    let file = fixture.folder.path().join("script");
    fs::write(&file, script).unwrap();
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &format!("bash --norc '{}'", file.display()), "/dev/null"]);
    terminal.env("STANCHION_URL", &fixture.url).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut terminal = terminal.spawn().unwrap();
    terminal.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
    let ended = wait_until(FOR_EVER, || terminal.try_wait().unwrap());
    let _ = terminal.kill();
    assert!(ended.is_some_and(|status| status.success()), "{ended:?}");
}

/// What is typed is for the shell, which waits for the job.
#[test]
fn a_job_in_the_background_reads_nothing_that_is_typed() {
    let fixture = Fixture::redis();
    let folder = fixture.folder.path().display();
    let script = format!(
        "set -m\n'{}' run '{}' -- cat > '{folder}/job' &\nwait\nread line\necho \"$line\" > '{folder}/shell'\n",
        env!("CARGO_BIN_EXE_stanchion"),
        fixture.name,
    );
    at_a_terminal(&fixture, &script, "typed\n");
    let read = |file: &str| fs::read_to_string(fixture.folder.path().join(file)).unwrap();
    assert_eq!((&*read("job"), &*read("shell")), ("", "typed\n"));
}

/// In the foreground it is for the command.
#[test]
fn a_command_in_the_foreground_reads_what_is_typed() {
    let fixture = Fixture::redis();
    let folder = fixture.folder.path().display();
    let script = format!(
        "set -m\n'{}' run '{}' -- head -n1 > '{folder}/command'\n",
        env!("CARGO_BIN_EXE_stanchion"),
        fixture.name,
    );
    at_a_terminal(&fixture, &script, "typed\n");
    assert_eq!(fs::read_to_string(fixture.folder.path().join("command")).unwrap(), "typed\n");
}
