//! Damaged images: each fsck predicate reports the fault that is planted for it, what was found by editing images at random
//! (`fuzz.rs`) does not come back, and a medium that fails loses nothing.

use crate::shared::harness;
use std::sync::Arc;

use crate::shared::harness::virtually;
use check::tree::without_times;
use check::{File, NEW, Op, Pattern, Runner, Tree, observe};
use design::{Design, FsError};
use media::Storage;
use media::fault::{Fault, Target};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Errno, IoFlags, XattrMode};

const JOURNAL: u64 = 64 * 1024;
/// The inode table is the first block behind the journal; the root's names are in the second.
const TABLE: u64 = 4096 + JOURNAL;
const ROOT_NAMES: u64 = TABLE + 4096;
const COPY: u64 = 512;
const SLOT: u64 = 128;

fn pmfs() -> &'static dyn Design {
    fs::by_name("pmfs").expect("pmfs is a design")
}

/// Sets an attribute of `file`.
fn set_attribute(name: &str, len: usize) -> Op {
    Op::SetXattr("file".into(), name.into(), Pattern { len, tag: 1 }, XattrMode::Set)
}

/// An image with files, directories and links that was unmounted.
fn image(size: Bytes) -> Arc<Region> {
    let region = harness::region(size);
    let options = harness::options(pmfs(), &[("jsize", "64k")]);
    pmfs().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let mut runner = Runner::new(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
    let write =
        |path: &str, offset, len| Op::Write(File::At(path.into()), Some(offset), Pattern { len, tag: 1 });
    let ops = [
        Op::Create("file".into()),
        write("file", 0, 20_000),
        Op::Mkdir("dir".into()),
        Op::Create("dir/other".into()),
        write("dir/other", 0, 100),
        Op::Link("file".into(), "dir/link".into()),
        Op::Symlink("sym".into(), 60),
        Op::Mkdir("dir/sub".into()),
        Op::Create("empty".into()),
        set_attribute("user.a", 100),
        set_attribute("user.b", 1000),
    ];
    for op in ops {
        runner.run(&op).expect("the image can be filled");
    }
    runner.fs.unmount().expect("unmount");
    region
}

/// The offset of the inode slot that `path` leads to.
fn slot_of(region: &Arc<Region>, path: &str) -> u64 {
    let options = harness::options(pmfs(), &[("jsize", "64k")]);
    let fs = pmfs().mount(&Storage::from(region), &options).expect("mount");
    let parts = path.split('/').filter(|part| !part.is_empty());
    let ino = parts.fold(fs.root(), |at, name| fs.lookup(at, name.as_bytes()).expect("it is there").ino);
    fs.unmount().expect("unmount");
    TABLE + ino.0
}

fn predicates(region: &Arc<Region>) -> Vec<&'static str> {
    let mut found: Vec<_> = pmfs()
        .format()
        .fsck(&Storage::from(region))
        .violations
        .iter()
        .map(|violation| violation.predicate)
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// A fault: what it is called, how it is planted.
type Canary = (&'static str, fn(&Arc<Region>));

const CANARIES: &[Canary] = &[
    ("superblock_valid", |region| {
        for at in [4, COPY + 4] {
            region.store_u32(at, 77).expect("a store");
        }
    }),
    ("superblock_copied", |region| region.store_u32(COPY + 4, 77).expect("a store")),
    ("journal_descriptor_possible", |region| region.store_u32(128 + 8, 12_345 * 8).expect("a store")),
    ("inode_mode_known", |region| {
        let at = slot_of(region, "file") + 36;
        region.store_u16(at, 0o170_644).expect("a store");
    }),
    ("root_is_directory", |region| {
        region.store_u16(TABLE + SLOT + 36, 0o100_755).expect("a store");
    }),
    ("blocks_in_range", |region| {
        let at = slot_of(region, "dir/other") + 8;
        region.store_u64(at, region.len() + 4096).expect("a store");
    }),
    ("block_used_once", |region| {
        let (one, other) = (slot_of(region, "dir/other"), slot_of(region, "sym"));
        let block = region.load_u64(other + 8).expect("a load");
        region.store_u64(one + 8, block).expect("a store");
    }),
    ("block_count_right", |region| {
        let at = slot_of(region, "file") + 40;
        region.store_u64(at, 99).expect("a store");
    }),
    ("times_possible", |region| {
        let at = slot_of(region, "file") + 44;
        region.store_u32(at, 1_000_000_000 << 2).expect("a store");
    }),
    ("attribute_block_in_range", |region| {
        let at = slot_of(region, "file") + 48;
        region.store_u64(at, region.len() + 4096).expect("a store");
    }),
    ("attributes_sound", |region| {
        let block = region.load_u64(slot_of(region, "file") + 48).expect("a load");
        let used = region.load_u32(block + 4).expect("a load");
        region.store_u32(block + 4, used - 1).expect("a store");
    }),
    ("size_covers_blocks", |region| {
        let at = slot_of(region, "file") + 16;
        region.store_u64(at, 4096).expect("a store");
    }),
    ("directory_sound", |region| region.store_u16(ROOT_NAMES + 8, 13).expect("a store")),
    ("names_lead_to_inodes", |region| {
        let at = slot_of(region, "empty");
        region.store(at, &[0; 48]).expect("a store");
    }),
    ("link_count_right", |region| {
        let at = slot_of(region, "file") + 38;
        region.store_u16(at, 3).expect("a store");
    }),
    ("nothing_lost", |region| {
        let spare = slot_of(region, "empty") + SLOT;
        region.store_u16(spare + 36, 0o100_644).expect("a store");
    }),
    ("truncate_list_sound", |region| region.store_u64(272 + 8, 77).expect("a store")),
    ("saved_map_right", |region| {
        let map = region.load_u64(TABLE + 2 * SLOT + 8).expect("a load");
        let high = region.load_u64(map + 8).expect("a load");
        region.store_u64(map + 8, high + 1).expect("a store");
    }),
];

#[test]
fn every_predicate_of_fsck_has_a_fault_that_only_it_reports() {
    virtually(1, || {
        for (predicate, plant) in CANARIES {
            let region = image(Bytes::mib(1));
            assert_eq!(predicates(&region), Vec::<&str>::new(), "before {predicate}");
            plant(&region);
            let found = predicates(&region);
            assert_eq!(found, [*predicate]);
        }
    });
}

/// Faults that no repair can mend: nothing says what was there.
const BEYOND_REPAIR: &[&str] = &["superblock_valid", "journal_descriptor_possible", "root_is_directory"];

/// Repair makes every other planted fault right, keeps the files that have nothing to do with it, and finds nothing more to do.
#[test]
fn repair_makes_each_planted_fault_right_and_keeps_the_rest() {
    virtually(1, || {
        for (predicate, plant) in CANARIES.iter().filter(|(predicate, _)| !BEYOND_REPAIR.contains(predicate))
        {
            let region = image(Bytes::mib(1));
            plant(&region);
            let storage = Storage::from(&region);
            let done =
                pmfs().format().repair(&storage).unwrap_or_else(|error| panic!("{predicate}: {error}"));
            assert!(!done.is_empty(), "{predicate}");
            assert_eq!(predicates(&region), Vec::<&str>::new(), "after {predicate}: {done:?}");
            assert_eq!(pmfs().format().repair(&storage).expect("again"), Vec::<String>::new(), "{predicate}");
            let options = harness::options(pmfs(), &[("jsize", "64k")]);
            let fs = pmfs().mount(&storage, &options).unwrap_or_else(|error| panic!("{predicate}: {error}"));
            let dir =
                fs.lookup(fs.root(), b"dir").unwrap_or_else(|errno| panic!("{predicate}: {errno:?}")).ino;
            let link = fs.lookup(dir, b"link").expect("a name in a directory").ino;
            let mut bytes = vec![0; 20_000];
            // The fault of the size cuts the file short; the rest is behind the new size again.
            assert_eq!(fs.read(link, 0, &mut bytes, IoFlags::empty()), Ok(20_000), "{predicate}: {done:?}");
            fs.unmount().expect("unmount");
            assert_eq!(predicates(&region), Vec::<&str>::new(), "mounted after {predicate}");
        }
    });
}

/// Its index, its records, and a value that lies apart from these.
#[test]
fn a_damaged_set_of_large_attributes_is_told_and_repair_gives_up_no_other() {
    for part in ["index", "records", "value"] {
        virtually(1, move || {
            let region = image(Bytes::mib(1));
            let storage = Storage::from(&region);
            let options = harness::options(pmfs(), &[("jsize", "64k")]);
            let mut runner = Runner::new(pmfs().mount(&storage, &options).expect("mount"));
            runner.run(&set_attribute("user.large", 9000)).expect("space");
            let other =
                Op::SetXattr("dir".into(), "user.b".into(), Pattern { len: 5000, tag: 2 }, XattrMode::Set);
            runner.run(&other).expect("space");
            runner.fs.unmount().expect("unmount");
            assert_eq!(predicates(&region), Vec::<&str>::new());
            let pointer = region.load_u64(slot_of(&region, "file") + 48).expect("a load");
            assert_eq!(pointer % 4096, 1, "it leads to an index");
            let records = region.load_u64(pointer - 1 + 16).expect("a load");
            // The last record is that of the new value, whose last block pointer is behind its name.
            let used = u64::from(region.load_u32(pointer - 1 + 4).expect("a load"));
            let mut last = [0; 8];
            region.peek(records + used - 8, &mut last).expect("a load");
            let at = match part {
                "index" => pointer - 1 + 4,
                "records" => records + 20,
                _ => u64::from_le_bytes(last) + 100,
            };
            let word = region.load_u16(at).expect("a load");
            region.store_u16(at, word ^ 0x1001).expect("a store");
            assert!(predicates(&region).contains(&"attributes_sound"), "{part}");
            let done = pmfs().format().repair(&storage).expect("repair");
            assert_eq!(predicates(&region), Vec::<&str>::new(), "{part}: {done:?}");
            assert_eq!(pmfs().format().repair(&storage).expect("again"), Vec::<String>::new());
            let fs = pmfs().mount(&storage, &options).expect("mount");
            let tree = observe(&*fs).expect("a sound tree");
            assert!(tree["file"].xattrs.is_empty() && tree["file"].content.len() == 20_000, "{part}");
            assert_eq!(tree["dir"].xattrs["user.b"], Pattern { len: 5000, tag: 2 }.bytes(0));
            fs.unmount().expect("unmount");
        });
    }
}

/// A file that lost its name keeps its contents in `lost+found`.
#[test]
fn repair_puts_a_file_without_a_name_into_lost_and_found() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        let number = slot_of(&region, "file") - TABLE;
        // Both names of the file: records of the root and of `dir`.
        for directory in ["", "dir"] {
            let block = region.load_u64(slot_of(&region, directory) + 8).expect("a load");
            let mut bytes = [0; 4096];
            region.peek(block, &mut bytes).expect("a load");
            let is_it = |at: &usize| bytes[*at..*at + 8] == number.to_le_bytes();
            let at = (0..4088).step_by(4).find(is_it).expect("a record");
            region.store(block + at as u64, &[0; 8]).expect("a store");
        }
        let done = pmfs().format().repair(&Storage::from(&region)).expect("repair");
        assert_eq!(predicates(&region), Vec::<&str>::new(), "{done:?}");
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount");
        let lost = fs.lookup(fs.root(), b"lost+found").expect("it was made").ino;
        let file = fs.lookup(lost, format!("#{number}").as_bytes()).expect("the file");
        assert_eq!((file.ino.0, file.size, file.nlink), (number, 20_000, 1));
        fs.unmount().expect("unmount");
    });
}

