//! The layout of a Bloom filter (Bloom 1970): sizes, hashing, the order of bits, exported bytes.
//! Pure, without I/O.
//!
//! It is the same on every store, so that the bytes that one store exports load into another
//! ([B4]). How a store cuts the bits into pages is its own matter.
//!
//! # Size
//! For a capacity of *n* items and a false-positive rate *p*: `m = ⌈−n·ln p / (ln 2)²⌉` bits,
//! rounded up to a multiple of 64, and `k = max(1, round(−ln p / ln 2))` hashes, which is `m/n·ln
//! 2` of the *m* before it is rounded up. The logarithm is made of IEEE additions, multiplications
//! and divisions only, so that every platform gets the same *m*.
//!
//! # Positions
//! `h` is the 128-bit XXH3 of the item with seed 0, `h1` its lower and `h2` its upper 64 bits. For
//! *i* from 0 to *k* − 1, in arithmetic modulo 2⁶⁴: `x = mix(h1 + i·h2)`, and the position is `⌊x·m
//! / 2⁶⁴⌋`. `mix` is the finalizer of SplitMix64 (Steele, Lea, Flood 2014):
//!
//! ```text
//! x ^= x >> 30;  x *= 0xbf58476d1ce4e5b9;  x ^= x >> 27;  x *= 0x94d049bb133111eb;  x ^= x >> 31
//! ```
//!
//! Double hashing alone (Kirsch and Mitzenmacher 2006) gives the positions of an item an equal
//! distance. A filter of *m* bits then knows at most *m²* patterns, and two items that share two
//! positions are likely to share more: at low rates and in small filters that is seen in the
//! false-positive rate (Dillinger 2004). The finalizer breaks the line.
//!
//! # Bits
//! Bit *b* is in byte `b / 8`, the most significant bit first: bit 0 is `0x80` of byte 0, as
//! `SETBIT` of Redis has it.
//!
//! # Exported bytes
//! A header of 40 bytes, numbers in little-endian order, and the `m / 8` bytes of the bits.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0–7 | `stanchbf` |
//! | 8–11 | the version of the layout, 1 |
//! | 12–15 | *k* |
//! | 16–23 | *n* |
//! | 24–31 | *p*, as the bits of an IEEE double |
//! | 32–39 | *m* |
//!
//! [B4]: crate::contract#b4

mod hash;
mod image;
mod shape;
mod terms;

pub use self::image::{HEADER_BYTES, begin_image, header, image_bytes, open};
pub use self::shape::Shape;
pub use self::terms::FilterTerms;
