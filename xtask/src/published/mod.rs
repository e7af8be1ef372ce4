//! What users see of the published crates: their documentation and their public interface.

mod api;
mod clauses;
mod examples;
mod links;
mod readme;
pub(crate) mod release;
mod rust_versions;

use std::fs;
use std::path::{Path, PathBuf};

use rustdoc_types::{Crate, FORMAT_VERSION};
use serde::Deserialize;

use crate::Outcome;
use crate::workspace::{FEATURES, cargo, root, target};

/// A package that is published.
#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    features: std::collections::BTreeMap<String, Vec<String>>,
    publish: Option<Vec<String>>,
    targets: Vec<Target>,
    /// The oldest compiler that builds it.
    rust_version: Option<String>,
}

/// A part of a package that is built.
#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
}

impl Package {
    fn folder(&self) -> &Path {
        self.manifest_path.parent().unwrap_or(root())
    }

    /// Returns whether it has a library: a package of a program alone has no public interface.
    fn has_library(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"))
    }

    /// Returns the name of its library.
    fn library(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// The documentation of a published crate.
struct Documented {
    package: Package,
    /// The file that rustdoc wrote.
    file: PathBuf,
    docs: Crate,
}

/// Checks the documentation of the published crates. Returns `true` if there is no problem.
pub(crate) fn check_docs() -> Outcome {
    let crates = document()?;
    let mut problems = examples::missing(&crates);
    for documented in &crates {
        problems.extend(clauses::without_link(documented));
        problems.extend(without_features(&documented.package)?);
    }
    problems.extend(links::broken(&packages()?)?);
    problems.extend(readme::broken(&packages()?)?);
    for problem in &problems {
        println!("problem: {problem}");
    }
    println!("{} crates, {} problems", crates.len(), problems.len());
    Ok(problems.is_empty())
}

/// Returns a problem if docs.rs, which builds with `docsrs`, would not show which items a feature
/// adds.
fn without_features(package: &Package) -> std::io::Result<Option<String>> {
    let root = fs::read_to_string(package.folder().join("src/lib.rs"))?;
    let shows = package.features.is_empty() || root.contains("#![cfg_attr(docsrs, feature(doc_cfg))]");
    Ok((!shows).then(|| format!("the documentation of {} does not show its features", package.name)))
}

/// Compares the public interfaces with the listings in the repository; `write` writes the listings
/// instead. Returns `true` if they agree.
pub(crate) fn check_api(write: bool) -> Outcome {
    api::check(&document()?, write)
}

/// Returns the packages that are published.
fn packages() -> Result<Vec<Package>, Box<dyn std::error::Error>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = cargo(&["metadata", "--locked", "--no-deps", "--format-version=1"]).output()?;
    let mut packages = serde_json::from_slice::<Metadata>(&output.stdout)?.packages;
    packages.retain(|package| package.publish.as_ref().is_none_or(|registries| !registries.is_empty()));
    packages.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(packages)
}

/// Runs rustdoc, and reads what it wrote.
fn document() -> Result<Vec<Documented>, Box<dyn std::error::Error>> {
    let status = cargo(&["doc", "--quiet", "--locked", "--workspace", "--no-deps", "--lib", FEATURES])
        .env("RUSTDOC", root().join("xtask/src/published/rustdoc.sh"))
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cfg docsrs")
        .status()?;
    if !status.success() {
        return Err("rustdoc failed".into());
    }
    let folder = target()?.join("doc");
    let read = |package: Package| {
        let file = folder.join(format!("{}.json", package.library()));
        let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let docs = serde_json::from_slice(&text).map_err(|error| {
            format!("{}: {error}; this program reads format {FORMAT_VERSION}", file.display())
        })?;
        Ok(Documented { package, file, docs })
    };
    packages()?.into_iter().filter(Package::has_library).map(read).collect()
}

/// Runs rustdoc on a small source.
#[cfg(test)]
fn documented(name: &str, source: &str) -> Crate {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lib.rs");
    fs::write(&file, source).unwrap();
    let status = std::process::Command::new(root().join("xtask/src/published/rustdoc.sh"))
        .args(["--edition=2024", "--crate-type=lib", "-Zunstable-options", "--output-format=json"])
        .arg(format!("--crate-name={name}"))
        .arg("-o")
        .args([folder.path(), &file])
        .status()
        .unwrap();
    assert!(status.success());
    serde_json::from_slice(&fs::read(folder.path().join(format!("{name}.json"))).unwrap()).unwrap()
}
