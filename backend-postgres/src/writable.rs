//! Whether a server takes writes.

use sqlx::{PgConnection, Row, raw_sql};

/// Asks the server of a session. Returns why it takes no writes; `None` if it does.
pub(crate) async fn ask_why_unfit(connection: &mut PgConnection) -> sqlx::Result<Option<&'static str>> {
    let row = raw_sql(include_str!("sql/takes_writes.sql")).fetch_one(connection).await?;
    let (standby, read_only): (bool, &str) = (row.try_get("standby")?, row.try_get("read_only")?);
    Ok(why_unfit(standby, read_only))
}

/// Returns why such a server takes no writes; `None` if it does.
pub(crate) fn why_unfit(standby: bool, read_only: &str) -> Option<&'static str> {
    if standby {
        return Some("the server is a standby, not the primary");
    }
    (read_only != "off")
        .then_some("default_transaction_read_only is on: the server, role or database takes no writes")
}
