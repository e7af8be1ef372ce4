//! The layout of Bloom filters: fixed items have fixed positions and bytes, on every store and in
//! every later version.

#![allow(clippy::unwrap_used, reason = "tests fail by panics")]

use std::collections::HashSet;

use proptest::prelude::*;
use stanchion_core::bloom::{HEADER_BYTES, Shape, header, open};

fn positions(shape: &Shape, item: &[u8]) -> Vec<u64> {
    shape.positions(item).collect()
}

/// The bytes of a filter, made bit by bit.
fn image(shape: &Shape, items: &[&[u8]]) -> Vec<u8> {
    let mut bytes = [header(shape).to_vec(), vec![0; usize::try_from(shape.bytes()).unwrap()]].concat();
    for position in items.iter().flat_map(|item| shape.positions(item)) {
        bytes[HEADER_BYTES + usize::try_from(position / 8).unwrap()] |= 0x80 >> (position % 8);
    }
    bytes
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// By hashes that every implementation of XXH3 gives: `99aa06d3014798d86001c324468d497f` of
/// nothing, `a96faf705af16834e6c632b61e964e1f` of an `a`.
#[test]
fn b4_fixed_items_have_fixed_positions() {
    let shape = Shape::new(1000, 0.01).unwrap();
    assert_eq!(positions(&shape, b""), [8480, 6192, 8250, 6034, 2251, 2107, 7299]);
    assert_eq!(positions(&shape, b"a"), [6892, 3123, 6005, 2250, 1913, 5509, 6492]);
    assert_eq!(positions(&shape, &[0; 1000]), [7788, 704, 2355, 583, 436, 7096, 3326]);
    let large = Shape::new(Shape::MAX_CAPACITY, 0.01).unwrap();
    assert_eq!(
        positions(&large, b"invoices/42"),
        [
            26_966_836_400,
            3_447_587_404,
            16_365_462_791,
            31_258_052_598,
            18_977_621_309,
            26_202_643_836,
            22_797_331_798
        ]
    );
}

#[test]
fn b4_fixed_items_have_fixed_bytes() {
    let shape = Shape::new(10, 0.1).unwrap();
    let header = "7374616e63686266_01000000_03000000_0a00000000000000_9a9999999999b93f_4000000000000000";
    let bytes = hexadecimal(&image(&shape, &[b"", b"a", b"invoices/42"]));
    assert_eq!(bytes, header.replace('_', "") + "0400084000c40180");
}

#[test]
fn b4_sizes_are_fixed() {
    let size = |capacity, rate| {
        let shape = Shape::new(capacity, rate).unwrap();
        (shape.bits(), shape.hashes())
    };
    assert_eq!(size(1, 0.5), (64, 1));
    assert_eq!(size(1_000_000, 0.01), (9_585_088, 7));
    assert_eq!(size(100_000, 1e-6), (2_875_520, 20));
    assert_eq!(size(Shape::MAX_CAPACITY, Shape::MIN_RATE), (185_253_805_184, 30));
}

/// B2, of the layout alone: 10^6 others against full filters, from small to large. The bounds are
/// five standard deviations and 5 % away.
#[test]
fn b2_full_filters_keep_their_rate() {
    for (capacity, rate) in [(100_u64, 0.05), (1_000, 0.01), (20_000, 0.001)] {
        let shape = Shape::new(capacity, rate).unwrap();
        let (mut taken, filters) = (0, 20_000 / capacity);
        let others = 1_000_000 / filters;
        for filter in 0..filters {
            let mut bits = vec![false; usize::try_from(shape.bits()).unwrap()];
            let item = |number: u64| [filter.to_le_bytes(), number.to_le_bytes()].concat();
            let places = |number| shape.positions(&item(number)).map(|bit| usize::try_from(bit).unwrap());
            (0..capacity).flat_map(places).for_each(|bit| bits[bit] = true);
            let is_taken = |number: &u64| places(*number).all(|bit| bits[bit]);
            taken += (capacity..capacity + others).filter(is_taken).count();
        }
        let (taken, expected) = (f64::from(u32::try_from(taken).unwrap()), 1e6 * rate);
        let bound = expected * 0.05 + 5.0 * expected.sqrt();
        assert!((taken - expected).abs() < bound, "{shape}: {taken} of 10^6, {expected} expected");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn b4_positions_are_within_the_filter(
        capacity in 1..=Shape::MAX_CAPACITY, exponent in 0.31_f64..9.0, item: Vec<u8>,
    ) {
        let shape = Shape::new(capacity, 10_f64.powf(-exponent)).unwrap();
        let positions = positions(&shape, &item);
        prop_assert_eq!(positions.len(), shape.hashes() as usize);
        prop_assert!(positions.iter().all(|position| *position < shape.bits()));
        prop_assert!(shape.bits() <= Shape::MAX_BITS && shape.bits().is_multiple_of(64));
        let parts = (shape.capacity(), shape.rate_bits(), shape.bits(), shape.hashes());
        prop_assert_eq!(Shape::stored(parts.0, parts.1, parts.2, parts.3).unwrap(), shape);
    }

    /// B1, and a filter is the set of the positions of its items.
    #[test]
    fn b1_a_filter_has_the_bits_of_its_items(items: Vec<Vec<u8>>) {
        let shape = Shape::new(64, 0.01).unwrap();
        let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        let exported = image(&shape, &items);
        let (opened, bits) = open(&exported).unwrap();
        prop_assert_eq!(opened, shape);
        let set: HashSet<u64> = (0..shape.bits())
            .filter(|bit| bits[usize::try_from(bit / 8).unwrap()] & (0x80 >> (bit % 8)) != 0)
            .collect();
        let expected: HashSet<u64> = items.iter().flat_map(|item| shape.positions(item)).collect();
        prop_assert_eq!(set, expected);
    }
}
