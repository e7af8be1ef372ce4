//! `man`: the manual's pages.

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::exit::{Exit, Failure};
use crate::output;

/// Print a page of the manual, for `man -l -`
#[derive(Args, Clone, Debug)]
pub(crate) struct Man {
    /// The subcommand whose page is printed; without one, the page of the program
    subcommand: Option<String>,
}

pub(crate) fn man(options: &Man) -> Result<Exit, Failure> {
    let mut all = Cli::command().disable_help_subcommand(true);
    all.build();
    let page = match &options.subcommand {
        None => clap_mangen::Man::new(all),
        Some(name) => {
            let found = all.find_subcommand(name).filter(|command| !command.is_hide_set());
            let command = found.ok_or_else(|| Failure::Usage(format!("there is no subcommand {name:?}")))?;
            clap_mangen::Man::new(command.clone()).title(format!("stanchion-{name}"))
        }
    };
    let page = page.source(concat!("stanchion ", env!("CARGO_PKG_VERSION"))).manual("Stanchion");
    let mut text = Vec::new();
    page.render(&mut text).map_err(Failure::Output)?;
    output::raw(&text)?;
    Ok(Exit::DONE)
}
