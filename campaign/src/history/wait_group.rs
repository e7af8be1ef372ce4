//! Wait groups: the count was zero when `wait` returned (W1), every death is reported (W4), counts
//! and limits are kept.
//!
//! A member is certainly live from the answer of its `add` up to the earliest of: its own `done` or
//! drop, a `done` by its ticket, its known deadline, a loss that it saw. It may be live from the
//! invocation of its `add` until the `add` has definitely failed, its end was answered, or its
//! lease is over. So at each instant the number of members lies between two bounds.
//!
//! # Assumes
//! The history has all members of the name.
//!
//! # Cannot see
//! A wait that ended too early, if the number can have been zero for an instant. An expired member
//! that `wait` did not report, if another member was added between the end of the member and the
//! end of the wait, or if the member's end is not certain.

use std::collections::HashMap;

use stanchion_core::Ticket;

use super::digest::{Dossier, RecordedCall};
use super::hold::{Hold, kept_until};
use super::steps::Steps;
use super::surroundings::{NEVER, Surroundings};
use super::{Bounds, Call, Rule, Violation, What};

/// Checks the group. `holds` are in the order of their grants.
pub(super) fn check(
    dossier: &Dossier<'_>,
    holds: &[Hold<'_>],
    around: &Surroundings,
    bounds: &Bounds,
    found: &mut Vec<Violation>,
) {
    let ended = ended_by_ticket(dossier);
    let sure: Vec<Sure<'_>> = holds.iter().map(|hold| Sure::of(hold, &ended)).collect();
    let least = Steps::of(sure.iter().filter(|one| one.from < one.until).flat_map(Sure::steps).collect());
    let most = Steps::of(dossier.calls.iter().flat_map(|asked| possible(asked, around, bounds)).collect());
    let violation = |rule, text, asked: &RecordedCall<'_>| {
        Violation::new(rule, Some(dossier.object), text, asked.events())
    };
    for asked in &dossier.calls {
        let Some(answer) = asked.answer else { continue };
        let (from, to) = (asked.invoked.at, answer.at);
        match answer.what {
            What::Waited { .. } => {
                let members = least.extremes(from, to).0;
                if members > 0 {
                    let text = format!(
                        "`wait` has succeeded while at least {members} members were live all the time"
                    );
                    found.push(violation(Rule::WaitedTooShort, text, asked));
                }
            }
            What::Counted { count } => {
                let (low, high) = (least.extremes(from, to).0, most.extremes(from, to).1);
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                if count < low || count > high {
                    let text =
                        format!("{count} members were counted, there were at least {low} and at most {high}");
                    found.push(violation(Rule::WrongCount, text, asked));
                }
            }
            _ => {}
        }
    }
    limit(dossier, &sure, found);
    deaths(dossier, &sure, found);
}

/// Returns, for each ticket, the first time at which a `done` by ticket may have ended the member.
fn ended_by_ticket(dossier: &Dossier<'_>) -> HashMap<Ticket, u64> {
    let mut ended = HashMap::new();
    for asked in &dossier.calls {
        if let Call::Done { ticket } = asked.call {
            ended.entry(*ticket).or_insert(asked.invoked.at);
        }
    }
    ended
}

/// A member that was certainly live from its grant on.
struct Sure<'h> {
    hold: &'h Hold<'h>,
    from: u64,
    until: u64,
    /// Whether only its lease ended it.
    expired: bool,
}

impl<'h> Sure<'h> {
    fn of(hold: &'h Hold<'h>, ended: &HashMap<Ticket, u64>) -> Self {
        let ended = ended.get(&hold.ticket).copied();
        let until = hold.live_until.min(ended.unwrap_or(NEVER));
        let asked = hold.asked;
        let own_end = asked.releasing.is_some() || asked.lost.is_some() || ended.is_some();
        // A member that an unsafe fault took away early has not expired.
        let lapsed = asked.deadline.is_some_and(|deadline| deadline.max(asked.held_at) == until);
        Self { hold, from: hold.from(), until, expired: !own_end && lapsed && !hold.is_attached() }
    }

