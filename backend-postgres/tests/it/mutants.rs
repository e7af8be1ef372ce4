//! Bugs planted into the Postgres store, the functions of its schema and its clients. The check
//! named for each bug catches it.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime and waits in real time")]

use std::sync::Arc;
use std::time::Duration;

use crate::common::REQUEST;
use crate::common::deployment::DeploymentFixture;
use stanchion_campaign::history::{Report, Rule};
use stanchion_campaign::mutants::{Bug, Detection, MutantHarness, mutate, scenarios};
use stanchion_conformance::suite::{self, Case, Verdict, verdict};
use stanchion_core::{MutexMode, Store, Ticket};
use stanchion_postgres::PostgresStore;
use stanchion_testbed::faults::{Action, Proxy, Then, When};
use stanchion_testbed::servers::{PostgresOptions, PostgresServer};
use tokio::runtime::Runtime;
use tokio::sync::Barrier;
use tokio::time::sleep;

/// Timeout of a case: long enough for every case here, and short for one that a bug holds up.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The lease of a holder whose store hangs. A machine that stands still for a while does not end it
/// before.
const TTL: Duration = Duration::from_secs(4);

/// A function of the schema, a text in it, and the text that replaces it.
type Change = (&'static str, &'static str, &'static str);

const BARE_COUNTER: &[Change] = &[
    ("acquire", "greatest(o.token + 1, clock)", "o.token + 1"),
    ("acquire_each", "greatest(o.token + 1, p_now)", "o.token + 1"),
];
const BARE_SEQUENCE: &[Change] =
    &[("session_token", "WHILE token <= stanchion.now() LOOP", "WHILE false LOOP")];
const CHARGED_AGAIN: &[Change] =
    &[("limit_decide", "IF known.number >= in_number THEN", "IF known.number > in_number THEN")];
const RETRY_KEEPS_ITS_LEASE: &[Change] = &[("acquire_each", "renewed := renewed || k;", "NULL;")];
const TOMBSTONE_IS_IGNORED: &[Change] = &[("acquire_each", "has_tombstone[r.k] := true;", "NULL;")];
const RETRIED_RELEASE_IS_LOST: &[Change] =
    &[("release", "WHERE b.call = calls[b.k] AND b.k <> ALL (here);", "WHERE false;")];
const PLACE_IS_KEPT: &[Change] = &[(
    "session_leave",
    "DELETE FROM stanchion.waiters w WHERE w.object + 0 = o.id AND w.ticket = p_tickets[i];",
    "PERFORM FROM stanchion.waiters w WHERE false;",
)];
/// Makes limiters use a clock that is ahead by the number of µs in a setting of the client's
/// session.
const CLOCKS: &[Change] = &[(
    "limit_decide",
    "moment := stanchion.now();",
    "moment := stanchion.now() + coalesce(nullif(current_setting('planted.ahead', true), ''), '0')::bigint;",
)];

stanchion_campaign::mutants! {
    Postgres;
    m3_bare_counter: BareCounter => |_| vec![
        by_case("as_mutex::m3_fencing_token_grows_after_data_loss", MutexMode::Lease, BARE_COUNTER)
            .saying(") after Some("),
    ];
    m3_bare_sequence: BareSequence => |_| vec![
        by_case("as_mutex::m3_fencing_token_grows_after_data_loss", MutexMode::Session, BARE_SEQUENCE)
            .saying(") after Some("),
        by_case("mutex::c7_m3_a_first_token_is_the_stores_time", MutexMode::Session, BARE_SEQUENCE)
            .saying("is no time in microseconds"),
    ];
    c16_place_is_kept: PlaceIsKept => |_| vec![
        by_case("as_mutex::c16_first_come_first_served", MutexMode::Session, PLACE_IS_KEPT)
            .saying("stuck for"),
    ];
    l1_clients_clock: ClientsClock => |_| vec![by_clocks()];
    l5_charged_again: ChargedAgain => |_| vec![by_charges()];
    c10_believes_while_asking: BelievesWhileAsking => |bug| by_beliefs(bug);
    c6_late_grant: LateGrant =>
        |bug| vec![by_client(bug, "as_mutex::c6_a_grant_has_half_its_lease_ahead").saying("of a lease of")];
    c2_c8_retry_keeps_its_lease: RetryKeepsItsLease => |_| vec![
        by_fault("c2_c8_a_retried_acquire_has_its_lease_anew", RETRY_KEEPS_ITS_LEASE)
            .saying("somebody else was granted"),
    ];
    c4_tombstone_is_ignored: TombstoneIsIgnored => |_| vec![
        by_fault("c4_a_late_copy_of_a_dropped_acquire_is_refused", TOMBSTONE_IS_IGNORED)
            .saying("a late copy of a cancelled acquire"),
    ];
    c11_retried_release_is_lost: RetriedReleaseIsLost => |_| vec![
        by_fault("c11_a_retried_release_is_told_the_same", RETRIED_RELEASE_IS_LOST).saying("its own release"),
    ];
}

fn case(path: &str) -> Case {
    suite::find(path).unwrap_or_else(|| panic!("there is no case {path}"))
}

fn runtime() -> Runtime {
    Runtime::new().expect("a runtime")
}

/// Makes a database of its own with these changes.
async fn changed(mode: MutexMode, changes: &[Change]) -> DeploymentFixture {
    let fixture = DeploymentFixture::alone(mode).await;
    fixture.change(changes).await;
    fixture
}

/// Runs a case on a database that was prepared before, and returns its verdict.
fn verdict_on(path: &str, fixture: DeploymentFixture) -> Verdict {
    verdict(case(path), TIMEOUT, move || async move { fixture })
}

fn by_case(path: &str, mode: MutexMode, mistake: &[Change]) -> Detection {
    let verdict = |changes| verdict_on(path, runtime().block_on(changed(mode, changes)));
    Detection::by_case(path, verdict(mistake), &verdict(&[]))
}

/// Runs a case of the group `under_faults`.
fn by_fault(case: &str, mistake: &[Change]) -> Detection {
    by_case(&format!("under_faults::{case}"), MutexMode::Lease, mistake)
}

/// Plants a bug into clients.
fn by_client(bug: Bug, path: &str) -> Detection {
    let verdict =
        |bug| {
            verdict(case(path), TIMEOUT, move || async move {
                MutantHarness::new(DeploymentFixture::lease(), bug)
            })
        };
    Detection::by_case(path, verdict(Some(bug)), &verdict(None))
}

/// Two clients with clocks of their own. The second is half a day ahead, or is not.
fn by_clocks() -> Detection {
    let clocks = async |ahead: u64| -> Report {
        let fixture = changed(MutexMode::Lease, CLOCKS).await;
        let url_at = |ahead| format!("{}?options=-c%20planted.ahead%3D{ahead}", fixture.url());
        let namespace = namespace();
        let store = async |ahead| store(&url_at(ahead), MutexMode::Lease, &namespace).await;
        let (first, second) = (store(0).await, store(ahead).await);
        scenarios::bucket(&[first.as_ref(), second.as_ref()]).await.expect("a history")
    };
    let (with, without) = runtime().block_on(async { (clocks(43_200_000_000).await, clocks(0).await) });
    Detection::by_rule(Rule::OverTheRate, &with, &without)
}

/// A caller loses the reply to one of its charges.
fn by_charges() -> Detection {
    let charges = async |changes: &[Change]| -> Report {
        let fixture = changed(MutexMode::Lease, changes).await;
        let proxy = Proxy::to(fixture.url()).expect("a proxy");
        let store = store(&proxy.url(fixture.url()), MutexMode::Lease, &namespace()).await;
        // The first request may only prepare the statement.
        let lost = proxy.on(When::nth(4).containing("limit_decide"), Action::DropReply(Then::Reset));
        let report = scenarios::bucket(&[store.as_ref()]).await.expect("a history");
        assert_eq!(lost.fired(), 1, "{}", proxy.report());
        report
    };
    let (with, without) = runtime().block_on(async { (charges(CHARGED_AGAIN).await, charges(&[]).await) });
    Detection::by_rule(Rule::RefusedWithRoom, &with, &without)
}

fn namespace() -> String {
    format!("t{}", Ticket::random())
}

async fn store(url: &str, mode: MutexMode, namespace: &str) -> Arc<dyn Store> {
    let builder = PostgresStore::builder(url).expect("a URL").namespace(namespace).request_timeout(REQUEST);
    Arc::new(builder.mutex(mode).session_ttl(TTL).connect().await.expect("a store"))
}

/// Holders in both modes, with and without the bug, on a server that hangs for longer than a lease.
fn by_beliefs(bug: Bug) -> Vec<Detection> {
    let reports = runtime().block_on(async {
        let server = PostgresServer::start(PostgresOptions::default()).expect("a postgres");
        let url = server.url();
        let all = Barrier::new(5);
        let hang = async {
            all.wait().await;
            server.pause().expect("a pause");
            sleep(TTL * 5 / 4).await;
            server.resume().expect("it goes on");
        };
        let holder = async |mode, bug: Option<Bug>| -> Report {
            let store = store(&url, mode, &namespace()).await;
            let store = bug.map_or(Arc::clone(&store), |bug| mutate(store, bug));
            scenarios::holder(store.as_ref(), TTL, &all, TTL * 3 / 2).await.expect("a history")
        };
        let both = async |mode| tokio::join!(holder(mode, Some(bug)), holder(mode, None));
        tokio::join!(both(MutexMode::Lease), both(MutexMode::Session), hang)
    });
    let (lease, session, ()) = reports;
    [lease, session]
        .iter()
        .map(|(with, without)| Detection::by_rule(Rule::BelievedTooLong, with, without))
        .collect()
}
