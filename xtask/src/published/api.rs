//! The listings of public interfaces, kept in the repository so that a review sees every change of
//! them.

use std::collections::BTreeSet;
use std::fs;

use public_api::Builder;

use super::Documented;
use crate::Outcome;
use crate::workspace::root;

/// The folder of the listings.
const FOLDER: &str = "docs/api";

pub(super) fn check(crates: &[Documented], write: bool) -> Outcome {
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder)?;
    let mut differences = 0;
    for Documented { package, file, .. } in crates {
        let listing = Builder::from_rustdoc_json(file)
            .omit_blanket_impls(true)
            .omit_auto_trait_impls(true)
            .omit_auto_derived_impls(true)
            .build()?
            .to_string();
        let kept = folder.join(format!("{}.txt", package.name));
        if write {
            fs::write(&kept, listing)?;
            continue;
        }
        for line in difference(&fs::read_to_string(&kept).unwrap_or_default(), &listing) {
            println!("{}: {line}", package.name);
            differences += 1;
        }
    }
    if differences > 0 {
        println!("{differences} lines differ; `cargo xtask api --write` writes the listings in `{FOLDER}`");
    }
    Ok(differences == 0)
}

/// Returns the lines that only one of the listings has.
fn difference(kept: &str, now: &str) -> Vec<String> {
    let [kept, now] = [kept, now].map(|listing| listing.lines().collect::<BTreeSet<_>>());
    let gone = kept.difference(&now).map(|line| format!("- {line}"));
    gone.chain(now.difference(&kept).map(|line| format!("+ {line}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn both_sides_of_a_change_are_shown() {
        assert_eq!(difference("pub fn a()\npub fn b()\n", "pub fn b()\npub fn a()\n"), [""; 0]);
        assert_eq!(difference("pub fn a()\n", "pub fn a(u8)\n"), ["- pub fn a()", "+ pub fn a(u8)"]);
    }
}