/// Edits that fuzzing has found: what was wrong then, whether of a crashed image, and the edits as `weir check fuzz` names them.
const FOUND: &[(&str, bool, &str)] = &[
    ("fsck was content with an image without a root", false, "0 69760:00000000000000000000"),
    ("fsck was content with an inode table of nothing", false, "0 192:00000000000000000000000000000000"),
    (
        "a truncate list that leads nowhere was found after a change, and mounting changed more each time",
        false,
        "0 284:01",
    ),
    ("a count of blocks in the inode of the block map was added to by each unmount", true, "0 69928:01"),
    ("fsck did not see an attribute block of the inode table, which mounting refuses", false, "0 245:7f"),
    ("fsck gathered as many extents of the block map as it was told", false, "0 64:ffffffffff"),
];

#[test]
fn what_fuzzing_found_does_not_come_back() {
    let design = harness::with_options("pmfs", &[("jsize", "64k")]);
    for (what, crashed, edits) in FOUND {
        let crashed = *crashed;
        let bytes = virtually(1, move || {
            let region = image(Bytes::mib(1));
            if crashed {
                let options = harness::options(pmfs(), &[("jsize", "64k")]);
                drop(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
            }
            let mut bytes = vec![0; region.len() as usize];
            region.peek(0, &mut bytes).expect("a load");
            bytes
        });
        let mutant = edits.parse().expect("edits");
        assert_eq!(check::fuzz::try_image(&design, &bytes, &mutant), Ok(()), "again: {what}");
    }
}

#[test]
fn what_nobody_reads_in_the_inode_of_the_block_map_counts_for_nothing() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        drop(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
        region.store_u64(TABLE + 2 * SLOT + 48, 2).expect("a store");
        assert_eq!(predicates(&region), Vec::<&str>::new(), "there is no saved map");
        pmfs().mount(&Storage::from(&region), &options).expect("mount").unmount().expect("unmount");
        assert_eq!(predicates(&region), Vec::<&str>::new());
    });
}

