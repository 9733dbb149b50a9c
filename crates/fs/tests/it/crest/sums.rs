//! Checksums of data: a changed bit is found and named, and crashes leave no wrong checksum.

use std::sync::{Arc, Mutex};

use check::NEW;
use check::crash::programs::{self, Program};
use check::crash::{Effort, Subject, explore};
use fs::crest::format::layout::{Superblock, incompat};
use fs::crest::format::mutant;
use media::Storage;
use media::nvmm::Region;
use sim::ran::Tally;
use sim::{Bytes, Work};
use vfs::scrub::{Damaged, scrub};
use vfs::{Errno, FallocateMode, FileSystem, Ino, IoFlags};

use super::mount::{assert_sound, cost, crest};
use super::planted::named;
use crate::shared::harness::{self, Given, subject, virtually, with_mutant};

const SEED: u64 = 20_261_127;
const NONE: IoFlags = IoFlags::empty();
const SUMMED: Given<'static> = &[("checksum", "data")];

fn made() -> Arc<Region> {
    let region = harness::region(Bytes::mib(2));
    crest().format().mkfs(&Storage::from(&region), &harness::options(crest(), SUMMED)).expect("mkfs");
    region
}

/// A mount, and what it tells.
fn mounted(region: &Arc<Region>) -> (Arc<dyn FileSystem>, Arc<Mutex<Vec<String>>>) {
    // The pool says itself that it has checksums.
    let fs = crest().mount(&Storage::from(region), &harness::options(crest(), &[])).expect("mount");
    let told = Arc::<Mutex<Vec<String>>>::default();
    let listener = Arc::clone(&told);
    fs.listen(Box::new(move |what| listener.lock().expect("one thread").push(what.to_owned())));
    (fs, told)
}

fn file(fs: &dyn FileSystem, name: &[u8], bytes: &[u8]) -> Ino {
    let ino = fs.create(fs.root(), name, &NEW).expect("a new name").ino;
    assert_eq!(fs.write(ino, 0, bytes, NONE).expect("room").bytes, bytes.len());
    ino
}

fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + at / 4096) as u8).collect()
}

/// A pool with a file of three blocks, of which a bit of the second has changed, and its clone.
fn flipped() -> Arc<Region> {
    let region = made();
    let (fs, _) = mounted(&region);
    let source = file(&*fs, b"file", &data(3 * 4096));
    let clone = file(&*fs, b"clone", b"");
    fs.clone_range((source, 0), (clone, 0), 3 * 4096).expect("a clone");
    fs.unmount().expect("unmount");
    let at = (named(&region, b"file").1 + 1) * 4096 + 1234;
    let mut byte = [0];
    region.peek(at, &mut byte).expect("a load");
    region.store(at, &[byte[0] ^ 4]).expect("a store");
    region
}

#[test]
fn a_flipped_bit_is_eio_for_its_block_alone_and_is_told_with_file_and_offset() {
    virtually(1, || {
        let region = flipped();
        let (fs, told) = mounted(&region);
        let ino = fs.lookup(fs.root(), b"file").expect("it is there").ino;
        let mut block = vec![0; 4096];
        let mut read = |at| fs.read(ino, at, &mut block, NONE);
        assert_eq!((read(0), read(8192)), (Ok(4096), Ok(4096)));
        assert_eq!((read(4096), read(4000)), (Err(Errno::EIO), Err(Errno::EIO)));
        let maps = fs.mapped_files().expect("files can be mapped");
        assert_eq!(maps.load(ino, 4100, &mut [0; 8]), Err(Errno::EIO), "a mapping sees it too");
        let said = told.lock().expect("one thread").join("; ");
        assert!(said.contains(&format!("inode {}: byte 4096", ino.0)), "{said}");
        assert_eq!(told.lock().expect("one thread").len(), 1, "{said}");
        // What stays of the block cannot be trusted either.
        assert_eq!(fs.write(ino, 4100, b"part", NONE).err(), Some(Errno::EIO));
        let punch = FallocateMode::ZERO_RANGE;
        assert_eq!(fs.fallocate(ino, punch, 5000, 100), Err(Errno::EIO));
        let found = scrub(&*fs, &mut |_| ());
        let damaged = |name: &[u8]| Damaged {
            path: [b"/", name].concat(),
            range: Some((4096, 4096)),
            errno: Errno::EIO,
        };
        let mut places = found.damaged.clone();
        places.sort_by(|one, other| one.path.cmp(&other.path));
        assert_eq!(places, [damaged(b"clone"), damaged(b"file")]);
        assert_eq!((found.inodes, found.read, found.compared), (3, 4 * 4096, 4 * 4096));
        // All of it can be written anew; the clone stays as it is.
        assert_eq!(fs.write(ino, 4096, &[1; 4096], NONE).expect("a whole block").bytes, 4096);
        assert_eq!(fs.read(ino, 4000, &mut [0; 4096], NONE), Ok(4096));
        assert_eq!(scrub(&*fs, &mut |_| ()).damaged, [damaged(b"clone")]);
        fs.unmount().expect("unmount");
    });
}

