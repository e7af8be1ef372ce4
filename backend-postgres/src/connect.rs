//! Connecting: the checks of the server, the connections, and the start of the engine.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sqlx::postgres::PgArguments;
use sqlx::{Arguments, PgConnection, Row};
use stanchion_core::clock::timeout;
use stanchion_core::connect::NetworkOptions;
use stanchion_core::engine::{Background, Begun, Namespaces};
use stanchion_core::runtime::EngineThread;
#[cfg(feature = "bloom")]
use stanchion_core::spi::BloomSteps;
use stanchion_core::spi::{
    Chore, GroupSteps, LimitSteps, ListSteps, PermitSteps, ProcessId, Steps, WakeSource,
};
use stanchion_core::{Capabilities, Error, MutexMode, Result, Ttl};
use tokio::runtime::Id;

use crate::access::{Access, LOCK_WAIT, PROTOCOL, Sessions, Settings, Way};
use crate::check::{self, Expected, Life};
use crate::config::{Checked, PostgresBuilder};
use crate::context::{Context, Retention, TurnLabel};
use crate::error;
use crate::link::{Link, Source};
use crate::migrate;
use crate::schema::{LAYOUT, Schema};
use crate::session::{self, SessionCount};
use crate::steps::PostgresSteps;
use crate::steps::dispatch::Dispatch;
use crate::store::PostgresStore;
use crate::sweep::Sweep;
use crate::wake::{Listener, PostgresWake};

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

/// What the namespaces of a store share. The server was checked and is connected.
#[derive(Debug)]
pub(crate) struct Opened {
    schema: Schema,
    retention: Retention,
    mutex: MutexMode,
    session_ttl: Ttl,
    sessions: Sessions,
    callers: Arc<Link>,
    own: Arc<Link>,
    listener: Arc<Listener>,
    /// In session mode, of the namespaces that are open.
    counts: Mutex<Vec<SessionCount>>,
    capabilities: Capabilities,
    /// Whether the callers' link makes its own connections.
    is_own: bool,
}

/// A namespace that was checked.
pub(crate) struct View {
    pub(crate) context: Arc<Context>,
    wake: Arc<PostgresWake>,
    /// As which process waiters of session mode have their places.
    places: ProcessId,
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
        let NetworkOptions { namespace, drain, slow_wait, wrap, .. } = self.options.clone();
        let thread = EngineThread::start().map_err(context)?;
        let opening = thread.on(Box::pin(self.open(thread.runtime_id())));
        let (opened, view) = opening.await.map_err(context)?;
        let transactions = opened.transactions_link(thread.runtime_id());
        let begun = opened.begun(view);
        let (opened, namespaces) =
            (Arc::new(opened), Arc::new(Namespaces::new(thread, drain, slow_wait, wrap)));
        let begun = namespaces.begin(&namespace, begun);
        Ok(PostgresStore::new(begun.map_err(context)?, opened, namespaces, transactions))
    }

    /// Connects and checks the server. Returns the steps, for callers that run them without an engine.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub async fn steps(self) -> Result<StepsOfStore> {
        let (opened, View { context: shared, wake, .. }) = self.open(None).await.map_err(context)?;
        let [callers, own] = opened.steps(&shared);
        opened.expect(&shared.namespace, &callers);
        Ok(StepsOfStore { callers, own, wake, capabilities: opened.capabilities })
    }

    /// `engine` is the runtime of the engine's thread.
    async fn open(mut self, engine: Option<Id>) -> Result<(Opened, View)> {
        let checked = self.check()?;
        self.access.forget();
        let address = self.access.address();
        self.open_checked(checked, engine).await.map_err(|error| error.at(&address))
    }

    async fn open_checked(
        self,
        Checked { schema, session_ttl }: Checked,
        engine: Option<Id>,
    ) -> Result<(Opened, View)> {
        let request_timeout = self.options.request_timeout;
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
        // A record holds both kinds of state, so it stays for the longer of the two times.
        let Retention { tokens, state } = self.retention;
        let retention = Retention { tokens: tokens.max(state), state };
        let sessions = Sessions { access: self.access.clone(), settings: found.settings };
        let callers = callers(&self, (&sessions, engine), &schema, connections);
        let own = link(Source::Own(sessions.clone()), ENGINE_CONNECTIONS, found.settings, &schema);
        let direct = found.settings.way == Way::Direct;
        let mut capabilities = Capabilities::full("postgres", self.mutex);
        capabilities.bloom_filters = cfg!(feature = "bloom");
        capabilities.wake_ups = direct;
        capabilities.detach = self.mutex == MutexMode::Lease;
        capabilities.survives_restart = Some(self.mutex == MutexMode::Lease && found.survives_restart);
        let opened = Opened {
            schema,
            retention,
            mutex: self.mutex,
            session_ttl,
            callers,
            own: Arc::new(own),
            listener: Listener::new(direct.then(|| sessions.clone())),
            sessions,
            counts: Mutex::default(),
            capabilities,
            is_own: matches!(self.access, Access::Own(..)),
        };
        let view = opened.namespace(&self.options.namespace).await?;
        Ok((opened, view))
    }
}

