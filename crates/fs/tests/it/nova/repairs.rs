//! Repair of damaged images: each planted fault becomes right, the rest is kept, and a repaired image has nothing to repair.

use std::sync::Arc;

use check::{File, NEW, Op, Pattern, Runner, Tree, observe};
use design::Design;
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileSystem, XattrMode};

use crate::shared::harness::{self, virtually};

const BLOCK: u64 = 4096;
const CLEAN: u64 = 2 * BLOCK;
const COPY: u64 = BLOCK;
/// Offsets of an inode's fields.
const XATTR: u64 = 16;
const HEAD: u64 = 64;
const TAIL: u64 = 72;
const ROOT: u64 = 1;

fn nova() -> &'static dyn Design {
    fs::by_name("nova").expect("nova is a design")
}

fn mount(region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let options = harness::options(nova(), &[("shards", "1")]);
    nova().mount(&Storage::from(region), &options).expect("mount")
}

/// `file` with 9000 bytes and attributes, `other` with a second name in `dir`, `dir/sub`, `empty`.
fn image() -> Arc<Region> {
    let region = harness::region(Bytes::mib(1));
    let options = harness::options(nova(), &[("shards", "1")]);
    nova().format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let mut runner = Runner::new(mount(&region));
    let write =
        |path: &str, offset, len| Op::Write(File::At(path.into()), Some(offset), Pattern { len, tag: 1 });
    let set = |path: &str, len| {
        Op::SetXattr(path.into(), format!("user.{len}"), Pattern { len, tag: 2 }, XattrMode::Set)
    };
    let ops = [
        Op::Create("file".into()),
        write("file", 0, 9000),
        write("file", 4096, 100),
        write("file", 0, 50),
        Op::Create("other".into()),
        write("other", 0, 300),
        Op::Mkdir("dir".into()),
        Op::Link("other".into(), "dir/link".into()),
        Op::Mkdir("dir/sub".into()),
        Op::Create("empty".into()),
        set("file", 100),
        set("dir", 5000),
    ];
    for op in ops {
        runner.run(&op).expect("the image can be filled");
    }
    runner.fs.unmount().expect("unmount");
    region
}

fn load(region: &Region, at: u64) -> u64 {
    region.load_u64(at).expect("a load")
}

fn store(region: &Region, at: u64, value: u64) {
    region.store_u64(at, value).expect("a store");
}

/// Where the inode lies that `path` leads to, and its number. All are in the first chunk of the only shard.
fn inode(region: &Arc<Region>, path: &str) -> (u64, u64) {
    let fs = mount(region);
    let parts = path.split('/').filter(|part| !part.is_empty());
    let ino = parts.fold(fs.root(), |at, name| fs.lookup(at, name.as_bytes()).expect("it is there").ino);
    fs.unmount().expect("unmount");
    (load(region, 3 * BLOCK + 64) + ino.0 * 128, ino.0)
}

fn flip(region: &Region, at: u64) {
    let word = region.load_u16(at).expect("a load");
    region.store_u16(at, word ^ 0x10).expect("a store");
}

/// Appends an entry to the log of an inode, with its checksum.
fn append(region: &Region, at: u64, entry: &mut [u8]) {
    let sum = crc32c::crc32c(&[&entry[..4], &entry[8..]].concat());
    entry[4..8].copy_from_slice(&sum.to_le_bytes());
    let tail = load(region, at + TAIL);
    region.store(tail, entry).expect("a store");
    store(region, at + TAIL, tail + entry.len() as u64);
}

/// Appends the entry of a name, with the links of its directory.
fn append_name(region: &Region, at: u64, (name, ino): (&str, u64), links: u16) {
    let mut entry = vec![0; (24 + name.len()).next_multiple_of(8).max(40)];
    (entry[0], entry[1]) = (2, name.len() as u8);
    entry[2..4].copy_from_slice(&links.to_le_bytes());
    entry[8..16].copy_from_slice(&ino.to_le_bytes());
    entry[24..24 + name.len()].copy_from_slice(name.as_bytes());
    append(region, at, &mut entry);
}

/// A fault: the predicate that it violates, what happens, how it is planted.
type Canary = (&'static str, &'static str, fn(&Arc<Region>));

