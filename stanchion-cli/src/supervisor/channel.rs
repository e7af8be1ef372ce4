//! The supervisor's end of the socket to its client, and the descriptor that comes over it.

use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::cmsg_space;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use super::protocol::{Order, Report};

/// Goes with the descriptor: a message of a stream has at least one byte.
const WITH_DESCRIPTOR: &[u8] = b"\n";

/// Sends a descriptor to the other end of a socket: the standard input of the command. The
/// supervisor's own is this socket.
pub(crate) fn send_descriptor(socket: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [descriptor];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&descriptors)) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    sendmsg(socket, &[IoSlice::new(WITH_DESCRIPTOR)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UnixStream,
    unread: Vec<u8>,
    descriptor: Option<OwnedFd>,
    is_closed: bool,
}

impl Channel {
    /// Takes the socket that is this process's standard input.
    pub(crate) fn on_stdin() -> io::Result<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        socket.set_nonblocking(true)?;
        Ok(Self { socket, unread: Vec::new(), descriptor: None, is_closed: false })
    }

    /// Returns whether the other end was closed, as it is when its process dies.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    pub(crate) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptor.take()
    }

    /// Sends a report. A client that has died reads none.
    pub(crate) fn send(&mut self, report: Report) {
        let _ = self.socket.write_all(format!("{report}\n").as_bytes());
    }

    /// Reads without waiting, and returns the orders that have come.
    pub(crate) fn receive(&mut self) -> Vec<Order> {
        while !self.is_closed {
            match self.read() {
                Ok(0) => self.is_closed = true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.is_closed = true,
            }
        }
        let Some(end) = self.unread.iter().rposition(|&byte| byte == b'\n') else { return Vec::new() };
        let rest = self.unread.split_off(end + 1);
        let lines = std::mem::replace(&mut self.unread, rest);
        let lines = String::from_utf8_lossy(&lines);
        lines.lines().filter_map(|line| line.parse().ok()).collect()
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut bytes = [0; 512];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let parts = &mut [IoSliceMut::new(&mut bytes)];
        let received = recvmsg(&self.socket, parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                self.descriptor = descriptors.next();
            }
        }
        self.unread.extend_from_slice(&bytes[..received.bytes]);
        Ok(received.bytes)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
