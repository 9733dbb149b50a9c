//! Before the measured time: directories and files, each made from the core of the worker that uses it.
//!
//! What all workers share is made by the first of them while the others wait. Every descriptor is closed again: a worker opens
//! what it needs when all of this is over.

use serde::{Deserialize, Serialize};
use sim::Nanos;
use vfs::{Errno, Fd, OpenFlags, Syscalls};

use super::block::Block;
use super::names::{self, ROOT};
use super::parameters::{BLOCK, FANOUT, LEVELS};
use super::run::Plan;
use super::table::{Loop, Sharing};
use crate::tree::CallFailed;

/// The original's mode of files and directories.
const MODE: u32 = 0o700;
pub(super) const CREATE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREATE);

/// What a worker has found or made, and goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Prepared {
    /// Numbered files that exist.
    pub(super) files: u64,
    /// Blocks of its own file.
    pub(super) blocks: u64,
}

type Result<T> = std::result::Result<T, CallFailed>;

/// Makes the root, which must not be there: what an earlier run left would be measured instead of what is made now.
pub(super) fn root(calls: &dyn Syscalls) -> std::result::Result<(), String> {
    match calls.mkdir(ROOT.as_bytes(), MODE) {
        Ok(()) => Ok(()),
        Err(Errno::EEXIST) => Err(format!("{ROOT} is there from an earlier run: remove it")),
        Err(errno) => Err(CallFailed::of("mkdir", ROOT)(errno).to_string()),
    }
}

/// What all workers share.
pub(super) fn shared(plan: &Plan, calls: &dyn Syscalls) -> Result<()> {
    let (work, parameters) = (plan.benchmark.work, &plan.parameters);
    let blocks = match work {
        Loop::Read(Sharing::Medium) | Loop::Overwrite(Sharing::Medium) => {
            parameters.workers * parameters.region / BLOCK
        }
        Loop::Read(Sharing::High) => 1,
        Loop::Stat(Sharing::Medium | Sharing::High) => return tree(calls),
        _ => return Ok(()),
    };
    let path = names::file(work, 0);
    let mut block = Block::new(plan.seed, u64::MAX, plan.parameters.switches.zero_data);
    with_file(calls, &path, |fd| {
        write_blocks(calls, fd, &path, blocks, &mut block)?;
        calls.fsync(fd).map_err(CallFailed::of("fsync", &path))
    })
}

/// The tree of MRPM and MRPH: four levels of eight directories each, and eight files in each of the last.
fn tree(calls: &dyn Syscalls) -> Result<()> {
    let mut level = vec![ROOT.to_owned()];
    for depth in 1..=LEVELS {
        let children =
            |parent: &String| (0..FANOUT).map(|digit| format!("{parent}/{digit}")).collect::<Vec<_>>();
        level = level.iter().flat_map(children).collect();
        for path in &level {
            if depth == LEVELS {
                touch(calls, path)?;
            } else {
                directory(calls, path)?;
            }
        }
    }
    Ok(())
}

/// What worker `w` has of its own.
pub(super) fn own(plan: &Plan, w: u64, calls: &dyn Syscalls) -> Result<Prepared> {
    let work = plan.own_work(w);
    let mut prepared = Prepared::default();
    if has_directory(work) {
        directory(calls, &names::directory(w))?;
    }
    let path = names::file(work, w);
    match work {
        Loop::Read(Sharing::Low) | Loop::Overwrite(Sharing::Low) | Loop::OverwriteSync => {
            filled(plan, calls, w, &path, 1)?;
        }
        Loop::ReadThrough | Loop::ReadSkewed | Loop::WriteThrough | Loop::WriteThroughSync => {
            prepared.blocks = filled(plan, calls, w, &path, plan.parameters.file / BLOCK)?;
        }
        Loop::Truncate => {
            let blocks = if plan.parameters.switches.until_full { u64::MAX } else { plan.parameters.blocks };
            prepared.blocks = filled(plan, calls, w, &path, blocks)?;
        }
        Loop::Append => touch(calls, &path)?,
        Loop::Stat(Sharing::Low) => {
            for end in
                path.match_indices('/').map(|(end, _)| end).filter(|end| *end > names::directory(w).len())
            {
                directory(calls, &path[..end])?;
            }
            touch(calls, &path)?;
        }
        Loop::RenameWithin => {
            with_file(calls, &path, |fd| calls.fsync(fd).map_err(CallFailed::of("fsync", &path)))?;
        }
        Loop::List(_) | Loop::Unlink(_) | Loop::RenameAcross => {
            prepared.files = numbered_files(plan, w, calls)?;
        }
        _ => {}
    }
    Ok(prepared)
}

