//! The clauses of the contract.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::sync::LazyLock;

use crate::workspace::root;

/// The contract of this workspace.
///
/// # Panics
/// If `docs/contract.md` cannot be read.
static CONTRACT: LazyLock<Contract> = LazyLock::new(|| {
    let path = root().join("docs/contract.md");
    Contract::read(&fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
});

/// The heading above the table of clauses that are not kept yet.
const KNOWN_GAPS: &str = "## Known gaps";

#[derive(Debug, Default)]
struct Contract {
    clauses: Vec<Clause>,
    /// What is missing where a clause is not kept yet.
    gaps: BTreeMap<Clause, String>,
}

impl Contract {
    /// Reads rows like `| <a id="c1"></a>C1 | … |`, and the rows `| C1 | … |` below [`KNOWN_GAPS`].
    fn read(text: &str) -> Self {
        let (clauses, gaps) = text.split_once(KNOWN_GAPS).unwrap_or((text, ""));
        let row = |line: &str| {
            let (id, words) = line.strip_prefix("| ")?.split_once(" |")?;
            let id = id.rsplit('>').next().unwrap_or(id);
            Some((Clause::parse(id)?, words.trim_end_matches('|').trim().to_owned()))
        };
        let anchored = clauses.lines().filter(|line| line.starts_with("| <a id="));
        Self {
            clauses: anchored.filter_map(row).map(|(clause, _)| clause).collect(),
            gaps: gaps.lines().filter_map(row).collect(),
        }
    }
}

/// One clause, like `C22`. The contract may not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Clause {
    pub(super) letter: char,
    number: u8,
}

impl Clause {
    /// Returns whether the contract has it.
    pub(crate) fn exists(self) -> bool {
        CONTRACT.clauses.contains(&self)
    }

    /// Returns what is missing, if the contract lists the clause as a known gap.
    pub(super) fn gap(self) -> Option<&'static str> {
        CONTRACT.gaps.get(&self).map(String::as_str)
    }

    /// Parses `C22`, if the contract has that clause.
    pub(crate) fn known(id: &str) -> Option<Self> {
        Self::parse(id).filter(|clause| clause.exists())
    }

    /// Parses `C22`.
    fn parse(id: &str) -> Option<Self> {
        let letter = id.chars().next().filter(char::is_ascii_uppercase)?;
        let is_clause = id[1..].bytes().all(|byte| byte.is_ascii_digit());
        is_clause.then(|| id[1..].parse().ok()).flatten().map(|number| Self { letter, number })
    }

    /// Parses `c22`, as a case's name says it. Only the letters of the contract are valid.
    fn of_case(id: &str) -> Option<Self> {
        let clause =
            id.starts_with(|first: char| first.is_ascii_lowercase()).then(|| id.to_ascii_uppercase());
        let clause = Self::parse(&clause?)?;
        CONTRACT.clauses.iter().any(|known| known.letter == clause.letter).then_some(clause)
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{}{}", self.letter, self.number))
    }
}

/// Returns all clauses of the contract, in its order.
pub(super) fn all() -> impl Iterator<Item = Clause> {
    CONTRACT.clauses.iter().copied()
}

/// Returns the clauses at the beginning of a case's name, as in `c14_c15_one_release_wakes_one`.
pub(crate) fn clauses_of(function: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut rest = function;
    while let Some((id, next)) = rest.split_once('_') {
        let Some(clause) = Clause::of_case(id) else { break };
        clauses.push(clause);
        rest = next;
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::{Contract, all, clauses_of};

    fn written(function: &str) -> Vec<String> {
        clauses_of(function).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_begins_with_its_clauses() {
        assert_eq!(written("m2_fencing_token_grows"), ["M2"]);
        assert_eq!(written("c14_c15_one_release"), ["C14", "C15"]);
        assert_eq!(written("x3_not_ours"), [""; 0]);
        assert_eq!(written("close_drains"), [""; 0]);
        assert_eq!(written("c_zero"), [""; 0]);
        assert_eq!(written("é2_zero"), [""; 0]);
        assert_eq!(written("c7"), [""; 0]);
        assert!(!clauses_of("c31_too_many")[0].exists());
    }

    #[test]
    fn clauses_and_known_gaps_are_read_from_the_contract() {
        let text = "| # |\n| <a id=\"c1\"></a>C1 | one |\n| C2 | a row of no clause |\n\
                    ## Known gaps\n| C1 | half of it |\n";
        let contract = Contract::read(text);
        assert_eq!(contract.clauses, clauses_of("c1_"));
        assert_eq!(
            contract.gaps.into_iter().collect::<Vec<_>>(),
            [(contract.clauses[0], "half of it".to_owned())]
        );
    }

    #[test]
    fn the_contract_has_72_clauses() {
        assert_eq!(all().count(), 72);
        assert!(all().all(|clause| clause.exists()));
    }
}
