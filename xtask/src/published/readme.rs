//! Does the program of a README build with the dependencies that the README names?

use std::error::Error;
use std::fs;

use super::Package;
use crate::workspace::{cargo, root, target};

/// Builds the programs of the READMEs, each as a package of its own. Returns the problems.
pub(super) fn broken(packages: &[Package]) -> Result<Vec<String>, Box<dyn Error>> {
    let mut problems = Vec::new();
    let mut seen = 0;
    for package in packages {
        let readme = fs::read_to_string(package.folder().join("README.md"))?;
        let (Some(dependencies), Some(program)) = (block(&readme, "toml"), block(&readme, "rust")) else {
            continue;
        };
        seen += 1;
        let folder = target()?.join("readmes").join(&package.name);
        fs::create_dir_all(folder.join("src"))?;
        let here = format!("path = \"{}", root().display());
        let manifest = format!(
            "[package]\nname = \"readme-of-{}\"\nedition = \"2024\"\n\n{}\n[workspace]\n",
            package.name,
            dependencies.replace("path = \"../stanchion", &here),
        );
        fs::write(folder.join("Cargo.toml"), manifest)?;
        fs::write(folder.join("src/main.rs"), program)?;
        // The versions that this workspace is tested with.
        fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))?;
        let manifest = folder.join("Cargo.toml");
        let mut build = cargo(&["check", "--quiet", "--offline", "--manifest-path"]);
        if !build.arg(manifest).env("CARGO_TARGET_DIR", target()?).status()?.success() {
            problems.push(format!("the program in the README of {} does not build", package.name));
        }
    }
    if seen < 2 {
        problems.push("the READMEs of stanchion and stanchion-tower have no program".to_owned());
    }
    Ok(problems)
}

/// Returns the first block of code in that language, without the lines that rustdoc hides.
fn block(text: &str, language: &str) -> Option<String> {
    let start = format!("```{language}");
    let begins =
        |line: &str| line.strip_prefix(&start).is_some_and(|rest| rest.is_empty() || rest.starts_with(','));
    let lines = text.lines().skip_while(|line| !begins(line)).skip(1);
    let code: Vec<_> = lines.take_while(|line| !line.starts_with("```")).collect();
    (!code.is_empty()).then(|| code.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_block_of_a_language_is_found() {
        let text = "a\n```toml\nx = 1\n```\n```rust,ignore\nfn main() {}\n```\n```rust\nfn other() {}\n```\n";
        assert_eq!(block(text, "toml").unwrap(), "x = 1\n");
        assert_eq!(block(text, "rust").unwrap(), "fn main() {}\n");
        assert_eq!(block(text, "sh"), None);
    }
}
