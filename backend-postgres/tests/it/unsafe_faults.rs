//! Faults under which the server loses data, or frees a mutex that a holder still believes in. The
//! checkers see a second holder where the manual admits one, tokens keep growing, and a fenced
//! resource takes no write out of order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::*;
use sqlx::{Connection, PgConnection};
use stanchion_campaign::history::Rule;
use stanchion_campaign::rounds::{Contender, TwoHolders};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_conformance::support::definite;
use stanchion_core::{ErrorKind, Mutex, MutexMode, MutexOptions, Ticket};
use stanchion_postgres::PostgresFence;
use stanchion_testbed::faults::{Clock, Direction, Proxy};
use stanchion_testbed::servers::{self, PostgresOptions, PostgresServer};
use tokio::time::sleep;

/// Longer than it takes to promote a standby and to connect to it.
const TTL: Duration = Duration::from_secs(12);
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long the test watches a hold that the fault must not end.
const WATCH_TIME: Duration = Duration::from_millis(300);

/// A second resource that the mutex guards, beside the register. Its server has no fault.
struct Guarded {
    fence: PostgresFence,
    raw: PgConnection,
}

impl Guarded {
    async fn new() -> Self {
        let schema = format!("f{}", Ticket::random());
        let fence = PostgresFence::in_schema("invoices/42", &schema).unwrap();
        let mut raw = PgConnection::connect(servers::postgres().unwrap().url()).await.unwrap();
        fence.install(&mut raw).await.unwrap();
        Self { fence, raw }
    }

    /// Returns whether the resource allowed the write. `Lost` is the only refusal.
    async fn took(&mut self, by: &Contender) -> bool {
        match self.fence.check(&mut self.raw, (by.token(), by.ticket())).await {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                false
            }
        }
    }
}

async fn mutex(url: &str, mode: MutexMode) -> Arc<dyn Mutex> {
    let store = store(url, mode, TTL).await;
    store.mutex("invoices/42", MutexOptions::default().ttl(TTL)).unwrap()
}

/// A mutex whose holder is cut off, and a fault of the server.
struct Rivals {
    fault: String,
    proxy: Proxy,
    two_holders: TwoHolders,
    guarded: Guarded,
    first: Contender,
}

impl Rivals {
    /// The first contender is granted the mutex, both resources take its writes, and it is cut off.
    /// Then the fault happens.
    async fn begin(fault: &str, mode: MutexMode, server: &PostgresServer, strike: impl FnOnce()) -> Self {
        let proxy = Proxy::to(&server.url()).unwrap();
        let mutex = mutex(&proxy.url(&server.url()), mode).await;
        let mut two_holders = TwoHolders::begin(mutex.name()).unwrap();
        let mut guarded = Guarded::new().await;
        let first = two_holders.lock(mutex.as_ref(), TTL).await.unwrap();
        assert!(first.write().unwrap() && guarded.took(&first).await);
        proxy.black_hole(Direction::Both);
        let fault = format!("{fault}, {mode:?}");
        let began = two_holders.fault_began(&fault).unwrap();
        strike();
        two_holders.fault_ended(began).unwrap();
        Self { fault, proxy, two_holders, guarded, first }
    }

    /// A second contender is granted the mutex while the first one believes that it holds it. The
    /// resources refuse the first one's writes, and the history shows both holders.
    async fn both_believe(mut self, second: &Arc<dyn Mutex>) {
        let locked = self.two_holders.lock(second.as_ref(), TTL);
        let other = timeout(TIMEOUT, locked).await.expect("the first one's hold is gone").unwrap();
        assert!(self.first.believes().unwrap(), "{}: no message told it", self.fault);
        assert!(other.believes().unwrap());
        assert!(other.token() > self.first.token(), "{:?} after {:?}", other.token(), self.first.token());
        assert!(other.write().unwrap() && self.guarded.took(&other).await);
        assert!(!self.first.write().unwrap() && !self.guarded.took(&self.first).await);
        assert!(self.first.believes().unwrap(), "{}: it still does not know", self.fault);
        self.proxy.heal();
        timeout(TTL + EPSILON, self.first.lost()).await.expect("told at the deadline at the latest").unwrap();
        assert!(!self.first.believes().unwrap());
        assert!(other.believes().unwrap(), "the loss is the first one's alone");
        other.release().await.expect("held to the end");
        self.end(&[Rule::TwoHolders]);
    }

