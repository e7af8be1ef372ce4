//! What a call costs.

use stanchion_conformance::steps::drive::*;
use stanchion_core::engine::steps::{Acquired, Kept};
use tokio::time::Instant;

use super::*;

async fn measure(name: &str, size: usize, calls: u32, spread: bool) {
    let bed = Bed::shared();
    let process = bed.process().await;
    let mut took = [Duration::ZERO; 2];
    let mut last = None;
    for call in 0..calls + 20 {
        let object = |index| semaphore(&if spread { format!("{name}{index}") } else { name.to_owned() });
        let batch: Vec<_> = (0..size).map(|index| ask_many(&object(index), 1, 1_000_000)).collect();
        let start = Instant::now();
        let answers = all(process.callers.acquire(&batch).await);
        let middle = Instant::now();
        let releases: Vec<_> = batch.iter().map(|request| freeing(request, None)).collect();
        let kept = all(process.callers.release(&releases).await);
        if call >= 20 {
            took[0] += middle - start;
            took[1] += middle.elapsed();
        }
        assert!(kept.iter().all(|kept| *kept == Kept::Yes));
        for answer in answers {
            let Acquired::Granted { token, .. } = answer else { panic!("{answer:?}") };
            assert!(spread || Some(token) > last, "M2");
            last = Some(token);
        }
    }
    let [acquire, release] = took.map(|took| (took / calls).as_micros());
    println!(
        "{size} entries, spread over names: {spread}: acquire {acquire} us, release {release} us a call"
    );
}

#[tokio::test]
async fn m2_calls_of_64_on_a_hot_semaphore() {
    measure("hot", 64, 300, false).await;
    measure("hot", 1, 300, false).await;
    measure("cold", 64, 100, true).await;
}
