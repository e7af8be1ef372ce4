//! Stores, and the program on them.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::sync::Once;
use std::time::Duration;
use std::{env, io};

use rustix::process::{Pid, Signal, kill_process};
use stanchion::Ticket;
use stanchion_testbed::faults::Process;
use stanchion_testbed::servers::{self, wait_until};
use tempfile::TempDir;

use crate::ledger::Ledger;

/// Longer than anything takes that is not stuck.
pub(crate) const FOR_EVER: Duration = Duration::from_secs(60);

/// How often each trial with a fault is made.
pub(crate) fn rounds() -> u32 {
    env::var("STANCHION_RUN_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

/// Makes a test of each function on each store, in as many rounds as the environment asks for.
macro_rules! on_each_store {
    ($($test:ident),+ $(,)?) => {
        mod redis {
            $(#[test]
            fn $test() {
                for _ in 0..crate::common::rounds() {
                    super::$test(&crate::common::Fixture::redis());
                }
            })+
        }

        mod postgres {
            $(#[test]
            fn $test() {
                for _ in 0..crate::common::rounds() {
                    super::$test(&crate::common::Fixture::postgres());
                }
            })+
        }
    };
}
pub(crate) use on_each_store;

/// A namespace of its own on a store, a name in it, and a ledger.
pub(crate) struct Fixture {
    pub(crate) url: String,
    pub(crate) name: String,
    pub(crate) ledger: Ledger,
    pub(crate) folder: TempDir,
}

impl Fixture {
    pub(crate) fn redis() -> Self {
        Self::at(servers::redis().unwrap().url())
    }

    pub(crate) fn postgres() -> Self {
        // Commands that only look do not make the schema. In a namespace of its own, of which this
        // notes what keeps the mutexes.
        static SCHEMA: Once = Once::new();
        let server = servers::postgres().unwrap().url();
        SCHEMA.call_once(|| assert_eq!(Self::at(server).code(&["wait-group", "NAME", "count"]), 0));
        Self::at(server)
    }

    /// Makes a namespace on a server.
    pub(crate) fn at(server: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let random = Ticket::random();
        let first = if server.contains('?') { '&' } else { '?' };
        Self {
            // A busy machine answers late; a renewal's limit is that of its lease.
            url: format!("{server}{first}namespace=t{random}&request_timeout_ms=10000"),
            name: format!("name {random}"),
            ledger: Ledger::new(folder.path()),
            folder,
        }
    }

    /// Returns the program with these arguments, of which `NAME` is the name.
    pub(crate) fn program(&self, arguments: &[&str]) -> Command {
        self.program_at(&self.url, arguments)
    }

    /// As [`program`](Self::program), by another way to the store.
    pub(crate) fn program_at(&self, url: &str, arguments: &[&str]) -> Command {
        // The program leaves signals ignored that its caller ignores, as a shell does for a job in
        // the background.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_stanchion")]);
        let arguments = arguments.iter().map(|word| if *word == "NAME" { &*self.name } else { word });
        command.args(arguments).env("STANCHION_URL", url).stdin(Stdio::null());
        command
    }

    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.program(arguments).output().unwrap()
    }

    /// Returns the exit code.
    pub(crate) fn code(&self, arguments: &[&str]) -> i32 {
        code_of(self.output(arguments).status)
    }

    /// Starts `run`, whose command is this shell code. Its standard error goes to a file.
    pub(crate) fn start(&self, options: &[&str], script: &str) -> Running {
        self.start_at(&self.url, options, script)
    }

    pub(crate) fn start_at(&self, url: &str, options: &[&str], script: &str) -> Running {
        let file = self.folder.path().join(format!("errors {}", Ticket::random()));
        let arguments = [&["run", "NAME"], options, &["--", "sh", "-c", script]].concat();
        let mut command = self.program_at(url, &arguments);
        command.stdout(Stdio::null()).stderr(fs::File::create(&file).unwrap());
        Running { process: Process::spawn(&mut command).unwrap(), errors: file }
    }

    /// Returns the processes of commands that run under the name, also those that left their group
    /// and session.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let variable = format!("STANCHION_NAME={}", self.name);
        let has_it =
            |environment: Vec<u8>| environment.split(|&byte| byte == 0).any(|one| one == variable.as_bytes());
        let program = env!("CARGO_BIN_EXE_stanchion");
        let mut found = Vec::new();
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let pid = process.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
            let is_ours = fs::read(process.path().join("environ")).is_ok_and(has_it)
                && fs::read_link(process.path().join("exe")).is_ok_and(|exe| exe.as_os_str() != program);
            found.extend(pid.filter(|_| is_ours));
        }
        found
    }

    /// Waits until no process of a command is left.
    pub(crate) fn wait_until_gone(&self) {
        let gone = wait_until(FOR_EVER, || self.processes().is_empty().then_some(()));
        assert!(gone.is_some(), "{:?} live on", self.processes());
    }

    /// Waits until this number of processes of the program waits for its turn.
    pub(crate) fn wait_for_waiters(&self, number: u64) {
        let wanted = format!("\"waiters\":{number}}}");
        let seen = wait_until(FOR_EVER, || {
            let output = self.output(&["inspect", "NAME", "--json"]);
            String::from_utf8(output.stdout).unwrap().contains(&wanted).then_some(())
        });
        assert!(seen.is_some(), "{:?}", self.output(&["inspect", "NAME"]));
    }
}

/// A `run` that was started.
pub(crate) struct Running {
    pub(crate) process: Process,
    errors: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(self.process.id().cast_signed()).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Waits for the end and returns the code that a shell shows.
    pub(crate) fn code(&mut self) -> i32 {
        self.status().map_or_else(|| panic!("it goes on: {}", self.errors()), code_of)
    }

    /// Waits for the end.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        self.process.wait(FOR_EVER).unwrap()
    }

    pub(crate) fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Waits for a text on standard error.
    pub(crate) fn wait_for_error(&self, text: &str) {
        let seen = wait_until(FOR_EVER, || self.errors().contains(text).then_some(()));
        assert!(seen.is_some(), "{}", self.errors());
    }

    /// Returns its supervisor.
    pub(crate) fn supervisor(&self) -> Pid {
        let child = wait_until(FOR_EVER, || {
            let path = format!("/proc/{0}/task/{0}/children", self.process.id());
            fs::read_to_string(path).ok()?.split_whitespace().next()?.parse().ok()
        });
        Pid::from_raw(child.expect("a supervisor")).unwrap()
    }
}

/// Returns the code that a shell shows: of a process that a signal ended 128 and its number.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap()
}

/// Returns the state of a process, as `ps` shows it.
pub(crate) fn state(pid: Pid) -> io::Result<char> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()))?;
    let state = stat.rsplit_once(") ").and_then(|(_, fields)| fields.chars().next());
    state.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Returns standard output as text.
pub(crate) fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns standard error as text.
pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
