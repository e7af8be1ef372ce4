//! The signals that this process was started to ignore.

use std::fs;

use rustix::process::Signal;

/// A set of signals, as the kernel shows it: bit 0 is signal 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ignored(u64);

impl Ignored {
    /// Reads the set; empty where the kernel does not show it.
    pub(crate) fn read() -> Self {
        Self::parsed(&fs::read_to_string("/proc/self/status").unwrap_or_default())
    }

    fn parsed(status: &str) -> Self {
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        Self(line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default())
    }

    pub(crate) fn contains(self, signal: Signal) -> bool {
        self.0 >> (signal.as_raw() - 1) & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_bits_are_read() {
        let ignored = Ignored::parsed("Name:\tx\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n");
        assert!(ignored.contains(Signal::HUP) && ignored.contains(Signal::PIPE));
        assert!(!ignored.contains(Signal::INT));
        assert_eq!(Ignored::parsed(""), Ignored(0));
        // The standard library ignores it.
        assert!(Ignored::read().contains(Signal::PIPE));
    }
}
