//! Shifts a server's wall clock while the server runs.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::servers::{ServerError, Supervisor, last_lines, temporary_folder};

const SOURCE: &str = include_str!("clock_shift.c");
const LIBRARY: &str = "clock_shift.so";
const SHIFT: &str = "shift";

/// The wall clock of the servers that are started with it; a test can shift it. Servers take it by
/// [`RedisOptions::clock`](crate::servers::RedisOptions::clock) and
/// [`PostgresOptions::clock`](crate::servers::PostgresOptions::clock).
///
/// It is the machine's clock plus a shift, at first zero. Monotonic clocks are not touched, as with
/// an administrator's step of the clock; nor is the machine's own clock. Servers with the same
/// `Clock` are shifted together, and a restart keeps the shift. Clones are the same clock.
///
/// Redis ends the waits of its clients (`BLPOP`) by this clock, too: a wait during which the clock
/// goes back lasts that much longer.
///
/// It is a small library that is compiled by `cc` when a clock is created, and preloaded into the
/// server. It needs Linux on a 64-bit machine and a dynamically linked server.
///
/// ```no_run
/// use std::time::Duration;
/// use stanchion_testbed::faults::Clock;
/// use stanchion_testbed::servers::{RedisOptions, RedisServer};
///
/// let clock = Clock::new()?;
/// let server = RedisServer::start(RedisOptions::default().clock(&clock))?;
/// clock.forward(Duration::from_secs(3600))?;
/// clock.back(Duration::from_secs(7200))?; // an hour behind the machine
/// # let _ = server;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Clock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shift: Mutex<i64>,
    file: File,
    folder: Supervisor,
}

impl Clock {
    /// Creates a clock without a shift. Compiling takes about 100 ms.
    ///
    /// # Errors
    ///
    /// [`ServerError::NoClock`] if there is no `cc`, or the platform is not 64-bit Linux;
    /// [`ServerError::Ended`] if the compiler fails; otherwise the system's error.
    pub fn new() -> Result<Self, ServerError> {
        if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
            return Err(ServerError::NoClock { reason: "preloading it needs Linux on a 64-bit machine" });
        }
        let folder = temporary_folder("clock")?;
        // The servers' account needs access.
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).map_err(io_error)?;
        compile(folder.path())?;
        let file = File::create(folder.path().join(SHIFT)).map_err(io_error)?;
        file.set_permissions(Permissions::from_mode(0o644)).map_err(io_error)?;
        file.write_all_at(&0_i64.to_ne_bytes(), 0).map_err(io_error)?;
        // It runs no server: it only removes the folder when this process ends, however it ends.
        let folder = Supervisor::new(folder, None, &[])?;
        Ok(Self(Arc::new(Inner { shift: Mutex::new(0), file, folder })))
    }

    /// Sets the shift in µs: ahead of the machine's clock, or behind it if negative. Servers see it
    /// at once.
    ///
    /// # Errors
    ///
    /// As writing 8 bytes to a file.
    pub fn set(&self, micros: i64) -> io::Result<()> {
        self.update(|_| Some(micros))
    }

    /// Moves the clock forward, by whole microseconds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the shift exceeds 64 bits of microseconds; otherwise as
    /// [`set`](Self::set).
    pub fn forward(&self, by: Duration) -> io::Result<()> {
        self.update(|shift| shift.checked_add(i64::try_from(by.as_micros()).ok()?))
    }

    /// Moves the clock back, by whole microseconds.
    ///
    /// # Errors
    ///
    /// As [`forward`](Self::forward).
    pub fn back(&self, by: Duration) -> io::Result<()> {
        self.update(|shift| shift.checked_sub(i64::try_from(by.as_micros()).ok()?))
    }

    /// Returns how many microseconds it is ahead of the machine's clock.
    pub fn shift(&self) -> i64 {
        *self.0.shift.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a program that is not started yet use this clock, too. The program must not be linked
    /// statically.
    pub fn shifts(&self, command: &mut Command) {
        command.envs(self.variables());
    }

    fn variables(&self) -> [(&'static str, PathBuf); 2] {
        let folder = self.0.folder.folder();
        [("LD_PRELOAD", folder.join(LIBRARY)), ("STANCHION_CLOCK_SHIFT", folder.join(SHIFT))]
    }

    /// Returns the words in front of a server's command line.
    pub(crate) fn launcher(&self) -> [OsString; 3] {
        let [library, shift] = self.variables().map(|(name, path)| {
            let mut variable = OsString::from(name);
            variable.push("=");
            variable.push(path);
            variable
        });
        ["env".into(), library, shift]
    }

    /// Checks that the server has loaded the library: the loader skips a library that it cannot
    /// load, with a warning.
    pub(crate) fn check(&self, pid: Option<u32>) -> Result<(), ServerError> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", pid.unwrap_or(0))).map_err(io_error)?;
        if maps.contains(LIBRARY) {
            return Ok(());
        }
        Err(ServerError::NoClock { reason: "the server was started without it; is it linked statically?" })
    }

    fn update(&self, change: impl FnOnce(i64) -> Option<i64>) -> io::Result<()> {
        let mut shift = self.0.shift.lock().unwrap_or_else(PoisonError::into_inner);
        let new = change(*shift).ok_or(ErrorKind::InvalidInput)?;
        // Eight aligned bytes in one write: the servers that have them mapped see either the old
        // number or the new one.
        self.0.file.write_all_at(&new.to_ne_bytes(), 0)?;
        *shift = new;
        Ok(())
    }
}

fn compile(folder: &Path) -> Result<(), ServerError> {
    let source = folder.join("clock_shift.c");
    fs::write(&source, SOURCE).map_err(io_error)?;
    let library = folder.join(LIBRARY);
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
        .arg(&library)
        .arg(&source)
        .env("LC_ALL", "C");
    let output = cc.output().map_err(|error| match error.kind() {
        ErrorKind::NotFound => ServerError::NoClock { reason: "compiling it needs `cc`" },
        _ => io_error(error),
    })?;
    if !output.status.success() {
        let log = last_lines(&String::from_utf8_lossy(&output.stderr));
        return Err(ServerError::Ended { program: "cc", log });
    }
    fs::set_permissions(&library, Permissions::from_mode(0o755)).map_err(io_error)
}

fn io_error(source: io::Error) -> ServerError {
    ServerError::Io { action: "make a clock to shift", source }
}
