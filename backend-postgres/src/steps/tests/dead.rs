//! Dead waiters: what they cost whoever stands behind them (C27).

use stanchion_conformance::steps::drive::*;
use stanchion_core::spi::Acquire;

use super::*;

/// Whoever is not the last in the queue is dead, for so long that no grace period counts; `me` is
/// heard at this moment.
const DIE: &str = "
DO $$ DECLARE
    me uuid;
    at CONSTANT bigint := stanchion.now();
    o stanchion.objects;
    line bigint[];
    gone bigint;
    ready uuid[];
    first uuid;
BEGIN
    PERFORM stanchion.enter();
    SELECT x.* INTO o FROM stanchion.objects x WHERE x.namespace = $N AND x.kind = 'm' AND x.name = 'm';
    me := (SELECT w.process FROM stanchion.waiters w WHERE w.object = o.id ORDER BY w.arrival DESC LIMIT 1);
    UPDATE stanchion.processes SET heard = CASE WHEN process = me THEN at ELSE 100000000 - at END WHERE namespace = $N;
    INSERT INTO stanchion.grace VALUES ($N, 0) ON CONFLICT (namespace) DO UPDATE SET started = 0;
    -- The holder goes.
    o.used := 0;
    SELECT f.line, f.gone INTO line, gone FROM stanchion.front(o, at, me, 1, 0) f;
    SELECT g.ready INTO ready FROM stanchion.let_in(o, at, me, me, true, false) g;
    SELECT s.process INTO first FROM stanchion.session_first($N, o.id, me, NULL) s;
    PERFORM set_config('t.found', (
        line = ARRAY[o.arrival] AND first = me
        AND ready = ARRAY(SELECT w.ticket FROM stanchion.waiters w WHERE w.object = o.id AND w.arrival = o.arrival))::text, true);
    PERFORM set_config('t.gone', gone::text, true);
END $$";

const OLDER: &str = "UPDATE stanchion.waiters w SET since = since - 200000000 FROM stanchion.objects x
                     WHERE x.id = w.object AND x.namespace = $N";

const READS: &str = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables
                     WHERE relid = 'stanchion.waiters'::regclass";

#[tokio::test]
async fn c27_dead_waiters_in_front_cost_a_bounded_number_of_reads() {
    let fixture = Fixture::shared();
    let (dead, live) = (fixture.process().await, fixture.process().await);
    let request = || Acquire { lease: ttl(60_000), ..ask(&mutex("m")) };
    granted(&live, &request()).await;
    waits(&dead, &request()).await;
    let mut raw = fixture.raw().await;
    let crowd = "WITH one AS (SELECT w.* FROM stanchion.waiters w JOIN stanchion.objects x ON x.id = w.object
                              WHERE x.namespace = $N),
                      more AS (INSERT INTO stanchion.waiters
                               SELECT object, arrival + i, gen_random_uuid(), process, weight, lease, since
                               FROM one, generate_series(1, 3000) i)
                 UPDATE stanchion.objects SET waiting = waiting + 3000, arrival = arrival + 3000 WHERE namespace = $N";
    fixture.execute(&mut raw, crowd).await;
    waits(&live, &request()).await;
    // First they keep their places, and then their leases have ended.
    for (change, removed) in [("SELECT", 0..=0), (OLDER, 1..=500)] {
        fixture.execute(&mut raw, change).await;
        fixture.execute(&mut raw, "BEGIN").await;
        let before = fixture.number(&mut raw, READS).await;
        fixture.execute(&mut raw, DIE).await;
        let reads = fixture.number(&mut raw, READS).await - before;
        let found =
            fixture.execute(&mut raw, "SELECT current_setting('t.found'), current_setting('t.gone')").await;
        let (found, gone): (String, String) = (found[0].get(0), found[0].get(1));
        fixture.execute(&mut raw, "ROLLBACK").await;
        assert_eq!(found, "true", "the first live one");
        assert!(removed.contains(&gone.parse().unwrap()), "{gone} were removed");
        assert!(reads < 2_500, "{reads} waiters were read, of three times 3,000");
    }
}
