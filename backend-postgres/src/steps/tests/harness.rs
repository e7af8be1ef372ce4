//! The harness of the step cases: what they ask of a namespace.

use stanchion_campaign::Outage;
use stanchion_conformance::steps::{Outages, StepHarness, Tally};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

use super::*;

/// Counts the rows of limiters and other objects.
const RECORDS: &str = "SELECT (SELECT count(*) FROM stanchion.objects WHERE namespace = $N) \
                       + (SELECT count(*) FROM stanchion.limiters WHERE namespace = $N)";

/// Counts the watched objects in this namespace.
const WATCHED: &str = "SELECT count(DISTINCT w.object) FROM stanchion.watchers w \
                       JOIN stanchion.objects x ON x.id = w.object WHERE x.namespace = $N";

/// Returns the members of a wait group by its row, its members by the holds, its ended members, and
/// its generation. The fourth number of each of the last 16 outcomes says whether the outcome
/// counts.
const TALLY: &str = "
SELECT x.used, (SELECT coalesce(sum(weight), 0)::bigint FROM stanchion.holds h WHERE h.object = x.id),
       x.finished + x.abandoned + x.expired + coalesce(x.old[1] + x.old[2] + x.old[3], 0) + coalesce(
           (SELECT sum(x.past[i - 3] + x.past[i - 2] + x.past[i - 1])::bigint FROM generate_subscripts(x.past, 1) i
            WHERE i % 4 = 0 AND x.past[i] = 1), 0),
       x.generation
FROM stanchion.objects x WHERE x.namespace = $N AND x.kind = 'w'";

/// Returns the objects of the namespace whose numbers do not agree.
const WRONG: &str = "
SELECT x.name || ': used ' || x.used || ', waiting ' || x.waiting || ', next ' || x.next || '; held ' ||
       coalesce(h.used, 0) || ', queued ' || coalesce(w.waiting, 0) || ', first ' || coalesce(h.first, -1)
FROM stanchion.objects x
LEFT JOIN (SELECT object, sum(weight)::bigint AS used, min(expiry) AS first, max(token) AS token
           FROM stanchion.holds GROUP BY object) h ON h.object = x.id
LEFT JOIN (SELECT object, count(*) AS waiting, max(arrival) AS arrival, max(weight) AS heaviest, max(lease) AS longest
           FROM stanchion.waiters GROUP BY object) w ON w.object = x.id
LEFT JOIN (SELECT object, max(expiry) AS last FROM stanchion.tombstones GROUP BY object) t ON t.object = x.id
WHERE x.namespace = $N AND (
    x.used <> coalesce(h.used, 0) OR x.waiting <> coalesce(w.waiting, 0) OR x.next > h.first OR x.token < h.token
    OR x.arrival < w.arrival OR x.heaviest < w.heaviest OR x.longest < w.longest OR x.tombstones_until < t.last)";

impl Fixture {
    /// Runs a statement on the shared connection, and returns its rows.
    async fn seen(&self, text: &str) -> Vec<PgRow> {
        let mut shared_raw = self.shared_raw.lock().await;
        let raw = match &mut *shared_raw {
            Some(raw) => raw,
            none => none.insert(self.raw().await),
        };
        self.execute(raw, text).await
    }

    async fn count(&self, text: &str) -> usize {
        usize::try_from(self.seen(text).await[0].get::<i64, _>(0)).expect("a count")
    }
}

#[async_trait]
impl StepHarness for Fixture {
    async fn process(&self) -> Process {
        Self::process(self).await
    }

    async fn forgetful_process(&self, tokens: Duration, state: Duration) -> Process {
        let fixture = Self { namespace: self.namespace.clone(), ..Self::on(&self.url).with(self) };
        fixture.retaining(tokens, state).process().await
    }

    async fn other_namespace(&self) -> Process {
        Self::on(&self.url).with(self).process().await
    }

    async fn alone(&self) -> (Box<dyn StepHarness>, Box<dyn Outages>) {
        let server = PostgresServer::start(PostgresOptions::default().fsync(true)).expect("a postgres");
        (Box::new(Self::on(&server.url()).with(self)), Box::new(Outage(server)))
    }

    async fn keep_busy(&self, object: &Object, time: Duration) {
        let row = format!(
            "SELECT id FROM stanchion.objects WHERE namespace = $N AND kind = '{}' AND name = '{}' FOR UPDATE",
            object.kind.letter(),
            object.name
        );
        let mut raw = self.raw().await;
        self.execute(&mut raw, "BEGIN").await;
        assert_eq!(self.execute(&mut raw, &row).await.len(), 1, "{object:?} is in use");
        tokio::spawn(async move {
            sleep(time).await;
            sqlx::raw_sql("COMMIT").execute(&mut raw).await.expect("a commit");
        });
    }

    async fn lose_data(&self) {
        let objects = ["holds", "waiters", "tombstones", "watchers"].map(|of| (of, "object", "objects"));
        let limiters = ["limit_tickets", "limit_answers"].map(|of| (of, "limiter", "limiters"));
        for (table, column, of) in [&objects[..], &limiters].concat() {
            let mine = format!("{column} IN (SELECT id FROM stanchion.{of} WHERE namespace = $N)");
            self.seen(&format!("DELETE FROM stanchion.{table} WHERE {mine}")).await;
        }
        for table in ["objects", "limiters", "processes", "grace", "waited"] {
            self.seen(&format!("DELETE FROM stanchion.{table} WHERE namespace = $N")).await;
        }
    }

    async fn records(&self) -> usize {
        for sweep in ["sweep_permits", "sweep_limits"] {
            self.seen(&format!("SELECT stanchion.{sweep}($N, 1000)")).await;
        }
        self.count(RECORDS).await
    }

    async fn watched(&self) -> usize {
        self.count(WATCHED).await
    }

    async fn set_token(&self, object: &Object, token: u64) {
        let name = &object.name;
        let mine = format!("namespace = $N AND kind = '{}' AND name = '{name}'", object.kind.letter());
        let set = format!("UPDATE stanchion.objects SET token = {token} WHERE {mine} RETURNING 1::bigint");
        assert_eq!(self.count(&set).await, 1);
    }

    async fn tally(&self, group: &Object) -> Tally {
        let rows = self.seen(&format!("{TALLY} AND x.name = '{}'", group.name)).await;
        let number = |index: usize| u64::try_from(rows[0].get::<i64, _>(index)).expect("a count");
        Tally { used: number(0), live: number(1), ended: number(2), generation: number(3) }
    }

    async fn check(&self, _: &Object) {
        let wrong: Vec<String> = self.seen(WRONG).await.iter().map(|row| row.get(0)).collect();
        assert_eq!(wrong, Vec::<String>::new());
    }
}
