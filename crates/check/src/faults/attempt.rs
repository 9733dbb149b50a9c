//! Runs an operation with one failure in it.

use std::sync::Arc;

use media::event::Tap;
use media::nvmm::Region;
use vfs::{Errno, FileKind, FileSystem, IoFlags};

use super::{Failure, Outcome};
use crate::configured::{self, fsck, unmount};
use crate::crash::afterwards::use_everything;
use crate::crash::allowed::Allowed;
use crate::crash::record::{IDLE, States, agree};
use crate::crash::{Program, Subject};
use crate::lockstep::{in_short, same_answer};
use crate::model::Model;
use crate::observe::observe;
use crate::op::{NEW, Op, Reply, Runner};
use crate::tree::{Tree, difference};

/// The part in which an access fails: the last operation of a program, or the minute after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Operation,
    Idle,
}

/// How many blocks are free when everything is removed, before and after the operation.
pub(super) type Free = [u64; 2];

/// The result of an attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// The program needs more space than the region has.
    WithoutSpace,
    /// No failure was wanted; this many blocks are free when everything is removed.
    Passed(u64),
    /// The failure did not happen: there are fewer accesses.
    Untouched,
    /// It happened.
    Struck(Outcome),
}

/// A program that runs beside the model.
struct Ground<'a> {
    subject: &'a Subject,
    region: Arc<Region>,
    runner: Runner,
    model: Model,
    ops: Vec<Op>,
    states: States,
}

/// The answer of the operation under test, and what a remount did.
struct Answer {
    reply: Result<Reply, Errno>,
    expected: Result<Reply, Errno>,
    /// A mount failed.
    mount_failed: bool,
}

impl<'a> Ground<'a> {
    /// A fresh file system on which all of a program but its last operation was done. None: no space for it.
    fn new(subject: &'a Subject, ops: &[Op]) -> Result<Option<Self>, String> {
        let region = configured::region(subject.size);
        subject.design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
        let fs = subject.design.mount(&region).map_err(|error| format!("mount: {error}"))?;
        let model = Model::of(&*fs, subject.promises)?;
        let states = States::new(subject.promises, &model);
        let mut ground = Self { subject, region, runner: Runner::new(fs), model, ops: Vec::new(), states };
        for op in ops {
            let before = ground.model.clone();
            let agreed = match op {
                Op::Remount => ground.remount_well().map(|()| Some(true)),
                op => agree(&mut ground.runner, &mut ground.model, op),
            };
            let Some(succeeded) = agreed.map_err(|what| format!("setup: {what}"))? else { return Ok(None) };
            ground.states.push((op, succeeded), &before, &ground.model);
            ground.ops.push(op.clone());
        }
        Ok(Some(ground))
    }

    fn fs(&self) -> &dyn FileSystem {
        &*self.runner.fs
    }

    fn close_all(&mut self) {
        self.runner.close_all();
        self.model.close_all();
    }

    fn remount_well(&mut self) -> Result<(), String> {
        self.close_all();
        unmount(self.fs())?;
        self.mount()
    }

    fn mount(&mut self) -> Result<(), String> {
        let fs = self.subject.design.mount(&self.region).map_err(|error| format!("mount: {error}"))?;
        self.runner = Runner::new(fs);
        Ok(())
    }

    /// Carries out the operation under test, on the model as the design has done it.
    fn run(&mut self, op: &Op) -> Answer {
        let before = self.model.clone();
        let (reply, mount_failed) = match op {
            Op::Remount => self.remount(),
            op => (self.runner.run(op), false),
        };
        let limit = match &reply {
            Ok(Reply::Written(bytes)) => Some(*bytes),
            _ => None,
        };
        let expected = self.model.run(op, limit);
        self.states.push((op, expected.is_ok()), &before, &self.model);
        self.ops.push(op.clone());
        Answer { reply, expected, mount_failed }
    }

    /// An unmount that fails leaves what a mount recovers. A mount that fails is tried again by the caller.
    fn remount(&mut self) -> (Result<Reply, Errno>, bool) {
        self.close_all();
        let unmounted = self.runner.fs.unmount();
        match self.mount() {
            Ok(()) => (unmounted.map(|()| Reply::Done), false),
            Err(_) => (Err(Errno::EIO), true),
        }
    }

    /// What is allowed of a tree when the last operation has failed.
    fn judge(&self, seen: &Tree) -> Result<(), String> {
        let (promises, done) = (self.subject.promises, self.ops.len() - 1);
        Allowed { promises, ops: &self.ops, states: &self.states, done, inside: true }.judge(seen)
    }

