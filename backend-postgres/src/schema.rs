//! The tables, functions and views of a schema.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx::migrate::{Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use stanchion_core::{Error, Result};

/// The schema name in the SQL files.
const DEFAULT: &str = "stanchion";
/// Maximum length of an identifier at the server, in bytes.
const MAX_NAME: usize = 63;

/// The migrations that make the tables, in order: version, description, SQL. A released one is
/// never changed.
const TABLES: &[(i64, &str, &str)] = &[
    (1, "namespaces", include_str!("../schema/0001_namespaces.sql")),
    (2, "permits", include_str!("../schema/0002_permits.sql")),
    (3, "limits", include_str!("../schema/0003_limits.sql")),
    (4, "session tokens", include_str!("../schema/0004_session_tokens.sql")),
    (5, "session evictions", include_str!("../schema/0005_session_evictions.sql")),
    (6, "fences", include_str!("../schema/0006_fences.sql")),
    (7, "Bloom filters", include_str!("../schema/0007_blooms.sql")),
    (8, "turns of transactions", include_str!("../schema/0008_turns.sql")),
    (9, "autovacuum", include_str!("../schema/0009_autovacuum.sql")),
    (10, "one queue", include_str!("../schema/0010_one_queue.sql")),
    (11, "session grants", include_str!("../schema/0011_session_grants.sql")),
    (12, "waiters of a process", include_str!("../schema/0012_waiters_of_process.sql")),
    (13, "inspections in parts", include_str!("../schema/0013_inspections_in_parts.sql")),
    (14, "let in", include_str!("../schema/0014_let_in.sql")),
    (15, "parts", include_str!("../schema/0015_parts.sql")),
    (16, "secret keys", include_str!("../schema/0016_secret_keys.sql")),
];

