//! The schema: where the tables and functions are, and what made them.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx::migrate::{Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use stanchion_core::{Error, Result};

/// The schema that the files name.
const DEFAULT: &str = "stanchion";
/// The longest identifier of the server's.
const LONGEST: usize = 63;

/// What makes the schema, in order: version, what it makes, and how.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (300, "session tokens", include_str!("../migrations/0300_session_tokens.sql")),
    (301, "session key", include_str!("../migrations/0301_session_key.sql")),
    (302, "session mark", include_str!("../migrations/0302_session_mark.sql")),
    (303, "session raise", include_str!("../migrations/0303_session_raise.sql")),
    (304, "session token", include_str!("../migrations/0304_session_token.sql")),
    (305, "session join", include_str!("../migrations/0305_session_join.sql")),
    (306, "session open", include_str!("../migrations/0306_session_open.sql")),
    (307, "session step", include_str!("../migrations/0307_session_step.sql")),
    (308, "session wait", include_str!("../migrations/0308_session_wait.sql")),
    (309, "session evictions", include_str!("../migrations/0309_session_evictions.sql")),
    (310, "session holders", include_str!("../migrations/0310_session_holders.sql")),
    (311, "session evict", include_str!("../migrations/0311_session_evict.sql")),
    (312, "session end", include_str!("../migrations/0312_session_end.sql")),
    (313, "session lock in", include_str!("../migrations/0313_session_lock_in.sql")),
];

/// A checked schema name.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

/// A statement of ours. Its text is a file of this crate; only the name of the schema is put in, quoted.
#[derive(Clone, Debug)]
pub(crate) struct Statement(SqlStr);

impl Schema {
    /// Checks a name.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is 1 to 63 of `a-z 0-9 _`, beginning with a letter.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if !begins || name.len() > LONGEST || !name.bytes().all(is_plain) {
            return Err(Error::invalid_argument(
                "a schema is 1 to 63 of a-z, 0-9 and _, beginning with a letter",
            ));
        }
        Ok(Self(Arc::from(name)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    fn text(&self, text: &'static str) -> Cow<'static, str> {
        if &*self.0 == DEFAULT {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace("stanchion.", &format!("\"{}\".", self.0)))
    }

    /// A statement in this schema.
    pub(crate) fn statement(&self, text: &'static str) -> Statement {
        Statement(match self.text(text) {
            Cow::Borrowed(text) => text.into_sql_str(),
            Cow::Owned(text) => AssertSqlSafe(text).into_sql_str(),
        })
    }

    /// What makes the schema, in order.
    pub(crate) fn migrations(&self) -> Vec<Migration> {
        let migration = |(version, what, text): &(i64, &'static str, &'static str)| {
            let sql = self.statement(text).sql();
            Migration::new(*version, Cow::Borrowed(what), MigrationType::Simple, sql, false)
        };
        MIGRATIONS.iter().map(migration).collect()
    }
}

impl Statement {
    pub(crate) fn sql(&self) -> SqlStr {
        self.0.clone()
    }
}
