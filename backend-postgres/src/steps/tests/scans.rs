//! What each function reads on objects of very many rows: a call of it looks at a part of them, and
//! the next one goes on (C27).

use sqlx::Executor;

use super::*;

/// Maximum number of rows that one call reads, and of those that it writes.
const MOST: i64 = 2_000;
const DAY_US: i64 = 86_400_000_000;
const ROWS: &str = "
SELECT coalesce(sum(coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0)), 0)::bigint,
       coalesce(sum(t.n_tup_ins + t.n_tup_upd + t.n_tup_del), 0)::bigint
FROM pg_stat_xact_user_tables t";

/// What there is much of, and the statements that make it. `$O` is the object, `$L` the limiter,
/// `$T` the time.
const PERMITS: &[(&str, &[&str])] = &[
    ("waiters", &[
        "INSERT INTO stanchion.processes VALUES ($N, md5('other')::uuid, $T, $T + 86400000000)",
        "INSERT INTO stanchion.waiters SELECT $O, i, md5('t' || i)::uuid, md5('other')::uuid, 1, 86400000000, $T
         FROM generate_series(1, 100000) i",
    ]),
    ("silent waiters", &[
        "INSERT INTO stanchion.grace VALUES ($N, 1)",
        "INSERT INTO stanchion.processes VALUES ($N, md5('other')::uuid, 1 - $T, $T + 86400000000)",
        "INSERT INTO stanchion.waiters SELECT $O, i, md5('t' || i)::uuid, md5('other')::uuid, 1, 86400000000,
         $T - 9000000 FROM generate_series(1, 100000) i",
    ]),
    ("lost waiters, each of its process", &[
        "INSERT INTO stanchion.grace VALUES ($N, 1)",
        "INSERT INTO stanchion.processes SELECT $N, md5('p' || i)::uuid, $T - 9000000, $T + 86400000000
         FROM generate_series(1, 100000) i",
        "INSERT INTO stanchion.waiters SELECT $O, i, md5('t' || i)::uuid, md5('p' || i)::uuid, 1, 2000000,
         $T - 9000000 FROM generate_series(1, 100000) i",
    ]),
    ("large waiters", &[
        "INSERT INTO stanchion.processes VALUES ($N, md5('other')::uuid, $T, $T + 86400000000)",
        "INSERT INTO stanchion.waiters SELECT $O, i, md5('t' || i)::uuid, md5('other')::uuid, 300000, 86400000000, $T
         FROM generate_series(1, 100000) i",
        "UPDATE stanchion.objects SET heaviest = 300000 WHERE id = $O",
    ]),
    ("holds", &[
        "INSERT INTO stanchion.holds SELECT $O, md5('h' || i)::uuid, 1, $T + 86400000000, $T - i, $T - i
         FROM generate_series(1, 100000) i",
        "UPDATE stanchion.holds SET expiry = expiry + weight * (granted % 1000) WHERE object = $O",
    ]),
    ("expired holds", &[
        "INSERT INTO stanchion.holds SELECT $O, md5('h' || i)::uuid, 1, $T - 1, $T - 9, $T - 9
         FROM generate_series(1, 100000) i",
    ]),
    ("tombstones", &[
        "INSERT INTO stanchion.tombstones SELECT $O, md5('x' || i)::uuid, $T + i FROM generate_series(1, 100000) i",
        "UPDATE stanchion.objects SET tombstones_until = $T + 86400000000 WHERE id = $O",
    ]),
    ("watchers", &[
        "INSERT INTO stanchion.watchers SELECT $O, md5('p' || i)::uuid, md5('w' || i)::uuid, $T - 20000000
         FROM generate_series(1, 100000) i",
    ]),
    ("idle names", &[
        "INSERT INTO stanchion.objects (namespace, kind, name, epoch, expires, keyed)
         SELECT $N, 'm', 'idle' || i, 1, 2, i % 100 = 0 FROM generate_series(1, 100000) i",
    ]),
];