/// A table whose blocks are said to have 1 GiB would have eight million inodes, for each of which there is an object in DRAM.
#[test]
fn an_inode_table_that_ends_outside_the_image_is_refused_before_it_is_loaded() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        region.store(195, &[2]).expect("a store");
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let error = pmfs().mount(&Storage::from(&region), &options).err().expect("refused").to_string();
        assert!(error.contains("ends outside the image"), "{error}");
        assert!(!predicates(&region).is_empty());
    });
}

/// The scan of an image that was not unmounted leaves out what is free, so its blocks count as free already.
#[test]
fn a_free_inode_on_the_truncate_list_that_has_blocks_is_refused_each_time() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let at = slot_of(&region, "dir/other");
        drop(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
        region.store_u32(at + 36, 0).expect("a store");
        region.store_u64(272 + 8, at - TABLE).expect("a store");
        for _ in 0..3 {
            let error = pmfs().mount(&Storage::from(&region), &options).err().expect("refused").to_string();
            assert!(error.contains("is free and has blocks"), "{error}");
        }
    });
}

/// A node that leads to itself everywhere, under a directory of 2^40 bytes: a listing must stop before that.
#[test]
fn a_directory_that_leads_back_into_itself_has_an_end() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        let at = slot_of(&region, "dir");
        let block = region.load_u64(at + 8).expect("a load");
        for slot in 0..512 {
            region.store_u64(block + 8 * slot, block).expect("a store");
        }
        region.store(at + 2, &[3]).expect("a store");
        region.store_u64(at + 16, 1 << 40).expect("a store");
        assert!(predicates(&region).contains(&"directory_sound"));
        for index in ["true", "false"] {
            let options = harness::options(pmfs(), &[("jsize", "64k"), ("dir_index", index)]);
            let Ok(fs) = pmfs().mount(&Storage::from(&region), &options) else { continue };
            let dir = fs.lookup(fs.root(), b"dir").expect("the name is there").ino;
            assert!(fs.lookup(dir, b"nothing").is_err());
            let _ = fs.readdir(dir, 0, &mut |_| true);
            let _ = fs.unmount();
        }
    });
}

