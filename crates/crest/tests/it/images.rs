//! A file of a pool holds what a copy of this pool has written to its log. The copy has the same secret and gives out the same openings:
//! when the file is gone, its blocks lie in zones that the log opens under the numbers of the records in them.

use std::sync::Arc;

use check::NEW;
use crest::design::CrestDesign;
use crest::format::layout::{Geometry, SUPERBLOCKS, Superblock, incompat};
use crest::format::zone::{Use, Word};
use design::Design;
use media::Storage;
use media::nvmm::Region;
use sim::{Bytes, Seed, Setup};
use vfs::{FileSystem, IoFlags};

use crate::support::{copy_of, machine, made, mounted, names_in, options, region};

const SIZE: Bytes = Bytes::mib(2);
/// Pairs of calls that a crash follows: a fifth of a zone of 256 lines.
const CALLS: u64 = 16;
/// Zones that the pool opens before it comes to the opening of the image.
const LATER: u64 = 12;

/// Runs in a process of its own: a copy of a pool is mounted by another one.
fn process<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    sim::run(&Setup::virtual_clock(machine(1), Seed(seed)), body).expect("the run ends")
}

fn create(fs: &dyn FileSystem, name: &str) {
    fs.create(fs.root(), name.as_bytes(), &NEW).expect("there is room");
}

fn geometry(region: &Region) -> Geometry {
    Geometry::of(&region.read(SUPERBLOCKS[0]).expect("a superblock"))
}

/// The zone of the log that was opened last, and its opening.
fn newest(region: &Region) -> (u32, u64) {
    let geometry = geometry(region);
    let log = (0..geometry.zones).filter_map(|zone| {
        let word = region.load_u64(geometry.words_at(zone)[0]).expect("a word");
        let word = Word::unpack(zone, word).filter(|word| word.usage == Use::Log)?;
        Some((zone, word.opening))
    });
    log.max_by_key(|(_, opening)| *opening).expect("a log")
}

fn zone_of(region: &Region, zone: u32) -> Vec<u8> {
    let geometry = geometry(region);
    let mut bytes = vec![0; geometry.zone_bytes as usize];
    region.peek(geometry.zone_at(zone), &mut bytes).expect("a zone");
    bytes
}

/// A pool of one shard; `keyed`: with nonces.
fn pool(keyed: bool) -> Arc<Region> {
    process(1, move || {
        let region = region(SIZE);
        made(&region, &options(&[("shards", "1")], None)).unmount().expect("unmount");
        for at in SUPERBLOCKS.into_iter().filter(|_| !keyed) {
            let mut superblock: Superblock = region.read(at).expect("a superblock");
            superblock.incompat &= !incompat::NONCE;
            superblock.checksum = superblock.sum();
            region.write(at, &superblock).expect("a store");
        }
        region
    })
}

/// The zone that a copy of the pool fills with records of files under this opening.
fn written_by_copy(pool: &Arc<Region>, opening: u64) -> Vec<u8> {
    let pool = copy_of(pool);
    process(2, move || {
        let fs = mounted(&pool, &options(&[], None));
        let (mut number, mut filled) = (0, None);
        while newest(&pool).1 <= opening {
            create(&*fs, &format!("ghost {number}"));
            number += 1;
            filled = Some(newest(&pool)).filter(|newest| newest.1 == opening).or(filled);
        }
        zone_of(&pool, filled.expect("a zone").0)
    })
}

/// The opening that the pool comes to when it has opened some zones.
fn later_opening(pool: &Arc<Region>) -> u64 {
    let pool = copy_of(pool);
    process(3, move || {
        create(&*mounted(&pool, &options(&[], None)), "x");
        newest(&pool).1 + LATER
    })
}

/// Crashes of a pool whose free zones hold what a copy of it has written under one opening, as the blocks of a file that was removed,
/// while its log has this opening: their number, and the names of the copy that mounts show then.
fn crashes(keyed: bool) -> (u64, Vec<String>) {
    let pool = pool(keyed);
    let opening = later_opening(&pool);
    let image = written_by_copy(&pool, opening);
    process(4, move || {
        let fs = mounted(&pool, &options(&[], None));
        let file = fs.create(fs.root(), b"image", &NEW).expect("room").ino;
        let mut at = 0;
        while fs.write(file, at, &image, IoFlags::empty()).is_ok() {
            at += image.len() as u64;
        }
        fs.unlink(fs.root(), b"image").expect("it is there");
        let (mut number, mut shown) = (0, Vec::new());
        while newest(&pool).1 <= opening {
            for call in 0..CALLS {
                let name = format!("own {call}");
                create(&*fs, &name);
                fs.unlink(fs.root(), name.as_bytes()).expect("it is there");
            }
            let (zone, current) = newest(&pool);
            // The log has not come to the last lines of the image.
            let ends = |zone: &[u8]| zone[zone.len() - 64..].to_vec();
            if current == opening && ends(&zone_of(&pool, zone)) == ends(&image) {
                number += 1;
                shown.extend(names_after_crash(&pool));
            }
        }
        (number, shown)
    })
}

/// The names of the copy that a mount of the pool shows, or why there is no mount.
fn names_after_crash(pool: &Arc<Region>) -> Vec<String> {
    let crashed = copy_of(pool);
    match CrestDesign.mount(&Storage::from(&crashed), &options(&[], None)) {
        Ok(fs) => {
            let names = names_in(&*fs, fs.root()).into_iter();
            let names = names.map(|name| String::from_utf8_lossy(&name).into_owned());
            names.filter(|name| name.starts_with("ghost")).collect()
        }
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn an_image_of_the_pool_in_a_file_is_not_taken_for_its_log() {
    let (number, shown) = crashes(true);
    assert!(number > 2, "{number} crashes");
    assert_eq!(shown, Vec::<String>::new());
}

/// Canary: in a pool without nonces it is.
#[test]
fn without_nonces_an_image_of_the_pool_in_a_file_is_taken_for_its_log() {
    let (number, shown) = crashes(false);
    println!("{number} crashes, {} names, the first {:?}", shown.len(), shown.first());
    assert!(shown.iter().any(|name| name.starts_with("ghost")), "{shown:?}");
}
