//! What a node of a cluster that is silent costs the names of the other nodes.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::load::{self, Pace};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Mutex, MutexOptions, Store};
use stanchion_redis::RedisStore;
use stanchion_testbed::servers::{RedisCluster, RedisOptions};
use tokio::runtime::{Builder, Runtime};

const ALL: &str = "all nodes answer";
const SILENT: &str = "one node is silent";
/// How many names are tried, and how many of each sort are used.
const TRIED: usize = 96;
const USED: usize = 12;
/// The node that is silent.
const NODE: usize = 0;
const LIMIT: Duration = Duration::from_millis(300);

struct ClusterFixture {
    runtime: Runtime,
    cluster: RedisCluster,
    store: Arc<dyn Store>,
    /// Names of the nodes that always answer, and of the one that does not.
    near: Vec<Arc<dyn Mutex>>,
    silent: Vec<Arc<dyn Mutex>>,
}

impl ClusterFixture {
    fn new() -> Result<Self, Failure> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let cluster = RedisCluster::start(RedisOptions::default())?;
        let store: Arc<dyn Store> = Arc::new(runtime.block_on(RedisStore::connect(&cluster.url()))?);
        let mut fixture = Self { runtime, cluster, store, near: Vec::new(), silent: Vec::new() };
        fixture.sort()?;
        Ok(fixture)
    }

    /// Finds out which names the silent node has.
    fn sort(&mut self) -> Result<(), Failure> {
        let open = |number: usize| self.store.mutex(&format!("name-{number}"), MutexOptions::default());
        let all = (0..TRIED).map(open).collect::<Result<Vec<_>, _>>()?;
        self.runtime.block_on(join_all(all.iter().map(|mutex| mutex.inspect())));
        self.cluster.nodes()[NODE].pause()?;
        let answers = self.runtime.block_on(join_all(
            all.iter()
                .map(async |mutex| matches!(tokio::time::timeout(LIMIT, mutex.inspect()).await, Ok(Ok(_)))),
        ));
        self.cluster.nodes()[NODE].resume()?;
        for (mutex, answers) in all.into_iter().zip(answers) {
            let names = if answers { &mut self.near } else { &mut self.silent };
            if names.len() < USED {
                names.push(mutex);
            }
        }
        if self.near.len() < USED || self.silent.is_empty() {
            return Err("the names are all of one node".into());
        }
        Ok(())
    }

    /// Runs pairs on the names of the other nodes, while the names of the one are asked for, too.
    fn slice(&self, is_silent: bool, time: Duration) -> Result<Figures, Failure> {
        let node = &self.cluster.nodes()[NODE];
        if is_silent {
            node.pause()?;
        }
        let pairs = self.runtime.block_on(async {
            let asked = async {
                loop {
                    let asks = self.silent.iter().map(|mutex| mutex.lock_for(LIMIT));
                    join_all(asks).await.into_iter().flatten().flatten().for_each(drop);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::select! {
                pairs = load::uncontended(&self.near, time, 1) => pairs,
                never = asked => never,
            }
        });
        if is_silent {
            node.resume()?;
            std::thread::sleep(time / 2);
        }
        Ok(pairs?.figures())
    }
}

pub(crate) fn silent_node(bench: &mut Bench) -> Result<(), Failure> {
    if !bench.wants("cluster-silent") {
        return Ok(());
    }
    // Shorter than the cluster takes to replace the node.
    let slice = bench.slice(Duration::from_millis(1_500));
    let fixture = ClusterFixture::new()?;
    let measure = Measure::new(
        "cluster-silent",
        "Mutex on a cluster, one node silent",
        "Pairs on names of two nodes, while names of the third are asked for, too. The third node is stopped with its \
         connections open.",
        Pace::columns("pairs"),
    )
    .side(ALL, Role::Ours, || fixture.slice(false, slice))
    .side(SILENT, Role::Ours, || fixture.slice(true, slice))
    .target(Target::new(SILENT, Against::Side(ALL.to_owned()), Bound::AtMost(2.0)).column(2));
    bench.run(measure, 7);
    Ok(())
}
