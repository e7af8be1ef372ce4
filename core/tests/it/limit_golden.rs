//! The table of calls and answers that every store must agree with (L3), on the bucket and on the
//! model.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use crate::limit_model::{Answer, Model, answer, quota};
use stanchion_core::limiter::{Bucket, ExactQuota, GOLDEN};

/// What both sides of the comparison can do.
trait Limiter {
    fn take(&mut self, now: u64, cost: u64) -> Answer;
    fn peek(&self, now: u64) -> Answer;
    fn reserve(&mut self, now: u64, id: u128, cost: u64, max_wait: u64) -> Option<(u64, u64)>;
    fn cancel(&mut self, now: u64, id: u128) -> u64;
    fn set_quota(&mut self, now: u64, quota: ExactQuota);
    fn reset(&mut self, now: u64);
}

impl Limiter for Bucket {
    fn take(&mut self, now: u64, cost: u64) -> Answer {
        answer(self.take(now, cost).unwrap())
    }

    fn peek(&self, now: u64) -> Answer {
        answer(self.peek(now))
    }

    fn reserve(&mut self, now: u64, id: u128, cost: u64, max_wait: u64) -> Option<(u64, u64)> {
        self.reserve(now, id, cost, max_wait).unwrap().map(|reserved| (reserved.ready_at, reserved.wait))
    }

    fn cancel(&mut self, now: u64, id: u128) -> u64 {
        self.cancel(now, id)
    }

    fn set_quota(&mut self, now: u64, quota: ExactQuota) {
        self.set_quota(now, quota);
    }

    fn reset(&mut self, now: u64) {
        self.reset(now);
    }
}

impl Limiter for Model {
    fn take(&mut self, now: u64, cost: u64) -> Answer {
        self.take(now, cost)
    }

    fn peek(&self, now: u64) -> Answer {
        self.clone().take(now, 0)
    }

    fn reserve(&mut self, now: u64, id: u128, cost: u64, max_wait: u64) -> Option<(u64, u64)> {
        self.reserve(now, id, cost, max_wait)
    }

    fn cancel(&mut self, now: u64, id: u128) -> u64 {
        self.cancel(now, id)
    }

    fn set_quota(&mut self, now: u64, quota: ExactQuota) {
        self.set_quota(now, quota);
    }

    fn reset(&mut self, now: u64) {
        self.reset(now);
    }
}

fn verdict((allowed, _, remaining, retry, reset): Answer) -> String {
    let retry = retry.map_or("-".to_owned(), |wait| wait.to_string());
    format!("{} {remaining} {retry} {reset}", if allowed { "yes" } else { "no" })
}

fn call(limiter: &mut impl Limiter, now: u64, verb: &str, numbers: &[u64]) -> String {
    match (verb, numbers) {
        ("take", &[cost]) => verdict(limiter.take(now, cost)),
        ("peek", []) => verdict(limiter.peek(now)),
        ("reserve", &[id, cost, max_wait]) => limiter
            .reserve(now, id.into(), cost, max_wait)
            .map_or("never".to_owned(), |(ready_at, wait)| format!("{ready_at} {wait}")),
        ("cancel", &[id]) => limiter.cancel(now, id.into()).to_string(),
        ("set", &[amount, period, burst]) => {
            limiter.set_quota(now, quota(amount, period, burst));
            verdict(limiter.take(now, 0))
        }
        ("reset", []) => {
            limiter.reset(now);
            verdict(limiter.take(now, 0))
        }
        _ => panic!("unknown call: {now} {verb} {numbers:?}"),
    }
}

/// The table with the answers of a limiter in place of its own.
fn answered<L: Limiter>(new: impl Fn(ExactQuota, u64) -> L) -> String {
    let mut limiter = new(quota(1, 1, 1), 0);
    let mut text = String::new();
    for line in GOLDEN.lines() {
        let asked = line.split("=>").next().unwrap().trim_end();
        let words: Vec<&str> = asked.split_whitespace().collect();
        let numbers = |words: &[&str]| words.iter().map(|word| word.parse().unwrap()).collect::<Vec<u64>>();
        match words.as_slice() {
            [] => text += line,
            [first, ..] if first.starts_with('#') => text += line,
            ["quota", rest @ ..] => {
                let rest = numbers(rest);
                limiter = new(quota(rest[0], rest[1], rest[2]), 0);
                text += line;
            }
            [time, verb, rest @ ..] => {
                let said = call(&mut limiter, time.parse().unwrap(), verb, &numbers(rest));
                text += &format!("{asked:<34} => {said}");
            }
            [_] => panic!("not a call: {line}"),
        }
        text.push('\n');
    }
    text
}

#[test]
fn l3_the_bucket_agrees_with_the_table() {
    assert_eq!(answered(Bucket::new), GOLDEN);
}

#[test]
fn l3_the_model_agrees_with_the_table() {
    assert_eq!(answered(Model::new), GOLDEN);
}