#[test]
fn a_bad_superblock_is_read_from_the_copy_and_two_are_refused() {
    virtually(1, || {
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        for poison in [false, true] {
            let region = image(Bytes::mib(1));
            if poison {
                region.inject(Fault::Poison { offset: 0 });
            } else {
                region.store(8, &[0xFF; 8]).expect("a store");
            }
            let report = pmfs().format().fsck(&Storage::from(&region));
            assert!(report.violations.is_empty(), "{:?}", report.violations);
            assert!(report.notes.iter().any(|note| note.contains("redundant copy")), "{:?}", report.notes);
            let done = pmfs().format().recover(&Storage::from(&region)).expect("recover");
            assert!(done.iter().any(|line| line.contains("redundant copy")), "{done:?}");
            let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount");
            observe(&*fs).expect("all is there");
            fs.unmount().expect("unmount");
            assert_eq!(pmfs().format().fsck(&Storage::from(&region)).notes, Vec::<String>::new());
        }
        let region = image(Bytes::mib(1));
        for at in [8, COPY + 8] {
            region.store(at, &[0xFF; 8]).expect("a store");
        }
        assert!(matches!(pmfs().mount(&Storage::from(&region), &options), Err(FsError::Damaged { .. })));
        let region = image(Bytes::mib(1));
        for at in [2, COPY + 2] {
            region.store_u16(at, 0x1234).expect("a store");
        }
        assert!(matches!(pmfs().mount(&Storage::from(&region), &options), Err(FsError::WrongFormat { .. })));
        assert!(!pmfs().format().recognises(&Storage::from(&region)));
    });
}

