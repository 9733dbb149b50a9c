//! What the harness has found, one test each.

use std::sync::Arc;

use check::Configured;
use check::configured::{region, virtually};
use check::op::NEW;
use design::{Design, Options};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Attr, Errno, FileSystem, Ino, IoFlags, OpenFlags, SetAttr};

use crate::shared::harness::with_options;

const BLOCK: usize = 4096;

/// A design that is mounted, with the region under it.
struct Mounted {
    design: Arc<Configured>,
    region: Arc<Region>,
    fs: Arc<dyn FileSystem>,
}

impl Mounted {
    fn new(name: &str, size: Bytes, options: &[(&str, &str)]) -> Self {
        let (design, region) = (with_options(name, options), region(size));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        Self { design, region, fs }
    }

    fn pmfs() -> Self {
        Self::new("pmfs", Bytes::mib(1), &[("jsize", "64k")])
    }

    fn hinfs(size: Bytes) -> Self {
        Self::new("hinfs", size, &[("jsize", "64k"), ("buffer", "64k"), ("medium_write", "200ns")])
    }

    fn create(&self, name: &str) -> Ino {
        self.fs.create(self.fs.root(), name.as_bytes(), &NEW).expect("create").ino
    }

    fn write(&self, ino: Ino, at: u64, data: &[u8]) -> Result<usize, Errno> {
        self.fs.write(ino, at, data, IoFlags::empty()).map(|written| written.bytes)
    }

    fn truncate(&self, ino: Ino, size: u64) -> Result<Attr, Errno> {
        self.fs.setattr(ino, &SetAttr { size: Some(size), ..SetAttr::default() })
    }

    fn free(&self) -> u64 {
        self.fs.statfs().expect("statfs").blocks_free
    }

    /// Lets an access fail while `body` runs.
    fn failing<T>(&self, fault: Fault, body: impl FnOnce() -> T) -> T {
        self.region.inject(fault);
        let done = body();
        assert!(self.region.clear_faults() > 0, "{fault:?} did not happen");
        done
    }

    /// Lets the nth load or store fail, for each n, on a fresh file system each time, until nothing fails.
    fn each_failure(make: fn() -> Self, target: Target, trial: impl Fn(&Self, u64) -> bool) {
        let mut nth = 1;
        while trial(&make(), nth) {
            nth += 1;
        }
        assert!(nth > 3, "only {nth} {target}s");
    }

    fn end(&self) {
        self.fs.unmount().expect("unmount");
        assert_eq!(self.design.fsck(&self.region), Vec::<String>::new());
    }
}

#[test]
fn once_a_change_could_not_be_undone_nothing_is_accepted_and_no_sync_succeeds() {
    virtually(1, || {
        let mounted = Mounted::pmfs();
        let file = mounted.create("file");
        assert_eq!(mounted.write(file, 0, &[1; BLOCK]), Ok(BLOCK));
        let fs = &mounted.fs;
        let fault = Fault::FailFrom { target: Target::Store, nth: 6 };
        let made = mounted.failing(fault, || fs.create(fs.root(), b"more", &NEW));
        assert_eq!(made.map(drop), Err(Errno::EIO));
        assert_eq!(mounted.write(file, 0, &[2; 8]), Err(Errno::EIO), "the next mount would undo its times");
        assert_eq!(mounted.truncate(file, 8192).map(drop), Err(Errno::EIO));
        assert_eq!(
            (fs.fsync(file, false), fs.sync(), fs.unmount()),
            (Err(Errno::EIO), Err(Errno::EIO), Err(Errno::EIO))
        );
        let mut bytes = [0; BLOCK];
        assert_eq!(fs.read(file, 0, &mut bytes, IoFlags::empty()), Ok(BLOCK));
        assert!(bytes == [1; BLOCK]);
        let again = Mounted { fs: mounted.design.mount(&mounted.region).expect("mount"), ..mounted };
        assert_eq!(again.fs.lookup(again.fs.root(), b"more").map(drop), Err(Errno::ENOENT));
        assert_eq!(again.write(file, 0, &[2; 8]), Ok(8));
        again.end();
    });
}

