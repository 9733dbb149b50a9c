//! Images of every version of the format: what older code has left is opened by this one, and what this one leaves stays readable.
//!
//! A fixture is an image as the lines that are not zero: offset (8 bytes) and 64 bytes each, of 1 MiB. Those of version 0 were left
//! by a mount of the code that wrote it, one unmounted, one killed while a removed file was open. That of this version was made by
//! [`make`]; a new version gets one of its own, and none is ever made again.

use crate::shared::harness;
use std::path::PathBuf;
use std::sync::Arc;

use crate::shared::harness::{virtually, with_options};
use check::crash::crash_recovery;
use check::tree::{Entry, without_times};
use check::{File, Op, Pattern, Runner, Tree, observe};
use design::{Design, FsError};
use media::Storage;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Scratch, Trace};
use sim::Bytes;
use vfs::{FileKind, FileSystem, Timestamp, XattrMode};

const SIZE: Bytes = Bytes::mib(1);
const LINE: usize = 64;
/// Version, magic and checksum of a superblock; the redundant copy lies 512 bytes behind.
const VERSION: u64 = 36;
const COPY: u64 = 512;
/// Fixtures of version 0.
const OLD: [&str; 2] = ["pmfs-version-0-clean", "pmfs-version-0-killed"];
const VERSION_1: &str = "pmfs-version-1";
const VERSION_2: &str = "pmfs-version-2";
const THIS: &str = "pmfs-version-3";
/// Designs on the format.
const DESIGNS: [&str; 2] = ["pmfs", "hinfs"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(format!("{name}.lines"))
}

fn fixture(name: &str) -> Arc<Region> {
    let region = harness::region(SIZE);
    for line in std::fs::read(path(name)).expect("the fixture is there").chunks_exact(8 + LINE) {
        let (offset, bytes) = line.split_first_chunk().expect("a line has an offset");
        region.store(u64::from_le_bytes(*offset), bytes).expect("it lies in the image");
    }
    region
}

fn design(name: &str) -> &'static dyn Design {
    fs::by_name(name).expect("a design")
}

fn mount(name: &str, region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let buffer = &[("buffer", "64k")][usize::from(name == "pmfs")..];
    design(name)
        .mount(&Storage::from(region), &harness::options(design(name), buffer))
        .expect("the image can be mounted")
}

/// What is in every fixture.
fn check_names(tree: &Tree) {
    let paths: Vec<_> = tree.keys().map(String::as_str).collect();
    assert_eq!(paths, ["", "dir", "dir/link", "dir/other", "dir/sub", "empty", "file", "sym"]);
    let file = &tree["file"];
    assert_eq!((file.kind, file.perm, file.owner, file.nlink), (FileKind::Regular, 0o640, (5, 6), 2));
    assert_eq!(*file.content, Pattern { len: 4100, tag: 1 }.bytes(0));
    assert_eq!(*tree["dir/other"].content, Pattern { len: 100, tag: 2 }.bytes(0));
    assert_eq!(*tree["sym"].content, [b't'; 60]);
}

const fn at(secs: i64, nanos: u32) -> Timestamp {
    Timestamp { secs, nanos }
}

/// Access, and change of contents.
fn times(entry: &Entry) -> Option<(Timestamp, Timestamp)> {
    entry.atime.zip(entry.mtime)
}

/// Mounts a fixture, sees what is there, uses what this version has, and comes back to that.
fn open_and_use(name: &'static str, fixture_name: &'static str) -> Tree {
    virtually(1, move || {
        let region = fixture(fixture_name);
        let fs = mount(name, &region);
        let tree = observe(&*fs).expect("all is there");
        let mut runner = Runner::new(Arc::clone(&fs));
        let attribute =
            Op::SetXattr("file".into(), "user.new".into(), Pattern { len: 9, tag: 4 }, XattrMode::Create);
        let append = Op::Write(File::At("empty".into()), None, Pattern { len: 9000, tag: 5 });
        for op in [attribute, append, Op::Utimes("sym".into(), Some(at(-5, 5)), Some(at(1 << 32, 7)))] {
            runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
        }
        let changed = observe(&*fs).expect("a sound tree");
        assert_eq!(times(&changed["sym"]), Some((at(-5, 5), at(1 << 32, 7))));
        fs.unmount().expect("unmount");
        assert_eq!(design(name).format().fsck(&Storage::from(&region)).violations, []);
        let fs = mount(name, &region);
        assert_eq!(observe(&*fs), Ok(changed));
        fs.unmount().expect("unmount again");
        for superblock in [0, COPY] {
            assert_eq!(region.load_u32(superblock + VERSION), Ok(3), "{fixture_name}");
        }
        tree
    })
}

