//! A proxy that knows what it carries, and can lose it.

#![expect(
    clippy::disallowed_methods,
    reason = "its own thread, runtime and clock, so that no blocked test stops it"
)]

mod address;
mod link;
mod listen;
mod pg_frame;
mod postgres;
mod redis;
mod resp;
mod rewrite;
mod rule;
mod state;
mod wire;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::timeout;

use crate::servers::{free_port, wait_until};

pub use rule::{Action, Then, When};
pub use state::{ConnectionCounts, Direction, Mark, Request, Scope};

use address::Protocol;
use rewrite::Rewrite;
use state::{Armed, End, Shared, State};

const BIND_ATTEMPTS: usize = 5;
const REPORTED: usize = 24;
/// How long the proxy's thread may take to do what it is told, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// A TCP proxy on a free port of 127.0.0.1 in front of one Redis or Postgres, for tests that need a link to fail at a
/// given request.
///
/// It counts requests and replies and matches them, also when they are pipelined: one Redis command is one request, and
/// one `Sync` or simple query with all that belongs to it is one request to Postgres, the start-up of a connection
/// and its wish for encryption included. What a server says unasked (push messages, notifications, notices) passes by
/// itself. Faults are made by [rules](Self::on) for single requests and by methods for all at once; they are in
/// effect when the call returns, for bytes that the proxy has not written by then.
///
/// It runs on a thread of its own, so that it goes on when a test blocks; its methods may be called from anywhere, those
/// that are not async may block for some milliseconds.
///
/// # Limits
///
/// * What is encrypted passes uncounted, and rules do not meet it; black holes, resets and refusals work.
/// * A connection into a black hole is accepted, by the kernel, and then silent. So is one to a dead server, and then
///   reset.
/// * Cluster nodes and Sentinels send clients to other addresses, past the proxy.
/// * Not understood: `MONITOR`, `CLIENT REPLY OFF` and Postgres's `COPY FROM STDIN` by the extended protocol.
///
/// # Drop
///
/// Ends all its connections.
pub struct Proxy {
    shared: Arc<Shared>,
    protocol: Protocol,
    port: u16,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of the server of this URL: `redis:`, `rediss:` or `postgres:`, with one host. The server
    /// need not run yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for any other URL, else what the system says to a port and a thread.
    pub fn to(url: &str) -> io::Result<Self> {
        let (protocol, server) = address::server(url)?;
        let listener = listener()?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::new());
        let thread = Some(listen::spawn(listener, server, protocol, Arc::clone(&shared))?);
        Ok(Self { shared, protocol, port, thread })
    }

    /// A URL of the server, of whatever user and parameters, with the proxy's host and port in it.
    pub fn url(&self, server: &str) -> String {
        address::with_port(server, self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Adds a rule: what `action` does to the requests that `when` meets, from now on.
    ///
    /// It stays until it is [removed](Rule::remove), or all are by [`clear_rules`](Self::clear_rules); dropping the handle
    /// removes nothing.
    pub fn on(&self, when: When, action: Action) -> Rule {
        let number = self.shared.change(|state| {
            state.next_rule += 1;
            state.rules.push(Armed { number: state.next_rule, when, action, met: 0 });
            state.next_rule
        });
        Rule { shared: Arc::clone(&self.shared), number }
    }

    /// Has every login take so much longer, from now on: the first request of each connection, and with it all that
    /// follow, reach the server so much later. Connections that have logged in are as fast as ever.
    ///
    /// [`connections`](Self::connections) tells how many logins were begun.
    pub fn slow_logins(&self, by: Duration) -> Rule {
        self.on(When::each().matching(|request| request.number == 1), Action::DelayRequest(by))
    }

    /// Has a text in the commands of Redis clients replaced by another, from now on, wherever it stands: in scripts above
    /// all. A script that is called by its hash is not found then, whichever it is, so that the client sends its text.
    ///
    /// The rule has acted when a text was replaced. Several act one after the other, the oldest first.
    ///
    /// # Panics
    ///
    /// In front of a Postgres, whose functions can be replaced on the server.
    pub fn rewrite(&self, from: &str, to: &str) -> Rule {
        assert_eq!(self.protocol, Protocol::Redis, "only commands of Redis can be rewritten");
        let number = self.shared.change(|state| {
            state.next_rule += 1;
            let rewrite = Rewrite { number: state.next_rule, from: from.to_owned(), to: to.to_owned() };
            state.rewrites.push(rewrite);
            state.next_rule
        });
        Rule { shared: Arc::clone(&self.shared), number }
    }

    /// Removes all rules. What they do to requests that were already met stays.
    pub fn clear_rules(&self) {
        self.shared.change(|state| {
            state.rules.clear();
            state.rewrites.clear();
        });
    }

    /// Lets nothing pass in this direction any more on all connections, also those to come. Nothing is closed, ends of
    /// connections do not pass either, and the proxy still counts what it reads.
    pub fn black_hole(&self, direction: Direction) {
        self.black_hole_for(Scope::All, direction);
    }

    /// As [`black_hole`](Self::black_hole), for some connections.
    pub fn black_hole_for(&self, scope: Scope, direction: Direction) {
        let add = |held: &mut [bool; 2]| {
            held.iter_mut().zip(direction.ways()).for_each(|(held, now)| *held |= now);
        };
        self.shared.change(|state| {
            let existing = |number| match scope {
                Scope::All | Scope::Existing => true,
                Scope::New => false,
                Scope::One(one) => one == number,
            };
            let tracked = state.connections.iter_mut().filter(|(number, _)| existing(**number));
            tracked.for_each(|(_, tracked)| add(&mut tracked.held));
            if matches!(scope, Scope::All | Scope::New) {
                add(&mut state.held);
            }
        });
    }

    /// Makes the link whole: ends black holes, [refusal](Self::refuse) and the [loss of
    /// wake-ups](Self::swallow_wake_ups). What black holes held back is delivered in order. Rules stay.
    pub fn heal(&self) {
        self.mend(|_| {});
    }

    /// As [`heal`](Self::heal), but connections that a black hole has are reset, and what it held back is lost.
    pub fn heal_by_reset(&self) {
        self.mend(|state| {
            let held = state.connections.values_mut().filter(|tracked| tracked.held != [false; 2]);
            held.for_each(|tracked| tracked.end = Some(End::Reset));
        });
        self.await_ends();
    }

    fn mend(&self, first: impl FnOnce(&mut State)) {
        self.shared.change(|state| {
            first(state);
            state.connections.values_mut().filter(|tracked| tracked.end.is_none()).for_each(|tracked| {
                tracked.held = [false; 2];
            });
            state.held = [false; 2];
            state.swallows_wake_ups = false;
            state.refusing = false;
        });
        self.await_listener(true);
    }

    /// Swallows wake-ups, and nothing else, until the link is [healed](Self::heal): Postgres's notifications, messages of
    /// Redis's channels, and what `BLPOP`, `BRPOP` and `BLMPOP` have popped.
    ///
    /// The popped element is gone, as when a reply is lost. The client is told that nothing came, when the pop's
    /// time limit is over; of a pop without one it hears no more.
    pub fn swallow_wake_ups(&self) {
        self.shared.change(|state| state.swallows_wake_ups = true);
    }

    /// How many wake-ups were swallowed so far.
    pub fn swallowed(&self) -> u64 {
        self.shared.state().swallowed
    }

    /// Ends all connections in an orderly way (FIN), at once, whatever is on its way or held back.
    ///
    /// Returns how many there were.
    pub fn close(&self) -> usize {
        self.end(End::Fin)
    }

    /// Resets all connections (RST). Returns how many there were.
    pub fn reset(&self) -> usize {
        self.end(End::Reset)
    }

    fn end(&self, end: End) -> usize {
        let count = self.shared.change(|state| {
            let open = state.connections.values_mut().filter(|tracked| tracked.counts.open);
            open.map(|tracked| tracked.end = Some(end)).count()
        });
        self.await_ends();
        count
    }

    fn await_ends(&self) {
        wait_until(PATIENCE, || {
            let state = self.shared.state();
            let ending =
                state.connections.values().any(|tracked| tracked.end.is_some() && tracked.counts.open);
            (!ending).then_some(())
        });
    }

    /// Refuses new connections, as a server that does not run, until the link is [healed](Self::heal).
    pub fn refuse(&self) {
        self.shared.change(|state| state.refusing = true);
        self.await_listener(false);
    }

    fn await_listener(&self, listening: bool) {
        wait_until(PATIENCE, || (self.shared.state().listening == listening).then_some(()));
    }

    /// Now, for questions about what has passed since.
    pub fn mark(&self) -> Mark {
        Mark(self.requests())
    }

    /// How many requests were seen so far, on all connections.
    pub fn requests(&self) -> u64 {
        self.shared.state().requests
    }

    /// How many requests were seen since then.
    pub fn requests_since(&self, mark: Mark) -> u64 {
        self.requests().saturating_sub(mark.0)
    }

    /// How many replies were seen so far, on all connections, also those that were dropped.
    pub fn replies(&self) -> u64 {
        self.shared.state().replies
    }

    /// The counts of each connection, also of those that have ended.
    pub fn connections(&self) -> Vec<ConnectionCounts> {
        self.shared.state().connections.values().map(|tracked| tracked.counts).collect()
    }

    /// The requests since then for which `predicate` says yes, among the last 4096 of all.
    pub fn requests_matching(&self, since: Mark, predicate: impl Fn(&Request) -> bool) -> Vec<Request> {
        let log: Vec<_> = self.shared.state().log.iter().cloned().collect();
        log.into_iter().filter(|request| request.sequence > since.0 && predicate(request)).collect()
    }

    /// Waits until `count` requests were seen since then, for at most `limit`; whether they were.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for_requests(&self, since: Mark, count: u64, limit: Duration) -> bool {
        let seen = self.shared.until(|state| (state.requests >= since.0 + count).then_some(()));
        timeout(limit, seen).await.is_ok()
    }

    /// The last requests and the counts, a line each, for the message of a failing test.
    pub fn report(&self) -> String {
        self.to_string()
    }
}

