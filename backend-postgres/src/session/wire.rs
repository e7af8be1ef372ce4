//! One session of the server's that keeps mutexes: its settings and the statements it is sent.

use std::fmt;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions, PgRow};
use sqlx::types::Uuid;
use sqlx::{PgConnection, Postgres, Row};
use stanchion_core::steps::ProcessId;
use stanchion_core::{Error, ErrorKind, FencingToken, Name, Result, Ticket, Ttl};

use super::look::MARK;
use super::post::{Answered, Batch, Eviction};
use crate::access::{self, Access};
use crate::context::{Context, micros};
use crate::error;
use crate::schema::Statement;
use crate::steps::{Place, leaving, ticket, uuid};

/// How much longer than the TTL the server keeps a silent session: a claim is answered from memory only while the
/// last statement is younger than this.
pub(super) const SLACK: Duration = Duration::from_millis(10);
/// Between two looks of the server whether the client of a session is still there, in ms.
const DEAD_CLIENT: &str = "250";

/// The answers to a try that are no tokens: the server has no room for another lock; it is not free or not the ticket's turn, and the
/// ticket has no place in the queue.
pub(super) const NO_ROOM: i64 = -1;
pub(super) const NO_PLACE: i64 = -2;

/// Bytes of the user's name for his sessions; the server keeps 63 in all.
const NAME: usize = 24;

/// What all sessions of a process share.
pub(super) struct Wires {
    access: Access,
    application: String,
    namespace: String,
    process: ProcessId,
    settings: Vec<(&'static str, String)>,
    open: Statement,
    step: Statement,
    take: Statement,
    free: Statement,
    unlock: Statement,
    probe: Statement,
    answer: Statement,
    leave: Statement,
    /// That of tokens, in µs.
    retention: i64,
}

impl fmt::Debug for Wires {
    /// Without the connect options, which have the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires")
            .field("namespace", &self.namespace)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

/// A session.
pub(super) struct Wire {
    connection: PgConnection,
    /// The index of its host.
    host: usize,
    pub(super) pid: i32,
}

/// The outcome of a try.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// A token, or why there is none; 0 where it is not free or not the ticket's turn.
    pub(super) answer: i64,
    /// The ticket whose turn it was; `None` if nobody waits.
    pub(super) head: Option<Ticket>,
}

/// The answer to a step.
#[derive(Debug, Default)]
pub(super) struct Stepped {
    /// For each name to unlock, whether it was locked.
    pub(super) unlocked: Vec<bool>,
    pub(super) taken: Vec<Taken>,
    /// The first waiters of the names that were unlocked.
    pub(super) firsts: Vec<(ProcessId, Ticket)>,
    /// Tickets that ended, of which something may still be written for others to see.
    pub(super) lefts: Vec<Ticket>,
    /// Advisory locks on the server and how many there may be, where the step looked.
    pub(super) load: Option<(i64, i64)>,
}

impl Stepped {
    fn read(row: &PgRow, request: &Request) -> Sent<Self> {
        let answers: Vec<i64> = row.try_get(0)?;
        let heads: Vec<Option<Uuid>> = row.try_get(1)?;
        let (processes, tickets): (Vec<Uuid>, Vec<Uuid>) = (row.try_get(2)?, row.try_get(3)?);
        let lefts: Vec<Uuid> = row.try_get(4)?;
        let split = answers
            .split_first_chunk::<2>()
            .and_then(|(load, answers)| Some((load, answers.split_at_checked(request.freed.len())?)));
        let Some((load, (unlocked, answers))) = split else { return Err(sqlx::Error::RowNotFound) };
        if answers.len() != request.wanted.len() || heads.len() != answers.len() {
            return Err(sqlx::Error::RowNotFound);
        }
        let taken = answers.iter().zip(heads);
        Ok(Self {
            unlocked: unlocked.iter().map(|unlocked| *unlocked != 0).collect(),
            taken: taken.map(|(answer, head)| Taken { answer: *answer, head: head.map(ticket) }).collect(),
            firsts: processes.into_iter().map(ticket).zip(tickets.into_iter().map(ticket)).collect(),
            lefts: lefts.into_iter().map(ticket).collect(),
            load: request.looks.then_some((load[0], load[1])),
        })
    }
}

/// What a step is asked to do.
#[derive(Debug)]
pub(super) struct Request {
    freed: Vec<Name>,
    ended: Vec<Option<Uuid>>,
    wanted: Vec<Name>,
    tickets: Vec<Uuid>,
    /// Of what is to be unlocked, something is written for others to see.
    are_noted: bool,
    reads_queue: bool,
    looks: bool,
}

impl Request {
    pub(super) fn of(batch: &Batch) -> Self {
        Self {
            freed: batch.unlocks.iter().map(|unlock| unlock.name.clone()).collect(),
            ended: batch.unlocks.iter().map(|unlock| unlock.ticket.map(uuid)).collect(),
            wanted: batch.tries.iter().map(|attempt| attempt.name.clone()).collect(),
            tickets: batch.tries.iter().map(|attempt| uuid(attempt.ticket)).collect(),
            are_noted: batch.unlocks.iter().any(|unlock| unlock.is_noted),
            reads_queue: batch.tries.iter().any(|attempt| attempt.reads_queue),
            looks: batch.looks,
        }
    }
}

fn texts(names: &[Name]) -> Vec<&str> {
    names.iter().map(Name::as_str).collect()
}

type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;
type Sent<T> = std::result::Result<T, sqlx::Error>;

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// What the server calls a session: what it calls the user's others, as much of it as there is room for, and whose it is.
fn named(options: &PgConnectOptions, process: ProcessId) -> String {
    let ours = options.get_application_name().unwrap_or("stanchion");
    let room =
        ours.char_indices().map(|(at, char)| at + char.len_utf8()).take_while(|end| *end <= NAME).last();
    format!("{}{MARK}{process}", &ours[..room.unwrap_or_default()])
}

/// How long the server keeps a session that it does not hear.
pub(super) fn idle(ttl: Ttl) -> Duration {
    ttl.get() + SLACK
}

/// The server's settings of a session.
pub(super) fn settings(ttl: Ttl) -> Vec<(&'static str, String)> {
    // A session that is cut off may end no sooner than its holder has stopped believing: together these are over the TTL.
    let seconds = ttl.get().div_f64(4.0).as_secs_f64().ceil().max(1.0).to_string();
    let idle = millis(idle(ttl)).to_string();
    let text = |value: &str| value.to_owned();
    vec![
        ("idle_session_timeout", idle.clone()),
        // Its own locks are tried. A table that somebody has locked holds up no hold.
        ("lock_timeout", millis(access::LOCK_WAIT).to_string()),
        ("default_transaction_isolation", text("read committed")),
        ("synchronous_commit", text("off")),
        ("jit", text("off")),
        ("client_connection_check_interval", text(DEAD_CLIENT)),
        ("tcp_keepalives_idle", seconds.clone()),
        ("tcp_keepalives_interval", seconds),
        ("tcp_keepalives_count", text("4")),
        ("tcp_user_timeout", idle),
        ("search_path", text(access::SEARCH_PATH)),
    ]
}

impl Wires {
    /// Where they lead.
    pub(super) fn address(&self) -> String {
        self.access.address()
    }