    fn steps(&self) -> [(u64, i64); 2] {
        [(self.from, 1), (self.until, -1)]
    }
}

/// Returns the changes of the upper bound by this call: the span in which its member may have been
/// live.
fn possible(asked: &RecordedCall<'_>, around: &Surroundings, bounds: &Bounds) -> Vec<(u64, i64)> {
    if !matches!(asked.call, Call::Add { .. } | Call::Attach { .. }) {
        return Vec::new();
    }
    let until = match kept_until(asked, around, bounds) {
        Some((_, until)) => until,
        None => asked.answered().unwrap_or(NEVER),
    };
    vec![(asked.invoked.at, 1), (until.saturating_add(1), -1)]
}

fn limit(dossier: &Dossier<'_>, sure: &[Sure<'_>], found: &mut Vec<Violation>) {
    let limit = dossier.calls.iter().find_map(|asked| match asked.call {
        Call::Add { limit, .. } => *limit,
        _ => None,
    });
    let Some(limit) = limit else { return };
    let mut ends: Vec<u64> = sure.iter().filter(|one| one.from < one.until).map(|one| one.until).collect();
    ends.sort_unstable();
    let (mut live, mut over) = (0_u32, ends.into_iter().peekable());
    for one in sure.iter().filter(|one| one.from < one.until) {
        while over.next_if(|end| *end <= one.from).is_some() {
            live -= 1;
        }
        live += 1;
        if live > limit {
            let text = format!("{live} members were live at {}, the limit is {limit}", one.from);
            let events = one.hold.asked.events();
            found.push(Violation::new(Rule::OverTheMembers, Some(dossier.object), text, events));
        }
    }
}

/// Checks that deaths are reported. If a wait began while a member lived, the member then died, and
/// the wait ended before another member was added, then the wait ended with the generation of that
/// member.
fn deaths(dossier: &Dossier<'_>, sure: &[Sure<'_>], found: &mut Vec<Violation>) {
    let mut dead = sure.iter().filter(|one| one.expired).peekable();
    let mut adds = dossier.calls.iter().filter(|asked| matches!(asked.call, Call::Add { .. })).peekable();
    let (mut last, mut open) = (None::<&Sure<'_>>, 0);
    let mut waits: Vec<(&RecordedCall<'_>, u64)> =
        dossier.calls.iter().filter_map(|asked| Some((asked, silent(asked)?))).collect();
    // In the order of their ends, so that the adds before each wait are a prefix.
    waits.sort_by_key(|(_, to)| *to);
    let mut members: Vec<&Sure<'_>> = Vec::new();
    for (wait, to) in waits {
        while let Some(one) = dead.next_if(|one| one.from <= to) {
            if last.is_none_or(|last| last.until < one.until) {
                last = Some(one);
                members.push(one);
            }
        }
        while let Some(add) = adds.next_if(|add| add.invoked.at <= to) {
            open = open.max(add.answered().unwrap_or(NEVER));
        }
        // Among the members that were live when the wait began, the one with the longest lease.
        let known = members.partition_point(|one| one.from <= wait.invoked.at);
        let Some(one) = known.checked_sub(1).map(|index| members[index]) else { continue };
        if one.until > wait.invoked.at && open < one.until {
            let text = "`wait` reported that all had finished, but a member had died".to_owned();
            let events = [one.hold.asked.events(), wait.events()].concat();
            found.push(Violation::new(Rule::SilentDeath, Some(dossier.object), text, events));
        }
    }
}

/// Returns the time of a successful wait that reported that every member had finished.
fn silent(asked: &RecordedCall<'_>) -> Option<u64> {
    match asked.answer?.what {
        What::Waited { expired: 0, abandoned: 0, .. } => asked.answered(),
        _ => None,
    }
}
