//! Limiters: one hot name, and many names.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use governor::{Quota as GovernorQuota, RateLimiter};
use stanchion_bench::Failure;
use stanchion_bench::bench::Bench;
use stanchion_bench::decider::Decider;
use stanchion_bench::figure::counted;
use stanchion_bench::load;
use stanchion_bench::measure::{Figures, Measure, Role};
use stanchion_bench::target::{Against, Bound, Target};
use stanchion_core::{Limiter, LimiterOptions, Quota};
use tokio::runtime::Runtime;

use crate::peers::{Governor, LeakyBucket};
use crate::{Runtimes, store};

const OURS: &str = "stanchion";
const GOVERNOR: &str = "governor, keyed";
const LEAKY: &str = "leaky_bucket";

/// A quota larger than any side uses.
const RATE: NonZeroU32 = NonZeroU32::new(100_000_000).expect("not zero");
const ROUNDS: usize = 31;
const SLICE: Duration = Duration::from_millis(100);
const BATCH: usize = 64;
const NAMES: usize = 10_000;

struct Sides {
    ours: Arc<Vec<Arc<dyn Limiter>>>,
    governor: Governor,
    leaky: LeakyBucket,
}

impl Sides {
    fn new(names: usize) -> Result<Self, Failure> {
        let store = store();
        let names: Vec<String> = (0..names).map(|index| format!("client/{index}")).collect();
        let quota = Quota::per_second(RATE.get().into());
        let options = LimiterOptions::new(quota).refusal_cache(false);
        let ours = names.iter().map(|name| store.limiter(name, options.clone())).collect::<Result<_, _>>()?;
        let per_millisecond = usize::try_from(RATE.get() / 1000)?;
        let leaky = names.iter().map(|_| {
            let mut bucket = leaky_bucket::RateLimiter::builder();
            let (initial, max) = (per_millisecond * 1000, per_millisecond * 1000);
            bucket
                .initial(initial)
                .max(max)
                .refill(per_millisecond)
                .interval(Duration::from_millis(1))
                .build()
        });
        let leaky = LeakyBucket(Arc::new(leaky.collect()));
        let limiter = Arc::new(RateLimiter::keyed(GovernorQuota::per_second(RATE)));
        Ok(Self { ours: Arc::new(ours), governor: Governor { limiter, names: Arc::new(names) }, leaky })
    }
}

pub(crate) fn hot(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    for tasks in [1, 64] {
        let runtime = if tasks == 1 { &runtimes.one } else { &runtimes.two };
        let target = Target::new(OURS, Against::Side(GOVERNOR.to_owned()), Bound::AtMost(1.5)).column(1);
        let measure = Measure::new(
            &format!("limiter-{tasks}"),
            &format!("Limiter, one hot name, {}", counted(tasks, "task")),
            "Decisions that admit, at a rate that never runs out. Times are means of 64 decisions. `leaky_bucket` \
             keeps whole refills only, so its rate is 100,000 a millisecond.",
            load::Pace::columns("admitted"),
        );
        let measure = all(measure, runtime, &Sides::new(1)?, tasks, 1, bench.slice(SLICE));
        bench.run(if tasks == 1 { measure.target(target) } else { measure }, ROUNDS);
    }
    Ok(())
}

pub(crate) fn many(bench: &mut Bench, runtimes: &Runtimes) -> Result<(), Failure> {
    let measure = Measure::new(
        "limiter-names",
        &format!("Limiter, {NAMES} names, 64 tasks"),
        "Each task asks for one name after another; ours are opened once, those of `governor` are looked up.",
        load::Pace::columns("admitted"),
    );
    let measure = all(measure, &runtimes.two, &Sides::new(NAMES)?, 64, NAMES, bench.slice(SLICE));
    bench.run(measure, ROUNDS);
    Ok(())
}

fn all<'a>(
    measure: Measure<'a>,
    runtime: &'a Runtime,
    sides: &Sides,
    tasks: usize,
    names: usize,
    slice: Duration,
) -> Measure<'a> {
    let load = Load { runtime, tasks, names, slice };
    measure
        .side(OURS, Role::Ours, load.on(&sides.ours))
        .side(GOVERNOR, Role::Peer, load.on(&sides.governor))
        .side(LEAKY, Role::Peer, load.on(&sides.leaky))
}

#[derive(Clone, Copy)]
struct Load<'a> {
    runtime: &'a Runtime,
    tasks: usize,
    names: usize,
    slice: Duration,
}

impl<'a> Load<'a> {
    fn on<G: Decider>(self, decider: &G) -> impl FnMut() -> Result<Figures, Failure> + use<'a, G> {
        let decider = decider.clone();
        move || {
            let decisions = load::decisions(&decider, self.tasks, self.names, self.slice, BATCH);
            let seen = self.runtime.block_on(decisions)?;
            Ok(seen.figures())
        }
    }
}
