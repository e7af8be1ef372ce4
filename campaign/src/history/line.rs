//! The line format, version 1: an event as one line of text.
//!
//! ```text
//! v1 at=81234567 worker=3 task=0 op=17 object=mutex:invoices/42 what=granted ticket=0f… token=9 deadline=… weight=1
//! ```

use std::fmt;
use std::str::FromStr;

use stanchion_core::{DecidedBy, ErrorKind, FencingToken, Name};

use super::event::{Change, KINDS};
use super::fields::{Fields, Line, escaped, unescaped};
use super::line_call::{add_call, call};
use super::{Event, ObjectId, Target, What};

const VERSION: &str = "v1";

impl fmt::Display for Event {
    /// Writes one line without its end, as [`FromStr`] reads it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Line::new(VERSION);
        line.add("at", self.at).add("worker", self.worker).add("task", self.task).add("op", self.operation);
        if let Some(object) = &self.object {
            line.add("object", object_text(object));
        }
        add_what(&mut line, &self.what);
        f.write_str(&line.into_string())
    }
}

impl FromStr for Event {
    type Err = String;

    /// # Errors
    /// A description of the mistake: another version, or a field that is missing, unknown or has no
    /// valid value.
    fn from_str(line: &str) -> Result<Self, String> {
        let (version, fields) = line.split_once(' ').ok_or("the line has no fields")?;
        if version != VERSION {
            return Err(format!("the line is of version {version:?}, not {VERSION}"));
        }
        let mut fields = Fields::parse(fields)?;
        let event = Self {
            at: fields.get("at")?,
            worker: fields.get("worker")?,
            task: fields.get("task")?,
            operation: fields.get("op")?,
            object: fields.text_or_none("object").map(object).transpose()?,
            what: what(&mut fields)?,
        };
        fields.end()?;
        Ok(event)
    }
}

/// Writes an object as one word, as [`object`] reads it.
pub(super) fn object_text(ObjectId { kind, name }: &ObjectId) -> String {
    format!("{}:{}", kind.as_str(), escaped(name.as_str()))
}

pub(super) fn object(text: &str) -> Result<ObjectId, String> {
    let (kind, name) = text.split_once(':').ok_or_else(|| format!("{text:?} is no object"))?;
    let kind = KINDS.into_iter().find(|known| known.as_str() == kind);
    let kind = kind.ok_or_else(|| format!("{text:?} is of no known kind"))?;
    let name = Name::new(&unescaped(name)?).map_err(|error| error.to_string())?;
    Ok(ObjectId { kind, name })
}

fn add_what(line: &mut Line, what: &What) {
    match what {
        What::Invoked { call, time_limit } => {
            line.add("what", "invoked");
            add_call(line, call);
            line.maybe("time_limit", *time_limit);
        }
        What::Granted { ticket, token, deadline, weight } => {
            line.add("what", "granted").add("ticket", ticket).add("token", token);
            line.maybe("deadline", *deadline).add("weight", weight);
        }
        What::Renewed { deadline } => {
            line.add("what", "renewed").add("deadline", deadline);
        }
        What::Believed { held, deadline } => {
            line.add("what", "believed").add("held", held).maybe("deadline", *deadline);
        }
        What::Lost => {
            line.add("what", "lost");
        }
        What::Releasing { lease } => {
            line.add("what", "releasing").maybe("lease", *lease);
        }
        What::Released => {
            line.add("what", "released");
        }
        What::ReleaseFailed { error } => {
            line.add("what", "release_failed").add("error", format_args!("{error:?}"));
        }
        What::Cancelled => {
            line.add("what", "cancelled");
        }
        What::Refused => {
            line.add("what", "refused");
        }
        What::Failed { error } => {
            line.add("what", "failed").add("error", format_args!("{error:?}"));
        }
        What::Wrote { began, token, ticket, sequence } => {
            line.add("what", "wrote").add("began", began).add("token", token).add("ticket", ticket);
            line.add("sequence", sequence);
        }
        What::WriteRefused { began, token, ticket } => {
            line.add("what", "write_refused").add("began", began).add("token", token).add("ticket", ticket);
        }
        What::Decided { allowed, store_time, retry_after, by } => {
            line.add("what", "decided").add("allowed", allowed).add("by", format_args!("{by:?}"));
            line.maybe("store_time", *store_time).maybe("retry_after", *retry_after);
        }
        What::Waited { finished, abandoned, expired } => {
            line.add("what", "waited").add("finished", finished).add("abandoned", abandoned);
            line.add("expired", expired);
        }
        What::Counted { count } => {
            line.add("what", "counted").add("count", count);
        }
        What::Answered => {
            line.add("what", "answered");
        }
        What::Drained { began, permits } => {
            line.add("what", "drained").add("began", began).add("permits", permits);
        }
        What::FaultBegan { fault, target, safe } => {
            line.add("what", "fault_began").add("fault", escaped(fault));
            match target {
                Target::Store => line.add("target", "store"),
                Target::Worker(worker) => line.add("target", worker),
                Target::Object => line.add("target", "object"),
            };
            line.add("safe", safe);
        }
        What::FaultEnded => {
            line.add("what", "fault_ended");
        }
        What::StoodStill { length } => {
            line.add("what", "stood_still").add("length", length);
        }
        What::Process { worker, change } => {
            line.add("what", change_text(*change)).add("whom", worker);
        }
    }
}

