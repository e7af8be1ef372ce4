//! Objects in a store that speaks S3's protocol, also when the store's answer is lost.

#![cfg(feature = "s3")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::common::{Ingest, lines_of, payload};

/// The part of the protocol that stores an object. The answer to the first request is lost.
#[derive(Default)]
struct Bucket {
    objects: Mutex<BTreeMap<String, String>>,
    puts: Mutex<usize>,
}

impl Bucket {
    fn serve(self: Arc<Self>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let bucket = Arc::clone(&self);
                std::thread::spawn(move || bucket.answer(stream.unwrap()));
            }
        });
        address
    }

    fn answer(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        while let Some((path, body)) = put(&mut reader) {
            self.objects.lock().unwrap().insert(path, body);
            let mut puts = self.puts.lock().unwrap();
            *puts += 1;
            if *puts == 1 {
                return;
            }
            let answer = b"HTTP/1.1 200 OK\r\netag: \"x\"\r\ncontent-length: 0\r\n\r\n";
            reader.get_mut().write_all(answer).unwrap();
        }
    }
}

/// Reads the path and the body of the next request; `None` at the end of the connection.
fn put(reader: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|length| *length > 0)?;
    let path = line.strip_prefix("PUT ").unwrap().split(' ').next().unwrap().to_owned();
    let mut length = 0;
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).unwrap();
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some((path, String::from_utf8(body).unwrap()))
}

#[test]
fn each_payload_is_stored_once_by_url() {
    let bucket = Arc::new(Bucket::default());
    let endpoint = format!("http://{}", Arc::clone(&bucket).serve());
    let environment = [
        ("AWS_ENDPOINT", endpoint.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "test"),
        ("AWS_SECRET_ACCESS_KEY", "test"),
        ("AWS_REGION", "us-east-1"),
    ];
    let ingest = Ingest::start_at("s3://bucket/folder", &["--batch", "1"], &environment);
    let ids: Vec<_> = (0..20).map(|number| format!("payload-{number}")).collect();
    let mut client = ingest.connect();
    for id in &ids {
        assert_eq!(client.post(&payload(id)).status, 202);
    }
    ingest.terminate();
    let (status, words) = ingest.end();
    assert!(status.success(), "{words}");

    let objects = bucket.objects.lock().unwrap();
    assert!(objects.keys().all(|path| path.starts_with("/bucket/folder/")), "{objects:?}");
    let mut lines: Vec<_> = objects.values().flat_map(|object| object.lines().map(str::to_owned)).collect();
    lines.sort();
    assert_eq!(lines, lines_of(&ids));
    assert!(*bucket.puts.lock().unwrap() > objects.len(), "the lost answer cost no second attempt");
}