    pub(super) fn new(context: &Context, access: &Access, ttl: Ttl, process: ProcessId) -> Self {
        let statement = |text| context.schema.statement(text);
        Self {
            access: access.clone(),
            application: named(&access.options(), context.process),
            namespace: context.namespace.as_ref().to_owned(),
            process,
            settings: settings(ttl),
            open: statement(include_str!("../sql/session_open.sql")),
            step: statement(include_str!("../sql/session_step.sql")),
            take: statement(include_str!("../sql/session_try.sql")),
            free: statement(include_str!("../sql/session_free.sql")),
            unlock: statement(include_str!("../sql/session_unlock.sql")),
            probe: statement(include_str!("../sql/session_probe.sql")),
            answer: statement(include_str!("../sql/session_answer.sql")),
            leave: statement(include_str!("../sql/session_leave.sql")),
            retention: micros(context.retention.tokens),
        }
    }

    /// Waits until a session may be opened, shortly after an attempt to connect that failed (C28).
    pub(super) async fn due(&self) {
        self.access.hosts().due().await;
    }

    /// Returns the timeout of opening a session, if a statement may take `limit`.
    pub(super) fn open_timeout(&self, limit: Duration) -> Duration {
        self.access.hosts().timeout_of_all(limit)
    }

    /// Returns whether a session ends whose server takes no writes: another host takes them.
    pub(super) fn is_outlived(&self, wire: &Wire) -> bool {
        self.access.hosts().must_take_writes() && self.access.hosts().have_moved(wire.host)
    }

    /// Looks for another host that takes writes, in the background, where the store may use one. `limit` is the time of a host.
    pub(super) fn look_for_another(&self, limit: Duration) {
        let (access, hosts) = (self.access.clone(), self.access.hosts());
        let limit = hosts.timeout_of_each(limit);
        if hosts.must_take_writes() {
            hosts.look(async move {
                let connect =
                    access.connect::<PgConnection>(limit, ErrorKind::Unavailable, |options| options);
                access.hosts().attempt(connect).await
            });
        }
    }