impl Opened {
    /// Returns the addresses, for errors.
    pub(crate) fn address(&self) -> String {
        self.sessions.access.address()
    }

    fn counts(&self) -> MutexGuard<'_, Vec<SessionCount>> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of open connections, apart from those of a pool of the user's.
    pub(crate) fn open_connections(&self) -> usize {
        let mut sessions = 0;
        self.counts().retain(|count| count.open().inspect(|open| sessions += open).is_some());
        let callers = if self.is_own { self.callers.open_connections() } else { 0 };
        callers + self.own.open_connections() + self.listener.open_connections() + sessions
    }

    /// The TTL of all mutexes in session mode; `None` in lease mode.
    pub(crate) fn session_ttl(&self) -> Option<Ttl> {
        (self.mutex == MutexMode::Session).then_some(self.session_ttl)
    }

    /// Checks a namespace, and writes its mutex mode and layout unless another store has done so.
    ///
    /// # Errors
    /// `ConfigMismatch`, or the reason why the server could not be asked.
    pub(crate) async fn namespace(&self, namespace: &str) -> Result<View> {
        let (process, places) = (ProcessId::random(), ProcessId::random());
        let context = Arc::new(Context {
            schema: self.schema.clone(),
            namespace: Arc::from(namespace),
            process,
            retention: self.retention,
            hints: Arc::default(),
            turn: TurnLabel::default(),
        });
        open_namespace(&self.callers, &context, self.mutex, self.is_own).await?;
        let processes = if self.mutex == MutexMode::Session { vec![process, places] } else { vec![process] };
        let wake = Arc::new(PostgresWake::new(&self.listener, processes, Arc::clone(&context.hints)));
        Ok(View { context, wake, places })
    }

    /// Returns the parts of the engine of a namespace.
    pub(crate) fn begun(&self, view: View) -> Begun<Arc<Context>> {
        let View { context, wake, places } = view;
        let [callers, own] = self.steps(&context);
        let mut chores: Vec<Arc<dyn Chore>> = Vec::new();
        let mut mutexes = [None, None];
        if let Some(ttl) = self.session_ttl() {
            let (steps, chore, count) =
                session::sessions(&context, (&callers, &own), places, &self.sessions.access, ttl);
            mutexes = steps.map(|steps| Some(Arc::new(steps) as Arc<dyn PermitSteps>));
            chores.push(Arc::new(chore));
            self.counts().push(count);
        }
        let sweep = Arc::new(Sweep::new(Arc::clone(&context), Arc::clone(&self.own)));
        self.expect(&context.namespace, &sweep);
        chores.push(sweep);
        let [for_callers, for_engine] = mutexes;
        let wake = self.capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
        let own = steps(&own, for_engine);
        let own = Background { wake, chores, shares_servers: true, ..Background::new(own) };
        let (capabilities, callers) = (self.capabilities, steps(&callers, for_callers));
        Begun { kept: context, capabilities, callers, own }
    }

    /// Has each new connection find this namespace as it was opened, while `life` lives.
    fn expect<T: Any + Send + Sync>(&self, namespace: &Arc<str>, life: &Arc<T>) {
        let life: Life = Arc::<T>::downgrade(life);
        let expected = || Expected::new(&self.schema, self.mutex);
        self.sessions.access.hosts().expect(namespace, life, expected);
    }

    /// Returns the steps of callers, and those of the engine.
    fn steps(&self, context: &Arc<Context>) -> [Arc<PostgresSteps>; 2] {
        let steps = |link| Arc::new(PostgresSteps::new(Arc::clone(context), Arc::clone(link)));
        [steps(&self.callers), steps(&self.own)]
    }

    /// Makes the link for the tokens of users' transactions: not over the user's pool, of which the transaction may have the only
    /// connection.
    fn transactions_link(&self, engine: Option<Id>) -> Arc<Link> {
        let Self { sessions, schema, .. } = self;
        let link = link(Source::Own(sessions.clone()), 1, sessions.settings, schema);
        Arc::new(link.shared_on(engine))
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
    all.listing = Some(Arc::clone(steps) as Arc<dyn ListSteps>);
    #[cfg(feature = "bloom")]
    {
        all.bloom = Some(Arc::clone(steps) as Arc<dyn BloomSteps>);
    }
    all
}

fn context(error: Error) -> Error {
    error.context("connect", "postgres", "")
}
