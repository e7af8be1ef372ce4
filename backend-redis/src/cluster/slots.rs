//! Maps a hash tag to its slot of a cluster.

/// Number of slots of a cluster.
const SLOTS: u16 = 16_384;
/// CRC-16/XMODEM, as in the specification of Redis Cluster.
const POLYNOMIAL: u16 = 0x1021;

/// Returns the slot of all keys with this hash tag, given without its braces.
pub(crate) fn slot(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0, |crc: u16, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ POLYNOMIAL }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::slot;

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot("123456789"), 0x31c3);
        assert_eq!(slot("a"), 15_495);
        assert_eq!(slot(""), 0);
    }
}
