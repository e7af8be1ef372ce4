//! Wake-ups on one server: one blocking pop over the mailboxes of all namespaces of a store, those
//! that are waited on.

use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use redis::Cmd;
use stanchion_core::clock::now;
use stanchion_core::spi::HintBox;
use stanchion_core::{Result, Ticket};
use tokio::sync::Notify;

use super::{Hint, POP_TIMEOUT, pop, popped};
use crate::connection::Connection;
use crate::connector::Connect;
use crate::error;
use crate::keys::{Keyspace, STRIPES};
use crate::pool::Pool;

/// The hints to one namespace.
pub(crate) struct Inbox {
    /// How its keys begin.
    prefix: String,
    /// One for each stripe.
    boxes: Vec<String>,
    /// Number of objects that are waited for, stripe by stripe.
    watched: [AtomicUsize; STRIPES],
    /// Those that another namespace's call has received.
    hints: HintBox,
}

/// Pushes an element that is no hint. With its end in one step: a mailbox that nobody pops from any
/// more does not stay.
const NUDGE: &str = "redis.call('RPUSH', KEYS[1], '') return redis.call('PEXPIRE', KEYS[1], ARGV[1])";

/// The stripes of a namespace, a bit for each.
type Stripes = u32;

#[derive(Default)]
struct Inboxes {
    all: Vec<Entry>,
}

struct Entry {
    inbox: Weak<Inbox>,
    /// Those that objects were waited for in since the last pop began.
    lately: Stripes,
    /// Those that the last pop waits for.
    popped: Stripes,
}

impl Inbox {
    /// Returns the stripes in which objects are waited for.
    fn watched(&self) -> Stripes {
        (0..STRIPES).filter(|stripe| self.watched[*stripe].load(Relaxed) > 0).map(bit).sum()
    }
}

fn bit(stripe: usize) -> Stripes {
    1 << stripe
}

/// The wake-ups of one server.
pub(crate) struct ServerWake {
    connector: Arc<dyn Connect>,
    timeout: Duration,
    /// Ends a pop that does not wait for a box it should wait for.
    nudges: Arc<Pool>,
    inboxes: Mutex<Inboxes>,
    /// Whoever has it waits for all namespaces. It is taken out while in use: a call that is
    /// dropped half way drops its connection, which a pop still blocks.
    connection: tokio::sync::Mutex<Option<Connection>>,
    /// Another namespace is waited for.
    changed: Notify,
    /// How often the server was to be left.
    departures: AtomicU64,
    left: Notify,
}

