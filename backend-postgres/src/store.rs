//! The store: the engine over the steps.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::postgres::PgArguments;
use sqlx::{Arguments, PgConnection, Postgres, Row, Transaction};
#[cfg(feature = "bloom")]
use stanchion_core::steps::BloomSteps;
use stanchion_core::steps::{
    Chore, GroupSteps, LimitSteps, PermitSteps, ProcessId, Steps, WakeSource,
};
use stanchion_core::engine::{Engine, Background, StepsWrap};
#[cfg(feature = "bloom")]
use stanchion_core::{BloomFilter, BloomOptions};
use stanchion_core::{
    Capabilities, Error, ErrorKind, FencingToken, Limiter, LimiterOptions, Mutex, MutexMode, MutexOptions,
    Result, Semaphore, SemaphoreOptions, Store, Ttl, WaitGroup, WaitGroupOptions,
};
use tokio::time::timeout;

use crate::access::{Access, Sessions, Settings, Way};
use crate::check;
use crate::config::{Checked, PostgresBuilder};
use crate::context::{Context, Retention};
use crate::error;
use crate::link::{Link, Source};
use crate::migrate;
use crate::schema::{LAYOUT, Schema};
use crate::session::{self, SessionOptions};
use crate::steps::PostgresSteps;
use crate::steps::dispatch::Dispatch;
use crate::sweep::Sweep;
use crate::wake::PostgresWake;

/// Connections of the engine's: a renewal that waits for a lock must not hold up releases.
const OWN_CONNECTIONS: usize = 2;

/// All primitives on a Postgres server, 14 or later.
///
/// It uses few connections, whatever the number of holds and waiters: two for callers' requests (of each runtime), two
/// for the engine's renewals, releases and polls, one that listens for wake-ups while somebody waits, and in
/// [`MutexMode::Session`] the sessions that hold and wait for mutexes. All are made when needed, and anew when broken.
///
/// # Drop
/// The last handle, guard or clone gone, queued releases are sent for up to 2 s; the leases free the rest.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    engine: Engine,
    context: Arc<Context>,
    /// The TTL of all mutexes, where sessions keep them.
    session_ttl: Option<Ttl>,
}

/// The steps of one process, checked and connected, without an engine.
#[derive(Clone, Debug)]
pub struct StepsOfStore {
    /// The steps for callers, in which leases keep mutexes, too.
    pub callers: Arc<PostgresSteps>,
    /// The same over connections of the engine's own, not connected yet.
    pub own: Arc<PostgresSteps>,
    /// The wake-ups, not connected yet.
    pub wake: Arc<PostgresWake>,
    /// What the store offers.
    pub capabilities: Capabilities,
}

/// What connecting made.
struct Connected {
    context: Arc<Context>,
    sessions: Sessions,
    callers: Arc<Link>,
    own: Arc<Link>,
    wake: Arc<PostgresWake>,
    capabilities: Capabilities,
    session_ttl: Ttl,
}

