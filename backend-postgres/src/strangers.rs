//! Who owns the schema, and who may change it: its functions run as the role that calls them, so
//! that whoever can replace one, or add a trigger, has code of his run by that role (C30).

use sqlx::{PgConnection, Row, raw_sql};
use stanchion_core::{Error, ErrorKind, Result};

use crate::error;
use crate::schema::{Schema, literal};

/// Checks that nobody can change the schema but who is trusted: the session's role and those whose
/// rights it has; the database's owner, the role `owner`, and who has the rights of these; and
/// superusers. What was changed before is not seen.
///
/// # Errors
/// `UnsafeStore` naming the role and its right, with the cure; or the reason why the server could
/// not be asked.
pub(crate) async fn check(connection: &mut PgConnection, schema: &Schema, owner: Option<&str>) -> Result<()> {
    let values = [("{schema}", literal(schema.name())), ("{owner}", literal(owner.unwrap_or_default()))];
    let values = values.each_ref().map(|(name, value)| (*name, value.as_str()));
    let statement = schema.filled(include_str!("sql/strangers.sql"), &values);
    let row = raw_sql(statement.sql()).fetch_optional(connection).await;
    let Some(row) = row.map_err(|error| error::certain(error::of_request(error)))? else { return Ok(()) };
    let (Ok(role), Ok(may)) = (row.try_get::<&str, _>(0), row.try_get::<&str, _>(1)) else {
        return Err(error::certain(error::unexpected()));
    };
    let name = schema.name();
    let detail = format!(
        "code of {role} could run with the rights of this role, because {role} {may} (schema {name}): name that role by \
         schema_owner if it is trusted; else use another schema, or take the right away, run the SQL of \
         `stanchion::postgres::schema_sql()` again, which replaces the functions, and drop what else it left"
    );
    Err(Error::new(ErrorKind::UnsafeStore, detail))
}
