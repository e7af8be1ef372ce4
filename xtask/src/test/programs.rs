//! The test programs: built by one call of cargo, which prints their paths.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Deserialize;

use crate::workspace::{FEATURES, cargo, in_its_own_session};

/// The built programs that a test run needs.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) programs: Vec<Program>,
    /// The program of the campaign's workers.
    pub(crate) worker: Option<PathBuf>,
}

/// A program of tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    /// The folder of its package, in which it runs.
    pub(crate) folder: PathBuf,
    /// The name of its package.
    pub(crate) package: String,
    /// The name of its target: `it`, or the crate's name for unit tests.
    pub(crate) target: String,
}

impl Program {
    /// Returns the name to print: `backend-redis/it`.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.package_folder(), self.target)
    }

    /// Returns the last part of its package's folder.
    pub(crate) fn package_folder(&self) -> &str {
        self.folder.file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }

    /// Returns a command that runs it like `cargo test`.
    pub(crate) fn command(&self) -> Command {
        let mut command = in_its_own_session(&self.path);
        command.current_dir(&self.folder);
        command.env("CARGO_MANIFEST_DIR", &self.folder).env("CARGO_PKG_NAME", &self.package);
        command
    }

    /// Returns the names of its tests, in the order in which it runs them.
    pub(crate) fn list(&self) -> io::Result<Vec<String>> {
        let output = self.command().args(["--list", "--format", "terse"]).output()?;
        if !output.status.success() {
            return Err(io::Error::other(format!("{} cannot list its tests", self.name())));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// Cargo's message about a built artifact.
#[derive(Debug, Deserialize)]
struct Artifact {
    executable: Option<PathBuf>,
    manifest_path: PathBuf,
    profile: Profile,
    target: Target,
    package_id: String,
}

#[derive(Debug, Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
}

impl Built {
    fn add(&mut self, artifact: Artifact) {
        let Some(path) = artifact.executable else { return };
        if artifact.profile.test {
            let folder = artifact.manifest_path.parent().unwrap_or(Path::new(".")).to_owned();
            let package = package_name(&artifact.package_id).to_owned();
            self.programs.push(Program { path, folder, package, target: artifact.target.name });
        } else if artifact.target.name == crate::worker::NAME {
            self.worker = Some(path);
        }
    }
}

/// Returns the name in `path+file:///src/core#stanchion-core@0.1.0`, or in `…/core#0.1.0` if folder
/// and package have the same name.
fn package_name(id: &str) -> &str {
    let (path, rest) = id.rsplit_once('#').unwrap_or(("", id));
    match rest.split_once('@') {
        Some((name, _)) => name,
        None => path.rsplit('/').next().unwrap_or(path),
    }
}

/// Returns `cargo COMMAND` for the whole workspace, with the features that the tests need.
pub(crate) fn workspace(command: &str) -> Command {
    let mut cargo = cargo(&[command, "--locked", "--workspace", FEATURES]);
    cargo.stdin(Stdio::null());
    cargo
}

/// Builds the test programs and the programs that they start; `None` if the build fails.
pub(crate) fn build(mut command: Command) -> io::Result<Option<Built>> {
    let mut child = command.arg("--message-format=json-render-diagnostics").stdout(Stdio::piped()).spawn()?;
    let messages = child.stdout.take().map(BufReader::new);
    let mut built = Built::default();
    for message in messages.into_iter().flat_map(BufRead::lines) {
        // Other messages have other fields.
        if let Ok(artifact) = serde_json::from_str(&message?) {
            built.add(artifact);
        }
    }
    Ok(child.wait()?.success().then_some(built))
}

/// Returns the programs of some packages, by name or by folder; all programs if no package is
/// given.
pub(crate) fn of_packages(programs: Vec<Program>, packages: &[String]) -> Result<Vec<Program>, String> {
    if packages.is_empty() {
        return Ok(programs);
    }
    let is_of = |program: &Program, package: &String| {
        program.package == *package || program.package_folder() == package
    };
    let unknown: HashSet<_> =
        packages.iter().filter(|package| !programs.iter().any(|program| is_of(program, package))).collect();
    if let Some(unknown) = unknown.into_iter().next() {
        return Err(format!("no tests in a package {unknown}"));
    }
    Ok(programs
        .into_iter()
        .filter(|program| packages.iter().any(|package| is_of(program, package)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEST: &str = r#"{"reason":"compiler-artifact","package_id":"path+file:///src/backend-redis#stanchion-redis@0.1.0","manifest_path":"/src/backend-redis/Cargo.toml","target":{"kind":["test"],"name":"it"},"profile":{"opt_level":"0","test":true},"executable":"/elsewhere/debug/deps/it-0a1b","fresh":true}"#;

    fn built(messages: &[String]) -> Built {
        let mut built = Built::default();
        messages.iter().for_each(|message| built.add(serde_json::from_str(message).unwrap()));
        built
    }

    #[test]
    fn a_test_program_is_known_by_its_package_wherever_it_is() {
        let library = TEST.replace("\"/elsewhere/debug/deps/it-0a1b\"", "null");
        let built = built(&[TEST.to_owned(), library]);
        let [program] = &built.programs[..] else { panic!("{built:?}") };
        assert_eq!(
            (program.name().as_str(), program.package.as_str()),
            ("backend-redis/it", "stanchion-redis")
        );
        assert_eq!(program.path, Path::new("/elsewhere/debug/deps/it-0a1b"));
    }

    #[test]
    fn the_worker_is_where_cargo_says() {
        let worker = TEST.replace("\"test\":true", "\"test\":false").replace("\"it\"", "\"fault-worker\"");
        let worker = worker.replace("deps/it-0a1b", "fault-worker");
        assert_eq!(built(&[worker]).worker.as_deref(), Some(Path::new("/elsewhere/debug/fault-worker")));
    }

    #[test]
    fn packages_are_named_or_refused() {
        let programs = built(&[TEST.to_owned()]).programs;
        for package in ["stanchion-redis", "backend-redis"] {
            assert_eq!(of_packages(programs.clone(), &[package.to_owned()]).unwrap().len(), 1);
        }
        assert!(of_packages(programs, &["redis".to_owned()]).is_err());
        assert_eq!(package_name("path+file:///src/stanchion#0.1.0"), "stanchion");
    }
}
