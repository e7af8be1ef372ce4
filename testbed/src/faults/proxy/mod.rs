//! A proxy that understands the protocol, and can lose requests and replies.

#![expect(
    clippy::disallowed_methods,
    reason = "its own thread, runtime and clock, so that no blocked test stops it"
)]

mod action;
mod address;
mod link;
mod listen;
mod pg_frame;
mod postgres;
mod redis;
mod request;
mod resp;
mod rewrite;
mod state;
mod stop;
mod when;
mod wire;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::time::timeout;

use crate::servers::{free_port, wait_until};

pub use action::{Action, Then};
pub use request::Request;
pub use state::{ConnectionCounts, Direction, Mark, Scope};
pub use when::When;

use address::Protocol;
use rewrite::Rewrite;
use state::{Armed, End, Shared, State};

const BIND_ATTEMPTS: usize = 5;
const REPORTED: usize = 24;
/// Time limit for the proxy's thread to carry out a request, on a busy machine.
const THREAD_LIMIT: Duration = Duration::from_secs(10);

/// A TCP proxy on a free port of 127.0.0.1 in front of one Redis or Postgres, for tests in which a
/// connection must fail at a given request.
///
/// It counts requests and replies and matches them, also when they are pipelined. One Redis command
/// is one request. For Postgres, one request is a simple query, or a `Sync` with all messages
/// before it; the start-up of a connection and its request for encryption count as well.
/// Unsolicited messages of the server (push messages, notifications, notices) are forwarded
/// separately. [Rules](Self::on) inject faults into single requests, and methods into all
/// connections at once. A fault is in effect when the call returns, for bytes that the proxy has
/// not written by then.
///
/// It runs on a thread of its own, so it continues when a test blocks. Its methods may be called
/// from anywhere; methods that are not async may block for some milliseconds.
///
/// # Limits
///
/// * Encrypted traffic is not counted, and rules do not match it; black holes, resets and refusals
///   work.
/// * A connection into a black hole is accepted, by the kernel, and then silent. A connection to a
///   dead server is accepted, too, and then reset.
/// * Cluster nodes and Sentinels send clients to other addresses, past the proxy.
/// * Not supported: `MONITOR`, `CLIENT REPLY OFF` and Postgres's `COPY FROM STDIN` by the extended
///   protocol.
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
    /// Starts a proxy in front of the server of this URL: `redis:`, `rediss:` or `postgres:`, with
    /// one host. The server need not run yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] for any other URL; otherwise the system's error for a port or a
    /// thread.
    pub fn to(url: &str) -> io::Result<Self> {
        let (protocol, server) = address::server(url)?;
        let listener = listener()?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::new());
        let thread = Some(listen::spawn(listener, server, protocol, Arc::clone(&shared))?);
        Ok(Self { shared, protocol, port, thread })
    }

    /// Returns `server`, a URL of the same server with any user and parameters, with the proxy's
    /// host and port.
    pub fn url(&self, server: &str) -> String {
        address::with_port(server, self.port)
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Adds a rule: from now on, `action` applies to the requests that `when` matches.
    ///
    /// It stays until it is [removed](Rule::remove), or [`clear_rules`](Self::clear_rules) removes
    /// all rules. Dropping the handle removes nothing.
    pub fn on(&self, when: When, action: Action) -> Rule {
        let number = self.shared.change(|state| {
            state.next_rule += 1;
            state.rules.push(Armed { number: state.next_rule, when, action, met: 0 });
            state.next_rule
        });
        Rule { shared: Arc::clone(&self.shared), number }
    }

    /// Delays every login from now on: the first request of each connection, and all requests after
    /// it, reach the server later by `by`. Connections that have logged in are not affected.
    ///
    /// [`connections`](Self::connections) shows how many logins were begun.
    pub fn slow_logins(&self, by: Duration) -> Rule {
        self.on(When::each().matching(|request| request.number == 1), Action::DelayRequest(by))
    }

    /// Replaces a text in the commands of Redis clients by another one from now on, mainly in
    /// scripts. While such a rule exists, the server does not find any script that is called by its
    /// hash, so that the client sends the script's text.
    ///
    /// The rule has acted when a text was replaced. Several rules act one after the other, the
    /// oldest first.
    ///
    /// # Panics
    ///
    /// In front of a Postgres: there, a test can replace functions on the server.
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

    /// Removes all rules. Actions on requests that were already matched stay.
    pub fn clear_rules(&self) {
        self.shared.change(|state| {
            state.rules.clear();
            state.rewrites.clear();
        });
    }

    /// Holds back all bytes in this direction, on existing and new connections. No connection is
    /// closed, the end of a connection is held back as well, and the proxy still counts what it
    /// reads.
    pub fn black_hole(&self, direction: Direction) {
        self.black_hole_for(Scope::All, direction);
    }

    /// Does the same as [`black_hole`](Self::black_hole) for some connections.
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

    /// Ends black holes, [refusal](Self::refuse) and the [loss of
    /// wake-ups](Self::swallow_wake_ups). Bytes that black holes held back are delivered in order.
    /// Rules stay.
    pub fn heal(&self) {
        self.mend(|_| {});
    }

    /// Does the same as [`heal`](Self::heal), but resets the connections in a black hole; the bytes
    /// held back are lost.
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

    /// Swallows wake-ups, and nothing else, until [`heal`](Self::heal): Postgres's notifications,
    /// messages of Redis's channels, and the replies of `BLPOP`, `BRPOP` and `BLMPOP` with an
    /// element.
    ///
    /// The popped element is gone, as if the reply was lost. After the pop's time limit, the client
    /// gets the reply that nothing came; a pop without a time limit gets no reply.
    pub fn swallow_wake_ups(&self) {
        self.shared.change(|state| state.swallows_wake_ups = true);
    }

    /// Returns how many wake-ups were swallowed so far.
    pub fn swallowed(&self) -> u64 {
        self.shared.state().swallowed
    }

    /// Ends all connections in an orderly way (FIN) at once. Bytes in flight or held back are lost.
    ///
    /// Returns how many connections there were.
    pub fn close(&self) -> usize {
        self.end(End::Fin)
    }

    /// Resets all connections (RST). Returns how many connections there were.
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
        wait_until(THREAD_LIMIT, || {
            let state = self.shared.state();
            let ending =
                state.connections.values().any(|tracked| tracked.end.is_some() && tracked.counts.open);
            (!ending).then_some(())
        });
    }

    /// Refuses new connections, like a server that does not run, until [`heal`](Self::heal).
    pub fn refuse(&self) {
        self.shared.change(|state| state.refusing = true);
        self.await_listener(false);
    }

    fn await_listener(&self, listening: bool) {
        wait_until(THREAD_LIMIT, || (self.shared.state().listening == listening).then_some(()));
    }

    /// Marks the present moment, for queries about the requests since then.
    pub fn mark(&self) -> Mark {
        Mark(self.requests())
    }

    /// Returns how many requests were seen so far, on all connections.
    pub fn requests(&self) -> u64 {
        self.shared.state().requests
    }

    /// Returns how many requests were seen since `mark`.
    pub fn requests_since(&self, mark: Mark) -> u64 {
        self.requests().saturating_sub(mark.0)
    }

    /// Returns how many replies were seen so far, on all connections, including dropped ones.
    pub fn replies(&self) -> u64 {
        self.shared.state().replies
    }

    /// Returns the counts of each connection, including ended ones.
    pub fn connections(&self) -> Vec<ConnectionCounts> {
        self.shared.state().connections.values().map(|tracked| tracked.counts).collect()
    }

    /// Returns the requests since `since` for which `predicate` is true, among the last 4096
    /// requests.
    pub fn requests_matching(&self, since: Mark, predicate: impl Fn(&Request) -> bool) -> Vec<Request> {
        let log: Vec<_> = self.shared.state().log.iter().cloned().collect();
        log.into_iter().filter(|request| request.sequence > since.0 && predicate(request)).collect()
    }

    /// Waits until `count` requests were seen since `since`, for at most `limit`. Returns whether
    /// they were.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_for_requests(&self, since: Mark, count: u64, limit: Duration) -> bool {
        let seen = self.shared.until(|state| (state.requests >= since.0 + count).then_some(()));
        timeout(limit, seen).await.is_ok()
    }

    /// Returns the last requests and the counts, a line each, for the message of a failing test.
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
    /// Returns how often the rule has acted: on a request when it was seen, on a reply when it came
    /// from the server.
    pub fn fired(&self) -> u64 {
        self.shared.fired(self.number)
    }

    /// Waits until the rule has acted, for at most `limit`. Returns whether it has.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future has no effect.
    pub async fn wait_fired(&self, limit: Duration) -> bool {
        let fired = self.shared.until(|_| (self.fired() > 0).then_some(()));
        timeout(limit, fired).await.is_ok()
    }

    /// Removes the rule. Actions on requests that were already matched stay.
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
            // The thread's panic was printed; a second one here would hide the test's own.
            let _ = thread.join();
        }
    }
}
