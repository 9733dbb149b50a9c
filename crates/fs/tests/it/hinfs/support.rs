//! Mounting and measuring.

use std::sync::Arc;

use design::{Design, Options};
use media::Storage;
use media::nvmm::Region;
use media::nvmm::hinfs::{Hinfs, Round};
use media::nvmm::null::Null;
use sim::ledger::Snapshot;
use sim::{Activity, Bytes, Clock, Machine, Nanos, Rate, Seed, Setup, Work};
use vfs::{FileSystem, Ino, IoFlags, NewInode, OpenFlags, Owner, SetAttr};

use crate::shared::harness;

pub(crate) const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
pub(crate) const DESIGNS: [&str; 3] = ["hinfs", "hinfs-nclfw", "hinfs-wb"];
pub(crate) const PAGE: usize = 4096;

/// The paper's server, in round numbers (`presets/machines/hinfs-server.toml`).
pub(crate) fn server() -> Machine {
    let mut machine = Machine::unit();
    machine.copy_ps_per_byte = 170;
    machine.dram_ps_per_byte = 125;
    for (work, ns) in [
        (Work::SYSCALL, 67),
        (Work::CALL, 60),
        (vfs::charges::PATH_COMPONENT, 50),
        (Work::LOCK, 20),
        (Work::LINE_SAME_SOCKET, 51),
        (Work::LINE_CROSS_SOCKET, 136),
        (Work::STEP, 6),
        (Work::MISS, 86),
        (media::charges::FLUSH_ISSUE, 2),
        (media::charges::STORE_FENCE, 3),
        (Work::WAKEUP, 1600),
    ] {
        machine.work_ps[work.index()] = ns * 1000;
    }
    machine
}

/// Runs `body` on the paper's server.
pub(crate) fn run<T: Send + 'static>(
    clock: Clock,
    seed: u64,
    body: impl FnOnce() -> T + Send + 'static,
) -> T {
    let setup = Setup { clock, ..Setup::virtual_clock(server(), Seed(seed)) };
    sim::run(&setup, body).unwrap_or_else(|error| panic!("{clock} clock, seed {seed}: {error}"))
}

pub(crate) fn virtually<T: Send + 'static>(seed: u64, body: impl FnOnce() -> T + Send + 'static) -> T {
    run(Clock::Virtual, seed, body)
}

/// An image and the design that is mounted on it.
pub(crate) struct Mounted {
    pub(crate) design: &'static dyn Design,
    pub(crate) region: Arc<Region>,
    pub(crate) options: Options,
    pub(crate) fs: Arc<dyn FileSystem>,
}

/// The paper's medium: 200 ns a line, 1 GB/s.
pub(crate) fn paper_region(size: Bytes) -> Arc<Region> {
    let model = Hinfs::new(Nanos(200), Rate(1_000_000_000), Round::Floor);
    Arc::new(Region::anonymous(size, Box::new(model)).expect("memory"))
}

/// A medium that takes no time.
pub(crate) fn free_region(size: Bytes) -> Arc<Region> {
    Arc::new(Region::anonymous(size, Box::new(Null)).expect("memory"))
}

impl Mounted {
    pub(crate) fn new(name: &str, region: Arc<Region>, given: &[(&str, &str)]) -> Self {
        let design = fs::by_name(name).expect("a design");
        let options = harness::options(design, given);
        design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let fs = design.mount(&Storage::from(&region), &options).expect("mount");
        Self { design, region, options, fs }
    }

    /// On the paper's medium, with `pages` pages of buffer.
    pub(crate) fn paper(name: &str, pages: u64, given: &[(&str, &str)]) -> Self {
        let buffer = (pages * PAGE as u64).to_string();
        let mut all = vec![("buffer", buffer.as_str())];
        all.retain(|_| name != "pmfs");
        all.extend(given);
        Self::new(name, paper_region(Bytes::mib(64)), &all)
    }

    pub(crate) fn counter(&self, name: &str) -> u64 {
        let found = self.fs.counters().into_iter().find(|(counter, _)| *counter == name);
        found.unwrap_or_else(|| panic!("a counter {name}")).1
    }

    pub(crate) fn create(&self, name: &str) -> Ino {
        self.fs.create(self.fs.root(), name.as_bytes(), &NEW).expect("create").ino
    }

    /// A file of `blocks` blocks that are on the medium and nowhere else, and that nothing is known of.
    pub(crate) fn settled(&self, name: &str, blocks: usize) -> Ino {
        let file = self.create(name);
        self.write_sync(file, 0, &vec![0x11; blocks * PAGE]);
        file
    }

    pub(crate) fn write(&self, file: Ino, offset: u64, data: &[u8]) {
        let written = self.fs.write(file, offset, data, IoFlags::empty()).expect("write");
        assert_eq!((written.offset, written.bytes), (offset, data.len()));
    }

    pub(crate) fn write_sync(&self, file: Ino, offset: u64, data: &[u8]) {
        self.fs.write(file, offset, data, IoFlags::SYNC).expect("write");
    }

    pub(crate) fn read(&self, file: Ino, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0xEE; len];
        let read = self.fs.read(file, offset, &mut bytes, IoFlags::empty()).expect("read");
        bytes.truncate(read);
        bytes
    }

    pub(crate) fn size(&self, file: Ino) -> u64 {
        self.fs.getattr(file).expect("getattr").size
    }

    pub(crate) fn fsync(&self, file: Ino) {
        self.fs.fsync(file, false).expect("fsync");
    }

    pub(crate) fn truncate(&self, file: Ino, size: u64) {
        self.fs.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() }).expect("truncate");
    }

    pub(crate) fn open(&self, file: Ino) {
        self.fs.open(file, OpenFlags::WRITE).expect("open");
    }

    pub(crate) fn unlink(&self, name: &str) {
        self.fs.unlink(self.fs.root(), name.as_bytes()).expect("unlink");
    }

    /// Unmounts, checks the image, mounts again.
    pub(crate) fn remount(&mut self) {
        self.fs.unmount().expect("unmount");
        self.check();
        self.fs = self.design.mount(&Storage::from(&self.region), &self.options).expect("mount again");
    }

    pub(crate) fn check(&self) {
        let report = self.design.format().fsck(&Storage::from(&self.region));
        assert_eq!(report.violations, [], "{}", self.design.name());
        assert!(!report.checked.is_empty(), "fsck checked nothing: {:?}", report.notes);
    }

    /// Unmounts and checks the image.
    pub(crate) fn end(self) {
        self.fs.unmount().expect("unmount");
        self.check();
    }
}

/// What an operation took and moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) time: Nanos,
    /// Lines written to the medium that hold file data.
    pub(crate) data_lines: u64,
    /// All lines written to the medium.
    pub(crate) lines: u64,
    /// Bytes of the medium that were read as file data.
    pub(crate) loaded: u64,
}

/// What `body` costs, background work meanwhile included.
pub(crate) fn cost(body: impl FnOnce()) -> Cost {
    let (before, start) = (Snapshot::of_run(), sim::now());
    body();
    let (time, spent) = (sim::now().since(start), Snapshot::of_run().since(&before));
    Cost {
        time,
        data_lines: spent.count(&media::charges::LINES_WRITTEN, Activity::DATA),
        lines: spent.count_all(&media::charges::LINES_WRITTEN),
        loaded: spent.count_all(&media::charges::BYTES_LOADED),
    }
}
