//! Damaged images of a mount: each predicate of fsck reports the fault that is planted for it, and repair keeps the rest.

use std::sync::Arc;

use check::{File, Op, Pattern, Runner, observe};
use design::{Design, FsError};
use fs::crest::format::layout::{Geometry, LINE, ROOT_INO, Superblock, item};
use fs::crest::format::mutant::Rules;
use fs::crest::format::record::{Body, Create, Extent, Hole, Id, Item, Names, Record, Seal, Write, Xattr};
use fs::crest::format::zone::{Log, Use, Word};
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Errno, IoFlags};

use crate::shared::harness::{self, bytes_of, virtually};

fn crest() -> &'static dyn Design {
    fs::by_name("crest").expect("crest is a design")
}

/// An image with files, directories and links that was unmounted.
fn image() -> Arc<Region> {
    let region = harness::region(Bytes::mib(1));
    let options = harness::options(crest(), &[]);
    crest().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let mut runner = Runner::new(crest().mount(&Storage::from(&region), &options).expect("mount"));
    let write = |path: &str, len| Op::Write(File::At(path.into()), Some(0), Pattern { len, tag: 1 });
    let ops = [
        Op::Create("file".into()),
        write("file", 20_000),
        Op::Mkdir("dir".into()),
        Op::Create("dir/other".into()),
        write("dir/other", 5000),
        Op::Link("file".into(), "dir/link".into()),
        Op::Symlink("sym".into(), 60),
    ];
    for op in ops {
        runner.run(&op).expect("the image can be filled");
    }
    runner.fs.unmount().expect("unmount");
    region
}

/// What the format says of an image.
struct Seen {
    superblock: Superblock,
    geometry: Geometry,
    /// The last log zone, its opening, and the line behind its last record.
    tail: (u32, u64, u32),
    log: Log,
}

/// The seal of a zone, as far as it is known without its Open.
fn seal_of(superblock: &Superblock, opening: u64) -> Seal {
    let keyed = Geometry::of(superblock).keyed;
    Seal { secret: superblock.secret[0], opening, keyed, nonce: 0, rules: Rules::ALL }
}

fn look(region: &Region) -> Seen {
    let superblock: Superblock = region.read(0).expect("a load");
    let geometry = Geometry::of(&superblock);
    let mut log = Log::default();
    for zone in 0..geometry.zones {
        let word = region.load_u64(geometry.words_at(zone)[0]).expect("a load");
        let Some(Word { usage: Use::Log, opening, .. }) = Word::unpack(zone, word) else { continue };
        let mut bytes = vec![0; geometry.zone_bytes as usize];
        region.peek(geometry.zone_at(zone), &mut bytes).expect("a load");
        log.read_zone(zone, seal_of(&superblock, opening), &bytes);
    }
    let tail = log.ends.iter().copied().max_by_key(|end| end.1).expect("a log zone");
    Seen { superblock, geometry, tail, log }
}

/// Adds a record that a bug would have written.
fn forge(region: &Region, body: Body) {
    let Seen { superblock, geometry, tail: (zone, opening, line), log } = look(region);
    let mut bytes = vec![0; geometry.zone_bytes as usize];
    region.peek(geometry.zone_at(zone), &mut bytes).expect("a load");
    let seal = seal_of(&superblock, opening).of_zone(&bytes).expect("the zone has its Open");
    let record = Record::alone(Id::new(log.top.time() + 1, 0), body);
    let bytes = record.encode(seal, line).expect("a short record");
    region.store(geometry.zone_at(zone) + u64::from(line) * LINE as u64, &bytes).expect("a store");
}

/// The first inode with this name, and the first block of its data.
pub(super) fn named(region: &Region, name: &[u8]) -> (u64, u64) {
    let records = look(region).log.records;
    let ino = records.iter().find_map(|found| match &found.record.body {
        Body::Create(create) if create.name == name => Some(create.ino),
        _ => None,
    });
    let ino = ino.expect("it was made");
    let place = records.iter().find_map(|found| match &found.record.body {
        Body::Write(write) if write.ino == ino => write.extents.first().map(|extent| extent.place),
        _ => None,
    });
    (ino, place.unwrap_or(0))
}

fn create(dir: u64, name: &[u8], ino: u64) -> Body {
    Body::Create(Create { ino, dir, name: name.to_vec(), mode: 0o100_644, ..Create::default() })
}

fn add(dir: u64, name: &[u8], ino: u64) -> Body {
    let item = Item { what: item::ADD, dir, ino, name: name.to_vec(), ..Item::default() };
    Body::Names(Names { time: 1, items: vec![item] })
}

