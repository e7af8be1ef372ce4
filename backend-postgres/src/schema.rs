//! The schema of the tables and functions, and its migrations.

use std::borrow::Cow;
use std::sync::Arc;

use sqlx::migrate::{Migration, MigrationType};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use stanchion_core::{Error, Result};

/// The schema name in the SQL files.
const DEFAULT: &str = "stanchion";
/// Maximum length of an identifier at the server, in bytes.
const MAX_NAME: usize = 63;

/// The migrations that make the schema, in order: version, description, SQL.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "namespaces", include_str!("../migrations/0001_namespaces.sql")),
    (2, "now", include_str!("../migrations/0002_now.sql")),
    (3, "open namespace", include_str!("../migrations/0003_open_namespace.sql")),
    (4, "enter", include_str!("../migrations/0004_enter.sql")),
    (100, "permits: tables", include_str!("../migrations/0100_permits.sql")),
    (103, "claim", include_str!("../migrations/0103_claim.sql")),
    (104, "ring", include_str!("../migrations/0104_ring.sql")),
    (105, "ring all", include_str!("../migrations/0105_ring_all.sql")),
    (106, "settle", include_str!("../migrations/0106_settle.sql")),
    (107, "reap", include_str!("../migrations/0107_reap.sql")),
    (108, "save", include_str!("../migrations/0108_save.sql")),
    (110, "judge", include_str!("../migrations/0110_judge.sql")),
    (111, "mark live", include_str!("../migrations/0111_mark_live.sql")),
    (112, "each waiter", include_str!("../migrations/0112_each_waiter.sql")),
    (113, "front", include_str!("../migrations/0113_front.sql")),
    (114, "census", include_str!("../migrations/0114_census.sql")),
    (115, "next grants", include_str!("../migrations/0115_next_grants.sql")),
    (116, "wake", include_str!("../migrations/0116_wake.sql")),
    (117, "leave tombstones", include_str!("../migrations/0117_leave_tombstones.sql")),
    (119, "acquire flush", include_str!("../migrations/0119_acquire_flush.sql")),
    (120, "acquire each", include_str!("../migrations/0120_acquire_each.sql")),
    (121, "acquire", include_str!("../migrations/0121_acquire.sql")),
    (122, "renew", include_str!("../migrations/0122_renew.sql")),
    (123, "release", include_str!("../migrations/0123_release.sql")),
    (124, "cancel", include_str!("../migrations/0124_cancel.sql")),
    (125, "poll", include_str!("../migrations/0125_poll.sql")),
    (126, "attach", include_str!("../migrations/0126_attach.sql")),
    (127, "inspect", include_str!("../migrations/0127_inspect.sql")),
    (128, "resize", include_str!("../migrations/0128_resize.sql")),
    (129, "force", include_str!("../migrations/0129_force.sql")),
    (130, "outcome", include_str!("../migrations/0130_outcome.sql")),
    (131, "look", include_str!("../migrations/0131_look.sql")),
    (132, "split", include_str!("../migrations/0132_split.sql")),
    (140, "sweep permits", include_str!("../migrations/0140_sweep_permits.sql")),
    (150, "holders and waiting: views", include_str!("../migrations/0150_holders.sql")),
    (200, "limit tables", include_str!("../migrations/0200_limit_tables.sql")),
    (201, "limit after", include_str!("../migrations/0201_limit_after.sql")),
    (202, "limit wait", include_str!("../migrations/0202_limit_wait.sql")),
    (203, "limit place", include_str!("../migrations/0203_limit_place.sql")),
    (204, "limit convert", include_str!("../migrations/0204_limit_convert.sql")),
    (205, "limit lock", include_str!("../migrations/0205_limit_lock.sql")),
    (206, "limit load", include_str!("../migrations/0206_limit_load.sql")),
    (207, "limit save", include_str!("../migrations/0207_limit_save.sql")),
    (210, "limit decide", include_str!("../migrations/0210_limit_decide.sql")),
    (211, "limit decide one", include_str!("../migrations/0211_limit_decide_one.sql")),
    (212, "limit refund", include_str!("../migrations/0212_limit_refund.sql")),
    (213, "limit set quota", include_str!("../migrations/0213_limit_set_quota.sql")),
    (214, "limit reset", include_str!("../migrations/0214_limit_reset.sql")),
    (220, "sweep limits", include_str!("../migrations/0220_sweep_limits.sql")),
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
    (314, "session is silent", include_str!("../migrations/0314_session_is_silent.sql")),
    (400, "fences", include_str!("../migrations/0400_fences.sql")),
    (401, "fenced", include_str!("../migrations/0401_fenced.sql")),
    (402, "fence", include_str!("../migrations/0402_fence.sql")),
    (403, "fence_hand_over", include_str!("../migrations/0403_fence_hand_over.sql")),
    (500, "bloom tables", include_str!("../migrations/0500_bloom_tables.sql")),
    (501, "bloom mask", include_str!("../migrations/0501_bloom_mask.sql")),
    (502, "bloom state", include_str!("../migrations/0502_bloom_state.sql")),
    (503, "bloom lock", include_str!("../migrations/0503_bloom_lock.sql")),
    (504, "bloom was made", include_str!("../migrations/0504_bloom_was_made.sql")),
    (505, "bloom unset", include_str!("../migrations/0505_bloom_unset.sql")),
    (506, "bloom write", include_str!("../migrations/0506_bloom_write.sql")),
    (507, "bloom open", include_str!("../migrations/0507_bloom_open.sql")),
    (508, "bloom save", include_str!("../migrations/0508_bloom_save.sql")),
    (509, "bloom flags", include_str!("../migrations/0509_bloom_flags.sql")),
    (510, "bloom contains", include_str!("../migrations/0510_bloom_contains.sql")),
    (511, "bloom insert", include_str!("../migrations/0511_bloom_insert.sql")),
    (512, "bloom look", include_str!("../migrations/0512_bloom_look.sql")),
    (513, "bloom probe", include_str!("../migrations/0513_bloom_probe.sql")),
    (514, "bloom merge", include_str!("../migrations/0514_bloom_merge.sql")),
    (515, "bloom clear", include_str!("../migrations/0515_bloom_clear.sql")),
    (516, "bloom survey", include_str!("../migrations/0516_bloom_survey.sql")),
    (517, "bloom read", include_str!("../migrations/0517_bloom_read.sql")),
    (520, "sweep blooms", include_str!("../migrations/0520_sweep_blooms.sql")),
];

