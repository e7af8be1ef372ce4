//! Do the links in the packaged texts lead somewhere?

use std::fs;
use std::io;
use std::path::Path;

use super::Package;

/// Returns the links that break: rustdoc and the registry render a README far from the files beside
/// it, so that only links to the web, to items and to headings of the same text work there.
pub(super) fn broken(packages: &[Package]) -> io::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in packages {
        let mut texts = vec![package.folder().join("README.md")];
        markdown(&package.folder().join("src"), &mut texts)?;
        for path in texts {
            match fs::read_to_string(&path) {
                Ok(text) => {
                    problems.extend(broken_in(&text).map(|link| format!("{}: {link}", path.display())))
                }
                Err(error) => problems.push(format!("{}: {error}", path.display())),
            }
        }
    }
    Ok(problems)
}

/// Adds the markdown files of a folder and of its subfolders.
fn markdown(folder: &Path, found: &mut Vec<std::path::PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            markdown(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(())
}

fn broken_in(text: &str) -> impl Iterator<Item = &str> {
    let starts = text.match_indices("](").map(|(at, start)| at + start.len());
    let links = starts.filter_map(|at| text[at..].split(')').next());
    links.filter(|link| match link.strip_prefix('#') {
        Some(anchor) => !text.lines().any(|line| is_heading(line, anchor)),
        None => !link.contains("://") && !link.starts_with("mailto:") && !is_item(link),
    })
}

/// Returns whether a line is the heading with that anchor.
fn is_heading(line: &str, anchor: &str) -> bool {
    let heading = line.trim_start_matches('#');
    let is_kept = |letter: &char| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_');
    let own: String = heading.trim().chars().filter(is_kept).collect();
    heading.len() < line.len() && own.to_lowercase().replace(' ', "-") == anchor
}

/// Returns whether a link is the path of an item, which rustdoc checks.
fn is_item(link: &str) -> bool {
    let path = link.split('#').next().unwrap_or(link);
    path.contains("::") || ["crate", "self", "super"].contains(&path)
}

#[cfg(test)]
mod tests {
    use super::broken_in;

    #[test]
    fn a_link_leads_to_the_web_an_item_or_a_heading() {
        let text = "# What no lock can do\n[a](https://x.y) [b](crate::guide) [c](#what-no-lock-can-do) \
                    [d](CHANGELOG.md) [e](#nowhere)";
        assert_eq!(broken_in(text).collect::<Vec<_>>(), ["CHANGELOG.md", "#nowhere"]);
    }
}
