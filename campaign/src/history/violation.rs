//! The violations that the checkers find.

use std::fmt;

use super::{Event, ObjectId};

/// The rules that a history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// M1: two holders believed at once.
    TwoHolders,
    /// M2: a later grant has no larger token.
    TokenOrder,
    /// C1: two grants have the same ticket.
    SameTicket,
    /// C10: `is_held` was true from the deadline on, or again after it had been false.
    BelievedTooLong,
    /// M9: the resource took a write of an older holder.
    StaleWriteTaken,
    /// M9: the resource refused the newest holder's write.
    RightfulWriteRefused,
    /// S1, S6: more permits were believed in than the limit.
    OverTheLimit,
    /// S4: at the end, the number of permits that could be taken was not the limit.
    NotConserved,
    /// L1: more was admitted in a window than burst and rate allow.
    OverTheRate,
    /// A limiter refused a call although it had room.
    RefusedWithRoom,
    /// W1: `wait` succeeded although a member was live all the time.
    WaitedTooShort,
    /// W4: `wait` reported that all members had finished although one had died.
    SilentDeath,
    /// A count that was wrong at every instant of the call.
    WrongCount,
    /// W7: more members than the limit.
    OverTheMembers,
    /// M1, S1: by its own record and clock, the store granted more than the limit.
    GrantedTooMuch,
    /// C3: a client got a grant that the store has not recorded.
    NotRecorded,
    /// C5, C8, C14, C18, M7, W3: a waiter was not granted although no hold was kept.
    Stuck,
    /// C27: a fault that concerns other names only delayed a call, failed it, or cost a hold.
    BystanderHarmed,
    /// C17: a call took longer than its time limit.
    TooLate,
    /// The history contradicts itself, whatever the store did.
    BrokenRecord,
}

impl Rule {
    /// Returns the clauses of the contract that the rule comes from.
    #[must_use]
    pub fn clauses(self) -> &'static str {
        match self {
            Self::TwoHolders => "M1",
            Self::TokenOrder => "M2",
            Self::SameTicket => "C1",
            Self::BelievedTooLong => "C10",
            Self::StaleWriteTaken | Self::RightfulWriteRefused => "M9",
            Self::OverTheLimit => "S1, S6",
            Self::NotConserved => "S4",
            Self::OverTheRate => "L1",
            Self::RefusedWithRoom => "L2, L8",
            Self::WaitedTooShort => "W1",
            Self::SilentDeath => "W4",
            Self::WrongCount => "W2, W4",
            Self::OverTheMembers => "W7",
            Self::GrantedTooMuch => "M1, S1",
            Self::NotRecorded => "C3",
            Self::Stuck => "C5, C8, C14, C18, M7, W3",
            Self::BystanderHarmed => "C27",
            Self::TooLate => "C17",
            Self::BrokenRecord => "record",
        }
    }
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The object; `None` if the history names none.
    pub object: Option<ObjectId>,
    /// A description.
    pub text: String,
    /// The events that show it, each a line of the files.
    pub events: Vec<Event>,
    /// Descriptions of the unsafe faults under which the contract admits it; empty for a breach.
    pub under: Vec<String>,
}

impl Violation {
    pub(super) fn new(rule: Rule, object: Option<&ObjectId>, text: String, events: Vec<Event>) -> Self {
        Self { rule, object: object.cloned(), text, events, under: Vec::new() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({})", self.rule, self.rule.clauses())?;
        if let Some(object) = &self.object {
            write!(f, " of {object}")?;
        }
        if !self.under.is_empty() {
            write!(f, " under {}", self.under.join(", "))?;
        }
        write!(f, ": {}", self.text)?;
        for event in &self.events {
            write!(f, "\n    {event}")?;
        }
        Ok(())
    }
}