impl ServerWake {
    /// `timeout` is how late an answer may be, `nudges` leads to the same server.
    pub(crate) fn new(connector: Arc<dyn Connect>, timeout: Duration, nudges: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self {
            connector,
            timeout,
            nudges,
            inboxes: Mutex::default(),
            connection: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            departures: AtomicU64::new(0),
            left: Notify::new(),
        })
    }

    /// Makes the inbox of a namespace over the mailboxes of the process.
    pub(super) fn open(&self, keyspace: &Keyspace, boxes: Vec<String>) -> Arc<Inbox> {
        let prefix = format!("{{{}/", keyspace.namespace());
        let (hints, watched) = (HintBox::default(), Default::default());
        let inbox = Arc::new(Inbox { prefix, boxes, watched, hints });
        let entry = Entry { inbox: Arc::downgrade(&inbox), lately: 0, popped: 0 };
        self.inboxes().all.push(entry);
        inbox
    }

    /// Notes that an object of a stripe of the namespace is waited for, or no more.
    pub(super) fn watch(&self, inbox: &Inbox, stripe: usize, waited_for: bool) {
        let watched = &inbox.watched[stripe];
        if !waited_for {
            let _ = watched.fetch_update(Relaxed, Relaxed, |watched| watched.checked_sub(1));
        } else if watched.fetch_add(1, Relaxed) == 0 {
            let mut inboxes = self.inboxes();
            let Some(entry) = inboxes.all.iter_mut().find(|entry| std::ptr::eq(entry.inbox.as_ptr(), inbox))
            else {
                return;
            };
            entry.lately |= bit(stripe);
            if entry.popped & bit(stripe) == 0 {
                drop(inboxes);
                self.changed.notify_one();
            }
        }
    }

    /// Returns the next hints to a namespace, or none after a while.
    pub(super) async fn next(&self, own: &Inbox) -> Result<Vec<Ticket>> {
        loop {
            let Some(mut connection) = own.hints.lead(&self.connection).await else {
                return Ok(own.hints.take());
            };
            let Some(Hint { key, tickets }) = self.pop(own, &mut connection).await? else {
                return Ok(Vec::new());
            };
            if key.starts_with(&own.prefix) {
                return Ok(tickets);
            }
            let all: Vec<_> = self.inboxes().all.iter().filter_map(|entry| entry.inbox.upgrade()).collect();
            let to = all.iter().filter(|inbox| key.starts_with(&inbox.prefix));
            to.for_each(|inbox| inbox.hints.put(tickets.clone()));
        }
    }

    /// Waits for a hint to any namespace that is waited for, and to `own`.
    async fn pop(&self, own: &Inbox, connection: &mut Option<Connection>) -> Result<Option<Hint>> {
        let departures = self.departures.load(Relaxed);
        if self.connector.is_refused() && !self.nudges.has_any() {
            // Requests need the place of this connection.
            *connection = None;
            return Err(self.connector.unanswered());
        }
        let mut open = match connection.take().filter(|open| open.is_running()) {
            Some(open) => open,
            None => self.connector.connect().await?,
        };
        let command = self.command(own);
        let answer = {
            let mut popping = std::pin::pin!(popped(&mut open, &command, self.timeout));
            loop {
                if self.departures.load(Relaxed) != departures {
                    return Ok(None);
                }
                tokio::select! {
                    answer = &mut popping => break answer?,
                    () = self.left.notified() => {}
                    () = self.changed.notified() => self.nudge(own).await,
                }
            }
        };
        // A server that lacks a right to pop says nothing against its connection.
        let is_answered = answer.as_ref().map_or_else(|error| error.code() == Some("NOPERM"), |_| true);
        if is_answered && open.is_running() && self.departures.load(Relaxed) == departures {
            *connection = Some(open);
        }
        answer.map_err(|error| error::certain(error::of_request(error)))
    }

    /// Returns the pop over the boxes that are waited for, or were since the last one: a lock that
    /// is wanted again and again costs no nudge each time. Those of each namespace come first in
    /// their turn. If nothing of `own` is waited for, all of it is there: whoever asks can know
    /// better.
    fn command(&self, own: &Inbox) -> Cmd {
        let mut inboxes = self.inboxes();
        inboxes.all.retain(|entry| entry.inbox.strong_count() > 0);
        let turn = inboxes.all.len().min(1);
        inboxes.all.rotate_left(turn);
        let mut waited_on = Vec::new();
        for entry in &mut inboxes.all {
            let Some(inbox) = entry.inbox.upgrade() else { continue };
            entry.popped = std::mem::take(&mut entry.lately) | inbox.watched();
            if entry.popped == 0 && std::ptr::eq(&raw const *inbox, own) {
                entry.popped = (0..STRIPES).map(bit).sum();
            }
            if entry.popped > 0 {
                waited_on.push((inbox, entry.popped));
            }
        }
        drop(inboxes);
        let boxes: Vec<_> = waited_on.iter().flat_map(|(inbox, popped)| boxes(inbox, *popped)).collect();
        pop(&boxes)
    }

    /// Ends the pop under way by an element that is no hint, if it does not wait for all boxes that
    /// it should wait for.
    async fn nudge(&self, own: &Inbox) {
        let key = {
            let inboxes = self.inboxes();
            let is_missed = |entry: &Entry| {
                let watched = entry.inbox.upgrade().map_or(0, |inbox| inbox.watched());
                watched & !entry.popped != 0
            };
            if !inboxes.all.iter().any(is_missed) {
                return;
            }
            let entry = inboxes.all.iter().find(|entry| std::ptr::eq(entry.inbox.as_ptr(), own));
            entry.and_then(|entry| boxes(own, entry.popped).next())
        };
        let Some(key) = key else { return };
        let mut command = redis::cmd("EVAL");
        command.arg(NUDGE).arg(1).arg(key).arg(POP_TIMEOUT.as_millis() * 2);
        if let Err(error) = self.nudges.send(&command.into(), false, now() + self.timeout).await {
            tracing::debug!(
                error.type = error.kind().as_str(),
                exception.message = ?error,
                "a namespace's waiters ask by themselves for now"
            );
        }
    }

    /// Returns the number of open connections; one that a call waits on, or is being made, is open.
    pub(crate) fn open_connections(&self) -> usize {
        self.connection.try_lock().map_or(1, |connection| usize::from(connection.is_some()))
    }

    /// Drops the connection; the next one is made anew.
    pub(crate) fn leave(&self) {
        self.departures.fetch_add(1, Relaxed);
        if let Ok(mut connection) = self.connection.try_lock() {
            *connection = None;
        }
        self.left.notify_waiters();
    }

    fn inboxes(&self) -> MutexGuard<'_, Inboxes> {
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The boxes of these stripes.
fn boxes(inbox: &Inbox, stripes: Stripes) -> impl Iterator<Item = &String> {
    inbox
        .boxes
        .iter()
        .enumerate()
        .filter(move |(stripe, _)| stripes & bit(*stripe) != 0)
        .map(|(_, name)| name)
}

