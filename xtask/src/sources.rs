//! The source files of the repository.

use std::process::Command;

use crate::workspace::root;

/// Returns the paths of all files of Rust, Lua and SQL that git knows or would add.
pub(crate) fn listed() -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.lua", "*.sql"])
        .current_dir(root())
        .output()?;
    if !listed.status.success() {
        return Err(String::from_utf8_lossy(&listed.stderr).trim().into());
    }
    Ok(String::from_utf8(listed.stdout)?.lines().map(str::to_owned).collect())
}