    /// No second contender is granted the mutex as long as the first one believes that it holds it.
    async fn one_believes(mut self, second: &Arc<dyn Mutex>) {
        let answers = async {
            // A restart has ended the connections of the second contender.
            while second.inspect().await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(TIMEOUT, answers).await.expect("the second is heard");
        let refused = timeout(TIMEOUT, definite(|| second.lock_for(WATCH_TIME))).await;
        let refused = refused.expect("the second gets an answer").unwrap();
        assert!(refused.is_none(), "{}: a second holder", self.fault);
        let writes = self.first.write().unwrap() && self.guarded.took(&self.first).await;
        // On a machine that stood still for seconds, its time may be over.
        let is_over = self.first.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        assert!((self.first.believes().unwrap() && writes) || is_over);
        self.proxy.heal();
        let token = self.first.token();
        // Whether or not the link of the first contender healed in time, the next grant comes after
        // its end.
        drop(self.first);
        let locked = self.two_holders.lock(second.as_ref(), TTL);
        let other = timeout(TIMEOUT, locked).await.expect("it is free at last").unwrap();
        assert!(other.token() > token && other.write().unwrap() && self.guarded.took(&other).await);
        self.first = other;
        self.end(&[]);
    }

    fn end(self, expected: &[Rule]) {
        drop(self.first);
        let report = self.two_holders.check().unwrap();
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        let admitted: Vec<Rule> = report.admitted.iter().map(|violation| violation.rule).collect();
        assert_eq!(admitted, expected, "{report}");
        assert!(report.admitted.iter().all(|violation| violation.under == [self.fault.as_str()]), "{report}");
    }
}

/// Returns whether the mutex is free at some moment of the watch time.
async fn is_freed(mutex: &Arc<dyn Mutex>) -> bool {
    let freed = async {
        while !mutex.inspect().await.is_ok_and(|state| state.holders.is_empty()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WATCH_TIME, freed).await.is_ok()
}

/// A promoted standby has not received the grant. It never receives advisory locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_a_promoted_standby_is_borne_by_what_is_fenced() {
    for mode in MODES {
        let primary = server();
        // The primary has the schema, and a grant in each mode.
        let before = mutex(&primary.url(), mode).await.lock().await.unwrap();
        before.release().await.unwrap();
        let standby = primary.start_standby(PostgresOptions::default()).unwrap();
        primary.await_standby(&standby).unwrap();
        standby.stop_following().unwrap();
        let strike = || standby.promote().unwrap();
        let rivals = Rivals::begin("standby promoted", mode, &primary, strike).await;
        primary.kill().unwrap();
        rivals.both_believe(&mutex(&standby.url(), mode).await).await;
    }
}

/// Leases are rows, which survive a restart. Sessions do not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m9_a_restart_frees_what_sessions_keep_and_is_borne_by_what_is_fenced() {
    let server = server();
    for mode in MODES {
        let second = mutex(&server.url(), mode).await;
        let rivals = Rivals::begin("restart", mode, &server, || server.restart().unwrap()).await;
        match mode {
            MutexMode::Session => rivals.both_believe(&second).await,
            _ => rivals.one_believes(&second).await,
        }
    }
}

/// An administrator ends the sessions of a process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m9_ended_sessions_are_borne_by_what_is_fenced() {
    let server = server();
    for mode in MODES {
        let second = mutex(&server.url(), mode).await;
        let rivals = Rivals::begin("sessions ended", mode, &server, || {
            server.terminate_sessions().unwrap();
        })
        .await;
        match mode {
            MutexMode::Session => rivals.both_believe(&second).await,
            _ => rivals.one_believes(&second).await,
        }
    }
}

/// An operator deletes the rows of all leases. Session mode keeps no holds in rows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_deleted_rows_are_borne_by_what_is_fenced() {
    let server = server();
    for mode in MODES {
        let second = mutex(&server.url(), mode).await;
        let rivals = Rivals::begin("rows deleted", mode, &server, || {
            server.sql("TRUNCATE stanchion.objects, stanchion.holds CASCADE").unwrap();
            server.sql("ALTER SEQUENCE stanchion.session_tokens RESTART").unwrap();
        })
        .await;
        match mode {
            MutexMode::Session => rivals.one_believes(&second).await,
            _ => rivals.both_believe(&second).await,
        }
    }
}

/// The clock jumps an hour forward, which ends leases, and sessions if it affects their timers.
/// Then it jumps two hours back; tokens keep growing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_c7_m2_m9_a_clock_that_jumps_is_borne_by_what_is_fenced() {
    const HOUR: Duration = Duration::from_secs(3_600);
    let clock = Clock::new().unwrap();
    let server = PostgresServer::start(PostgresOptions::default().clock(&clock)).unwrap();
    for mode in MODES {
        let second = mutex(&server.url(), mode).await;
        let rivals = Rivals::begin("clock forward", mode, &server, || clock.forward(HOUR).unwrap()).await;
        match mode {
            MutexMode::Session if !is_freed(&second).await => rivals.one_believes(&second).await,
            _ => rivals.both_believe(&second).await,
        }
        let before = second.lock().await.unwrap();
        let token = before.fencing_token();
        clock.back(HOUR * 2).unwrap();
        before.release().await.unwrap();
        let after = second.lock().await.unwrap();
        assert!(after.fencing_token() > token, "{mode:?}: {:?} after {token:?}", after.fencing_token());
        after.release().await.unwrap();
        clock.set(0).unwrap();
    }
}
