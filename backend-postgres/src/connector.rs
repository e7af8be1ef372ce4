//! Connecting: the addresses of the store, the credentials, and the settings of the store's own
//! sessions.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{ConnectOptions, Connection, PgConnection, Row, raw_sql};
use stanchion_core::clock::timeout;
use stanchion_core::connect::Backoff;
use stanchion_core::observe::events::server_fields;
use stanchion_core::{CredentialsProvider, Error, ErrorKind, Result};

use crate::address::{Addresses, MIN_ATTEMPT_TIMEOUT, address};
use crate::error::{self, PROTOCOL};
use crate::session_settings::SessionSettings;
use crate::writable::ask_why_unfit;

/// What the back-off calls the addresses of a store: an attempt tries each of them once.
const ADDRESSES: &str = "hosts";

/// Makes the store's own connections. Contains a password.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) origin: Origin,
    pub(crate) settings: SessionSettings,
    state: Arc<State>,
}

/// Where addresses and credentials come from.
#[derive(Clone)]
pub(crate) enum Origin {
    /// The addresses of a URL, or of the user's options, and what gives the credentials of each
    /// connection, if they change.
    Own(Box<Addresses>, Option<CredentialsProvider>),
    /// The options of a pool that the user made.
    UserPool(PgPool),
}

/// What the connectors of one store know of its servers.
#[derive(Debug)]
struct State {
    /// Index of the address that worked last.
    last: AtomicUsize,
    backoff: Backoff,
    is_searching: AtomicBool,
    /// Whether a server has refused to look for clients of its sessions that are gone.
    is_unchecked: AtomicBool,
    /// The check of each connection, once the store is connected.
    check: OnceLock<Arc<dyn ConnectionCheck>>,
}

impl Default for State {
    fn default() -> Self {
        let flag = AtomicBool::default;
        let (last, is_searching, is_unchecked) = (AtomicUsize::default(), flag(), flag());
        Self { last, backoff: Backoff::new("postgres"), is_searching, is_unchecked, check: OnceLock::new() }
    }
}

/// What a new connection must find, apart from a server that takes writes.
#[async_trait]
pub(crate) trait ConnectionCheck: fmt::Debug + Send + Sync {
    /// Checks a new connection.
    ///
    /// # Errors
    /// The reason why it must not be used.
    async fn check(&self, connection: &mut PgConnection) -> Result<()>;
}

/// A connection to the server that a connector can make and check.
pub(crate) trait ServerConnection: Sized + Send {
    /// Connects. `limit` is the time that the caller waits.
    fn connect(options: PgConnectOptions, limit: Duration)
    -> impl Future<Output = sqlx::Result<Self>> + Send;

    /// Returns the client's connection.
    fn connection(&mut self) -> impl Future<Output = sqlx::Result<&mut PgConnection>> + Send;
}

impl ServerConnection for PgConnection {
    async fn connect(options: PgConnectOptions, _: Duration) -> sqlx::Result<Self> {
        Self::connect_with(&options).await
    }

    async fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        Ok(self)
    }
}

/// A connection, and the process id of its session.
pub(crate) struct NumberedConnection {
    pub(crate) connection: PgConnection,
    pub(crate) pid: i32,
}

impl ServerConnection for NumberedConnection {
    async fn connect(options: PgConnectOptions, _: Duration) -> sqlx::Result<Self> {
        let mut connection = PgConnection::connect_with(&options).await?;
        let pid = backend_pid(&mut connection).await?;
        Ok(Self { connection, pid })
    }

    async fn connection(&mut self) -> sqlx::Result<&mut PgConnection> {
        Ok(&mut self.connection)
    }
}

/// Returns the process id of a session, as the server names it.
///
/// # Errors
/// If the server did not answer.
pub(crate) async fn backend_pid(connection: &mut PgConnection) -> sqlx::Result<i32> {
    raw_sql(include_str!("sql/pid.sql")).fetch_one(connection).await?.try_get(0)
}

impl From<PgConnectOptions> for Connector {
    fn from(options: PgConnectOptions) -> Self {
        Self::new(Origin::Own(Box::new(options.into()), None))
    }
}

impl Connector {
    pub(crate) fn new(origin: Origin) -> Self {
        let settings = SessionSettings::new(Duration::from_secs(2));
        Self { origin, settings, state: Arc::default() }
    }

    /// Returns a connector with other settings. They share all else.
    #[must_use]
    pub(crate) fn with(&self, settings: SessionSettings) -> Self {
        Self { settings, ..self.clone() }
    }

    /// Forgets which address worked, which attempts failed, and the check: two stores share none of
    /// it.
    pub(crate) fn forget(&mut self) {
        self.state = Arc::default();
    }

