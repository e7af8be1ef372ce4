//! The supervisor alone, told by a test what its client would tell it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{self, Command, Stdio};

/// A signal that comes between the grant and the start of the command: it would have ended the command.
#[test]
fn a_signal_before_the_start_ends_what_was_not_begun() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("begun");
    let (mut own, other) = UnixStream::pair().unwrap();
    // Both are there when the supervisor reads for the first time.
    own.write_all(b"deadline 18446744073709551615\nsignal 2\n").unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_stanchion"))
        .args(["supervise-command", &format!("--parent={}", process::id()), "--lease=8000", "--", "touch"])
        .arg(&file)
        .stdin(Stdio::from(OwnedFd::from(other)))
        .spawn()
        .unwrap();
    let mut report = String::new();
    BufReader::new(own).read_line(&mut report).unwrap();
    assert_eq!(report, "killed 2 itself\n");
    assert!(child.wait().unwrap().success());
    assert!(!file.exists());
}
