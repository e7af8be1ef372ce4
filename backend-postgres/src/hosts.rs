//! The hosts of a store: several servers, of which one takes writes at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, PgConnection, Row, raw_sql};
use stanchion_core::clock::timeout;
use stanchion_core::connect::Backoff;
use stanchion_core::observe::events::server_fields;
use stanchion_core::{Error, ErrorKind, Result};

use crate::access::PROTOCOL;
use crate::check::{Expected, Life};
use crate::error;

/// Maximum number of hosts.
pub(crate) const MAX_HOSTS: usize = 16;
/// Minimum timeout of one attempt to connect to a host. An attempt that began in an outage ends this long after it at the
/// latest, unless a quarter of the request timeout is longer.
pub(crate) const MIN_ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);

/// What the back-off calls the hosts of a store: an attempt tries each of them once.
const HOSTS: &str = "hosts";

/// Which servers a store connects to, in the words of `libpq`.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TargetSessionAttrs {
    /// The first server that answers (the default with one host). If it is a standby, or takes no writes, connecting is
    /// refused with `UnsafeStore` ([C22]).
    ///
    /// [C22]: stanchion_core::contract#c22
    Any,
    /// The first server that takes writes (the default with several hosts). A standby, or a server where
    /// `default_transaction_read_only` is on, is passed over. The check costs one round trip for each new connection.
    ///
    /// A session that keeps mutexes in [`MutexMode::Session`](stanchion_core::MutexMode::Session) ends when its server
    /// has stopped taking writes and another host takes them, and its holds are lost: other processes may be granted the
    /// same names there.
    ReadWrite,
}

/// The hosts of a store, in the user's order. Contains passwords.
#[derive(Clone)]
pub(crate) struct Hosts {
    /// One entry for each host; never empty.
    options: Vec<PgConnectOptions>,
    target: Option<TargetSessionAttrs>,
    state: Arc<State>,
    /// Why the user's hosts were not taken.
    refused: Option<&'static str>,
}

/// What the connections of one store know of its hosts.
#[derive(Debug)]
pub(crate) struct State {
    /// Index of the host that worked last.
    last: AtomicUsize,
    backoff: Backoff,
    is_looking: AtomicBool,
    /// What each connection must find, once the store is connected.
    expected: OnceLock<Expected>,
}

impl Default for State {
    fn default() -> Self {
        let (last, is_looking) = (AtomicUsize::default(), AtomicBool::default());
        Self { last, backoff: Backoff::new("postgres"), is_looking, expected: OnceLock::new() }
    }
}

/// A session that can be made and asked.
pub(crate) trait Session: Sized + Send {
    /// Connects. `limit` is the time that the caller waits.
    fn connect(options: PgConnectOptions, limit: Duration)
    -> impl Future<Output = sqlx::Result<Self>> + Send;

    /// Returns the connection of the session.
    fn connection(&mut self) -> impl Future<Output = sqlx::Result<&mut PgConnection>> + Send;
}

impl Session for PgConnection {
    async fn connect(options: PgConnectOptions, _: Duration) -> sqlx::Result<Self> {
        Self::connect_with(&options).await
    }

    async fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        Ok(self)
    }
}

impl From<PgConnectOptions> for Hosts {
    fn from(options: PgConnectOptions) -> Self {
        Self::one(options, &Arc::default())
    }
}

impl Hosts {
    /// Makes the hosts of a URL.
    ///
    /// # Errors
    /// `InvalidArgument` for none, or too many.
    pub(crate) fn new(options: Vec<PgConnectOptions>) -> Result<Self> {
        if !(1..=MAX_HOSTS).contains(&options.len()) {
            return Err(Error::invalid_argument(format!("a store has 1 to {MAX_HOSTS} hosts")));
        }
        Ok(Self { options, target: None, state: Arc::default(), refused: None })
    }

    /// Makes the host of a pool. Of a store, all such hosts share their state.
    pub(crate) fn one(options: PgConnectOptions, state: &Arc<State>) -> Self {
        Self { options: vec![options], target: None, state: Arc::clone(state), refused: None }
    }

    /// From now on a connection is only used if it finds this namespace as it was opened, while that lives. `expected` is of the
    /// store.
    pub(crate) fn expect(&self, namespace: &Arc<str>, life: Life, expected: impl FnOnce() -> Expected) {
        self.state.expected.get_or_init(expected).begin(namespace, life);
    }

