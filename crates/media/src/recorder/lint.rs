//! What is wrong without any crash (`docs/models/crash.md`).
//!
//! | rule | is broken when |
//! |---|---|
//! | L1 unflushed at return | a synchronous call returns and a line that it stored to is not flushed |
//! | L2 unfenced at return | … is flushed or stored past the cache, but not fenced |
//! | L3 commit order | at a commit store, something that it makes reachable is not guaranteed |
//! | L4 redundant flush | a flush of lines none of which had anything new |
//! | L5 empty fence | a fence with nothing to order |
//! | L6 torn commit | a commit store that is not one aligned word or pair, and has no checksum |
//! | L7 free before commit | bytes are freed while the pointer to them may still be what a crash leaves |
//! | L8 read of luck | recovery reads bytes that the crash did not guarantee ([`super::ReadSet`]) |
//!
//! L1 and L2 look at what the returning task itself stored; what others have under way is theirs to finish.

use std::collections::BTreeMap;

use sim::ByteRun;

use super::snapshot::LINE;
use super::state::Persistency;
use crate::event::{Event, Mark, Promise, StoreKind, TaskId};

/// A rule; the numbers are those of the table above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// L1.
    UnflushedAtReturn,
    /// L2.
    UnfencedAtReturn,
    /// L3.
    CommitOrder,
    /// L4.
    RedundantFlush,
    /// L5.
    EmptyFence,
    /// L6.
    TornCommit,
    /// L7.
    FreeBeforeCommit,
    /// L8.
    ReadOfLuck,
}

impl Rule {
    /// Its number and words.
    pub fn name(self) -> &'static str {
        match self {
            Self::UnflushedAtReturn => "L1 unflushed at return",
            Self::UnfencedAtReturn => "L2 unfenced at return",
            Self::CommitOrder => "L3 commit order",
            Self::RedundantFlush => "L4 redundant flush",
            Self::EmptyFence => "L5 empty fence",
            Self::TornCommit => "L6 torn commit",
            Self::FreeBeforeCommit => "L7 free before commit",
            Self::ReadOfLuck => "L8 read of unguaranteed bytes",
        }
    }

    /// Whether it costs only time.
    pub fn is_performance(self) -> bool {
        matches!(self, Self::RedundantFlush | Self::EmptyFence)
    }
}

/// What kind of bytes a structure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Class {
    /// The format's own.
    #[default]
    Metadata,
    /// Of files.
    Data,
}

/// What lies at an offset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Structure {
    /// As in "inode 7" or "journal 0".
    pub name: String,
    /// What kind of bytes.
    pub class: Class,
}

/// Names what lies at an offset of the format under test. Without one, everything is nameless metadata.
pub type Describe = Box<dyn Fn(u64) -> Structure + Send + Sync>;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lint {
    /// Which.
    pub rule: Rule,
    /// The call that was under way, or "".
    pub op: &'static str,
    /// The task at its first occurrence.
    pub task: TaskId,
    /// First byte at its first occurrence.
    pub offset: u64,
    /// Length there.
    pub len: u64,
    /// What lies there.
    pub structure: String,
    /// How often the same rule was broken by the same call in the same structure.
    pub count: u64,
}

impl std::fmt::Display for Lint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let op = if self.op.is_empty() { "outside any call" } else { self.op };
        write!(f, "{}: {op}, bytes {}..{}+{}", self.rule.name(), self.offset, self.offset, self.len)?;
        if !self.structure.is_empty() {
            write!(f, " ({})", self.structure)?;
        }
        write!(f, ", {} times", self.count)
    }
}

/// What a kind of call cost: the efficiency of a design.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpCounts {
    /// Calls that returned.
    pub calls: u64,
    /// Fences.
    pub fences: u64,
    /// Lines flushed or stored past the cache.
    pub lines: u64,
    /// Fences with nothing to order.
    pub empty_fences: u64,
    /// Flushed lines that had nothing new.
    pub redundant_lines: u64,
}

/// Checks each event against the state before it.
pub(super) struct Linter {
    describe: Option<Describe>,
    lints: Vec<Lint>,
    /// The call that each task is in.
    ops: BTreeMap<TaskId, &'static str>,
    counts: BTreeMap<&'static str, OpCounts>,
}

impl Linter {
    pub(super) fn new(describe: Option<Describe>) -> Self {
        Self { describe, lints: Vec::new(), ops: BTreeMap::new(), counts: BTreeMap::new() }
    }

    pub(super) fn lints(&self) -> Vec<Lint> {
        self.lints.clone()
    }

    pub(super) fn op_counts(&self) -> Vec<(&'static str, OpCounts)> {
        self.counts.iter().map(|(op, counts)| (*op, *counts)).collect()
    }

