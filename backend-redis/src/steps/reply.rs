//! Reads the answers of the scripts.

use std::time::Duration;

use redis::Value;
use stanchion_core::spi::{
    Acquired, Answers, Attached, InspectionPart, Kept, Looked, Polled, Usage, refused,
};
use stanchion_core::{Error, ErrorKind, FencingToken, Holder, Outcome, Result, Ticket};

use crate::error::unexpected;

/// The answer to one entry of a batch.
#[derive(Debug)]
pub(super) struct Reply {
    parts: Parts,
    /// The error of a write that too little keeps.
    shortfall: Option<Error>,
}

/// The parts of an answer: most have one.
#[derive(Debug)]
enum Parts {
    Sole([Value; 1]),
    Several(Vec<Value>),
}

/// Splits the answer to a batch of `count` entries. What no script answers is `Unknown`.
pub(super) fn replies(answer: Value, count: usize, shortfall: Option<&Error>) -> Answers<Reply> {
    let reply = |parts| Reply { parts, shortfall: shortfall.map(Error::replicate) };
    match answer {
        Value::Array(entries) if entries.len() == count => {
            entries.into_iter().map(|entry| Parts::of(entry).map(reply)).collect()
        }
        Value::BulkString(text) => match lettered(&text, count) {
            Some(numbers) => numbers.map(|parts| parts.ok_or_else(unexpected).map(reply)).collect(),
            None => refused(count, &unexpected()),
        },
        _ => refused(count, &unexpected()),
    }
}

/// Reads an answer of the script `fast_path` as the numbers that the others give.
fn lettered(text: &[u8], count: usize) -> Option<impl Iterator<Item = Option<Parts>>> {
    let (token, letters) = std::str::from_utf8(text).ok()?.split_once(' ')?;
    let token: i64 = token.parse().ok()?;
    let number = move |letter| match letter {
        b'r' => Some(1),
        b'g' => Some(token),
        b'h' => Some(-1),
        b'n' => Some(0),
        _ => None,
    };
    let numbers = letters.bytes().map(move |letter| Some(Parts::Sole([Value::Int(number(letter)?)])));
    (letters.len() == count).then_some(numbers)
}

impl Parts {
    fn of(entry: Value) -> Result<Self> {
        match entry {
            Value::Array(parts) => Ok(Self::Several(parts)),
            number @ Value::Int(_) => Ok(Self::Sole([number])),
            _ => Err(unexpected()),
        }
    }
}

impl Reply {
    /// Reads the reply. Its error is that of a write which too little keeps; `is_written` tells
    /// whether there was one.
    pub(super) fn confirmed<A>(
        self,
        read: impl FnOnce(&Self) -> Result<A>,
        is_written: impl FnOnce(&A) -> bool,
    ) -> Result<A> {
        let answer = read(&self)?;
        match self.shortfall {
            Some(shortfall) if is_written(&answer) => Err(shortfall),
            _ => Ok(answer),
        }
    }

    /// Takes the error of a write that too little keeps.
    pub(super) fn take_shortfall(&mut self) -> Option<Error> {
        self.shortfall.take()
    }

    fn parts(&self) -> &[Value] {
        match &self.parts {
            Parts::Sole(part) => part,
            Parts::Several(parts) => parts,
        }
    }

    /// Refuses an entry one of whose keys holds a value of a foreign type. Nothing of the entry was
    /// changed.
    ///
    /// # Errors
    /// `InvalidArgument` naming the key and the type of its value.
    pub(super) fn ours(self) -> Result<Self> {
        match self.parts() {
            [Value::Int(-1), key, kind] => {
                let (key, kind) = (text(key)?, text(kind)?);
                Err(Error::new(ErrorKind::InvalidArgument, format!("key {key:?} holds a foreign {kind}")))
            }
            _ => Ok(self),
        }
    }

    /// Whether a key of the entry holds a value of a foreign type, so that none of its holds or
    /// waiters can be there.
    pub(super) fn is_foreign(&self) -> bool {
        matches!(self.parts(), [Value::Int(-1), ..])
    }

    /// Whether the step was not made, because more has expired than one call removes.
    pub(super) fn is_unfinished(&self) -> bool {
        matches!(self.parts(), [Value::Int(-2)])
    }

    #[cfg(feature = "bloom")]
    pub(super) fn is_empty(&self) -> bool {
        self.parts().is_empty()
    }