#[test]
fn a_truncation_in_which_the_medium_fails_loses_no_block() {
    for target in [Target::Load, Target::Store] {
        virtually(2, move || {
            Mounted::each_failure(Mounted::pmfs, target, |mounted, nth| {
                let before = mounted.free();
                let file = mounted.create("file");
                mounted.write(file, 0, &[1; 3 * BLOCK]).expect("write");
                mounted.region.inject(Fault::FailNth { target, nth });
                let cut = mounted.truncate(file, 0);
                let struck = mounted.region.clear_faults() > 0;
                if cut.is_ok() || mounted.fs.sync().is_ok() {
                    mounted.truncate(file, 0).expect("truncate");
                    assert_eq!(mounted.free(), before, "{target} {nth}");
                    mounted.end();
                }
                struck
            });
        });
    }
}

#[test]
fn a_file_that_is_cut_at_the_next_mount_takes_no_write_until_then() {
    virtually(3, || {
        let mounted = Mounted::pmfs();
        let file = mounted.create("file");
        mounted.write(file, 0, &[1; BLOCK]).expect("write");
        // The list has the file by then; nothing can take it off.
        let fault = Fault::FailFrom { target: Target::Store, nth: 3 };
        let cut = mounted.failing(fault, || mounted.truncate(file, 0));
        assert_eq!(cut.map(drop), Err(Errno::EIO));
        assert_eq!(mounted.write(file, 0, &[2; 100]), Err(Errno::EIO));
        let fs = mounted.design.mount(&mounted.region).expect("mount");
        assert_eq!(fs.getattr(file).expect("getattr").size, 0);
    });
}

#[test]
fn a_file_whose_tree_cannot_be_read_keeps_its_name_and_its_size() {
    virtually(4, || {
        for unlinks in [true, false] {
            let mounted = Mounted::pmfs();
            let make = || {
                let file = mounted.create("file");
                mounted.write(file, 0, &[1; 3 * BLOCK]).expect("write");
                (file, mounted.free())
            };
            let (mut file, mut free) = make();
            // The last loads that the call makes before it changes anything are those of the tree. Two before them make copies for
            // readers without the lock: when one fails, these readers wait, and the call goes on.
            let (mut nth, mut refused, mut absorbed) = (1, 0, 0);
            loop {
                mounted.region.inject(Fault::FailNth { target: Target::Load, nth });
                let removed = match unlinks {
                    true => mounted.fs.unlink(mounted.fs.root(), b"file"),
                    false => mounted.truncate(file, 0).map(drop),
                };
                mounted.region.clear_faults();
                match removed {
                    Err(Errno::EIO) if mounted.fs.sync().is_ok() => {
                        assert_eq!(mounted.fs.getattr(file).expect("it is there").size, 3 * BLOCK as u64);
                        assert_eq!(mounted.free(), free);
                        refused += 1;
                    }
                    Ok(()) if absorbed < 2 => {
                        absorbed += 1;
                        if !unlinks {
                            mounted.fs.unlink(mounted.fs.root(), b"file").expect("it is there");
                        }
                        (file, free) = make();
                    }
                    _ => break,
                }
                nth += 1;
            }
            // A node of the tree has 512 pointers, all of which a removal reads; a cut reads those of the file's blocks.
            let pointers = if unlinks { 512 } else { 3 };
            assert!(refused > pointers, "{refused}");
        }
    });
}

#[test]
fn an_orphan_that_could_not_be_freed_is_freed_by_the_next_sync() {
    for target in [Target::Load, Target::Store] {
        virtually(5, move || {
            Mounted::each_failure(Mounted::pmfs, target, |mounted, nth| {
                let before = mounted.free();
                let file = mounted.create("file");
                mounted.write(file, 0, &[1; 3 * BLOCK]).expect("write");
                mounted.fs.open(file, OpenFlags::READ).expect("open");
                mounted.fs.unlink(mounted.fs.root(), b"file").expect("unlink");
                mounted.region.inject(Fault::FailNth { target, nth });
                mounted.fs.release(file);
                let struck = mounted.region.clear_faults() > 0;
                if mounted.fs.sync().is_ok() {
                    assert_eq!(mounted.free(), before, "{target} {nth}");
                    mounted.end();
                }
                struck
            });
        });
    }
}

