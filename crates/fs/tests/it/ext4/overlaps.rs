//! One task frees or syncs while the write-back or the commit of another is under way, at many distances in time.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::NEW;
use fs::by_name;
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::{Medium, Storage};
use sim::{Bytes, Nanos, TaskSpec};
use vfs::{FallocateMode, FileSystem, Ino, IoFlags, SetAttr};

use crate::shared::harness::{self, virtually};

const BLOCK: u64 = 1024;
const BLOCKS: u64 = 256;

/// A design and its options.
type Given = (&'static str, &'static [(&'static str, &'static str)]);

const EXT4: Given = ("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("cache", "8MiB")]);
const GIVEN: [Given; 4] = [
    EXT4,
    ("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("cache", "8MiB"), ("delalloc", "false")]),
    ("ext4", &[("block_size", "1k"), ("journal", "0"), ("cache", "8MiB")]),
    ("ext2", &[("block_size", "1k"), ("cache", "8MiB")]),
];

fn mount(region: &Arc<Region>, (name, options): Given) -> Arc<dyn FileSystem> {
    let design = by_name(name).expect("a design");
    design.mount(&Storage::from(region), &harness::options(design, options)).expect("mount")
}

/// A new file system on a medium that takes 3.2 us for a block.
fn mounted((name, options): Given) -> (Arc<Region>, Arc<dyn FileSystem>) {
    let model = Medium::named("hinfs").and_then(|medium| medium.build()).expect("a preset");
    let region = Arc::new(Region::anonymous(Bytes::mib(4), model).expect("memory"));
    let design = by_name(name).expect("a design");
    design.format().mkfs(&Storage::from(&region), &harness::options(design, options)).expect("mkfs");
    let fs = mount(&region, (name, options));
    (region, fs)
}

/// What a kill of the process leaves now.
fn image_of(region: &Region) -> Arc<Region> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("a look");
    let copy = harness::region(Bytes(region.len()));
    copy.store(0, &bytes).expect("a copy");
    copy
}

#[test]
fn an_fsync_during_the_commit_of_another_task_returns_when_its_own_file_is_durable() {
    for step in 0..24 {
        virtually(1, move || {
            let (region, fs) = mounted(EXT4);
            let [a, b] = [b"a", b"b"].map(|name| fs.create(fs.root(), name, &NEW).expect("create").ino);
            let other = Arc::clone(&fs);
            let other = sim::spawn(TaskSpec::named("a").on_core(1), move || other.fsync(a, false));
            sim::sleep(Nanos::from_micros(step * 4));
            fs.fsync(b, false).expect("fsync");
            let image = image_of(&region);
            other.join().expect("fsync");
            fs.unmount().expect("unmount");
            let after = mount(&image, EXT4);
            assert!(after.lookup(after.root(), b"b").is_ok(), "{} us later: the file is lost", step * 4);
            after.unmount().expect("unmount");
        });
    }
}

/// Makes a file whose blocks are on the device, and every second of them dirty, so that its write-back takes many requests.
fn half_dirty(fs: &dyn FileSystem) -> Ino {
    let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
    fs.write(file, 0, &vec![b'o'; (BLOCKS * BLOCK) as usize], IoFlags::empty()).expect("write");
    fs.sync().expect("sync");
    for block in (0..BLOCKS).step_by(2) {
        fs.write(file, block * BLOCK, &[b'x'; BLOCK as usize], IoFlags::empty()).expect("write");
    }
    file
}

/// A call that frees blocks of a file.
type Cut = fn(&dyn FileSystem, Ino);

const CUTS: [Cut; 3] = [
    |fs, file| {
        fs.setattr(file, &SetAttr { size: Some(BLOCKS * BLOCK / 2), ..SetAttr::default() })
            .expect("truncate");
    },
    |fs, _| fs.unlink(fs.root(), b"x").expect("unlink"),
    |fs, file| {
        let hole = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        fs.fallocate(file, hole, BLOCKS * BLOCK / 2, BLOCKS * BLOCK / 2).expect("punch");
    },
];

/// Cuts the file while its write-back is under way, gives its blocks to another file, and looks at that.
fn reuse_during_write_back(given: Given, cut: usize, later: Nanos) {
    virtually(1, move || {
        let (_region, fs) = mounted(given);
        let filler = fs.create(fs.root(), b"filler", &NEW).expect("create").ino;
        let next = fs.create(fs.root(), b"y", &NEW).expect("create").ino;
        let file = half_dirty(&*fs);
        let mut end = 0;
        while let Ok(written) = fs.write(filler, end, &[b'f'; BLOCK as usize], IoFlags::DSYNC) {
            end += written.bytes as u64;
        }
        fs.sync().expect("sync");
        for block in (0..BLOCKS).step_by(2) {
            fs.write(file, block * BLOCK, &[b'x'; BLOCK as usize], IoFlags::empty()).expect("write");
        }
        let other = Arc::clone(&fs);
        let other = sim::spawn(TaskSpec::named("sync").on_core(1), move || other.sync());
        sim::sleep(later);
        CUTS[cut](&*fs, file);
        let data = vec![b'y'; (BLOCKS / 2 * BLOCK) as usize];
        fs.write(next, 0, &data, IoFlags::empty()).expect("write");
        fs.fsync(next, false).expect("fsync");
        other.join().expect("sync");
        fs.drop_caches().expect("drop");
        let mut found = vec![0; data.len()];
        let bytes = fs.read(next, 0, &mut found, IoFlags::empty()).expect("read");
        let foreign = found[..bytes].iter().filter(|byte| **byte != b'y').count();
        assert_eq!(
            foreign, 0,
            "{given:?}, cut {cut}, {later} later: {foreign} of {bytes} bytes are another's"
        );
        fs.unmount().expect("unmount");
    });
}

#[test]
fn write_back_that_is_under_way_never_reaches_blocks_that_another_file_was_given() {
    for given in GIVEN {
        for cut in 0..CUTS.len() {
            (0..8).for_each(|step| reuse_during_write_back(given, cut, Nanos::from_micros(step * 60)));
        }
    }
}

#[test]
fn no_page_stays_dirty_after_its_write_failed_while_its_file_was_removed() {
    for given in GIVEN {
        virtually(1, move || {
            let (region, fs) = mounted(given);
            half_dirty(&*fs);
            region.inject(Fault::FailNth { target: Target::Store, nth: 100 });
            let other = Arc::clone(&fs);
            let other = sim::spawn(TaskSpec::named("sync").on_core(1), move || other.sync());
            sim::sleep(Nanos::from_micros(100));
            fs.unlink(fs.root(), b"x").expect("unlink");
            assert!(other.join().is_err(), "{given:?}: the fault has struck nothing");
            region.clear_faults();
            fs.sync().expect("sync");
            let dirty = fs.counters().into_iter().find(|(name, _)| *name == "cache_dirty_pages");
            assert_eq!(dirty, Some(("cache_dirty_pages", 0)), "{given:?}");
            fs.unmount().expect("unmount");
        });
    }
}

/// A read takes no lock of the inode; what it has copied counts only if the file has not changed meanwhile.
#[test]
fn a_read_during_a_truncate_and_a_write_sees_the_file_before_between_or_after() {
    for given in GIVEN {
        let seen: BTreeSet<_> =
            (0..60).map(|step| read_during_change(given, Nanos::from_micros(step * 2))).collect();
        assert!(
            seen.iter().all(|seen| ["old", "empty", "new"].contains(&seen.as_str())),
            "{given:?}: {seen:?}"
        );
        assert!(seen.len() > 1, "{given:?}: every read saw {seen:?}");
    }
}

/// What a read of the whole file saw that began so much earlier than a truncate, which a write of other bytes follows.
fn read_during_change(given: Given, later: Nanos) -> String {
    const BYTES: usize = (64 * BLOCK) as usize;
    virtually(1, move || {
        let (_region, fs) = mounted(given);
        let file = fs.create(fs.root(), b"x", &NEW).expect("create").ino;
        fs.write(file, 0, &vec![b'o'; BYTES], IoFlags::empty()).expect("write");
        fs.sync().expect("sync");
        let other = Arc::clone(&fs);
        let other = sim::spawn(TaskSpec::named("change").on_core(1), move || {
            sim::sleep(later);
            other.setattr(file, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("truncate");
            other.write(file, 0, &vec![b'n'; BYTES], IoFlags::empty()).expect("write");
        });
        let mut found = vec![0; 2 * BYTES];
        let bytes = fs.read(file, 0, &mut found, IoFlags::empty()).expect("read");
        other.join();
        fs.unmount().expect("unmount");
        match &found[..bytes] {
            [] => "empty".to_owned(),
            all if *all == vec![b'o'; BYTES] => "old".to_owned(),
            all if *all == vec![b'n'; BYTES] => "new".to_owned(),
            mixed => {
                format!("{bytes} bytes that begin with {:?} and end with {:?}", mixed[0], mixed[bytes - 1])
            }
        }
    })
}
