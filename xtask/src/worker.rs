//! The program of the workers that the campaign starts.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use crate::test::programs::{build, workspace};
use crate::workspace::in_its_own_session;

/// The name of its target.
pub(crate) const NAME: &str = "fault-worker";

/// Where it is.
#[derive(Clone, Debug)]
pub(crate) struct Worker(pub(crate) PathBuf);

impl Worker {
    /// Builds it as the tests do, so that neither builds the dependencies of the other again; `None` if that fails.
    pub(crate) fn build() -> io::Result<Option<Self>> {
        let mut command = workspace("build");
        command.args(["--bin", NAME]);
        Ok(build(command)?.and_then(|built| built.worker).map(Self))
    }

    /// What runs it, without its arguments.
    pub(crate) fn command(&self) -> Command {
        in_its_own_session(&self.0)
    }
}
