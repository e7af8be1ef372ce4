//! The test programs of a `cargo test`, built but not run.

use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const BUILD: [&str; 2] = ["--no-run", "--message-format=json-render-diagnostics"];

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Program {
    /// The folder of its package.
    pub(crate) folder: String,
    pub(crate) path: String,
}

impl Program {
    /// The name of its package's folder.
    pub(crate) fn package(&self) -> &str {
        last_part(&self.folder)
    }

    pub(crate) fn file_name(&self) -> &str {
        last_part(&self.path)
    }

    /// It, as `cargo` would start it.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.env("CARGO_MANIFEST_DIR", &self.folder).current_dir(Path::new(&self.folder));
        command
    }

    /// From a message of `cargo` about it. Examples are built too, and are none.
    fn read(message: &str) -> Option<Self> {
        let path = json_text(message, "executable")?.to_owned();
        let folder = json_text(message, "manifest_path")?.strip_suffix("/Cargo.toml")?.to_owned();
        let (_, profile) = message.split_once("\"profile\":{")?;
        let (profile, _) = profile.split_once('}')?;
        profile.contains("\"test\":true").then_some(Self { folder, path })
    }
}

/// Builds the test programs of a `cargo test`, without running them; `None` if they do not build.
pub(crate) fn programs(command: &mut Command) -> io::Result<Option<Vec<Program>>> {
    let mut child = command.args(BUILD).stdout(Stdio::piped()).spawn()?;
    let messages = child.stdout.take().map(BufReader::new);
    let messages = messages.into_iter().flat_map(BufRead::lines);
    let programs = messages.filter_map(|message| message.map(|message| Program::read(&message)).transpose());
    let programs = programs.collect::<io::Result<_>>()?;
    Ok(child.wait()?.success().then_some(programs))
}

fn last_part(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn json_text<'a>(message: &'a str, field: &str) -> Option<&'a str> {
    let (_, rest) = message.split_once(&format!("\"{field}\":\""))?;
    rest.split('"').next()
}

#[cfg(test)]
mod tests {
    use super::Program;

    const MESSAGE: &str = r#"{"reason":"compiler-artifact","manifest_path":"/src/backend-redis/Cargo.toml","target":{"name":"suite","test":true},"profile":{"opt_level":"0","test":true},"executable":"/src/target/debug/deps/suite-0a1b","fresh":true}"#;

    #[test]
    fn a_test_program_is_known_by_its_package() {
        let program = Program::read(MESSAGE).unwrap();
        assert_eq!((program.file_name(), program.package()), ("suite-0a1b", "backend-redis"));
        assert_eq!(program.folder, "/src/backend-redis");
    }

    #[test]
    fn what_is_built_beside_the_tests_is_none() {
        let library = MESSAGE.replace("\"/src/target/debug/deps/suite-0a1b\"", "null");
        assert_eq!(Program::read(&library), None);
        let example = MESSAGE.replace("\"0\",\"test\":true", "\"0\",\"test\":false");
        assert_eq!(Program::read(&example), None);
    }
}
