//! Connecting: the checks of the server, the connections, and the start of the engine.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgArguments;
use sqlx::{Arguments, PgConnection, Row};
use stanchion_core::clock::timeout;
use stanchion_core::engine::{Background, Engine, EngineThread, StepsWrap};
#[cfg(feature = "bloom")]
use stanchion_core::steps::BloomSteps;
use stanchion_core::steps::{Chore, GroupSteps, LimitSteps, PermitSteps, ProcessId, Steps, WakeSource};
use stanchion_core::{Capabilities, Error, MutexMode, Result, Ttl};
use tokio::runtime::Id;

use crate::access::{Access, LOCK_WAIT, PROTOCOL, Sessions, Settings, Way};
use crate::check::{self, Expected};
use crate::config::{Checked, PostgresBuilder};
use crate::context::{Context, Retention, TurnLabel};
use crate::error;
use crate::link::{Link, Source};
use crate::migrate;
use crate::schema::{LAYOUT, Schema};
use crate::session;
use crate::steps::PostgresSteps;
use crate::steps::dispatch::Dispatch;
use crate::store::PostgresStore;
use crate::sweep::Sweep;
use crate::wake::PostgresWake;

/// Number of connections of the engine: a renewal that waits for a lock must not block releases.
const ENGINE_CONNECTIONS: usize = 2;

/// The steps of one process without an engine. The server was checked and is connected.
#[derive(Clone, Debug)]
pub struct StepsOfStore {
    /// The steps for callers. Leases keep mutexes, too.
    pub callers: Arc<PostgresSteps>,
    /// The same steps over connections of the engine's own, which are not connected yet.
    pub own: Arc<PostgresSteps>,
    /// The wake-ups, which are not connected yet.
    pub wake: Arc<PostgresWake>,
    /// What the store offers.
    pub capabilities: Capabilities,
}

/// The parts of a connected store.
struct Connected {
    context: Arc<Context>,
    sessions: Sessions,
    callers: Arc<Link>,
    own: Arc<Link>,
    wake: Arc<PostgresWake>,
    capabilities: Capabilities,
    session_ttl: Ttl,
    /// As which process waiters of session mode have their places.
    places: ProcessId,
    drain: Duration,
}

impl PostgresBuilder {
    /// Connects, checks the server, makes the schema if [`migrate`](Self::migrate) is on, and starts the engine.
    ///
    /// # Errors
    /// `InvalidArgument` for an option out of range or a database that does not exist; `Unavailable` or `Unauthorized`
    /// if no server can be asked; `UnsafeStore` if the server, or each of several hosts, is a standby, read-only or not `UTF8`, if sessions
    /// are not `read committed`, or in session mode if there is a pooler before the server; `Unsupported` for a
    /// Postgres before 14; `ConfigMismatch` if the schema is newer, if it is missing or older and `migrate` is off, or
    /// if the namespace has another mutex mode or layout ([C22]).
    ///
    /// # Cancel safety
    /// A dropped call closes its connections. It has made the whole schema or nothing of it.
    ///
    /// [C22]: stanchion_core::contract#c22
    pub async fn connect(self) -> Result<PostgresStore> {
        let (mutex, wrap) = (self.mutex, self.wrap.clone());
        let thread = EngineThread::start().map_err(context)?;
        let connected = thread.on(Box::pin(self.open(thread.runtime_id()))).await.map_err(context)?;
        let by_session = mutex == MutexMode::Session;
        let shared = Arc::clone(&connected.context);
        let session_ttl = by_session.then_some(connected.session_ttl);
        let transactions = connected.transactions_link(thread.runtime_id());
        let engine = if by_session {
            start_in_session_mode(connected, thread, wrap.as_ref())
        } else {
            let callers = steps(&connected.callers_steps(), None);
            let own = steps(&connected.own_steps(), None);
            start(connected, thread, callers, own, Vec::new(), wrap.as_ref())
        };
        Ok(PostgresStore::new(engine.map_err(context)?, shared, session_ttl, transactions))
    }

    /// Connects and checks the server. Returns the steps, for callers that run them without an engine.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let connected = self.open(None).await.map_err(context)?;
        Ok(StepsOfStore {
            callers: connected.callers_steps(),
            own: connected.own_steps(),
            wake: connected.wake,
            capabilities: connected.capabilities,
        })
    }

    /// `engine` is the runtime of the engine's thread.
    async fn open(mut self, engine: Option<Id>) -> Result<Connected> {
        let checked = self.check()?;
        self.access.forget();
        let address = self.access.address();
        self.open_checked(checked, engine).await.map_err(|error| error.at(&address))
    }

    async fn open_checked(
        self,
        Checked { schema, session_ttl }: Checked,
        engine: Option<Id>,
    ) -> Result<Connected> {
        let request_timeout = self.request_timeout;
        let settings = Settings { way: Way::Direct, request_timeout, lock_wait: LOCK_WAIT, raise: false };
        let connect_timeout = self.access.hosts().timeout_of_all(request_timeout);
        let found = timeout(connect_timeout, check::server(&self.access, settings, &schema))
            .await
            .map_err(|_| Error::unanswered(PROTOCOL))??;
        let mut connections = found.connections;
        check::mode(self.mutex, found.settings.way)?;
        if let Some(connection) = connections.first_mut() {
            migrate::prepare(connection, &schema, found.settings.way, self.migrate).await?;
        }
        let (process, places) = (ProcessId::random(), ProcessId::random());
        let namespace = Arc::from(self.namespace.as_str());
        // A record holds both kinds of state, so it stays for the longer of the two times.
        let Retention { tokens, state } = self.retention;
        let retention = Retention { tokens: tokens.max(state), state };
        let hints = Arc::default();
        let shared =
            Arc::new(Context { schema, namespace, process, retention, hints, turn: TurnLabel::default() });
        let sessions = Sessions { access: self.access.clone(), settings: found.settings };
        let callers = callers(&self, (&sessions, engine), &shared.schema, connections);
        open_namespace(&callers, &shared, self.mutex, matches!(self.access, Access::Own(..))).await?;
        self.access.hosts().expect(Expected::new(&shared, self.mutex));
        let own = link(Source::Own(sessions.clone()), ENGINE_CONNECTIONS, found.settings, &shared.schema);
        let direct = found.settings.way == Way::Direct;
        let mut capabilities = Capabilities::full("postgres", self.mutex);
        capabilities.bloom_filters = cfg!(feature = "bloom");
        capabilities.wake_ups = direct;
        capabilities.detach = self.mutex == MutexMode::Lease;
        capabilities.survives_restart = Some(self.mutex == MutexMode::Lease && found.survives_restart);
        Ok(Connected {
            wake: Arc::new(PostgresWake::new(
                direct.then(|| sessions.clone()),
                if self.mutex == MutexMode::Session { vec![process, places] } else { vec![process] },
                Arc::clone(&shared.hints),
            )),
            context: shared,
            sessions,
            callers,
            own: Arc::new(own),
            capabilities,
            session_ttl,
            places,
            drain: self.drain,
        })
    }
}

