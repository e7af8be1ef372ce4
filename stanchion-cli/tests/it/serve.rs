//! The page: what it answers, to whom, and its end.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use stanchion_testbed::faults::Process;
use stanchion_testbed::servers::{RedisOptions, RedisServer, wait_until};

use crate::common::{FOR_EVER, Fixture, on_each_store};

on_each_store!(names_are_served_and_freed, what_everybody_could_reach_needs_a_token);

const TOKEN: &str = "s3cret";

/// A running page.
struct Page {
    process: Process,
    address: String,
    errors: PathBuf,
}

impl Page {
    fn start(fixture: &Fixture, options: &[&str]) -> Self {
        let arguments = [&["serve", "--listen", "127.0.0.1:0", "--interval", "200ms"], options].concat();
        let mut command = fixture.program(&arguments);
        let errors = fixture.folder.path().join("errors of the page");
        command.env("STANCHION_SERVE_TOKEN", TOKEN).stdout(Stdio::null());
        let process = Process::spawn(command.stderr(fs::File::create(&errors).unwrap())).unwrap();
        // Warnings of the store may come before.
        let address = wait_until(FOR_EVER, || {
            let errors = fs::read_to_string(&errors).unwrap();
            let line = errors.lines().find_map(|line| line.strip_prefix("stanchion: serving http://"));
            line.and_then(|line| line.strip_suffix('/')).map(str::to_owned)
        });
        Self { process, address: address.unwrap(), errors }
    }

