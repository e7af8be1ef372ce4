//! The state that the handle, the listener and the connections of one proxy share.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::time::Instant;

use super::action::{Action, Effect, Fate, Ordered};
use super::request::Request;
use super::rewrite::{Rewrite, rewritten};
use super::when::When;

const LOGGED: usize = 4_096;
const LONGEST_TEXT: usize = 2_000;

/// A direction through the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The direction of requests.
    ToServer,
    /// The direction of replies and other messages of the server.
    ToClient,
    /// Both directions.
    Both,
}

impl Direction {
    /// Returns whether it includes the direction to the server, and the direction to the client.
    pub(super) fn ways(self) -> [bool; 2] {
        [self != Self::ToClient, self != Self::ToServer]
    }
}

/// The connections in a black hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// Existing and new connections.
    All,
    /// Existing connections only.
    Existing,
    /// New connections only.
    New,
    /// The connection with this number.
    One(u64),
}

/// A moment, by the number of requests seen before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark(pub(super) u64);

/// The counts of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ConnectionCounts {
    /// The number of the connection, from 1, in the order of their beginning.
    pub connection: u64,
    /// Requests that the client has sent, including lost ones.
    pub requests: u64,
    /// Replies that the server has sent, including lost ones.
    pub replies: u64,
    /// Whether the connection is open.
    pub open: bool,
}

/// How the proxy ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Fin,
    Reset,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) rules: Vec<Armed>,
    pub(super) rewrites: Vec<Rewrite>,
    pub(super) next_rule: u64,
    pub(super) connections: BTreeMap<u64, Tracked>,
    /// The initial `held` of new connections.
    pub(super) held: [bool; 2],
    pub(super) swallows_wake_ups: bool,
    pub(super) swallowed: u64,
    pub(super) requests: u64,
    pub(super) replies: u64,
    pub(super) log: VecDeque<Request>,
    /// The requested state, and the actual one.
    pub(super) refusing: bool,
    pub(super) listening: bool,
    pub(super) stopped: bool,
}

#[derive(Debug)]
pub(super) struct Armed {
    pub(super) number: u64,
    pub(super) when: When,
    pub(super) action: Action,
    pub(super) met: u64,
}

#[derive(Debug, Default)]
pub(super) struct Tracked {
    pub(super) counts: ConnectionCounts,
    pub(super) held: [bool; 2],
    pub(super) end: Option<End>,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changes: watch::Sender<()>,
    fired: Mutex<BTreeMap<u64, u64>>,
    start: Instant,
}

impl Shared {
    pub(super) fn new() -> Self {
        let state = State {
            rules: Vec::new(),
            rewrites: Vec::new(),
            next_rule: 0,
            connections: BTreeMap::new(),
            held: [false; 2],
            swallows_wake_ups: false,
            swallowed: 0,
            requests: 0,
            replies: 0,
            log: VecDeque::new(),
            refusing: false,
            listening: true,
            stopped: false,
        };
        let (changes, _) = watch::channel(());
        Self { state: Mutex::new(state), changes, fired: Mutex::default(), start: Instant::now() }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state and notifies all waiting tasks.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changes.send_replace(());
        result
    }

    /// Waits until `probe` returns a value for the state.
    pub(super) async fn until<T>(&self, mut probe: impl FnMut(&State) -> Option<T>) -> T {
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let answer = probe(&self.state());
            if let Some(answer) = answer {
                return answer;
            }
            // It cannot fail: the sender is in `self`.
            let _ = changes.changed().await;
        }
    }

    pub(super) fn fired(&self, rule: u64) -> u64 {
        let fired = self.fired.lock().unwrap_or_else(PoisonError::into_inner);
        fired.get(&rule).copied().unwrap_or(0)
    }
}

/// One connection's access to the shared state.
#[derive(Debug, Clone)]
pub(super) struct Ledger {
    pub(super) shared: Arc<Shared>,
    pub(super) connection: u64,
}

