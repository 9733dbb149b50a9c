//! After a run: is everything there that the workers have made, and nothing that they have removed?
//!
//! A block tells who wrote it and when (see the module `block`), so the last write of each worker must be in its place.

use vfs::{Errno, OpenFlags, Syscalls};

use super::block::Block;
use super::names;
use super::parameters::{BLOCK, FANOUT, LEVELS};
use super::prepare::Prepared;
use super::run::Plan;
use super::table::{Loop, Sharing};

/// What is wrong, in words.
type Outcome = Result<(), String>;

/// Looks at what every worker has left; `next` are the numbers of their next operations.
pub(super) fn all(plan: &Plan, calls: &dyn Syscalls, prepared: &[Prepared], next: &[u64]) -> Outcome {
    if matches!(plan.benchmark.work, Loop::Stat(Sharing::Medium | Sharing::High)) {
        return tree(calls);
    }
    for w in 0..plan.parameters.foreground() {
        worker(plan, w, calls, prepared[w as usize], next[w as usize])?;
    }
    Ok(())
}

fn worker(plan: &Plan, w: u64, calls: &dyn Syscalls, prepared: Prepared, next: u64) -> Outcome {
    let (work, disturbed) = (plan.benchmark.work, plan.parameters.background > 0);
    let path = names::file(work, w);
    let mut names = names::numbered(work, w);
    match work {
        Loop::Read(Sharing::Low) => block(plan, calls, &path, 0, (w, 0)),
        Loop::Read(_) if disturbed => Ok(()),
        Loop::Read(Sharing::Medium) => {
            let offset = w * plan.parameters.region;
            block(plan, calls, &path, offset, (u64::MAX, offset / BLOCK))
        }
        Loop::Read(Sharing::High) => block(plan, calls, &path, 0, (u64::MAX, 0)),
        Loop::Overwrite(Sharing::Medium) if next <= 1 => Ok(()),
        Loop::Overwrite(Sharing::Medium) => {
            block(plan, calls, &path, w * plan.parameters.region, (w, next - 1))
        }
        Loop::Overwrite(_) | Loop::OverwriteSync => block(plan, calls, &path, 0, (w, next - 1)),
        Loop::Append => {
            size(calls, &path, next * BLOCK)?;
            last_block(plan, calls, &path, next, w)
        }
        Loop::Truncate => {
            size(calls, &path, (prepared.blocks - next) * BLOCK)?;
            last_block(plan, calls, &path, prepared.blocks - next, w)
        }
        Loop::WriteThrough | Loop::WriteThroughSync if next > 0 && !plan.parameters.at_random => {
            let (blocks, last) = (prepared.blocks, next - 1);
            block(plan, calls, &path, last % blocks * BLOCK, (w, blocks + last))
        }
        Loop::ReadThrough | Loop::ReadSkewed | Loop::WriteThrough | Loop::WriteThroughSync => {
            size(calls, &path, prepared.blocks * BLOCK)
        }
        Loop::Stat(_) => size(calls, &path, 0),
        Loop::List(_) => exist(calls, &mut names, 0..prepared.files, 0),
        Loop::Create(_) => exist(calls, &mut names, 0..next, 0),
        Loop::CreateWrite => exist(calls, &mut names, 0..next, BLOCK),
        Loop::Unlink(_) => {
            absent(calls, &mut names, 0..next)?;
            exist(calls, &mut names, next..prepared.files, 0)
        }
        Loop::RenameWithin => {
            absent(calls, &mut names, next.saturating_sub(1)..next)?;
            exist(calls, &mut names, next..next + 1, 0)
        }
        Loop::RenameAcross => {
            absent(calls, &mut names, 0..next)?;
            exist(calls, &mut names::moved(w), 0..next, 0)?;
            exist(calls, &mut names, next..prepared.files, 0)
        }
    }
}

fn tree(calls: &dyn Syscalls) -> Outcome {
    let mut path = names::TreePath::new();
    for number in 0..FANOUT.pow(LEVELS) {
        let digits = std::array::from_fn(|level| (number / FANOUT.pow(level as u32) % FANOUT) as u8);
        size(calls, &String::from_utf8_lossy(path.at(digits, false)), 0)?;
    }
    Ok(())
}

fn size(calls: &dyn Syscalls, path: &str, wanted: u64) -> Outcome {
    let found = calls.stat(path.as_bytes()).map_err(|errno| format!("stat of {path}: {errno}"))?.size;
    if found == wanted { Ok(()) } else { Err(format!("{path} has {found} bytes, {wanted} were written")) }
}

/// The block at `offset` is the one that the worker has written with that number.
fn block(
    plan: &Plan,
    calls: &dyn Syscalls,
    path: &str,
    offset: u64,
    (writer, number): (u64, u64),
) -> Outcome {
    let told = |call: &'static str| move |errno: Errno| format!("{call} of {path}: {errno}");
    let mut found = Block::empty();
    let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(told("open"))?;
    let len = calls.pread(fd, found.bytes_mut(), offset).map_err(told("pread"))?;
    calls.close(fd).map_err(told("close"))?;
    let mut wanted = Block::new(plan.seed, writer, plan.parameters.switches.zero_data);
    if len as u64 == BLOCK && found.bytes() == wanted.numbered(number) {
        return Ok(());
    }
    Err(format!("{path} does not hold write {number} of its worker at offset {offset}"))
}

/// The last of `blocks` blocks, each written with its own number.
fn last_block(plan: &Plan, calls: &dyn Syscalls, path: &str, blocks: u64, w: u64) -> Outcome {
    match blocks.checked_sub(1) {
        Some(last) => block(plan, calls, path, last * BLOCK, (w, last)),
        None => Ok(()),
    }
}

fn exist(
    calls: &dyn Syscalls,
    names: &mut names::Numbered,
    numbers: std::ops::Range<u64>,
    bytes: u64,
) -> Outcome {
    for k in numbers {
        size(calls, &String::from_utf8_lossy(names.at(k, false)), bytes)?;
    }
    Ok(())
}

fn absent(calls: &dyn Syscalls, names: &mut names::Numbered, numbers: std::ops::Range<u64>) -> Outcome {
    for k in numbers {
        let path = names.at(k, false);
        if calls.stat(path) != Err(Errno::ENOENT) {
            return Err(format!("{} exists and should not", String::from_utf8_lossy(path)));
        }
    }
    Ok(())
}