    /// Replaces the hosts. All else stays as it is.
    pub(crate) fn replace(&mut self, hosts: impl IntoIterator<Item = (String, u16)>) {
        let base = self.current().clone();
        let is_socket = base.get_socket().is_some();
        let hosts: Vec<_> = hosts.into_iter().take(MAX_HOSTS + 1).collect();
        self.refused = match hosts.len() {
            0 => Some("the list of hosts is empty"),
            1..=MAX_HOSTS if hosts.iter().any(|(host, _)| host.is_empty()) => Some("a host has no name"),
            1..=MAX_HOSTS if is_socket => Some("connect options with a socket have no other hosts"),
            1..=MAX_HOSTS => None,
            _ => Some("a store has 1 to 16 hosts"),
        };
        if self.refused.is_none() {
            let of_host = |(host, port): (String, u16)| base.clone().host(unbracketed(&host)).port(port);
            self.options = hosts.into_iter().map(of_host).collect();
            self.forget();
        }
    }

    /// Forgets which host worked, and which attempts failed: two stores share neither.
    pub(crate) fn forget(&mut self) {
        self.state = Arc::default();
    }

    /// Makes an attempt to connect, unless one failed a moment ago: the caller comes again, within its own time limit (C28).
    /// One without an answer, `None`, counts as failed.
    ///
    /// # Errors
    /// That of the attempt, or of the last one.
    pub(crate) async fn attempt<T>(
        &self,
        connect: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let mut is_answered = true;
        let connected = async {
            let made = connect.await?;
            is_answered = made.is_some();
            made.ok_or_else(|| Error::unanswered(PROTOCOL))
        };
        match self.state.backoff.attempt_if_due(HOSTS, connected).await {
            Err(_) if !is_answered => Ok(None),
            made => made.map(Some),
        }
    }

    /// Waits until an attempt may begin.
    pub(crate) async fn due(&self) {
        self.state.backoff.due(HOSTS).await;
    }

    /// Returns the error of the last attempt, if it failed.
    pub(crate) fn last_error(&self) -> Option<Error> {
        self.state.backoff.last_error(HOSTS)
    }

    pub(crate) fn set_target(&mut self, target: TargetSessionAttrs) {
        self.target = Some(target);
    }

    /// Checks the options of the user.
    ///
    /// # Errors
    /// `InvalidArgument` for hosts that cannot be used.
    pub(crate) fn check(&self) -> Result<()> {
        self.refused.map_or(Ok(()), |why| Err(Error::invalid_argument(why)))
    }

    /// Returns the options of the host that is tried first.
    pub(crate) fn current(&self) -> &PgConnectOptions {
        &self.options[self.state.last.load(Ordering::Relaxed)]
    }

    /// Returns the addresses of all hosts, for errors.
    pub(crate) fn address(&self) -> String {
        self.options.iter().map(address).collect::<Vec<_>>().join(",")
    }

    /// Returns whether servers that take no writes are passed over.
    pub(crate) fn must_take_writes(&self) -> bool {
        match self.target {
            Some(target) => target == TargetSessionAttrs::ReadWrite,
            None => self.options.len() > 1,
        }
    }

    /// Returns the timeout of one host, for a caller that gives `limit` to a single one.
    pub(crate) fn timeout_of_each(&self, limit: Duration) -> Duration {
        if self.options.len() == 1 { limit } else { limit.min(MIN_ATTEMPT_TIMEOUT.max(limit / 4)) }
    }

    /// Returns the timeout of all hosts together, for a caller that gives `limit` to a single one.
    pub(crate) fn timeout_of_all(&self, limit: Duration) -> Duration {
        u32::try_from(self.options.len()).map_or(limit, |hosts| limit.saturating_mul(hosts))
    }

    /// Connects to the first host that fits, each within `limit`. The host that worked last comes first, then those
    /// behind it in the user's order, from the end of the list on to its beginning. Returns the session and the index of its
    /// host; `None` if no host answered.
    ///
    /// # Errors
    /// The reason why there is no connection, with the cause of each host. A server that takes no writes counts as
    /// `unfit`; causes of different kinds are `Unavailable` together.
    pub(crate) async fn connect<S: Session>(
        &self,
        limit: Duration,
        unfit: ErrorKind,
        set_up: impl Fn(PgConnectOptions) -> PgConnectOptions + Send + Sync,
    ) -> Result<Option<(S, usize)>> {
        let (count, last) = (self.options.len(), self.state.last.load(Ordering::Relaxed));
        let (mut causes, mut any_answered) = (Vec::with_capacity(count), false);
        for index in (0..count).map(|step| (last + step) % count) {
            let address = address(&self.options[index]);
            let options = set_up(self.options[index].clone());
            let cause = match timeout(limit, self.connect_to(options, limit, unfit)).await {
                Ok(Ok(session)) => {
                    self.state.last.store(index, Ordering::Relaxed);
                    return Ok(Some((session, index)));
                }
                Ok(Err(error)) => {
                    any_answered = true;
                    error
                }
                Err(_) => {
                    let (server, port) = server_fields(&address);
                    tracing::debug!(
                        server.address = server,
                        server.port = port,
                        "the server has not answered a new connection yet"
                    );
                    Error::unanswered(PROTOCOL)
                }
            };
            causes.push(cause.at(&address));
        }
        if any_answered { Err(together(causes).at(&self.address())) } else { Ok(None) }
    }

