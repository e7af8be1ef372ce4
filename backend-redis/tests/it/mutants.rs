//! Bugs planted into the Redis store, its scripts and its clients. The check named for each bug
//! catches it.

#![allow(clippy::disallowed_methods, reason = "a test owns its runtime and waits in real time")]

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::common::deployment::DeploymentFixture;
use crate::common::{Fixture, PATIENT};
use stanchion_campaign::history::{Report, Rule};
use stanchion_campaign::mutants::{Bug, Detection, MutantHarness, mutate, scenarios};
use stanchion_conformance::{steps, suite};
use stanchion_core::{Store, Ticket};
use stanchion_redis::RedisStore;
use stanchion_testbed::faults::{Action, Proxy, Then, When};
use stanchion_testbed::servers::{RedisOptions, RedisServer};
use tokio::sync::Barrier;
use tokio::time::sleep;

/// Timeout of a case: long enough for every case here, and short for one that a bug holds up.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The lease of a holder whose store hangs.
const TTL: Duration = Duration::from_secs(4);

/// Texts of the scripts, each with the text that replaces it.
type Mistake = &'static [(&'static str, &'static str)];

const BARE_COUNTER: Mistake = &[
    ("local token = math.max(now, last + 1)", "local token = last + 1"),
    ("  token = now\n", "  token = 1\n"),
];
const CHARGED_AGAIN: Mistake = &[("if before >= number then", "if before > number then")];
const PLACE_OUTLIVES_LEASE: Mistake = &[
    ("elseif not unheard or unheard < now then", "elseif not unheard then"),
    ("math.max(of.expiry, unheard + 1)", "math.max(of.expiry, unheard + MAX_LEASE)"),
];
const COUNTED_AGAIN: Mistake = &[("  o.lease = lease\n", "  o.lease, o.hold = lease, false\n")];
const RETRY_KEEPS_ITS_LEASE: Mistake = &[(
    "local _, token = extend(o, lease)",
    "local token = tonumber(string.match(o.hold, '^%d+ %d+ %d+ (%d+)'))",
)];
const TOMBSTONE_IS_IGNORED: Mistake = &[("if o.tombstone then return { 2 } end", "")];
const RETRIED_RELEASE_IS_LOST: Mistake = &[("return { o.tombstone == by and 1 or 0 }", "return { 0 }")];
const CLOCK: &str = "local now = min(clock[1] * 1000000 + clock[2], MAX)";

stanchion_campaign::mutants! {
    Redis;
    m3_bare_counter: BareCounter =>
        |_| vec![by_case("as_mutex::m3_fencing_token_grows_after_data_loss", BARE_COUNTER).saying(") after Some(")];
    l1_clients_clock: ClientsClock => |_| vec![by_clocks()];
    l5_charged_again: ChargedAgain => |_| vec![
        by_step("flights::l5_a_flight_is_charged_once_whatever_its_retry_asks", CHARGED_AGAIN).saying("a retry"),
        by_charges(),
    ];
    c10_believes_while_asking: BelievesWhileAsking => |bug| vec![by_beliefs(bug)];
    c6_late_grant: LateGrant =>
        |bug| vec![by_client(bug, "as_mutex::c6_a_grant_has_half_its_lease_ahead").saying("of a lease of")];
    c16_place_outlives_lease: PlaceOutlivesLease => |_| vec![
        by_step("liveness::c16_a_silent_waiter_loses_its_place_after_its_lease", PLACE_OUTLIVES_LEASE)
            .saying("its place ended with its lease"),
    ];
    c2_s7_counted_again: CountedAgain => |_| vec![
        by_case("under_faults::c2_s7_a_retried_acquire_is_one_hold", COUNTED_AGAIN).saying("one permit is out"),
    ];
    c2_c8_retry_keeps_its_lease: RetryKeepsItsLease => |_| vec![
        by_case("under_faults::c2_c8_a_retried_acquire_has_its_lease_anew", RETRY_KEEPS_ITS_LEASE)
            .saying("somebody else was granted"),
    ];
    c4_tombstone_is_ignored: TombstoneIsIgnored => |_| vec![
        by_case("under_faults::c4_a_late_copy_of_a_dropped_acquire_is_refused", TOMBSTONE_IS_IGNORED)
            .saying("a late copy of a cancelled acquire"),
    ];
    c11_retried_release_is_lost: RetriedReleaseIsLost => |_| vec![
        by_case("under_faults::c11_a_retried_release_is_told_the_same", RETRIED_RELEASE_IS_LOST)
            .saying("its own release"),
    ];
}

/// A server that receives scripts from the clients of this file only.
fn server() -> String {
    static SERVER: LazyLock<RedisServer> =
        LazyLock::new(|| RedisServer::start(RedisOptions::default()).expect("a redis-server"));
    SERVER.url()
}

