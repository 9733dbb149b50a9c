//! Fences and lines of each call, as the published steps predict them (docs/designs/wofs.md, "What each call costs").

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use check::configured::{region, virtually};
use media::event::{Event, Tap, TaskId};
use sim::Bytes;
use vfs::{FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner, RenameFlags, SetAttr};

use crate::harness::{SEED, with};

const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };

/// Counts fences, and lines that are flushed or stored past the cache.
#[derive(Debug, Default)]
struct Count {
    fences: AtomicU64,
    lines: AtomicU64,
}

impl Tap for Count {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let lines = |off: u64, len: u64| (off + len).div_ceil(64) - off / 64;
        let (fences, lines) = match event {
            Event::Fence => (1, 0),
            Event::Flush { off, len } => (0, lines(off, len)),
            Event::NtStore { off, data } => (0, lines(off, data.len() as u64)),
            _ => (0, 0),
        };
        self.fences.fetch_add(fences, Relaxed);
        self.lines.fetch_add(lines, Relaxed);
    }
}

struct Counted {
    fs: Arc<dyn FileSystem>,
    count: Arc<Count>,
}

impl Counted {
    /// Fences and lines of a call.
    fn of<T>(&self, call: impl FnOnce(&dyn FileSystem) -> vfs::Result<T>) -> (u64, u64) {
        let now = || (self.count.fences.load(Relaxed), self.count.lines.load(Relaxed));
        let before = now();
        call(&*self.fs).unwrap_or_else(|errno| panic!("{errno}"));
        let after = now();
        (after.0 - before.0, after.1 - before.1)
    }

    fn create(&self, name: &[u8]) -> Ino {
        self.fs.create(self.fs.root(), name, &NEW).expect("it can be made").ino
    }
}

/// Runs a body with a mounted file system of which each container has a package already.
fn counting(body: impl FnOnce(&Counted) + Send + 'static) {
    virtually(SEED, move || {
        let (design, region) = (with(&[], None), region(Bytes::mib(16)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        let count = Arc::new(Count::default());
        region.attach(Arc::clone(&count) as Arc<dyn Tap>);
        body(&Counted { fs, count });
    });
}

fn write(fs: &dyn FileSystem, ino: Ino, at: u64, len: usize) -> vfs::Result<()> {
    fs.write(ino, at, &vec![7; len], IoFlags::empty()).map(drop)
}

#[test]
fn calls_that_change_names_take_the_published_fences_and_lines() {
    counting(|counted| {
        let root = counted.fs.root();
        assert_eq!(counted.of(|fs| fs.create(root, b"a", &NEW)), (1, 4), "create");
        assert_eq!(counted.of(|fs| fs.mkdir(root, b"d", &NEW)), (1, 4), "mkdir");
        let ino = counted.fs.lookup(root, b"a").expect("it is there").ino;
        assert_eq!(counted.of(|fs| fs.link(ino, root, b"b")), (1, 4), "link");
        assert_eq!(counted.of(|fs| fs.unlink(root, b"b")), (1, 1), "unlink");
        assert_eq!(counted.of(|fs| fs.rmdir(root, b"d")), (1, 1), "rmdir");
        let rename = |to: &'static [u8]| {
            move |fs: &dyn FileSystem| fs.rename((root, b"a"), (root, to), RenameFlags::empty().into())
        };
        assert_eq!(counted.of(rename(b"e")), (2, 5), "rename");
        counted.create(b"a");
        assert_eq!(counted.of(rename(b"e")), (2, 6), "rename over");
        assert_eq!(counted.of(|fs| fs.symlink(root, b"s", b"target", &NEW)), (2, 64 + 1 + 4), "symlink");
    });
}

#[test]
fn calls_that_change_a_file_take_the_published_fences_and_lines() {
    counting(|counted| {
        let ino = counted.create(b"a");
        counted.fs.open(ino, OpenFlags::READ | OpenFlags::WRITE).expect("open");
        assert_eq!(counted.of(|fs| write(fs, ino, 0, 4096)), (2, 64 + 1), "append that takes 512 blocks");
        for block in 1..512 {
            assert_eq!(
                counted.of(|fs| write(fs, ino, block * 4096, 4096)),
                (2, 64 + 1),
                "append within them: {block}"
            );
        }
        assert_eq!(counted.of(|fs| write(fs, ino, 4096, 4096)), (2, 64 + 1), "overwrite of a block");
        assert_eq!(counted.of(|fs| write(fs, ino, 5000, 100)), (2, 64 + 1), "overwrite of a part");
        assert_eq!(counted.of(|fs| write(fs, ino, 8192, 16_384)), (2, 256 + 1), "overwrite of four blocks");
        let set = |set: SetAttr| move |fs: &dyn FileSystem| fs.setattr(ino, &set);
        let size = |size| SetAttr { size: Some(size), ..SetAttr::default() };
        assert_eq!(counted.of(set(size(8192))), (1, 1), "truncate");
        assert_eq!(counted.of(set(size(5000))), (1, 1), "truncate within a block");
        assert_eq!(counted.of(set(size(6000))), (2, 50 + 1), "grow, with zeros behind the old end");
        assert_eq!(counted.of(set(SetAttr { perm: Some(0o600), ..SetAttr::default() })), (1, 1), "chmod");
        assert_eq!(counted.of(|fs| fs.fsync(ino, false)), (1, 0), "fsync");
        assert_eq!(counted.of(|fs| fs.read(ino, 0, &mut [0; 5000], IoFlags::empty())), (0, 0), "read");
        assert_eq!(
            counted.of(|fs| {
                let _: () = fs.release(ino);
                Ok(())
            }),
            (1, 0),
            "close"
        );
    });
}

/// 16 CREATEs lie in a container, of which the root has one of the first.
#[test]
fn a_new_container_takes_two_fences_and_its_block_of_zeros() {
    counting(|counted| {
        let root = counted.fs.root();
        for name in 0..15_u8 {
            assert_eq!(counted.of(|fs| fs.create(root, &[b'a' + name], &NEW)), (1, 4));
        }
        assert_eq!(counted.of(|fs| fs.create(root, b"z", &NEW)), (1 + 2, 4 + 64 + 1));
    });
}
