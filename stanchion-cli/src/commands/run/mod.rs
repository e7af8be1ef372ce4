//! `run`: a command under a lock.

mod child;
mod exit_file;
mod help;
mod hold;
mod keep;
mod once_per;
mod orders;
mod turn;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use stanchion::spi::clock;
use stanchion::{ErrorKind, Guard, GuardKind, MutexMode, MutexOptions, OnMismatch, SemaphoreOptions, Store};

use self::exit_file::Ended;
use self::hold::Lock;
use self::keep::Keeping;
use self::once_per::OncePer;
use crate::errors;
use crate::exit::{Exit, Failure};
use crate::output::message;
use crate::signals::Signals;
use crate::url::Target;
use crate::values;

/// The lease where none is given.
const DEFAULT_TTL: Duration = Duration::from_secs(10);
/// How long a store that does not answer is asked again, where `--wait` does not say it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_INTERVAL: Duration = Duration::from_millis(500);
/// Time limit for the last releases of this process.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Run a command while a lock is held
#[derive(Args, Clone, Debug)]
#[command(after_long_help = help::AFTER, after_help = help::AFTER_SHORT)]
pub(crate) struct Run {
    /// The name of the lock
    #[arg(value_parser = values::name)]
    name: String,
    /// Let up to N commands of this name run at a time: a semaphore, not a mutex
    #[arg(long, value_name = "N", value_parser = values::permits)]
    semaphore: Option<u32>,
    /// What counts where the semaphore has another number of permits: neither, so that nothing runs
    /// (refuse), that of the store (adopt), or this one, from now on for everybody (replace)
    #[arg(long, value_enum, value_name = "HOW", requires = "semaphore", default_value_t = Mismatch::Refuse)]
    on_mismatch: Mismatch,
    /// Wait at most this long for the turn (0s: one attempt); without, as long as it takes
    #[arg(long, short, visible_alias = "timeout", value_name = "TIME", value_parser = values::time)]
    wait: Option<Duration>,
    /// The lease: how long others wait after this machine has died (2s to 24h; 10s if not given)
    #[arg(long, value_name = "TIME", value_parser = values::ttl)]
    ttl: Option<Duration>,
    /// What others are shown of this hold (host, process id and program if not given)
    #[arg(long, value_name = "TEXT", value_parser = values::label)]
    label: Option<String>,
    /// Do not wait: exit with 75 if the lock is held or waited for
    #[arg(long, short = 'n', visible_alias = "nonblock", conflicts_with = "wait")]
    skip_if_held: bool,
    /// Run once in this time, over all machines, counted from the begin of a run that has
    /// succeeded: exit with 75 if there was one. Less than the interval of a crontab, by as much as
    /// its machines' clocks and starts differ: 23h for a job of each night
    #[arg(long, value_name = "TIME", value_parser = values::period, conflicts_with = "semaphore")]
    once_per: Option<Duration>,
    /// Exit with this code, in the place of 75 and 124, if the command was not run because the lock
    /// is held or the time to wait is over, or the command has run by --once-per
    #[arg(long, short = 'E', visible_alias = "conflict-exit-code", value_name = "N")]
    skip_code: Option<u8>,
    /// Write into this file how it has ended, as a word and a code: `command 3`, or `skipped 75`,
    /// `timeout 124`, `lost 125`, `not-started 127`, `interrupted 143`, `failed 69`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    exit_file: Option<PathBuf>,
    /// Say nothing about waiting and skipping, as cron would mail it
    #[arg(long, short)]
    quiet: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mismatch {
    Refuse,
    Adopt,
    Replace,
}

impl From<Mismatch> for OnMismatch {
    fn from(mismatch: Mismatch) -> Self {
        match mismatch {
            Mismatch::Refuse => Self::Refuse,
            Mismatch::Adopt => Self::Adopt,
            Mismatch::Replace => Self::Replace,
        }
    }
}

/// Runs the command. Must be polled on the main thread: the supervisor ends with the thread that
/// started it.
pub(crate) async fn run(options: Run, target: &Target) -> Result<Exit, Failure> {
    if let Some(path) = &options.exit_file {
        exit_file::begin(path)?;
    }
    let skip_code = options.skip_code.map(Exit::of);
    let done = ended(options, target).await;
    exit_file::write(done.as_ref().copied().unwrap_or_else(|failure| Ended::Here(failure.exit())));
    done.map(|ended| match ended {
        Ended::Here(exit @ (Exit::SKIPPED | Exit::TIME_OVER)) => skip_code.unwrap_or(exit),
        ended => ended.exit(),
    })
}

async fn ended(options: Run, target: &Target) -> Result<Ended, Failure> {
    let mut signals = Signals::new()?;
    let start = clock::now();
    let store = tokio::select! {
        store = connected(target, options.wait.unwrap_or(CONNECT_TIMEOUT)) => store?,
        exit = signals.ends_waiting() => return Ok(Ended::Here(exit)),
    };
    let wait = options.wait.map(|wait| wait.saturating_sub(start.elapsed()));
    let options = Run { wait, ..options };
    let done = under_lock(&options, &*store, &mut signals).await;
    // Leaves the queue, or sends a release that is still to be sent.
    if let Ok(Err(error)) = clock::timeout(CLOSE_TIMEOUT, store.close()).await {
        message(format_args!("the store could not be closed: {}", errors::text(&error)));
    }
    done
}

/// Opens the store. If it does not answer, it is asked again within the time limit, as it is if it
/// goes away later.
async fn connected(target: &Target, limit: Duration) -> Result<Arc<dyn Store>, Failure> {
    let (start, mut is_told) = (clock::now(), false);
    loop {
        match target.open().await {
            Err(Failure::Store(error))
                if error.kind() == ErrorKind::Unavailable && start.elapsed() + CONNECT_INTERVAL < limit =>
            {
                if !is_told {
                    message(format_args!("{}; trying again", errors::text(&error)));
                    is_told = true;
                }
                clock::sleep(CONNECT_INTERVAL).await;
            }
            opened => return opened,
        }
    }
}

async fn under_lock(options: &Run, store: &dyn Store, signals: &mut Signals) -> Result<Ended, Failure> {
    let label = options.label.clone().unwrap_or_else(|| default_label(&options.command));
    let ttl = options.ttl.unwrap_or(DEFAULT_TTL);
    match options.semaphore {
        None if store.capabilities().mutex_mode != MutexMode::Lease => Err(Failure::Sessions),
        None => {
            let mutex = store.mutex(&options.name, MutexOptions::new().label(label).ttl(ttl))?;
            let once = options.once_per.map(|period| OncePer::new(store, &options.name, period));
            with_lock(options, &*mutex, once.transpose()?, signals).await
        }
        Some(permits) => {
            let settings = SemaphoreOptions::new(permits).on_mismatch(options.on_mismatch.into());
            let settings = settings.label(label).ttl(ttl);
            let semaphore = store.semaphore(&options.name, settings)?;
            with_lock(options, &*semaphore, None, signals).await
        }
    }
}

async fn with_lock<L: Lock + ?Sized>(
    options: &Run,
    lock: &L,
    once: Option<OncePer>,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let guard = tokio::select! {
        taken = take(options, lock) => match taken? {
            Ok(guard) => guard,
            Err(exit) => return Ok(Ended::Here(exit)),
        },
        exit = signals.ends_waiting() => return Ok(Ended::Here(exit)),
    };
    let Some(once) = once else { return held(options, guard, signals).await };
    let due_in = tokio::select! {
        due_in = once.due_in() => due_in?,
        exit = signals.ends_waiting() => return Ok(Ended::Here(exit)),
    };
    if !due_in.is_zero() {
        if !options.quiet {
            let (name, rest) = (&options.name, values::rounded(due_in));
            message(format_args!("skipped: {name:?} has run, and is due again in {rest}"));
        }
        return Ok(Ended::Here(Exit::SKIPPED));
    }
    let begun = clock::now();
    let noted = async || {
        let why = match once.note(begun).await {
            Ok(true) => return,
            Ok(false) => "its limiter is used by others".to_owned(),
            Err(error) => errors::text(&error),
        };
        message(format_args!("the run could not be noted, and may be repeated before its time: {why}"));
    };
    held_and(options, guard, signals, noted).await
}

/// Takes the lock, or says why it was not taken.
async fn take<L: Lock + ?Sized>(options: &Run, lock: &L) -> Result<Result<Guard<L::Kind>, Exit>, Failure> {
    if options.skip_if_held {
        let taken = lock.try_take().await?;
        return Ok(taken.ok_or_else(|| {
            if !options.quiet {
                message(format_args!("skipped: {:?} is held", options.name));
            }
            Exit::SKIPPED
        }));
    }
    let taken = tokio::select! {
        biased;
        taken = lock.take(options.wait) => taken?,
        never = turn::tell(lock, &options.name), if !options.quiet => match never {},
    };
    Ok(taken.ok_or_else(|| {
        message(format_args!("not run: the time to wait for {:?} is over", options.name));
        Exit::TIME_OVER
    }))
}

async fn held<K: GuardKind>(options: &Run, guard: Guard<K>, signals: &mut Signals) -> Result<Ended, Failure> {
    held_and(options, guard, signals, async || {}).await
}

/// Runs the command, and if it has succeeded does a last thing under the lock.
async fn held_and<K: GuardKind>(
    options: &Run,
    guard: Guard<K>,
    signals: &mut Signals,
    last: impl AsyncFnOnce(),
) -> Result<Ended, Failure> {
    let lease = options.ttl.unwrap_or(DEFAULT_TTL);
    let mut keeping = Keeping::start(&options.command, &guard, lease)?;
    let ended = keeping.until_ended(&guard, signals).await;
    drop(keeping);
    if ended == Ended::Command(Exit::DONE) && guard.is_held() {
        last().await;
    }
    match guard.release().await {
        Ok(()) => Ok(ended),
        // That was reported.
        Err(_) if ended == Ended::Here(Exit::LOST) => Ok(ended),
        Err(error) if error.kind() == ErrorKind::Lost => {
            message(format_args!("the hold of {:?} was lost before the command ended", options.name));
            Ok(Ended::Here(Exit::LOST))
        }
        Err(error) => {
            let why = errors::text(&error);
            message(format_args!("the lock is free at the end of its lease: {why}"));
            Ok(ended)
        }
    }
}

/// Returns a label that shows an operator where to look. The arguments are not in it: they may hold
/// secrets.
fn default_label(command: &[OsString]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    values::label_of(&program.to_string_lossy())
}