impl Ledger {
    /// Registers a new connection.
    pub(super) fn begin(shared: &Arc<Shared>) -> Self {
        let connection = shared.change(|state| {
            let connection = u64::try_from(state.connections.len()).unwrap_or(u64::MAX) + 1;
            let counts = ConnectionCounts { connection, open: true, ..ConnectionCounts::default() };
            state.connections.insert(connection, Tracked { counts, held: state.held, end: None });
            connection
        });
        Self { shared: Arc::clone(shared), connection }
    }

    /// Registers a request, and returns its fate.
    pub(super) fn seen(&self, name: &str, text: &str) -> Fate {
        self.shared.change(|state| {
            state.requests += 1;
            let number = state.connections.get_mut(&self.connection).map_or(0, |tracked| {
                tracked.counts.requests += 1;
                tracked.counts.requests
            });
            let mut request = Request {
                sequence: state.requests,
                connection: self.connection,
                number,
                name: name.to_owned(),
                text: text
                    .split_whitespace()
                    .collect::<Vec<_>>()
                    .join(" ")
                    .chars()
                    .take(LONGEST_TEXT)
                    .collect(),
                at: self.shared.start.elapsed(),
                actions: Vec::new(),
            };
            let mut fate = Fate::default();
            for rule in &mut state.rules {
                let admitted = rule.when.admits(&request);
                rule.met += u64::from(admitted);
                if admitted && rule.when.matches_number(rule.met) {
                    fate.add(rule.number, rule.action);
                    request.actions.push(rule.action);
                }
            }
            if state.log.len() == LOGGED {
                state.log.pop_front();
            }
            state.log.push_back(request);
            fate
        })
    }

    /// Registers a reply.
    pub(super) fn replied(&self) {
        self.shared.change(|state| {
            state.replies += 1;
            if let Some(tracked) = state.connections.get_mut(&self.connection) {
                tracked.counts.replies += 1;
            }
        });
    }

    /// Counts an effect that now happens, for its rule.
    pub(super) fn carry_out(&self, order: Option<Ordered>) -> Option<Effect> {
        let (rule, effect) = order?;
        self.count(rule);
        Some(effect)
    }

    fn count(&self, rule: u64) {
        *self.shared.fired.lock().unwrap_or_else(PoisonError::into_inner).entry(rule).or_default() += 1;
        self.shared.changes.send_replace(());
    }

    /// Returns the rewritten command, if a rewrite changes it.
    pub(super) fn rewritten(&self, command: &[u8]) -> Option<Vec<u8>> {
        let (command, done) = rewritten(command, &self.shared.state().rewrites)?;
        done.into_iter().for_each(|rule| self.count(rule));
        Some(command)
    }

    /// Returns whether this wake-up is swallowed; if so, counts it.
    pub(super) fn swallow_wake_up(&self) -> bool {
        self.shared.change(|state| {
            state.swallowed += u64::from(state.swallows_wake_ups);
            state.swallows_wake_ups
        })
    }

    /// Waits until the direction to the server (`0`) or to the client (`1`) is not held back.
    pub(super) async fn open_way(&self, way: usize) {
        let is_open = |state: &State| {
            let held = state.connections.get(&self.connection).is_some_and(|tracked| tracked.held[way]);
            (!held).then_some(())
        };
        self.shared.until(is_open).await;
    }

    /// Waits until a caller ends the connection.
    pub(super) async fn end(&self) -> End {
        let end = |state: &State| match state.connections.get(&self.connection) {
            _ if state.stopped => Some(End::Reset),
            Some(tracked) => tracked.end,
            None => Some(End::Reset),
        };
        self.shared.until(end).await
    }

    /// Registers that the connection has ended.
    pub(super) fn ended(&self) {
        self.shared.change(|state| {
            if let Some(tracked) = state.connections.get_mut(&self.connection) {
                tracked.counts.open = false;
            }
        });
    }
}
