//! The schema at the server, compared with that of this version.

use std::collections::HashMap;

use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row, raw_sql};
use stanchion_core::{Error, ErrorKind, Result};

use super::VERSION;
use crate::error;
use crate::schema::{Schema, hexadecimal};

/// The state of the schema at the server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum State {
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
    /// The checksum of the functions, and behind it those of other builds of the same version,
    /// whose functions these have replaced.
    functions: String,
    /// The version of the library that wrote them.
    version: String,
    /// The oldest version of the library that works with them.
    oldest: String,
}

/// Says of a schema what state it is in.
pub(super) fn described(state: &State, schema: &Schema) -> String {
    let name = schema.name();
    match state {
        State::Current => format!("schema {name} is up to date"),
        State::Missing => format!("there is no schema {name}"),
        State::Behind(version) => format!("schema {name} lacks migration {version}"),
        State::OtherFunctions(version) => format!("schema {name} has the functions of version {version}"),
    }
}

/// Looks at the schema and compares it with this version.
///
/// # Errors
/// `ConfigMismatch` if it does not work with this version; or the reason why the server could not
/// be asked.
pub(super) async fn look(connection: &mut PgConnection, schema: &Schema) -> Result<State> {
    let statement = schema.statement(include_str!("../sql/applied.sql"));
    match raw_sql(statement.sql()).fetch_all(&mut *connection).await {
        Ok(rows) => compare(found(&rows)?, schema),
        // Asked apart: a server without the table answers no statement that names it.
        Err(error) if matches!(error::code(&error), Some("42P01" | "3F000")) => {
            match tables(connection, schema).await? {
                [true, false] => Err(of_somebody_else(schema)),
                [false, true] => Err(emptied(schema)),
                // Or another process has just made them.
                _ => Ok(State::Missing),
            }
        }
        Err(error) => Err(error::certain(error::of_request(error))),
    }
}

/// Returns whether the schema has the table of migrations, and that of the library.
///
/// # Errors
/// The reason why the server could not be asked.
pub(super) async fn tables(connection: &mut PgConnection, schema: &Schema) -> Result<[bool; 2]> {
    let statement = schema.statement(include_str!("../sql/tables.sql"));
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

/// Makes the error for a schema that another tool made.
pub(super) fn of_somebody_else(schema: &Schema) -> Error {
    let detail = format!(
        "schema {} has a table `migrations` that this library did not make: use another schema",
        schema.name()
    );
    Error::new(ErrorKind::ConfigMismatch, detail)
}

/// The tables are there, and what they held is not: they were restored without their rows, or
/// emptied. Which of them are those of this version is not known.
pub(super) fn emptied(schema: &Schema) -> Error {
    let name = schema.name();
    let detail = format!(
        "schema {name} has lost the rows of its tables: restore `{name}.migrations` and `{name}.library` from where it \
         was copied, or, if nobody uses it, drop it and connect again"
    );
    Error::new(ErrorKind::ConfigMismatch, detail)
}

/// Checks whether this version still works with a schema that needs the version `oldest`.
///
/// # Errors
/// `ConfigMismatch`.
pub(crate) fn check_oldest(schema: &Schema, oldest: &str) -> Result<()> {
    if numbers(oldest) <= numbers(VERSION) {
        return Ok(());
    }
    let name = schema.name();
    let detail = format!(
        "schema {name} needs version {oldest} of this library or a later one; this is {VERSION}: update it, or use \
         another schema"
    );
    Err(Error::new(ErrorKind::ConfigMismatch, detail))
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
    if let Some(Library { oldest, .. }) = &library {
        check_oldest(schema, oldest)?;
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
        Some(Library { functions, .. }) if has_checksum(&functions, &Schema::functions_checksum()) => {}
        _ if state != State::Current => {}
        Some(Library { version, .. }) => state = State::OtherFunctions(version),
        None => state = State::OtherFunctions("unknown".to_owned()),
    }
    Ok(state)
}

/// Returns whether one of these checksums, of equal lengths, is `ours`. The functions of another
/// build of the same version that has replaced ours serve this one, too: else the two would replace
/// each other's in turn.
fn has_checksum(functions: &str, ours: &str) -> bool {
    functions.as_bytes().chunks(ours.len()).any(|checksum| checksum == ours.as_bytes())
}

/// Returns the numbers of a version such as `1.2.3-rc.1`, for comparison; what is no number counts
/// as zero.
fn numbers(version: &str) -> [u64; 3] {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    let mut parts = release.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::OLDEST_LIBRARY;

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
        // Another build of this version has replaced ours.
        let ours = Schema::functions_checksum();
        let replaced = library("f".repeat(ours.len()) + &ours, VERSION, OLDEST_LIBRARY);
        assert_eq!(judged(Found { library: Some(replaced), ..found(&all) }), Ok(State::Current));
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
}
