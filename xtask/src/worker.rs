//! The program of the campaign's workers.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::test::programs::{build, workspace};
use crate::workspace::in_its_own_session;

/// The name of the program's target.
pub(crate) const NAME: &str = "fault-worker";

/// The path of the program.
#[derive(Clone, Debug)]
pub(crate) struct Worker(pub(crate) PathBuf);

impl Worker {
    /// Builds the program with the same settings as the tests, so that the two builds share
    /// dependencies; `None` if the build fails.
    pub(crate) fn build() -> io::Result<Option<Self>> {
        let mut command = workspace("build");
        command.args(["--bin", NAME]);
        Ok(build(command)?.and_then(|built| built.worker).map(Self))
    }

    /// Returns the command that runs it, without arguments.
    pub(crate) fn command(&self) -> Command {
        in_its_own_session(&self.0)
    }
}
