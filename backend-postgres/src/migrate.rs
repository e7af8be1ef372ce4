//! Makes the schema and brings it up to date.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::migrate::{Migration, Migrator};
use sqlx::postgres::PgRow;
use sqlx::{Connection, PgConnection, Row, SqlStr, raw_sql};
use stanchion_core::clock::{sleep, timeout};
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;
use crate::schema::{OLDEST_LIBRARY, Schema, hexadecimal};
use crate::session_settings::{Route, SessionSettings};
use crate::strangers;

/// Timeout of a migration, including the wait for other processes that migrate.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two looks at a schema that somebody changes.
const PAUSE: Duration = Duration::from_millis(10);
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

/// The state of the schema at the server.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// It works with this version.
    Current,
    /// It does not exist.
    Missing,
    /// It lacks this migration, and maybe later ones.
    Behind(i64),
    /// Its functions are not those of this version, but of this one, which is not a later one, or
    /// of an unknown one.
    OtherFunctions(String),
}

/// What is known of the schema at the server.
#[derive(Debug)]
struct Found {
    /// The checksums of the applied migrations, by version.
    applied: HashMap<i64, String>,
    /// What is noted of the functions; `None` if that row was lost.
    library: Option<Library>,
}

#[derive(Debug)]
struct Library {
    /// The checksum of the functions.
    functions: String,
    /// The version of the library that wrote them.
    version: String,
    /// The oldest version of the library that works with them.
    oldest: String,
}

/// Makes the schema that this version needs, or brings it up to date. If that was done already,
/// also by a later version that still works with this one, this costs one cheap request.
///
/// # Errors
/// `UnsafeStore` if somebody else can change it; `ConfigMismatch` if the schema does not work with
/// this version, or if an administrator has to make it; `Unauthorized` if the role may not look at it or make it; or the reason why the server
/// could not be asked.
pub(crate) async fn prepare(
    connection: &mut PgConnection,
    schema: &Schema,
    settings: &SessionSettings,
    rules: &Rules,
) -> Result<()> {
    let time = settings.request_timeout;
    timeout(time, strangers::check(connection, schema, rules.owner.as_deref())).await.map_err(silent)??;
    let state = match look_within(time, connection, schema).await? {
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

fn described(state: &State, schema: &Schema) -> String {
    let name = schema.name();
    match state {
        State::Current => format!("schema {name} is up to date"),
        State::Missing => format!("there is no schema {name}"),
        State::Behind(version) => format!("schema {name} lacks migration {version}"),
        State::OtherFunctions(version) => format!("schema {name} has the functions of version {version}"),
    }
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
            sleep(PAUSE).await;
        }
    };
    let looked = timeout(time, looking).await;
    looked.unwrap_or_else(|elapsed| {
        Err(held_up.unwrap_or_else(|| silent(elapsed)))
    })
}

/// Returns the error of a server that does not answer.
fn silent<E>(_: E) -> Error {
    let detail = "the server did not tell its schema in time: it, or a pooler before it, has no session left, or has \
                  fallen silent";
    Error::new(ErrorKind::Unavailable, detail)
}

async fn look(connection: &mut PgConnection, schema: &Schema) -> Result<State> {
    let statement = schema.statement(include_str!("sql/applied.sql"));
    match raw_sql(statement.sql()).fetch_all(&mut *connection).await {
        Ok(rows) => compare(found(&rows)?, schema),
        // Asked apart: a server without the table answers no statement that names it.
        Err(error) if matches!(error::code(&error), Some("42P01" | "3F000")) => {
            match tables(connection, schema).await? {
                [true, false] => Err(of_somebody_else(schema)),
                // Or another process has just made them.
                _ => Ok(State::Missing),
            }
        }
        Err(error) => Err(error::certain(error::of_request(error))),
    }
}

/// Returns whether the schema has the table of migrations, and that of the library.
async fn tables(connection: &mut PgConnection, schema: &Schema) -> Result<[bool; 2]> {
    let statement = schema.statement(include_str!("sql/tables.sql"));
    let row = raw_sql(statement.sql()).fetch_one(connection).await;
    let row = row.map_err(|error| error::certain(error::of_request(error)))?;
    match (row.try_get(0), row.try_get(1)) {
        (Ok(migrations), Ok(library)) => Ok([migrations, library]),
        _ => Err(error::unexpected()),
    }
}

fn found(rows: &[PgRow]) -> Result<Found> {
    let read = || -> sqlx::Result<Found> {
        let applied = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let library = match rows.first() {
            Some(first) if first.try_get::<Option<&str>, _>(2)?.is_some() => Some(Library {
                functions: first.try_get(2)?,
                version: first.try_get(3)?,
                oldest: first.try_get(4)?,
            }),
            _ => None,
        };
        Ok(Found { applied: applied.collect::<sqlx::Result<_>>()?, library })
    };
    read().map_err(|error| error::certain(error::unexpected().with_source(error)))
}

fn of_somebody_else(schema: &Schema) -> Error {
    let detail = format!(
        "schema {} has a table `migrations` that this library did not make: use another schema",
        schema.name()
    );
    Error::new(ErrorKind::ConfigMismatch, detail)
}

/// The tables are there, and what they held is not: they were restored without their rows, or
/// emptied. Which of them are those of this version is not known.
fn emptied(schema: &Schema) -> Error {
    let name = schema.name();
    let detail = format!(
        "schema {name} has lost the rows of its tables: restore `{name}.migrations` and `{name}.library` from where it \
         was copied, or, if nobody uses it, drop it and connect again"
    );
    Error::new(ErrorKind::ConfigMismatch, detail)
}