#[test]
fn the_copy_never_brings_back_a_journal_or_a_map_of_long_ago() {
    virtually(1, || {
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let region = image(Bytes::mib(1));
        let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount");
        let file = fs.create(fs.root(), b"later", &NEW).expect("create").ino;
        fs.write(file, 0, &[7; 9000], IoFlags::empty()).expect("write");
        drop(fs);
        region.store(0, &[0; 48]).expect("a store");
        let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount");
        let mut back = [0; 9000];
        assert_eq!(fs.read(file, 0, &mut back, IoFlags::empty()), Ok(9000));
        assert_eq!(back, [7; 9000]);
        let other = fs.create(fs.root(), b"other", &NEW).expect("create").ino;
        fs.write(other, 0, &[8; 9000], IoFlags::empty()).expect("write");
        fs.unmount().expect("unmount");
        assert_eq!(predicates(&region), Vec::<&str>::new());
    });
}

#[test]
fn a_truncated_image_is_refused() {
    virtually(1, || {
        let region = image(Bytes::mib(1));
        let short = harness::region(Bytes::kib(512));
        let mut bytes = vec![0; short.len() as usize];
        region.peek(0, &mut bytes).expect("a load");
        short.store(0, &bytes).expect("a store");
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let error = pmfs().mount(&Storage::from(&short), &options).err().expect("refused").to_string();
        assert!(error.contains("1048576 bytes") && error.contains("524288"), "{error}");
        assert_eq!(predicates(&short), ["superblock_valid"]);
    });
}

/// The journal's generations run out: entries of long ago must not come back.
#[test]
fn the_last_generation_is_followed_by_the_first() {
    virtually(1, || {
        let options = harness::options(pmfs(), &[("jsize", "64k")]);
        let region = image(Bytes::mib(1));
        for generation in [65_534u16, 65_535] {
            region.store_u16(128 + 20, generation).expect("a store");
            for round in 0..3 {
                let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount");
                for _ in 0..150 {
                    fs.create(fs.root(), b"tmp", &NEW).expect("create");
                    fs.unlink(fs.root(), b"tmp").expect("unlink");
                }
                let before = observe(&*fs).expect("a sound tree");
                if round != 1 {
                    fs.unmount().expect("unmount");
                }
                drop(fs);
                let fs = pmfs().mount(&Storage::from(&region), &options).expect("mount after a crash");
                assert_eq!(observe(&*fs).expect("a sound tree"), before);
                fs.unmount().expect("unmount");
                assert_eq!(predicates(&region), Vec::<&str>::new());
            }
        }
    });
}

