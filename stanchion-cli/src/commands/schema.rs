//! `schema`: the SQL for an administrator of Postgres.

use clap::Args;
use stanchion::postgres::schema_sql;

use crate::exit::{Exit, Failure};
use crate::output;

/// Print the SQL that makes the schema on Postgres, for an administrator
///
/// It needs no store. Pipe it into psql; the application then connects with `migrate=off` in its
/// URL.
#[derive(Args, Clone, Debug)]
pub(crate) struct Schema {
    /// The name of the schema
    #[arg(long, default_value = "stanchion")]
    schema: String,
    /// The role that the application uses: it is granted the rights it needs
    #[arg(long)]
    role: Option<String>,
    /// Leave out the migrations up to this version, for a schema that is there
    #[arg(long, default_value_t = 0, value_name = "VERSION", value_parser = clap::value_parser!(i64).range(0..))]
    after: i64,
}

pub(crate) fn schema(options: &Schema) -> Result<Exit, Failure> {
    let sql = schema_sql(&options.schema, options.role.as_deref(), options.after)?;
    output::raw(sql.as_bytes())?;
    Ok(Exit::DONE)
}