/// The functions and views, each behind the ones that it needs. All of them are replaced together,
/// in one transaction.
///
/// Processes of other versions of the library may call them meanwhile: a function that is called
/// from Rust keeps its arguments and columns, or gets another name. One that is no longer listed
/// stays in a schema until a migration drops it, which also raises [`OLDEST_LIBRARY`].
const FUNCTIONS: &[&str] = &[
    include_str!("../functions/now.sql"),
    include_str!("../functions/session_key.sql"),
    include_str!("../functions/session_locks.sql"),
    include_str!("../functions/open_namespace.sql"),
    include_str!("../functions/enter.sql"),
    include_str!("../functions/hurry.sql"),
    include_str!("../functions/pass_ids.sql"),
    include_str!("../functions/claim.sql"),
    include_str!("../functions/locked.sql"),
    include_str!("../functions/hint.sql"),
    include_str!("../functions/hints.sql"),
    include_str!("../functions/tell.sql"),
    include_str!("../functions/end_generation.sql"),
    include_str!("../functions/remove_expired.sql"),
    include_str!("../functions/untidy.sql"),
    include_str!("../functions/save.sql"),
    include_str!("../functions/mark_dead.sql"),
    include_str!("../functions/mark_live.sql"),
    include_str!("../functions/each_waiter.sql"),
    include_str!("../functions/next_live.sql"),
    include_str!("../functions/front.sql"),
    include_str!("../functions/count_silent.sql"),
    include_str!("../functions/waiting_now.sql"),
    include_str!("../functions/let_anew.sql"),
    include_str!("../functions/let_in.sql"),
    include_str!("../functions/wake.sql"),
    include_str!("../functions/tidy.sql"),
    include_str!("../functions/leave_tombstones.sql"),
    include_str!("../functions/acquire_flush.sql"),
    include_str!("../functions/acquire_each.sql"),
    include_str!("../functions/acquire_free.sql"),
    include_str!("../functions/acquire.sql"),
    include_str!("../functions/renew.sql"),
    include_str!("../functions/release.sql"),
    include_str!("../functions/release_free.sql"),
    include_str!("../functions/cancel.sql"),
    include_str!("../functions/poll.sql"),
    include_str!("../functions/keep_places.sql"),
    include_str!("../functions/attach.sql"),
    include_str!("../functions/expired_weight.sql"),
    include_str!("../functions/inspect_part.sql"),
    include_str!("../functions/resize.sql"),
    include_str!("../functions/force.sql"),
    include_str!("../functions/outcome.sql"),
    include_str!("../functions/look.sql"),
    include_str!("../functions/split.sql"),
    include_str!("../functions/list_permits.sql"),
    include_str!("../functions/list_limiters.sql"),
    include_str!("../functions/list_blooms.sql"),
    include_str!("../functions/sweep_permits.sql"),
    include_str!("../functions/holders.sql"),
    include_str!("../functions/limit_after.sql"),
    include_str!("../functions/limit_wait.sql"),
    include_str!("../functions/limit_place.sql"),
    include_str!("../functions/limit_convert.sql"),
    include_str!("../functions/limit_lock.sql"),
    include_str!("../functions/limit_load.sql"),
    include_str!("../functions/limit_save.sql"),
    include_str!("../functions/limit_decide.sql"),
    include_str!("../functions/limit_decide_one.sql"),
    include_str!("../functions/limit_refund.sql"),
    include_str!("../functions/limit_set_quota.sql"),
    include_str!("../functions/limit_reset.sql"),
    include_str!("../functions/sweep_limits.sql"),
    include_str!("../functions/session_mark.sql"),
    include_str!("../functions/session_raise.sql"),
    include_str!("../functions/session_token.sql"),
    include_str!("../functions/session_open.sql"),
    include_str!("../functions/session_first.sql"),
    include_str!("../functions/session_freed.sql"),
    include_str!("../functions/session_forget.sql"),
    include_str!("../functions/session_note.sql"),
    include_str!("../functions/session_free.sql"),
    include_str!("../functions/session_step.sql"),
    include_str!("../functions/session_leave.sql"),
    include_str!("../functions/session_holders.sql"),
    include_str!("../functions/session_shown.sql"),
    include_str!("../functions/session_evict.sql"),
    include_str!("../functions/session_end.sql"),
    include_str!("../functions/turn_begin.sql"),
    include_str!("../functions/turn_key.sql"),
    include_str!("../functions/turn_lock.sql"),
    include_str!("../functions/turn_check.sql"),
    include_str!("../functions/turn_probe.sql"),
    include_str!("../functions/fenced.sql"),
    include_str!("../functions/fence.sql"),
    include_str!("../functions/fence_hand_over.sql"),
    include_str!("../functions/bloom_mask.sql"),
    include_str!("../functions/bloom_state.sql"),
    include_str!("../functions/bloom_lock.sql"),
    include_str!("../functions/bloom_was_made.sql"),
    include_str!("../functions/bloom_unset.sql"),
    include_str!("../functions/bloom_write.sql"),
    include_str!("../functions/bloom_open.sql"),
    include_str!("../functions/bloom_save.sql"),
    include_str!("../functions/bloom_flags.sql"),
    include_str!("../functions/bloom_contains.sql"),
    include_str!("../functions/bloom_insert.sql"),
    include_str!("../functions/bloom_look.sql"),
    include_str!("../functions/bloom_probe.sql"),
    include_str!("../functions/bloom_merge.sql"),
    include_str!("../functions/bloom_clear.sql"),
    include_str!("../functions/bloom_survey.sql"),
    include_str!("../functions/bloom_read.sql"),
    include_str!("../functions/sweep_blooms.sql"),
];

/// The oldest version of the library that works with these tables and functions.
pub(crate) const OLDEST_LIBRARY: &str = "0.1.0";

/// The layout of the rows of a namespace.
pub(crate) const LAYOUT: i32 = 1;

/// A checked schema name.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

