//! A file that says how the run has ended: an exit code is the command's or this program's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::OnceLock;

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

/// The file of `--exit-file`. This program has one end, wherever that is.
static FILE: OnceLock<PathBuf> = OnceLock::new();

/// Removes the file that an earlier run has left, so that nobody takes it for this one's.
pub(crate) fn begin(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Failure::system("the exit file cannot be written")(error))
        }
        _ => {
            let _ = FILE.set(path.to_owned());
            Ok(())
        }
    }
}

/// Writes the file, if there is one.
pub(crate) fn write(ended: Ended) {
    let Some(path) = FILE.get() else { return };
    if let Err(error) = write_to(path, ended) {
        message(format_args!("the exit file could not be written: {error}"));
    }
}

/// Writes a file as a whole.
fn write_to(path: &Path, ended: Ended) -> io::Result<()> {
    let mut partial = path.to_owned().into_os_string();
    partial.push(format!(".{}", process::id()));
    fs::write(&partial, format!("{} {}\n", word(ended), ended.exit().code()))?;
    fs::rename(&partial, path)
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
        for (ended, text) in [
            (Ended::Command(Exit::of(75)), "command 75\n"),
            (Ended::Command(Exit::signal(15)), "command 143\n"),
            (Ended::Here(Exit::SKIPPED), "skipped 75\n"),
            (Ended::Here(Exit::TIME_OVER), "timeout 124\n"),
            (Ended::Here(Exit::LOST), "lost 125\n"),
            (Ended::Here(Exit::NOT_FOUND), "not-started 127\n"),
            (Ended::Here(Exit::signal(2)), "interrupted 130\n"),
            (Ended::Here(Failure::Sessions.exit()), "failed 78\n"),
        ] {
            write_to(&path, ended).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert!(begin(folder.path()).is_err(), "a folder cannot be replaced");
        begin(&path).unwrap();
        assert!(!path.exists(), "that of an earlier run");
    }
}