const CANARIES: &[Canary] = &[
    ("superblock_copied", "the copy differs", |region| flip(region, COPY + 16)),
    ("inode_table_sound", "a live inode in no state", |region| {
        let (at, _) = inode(region, "file");
        store(region, at, load(region, at) & !0xffff_ffff | 9);
    }),
    ("inode_table_sound", "a free inode in no state", |region| {
        let (_, number) = inode(region, "empty");
        store(region, load(region, 3 * BLOCK + 64) + (number + 5) * 128, 9);
    }),
    ("nothing_lost", "an inode waits to be freed", |region| {
        let (at, _) = inode(region, "empty");
        store(region, at, load(region, at) & !0xffff_ffff | 2);
    }),
    ("log_sound", "the last entry is torn", |region| {
        let (at, _) = inode(region, "file");
        flip(region, load(region, at + TAIL) - 20);
    }),
    ("log_sound", "the kind of the last entry is none", |region| {
        let (at, _) = inode(region, "file");
        store(region, load(region, at + TAIL) - 64, 0x55);
    }),
    ("log_sound", "the tail is in the midst of an entry", |region| {
        let (at, _) = inode(region, "file");
        store(region, at + TAIL, load(region, at + TAIL) - 8);
    }),
    ("log_sound", "the only entry of a directory is torn", |region| {
        let (at, _) = inode(region, "dir/sub");
        flip(region, load(region, at + HEAD) + 10);
    }),
    ("log_sound", "attributes where none can be", |region| {
        let (at, _) = inode(region, "file");
        store(region, at + XATTR, region.len() + BLOCK);
    }),
    ("attributes_sound", "attributes are damaged", |region| {
        let (at, _) = inode(region, "file");
        flip(region, load(region, at + XATTR) + 30);
    }),
    ("attributes_sound", "a large attribute is damaged", |region| {
        let (at, _) = inode(region, "dir");
        let index = load(region, at + XATTR) - 1;
        let records = load(region, index + 16);
        let used = u64::from(region.load_u32(index + 4).expect("a load"));
        let mut last = [0; 8];
        region.peek(records + used - 8, &mut last).expect("a load");
        flip(region, u64::from_le_bytes(last) + 700);
    }),
    ("names_lead_to_inodes", "a name of a free inode", |region| {
        let (at, _) = inode(region, "empty");
        store(region, at, load(region, at) & !0xffff_ffff);
    }),
    ("link_count_right", "links of a file", |region| {
        let mut entry = [0; 64];
        (entry[0], entry[8]) = (4, 9);
        append(region, inode(region, "file").0, &mut entry);
    }),
    ("link_count_right", "links of a directory", |region| {
        let (at, number) = inode(region, "dir");
        append_name(region, at, ("dots", number), 7);
        append_name(region, at, ("dots", 0), 7);
    }),
    ("directory_sound", "another parent", |region| {
        append_name(region, inode(region, "dir/sub").0, ("..", ROOT), 2);
    }),
    ("directory_sound", "a second name of a directory", |region| {
        let (_, number) = inode(region, "dir/sub");
        append_name(region, inode(region, "").0, ("again", number), 4);
    }),
    ("nothing_lost", "a file without a name", |region| {
        append_name(region, inode(region, "").0, ("file", 0), 3);
    }),
    ("nothing_lost", "a directory without a name", |region| {
        append_name(region, inode(region, "").0, ("dir", 0), 2);
    }),
    ("saved_blocks_right", "what was saved is damaged", |region| flip(region, load(region, CLEAN) + 40)),
];

fn tree(region: &Arc<Region>) -> Tree {
    let fs = mount(region);
    let tree = observe(&*fs).expect("a sound tree");
    fs.unmount().expect("unmount");
    tree
}

#[test]
fn repair_makes_each_planted_fault_right_and_keeps_the_rest() {
    for (predicate, what, plant) in CANARIES {
        virtually(1, move || {
            let region = image();
            let storage = Storage::from(&region);
            assert_eq!(nova().format().fsck(&storage).violations, []);
            plant(&region);
            let found = nova().format().fsck(&storage).violations;
            assert!(found.iter().any(|found| found.predicate == *predicate), "{what}: {found:?}");
            let done = nova().format().repair(&storage).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(!done.is_empty(), "{what}");
            assert_eq!(nova().format().fsck(&storage).violations, [], "{what}: {done:?}");
            assert_eq!(nova().format().repair(&storage).expect("again"), Vec::<String>::new(), "{what}");
            let tree = tree(&region);
            assert_eq!(*tree["other"].content, Pattern { len: 300, tag: 1 }.bytes(0), "{what}: {done:?}");
            let file =
                tree.iter().find(|(path, _)| path.starts_with("file") || path.starts_with("lost+found/#"));
            assert!(file.is_some(), "{what}: {:?}", tree.keys());
            assert_eq!(nova().format().fsck(&storage).violations, [], "mounted after: {what}");
        });
    }
}

/// The first of several entries: what those behind it say is kept.
#[test]
fn a_damaged_entry_before_the_last_is_named_and_the_others_are_kept() {
    virtually(1, || {
        let region = image();
        let storage = Storage::from(&region);
        let (at, number) = inode(&region, "file");
        let (entry, tail) = (load(&region, at + HEAD), load(&region, at + TAIL));
        flip(&region, entry + 20);
        let named = format!("inode {number}: log at {entry}");
        let found = nova().format().fsck(&storage).violations;
        assert!(found.iter().any(|found| found.what.contains(&named)), "{found:?}");
        let done = nova().format().repair(&storage).expect("repair");
        let lost = format!("inode {number}: its log has what can be read of it");
        assert!(done.iter().any(|done| done.contains(&lost)), "{done:?}");
        assert_eq!(nova().format().fsck(&storage).violations, []);
        assert_eq!(load(&region, at + TAIL), tail, "what is behind it counts");
        let tree = tree(&region);
        let content = &tree["file"].content;
        assert_eq!(content.len(), 9000, "the size is that of the last entry");
        assert_eq!(content[..50], Pattern { len: 50, tag: 1 }.bytes(0)[..]);
    });
}

