//! Elections of three processes whose leader is killed, stopped and cut off in turn: never do two
//! act, and there is a new leader in time. `STANCHION_ELECTION_ROUNDS` says how many times each.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use stanchion_conformance::stopwatch::{EPSILON, Stopwatch};
use stanchion_conformance::support::POLL_FLOOR;
use stanchion_testbed::faults::{Direction, Process, Proxy};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer, RedisOptions, RedisServer};

const TTL: Duration = Duration::from_secs(2);
/// Maximum time until the next leader acts. Nobody is told of the end of a session: who is next
/// learns it by its poll (C14).
const FOLLOWED: Duration = TTL.saturating_add(POLL_FLOOR).saturating_add(EPSILON);
/// Time in which a leader that was overtaken would write again.
const WATCHED: Duration = Duration::from_millis(300);
const LABELS: [&str; 3] = ["ada", "grace", "joan"];

/// What the leaders wrote.
#[derive(Debug, Default)]
struct Ledger {
    /// The largest token, and who wrote with it.
    newest: (u64, String),
    accepted: u64,
    /// Who was refused, since it wrote with a smaller token.
    refused: Vec<String>,
}

/// The ledger, and where leaders find it.
struct Served {
    ledger: Arc<Mutex<Ledger>>,
    address: SocketAddr,
}

impl Served {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, ledger) = (listener.local_addr().unwrap(), Arc::<Mutex<Ledger>>::default());
        let shared = Arc::clone(&ledger);
        thread::spawn(move || {
            for link in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(link, &shared));
            }
        });
        Self { ledger, address }
    }

    fn read<T>(&self, look: impl FnOnce(&mut Ledger) -> T) -> T {
        look(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until somebody has written with a larger token than `than`.
    fn next_leader(&self, than: u64, limit: Duration, why: &str) -> (u64, String) {
        let watch = Stopwatch::start();
        loop {
            let newest = self.read(|ledger| ledger.newest.clone());
            if newest.0 > than {
                return newest;
            }
            assert!(watch.elapsed() < limit, "{why}: no new leader within {limit:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Answers the writes of one candidate.
fn serve(link: TcpStream, ledger: &Mutex<Ledger>) {
    link.set_nodelay(true).unwrap();
    let mut answers = link.try_clone().unwrap();
    for line in BufReader::new(link).lines().map_while(Result::ok) {
        let (label, token) = line.split_once(' ').unwrap();
        let token: u64 = token.parse().unwrap();
        let answer = {
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            if token < ledger.newest.0 {
                ledger.refused.push(label.to_owned());
                "refused\n"
            } else {
                ledger.newest = (token, label.to_owned());
                ledger.accepted += 1;
                "accepted\n"
            }
        };
        // A candidate that was killed waits for no answer.
        if answers.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

struct Candidate {
    label: &'static str,
    proxy: Proxy,
    command: Command,
    process: Process,
}

impl Candidate {
    fn start(label: &'static str, url: &str, ttl: &str, ledger: SocketAddr) -> Self {
        let proxy = Proxy::to(url).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_candidate"));
        command.args([&proxy.url(url), label, &ledger.to_string(), ttl]).stdin(Stdio::null());
        let process = Process::spawn(&mut command).unwrap();
        Self { label, proxy, command, process }
    }
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    Kill,
    Stop,
    Cut,
}

fn rounds() -> usize {
    std::env::var("STANCHION_ELECTION_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

/// `ttl` is the lease of a term, where the URL does not tell it.
fn one_leads_whatever_happens_to_it(url: &str, ttl: &str) {
    let served = Served::start();
    let mut candidates = LABELS.map(|label| Candidate::start(label, url, ttl, served.address));
    let (mut token, mut leader) = served.next_leader(0, Duration::from_secs(30), "at the start");
    let mut longest = Duration::ZERO;
    for fault in [Fault::Kill, Fault::Stop, Fault::Cut].into_iter().cycle().take(rounds() * 3) {
        let place = candidates.iter().position(|candidate| candidate.label == leader).unwrap();
        let candidate = &mut candidates[place];
        served.read(|ledger| ledger.refused.clear());
        match fault {
            Fault::Kill => drop(candidate.process.kill().unwrap()),
            Fault::Stop => candidate.process.stop().unwrap(),
            Fault::Cut => candidate.proxy.black_hole(Direction::Both),
        }
        let watch = Stopwatch::start();
        let next = served.next_leader(token, FOLLOWED, &format!("{fault:?} of {leader}"));
        longest = longest.max(watch.elapsed());
        assert_ne!(next.1, leader, "{fault:?}");
        match fault {
            Fault::Kill => candidate.process = Process::spawn(&mut candidate.command).unwrap(),
            Fault::Stop => candidate.process.resume().unwrap(),
            Fault::Cut => candidate.proxy.heal(),
        }
        thread::sleep(WATCHED);
        let refused = served.read(|ledger| ledger.refused.clone());
        // What a stopped process was about to send is sent when it goes on: the fence is there for
        // that.
        let most = usize::from(matches!(fault, Fault::Stop));
        assert!(
            refused.len() <= most && refused.iter().all(|label| *label == leader),
            "{fault:?}: {refused:?}"
        );
        (token, leader) = next;
    }
    for candidate in &mut candidates {
        candidate.process.kill().unwrap();
    }
    let accepted = served.read(|ledger| ledger.accepted);
    println!("{} faults, {accepted} writes, a new leader after {longest:?} at most", rounds() * 3);
}

#[test]
fn m1_one_leads_on_redis() {
    let server = RedisServer::start(RedisOptions::default()).unwrap();
    one_leads_whatever_happens_to_it(&server.url(), &TTL.as_millis().to_string());
}

#[test]
fn m1_one_leads_on_postgres_leases() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    one_leads_whatever_happens_to_it(&server.url(), &TTL.as_millis().to_string());
}

#[test]
fn m1_one_leads_on_postgres_sessions() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    let url = format!("{}?mutex=session&session_ttl_ms={}", server.url(), TTL.as_millis());
    one_leads_whatever_happens_to_it(&url, "-");
}
