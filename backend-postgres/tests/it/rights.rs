//! One test for each right in the manual: without it, the error of an operation names the missing
//! right (C21). And the rights of others: what they make in a schema of theirs is never run (C30).

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::time::Duration;

use crate::common::deployment::{grants, make_schema};
use crate::common::*;
use sqlx::{AssertSqlSafe, Connection, PgConnection, PgPool, Row};
use stanchion_conformance::stopwatch::{Stopwatch, timeout};
use stanchion_conformance::support::unique;
use stanchion_core::{
    Error, ErrorKind, FencingToken, LimiterOptions, MutexMode, MutexOptions, Quota, Result, SemaphoreOptions,
    Store, Ticket, WaitGroupOptions,
};
use stanchion_postgres::{PostgresBuilder, PostgresFence, PostgresStore, schema_sql};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};

const SHORT: Duration = Duration::from_millis(300);
/// Maximum time for which a call is repeated whose outcome is unknown. Without a right, it may stay
/// unknown.
const KNOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Uses every operation of a store. Returns the errors of operations that the role has no right to.
async fn use_everything(url: &str) -> Vec<Error> {
    let mut refused = Vec::new();
    for mode in MODES {
        match builder(url, mode).migrate(false).connect().await {
            Ok(store) => use_store(&store, &mut refused).await,
            Err(error) => refused.push(error),
        }
    }
    let mut raw = PgConnection::connect(url).await.unwrap();
    let fence = PostgresFence::new("r");
    note(&mut refused, fence.check(&mut raw, (FencingToken::new(1).unwrap(), Ticket::random())).await);
    refused.retain(|error| error.kind() == ErrorKind::Unauthorized);
    refused
}

async fn use_store(store: &PostgresStore, refused: &mut Vec<Error>) {
    use_each_kind(store, refused).await;
    let _ = timeout(Duration::from_secs(2), store.close()).await;
}

async fn use_each_kind(store: &PostgresStore, refused: &mut Vec<Error>) {
    let mutex = store.mutex("m", MutexOptions::default()).unwrap();
    // Another process holds the mutex "m".
    let held = store.mutex(&unique("free"), MutexOptions::default()).unwrap().try_lock().await;
    note(refused, known(|| mutex.lock_for(SHORT)).await.map(drop));
    if let Ok(Some(guard)) = held.map_err(|error| refused.push(error)) {
        note(refused, guard.release().await);
    }
    note(refused, mutex.force_unlock().await.map(drop));
    note(refused, mutex.inspect().await.map(drop));
    let semaphore = store.semaphore("s", SemaphoreOptions::new(2)).unwrap();
    match semaphore.try_acquire_many(2).await {
        Ok(permit) => {
            note(refused, known(|| semaphore.acquire_many_for(1, SHORT)).await.map(drop));
            drop(permit);
        }
        Err(error) => refused.push(error),
    }
    let group = store.wait_group("w", WaitGroupOptions::default()).unwrap();
    match known(|| group.add_for(SHORT)).await {
        Ok(member) => {
            note(refused, known(|| group.wait_for(SHORT)).await.map(drop));
            drop(member);
        }
        Err(error) => refused.push(error),
    }
    let limiter = store.limiter(&unique("l"), LimiterOptions::new(Quota::per_second(1))).unwrap();
    note(refused, limiter.allow().await.map(drop));
    note(refused, limiter.reserve_n(1, Duration::from_secs(5)).await.map(drop));
    #[cfg(feature = "bloom")]
    {
        let filter = store.bloom_filter(&unique("b"), stanchion_core::BloomOptions::new(100, 0.01)).unwrap();
        note(refused, filter.insert(b"item").await.map(drop));
        note(refused, filter.clear().await);
    }
}

/// Asks until the outcome is known: on a machine that stands still, the answer to a call with a
/// short time limit is late.
async fn known<T, F: Future<Output = Result<T>>>(ask: impl Fn() -> F) -> Result<T> {
    let watch = Stopwatch::start();
    loop {
        match ask().await {
            Err(error)
                if matches!(error.kind(), ErrorKind::Unknown | ErrorKind::Unavailable)
                    && watch.elapsed() < KNOWN_TIMEOUT => {}
            answer => return answer,
        }
    }
}

