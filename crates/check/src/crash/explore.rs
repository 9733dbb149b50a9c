//! All crash points of one program.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use media::event::{Event, Mark, Tap, TaskId};
use media::fault::Fault;
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{CrashPoint, Image, Point, ReadSet, Replay, Scratch, Trace};
use vfs::Durability;

use super::afterwards::use_everything;
use super::allowed::Allowed;
use super::programs::Program;
use super::record::record;
use super::recovery::crash_recovery;
use super::{Effort, Subject, Tally, Violation};
use crate::configured::{fsck, timed, unmount};
use crate::observe::observe;
use crate::tree::{Tree, difference, fingerprint, without_times};

/// Explores all crashes of a program, with `faults` injected while it runs. Call it in a run under the virtual clock.
pub fn explore(subject: &Subject, program: &Program, effort: &Effort, faults: &[Fault]) -> Tally {
    let subject = &subject.with_stores_of(program);
    let inject = |region: &Region| faults.iter().for_each(|fault| region.inject(*fault));
    let explore = || {
        record(subject, program, &inject).and_then(|recording| {
            let Some(recording) = recording else {
                return Ok(Tally { without_space: 1, ..Tally::default() });
            };
            let mut explorer = Explorer::new(subject, &program.name, effort, &recording.trace)?;
            explorer.measure_free()?;
            let (ops, states) = (&program.core[..], &recording.states);
            let (promises, done, inside) = (subject.promises, 0, false);
            explorer.visit_all(&mut Alone(Allowed { promises, ops, states, done, inside }));
            Ok(explorer.tally)
        })
    };
    let (explored, cpu) = timed(explore);
    Tally { cpu, ..explored.unwrap_or_else(|what| Tally::failed(&program.name, what)) }
}

/// How far the operations of a trace have come while it is replayed.
pub(super) trait Progress {
    /// An event is about to take effect.
    fn see(&mut self, task: TaskId, event: Event<'_>);

    /// What a crash may leave now: any of these.
    fn allowed(&self) -> Vec<Allowed<'_>>;
}

/// The progress of a program whose operations follow one another.
struct Alone<'a>(Allowed<'a>);

impl Progress for Alone<'_> {
    fn see(&mut self, _: TaskId, event: Event<'_>) {
        match event {
            Event::Mark(Mark::OpBegin(_)) => self.0.inside = true,
            Event::Mark(Mark::OpEnd(..)) => (self.0.done, self.0.inside) = (self.0.done + 1, false),
            _ => {}
        }
    }

    fn allowed(&self) -> Vec<Allowed<'_>> {
        vec![self.0]
    }
}

/// State of the exploration of one trace.
pub(super) struct Explorer<'a> {
    subject: &'a Subject,
    /// The name of the program.
    name: &'a str,
    effort: &'a Effort,
    trace: &'a Trace,
    scratch: Scratch,
    /// What recovery reads of the scratch region.
    reads: Arc<ReadSet>,
    second: Option<Scratch>,
    /// Whether recovery may read only what is guaranteed (lint L8).
    pub(super) lints_reads: bool,
    seen: HashSet<(u64, Vec<(usize, bool)>)>,
    states: BTreeSet<u64>,
    nested_left: usize,
    /// Before the first and after each operation: blocks that are free when everything is removed. A crash may leak none.
    /// Empty where it was not measured.
    free: Vec<u64>,
    pub(super) tally: Tally,
}

impl<'a> Explorer<'a> {
    pub(super) fn new(
        subject: &'a Subject,
        name: &'a str,
        effort: &'a Effort,
        trace: &'a Trace,
    ) -> Result<Self, String> {
        let scratch = Scratch::new(subject.size, Box::new(Null)).map_err(|error| error.to_string())?;
        let reads = Arc::new(ReadSet::new(subject.size.0));
        scratch.region().attach(Arc::clone(&reads) as Arc<dyn Tap>);
        Ok(Self {
            subject,
            name,
            effort,
            trace,
            scratch,
            reads,
            second: None,
            lints_reads: true,
            seen: HashSet::new(),
            states: BTreeSet::new(),
            nested_left: effort.nested,
            free: Vec::new(),
            tally: Tally { programs: 1, ..Tally::default() },
        })
    }

    /// Completes each operation, removes everything, and counts the free blocks.
    fn measure_free(&mut self) -> Result<(), String> {
        let mut replay = self.trace.replay(self.subject.mode);
        let mut ended = false;
        loop {
            let point = replay.state().crash_point();
            let image = point.image(&point.all());
            let design = Arc::clone(&self.subject.design);
            let fs = design.mount(self.load(&image)?)?;
            self.free.push(use_everything(&*fs, &observe(&*fs)?)?);
            unmount(&*fs)?;
            if ended {
                return Ok(());
            }
            // What an operation has changed may be durable only after the minute that follows the program.
            let mut next = || replay.next_point(|_, _| ());
            ended = loop {
                match next() {
                    None => break true,
                    Some(Point::OpEnd) => break false,
                    Some(_) => {}
                }
            };
            if ended && self.subject.promises.metadata == Durability::OnReturn {
                return Ok(());
            }
        }
    }

    fn load(&mut self, image: &Image) -> Result<&Arc<Region>, String> {
        self.scratch.load(image).map_err(|error| error.to_string())
    }