/// Returns a text as a literal, whatever `standard_conforming_strings` is.
pub(crate) fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A statement. Its text is a file of this crate, in which only the schema name is replaced,
/// quoted.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    sql: SqlStr,
    /// Whether its arguments or rows may be some 100 kB, which take long on a slow link.
    pub(crate) is_large: bool,
}

impl Default for Schema {
    fn default() -> Self {
        Self(Arc::from(DEFAULT))
    }
}

impl Schema {
    /// Checks the name of a schema.
    ///
    /// # Errors
    /// `InvalidArgument` unless the name is 1 to 63 of `a-z 0-9 _`, beginning with a letter, and
    /// not `public`.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if name == "public" {
            return Err(Error::invalid_argument(
                "`public` belongs to everybody: give the library a schema of its own",
            ));
        }
        if !begins || name.len() > MAX_NAME || !name.bytes().all(is_plain) {
            return Err(Error::invalid_argument(
                "a schema is 1 to 63 of a-z, 0-9 and _, beginning with a letter",
            ));
        }
        Ok(Self(Arc::from(name)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0
    }

    /// Returns the name as a quoted identifier.
    pub(crate) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }

    fn text(&self, text: &'static str) -> Cow<'static, str> {
        if &*self.0 == DEFAULT {
            return Cow::Borrowed(text);
        }
        Cow::Owned(text.replace("stanchion.", &format!("\"{}\".", self.0)))
    }

    /// Makes a statement in this schema.
    pub(crate) fn statement(&self, text: &'static str) -> Statement {
        let sql = match self.text(text) {
            Cow::Borrowed(text) => text.into_sql_str(),
            Cow::Owned(text) => AssertSqlSafe(text).into_sql_str(),
        };
        Statement { sql, is_large: false }
    }

    /// Makes a statement in this schema whose text contains values: the store's own numbers,
    /// checked names, and literals.
    pub(crate) fn filled(&self, text: &'static str, values: &[(&str, &str)]) -> Statement {
        let text =
            values.iter().fold(self.text(text).into_owned(), |text, (name, value)| text.replace(name, value));
        Statement { sql: AssertSqlSafe(text).into_sql_str(), is_large: false }
    }

    /// Returns the name of the table of applied migrations, in the form that the client library
    /// needs.
    pub(crate) fn migrations_table(&self) -> String {
        self.text("stanchion.migrations").into_owned()
    }

    /// Returns the SQL that makes the table of applied migrations in the same way as the client
    /// library.
    pub(crate) fn bookkeeping(&self) -> SqlStr {
        self.statement(include_str!("sql/bookkeeping.sql")).sql()
    }

    /// Returns the migrations that make the tables, in order.
    pub(crate) fn migrations(&self) -> Vec<Migration> {
        let migration = |(version, what, text): &(i64, &'static str, &'static str)| {
            let sql = self.statement(text).sql();
            Migration::new(*version, Cow::Borrowed(what), MigrationType::Simple, sql, false)
        };
        TABLES.iter().map(migration).collect()
    }

    /// Returns the SQL that makes or replaces all functions and views.
    pub(crate) fn functions(&self) -> SqlStr {
        let texts: Vec<_> = FUNCTIONS.iter().map(|text| self.text(text)).collect();
        AssertSqlSafe(texts.concat()).into_sql_str()
    }

    /// Returns the checksum of the functions, in hexadecimal, the same in every schema.
    pub(crate) fn functions_checksum() -> String {
        let text = AssertSqlSafe(FUNCTIONS.concat()).into_sql_str();
        let functions = Migration::new(0, Cow::Borrowed("functions"), MigrationType::Simple, text, false);
        hexadecimal(&functions.checksum)
    }
}

impl Statement {
    pub(crate) fn sql(&self) -> SqlStr {
        self.sql.clone()
    }

    pub(crate) fn large(self) -> Self {
        Self { is_large: true, ..self }
    }
}
