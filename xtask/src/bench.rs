//! `cargo xtask bench`: compares this library with its peers and the raw limit, store by store.

use stanchion_testbed::servers::install::{self, Permission};

use crate::Outcome;
use crate::cli::Bench;
use crate::workspace::{STORES, cargo};

const BENCH: [&str; 5] = ["bench", "--locked", "--package=stanchion-bench", "--features=peers", "--bench"];
const PAGE: [&str; 6] =
    ["run", "--locked", "--profile=bench", "--package=stanchion-bench", "--bin", "bench-page"];

impl Bench {
    /// Returns whether the results are to be kept.
    fn is_whole(&self) -> bool {
        !self.quick && self.only.is_empty() && self.side.is_empty()
    }

    fn flags(&self) -> Vec<&str> {
        let quick = self.quick.then_some("--quick");
        let only = self.only.iter().flat_map(|only| ["--only", only]);
        let sides = self.side.iter().flat_map(|side| ["--side", side]);
        quick.into_iter().chain(only).chain(sides).collect()
    }

    fn stores(&self) -> Vec<&str> {
        if self.stores.is_empty() {
            STORES.to_vec()
        } else {
            self.stores.iter().map(String::as_str).collect()
        }
    }
}

/// Runs the benches. After full runs, writes the page from the kept results.
pub(crate) fn run(options: &Bench) -> Outcome {
    install::ensure(Permission::Install, |command| println!("installing what is missing: {command}"))?;
    for store in options.stores() {
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

    #[test]
    fn flags_are_passed_on_and_without_a_store_it_is_all_of_them() {
        let options = Bench { stores: vec![], quick: true, only: vec!["y".into()], side: vec!["x".into()] };
        assert_eq!(options.flags(), ["--quick", "--only", "y", "--side", "x"]);
        assert_eq!(options.stores(), STORES);
        assert!(!options.is_whole());
    }
}
