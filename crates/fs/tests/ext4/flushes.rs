//! What a commit asks of a device whose cache forgets what was not flushed.

use std::collections::BTreeMap;
use std::sync::Arc;

use check::NEW;
use fs::{Options, by_name};
use media::block::{BlockDevice, MemoryDevice};
use media::event::TaskId;
use media::nvmm::null::Null;
use media::nvmm::{Access, Region};
use media::{BlockEvent, Event, Mark, Storage, Tap};
use parking_lot::Mutex;
use sim::Bytes;

use crate::harness::virtually;

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
        design.mkfs(&storage, &options).expect("mkfs");
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
