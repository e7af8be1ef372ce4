//! `docs/benchmarks.md`: the last full runs, as a page to read.

use std::fmt::Write as _;
use std::fs;

use crate::Failure;
use crate::bench::{Report, results, root};
use crate::plot;

/// The stores in the order of the page.
const STORES: [&str; 3] = ["memory", "redis", "postgres"];

const HEAD: &str = "\
# Benchmarks

`cargo xtask bench` makes this page: it starts servers of its own on this machine and runs this library, the peers and
what people write by hand **in turn, in short slices**, so that what else the machine does meets all of them. A figure is
the median of the slices, with the smallest and the largest beside it. A ratio is the median of the ratios of slices that
ran one after the other, so it says more than the two figures do. *Raw* is done by hand and has none of the guarantees: no
queue, no fencing token, no renewal; it is what the store can do at best. A *command* is one request on the wire.

Peers run as their documentation says. One that fails is out from there on, and the table says why.
";

/// Writes the page and its pictures from the stored results of full runs.
///
/// # Errors
/// If a file cannot be read or written.
pub fn write() -> Result<(), Failure> {
    let mut page = HEAD.to_owned();
    let mut reports = Vec::new();
    for store in STORES {
        let file = results().join(format!("{store}.json"));
        if file.exists() {
            reports.push(serde_json::from_str::<Report>(&fs::read_to_string(file)?)?);
        }
    }
    targets(&mut page, &reports)?;
    for report in &reports {
        let picture = format!("{}.svg", report.store);
        fs::write(results().join(&picture), plot::page(report)?)?;
        write!(page, "\n## {}\n\n", capitalized(&report.store))?;
        writeln!(page, "{}.\n", report.machine)?;
        let versions: Vec<_> =
            report.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
        writeln!(page, "With {}.\n", versions.join(", "))?;
        writeln!(page, "![the first column of each table](bench-results/{picture})\n")?;
        let tables: Vec<_> = report.tables.iter().map(ToString::to_string).collect();
        page += &tables.join("\n");
    }
    Ok(fs::write(root().join("docs/benchmarks.md"), page)?)
}

/// Writes all targets as one table.
fn targets(page: &mut String, reports: &[Report]) -> Result<(), Failure> {
    page.push_str(
        "\n## Targets\n\n| store | measure | target | figure | |\n| --- | --- | --- | ---: | --- |\n",
    );
    for report in reports {
        for table in &report.tables {
            for verdict in &table.verdicts {
                let value = verdict.value.map_or("-".to_owned(), |value| format!("{value:.2}"));
                let word = if verdict.met { "met" } else { "**missed**" };
                writeln!(
                    page,
                    "| {} | {} | {} | {value} | {word} |",
                    report.store, table.title, verdict.wanted
                )?;
            }
        }
    }
    Ok(())
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