    /// The same when nothing but a sync has failed.
    fn judge_after(&self, seen: &Tree) -> Result<(), String> {
        let (promises, done) = (self.subject.promises, self.ops.len());
        Allowed { promises, ops: &self.ops, states: &self.states, done, inside: false }.judge(seen)
    }

    /// Blocks that are free, and inodes that are in use.
    fn space(&self) -> Result<(u64, u64), String> {
        let space = self.fs().statfs().map_err(|errno| format!("statfs: {}", errno.name()))?;
        Ok((space.blocks_free, space.files - space.files_free))
    }
}

/// What an attempt is for.
pub(super) enum Trial {
    /// To count the free blocks at the end without a failure.
    Measure,
    /// To record the accesses of the operation.
    Listen(Arc<dyn Tap>),
    /// To inject this failure, and to compare the free blocks at the end.
    Fail(Failure, Free),
}

/// Runs a program and its last operation, or the minute after it, on trial.
pub(super) fn attempt(
    subject: &Subject,
    program: &Program,
    stage: Stage,
    trial: &Trial,
) -> Result<Attempt, String> {
    let all: Vec<Op> = program.setup.iter().chain(&program.core).cloned().collect();
    let (last, before) = all.split_last().expect("a program has an operation");
    let before = if stage == Stage::Idle { &all } else { before };
    let Some(mut ground) = Ground::new(subject, before)? else { return Ok(Attempt::WithoutSpace) };
    match trial {
        Trial::Measure => {}
        Trial::Listen(tap) => ground.region.attach(Arc::clone(tap)),
        Trial::Fail(failure, _) => ground.region.inject(failure.fault()),
    }
    let answer = match stage {
        Stage::Operation => ground.run(last),
        Stage::Idle => {
            sim::sleep(IDLE);
            Answer { reply: Ok(Reply::Done), expected: Ok(Reply::Done), mount_failed: false }
        }
    };
    let struck = ground.region.clear_faults() > 0;
    match trial {
        Trial::Listen(tap) => ground.region.detach(tap),
        Trial::Fail(failure, free) if struck => {
            return ground.came(last, *failure, &answer, *free).map(Attempt::Struck);
        }
        Trial::Fail(..) => return Ok(Attempt::Untouched),
        Trial::Measure => {}
    }
    if answer.reply == Err(Errno::ENOSPC) {
        return Ok(Attempt::WithoutSpace);
    }
    same_answer(last, &answer.reply, &answer.expected)?;
    ground.end(None).map(Attempt::Passed)
}

