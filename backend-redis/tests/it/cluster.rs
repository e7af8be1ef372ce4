//! A cluster: batches over all stripes, slots that move, nodes that die, and the number of
//! connections. Slots that no node has are in `cluster_slots.rs`.

#![allow(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests wait in real time, and fail by panic"
)]

use stanchion_conformance::steps::StepCalls;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use crate::common::*;
use stanchion_conformance::EPSILON;
use stanchion_conformance::stopwatch::{self, Stopwatch, timeout};
use stanchion_conformance::support::{definite, eventually};
use stanchion_core::spi::{Acquire, Kept, Renew};
use stanchion_core::{ErrorKind, Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisCluster, RedisOptions, RedisServer};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Time limit of a request that meets a fault: longer than the machine stands still, so that the
/// other nodes answer in time.
const REQUEST: Duration = Duration::from_secs(4);

/// The cluster of the tests that stop and promote no node.
static SHARED: LazyLock<RedisCluster> = LazyLock::new(|| start(RedisOptions::default()));

/// Options for a cluster that replaces a failed node within some 2 s.
pub(crate) fn failing_fast() -> RedisOptions {
    RedisOptions::default().failover_after(Duration::from_secs(1))
}

pub(crate) fn start(options: RedisOptions) -> RedisCluster {
    RedisCluster::start(options).unwrap()
}

async fn store(fixture: &Fixture) -> Arc<dyn Store> {
    Arc::new(definite(|| fixture.builder().connect()).await.unwrap())
}

/// Makes a namespace of which each primary has stripes: one in 200 has none on some node.
fn on_all_primaries(cluster: &RedisCluster) -> Fixture {
    loop {
        let fixture = Fixture::on(&cluster.url());
        let is_there = |node: &RedisServer, stripe: u32| {
            let key = format!("{{{}/{stripe}}}", fixture.namespace);
            node.command(&["EXISTS", &key]).is_ok_and(|answer| answer.trim_start_matches(':').trim() == "0")
        };
        if cluster.nodes()[..3].iter().all(|node| (0..16).any(|stripe| is_there(node, stripe))) {
            return fixture;
        }
    }
}

/// Returns the slot of a mutex that is held or has waiters.
fn slot_of(cluster: &RedisCluster, fixture: &Fixture, name: &str) -> u16 {
    let pattern = format!("{{{}/*}}:m:{name}", fixture.namespace);
    let found = cluster.nodes().iter().find_map(|node| {
        let keys = node.command(&["KEYS", &pattern]).ok()?;
        keys.lines().find(|line| line.starts_with('{')).map(str::to_owned)
    });
    let answer = cluster.nodes()[1].command(&["CLUSTER", "KEYSLOT", &found.unwrap()]).unwrap();
    answer.trim().trim_start_matches(':').parse().unwrap()
}

/// Starts waiters that lock, release at once, and end.
fn waiters(mutex: &Arc<dyn Mutex>, count: usize) -> JoinSet<()> {
    let mut waiters = JoinSet::new();
    for _ in 0..count {
        let mutex = Arc::clone(mutex);
        waiters.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
    }
    waiters
}

