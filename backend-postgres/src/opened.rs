//! An open store: what its namespaces share, and the parts of each one's engine.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use sqlx::{PgConnection, Row};
use stanchion_core::clock::{now, sleep};
use stanchion_core::engine::{Background, Begun};
use stanchion_core::spi::{Chore, ProcessId, Steps, WakeSource};
use stanchion_core::{Capabilities, MutexMode, Result, Ttl};
use tokio::runtime::Id;

use crate::check::{self, Expected};
use crate::config::{Checked, PostgresBuilder};
use crate::connector::{ConnectionCheck, Connector, NumberedConnection, Origin};
use crate::context::{Context, Retention};
use crate::error;
use crate::pool::{Pool, Sort};
use crate::schema::{LAYOUT, Schema};
use crate::session::{self, SessionCount};
use crate::session_settings::{LOCK_WAIT, RETRY_PAUSE, Route};
use crate::steps::dispatch::Dispatch;
use crate::steps::{PostgresSteps, StatementArguments};
use crate::sweep::Sweep;
use crate::wake::{Listener, PostgresWake};

/// Number of connections of the engine: a renewal that waits for a lock must not block releases.
const ENGINE_CONNECTIONS: usize = 2;

/// A server that was checked.
pub(crate) struct CheckedServer {
    /// It has the settings that the server needs.
    pub(crate) connector: Connector,
    /// Whether the server keeps its data through a crash.
    pub(crate) survives_restart: bool,
    /// An idle connection that was made with these settings.
    pub(crate) connection: NumberedConnection,
}

/// What the namespaces of a store share. The server was checked and is connected.
#[derive(Debug)]
pub(crate) struct Opened {
    schema: Schema,
    retention: Retention,
    mutex: MutexMode,
    session_ttl: Ttl,
    connector: Connector,
    /// The check of each connection, once a namespace is open.
    expected: Arc<Expected>,
    callers: Arc<Pool>,
    own: Arc<Pool>,
    listener: Arc<Listener>,
    /// In session mode, of the namespaces that are open.
    counts: Mutex<Vec<SessionCount>>,
    pub(crate) capabilities: Capabilities,
    /// Whether the callers' pool makes its own connections.
    is_own: bool,
}

/// A namespace that was checked.
pub(crate) struct View {
    pub(crate) context: Arc<Context>,
    pub(crate) wake: Arc<PostgresWake>,
    /// As which process waiters of session mode have their places.
    places: ProcessId,
}

impl Opened {
    /// Makes the parts of a store. `engine` is the runtime of the engine's thread.
    pub(crate) fn new(
        builder: &PostgresBuilder,
        Checked { schema, session_ttl }: Checked,
        server: CheckedServer,
        engine: Option<Id>,
    ) -> Self {
        let CheckedServer { connector, survives_restart, connection } = server;
        // A record holds both kinds of state, so it stays for the longer of the two times.
        let Retention { tokens, state } = builder.retention;
        let retention = Retention { tokens: tokens.max(state), state };
        let is_direct = connector.settings.route == Route::Direct;
        let mut capabilities = Capabilities::full("postgres", builder.mutex);
        capabilities.bloom_filters = cfg!(feature = "bloom");
        capabilities.wake_ups = is_direct;
        capabilities.detach = builder.mutex == MutexMode::Lease;
        capabilities.survives_restart = Some(builder.mutex == MutexMode::Lease && survives_restart);
        let callers = callers(builder, (&connector, engine), &schema, connection);
        let own = pool(&connector, ENGINE_CONNECTIONS, &schema).beside(&callers, Sort::Engine);
        Self {
            retention,
            mutex: builder.mutex,
            session_ttl,
            callers,
            own: Arc::new(own),
            listener: Listener::new(is_direct.then(|| connector.clone())),
            expected: Arc::new(Expected::new(&schema, builder.mutex)),
            counts: Mutex::default(),
            capabilities,
            is_own: matches!(connector.origin, Origin::Own(..)),
            connector,
            schema,
        }
    }

    /// Returns the addresses, for errors.
    pub(crate) fn address(&self) -> String {
        self.connector.address()
    }

