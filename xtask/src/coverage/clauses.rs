//! The clauses of the contract.

use std::fmt;

/// The letter of each kind of clause, and the number of its last clause.
const KINDS: [(char, u8); 6] = [('C', 26), ('M', 9), ('S', 8), ('W', 8), ('L', 11), ('B', 6)];

/// One clause, like `C22`. The contract may not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Clause {
    pub(super) letter: char,
    number: u8,
}

impl Clause {
    /// Returns whether the contract has it.
    pub(super) fn exists(self) -> bool {
        KINDS.iter().any(|&(letter, last)| letter == self.letter && (1..=last).contains(&self.number))
    }

    /// Parses `c22`. Only the letters of the contract are valid.
    fn parse(id: &str) -> Option<Self> {
        let letter = id.chars().next()?.to_ascii_uppercase();
        let is_clause = id.starts_with(|first: char| first.is_ascii_lowercase())
            && KINDS.iter().any(|kind| kind.0 == letter)
            && id[1..].bytes().all(|byte| byte.is_ascii_digit());
        is_clause.then(|| id[1..].parse().ok()).flatten().map(|number| Self { letter, number })
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&format!("{}{}", self.letter, self.number))
    }
}

/// Returns all clauses of the contract, in its order.
pub(super) fn all() -> impl Iterator<Item = Clause> {
    KINDS.into_iter().flat_map(|(letter, last)| (1..=last).map(move |number| Clause { letter, number }))
}

/// Returns the clauses at the beginning of a case's name, as in `c14_c15_one_release_wakes_one`.
pub(crate) fn clauses_of(function: &str) -> Vec<Clause> {
    let mut clauses = Vec::new();
    let mut rest = function;
    while let Some((id, next)) = rest.split_once('_') {
        let Some(clause) = Clause::parse(id) else { break };
        clauses.push(clause);
        rest = next;
    }
    clauses
}

#[cfg(test)]
mod tests {
    use super::{all, clauses_of};

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
        assert!(!clauses_of("c27_too_many")[0].exists());
    }

    #[test]
    fn the_contract_has_68_clauses() {
        assert_eq!(all().count(), 68);
        assert!(all().all(|clause| clause.exists()));
    }
}
