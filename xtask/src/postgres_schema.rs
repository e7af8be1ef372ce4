//! `cargo xtask postgres-schema`: the SQL that an administrator runs before a store connects with
//! `migrate=off`.

use crate::Outcome;
use crate::cli::PostgresSchema;

/// Prints the SQL.
pub(crate) fn run(options: &PostgresSchema) -> Outcome {
    print!("{}", stanchion_postgres::schema_sql(&options.schema, options.role.as_deref(), options.after)?);
    Ok(true)
}