    /// Sends a request; returns the status and the body.
    fn ask(&self, request: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let headers = format!(
            "host: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
             authorization: Bearer {TOKEN}\r\n\r\n",
            self.address
        );
        write!(stream, "{request} HTTP/1.1\r\n{headers}{body}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Ends it as a service manager does; returns its exit code.
    fn end(self) -> i32 {
        self.end_by(Signal::TERM)
    }

    fn end_by(mut self, signal: Signal) -> i32 {
        let pid = Pid::from_raw(self.process.id().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        self.process.wait(FOR_EVER).unwrap().unwrap().code().unwrap()
    }
}

fn names_are_served_and_freed(fixture: &Fixture) {
    let page = Page::start(fixture, &["--allow-unlock"]);
    // A viewer's stream does not hold up the end.
    let mut viewer = TcpStream::connect(&page.address).unwrap();
    write!(viewer, "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", page.address).unwrap();
    let mut running = fixture.start(&["--label", "nightly"], &fixture.ledger.writes_on());
    let seen = wait_until(FOR_EVER, || {
        let names = page.ask("GET /api/v1/names", "").1;
        let hold = names["names"][0]["holds"][0].clone();
        hold["ticket"].is_string().then_some(hold)
    });
    let hold = seen.expect("the hold is seen");
    assert_eq!(hold["label"], "nightly");
    let meant = serde_json::json!({ "kind": "mutex", "name": fixture.name, "ticket": hold["ticket"] });
    assert_eq!(
        page.ask("POST /api/v1/unlock", &meant.to_string()),
        (200, serde_json::json!({ "freed": true }))
    );
    assert_eq!(running.code(), 125, "{}", running.errors());
    let told = wait_until(FOR_EVER, || {
        let errors = fs::read_to_string(&page.errors).unwrap();
        errors.lines().find(|line| line.contains("ended by force")).map(str::to_owned)
    });
    let told = told.expect("who was freed is told");
    assert!(told.contains(&fixture.name) && !told.contains(TOKEN), "{told}");
    assert_eq!(page.end(), 0);
}

fn what_everybody_could_reach_needs_a_token(fixture: &Fixture) {
    let refused = |arguments: &[&str]| {
        let mut command = fixture.program(&[&["serve"], arguments].concat());
        let output = command.env_remove("STANCHION_SERVE_TOKEN").output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for arguments in [&["--listen", "0.0.0.0:0"][..], &["--listen", "[::]:0"], &["--allow-unlock"]] {
        let (code, errors) = refused(arguments);
        assert_eq!(code, Some(64), "{errors}");
        assert!(
            errors.contains("needs a token: --token-file or the variable STANCHION_SERVE_TOKEN"),
            "{errors}"
        );
    }
    let empty = fixture.folder.path().join("token");
    fs::write(&empty, "\n").unwrap();
    let (code, errors) = refused(&["--listen", "0.0.0.0:0", "--token-file", empty.to_str().unwrap()]);
    assert_eq!((code, &*errors), (Some(64), "stanchion: the first line of the token's file is empty\n"));
}

#[test]
fn only_the_signals_that_ask_for_an_end_are_a_success() {
    let fixture = Fixture::redis();
    for (signal, code) in [
        (Signal::TERM, 0),
        (Signal::INT, 0),
        (Signal::HUP, 129),
        (Signal::QUIT, 131),
        (Signal::USR1, 138),
        (Signal::USR2, 140),
    ] {
        assert_eq!(Page::start(&fixture, &[]).end_by(signal), code, "{signal:?}");
    }
}

#[test]
fn a_store_that_is_away_is_shown_and_comes_back() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let fixture = Fixture::at(&server.url());
    assert_eq!(fixture.code(&["wait-group", "NAME", "add", "--ttl", "1h"]), 0);
    let page = Page::start(&fixture, &[]);
    let look = |status: u16| {
        wait_until(FOR_EVER, || (page.ask("GET /api/v1/health", "").0 == status).then_some(()))
            .unwrap_or_else(|| panic!("no answer {status}"));
        page.ask("GET /api/v1/names", "").1
    };
    assert_eq!(look(200)["names"][0]["name"], fixture.name);
    server.kill().unwrap();
    let away = look(503);
    assert_eq!(away["names"][0]["name"], fixture.name, "what was seen stays");
    assert!(away["error"].is_string());
    server.restart().unwrap();
    assert_eq!(look(200)["error"], Value::Null);
    assert_eq!(page.end(), 0);
}

/// Viewers that say nothing, or slowly, and viewers too many.
#[test]
fn connections_are_bounded_in_number_and_time() {
    let fixture = Fixture::redis();
    let page = Page::start(&fixture, &["--max-connections", "3", "--idle-timeout", "5s"]);
    let connect = || TcpStream::connect(&page.address).unwrap();
    let ended = |stream: &mut TcpStream| {
        stream.set_read_timeout(Some(FOR_EVER)).unwrap();
        let mut rest = Vec::new();
        // The other end may be gone before all was read.
        let _ = stream.read_to_end(&mut rest);
        String::from_utf8(rest).unwrap()
    };
    // One says nothing, one half of a head, one has an answer and no other request.
    let mut idle = [connect(), connect(), connect()];
    write!(idle[1], "GET / HTTP/1.1\r\nhost:").unwrap();
    write!(idle[2], "GET /api/v1/names HTTP/1.1\r\nhost: {}\r\n\r\n", page.address).unwrap();
    let answered = wait_until(FOR_EVER, || {
        // All three are known once one is refused.
        let refused = ended(&mut connect());
        refused.starts_with("HTTP/1.1 503").then_some(refused)
    });
    assert!(answered.unwrap().ends_with("\"kind\":null}"));
    let [silent, slow, done] = &mut idle;
    assert_eq!(ended(silent), "");
    assert!(!ended(slow).contains("200 OK"));
    assert!(ended(done).starts_with("HTTP/1.1 200 OK"));
    // Viewers get something each time that the store is looked at.
    let mut viewer = connect();
    write!(viewer, "GET /events HTTP/1.1\r\nhost: {}\r\n\r\n", page.address).unwrap();
    viewer.set_read_timeout(Some(FOR_EVER)).unwrap();
    let (mut text, mut bytes) = (Vec::new(), [0; 4_096]);
    while text.windows(11).filter(|part| part == b"event: look").count() < 15 {
        let count = viewer.read(&mut bytes).unwrap();
        assert!(count > 0, "it was ended");
        text.extend_from_slice(&bytes[..count]);
    }
    assert_eq!(page.ask("GET /no/such/path", "").0, 404);
    assert_eq!(page.end(), 0);
}
