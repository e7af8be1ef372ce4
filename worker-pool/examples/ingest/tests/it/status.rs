//! The answer to each request, and that an accepted payload is stored once.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::io::ErrorKind;
use std::time::Duration;

use crate::common::{Ingest, TIMEOUT, lines_of, payload, stored};

#[test]
fn a_collection_is_accepted_and_each_payload_stored_once() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &[]);
    let mut client = ingest.connect();
    let answer = client.post("{\"payloads\": [{\"id\": \"a\", \"x\": [1,\n2]}, {\"id\": \"b\"}]}");
    assert_eq!((answer.status, answer.body.as_str()), (202, "{\"accepted\":2}\n"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(client.post(&payload("c")).status, 202, "the connection is kept alive");
    ingest.terminate();
    let (status, words) = ingest.end();
    assert!(status.success(), "{words}");
    assert!(words.starts_with("3 payloads accepted, 3 stored in "), "{words}");
    assert_eq!(
        stored(folder.path()),
        ["{\"id\": \"a\", \"x\": [1, 2]}", "{\"id\": \"b\"}", "{\"id\":\"c\"}"]
    );
}

#[test]
fn what_is_not_a_collection_is_answered_400() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &[]);
    let mut client = ingest.connect();
    for (body, says) in [
        ("", "not a collection of payloads"),
        ("{\"payloads\": [", "not a collection of payloads"),
        ("{\"payload\": []}", "missing field `payloads`"),
        ("{\"payloads\": []}", "at least one payload"),
        ("{\"payloads\": [{\"id\": \"a\"}, {}]}", "payload 1 "),
        ("{\"payloads\": [{\"id\": \"\"}]}", "the id of payload 0 "),
    ] {
        let answer = client.post(body);
        assert_eq!(answer.status, 400, "{body}");
        assert!(answer.body.contains(says), "{body}: {}", answer.body);
    }
    ingest.terminate();
    assert!(ingest.end().0.success());
    assert!(stored(folder.path()).is_empty());
}

#[test]
fn another_path_is_answered_404_and_another_method_405() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &[]);
    let mut client = ingest.connect();
    client.send("GET /payloads HTTP/1.1\r\nhost: x\r\n\r\n");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    client.send("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    assert_eq!(client.answer().status, 404);
}

#[test]
fn a_body_over_the_limit_is_answered_413() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &["--body", "100"]);
    let fits = payload(&"x".repeat(76));
    assert_eq!(fits.len(), 100);
    assert_eq!(ingest.post(&fits).status, 202);
    assert_eq!(ingest.post(&payload(&"x".repeat(77))).status, 413);

    let mut client = ingest.connect();
    client.send("POST /payloads HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(&format!("65\r\n{}\r\n0\r\n\r\n", payload(&"x".repeat(77))));
    assert_eq!(client.answer().status, 413, "it did not say its length");
    client = ingest.connect();
    client.send("POST /payloads HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n");
    client.send(&format!("64\r\n{fits}\r\n0\r\n\r\n"));
    assert_eq!(client.answer().status, 202);
}

#[test]
fn a_body_that_does_not_arrive_is_answered_408() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &["--patience", "3000"]);
    let mut client = ingest.connect();
    client.send("POST /payloads HTTP/1.1\r\nhost: x\r\ncontent-length: 20\r\n\r\n{\"pay");
    assert_eq!(client.answer().status, 408);
}

#[test]
fn without_room_a_request_is_answered_503() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &["--room", "100", "--body", "100"]);
    let (first, second) = (payload("first"), payload("second"));
    let mut client = ingest.connect();
    // `100 Continue` shows that the room of the request is taken.
    client.send(&format!(
        "POST /payloads HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n",
        100
    ));
    assert_eq!(client.answer().status, 100);

    let answer = ingest.post(&second);
    assert_eq!((answer.status, answer.header("retry-after")), (503, Some("1")));

    client.send(&format!("{first}{}", " ".repeat(100 - first.len())));
    assert_eq!(client.answer().status, 202);
    let accepted = std::iter::repeat_with(|| ingest.post(&second).status).find(|status| *status != 503);
    assert_eq!(accepted, Some(202), "room comes back once the batch is stored");
    ingest.terminate();
    assert!(ingest.end().0.success());
    assert_eq!(stored(folder.path()), lines_of(&["first".to_owned(), "second".to_owned()]));
}

#[test]
fn a_connection_beyond_the_limit_waits_for_another_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let ingest = Ingest::start(folder.path(), &["--connections", "1"]);
    let mut first = ingest.connect();
    assert_eq!(first.post(&payload("a")).status, 202);
    let mut second = ingest.connect();
    let body = payload("b");
    second
        .send(&format!("POST /payloads HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
    second.0.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let early = second.0.peek(&mut [0]);
    assert_eq!(early.unwrap_err().kind(), ErrorKind::WouldBlock);
    drop(first);
    second.0.set_read_timeout(Some(TIMEOUT)).unwrap();
    assert_eq!(second.answer().status, 202);
}
