//! The store: an engine that runs the steps.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{Connection, PgConnection};
use stanchion_core::engine::{Engine, Namespaces};
use stanchion_core::spi::Purpose;
#[cfg(feature = "bloom")]
use stanchion_core::{BloomFilter, BloomOptions};
use stanchion_core::{
    Capabilities, Error, Limiter, LimiterOptions, ListOptions, ListPage, Mutex, MutexOptions, Name, Result,
    Semaphore, SemaphoreOptions, Stats, Store, Ttl, WaitGroup, WaitGroupOptions,
};

use crate::config::PostgresBuilder;
use crate::context::Context;
use crate::error;
use crate::opened::Opened;
use crate::pool::Pool;
use crate::transaction::{Asked, LockInOptions, TransactionLock, lock_in, outside_of_transaction};

/// Lease of a transaction's turn: so long a killed process delays the next one. A third of it is
/// the default time limit of a request.
const TURN_TTL: Duration = Duration::from_secs(6);

/// All primitives on a Postgres server, 14 or later.
///
/// The store uses few connections, whatever the number of holds, waiters and
/// [namespaces](Self::namespace): two for callers' requests (and two for all further runtimes
/// together), two for the engine's renewals, releases and polls, one that listens for wake-ups
/// while a caller waits, and in [`MutexMode::Session`](stanchion_core::MutexMode::Session) one that
/// keeps all mutexes of a namespace. All are made when they are needed, and replaced when they
/// break.
///
/// # Drop
/// The drop of the last handle, guard or clone waits until queued releases are sent, for
/// [`drain`](PostgresBuilder::drain) at most. While the process goes on, they are sent for up to 2
/// s. The leases free the rest.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    engine: Engine,
    context: Arc<Context>,
    opened: Arc<Opened>,
    namespaces: Arc<Namespaces<Arc<Context>>>,
    /// For the tokens of users' transactions.
    transactions: Arc<Pool>,
}

impl PostgresStore {
    pub(crate) fn new(
        (engine, context): (Engine, Arc<Context>),
        opened: Arc<Opened>,
        namespaces: Arc<Namespaces<Arc<Context>>>,
        transactions: Arc<Pool>,
    ) -> Self {
        Self { engine, context, opened, namespaces, transactions }
    }

    /// The TTL of all mutexes in session mode; `None` in lease mode.
    fn session_ttl(&self) -> Option<Ttl> {
        self.opened.session_ttl()
    }

    /// Connects to the server of a URL; see [`PostgresBuilder::new`] for the parts of a URL.
    ///
    /// # Errors
    /// As [`PostgresBuilder::new`] and [`PostgresBuilder::connect`].
    pub async fn connect(url: &str) -> Result<Self> {
        Self::builder(url)?.connect().await
    }

    /// Makes a builder with the server of a URL.
    ///
    /// # Errors
    /// As [`PostgresBuilder::new`].
    pub fn builder(url: &str) -> Result<PostgresBuilder> {
        PostgresBuilder::new(url)
    }

    /// Returns the store's view of another namespace, as [`Store::namespace`]. The mutex mode is
    /// that of this store. In [`MutexMode::Session`](stanchion_core::MutexMode::Session) each
    /// namespace of which a caller has a mutex, or waits for one, has a connection of its own for
    /// that; all others are shared.
    ///
    /// # Errors
    /// As [`Store::namespace`]; `ConfigMismatch` if the namespace has another mutex mode or layout.
    ///
    /// # Cancel safety
    /// As [`Store::namespace`].
    ///
    /// # Examples
    /// ```no_run
    /// use stanchion_core::Store;
    /// use stanchion_postgres::PostgresStore;
    ///
    /// # async fn run() -> stanchion_core::Result<()> {
    /// let store = PostgresStore::connect("postgres://app@localhost/app?namespace=shop").await?;
    /// let tenant = store.namespace("tenant-7").await?;
    /// let guard = tenant.mutex("invoices", Default::default())?.lock().await?;
    /// guard.release().await
    /// # }
    /// ```
    pub async fn namespace(&self, namespace: &str) -> Result<Self> {
        let opening = async {
            let view = self.opened.namespace(namespace).await;
            Ok(self.opened.begun(view.map_err(|error| error.at(&self.opened.address()))?))
        };
        let opened = self.namespaces.open(&self.engine, namespace, opening).await;
        let (engine, context) = opened.map_err(|error| error.context("namespace", "postgres", namespace))?;
        Ok(Self { engine, context, ..self.clone() })
    }

