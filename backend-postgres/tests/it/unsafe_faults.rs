//! Faults under which the server forgets, or frees what somebody believes in: the checkers see the second holder where the
//! manual admits one, tokens go on growing, and what is guarded by them takes no write out of order.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::proof::*;
use sqlx::{Connection, PgConnection};
use stanchion_campaign::history::Rule;
use stanchion_campaign::rounds::{Duel, Duelist};
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::timeout;
use stanchion_core::{ErrorKind, Mutex, MutexMode, MutexOptions, Ticket};
use stanchion_postgres::PostgresFence;
use stanchion_testbed::faults::{Clock, Direction, Proxy};
use stanchion_testbed::servers::{self, PostgresOptions, PostgresServer};
use tokio::time::sleep;

const TTL: Duration = Duration::from_secs(4);
const LIMIT: Duration = Duration::from_secs(20);
/// How long a hold is watched that the fault must not end.
const WATCHED: Duration = Duration::from_millis(300);

/// What the mutex guards beside the register: a resource of a server that the fault spares.
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

    /// Whether it let the write happen; `Lost` is the one refusal.
    async fn took(&mut self, by: &Duelist) -> bool {
        match self.fence.check(&mut self.raw, by.token(), by.ticket()).await {
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

/// A mutex whose holder is cut off, and a fault.
struct Rivals {
    fault: String,
    proxy: Proxy,
    duel: Duel,
    guarded: Guarded,
    one: Duelist,
}

impl Rivals {
    /// The first is granted the mutex, both resources take his writes, and he is cut off. Then the fault strikes.
    async fn begin(fault: &str, mode: MutexMode, server: &PostgresServer, strike: impl FnOnce()) -> Self {
        let proxy = Proxy::to(&server.url()).unwrap();
        let first = mutex(&proxy.url(&server.url()), mode).await;
        let mut duel = Duel::begin(first.name()).unwrap();
        let mut guarded = Guarded::new().await;
        let one = duel.lock(first.as_ref(), TTL).await.unwrap();
        assert!(one.write().unwrap() && guarded.took(&one).await);
        proxy.black_hole(Direction::Both);
        let fault = format!("{fault}, {mode:?}");
        let began = duel.fault_began(&fault).unwrap();
        strike();
        duel.fault_ended(began).unwrap();
        Self { fault, proxy, duel, guarded, one }
    }

    /// A second is granted it while the first believes. The resources know better than he does, and the history tells.
    async fn both_believe(mut self, second: &Arc<dyn Mutex>) {
        let locked = self.duel.lock(second.as_ref(), TTL);
        let other = timeout(LIMIT, locked).await.expect("the first one's hold is gone").unwrap();
        assert!(self.one.believes().unwrap(), "{}: nobody has told him", self.fault);
        assert!(other.believes().unwrap());
        assert!(other.token() > self.one.token(), "{:?} after {:?}", other.token(), self.one.token());
        assert!(other.write().unwrap() && self.guarded.took(&other).await);
        assert!(!self.one.write().unwrap() && !self.guarded.took(&self.one).await);
        assert!(self.one.believes().unwrap(), "{}: he still does not know", self.fault);
        self.proxy.heal();
        timeout(TTL + EPSILON, self.one.lost()).await.expect("told at the deadline at the latest").unwrap();
        assert!(!self.one.believes().unwrap());
        assert!(other.believes().unwrap(), "the loss is the first one's alone");
        other.release().await.expect("held to the end");
        self.end(&[Rule::TwoHolders]);
    }

    /// No second is granted it as long as the first believes.
    async fn one_believes(mut self, second: &Arc<dyn Mutex>) {
        let answers = async {
            // A restart has ended its connections.
            while second.inspect().await.is_err() {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(LIMIT, answers).await.expect("the second is heard");
        let refused = second.try_lock_for(WATCHED).await.unwrap();
        assert!(refused.is_none(), "{}: a second holder", self.fault);
        assert!(
            self.one.believes().unwrap() && self.one.write().unwrap() && self.guarded.took(&self.one).await
        );
        self.proxy.heal();
        let token = self.one.token();
        // Whether his link has healed in time or not, the next one comes after him.
        drop(self.one);
        let locked = self.duel.lock(second.as_ref(), TTL);
        let other = timeout(LIMIT, locked).await.expect("it is free at last").unwrap();
        assert!(other.token() > token && other.write().unwrap() && self.guarded.took(&other).await);
        self.one = other;
        self.end(&[]);
    }

    fn end(self, expected: &[Rule]) {
        drop(self.one);
        let report = self.duel.check().unwrap();
        println!("{report}");
        assert!(report.is_clean(), "{report}");
        let admitted: Vec<Rule> = report.admitted.iter().map(|violation| violation.rule).collect();
        assert_eq!(admitted, expected, "{report}");
        assert!(report.admitted.iter().all(|violation| violation.under == [self.fault.as_str()]), "{report}");
    }
}

/// Whether nobody holds it any more, at some moment of that time.
async fn is_freed(mutex: &Arc<dyn Mutex>) -> bool {
    let freed = async {
        while !mutex.inspect().await.is_ok_and(|state| state.holders.is_empty()) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(WATCHED, freed).await.is_ok()
}

/// The standby that is promoted had not heard of the grant, nor hears of advisory locks ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c9_m3_m9_a_promoted_standby_is_borne_by_what_is_fenced() {
    for mode in MODES {
        let primary = server();
        // It has the schema, and a grant of each.
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

/// Rows keep leases, and they outlast a restart. Sessions do not.
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

/// An operator deletes the rows of all leases. Sessions keep nothing in rows.
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

/// The clock goes an hour forward, which ends leases, and sessions if it meets their timers; then two back, which takes no
/// token back.
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
