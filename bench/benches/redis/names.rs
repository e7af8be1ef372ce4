//! What is left at the server of names that were used once.

use std::sync::Arc;

use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::figure::{Better, Column, Unit, whole};
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{MutexOptions, Store};
use tokio::task::JoinSet;

use crate::fixture::RedisFixture;
use crate::peers::OURS;

const NAMES: usize = 1_000_000;
const TASKS: usize = 256;

/// Measures what a million mutexes leave that were locked and released once.
pub(crate) fn used_once(bench: &mut Bench) -> Result<(), Failure> {
    if !bench.wants("names") {
        return Ok(());
    }
    let names = bench.count(NAMES);
    let measure = Measure::new(
        "names",
        "Mutex, 1,000,000 names used once",
        "Keys and memory of the server, after less before: what stays is the layout, a mark for each stripe, and what a \
         process is known by.",
        vec![Column::count("keys"), Column::new("memory of a name", Unit::Bytes, Better::Less)],
    )
    .side(OURS, Role::Ours, || left(names))
    .target(Target::new(OURS, Against::Nothing, Bound::AtMost(17.0)))
    .target(Target::new(OURS, Against::Nothing, Bound::AtMost(1.0)).column(1));
    bench.run(measure, 1);
    Ok(())
}

fn left(names: usize) -> Result<Figures, Failure> {
    let fixture = RedisFixture::new()?;
    let store = fixture.store()?;
    fixture.runtime.block_on(async {
        use_all(&store, TASKS * 4).await?;
        let before = fixture.memory().await?;
        use_all(&store, names).await?;
        let (keys, after) = (fixture.keys().await?, fixture.memory().await?);
        Ok(vec![keys, (after - before).max(0.0) / whole(names)])
    })
}

async fn use_all(store: &Arc<dyn Store>, names: usize) -> Result<(), Failure> {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let store = Arc::clone(store);
        tasks.spawn(async move {
            for number in (task..names).step_by(TASKS) {
                let mutex = store.mutex(&format!("once-{number}"), MutexOptions::default())?;
                mutex.lock().await?.release().await?;
            }
            Ok::<_, stanchion_core::Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}
