//! Payloads that identify themselves.

use std::io::Write;

/// Appends payload `number` of a connection: its `id` and `bytes` bytes of data, which follow from
/// the id.
pub(crate) fn push(text: &mut Vec<u8>, connection: u32, number: usize, bytes: usize) {
    // Writing to memory does not fail.
    let _ = write!(text, "{{\"id\":\"{connection}-{number}\",\"data\":\"");
    let mut state = (u64::from(connection) << 40) ^ number as u64;
    text.extend((0..bytes).map(|_| {
        // Knuth's linear congruential generator (MMIX).
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        b'a' + (state >> 60) as u8
    }));
    text.extend_from_slice(b"\"}");
}

/// Returns the connection and the number that a stored line names.
pub(crate) fn identity(line: &[u8]) -> Option<(usize, usize)> {
    let rest = line.strip_prefix(b"{\"id\":\"")?;
    let id = rest.split(|byte| *byte == b'"').next()?;
    let (connection, number) = std::str::from_utf8(id).ok()?.split_once('-')?;
    Some((connection.parse().ok()?, number.parse().ok()?))
}
