//! A repair gives up nothing that can still be read, and needs no second one.

use std::sync::Arc;

use check::configured::{region, virtually};
use design::Design;
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Attr, FileSystem, Ino, IoFlags, RenameFlags, SetAttr, SetTime, Timestamp};

use crate::fsck::{BLOCK, CREATES, NEW, UNLINKS, edit, predicates};
use crate::harness::{SEED, WOFS, small};

/// An image that was unmounted after `body`.
fn image(body: impl FnOnce(&dyn FileSystem, Ino)) -> Arc<Region> {
    let (design, region) = (small(None), region(Bytes::kib(256)));
    design.mkfs(&region).expect("mkfs");
    let fs = design.mount(&region).expect("mount");
    body(&*fs, fs.root());
    fs.unmount().expect("unmount");
    region
}

fn create(fs: &dyn FileSystem, parent: Ino, name: &str, data: &[u8]) -> Ino {
    let ino = fs.create(parent, name.as_bytes(), &NEW).expect("space").ino;
    fs.write(ino, 0, data, IoFlags::empty()).expect("space");
    ino
}

/// Makes the newest CREATE of a name say one that cannot be.
fn spoil(region: &Region, name: &str) {
    let is_of = |place: &u64| {
        let mut bytes = [0; 256];
        region.peek(*place, &mut bytes).expect("in range");
        usize::from(bytes[80]) == name.len() && bytes[81..].starts_with(name.as_bytes())
    };
    let number = |place: &u64| region.read::<u64>(place + 8).expect("in range");
    let places = (CREATES..CREATES + BLOCK).step_by(256).filter(is_of);
    let place = places.max_by_key(number).expect("it was made");
    edit(region, place, 256, |bytes| bytes[81] = b'/');
}

/// Repairs an image, in which then nothing is wrong.
fn repair(region: &Arc<Region>) -> Arc<dyn FileSystem> {
    let done = WOFS.format().repair(&Storage::from(region)).expect("a repair");
    let left = WOFS.format().fsck(&Storage::from(region)).violations;
    assert!(left.is_empty(), "{done:?}: {left:?}");
    small(None).mount(region).expect("it can be mounted")
}

/// What lies below a directory, by paths, each with its attributes.
fn paths(fs: &dyn FileSystem, dir: Ino, above: &str) -> Vec<(String, Attr)> {
    let mut names = Vec::new();
    let sink = &mut |entry: vfs::DirEntry<'_>| {
        names.push(entry.name.to_vec());
        true
    };
    fs.readdir(dir, 2, sink).expect("a directory");
    let mut all = Vec::new();
    for name in names {
        let attr = fs.lookup(dir, &name).expect("it is listed");
        let path = format!("{above}/{}", String::from_utf8_lossy(&name));
        if attr.kind == vfs::FileKind::Directory {
            all.extend(paths(fs, attr.ino, &path));
        }
        all.push((path, attr));
    }
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    all
}

fn only_paths(fs: &dyn FileSystem) -> Vec<String> {
    paths(fs, fs.root(), "").into_iter().map(|(path, _)| path).collect()
}

/// The file of the lower number lost its blocks by the UNLINK, which is damaged; it was the one that kept them.
#[test]
fn of_two_files_with_a_block_the_one_keeps_it_that_was_written_last() {
    virtually(SEED, || {
        let region = image(|fs, root| {
            let old = create(fs, root, "old", b"");
            for block in [4, 2, 0] {
                fs.write(old, block * BLOCK, &[1; BLOCK as usize], IoFlags::empty()).expect("space");
            }
            let kept = create(fs, root, "kept", &[2; 100]);
            fs.unlink(root, b"old").expect("it goes");
            fs.write(kept, 0, &[3; 3 * BLOCK as usize], IoFlags::empty()).expect("space");
        });
        region.store_u64(UNLINKS + 24, !0).expect("in range");
        assert_eq!(predicates(&region), ["data"]);
        let fs = repair(&region);
        let kept = fs.lookup(fs.root(), b"kept").expect("it is there").ino;
        let mut bytes = vec![0; 4 * BLOCK as usize];
        assert_eq!(fs.read(kept, 0, &mut bytes, IoFlags::empty()), Ok(3 * BLOCK as usize));
        assert!(bytes[..3 * BLOCK as usize].iter().all(|byte| *byte == 3));
    });
}

/// The UNLINKs of a rename count only beside the CREATE with the number that they name.
#[test]
fn what_a_rename_has_hidden_stays_hidden_when_its_name_is_repaired() {
    virtually(SEED, || {
        let region = image(|fs, root| {
            create(fs, root, "moved", b"moved");
            create(fs, root, "target", b"target");
            fs.rename((root, b"moved"), (root, b"target"), RenameFlags::empty().into()).expect("space");
        });
        spoil(&region, "target");
        let fs = repair(&region);
        assert_eq!(only_paths(&*fs), ["/lost+found", "/lost+found/#2.0"]);
    });
}

#[test]
fn what_a_repair_gives_another_name_keeps_its_attributes() {
    virtually(SEED, || {
        let mut before = None;
        let region = image(|fs, root| {
            let ino = create(fs, root, "file", b"bytes");
            let time = |secs| Some(SetTime::To(Timestamp { secs, nanos: 5 }));
            let (atime, mtime) = (time(1_577_836_800), time(1_577_836_801));
            let set = SetAttr { perm: Some(0o600), uid: Some(7), gid: Some(8), size: None, atime, mtime };
            before = Some(fs.setattr(ino, &set).expect("space"));
        });
        spoil(&region, "file");
        let fs = repair(&region);
        let found = paths(&*fs, fs.root(), "").pop().expect("it is in lost+found");
        assert_eq!(found, ("/lost+found/#2.0".to_owned(), before.expect("it was made")));
    });
}

#[test]
fn each_repair_finds_a_name_in_lost_and_found_that_is_free() {
    virtually(SEED, || {
        let region = image(|fs, root| {
            let ino = create(fs, root, "first", b"bytes");
            for (dir, name) in [(b"d", b"second"), (b"e", b"third_")] {
                let dir = fs.mkdir(root, dir, &NEW).expect("space").ino;
                fs.link(ino, dir, name).expect("space");
            }
        });
        let paths = ["first", "second", "third_"].map(|name| {
            spoil(&region, name);
            let fs = repair(&region);
            let paths = only_paths(&*fs);
            fs.unmount().expect("unmount");
            paths
        });
        assert_eq!(paths[0], ["/d", "/d/second", "/e", "/e/third_", "/lost+found", "/lost+found/#2.0"]);
        let last = ["/d", "/e", "/lost+found", "/lost+found/#2.0", "/lost+found/#2.1", "/lost+found/#2.2"];
        assert_eq!(paths[2], last);
    });
}