impl PostgresStore {
    /// Connects to the server of a URL; see [`PostgresBuilder::new`] for what it may hold.
    ///
    /// # Errors
    /// As [`PostgresBuilder::new`] and [`PostgresBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url)?.connect().await
    }

    /// A builder with the server of a URL.
    ///
    /// # Errors
    /// As [`PostgresBuilder::new`].
    pub fn builder(url: &str) -> Result<PostgresBuilder> {
        PostgresBuilder::new(url)
    }

    /// Locks a mutex for the length of a transaction of the user's: its commit or rollback frees it. Gives the fencing
    /// token of the grant.
    ///
    /// It waits in line with all others, for as long as the transaction's `lock_timeout` says: without one, without end.
    /// The same transaction may lock the same mutex again. There is no lease: a session that the user keeps open keeps the
    /// mutex (M1 holds for as long as the transaction is open, and no longer).
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name; `Unsupported` where leases keep mutexes; `Unavailable` if the server refused, by
    /// its `lock_timeout` or a deadlock for instance; `Unknown` if no answer came. After the last two the transaction can
    /// only be rolled back.
    ///
    /// # Cancel safety
    /// The lock may have been taken; the transaction's end frees it.
    pub async fn lock_in(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        name: &str,
    ) -> Result<FencingToken> {
        let locked = match self.by_session() {
            Ok(()) => session::lock_in(&self.context, transaction, name).await,
            Err(error) => Err(error),
        };
        locked.map_err(|error| error.context("lock_in", "postgres", name))
    }

    /// As [`lock_in`](Self::lock_in), if nobody holds the mutex or waits for it; `None` otherwise.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// As there.
    pub async fn try_lock_in(
        &self,
        transaction: &mut Transaction<'_, Postgres>,
        name: &str,
    ) -> Result<Option<FencingToken>> {
        let locked = match self.by_session() {
            Ok(()) => session::try_lock_in(&self.context, transaction, name).await,
            Err(error) => Err(error),
        };
        locked.map_err(|error| error.context("try_lock_in", "postgres", name))
    }

    fn by_session(&self) -> Result<()> {
        let refused = || Error::new(ErrorKind::Unsupported, "leases keep mutexes here, not sessions");
        self.session_ttl.map(drop).ok_or_else(refused)
    }

    /// A store over a pool that the user has, with the default options; see [`PostgresBuilder::from_pool`].
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`].
    pub async fn from_pool(pool: sqlx::PgPool) -> Result<Self> {
        PostgresBuilder::from_pool(pool).connect().await
    }
}

impl PostgresBuilder {
    /// Connects, checks the server, makes the schema if it is to, and starts the engine.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of range or a database that is not there; `Unavailable` or `Unauthorized` where
    /// the server cannot be asked; `UnsafeStore` if it is a standby, read-only or not `UTF8`, if sessions are not `read
    /// committed`, or if a pooler stands before it and sessions are to keep mutexes; `Unsupported` for a Postgres before
    /// 14; `ConfigMismatch` if the schema is missing, older or newer and not to be made, or if the namespace has another
    /// mutex mode or layout (C22).
    ///
    /// # Cancel safety
    /// A dropped call leaves connections that close, and the schema whole or not at all.
    pub async fn connect(self) -> Result<PostgresStore> {
        let (mutex, lock_sessions, wrap) = (self.mutex, self.lock_sessions, self.wrap.clone());
        let connected = self.open().await.map_err(context)?;
        let by_session = mutex == MutexMode::Session;
        let shared = Arc::clone(&connected.context);
        let session_ttl = by_session.then_some(connected.session_ttl);
        let engine = if by_session {
            in_sessions(connected, lock_sessions, wrap.as_ref())
        } else {
            let callers = steps(&connected.callers_steps(), None);
            let own = steps(&connected.own_steps(), None);
            start(connected, callers, own, Vec::new(), wrap.as_ref())
        };
        Ok(PostgresStore { engine: engine.map_err(context)?, context: shared, session_ttl })
    }

    /// Connects and checks the server; the steps, for those who drive them themselves.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let connected = self.open().await.map_err(context)?;
        Ok(StepsOfStore {
            callers: connected.callers_steps(),
            own: connected.own_steps(),
            wake: connected.wake,
            capabilities: connected.capabilities,
        })
    }

    async fn open(self) -> Result<Connected> {
        let Checked { schema, session_ttl } = self.check()?;
        let limit = self.request_timeout;
        let late = |_| {
            Error::new(ErrorKind::Unavailable, "the server did not answer within the request's time limit")
        };
        let settings = Settings { way: Way::Direct, limit, raise: false };
        let found = timeout(limit, check::server(&self.access, settings, &schema)).await.map_err(late)??;
        let mut connections = found.connections;
        check::mode(self.mutex, found.settings.way)?;
        if let Some(connection) = connections.first_mut() {
            migrate::settle(connection, &schema, found.settings.way, self.migrate).await?;
        }
        let process = ProcessId::random();
        let namespace = Arc::from(self.namespace.as_str());
        // A record holds both: it stays for the longer of the two.
        let Retention { tokens, state } = self.retention;
        let retention = Retention { tokens: tokens.max(state), state };
        let shared = Arc::new(Context { schema, namespace, process, retention });
        let sessions = Sessions { access: self.access.clone(), settings: found.settings };
        let callers = callers(&self, &sessions, &shared.schema, connections);
        open_namespace(&callers, &shared, self.mutex, matches!(self.access, Access::Own(_))).await?;
        let own = link(Source::Own(sessions.clone()), OWN_CONNECTIONS, found.settings, &shared.schema);
        let direct = found.settings.way == Way::Direct;
        let mut capabilities = Capabilities::full("postgres", self.mutex);
        capabilities.bloom_filters = cfg!(feature = "bloom");
        capabilities.wake_ups = direct;
        capabilities.detach = self.mutex == MutexMode::Lease;
        capabilities.survives_restart = Some(self.mutex == MutexMode::Lease && found.survives_restart);
        Ok(Connected {
            wake: Arc::new(PostgresWake::new(direct.then(|| sessions.clone()), process)),
            context: shared,
            sessions,
            callers,
            own: Arc::new(own),
            capabilities,
            session_ttl,
        })
    }
}

impl Connected {
    fn callers_steps(&self) -> Arc<PostgresSteps> {
        Arc::new(PostgresSteps::new(Arc::clone(&self.context), Arc::clone(&self.callers)))
    }

    fn own_steps(&self) -> Arc<PostgresSteps> {
        Arc::new(PostgresSteps::new(Arc::clone(&self.context), Arc::clone(&self.own)))
    }
}

fn link(source: Source, connections: usize, settings: Settings, schema: &Schema) -> Link {
    let link = Link::new(source, connections, settings.limit);
    if settings.way == Way::Direct { link } else { link.through_pooler(&settings.begin(schema)) }
}

/// The callers' link. The connections by which the server was checked are its first.
fn callers(
    builder: &PostgresBuilder,
    sessions: &Sessions,
    schema: &Schema,
    connections: Vec<PgConnection>,
) -> Arc<Link> {
    let source = match &builder.access {
        Access::Own(_) => Source::Own(sessions.clone()),
        Access::Given(pool) => Source::Given(pool.clone()),
    };
    let link = link(source, builder.connections, sessions.settings, schema);
    link.take_over(connections);
    Arc::new(link)
}