/// Starts a proxy to that server, which replaces each of these texts. It runs until the test
/// program ends.
fn proxy_with<T: AsRef<str>>(rewrites: &[(&str, T)]) -> (&'static Proxy, String) {
    let proxy = Box::leak(Box::new(Proxy::to(&server()).expect("a proxy")));
    for (from, to) in rewrites {
        proxy.rewrite(from, to.as_ref());
    }
    (proxy, proxy.url(&server()))
}

/// Starts a proxy that plants the mistake into scripts, or else one that replaces each text by
/// itself.
fn proxy_of(mistake: Mistake, planted: bool) -> (&'static Proxy, String) {
    let rewrites: Vec<_> =
        mistake.iter().map(|(right, wrong)| (*right, if planted { wrong } else { right })).collect();
    proxy_with(&rewrites)
}

fn case(path: &str) -> suite::Case {
    suite::find(path).unwrap_or_else(|| panic!("there is no case {path}"))
}

fn by_case(path: &str, mistake: Mistake) -> Detection {
    let verdict = |planted| {
        suite::verdict(case(path), TIMEOUT, move || async move {
            DeploymentFixture::through(proxy_of(mistake, planted).1, &server())
        })
    };
    Detection::by_case(path, verdict(true), &verdict(false))
}

fn by_step(path: &str, mistake: Mistake) -> Detection {
    let verdict = |planted| {
        steps::verdict(path, TIMEOUT, move || async move { Fixture::on(&proxy_of(mistake, planted).1) })
    };
    Detection::by_case(path, verdict(true), &verdict(false))
}

/// Plants a bug into clients.
fn by_client(bug: Bug, path: &str) -> Detection {
    let verdict = |bug| {
        suite::verdict(case(path), TIMEOUT, move || async move {
            MutantHarness::new(DeploymentFixture::server(), bug)
        })
    };
    Detection::by_case(path, verdict(Some(bug)), &verdict(None))
}

async fn store(url: &str, namespace: &str) -> Arc<dyn Store> {
    let builder = RedisStore::builder(url).expect("a URL").namespace(namespace).request_timeout(PATIENT);
    Arc::new(builder.connect().await.expect("a store"))
}

fn namespace() -> String {
    format!("t{}", Ticket::random())
}

/// Two clients with clocks of their own. The second is half a day ahead, or is not.
fn by_clocks() -> Detection {
    let clocks = async |ahead: u32| -> Report {
        let proxy_at =
            |ahead| proxy_with(&[(CLOCK, CLOCK.replace("clock[1]", &format!("(clock[1] + {ahead})")))]).1;
        let namespace = namespace();
        let (first, second) =
            (store(&proxy_at(0), &namespace).await, store(&proxy_at(ahead), &namespace).await);
        scenarios::bucket(&[first.as_ref(), second.as_ref()]).await.expect("a history")
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (with, without) = runtime.block_on(async { (clocks(43_200).await, clocks(0).await) });
    Detection::by_rule(Rule::OverTheRate, &with, &without)
}

/// A caller loses the reply to one of its charges.
fn by_charges() -> Detection {
    let charges = async |planted| -> Report {
        let (proxy, url) = proxy_of(CHARGED_AGAIN, planted);
        let store = store(&url, &namespace()).await;
        let lost = proxy.on(When::nth(3).named("EVAL"), Action::DropReply(Then::Reset));
        let report = scenarios::bucket(&[store.as_ref()]).await.expect("a history");
        assert_eq!(lost.fired(), 1, "{}", proxy.report());
        report
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (with, without) = runtime.block_on(async { (charges(true).await, charges(false).await) });
    Detection::by_rule(Rule::RefusedWithRoom, &with, &without)
}

/// Two holders, one of them with the bug, on a server that hangs for longer than a lease.
fn by_beliefs(bug: Bug) -> Detection {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (with, without) = runtime.block_on(async {
        let server = RedisServer::start(RedisOptions::default()).expect("a redis-server");
        let (url, own) = (server.url(), namespace());
        let (with, without) = (mutate(store(&url, &own).await, bug), store(&url, &namespace()).await);
        let all = Barrier::new(3);
        let hang = async {
            all.wait().await;
            server.pause().expect("a pause");
            sleep(TTL * 5 / 4).await;
            server.resume().expect("it goes on");
        };
        let holder = async |store| scenarios::holder(store, TTL, &all, TTL * 3 / 2).await.expect("a history");
        let (with, without, ()) = tokio::join!(holder(with.as_ref()), holder(without.as_ref()), hang);
        (with, without)
    });
    Detection::by_rule(Rule::BelievedTooLong, &with, &without)
}