async fn queued(mutex: &dyn Mutex, count: u64) {
    let queued = async {
        while definite(|| mutex.inspect()).await.unwrap().waiters < count {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(5), queued).await.expect("the waiters queue");
}

async fn done(waiters: JoinSet<()>, timeout: Duration) -> Duration {
    let watch = Stopwatch::start();
    stopwatch::timeout(timeout, waiters.join_all()).await.expect("all waiters proceed in time");
    watch.elapsed()
}

#[tokio::test]
async fn c13_batches_over_all_stripes_are_answered_in_order() {
    let fixture = on_all_primaries(&SHARED);
    let process = fixture.process().await;
    let requests: Vec<_> = (0..100).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    all(process.callers.acquire(&requests).await);
    let holders = SHARED.nodes()[..3].iter().map(|node| {
        let keys = node.command(&["KEYS", &format!("{{{}/*}}:m:*", fixture.namespace)]).unwrap();
        keys.lines().filter(|line| line.starts_with('{')).count()
    });
    let holders: Vec<_> = holders.collect();
    assert!(holders.iter().all(|count| *count > 0) && holders.iter().sum::<usize>() == 100, "{holders:?}");
    // Every third ticket holds nothing.
    let ticket_of = |index: usize, request: &Acquire| match index % 3 {
        0 => ask(&request.object).ticket,
        _ => request.ticket,
    };
    let renews: Vec<_> = (requests.iter().enumerate())
        .map(|(index, request)| Renew {
            object: request.object.clone(),
            ticket: ticket_of(index, request),
            lease: request.lease,
        })
        .collect();
    let expected: Vec<_> = (0..100).map(|index| if index % 3 == 0 { Kept::No } else { Kept::Yes }).collect();
    assert_eq!(all(process.own.renew(&renews).await), expected);
    let releases: Vec<_> = requests.iter().map(|request| freeing(request, None)).collect();
    assert_eq!(all(process.own.release(&releases).await), [Kept::Yes; 100]);
    assert_eq!(all(process.own.release(&releases).await), [Kept::No; 100]);
}

#[tokio::test]
async fn c3_a_node_that_is_silent_fails_its_own_entries_only() {
    let cluster = start(RedisOptions::default());
    let fixture = Fixture::on(&cluster.url());
    let connect = || fixture.builder().request_timeout(REQUEST).steps();
    let process = driven(definite(connect).await.unwrap());
    let requests: Vec<_> = (0..60).map(|index| ask(&mutex(&format!("m{index}")))).collect();
    acquire_all(&process, &requests).await;
    cluster.nodes()[0].pause().unwrap();
    let watch = Stopwatch::start();
    let releases: Vec<_> = requests.iter().map(|request| freeing(request, None)).collect();
    let answers = process.callers.release(&releases).await;
    // One request takes as long as several: all nodes are asked at once.
    assert!(watch.elapsed() < REQUEST + EPSILON, "{:?}", watch.elapsed());
    let freed = answers.iter().filter(|answer| matches!(answer, Ok(Kept::Yes))).count();
    let unknown = answers.iter().filter_map(|answer| answer.as_ref().err());
    assert!(freed > 0 && unknown.clone().count() == 60 - freed && freed < 60, "{freed} of 60");
    assert!(unknown.clone().all(|error| error.kind() == ErrorKind::Unknown));
    cluster.nodes()[0].resume().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_c18_waiters_proceed_after_their_slot_has_moved() {
    let fixture = Fixture::on(&SHARED.url());
    let (holder, other) = (store(&fixture).await, store(&fixture).await);
    let held = holder.mutex("moved", MutexOptions::default()).unwrap();
    let guard = held.lock().await.unwrap();
    let waiting = other.mutex("moved", MutexOptions::default()).unwrap();
    let waiters = waiters(&waiting, 20);
    queued(held.as_ref(), 20).await;
    let slot = slot_of(&SHARED, &fixture, "moved");
    let from = SHARED.owner(slot).unwrap();
    SHARED.move_slot(slot, (from + 1) % 3).unwrap();
    assert!(guard.is_held());
    guard.release().await.unwrap();
    let took = done(waiters, Duration::from_secs(5)).await;
    println!("20 waiters served in {took:?} after their slot had moved");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_c18_hints_come_from_the_node_that_a_slot_has_moved_to() {
    let fixture = Fixture::on(&SHARED.url());
    let process = fixture.process().await;
    let (held, waiter) = (ask(&mutex("hints")), ask(&mutex("hints")));
    process.wake.watch(&held.object, true);
    for round in 0..2 {
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        assert_eq!(release(&process, &held).await, Kept::Yes);
        // The hint is pushed: no poll asks for the next grants.
        assert_eq!(process.hint().await, waiter.ticket, "round {round}");
        granted(&process, &waiter).await;
        let slot = slot_of(&SHARED, &fixture, "hints");
        assert_eq!(release(&process, &waiter).await, Kept::Yes);
        let from = SHARED.owner(slot).unwrap();
        SHARED.move_slot(slot, (from + 1) % 3).unwrap();
    }
}

/// A slot on its way to another node, none of whose keys is there yet.
struct Moving {
    slot: String,
    from: usize,
    to: usize,
}

impl Moving {
    fn of(slot: u16) -> Self {
        let from = SHARED.owner(slot).unwrap();
        Self { slot: slot.to_string(), from, to: (from + 1) % 3 }
    }

    fn set(&self, node: usize, words: &[&str]) {
        let command = [&["CLUSTER", "SETSLOT", &self.slot], words].concat();
        assert_eq!(SHARED.nodes()[node].command(&command).unwrap(), "+OK\r\n");
    }

    fn begin(&self) {
        let [from, to] = [self.from, self.to].map(|node| {
            let answer = SHARED.nodes()[node].command(&["CLUSTER", "MYID"]).unwrap();
            answer.lines().nth(1).unwrap().to_owned()
        });
        self.set(self.to, &["IMPORTING", &from]);
        self.set(self.from, &["MIGRATING", &to]);
    }

    fn end(&self) {
        self.set(self.to, &["STABLE"]);
        self.set(self.from, &["STABLE"]);
    }
}

#[tokio::test]
async fn c3_while_a_slot_is_on_its_way_requests_are_certainly_not_executed() {
    let fixture = Fixture::on(&SHARED.url());
    let connect = || fixture.builder().request_timeout(REQUEST).steps();
    let process = driven(definite(connect).await.unwrap());
    let request = ask(&mutex("torn"));
    let token = granted(&process, &request).await;
    let slot = slot_of(&SHARED, &fixture, "torn");
    let moving = Moving::of(slot);
    moving.begin();
    let ask = || process.callers.acquire(std::slice::from_ref(&request));
    let (mut answers, took) = in_time(REQUEST, ask).await;
    assert_eq!(answers.remove(0).unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(took < REQUEST + EPSILON, "{took:?}");
    moving.end();
    SHARED.move_slot(slot, moving.to).unwrap();
    assert_eq!(granted(&process, &request).await, token);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_c18_waiters_proceed_after_a_failover() {
    let cluster = start(failing_fast());
    let fixture = Fixture::on(&cluster.url());
    let (holder, other) = (store(&fixture).await, store(&fixture).await);
    let held = holder.mutex("survives", MutexOptions::default()).unwrap();
    let guard = held.lock().await.unwrap();
    let waiting = other.mutex("survives", MutexOptions::default()).unwrap();
    let waiters = waiters(&waiting, 20);
    queued(held.as_ref(), 20).await;
    let slot = slot_of(&cluster, &fixture, "survives");
    let primary = cluster.owner(slot).unwrap();
    let replica = cluster.replica(primary).unwrap();
    let followed = async {
        while !cluster.nodes()[primary].is_followed() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_secs(10), followed).await.expect("a replica that follows");
    cluster.nodes()[primary].kill().unwrap();
    assert_eq!(cluster.owner(slot).unwrap(), replica);
    let promoted = Stopwatch::start();
    guard.release().await.unwrap();
    let took = done(waiters, Duration::from_secs(5)).await;
    println!("20 waiters served {took:?} after the release, {:?} after the promotion", promoted.elapsed());
    // The dead node comes back as a replica, and gets no requests.
    cluster.nodes()[primary].restart().unwrap();
    cluster.await_ready().unwrap();
    held.lock().await.unwrap().release().await.unwrap();
}

/// Has a replica take over. Its answer only says that it tries: a replica that is not elected
/// within 5 s gives up, and has to be told again.
async fn promote(cluster: &RedisCluster, replica: usize, slot: u16) {
    let is_promoted = async || {
        while cluster.owner(slot).unwrap() != replica {
            sleep(Duration::from_millis(50)).await;
        }
    };
    let telling = async {
        loop {
            cluster.nodes()[replica].command(&["CLUSTER", "FAILOVER"]).unwrap();
            if timeout(Duration::from_secs(6), is_promoted()).await.is_ok() {
                break;
            }
        }
    };
    timeout(Duration::from_secs(60), telling).await.expect("a promotion");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c18_a_promotion_without_a_failure_is_followed() {
    let cluster = start(RedisOptions::default().failover_after(Duration::from_secs(5)));
    let fixture = Fixture::on(&cluster.url());
    let store = store(&fixture).await;
    let mutex = store.mutex("handed over", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiters = waiters(&mutex, 5);
    queued(mutex.as_ref(), 5).await;
    // One after the other, because the primaries elect the next one.
    for (primary, slot) in [(0, 0), (1, 6_000), (2, 16_383)] {
        promote(&cluster, primary + 3, slot).await;
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
    done(waiters, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn c27_a_store_connects_while_a_primary_is_stopped() {
    let cluster = start(RedisOptions::default());
    // The layout of the namespace is there.
    let namespace = on_all_primaries(&cluster);
    namespace.process().await;
    for stopped in 0..3 {
        cluster.nodes()[stopped].pause().unwrap();
        let limit = Duration::from_secs(1);
        let connect = || namespace.builder().request_timeout(limit).steps();
        // With a node that is silent, this takes all of its time.
        let process = driven(definite(connect).await.unwrap());
        let requests: Vec<_> = (0..60).map(|index| ask(&semaphore(&format!("{stopped} {index}")))).collect();
        let watch = Stopwatch::start();
        let served = loop {
            let answers = process.callers.acquire(&requests).await;
            let served = answers.iter().filter(|answer| answer.is_ok()).count();
            // While the machine stands still, the time of all requests runs out.
            if served > 0 {
                break served;
            }
            assert!(watch.elapsed() < Duration::from_secs(10), "node {stopped}: none of 60");
        };
        assert!(served < 60, "node {stopped}: all of 60");
        cluster.nodes()[stopped].resume().unwrap();
    }
}

#[tokio::test]
async fn c28_nodes_are_asked_for_the_slots_over_connections_that_exist() {
    let cluster = start(RedisOptions::default());
    let requests: Vec<_> = (0..60).map(|index| ask(&semaphore(&format!("s{index}")))).collect();
    let limit = Duration::from_secs(3);
    let connect = || Fixture::on(&cluster.url()).builder().request_timeout(limit).steps();
    let process = driven(definite(connect).await.unwrap());
    let is_served = || async { process.callers.acquire(&requests).await.iter().all(Result::is_ok) };
    eventually(Duration::from_secs(10), "connections to all primaries", is_served).await;
    // From then on it answers that nobody has its slots, whereupon all are asked again and again.
    let slots = cluster.nodes()[0].command(&["CLUSTER", "SLOTS"]).unwrap();
    let mut slots = slots.lines().filter_map(|line| line.strip_prefix(':')?.parse::<u16>().ok());
    let range = [slots.next(), slots.next()].map(|slot| slot.unwrap().to_string());
    cluster.nodes()[0].command(&["CLUSTER", "DELSLOTSRANGE", &range[0], &range[1]]).unwrap();
    let received = |node: usize| {
        let info = cluster.nodes()[node].command(&["INFO", "stats"]).unwrap();
        let count = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        count.and_then(|count| count.trim().parse::<u32>().ok()).unwrap()
    };
    let before = [1, 2].map(received);
    for _ in 0..3 {
        assert!(process.callers.acquire(&requests).await.iter().any(Result::is_err));
    }
    // The test's own question has a connection, and the others may be replaced after the machine
    // stood still.
    let more: u32 = [1, 2].map(received).iter().zip(before).map(|(after, before)| after - before).sum();
    assert!(more <= 6, "{more} connections");
}

/// Returns the number of connections to each node, without those between nodes and the one that
/// asks.
fn connections(cluster: &RedisCluster) -> Vec<usize> {
    let count = |node: usize| {
        let list = cluster.nodes()[node].command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
        list.lines().filter(|line| line.starts_with("id=") && !line.contains("cmd=client")).count()
    };
    (0..6).map(count).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c15_a_cluster_takes_two_connections_a_primary_and_one_a_stripe_with_waiters() {
    let cluster = start(RedisOptions::default());
    let fixture = Fixture::on(&cluster.url());
    let store = store(&fixture).await;
    let mut guards = Vec::new();
    let mut all = JoinSet::new();
    for index in 0..100 {
        let mutex = store.mutex(&format!("m{index}"), MutexOptions::default()).unwrap();
        guards.push(mutex.lock().await.unwrap());
        for _ in 0..3 {
            let mutex = Arc::clone(&mutex);
            all.spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() });
        }
        queued(mutex.as_ref(), 3).await;
    }
    sleep(Duration::from_secs(2)).await;
    let with_waiters = connections(&cluster);
    println!("300 waiters on all stripes: {with_waiters:?} connections");
    assert_eq!(with_waiters[3..], [0, 0, 0]);
    assert!(with_waiters.iter().sum::<usize>() <= 16 + 2 * 3, "{with_waiters:?}");
    for guard in guards {
        guard.release().await.unwrap();
    }
    done(all, Duration::from_secs(20)).await;
    // Without waiters the pops end. With one more waiter the idle connections are dropped.
    let mutex = store.mutex("m0", MutexOptions::default()).unwrap();
    let guard = mutex.lock().await.unwrap();
    let waiters = waiters(&mutex, 1);
    let few = || async { connections(&cluster).iter().sum::<usize>() <= 5 + 2 * 3 };
    eventually(Duration::from_secs(20), "the idle connections are dropped", few).await;
    println!("one waiter: {:?} connections", connections(&cluster));
    guard.release().await.unwrap();
    done(waiters, Duration::from_secs(5)).await;
}

#[tokio::test]
async fn c22_every_primary_is_checked() {
    let cluster = start(RedisOptions::default());
    let fixture = Fixture::on(&cluster.url());
    let steps = definite(|| fixture.builder().steps()).await.unwrap();
    assert_eq!(steps.capabilities.survives_restart, Some(false));
    let node = &cluster.nodes()[2];
    node.command(&["CONFIG", "SET", "maxmemory", "100mb"]).unwrap();
    node.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).unwrap();
    let error = definite(|| fixture.builder().steps()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsafeStore);
    assert!(error.to_string().contains(&format!("127.0.0.1:{}", node.port())), "{error}");
    assert!(error.to_string().contains("allkeys-lru"), "{error}");
}

#[tokio::test]
async fn c22_a_cluster_is_not_taken_for_a_server_nor_the_other_way_round() {
    let node = SHARED.nodes()[0].url();
    let server = stanchion_testbed::servers::redis().unwrap().url().replace("redis:", "redis+cluster:");
    for url in [node, server] {
        let error = definite(|| RedisStore::connect(&url)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("redis"), "{error}");
    }
}

/// While a slot is on its way, a key that is missing cannot be made: a record must not be removed
/// before its short form is written.
#[tokio::test]
async fn m1_a_hold_stays_where_the_last_waiter_leaves_while_its_slot_is_on_its_way() {
    let fixture = Fixture::on(&SHARED.url());
    let process = fixture.process().await;
    // The stripe is that of the name, whatever the kind.
    let mut known = None;
    for object in [mutex("leaving"), semaphore("leaving")] {
        let (held, waiter) = (ask(&object), ask(&object));
        granted(&process, &held).await;
        waits(&process, &waiter).await;
        let slot = *known.get_or_insert_with(|| slot_of(&SHARED, &fixture, "leaving"));
        let moving = Moving::of(slot);
        // Longer than a record stays a hash because somebody has queued; and so that a process was
        // silent, which begins a grace period: then all keys of the stripe are there.
        sleep(Duration::from_millis(2_500)).await;
        poll(&process, &object).await;
        moving.begin();
        let leave =
            stanchion_core::spi::Cancel { object: object.clone(), ticket: waiter.ticket, tombstone: None };
        let left = process.own.cancel(&[leave]).await.remove(0);
        moving.end();
        println!("{object:?}: {left:?}");
        let inspection = process.callers.inspect(&object).await.unwrap();
        assert_eq!(inspection.holders.len(), 1, "{object:?}: {inspection:?}");
        release(&process, &held).await;
    }
}
