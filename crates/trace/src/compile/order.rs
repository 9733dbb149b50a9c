//! Which steps a step waits for.
//!
//! Each resource knows the step that has changed it last, and of each thread the last step that has read it since. A thread knows
//! which steps of others have ended when its next one begins: those that it has waited for, and those that they have waited for.
//! Such a clock has at most [`CLOCK`] entries, and of each thread the last [`KEPT`] are kept: to forget one is safe, because only
//! waits that are known to be implied are left out.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::record::Fork;
use crate::state::{Binding, Effect, Use};

/// A step to wait for: its thread, and its number among that thread's steps, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// The thread.
    pub thread: u32,
    /// The step.
    pub step: u32,
}

/// Entries of a clock.
const CLOCK: usize = 64;
/// Clocks of a thread.
const KEPT: usize = 16;
/// More waits of one step than so many are not compared with each other.
const COMPARED: usize = 16;

/// Of each thread, the last step that is known to have ended; sorted by thread.
#[derive(Clone, Debug, Default)]
struct Clock(Vec<Wait>);

impl Clock {
    fn covers(&self, wait: Wait) -> bool {
        let at = self.0.binary_search_by_key(&wait.thread, |known| known.thread);
        at.is_ok_and(|at| self.0[at].step >= wait.step)
    }

    fn learn(&mut self, wait: Wait) {
        match self.0.binary_search_by_key(&wait.thread, |known| known.thread) {
            Ok(at) => self.0[at].step = self.0[at].step.max(wait.step),
            Err(at) => {
                self.0.insert(at, wait);
                if self.0.len() > CLOCK {
                    // Threads that began long ago are the likeliest to have ended.
                    self.0.remove(0);
                }
            }
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|wait| self.learn(*wait));
    }
}

/// A thread's steps and clocks.
#[derive(Debug, Default)]
struct Line {
    steps: u32,
    clock: Clock,
    /// The clock from a step on.
    past: VecDeque<(u32, Clock)>,
    /// What its next step waits for besides.
    pending: Vec<Wait>,
}

/// What has used a resource since the last change, and that change.
#[derive(Debug, Default)]
struct Access {
    last: Option<Wait>,
    /// Sorted by thread.
    readers: Vec<Wait>,
}

impl Access {
    fn used(&mut self, how: Use, me: Wait, waits: &mut Vec<Wait>) {
        waits.extend(self.last.filter(|last| last.thread != me.thread));
        match how {
            Use::Reads => match self.readers.binary_search_by_key(&me.thread, |reader| reader.thread) {
                Ok(at) => self.readers[at] = me,
                Err(at) => self.readers.insert(at, me),
            },
            Use::Changes => {
                waits.extend(self.readers.iter().filter(|reader| reader.thread != me.thread));
                self.readers = Vec::new();
                self.last = Some(me);
            }
        }
    }
}

/// The handles of a step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handles {
    pub(super) used: [Option<u32>; 2],
    pub(super) opened: Option<u32>,
    pub(super) closed: Option<u32>,
}

/// All resources and threads.
#[derive(Debug, Default)]
pub(super) struct Order {
    lines: FxHashMap<u32, Line>,
    objects: FxHashMap<u32, Access>,
    names: FxHashMap<Binding, Access>,
    files: FxHashMap<u32, Access>,
    handles: FxHashMap<u32, Access>,
    /// The last step of threads that have ended.
    ended: FxHashMap<u32, Wait>,
    /// Children whose parents wait for their exec.
    vforks: FxHashSet<u32>,
}

impl Order {
    pub(super) fn thread(&mut self, thread: u32) {
        self.lines.entry(thread).or_default();
    }

    fn last_of(&self, thread: u32) -> Option<Wait> {
        let running = self.lines.get(&thread).filter(|line| line.steps > 0);
        let running = running.map(|line| Wait { thread, step: line.steps - 1 });
        running.or_else(|| self.ended.get(&thread).copied())
    }

    fn pending(&mut self, thread: u32, wait: Option<Wait>) {
        if let Some(line) = self.lines.get_mut(&thread) {
            line.pending.extend(wait);
        }
    }

