//! A file that says how the run has ended: an exit code is the command's or this program's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;

use crate::exit::{Exit, Failure};
use crate::output::message;

/// The end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The command has exited, or a signal has ended it.
    Command(Exit),
    /// The command was not run, or not to its end.
    Here(Exit),
}

impl Ended {
    pub(crate) fn exit(self) -> Exit {
        match self {
            Self::Command(exit) | Self::Here(exit) => exit,
        }
    }
}

/// The file of `--exit-file`.
#[derive(Debug)]
pub(crate) struct ExitFile(PathBuf);

impl ExitFile {
    /// Removes the file that an earlier run has left, so that nobody takes it for this one's.
    pub(crate) fn begin(path: &Path) -> Result<Self, Failure> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::system("the exit file cannot be written")(error))
            }
            _ => Ok(Self(path.to_owned())),
        }
    }

    /// Writes the file as a whole.
    pub(crate) fn write(&self, done: &Result<Ended, Failure>) {
        let ended = done.as_ref().copied().unwrap_or_else(|failure| Ended::Here(failure.exit()));
        let mut partial = self.0.clone().into_os_string();
        partial.push(format!(".{}", process::id()));
        let written = fs::write(&partial, format!("{} {}\n", word(ended), ended.exit().code()));
        if let Err(error) = written.and_then(|()| fs::rename(&partial, &self.0)) {
            message(format_args!("the exit file could not be written: {error}"));
        }
    }
}

fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Command(_) => "command",
        Ended::Here(Exit::SKIPPED) => "skipped",
        Ended::Here(Exit::TIME_OVER) => "timeout",
        Ended::Here(Exit::LOST) => "lost",
        Ended::Here(Exit::NOT_EXECUTABLE | Exit::NOT_FOUND) => "not-started",
        Ended::Here(exit) if exit.code() > 128 => "interrupted",
        Ended::Here(_) => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_the_command_is_told_from_one_of_this_program() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exit");
        let file = ExitFile::begin(&path).unwrap();
        for (done, text) in [
            (Ok(Ended::Command(Exit::of(75))), "command 75\n"),
            (Ok(Ended::Command(Exit::signal(15))), "command 143\n"),
            (Ok(Ended::Here(Exit::SKIPPED)), "skipped 75\n"),
            (Ok(Ended::Here(Exit::TIME_OVER)), "timeout 124\n"),
            (Ok(Ended::Here(Exit::LOST)), "lost 125\n"),
            (Ok(Ended::Here(Exit::NOT_FOUND)), "not-started 127\n"),
            (Ok(Ended::Here(Exit::signal(2))), "interrupted 130\n"),
            (Err(Failure::Sessions), "failed 78\n"),
        ] {
            file.write(&done);
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        ExitFile::begin(&path).unwrap();
        assert!(!path.exists(), "that of an earlier run");
        assert!(ExitFile::begin(folder.path()).is_err());
    }
}