fn what(fields: &mut Fields<'_>) -> Result<What, String> {
    let what = fields.text("what")?;
    if let Some(change) = CHANGES.into_iter().find(|change| change_text(*change) == what) {
        return Ok(What::Process { worker: fields.get("whom")?, change });
    }
    Ok(match what {
        "invoked" => What::Invoked { call: call(fields)?, time_limit: fields.maybe("time_limit")? },
        "granted" => What::Granted {
            ticket: fields.get("ticket")?,
            token: token(fields)?,
            deadline: fields.maybe("deadline")?,
            weight: fields.get("weight")?,
        },
        "renewed" => What::Renewed { deadline: fields.get("deadline")? },
        "believed" => What::Believed { held: fields.get("held")?, deadline: fields.maybe("deadline")? },
        "lost" => What::Lost,
        "releasing" => What::Releasing { lease: fields.maybe("lease")? },
        "released" => What::Released,
        "release_failed" => What::ReleaseFailed { error: error(fields)? },
        "cancelled" => What::Cancelled,
        "refused" => What::Refused,
        "failed" => What::Failed { error: error(fields)? },
        "wrote" => What::Wrote {
            began: fields.get("began")?,
            token: token(fields)?,
            ticket: fields.get("ticket")?,
            sequence: fields.get("sequence")?,
        },
        "write_refused" => What::WriteRefused {
            began: fields.get("began")?,
            token: token(fields)?,
            ticket: fields.get("ticket")?,
        },
        "decided" => What::Decided {
            allowed: fields.get("allowed")?,
            store_time: fields.maybe("store_time")?,
            retry_after: fields.maybe("retry_after")?,
            by: named(fields.text("by")?, &DECIDERS)?,
        },
        "waited" => What::Waited {
            finished: fields.get("finished")?,
            abandoned: fields.get("abandoned")?,
            expired: fields.get("expired")?,
        },
        "counted" => What::Counted { count: fields.get("count")? },
        "answered" => What::Answered,
        "drained" => What::Drained { began: fields.get("began")?, permits: fields.get("permits")? },
        "fault_began" => What::FaultBegan {
            fault: unescaped(fields.text("fault")?)?.into_owned(),
            target: match fields.text("target")? {
                "store" => Target::Store,
                "object" => Target::Object,
                worker => Target::Worker(worker.parse().map_err(|_| format!("no target: {worker:?}"))?),
            },
            safe: fields.get("safe")?,
        },
        "fault_ended" => What::FaultEnded,
        "stood_still" => What::StoodStill { length: fields.get("length")? },
        other => return Err(format!("there is no event {other:?}")),
    })
}

const CHANGES: [Change; 5] =
    [Change::Started, Change::Killed, Change::Stopped, Change::Resumed, Change::Ended];

fn change_text(change: Change) -> &'static str {
    match change {
        Change::Started => "started",
        Change::Killed => "killed",
        Change::Stopped => "stopped",
        Change::Resumed => "resumed",
        Change::Ended => "ended",
    }
}

const DECIDERS: [DecidedBy; 3] = [DecidedBy::Store, DecidedBy::LocalCache, DecidedBy::OutagePolicy];

const ERRORS: [ErrorKind; 12] = [
    ErrorKind::Timeout,
    ErrorKind::Lost,
    ErrorKind::Unavailable,
    ErrorKind::Unknown,
    ErrorKind::InvalidArgument,
    ErrorKind::ConfigMismatch,
    ErrorKind::Unauthorized,
    ErrorKind::UnsafeStore,
    ErrorKind::StateLost,
    ErrorKind::Unsupported,
    ErrorKind::Overloaded,
    ErrorKind::Closed,
];

/// Returns the value of `all` with that name.
fn named<T: Copy + fmt::Debug>(text: &str, all: &[T]) -> Result<T, String> {
    let found = all.iter().copied().find(|one| format!("{one:?}") == text);
    found.ok_or_else(|| format!("{text:?} is none of {all:?}"))
}

fn error(fields: &mut Fields<'_>) -> Result<ErrorKind, String> {
    named(fields.text("error")?, &ERRORS)
}

fn token(fields: &mut Fields<'_>) -> Result<FencingToken, String> {
    FencingToken::new(fields.get("token")?).map_err(|error| error.to_string())
}