/// The pointer to the next page of a long log, a head and a tail: the page of the tail is found by it, and files whose names are lost
/// get others.
#[test]
fn a_log_is_found_by_its_tail_and_files_of_a_lost_page_get_names() {
    for field in [HEAD, TAIL] {
        virtually(1, move || {
            let region = image();
            let storage = Storage::from(&region);
            let (at, _) = inode(&region, "dir");
            store(&region, at + field, load(&region, at + field) ^ 0x55_0000_0000);
            assert!(!nova().format().fsck(&storage).violations.is_empty());
            let done = nova().format().repair(&storage).expect("repair");
            assert_eq!(nova().format().fsck(&storage).violations, [], "{done:?}");
            let tree = tree(&region);
            assert!(tree.contains_key("dir/link") && tree.contains_key("dir/sub"), "{field}: {done:?}");
        });
    }
}

/// The head of a long log is damaged: the page of the tail is found by it, and pages lead to that which nothing leads to.
#[test]
fn pages_of_a_log_that_can_be_read_are_not_given_up_unasked() {
    virtually(1, || {
        let region = image();
        let storage = Storage::from(&region);
        let fs = mount(&region);
        let dir = fs.lookup(fs.root(), b"dir").expect("a name").ino;
        for number in 0..200 {
            fs.create(dir, format!("{number:0100}").as_bytes(), &NEW).expect("room");
        }
        fs.unmount().expect("unmount");
        let (at, _) = inode(&region, "dir");
        store(&region, at + HEAD, load(&region, at + HEAD) ^ 0x55_0000_0000);
        let damaged = harness::bytes_of(&region);
        let refused = nova().format().repair(&storage).expect_err("a loss").to_string();
        assert!(refused.contains("--force-loss"), "{refused}");
        assert!(harness::bytes_of(&region) == damaged, "nothing was changed");
        let done = nova().format().repair_at_any_loss(&storage).expect("repair");
        assert_eq!(nova().format().fsck(&storage).violations, [], "{done:?}");
    });
}

/// The word that leads to the first chunk of the inode table.
#[test]
fn a_chunk_to_which_nothing_leads_is_found_again() {
    virtually(1, || {
        let region = image();
        let storage = Storage::from(&region);
        let before = tree(&region);
        store(&region, 3 * BLOCK + 64, load(&region, 3 * BLOCK + 64) ^ 0xff_ff00_0000);
        assert!(!nova().format().fsck(&storage).violations.is_empty());
        let done = nova().format().repair(&storage).expect("repair");
        assert!(done.iter().any(|done| done.contains("was found at")), "{done:?}");
        assert_eq!(nova().format().fsck(&storage).violations, []);
        assert_eq!(tree(&region), before);
    });
}

/// A live inode whose state says that it is free, or waits to be freed: its name says that it is not.
#[test]
fn an_inode_that_has_a_name_and_can_be_read_is_live() {
    for state in [0, 2, 9] {
        virtually(1, move || {
            let region = image();
            let storage = Storage::from(&region);
            let before = tree(&region);
            let (at, _) = inode(&region, "file");
            store(&region, at, load(&region, at) & !0xffff_ffff | state);
            let done = nova().format().repair(&storage).expect("repair");
            assert_eq!(nova().format().fsck(&storage).violations, [], "{state}: {done:?}");
            assert_eq!(tree(&region), before, "{state}: {done:?}");
        });
    }
}

/// An image that was not unmounted and cannot be recovered.
#[test]
fn an_image_that_no_mount_recovers_is_repaired() {
    virtually(1, || {
        let region = image();
        let storage = Storage::from(&region);
        let fs = mount(&region);
        fs.create(fs.root(), b"new", &NEW).expect("create");
        let mut bytes = vec![0; region.len() as usize];
        region.peek(0, &mut bytes).expect("a load");
        fs.unmount().expect("unmount");
        let (at, _) = inode(&region, "file");
        region.store(0, &bytes).expect("a store");
        flip(&region, load(&region, at + TAIL) - 20);
        assert!(nova().format().recover(&storage).is_err());
        assert!(!nova().format().repair(&storage).expect("repair").is_empty());
        assert_eq!(nova().format().fsck(&storage).violations, []);
        let tree = tree(&region);
        assert!(tree.contains_key("new") && tree.contains_key("file"), "{:?}", tree.keys());
        assert_eq!(nova().format().fsck(&storage).violations, []);
    });
}
