//! Makes the schema and brings it up to date.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::migrate::{Migration, Migrator};
use sqlx::{Connection, PgConnection, Row, raw_sql};
use stanchion_core::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::access::Way;
use crate::error;
use crate::schema::Schema;

/// Timeout of a migration, including the wait for other processes that migrate.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The state of the schema at the server.
enum State {
    /// It is the schema of this version.
    Current,
    /// It does not exist.
    Missing,
    /// It lacks this migration, and maybe later ones.
    Behind(i64),
}

/// Makes the schema that this version needs. If it is there already, this costs one cheap request.
///
/// # Errors
/// `ConfigMismatch` if the schema belongs to a newer version, or if an administrator has to make it; `Unauthorized` if
/// the role may not look at it or make it; or the reason why the server could not be asked.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    schema: &Schema,
    way: Way,
    migrate: bool,
) -> Result<()> {
    let state = match look_within(TIMEOUT, connection, schema).await? {
        State::Current => return Ok(()),
        State::Missing => format!("there is no schema {}", schema.name()),
        State::Behind(version) => format!("schema {} lacks migration {version}", schema.name()),
    };
    if !migrate {
        return Err(error::of_schema(&state));
    }
    tracing::info!("{state}: the schema is brought up to date");
    let late = |_| Error::new(ErrorKind::Unavailable, "the schema was not brought up to date in time");
    timeout(TIMEOUT, run(connection, schema, way)).await.map_err(late)?
}

async fn look_within(time: Duration, connection: &mut PgConnection, schema: &Schema) -> Result<State> {
    let late = |_| Error::new(ErrorKind::Unavailable, "the server did not tell its schema in time");
    timeout(time, look(connection, schema)).await.map_err(late)?
}

async fn look(connection: &mut PgConnection, schema: &Schema) -> Result<State> {
    let statement = schema.statement(include_str!("sql/applied.sql"));
    let rows = match raw_sql(statement.sql()).fetch_all(connection).await {
        Ok(rows) => rows,
        Err(error) if matches!(error::code(&error), Some("42P01" | "3F000")) => return Ok(State::Missing),
        Err(error) => return Err(error::certain(error::of_request(error))),
    };
    let read = |row: &sqlx::postgres::PgRow| Some((row.try_get(0).ok()?, row.try_get(1).ok()?));
    let applied: Option<HashMap<i64, Vec<u8>>> = rows.iter().map(read).collect();
    compare(applied.ok_or_else(error::unexpected)?, &schema.migrations(), schema)
}

fn compare(mut applied: HashMap<i64, Vec<u8>>, ours: &[Migration], schema: &Schema) -> Result<State> {
    let mut state = State::Current;
    for migration in ours {
        match applied.remove(&migration.version) {
            Some(checksum) if checksum == *migration.checksum => {}
            Some(_) => {
                let detail = format!(
                    "migration {} of schema {} is not the one that this version has",
                    migration.version,
                    schema.name()
                );
                return Err(Error::new(ErrorKind::ConfigMismatch, detail));
            }
            None if matches!(state, State::Current) => state = State::Behind(migration.version),
            None => {}
        }
    }
    match applied.into_keys().min() {
        None => Ok(state),
        Some(newer) => {
            let detail = format!(
                "schema {} is a newer version's: it has migration {newer}, which this version does not know; \
                 update the library, or use another schema",
                schema.name()
            );
            Err(Error::new(ErrorKind::ConfigMismatch, detail))
        }
    }
}

/// Migrates in one transaction, so that the schema is complete or unchanged, also through a pooler.
async fn run(connection: &mut PgConnection, schema: &Schema, way: Way) -> Result<()> {
    let failed = |error| error::certain(error::of_request(error));
    let mut transaction = connection.begin().await.map_err(failed)?;
    let lock = schema.statement(include_str!("sql/lock_schema.sql"));
    raw_sql(lock.sql()).execute(&mut *transaction).await.map_err(failed)?;
    let there = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)")
        .bind(schema.name())
        .persistent(false)
        .fetch_one(&mut *transaction)
        .await;
    let mut migrator = Migrator::with_migrations(schema.migrations());
    migrator.set_locking(false);
    migrator.dangerous_set_table_name(schema.migrations_table());
    if !there.map_err(failed)? {
        // Only if it is missing: even `IF NOT EXISTS` requires the right to make a schema.
        migrator.create_schema(schema.quoted());
    }
    // The same as `run`, whose future the compiler does not accept as `Send`.
    let applied = migrator.run_direct(None, &mut *transaction, false).await;
    applied.map_err(error::of_migration)?;
    if way == Way::Pooled {
        // The client library prepared statements by name in a session that other clients will use.
        transaction.clear_cached_statements().await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)
}

/// Returns the SQL that makes a schema (1 to 63 of `a-z 0-9 _`, beginning with a letter). An administrator runs it, for
/// instance with `psql`. It grants `role` the rights to connect with `migrate=off`. It is one transaction.
///
/// `after` is the last migration that the schema has already; 0 if there is no schema yet.
///
/// # Errors
/// `InvalidArgument` for an illegal name of a schema or a role.
pub fn schema_sql(schema: &str, role: Option<&str>, after: i64) -> Result<String> {
    let schema = Schema::new(schema)?;
    let table = schema.migrations_table();
    let mut sql = "BEGIN;\n".to_owned();
    if after == 0 {
        sql += &format!("CREATE SCHEMA {};\n{}", schema.quoted(), schema.bookkeeping().as_str());
    }
    for migration in schema.migrations().iter().filter(|migration| migration.version > after) {
        let Migration { version, description, sql: text, checksum, .. } = migration;
        let checksum: String = checksum.iter().map(|byte| format!("{byte:02x}")).collect();
        sql += &format!(
            "\n{}\nINSERT INTO {table} (version, description, success, checksum, execution_time)\n    \
             VALUES ({version}, '{description}', true, '\\x{checksum}', -1);\n",
            text.as_str().trim_end()
        );
    }
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

    fn applied(versions: &[i64], schema: &Schema) -> HashMap<i64, Vec<u8>> {
        let known = schema.migrations();
        let checksum = |version: i64| {
            let known = known.iter().find(|migration| migration.version == version);
            known.map_or_else(Vec::new, |migration| migration.checksum.to_vec())
        };
        versions.iter().map(|&version| (version, checksum(version))).collect()
    }

    #[test]
    fn c22_versions_are_compared() {
        let schema = Schema::new("stanchion").unwrap();
        let ours = schema.migrations();
        let all: Vec<_> = ours.iter().map(|migration| migration.version).collect();
        let judged = |versions: &[i64]| compare(applied(versions, &schema), &ours, &schema);
        assert!(matches!(judged(&all), Ok(State::Current)));
        assert!(matches!(judged(&all[..1]), Ok(State::Behind(2))));
        let newer = judged(&[&all[..], &[9_999]].concat()).err().unwrap();
        assert_eq!(newer.kind(), ErrorKind::ConfigMismatch);
        assert!(newer.to_string().contains("9999") && newer.to_string().contains("newer"), "{newer}");
        let mut changed = applied(&all, &schema);
        changed.insert(1, vec![0]);
        assert_eq!(compare(changed, &ours, &schema).err().unwrap().kind(), ErrorKind::ConfigMismatch);
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
    }
}