    /// Locks a mutex for the duration of a user's transaction, whose commit or rollback frees it.
    /// Returns the fencing token and the ticket of the grant.
    ///
    /// The transaction is one of the store's database and `READ COMMITTED`, and was begun by
    /// `sqlx`: a `&mut Transaction`, or the connection in it. The call uses connections of the
    /// store's own beside that of the transaction, also if the store is made from a pool, all of
    /// whose connections may have transactions that wait.
    ///
    /// The call waits in the queue of all callers. The transaction's `lock_timeout` limits the
    /// wait; without it there is no limit, also while the store cannot make a connection of its
    /// own, which is logged as an outage. The server detects deadlocks between such waits and
    /// row locks, and ends one of the transactions. It cannot see a guard, or a call that waits in
    /// front of this one: if a caller has the mutex by a guard and waits for a row of this
    /// transaction, this call waits until the guard is given up. The same transaction may
    /// lock the same mutex again. There is no lease: while the transaction stays open, it keeps the
    /// mutex ([M1] holds as long as the transaction is open, and no longer), so set
    /// `idle_in_transaction_session_timeout`. A `ROLLBACK TO` a savepoint that is older than the
    /// lock frees it: [`TransactionLock::check`] says whether that happened. The end of the
    /// transaction wakes nobody: the next waiter asks within 300 ms, or 1 s if its process is not
    /// the first of the queue.
    ///
    /// The transaction has a short statement twice a second while the call waits for its turn, and
    /// [`inspect`](stanchion_core::Mutex::inspect) shows a holder with the label `lock_in` until
    /// the transaction has the mutex, and nobody afterwards; `force_unlock` does not end a
    /// transaction. Until the transaction has the mutex, its turn is a hold with a lease of 6 s,
    /// that of the process in session mode: a process that is killed in its turn delays the next
    /// caller by so much at most. Inside the transaction call nothing else of the store, unless the
    /// store has a pool of its own.
    ///
    /// # Errors
    /// `InvalidArgument` for a bad name, a connection outside of a transaction, a transaction of
    /// another database, or one that is not `READ COMMITTED`, which may not see what the last
    /// holder changed (see [`lock_in_with`](Self::lock_in_with)); `Timeout` if the mutex was not
    /// free within the `lock_timeout`; `Unavailable` if the server refused, for instance because of
    /// a deadlock, or if the turn was lost before the transaction had the mutex; `Unknown` if no
    /// answer arrived. After each of the three roll the transaction back: it may have the mutex.
    ///
    /// # Cancel safety
    /// A dropped call may have taken the lock. The end of the transaction frees it; nothing else is
    /// left in its session. A wait that is under way at the server goes on, and the rollback waits
    /// for it, for 1.5 s at most.
    ///
    /// # Examples
    /// A [fence](crate::PostgresFence) around the rows also refuses a late holder that has the same
    /// mutex by a guard:
    ///
    /// ```no_run
    /// use sqlx::PgPool;
    /// use stanchion_postgres::{PostgresFence, PostgresStore};
    ///
    /// # type Failure = Box<dyn std::error::Error>;
    /// # async fn pay(pool: PgPool, store: PostgresStore) -> Result<(), Failure> {
    /// let mut transaction = pool.begin().await?;
    /// sqlx::query("SET LOCAL lock_timeout = '5s'").execute(&mut *transaction).await?;
    /// let lock = store.lock_in(&mut transaction, "invoices/42").await?;
    ///
    /// let fence = PostgresFence::new("invoices/42");
    /// fence.check(&mut *transaction, &lock).await?;
    /// let paid = sqlx::query("UPDATE invoices SET paid = true WHERE id = 42");
    /// paid.execute(&mut *transaction).await?;
    /// transaction.commit().await?; // frees the mutex
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [M1]: stanchion_core::contract#m1
    pub async fn lock_in(&self, transaction: &mut PgConnection, name: &str) -> Result<TransactionLock> {
        self.lock_in_with(transaction, name, LockInOptions::default()).await
    }

    /// Locks a mutex as [`lock_in`](Self::lock_in), with options.
    ///
    /// # Errors
    /// As [`lock_in`](Self::lock_in).
    ///
    /// # Cancel safety
    /// As [`lock_in`](Self::lock_in).
    pub async fn lock_in_with(
        &self,
        transaction: &mut PgConnection,
        name: &str,
        options: LockInOptions,
    ) -> Result<TransactionLock> {
        let operation = "lock_in";
        let locked = self.locked_in(operation, transaction, name, options).await?;
        locked.ok_or_else(|| error::unexpected().context(operation, "postgres", name))
    }

    /// Locks a mutex as [`lock_in`](Self::lock_in), without waiting. Returns `None` if another
    /// caller holds the mutex or waits for it.
    ///
    /// # Errors
    /// As [`lock_in`](Self::lock_in).
    ///
    /// # Cancel safety
    /// As [`lock_in`](Self::lock_in).
    pub async fn try_lock_in(
        &self,
        transaction: &mut PgConnection,
        name: &str,
    ) -> Result<Option<TransactionLock>> {
        self.try_lock_in_with(transaction, name, LockInOptions::default()).await
    }