#[test]
fn a_directory_that_waits_to_be_freed_is_nobodys_subdirectory() {
    virtually(6, || {
        let mounted = Mounted::pmfs();
        let dir = mounted.fs.mkdir(mounted.fs.root(), b"dir", &NEW).expect("mkdir").ino;
        mounted.fs.open(dir, OpenFlags::READ).expect("open");
        mounted.fs.rmdir(mounted.fs.root(), b"dir").expect("rmdir");
        mounted.end();
    });
}

#[test]
fn a_large_write_that_fails_late_says_how_much_was_written() {
    for make in [|| Mounted::new("pmfs", Bytes::mib(16), &[]), || Mounted::hinfs(Bytes::mib(16))] {
        virtually(7, move || {
            let mounted = make();
            let file = mounted.create("file");
            // The third piece of 2 MiB is the one that fails.
            let stores = 2 * 512 + 600;
            let fault = Fault::FailFrom { target: Target::Store, nth: stores };
            let data = vec![3; 5 << 20];
            let written = mounted.failing(fault, || mounted.fs.write(file, 0, &data, IoFlags::SYNC));
            let written = written.expect("two pieces were written").bytes;
            assert!(written > 0 && written < data.len() && written.is_multiple_of(2 << 20), "{written}");
        });
    }
}

#[test]
fn a_sync_fails_until_the_medium_takes_the_data() {
    virtually(8, || {
        let mounted = Mounted::hinfs(Bytes::mib(1));
        let file = mounted.create("file");
        mounted.write(file, 0, &[4; BLOCK]).expect("write");
        mounted.region.inject(Fault::FailFrom { target: Target::Store, nth: 1 });
        for _ in 0..3 {
            assert_eq!(mounted.fs.fsync(file, false), Err(Errno::EIO));
            assert_eq!(mounted.fs.sync(), Err(Errno::EIO));
        }
        mounted.region.clear_faults();
        assert_eq!(mounted.fs.fsync(file, false), Ok(()));
        mounted.end();
        let fs = mounted.design.mount(&mounted.region).expect("mount");
        let mut bytes = [0; BLOCK];
        assert_eq!(fs.read(file, 0, &mut bytes, IoFlags::empty()), Ok(BLOCK));
        assert!(bytes == [4; BLOCK]);
    });
}

#[test]
fn data_that_was_lost_is_told_by_one_fsync_of_the_file_and_by_no_other_sync() {
    virtually(9, || {
        let mounted = Mounted::hinfs(Bytes::mib(1));
        let file = mounted.create("file");
        mounted.write(file, 0, &[4; 100]).expect("write");
        // A growth that fails takes with it the one that it has joined.
        let fault = Fault::FailNth { target: Target::Store, nth: 1 };
        let grown = mounted.failing(fault, || mounted.write(file, 100, &[5; 2 * BLOCK]));
        assert_eq!(grown, Err(Errno::EIO));
        assert_eq!(mounted.fs.sync(), Ok(()));
        assert_eq!(mounted.fs.fsync(file, false), Err(Errno::EIO));
        assert_eq!(mounted.fs.fsync(file, false), Ok(()));
        assert_eq!(mounted.fs.getattr(file).expect("getattr").size, 0);
        mounted.end();
    });
}

#[test]
fn no_text_that_people_give_seeds_a_bug() {
    for design in fs::FILE_SYSTEMS {
        for mutant in design.mutants() {
            let given = [("mutant".to_owned(), mutant.name().to_owned())].into();
            assert!(Options::resolve(design.name(), Design::options(*design), &given).is_err());
        }
        assert!(design.options().iter().all(|option| option.name != "mutant"));
    }
}
