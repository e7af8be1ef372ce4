//! The resource's side of fencing: an older holder never writes after a newer one, in any order of
//! arrival.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::lease;
use sqlx::postgres::PgDatabaseError;
use sqlx::types::Uuid;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, Row};
use stanchion_conformance::support::{pause, stays_pending};
use stanchion_core::{ErrorKind, FencingToken, Ticket};
use stanchion_postgres::PostgresFence;
use stanchion_testbed::servers::{self, PostgresOptions, PostgresServer};
use tokio::task::JoinSet;

const WRITERS: u64 = 12;
const WRITES: u64 = 100;

fn token(number: u64) -> FencingToken {
    FencingToken::new(number).unwrap()
}

fn uuid(ticket: Ticket) -> Uuid {
    Uuid::from_u128(ticket.as_u128())
}

/// A schema of its own, with a fence and the table that it guards.
struct Fixture {
    schema: String,
    fence: PostgresFence,
}

impl Fixture {
    async fn new() -> Self {
        let schema = format!("f{}", Ticket::random());
        let fence = PostgresFence::in_schema("invoices/42", &schema).unwrap();
        let fixture = Self { schema, fence };
        let mut connection = fixture.connect().await;
        fixture.fence.install(&mut connection).await.unwrap();
        fixture.fence.install(&mut connection).await.unwrap();
        fixture
            .run(&mut connection, "CREATE TABLE S.value (token bigint); INSERT INTO S.value VALUES (0)")
            .await;
        fixture
            .run(&mut connection, "CREATE TABLE S.log (id bigint GENERATED ALWAYS AS IDENTITY, token bigint)")
            .await;
        fixture
    }

    async fn connect(&self) -> PgConnection {
        PgConnection::connect(servers::postgres().unwrap().url()).await.unwrap()
    }

    /// Replaces `S` by the schema in a text.
    fn sql(&self, text: &str) -> AssertSqlSafe<String> {
        AssertSqlSafe(text.replace("S.", &format!("{}.", self.schema)))
    }

    async fn run(&self, connection: &mut PgConnection, text: &str) {
        sqlx::raw_sql(self.sql(text)).execute(connection).await.unwrap();
    }

    /// Writes in one statement, with the guard in its condition. Returns whether the write was
    /// allowed.
    async fn update(&self, connection: &mut PgConnection, number: u64, ticket: Ticket) -> bool {
        let text = "UPDATE S.value SET token = $1 WHERE S.fenced('invoices/42', $1, $2)";
        let query = sqlx::query(self.sql(text)).bind(i64::try_from(number).unwrap()).bind(uuid(ticket));
        query.execute(connection).await.unwrap().rows_affected() == 1
    }

    async fn value(&self, connection: &mut PgConnection) -> i64 {
        connection.fetch_one(self.sql("SELECT token FROM S.value")).await.unwrap().get(0)
    }
}

#[tokio::test]
async fn m9_smaller_tokens_and_other_tickets_are_refused() {
    let fixture = Fixture::new().await;
    let mut raw = fixture.connect().await;
    let (old, new) = (Ticket::random(), Ticket::random());
    for _ in 0..2 {
        fixture.fence.check(&mut raw, (token(7), old)).await.unwrap();
        assert!(fixture.update(&mut raw, 7, old).await);
    }
    for (number, ticket) in [(6, old), (6, new), (7, new)] {
        let error = fixture.fence.check(&mut raw, (token(number), ticket)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost, "{number}");
        let writer = if number == 7 { "another hold with it has" } else { "token 7 has" };
        let text = format!("token {number} may not write any more: {writer}");
        assert!(error.to_string().ends_with(&text), "{error}");
        assert!(!fixture.update(&mut raw, number, ticket).await, "{number}");
    }
    assert_eq!(fixture.value(&mut raw).await, 7);
    // 2^53 − 1 is as exact as any other.
    let (largest, second) = (token((1 << 53) - 1), token((1 << 53) - 2));
    fixture.fence.check(&mut raw, (largest, new)).await.unwrap();
    assert_eq!(fixture.fence.check(&mut raw, (second, new)).await.unwrap_err().kind(), ErrorKind::Lost);
    // Another resource has a token of its own.
    let other = PostgresFence::in_schema("invoices/43", &fixture.schema).unwrap();
    other.check(&mut raw, (token(1), old)).await.unwrap();
}

#[tokio::test]
async fn m9_a_refused_transaction_cannot_be_committed() {
    let fixture = Fixture::new().await;
    let mut raw = fixture.connect().await;
    fixture.fence.check(&mut raw, (token(8), Ticket::random())).await.unwrap();
    let mut transaction = raw.begin().await.unwrap();
    let query = fixture.sql("UPDATE S.value SET token = 7");
    transaction.execute(query).await.unwrap();
    let error = fixture.fence.check(&mut *transaction, (token(7), Ticket::random())).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<sqlx::Error>().unwrap();
    let told = source.as_database_error().unwrap().downcast_ref::<PgDatabaseError>();
    assert_eq!(told.code(), "STF01");
    assert!(told.message().contains("token 7") && told.message().contains("'invoices/42'"), "{told}");
    let aborted = transaction.execute(fixture.sql("SELECT 1")).await.unwrap_err();
    assert_eq!(aborted.as_database_error().unwrap().code().as_deref(), Some("25P02"));
    // The server rolls the transaction back.
    let _ = transaction.commit().await;
    assert_eq!(fixture.value(&mut raw).await, 0);
}

