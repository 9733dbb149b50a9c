//! What a commit asks of a device whose cache forgets what was not flushed.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::NEW;
use design::Options;
use fs::by_name;
use media::block::{BlockDevice, MemoryDevice};
use media::event::TaskId;
use media::fault::{Fault, Target};
use media::nvmm::null::Null;
use media::nvmm::{Access, Region};
use media::{BlockEvent, Event, Mark, Storage, Tap};
use parking_lot::Mutex;
use sim::Bytes;
use vfs::{Errno, IoFlags};

use crate::shared::harness::{small, virtually};

/// What a device is asked, a letter each: a write, a write with FUA, a flush, and the mark before a commit block.
#[derive(Default)]
struct Asked(Mutex<String>);

impl Tap for Asked {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let letter = match event {
            Event::Block(BlockEvent::Write { flags, .. }) if flags.fua => 'W',
            Event::Block(BlockEvent::Write { .. }) => 'w',
            Event::Block(BlockEvent::Flush { .. }) => 'f',
            Event::Mark(Mark::CommitBlock { .. } | Mark::Commit { .. }) => 'c',
            _ => return,
        };
        self.0.lock().push(letter);
    }
}

/// What an fsync of a new file asks of the device over a region.
fn asked(region: Region) -> String {
    virtually(1, move || {
        let device = MemoryDevice::whole(Arc::new(region)).expect("a device");
        let seen = Arc::new(Asked::default());
        device.attach(Arc::clone(&seen) as Arc<dyn Tap>);
        let storage = Storage::of_block(device);
        let design = by_name("ext4").expect("a design");
        let options = Options::resolve("ext4", design.options(), &BTreeMap::default()).expect("defaults");
        design.format().mkfs(&storage, &options).expect("mkfs");
        let fs = design.mount(&storage, &options).expect("mount");
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        seen.0.lock().clear();
        fs.fsync(file, false).expect("fsync");
        let asked = seen.0.lock().clone();
        fs.unmount().expect("unmount");
        asked
    })
}

#[test]
fn in_a_file_of_the_host_a_flush_comes_between_the_log_and_the_commit_block() {
    let scratch = tempfile::NamedTempFile::new().expect("a file");
    let region = Region::file(scratch.path(), Some(Bytes::mib(64)), Access::ReadWrite, Box::new(Null));
    let asked = asked(region.expect("a pool"));
    assert!(asked.contains("wfcW"), "{asked}");
}

#[test]
fn memory_that_forgets_nothing_is_not_flushed() {
    let region = Region::anonymous(Bytes::mib(64), Box::new(Null));
    let asked = asked(region.expect("memory"));
    assert!(asked.contains("wcW") && !asked.contains('f'), "{asked}");
}

/// As the kernel with `errors=remount-ro`: the journal ends, no later change is accepted, and what is there can be read. The flush
/// of
/// an fsync that has nothing to commit is the device's error alone: the next fsync tries again.
#[test]
fn a_flush_that_fails_fails_its_fsync_and_in_a_commit_it_ends_all_changes() {
    for design in ["ext4", "ext2"] {
        virtually(1, move || {
            let (design, region) = (small(design), check::configured::region(Bytes::mib(4)));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
            fs.write(file, 0, b"bytes", IoFlags::empty()).expect("write");
            let failing = || {
                region.inject(Fault::FailNth { target: Target::DeviceFlush, nth: 1 });
                let done = fs.fsync(file, false);
                assert_eq!(region.clear_faults(), 1, "a flush was asked for");
                done
            };
            let journaled = design.name() == "ext4";
            if journaled {
                fs.fsync(file, false).expect("fsync");
                assert_eq!(failing(), Err(Errno::EIO), "nothing to commit");
                fs.fsync(file, false).expect("fsync again");
                fs.write(file, 0, b"other", IoFlags::empty()).expect("write");
                fs.create(fs.root(), b"another", &NEW).expect("create");
            }
            assert_eq!(failing(), Err(Errno::EIO));
            let later = if journaled { Err(Errno::EROFS) } else { Ok(()) };
            assert_eq!(fs.fsync(file, false), later);
            assert_eq!(fs.create(fs.root(), b"late", &NEW).map(drop), later);
            let mut back = [0; 5];
            assert_eq!(fs.read(file, 0, &mut back, IoFlags::empty()), Ok(5));
            let _ = fs.unmount();
            let fs = design.mount(&region).expect("mount again");
            assert!(fs.lookup(fs.root(), b"file").is_ok());
            fs.unmount().expect("unmount");
        });
    }
}