impl Ground<'_> {
    /// Judges a failure: the answer, the tree, and whether the file system can still be used.
    fn came(&mut self, op: &Op, failure: Failure, answer: &Answer, free: Free) -> Result<Outcome, String> {
        if answer.mount_failed {
            self.mount().map_err(|what| format!("after a mount that failed: {what}"))?;
        }
        let failed = answer.reply != answer.expected;
        if failed {
            check_errno(op, failure, answer)?;
        }
        let syncs = (self.fs().sync(), self.fs().sync());
        if let (_, Err(errno)) = syncs {
            self.check_stopped(errno, failed)?;
            // What it shows now may be older than the operation, with directories of fewer blocks; none may be lost.
            let left = self.end(None)?;
            if free.iter().all(|free| left < *free) {
                return Err(other_space(left, free));
            }
            return Ok(Outcome::Stopped);
        }
        let seen = observe(self.fs())?;
        let outcome = self.outcome(op, &seen, failed, (answer, syncs.0.is_err()))?;
        self.end(Some(free)).map_err(|what| format!("{} ({outcome:?}), then {what}", said(answer)))?;
        Ok(outcome)
    }

    /// Judges a tree that is there after the operation has answered.
    fn outcome(
        &self,
        op: &Op,
        seen: &Tree,
        failed: bool,
        (answer, lost): (&Answer, bool),
    ) -> Result<Outcome, String> {
        let exact = |tree: &Tree| difference(seen, tree);
        let trees = &self.states.trees;
        let after = &trees[trees.len() - 1];
        let before = trees.iter().rev().nth(1).unwrap_or(after);
        if failed {
            let said = said(answer);
            self.judge(seen).map_err(|what| format!("{said}, but {what}"))?;
            let undone = exact(before).is_none();
            return Ok(match () {
                () if answer.mount_failed => Outcome::MountedLater,
                () if undone => Outcome::Undone,
                () => Outcome::Partly,
            });
        }
        if lost {
            self.judge_after(seen).map_err(|what| format!("a sync has failed, and {what}"))?;
            return Ok(Outcome::Reported);
        }
        exact(after).map_or(Ok(()), |what| Err(format!("{}, but {what}", said(answer))))?;
        let cut = |bytes: usize| matches!(op, Op::Write(_, _, pattern) if bytes < pattern.len);
        match answer.reply {
            Ok(Reply::Written(bytes)) if cut(bytes) => Ok(Outcome::Short),
            _ => Ok(Outcome::Absorbed),
        }
    }

    /// A design that has stopped refuses every change, and still shows the files that the operation did not touch. The next mount
    /// shows an allowed tree.
    fn check_stopped(&mut self, errno: Errno, failed: bool) -> Result<(), String> {
        let refused = |what: &str, answer: Result<(), Errno>| match answer {
            Err(Errno::EIO | Errno::EROFS) => Ok(()),
            Err(errno) => Err(format!("it has stopped, and {what} answers {}", errno.name())),
            Ok(()) => Err(format!("two syncs have failed, but {what} succeeds")),
        };
        let fs = self.fs();
        refused("sync", Err(errno))?;
        refused("create", fs.create(fs.root(), b"stopped?", &NEW).map(drop))?;
        let trees = &self.states.trees;
        let (after, before) = (&trees[trees.len() - 1], trees.iter().rev().nth(1).unwrap_or(&trees[0]));
        for (path, entry) in before.iter().filter(|(path, entry)| after.get(*path) == Some(entry)) {
            if entry.kind != FileKind::Regular {
                continue;
            }
            let ino =
                self.runner.find(path).map_err(|errno| format!("stopped: \"{path}\": {}", errno.name()))?;
            refused("write", fs.write(ino, 0, &[1], IoFlags::empty()).map(drop))?;
            refused("fsync", fs.fsync(ino, false))?;
            let mut bytes = vec![0; entry.content.len() + 1];
            let read = fs
                .read(ino, 0, &mut bytes, IoFlags::empty())
                .map_err(|errno| format!("stopped: \"{path}\" cannot be read: {}", errno.name()))?;
            if self.states.is_durable(path, trees.len() - 2) && bytes[..read] != entry.content[..] {
                return Err(format!("stopped: \"{path}\" shows other bytes"));
            }
        }
        self.close_all();
        let unmounted = self.fs().unmount();
        if !matches!(unmounted, Err(Errno::EIO | Errno::EROFS)) {
            return Err(format!("it has stopped, and unmount answers {unmounted:?}"));
        }
        self.mount().map_err(|what| format!("stopped: {what}"))?;
        let seen = observe(self.fs()).map_err(|what| format!("stopped, mounted again: {what}"))?;
        let judged = if failed { self.judge(&seen) } else { self.judge_after(&seen) };
        judged.map_err(|what| format!("stopped, mounted again: {what}"))
    }

    /// Unmounts, checks, mounts, then uses and removes everything; the tree must stay the same. `free` is given after a failure,
    /// when everything was synced. Returns how many blocks are free at the end.
    fn end(&mut self, free: Option<Free>) -> Result<u64, String> {
        self.close_all();
        let seen = observe(self.fs())?;
        let space = self.space()?;
        unmount(self.fs())?;
        fsck(&self.subject.design, &self.region)?;
        self.mount()?;
        let again = observe(self.fs()).map_err(|what| format!("after a remount: {what}"))?;
        difference(&again, &seen).map_or(Ok(()), |what| Err(format!("after a remount: {what}")))?;
        let found = self.space()?;
        // A delayed write that was not synced has reserved the most that it may need: unmount gives the rest back.
        let synced = free.is_some();
        if found.1 != space.1 || found.0 < space.0 || synced && found.0 != space.0 {
            return Err(format!("{space:?} blocks free and inodes used, {found:?} after a remount"));
        }
        let left = use_everything(self.fs(), &seen)?;
        unmount(self.fs())?;
        fsck(&self.subject.design, &self.region)?;
        match free {
            Some(free) if !free.contains(&left) => Err(other_space(left, free)),
            _ => Ok(left),
        }
    }
}

fn other_space(left: u64, free: Free) -> String {
    format!("{left} blocks are free when all is removed, {free:?} without a failure")
}

/// Whether an errno names what has failed.
fn check_errno(op: &Op, failure: Failure, answer: &Answer) -> Result<(), String> {
    match &answer.reply {
        Err(Errno::ENOSPC) if failure.kind.is_space() => Ok(()),
        Err(Errno::EIO) if !failure.kind.is_space() => Ok(()),
        _ => same_answer(op, &answer.reply, &answer.expected),
    }
}

fn said(answer: &Answer) -> String {
    format!("it answered {}", in_short(&answer.reply))
}
