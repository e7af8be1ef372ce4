use super::*;
use crate::spi::ParameterCheck;
use crate::{Kind, Ticket};

fn quota(burst: u64) -> ExactQuota {
    Quota::per_second(10).burst(burst).validate().unwrap()
}

fn call(name: &str, ask: LimitAsk) -> Decide {
    let object = Object { kind: Kind::Limiter, name: Name::new(name).unwrap() };
    Decide { id: RequestId::NONE, object, quota: quota(9), check: ParameterCheck::Follow, ask }
}

/// What `count` takes of one name are told so long after the answer.
fn told_after(elapsed: u64, answer: &str, count: usize) -> Option<Vec<Limited>> {
    let calls = vec![call("a", LimitAsk::Take { cost: 1 }); count];
    by_name(&calls.iter().collect::<Vec<_>>())[0].decode(answer.split(';'), 0, elapsed)
}

fn verdicts(told: &[Limited]) -> Vec<(bool, u64, Option<u64>, u64)> {
    let verdict = |limited: &Limited| match limited {
        Limited::Taken { verdict, settled: true, .. } => {
            Some((verdict.allowed, verdict.remaining, verdict.retry_after, verdict.reset_after))
        }
        _ => None,
    };
    told.iter().filter_map(verdict).collect()
}

#[test]
fn l5_runs_of_equal_takes_go_as_one_and_keep_their_order() {
    let take = |name, cost| call(name, LimitAsk::Take { cost });
    let reserve = || call("b", LimitAsk::Reserve { ticket: Ticket::random(), cost: 1, max_wait: 0 });
    let mut other = take("b", 1);
    other.quota = quota(8);
    let calls = [
        take("b", 1),
        take("a", 1),
        take("b", 1),
        take("b", 2),
        reserve(),
        reserve(),
        take("a", 1),
        take("b", 1),
        other,
    ];
    let calls: Vec<_> = calls.iter().collect();
    let cargo = by_name(&calls);
    let counts = |batch: &NameBatch<'_>| batch.runs.iter().map(|run| run.count).collect::<Vec<_>>();
    assert_eq!(cargo.iter().map(|cargo| cargo.object.name.as_str()).collect::<Vec<_>>(), ["b", "a"]);
    assert_eq!(
        (cargo[0].calls.as_slice(), counts(&cargo[0])),
        (&[0, 2, 3, 4, 5, 7, 8][..], vec![2, 1, 1, 1, 1, 1])
    );
    assert_eq!((cargo[1].calls.as_slice(), counts(&cargo[1])), (&[1, 6][..], vec![2]));
}

#[test]
fn l5_each_call_of_a_run_gets_its_own_verdict() {
    let expected = [(true, 3, None, 550_000), (true, 1, None, 750_000), (false, 1, Some(50_000), 750_000)];
    for takes in ["s 5 50000 1;t 2 2 2;t 1 0 2", "t 3 2 2 5 50000 1", "t 2 2 2 5 50000 1;t 1 0 2"] {
        let told = told_after(0, &format!("q 1 100000 9;{takes};n;r 300 200"), 5).unwrap();
        assert_eq!(verdicts(&told), expected, "{takes}");
        assert_eq!(told[3], Limited::Reserved { place: None, quota: quota(9) });
        assert!(matches!(told[4], Limited::Reserved { place: Some(place), .. } if place.wait == 200));
    }
}

#[test]
fn l5_waits_of_a_remembered_answer_count_from_its_retry() {
    let told = told_after(60_000, "q 1 100000 9;s 0 0 1;t 1 0 1;r 300 200", 2).unwrap();
    assert_eq!(verdicts(&told), [(false, 0, Some(40_000), 840_000)]);
    let Limited::Reserved { place: Some(place), .. } = told[1] else { panic!("a place") };
    assert_eq!((place.ready_at, place.wait), (300, 0));
}

#[test]
fn c20_refusals_name_the_quota_in_force() {
    let told = told_after(0, "q 1 100000 9;m 2;q 1 100000 8;l 1;c", 4).unwrap();
    let mismatch = Limited::Mismatch { stored: quota(9) };
    let expected = [mismatch, mismatch, Limited::TooLarge { quota: quota(8) }, Limited::Cancelled];
    assert_eq!(told, expected);
}

#[test]
fn c3_an_answer_of_no_step_is_not_understood() {
    for answer in [
        "",
        "t 1 1 1",
        "t 1 1 1 5 0 1",
        "s 5 0 1;t 1 1 1",
        "q 1 100000 9;t 1 1 1",
        "q 1 100000 9;t 1 0 1 5 0 1",
        "q 1 100000 9;t 1 1 1 10 0 1",
        "q 1 100000 9;t 1 1 1 5",
        "q 1 100000 9;s 5 0 1;t 1 0 1",
        "q 1 100000 9;s 10 0 1;t 1 1 1",
        "q 1 100000 9;s 5 0 1;q 1 100000 8;t 1 1 1",
        "q 1 100000 9;x",
        "q 0 100000 9;n",
        "q 1 100000 9;ü",
        "q 1 100000 9;n;n",
    ] {
        assert_eq!(told_after(0, answer, 1), None, "{answer}");
    }
}