const LIMITS: &[(&str, &[&str])] = &[
    (
        "reservations ahead",
        &[
            "INSERT INTO stanchion.limit_tickets SELECT $L, md5('r' || i)::uuid, $T + 86400000000 + i, 1, i
         FROM generate_series(1, 100000) i",
            "UPDATE stanchion.limiters SET purge = 1, taken = 100000, latest = $T + 86400100000 WHERE id = $L",
        ],
    ),
    (
        "reservations over",
        &[
            "INSERT INTO stanchion.limit_tickets SELECT $L, md5('r' || i)::uuid, $T - i, 1, i
         FROM generate_series(1, 100000) i",
            "UPDATE stanchion.limiters SET purge = 1 WHERE id = $L",
        ],
    ),
    (
        "refunds over",
        &[
            "INSERT INTO stanchion.limit_tickets SELECT $L, md5('r' || i)::uuid, $T - i, 0, 0, 1
         FROM generate_series(1, 100000) i",
            "UPDATE stanchion.limiters SET purge = 1 WHERE id = $L",
        ],
    ),
    (
        "old answers",
        &[
            "INSERT INTO stanchion.limit_answers SELECT $L, md5('l' || i)::uuid, 1, $T - 90000000, '0'
         FROM generate_series(1, 100000) i",
            "UPDATE stanchion.limiters SET lanes = 100000 WHERE id = $L",
        ],
    ),
];

/// The counters that follow from what was made.
const COUNTED: &str = "
UPDATE stanchion.objects x SET
    used = coalesce((SELECT sum(h.weight) FROM stanchion.holds h WHERE h.object = x.id), 0)::bigint,
    next = coalesce((SELECT min(h.expiry) FROM stanchion.holds h WHERE h.object = x.id), 9007199254740992),
    waiting = (SELECT count(*) FROM stanchion.waiters w WHERE w.object = x.id), arrival = 100000, longest = 86400000000,
    heaviest = greatest(x.heaviest, 1)
WHERE x.id = $O";

/// The steps. `$K` and `$M` are the kind and name of the object, `$P` the process that asks.
const STEPS: &[(&str, &str)] = &[
    ("acquire", "SELECT stanchion.acquire($N, $P, $D, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('one')::uuid], ARRAY[1::bigint],
        ARRAY[$D], ARRAY[200000::bigint], ARRAY['a'], ARRAY[true], ARRAY[NULL::bigint], ARRAY[NULL])::text"),
    ("acquire, bounded queue", "SELECT stanchion.acquire($N, $P, $D, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('one')::uuid],
        ARRAY[150000::bigint], ARRAY[$D], ARRAY[200000::bigint], ARRAY['a'], ARRAY[true], ARRAY[50000::bigint],
        ARRAY[NULL])::text"),
    ("try", "SELECT stanchion.acquire($N, $P, $D, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('one')::uuid], ARRAY[1::bigint],
        ARRAY[$D], ARRAY[200000::bigint], ARRAY['a'], ARRAY[false], ARRAY[NULL::bigint], ARRAY[NULL])::text"),
    ("claim", "SELECT stanchion.acquire($N, md5('other')::uuid, $D, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('t77')::uuid],
        ARRAY[1::bigint], ARRAY[$D], ARRAY[200000::bigint], ARRAY['a'], ARRAY[true], ARRAY[NULL::bigint], ARRAY[NULL])::text"),
    ("renew", "SELECT stanchion.renew($N, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('h77')::uuid], ARRAY[$D])::text"),
    ("release", "SELECT stanchion.release($N, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('h77')::uuid], ARRAY[0::bigint],
        ARRAY[true], ARRAY[NULL::uuid])::text"),
    ("cancel", "SELECT stanchion.cancel($N, $D, ARRAY[$K], ARRAY[$M], ARRAY[1], ARRAY[md5('t77')::uuid], ARRAY[$D])::text"),
    ("poll", "SELECT stanchion.poll($N, md5('other')::uuid, $D, $D, ARRAY[$K], ARRAY[$M])::text"),
    ("keep places", "SELECT stanchion.keep_places($N, $P)::text"),
    ("attach", "SELECT stanchion.attach($N, $D, $K, $M, md5('h77')::uuid, md5('to')::uuid, $D, NULL)::text"),
    ("split", "SELECT stanchion.split($N, $D, $K, $M, md5('h77')::uuid, $D, ARRAY[md5('to')::uuid])::text"),
    ("inspect", "SELECT string_agg(i::text, '') FROM stanchion.inspect_part($N, $D, $K, $M, 0, 500) i"),
    ("total", "SELECT string_agg(i::text, '') FROM stanchion.inspect_part($N, $D, $K, $M, 0, 0) i"),
    ("resize up", "SELECT stanchion.resize($N, $D, $K, $M, 900000)::text"),
    ("resize down", "SELECT stanchion.resize($N, $D, $K, $M, 1)::text"),
    ("force one", "SELECT stanchion.force($N, $D, $K, $M, md5('h77')::uuid, NULL, 0)::text"),
    ("force all", "SELECT stanchion.force($N, $D, $K, $M, NULL, NULL, 0)::text"),
    ("look", "SELECT stanchion.look($N, $P, $D, ARRAY['group'], ARRAY[1], ARRAY[0::bigint], ARRAY[md5('w')::uuid])::text"),
    ("locked", "SELECT stanchion.locked($N, ARRAY[$K], ARRAY[$M])::text"),
    ("tidy", "SELECT stanchion.tidy($N, $P, $D, ARRAY[$K], ARRAY[$M])::text"),
    ("list", "SELECT string_agg(i::text, '') FROM stanchion.list_permits($N, $D, $K, '', '', '~', 100) i"),
    ("sweep", "SELECT stanchion.sweep_permits($N, 300)::text"),
];

