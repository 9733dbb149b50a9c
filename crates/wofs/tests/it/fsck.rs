//! A fault that is planted violates its predicate alone, and a repair makes it right.

use std::sync::Arc;

use check::configured::{region, virtually};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{IoFlags, NewInode, Owner};

use crate::harness::{SEED, WOFS, small};
use design::Design;
use media::Storage;

pub(crate) const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
pub(crate) const BLOCK: u64 = 4096;
/// The first block behind the superblocks and bitmaps of a small device; the containers of the four kinds are here.
const FIRST: u64 = 6;
pub(crate) const UNLINKS: u64 = (FIRST + 1) * BLOCK;
pub(crate) const CREATES: u64 = (FIRST + 2) * BLOCK;
const DATA: u64 = (FIRST + 3) * BLOCK;

/// `a` with two blocks, `b` with one, `d`, `d/e`; one name was removed.
fn image() -> Arc<Region> {
    let (design, region) = (small(None), region(Bytes::kib(256)));
    design.mkfs(&region).expect("mkfs");
    let fs = design.mount(&region).expect("mount");
    let root = fs.root();
    for (name, len) in [(b"a", 8000), (b"b", 100)] {
        let ino = fs.create(root, name, &NEW).expect("space").ino;
        fs.write(ino, 0, &vec![3; len], IoFlags::empty()).expect("space");
    }
    let dir = fs.mkdir(root, b"d", &NEW).expect("space").ino;
    fs.mkdir(dir, b"e", &NEW).expect("space");
    fs.create(root, b"f", &NEW).expect("space");
    fs.unlink(root, b"f").expect("it goes");
    fs.unmount().expect("unmount");
    region
}

pub(crate) fn predicates(region: &Arc<Region>) -> Vec<&'static str> {
    let report = WOFS.format().fsck(&Storage::from(region));
    let mut found: Vec<_> = report.violations.iter().map(|violation| violation.predicate).collect();
    found.dedup();
    found
}

/// Changes bytes of a package and makes its checksum right.
pub(crate) fn edit(region: &Region, place: u64, len: usize, change: impl FnOnce(&mut [u8])) {
    let mut bytes = vec![0; len];
    region.peek(place, &mut bytes).expect("in range");
    change(&mut bytes);
    bytes[4..8].fill(0);
    let mut summed = bytes.clone();
    if bytes[1] == 3 {
        summed[16..24].fill(0);
    }
    let crc = base::persist::checksum::crc32c(&summed);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
    region.store(place, &bytes).expect("in range");
}

fn create(region: &Region, number: u64, change: impl FnOnce(&mut [u8])) {
    edit(region, CREATES + number * 256, 256, change);
}

/// A fault: its predicate, how it is planted, whether it is repaired.
type Canary = (&'static str, fn(&Region), bool);

/// CREATEs by place: 0 the root, 1 `a`, 2 `b`, 3 `d`, 4 `e`, 5 `f`, which is hidden.
const CANARIES: &[Canary] = &[
    ("superblock", |region| region.store_u64(0, 1).expect("in range"), true),
    ("superblock", |region| region.store_u64(BLOCK, 1).expect("in range"), true),
    ("superblock", |region| region.store_u64(64, 77).expect("in range"), true),
    ("containers", |region| region.store_u64(2 * BLOCK, 0b1100_0000).expect("in range"), true),
    ("containers", |region| region.store_u64(4 * BLOCK, 0b1_0000_0001).expect("in range"), true),
    (
        "numbers",
        |region| create(region, 1, |bytes| bytes[8..16].copy_from_slice(&1_u64.to_le_bytes())),
        false,
    ),
    ("numbers", |region| create(region, 1, |bytes| bytes[10] = 1), true),
    ("unlinks", |region| edit(region, UNLINKS, 64, |bytes| bytes[16] += 1), true),
    // `b` gets the number of `a`.
    ("births", |region| create(region, 2, |bytes| bytes[24] = 2), false),
    ("births", |region| create(region, 2, |bytes| bytes[36..40].fill(0)), false),
    // The blocks of `b` are those of `a`.
    (
        "data",
        |region| {
            let block: u32 = region.read(DATA + 52).expect("in range");
            edit(region, DATA + 64, 64, |bytes| bytes[52..56].copy_from_slice(&block.to_le_bytes()));
        },
        true,
    ),
    ("data", |region| edit(region, DATA, 64, |bytes| bytes[52..56].fill(0)), true),
    ("data", |region| edit(region, DATA, 64, |bytes| bytes[52] = FIRST as u8), true),
    ("names", |region| create(region, 2, |bytes| bytes[81] = b'a'), true),
    ("names", |region| create(region, 2, |bytes| bytes[81] = b'/'), true),
    ("names", |region| create(region, 2, |bytes| bytes[80] = 0), true),
    ("names", |region| create(region, 4, |bytes| bytes[32] = 2), true),
    // `d` lies in `e`, which lies in it.
    ("tree", |region| create(region, 3, |bytes| bytes[32] = 5), true),
];

#[test]
fn each_planted_fault_is_found_by_its_predicate_and_repaired_where_that_can_be() {
    virtually(SEED, || {
        assert_eq!(predicates(&image()), [""; 0]);
        for (number, (predicate, plant, is_repaired)) in CANARIES.iter().enumerate() {
            let region = image();
            plant(&region);
            let found = predicates(&region);
            assert_eq!(
                found,
                [*predicate],
                "{number}: {:?}",
                WOFS.format().fsck(&Storage::from(&region)).violations
            );
            assert!(small(None).mount(&region).is_err(), "{number}: a mount refuses what fsck reports");
            let done = WOFS.format().repair(&Storage::from(&region)).expect("a repair");
            let left = WOFS.format().fsck(&Storage::from(&region)).violations;
            assert_eq!(left.is_empty(), *is_repaired, "{number}: {done:?}: {left:?}");
            if *is_repaired {
                let fs = small(None).mount(&region).expect("it can be mounted");
                fs.create(fs.root(), b"usable", &NEW).expect("and used");
            }
        }
    });
}

#[test]
fn an_image_of_another_size_or_without_a_root_is_refused() {
    virtually(SEED, || {
        let region = image();
        create(&region, 0, |bytes| bytes[32] = 9);
        assert!(predicates(&region).contains(&"names"));
        let (small_one, large) = (image(), check::configured::region(Bytes::kib(512)));
        let mut bytes = vec![0; small_one.len() as usize];
        small_one.peek(0, &mut bytes).expect("in range");
        large.store(0, &bytes).expect("in range");
        let error = small(None).mount(&large).err().expect("it is refused");
        assert!(error.contains("made for 262144 bytes"), "{error}");
    });
}
