//! The data folder of a Postgres: created once by `initdb`, which takes seconds, and copied for
//! every server.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use tempfile::TempDir;

use super::account::Account;
use super::error::ServerError;
use super::launch;
use super::supervisor::{Supervisor, last_lines};

/// The supervisor runs no server; it removes the folder at the end of this process.
static TEMPLATE: Mutex<Option<Supervisor>> = Mutex::new(None);

/// Creates a folder for one server, owned by the account that it runs as.
pub(super) fn folder(account: Option<Account>, on_disk: bool) -> Result<TempDir, ServerError> {
    let folder = if on_disk { launch::folder_on_disk("postgres") } else { launch::folder("postgres") }?;
    if let Some(account) = account {
        account.own(folder.path())?;
    }
    Ok(folder)
}

/// Puts an empty database into `folder` and returns its path.
pub(super) fn copy(programs: &Path, account: Option<Account>, folder: &Path) -> Result<PathBuf, ServerError> {
    let mut template = TEMPLATE.lock().unwrap_or_else(PoisonError::into_inner);
    let source = match &mut *template {
        Some(supervisor) => data(supervisor.folder()),
        none => data(none.insert(make_template(programs, account)?).folder()),
    };
    drop(template);
    let target = data(folder);
    run("cp", OsStr::new("cp"), &["-a".as_ref(), source.as_os_str(), target.as_os_str()], account, folder)?;
    Ok(target)
}

/// Puts a copy of a running server's present data into `folder`, with the settings of a standby.
/// Returns its path.
pub(super) fn copy_of(
    door: &Path,
    port: u16,
    programs: &Path,
    account: Option<Account>,
    folder: &Path,
) -> Result<PathBuf, ServerError> {
    let target = data(folder);
    let port = port.to_string();
    let arguments: [&OsStr; 11] = [
        "--host".as_ref(),
        door.as_os_str(),
        "--port".as_ref(),
        port.as_ref(),
        "--username=postgres".as_ref(),
        "--checkpoint=fast".as_ref(),
        "--wal-method=stream".as_ref(),
        "--write-recovery-conf".as_ref(),
        "--no-sync".as_ref(),
        "--pgdata".as_ref(),
        target.as_os_str(),
    ];
    let program = programs.join("pg_basebackup");
    run("pg_basebackup", program.as_os_str(), &arguments, account, folder)?;
    Ok(target)
}

/// Returns whether the lock file in `folder` says that the postmaster with this id accepts
/// connections.
pub(super) fn is_ready(folder: &Path, pid: u32) -> io::Result<bool> {
    let file = fs::read_to_string(data(folder).join("postmaster.pid"))?;
    let mut lines = file.lines().map(str::trim);
    Ok(lines.next() == Some(pid.to_string().as_str()) && lines.nth(6) == Some("ready"))
}

fn data(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn make_template(programs: &Path, account: Option<Account>) -> Result<Supervisor, ServerError> {
    let folder = folder(account, false)?;
    let target = data(folder.path());
    let initdb = programs.join("initdb");
    let options = ["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"];
    let arguments: Vec<&OsStr> = options.iter().map(OsStr::new).chain([target.as_os_str()]).collect();
    run("initdb", initdb.as_os_str(), &arguments, account, folder.path())?;
    Supervisor::new(folder, account, &[])
}

fn run(
    name: &'static str,
    program: &OsStr,
    arguments: &[&OsStr],
    account: Option<Account>,
    folder: &Path,
) -> Result<(), ServerError> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("LC_ALL", "C");
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    let output = command.output().map_err(ServerError::io("run a tool to make the database"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = [output.stdout, output.stderr].concat();
    Err(ServerError::Ended { program: name, log: last_lines(&String::from_utf8_lossy(&text)) })
}