    /// Locks a mutex as [`try_lock_in`](Self::try_lock_in), with options.
    ///
    /// # Errors
    /// As [`lock_in`](Self::lock_in).
    ///
    /// # Cancel safety
    /// As [`lock_in`](Self::lock_in).
    pub async fn try_lock_in_with(
        &self,
        transaction: &mut PgConnection,
        name: &str,
        options: LockInOptions,
    ) -> Result<Option<TransactionLock>> {
        self.locked_in("try_lock_in", transaction, name, options.without_waiting()).await
    }

    fn mutex_for(&self, purpose: Purpose, name: &str, mut options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        if let Some(ttl) = self.session_ttl() {
            let context = |error: Error| error.context("mutex", "postgres", name);
            options.check().map_err(context)?;
            if options.hold.ttl.is_some_and(|asked| asked != ttl.get()) {
                let all = ttl.get();
                let detail = format!(
                    "sessions keep the mutexes of this store, with one TTL for all, {all:?}: see `session_ttl`"
                );
                return Err(context(Error::invalid_argument(detail)));
            }
            options.hold.ttl = Some(ttl.get());
        }
        self.engine.mutex_for(purpose, name, options)
    }

    async fn locked_in(
        &self,
        operation: &'static str,
        transaction: &mut PgConnection,
        name: &str,
        options: LockInOptions,
    ) -> Result<Option<TransactionLock>> {
        let locked = async {
            self.engine.check(operation)?;
            if !transaction.is_in_transaction() {
                return Err(outside_of_transaction());
            }
            let (context, pool) = (&*self.context, &self.transactions);
            let (name, engine) = (Name::new(name)?, &self.engine);
            let by_session = self.session_ttl().is_some();
            let mut turn = MutexOptions::default().label("lock_in");
            if !by_session {
                turn = turn.ttl(TURN_TTL);
            }
            let mutex = self.mutex_for(Purpose::Transaction, name.as_str(), turn)?;
            let asked = Asked { context, pool, transaction, name, options, engine, by_session, end: None };
            Box::pin(lock_in(asked, mutex)).await
        };
        // The turn is taken by another operation, which its errors name.
        locked.await.map_err(|error| error.in_operation(operation).context(operation, "postgres", name))
    }

    /// Connects a store over the user's pool, with the default options; see
    /// [`PostgresBuilder::from_pool`].
    ///
    /// # Errors
    /// As [`PostgresBuilder::connect`].
    ///
    /// # Examples
    /// ```no_run
    /// use sqlx::postgres::PgPoolOptions;
    /// use stanchion_core::Store;
    /// use stanchion_postgres::PostgresStore;
    ///
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// let options = PgPoolOptions::new().max_connections(10);
    /// let pool = options.connect("postgres://app@localhost/app").await?;
    /// let store = PostgresStore::from_pool(pool.clone()).await?;
    /// let guard = store.mutex("report", Default::default())?.lock().await?;
    /// sqlx::query("UPDATE reports SET done = true").execute(&pool).await?;
    /// guard.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn from_pool(pool: sqlx::PgPool) -> Result<Self> {
        PostgresBuilder::from_pool(pool).connect().await
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn mutex(&self, name: &str, options: MutexOptions) -> Result<Arc<dyn Mutex>> {
        self.mutex_for(Purpose::Guard, name, options)
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

    async fn namespace(&self, namespace: &str) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(Self::namespace(self, namespace).await?))
    }

    /// Reads the rows of the namespace in the order of their names, 100 names in a statement that
    /// locks nothing. Rows that are kept for fencing tokens are read, too. Where sessions keep
    /// mutexes, a mutex for which nobody waits is listed once it is held for a second, and each
    /// statement about mutexes reads all locks of the server.
    async fn list(&self, options: ListOptions) -> Result<ListPage> {
        self.engine.list(options).await
    }

    fn capabilities(&self) -> Capabilities {
        self.engine.capabilities()
    }

    fn stats(&self) -> Stats {
        let mut stats = self.engine.stats();
        stats.connections = Some(self.opened.open_connections() + self.transactions.open_connections());
        stats
    }

    async fn ping(&self) -> Result<()> {
        self.engine.ping().await
    }

    async fn close(&self) -> Result<()> {
        self.engine.close().await
    }

    async fn drain(&self) -> Result<()> {
        self.engine.drain().await
    }

    fn drain_blocking(&self, timeout: Duration) -> Result<()> {
        self.engine.drain_blocking(timeout)
    }
}