fn note<T>(refused: &mut Vec<Error>, outcome: Result<T>) {
    refused.extend(outcome.err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c21_every_missing_right_is_named() {
    let server = server();
    make_schema(&server);
    let mut all = grants("whole");
    // Without the feature, the store only sweeps the filters of others.
    all.retain(|right| cfg!(feature = "bloom") || !right.contains(".bloom_"));
    let url = server.role("whole", "pw", &all.join("\n")).unwrap();
    assert_eq!(use_everything(&url).await.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    let keeper = store(&server.url(), MutexMode::Session, Duration::from_secs(10)).await;
    let keeper = keeper.mutex("m", MutexOptions::default()).unwrap();
    for missing in 0..all.len() {
        let role = format!("lacks_{missing}");
        let mut rights = grants(&role);
        rights.retain(|right| cfg!(feature = "bloom") || !right.contains(".bloom_"));
        let right = rights.remove(missing);
        let what = right.split(" TO ").next().unwrap().rsplit([' ', '.']).next().unwrap().to_owned();
        let url = server.role(&role, "pw", &rights.join("\n")).unwrap();
        // As if nobody had waited yet.
        server.sql("DELETE FROM stanchion.grace; DELETE FROM stanchion.waited").unwrap();
        server.sql(NUMBERS_BEHIND).unwrap();
        // Another process holds the mutex, so that a session is asked to give it up.
        let kept = keeper.lock().await.unwrap();
        let refused = use_everything(&url).await;
        drop(kept);
        assert!(!refused.is_empty(), "nothing needs: {right}");
        assert!(
            refused.iter().any(|error| error.to_string().contains(&what)),
            "without `{right}` nothing names {what}: {refused:?}"
        );
    }
}

/// The rows came by themselves, as by logical replication, and what numbers them did not.
const NUMBERS_BEHIND: &str = "SELECT setval(pg_get_serial_sequence('stanchion.' || t, 'id'), 1, false)
    FROM unnest(ARRAY['objects', 'limiters', 'bloom_filters', 'bloom_images']) t";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_new_names_are_numbered_beyond_rows_that_came_by_themselves() {
    let server = server();
    make_schema(&server);
    let url = server.role("app", "pw", &grants("app").join("\n")).unwrap();
    for mode in MODES {
        let store = builder(&url, mode).migrate(false).connect().await.unwrap();
        for round in 0..3 {
            let mut refused = Vec::new();
            for _ in 0..5 {
                use_each_kind(&store, &mut refused).await;
            }
            assert!(refused.is_empty(), "{mode:?}, round {round}: {refused:?}");
            server.sql(NUMBERS_BEHIND).unwrap();
        }
        drop(store.close().await);
    }
}

/// Functions and operators of another role in `public` that fit the arguments of ours better than
/// the server's own do, which take any type. Each notes that it ran.
const TRAPS: &str = r"
    CREATE ROLE mallory;
    GRANT CREATE, USAGE ON SCHEMA public TO mallory;
    CREATE TABLE public.ran (what text);
    GRANT INSERT ON public.ran TO PUBLIC;
    SET ROLE mallory;
    CREATE FUNCTION public.note(what text) RETURNS void LANGUAGE sql AS 'INSERT INTO public.ran VALUES (what)';
    DO $$
    DECLARE
        t text;
    BEGIN
        FOREACH t IN ARRAY ARRAY['uuid', 'text', 'bigint', 'integer', 'boolean'] LOOP
            EXECUTE format('CREATE FUNCTION public.cardinality(a %1$s[]) RETURNS integer LANGUAGE plpgsql AS $f$
                BEGIN PERFORM public.note(''cardinality''); RETURN pg_catalog.cardinality(a); END $f$', t);
            EXECUTE format('CREATE FUNCTION public.array_position(a %1$s[], b %1$s) RETURNS integer LANGUAGE plpgsql AS $f$
                BEGIN PERFORM public.note(''array_position''); RETURN pg_catalog.array_position(a, b); END $f$', t);
            EXECUTE format('CREATE FUNCTION public.unnest(a %1$s[]) RETURNS SETOF %1$s LANGUAGE plpgsql AS $f$
                BEGIN PERFORM public.note(''unnest''); RETURN QUERY SELECT pg_catalog.unnest(a); END $f$', t);
            EXECUTE format('CREATE FUNCTION public.appended(a %1$s[], b %1$s) RETURNS %1$s[] LANGUAGE plpgsql AS $f$
                BEGIN PERFORM public.note(''||''); RETURN pg_catalog.array_append(a, b); END $f$', t);
            EXECUTE format('CREATE OPERATOR public.|| (LEFTARG = %1$s[], RIGHTARG = %1$s, FUNCTION = public.appended)', t);
        END LOOP;
    END $$;
    CREATE FUNCTION public.times(a numeric, b integer) RETURNS numeric LANGUAGE plpgsql AS $f$
        BEGIN PERFORM public.note('*'); RETURN a OPERATOR(pg_catalog.*) b::numeric; END $f$;
    CREATE OPERATOR public.* (LEFTARG = numeric, RIGHTARG = integer, FUNCTION = public.times);
    RESET ROLE;
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_no_function_of_another_role_is_run() {
    let server = server();
    server.script(TRAPS).unwrap();
    make_schema(&server);
    let url = server.role("app", "pw", &grants("app").join("\n")).unwrap();
    assert_eq!(use_everything(&url).await.iter().map(ToString::to_string).collect::<Vec<_>>(), [""; 0]);
    // The sessions of a pool have the user's settings: what is found first there is up to the user.
    let pool = PgPool::connect(&url).await.unwrap();
    let builder = PostgresBuilder::from_pool(pool).namespace("pool").mutex(MutexMode::Lease).migrate(false);
    let mut refused = Vec::new();
    use_store(&builder.request_timeout(Duration::from_secs(10)).connect().await.unwrap(), &mut refused).await;
    refused.retain(|error| error.kind() == ErrorKind::Unauthorized);
    assert!(refused.is_empty(), "{refused:?}");
    // An administrator looks, with a path of their own.
    for view in ["holders", "waiting"] {
        server.sql(&format!("SELECT * FROM stanchion.{view}")).unwrap();
    }
    server.sql("SELECT stanchion.sweep_permits('pool', 10), stanchion.now()").unwrap();
    let ran = row(&server.url(), "SELECT coalesce(string_agg(DISTINCT what, ' '), '') FROM public.ran").await;
    assert_eq!(ran.get::<String, _>(0), "");
}

/// A role that may only make schemas makes ours first, with one function of its own; or is given a
/// right to ours later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c30_nobody_else_can_have_code_run_by_the_library() {
    let app = PostgresServer::start(PostgresOptions::default().passwords(true)).unwrap();
    let right = "GRANT CREATE ON DATABASE postgres TO";
    let stranger = app.role("stranger", "pw", &format!("{right} stranger")).unwrap();
    let urls = [app.url(), app.role("app", "pw", &format!("{right} app")).unwrap()];
    let is_refused = async |url: &str, migrate, what: &str| {
        let error = refused(lease(url).migrate(migrate)).await;
        assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error:?}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("schema_owner"), "{text}");
    };
    // It acts first.
    let mut raw = PgConnection::connect(&stranger).await.unwrap();
    let sql = schema_sql("stanchion", Some("app"), 0).unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut raw).await.unwrap();
    for (url, migrate) in urls.iter().flat_map(|url| [(url, false), (url, true)]) {
        is_refused(url, migrate, "stranger").await;
    }
    for url in &urls {
        drop(lease(url).migrate(false).schema_owner("stranger").connect().await.unwrap());
    }
    app.sql("GRANT stranger TO app").unwrap();
    drop(lease(&urls[1]).migrate(false).connect().await.unwrap());
    app.sql("REVOKE stranger FROM app; DROP SCHEMA stanchion CASCADE").unwrap();
    // It acts later.
    drop(lease(&urls[1]).connect().await.unwrap());
    let replace = "CREATE OR REPLACE FUNCTION stanchion.now() RETURNS bigint LANGUAGE sql RETURN 0";
    assert!(sqlx::raw_sql(replace).execute(&mut raw).await.is_err());
    drop(lease(&urls[1]).connect().await.unwrap());
    // Nor is a superuser to run the application's.
    is_refused(&urls[0], true, "app").await;
    drop(lease(&urls[0]).schema_owner("app").connect().await.unwrap());
    let odd = "it's\nDROP SCHEMA stanchion CASCADE; --";
    drop(lease(&urls[1]).schema_owner(odd).connect().await.unwrap());
    // Who has the rights of the database's owner has its schemas.
    app.sql("CREATE ROLE managers; ALTER DATABASE postgres OWNER TO managers; GRANT managers TO stranger")
        .unwrap();
    drop(lease(&stranger).schema("theirs").connect().await.unwrap());
    let other = refused(lease(&urls[1]).schema("theirs").migrate(false)).await;
    assert_eq!(other.kind(), ErrorKind::Unauthorized, "trusted, and without a right to it: {other:?}");
    app.sql("ALTER DATABASE postgres OWNER TO postgres; DROP SCHEMA theirs CASCADE").unwrap();
    for (give, take, what) in [
        (
            "GRANT CREATE ON SCHEMA stanchion TO stranger",
            "REVOKE ALL ON SCHEMA stanchion FROM stranger",
            "create",
        ),
        (
            "GRANT CREATE ON SCHEMA stanchion TO PUBLIC",
            "REVOKE ALL ON SCHEMA stanchion FROM PUBLIC",
            "everybody",
        ),
        (
            "ALTER FUNCTION stanchion.now() OWNER TO stranger",
            "ALTER FUNCTION stanchion.now() OWNER TO app",
            "function now",
        ),
        (
            "ALTER TABLE stanchion.holds OWNER TO stranger",
            "ALTER TABLE stanchion.holds OWNER TO app",
            "relation holds",
        ),
        (
            "GRANT TRIGGER ON stanchion.objects TO stranger",
            "REVOKE ALL ON stanchion.objects FROM stranger",
            "table objects",
        ),
        (
            "GRANT REFERENCES (id) ON stanchion.objects TO stranger",
            "REVOKE REFERENCES (id) ON stanchion.objects FROM stranger",
            "table objects",
        ),
        (
            "CREATE FUNCTION public.theirs() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
             ALTER FUNCTION public.theirs() OWNER TO stranger;
             CREATE TRIGGER theirs AFTER INSERT ON stanchion.holds EXECUTE FUNCTION public.theirs()",
            "DROP FUNCTION public.theirs() CASCADE",
            "trigger on its table holds",
        ),
    ] {
        app.sql(give).unwrap();
        is_refused(&urls[1], true, what).await;
        app.sql(take).unwrap();
        drop(lease(&urls[1]).connect().await.unwrap());
    }
}
