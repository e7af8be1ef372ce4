//! `force_unlock`, and what it must leave alone.

use std::time::{Duration, Instant};

use stanchion_conformance::support::{AT_ONCE, within};
use stanchion_core::ErrorKind;
use stanchion_testbed::servers::PostgresOptions;

use super::{AskedHolder, GRACE, Process, connect, server, soon, start};

#[tokio::test]
async fn m8_an_old_request_does_not_hit_a_later_grant() {
    let server = server().await;
    let a = Process::new(server, "late request");
    let mut connection = connect(server).await;
    a.mutex("x").lock().await.unwrap().release().await.unwrap();
    // Somebody asked for it while the former hold was being released.
    sqlx::query(
        "INSERT INTO stanchion.session_evictions (pid, namespace, name, token, asked)
         SELECT pid, 'late request', 'x', last_value, clock_timestamp()
         FROM pg_stat_activity, stanchion.session_tokens WHERE application_name = $1",
    )
    .bind(a.application())
    .execute(&mut connection)
    .await
    .unwrap();
    let guard = a.mutex("x").lock().await.unwrap();
    // One that is obeyed is taken away.
    let declined =
        "SELECT count(*) FROM stanchion.session_evictions WHERE namespace = 'late request' AND declined";
    soon("the request is declined", || async {
        let declined = sqlx::query_scalar::<_, i64>(declined);
        declined.fetch_one(&mut connect(server).await).await.unwrap() == 1
    })
    .await;
    assert!(guard.is_held());
}

#[tokio::test]
async fn m8_a_session_that_obeys_is_not_ended() {
    let server = server().await;
    let (a, b) = (Process::new(server, "obeys"), Process::new(server, "obeys"));
    let kept = a.mutex("kept").lock().await.unwrap();
    let (mutex, forced) = (a.mutex("x"), b.mutex("x"));
    let forcing = tokio::spawn(async move {
        let (mut freed, mut stood_still) = (0, false);
        while freed < 5 {
            let asked = AskedHolder::now();
            freed += u32::from(forced.force_unlock().await.unwrap());
            stood_still |= asked.stood_still(GRACE * 9 / 10);
        }
        stood_still
    });
    // It is locked again at once, by the same session.
    while !forcing.is_finished() {
        let guard = mutex.lock().await.unwrap();
        drop(tokio::time::timeout(Duration::from_millis(20), guard.lost()).await);
        drop(guard);
    }
    let stood_still = forcing.await.unwrap();
    assert!(kept.is_held() || stood_still);
}

#[tokio::test]
async fn m8_a_stopped_session_is_ended_after_a_second() {
    let server = server().await;
    let (a, b) = (Process::new(server, "stopped"), Process::new(server, "stopped"));
    let guard = a.mutex("x").lock().await.unwrap();
    // Its client's requests are not carried out for the time, so it cannot obey.
    let stopped = a.stop_sessions(server, "true").await;
    let started = Instant::now();
    let mutex = b.mutex("x");
    // Without that it would go on holding for as long as it is stopped. A call that got no answer
    // in time may have ended it.
    let forced = async {
        let mut in_doubt = false;
        loop {
            match mutex.force_unlock().await {
                Ok(freed) => break freed || in_doubt,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Unknown, "{error:?}"),
            }
            in_doubt = true;
        }
    };
    assert!(within(GRACE + AT_ONCE, "its session is ended", forced).await);
    assert!(started.elapsed() >= GRACE, "{:?}", started.elapsed());
    stopped.resume();
    soon("free", || async { mutex.try_lock().await.unwrap().is_some() }).await;
    assert!(!guard.is_held());
}

#[tokio::test]
async fn m8_a_holder_that_had_no_token_yet_is_asked_again() {
    let server = start(PostgresOptions::default()).await;
    let (a, b) = (Process::new(&server, "again"), Process::new(&server, "again"));
    let guard = a.mutex("x").lock().await.unwrap();
    // The first request is as one that came before the token was drawn.
    server
        .sql(
            "CREATE FUNCTION early() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF NOT EXISTS (SELECT FROM stanchion.session_evictions) THEN NEW.token := 0; END IF;
                 RETURN NEW;
             END; $$;
             CREATE TRIGGER early BEFORE INSERT ON stanchion.session_evictions
                 FOR EACH ROW EXECUTE FUNCTION early()",
        )
        .unwrap();
    let asked = AskedHolder::now();
    assert!(b.mutex("x").force_unlock().await.unwrap());
    // Two requests are answered one after the other, each within half a second.
    if asked.stood_still(GRACE * 9 / 10) {
        // The caller's time was over before the second answer: whether the holder was asked again
        // is not known.
        return;
    }
    assert!(b.mutex("x").try_lock().await.unwrap().is_some());
    assert!(!guard.is_held());
    assert_eq!(server.sql("SELECT count(*) FROM stanchion.session_evictions WHERE declined").unwrap(), "1");
    assert!(a.sessions(&server).await > 0, "its session was not ended");
}
