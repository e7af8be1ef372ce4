//! What is written: no terminal escape, no password, and no panic where the reader has gone away.

use std::io;
use std::process::{Command, Output, Stdio};

use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use crate::common::{Fixture, errors, on_each_store, text};

const ESCAPE: char = '\u{1b}';

on_each_store!(errors_name_options_and_no_methods);

fn stanchion(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
    command.args(arguments).env_remove("STANCHION_URL").stdin(Stdio::null()).output().unwrap()
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

/// Nobody listens at that port: whoever connects gets another code.
#[test]
fn c19_what_is_out_of_range_is_refused_before_anybody_is_asked() {
    let long = "x".repeat(513);
    for arguments in [
        &["run", "x", "--semaphore", "0", "--", "true"][..],
        &["run", "x", "--semaphore", "2147483648", "--", "true"],
        &["run", "x", "--semaphore", "4294967295", "--", "true"],
        &["run", "x", "--semaphore", "18446744073709551615", "--", "true"],
        &["run", "x", "--ttl", "18446744073709551615s", "--", "true"],
        &["run", "x", "--wait", "18446744073709551616s", "--", "true"],
        &["run", "x", "--label", &long, "--", "true"],
        &["run", &long, "--", "true"],
        &["ls", &long],
        &["serve", &long],
        &["serve", "--interval", "18446744073709551615s"],
        &["unlock", "x", "--yes", "--label", &long],
        &["wait-group", "x", "add", "--ttl", "1ms"],
        &["wait-group", "x", "add", "--ttl", "18446744073709551615s"],
        &["wait-group", "x", "add", "--label", &long],
        &["limit", "x", "--per", "0/s"],
        &["limit", "x", "--per", "18446744073709551616/s"],
        &["limit", "x", "--per", "9007199254740992/s"],
        &["limit", "x", "--per", "5/s", "--burst", "9007199254740992"],
        &["limit", "x", "--per", "5/s", "--cost", "6"],
        &["limit", "x", "--per", "5/s", "--cost", "18446744073709551615", "--wait", "1s"],
        &["bench", "--time", "18446744073709551615s"],
    ] {
        let output = stanchion(&[&["--url", "redis://127.0.0.1:1/"], arguments].concat());
        assert_eq!(output.status.code(), Some(64), "{arguments:?}: {output:?}");
    }
}

/// The longest time that can be written is as long as it takes.
#[test]
fn a_wait_may_be_of_any_length() {
    let fixture = Fixture::redis();
    let ever = "18446744073709551615s";
    assert_eq!(fixture.code(&["run", "NAME", "--wait", ever, "--", "true"]), 0);
    assert_eq!(fixture.code(&["limit", "NAME", "--per", "1/s", "--wait", ever]), 0);
    assert_eq!(fixture.code(&["wait-group", "NAME", "wait", "--wait", ever]), 0);
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
        // It is gone before the first byte: what is short would be in the pipe by then.
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_stanchion"));
        let output = command.args(arguments).stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), &*errors(&output)), (Some(141), ""), "{arguments:?}");
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