#[test]
fn an_image_of_version_0_shows_what_it_held_and_becomes_one_of_this_version() {
    for (name, fixture_name) in DESIGNS.into_iter().flat_map(|name| OLD.map(|fixture| (name, fixture))) {
        let tree = open_and_use(name, fixture_name);
        check_names(&tree);
        assert_eq!(times(&tree["file"]), Some((at(1_234_567, 0), at(4_000_000_000, 0))));
        assert_eq!(times(&tree["dir"]), Some((at(1_000_000_000, 0), at(1 << 31, 0))));
        assert!(tree.values().all(|entry| entry.xattrs.is_empty()));
    }
}

#[test]
fn images_of_versions_1_to_3_show_what_they_held() {
    let fixtures = [VERSION_1, VERSION_2, THIS];
    for (name, fixture_name) in DESIGNS.into_iter().flat_map(|name| fixtures.map(|it| (name, it))) {
        let tree = open_and_use(name, fixture_name);
        check_names(&tree);
        assert_eq!(times(&tree["file"]), Some((at(-1, 999_999_999), at(8_000_000_000, 1))));
        let values: Vec<_> =
            tree["file"].xattrs.iter().map(|(name, value)| (&name[..], value.len())).collect();
        assert_eq!(values, [("user.a", 100), ("user.b", 0)]);
        assert_eq!(tree["dir"].xattrs["user.of a directory"], Pattern { len: 3000, tag: 3 }.bytes(0));
        let large = tree["dir/other"].xattrs.get("user.large").cloned();
        assert_eq!(large, (fixture_name == THIS).then(|| Pattern { len: 9000, tag: 3 }.bytes(0)));
    }
}

/// Checking changes nothing, and speaks of the version.
#[test]
fn an_image_of_version_0_can_be_checked_and_shown_as_it_is() {
    virtually(1, || {
        let (pmfs, region) = (design("pmfs"), fixture(OLD[0]));
        assert_eq!(pmfs.format().fsck(&Storage::from(&region)).violations, []);
        let mut shown = Vec::new();
        pmfs.format().dump(&Storage::from(&region), "superblock", &mut shown).expect("it can be shown");
        assert!(String::from_utf8_lossy(&shown).contains("format version  0"));
        let done = pmfs.format().recover(&Storage::from(&fixture(OLD[1]))).expect("it can be recovered");
        assert!(done.iter().any(|line| line.contains("version 0 became 3")), "{done:?}");
    });
}

#[test]
fn a_crash_of_the_conversion_leaves_an_image_that_shows_the_same() {
    for name in DESIGNS {
        virtually(1, move || {
            let mut images = 0;
            for fixture_name in OLD {
                let region = fixture(fixture_name);
                let trace = Trace::attach(&region).expect("a recorder");
                region.detach(&trace);
                let point = trace.replay(Mode::Adr).state().crash_point();
                let image = point.image(&point.all());
                let expected =
                    without_times(observe(&*mount(name, &fixture(fixture_name))).expect("a sound tree"));
                let design = with_options(name, &[("buffer", "64k")][usize::from(name == "pmfs")..]);
                let mut scratch = Scratch::new(SIZE, Box::new(Null)).expect("memory");
                let mut second = Scratch::new(SIZE, Box::new(Null)).expect("memory");
                let crashed = crash_recovery((&*design, Mode::Adr), &mut scratch, &image, &mut |image| {
                    let region = second.load(image).map_err(|error| error.to_string())?;
                    let fs = design.mount(region)?;
                    let seen = without_times(observe(&*fs)?);
                    fs.unmount().map_err(|errno| errno.to_string())?;
                    if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
                });
                images += crashed.unwrap_or_else(|what| panic!("{fixture_name}: {what}"));
            }
            println!("{name}: {images} images");
            assert!(images > 10, "{images}");
        });
    }
}

