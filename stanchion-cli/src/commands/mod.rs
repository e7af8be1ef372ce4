//! The subcommands, one file each.

pub(crate) mod bench;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod inspect;
pub(crate) mod limit;
pub(crate) mod ls;
pub(crate) mod man;
pub(crate) mod ping;
pub(crate) mod resize;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
mod shown;
pub(crate) mod top;
pub(crate) mod unlock;
pub(crate) mod wait_group;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Failure};
use crate::signals::Signals;

/// Carries out a command, on the thread that calls.
pub(crate) async fn carry_out(cli: Cli) -> Result<Exit, Failure> {
    let target = &cli.target;
    match cli.command {
        Command::Run(options) => run::run(*options, target).await,
        Command::Top(options) => top::top(&options, target).await,
        Command::Ls(options) => ls::ls(&options, target).await,
        Command::Inspect(options) => inspect::inspect(&options, target).await,
        Command::Unlock(options) => unlock::unlock(&options, target).await,
        Command::WaitGroup(options) => until_interrupted(wait_group::wait_group(&options, target)).await,
        Command::Limit(options) => until_interrupted(limit::limit(&options, target)).await,
        Command::Resize(options) => resize::resize(&options, target).await,
        Command::Ping(options) => ping::ping(&options, target).await,
        Command::Check(options) => check::check(&options, target).await,
        Command::Bench(options) => until_interrupted(bench::bench(&options, target)).await,
        Command::Schema(options) => schema::schema(&options),
        Command::Serve(options) => serve::serve(&options, target).await,
        Command::Completions(options) => completions::completions(&options),
        Command::Man(options) => man::man(&options),
    }
}

/// Carries out a command that may wait. A signal drops it, and with it its holds and places.
async fn until_interrupted(command: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    tokio::select! {
        done = command => done,
        exit = signals.ends_waiting() => Ok(exit),
    }
}