impl fmt::Debug for ServerWake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerWake").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connector::Connector;

    fn boxes_of(command: &Cmd) -> Vec<String> {
        let words: Vec<_> = command
            .args_iter()
            .filter_map(|word| match word {
                redis::Arg::Simple(word) => Some(String::from_utf8_lossy(word).into_owned()),
                _ => None,
            })
            .collect();
        words[1..words.len() - 1].to_vec()
    }

    #[test]
    fn c27_a_pop_names_only_the_boxes_that_are_waited_on() {
        let client = redis::Client::open("redis://127.0.0.1:1").unwrap();
        let connector = Arc::new(Connector::new(client.get_connection_info().clone()));
        let timeout = Duration::from_secs(1);
        let wake =
            ServerWake::new(Arc::clone(&connector) as _, timeout, Arc::new(Pool::new(connector, timeout)));
        let inboxes: Vec<_> = (0..500)
            .map(|number| {
                let boxes = (0..STRIPES).map(|stripe| format!("{number}/{stripe}")).collect();
                wake.open(&Keyspace::new(&format!("n{number}")).unwrap(), boxes)
            })
            .collect();
        assert_eq!(boxes_of(&wake.command(&inboxes[0])).len(), STRIPES, "nothing is known of it");
        for inbox in &inboxes {
            wake.watch(inbox, 3, true);
            wake.watch(inbox, 3, true);
        }
        let boxes = boxes_of(&wake.command(&inboxes[0]));
        assert!(boxes.len() == 500 && boxes.iter().all(|name| name.ends_with("/3")), "{boxes:?}");
        for inbox in &inboxes[1..] {
            wake.watch(inbox, 3, false);
            wake.watch(inbox, 3, false);
        }
        wake.watch(&inboxes[7], 5, true);
        wake.watch(&inboxes[7], 5, false);
        let mut boxes = boxes_of(&wake.command(&inboxes[0]));
        boxes.sort_unstable();
        assert_eq!(boxes, ["0/3", "7/5"], "and one that was waited on since the pop before");
        assert_eq!(boxes_of(&wake.command(&inboxes[0])), ["0/3"]);
    }
}