    /// Opens a session. `limit` is the server's own limit of a statement.
    ///
    /// # Errors
    /// The reason why there is none.
    pub(super) async fn open(&self, limit: Duration) -> Result<Wire> {
        let of_server = ("statement_timeout", millis(limit).to_string());
        let settings: Vec<_> = self.settings.iter().cloned().chain([of_server]).collect();
        let set_up =
            |options: PgConnectOptions| options.application_name(&self.application).options(settings.clone());
        let hosts = self.access.hosts();
        let connect = self.access.connect(hosts.timeout_of_each(limit), ErrorKind::Unavailable, set_up);
        let made = hosts.attempt(connect).await?;
        let (connection, host) =
            made.ok_or_else(|| Error::unanswered(access::PROTOCOL).at(&self.address()))?;
        let (names, values): (Vec<_>, Vec<_>) = settings.into_iter().unzip();
        let opened = async {
            let mut wire = Wire { connection, host, pid: 0 };
            let query = sqlx::query(self.open.sql()).bind(names).bind(values);
            wire.pid = wire.row(query).await?.try_get(0)?;
            Ok(wire)
        };
        opened.await.map_err(|error| error::of_connect(error, &self.address()))
    }
}

impl Wire {
    async fn row(&mut self, query: Query<'_>) -> Sent<PgRow> {
        // The answer counts once the server is ready for the next statement.
        let rows = query.fetch_all(&mut self.connection).await?;
        rows.into_iter().next().ok_or(sqlx::Error::RowNotFound)
    }

    /// Unlocks and tries to lock. What is most frequent has statements of its own.
    pub(super) async fn step(&mut self, wires: &Wires, request: Request) -> Sent<Stepped> {
        match (&*request.freed, &*request.wanted) {
            ([name], []) => {
                let query = sqlx::query(wires.free.sql()).bind(&*wires.namespace);
                let query = query.bind(name.as_str()).bind(request.ended[0]).bind(request.are_noted);
                let row = self.row(query).await?;
                let first: (Option<Uuid>, Option<Uuid>) = (row.try_get(1)?, row.try_get(2)?);
                let firsts = first.0.map(ticket).zip(first.1.map(ticket)).into_iter().collect();
                let is_left: bool = row.try_get(3)?;
                let lefts = request.ended[0].filter(|_| is_left).map(ticket).into_iter().collect();
                Ok(Stepped { unlocked: vec![row.try_get(0)?], firsts, lefts, ..Stepped::default() })
            }
            ([], [name]) if !request.reads_queue && !request.looks => {
                let query = sqlx::query(wires.take.sql()).bind(&*wires.namespace).bind(name.as_str());
                let answer = self.row(query).await?.try_get(0)?;
                Ok(Stepped { taken: vec![Taken { answer, head: None }], ..Stepped::default() })
            }
            (freed, wanted) => {
                let query = sqlx::query(wires.step.sql()).bind(&*wires.namespace).bind(uuid(wires.process));
                let query = query.bind(texts(freed)).bind(&*request.ended);
                let query = query.bind(texts(wanted)).bind(&*request.tickets).bind(request.are_noted);
                let query = query.bind(request.looks);
                Stepped::read(&self.row(query).await?, &request)
            }
        }
    }

    /// Unlocks names, whether or not they are locked.
    pub(super) async fn unlock(&mut self, wires: &Wires, names: &[Name]) -> Sent<()> {
        let query = sqlx::query(wires.unlock.sql()).bind(&*wires.namespace).bind(texts(names));
        self.row(query).await.map(drop)
    }

    /// Gives up places, of those whose rows nobody has locked. Returns which, in the order of their names.
    pub(super) async fn leave(&mut self, wires: &Wires, places: &[Place]) -> Sent<Vec<bool>> {
        let arguments = leaving(&wires.namespace, wires.retention, places, false);
        let arguments = arguments.map_err(|error| sqlx::Error::Encode(Box::new(error)))?;
        self.row(sqlx::query_with(wires.leave.sql(), arguments)).await?.try_get(0)
    }

    /// Shows that the session is alive, which keeps it so; answers the requests of others. Tells which mutexes others want it to
    /// give up, and whether its server takes writes.
    pub(super) async fn probe(&mut self, wires: &Wires, answers: &Answered) -> Sent<(Vec<Eviction>, bool)> {
        if !answers.is_empty() {
            let query = sqlx::query(wires.answer.sql()).bind(&*answers.obeyed).bind(&*answers.declined);
            query.execute(&mut self.connection).await?;
        }
        let row = self.row(sqlx::query(wires.probe.sql()).bind(&*wires.namespace)).await?;
        let ids: Option<Vec<i64>> = row.try_get(0)?;
        let names: Option<Vec<String>> = row.try_get(1)?;
        let tokens: Option<Vec<i64>> = row.try_get(2)?;
        let asked =
            ids.into_iter().flatten().zip(names.into_iter().flatten()).zip(tokens.into_iter().flatten());
        let evictions = asked.map(|((id, name), token)| Eviction { id, name, token }).collect();
        Ok((evictions, row.try_get(3)?))
    }
}

/// A token in an answer, which is above 0.
pub(crate) fn token_of(token: i64) -> Option<FencingToken> {
    let token = u64::try_from(token).ok().filter(|token| *token > 0)?;
    FencingToken::new(token).ok()
}
