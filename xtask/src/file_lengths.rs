//! Limits the length of source files.

use std::fs;
use std::process::Command;

use crate::Outcome;
use crate::workspace::root;

const RECONSIDERED: usize = 400;
const REFUSED: usize = 600;

/// Lists the long files of the repository. Returns `true` if none is too long.
pub(crate) fn check() -> Outcome {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.lua", "*.sql"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).trim().into());
    }
    let mut files = Vec::new();
    for path in String::from_utf8(listed.stdout)?.lines() {
        // A deleted file stays listed until the deletion is committed.
        if let Ok(text) = fs::read_to_string(root().join(path)) {
            files.push((text.lines().count(), path.to_owned()));
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