    pub(super) fn number(&self, index: usize) -> Result<u64> {
        match self.parts().get(index) {
            Some(Value::Int(number)) => u64::try_from(*number).map_err(|_| unexpected()),
            _ => Err(unexpected()),
        }
    }

    /// Returns a number that only some answers have.
    pub(super) fn further(&self, index: usize) -> Result<Option<u64>> {
        (index < self.parts().len()).then(|| self.number(index)).transpose()
    }

    pub(super) fn text(&self, index: usize) -> Result<String> {
        self.parts().get(index).ok_or_else(unexpected).and_then(text)
    }

    /// Returns the bytes of a binary answer.
    #[cfg(feature = "bloom")]
    pub(super) fn into_bytes(mut self, index: usize) -> Result<Vec<u8>> {
        let part = match &mut self.parts {
            Parts::Several(parts) if index < parts.len() => Some(parts.swap_remove(index)),
            _ => None,
        };
        match part {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            _ => Err(unexpected()),
        }
    }

    /// Returns the number of an answer that is one number.
    pub(super) fn sole(&self) -> Result<i64> {
        match self.parts() {
            [Value::Int(number)] => Ok(*number),
            _ => Err(unexpected()),
        }
    }

    /// Returns the number of an answer that is one number, or a number and a limit.
    pub(super) fn with_limit(&self) -> Result<(i64, Option<u32>)> {
        match self.parts() {
            [Value::Int(number)] => Ok((*number, None)),
            [Value::Int(number), _] => Ok((*number, Some(self.count(1)?))),
            _ => Err(unexpected()),
        }
    }

    fn count(&self, index: usize) -> Result<u32> {
        u32::try_from(self.number(index)?).map_err(|_| unexpected())
    }

    /// Returns the epoch of the record of a wait group; 0 for other objects, whose answers lack it.
    fn epoch(&self, index: usize) -> Result<u64> {
        Ok(self.further(index)?.unwrap_or_default())
    }

    /// Returns a time, or `None` for -1.
    fn time(&self, index: usize) -> Result<Option<Duration>> {
        match self.parts().get(index) {
            Some(Value::Int(-1)) => Ok(None),
            _ => self.number(index).map(|micros| Some(Duration::from_micros(micros))),
        }
    }

    fn token(&self, index: usize) -> Result<FencingToken> {
        FencingToken::new(self.number(index)?).map_err(|_| unexpected())
    }

    pub(super) fn acquired(&self) -> Result<Acquired> {
        Ok(match self.number(0)? {
            0 => Acquired::Granted { token: self.token(1)?, limit: self.count(2)?, epoch: self.epoch(3)? },
            1 => Acquired::Waiting { limit: self.count(1)?, epoch: self.number(2)? },
            2 => Acquired::Cancelled,
            3 => Acquired::Mismatch { stored: self.count(1)? },
            4 => Acquired::TooLarge { limit: self.count(1)? },
            5 => Acquired::Overloaded,
            _ => return Err(unexpected()),
        })
    }

    /// Reads where a granted ticket stood, and whether it had waited; none where that is unknown.
    pub(super) fn place(&self) -> Option<(u64, bool)> {
        Some((self.number(4).ok()?, self.number(5).ok()? == 1))
    }

    /// Reads where a ticket waits that was put back; none if its hold was gone.
    pub(super) fn put_back(&self) -> Result<Option<Acquired>> {
        Ok(if self.number(0)? == 1 { Some(self.acquired()?) } else { None })
    }

    /// Whether the hold was there. A hold under a key of a foreign type counts as gone.
    pub(super) fn kept(&self) -> Result<Kept> {
        Ok(if !self.is_foreign() && self.number(0)? == 1 { Kept::Yes } else { Kept::No })
    }

    pub(super) fn polled(&self) -> Result<Polled> {
        if self.is_foreign() {
            return Ok(Polled::default());
        }
        let ready = self.parts().iter().skip(3).map(ticket).collect::<Result<_>>()?;
        Ok(Polled { ready, next: self.time(1)?, is_first: self.number(2)? == 1, epoch: self.number(0)? })
    }

    pub(super) fn attached(&self) -> Result<Option<Attached>> {
        Ok(match self.number(0)? {
            0 => None,
            _ => Some(Attached { token: self.token(1)?, weight: self.count(2)?, epoch: self.epoch(3)? }),
        })
    }