#[test]
fn checksums_are_compared_once_after_a_mount_and_by_each_scrub() {
    virtually(1, || {
        let region = made();
        let (fs, _) = mounted(&region);
        file(&*fs, b"file", &data(16 * 4096));
        fs.unmount().expect("unmount");
        let (fs, _) = mounted(&region);
        let ino = fs.lookup(fs.root(), b"file").expect("it is there").ino;
        let mut bytes = vec![0; 16 * 4096];
        let mut charged = || {
            let before = Tally::of_task();
            assert_eq!(fs.read(ino, 0, &mut bytes, NONE), Ok(16 * 4096));
            Tally::of_task().since(&before).charged(Work::CHECKSUM)
        };
        // In lines, by builds that count work.
        let expected = if cfg!(debug_assertions) { (16 * 64, 0) } else { (0, 0) };
        assert_eq!((charged(), charged()), expected, "the first read compares");
        // The medium decays while it is mounted: a read does not see it, a scrub does.
        region.store((named(&region, b"file").1 + 3) * 4096, &[0xFF; 8]).expect("a store");
        assert_eq!(fs.read(ino, 0, &mut bytes, NONE), Ok(16 * 4096));
        assert_eq!(scrub(&*fs, &mut |_| ()).damaged.len(), 1);
        fs.unmount().expect("unmount");
    });
}

#[test]
fn every_kind_of_change_leaves_right_checksums() {
    virtually(1, || {
        let region = made();
        let (fs, _) = mounted(&region);
        let ino = file(&*fs, b"file", &data(10_000));
        let size = |size| vfs::SetAttr { size: Some(size), ..vfs::SetAttr::default() };
        assert_eq!(cost(|| fs.write(ino, 10_000, &[3; 56], NONE)), (2, 65), "an append stores a block");
        fs.write(ino, 100, &[4; 50], NONE).expect("within a block");
        fs.setattr(ino, &size(5000)).expect("a cut within a block");
        fs.setattr(ino, &size(30_000)).expect("growth over the end within a block");
        fs.fallocate(ino, FallocateMode::ZERO_RANGE, 4000, 9000).expect("zeros");
        fs.write(ino, 8192, &[5; 100], NONE).expect("into what is reserved");
        fs.fallocate(ino, FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 100, 200).expect("a hole");
        let clone = file(&*fs, b"clone", b"");
        fs.clone_range((ino, 0), (clone, 0), 30_000).expect("a clone");
        fs.write(clone, 1, b"other", NONE).expect("within a shared block");
        let zeroed = file(&*fs, b"zeroed", &data(4210));
        fs.fallocate(zeroed, FallocateMode::ZERO_RANGE, 2049, 60_000).expect("zeros over the end");
        fs.unlink(fs.root(), b"zeroed").expect("it is there");
        let tree = check::observe(&*fs).expect("a sound tree");
        let all = scrub(&*fs, &mut |_| ());
        assert_eq!((all.damaged.len(), all.compared), (0, all.read));
        fs.unmount().expect("unmount");
        assert_sound(&region);
        let (fs, told) = mounted(&region);
        assert_eq!(check::observe(&*fs).expect("a sound tree"), tree);
        assert_eq!(*told.lock().expect("one thread"), [""; 0]);
        fs.unmount().expect("unmount");
    });
}

