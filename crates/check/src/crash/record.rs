//! Records a program.

use std::sync::Arc;

use media::event::{Mark, Promise};
use media::nvmm::Region;
use media::recorder::Trace;
use sim::{Nanos, PAGE_BYTES};
use vfs::{Errno, FileSystem, IoFlags, Promises};

use super::Subject;
use super::history::History;
use super::programs::Program;
use crate::configured::{self, unmount};
use crate::lockstep::same_answer;
use crate::model::Model;
use crate::op::{NEW, Op, Reply, Runner};
use crate::tree::Tree;

/// A program after its run: the trace, and the model's states.
pub(crate) struct Recording {
    pub(crate) trace: Arc<Trace>,
    pub(crate) states: States,
}

/// What the model says before the first and after each operation of a program.
pub(crate) struct States {
    pub(crate) trees: Vec<Tree>,
    /// By operation: size of its file before and after.
    pub(crate) sizes: Vec<(u64, u64)>,
    /// Earlier contents of its files; empty where nothing is buffered.
    history: Option<History>,
}

impl States {
    /// Nothing was done yet, or nothing that is not durable.
    pub(crate) fn new(promises: Promises, model: &Model) -> Self {
        let trees = vec![model.tree()];
        let mut history = promises.buffers_data().then(|| History::of(promises));
        if let Some(history) = &mut history {
            history.push(model, None);
        }
        Self { trees, sizes: Vec::new(), history }
    }

    /// Adds an operation, which has succeeded or not and has led from one model to another.
    pub(crate) fn push(&mut self, (op, succeeded): (&Op, bool), before: &Model, after: &Model) {
        let size_of = |model: &Model| match op {
            Op::Write(file, ..) => model.size(file).unwrap_or(0),
            _ => 0,
        };
        self.sizes.push((size_of(before), size_of(after)));
        self.trees.push(after.tree());
        if let Some(history) = &mut self.history {
            history.push(after, Some((op, before.subject(op).filter(|_| succeeded))));
        }
    }

    /// Whether what a version shows of a file is durable.
    pub(crate) fn is_durable(&self, path: &str, version: usize) -> bool {
        self.history.as_ref().is_none_or(|history| history.is_durable(path, version))
    }

    pub(crate) fn history(&self) -> &History {
        self.history.as_ref().expect("it is kept where data is buffered")
    }
}

/// What free blocks hold: no program writes it often.
const GARBAGE: u8 = 0xEE;
/// How long the design rests after a program, so that write-back runs.
pub(crate) const IDLE: Nanos = Nanos::from_secs(60);

/// Runs a program on a fresh image and records its core; `prepare` sees the region just before. None: the region is too small for
/// the program.
pub(crate) fn record(
    subject: &Subject,
    program: &Program,
    prepare: &dyn Fn(&Region),
) -> Result<Option<Recording>, String> {
    let (design, region) = (&subject.design, configured::region(subject.size));
    design.mkfs(&region).map_err(|error| format!("mkfs: {error}"))?;
    let mount = || design.mount(&region).map_err(|error| format!("mount: {error}"));
    let mut runner = Runner::new(mount()?);
    fill_free_blocks(&*runner.fs)?;
    let mut model = Model::of(&*runner.fs, subject.promises)?;
    for op in &program.setup {
        let Some(_) = agree(&mut runner, &mut model, op).map_err(|what| format!("setup: {what}"))? else {
            return Ok(None);
        };
    }
    runner.fs.sync().map_err(|errno| format!("sync: {}", errno.name()))?;
    let trace = Trace::attach(&region).map_err(|error| error.to_string())?;
    prepare(&region);
    let mut states = States::new(subject.promises, &model);
    if let (Some(history), true) = (&mut states.history, program.stores()) {
        let own = subject.design.promises();
        match (own.msync_is_atomic, own.buffers_data()) {
            (true, false) => history.know_synced(&model),
            // Of a word that was written and stored to, a crash may leave the bytes that were written.
            (true, true) => {}
            (false, _) => history.judge_by_words(),
        }
    }
    for op in &program.core {
        let (before, mut succeeded) = (model.clone(), true);
        region.mark(Mark::OpBegin(op.name()));
        if matches!(op, Op::Remount) {
            runner.close_all();
            model.close_all();
            unmount(&*runner.fs)?;
            runner = Runner::new(mount()?);
        } else {
            let Some(done) = agree(&mut runner, &mut model, op)? else { return Ok(None) };
            succeeded = done;
        }
        states.push((op, succeeded), &before, &model);
        let promise = if subject.promises.buffers_data() { Promise::Nothing } else { Promise::All };
        region.mark(Mark::OpEnd(op.name(), promise));
    }
    if subject.promises.buffers_data() {
        sim::sleep(IDLE);
    }
    region.detach(&trace);
    Ok(Some(Recording { trace, states }))
}

/// Fills every free block with garbage and frees it again, so that bytes which a program never wrote are recognised.
pub(crate) fn fill_free_blocks(fs: &dyn FileSystem) -> Result<(), String> {
    let filled = || {
        let ino = fs.create(fs.root(), b"garbage", &NEW)?.ino;
        let piece = vec![GARBAGE; 16 * PAGE_BYTES];
        let mut at = 0;
        while let Ok(written) = fs.write(ino, at, &piece, IoFlags::SYNC) {
            at += written.bytes as u64;
        }
        fs.unlink(fs.root(), b"garbage")?;
        fs.sync()
    };
    filled().map_err(|errno: Errno| format!("filling the free blocks: {}", errno.name()))
}

/// Runs one operation on both, which must answer alike; otherwise the model could not tell what a crash may leave. Returns
/// whether it succeeded; none: the design had no space for it.
pub(crate) fn agree(runner: &mut Runner, model: &mut Model, op: &Op) -> Result<Option<bool>, String> {
    let (done, expected) = (runner.run(op), model.run(op, None));
    let cut = |done: usize| matches!(expected, Ok(Reply::Written(all)) if done < all);
    match done {
        Err(Errno::ENOSPC) => Ok(None),
        Ok(Reply::Written(bytes)) if cut(bytes) => Ok(None),
        _ => same_answer(op, &done, &expected).map(|()| Some(done.is_ok())),
    }
}
