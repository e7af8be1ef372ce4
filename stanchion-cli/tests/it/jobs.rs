//! Jobs of a crontab and of scripts.

use std::fs;

use stanchion_testbed::servers::wait_until;

use crate::common::{FOR_EVER, Fixture, errors, on_each_store};

on_each_store!(a_job_runs_once_in_its_period, the_end_is_told_in_a_file);

fn a_job_runs_once_in_its_period(fixture: &Fixture) {
    let run = |period: &str, script: &str| {
        fixture.output(&["run", "NAME", "--once-per", period, "--", "sh", "-c", script])
    };
    // A run that fails is none.
    assert_eq!(run("1h", &format!("{}; exit 3", fixture.ledger.writes("fails"))).status.code(), Some(3));
    assert_eq!(run("1h", &fixture.ledger.writes("runs")).status.code(), Some(0));
    for _ in 0..3 {
        let skipped = run("1h", &fixture.ledger.writes("runs-again"));
        assert_eq!(skipped.status.code(), Some(75), "{skipped:?}");
        assert!(errors(&skipped).contains("has run, and is due again in 59m"), "{skipped:?}");
    }
    // What has never succeeded is due, whatever the period of the attempts was.
    let other = |period: &str, script: &str| {
        fixture.code(&["run", "another", "--once-per", period, "--", "sh", "-c", script])
    };
    assert_eq!((other("1h", "exit 3"), other("24h", "exit 0"), other("24h", "exit 0")), (3, 0, 75));
    // With a shorter period it is due after that.
    let is_due = || run("1s", &fixture.ledger.writes("is-due")).status.success().then_some(());
    assert!(wait_until(FOR_EVER, is_due).is_some());
    let words: Vec<_> = fixture.ledger.entries().into_iter().map(|entry| entry.word).collect();
    assert_eq!(words, ["fails", "runs", "is-due"]);
}

fn the_end_is_told_in_a_file(fixture: &Fixture) {
    let file = fixture.folder.path().join("end");
    let path = file.to_str().unwrap().to_owned();
    let told = |options: &[&str], command: &[&str], code: i32| {
        let arguments = [&["run", "NAME", "--exit-file", &path], options, &["--"], command].concat();
        assert_eq!(fixture.code(&arguments), code);
        fs::read_to_string(&file).unwrap()
    };
    assert_eq!(told(&[], &["true"], 0), "command 0\n");
    assert_eq!(told(&[], &["sh", "-c", "exit 75"], 75), "command 75\n");
    assert_eq!(told(&[], &["sh", "-c", "kill -TERM $$"], 143), "command 143\n");
    assert_eq!(told(&[], &["/no/such program"], 127), "not-started 127\n");
    let holder = fixture.start(&[], &fixture.ledger.writes_on());
    fixture.ledger.wait_for_word("alive");
    assert_eq!(told(&["-n"], &["true"], 75), "skipped 75\n");
    assert_eq!(told(&["-w", "0.1"], &["true"], 124), "timeout 124\n");
    assert_eq!(told(&["-n", "-E", "9"], &["true"], 9), "skipped 75\n");
    assert_eq!(told(&["--wait", "0", "--skip-code", "0"], &["true"], 0), "timeout 124\n");
    drop(holder);
}

#[test]
fn a_command_in_one_word_is_told_how_it_is_run() {
    let fixture = Fixture::redis();
    let output = fixture.output(&["run", "NAME", "--", "echo a; echo b"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(errors(&output).contains("sh -c"), "{output:?}");
    assert!(!errors(&fixture.output(&["run", "NAME", "--", "no-such-program", "a b"])).contains("sh -c"));
}
