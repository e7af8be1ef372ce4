//! A resource guarded by mutexes: it refuses writes with a token that is too small (M9).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use stanchion_core::{FencingToken, Ticket};

/// A file that all workers share, guarded by a mutex of the store. A write takes the file's lock.
#[derive(Debug)]
pub struct Register(File);

/// The result of a write to a [`Register`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Taken, with this sequence number.
    Yes(u64),
    /// Refused.
    No,
    /// Another writer has the file locked.
    Busy,
}

const SIZE: usize = 32;

impl Register {
    /// Opens the register in `path`. Creates the file if it is missing.
    ///
    /// # Errors
    /// As opening a file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// Writes with a token. Refuses a token smaller than the largest so far, and the same token
    /// from another ticket.
    ///
    /// # Errors
    /// As reading and writing a file.
    pub fn write(&self, token: FencingToken, ticket: Ticket) -> io::Result<Written> {
        match self.0.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Written::Busy),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let written = self.write_locked(token.get(), ticket.as_u128());
        self.0.unlock()?;
        written
    }

    fn write_locked(&self, token: u64, ticket: u128) -> io::Result<Written> {
        let mut state = [0; SIZE];
        let there = self.0.read_at(&mut state, 0)? == SIZE;
        let (largest, rest) = state.split_at(8);
        let (owner, sequence) = rest.split_at(16);
        let largest = u64::from_le_bytes(largest.try_into().unwrap_or_default());
        let owner = u128::from_le_bytes(owner.try_into().unwrap_or_default());
        let sequence = u64::from_le_bytes(sequence.try_into().unwrap_or_default());
        if there && (token < largest || (token == largest && ticket != owner)) {
            return Ok(Written::No);
        }
        let mut next = [0; SIZE];
        next[..8].copy_from_slice(&token.to_le_bytes());
        next[8..24].copy_from_slice(&ticket.to_le_bytes());
        next[24..].copy_from_slice(&(sequence + 1).to_le_bytes());
        self.0.write_all_at(&next, 0)?;
        Ok(Written::Yes(sequence + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn m9_a_smaller_token_is_refused_and_so_is_another_ticket_with_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("register");
        let (one, other) = (Register::open(&path).unwrap(), Register::open(&path).unwrap());
        let token = |token| FencingToken::new(token).unwrap();
        let (a, b) = (Ticket::from(1), Ticket::from(2));
        assert_eq!(one.write(token(5), a).unwrap(), Written::Yes(1));
        assert_eq!(other.write(token(5), a).unwrap(), Written::Yes(2));
        assert_eq!(other.write(token(5), b).unwrap(), Written::No);
        assert_eq!(other.write(token(4), a).unwrap(), Written::No);
        assert_eq!(other.write(token(6), b).unwrap(), Written::Yes(3));
        assert_eq!(one.write(token(5), a).unwrap(), Written::No);
        one.0.lock().unwrap();
        assert_eq!(other.write(token(7), b).unwrap(), Written::Busy);
    }
}
