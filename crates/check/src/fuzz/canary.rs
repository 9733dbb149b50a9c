//! Designs with a fault that one word of an image brings out, for tests of the tests.

use std::sync::Arc;

use media::nvmm::Region;
use sim::Bytes;
use vfs::FileSystem;

use crate::design::Design;

/// What the design does when it meets the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Panics in fsck.
    Panic,
    /// Reads for ever in mount.
    Loop,
}

/// Like `design`, but the value 1 in the 8-byte word at `offset` brings out a fault.
pub fn fault_at(design: Arc<dyn Design>, offset: u64, fault: Fault) -> Arc<dyn Design> {
    Arc::new(Faulty { design, offset, fault })
}

struct Faulty {
    design: Arc<dyn Design>,
    offset: u64,
    fault: Fault,
}

impl Faulty {
    fn meets(&self, region: &Region, fault: Fault) -> bool {
        self.fault == fault && region.load_u64(self.offset) == Ok(1)
    }
}

impl Design for Faulty {
    fn name(&self) -> &str {
        self.design.name()
    }

    fn arguments(&self) -> String {
        self.design.arguments()
    }

    fn min_size(&self) -> Bytes {
        self.design.min_size()
    }

    fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.mkfs(region)
    }

    fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        while self.meets(region, Fault::Loop) {}
        self.design.mount(region)
    }

    fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.recover(region)
    }

    fn fsck(&self, region: &Region) -> Vec<String> {
        assert!(!self.meets(region, Fault::Panic), "the word at {} is 1", self.offset);
        self.design.fsck(region)
    }
}