const LIMIT_STEPS: &[(&str, &str)] = &[
    ("take", "SELECT stanchion.limit_decide($N, $D, md5('lane')::uuid, 1, ARRAY['many'], ARRAY[1], '{r}', ARRAY[1::bigint],
        ARRAY[1000::bigint], ARRAY[100::bigint], ARRAY[1::bigint], ARRAY[NULL::uuid], ARRAY[1::bigint])::text"),
    ("reserve", "SELECT stanchion.limit_decide($N, $D, md5('lane')::uuid, 1, ARRAY['many'], ARRAY[1], '{r}', ARRAY[1::bigint],
        ARRAY[1000::bigint], ARRAY[100::bigint], ARRAY[1::bigint], ARRAY[md5('r')::uuid], ARRAY[$D])::text"),
    ("refund", "SELECT stanchion.limit_refund($N, $D, ARRAY['many'], ARRAY[1], ARRAY[md5('r100000')::uuid])::text"),
    ("set quota", "SELECT stanchion.limit_set_quota($N, $D, 'many', 1, 1000, 7)::text"),
    ("reset", "SELECT stanchion.limit_reset($N, $D, 'many')::text"),
    ("list", "SELECT string_agg(i::text, '') FROM stanchion.list_limiters($N, '', '', '~', 100) i"),
    ("sweep", "SELECT stanchion.sweep_limits($N, 300)::text"),
];

struct Rig {
    fixture: Fixture,
    raw: PgConnection,
    kind: &'static str,
    over: Vec<String>,
}

impl Rig {
    fn text(&self, text: &str) -> String {
        let name = if self.kind == "w" { "'group'" } else { "'many'" };
        let object = format!("(SELECT id FROM stanchion.objects WHERE namespace = $N AND name = {name})");
        let text = text
            .replace("$O", &object)
            .replace("$L", "(SELECT id FROM stanchion.limiters WHERE namespace = $N)")
            .replace("$T", "stanchion.now()")
            .replace("$K", &format!("'{}'", self.kind))
            .replace("$M", name)
            .replace("$P", "md5('mine')::uuid")
            .replace("$D", &format!("{DAY_US}::bigint"))
            .replace("$N", &format!("'{}'", self.fixture.namespace));
        self.fixture.in_schema(&text)
    }