#[tokio::test]
async fn m9_a_mark_that_was_rolled_back_was_none() {
    let fixture = Fixture::new().await;
    let mut raw = fixture.connect().await;
    let mut transaction = raw.begin().await.unwrap();
    fixture.fence.check(&mut *transaction, (token(9), Ticket::random())).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(fixture.update(&mut raw, 8, Ticket::random()).await);
}

#[tokio::test]
async fn m9_an_attached_hold_is_handed_over() {
    let fixture = Fixture::new().await;
    let mut raw = fixture.connect().await;
    let (from, to) = (Ticket::random(), Ticket::random());
    fixture.fence.hand_over(&mut raw, (token(5), from)).await.unwrap();
    fixture.fence.check(&mut raw, (token(7), from)).await.unwrap();
    fixture.fence.hand_over(&mut raw, (token(7), to)).await.unwrap();
    fixture.fence.hand_over(&mut raw, (token(7), to)).await.unwrap();
    fixture.fence.check(&mut raw, (token(7), to)).await.unwrap();
    assert_eq!(fixture.fence.check(&mut raw, (token(7), from)).await.unwrap_err().kind(), ErrorKind::Lost);
    let error = fixture.fence.hand_over(&mut raw, (token(6), from)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().ends_with("token 6 may not write any more: token 7 has"), "{error}");
}

#[tokio::test]
async fn m9_null_is_no_holder() {
    let fixture = Fixture::new().await;
    let mut raw = fixture.connect().await;
    let ticket = "'00000000-0000-0000-0000-000000000001'";
    for arguments in [format!("NULL, 1, {ticket}"), format!("'r', NULL, {ticket}"), "'r', 1, NULL".to_owned()]
    {
        for function in ["fence", "fence_hand_over"] {
            let refused = raw.execute(fixture.sql(&format!("SELECT S.{function}({arguments})"))).await;
            assert!(refused.is_err(), "{function}({arguments})");
        }
        let update = fixture.sql(&format!("UPDATE S.value SET token = 1 WHERE S.fenced({arguments})"));
        assert_eq!(raw.execute(update).await.unwrap().rows_affected(), 0);
    }
    for number in ["-1", "9007199254740992"] {
        let refused = raw.execute(fixture.sql(&format!("SELECT S.fenced('r', {number}, {ticket})"))).await;
        assert!(refused.is_err(), "{number} is no token");
    }
}

/// The newer holder waits for the commit of the older one, and writes after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_a_newer_holder_waits_for_an_open_transaction() {
    let fixture = Fixture::new().await;
    let (mut raw, mut other) = (fixture.connect().await, fixture.connect().await);
    let (old, new) = (Ticket::random(), Ticket::random());
    let mut transaction = raw.begin().await.unwrap();
    fixture.fence.check(&mut *transaction, (token(7), old)).await.unwrap();
    {
        let mut newer = Box::pin(fixture.update(&mut other, 8, new));
        stays_pending(Duration::from_millis(200), "it waits", &mut newer).await;
        assert!(fixture.update(&mut transaction, 7, old).await);
        transaction.commit().await.unwrap();
        assert!(newer.await);
    }
    assert_eq!(fixture.value(&mut other).await, 8);
    assert!(!fixture.update(&mut raw, 7, old).await);
}

/// Writers with growing and with old tokens race, each in one of three ways. A log in the same
/// transactions shows the order in which the server let them write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn m9_in_a_race_the_tokens_of_the_writes_never_fall() {
    let fixture = std::sync::Arc::new(Fixture::new().await);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let fixture = std::sync::Arc::clone(&fixture);
        writers.spawn(async move {
            let mut raw = fixture.connect().await;
            let (ticket, mut written) = (Ticket::random(), 0_u64);
            for write in 0..WRITES {
                // Every third write is by a holder that was paused, whose token is an old one.
                let round = if write % 3 == 2 { write / 2 } else { write };
                let number = round * WRITERS + writer + 1;
                written += u64::from(match writer % 3 {
                    0 => checked(&fixture, &mut raw, number, ticket, "READ COMMITTED").await,
                    1 => checked(&fixture, &mut raw, number, ticket, "REPEATABLE READ").await,
                    _ => conditional(&fixture, &mut raw, number, ticket).await,
                });
            }
            written
        });
    }
    let mut written = 0;
    while let Some(count) = writers.join_next().await {
        written += count.unwrap();
    }
    let mut raw = fixture.connect().await;
    let log = raw.fetch_all(fixture.sql("SELECT token FROM S.log ORDER BY id")).await.unwrap();
    let log: Vec<i64> = log.iter().map(|row| row.get(0)).collect();
    assert_eq!(log.len() as u64, written);
    assert!(log.windows(2).all(|pair| pair[0] <= pair[1]), "{log:?}");
    let largest = i64::try_from(WRITERS * WRITES).unwrap();
    assert_eq!(fixture.value(&mut raw).await, *log.last().unwrap());
    // At the default isolation level, the writer with the largest token is never refused.
    assert!(*log.last().unwrap() > largest - i64::try_from(WRITERS).unwrap(), "{log:?}");
}