    /// A child begins after what its parent has done so far.
    pub(super) fn fork(&mut self, fork: &Fork) {
        let wait = self.last_of(fork.parent);
        self.pending(fork.child, wait);
        if fork.shares.vfork {
            self.vforks.insert(fork.child);
        }
    }

    /// The call has returned: after a vfork, when the child had called exec or had ended.
    pub(super) fn forked(&mut self, parent: u32, child: u32) {
        if self.vforks.remove(&child) {
            let wait = self.last_of(child);
            self.pending(parent, wait);
        }
    }

    /// A parent has waited for a child's end.
    pub(super) fn joined(&mut self, parent: u32, child: u32) {
        let wait = self.last_of(child);
        self.pending(parent, wait);
    }

    pub(super) fn exit(&mut self, thread: u32) {
        if let Some(last) = self.last_of(thread) {
            self.ended.insert(thread, last);
        }
        // Its number is never used again; what it knew is not needed for order, and much in sum.
        self.lines.remove(&thread);
    }

    /// The next step of a thread: what it waits for.
    pub(super) fn step(&mut self, thread: u32, uses: Handles, effect: &Effect, waits: &mut Vec<Wait>) {
        waits.clear();
        let line = self.lines.entry(thread).or_default();
        let me = Wait { thread, step: line.steps };
        line.steps += 1;
        waits.append(&mut line.pending);
        for (object, how) in &effect.objects {
            self.objects.entry(*object).or_default().used(*how, me, waits);
        }
        for (name, how) in &effect.names {
            self.names.entry(*name).or_default().used(*how, me, waits);
        }
        for file in &effect.files {
            self.files.entry(*file).or_default().used(Use::Changes, me, waits);
        }
        for handle in uses.used.into_iter().flatten() {
            self.handles.entry(handle).or_default().used(Use::Reads, me, waits);
        }
        if let Some(handle) = uses.opened {
            self.handles.entry(handle).or_default().used(Use::Changes, me, waits);
        }
        if let Some(mut access) = uses.closed.and_then(|handle| self.handles.remove(&handle)) {
            access.used(Use::Changes, me, waits);
        }
        for file in &effect.gone {
            self.files.remove(file);
        }
        self.reduce(me, waits);
    }

    /// Leaves out what earlier waits imply, and learns from the others.
    fn reduce(&mut self, me: Wait, waits: &mut Vec<Wait>) {
        let Some(line) = self.lines.get(&me.thread) else { return };
        waits.retain(|wait| wait.thread != me.thread && !line.clock.covers(*wait));
        if waits.is_empty() {
            return;
        }
        // Of each thread the latest.
        waits.sort_unstable_by(|a, b| a.thread.cmp(&b.thread).then(b.step.cmp(&a.step)));
        waits.dedup_by_key(|wait| wait.thread);
        let clocks: Vec<Option<&Clock>> = waits.iter().map(|wait| self.clock_at(*wait)).collect();
        if waits.len() <= COMPARED {
            let implied = |at: usize| {
                let others = clocks.iter().enumerate().filter(|(other, _)| *other != at);
                others.filter_map(|(_, clock)| *clock).any(|clock| clock.covers(waits[at]))
            };
            let kept: Vec<Wait> = (0..waits.len()).filter(|at| !implied(*at)).map(|at| waits[at]).collect();
            let mut clock = line.clock.clone();
            clocks.iter().flatten().for_each(|other| clock.merge(other));
            *waits = kept;
            self.learn(me, clock, waits);
        } else {
            let clock = line.clock.clone();
            self.learn(me, clock, waits);
        }
    }

    fn learn(&mut self, me: Wait, mut clock: Clock, waits: &[Wait]) {
        for wait in waits {
            clock.learn(*wait);
        }
        let Some(line) = self.lines.get_mut(&me.thread) else { return };
        line.clock = clock.clone();
        line.past.push_back((me.step, clock));
        if line.past.len() > KEPT {
            line.past.pop_front();
        }
    }

    /// What a thread knew at a step, if that is still kept.
    fn clock_at(&self, wait: Wait) -> Option<&Clock> {
        let line = self.lines.get(&wait.thread)?;
        line.past.iter().rev().find(|(from, _)| *from <= wait.step).map(|(_, clock)| clock)
    }
}
