//! The request that lists names.

use std::time::Duration;

use crate::limiter::Snapshot;
use crate::{Kind, Listed, Quota};

/// A request for a part of the names that have state. It changes nothing, and MUST NOT hold the
/// server for longer than 10 ms, however many keys or rows there are ([C27]): the store looks at a
/// bounded number of them, and returns fewer names than wanted, or none. A position that no part
/// has given is `InvalidArgument`; a role that may not look is `Unauthorized`.
///
/// A name that has state from the first part to the last MUST be in one of them at least, whatever
/// comes and goes meanwhile, and also if the servers change places, restart or exchange data. Any
/// other name, and a name twice, MAY be. A mutex has state while it is held or waited for; any
/// other object for as long as the store keeps a hold, a waiter, a limit, a bucket or bits of it.
/// Expired holds never count, nor do waiters that an [`Inspect`](super::Inspect) does not count,
/// where the queue is short. What a store keeps beside that, such as tombstones, answers and
/// fencing tokens, MUST NOT make a name listed.
///
/// [C27]: crate::contract#c27
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// Only objects of this kind, if one is given.
    pub kind: Option<Kind>,
    /// Only names that begin with this text. No character in it has a special meaning.
    pub prefix: String,
    /// About how many names are wanted, 1 to 1,000.
    pub count: usize,
    /// Where the part begins: [`ListPart::next`] of the part before. `None`: at the beginning of
    /// the listing. A caller can pass any text: one that no part has given is `InvalidArgument`.
    pub after: Option<String>,
}

/// A part of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPart {
    /// The names: few more than wanted, fewer or none.
    pub entries: Vec<Listed>,
    /// Where the next part begins, at most 1,500 bytes; `None` at the end of the listing.
    pub next: Option<String>,
}

/// A limiter's bucket as a store keeps it, for the figures of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedBucket {
    /// Tokens per period, in lowest terms.
    pub amount: u64,
    /// The period in µs, in lowest terms.
    pub period: u64,
    /// The burst, in tokens.
    pub burst: u64,
    /// Whole tokens at the latest time seen, negative as a debt.
    pub tokens: i64,
    /// Their fraction, in units of `1 / period` token.
    pub fraction: u64,
    /// The latest time seen, in µs of the store's clock.
    pub last: u64,
}

impl ListedBucket {
    /// Sets the limit, the tokens and the last use of a limiter, at a time of the store's clock in
    /// µs.
    pub fn tell(self, now: u64, listed: &mut Listed) {
        let elapsed = now.saturating_sub(self.last);
        let quota = Quota::per(self.amount, Duration::from_micros(self.period)).burst(self.burst).validate();
        let then = quota.and_then(|quota| Snapshot::new(quota, self.tokens, self.fraction, 0)).ok();
        listed.tokens = then.map(|then| then.remaining_after(elapsed));
        listed.limit = Some(self.burst);
        listed.last_used = Some(Duration::from_micros(elapsed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    #[test]
    fn a_bucket_fills_until_it_is_listed() {
        let told = |tokens, fraction, now| {
            let mut listed = Listed::new(Kind::Limiter, Name::new("a").unwrap());
            // One token a second, in lowest terms; half a token is there beside the whole ones.
            let bucket =
                ListedBucket { amount: 1, period: 1_000_000, burst: 10, tokens, fraction, last: 5_000_000 };
            bucket.tell(now, &mut listed);
            assert_eq!(listed.limit, Some(10));
            (listed.tokens, listed.last_used.unwrap().as_micros())
        };
        assert_eq!(told(3, 500_000, 5_000_000), (Some(3), 0));
        assert_eq!(told(3, 500_000, 5_499_999), (Some(3), 499_999));
        assert_eq!(told(3, 500_000, 5_500_000), (Some(4), 500_000));
        assert_eq!(told(3, 500_000, 500_000_000), (Some(10), 495_000_000));
        assert_eq!(told(-3, 0, 6_000_000), (Some(0), 1_000_000), "a debt is no token");
        assert_eq!(told(3, 500_000, 1_000_000), (Some(3), 0), "the clock went back");
        assert_eq!(told(30, 0, 5_000_000), (None, 0), "no bucket holds that much");
    }
}