/// Calls the guard first, then writes. Returns whether the write was committed.
async fn checked(
    fixture: &Fixture,
    raw: &mut PgConnection,
    number: u64,
    ticket: Ticket,
    isolation: &str,
) -> bool {
    let mut transaction = raw.begin().await.unwrap();
    transaction.execute(fixture.sql(&format!("SET TRANSACTION ISOLATION LEVEL {isolation}"))).await.unwrap();
    if let Err(error) = fixture.fence.check(&mut *transaction, (token(number), ticket)).await {
        assert!(
            error.kind() == ErrorKind::Lost || isolation != "READ COMMITTED" && error.is_retryable(),
            "{error:?}"
        );
        transaction.rollback().await.unwrap();
        return false;
    }
    let write =
        fixture.sql("WITH w AS (UPDATE S.value SET token = $1) INSERT INTO S.log (token) VALUES ($1)");
    let written = sqlx::query(write).bind(i64::try_from(number).unwrap()).execute(&mut *transaction).await;
    if let Err(error) = written {
        // The row changed after the snapshot of this transaction: this counts as a refusal.
        assert_eq!(error.as_database_error().unwrap().code().as_deref(), Some("40001"));
        transaction.rollback().await.unwrap();
        return false;
    }
    transaction.commit().await.is_ok()
}

/// Writes with the guard in the condition of the write. Returns whether the write was allowed.
async fn conditional(fixture: &Fixture, raw: &mut PgConnection, number: u64, ticket: Ticket) -> bool {
    let mut transaction = raw.begin().await.unwrap();
    let allowed = fixture.update(&mut transaction, number, ticket).await;
    if allowed {
        let log = sqlx::query(fixture.sql("INSERT INTO S.log (token) VALUES ($1)"));
        log.bind(i64::try_from(number).unwrap()).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_fences_are_installed_beside_stores_that_connect() {
    let server = PostgresServer::start(PostgresOptions::default()).unwrap();
    for number in 0..40 {
        let schema = format!("s{number}");
        let fence = PostgresFence::in_schema("r", &schema).unwrap();
        let mut connection = PgConnection::connect(&server.url()).await.unwrap();
        let installing = async {
            pause(Duration::from_millis(number * 2)).await;
            fence.install(&mut connection).await
        };
        let (installed, connected) = tokio::join!(installing, lease(&server.url()).schema(&schema).connect());
        installed.unwrap();
        drop(connected.unwrap());
    }
}

/// A role that may only make schemas makes that of the fences first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_a_fence_runs_no_code_of_another_role() {
    let server = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let role = |name: &str| {
        let url = server.role(name, "pw", &format!("GRANT CREATE ON DATABASE postgres TO {name}")).unwrap();
        async move { PgConnection::connect(&url).await.unwrap() }
    };
    let (mut stranger, mut app) = (role("stranger").await, role("app").await);
    let fence = PostgresFence::new("r");
    fence.install(&mut stranger).await.unwrap();
    let rights = "GRANT USAGE ON SCHEMA stanchion TO app; GRANT SELECT ON stanchion.fences TO app";
    sqlx::raw_sql(rights).execute(&mut stranger).await.unwrap();
    let mut superuser = PgConnection::connect(&server.url()).await.unwrap();
    let mut transaction = superuser.begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL search_path = public").execute(&mut *transaction).await.unwrap();
    let refused = fence.install(&mut transaction).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::UnsafeStore, "{refused:?}");
    assert!(refused.to_string().contains("stranger"), "{refused}");
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "public", "the transaction's own setting");
    drop(transaction);
    fence.clone().schema_owner("stranger").install(&mut superuser).await.unwrap();
    // Functions of the stranger's cannot be replaced.
    assert_eq!(fence.install(&mut app).await.unwrap_err().kind(), ErrorKind::Unauthorized);
    // In a schema of its own, and in a transaction with settings of its own.
    let own = PostgresFence::in_schema("r", "own").unwrap();
    let mut transaction = app.begin().await.unwrap();
    sqlx::raw_sql("SET LOCAL search_path = public").execute(&mut *transaction).await.unwrap();
    own.install(&mut transaction).await.unwrap();
    let path: String = sqlx::query_scalar("SHOW search_path").fetch_one(&mut *transaction).await.unwrap();
    assert_eq!(path, "public", "the transaction's own setting");
    transaction.commit().await.unwrap();
}