/// Behind `--` another command is completed, and before it this one, whose own words are all shown.
#[test]
fn bash_completes_the_command_behind_the_dashes() {
    let script = text(&stanchion(&["completions", "bash"]));
    assert!(!script.contains("supervise"), "that is no command of a user");
    let complete = |words: &[&str]| {
        let line = words.join(" ");
        let asks = format!(
            "{script}\nCOMP_WORDS=({line}); COMP_CWORD={}; _stanchion_or_command stanchion; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            words.len() - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &asks]).output().unwrap();
        text(&output).lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let has = |words: &[&str], word: &str| complete(words).iter().any(|one| one == word);
    assert!(has(&["stanchion", "run", "x", "--", "pr"], "printf"));
    assert!(has(&["stanchion", "run", "x", "--", "cat", "/etc/pass"], "/etc/passwd"));
    assert!(has(&["stanchion", "ru"], "run"));
    assert!(has(&["stanchion", "run", "--on"], "--once-per"));
}

fn errors_name_options_and_no_methods(fixture: &Fixture) {
    let long = "x".repeat(600);
    assert_eq!(fixture.code(&["limit", "NAME", "--per", "5/s"]), 0);
    assert_eq!(fixture.code(&["run", "NAME", "--semaphore", "2", "--", "true"]), 0);
    for (arguments, code) in [
        (&["limit", "NAME", "--per", "6/s"][..], 78),
        (&["limit", "NAME", "--per", "6/s", "--cost", "0"], 78),
        (&["limit", "NAME", "--per", "5/s", "--cost", "9"], 64),
        (&["limit", "NAME", "--per", "5/s", "--cost", "9", "--wait", "1s"], 64),
        (&["limit", "NAME", "--per", "0/s"], 64),
        (&["limit", "NAME", "--per", "5/s", "--burst", "99999999999999999"], 64),
        (&["run", "NAME", "--semaphore", "3", "--", "true"], 78),
        (&["run", "NAME", "--semaphore", "3", "--skip-if-held", "--", "true"], 78),
        (&["run", "NAME", "--semaphore", "4294967295", "--", "true"], 64),
        (&["run", "NAME", "--label", &long, "--", "true"], 64),
        (&["wait-group", "NAME", "add", "--ttl", "1ms"], 64),
        (&["wait-group", "NAME", "add", "--label", &long], 64),
        (&["unlock", "NAME", "--yes", "--label", &long], 64),
        (&["ls", &long], 64),
    ] {
        let output = fixture.output(arguments);
        let told = errors(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {told}");
        let is_of_a_library = told.contains(" in `") || told.contains('_') || told.contains("::");
        assert!(!told.is_empty() && !is_of_a_library, "{arguments:?}: {told}");
    }
}

#[test]
fn whoever_lacks_the_schema_is_told_how_to_print_it() {
    let fixture = Fixture::postgres();
    let url = format!("{}&schema=not_there&migrate=off", fixture.url);
    let output = fixture.program_at(&url, &["inspect", "NAME"]).output().unwrap();
    let told = errors(&output);
    assert_eq!(output.status.code(), Some(78), "{told}");
    assert!(
        told.contains("run the SQL that `stanchion schema` prints as an administrator, or have"),
        "{told}"
    );
    assert!(!told.contains("::"), "{told}");
}

#[test]
fn a_command_that_only_looks_makes_no_schema() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let fixture = Fixture::at(&server.url());
    let has_schema =
        || server.sql("SELECT count(*) FROM pg_namespace WHERE nspname = 'stanchion'").unwrap().contains('1');
    for arguments in [
        &["ls"][..],
        &["inspect", "NAME"],
        &["inspect", "NAME", "--kind", "limiter"],
        &["check"],
        &["ping"],
        &["serve", "--listen", "127.0.0.1:0"],
    ] {
        let output = fixture.output(arguments);
        let told = text(&output) + &errors(&output);
        assert_eq!(output.status.code(), Some(78), "{arguments:?}: {told}");
        assert!(
            told.contains("there is no schema stanchion: run the SQL that `stanchion schema` prints"),
            "{told}"
        );
        assert!(told.contains("only looks") && told.contains("`run` and others that write"), "{told}");
    }
    assert!(!has_schema());
    // The URL can say otherwise.
    let url = format!("{}&migrate=on", fixture.url);
    assert!(fixture.program_at(&url, &["ping"]).status().unwrap().success());
    assert!(has_schema());
    assert_eq!(fixture.code(&["ls"]), 0);
}

#[test]
fn a_command_that_writes_makes_the_schema() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let fixture = Fixture::at(&server.url());
    assert_eq!(fixture.code(&["run", "NAME", "--", "true"]), 0);
    assert_eq!(fixture.code(&["check"]), 0);
}
