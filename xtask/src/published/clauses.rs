//! Do the docs link the clauses that they name?

use super::Documented;
use crate::coverage::clauses::Clause;

/// The module that is the contract itself.
const CONTRACT: &str = "contract";

/// Returns the places where the docs of public items name a clause without a link.
pub(super) fn without_link(documented: &Documented) -> Vec<String> {
    let mut problems = Vec::new();
    for item in documented.docs.index.values().filter(|item| item.crate_id == 0) {
        let name = item.name.as_deref().unwrap_or("an item");
        if name == CONTRACT {
            continue;
        }
        for clause in bare(item.docs.as_deref().unwrap_or_default()) {
            let file = item.span.as_ref().map(|span| span.filename.display().to_string()).unwrap_or_default();
            problems.push(format!("{file}: {name} names {clause} without a link"));
        }
    }
    problems.sort_unstable();
    problems
}

/// Returns the clauses in a text that stand neither in brackets nor in code.
fn bare(docs: &str) -> Vec<Clause> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in docs.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            // Every second part is between backticks.
            found.extend(line.split('`').step_by(2).flat_map(words));
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = Clause> + '_ {
    let is_part =
        |letter: char| letter.is_alphanumeric() || matches!(letter, '[' | ']' | '#' | '/' | '-' | '_');
    text.split(move |letter| !is_part(letter)).filter_map(Clause::known)
}

#[cfg(test)]
mod tests {
    use super::bare;

    #[test]
    fn links_and_code_are_no_bare_clauses() {
        let found = |docs| bare(docs).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(found("Grows (M2), see [C4] and `C5`.\n\n[C4]: crate::contract#c4"), ["M2"]);
        assert_eq!(found("```\nlet C7 = 1; // C8\n```\nat C9"), ["C9"]);
        assert_eq!(found("C99 and C are no clauses, nor is XC1 or C1a"), [""; 0]);
    }
}
