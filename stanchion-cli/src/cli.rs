//! The command line: every subcommand in one place.

use clap::{Parser, Subcommand};

use crate::commands::{
    bench, check, completions, inspect, limit, ls, man, ping, resize, run, schema, serve, top, unlock,
    wait_group,
};
use crate::url::Target;

/// Commands under distributed locks, and the operator's view of locks, semaphores, wait groups and
/// limiters on Redis and Postgres.
///
/// The store is named by --url, by --url-file, or by the variable STANCHION_URL.
#[derive(Debug, Parser)]
#[command(after_long_help = AFTER, after_help = "What a URL looks like, and what to do with a stuck lock: --help.")]
#[command(name = "stanchion", version, arg_required_else_help = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The first steps, and what a URL looks like.
const AFTER: &str = "\
A lock that seems stuck:
  stanchion ls                  the names that are held or waited for
  stanchion inspect NAME        who holds it, since when, until when, and how many wait
  stanchion unlock NAME         asks, and frees it; `unlock --help` says what the holder then does

URLs:
  redis://USER:PASSWORD@HOST:6379/?namespace=NAME        rediss:// with TLS
  redis+cluster://HOST:6379,HOST:6379/?namespace=NAME    rediss+cluster:// with TLS
  redis+sentinel://HOST:26379,HOST:26379/SERVICE?namespace=NAME
  postgres://USER:PASSWORD@HOST:5432/DATABASE?namespace=NAME&mutex=lease|session
  In a user, a password or a parameter write `#` as %23, `/` as %2F, `?` as %3F and `@` as %40.
  Programs see each other's locks in the same namespace of the same store; without `namespace=` it is
  `stanchion`. Further parameters are those of the library `stanchion`, in its documentation of `connect`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<run::Run>),
    Ls(ls::Ls),
    Top(top::Top),
    Serve(serve::Serve),
    Inspect(inspect::Inspect),
    Unlock(unlock::Unlock),
    WaitGroup(wait_group::WaitGroup),
    Limit(limit::Limit),
    Resize(resize::Resize),
    Ping(ping::Ping),
    Check(check::Check),
    Bench(bench::Bench),
    Schema(schema::Schema),
    Completions(completions::Completions),
    Man(man::Man),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn is_refused(line: &str) -> bool {
        Cli::try_parse_from(std::iter::once("stanchion").chain(line.split_whitespace())).is_err()
    }

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for wrong in [
            "",
            "run",
            "run x",
            "run x --ttl 1s -- true",
            "run x --wait 1parsec -- true",
            "run x --semaphore 0 -- true",
            "run x --wait 1s --skip-if-held -- true",
            "ls a b",
            "ls --kind lock",
            "inspect x --kind lock",
            "unlock x --ticket zz",
            "unlock x --kind semaphore",
            "limit x",
            "limit x --per 50",
            "limit x --per 50/s --set --cost 2",
            "limit x --reset --set",
            "resize x",
            "resize x 0",
            "run x --on-mismatch adopt -- true",
            "run x --once-per 1h --semaphore 1 -- true",
            "run x --once-per 1M -- true",
            "run x -n -w 3 -- true",
            "run x -E 256 -- true",
            "limit x --per 50/s --cost -1",
            "wait-group x",
            "wait-group x done zz",
            "ping --url a --url-file b",
            "serve --listen nowhere",
            "serve --interval 1ms",
            "completions dosh",
        ] {
            assert!(is_refused(wrong), "{wrong}");
        }
        for right in [
            "run x -- true",
            "run x true --wait 1s",
            "run x --semaphore 2 --on-mismatch replace -- true",
            "run x -n -E 1 -- true",
            "run x -w 0.5 -- true",
            "run x --timeout 3 --conflict-exit-code 9 -- true",
            "run x --nonblock --once-per 23h --exit-file x -- true",
            "limit x --per 50/s",
            "limit x --per 50/s --set",
            "limit x --reset",
            "resize x 3",
            "ping --url a",
        ] {
            assert!(!is_refused(right), "{right}");
        }
    }
}
