//! `cargo xtask bench`: this library beside the peers and the raw limit, store by store.

use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::workspace::{STORES, cargo};

const BENCH: [&str; 4] = ["bench", "--locked", "--package=stanchion-bench", "--bench"];
const PAGE: [&str; 6] =
    ["run", "--locked", "--profile=bench", "--package=stanchion-bench", "--bin", "bench-page"];

/// What stands on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    stores: Vec<&'static str>,
    quick: bool,
    only: Vec<String>,
    sides: Vec<String>,
}

impl Options {
    /// Reads `[STORE]… [--quick] [--only MEASURE]… [--side NAME]…`; `None` when it is something else.
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let mut options = Self { stores: Vec::new(), quick: false, only: Vec::new(), sides: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--quick" => options.quick = true,
                "--only" => options.only.push(rest.next()?.clone()),
                "--side" => options.sides.push(rest.next()?.clone()),
                name => options.stores.push(STORES.into_iter().find(|store| *store == name)?),
            }
        }
        if options.stores.is_empty() {
            options.stores = STORES.to_vec();
        }
        Some(options)
    }

    /// Whether what it finds is to be kept.
    fn is_whole(&self) -> bool {
        !self.quick && self.only.is_empty() && self.sides.is_empty()
    }

    fn flags(&self) -> Vec<&str> {
        let quick = self.quick.then_some("--quick");
        let only = self.only.iter().flat_map(|only| ["--only", only]);
        let sides = self.sides.iter().flat_map(|side| ["--side", side]);
        quick.into_iter().chain(only).chain(sides).collect()
    }
}

/// Runs the benches, and writes the page from what is kept if they were full ones.
pub(crate) fn run(options: &Options) -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    for store in &options.stores {
        let mut bench = cargo(&BENCH);
        bench.args([store, "--"]).args(options.flags());
        if !bench.status()?.success() {
            return Ok(false);
        }
    }
    if !options.is_whole() {
        return Ok(true);
    }
    Ok(cargo(&PAGE).status()?.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Options> {
        Options::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn without_a_store_it_is_all_of_them() {
        assert_eq!(parse("").unwrap().stores, STORES);
        assert_eq!(parse("redis").unwrap().stores, ["redis"]);
        assert_eq!(parse("mysql"), None);
    }

    #[test]
    fn flags_are_passed_on() {
        assert_eq!(
            parse("redis --side x --quick --only y").unwrap().flags(),
            ["--quick", "--only", "y", "--side", "x"]
        );
        assert_eq!(parse("--only"), None);
    }
}