/// The nth load or store fails, for all n: the call says EIO (or succeeds), and afterwards all is as before or as after.
#[test]
fn a_medium_that_fails_once_loses_nothing() {
    let ops: [Op; 12] = [
        Op::Create("new".into()),
        Op::Mkdir("dir/new".into()),
        Op::Symlink("new".into(), 100),
        Op::Write(File::At("file".into()), Some(19_000), Pattern { len: 9000, tag: 3 }),
        Op::Truncate(File::At("file".into()), 5000),
        Op::Unlink("sym".into()),
        Op::Rename("sym".into(), "dir/other".into(), vfs::RenameFlags::empty()),
        Op::Rename("dir/sub".into(), "sub".into(), vfs::RenameFlags::empty()),
        Op::Link("sym".into(), "dir/sym".into()),
        set_attribute("user.a", 200),
        Op::RemoveXattr("file".into(), "user.b".into()),
        Op::Rename("sym".into(), "file".into(), vfs::RenameFlags::empty()),
    ];
    let mut failures = 0;
    for op in ops {
        for target in [Target::Load, Target::Store] {
            for nth in 1..400 {
                let op = op.clone();
                let (done, struck) = virtually(nth, move || fail_nth(&op, target, nth));
                done.unwrap_or_else(|what| panic!("{target} {nth}: {what}"));
                failures += u64::from(struck);
                if !struck {
                    break;
                }
            }
        }
    }
    println!("{failures} injected failures");
    assert!(failures > 300, "{failures}");
}

fn fail_nth(op: &Op, target: Target, nth: u64) -> (Result<(), String>, bool) {
    let options = harness::options(pmfs(), &[("jsize", "64k")]);
    let after = {
        let region = image(Bytes::mib(1));
        let mut runner = Runner::new(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
        runner.run(op).expect("possible");
        observe(&*runner.fs).expect("a sound tree")
    };
    let region = image(Bytes::mib(1));
    let mut runner = Runner::new(pmfs().mount(&Storage::from(&region), &options).expect("mount"));
    let before = observe(&*runner.fs).expect("a sound tree");
    // Counted on the operation itself: one that is not reached means that all were tried.
    region.inject(Fault::FailNth { target, nth });
    let done = runner.run(op);
    let struck = region.clear_faults() > 0;
    let judge = || {
        if let Err(errno) = done
            && errno != Errno::EIO
        {
            return Err(format!("{op:?} gave {}", errno.name()));
        }
        let data = op.changes_data();
        let tree = observe(&*runner.fs)?;
        // What is undone has its old times; what is done, those of another run.
        let fits =
            |tree: &Tree| tree == &before || without_times(tree.clone()) == without_times(after.clone());
        if !data && !fits(&tree) && !matches!(op, Op::Truncate(..)) {
            return Err(format!("{op:?}: neither as before nor as after, still mounted"));
        }
        if runner.fs.unmount().is_err() {
            pmfs().format().recover(&Storage::from(&region)).map_err(|error| error.to_string())?;
        }
        let found = predicates(&region);
        if !found.is_empty() {
            return Err(format!("{op:?}: fsck finds {found:?}"));
        }
        let fs = pmfs().mount(&Storage::from(&region), &options).map_err(|error| error.to_string())?;
        let tree = observe(&*fs)?;
        if !data && !fits(&tree) && !matches!(op, Op::Truncate(..)) {
            return Err(format!("{op:?}: neither as before nor as after"));
        }
        Ok(())
    };
    (judge(), struck)
}
