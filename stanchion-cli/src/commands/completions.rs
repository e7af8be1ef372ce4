//! `completions`: a script with which a shell completes commands.

use clap::{Args, CommandFactory};
use clap_complete::{Shell, generate};

use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use crate::output;

/// Print the completions for a shell
#[derive(Args, Clone, Debug)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

pub(crate) fn completions(options: &Completions) -> Result<Exit, Failure> {
    let mut text = Vec::new();
    generate(options.shell, &mut Cli::command(), "stanchion", &mut text);
    output::raw(&text)?;
    Ok(Exit::DONE)
}
