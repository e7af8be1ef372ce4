//! One session of the server's that keeps mutexes: its settings and the statements it is sent.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::{Connection, PgConnection, Postgres, Row};
use stanchion_core::steps::ProcessId;
use stanchion_core::{FencingToken, Ttl};

use super::post::{Answered, Eviction};
use crate::access;
use crate::context::Context;
use crate::schema::Statement;

/// How much longer than the TTL the server keeps a silent session: a claim is answered from memory only while the
/// last statement is younger than this.
pub(super) const SLACK: Duration = Duration::from_millis(10);
/// A session that is granted a lock it waited for and does not speak is ended after this time, or the TTL if less.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two looks of a server whether the client of a session that waits is still there.
const DEAD_WAITER: &str = "250";
/// A wait in line at the server, in ms; then the session is checked and waits again, behind those who came meanwhile.
const LONGEST_WAIT: &str = "600000";

/// Bytes of the user's name for his sessions; the server keeps 63 in all.
const NAME: usize = 24;

/// What all sessions of a process share.
pub(super) struct Wires {
    options: PgConnectOptions,
    namespace: String,
    idle: Duration,
    open: Statement,
    step: Statement,
    take: Statement,
    unlock: Statement,
    wait: Statement,
    confirm: Statement,
    probe: Statement,
}

impl fmt::Debug for Wires {
    /// Without the connect options, which have the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires")
            .field("namespace", &self.namespace)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}

/// A session.
pub(super) struct Wire {
    connection: PgConnection,
    pub(super) pid: i32,
}

/// The answer to a step.
#[derive(Debug, Default)]
pub(super) struct Stepped {
    /// For each name to unlock, whether it was locked.
    pub(super) unlocked: Vec<bool>,
    /// For each name to try: a token, 0 where somebody else holds it, −1 where the server has no room.
    pub(super) tokens: Vec<i64>,
    /// Advisory locks on the server and how many there may be, where the step looked.
    pub(super) load: Option<(i64, i64)>,
}

impl Stepped {
    fn read(answers: &[i64], freed: usize, wanted: usize, looks: bool) -> Option<Self> {
        let (load, answers) = answers.split_first_chunk::<2>()?;
        let (unlocked, tokens) = answers.split_at_checked(freed)?;
        let unlocked = unlocked.iter().map(|unlocked| *unlocked != 0).collect();
        let stepped = Self { unlocked, tokens: tokens.to_vec(), load: looks.then_some((load[0], load[1])) };
        (stepped.tokens.len() == wanted).then_some(stepped)
    }
}

/// The answer to a probe.
#[derive(Debug, Default)]
pub(super) struct Probed {
    /// What others want the session to give up.
    pub(super) evictions: Vec<Eviction>,
    /// Those of the process's sessions that are not there any more.
    pub(super) ended: Vec<i32>,
}

type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;
type Sent<T> = Result<T, sqlx::Error>;

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What the server calls a session: what it calls the user's others, as much of it as there is room for, and whose it is.
fn named(options: &PgConnectOptions, process: ProcessId) -> String {
    let ours = options.get_application_name().unwrap_or("stanchion");
    let room =
        ours.char_indices().map(|(at, char)| at + char.len_utf8()).take_while(|end| *end <= NAME).last();
    format!("{} lock {process}", &ours[..room.unwrap_or_default()])
}

/// How long the server keeps a session that it does not hear.
fn idle(ttl: Ttl) -> Duration {
    ttl.get() + SLACK
}