fn extent(region: &Region, place: u64) -> Body {
    let (ino, _) = named(region, b"file");
    let extent = Extent { file: 9, place, count: 1, ..Extent::default() };
    Body::Write(Write { ino, extents: vec![extent].into(), size: None, time: None })
}

/// A fault: what it is called, how it is planted.
type Canary = (&'static str, fn(&Region));

const CANARIES: &[Canary] = &[
    ("superblock_valid", |region| {
        for at in fs::crest::format::layout::SUPERBLOCKS {
            region.store_u64(at + 40, 77).expect("a store");
        }
    }),
    ("words_valid", |region| {
        let geometry = look(region).geometry;
        for at in geometry.words_at(geometry.zones / 2) {
            region.store_u64(at, 0).expect("a store");
        }
    }),
    ("log_sound", |region| {
        // The last record stays, so that no crash explains the gap.
        let seen = look(region);
        let lost = seen.log.records.iter().find(|found| found.zone == seen.tail.0 && found.line > 1);
        let lost = lost.expect("a record");
        let at = seen.geometry.zone_at(lost.zone) + u64::from(lost.line) * LINE as u64;
        region.store(at, &[0; LINE]).expect("a store");
    }),
    ("names_lead_to_inodes", |region| forge(region, add(ROOT_INO, b"none", 77))),
    ("born_once", |region| {
        let ino = named(region, b"file").0;
        let mode = 0o040_755;
        forge(region, Body::Create(Create { ino, mode, ..Create::default() }));
    }),
    ("names_sound", |region| forge(region, create(ROOT_INO, b"a/b", 77))),
    ("name_used_once", |region| {
        let other = named(region, b"other").0;
        forge(region, add(ROOT_INO, b"file", other));
    }),
    ("attributes_sound", |region| {
        let ino = named(region, b"file").0;
        let (name, value) = (b"user.a\0b".to_vec(), vec![1]);
        forge(region, Body::Xattr(Xattr { ino, name, value, ..Xattr::default() }));
    }),
    ("root_is_directory", |region| {
        let geometry = look(region).geometry;
        region.store(geometry.zone_at(0) + LINE as u64, &[0; LINE]).expect("a store");
    }),
    ("tree_sound", |region| {
        let dir = named(region, b"dir").0;
        forge(region, add(ROOT_INO, b"again", dir));
    }),
    ("numbers_reserved", |region| {
        let next = look(region).superblock.inodes;
        forge(region, create(ROOT_INO, b"new", next));
    }),
    ("blocks_in_range", |region| {
        let geometry = look(region).geometry;
        forge(region, extent(region, geometry.block_at(0, 0)));
    }),
    ("block_used_once", |region| {
        let place = named(region, b"other").1;
        forge(region, extent(region, place));
    }),
    ("size_possible", |region| {
        let ino = named(region, b"file").0;
        forge(
            region,
            Body::Write(Write { ino, extents: vec![].into(), size: Some((1 << 48) - 1), time: None }),
        );
    }),
];

/// A mount by FUSE has them stored under their own names.
#[test]
fn access_control_lists_are_attributes() {
    virtually(1, || {
        let region = image();
        let ino = named(&region, b"file").0;
        let name = b"system.posix_acl_access".to_vec();
        forge(&region, Body::Xattr(Xattr { ino, name, value: vec![1], ..Xattr::default() }));
        assert_eq!(predicates(&region), [""; 0]);
    });
}

#[test]
fn a_block_that_no_file_can_have_is_damage() {
    virtually(1, || {
        let region = image();
        let (ino, place) = named(&region, b"file");
        let extent = Extent { file: 1 << 39, place, count: 1, ..Extent::default() };
        forge(&region, Body::Write(Write { ino, extents: vec![extent].into(), size: None, time: None }));
        assert!(predicates(&region).contains(&"size_possible"), "{:?}", predicates(&region));
    });
}

#[test]
fn a_hole_that_ends_behind_the_largest_file_is_damage() {
    virtually(1, || {
        let region = image();
        let ino = named(&region, b"file").0;
        forge(&region, Body::Hole(Hole { ino, count: 1 << 40, ..Hole::default() }));
        assert_eq!(predicates(&region), ["log_sound"]);
    });
}

/// The record of the add may be gone. Another name with its id would be hidden.
#[test]
fn no_id_that_a_removal_names_is_given_out_again() {
    virtually(1, || {
        let region = image();
        let ino = named(&region, b"file").0;
        let added = Id::new(look(&region).log.top.time() + 100, 1);
        let item = Item { what: item::REMOVE, dir: ROOT_INO, ino, added, ..Item::default() };
        forge(&region, Body::Names(Names { time: 1, items: vec![item] }));
        assert_eq!(look(&region).log.top, added);
    });
}

fn predicates(region: &Arc<Region>) -> Vec<&'static str> {
    let report = crest().format().fsck(&Storage::from(region));
    let mut found: Vec<_> = report.violations.iter().map(|violation| violation.predicate).collect();
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn every_predicate_of_fsck_has_a_fault_that_only_it_reports_and_a_mount_refuses() {
    virtually(1, || {
        for (predicate, plant) in CANARIES {
            let region = image();
            assert_eq!(predicates(&region), [""; 0], "before {predicate}");
            plant(&region);
            let found = predicates(&region);
            // What is lost with the root is told, too.
            assert!(
                found == [*predicate] || *predicate == "root_is_directory" && found.contains(predicate),
                "{found:?}"
            );
            let options = harness::options(crest(), &[]);
            let refused = crest().mount(&Storage::from(&region), &options).err();
            let refused = refused.unwrap_or_else(|| panic!("{predicate}: it was mounted"));
            assert!(matches!(refused, FsError::Damaged { .. }), "{predicate}: {refused}");
        }
    });
}

#[test]
fn repair_accepts_the_loss_and_keeps_the_rest() {
    virtually(1, || {
        let mended = ["words_valid", "log_sound", "names_lead_to_inodes", "name_used_once"];
        for (predicate, plant) in CANARIES.iter().filter(|(predicate, _)| mended.contains(predicate)) {
            let region = image();
            plant(&region);
            let storage = Storage::from(&region);
            let done = crest().format().repair(&storage).expect("repair");
            assert!(!done.is_empty(), "{predicate}");
            assert_eq!(predicates(&region), [""; 0], "after {predicate}: {done:?}");
            assert_eq!(
                crest().format().repair(&storage).expect("again"),
                Vec::<String>::new(),
                "{predicate}"
            );
            let options = harness::options(crest(), &[]);
            let fs = crest().mount(&storage, &options).expect("mount");
            let tree = observe(&*fs).expect("a sound tree");
            assert_eq!(tree["dir/other"].content.len(), 5000, "{predicate}");
            if *predicate == "name_used_once" {
                assert_eq!((tree["file"].content.len(), tree["file~0"].content.len()), (5000, 20_000));
            }
            fs.unmount().expect("unmount");
        }
    });
}

#[test]
fn images_that_are_not_its_own_or_newer_are_refused_with_what_to_do() {
    virtually(1, || {
        let refused = |region: &Arc<Region>| {
            let options = harness::options(crest(), &[]);
            crest().mount(&Storage::from(region), &options).err().expect("it is refused")
        };
        let foreign = harness::region(Bytes::mib(1));
        assert!(matches!(refused(&foreign), FsError::WrongFormat { .. }));
        let change = |change: fn(&mut Superblock)| {
            let region = image();
            for at in fs::crest::format::layout::SUPERBLOCKS {
                let mut superblock: Superblock = region.read(at).expect("a load");
                change(&mut superblock);
                region.write(at, &superblock.next()).expect("a store");
            }
            refused(&region)
        };
        let newer = change(|superblock| superblock.version = 9);
        assert!(matches!(newer, FsError::NewerFormat { found: 9, known: 1, .. }), "{newer}");
        let unknown = change(|superblock| superblock.incompat = 1 << 60);
        assert!(unknown.to_string().contains("features that this weir does not know"), "{unknown}");
        let longer = change(|superblock| superblock.size += 4096);
        assert!(longer.to_string().contains("the region has"), "{longer}");
    });
}

/// For reading alone a damaged pool is shown as far as it is whole, on a copy; nothing is stored, and nothing can be changed.
#[test]
fn a_damaged_pool_is_shown_for_reading_and_says_what_is_damaged() {
    let shown = ["words_valid", "log_sound", "names_lead_to_inodes", "born_once", "numbers_reserved"];
    let parts = ["blocks_in_range", "block_used_once", "size_possible", "name_used_once", "attributes_sound"];
    virtually(1, move || {
        for (predicate, plant) in CANARIES {
            let region = image();
            plant(&region);
            let (storage, before) = (Storage::from(&region), bytes_of(&region));
            let options = harness::options(crest(), &[]).discarding();
            let mounted = crest().mount(&storage, &options);
            if ![&shown[..], &parts].concat().contains(predicate) {
                assert!(matches!(mounted.err(), Some(FsError::Damaged { .. } | FsError::WrongFormat { .. })));
                continue;
            }
            let fs = mounted.unwrap_or_else(|error| panic!("{predicate}: {error}"));
            let told = Arc::new(std::sync::Mutex::new(Vec::new()));
            let listener = Arc::clone(&told);
            fs.listen(Box::new(move |what| listener.lock().expect("one thread").push(what.to_owned())));
            let told = || told.lock().expect("one thread").join("; ");
            assert!(told().contains("damaged") && told().contains(' '), "{predicate}: {}", told());
            let lookup = |dir, name: &[u8]| fs.lookup(dir, name);
            let dir = lookup(fs.root(), b"dir").expect("it is whole").ino;
            let other = lookup(dir, b"other").expect("it is whole").ino;
            let mut bytes = vec![0; 5000];
            let read = fs.read(other, 0, &mut bytes, IoFlags::empty());
            let expected = Pattern { len: 5000, tag: 1 }.bytes(0);
            if *predicate == "block_used_once" {
                // Which of the two files has lost it cannot be told.
                assert_eq!(read, Err(Errno::EIO));
            } else {
                assert_eq!((read, bytes == expected), (Ok(5000), true), "{predicate}");
            }
            if *predicate == "blocks_in_range" {
                let file = lookup(fs.root(), b"file").expect("its name is whole").ino;
                let mut block = [0; 4096];
                assert_eq!(fs.read(file, 0, &mut block, IoFlags::empty()), Ok(4096));
                let size = fs.getattr(file).expect("it is there").size;
                assert_eq!(size, 20_000, "the forged block lies behind the end");
            }
            if *predicate == "names_lead_to_inodes" {
                assert_eq!(lookup(fs.root(), b"none").err(), Some(Errno::EIO));
            }
            assert_eq!(
                fs.create(fs.root(), b"one more", &check::NEW).err(),
                Some(Errno::EROFS),
                "{predicate}"
            );
            assert_eq!(fs.write(other, 5000, b"more", IoFlags::empty()).err(), Some(Errno::EROFS));
            fs.unmount().expect("unmount");
            assert!(bytes_of(&region) == before, "{predicate}: something was stored");
        }
    });
}

/// A superblock or a word that a crash has torn in one copy is read from the other, and both are whole after the mount.
#[test]
fn one_damaged_copy_is_read_from_the_other() {
    virtually(1, || {
        for copy in 0..2 {
            let region = image();
            let geometry = look(&region).geometry;
            let at = fs::crest::format::layout::SUPERBLOCKS[copy];
            let whole: Superblock = region.read(at).expect("a load");
            region.store_u64(at + 72, 1).expect("a store");
            region.store_u64(geometry.words_at(1)[copy], 0).expect("a store");
            assert_eq!(predicates(&region), [""; 0], "copy {copy}");
            let options = harness::options(crest(), &[]);
            drop(crest().mount(&Storage::from(&region), &options).expect("mount"));
            assert_eq!(region.read::<Superblock>(at).expect("a load"), whole);
            let words = geometry.words_at(1).map(|at| region.load_u64(at).expect("a load"));
            assert_eq!(words[0], words[1]);
        }
    });
}

/// Bytes of the pool, as they are stored.
#[test]
fn what_a_record_says_can_be_edited_when_its_seal_is_made_anew() {
    let region = image();
    let Seen { geometry, log, .. } = look(&region);
    let owner = log.records.iter().find(|found| matches!(found.record.body, Body::Write(_)));
    let found = owner.expect("a file was written");
    // A bit of the time in the body of the record: its last bytes are an extent, the time is before.
    let at = geometry.zone_at(found.zone) as usize + found.line as usize * LINE + 44;
    let before = bytes_of(&region);
    let mut edited = before.clone();
    edited[at] ^= 1;
    let records = |bytes: &[u8]| {
        let region = harness::region(Bytes(bytes.len() as u64));
        region.store(0, bytes).expect("a store");
        look(&region).log
    };
    let torn = records(&edited);
    assert_eq!(torn.records.len(), log.records.len() - 1, "without a seal it is no record");
    assert!(!torn.damage.is_empty());
    crest().format().certify(&before, &mut edited);
    let sealed = records(&edited);
    assert_eq!((sealed.records.len(), sealed.damage.len()), (log.records.len(), 0));
    assert_ne!(sealed.records, log.records, "it says something else");
}

#[test]
fn superblocks_and_words_of_zones_can_be_edited_too() {
    let before = bytes_of(&image());
    let Seen { geometry, tail, .. } = look(&image());
    for at in [16, geometry.words_at(tail.0)[0] as usize + 3] {
        let mut edited = before.clone();
        edited[at] ^= 0x10;
        let plain = edited.clone();
        crest().format().certify(&before, &mut edited);
        assert_ne!(edited, plain, "byte {at}");
        let differ = edited.iter().zip(&plain).filter(|(new, old)| new != old).count();
        assert!(differ <= 8, "byte {at}: only a checksum is made anew, and {differ} bytes differ");
    }
}
