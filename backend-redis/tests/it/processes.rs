//! Processes that insert the same items into one filter. Each item is new to one process (B3).

#![cfg(feature = "bloom")]
#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests own their runtimes, and fail by panic"
)]

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use stanchion_core::{BloomOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisOptions, RedisServer};

const PROCESSES: usize = 8;
const BATCH: usize = 500;
/// Time limit of a request.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The environment variable of a child: its number, and the URL.
const CHILD: &str = "STANCHION_BLOOM_CHILD";

/// Returns the number of items.
fn count() -> usize {
    env::var("STANCHION_BLOOM_ITEMS").map_or(20_000, |count| count.parse().unwrap())
}

/// The child process. It connects, prints that it is ready, waits for a line, inserts all items,
/// and prints which were new. Half of the processes begin at the first item, and each of the others
/// elsewhere.
#[tokio::main(flavor = "current_thread")]
async fn insert(number: usize, url: &str) {
    // An insert with an unknown outcome may be reported as new to no process: no request may time
    // out, however busy the machine is.
    let builder = RedisStore::builder(url).unwrap().request_timeout(TIMEOUT);
    let store = builder.connect().await.unwrap();
    let options = BloomOptions::new(count() as u64, 1e-6);
    let filter = store.bloom_filter("items", options).unwrap();
    println!("\nready");
    std::io::stdin().lines().next().unwrap().unwrap();
    let first = if number.is_multiple_of(2) { 0 } else { number * count() / PROCESSES };
    let order: Vec<usize> = (0..count()).map(|at| (first + at) % count()).collect();
    for places in order.chunks(BATCH) {
        let items: Vec<String> = places.iter().map(|place| format!("item {place}")).collect();
        let items: Vec<&[u8]> = items.iter().map(String::as_bytes).collect();
        let news = filter.insert_many(&items).await.unwrap();
        let new = places.iter().zip(news).filter(|(_, new)| *new);
        let line: Vec<String> = new.map(|(place, _)| place.to_string()).collect();
        println!("new {}", line.join(" "));
    }
    println!("done");
    std::io::stdout().flush().unwrap();
}

struct Worker {
    child: Child,
    told: ChildStdin,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(test: &str, number: usize, url: &str) -> Self {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .env(CHILD, format!("{number} {url}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { told: child.stdin.take().unwrap(), child, lines }
    }

    /// Returns the lines that the process prints up to this one.
    fn until(&mut self, last: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line =
                self.lines.next().unwrap_or_else(|| panic!("the process ended before {last:?}")).unwrap();
            if line == last {
                return lines;
            }
            lines.push(line);
        }
    }
}

#[test]
fn b3_each_item_is_new_to_one_of_eight_processes() {
    if let Ok(asked) = env::var(CHILD) {
        let (number, url) = asked.split_once(' ').unwrap();
        return insert(number.parse().unwrap(), url);
    }
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    let start = |number| {
        Worker::start("processes::b3_each_item_is_new_to_one_of_eight_processes", number, &server.url())
    };
    let mut workers: Vec<_> = (0..PROCESSES).map(start).collect();
    workers.iter_mut().for_each(|worker| drop(worker.until("ready")));
    workers.iter_mut().for_each(|worker| writeln!(worker.told, "go").unwrap());
    let (mut times, mut busy) = (vec![0_u32; count()], 0);
    for worker in &mut workers {
        let lines = worker.until("done");
        let new = lines.iter().filter_map(|line| line.strip_prefix("new "));
        let before: u32 = times.iter().sum();
        new.flat_map(|places| places.split(' ').filter(|place| !place.is_empty()))
            .for_each(|place| times[place.parse::<usize>().unwrap()] += 1);
        busy += u32::from(times.iter().sum::<u32>() > before);
        assert!(worker.child.wait().unwrap().success());
    }
    let twice = times.iter().filter(|times| **times > 1).count();
    let never = times.iter().filter(|times| **times == 0).count();
    println!("{} items, {PROCESSES} processes, of which {busy} found new ones", times.len());
    println!("new twice: {twice}");
    println!("never new: {never}");
    assert_eq!(twice, 0);
    assert!(never * 10_000 <= times.len(), "{never} of {}", times.len());
}
