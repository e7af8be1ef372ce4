//! The options of a store.

use std::time::Duration;

use sqlx::postgres::{PgConnectOptions, PgPool};
use stanchion_core::connect::NetworkOptions;
use stanchion_core::{Credentials, CredentialsProvider, Error, MutexMode, Result, Ttl};

use super::url;
use crate::address::{Addresses, TargetSessionAttrs};
use crate::connector::{Connector, Origin};
use crate::context::Retention;
use crate::migrate::Rules;
use crate::schema::Schema;

const MAX_CONNECTIONS: usize = 4;

/// Makes a [`PostgresStore`](crate::PostgresStore). There is no I/O before
/// [`connect`](Self::connect).
#[derive(Clone, Debug)]
pub struct PostgresBuilder {
    pub(crate) connector: Connector,
    pub(crate) options: NetworkOptions,
    pub(crate) schema: String,
    pub(crate) rules: Rules,
    pub(crate) mutex: MutexMode,
    pub(crate) session_ttl: Duration,
    pub(crate) retention: Retention,
    pub(crate) connections: usize,
}

/// The checked values of the options.
pub(crate) struct Checked {
    pub(crate) schema: Schema,
    pub(crate) session_ttl: Ttl,
}

impl PostgresBuilder {
    /// Makes a builder from a URL:
    /// `postgres://[USER[:PASSWORD]@][HOST[:PORT]][,HOST[:PORT]…][/DATABASE]`, or `postgresql://…`.
    /// Missing parts are taken from the environment (`PGHOST`, `PGUSER`, `PGPASSWORD`, …) and the
    /// password file, as `psql` does. A host that begins with `%2F` is the folder of a Unix socket;
    /// an IPv6 address stands in brackets. See [`hosts`](Self::hosts) for several hosts.
    ///
    /// | parameter | meaning |
    /// | --- | --- |
    /// | `namespace` | see [`namespace`](Self::namespace) |
    /// | `schema` | see [`schema`](Self::schema) |
    /// | `schema_owner` | see [`schema_owner`](Self::schema_owner) |
    /// | `migrate` | `on` or `off`, see [`migrate`](Self::migrate) |
    /// | `mutex` | `session` or `lease`, see [`mutex`](Self::mutex) |
    /// | `session_ttl_ms` | see [`session_ttl`](Self::session_ttl) |
    /// | `request_timeout_ms` | see [`request_timeout`](Self::request_timeout) |
    /// | `sslmode` | `disable`, `prefer` (the default), `require`, `verify-ca`, `verify-full`; only the last two, and `require` with `sslrootcert`, verify the server's identity |
    /// | `sslrootcert`, `sslcert`, `sslkey` | PEM files: an authority that is trusted in addition to the system's; the client's own certificate and key |
    /// | `application_name` | the name of the sessions in `pg_stat_activity` (default `stanchion`) |
    /// | `host`, `hostaddr`, `port`, `dbname`, `user`, `password` | the parts of the URL of these names; the first three may be lists, `host=a,b&port=5432,5433` |
    /// | `target_session_attrs` | `any` or `read-write`, see [`target_session_attrs`](Self::target_session_attrs) |
    /// | `options`, `options[NAME]` | settings of each session; the store's own settings override them |
    /// | `statement-cache-capacity` | prepared statements of each connection (default 100); 0 for none |
    ///
    /// # Errors
    /// `InvalidArgument` for a URL that does not parse or an unknown parameter; `Unsupported` for a
    /// `sslmode` that demands TLS without the Cargo feature `tls`.
    pub fn new(url: &str) -> Result<Self> {
        let (options, mut parameters) = url::parse(url)?;
        let mut builder = Self::over(Connector::new(Origin::Own(Box::new(Addresses::new(options)?), None)));
        builder.options = NetworkOptions::of_url(&mut parameters)?;
        let targets = [("any", TargetSessionAttrs::Any), ("read-write", TargetSessionAttrs::ReadWrite)];
        if let Some(target) = parameters.one_of("target_session_attrs", &targets)? {
            builder = builder.target_session_attrs(target);
        }
        builder.schema = parameters.text("schema")?.unwrap_or(builder.schema);
        builder.rules.migrate = parameters.switch("migrate")?.unwrap_or(builder.rules.migrate);
        builder.rules.owner = parameters.text("schema_owner")?;
        let modes = [("session", MutexMode::Session), ("lease", MutexMode::Lease)];
        builder.mutex = parameters.one_of("mutex", &modes)?.unwrap_or(builder.mutex);
        builder.session_ttl = parameters.milliseconds("session_ttl_ms")?.unwrap_or(builder.session_ttl);
        parameters.end()?;
        builder.check()?;
        Ok(builder)
    }

