//! The Bloom filter: core's layout over atomic words.

mod bits;
mod handle;
mod record;
mod whole;

pub(crate) use self::handle::MemoryFilter;
pub(crate) use self::record::FilterEntry;
