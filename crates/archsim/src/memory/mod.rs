//! NVRAM: the controller with its queues, the banks behind it, and the energy of both.

pub mod bank;
pub mod controller;

/// Why a line moves between the processor and NVRAM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A dirty line left the last level by itself.
    Eviction,
    /// The program or the commit of a scheme wrote it back.
    Clwb,
    /// A scan of force write-back wrote it.
    Scan,
    /// Log records and the log's superblock, of hardware and software alike.
    Log,
    /// A line was fetched.
    Fetch,
}

impl Cause {
    /// All, in the order of the counters.
    pub const ALL: [Self; 5] = [Self::Eviction, Self::Clwb, Self::Scan, Self::Log, Self::Fetch];

    /// The name in records.
    pub fn name(self) -> &'static str {
        ["eviction", "clwb", "fwb", "log", "fetch"][self as usize]
    }
}