    async fn run(&mut self, text: &str) {
        let text = self.text(text);
        sqlx::raw_sql(sqlx::AssertSqlSafe(text)).execute(&mut self.raw).await.expect("a statement");
    }

    async fn rows(&mut self) -> (i64, i64) {
        let row = self.raw.fetch_one(sqlx::AssertSqlSafe(ROWS)).await.expect("counts");
        (row.get(0), row.get(1))
    }

    /// Runs a step in a transaction that is rolled back, and judges what it reads and writes.
    /// Returns its answer; none if it could not be decided yet.
    async fn judge(&mut self, what: &str, text: &str, is_kept: bool) -> Option<String> {
        self.run("BEGIN; SET LOCAL statement_timeout = '60s'; SAVEPOINT s").await;
        let before = self.rows().await;
        let text = self.text(text);
        let began = std::time::Instant::now();
        let answer = self.raw.fetch_one(sqlx::AssertSqlSafe(text)).await;
        let time = began.elapsed();
        if let Err(error) = &answer {
            // One that reads very many rows is ended.
            assert!(matches!(crate::error::code(error), Some("STM01" | "57014")), "{what}: {error}");
            self.run("ROLLBACK TO s").await;
        }
        let after = self.rows().await;
        self.run(if is_kept { "COMMIT" } else { "ROLLBACK" }).await;
        let (read, written) = (after.0 - before.0, after.1 - before.1);
        let note = if answer.is_err() { "  (tidy first)" } else { "" };
        println!(
            "{what:<64} rows read {read:>6}, written {written:>6}; {:>7.1} ms{note}",
            time.as_secs_f64() * 1e3
        );
        if read > MOST || written > MOST {
            self.over.push(format!("{what}: read {read}, written {written}"));
        }
        answer.ok().map(|row| row.try_get(0).unwrap_or_default())
    }

    async fn judge_all(&mut self, scene: &str, steps: &[(&str, &str)]) {
        for analysed in [false, true] {
            if analysed {
                for table in [
                    "objects",
                    "holds",
                    "waiters",
                    "processes",
                    "tombstones",
                    "limit_tickets",
                    "limit_answers",
                ] {
                    self.run(&format!("ANALYZE stanchion.{table}")).await;
                }
            }
            self.raw = self.fixture.raw().await;
            for (step, text) in steps {
                if *step == "look" && self.kind != "w" {
                    continue;
                }
                let kind = self.kind;
                let state = if analysed { "analysed" } else { "young" };
                self.judge(&format!("{scene}, {kind}, {state}: {step}"), text, false).await;
            }
        }
    }
}

async fn rig(kind: &'static str) -> Rig {
    let fixture = Fixture::shared();
    fixture.make_schema().await;
    let raw = fixture.raw().await;
    Rig { fixture, raw, kind, over: Vec::new() }
}

#[tokio::test]
async fn c27_no_function_looks_at_all_of_very_many() {
    let mut over = Vec::new();
    for kind in ["s", "w"] {
        for (scene, made) in PERMITS {
            let mut rig = rig(kind).await;
            let name = if kind == "w" { "group" } else { "many" };
            rig.run(&format!(
                "INSERT INTO stanchion.objects (namespace, kind, name, lim, epoch, expires, generation)
                 VALUES ($N, '{kind}', '{name}', 200000, 1, $T + 2 * 86400000000, 1)"
            ))
            .await;
            for text in *made {
                rig.run(text).await;
            }
            rig.run(COUNTED).await;
            rig.judge_all(scene, STEPS).await;
            over.append(&mut rig.over);
        }
    }
    for (scene, made) in LIMITS {
        let mut rig = rig("l").await;
        rig.run(
            "INSERT INTO stanchion.limiters (namespace, name, amount, period, burst, tokens, last, expires)
             VALUES ($N, 'many', 1, 1000, 100, 5, $T, $T + 2 * 86400000000)",
        )
        .await;
        for text in *made {
            rig.run(text).await;
        }
        rig.judge_all(scene, LIMIT_STEPS).await;
        over.append(&mut rig.over);
    }
    assert!(over.is_empty(), "more than {MOST}: {over:#?}");
}
