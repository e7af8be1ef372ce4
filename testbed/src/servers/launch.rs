//! Common parts of starting any server: the port, the folder, and the wait for an answer.

use std::env;
use std::fs::{self, File, TryLockError};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::statvfs;
use tempfile::TempDir;

use super::error::ServerError;
use super::supervisor::Supervisor;
use super::wait::wait_until;

/// Time limit for a server to answer after its start, on a machine that is busy with other tests.
pub(super) const READY_LIMIT: Duration = Duration::from_secs(30);
/// Time limit of one attempt to get an answer, where another attempt follows.
pub(super) const ANSWER_LIMIT: Duration = Duration::from_secs(2);

const PORT_ATTEMPTS: usize = 64;
const START_ATTEMPTS: usize = 5;
const LOWEST_PORT: u16 = 15_000;

/// Runs `start` with a free port; retries with another port if another process took it first.
pub(super) fn on_free_port<T>(
    mut start: impl FnMut(u16) -> Result<T, ServerError>,
) -> Result<T, ServerError> {
    let mut attempts = 1;
    loop {
        let port = free_port().map_err(ServerError::io("find a free port"))?;
        match start(port) {
            Err(error) if error.is_port_taken() && attempts < START_ATTEMPTS => attempts += 1,
            result => return result,
        }
    }
}

/// The folder that Linux keeps in memory.
const MEMORY: &str = "/dev/shm";
/// Minimum free space in that folder. Containers have 64 MB, which some servers fill.
const MEMORY_ROOM: u64 = 4 << 30;

/// Creates a folder for one server; it is removed with the server.
///
/// The folder is in memory if there is enough space: concurrently starting servers would mostly
/// wait for a disk. A killed server loses no data by that. `TMPDIR` selects another place.
///
/// # Errors
/// If it cannot be created.
pub fn folder(server: &str) -> Result<TempDir, ServerError> {
    if !has_room_in_memory() {
        return folder_on_disk(server);
    }
    prefixed(server, |builder| builder.tempdir_in(MEMORY))
}

/// Creates a folder as [`folder`], on disk: in the system's folder of temporary files.
///
/// # Errors
/// If it cannot be created.
pub(super) fn folder_on_disk(server: &str) -> Result<TempDir, ServerError> {
    prefixed(server, |builder| builder.tempdir())
}

fn prefixed(
    server: &str,
    make: impl FnOnce(&tempfile::Builder<'_, '_>) -> io::Result<TempDir>,
) -> Result<TempDir, ServerError> {
    let prefix = format!("stanchion-{server}-");
    make(tempfile::Builder::new().prefix(&prefix)).map_err(ServerError::io("make a temporary folder"))
}

fn has_room_in_memory() -> bool {
    env::var_os("TMPDIR").is_none()
        && statvfs(MEMORY).is_ok_and(|there| there.f_bavail.saturating_mul(there.f_frsize) >= MEMORY_ROOM)
}

/// Starts the server, and waits until `answers` returns `true` for its process id.
pub(super) fn start(
    program: &'static str,
    supervisor: &Supervisor,
    mut answers: impl FnMut(u32) -> io::Result<bool>,
) -> Result<(), ServerError> {
    let pid = supervisor.start()?;
    let probe = || match answers(pid) {
        Ok(true) => Some(Ok(())),
        _ if !is_alive(pid) => Some(Err(ServerError::Ended { program, log: supervisor.log() })),
        _ => None,
    };
    wait_until(READY_LIMIT, probe)
        .unwrap_or_else(|| Err(ServerError::Silent { program, log: supervisor.log() }))
}

/// Opens a connection whose reads wait no longer than one attempt may take.
pub(super) fn connect(port: u16) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let stream = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT))?;
    Ok(stream)
}

/// Returns whether a process with this id exists and has not ended. A zombie has ended.
fn is_alive(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with(['Z', 'X']))
}

/// Returns a port without a listener, outside the range of outgoing connections.
///
/// A port in that range could be lost while its server is down: to any client's connection, or to a
/// client that connects to the dead server's port from the same port, and so to itself.
///
/// The port is reserved until this process ends: no other test takes it while its server is down.
pub(crate) fn free_port() -> io::Result<u16> {
    let setting = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for _ in 0..PORT_ATTEMPTS {
        let port = match server_ports(&setting) {
            Some(range) => rand::random_range(range),
            None => 0,
        };
        if port != 0 && !reserve(&env::temp_dir().join("stanchion-testbed-ports"), port) {
            continue;
        }
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Ok(listener) => return Ok(listener.local_addr()?.port()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The locks of ports that this process has taken.
static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// Takes a port for this process, by a file in a folder that all share; `false` if it is taken.
/// Where files cannot be locked, none is.
fn reserve(folder: &Path, port: u16) -> bool {
    let file = fs::create_dir_all(folder).and_then(|()| File::create(folder.join(port.to_string())));
    let Ok(file) = file else { return true };
    match file.try_lock() {
        Ok(()) => RESERVED.lock().unwrap_or_else(PoisonError::into_inner).push(file),
        Err(TryLockError::WouldBlock) => return false,
        Err(TryLockError::Error(_)) => {}
    }
    true
}

/// Returns the ports below the range of outgoing connections, if there are enough.
fn server_ports(outgoing: &str) -> Option<Range<u16>> {
    let first: u16 = outgoing.split_whitespace().next()?.parse().ok()?;
    (first > LOWEST_PORT + 1_000).then_some(LOWEST_PORT..first)
}

#[cfg(test)]
mod tests {
    use super::{reserve, server_ports};

    #[test]
    fn server_ports_end_below_the_outgoing_ones() {
        assert_eq!(server_ports("32768\t60999\n"), Some(15_000..32_768));
        assert_eq!(server_ports("1024 65535"), None);
        assert_eq!(server_ports(""), None);
    }

    #[test]
    fn a_port_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        assert!(reserve(folder.path(), 1) && !reserve(folder.path(), 1) && reserve(folder.path(), 2));
    }
}
