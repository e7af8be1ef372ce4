//! Makes the schema and brings it up to date.

mod state;

use std::time::Duration;

use sqlx::migrate::{Migration, Migrator};
use sqlx::{Connection, PgConnection, SqlStr, raw_sql};
use stanchion_core::clock::{sleep, timeout};
use stanchion_core::{Error, ErrorKind, Result};

pub(crate) use self::state::check_oldest;
use self::state::{State, described, emptied, look, of_somebody_else, tables};
use crate::error;
use crate::schema::{OLDEST_LIBRARY, Schema, hexadecimal};
use crate::session_settings::{RETRY_PAUSE, Route, SessionSettings};
use crate::strangers;

/// Timeout of a migration, including the wait for other processes that migrate.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The version of this library.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What a store may do about its schema.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    /// Whether it makes the schema, and brings it up to date.
    pub(crate) migrate: bool,
    /// A role that may own it, beside those that are trusted anyway.
    pub(crate) owner: Option<String>,
}

/// Makes the schema that this version needs, or brings it up to date. If that was done already,
/// also by a later version that still works with this one, this costs one cheap request.
///
/// # Errors
/// `UnsafeStore` if somebody else can change it; `ConfigMismatch` if the schema does not work with
/// this version, or if an administrator has to make it; `Unauthorized` if the role may not look at
/// it or make it; or the reason why the server could not be asked.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    schema: &Schema,
    settings: &SessionSettings,
    rules: &Rules,
) -> Result<()> {
    let time = settings.request_timeout;
    let found = look_within(time, connection, schema).await?;
    // Afterwards: who made it meanwhile is seen.
    timeout(time, strangers::check(connection, schema, rules.owner.as_deref())).await.map_err(silent)??;
    let state = match found {
        State::Current => return Ok(()),
        state => described(&state, schema),
    };
    if !rules.migrate {
        return Err(error::of_schema(&state));
    }
    tracing::info!(
        name: "stanchion.schema.updated",
        {
            stanchion.schema.state = state,
        },
        "the schema is brought up to date"
    );
    let late = |_| Error::new(ErrorKind::Unavailable, "the schema was not brought up to date in time");
    timeout(TIMEOUT, run(connection, schema, settings.route, rules)).await.map_err(late)?
}

async fn look_within(time: Duration, connection: &mut PgConnection, schema: &Schema) -> Result<State> {
    let mut held_up = None;
    let looking = async {
        loop {
            match look(connection, schema).await {
                // Somebody changes a table: the session waits for a moment only.
                Err(error) if error::is_locked(&error) => held_up = Some(error),
                looked => return looked,
            }
            sleep(RETRY_PAUSE).await;
        }
    };
    let looked = timeout(time, looking).await;
    looked.unwrap_or_else(|elapsed| Err(held_up.unwrap_or_else(|| silent(elapsed))))
}

/// Returns the error of a server that does not answer.
fn silent<E>(_: E) -> Error {
    let detail = "the server did not tell its schema in time: it, or a pooler before it, has no session left, or has \
                  fallen silent";
    Error::new(ErrorKind::Unavailable, detail)
}