    /// From now on each connection must pass this check. Only the first check of a store counts.
    pub(crate) fn require(&self, check: Arc<dyn ConnectionCheck>) {
        self.state.check.get_or_init(|| check);
    }

    fn addresses(&self) -> Addresses {
        match &self.origin {
            Origin::Own(addresses, _) => Addresses::clone(addresses),
            // Read each time: the user may give the pool another password.
            Origin::UserPool(pool) => PgConnectOptions::clone(&pool.connect_options()).into(),
        }
    }

    /// Whether a server has refused to look for clients of its sessions that are gone.
    pub(crate) fn is_unchecked(&self) -> &AtomicBool {
        &self.state.is_unchecked
    }

    /// Returns the addresses, for errors.
    pub(crate) fn address(&self) -> String {
        self.addresses().text()
    }

    /// Returns the user's connect options of the address that is tried first.
    pub(crate) fn options(&self) -> PgConnectOptions {
        let addresses = self.addresses();
        let last = self.state.last.load(Ordering::Relaxed);
        of_store(addresses.options()[last].clone())
    }

    /// Returns whether servers that take no writes are passed over.
    pub(crate) fn must_take_writes(&self) -> bool {
        self.addresses().must_take_writes()
    }

    /// Returns the timeout of one address, for a caller that gives `limit` to a single one.
    pub(crate) fn timeout_of_each(&self, limit: Duration) -> Duration {
        self.addresses().timeout_of_each(limit)
    }

    /// Returns the timeout of all addresses together, for a caller that gives `limit` to a single
    /// one.
    pub(crate) fn timeout_of_all(&self, limit: Duration) -> Duration {
        self.addresses().timeout_of_all(limit)
    }

    /// Makes a connection that has the settings, within `limit` for each address. There is no
    /// attempt shortly after one that failed (C28). Returns `None` if no server answered.
    ///
    /// # Errors
    /// As [`connect_as`](Self::connect_as), also that of the last attempt; `Unavailable` if no
    /// server takes writes at present. Nothing was sent.
    pub(crate) async fn connect<C: ServerConnection>(&self, limit: Duration) -> Result<Option<C>> {
        let connect = self.connect_as(limit, ErrorKind::Unavailable, |options| self.set_up(options));
        Ok(self.attempt_if_due(connect).await?.map(|(connection, _)| connection))
    }

    /// Connects for the first time. An attempt without an answer is repeated until the caller gives
    /// up.
    ///
    /// # Errors
    /// As [`connect_as`](Self::connect_as); `UnsafeStore` if all servers answered and none takes
    /// writes.
    pub(crate) async fn connect_first(&self) -> Result<PgConnection> {
        let limit = self.attempt_timeout().min(self.settings.request_timeout);
        loop {
            let attempt = self.connect_as(limit, ErrorKind::UnsafeStore, |options| self.set_up(options));
            if let Some((connection, _)) = attempt.await? {
                return Ok(connection);
            }
        }
    }