    pub(super) fn check(&mut self, state: &Persistency, task: TaskId, event: Event<'_>) {
        match event {
            Event::Store { off, data, kind } => {
                self.check_store(state, task, off, data.len() as u64, kind != StoreKind::Bytes);
            }
            Event::NtStore { off, data } => {
                self.counts(task).lines += super::trace::lines_of(off, data.len() as u64);
                self.check_store(state, task, off, data.len() as u64, data.len() == 8);
            }
            Event::Flush { off, len } => self.check_flush(state, task, off, len),
            Event::Fence => self.check_fence(state, task),
            Event::Mark(mark) => self.check_mark(state, task, mark),
            Event::Load { .. } | Event::Block(_) => {}
        }
    }

    fn check_store(&mut self, state: &Persistency, task: TaskId, off: u64, len: u64, one_piece: bool) {
        let commit = state.announced_commit(task);
        if commit.is_some_and(|at| super::state::overlaps(at, 8, off, len)) && !one_piece {
            self.report(Rule::TornCommit, task, off, len);
        }
    }

    fn check_flush(&mut self, state: &Persistency, task: TaskId, off: u64, len: u64) {
        let numbers = off / LINE..(off + len).div_ceil(LINE);
        let total = numbers.end - numbers.start;
        let useful = state.lines.range(numbers).filter(|(_, line)| {
            let newest = line.newest_cached();
            newest.is_some() && line.flushed_by(task) < newest
        });
        let useful = useful.count() as u64;
        let counts = self.counts(task);
        counts.lines += total;
        counts.redundant_lines += total - useful;
        if useful == 0 {
            self.report(Rule::RedundantFlush, task, off, len);
        }
    }

    fn check_fence(&mut self, state: &Persistency, task: TaskId) {
        let empty = !state.has_pending(task);
        let counts = self.counts(task);
        counts.fences += 1;
        counts.empty_fences += u64::from(empty);
        if empty {
            self.report(Rule::EmptyFence, task, 0, 0);
        }
    }

    fn check_mark(&mut self, state: &Persistency, task: TaskId, mark: Mark<'_>) {
        match mark {
            Mark::OpBegin(op) => {
                self.ops.insert(task, op);
            }
            Mark::OpEnd(op, promise) => {
                self.ops.insert(task, op);
                self.counts(task).calls += 1;
                self.check_return(state, task, promise);
                self.ops.remove(&task);
            }
            Mark::Commit { at, needs } | Mark::CommitBlock { at, needs } => {
                let late = |run: &&ByteRun| !state.is_ready_for_commit(at, run.at, run.len);
                for run in needs.iter().filter(late) {
                    self.report(Rule::CommitOrder, task, run.at, run.len);
                }
            }
            Mark::Free { off, len, pointer } => {
                if !state.is_guaranteed(pointer, 8) {
                    self.report(Rule::FreeBeforeCommit, task, off, len);
                }
            }
            Mark::RecoveryBegin | Mark::RecoveryEnd => {}
        }
    }

    fn check_return(&mut self, state: &Persistency, task: TaskId, promise: Promise) {
        if promise == Promise::Nothing {
            return;
        }
        for (number, line) in &state.lines {
            let flushed = line.flushed();
            let mut own = line.entries.iter().filter(|entry| entry.task == task).peekable();
            let off = number * LINE;
            if own.peek().is_none()
                || promise == Promise::Metadata && self.structure(off).class == Class::Data
            {
                continue;
            }
            let unflushed = own.any(|entry| entry.run.is_none() && Some(entry.seq) > flushed);
            let rule = if unflushed { Rule::UnflushedAtReturn } else { Rule::UnfencedAtReturn };
            self.report(rule, task, off, LINE);
        }
    }

    fn counts(&mut self, task: TaskId) -> &mut OpCounts {
        let op = self.ops.get(&task).copied().unwrap_or("");
        self.counts.entry(op).or_default()
    }

    fn structure(&self, off: u64) -> Structure {
        self.describe.as_ref().map_or_else(Structure::default, |describe| describe(off))
    }

    fn report(&mut self, rule: Rule, task: TaskId, offset: u64, len: u64) {
        let op = self.ops.get(&task).copied().unwrap_or("");
        let structure = self.structure(offset).name;
        let same = |lint: &&mut Lint| lint.rule == rule && lint.op == op && lint.structure == structure;
        match self.lints.iter_mut().find(same) {
            Some(lint) => lint.count += 1,
            None => self.lints.push(Lint { rule, op, task, offset, len, structure, count: 1 }),
        }
    }
}