/// Migrates in one transaction, so that the schema is complete or unchanged, also through a pooler.
async fn run(connection: &mut PgConnection, schema: &Schema, route: Route, rules: &Rules) -> Result<()> {
    let failed = |error| error::certain(error::of_request(error));
    // Each statement sees what another process has migrated while this one waited.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE NOT DEFERRABLE";
    let mut transaction = connection.begin_with(begin).await.map_err(failed)?;
    let lock = schema.statement(include_str!("sql/lock_schema.sql"));
    raw_sql(lock.sql()).execute(&mut *transaction).await.map_err(failed)?;
    strangers::check(&mut transaction, schema, rules.owner.as_deref()).await?;
    // Another process may have migrated while this one waited, even a later version.
    let state = match tables(&mut transaction, schema).await? {
        [true, true] => look(&mut transaction, schema).await?,
        [true, false] => return Err(of_somebody_else(schema)),
        [false, true] => return Err(emptied(schema)),
        [false, false] => State::Missing,
    };
    if state != State::Current {
        let there = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
            .bind(schema.name())
            .persistent(false)
            .fetch_one(&mut *transaction)
            .await;
        let mut migrator = Migrator::with_migrations(schema.migrations());
        migrator.set_locking(false);
        // A later version may have made more tables.
        migrator.set_ignore_missing(true);
        migrator.dangerous_set_table_name(schema.migrations_table());
        if !there.map_err(failed)? {
            // Only if it is missing: even `IF NOT EXISTS` requires the right to make a schema.
            migrator.create_schema(schema.quoted());
        }
        // The same as `run`, whose future the compiler does not accept as `Send`.
        let applied = migrator.run_direct(None, &mut *transaction, false).await;
        applied.map_err(error::of_migration)?;
        let functions = raw_sql(schema.functions()).execute(&mut *transaction).await;
        functions.map_err(|error| error::of_migration(error.into()))?;
        let library = raw_sql(library_row(schema)).execute(&mut *transaction).await;
        library.map_err(|error| error::of_migration(error.into()))?;
    }
    // It may have been made in a schema of somebody else, or by default with rights of others.
    strangers::check(&mut transaction, schema, rules.owner.as_deref()).await?;
    if route == Route::Pooled {
        // The client library prepared statements by name in a session that other clients will use.
        transaction.clear_cached_statements().await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Returns the statement that notes this version's functions.
fn library_row(schema: &Schema) -> SqlStr {
    let checksum = Schema::functions_checksum();
    let values = [("{functions}", checksum.as_str()), ("{version}", VERSION), ("{oldest}", OLDEST_LIBRARY)];
    schema.filled(include_str!("sql/library.sql"), &values).sql()
}

/// Returns the SQL that makes a schema (1 to 63 of `a-z 0-9 _`, beginning with a letter). An
/// administrator runs it, for instance with `psql`. It grants `role` the rights to connect with
/// `migrate=off`. It is one transaction.
///
/// `after` is the last migration of tables that the schema has already; 0 if there is no schema
/// yet. The functions are replaced in any case.
///
/// # Errors
/// `InvalidArgument` for an illegal name of a schema or a role.
pub fn schema_sql(schema: &str, role: Option<&str>, after: i64) -> Result<String> {
    let schema = Schema::new(schema)?;
    let table = schema.migrations_table();
    // Nothing is found in a schema that others may write.
    let mut sql = "BEGIN;\nSET LOCAL search_path = pg_catalog, pg_temp;\n".to_owned();
    if after == 0 {
        sql += &format!("CREATE SCHEMA {};\n{}", schema.quoted(), schema.bookkeeping().as_str());
    }
    for migration in schema.migrations().iter().filter(|migration| migration.version > after) {
        let Migration { version, description, sql: text, checksum, .. } = migration;
        let checksum = hexadecimal(checksum);
        sql += &format!(
            "\n{}\nINSERT INTO {table} (version, description, success, checksum, execution_time)\n    \
             VALUES ({version}, '{description}', true, decode('{checksum}', 'hex'), -1);\n",
            text.as_str().trim_end()
        );
    }
    sql += &format!("\n{}\n{}", schema.functions().as_str(), library_row(&schema).as_str());
    if let Some(role) = role {
        if role.is_empty() || role.contains('\0') {
            return Err(Error::invalid_argument("this is not the name of a role"));
        }
        let values = [("{schema}", schema.name()), ("{role}", &role.replace('"', "\"\""))];
        let grants = schema.filled(include_str!("sql/grants.sql"), &values).sql();
        sql += &format!("\n{}", grants.as_str());
    }
    Ok(sql + "COMMIT;\n")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "tests own their runtimes")]
mod tests {
    use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

    use super::*;

    /// Longer than any timeout of a test.
    const FOR_EVER: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn c17_a_server_that_does_not_tell_its_schema_is_given_up() {
        let server = PostgresServer::start(PostgresOptions::default()).unwrap();
        let schema = Schema::new("stanchion").unwrap();
        server.script(&schema_sql("stanchion", None, 0).unwrap()).unwrap();
        let [mut locking, mut looking] = [
            PgConnection::connect(&server.url()).await.unwrap(),
            PgConnection::connect(&server.url()).await.unwrap(),
        ];
        let mut lock = locking.begin().await.unwrap();
        raw_sql("LOCK TABLE stanchion.migrations").execute(&mut *lock).await.unwrap();
        let look = look_within(Duration::from_millis(200), &mut looking, &schema);
        let error = timeout(FOR_EVER, look).await.expect("it gives up").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.to_string().contains("schema in time"), "{error}");
        drop(looking);
        lock.rollback().await.unwrap();
        assert!(matches!(look_within(TIMEOUT, &mut locking, &schema).await, Ok(State::Current)));
        assert!(TIMEOUT <= Duration::from_secs(60));
    }

    #[test]
    fn a_role_gets_what_the_manual_says() {
        let manual = include_str!("../README.md").lines().filter(|line| line.starts_with("GRANT "));
        let manual: Vec<_> = manual.map(|line| line.replace("TO ROLE", "TO app")).collect();
        let sql = schema_sql("stanchion", Some("app"), 0).unwrap();
        let ours = sql.lines().filter(|line| line.starts_with("GRANT "));
        assert_eq!(ours.map(|line| line.replace('"', "")).collect::<Vec<_>>(), manual);
    }

    #[test]
    fn the_sql_of_another_schema_names_no_default() {
        let sql = schema_sql("locks", Some("we\"ird"), 0).unwrap();
        let code: Vec<_> = sql.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
        assert!(!code.join("\n").contains("stanchion."), "{sql}");
        assert!(sql.contains("TO \"we\"\"ird\""));
        assert!(schema_sql("Locks", None, 0).is_err() && schema_sql("locks", Some(""), 0).is_err());
        let later = schema_sql("locks", None, 2).unwrap();
        assert!(
            !later.contains("CREATE SCHEMA") && !later.contains("VALUES (2,") && later.contains("VALUES (3,")
        );
        assert!(later.contains("FUNCTION \"locks\".acquire("), "functions are replaced");
    }
}