    /// Connects, within the timeout of one attempt for each address. Returns `None` if no server
    /// answered.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub(crate) async fn attempt<C: ServerConnection>(&self) -> Result<Option<C>> {
        self.connect(self.attempt_timeout()).await
    }

    fn set_up(&self, options: PgConnectOptions) -> PgConnectOptions {
        let settings = self.settings.start_up();
        if settings.is_empty() { options } else { options.options(settings) }
    }

    fn attempt_timeout(&self) -> Duration {
        MIN_ATTEMPT_TIMEOUT.max(self.settings.request_timeout / 4)
    }

    /// Returns the error of a caller that waited in vain: that of the last attempt, or that no
    /// server answered.
    pub(crate) fn unconnected(&self) -> Error {
        let last = self.state.backoff.last_error(ADDRESSES);
        last.unwrap_or_else(|| Error::unanswered(PROTOCOL)).at(&self.address())
    }

    /// Makes an attempt to connect, unless one failed a moment ago: the caller comes again, within
    /// its own time limit (C28). One without an answer, `None`, counts as failed.
    ///
    /// # Errors
    /// That of the attempt, or of the last one.
    pub(crate) async fn attempt_if_due<T>(
        &self,
        connect: impl Future<Output = Result<Option<T>>>,
    ) -> Result<Option<T>> {
        let mut is_answered = true;
        let connected = async {
            let made = connect.await?;
            is_answered = made.is_some();
            made.ok_or_else(|| Error::unanswered(PROTOCOL))
        };
        match self.state.backoff.attempt_if_due(ADDRESSES, connected).await {
            Err(_) if !is_answered => Ok(None),
            made => made.map(Some),
        }
    }

    /// Waits until an attempt may begin.
    pub(crate) async fn due(&self) {
        self.state.backoff.due(ADDRESSES).await;
    }

    /// Connects to the first server that fits. Each address, and the user's program that gives the
    /// credentials, has the time `limit`. The address that worked last comes first, then those
    /// behind it in the user's order, from the end of the list on to its beginning. Returns the
    /// connection and the index of its address; `None` if no server answered.
    ///
    /// # Errors
    /// The reason why there is no connection, with the cause of each address. A server that takes
    /// no writes counts as `unfit`; causes of different kinds are `Unavailable` together.
    /// `Unavailable` if the user's program has no credentials.
    pub(crate) async fn connect_as<C: ServerConnection>(
        &self,
        limit: Duration,
        unfit: ErrorKind,
        set_up: impl Fn(PgConnectOptions) -> PgConnectOptions + Send + Sync,
    ) -> Result<Option<(C, usize)>> {
        let Ok(credentials) = timeout(limit, self.credentials()).await else { return Ok(None) };
        let credentials = credentials?;
        let (addresses, last) = (self.addresses(), self.state.last.load(Ordering::Relaxed));
        let count = addresses.options().len();
        let (mut causes, mut any_answered) = (Vec::with_capacity(count), false);
        for index in (0..count).map(|step| (last + step) % count) {
            let options = of_store(addresses.options()[index].clone());
            let address = address(&options);
            let options = set_up(match &credentials {
                Some((Some(user), password)) => options.username(user).password(password),
                Some((None, password)) => options.password(password),
                None => options,
            });
            let unfit = addresses.must_take_writes().then_some(unfit);
            let cause = match timeout(limit, self.connect_to(options, limit, unfit)).await {
                Ok(Ok(connection)) => {
                    self.state.last.store(index, Ordering::Relaxed);
                    return Ok(Some((connection, index)));
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
        if any_answered { Err(together(causes).at(&addresses.text())) } else { Ok(None) }
    }

    /// Returns user and password of this moment, if the user's program gives them.
    async fn credentials(&self) -> Result<Option<(Option<String>, String)>> {
        let Origin::Own(_, Some(provider)) = &self.origin else { return Ok(None) };
        Ok(Some(provider.credentials().await?.into_parts()))
    }

    /// Connects to one server, which must take writes unless `unfit` is `None`.
    async fn connect_to<C: ServerConnection>(
        &self,
        options: PgConnectOptions,
        limit: Duration,
        unfit: Option<ErrorKind>,
    ) -> Result<C> {
        let address = address(&options);
        let of_connect = |error| error::of_connect(error, &address);
        let mut made = C::connect(options, limit).await.map_err(of_connect)?;
        let connection = made.connection().await.map_err(of_connect)?;
        if let Some(unfit) = unfit
            && let Some(why) = ask_why_unfit(connection).await.map_err(of_connect)?
        {
            return Err(Error::new(unfit, why));
        }
        if let Some(check) = self.state.check.get() {
            check.check(connection).await?;
        }
        Ok(made)
    }

    /// Checks a connection that was idle. Returns why it is not to be used any more, if its server
    /// has stopped taking writes and must take them.
    ///
    /// # Errors
    /// The reason why the server did not answer.
    pub(crate) async fn ask<C: ServerConnection>(&self, made: &mut C) -> sqlx::Result<Option<&'static str>> {
        let connection = made.connection().await?;
        if self.must_take_writes() {
            return ask_why_unfit(connection).await;
        }
        connection.ping().await?;
        Ok(None)
    }

    /// Returns whether the store connected last to another address than this one.
    pub(crate) fn has_moved(&self, from: usize) -> bool {
        self.state.last.load(Ordering::Relaxed) != from
    }

    /// Searches in the background for another server that takes writes, unless that is under way.
    /// `limit` is the time of each address.
    #[expect(
        clippy::disallowed_methods,
        reason = "sessions that keep mutexes are served on the engine's thread"
    )]
    pub(crate) fn search(&self, limit: Duration) {
        let is_alone = self.addresses().options().len() == 1;
        if !is_alone && !self.state.is_searching.swap(true, Ordering::Relaxed) {
            let connector = self.clone();
            tokio::spawn(async move {
                let connect =
                    connector.connect_as::<PgConnection>(limit, ErrorKind::Unavailable, |options| options);
                // Without another server, the caller comes again.
                drop(connector.attempt_if_due(connect).await);
                connector.state.is_searching.store(false, Ordering::Relaxed);
            });
        }
    }
}

/// Returns connect options without the settings for floats and for a log of statements, which this
/// crate does not need.
fn of_store(options: PgConnectOptions) -> PgConnectOptions {
    let named = options.get_application_name().is_some();
    let options = options.extra_float_digits(None).disable_statement_logging();
    if named { options } else { options.application_name("stanchion") }
}

/// Returns one error for the causes of all addresses.
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

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("address", &self.address()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