    /// Makes a builder from connect options, for what a URL cannot say. The options' own settings
    /// of the session come first; the store's settings override them.
    ///
    /// # Examples
    /// ```no_run
    /// use sqlx::postgres::PgConnectOptions;
    /// use stanchion_postgres::PostgresBuilder;
    ///
    /// # async fn run() -> stanchion_core::Result<()> {
    /// let options = PgConnectOptions::new().host("db.example").database("app").username("worker");
    /// let store = PostgresBuilder::from_options(options).namespace("billing").connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_options(options: PgConnectOptions) -> Self {
        Self::over(options.into())
    }

    /// Sets what gives the credentials, which is asked before each connection is made: for
    /// passwords and tokens that change. They replace those of the URL or the options. While it
    /// fails, calls get `Unavailable`. It has the time of an attempt to connect, 1 s or a quarter
    /// of the request timeout, and runs on the runtime that connects. With a pool of the user's it
    /// does nothing: give the pool new connect options instead, which the store's own connections
    /// follow.
    ///
    /// # Examples
    /// ```no_run
    /// use stanchion_postgres::{Credentials, PostgresBuilder};
    ///
    /// # async fn token() -> Result<String, std::io::Error> { Ok(String::new()) }
    /// # fn run() -> stanchion_core::Result<()> {
    /// let builder = PostgresBuilder::new("postgres://db.example/app?sslmode=verify-full")?
    ///     .credentials(|| async { Ok(Credentials::user("worker", token().await?)) });
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn credentials<F>(mut self, provide: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = std::result::Result<Credentials, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'static,
    {
        if let Origin::Own(_, provider) = &mut self.connector.origin {
            *provider = Some(CredentialsProvider::new(provide));
        }
        self
    }

    /// Sets several hosts with their ports, 1 to 16, for instance a primary and its standbys. They
    /// share user, password, database and all other options. A host is a name, an IP address, or
    /// the folder of a Unix socket. Hosts of one store must be replicas of each other; the store
    /// takes over nothing from one to another.
    ///
    /// Each new connection of the store goes to the first host that fits, as
    /// [`target_session_attrs`](Self::target_session_attrs) says. The host that worked last comes
    /// first, then the others in the order of the list. A host that does not answer costs the time
    /// of an attempt to connect, 1 s or a quarter of the request timeout; connecting may take the
    /// request timeout for each host. If no host fits, the error names each address with its cause.
    ///
    /// With a pool of the user's it does nothing: the pool connects.
    ///
    /// # Errors
    /// [`connect`](Self::connect) returns `InvalidArgument` for an empty list, more than 16 hosts
    /// or a host without a name, and for connect options with a socket.
    ///
    /// # Examples
    /// ```no_run
    /// use sqlx::postgres::PgConnectOptions;
    /// use stanchion_postgres::{PostgresBuilder, TargetSessionAttrs};
    ///
    /// # async fn run() -> stanchion_core::Result<()> {
    /// let options = PgConnectOptions::new().database("app").username("worker");
    /// let store = PostgresBuilder::from_options(options)
    ///     .hosts([("db1.example", 5432), ("db2.example", 5432)])
    ///     .target_session_attrs(TargetSessionAttrs::ReadWrite)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn hosts<H: Into<String>>(mut self, hosts: impl IntoIterator<Item = (H, u16)>) -> Self {
        if let Origin::Own(own, _) = &mut self.connector.origin {
            own.replace(hosts.into_iter().map(|(host, port)| (host.into(), port)));
        }
        self
    }

    /// Sets which servers the store connects to (default:
    /// [`ReadWrite`](TargetSessionAttrs::ReadWrite) with several [`hosts`](Self::hosts),
    /// [`Any`](TargetSessionAttrs::Any) with one). The check is made on each new connection. With a
    /// pool of the user's it does nothing.
    #[must_use]
    pub fn target_session_attrs(mut self, target: TargetSessionAttrs) -> Self {
        if let Origin::Own(own, _) = &mut self.connector.origin {
            own.set_target(target);
        }
        self
    }

    /// Makes a builder from the user's pool. Callers' requests use the pool. If a request does not
    /// end, its connection is taken out of the pool and closed. Renewals, releases, wake-ups and
    /// the sessions of [`MutexMode::Session`] use connections of the store's own, made with the
    /// pool's connect options: they depend neither on the runtime that drives the pool nor on a
    /// free connection in it. So do callers' requests once the pool is closed, until the store is:
    /// what they hold is released all the same.
    ///
    /// The store uses at most [`connections`](Self::connections) of the pool at once, 2 by default:
    /// a pool with that many more than the application itself needs is large enough. Requests of a
    /// second runtime at the same time, and those without a runtime, use as many connections of the
    /// store's own.
    ///
    /// Each request begins with a look whether the connection is in a transaction, one round trip:
    /// `sqlx` 0.9 gives a connection back inside of an open one where a future of `begin` is
    /// dropped before the answer. Such a transaction is rolled back.
    ///
    /// The sessions of the pool must be `read committed`; the store checks one of them. Their other
    /// settings are the pool's: without a `statement_timeout`, a statement that waits for a lock
    /// continues after its caller's time limit. If the pool has to connect for a request, it must
    /// do so within the request timeout: `min_connections` helps if a login takes longer than a
    /// third of a lease.
    pub fn from_pool(pool: PgPool) -> Self {
        Self::over(Connector::new(Origin::UserPool(pool)))
    }

    fn over(connector: Connector) -> Self {
        Self {
            connector,
            options: NetworkOptions::default(),
            schema: "stanchion".to_owned(),
            rules: Rules { migrate: true, owner: None },
            mutex: MutexMode::Lease,
            session_ttl: Duration::from_secs(10),
            retention: Retention {
                tokens: Duration::from_secs(24 * 60 * 60),
                state: Duration::from_secs(60 * 60),
            },
            connections: 2,
        }
    }

    stanchion_core::network_options!();

    /// Sets the schema that holds the tables and functions, 1 to 63 of `a-z 0-9 _`, beginning with
    /// a letter (default `stanchion`). Nothing else may use this schema.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets whether connecting makes the schema, or brings it up to date, if that is necessary
    /// (default: yes). If it does not, an administrator runs [`schema_sql`](crate::schema_sql)
    /// before, and the role needs no right to change a schema.
    #[must_use]
    pub fn migrate(mut self, migrate: bool) -> Self {
        self.rules.migrate = migrate;
        self
    }

    /// Names a role of 1 to 63 bytes that may own the schema, or change it, beside those that are
    /// trusted anyway: the role that connects and the roles whose rights it has, the owner of the
    /// database, and superusers. Who has the rights of the named role or of the database's owner is
    /// trusted as well. Functions run with the rights of who calls them, so that connecting is
    /// refused where anybody else could replace them ([C30]). This is looked at when a store
    /// connects; what others changed before their right was taken from them is not seen. The
    /// functions of a [fence](crate::PostgresFence) in a database without a store are looked at
    /// when it is installed.
    ///
    /// [C30]: stanchion_core::contract#c30
    #[must_use]
    pub fn schema_owner(mut self, role: impl Into<String>) -> Self {
        self.rules.owner = Some(role.into());
        self
    }

    /// Sets how mutexes are kept: [`MutexMode::Lease`] (the default) or [`MutexMode::Session`]. The
    /// mode belongs to the namespace: the first store decides, and a store with the other mode is
    /// refused with `ConfigMismatch`.
    #[must_use]
    pub fn mutex(mut self, mode: MutexMode) -> Self {
        self.mutex = mode;
        self
    }

    /// Sets the TTL of all mutexes of this store in [`MutexMode::Session`], 100 ms to 24 h (default
    /// 10 s). A mutex whose options ask for another TTL is `InvalidArgument`. A stopped or cut-off
    /// process loses its mutexes within this time.
    #[must_use]
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = ttl;
        self
    }

    /// Sets how long the state of an idle name stays ([C25]): `tokens` for its fencing token
    /// (default 24 h), `state` for the rest, like a semaphore's limit (default 1 h). Both are 1 s
    /// to 366 days. Rows are removed up to a minute later, while any process is connected.
    ///
    /// [C25]: stanchion_core::contract#c25
    #[must_use]
    pub fn retention(mut self, tokens: Duration, state: Duration) -> Self {
        self.retention = Retention { tokens, state };
        self
    }

    /// Sets the number of connections for callers' requests, 1 to 4 (default 2). One runtime at a
    /// time has them; those of all others together have as many. The engine has two more, and one
    /// for wake-ups while a caller waits. For a store [`from_pool`](Self::from_pool), this is the
    /// number of the pool's connections that are used at once.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Checks the options.
    ///
    /// # Errors
    /// `InvalidArgument` that names an option out of range.
    pub(crate) fn check(&self) -> Result<Checked> {
        let refused = |detail: &'static str| Err(Error::invalid_argument(detail));
        if let Origin::Own(addresses, _) = &self.connector.origin {
            addresses.check()?;
        }
        self.options.check(&[self.retention.tokens, self.retention.state])?;
        if !(1..=MAX_CONNECTIONS).contains(&self.connections) {
            return refused("connections is between 1 and 4");
        }
        let is_role = |name: &String| (1..=63).contains(&name.len()) && !name.contains('\0');
        if self.rules.owner.as_ref().is_some_and(|owner| !is_role(owner)) {
            return refused("schema_owner is the name of a role, 1 to 63 bytes");
        }
        if !matches!(self.mutex, MutexMode::Session | MutexMode::Lease) {
            return refused("mutexes on Postgres are kept by session or by lease");
        }
        Ok(Checked { schema: Schema::new(&self.schema)?, session_ttl: Ttl::new(self.session_ttl)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c19_options_are_checked() {
        let builder = || PostgresBuilder::new("postgres://127.0.0.1/").unwrap();
        let ok = |builder: PostgresBuilder| builder.check().is_ok();
        let ms = Duration::from_millis;
        assert!(ok(builder()) && ok(builder().namespace("A-z_0.9")) && ok(builder().schema("locks_2")));
        for bad in ["", "a/b", "ä", &"x".repeat(65)] {
            assert!(!ok(builder().namespace(bad)), "{bad}");
        }
        for bad in ["".to_owned(), "x\0".to_owned(), "x".repeat(64)] {
            assert!(!ok(builder().schema_owner(bad)));
        }
        for bad in ["", "Locks", "public", "1a", "a-b", "a\"b", &"x".repeat(64)] {
            assert!(!ok(builder().schema(bad)), "{bad}");
        }
        let retention = |tokens, state| ok(builder().retention(ms(tokens), ms(state)));
        assert!(retention(1_000, 1_000) && !retention(999, 1_000) && !retention(1_000, 999));
        assert!(ok(builder().request_timeout(ms(1))) && !ok(builder().request_timeout(Duration::ZERO)));
        assert!(!ok(builder().request_timeout(Duration::MAX)));
        assert!(
            ok(builder().connections(4)) && !ok(builder().connections(0)) && !ok(builder().connections(5))
        );
        assert!(!ok(builder().mutex(MutexMode::Process)));
        assert!(ok(builder().session_ttl(ms(100))) && !ok(builder().session_ttl(ms(99))));
        for url in ["postgres://h/?namespace=", "postgres://h/?schema=A", "postgres://h/?session_ttl_ms=1"] {
            assert!(PostgresBuilder::new(url).is_err(), "{url}");
        }
    }
}
