//! Compares the steps with core's bucket: the same calls at the same times get the same answers
//! (L3).

use crate::steps::StepCalls;
use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use stanchion_core::limiter::{Bucket, ExactQuota, GOLDEN, MAX, Reserved, Verdict};
use stanchion_core::spi::{LimitAsk, Limited, ParameterCheck};
use stanchion_core::{OnMismatch, Ticket};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::block_in_place;

use super::super::drive::{Rig, SECOND, all, quota, reserve, take};
use super::super::harness::ClockHarness;

const REMEMBERED: u64 = 60_000_000;

fn told(limited: &Limited) -> String {
    match limited {
        Limited::Taken { verdict, .. } => {
            let Verdict { allowed, remaining, retry_after, reset_after, .. } = verdict;
            let retry_after = retry_after.map_or("-".to_owned(), |wait| wait.to_string());
            format!("{} {remaining} {retry_after} {reset_after}", if *allowed { "yes" } else { "no" })
        }
        Limited::Reserved { place: Some(place), .. } => format!("{} {}", place.ready_at, place.wait),
        Limited::Reserved { place: None, .. } => "never".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) async fn l3_decisions_agree_with_the_table(harness: &dyn ClockHarness) {
    let mut rig = Rig::new(harness);
    let (mut text, mut terms) = (String::new(), quota(1, 1, 1));
    let mut refunds = HashMap::new();
    for line in GOLDEN.lines() {
        let asked = line.split("=>").next().expect("a call").trim_end();
        let words: Vec<&str> = asked.split_whitespace().collect();
        let numbers: Vec<u64> = words.iter().skip(2).filter_map(|word| word.parse().ok()).collect();
        match words.as_slice() {
            ["quota", amount, period, burst] => {
                terms = quota(
                    amount.parse().expect("a number"),
                    period.parse().expect("a number"),
                    burst.parse().expect("a number"),
                );
                rig.next();
                refunds.clear();
                rig.at(0).await;
                rig.steps.set_quota(&rig.object, terms).await.expect("an answer");
                text += line;
            }
            [time, verb, ..] if !time.starts_with('#') => {
                rig.at(time.parse().expect("a number")).await;
                let said = match (*verb, numbers.as_slice()) {
                    ("take", &[cost]) => told(&rig.one(terms, LimitAsk::Take { cost }).await),
                    ("reserve", &[id, cost, max_wait]) => {
                        let ticket = Ticket::from(u128::from(id));
                        told(&rig.one(terms, LimitAsk::Reserve { ticket, cost, max_wait }).await)
                    }
                    ("cancel", &[id]) => match (refunds.get(&id), rig.refund(id.into()).await) {
                        // The second refund of a ticket: the bucket gives nothing back, and a store
                        // repeats its first answer (L7).
                        (Some(before), again) if *before == again => "0".to_owned(),
                        (_, refund) => refunds.entry(id).insert_entry(refund).get().to_string(),
                    },
                    ("peek" | "set" | "reset", numbers) => {
                        if let [amount, period, burst] = *numbers {
                            terms = quota(amount, period, burst);
                            rig.steps.set_quota(&rig.object, terms).await.expect("an answer");
                        } else if *verb == "reset" {
                            rig.steps.reset(&rig.object).await.expect("an answer");
                        }
                        told(&rig.one(terms, LimitAsk::Take { cost: 0 }).await)
                    }
                    _ => panic!("unknown call: {line}"),
                };
                text += &format!("{asked:<34} => {said}");
            }
            _ => text += line,
        }
        text.push('\n');
    }
    for (said, expected) in text.lines().zip(GOLDEN.lines()) {
        assert_eq!(said, expected);
    }
}

pub(super) async fn l5_a_retry_counts_its_waits_from_its_own_time(harness: &dyn ClockHarness) {
    let mut rig = Rig::new(harness);
    let terms = quota(1, SECOND, 2);
    let asks = [take(2), take(1), reserve(Ticket::from(1), 1)];
    let calls = asks.map(|ask| rig.call(terms, ask));
    let request = rig.next_id();
    let start = 1_750_000_000_000_000_u64;
    // If the clock has gone back since, the waits are no longer than before.
    for (now, passed) in [(0, 0), (0, 0), (300_000, 300_000), (-700_000, 0), (1_200_000, 1_200_000)] {
        rig.at(start.checked_add_signed(now).expect("a time")).await;
        let told: Vec<_> = all(rig.steps.decide(request, &calls).await).iter().map(told).collect();
        let left = |wait: u64| wait.saturating_sub(passed);
        let expected = [
            format!("yes 0 - {}", left(2_000_000)),
            format!("no 0 {} {}", left(1_000_000), left(2_000_000)),
            format!("{} {}", start + 1_000_000, left(1_000_000)),
        ];
        assert_eq!(told, expected, "{now}");
    }
}

/// One random call.
#[derive(Clone, Copy, Debug)]
enum Call {
    Take(u64),
    Reserve {
        id: u8,
        cost: u64,
        max_wait: u64,
    },
    /// A take of 1 by a handle with this quota.
    Bring(ExactQuota, OnMismatch),
}

/// One action of a random sequence.
#[derive(Clone, Debug)]
enum Action {
    Batch(Vec<Call>),
    Refund(u8),
    SetQuota(ExactQuota),
    Reset,
}

fn any_quota() -> impl Strategy<Value = ExactQuota> {
    let bits =
        |most: u32| (0..=most).prop_flat_map(|bits| (1_u64 << bits >> 1).max(1)..=(1 << bits).min(MAX));
    let any = (bits(52), bits(53)).prop_flat_map(move |(amount, burst)| {
        let longest = MAX / amount;
        (bits(longest.ilog2() + 1), Just(amount), Just(burst))
            .prop_map(move |(period, amount, burst)| quota(amount, period.min(longest), burst))
    });
    let small = (1_u64..12, 1_u64..30, 1_u64..12);
    prop_oneof![any, small.prop_map(|(amount, period, burst)| quota(amount, period, burst))]
}

fn actions() -> impl Strategy<Value = Vec<(i64, Action)>> {
    let cost = || prop_oneof![Just(u64::MAX), 0_u64..12, any::<u64>()];
    let check = prop_oneof![Just(OnMismatch::Refuse), Just(OnMismatch::Adopt), Just(OnMismatch::Replace)];
    let longest = || prop_oneof![Just(MAX), 0_u64..1_000];
    let call = prop_oneof![
        6 => cost().prop_map(Call::Take),
        6 => (0_u8..16, cost(), longest()).prop_map(|(id, cost, max_wait)| Call::Reserve { id, cost, max_wait }),
        1 => (any_quota(), check).prop_map(|(quota, check)| Call::Bring(quota, check)),
    ];
    let run = (call, 1_usize..4).prop_map(|(call, times)| vec![call; times]);
    let batch = prop::collection::vec(run, 1..5).prop_map(|runs| runs.concat());
    let action = prop_oneof![
        10 => batch.prop_map(Action::Batch),
        5 => (0_u8..16).prop_map(Action::Refund),
        1 => any_quota().prop_map(Action::SetQuota),
        1 => Just(Action::Reset),
    ];
    let eighth = i64::try_from(MAX / 8).expect("an eighth");
    let gap = prop_oneof![Just(0), 0_i64..30, 0_i64..100_000_000, 0..eighth, -500_i64..0];
    prop::collection::vec((gap, action), 1..40)
}

/// The bucket, with the other state that a store keeps.
struct Reference {
    bucket: Bucket,
    now: u64,
    last: u64,
    /// The refunds of cancelled tickets, and until when the store remembers them.
    refunds: HashMap<u8, (u64, u64)>,
    ready: HashMap<u8, u64>,
}

impl Reference {
    /// Moves the bucket to the present time: the store has seen it.
    fn advance(&mut self) {
        self.last = self.last.max(self.now);
        self.bucket.take(self.now, 0).expect("a cost of 0");
        self.refunds.retain(|_, refund| refund.1 > self.last);
        self.ready.retain(|_, ready_at| *ready_at > self.last);
    }

    fn cost(&self, cost: u64) -> u64 {
        // A few costs are over the burst.
        if cost.is_multiple_of(17) { cost } else { cost % (self.bucket.quota().burst().saturating_add(1)) }
    }

    /// Returns the call as a store gets it, and its expected answer.
    fn call(&mut self, call: Call) -> ((ExactQuota, ParameterCheck, LimitAsk), Limited) {
        let (brought, check, ask) = match call {
            Call::Take(cost) => (*self.bucket.quota(), None, LimitAsk::Take { cost: self.cost(cost) }),
            Call::Reserve { id, cost, max_wait } => {
                let ticket = Ticket::from(u128::from(id));
                let ask = LimitAsk::Reserve { ticket, cost: self.cost(cost), max_wait };
                (*self.bucket.quota(), None, ask)
            }
            Call::Bring(quota, check) => (quota, Some(check), LimitAsk::Take { cost: 1 }),
        };
        let stored = *self.bucket.quota();
        let answer = match check {
            Some(OnMismatch::Refuse) if brought != stored => Limited::Mismatch { stored },
            check => {
                if check == Some(OnMismatch::Replace) && brought != stored {
                    self.bucket.set_quota(self.now, brought);
                }
                self.ask(ask)
            }
        };
        let check = check.map_or(ParameterCheck::Follow, ParameterCheck::First);
        ((brought, check, ask), answer)
    }

    fn ask(&mut self, ask: LimitAsk) -> Limited {
        let quota = *self.bucket.quota();
        match ask {
            LimitAsk::Take { cost } => {
                let settled = self.ready.is_empty();
                let taken = self.bucket.take(self.now, cost);
                taken.map_or(Limited::TooLarge { quota }, |verdict| Limited::Taken {
                    verdict,
                    quota,
                    settled,
                })
            }
            LimitAsk::Reserve { ticket, cost, .. } if cost <= quota.burst() && self.is_cancelled(ticket) => {
                Limited::Cancelled
            }
            LimitAsk::Reserve { ticket, cost, max_wait } => {
                let id = u8::try_from(ticket.as_u128()).expect("drawn");
                match self.bucket.reserve(self.now, ticket.as_u128(), cost, max_wait) {
                    Ok(place) => {
                        let ahead = |place: &Reserved| place.ready_at > self.last && cost > 0;
                        if let Some(place) = place.filter(ahead) {
                            self.ready.entry(id).or_insert(place.ready_at);
                        }
                        Limited::Reserved { place, quota }
                    }
                    Err(_) => Limited::TooLarge { quota },
                }
            }
        }
    }

    fn is_cancelled(&self, ticket: Ticket) -> bool {
        self.refunds.contains_key(&u8::try_from(ticket.as_u128()).expect("drawn"))
    }

    fn refund(&mut self, id: u8) -> u64 {
        if let Some((refund, _)) = self.refunds.get(&id) {
            return *refund;
        }
        let refund = self.bucket.cancel(self.now, id.into());
        self.ready.remove(&id);
        self.refunds.insert(id, (refund, self.last + REMEMBERED));
        refund
    }
}

async fn compare(
    rig: &mut Rig<'_>,
    terms: ExactQuota,
    start: u64,
    actions: Vec<(i64, Action)>,
) -> Result<(), TestCaseError> {
    rig.next();
    rig.at(start).await;
    rig.steps.set_quota(&rig.object, terms).await.expect("an answer");
    let (refunds, ready) = (HashMap::new(), HashMap::new());
    let bucket = Bucket::new(terms, start);
    let mut reference = Reference { bucket, now: start, last: start, refunds, ready };
    for (gap, action) in actions {
        let now = reference.now.saturating_add_signed(gap).min(MAX - REMEMBERED);
        reference.now = now;
        rig.at(now).await;
        // A refused call has seen the time, too.
        reference.advance();
        match action {
            Action::Batch(calls) => {
                let (asked, expected): (Vec<_>, Vec<_>) =
                    calls.into_iter().map(|call| reference.call(call)).unzip();
                prop_assert_eq!(rig.decide(&asked).await, expected, "{:?} at {}", asked, now);
            }
            Action::Refund(id) => {
                for _ in 0..2 {
                    prop_assert_eq!(rig.refund(id.into()).await, reference.refund(id), "refund at {}", now);
                }
            }
            Action::SetQuota(quota) => {
                reference.bucket.set_quota(now, quota);
                rig.steps.set_quota(&rig.object, quota).await.expect("an answer");
            }
            Action::Reset => {
                reference.bucket.reset(now);
                reference.ready.clear();
                rig.steps.reset(&rig.object).await.expect("an answer");
            }
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the runner of properties is not asynchronous")]
pub(super) async fn l3_decisions_agree_with_the_bucket(harness: &dyn ClockHarness) {
    let rig = Mutex::new(Rig::new(harness));
    let mut config = ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() };
    config.source_file = Some(file!());
    let start = prop_oneof![Just(0), Just(1_750_000_000_000_000), 0..=MAX / 4];
    let ran = TestRunner::new(config).run(&(any_quota(), start, actions()), |(terms, start, actions)| {
        let compared = async { compare(&mut *rig.lock().await, terms, start, actions).await };
        block_in_place(|| Handle::current().block_on(compared))
    });
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

/// Partial refunds leave the cost of later reservations unchanged, however many there are.
pub(super) async fn l7_what_was_taken_can_pass_2_to_the_53(harness: &dyn ClockHarness) {
    let reserve = |id, cost| (0, Action::Batch(vec![Call::Reserve { id, cost, max_wait: MAX }]));
    let mut actions = vec![(0, Action::Batch(vec![Call::Take(MAX)])), reserve(0, 3)];
    for id in (1..13).step_by(2) {
        actions.extend([reserve(id, MAX / 2), reserve(id + 1, 5), (0, Action::Refund(id))]);
    }
    actions.extend((0..13).rev().map(|id| (0, Action::Refund(id))));
    let compared = compare(&mut Rig::new(harness), quota(1, 1_000, MAX), 1_000_000, actions).await;
    compared.expect("the same answers");
}