    pub(super) fn visit_all(&mut self, progress: &mut dyn Progress) {
        let mut replay = self.trace.replay(self.subject.mode);
        let mut point = Some(Point::OpEnd);
        while let Some(kind) = point {
            if kind != Point::AfterCommit || self.effort.after_commits {
                self.visit(&replay, &progress.allowed());
            }
            if self.tally.violations.len() >= self.effort.violations_max {
                return;
            }
            point = replay.next_point(|task, event| progress.see(task, event));
        }
        self.tally.distinct_states = self.states.len();
    }

    fn visit(&mut self, replay: &Replay, allowed: &[Allowed<'_>]) {
        let point = replay.state().crash_point();
        self.tally.points += 1;
        self.tally.combinations = self.tally.combinations.saturating_add(point.combinations());
        let moment: Vec<_> = allowed.iter().map(|one| (one.done, one.inside)).collect();
        for (number, choice) in point.choices(&self.effort.plan).iter().enumerate() {
            let image = point.image(choice);
            self.tally.images += 1;
            if !self.seen.insert((image.fingerprint(), moment.clone())) {
                continue;
            }
            self.tally.distinct_images += 1;
            if let Err(what) = self.check(&point, &image, allowed) {
                let lines = format!("{:?} of {} units", image.persisted_lines(), point.units().len());
                let done = allowed.iter().map(|one| one.done).max().unwrap_or(0);
                let place = format!("op {done}, event {}, choice {number}", replay.position());
                let program = self.name.to_owned();
                let what = format!("{place}: {what}; persisted: {lines}");
                self.tally.violations.push(Violation { program, what });
            }
            if self.tally.violations.len() >= self.effort.violations_max {
                return;
            }
        }
    }

    /// Recovers an image and judges it.
    fn check(&mut self, point: &CrashPoint, image: &Image, allowed: &[Allowed<'_>]) -> Result<(), String> {
        let region = Arc::clone(self.load(image)?);
        self.reads.clear();
        let design = &*self.subject.design;
        let mount = || design.mount(&region).map_err(|error| format!("mount: {error}"));
        let fs = mount()?;
        if self.lints_reads {
            let luck = self.reads.lints(point.unguaranteed(), None);
            luck.first().map_or(Ok(()), |lint| Err(lint.to_string()))?;
        }
        let tree = observe(&*fs)?;
        judge_any(allowed, &tree)?;
        let new_state = self.states.insert(fingerprint(&tree));
        unmount(&*fs)?;
        fsck(design, &region)?;
        let fs = mount()?;
        let again = difference(&observe(&*fs)?, &tree);
        again.map_or(Ok(()), |what| Err(format!("after a remount: {what}")))?;
        let free = use_everything(&*fs, &tree)?;
        self.check_free(free, allowed)?;
        unmount(&*fs)?;
        fsck(design, &region)?;
        if self.nested_left > 0 && (new_state || allowed.iter().any(|one| one.inside)) {
            self.nested_left -= 1;
            self.crash_recovery(image, &tree, allowed)?;
        }
        Ok(())
    }

    /// When everything was removed, as many blocks are free as without a crash, before or after the operation under way. (Fsck
    /// compares the map itself with what is reachable.)
    fn check_free(&self, free: u64, allowed: &[Allowed<'_>]) -> Result<(), String> {
        // What a repair puts into the root may make it larger.
        if self.free.is_empty() || self.subject.promises.repaired {
            return Ok(());
        }
        let without_crash = |one: &Allowed<'_>| {
            // A directory that has grown does not shrink, so what is free depends on how many operations were durable.
            if one.promises.metadata == Durability::OnSync {
                return self.free.clone();
            }
            let last = one.done + usize::from(one.inside);
            self.free.get(one.done..=last).unwrap_or(&self.free[one.done..]).to_vec()
        };
        let without_crash = allowed.iter().flat_map(without_crash).collect::<Vec<_>>();
        if without_crash.contains(&free) {
            return Ok(());
        }
        Err(format!("{free} blocks are free when all is removed, {without_crash:?} without a crash"))
    }

    /// Crashes the recovery of an image: recovering again must lead to the same tree, or where recovery is a repair to one that is
    /// allowed.
    fn crash_recovery(
        &mut self,
        image: &Image,
        expected: &Tree,
        allowed: &[Allowed<'_>],
    ) -> Result<(), String> {
        let (design, size, mode) = (&*self.subject.design, self.subject.size, self.subject.mode);
        // Each recovery finishes truncations at a time of its own.
        let expected = without_times(expected.clone());
        let repaired = self.subject.promises.repaired;
        let second = self.second.get_or_insert_with(|| Scratch::new(size, Box::new(Null)).expect("memory"));
        let images = crash_recovery((design, mode), &mut self.scratch, image, &mut |image| {
            let region = Arc::clone(second.load(image).map_err(|error| error.to_string())?);
            let fs = design.mount(&region).map_err(|error| format!("mount: {error}"))?;
            let seen = observe(&*fs)?;
            unmount(&*fs)?;
            // A repair that is interrupted may find other things wrong than one that is not.
            if repaired {
                judge_any(allowed, &seen)?;
            } else {
                difference(&seen, &expected).map_or(Ok(()), Err)?;
            }
            fsck(design, &region)
        })?;
        self.tally.nested_images += images;
        Ok(())
    }
}

/// Whether a tree is what one of these allows.
fn judge_any(allowed: &[Allowed<'_>], tree: &Tree) -> Result<(), String> {
    if allowed.is_empty() {
        return Err("the answers come in no order of the calls that have begun".to_owned());
    }
    let mut wrong = Vec::new();
    for one in allowed {
        match one.judge(tree) {
            Ok(()) => return Ok(()),
            Err(what) => wrong.push(what),
        }
    }
    Err(wrong.join("; or "))
}