    /// Checks in session mode whether a session can be had that keeps mutexes.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(crate) async fn check_sessions(&self, view: &View) -> Result<()> {
        match self.session_ttl() {
            Some(ttl) => {
                let time = self.callers.request_timeout();
                Box::pin(session::check(&view.context, &self.connector, ttl, time)).await
            }
            None => Ok(()),
        }
    }

    /// Gives the engine the connection of this runtime, which is the engine's, that callers do not
    /// need now.
    pub(crate) fn hand_to_engine(&self) {
        self.own.inherit(&self.callers);
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
                session::sessions(&context, (&callers, &own), places, &self.connector, ttl);
            mutexes = steps.map(|steps| Some(Arc::new(steps) as Arc<dyn Steps>));
            chores.push(Arc::new(chore));
            self.counts().push(count);
        }
        let sweep = Arc::new(Sweep::new(Arc::clone(&context), Arc::clone(&self.own)));
        self.expect(&context.namespace, &sweep);
        chores.push(sweep);
        let [for_callers, for_engine] = mutexes;
        let wake = self.capabilities.wake_ups.then_some(wake as Arc<dyn WakeSource>);
        let own = steps(own, for_engine);
        let own = Background { wake, chores, shares_servers: true, ..Background::new(own) };
        let (capabilities, callers) = (self.capabilities, steps(callers, for_callers));
        Begun { kept: context, capabilities, callers, own }
    }

    /// Has each new connection find this namespace as it was opened, while `owner` lives.
    pub(crate) fn expect<T: Any + Send + Sync>(&self, namespace: &Arc<str>, owner: &Arc<T>) {
        self.expected.begin(namespace, Arc::<T>::downgrade(owner));
        self.connector.require(Arc::clone(&self.expected) as Arc<dyn ConnectionCheck>);
    }

    /// Returns the steps of callers, and those of the engine.
    pub(crate) fn steps(&self, context: &Arc<Context>) -> [Arc<PostgresSteps>; 2] {
        let steps = |pool| Arc::new(PostgresSteps::new(Arc::clone(context), Arc::clone(pool)));
        [steps(&self.callers), steps(&self.own)]
    }

    /// Makes the pool for the tokens of users' transactions: not over the user's pool, of which the
    /// transaction may have the only connection.
    pub(crate) fn transactions_pool(&self, engine: Option<Id>) -> Arc<Pool> {
        let pool = pool(&self.connector, 1, &self.schema).shared_on(engine);
        Arc::new(pool.beside(&self.callers, Sort::Transactions))
    }
}

fn pool(connector: &Connector, connections: usize, schema: &Schema) -> Pool {
    let settings = connector.settings;
    let pool = Pool::new(connector.clone(), connections, settings.request_timeout);
    if settings.route == Route::Direct { pool } else { pool.through_pooler(&settings.begin(schema)) }
}

/// Makes the callers' pool. It begins with the connection by which the server was checked.
fn callers(
    builder: &PostgresBuilder,
    (connector, engine): (&Connector, Option<Id>),
    schema: &Schema,
    connection: NumberedConnection,
) -> Arc<Pool> {
    let pool = pool(connector, builder.connections, schema).shared_on(engine);
    let pool = match &connector.origin {
        Origin::Own(..) => pool,
        Origin::UserPool(users) => pool.borrowing(users),
    };
    pool.take_over(connection);
    Arc::new(pool)
}

/// Writes the mutex mode and the layout of the namespace, unless another store has done so, and
/// checks a session of the pool.
async fn open_namespace(pool: &Pool, context: &Context, mode: MutexMode, ours: bool) -> Result<()> {
    let wanted = check::written(mode);
    let statement = context.schema.statement(include_str!("sql/namespace.sql"));
    let arguments = StatementArguments::default().with(&*context.namespace).with(wanted).with(LAYOUT);
    let (arguments, end) = (arguments.complete()?, now() + pool.request_timeout());
    let rows = loop {
        match pool.rows_by(&statement, arguments.clone(), end).await {
            // Somebody changes the table.
            Err(error) if error::is_locked(&error) && now() + LOCK_WAIT * 2 < end => sleep(RETRY_PAUSE).await,
            rows => break rows.map_err(error::certain)?,
        }
    };
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

/// Returns the steps over one pool. `mutexes` replaces those of mutexes, if there is one.
fn steps(steps: Arc<PostgresSteps>, mutexes: Option<Arc<dyn Steps>>) -> Arc<dyn Steps> {
    match mutexes {
        Some(mutexes) => Arc::new(Dispatch { mutexes, rest: steps }),
        None => steps,
    }
}

#[async_trait]
impl ConnectionCheck for Expected {
    async fn check(&self, connection: &mut PgConnection) -> Result<()> {
        Expected::check(self, connection).await
    }
}