/// Whether the worker has a directory of its own.
fn has_directory(work: Loop) -> bool {
    match work {
        Loop::Read(sharing)
        | Loop::Overwrite(sharing)
        | Loop::Stat(sharing)
        | Loop::List(sharing)
        | Loop::Create(sharing)
        | Loop::Unlink(sharing) => sharing == Sharing::Low,
        Loop::Truncate | Loop::CreateWrite => false,
        _ => true,
    }
}

/// Empty files: as many as wanted, as fit, or as can be made in the time of the run.
fn numbered_files(plan: &Plan, w: u64, calls: &dyn Syscalls) -> Result<u64> {
    let work = plan.benchmark.work;
    let (switches, mut path) = (plan.parameters.switches, names::numbered(work, w));
    let full = switches.until_full && matches!(work, Loop::Unlink(_));
    let timed = switches.timed_prepare && matches!(work, Loop::List(_) | Loop::RenameAcross);
    let until = sim::now() + if timed { plan.duration() } else { Nanos::ZERO };
    let mut made = 0;
    while if timed { sim::now() < until } else { full || made < plan.parameters.files } {
        let path = path.at(made, false);
        match calls.open(path, CREATE, MODE).and_then(|fd| calls.close(fd)) {
            Ok(()) => made += 1,
            Err(Errno::ENOSPC | Errno::EDQUOT) if full || timed => break,
            Err(errno) => return Err(CallFailed::of("open", &String::from_utf8_lossy(path))(errno)),
        }
    }
    if timed && work == Loop::RenameAcross {
        // The moves must find space: one file in twenty goes, and one more.
        let kept = made - (made / 20 + 1).min(made);
        for k in kept..made {
            let path = path.at(k, false);
            calls.unlink(path).map_err(CallFailed::of("unlink", &String::from_utf8_lossy(path)))?;
        }
        made = kept;
    }
    Ok(made)
}

/// A new file of up to `blocks` blocks; returns how many there are. Without a limit it ends where the space does.
fn filled(plan: &Plan, calls: &dyn Syscalls, w: u64, path: &str, blocks: u64) -> Result<u64> {
    let mut block = Block::new(plan.seed, w, plan.parameters.switches.zero_data);
    with_file(calls, path, |fd| write_blocks(calls, fd, path, blocks, &mut block))
}

fn write_blocks(calls: &dyn Syscalls, fd: Fd, path: &str, blocks: u64, block: &mut Block) -> Result<u64> {
    for number in 0..blocks {
        match calls.write(fd, block.numbered(number)) {
            Ok(len) if len as u64 == BLOCK => {}
            Ok(_) | Err(Errno::ENOSPC | Errno::EDQUOT) if blocks == u64::MAX => return Ok(number),
            Ok(_) => return Err(CallFailed::of("write", path)(Errno::ENOSPC)),
            Err(errno) => return Err(CallFailed::of("write", path)(errno)),
        }
    }
    Ok(blocks)
}

fn directory(calls: &dyn Syscalls, path: &str) -> Result<()> {
    calls.mkdir(path.as_bytes(), MODE).map_err(CallFailed::of("mkdir", path))
}

fn touch(calls: &dyn Syscalls, path: &str) -> Result<()> {
    with_file(calls, path, |_| Ok(()))
}

/// Makes the file, lets `fill` have it, and closes it.
fn with_file<T>(calls: &dyn Syscalls, path: &str, fill: impl FnOnce(Fd) -> Result<T>) -> Result<T> {
    let flags = CREATE | OpenFlags::EXCLUSIVE;
    let fd = calls.open(path.as_bytes(), flags, MODE).map_err(CallFailed::of("open", path))?;
    let outcome = fill(fd);
    calls.close(fd).map_err(CallFailed::of("close", path))?;
    outcome
}
