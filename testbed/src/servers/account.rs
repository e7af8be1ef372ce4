//! The user that Postgres runs as when the tests run as root, which Postgres refuses to be.

use std::fs;
use std::os::unix::fs::chown;
use std::path::Path;

use super::error::ServerError;

/// The numbers of a user and its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account {
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Account {
    /// Returns the account to switch to: `postgres`, or else `nobody`, if this process is root;
    /// otherwise `None`.
    pub(super) fn for_postgres() -> Result<Option<Self>, ServerError> {
        if !is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").map_err(ServerError::io("read /etc/passwd"))?;
        let account = Self::named(&accounts, "postgres").or_else(|| Self::named(&accounts, "nobody"));
        account.map(Some).ok_or(ServerError::NoAccount)
    }

    /// Makes this account the owner of `path`.
    pub(super) fn own(self, path: &Path) -> Result<(), ServerError> {
        chown(path, Some(self.uid), Some(self.gid)).map_err(ServerError::io("hand over the server's folder"))
    }

    fn named(accounts: &str, name: &str) -> Option<Self> {
        let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some(Self { uid: fields.next()?.parse().ok()?, gid: fields.next()?.parse().ok()? })
    }
}

/// Returns whether this process runs as root.
pub(super) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    // Real, effective, saved and file system user, in this order.
    uids.and_then(|uids| uids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let accounts =
            "root:x:0:0:root:/root:/bin/sh\npostgres2:x:7:8::/:/bin/sh\npostgres:x:101:104:,,,:/:/bin/sh\n";
        assert_eq!(Account::named(accounts, "postgres"), Some(Account { uid: 101, gid: 104 }));
        assert_eq!(Account::named(accounts, "nobody"), None);
    }
}
