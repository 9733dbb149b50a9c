//! Tests of regions: real instructions, and pieces of accesses.

use super::*;

/// DRAM takes the instructions of persistent memory too, so that they are tested on every host that has
/// them.
#[test]
fn the_real_instructions_store_the_same_bytes() {
    let Some(instructions) = Instructions::detect() else { return };
    let mapping = Mapping::anonymous(Bytes(1 << 16)).expect("memory");
    let region = Region::over(mapping, Some(instructions), false, Box::new(null::Null));
    assert!(region.is_persistent());
    let data: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
    region.nt_store(4091, &data).expect("in range");
    region.store_pair(32, [1, 2]).expect("aligned");
    region.store(0, b"cached").expect("in range");
    region.flush(0, 1 << 20);
    region.fence();
    let mut back = vec![0; data.len()];
    region.peek(4091, &mut back).expect("in range");
    assert_eq!(back, data);
    assert_eq!((region.load_u64(32), region.load_u64(40)), (Ok(1), Ok(2)));
    assert_eq!(region.read::<[u8; 6]>(0), Ok(*b"cached"));
}

#[test]
fn pieces_end_at_pages_and_share_no_line() {
    let cut = |off, len| pages(off, len).collect::<Vec<_>>();
    assert_eq!(cut(0, 0), []);
    assert_eq!(cut(4095, 2), [(4095, 1), (4096, 1)]);
    assert_eq!(cut(100, 8192), [(100, 3996), (4096, 4096), (8192, 100)]);
    assert_eq!((lines(63, 2), lines(64, 64), lines(5, 0)), (2, 1, 0));
}