#[test]
fn a_later_version_is_refused_with_both_versions_and_left_alone() {
    virtually(1, || {
        let (pmfs, region) = (design("pmfs"), fixture(THIS));
        for superblock in [0, COPY] {
            region.store_u32(superblock + VERSION, 7).expect("a store");
            let mut checked = [0; 46];
            region.peek(superblock + 2, &mut checked).expect("a load");
            let checksum = crc::Crc::<u16>::new(&crc::CRC_16_IBM_SDLC).checksum(&checked);
            region.store_u16(superblock, checksum).expect("a store");
        }
        let refused =
            pmfs.mount(&Storage::from(&region), &harness::options(pmfs, &[])).err().expect("refused");
        assert!(matches!(refused, FsError::NewerFormat { found: 7, known: 3, .. }), "{refused}");
        assert!(
            refused.to_string().contains("version 7") && refused.to_string().contains("up to 3"),
            "{refused}"
        );
        assert!(pmfs.format().recover(&Storage::from(&region)).is_err());
        assert_eq!(region.load_u32(VERSION), Ok(7));
    });
}

/// Version 2 has trees of a fourth level.
#[test]
fn a_file_may_be_larger_than_512_gib() {
    for name in DESIGNS {
        virtually(1, move || {
            let region = fixture(VERSION_1);
            let fs = mount(name, &region);
            let new = vfs::NewInode { perm: 0o600, owner: vfs::Owner::default() };
            let ino = fs.create(fs.root(), b"large", &new).expect("a file").ino;
            let size = |size| vfs::SetAttr { size: Some(size), ..vfs::SetAttr::default() };
            let most = 256 << 40;
            for offset in [0_u64, (512 << 30) - 4096, 512 << 30, 16 << 40, most - 4096] {
                let data = offset.to_le_bytes();
                let written = fs.write(ino, offset, &data, vfs::IoFlags::empty());
                assert_eq!(written.map(|written| written.bytes), Ok(8), "{name}: {offset}");
            }
            assert_eq!(fs.setattr(ino, &size(most + 1)).err(), Some(vfs::Errno::EFBIG));
            fs.setattr(ino, &size(most)).expect("the largest size");
            fs.unmount().expect("unmount");
            assert_eq!(design(name).format().fsck(&Storage::from(&region)).violations, []);
            let fs = mount(name, &region);
            assert_eq!(fs.seek(ino, (512 << 30) + 4096, vfs::SeekTo::Data), Ok(16 << 40), "{name}");
            fs.setattr(ino, &size(16 << 40)).expect("a smaller size");
            assert_eq!(fs.getattr(ino).map(|attr| attr.blocks), Ok(3 * 8), "{name}");
            let mut bytes = [0; 8];
            assert_eq!(fs.read(ino, 512 << 30, &mut bytes, vfs::IoFlags::empty()), Ok(8));
            assert_eq!(u64::from_le_bytes(bytes), 512 << 30, "{name}");
            let before = fs.statfs().expect("space").blocks_free;
            fs.unlink(fs.root(), b"large").expect("it goes");
            assert_eq!(fs.statfs().expect("space").blocks_free, before + 3 + 3 + 3 + 2 + 1, "{name}");
            fs.unmount().expect("unmount again");
            assert_eq!(design(name).format().fsck(&Storage::from(&region)).violations, []);
        });
    }
}