/// The server's settings of a session.
pub(super) fn settings(ttl: Ttl) -> [(&'static str, String); 9] {
    // A session that is cut off may end no sooner than its holder has stopped believing: together these are over the TTL.
    let seconds = ttl.get().div_f64(4.0).as_secs_f64().ceil().max(1.0).to_string();
    let idle = millis(idle(ttl)).to_string();
    [
        ("idle_session_timeout", idle.clone()),
        ("synchronous_commit", "off".to_owned()),
        ("client_connection_check_interval", DEAD_WAITER.to_owned()),
        ("tcp_keepalives_idle", seconds.clone()),
        ("tcp_keepalives_interval", seconds),
        ("tcp_keepalives_count", "4".to_owned()),
        ("tcp_user_timeout", idle),
        ("lock_timeout", LONGEST_WAIT.to_owned()),
        ("search_path", access::SEARCH_PATH.to_owned()),
    ]
}

impl Wires {
    /// Where they lead.
    pub(super) fn address(&self) -> String {
        access::address(&self.options)
    }

    pub(super) fn new(context: &Context, options: &PgConnectOptions, ttl: Ttl) -> Self {
        let statement = |text| context.schema.statement(text);
        Self {
            options: options
                .clone()
                .application_name(&named(options, context.process))
                .options(settings(ttl)),
            namespace: context.namespace.as_ref().to_owned(),
            idle: idle(ttl),
            open: statement(include_str!("../sql/session_open.sql")),
            step: statement(include_str!("../sql/session_step.sql")),
            take: statement(include_str!("../sql/session_try.sql")),
            unlock: statement(include_str!("../sql/session_unlock.sql")),
            wait: statement(include_str!("../sql/session_wait.sql")),
            confirm: statement(include_str!("../sql/session_confirm.sql")),
            probe: statement(include_str!("../sql/session_probe.sql")),
        }
    }

    /// Opens a session. `limit` is the server's own limit of a statement; one that waits for locks has none.
    pub(super) async fn open(&self, limit: Option<Duration>) -> Sent<Wire> {
        let limit = limit.map_or(0, millis).to_string();
        let options = self.options.clone().options([("statement_timeout", limit)]);
        let mut wire = Wire { connection: PgConnection::connect_with(&options).await?, pid: 0 };
        wire.reopen(self).await?;
        Ok(wire)
    }
}

impl Wire {
    async fn row(&mut self, query: Query<'_>) -> Sent<PgRow> {
        // The answer counts once the server is ready for the next statement.
        let rows = query.fetch_all(&mut self.connection).await?;
        rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
    }

    /// Gives up whatever the session may hold and makes it as new.
    pub(super) async fn reopen(&mut self, wires: &Wires) -> Sent<()> {
        self.pid = self.row(sqlx::query(wires.open.sql())).await?.try_get(0)?;
        Ok(())
    }

    /// Unlocks and tries to lock.
    pub(super) async fn step(
        &mut self,
        wires: &Wires,
        freed: &[&str],
        wanted: &[&str],
        looks: bool,
    ) -> Sent<Stepped> {
        match (freed, wanted, looks) {
            ([name], [], _) => {
                let query = sqlx::query(wires.unlock.sql()).bind(&*wires.namespace).bind(*name);
                let unlocked = vec![self.row(query).await?.try_get(0)?];
                Ok(Stepped { unlocked, ..Stepped::default() })
            }
            ([], [name], false) => {
                let query = sqlx::query(wires.take.sql()).bind(&*wires.namespace).bind(*name);
                Ok(Stepped { tokens: vec![self.row(query).await?.try_get(0)?], ..Stepped::default() })
            }
            _ => {
                let query = sqlx::query(wires.step.sql()).bind(&*wires.namespace);
                let query = query.bind(freed).bind(wanted).bind(looks);
                let answers: Vec<i64> = self.row(query).await?.try_get(0)?;
                Stepped::read(&answers, freed.len(), wanted.len(), looks).ok_or(sqlx::Error::RowNotFound)
            }
        }
    }

    /// Waits for a lock; from the grant on the session is ended soon unless it is confirmed. `None` if the server took the
    /// process for a silent one.
    pub(super) async fn wait(&mut self, wires: &Wires, name: &str) -> Sent<Option<FencingToken>> {
        let patience = millis(PATIENCE.min(wires.idle));
        let query = sqlx::query(wires.wait.sql()).bind(&*wires.namespace).bind(name).bind(patience);
        Ok(token_of(self.row(query).await?.try_get(0)?))
    }

    /// The client of a granted lock is there.
    pub(super) async fn confirm(&mut self, wires: &Wires) -> Sent<()> {
        let query = sqlx::query(wires.confirm.sql()).bind(millis(wires.idle).to_string());
        self.row(query).await.map(drop)
    }

    /// Shows that the session is alive, which keeps it so; answers the requests of others. Tells
    /// which mutexes others want it to give up, and which of the process's sessions `others` have ended.
    pub(super) async fn probe(&mut self, wires: &Wires, others: &[i32], answered: &Answered) -> Sent<Probed> {
        let query = sqlx::query(wires.probe.sql()).bind(&*wires.namespace).bind(others);
        let query = query.bind(&*answered.obeyed).bind(&*answered.declined);
        let row = self.row(query).await?;
        let ids: Option<Vec<i64>> = row.try_get(0)?;
        let names: Option<Vec<String>> = row.try_get(1)?;
        let tokens: Option<Vec<i64>> = row.try_get(2)?;
        let asked =
            ids.into_iter().flatten().zip(names.into_iter().flatten()).zip(tokens.into_iter().flatten());
        let evictions = asked.map(|((id, name), token)| Eviction { id, name, token }).collect();
        Ok(Probed { evictions, ended: row.try_get::<Option<_>, _>(3)?.unwrap_or_default() })
    }
}

/// A token in an answer, which is above 0.
pub(crate) fn token_of(token: i64) -> Option<FencingToken> {
    let token = u64::try_from(token).ok().filter(|token| *token > 0)?;
    FencingToken::new(token).ok()
}
