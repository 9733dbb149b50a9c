//! The hashes of names by which directories are indexed: legacy, half MD4 and TEA, each of signed or unsigned bytes.
//!
//! Sources: R. Rivest, "The MD4 Message-Digest Algorithm" (RFC 1320), of which half MD4 is three shortened rounds; D. Wheeler and
//! R. Needham, "TEA, a Tiny Encryption Algorithm" (1994); "ext4 Data Structures and Algorithms", Hash Tree Directories.

/// The two words of a hash: the first orders the index, the second only readdir.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hash {
    pub(crate) major: u32,
    pub(crate) minor: u32,
}

/// Largest value of the first word: it stands for the end of a directory.
const END: u32 = 0x7fff_ffff;

/// `dx_root_info.hash_version`, before the sign of bytes is added.
pub(crate) const LEGACY: u8 = 0;
pub(crate) const HALF_MD4: u8 = 1;
pub(crate) const TEA: u8 = 2;

/// Units of [`sim::Work::HASH`] that a round of half MD4 over 32 bytes or of TEA over 16 takes: 24 and 32 steps, each of which
/// waits for the one before. Measured beside that unit on an EPYC host: 30.2 and 0.641 ns.
const ROUND_UNITS: u64 = 47;

fn charge_for(name: &[u8], version: u8) {
    let len = name.len() as u64;
    let units = match version {
        HALF_MD4 => ROUND_UNITS * len.div_ceil(32),
        TEA => ROUND_UNITS * len.div_ceil(16),
        _ => len,
    };
    sim::ran::did(sim::Work::HASH, units);
    sim::ran::hash(16 * units);
}

/// The hash of a name; none for a version that is not known.
pub(crate) fn hash(name: &[u8], version: u8, unsigned: bool, seed: [u32; 4]) -> Option<Hash> {
    charge_for(name, version);
    let mut state = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    if seed != [0; 4] {
        state = seed;
    }
    let hash = match version {
        LEGACY => Hash { major: legacy(name, unsigned), minor: 0 },
        HALF_MD4 => {
            for at in (0..name.len()).step_by(32) {
                half_md4(&mut state, words(&name[at..], unsigned));
            }
            Hash { major: state[1], minor: state[2] }
        }
        TEA => {
            for at in (0..name.len()).step_by(16) {
                tea(&mut state, words(&name[at..], unsigned));
            }
            Hash { major: state[0], minor: state[1] }
        }
        _ => return None,
    };
    let major = match hash.major & !1 {
        end if end == END << 1 => (END - 1) << 1,
        other => other,
    };
    Some(Hash { major, ..hash })
}

fn widen(byte: u8, unsigned: bool) -> u32 {
    if unsigned { u32::from(byte) } else { i32::from(byte.cast_signed()).cast_unsigned() }
}

fn legacy(name: &[u8], unsigned: bool) -> u32 {
    let (mut last, mut before) = (0x12a3_fe2d_u32, 0x37ab_e8f9_u32);
    for byte in name {
        let mut hash = before.wrapping_add(last ^ widen(*byte, unsigned).wrapping_mul(7_152_373));
        if hash & 0x8000_0000 != 0 {
            hash = hash.wrapping_sub(0x7fff_ffff);
        }
        (before, last) = (last, hash);
    }
    last << 1
}

/// The name as words of four bytes, the first in the upper byte, filled up with its length.
fn words<const N: usize>(name: &[u8], unsigned: bool) -> [u32; N] {
    let len = name.len() as u32;
    let pad = len | len << 8;
    let pad = pad | pad << 16;
    let name = &name[..name.len().min(N * 4)];
    let mut words = [pad; N];
    for (word, bytes) in words.iter_mut().zip(name.chunks(4)) {
        *word = bytes.iter().fold(pad, |word, byte| widen(*byte, unsigned).wrapping_add(word << 8));
    }
    words
}

fn half_md4(state: &mut [u32; 4], input: [u32; 8]) {
    const K2: u32 = 0x5a82_7999;
    const K3: u32 = 0x6ed9_eba1;
    let ordered = |order: [usize; 8], constant: u32| order.map(|word| input[word].wrapping_add(constant));
    let select = |x, y, z| z ^ x & (y ^ z);
    let majority = |x: u32, y: u32, z: u32| (x & y).wrapping_add((x ^ y) & z);
    let parity = |x, y, z| x ^ y ^ z;
    let mixed = md4_round(*state, select, input, [3, 7, 11, 19]);
    let mixed = md4_round(mixed, majority, ordered([1, 3, 5, 7, 0, 2, 4, 6], K2), [3, 5, 9, 13]);
    let mixed = md4_round(mixed, parity, ordered([3, 7, 2, 6, 1, 5, 0, 4], K3), [3, 9, 11, 15]);
    for (word, add) in state.iter_mut().zip(mixed) {
        *word = word.wrapping_add(add);
    }
}

#[inline]
fn md4_round(
    [mut a, mut b, mut c, mut d]: [u32; 4],
    mix: impl Fn(u32, u32, u32) -> u32,
    words: [u32; 8],
    shifts: [u32; 4],
) -> [u32; 4] {
    for (step, word) in words.into_iter().enumerate() {
        let sum = a.wrapping_add(mix(b, c, d)).wrapping_add(word);
        (a, b, c, d) = (d, sum.rotate_left(shifts[step % 4]), b, c);
    }
    [a, b, c, d]
}

fn tea(state: &mut [u32; 4], key: [u32; 4]) {
    const DELTA: u32 = 0x9e37_79b9;
    let ([mut x, mut y, ..], mut sum) = (*state, 0_u32);
    let mix = |word: u32, sum: u32, low: u32, high: u32| {
        (word << 4).wrapping_add(low) ^ word.wrapping_add(sum) ^ (word >> 5).wrapping_add(high)
    };
    for _ in 0..16 {
        sum = sum.wrapping_add(DELTA);
        x = x.wrapping_add(mix(y, sum, key[0], key[1]));
        y = y.wrapping_add(mix(x, sum, key[2], key[3]));
    }
    state[0] = state[0].wrapping_add(x);
    state[1] = state[1].wrapping_add(y);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `debugfs -R "dx_hash -h VERSION NAME"` of e2fsprogs 1.47.0, with no seed.
    #[test]
    fn hashes_are_those_of_debugfs() {
        let names: [&[u8]; 2] = [b"hello", b"a name that is a little longer than 32 bytes"];
        let expected = [
            [(0x3225_2546, 0), (0x1746_da32, 0x4200_13b5), (0x6f5b_b1a8, 0x2319_17c2)],
            [(0x5dae_ea42, 0), (0xd877_cce4, 0x0c7e_d70a), (0xd7d6_2794, 0xf961_f6a9)],
        ];
        for (name, values) in names.into_iter().zip(expected) {
            for (version, (major, minor)) in values.into_iter().enumerate() {
                let found = hash(name, version as u8, false, [0; 4]);
                assert_eq!(found, Some(Hash { major, minor }), "version {version}");
            }
        }
    }
}
