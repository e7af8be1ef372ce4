//! Exported bytes: a header and the bits.

use super::Shape;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"stanchbf";
const VERSION: u32 = 1;

/// The length of the header.
pub const HEADER_BYTES: usize = 40;

/// The header of a shape.
#[must_use]
pub fn header(shape: &Shape) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&shape.hashes().to_le_bytes());
    header[16..24].copy_from_slice(&shape.capacity().to_le_bytes());
    header[24..32].copy_from_slice(&shape.rate_bits().to_le_bytes());
    header[32..].copy_from_slice(&shape.bits().to_le_bytes());
    header
}

/// Returns the length of an export, in bytes; the header is a part of it.
#[must_use]
pub fn image_bytes(shape: &Shape) -> usize {
    usize::try_from(shape.bytes()).unwrap_or(usize::MAX / 2) + HEADER_BYTES
}

/// Returns the header of an export, with room for the rest.
///
/// # Errors
/// `Overloaded` if there is no memory for it.
pub fn begin_image(shape: &Shape) -> Result<Vec<u8>> {
    let mut image = Vec::new();
    image.try_reserve_exact(image_bytes(shape)).map_err(|error| {
        Error::new(crate::ErrorKind::Overloaded, "there is no memory for the exported bytes")
            .with_source(error)
    })?;
    image.extend(header(shape));
    Ok(image)
}

/// The shape of exported bytes, and their bits.
///
/// # Errors
/// `InvalidArgument` if they are no export, or not a whole one; `ConfigMismatch` for another
/// version of the layout.
pub fn open(exported: &[u8]) -> Result<(Shape, &[u8])> {
    let foreign = || Error::invalid_argument("these bytes are no exported Bloom filter");
    let (header, bits) = exported.split_first_chunk::<HEADER_BYTES>().ok_or_else(foreign)?;
    let short = |at: usize| -> [u8; 4] { std::array::from_fn(|byte| header[at + byte]) };
    let long = |at: usize| -> [u8; 8] { std::array::from_fn(|byte| header[at + byte]) };
    if &long(0) != MAGIC {
        return Err(foreign());
    }
    let version = u32::from_le_bytes(short(8));
    if version != VERSION {
        let detail = format!("the export has layout version {version}, this library reads {VERSION}");
        return Err(Error::new(crate::ErrorKind::ConfigMismatch, detail));
    }
    let number = |at| u64::from_le_bytes(long(at));
    let shape = Shape::stored(number(16), number(24), number(32), u32::from_le_bytes(short(12)))?;
    if u64::try_from(bits.len()) != Ok(shape.bytes()) {
        let detail =
            format!("the export is not whole: {} bytes of bits instead of {}", bits.len(), shape.bytes());
        return Err(Error::invalid_argument(detail));
    }
    Ok((shape, bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_is_exported_opens() {
        let shape = Shape::new(10, 0.1).unwrap();
        let mut exported = header(&shape).to_vec();
        exported.extend(std::iter::repeat_n(0x5a, 8));
        let (opened, bits) = open(&exported).unwrap();
        assert_eq!((opened, bits), (shape, &[0x5a; 8][..]));
    }

    #[test]
    fn anything_else_is_refused() {
        let shape = Shape::new(10, 0.1).unwrap();
        let mut exported = header(&shape).to_vec();
        exported.extend([0; 8]);
        let kind = |bytes: &[u8]| open(bytes).unwrap_err().kind();
        assert_eq!(kind(b""), ErrorKind::InvalidArgument);
        assert_eq!(kind(&exported[..47]), ErrorKind::InvalidArgument);
        assert_eq!(kind(&exported[1..]), ErrorKind::InvalidArgument);
        exported[8] = 2;
        assert_eq!(kind(&exported), ErrorKind::ConfigMismatch);
    }
}
