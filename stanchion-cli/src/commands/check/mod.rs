//! `check`: is this store safe for holds, and may this user use it?

mod rights;

use clap::Args;
use serde_json::json;
use stanchion::{Capabilities, ErrorKind, MutexMode};

use crate::errors;
use crate::events;
use crate::exit::{self, Exit, Failure};
use crate::output;
use crate::url::Target;

/// Check whether the store is safe for holds, and whether this user may use it
///
/// Connecting checks what would break safety: on Redis the role, the version, maxmemory-policy and
/// the layout of the namespace; on Postgres a standby, synchronous_commit, a transaction pooler,
/// the schema and the layout. A setting that the role may not read is shown as unverified. Then the
/// scripts or functions of each kind are asked about a random name, which leaves nothing there;
/// grants are tried with --write alone. Exit code: 0 if nothing is wrong, 77 if a right is missing,
/// 78 if the store is refused.
#[derive(Args, Clone, Debug)]
pub(crate) struct Check {
    /// Take and give back one of each kind, under a random name, which the store forgets after its
    /// retention time
    #[arg(long)]
    write: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Verdict {
    what: &'static str,
    /// `ok`, `refused`, `unverified` or `note`.
    word: &'static str,
    detail: String,
}

pub(crate) async fn check(options: &Check, target: &Target) -> Result<Exit, Failure> {
    events::keep_warnings();
    let opened = target.open_to_look().await;
    let (mut verdicts, exit) = match opened {
        Ok(store) => {
            let mut verdicts = of_store(&store.capabilities());
            let tried = rights::tried(&*store, options.write).await;
            let exit = tried.as_ref().map_or_else(|error| exit::of_kind(error.kind()), |()| Exit::DONE);
            match tried {
                Ok(()) => verdicts.push(rights::are_there(options.write)),
                Err(error) => verdicts.push(refused(subject(&error), errors::text(&error))),
            }
            (verdicts, exit)
        }
        Err(failure @ (Failure::Store(_) | Failure::NotMigrated(_))) => {
            (of_refusal(&failure), failure.exit())
        }
        Err(other) => return Err(other),
    };
    let unverified = events::take_warnings();
    verdicts.extend(unverified.into_iter().map(|detail| Verdict {
        what: "settings",
        word: "unverified",
        detail,
    }));
    if options.json {
        let list = verdicts.iter().map(
            |verdict| json!({ "check": verdict.what, "verdict": verdict.word, "detail": verdict.detail }),
        );
        output::json(&json!({ "safe": exit == Exit::DONE, "checks": list.collect::<Vec<_>>() }))?;
    } else {
        for Verdict { what, word, detail } in verdicts {
            output::line(format_args!("{word:<11}{what:<13}{detail}"))?;
        }
    }
    Ok(exit)
}

fn of_store(store: &Capabilities) -> Vec<Verdict> {
    let verdict = |what, word, detail: &str| Verdict { what, word, detail: detail.to_owned() };
    let restart = match store.survives_restart {
        Some(true) => verdict("restart", "ok", "holds survive a restart of the server"),
        Some(false) => {
            verdict("restart", "note", "a restart of the server loses all holds: fence what matters")
        }
        None => verdict("restart", "unverified", "whether holds survive a restart could not be read"),
    };
    let mode = match store.mutex_mode {
        MutexMode::Session => "mutexes are kept by sessions",
        MutexMode::Lease => "mutexes are kept by leases",
        _ => "mutexes are kept by the process",
    };
    let wake_ups = match store.wake_ups {
        true => verdict("wake-ups", "ok", "a release wakes the next waiter"),
        false => verdict("wake-ups", "note", "waiters ask once a second: the server cannot wake them"),
    };
    let safe = "no setting was found that breaks a guarantee";
    vec![
        verdict("connection", "ok", store.store),
        verdict("settings", "ok", safe),
        restart,
        wake_ups,
        verdict("mutexes", "note", mode),
    ]
}

fn of_refusal(failure: &Failure) -> Vec<Verdict> {
    let (Failure::Store(error) | Failure::NotMigrated(error)) = failure else { return Vec::new() };
    let what = subject(error);
    let mut verdicts = Vec::new();
    if what == "settings" {
        verdicts.push(Verdict {
            what: "connection",
            word: "ok",
            detail: error.store().unwrap_or_default().to_owned(),
        });
    }
    verdicts.push(refused(what, failure.to_string()));
    verdicts
}

/// Returns the subject of an error.
fn subject(error: &stanchion::Error) -> &'static str {
    match error.kind() {
        ErrorKind::UnsafeStore | ErrorKind::ConfigMismatch | ErrorKind::Unsupported => "settings",
        ErrorKind::Unauthorized if errors::tells_of_a_right(error) => "rights",
        ErrorKind::Unauthorized => "credentials",
        ErrorKind::InvalidArgument => "url",
        _ => "connection",
    }
}

fn refused(what: &'static str, detail: String) -> Verdict {
    Verdict { what, word: "refused", detail }
}