impl Connected {
    /// Makes the link for the tokens of users' transactions: not over the user's pool, of which the transaction may have the only
    /// connection.
    fn transactions_link(&self, engine: Option<Id>) -> Arc<Link> {
        let Self { sessions, context, .. } = self;
        let link = link(Source::Own(sessions.clone()), 1, sessions.settings, &context.schema);
        Arc::new(link.shared_on(engine))
    }

    fn callers_steps(&self) -> Arc<PostgresSteps> {
        Arc::new(PostgresSteps::new(Arc::clone(&self.context), Arc::clone(&self.callers)))
    }

    fn own_steps(&self) -> Arc<PostgresSteps> {
        Arc::new(PostgresSteps::new(Arc::clone(&self.context), Arc::clone(&self.own)))
    }
}

fn link(source: Source, connections: usize, settings: Settings, schema: &Schema) -> Link {
    let link = Link::new(source, connections, settings.request_timeout);
    if settings.way == Way::Direct { link } else { link.through_pooler(&settings.begin(schema)) }
}

/// Makes the callers' link. It begins with the connections by which the server was checked.
fn callers(
    builder: &PostgresBuilder,
    (sessions, engine): (&Sessions, Option<Id>),
    schema: &Schema,
    connections: Vec<PgConnection>,
) -> Arc<Link> {
    let own = sessions.clone();
    let source = match &builder.access {
        Access::Own(..) => Source::Own(own),
        Access::UserPool(pool, _) => Source::UserPool { pool: pool.clone(), own, engine },
    };
    let link = link(source, builder.connections, sessions.settings, schema);
    let link = link.shared_on(engine);
    link.take_over(connections);
    Arc::new(link)
}

/// Writes the mutex mode and the layout of the namespace, unless another store has done so, and checks a session of the
/// link.
async fn open_namespace(link: &Link, context: &Context, mode: MutexMode, ours: bool) -> Result<()> {
    let wanted = check::written(mode);
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
    check::namespace(&context.namespace, wanted, &mode, layout)
}

/// Returns all steps over one link. `mutexes` replaces the steps of mutexes, if there is one.
fn steps(steps: &Arc<PostgresSteps>, mutexes: Option<Arc<dyn PermitSteps>>) -> Steps {
    let rest = Arc::clone(steps) as Arc<dyn PermitSteps>;
    let permits = match mutexes {
        Some(mutexes) => Arc::new(Dispatch { mutexes, rest }),
        None => rest,
    };
    let mut all = Steps::new(permits, steps.link().request_timeout());
    all.groups = Some(Arc::clone(steps) as Arc<dyn GroupSteps>);
    all.limits = Some(Arc::clone(steps) as Arc<dyn LimitSteps>);
    #[cfg(feature = "bloom")]
    {
        all.bloom = Some(Arc::clone(steps) as Arc<dyn BloomSteps>);
    }
    all
}

/// Starts the engine in session mode.
fn start_in_session_mode(
    connected: Connected,
    thread: Arc<EngineThread>,
    wrap: Option<&StepsWrap>,
) -> Result<Engine> {
    let Connected { context, sessions, places, session_ttl, .. } = &connected;
    let (callers, own) = (connected.callers_steps(), connected.own_steps());
    let (mutexes, chore) =
        session::sessions(context, (&callers, &own), *places, &sessions.access, *session_ttl);
    let [for_callers, for_engine] = mutexes.map(|mutexes| Some(Arc::new(mutexes) as Arc<dyn PermitSteps>));
    let (callers, own) = (steps(&callers, for_callers), steps(&own, for_engine));
    start(connected, thread, callers, own, vec![Arc::new(chore)], wrap)
}

fn start(
    connected: Connected,
    thread: Arc<EngineThread>,
    callers: Steps,
    own: Steps,
    mut chores: Vec<Arc<dyn Chore>>,
    wrap: Option<&StepsWrap>,
) -> Result<Engine> {
    let Connected { context, own: link, wake, capabilities, drain, .. } = connected;
    let namespace = Arc::clone(&context.namespace);
    chores.push(Arc::new(Sweep::new(context, link)));
    let wake = capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
    let own = Background { wake, chores, namespace, drain, thread: Some(thread), ..Background::new(own) };
    Engine::start_wrapped(wrap, capabilities, callers, own)
}

fn context(error: Error) -> Error {
    error.context("connect", "postgres", "")
}