/// A store by a mapping comes without a record, so its page has a block without a checksum.
#[test]
fn a_page_that_is_stored_to_has_no_checksum_and_every_other_keeps_its_own() {
    virtually(1, || {
        let region = made();
        let (fs, _) = mounted(&region);
        let ino = file(&*fs, b"file", &data(4 * 4096));
        let maps = fs.mapped_files().expect("files can be mapped");
        maps.map(ino, &(0..4), true).expect("a mapping");
        maps.store(ino, 5000, &[7; 16]).expect("a store");
        maps.sync(ino, 0..4 * 4096).expect("msync");
        // A write gives the page a block with a checksum again, which the next store must not change in place.
        fs.write(ino, 5100, &[8; 16], NONE).expect("a write");
        maps.store(ino, 5200, &[9; 16]).expect("a store");
        maps.unmap(ino, &(0..4), true);
        fs.unmount().expect("unmount");
        let (fs, _) = mounted(&region);
        let all = scrub(&*fs, &mut |_| ());
        assert_eq!((all.damaged.len(), all.read, all.compared), (0, 4 * 4096, 3 * 4096));
        let mut expected = data(4 * 4096);
        for (at, byte) in [(5000, 7), (5100, 8), (5200, 9)] {
            expected[at..at + 16].fill(byte);
        }
        let mut bytes = vec![0; 4 * 4096];
        fs.read(ino, 0, &mut bytes, NONE).expect("it can be read");
        assert!(bytes == expected);
    });
}

#[test]
fn a_pool_with_checksums_says_so_to_code_that_does_not_know_them() {
    virtually(1, || {
        let superblock: Superblock = made().read(0).expect("a load");
        assert_eq!(
            superblock.incompat,
            incompat::CHECKSUMS | incompat::INLINE | incompat::NONCE | incompat::BATCHES
        );
    });
}

/// A write with more checksums than a record has room for.
#[test]
fn a_large_write_is_one_change_with_all_of_its_checksums() {
    virtually(1, || {
        let region = harness::region(Bytes::mib(64));
        crest().format().mkfs(&Storage::from(&region), &harness::options(crest(), SUMMED)).expect("mkfs");
        let (fs, _) = mounted(&region);
        file(&*fs, b"file", &data(20 << 20));
        fs.unmount().expect("unmount");
        assert_sound(&region);
        let (fs, _) = mounted(&region);
        let all = scrub(&*fs, &mut |_| ());
        assert_eq!((all.damaged.len(), all.read, all.compared), (0, 20 << 20, 20 << 20));
    });
}

fn found(subject: &Subject, programs: &[Program]) -> Vec<String> {
    let mut wrong = Vec::new();
    for program in programs {
        let tally = explore(subject, program, &Effort::usual(SEED, 1), &[]);
        wrong.extend(tally.violations.iter().map(|found| format!("{}: {found}", program.name)));
    }
    wrong
}

/// A recovered tree is read whole: a wrong checksum is an error there.
#[test]
fn every_crash_with_checksums_of_data_leaves_an_allowed_state() {
    let some = programs::all().into_iter().step_by(9);
    let programs: Vec<_> = some.chain(programs::clones().into_iter().step_by(3)).collect();
    assert_eq!(found(&subject("crest", SUMMED), &programs), [""; 0], "seed {SEED}");
}

/// Canary: an append in place leaves the checksum of before.
#[test]
fn a_block_with_a_checksum_that_is_changed_in_place_is_found() {
    let options = [harness::checking("crest").small, SUMMED].concat();
    let design = with_mutant("crest", &options, mutant::CHECKED_IN_PLACE);
    let programs: Vec<_> =
        programs::all().into_iter().filter(|program| program.name.contains("append")).take(3).collect();
    let wrong = found(&Subject { design, ..subject("crest", SUMMED) }, &programs);
    println!("{}", wrong.first().expect("it is found"));
}