/// Says how the namespace is kept, if nobody has yet, and looks at a session of the link's.
async fn open_namespace(link: &Link, context: &Context, mode: MutexMode, ours: bool) -> Result<()> {
    let wanted = if mode == MutexMode::Session { "session" } else { "lease" };
    let statement = context.schema.statement(include_str!("sql/namespace.sql"));
    let mut arguments = PgArguments::default();
    let added = arguments
        .add(&*context.namespace)
        .and_then(|()| arguments.add(wanted))
        .and_then(|()| arguments.add(LAYOUT));
    added.map_err(|error| Error::invalid_argument("not an argument").with_source(error))?;
    let rows = link.rows(&statement, arguments).await.map_err(error::certain)?;
    let row = rows.first().ok_or_else(|| error::certain(error::unexpected()))?;
    let text = |column: &str| row.try_get::<String, _>(column);
    let read =
        (text("mutex_mode"), row.try_get::<i32, _>("layout"), text("isolation"), text("synchronous_commit"));
    let (Ok(mode), Ok(layout), Ok(isolation), Ok(synchronous_commit)) = read else {
        return Err(error::certain(error::unexpected()));
    };
    check::session(&isolation, &synchronous_commit, ours)?;
    let namespace = &context.namespace;
    let mismatch = |detail| Err(Error::new(ErrorKind::ConfigMismatch, detail));
    if layout != LAYOUT {
        return mismatch(format!(
            "namespace {namespace} has layout {layout}, this version writes layout {LAYOUT}"
        ));
    }
    if mode != wanted {
        return mismatch(format!(
            "namespace {namespace} keeps its mutexes by {mode}, this store was told mutex={wanted}"
        ));
    }
    Ok(())
}

/// All steps over one link; `mutexes` are kept another way if there is one.
fn steps(steps: &Arc<PostgresSteps>, mutexes: Option<Arc<dyn PermitSteps>>) -> Steps {
    let rest = Arc::clone(steps) as Arc<dyn PermitSteps>;
    let permits = match mutexes {
        Some(mutexes) => Arc::new(Dispatch { mutexes, rest }),
        None => rest,
    };
    let mut all = Steps::new(permits, steps.link().limit());
    all.groups = Some(Arc::clone(steps) as Arc<dyn GroupSteps>);
    all.limits = Some(Arc::clone(steps) as Arc<dyn LimitSteps>);
    #[cfg(feature = "bloom")]
    {
        all.bloom = Some(Arc::clone(steps) as Arc<dyn BloomSteps>);
    }
    all
}

/// The engine with mutexes that sessions keep.
fn in_sessions(connected: Connected, max_sessions: usize, wrap: Option<&StepsWrap>) -> Result<Engine> {
    let Connected { context, sessions, own, session_ttl: ttl, .. } = &connected;
    let settings = SessionOptions { ttl: *ttl, max_sessions, request_timeout: own.limit() };
    let (mutexes, chore) = session::sessions(context, Arc::clone(own), &sessions.access.options(), settings);
    let mutexes: Arc<dyn PermitSteps> = Arc::new(mutexes);
    let callers = steps(&connected.callers_steps(), Some(Arc::clone(&mutexes)));
    let own = steps(&connected.own_steps(), Some(mutexes));
    start(connected, callers, own, vec![Arc::new(chore)], wrap)
}

fn start(
    connected: Connected,
    callers: Steps,
    own: Steps,
    mut chores: Vec<Arc<dyn Chore>>,
    wrap: Option<&StepsWrap>,
) -> Result<Engine> {
    let Connected { context, own: link, wake, capabilities, .. } = connected;
    chores.push(Arc::new(Sweep::new(context, link)));
    let wake = capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
    Engine::start_wrapped(wrap, capabilities, callers, Background { steps: own, wake, chores })
}

fn context(error: Error) -> Error {
    error.context("connect", "postgres", "")
}

#[async_trait]
impl Store for PostgresStore {
    fn mutex(&self, name: &str, mut options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        if let Some(ttl) = self.session_ttl {
            // The caller's own is checked all the same.
            options.check().map_err(|error| error.context("mutex", "postgres", name))?;
            options.hold.ttl = Some(ttl.get());
        }
        self.engine.mutex(name, options)
    }

    fn semaphore(&self, name: &str, options: SemaphoreOptions) -> Result<Arc<dyn Semaphore>> {
        self.engine.semaphore(name, options)
    }

    fn wait_group(&self, name: &str, options: WaitGroupOptions) -> Result<Arc<dyn WaitGroup>> {
        self.engine.wait_group(name, options)
    }

    fn limiter(&self, name: &str, options: LimiterOptions) -> Result<Arc<dyn Limiter>> {
        self.engine.limiter(name, options)
    }

    #[cfg(feature = "bloom")]
    fn bloom_filter(&self, name: &str, options: BloomOptions) -> Result<Arc<dyn BloomFilter>> {
        self.engine.bloom_filter(name, &options)
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    async fn ping(&self) -> Result<()> {
        self.engine.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }
}