/// A file without a name gets one with what it holds, or leaves nothing; a crash leaves nothing of it either.
#[test]
fn a_nameless_file_gets_a_name_or_leaves_nothing() {
    for name in DESIGNS {
        virtually(1, move || {
            let region = fixture(THIS);
            let fs = mount(name, &region);
            let new = vfs::NewInode { perm: 0o600, owner: vfs::Owner::default() };
            let free = |fs: &dyn FileSystem| fs.statfs().expect("space").blocks_free;
            let before = free(&*fs);
            let (flags, root) = (vfs::IoFlags::empty(), fs.root());
            let (first, second) = (fs.tmpfile(&new).expect("one"), fs.tmpfile(&new).expect("another"));
            assert_eq!((first.nlink, second.nlink), (0, 0));
            for attr in [first, second] {
                fs.write(attr.ino, 0, &[7; 9000], flags).expect("space");
            }
            assert_eq!(fs.link(first.ino, root, b"named").map(|attr| attr.nlink), Ok(1));
            fs.release(first.ino);
            fs.release(second.ino);
            assert_eq!(fs.link(second.ino, root, b"late").err(), Some(vfs::Errno::ENOENT));
            let third = fs.tmpfile(&new).expect("a third");
            fs.write(third.ino, 0, &[8; 9000], flags).expect("space");
            fs.sync().expect("sync");
            // As after a crash: the image without an unmount.
            let mut bytes = vec![0; SIZE.0 as usize];
            region.peek(0, &mut bytes).expect("a load");
            fs.release(third.ino);
            fs.unmount().expect("unmount");
            let crashed = harness::region(SIZE);
            crashed.store(0, &bytes).expect("a store");
            for region in [&crashed, &region] {
                let fs = mount(name, region);
                let tree = observe(&*fs).expect("a sound tree");
                assert_eq!(*tree["named"].content, [7; 9000], "{name}");
                fs.unlink(root, b"named").expect("it is there");
                assert_eq!(free(&*fs), before, "{name}: blocks of a file without a name");
                fs.unmount().expect("unmount again");
                assert_eq!(design(name).format().fsck(&Storage::from(region)).violations, []);
            }
        });
    }
}

/// Makes the image that the fixture of this version was.
fn make() -> Arc<Region> {
    let region = harness::region(SIZE);
    let (pmfs, options) = (design("pmfs"), harness::options(design("pmfs"), &[("jsize", "64k")]));
    pmfs.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
    let fs = pmfs.mount(&Storage::from(&region), &options).expect("mount");
    let mut runner = Runner::new(Arc::clone(&fs));
    let write = |path: &str, len, tag| Op::Write(File::At(path.into()), Some(0), Pattern { len, tag });
    let set = |path: &str, name: &str, len| {
        Op::SetXattr(path.into(), name.into(), Pattern { len, tag: 3 }, XattrMode::Set)
    };
    let ops = [
        Op::Create("file".into()),
        write("file", 4100, 1),
        Op::ChmodChown("file".into(), 0o640, 5, 6),
        Op::Mkdir("dir".into()),
        Op::Create("dir/other".into()),
        write("dir/other", 100, 2),
        Op::Link("file".into(), "dir/link".into()),
        Op::Symlink("sym".into(), 60),
        Op::Mkdir("dir/sub".into()),
        Op::Create("empty".into()),
        Op::Create("gone".into()),
        set("gone", "user.a", 10),
        Op::Unlink("gone".into()),
        set("file", "user.a", 100),
        set("file", "user.b", 0),
        set("dir", "user.of a directory", 3000),
        set("dir/other", "user.large", 9000),
        Op::Utimes("file".into(), Some(at(-1, 999_999_999)), Some(at(8_000_000_000, 1))),
    ];
    for op in ops {
        runner.run(&op).unwrap_or_else(|errno| panic!("{op:?}: {errno}"));
    }
    fs.unmount().expect("unmount");
    region
}

/// An image as the lines that are not zero.
fn lines_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; SIZE.0 as usize];
    region.peek(0, &mut bytes).expect("a load");
    let lines = bytes.chunks(LINE).enumerate().filter(|(_, line)| line.iter().any(|byte| *byte != 0));
    lines.flat_map(|(number, line)| [&((number * LINE) as u64).to_le_bytes(), line].concat()).collect()
}

/// How the bytes came to lie where they do may change; what they say may not. `WEIR_MAKE_FIXTURE=1` writes the fixture, once for
/// each new version.
#[test]
fn what_this_code_makes_is_what_the_fixture_of_this_version_holds() {
    virtually(1, || {
        let made = make();
        if std::env::var_os("WEIR_MAKE_FIXTURE").is_some() {
            std::fs::write(path(THIS), lines_of(&made)).expect("the tree can be written");
        }
        let kept = fixture(THIS);
        assert_eq!(made.load_u32(VERSION), kept.load_u32(VERSION));
        let seen = |region| without_times(observe(&*mount("pmfs", region)).expect("a sound tree"));
        assert_eq!(seen(&made), seen(&kept));
    });
}