    pub(super) fn looked(&self) -> Result<Looked> {
        let ended = if self.parts().len() > 4 {
            let mut outcome = Outcome::default();
            outcome.finished = self.number(4)?;
            outcome.abandoned = self.number(5)?;
            outcome.expired = self.number(6)?;
            Some(outcome)
        } else {
            None
        };
        let (epoch, count, generation) = (self.number(0)?, self.number(1)?, self.number(2)?);
        Ok(Looked { epoch, count, generation, ended, next: self.time(3)? })
    }

    pub(super) fn split(&self) -> Result<bool> {
        Ok(self.number(0)? == 1)
    }

    /// Returns how many holds were freed and, if there may be more of all holds, how the next call
    /// goes on.
    pub(super) fn forced(&self) -> Result<(u32, Option<(String, String)>)> {
        let next = match self.parts().len() {
            1 => None,
            _ => Some((self.text(1)?, self.text(2)?)),
        };
        Ok((self.count(0)?, next))
    }

    /// Returns a part of an inspection; where the next one begins is a position and the server
    /// process that has given it.
    pub(super) fn inspected(&self) -> Result<InspectionPart<(String, String)>> {
        let (now, waiters) = (self.number(0)?, self.number(2)?);
        let next = Some((self.text(5)?, self.text(4)?)).filter(|(position, _)| position != "0");
        let mut holders = Vec::new();
        for pair in self.parts().get(6..).unwrap_or_default().chunks_exact(2) {
            holders.push(holder(ticket(&pair[0])?, &text(&pair[1])?, now).ok_or_else(unexpected)?);
        }
        Ok(InspectionPart { now, waiters, limit: self.usage()?.limit, holders, next })
    }

    pub(super) fn usage(&self) -> Result<Usage> {
        let limit = self.count(1)?;
        Ok(Usage::new(self.number(3)?, (limit > 0).then_some(limit)))
    }
}

/// Reads a hold as the record has it: "expiry granted weight token label". Returns the time of its
/// grant and the holder.
fn holder(ticket: Ticket, record: &str, now: u64) -> Option<(u64, Holder)> {
    let mut parts = record.splitn(5, ' ');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (expiry, granted, weight, token) = (number()?, number()?, number()?, number()?);
    let age = Duration::from_micros(now.saturating_sub(granted));
    let mut holder = Holder::new(ticket, FencingToken::new(token).ok()?, u32::try_from(weight).ok()?, age);
    holder.lease_left = Some(Duration::from_micros(expiry.saturating_sub(now)));
    holder.label = parts.next().map(str::to_owned);
    Some((granted, holder))
}

fn text(value: &Value) -> Result<String> {
    match value {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Ok(text.clone()),
        _ => Err(unexpected()),
    }
}

fn ticket(value: &Value) -> Result<Ticket> {
    text(value)?.parse().map_err(|_| unexpected())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c23_any_label_is_told_as_it_was_given() {
        let ticket = Ticket::random();
        for label in [Some(""), Some("a b\n c"), Some("  "), None] {
            let suffix = label.map(|label| format!(" {label}")).unwrap_or_default();
            let (granted, holder) = holder(ticket, &format!("900 100 3 77{suffix}"), 400).unwrap();
            assert_eq!((granted, holder.weight, holder.token.map(FencingToken::get)), (100, 3, Some(77)));
            assert_eq!(holder.label.as_deref(), label);
            assert_eq!(holder.lease_left, Some(Duration::from_micros(500)));
        }
    }

    #[test]
    fn c3_an_answer_of_no_step_is_an_unknown_outcome() {
        let texts = ["", "r", "7", "7 ", "7 rr", "7 x", "x r", "7 r "];
        let texts = texts.map(|text| Value::BulkString(text.into()));
        let others = [Value::Nil, Value::Array(vec![]), Value::Array(vec![Value::Okay])];
        for answer in others.into_iter().chain(texts) {
            let read = replies(answer.clone(), 1, None);
            assert!(
                matches!(&read[..], [Err(error)] if error.kind() == ErrorKind::Unknown),
                "{answer:?}: {read:?}"
            );
        }
        let read = replies(Value::BulkString("70 rghn".into()), 4, None);
        let numbers: Vec<_> = read.iter().map(|reply| reply.as_ref().unwrap().sole().unwrap()).collect();
        assert_eq!(numbers, [1, 70, -1, 0]);
        let reply = Reply { parts: Parts::Several(vec![Value::Int(9)]), shortfall: None };
        assert_eq!(reply.acquired().unwrap_err().kind(), ErrorKind::Unknown);
    }
}
