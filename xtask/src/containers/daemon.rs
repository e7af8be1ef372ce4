//! The Docker daemon: the machine's own if it answers, or else one that runs as long as this
//! command.

use std::env;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use stanchion_testbed::servers::install::{self, Package, Permission};
use stanchion_testbed::servers::wait_until;

const RIGHT: &str = include_str!("right.sh");
const DAEMON: &str = include_str!("daemon.sh");
const FIRST: &str = include_str!("first.sh");
const USUAL_SOCKET: &str = "/var/run/docker.sock";

const READY_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(2);

type Failed = Box<dyn std::error::Error>;

/// A daemon that answers.
#[derive(Debug)]
pub(super) struct Daemon {
    socket: PathBuf,
    /// The shell that ends our own daemon and cleans up.
    shell: Option<Child>,
}

/// The result of looking for a daemon.
#[derive(Debug)]
pub(super) enum Found {
    Daemon(Daemon),
    /// No daemon answers, and this process has no right to start one, for this reason.
    NoRight(String),
}

impl Daemon {
    /// Finds the daemon of this machine, or starts our own. Installs missing packages.
    pub(super) fn find() -> Result<Found, Failed> {
        let socket = usual_socket();
        if answers(&socket) {
            println!("the Docker daemon at {} answers", socket.display());
            // On older systems the client is in the package of the daemon.
            install(Package::DockerClient).or_else(|_| install(Package::Docker))?;
            return Ok(Found::Daemon(Self { socket, shell: None }));
        }
        if let Err(reason) = right() {
            return Ok(Found::NoRight(reason));
        }
        install(Package::Docker)?;
        install(Package::DockerClient)?;
        Self::start()
    }

    /// Creates a folder for scripts; it is removed with our own daemon.
    pub(super) fn folder(&self) -> Result<PathBuf, Failed> {
        match self.socket.parent() {
            Some(folder) if !self.is_of_others() => {
                let folder = folder.join("image");
                fs::create_dir(&folder)?;
                Ok(folder)
            }
            _ => temporary_folder("image"),
        }
    }

    /// Returns whether the daemon is not our own.
    pub(super) fn is_of_others(&self) -> bool {
        self.shell.is_none()
    }

    /// Makes a command use this daemon.
    pub(super) fn with<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.env("DOCKER_HOST", format!("unix://{}", self.socket.display()))
    }

    /// Returns a command of the Docker client for this daemon.
    pub(super) fn docker(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("docker");
        self.with(command.args(arguments));
        command
    }

    fn start() -> Result<Found, Failed> {
        let folder = temporary_folder("docker")?;
        let shell = Command::new("sh")
            .args(["-c", DAEMON, "daemon"])
            .arg(&folder)
            .args([FIRST, &room()])
            // A Ctrl-C in the terminal is for this process; the shell acts when this process has
            // ended.
            .process_group(0)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut daemon = Self { socket: folder.join("docker.sock"), shell: Some(shell) };
        let ready = wait_until(READY_LIMIT, || {
            let ended = daemon.shell.as_mut().is_none_or(|shell| !matches!(shell.try_wait(), Ok(None)));
            (ended || answers(&daemon.socket)).then_some(!ended)
        });
        if ready == Some(true) {
            println!("no Docker daemon answered; one runs in {}", folder.display());
            return Ok(Found::Daemon(daemon));
        }
        let errors = daemon.shell.as_mut().and_then(|shell| {
            shell.stdin = None;
            shell.stderr.take()
        });
        let mut reason = String::new();
        errors.map(|mut errors| errors.read_to_string(&mut reason)).transpose()?;
        let reason = one_line(&reason);
        if is_about_rights(&reason) { Ok(Found::NoRight(reason)) } else { Err(reason.into()) }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(shell) = &mut self.shell {
            shell.stdin = None;
            let _ = shell.wait();
        }
    }
}

/// Installs a package if it is missing.
pub(super) fn install(package: Package) -> Result<(), Failed> {
    install::ensure_of(&[package], Permission::Install, |command| {
        println!("installing what is missing: {command}");
    })?;
    Ok(())
}

/// Creates an empty folder for a script, which removes it.
fn temporary_folder(name: &str) -> Result<PathBuf, Failed> {
    let output = Command::new("mktemp").args(["-d", "-t", &format!("stanchion-{name}-XXXXXX")]).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}

/// Returns how much memory files may take, in the form for `mount`; `disk` if there is little
/// memory.
pub(super) fn room() -> String {
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if available_mib(&memory) > 6_000 { "2g".to_owned() } else { "disk".to_owned() }
}

fn available_mib(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1_024
}

/// Returns the default socket of clients.
fn usual_socket() -> PathBuf {
    let named = env::var("DOCKER_HOST").ok();
    let path = named.as_deref().and_then(|host| host.strip_prefix("unix://"));
    path.unwrap_or(USUAL_SOCKET).into()
}

fn answers(socket: &Path) -> bool {
    let ask = || {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        std::io::Result::Ok(answer)
    };
    ask().is_ok_and(|answer| answer.ends_with("OK"))
}

/// Checks whether a daemon can run here; the error is the reason why not.
fn right() -> Result<(), String> {
    let output = Command::new("sh").args(["-c", RIGHT, "right"]).stdin(Stdio::null()).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(one_line(&String::from_utf8_lossy(&output.stderr))) }
}

pub(super) fn one_line(text: &str) -> String {
    text.trim().replace('\n', "; ")
}

/// Returns whether the kernel refused, and not the daemon or an image.
pub(super) fn is_about_rights(reason: &str) -> bool {
    let reason = reason.to_lowercase();
    let refusals = ["operation not permitted", "permission denied", "read-only file system"];
    refusals.iter().any(|words| reason.contains(words))
}

#[cfg(test)]
mod tests {
    use super::{available_mib, is_about_rights};

    #[test]
    fn a_lack_of_rights_is_told_from_other_faults() {
        assert!(is_about_rights("runc: error mounting \"proc\": Operation not permitted: unknown"));
        assert!(!is_about_rights("exec: \"true\": executable file not found in $PATH"));
    }

    #[test]
    fn free_memory_is_what_the_kernel_would_give() {
        assert_eq!(available_mib("MemTotal:  9 kB\nMemFree: 8 kB\nMemAvailable:   2097152 kB\n"), 2_048);
        assert_eq!(available_mib(""), 0);
    }
}
