//! What a hardware thread executes: the machine's operations, after the scheme has added its own.

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A load whose address is known.
    Load,
    /// A load whose address comes from the thread's load before it.
    LoadAfterLoad,
    /// An 8-byte store to persistent or volatile memory.
    Store,
    /// Stores past the caches into the write-combining buffer.
    NtStore,
    /// Write a dirty line back and keep it.
    Clwb,
    /// Wait until all earlier write-backs and stores past the caches are durable.
    Fence,
    /// Take space for a record in the log of the process: an atomic addition to its tail.
    TakeSpace,
    /// Say from where on the thread needs that log.
    Release,
    /// Move that log's head, if a quarter of the log is used.
    Truncate,
    /// Begin a transaction (hardware).
    Begin,
    /// Commit a transaction (hardware).
    Commit,
    /// Instructions only.
    Compute,
    /// A transaction is acknowledged here (software schemes; marks time, takes none).
    Acknowledge,
}

/// One operation. 24 bytes: a transaction is a vector of them that is used again.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What it does.
    pub kind: Kind,
    /// Whether logging added it.
    pub logging: bool,
    /// Words (of 8 bytes) of a store past the caches.
    pub words: u16,
    /// Instructions before it.
    pub gap: u32,
    /// Byte address; transaction number; of [`Kind::TakeSpace`]: whether the record is the first of its transaction.
    pub addr: u64,
    /// Value stored; place of the bytes of a store past the caches or of a record; of [`Kind::Release`]: whether the open
    /// transaction is needed still.
    pub value: u64,
}

impl Op {
    /// An operation of the program.
    pub fn new(kind: Kind, addr: u64, value: u64) -> Self {
        Self { kind, logging: false, words: 1, gap: 0, addr, value }
    }

    /// Instructions that it stands for, those before it included.
    pub fn instructions(&self) -> u64 {
        let own = match self.kind {
            Kind::Compute | Kind::Acknowledge => 0,
            Kind::NtStore => u64::from(self.words),
            _ => 1,
        };
        u64::from(self.gap) + own
    }
}
