//! Limits the length of source files.

use std::fs;

use crate::Outcome;
use crate::sources;
use crate::workspace::root;

const RECONSIDERED: usize = 400;
const REFUSED: usize = 600;

/// Lists the long files of the repository. Returns `true` if none is too long.
pub(crate) fn check() -> Outcome {
    let mut files = Vec::new();
    for path in sources::listed()? {
        // A deleted file stays listed until the deletion is committed.
        if let Ok(text) = fs::read_to_string(root().join(&path)) {
            files.push((text.lines().count(), path));
        }
    }
    files.sort_unstable_by(|a, b| b.cmp(a));
    for (lines, path) in files.iter().take_while(|(lines, _)| *lines > RECONSIDERED) {
        let verdict = if *lines > REFUSED { "too long" } else { "long" };
        println!("{lines:>5}  {path}  {verdict}");
    }
    println!("{} files; {RECONSIDERED} lines are long, more than {REFUSED} too long", files.len());
    Ok(files.iter().all(|(lines, _)| *lines <= REFUSED))
}