/// The layout of the rows of a namespace.
pub(crate) const LAYOUT: i32 = 1;

/// A checked schema name.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Arc<str>);

/// A statement. Its text is a file of this crate, in which only the schema name is replaced, quoted.
#[derive(Clone, Debug)]
pub(crate) struct Statement(SqlStr);

impl Default for Schema {
    fn default() -> Self {
        Self(Arc::from(DEFAULT))
    }
}

impl Schema {
    /// Checks the name of a schema.
    ///
    /// # Errors
    /// `InvalidArgument` unless the name is 1 to 63 of `a-z 0-9 _`, beginning with a letter.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let begins = name.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
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
        Statement(match self.text(text) {
            Cow::Borrowed(text) => text.into_sql_str(),
            Cow::Owned(text) => AssertSqlSafe(text).into_sql_str(),
        })
    }

    /// Makes a statement in this schema whose text contains values: the store's own numbers, and checked names.
    pub(crate) fn filled(&self, text: &'static str, values: &[(&str, &str)]) -> Statement {
        let text =
            values.iter().fold(self.text(text).into_owned(), |text, (name, value)| text.replace(name, value));
        Statement(AssertSqlSafe(text).into_sql_str())
    }

    /// Returns the name of the table of applied migrations, in the form that the client library needs.
    pub(crate) fn migrations_table(&self) -> String {
        self.text("stanchion.migrations").into_owned()
    }

    /// Returns the SQL that makes the table of applied migrations in the same way as the client library.
    pub(crate) fn bookkeeping(&self) -> SqlStr {
        self.statement(include_str!("sql/bookkeeping.sql")).sql()
    }

    /// Returns the migrations that make the schema, in order.
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
