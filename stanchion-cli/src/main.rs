//! `stanchion`: commands under distributed locks, and the operator's view of locks, semaphores,
//! wait groups and limiters.

#[cfg(not(target_os = "linux"))]
compile_error!("stanchion-cli needs Linux: its supervisor is a subreaper and reads /proc");

mod cli;
mod commands;
mod errors;
mod events;
mod exit;
mod output;
mod signals;
mod supervisor;
mod url;
mod values;

use std::env;
use std::process::ExitCode;

use clap::Parser;

use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use crate::supervisor::Supervise;

/// The word that this program starts itself with, as the supervisor of a command.
const SUPERVISE: &str = "supervise-command";

fn main() -> ExitCode {
    let exit = done();
    output::flush_messages();
    exit.end()
}

fn done() -> Exit {
    // No user sees it. It has no runtime: one thread alone sees its signals and children.
    if env::args_os().nth(1).is_some_and(|word| word == SUPERVISE) {
        return match Supervise::try_parse_from(env::args_os().skip(1)) {
            Ok(options) => supervisor::supervise(&options),
            Err(error) => not_parsed(&error),
        };
    }
    match Cli::try_parse() {
        Ok(cli) => carried_out(cli).unwrap_or_else(|failure| {
            if failure.exit() != Exit::CLOSED_PIPE {
                output::message(&failure);
            }
            failure.exit()
        }),
        Err(error) => not_parsed(&error),
    }
}

/// Runs a command on this thread, the main one, with which a supervisor ends.
#[expect(clippy::disallowed_methods, reason = "a program owns its runtime")]
fn carried_out(cli: Cli) -> Result<Exit, Failure> {
    events::show_warnings();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::system("no runtime"))?.block_on(commands::carry_out(cli))
}

/// Shows help, the version, or the mistake in the command line.
fn not_parsed(error: &clap::Error) -> Exit {
    let text =
        url::without_urls(&error.to_string(), env::args_os().map(|word| word.to_string_lossy().into_owned()));
    let text = output::printable_lines(&text);
    if error.use_stderr() {
        eprint(&text);
        return Exit::USAGE;
    }
    output::raw(text.as_bytes()).map_or_else(|failure| failure.exit(), |()| Exit::DONE)
}

fn eprint(text: &str) {
    use std::io::Write as _;
    // Where standard error is closed, nobody reads a message.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
