//! Each accepted payload is stored once, also when the service is terminated or the store fails
//! meanwhile.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Ingest, lines_of, payload, stored};
use rustix::fs::{CWD, RenameFlags, renameat_with};

#[test]
fn sigterm_under_load_loses_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_ingest-load"))
        .args(["--seconds", "2", "--payloads", "3", "--", "--batch", "20000"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(text.contains(" 0 missing, 0 twice, 0 refused yet stored, 0 foreign"), "{text}");
    assert!(text.contains(" 0 otherwise"), "{text}");
}

#[test]
fn sigterm_under_overload_loses_nothing() {
    let output = Command::new(env!("CARGO_BIN_EXE_ingest-load"))
        .args(["--seconds", "2", "--", "--queue", "1", "--workers", "1", "--batch", "1"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}");
    assert!(!text.contains(" 0 answered 503"), "the queue was never full: {text}");
}

#[test]
fn a_request_under_way_at_sigterm_is_finished_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &[]);
    assert_eq!(ingest.post(&payload("early")).status, 202);
    let body = payload("late");
    let (begin, rest) = body.split_at(5);
    let mut client = ingest.connect();
    client.send(&format!(
        "POST /payloads HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        body.len()
    ));
    assert_eq!(client.answer().status, 100);
    client.send(begin);
    ingest.terminate();
    while ingest.try_connect().is_some() {}
    client.send(rest);
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (202, Some("close")));
    let (status, words) = ingest.end();
    assert!(status.success() && words.contains("0 lost; 0 connections cut off"), "{words}");
    assert_eq!(stored(folder.path()), lines_of(&["early".to_owned(), "late".to_owned()]));
}

/// An outage of the store: a file takes the place of its folder. The two change places in one step:
/// the service would make a folder anew that is missing for a moment.
struct Outage {
    folder: PathBuf,
    aside: PathBuf,
}

impl Outage {
    fn of(folder: &Path) -> Self {
        let outage = Self { folder: folder.to_owned(), aside: folder.with_extension("aside") };
        fs::write(&outage.aside, "").unwrap();
        outage.exchange();
        outage
    }

    fn end(self) {
        self.exchange();
        fs::remove_file(&self.aside).unwrap();
    }

    fn exchange(&self) {
        renameat_with(CWD, &self.aside, CWD, &self.folder, RenameFlags::EXCHANGE).unwrap();
    }
}

/// Sends payloads until the queue is full, and returns the ids of the accepted ones.
fn fill(ingest: &Ingest) -> Vec<String> {
    let mut client = ingest.connect();
    let mut accepted = Vec::new();
    loop {
        let id = format!("payload-{}", accepted.len());
        let answer = client.post(&payload(&id));
        if answer.status == 503 {
            assert_eq!(answer.header("retry-after"), Some("1"));
            return accepted;
        }
        assert_eq!(answer.status, 202);
        accepted.push(id);
    }
}

#[test]
fn a_store_that_fails_fills_the_queue_and_gets_everything_once_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let ingest = Ingest::start(&store, &["--workers", "2", "--queue", "8", "--batch", "1"]);
    let outage = Outage::of(&store);
    let accepted = fill(&ingest);
    assert!(accepted.len() >= 8, "{accepted:?}");
    ingest.terminate();
    while ingest.try_connect().is_some() {}
    outage.end();
    let (status, words) = ingest.end();
    assert!(status.success(), "{words}");
    assert_eq!(stored(&store), lines_of(&accepted));
}

#[test]
fn what_the_store_does_not_take_in_time_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let options = ["--workers", "1", "--queue", "2", "--batch", "1", "--grace", "200"];
    let ingest = Ingest::start(&store, &options);
    let outage = Outage::of(&store);
    let accepted = fill(&ingest).len();
    ingest.terminate();
    let (status, words) = ingest.end();
    assert_eq!(status.code(), Some(1), "{words}");
    assert!(
        words.contains(&format!("{accepted} payloads accepted, 0 stored in 0 objects, {accepted} lost")),
        "{words}"
    );
    outage.end();
}
