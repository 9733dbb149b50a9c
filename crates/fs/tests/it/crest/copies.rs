//! A copy of a pool: what it has written never counts in the original, nor the other way round; and pools without nonces.

use check::{NEW, observe};
use design::FsError;
use fs::crest::format::layout::{Geometry, SUPERBLOCKS, Superblock, incompat};
use fs::crest::format::zone::{Use, Word};
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Machine, Seed, Setup};
use vfs::FileSystem;

use super::mount::{assert_sound, crest, made, mounted};
use crate::shared::harness::{self, bytes_of, region_of};

const SIZE: Bytes = Bytes::mib(1);

/// Runs in a process of its own: copies of a pool are mounted by several, at other times.
fn process<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(Machine::unit(), Seed(seed)), body).expect("the run ends")
}

/// Makes a pool as code without nonces did.
fn without_nonces(region: &Region) {
    for at in SUPERBLOCKS {
        let mut superblock: Superblock = region.read(at).expect("a load");
        superblock.incompat &= !incompat::NONCE;
        superblock.checksum = superblock.sum();
        region.write(at, &superblock).expect("a store");
    }
}

fn create(fs: &dyn FileSystem, name: &str) {
    fs.create(fs.root(), name.as_bytes(), &NEW).expect("there is room");
}

/// The bytes of a pool with a file.
fn pool(keyed: bool) -> Vec<u8> {
    process(1, move || {
        let region = made(SIZE);
        if !keyed {
            without_nonces(&region);
        }
        let fs = mounted(&region);
        create(&*fs, "file");
        fs.unmount().expect("unmount");
        bytes_of(&region)
    })
}

/// The bytes of the pool after a copy of it has made files.
fn copied(pool: Vec<u8>) -> Vec<u8> {
    process(2, move || {
        let region = region_of(&pool);
        let fs = mounted(&region);
        (0..40).for_each(|number| create(&*fs, &format!("ghost {number}")));
        bytes_of(&region)
    })
}

/// The names that a mount shows after a crash of a pool in whose free zones an image of a copy lies; or why there is no mount.
fn names_after_crash(keyed: bool) -> Result<Vec<String>, FsError> {
    let pool = pool(keyed);
    let copy = copied(pool.clone());
    process(3, move || {
        let region = region_of(&pool);
        let superblock: Superblock = region.read(SUPERBLOCKS[0]).expect("a load");
        let geometry = Geometry::of(&superblock);
        for zone in 0..geometry.zones {
            let word = region.load_u64(geometry.words_at(zone)[0]).expect("a load");
            if Word::unpack(zone, word).is_some_and(|word| word.usage != Use::Log) {
                let at = geometry.zone_at(zone);
                let image = &copy[at as usize..(at + geometry.zone_bytes) as usize];
                region.store(at, image).expect("a store");
            }
        }
        let fs = mounted(&region);
        create(&*fs, "own");
        let crashed = region_of(&bytes_of(&region));
        let options = harness::options(crest(), &[]);
        let fs = crest().mount(&Storage::from(&crashed), &options)?;
        let tree = observe(&*fs).expect("a sound tree");
        Ok(tree.keys().map(|path| format!("{path:?}")).filter(|path| path.contains("ghost")).collect())
    })
}

#[test]
fn what_a_copy_of_the_pool_has_written_does_not_count_here() {
    assert_eq!(names_after_crash(true).expect("the pool mounts"), Vec::<String>::new());
}

/// Canary: without nonces it does.
#[test]
fn without_nonces_records_of_a_copy_count() {
    let shown = names_after_crash(false);
    assert!(shown.as_ref().map_or(true, |ghosts| !ghosts.is_empty()), "{shown:?}");
}

#[test]
fn a_pool_without_nonces_is_mounted_changed_and_cleaned_as_before() {
    process(4, || {
        let region = made(SIZE);
        without_nonces(&region);
        let mut fs = mounted(&region);
        for round in 0..6_000 {
            create(&*fs, &format!("file {round}"));
            if round >= 10 {
                fs.unlink(fs.root(), format!("file {}", round - 10).as_bytes()).expect("it is there");
            }
            if round % 2_000 == 1_999 {
                fs.unmount().expect("unmount");
                assert_sound(&region);
                fs = mounted(&region);
            }
        }
        let superblock: Superblock = region.read(SUPERBLOCKS[0]).expect("a load");
        assert_eq!(superblock.incompat & incompat::NONCE, 0);
        assert_eq!(observe(&*fs).expect("a sound tree").len(), 11);
    });
}
