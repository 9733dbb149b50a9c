//! Faults: what a medium may do wrong, on request.
//!
//! | fault | effect | models |
//! |---|---|---|
//! | [`Fault::Poison`] | loads of the line fail until it is written whole | a media error |
//! | [`Fault::FailNth`] | the nth load, store or flush of a device from now fails once, and changes nothing | a device error |
//! | [`Fault::FailFrom`] | so do all that follow, until the faults are cleared | a device that has failed |
//! | [`Fault::TearNth`] | the nth write from now leaves its first blocks only, and fails once | power lost in a write |
//! | [`Fault::DropNth`] | the nth flush or fence from now does not happen | a design that forgot it |
//! | [`Fault::DropLine`] | no flush or fence of a line of source happens | the same, in the code |
//!
//! The last two are for tests of the tests: a crash harness that does not notice a dropped flush proves
//! nothing. [`Target::Space`] fails, too: it is what a design's allocators ask for before they give anything
//! out ([`crate::Region::grants_space`]), so that running out of space can be tried at each of them.

use std::collections::BTreeSet;

use sim::LINE_BYTES;

use crate::error::MediaError;
use crate::event::Site;

/// A kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// Any read.
    Load,
    /// Any write, through the cache or past it.
    Store,
    /// Write-back of lines.
    Flush,
    /// Waiting for write-backs.
    Fence,
    /// A flush request of a block device, which reports whether it was carried out: it can fail. Left out, as something that the
    /// design forgot, it counts as [`Target::Flush`].
    DeviceFlush,
    /// A block or an inode that a design's allocator is about to give out.
    Space,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Store => "store",
            Self::Flush => "flush",
            Self::Fence => "fence",
            Self::DeviceFlush => "flush of a device",
            Self::Space => "allocation",
        })
    }
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line that holds this byte cannot be read.
    Poison {
        /// A byte of the line.
        offset: u64,
    },
    /// The nth access of this kind from now (1 is the next) fails. Flushes and fences of memory report nothing, so they
    /// cannot fail.
    FailNth {
        /// [`Target::Load`], [`Target::Store`], [`Target::DeviceFlush`] or [`Target::Space`].
        target: Target,
        /// Counted from 1.
        nth: u64,
    },
    /// As [`Fault::FailNth`], and all accesses of this kind after it.
    FailFrom {
        /// [`Target::Load`], [`Target::Store`], [`Target::DeviceFlush`] or [`Target::Space`].
        target: Target,
        /// Counted from 1.
        nth: u64,
    },
    /// The nth write to a block device from now (1 is the next) leaves its first `blocks` logical blocks, and
    /// fails. Regions do not show it.
    TearNth {
        /// Counted from 1.
        nth: u64,
        /// How many blocks arrive; all of them if the write has fewer.
        blocks: u64,
    },
    /// The nth access of this kind from now (1 is the next) is left out. Loads and stores cannot be left out.
    DropNth {
        /// [`Target::Flush`] or [`Target::Fence`].
        target: Target,
        /// Counted from 1.
        nth: u64,
    },
    /// Every access of this kind that a line of source asks a region for is left out.
    DropLine {
        /// [`Target::Flush`] or [`Target::Fence`].
        target: Target,
        /// The path of the source file, as the compiler has it.
        file: &'static str,
        /// The line.
        line: u32,
    },
}

/// An access that will go wrong, and how many of its kind come before it.
#[derive(Debug)]
struct Countdown {
    target: Target,
    left: u64,
    /// Those that come after it go wrong, too.
    lasting: bool,
}

/// The faults that a region is to show.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    poisoned: BTreeSet<u64>,
    countdowns: Vec<Countdown>,
    /// Writes that will be torn: how many come before each, counting it, and the blocks that arrive.
    tears: Vec<(u64, u64)>,
    /// Lines of source whose flushes or fences are left out.
    lines: Vec<(Target, &'static str, u32)>,
    /// Accesses that have gone wrong.
    struck: u64,
}

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault) {
        match fault {
            Fault::Poison { offset } => {
                self.poisoned.insert(offset / LINE_BYTES as u64);
            }
            Fault::FailNth { target, nth } | Fault::DropNth { target, nth } => {
                self.countdowns.push(Countdown { target, left: nth.max(1), lasting: false });
            }
            Fault::FailFrom { target, nth } => {
                self.countdowns.push(Countdown { target, left: nth.max(1), lasting: true });
            }
            Fault::DropLine { target, file, line } => self.lines.push((target, file, line)),
            Fault::TearNth { nth, blocks } => self.tears.push((nth.max(1), blocks)),
        }
    }

    /// How many accesses have gone wrong.
    pub(crate) fn struck(&self) -> u64 {
        self.struck
    }

    /// Whether this access is one that a countdown has been waiting for.
    pub(crate) fn strikes(&mut self, target: Target) -> bool {
        let mut struck = false;
        self.countdowns.retain_mut(|countdown| {
            if countdown.target != target {
                return true;
            }
            countdown.left = countdown.left.saturating_sub(1);
            struck |= countdown.left == 0;
            countdown.left > 0 || countdown.lasting
        });
        self.struck += u64::from(struck);
        struck
    }

    /// Whether what `site` asks for is left out.
    pub(crate) fn leaves_out(&mut self, target: Target, site: Site) -> bool {
        let found = self.lines.contains(&(target, site.file(), site.line()));
        self.struck += u64::from(found);
        found
    }

    /// The blocks of this write that arrive, if it is one that is to be torn.
    pub(crate) fn tears(&mut self) -> Option<u64> {
        let mut torn = None;
        self.tears.retain_mut(|(left, blocks)| {
            *left -= 1;
            if *left == 0 {
                torn = Some(*blocks);
            }
            *left > 0
        });
        self.struck += u64::from(torn.is_some());
        torn
    }

    /// Refuses a load of a poisoned line; a store heals the lines that it covers.
    pub(crate) fn check_poison(&mut self, target: Target, offset: u64, len: u64) -> Result<(), MediaError> {
        if self.poisoned.is_empty() || len == 0 {
            return Ok(());
        }
        let line_bytes = LINE_BYTES as u64;
        if target == Target::Store {
            let (first, end) = (offset.div_ceil(line_bytes), (offset + len) / line_bytes);
            self.poisoned.retain(|line| !(first..end).contains(line));
            return Ok(());
        }
        let lines = offset / line_bytes..=(offset + len - 1) / line_bytes;
        match self.poisoned.range(lines).next() {
            Some(line) => {
                self.struck += 1;
                Err(MediaError::Poisoned { offset: line * line_bytes })
            }
            None => Ok(()),
        }
    }
}
