//! Limiters on a real server, by its clock or by one that the test sets.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnectOptions};
use sqlx::{Arguments, AssertSqlSafe, Connection, PgConnection, Row, raw_sql};
use stanchion_conformance::servers;
use stanchion_core::engine::steps::{
    Answers, FlightId, LimitAsk, LimitCall, LimitSteps, Limited, Object, ProcessId, QuotaCheck, Refund,
};
use stanchion_core::limit::ExactQuota;
use stanchion_core::{Kind, Name, Quota, Ticket};

use crate::context::{Context, Retention};
use crate::link::Link;
use crate::schema::Schema;
use crate::steps::PostgresSteps;

pub(super) struct Rig {
    pub(super) steps: PostgresSteps,
    pub(super) schema: String,
    pub(super) object: Object,
    flight: FlightId,
    raw: PgConnection,
}

impl Rig {
    /// A schema of its own.
    pub(super) async fn new() -> Self {
        let options: PgConnectOptions =
            servers::postgres().expect("a postgres").url().parse().expect("a URL");
        let mut raw = PgConnection::connect_with(&options).await.unwrap();
        let schema = format!("t{}", Ticket::random());
        let place = Schema::new(&schema).unwrap();
        raw_sql(AssertSqlSafe(format!("CREATE SCHEMA {schema}"))).execute(&mut raw).await.unwrap();
        for migration in place.migrations() {
            raw_sql(migration.sql).execute(&mut raw).await.unwrap();
        }
        let hour = Duration::from_secs(3_600);
        let context = Context {
            schema: place,
            namespace: Arc::from("n"),
            process: ProcessId::random(),
            retention: Retention { tokens: hour, state: hour },
        };
        let link = Link::new(options, 16, Duration::from_secs(60));
        let steps = PostgresSteps::new(Arc::new(context), Arc::new(link));
        let flight = FlightId { lane: Ticket::random(), number: 0 };
        Self { steps, schema, object: object("0"), flight, raw }
    }

    /// By a clock of the test's own, in place of the one function that reads the server's.
    pub(super) async fn timed() -> Self {
        let mut rig = Self::new().await;
        rig.run(
            "CREATE TABLE stanchion.clock (at bigint); INSERT INTO stanchion.clock VALUES (0);
             CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint LANGUAGE sql VOLATILE
             AS $$ SELECT at FROM stanchion.clock $$",
        )
        .await;
        rig
    }

    pub(super) async fn run(&mut self, sql: &str) {
        let sql = sql.replace("stanchion.", &format!("{}.", self.schema));
        raw_sql(AssertSqlSafe(sql)).execute(&mut self.raw).await.unwrap();
    }

    pub(super) async fn number(&mut self, sql: &str) -> i64 {
        let sql = sql.replace("stanchion.", &format!("{}.", self.schema));
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut self.raw).await.unwrap()
    }

    /// A sweep over another connection.
    pub(super) async fn sweep_elsewhere(&self) -> i64 {
        let place = Schema::new(&self.schema).unwrap();
        let mut arguments = PgArguments::default();
        arguments.add("n").and_then(|()| arguments.add(100_i32)).unwrap();
        let rows =
            self.steps.link.rows(&place.statement("SELECT stanchion.sweep_limits($1, $2)"), arguments).await;
        rows.unwrap()[0].get(0)
    }

    /// How many rows there are of limiters, tickets and answers.
    pub(super) async fn rows(&mut self) -> [i64; 3] {
        let limiters = self.number("SELECT count(*) FROM stanchion.limiters").await;
        let tickets = self.number("SELECT count(*) FROM stanchion.limit_tickets").await;
        [limiters, tickets, self.number("SELECT count(*) FROM stanchion.limit_answers").await]
    }

    pub(super) async fn at(&mut self, now: u64) {
        self.run(&format!("UPDATE stanchion.clock SET at = {now}")).await;
    }

    /// Another limiter, which has no bucket yet.
    pub(super) fn next(&mut self) {
        let number: u64 = self.object.name.as_str().parse().unwrap();
        self.object = object(&(number + 1).to_string());
    }

    pub(super) fn next_flight(&mut self) -> FlightId {
        self.flight.number += 1;
        self.flight
    }

    pub(super) fn call(&self, quota: ExactQuota, ask: LimitAsk) -> LimitCall {
        LimitCall { object: self.object.clone(), quota, check: QuotaCheck::Follow, ask }
    }

    pub(super) async fn decide(&mut self, calls: &[(ExactQuota, QuotaCheck, LimitAsk)]) -> Vec<Limited> {
        let flight = self.next_flight();
        let call = |&(quota, check, ask)| LimitCall { check, ..self.call(quota, ask) };
        let calls: Vec<_> = calls.iter().map(call).collect();
        let answers = answered(self.steps.decide(flight, &calls).await);
        assert_eq!(answers, answered(self.steps.decide(flight, &calls).await), "a retry");
        answers
    }

    pub(super) async fn one(&mut self, quota: ExactQuota, ask: LimitAsk) -> Limited {
        self.decide(&[(quota, QuotaCheck::Follow, ask)]).await.remove(0)
    }

    pub(super) async fn refund(&mut self, id: u128) -> u64 {
        let refund = Refund { object: self.object.clone(), ticket: Ticket::from(id) };
        answered(self.steps.refund(&[refund]).await).remove(0)
    }
}

pub(super) fn answered<T>(answers: Answers<T>) -> Vec<T> {
    answers.into_iter().map(|answer| answer.expect("an answer")).collect()
}

pub(super) fn object(name: &str) -> Object {
    Object { kind: Kind::Limiter, name: Name::new(name).unwrap() }
}

pub(super) fn quota(amount: u64, period: u64, burst: u64) -> ExactQuota {
    Quota::per(amount, Duration::from_micros(period)).burst(burst).validate().unwrap()
}
