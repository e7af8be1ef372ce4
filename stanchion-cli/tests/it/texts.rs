//! What is written: no terminal escape, no password, and no panic where the reader has gone away.

use std::io::Read as _;
use std::process::{Command, Output, Stdio};

use crate::common::{Fixture, text};

const ESCAPE: char = '\u{1b}';

fn stanchion(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.args(arguments).env_remove("STANCHION_URL").stdin(Stdio::null()).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn wrong_usage_has_a_code_of_its_own() {
    for arguments in [
        &["run"][..],
        &["run", "x"],
        &["run", "", "--", "true"],
        &["run", "x", "--ttl", "1s", "--", "true"],
        &["run", "x", "--wait", "1 parsec", "--", "true"],
        &["run", "x", "--wait", "1s", "--skip-if-held", "--", "true"],
        &["unlock", "x", "--kind", "semaphore"],
        &["limit", "x", "--per", "fast"],
        &["frobnicate"],
        &["run", "x", "--", "true"],
        &["man", "frobnicate"],
        &["schema", "--schema", "A B"],
    ] {
        let output = stanchion(arguments);
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn no_terminal_escape_is_written() {
    let fixture = Fixture::redis();
    let name = format!("a{ESCAPE}[2Jb\u{9b}31m\u{202e}");
    let label = format!("l{ESCAPE}]0;title\u{7}");
    let ready = fixture.ledger.writes("ready");
    let script = format!("{ready}; sleep 600");
    let mut holder =
        fixture.program(&["run", &name, "--label", &label, "--", "sh", "-c", &script]).spawn().unwrap();
    fixture.ledger.wait_for_word("ready");
    for arguments in [
        &["inspect", &name][..],
        &["inspect", &name, "--json"],
        &["run", &name, "--skip-if-held", "--", "true"],
        &["run", &name, "--wait", "600ms", "--", "true"],
        &["wait-group", &name, "wait"],
        &["limit", &name, "--per", &name],
        &["unlock", &name, "--ticket", &label],
        &["unlock", &name, "--yes"],
        &["unlock", &name, "--yes"],
        &[&name],
        &["man", &name],
    ] {
        let output = fixture.output(arguments);
        let shown = text(&output) + &errors(&output);
        let is_bad = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.is_empty() && !shown.contains(is_bad), "{arguments:?}: {shown:?}");
    }
    assert_eq!(holder.wait().unwrap().code(), Some(125));
}

#[test]
fn no_password_is_shown() {
    for (scheme, rest) in [
        ("redis", "127.0.0.1:1/"),
        ("redis+cluster", "127.0.0.1:1"),
        ("postgres", "127.0.0.1:1/x"),
        ("redis", "127.0.0.1:notaport"),
        ("mysql", "127.0.0.1"),
    ] {
        let url = format!("{scheme}://user:s3cret@{rest}");
        let equals = format!("--ulr={url}");
        for arguments in [
            &["--url", &url, "ping"][..],
            &["check", "--url", &url],
            &["check", "--url", &url, "--json"],
            &["run", "x", "--url", &url, "--", "true"],
            &["ping", &url],
            &[&url],
            &["ping", &equals],
            &["ping", "--url-file", &url],
            &["limit", "x", "--per", &url],
            &["help", &url],
        ] {
            let output = stanchion(arguments);
            let shown = text(&output) + &errors(&output);
            assert!(!shown.is_empty() && !shown.contains("s3cret"), "{arguments:?}: {shown}");
            assert!(!output.status.success(), "{arguments:?}");
        }
    }
    // The variable's value is no part of the help.
    let mut help = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    let output = help.arg("--help").env("STANCHION_URL", "redis://:s3cret@h").output().unwrap();
    assert!(text(&output).contains("STANCHION_URL") && !text(&output).contains("s3cret"));
}

#[test]
fn a_reader_that_goes_away_causes_no_panic() {
    for arguments in [&["schema"][..], &["man", "run"], &["completions", "zsh"], &["run", "--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        drop(child.stdout.take());
        let mut shown = String::new();
        child.stderr.take().unwrap().read_to_string(&mut shown).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*shown), (Some(141), ""), "{arguments:?}");
    }
}

#[test]
fn help_manual_and_completions_are_there() {
    let help = text(&stanchion(&["run", "--help"]));
    for code in ["64 ", "69 ", "75 ", "77 ", "78 ", "124 ", "125 ", "126 ", "127 "] {
        assert!(help.contains(&format!("\n  {code}")), "{code}: {help}");
    }
    assert!(help.contains("Not covered:"));
    for subcommand in
        ["run", "ls", "top", "bench", "inspect", "unlock", "wait-group", "limit", "ping", "check", "schema"]
    {
        let page = text(&stanchion(&["man", subcommand]));
        assert!(page.contains(&format!(".TH stanchion-{subcommand} 1")), "{page}");
        for shell in ["bash", "zsh", "fish"] {
            assert!(text(&stanchion(&["completions", shell])).contains(subcommand), "{shell}");
        }
    }
    assert!(text(&stanchion(&["schema", "--role", "app"])).contains("GRANT"));
    assert!(!text(&stanchion(&["--help"])).contains("supervise-command"));
}