    /// Returns whether the store connected last to another host than this one.
    pub(crate) fn have_moved(&self, from: usize) -> bool {
        self.state.last.load(Ordering::Relaxed) != from
    }

    /// Has `connect` look for a host that fits, in the background, unless that is under way.
    #[expect(
        clippy::disallowed_methods,
        reason = "sessions that keep mutexes are served on the engine's thread"
    )]
    pub(crate) fn look<T>(&self, connect: impl Future<Output = Result<T>> + Send + 'static) {
        let state = Arc::clone(&self.state);
        if self.options.len() > 1 && !state.is_looking.swap(true, Ordering::Relaxed) {
            tokio::spawn(async move {
                // Without another host, the caller comes again.
                let _ = connect.await;
                state.is_looking.store(false, Ordering::Relaxed);
            });
        }
    }

    async fn connect_to<S: Session>(
        &self,
        options: PgConnectOptions,
        limit: Duration,
        unfit: ErrorKind,
    ) -> Result<S> {
        let address = address(&options);
        let of_connect = |error| error::of_connect(error, &address);
        let mut session = S::connect(options, limit).await.map_err(of_connect)?;
        let connection = session.connection().await.map_err(of_connect)?;
        if self.must_take_writes()
            && let Some(why) = refusal(connection).await.map_err(of_connect)?
        {
            return Err(Error::new(unfit, why));
        }
        if let Some(expected) = self.state.expected.get() {
            expected.check(connection).await?;
        }
        Ok(session)
    }

    /// Checks a session that was idle. Returns why it is not to be used any more, if its server has stopped taking writes
    /// and must take them.
    ///
    /// # Errors
    /// The reason why the session did not answer.
    pub(crate) async fn ask<S: Session>(&self, session: &mut S) -> sqlx::Result<Option<&'static str>> {
        let connection = session.connection().await?;
        if self.must_take_writes() {
            return refusal(connection).await;
        }
        connection.ping().await?;
        Ok(None)
    }
}

/// Returns why the server of a session takes no writes; `None` if it does.
async fn refusal(connection: &mut PgConnection) -> sqlx::Result<Option<&'static str>> {
    let row = raw_sql(include_str!("sql/takes_writes.sql")).fetch_one(connection).await?;
    let (standby, read_only): (bool, &str) = (row.try_get("standby")?, row.try_get("read_only")?);
    Ok(why_unfit(standby, read_only))
}

/// Returns why such a server takes no writes; `None` if it does.
pub(crate) fn why_unfit(standby: bool, read_only: &str) -> Option<&'static str> {
    if standby {
        return Some("the server is a standby, not the primary");
    }
    (read_only != "off")
        .then_some("default_transaction_read_only is on: the server, role or database takes no writes")
}

/// Returns one error for the causes of all hosts.
fn together(mut causes: Vec<Error>) -> Error {
    if causes.len() == 1 {
        return causes.remove(0);
    }
    let kinds = causes.iter().map(Error::kind);
    let kind = kinds.reduce(|one, other| if one == other { one } else { ErrorKind::Unavailable });
    let texts: Vec<_> = causes.iter().map(Error::to_string).collect();
    let error = Error::new(
        kind.unwrap_or(ErrorKind::Unavailable),
        format!("no host can be used: {}", texts.join("; ")),
    );
    // The refusal of a pooler is looked for in the source.
    let cause =
        causes.into_iter().reduce(|one, other| if error::refuses_settings(&one) { one } else { other });
    match cause {
        Some(cause) => error.with_source(cause),
        None => error,
    }
}

/// Returns the address that these options lead to.
pub(crate) fn address(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None if host.starts_with('/') => host.to_owned(),
        None if host.contains(':') => format!("[{host}]:{port}"),
        None => format!("{host}:{port}"),
    }
}

/// Returns an IPv6 address without the brackets that it has in a URL.
pub(crate) fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests;
