//! The memory use of another process.

use std::fmt;
use std::fs;
use std::io;

/// A process's memory as the system reports it, in KiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Memory {
    resident: u64,
    peak: u64,
}

impl Memory {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let fields = field("VmRSS:").zip(field("VmHWM:"));
        let (resident, peak) = fields.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { resident, peak })
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mebibytes = |kibibytes: u64| format!("{}.{}", kibibytes / 1024, kibibytes % 1024 * 10 / 1024);
        write!(f, "{} MiB ({} at most)", mebibytes(self.resident), mebibytes(self.peak))
    }
}