/// A rule of a [`Proxy`].
#[derive(Debug, Clone)]
pub struct Rule {
    shared: Arc<Shared>,
    number: u64,
}

impl Rule {
    /// How often it has acted: on a request when that was seen, on a reply when it had come from the server.
    pub fn fired(&self) -> u64 {
        self.shared.fired(self.number)
    }

    /// Waits until it has acted, for at most `limit`; whether it has.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_fired(&self, limit: Duration) -> bool {
        let fired = self.shared.until(|_| (self.fired() > 0).then_some(()));
        timeout(limit, fired).await.is_ok()
    }

    /// Removes it. What it does to requests that were already met stays.
    pub fn remove(&self) {
        self.shared.change(|state| {
            state.rules.retain(|rule| rule.number != self.number);
            state.rewrites.retain(|rewrite| rewrite.number != self.number);
        });
    }
}

fn listener() -> io::Result<TcpListener> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for _ in 0..BIND_ATTEMPTS {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, free_port()?)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.shared.state();
        let State { requests, replies, swallowed, .. } = *state;
        writeln!(f, "{requests} requests, {replies} replies, {swallowed} wake-ups swallowed")?;
        for tracked in state.connections.values().filter(|tracked| tracked.counts.open) {
            writeln!(f, "{:?}, held back to server and client: {:?}", tracked.counts, tracked.held)?;
        }
        let skipped = state.log.len().saturating_sub(REPORTED);
        state.log.iter().skip(skipped).try_for_each(|request| writeln!(f, "{request}"))
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.change(|state| state.stopped = true);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed, and a second one here would hide the test's own.
            let _ = thread.join();
        }
    }
}
