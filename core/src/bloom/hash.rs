//! From an item to its positions.

use xxhash_rust::xxh3::xxh3_128;

use super::Shape;

impl Shape {
    /// The positions of an item, as many as there are hashes, in order; some may be equal.
    #[inline]
    pub fn positions(&self, item: &[u8]) -> impl Iterator<Item = u64> + Clone + use<> {
        let (first, step) = halves(xxh3_128(item));
        let bits = self.bits();
        (0..u64::from(self.hashes())).map(move |i| scale(mix(first.wrapping_add(i.wrapping_mul(step))), bits))
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the two halves")]
fn halves(hash: u128) -> (u64, u64) {
    (hash as u64, (hash >> 64) as u64)
}

/// The finalizer of `SplitMix64`.
#[inline]
fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[inline]
fn scale(x: u64, bits: u64) -> u64 {
    ((u128::from(x) * u128::from(bits)) >> 64) as u64
}