/// Compares the schema with this version. A later version's schema works if that version says so:
/// in a rolling upgrade, and after a rollback, both versions use one schema.
fn compare(found: Found, schema: &Schema) -> Result<State> {
    let refused = |detail: String| Err(Error::new(ErrorKind::ConfigMismatch, detail));
    let Found { mut applied, library } = found;
    let (ours, name) = (numbers(VERSION), schema.name());
    if applied.is_empty() {
        return Err(emptied(schema));
    }
    if let Some(Library { oldest, .. }) = &library
        && numbers(oldest) > ours
    {
        return refused(format!(
            "schema {name} needs version {oldest} of this library or a later one; this is {VERSION}: update it, or use \
             another schema"
        ));
    }
    let mut state = State::Current;
    for migration in schema.migrations() {
        match applied.remove(&migration.version) {
            Some(checksum) if checksum == hexadecimal(&migration.checksum) => {}
            Some(_) => {
                let version = migration.version;
                return refused(format!(
                    "migration {version} of schema {name} is not the one that this version has"
                ));
            }
            None if state == State::Current => state = State::Behind(migration.version),
            None => {}
        }
    }
    if library.as_ref().is_some_and(|library| numbers(&library.version) > ours) {
        return Ok(state);
    }
    if let Some(unknown) = applied.into_keys().min() {
        return refused(format!(
            "schema {name} has migration {unknown}, which no version up to {VERSION} has"
        ));
    }
    match library {
        Some(Library { functions, .. }) if functions == Schema::functions_checksum() => {}
        _ if state != State::Current => {}
        Some(Library { version, .. }) => state = State::OtherFunctions(version),
        None => state = State::OtherFunctions("unknown".to_owned()),
    }
    Ok(state)
}

/// Returns the numbers of a version such as `1.2.3-rc.1`, for comparison; what is no number counts
/// as zero.
fn numbers(version: &str) -> [u64; 3] {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = release.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// Migrates in one transaction, so that the schema is complete or unchanged, also through a pooler.
async fn run(
    connection: &mut PgConnection,
    schema: &Schema,
    route: Route,
    rules: &Rules,
) -> Result<()> {
    let failed = |error| error::certain(error::of_request(error));
    // Each statement sees what another process has migrated while this one waited.
    let begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE NOT DEFERRABLE";
    let mut transaction = connection.begin_with(begin).await.map_err(failed)?;
    let lock = schema.statement(include_str!("sql/lock_schema.sql"));
    raw_sql(lock.sql()).execute(&mut *transaction).await.map_err(failed)?;
    strangers::check(&mut transaction, schema, rules.owner.as_deref()).await?;
    // Another process may have migrated while this one waited, even a later version.
    let state = match tables(&mut transaction, schema).await? {
        [_, true] => look(&mut transaction, schema).await?,
        [true, false] => return Err(of_somebody_else(schema)),
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

    /// Returns the state of a schema with these migrations, whose functions this version wrote.
    fn found_with(versions: &[i64], schema: &Schema) -> Found {
        let known = schema.migrations();
        let checksum = |version: i64| {
            let known = known.iter().find(|migration| migration.version == version);
            known.map_or_else(String::new, |migration| hexadecimal(&migration.checksum))
        };
        Found {
            applied: versions.iter().map(|&version| (version, checksum(version))).collect(),
            library: Some(library(Schema::functions_checksum(), VERSION, OLDEST_LIBRARY)),
        }
    }

    fn library(functions: String, version: &str, oldest: &str) -> Library {
        Library { functions, version: version.to_owned(), oldest: oldest.to_owned() }
    }

    #[test]
    fn c22_a_schema_is_compared_with_this_version() {
        let schema = Schema::new("stanchion").unwrap();
        let all: Vec<_> = schema.migrations().iter().map(|migration| migration.version).collect();
        let more = [&all[..], &[9_999]].concat();
        let found = |versions: &[i64]| found_with(versions, &schema);
        let judged = |found: Found| compare(found, &schema).map_err(|error| error.to_string());
        assert_eq!(judged(found(&all)), Ok(State::Current));
        assert_eq!(judged(found(&all[..1])), Ok(State::Behind(2)));
        let unknown = judged(found(&more)).unwrap_err();
        assert!(unknown.contains("9999"), "{unknown}");
        let mut changed = found(&all);
        changed.applied.insert(1, "00".to_owned());
        assert!(judged(changed).unwrap_err().contains("migration 1"));
        // An earlier version wrote the functions, or this one before a change.
        for version in ["0.0.9", VERSION] {
            let other = library("00".to_owned(), version, OLDEST_LIBRARY);
            let earlier = Found { library: Some(other), ..found(&all) };
            assert_eq!(judged(earlier), Ok(State::OtherFunctions(version.to_owned())));
        }
        // A later version wrote them, and still works with this one.
        let later = |oldest: &str| {
            let later = library("00".to_owned(), "9.0.0", oldest);
            Found { library: Some(later), ..found(&more) }
        };
        assert_eq!(judged(later(OLDEST_LIBRARY)), Ok(State::Current));
        let refused = judged(later("8.1.0")).unwrap_err();
        assert!(refused.contains("8.1.0") && refused.contains(VERSION), "{refused}");
        // Rows were lost.
        let lost = |versions: &[i64]| judged(Found { library: None, ..found(versions) });
        assert_eq!(lost(&all), Ok(State::OtherFunctions("unknown".to_owned())), "they are written anew");
        assert!(lost(&[]).unwrap_err().contains("has lost the rows"));
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert!(numbers("0.10.0") > numbers("0.9.9") && numbers("1.0.0") > numbers("0.99.99"));
        assert_eq!(numbers("1.2.3-rc.1"), [1, 2, 3]);
        assert_eq!(numbers("2"), [2, 0, 0]);
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
