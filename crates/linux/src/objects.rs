//! The objects of a mount while they exist, and doing the steps of operations on them.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use media::block::BlockDevice;
use media::charges::BLOCK_REQUEST;
use parking_lot::Mutex as Guarded;
use rustc_hash::FxHashMap;
use sim::{Line, Mutex, MutexGuard, Nanos, PAGE_BYTES, Recency, RwLock, RwLockWriteGuard, Work};

use super::component::{History, Memory};
use super::device::Disk;
use super::places::Place;
use super::preset::{Kind, Object, Preset, Scope};
use super::steps::{Act, Step, Which};
use super::transactions::Joined;

/// Cores that count passes by themselves.
pub(super) const CORES: usize = 256;

/// An object that exists.
enum Instance {
    Line(Line),
    Lock(Mutex<()>),
    Rwsem(RwLock<()>),
}

impl Instance {
    fn of(object: &Object) -> Self {
        match object.kind {
            Kind::Line => Self::Line(Line::new(object.class)),
            Kind::Mutex | Kind::Spinlock | Kind::Thread => Self::Lock(Mutex::new(object.class, ())),
            Kind::Sleeplock => Self::Lock(Mutex::waking(object.class, ())),
            Kind::Rwsem => Self::Rwsem(RwLock::new(object.class, ())),
        }
    }
}

/// A page as steps see it.
#[derive(Debug)]
pub(super) struct PageShared {
    /// Its number, which no other page ever has.
    pub(super) id: u64,
    pub(super) recency: Recency,
}

/// What an operation is about.
#[derive(Debug, Default)]
pub(super) struct At {
    pub(super) ino: u64,
    /// The directory whose names it reads or changes.
    pub(super) dir: u64,
    pub(super) place: Place,
    pub(super) remembered: Memory,
    /// The pages that it reads or writes, with the bytes of each.
    pub(super) used: Vec<(Arc<PageShared>, u64)>,
    /// Whether these bytes come from the caller.
    pub(super) writes: bool,
    pub(super) new_pages: u64,
    pub(super) freed_pages: u64,
    pub(super) dirty_pages: u64,
    /// Its part in the running transaction.
    pub(super) joined: Joined,
}

/// How many lines move with a lock, by those that the preset counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touches {
    Half,
    Counted,
    Double,
}

impl Touches {
    /// The values of the option.
    pub(super) const WORDS: &'static [&'static str] = &["half", "counted", "double"];

    /// That of a word of these.
    pub(super) fn of(word: &str) -> Self {
        match word {
            "half" => Self::Half,
            "double" => Self::Double,
            _ => Self::Counted,
        }
    }

    /// Of one line, half is one.
    pub(super) fn scaled(self, lines: u64) -> u64 {
        match self {
            Self::Half => lines.div_ceil(2),
            Self::Counted => lines,
            Self::Double => lines * 2,
        }
    }
}

/// The objects of a mount.
pub(super) struct Objects {
    preset: &'static Preset,
    pub(super) touches: Touches,
    history: History,
    /// By the number of the object in the preset, and what has it.
    instances: Guarded<FxHashMap<(usize, u64), Arc<Instance>>>,
    /// Passes of each core through each step that counts them.
    passes: Box<[AtomicU32]>,
    /// Requests that the device has served.
    pub(super) served: AtomicU64,
    device: Option<Disk>,
}

impl Objects {
    /// `device`: the block device in whose place memory stands otherwise.
    pub(super) fn new(
        preset: &'static Preset,
        touches: Touches,
        device: Option<Arc<dyn BlockDevice>>,
    ) -> Self {
        Self {
            device: device.map(Disk::new),
            preset,
            touches,
            history: History::new(preset.tick),
            instances: Guarded::default(),
            passes: (0..CORES * preset.counters).map(|_| AtomicU32::new(0)).collect(),
            served: AtomicU64::new(0),
        }
    }

    /// Does the steps of an operation.
    pub(super) fn run(&self, steps: &[Step], at: &At) {
        let page = Cell::new(0);
        self.all(steps, at, &page);
    }

    fn all(&self, steps: &[Step], at: &At, page: &Cell<u64>) {
        for step in steps {
            if self.is_due(step) && step.when.is_none_or(|when| self.history.is(when, at)) {
                self.step(step, at, page);
            }
        }
    }

    /// Counts a pass of this core.
    fn is_due(&self, step: &Step) -> bool {
        if step.every == 1 {
            return true;
        }
        let core = usize::from(sim::core()) % CORES;
        let passes = &self.passes[core * self.preset.counters + step.counter];
        let passed = passes.load(Relaxed) + 1;
        passes.store(if passed == step.every { 0 } else { passed }, Relaxed);
        passed == step.every
    }

    fn step(&self, step: &Step, at: &At, page: &Cell<u64>) {
        match &step.act {
            Act::Add(object) => self.line(*object, at, page, Line::touch),
            Act::Exchange(object) => self.line(*object, at, page, Line::exchange),
            Act::Lock { object, touch } => {
                let inside = || self.all(&step.inner, at, page);
                self.locked(*object, self.key(*object, at, page), *touch, inside);
            }
            Act::Share(object) => {
                let instance = self.instance(*object, self.key(*object, at, page));
                let shared = match &*instance {
                    Instance::Rwsem(lock) => Some(lock.read()),
                    Instance::Line(_) | Instance::Lock(_) => None,
                };
                self.all(&step.inner, at, page);
                let Some(shared) = shared else { return };
                if let Instance::Rwsem(lock) = &*instance {
                    lock.touch(); // up_read writes the count, too
                }
                drop(shared);
            }
            Act::Part(part) => drop(sim::part(part)),
            Act::Serve { object, data } => self.serve(*object, *data),
            Act::Component(component) => self.history.act(*component, at, self),
            Act::Each(which) => self.each(*which, &step.inner, at, page),
            Act::Copy => copy(at),
            Act::Group => self.all(&step.inner, at, page),
        }
    }

    fn each(&self, which: Which, steps: &[Step], at: &At, page: &Cell<u64>) {
        let times = match which {
            Which::Used => {
                for (used, _) in &at.used {
                    page.set(used.id);
                    self.all(steps, at, page);
                }
                return;
            }
            Which::New => at.new_pages,
            Which::Freed => at.freed_pages,
            Which::Dirty => at.dirty_pages,
        };
        for _ in 0..times {
            self.all(steps, at, page);
        }
    }

    /// Which of its kind an object is here.
    fn key(&self, object: usize, at: &At, page: &Cell<u64>) -> u64 {
        match self.preset.objects[object].of {
            Scope::Mount => 0,
            Scope::Socket => u64::from(sim::socket()),
            Scope::Inode => at.ino,
            Scope::Directory => at.dir,
            Scope::Page => page.get(),
            Scope::Group => at.place.group,
            Scope::GroupLock => at.place.lock(),
            Scope::Descriptors => at.place.descriptors(),
            Scope::Table => at.place.table(),
            Scope::AllocationGroup => at.place.allocation_group,
        }
    }

    fn instance(&self, object: usize, key: u64) -> Arc<Instance> {
        let mut instances = self.instances.lock();
        let make = || Arc::new(Instance::of(&self.preset.objects[object]));
        Arc::clone(instances.entry((object, key)).or_insert_with(make))
    }

    fn line(&self, object: usize, at: &At, page: &Cell<u64>, update: impl FnOnce(&Line)) {
        let instance = self.instance(object, self.key(object, at, page));
        if let Instance::Line(line) = &*instance {
            update(line);
        }
    }

    fn locked(&self, object: usize, key: u64, touch: u64, inside: impl FnOnce()) {
        // What is free excludes no other task: the objects guard nothing of this process.
        if sim::takes_no_time(self.preset.objects[object].class) {
            return inside();
        }
        self.excluding(object, key, touch, inside);
    }

    /// The same where the object does guard something of this process: when it is free, it excludes at no cost.
    fn excluding(&self, object: usize, key: u64, touch: u64, inside: impl FnOnce()) {
        let touch = self.touches.scaled(touch);
        match &*self.instance(object, key) {
            Instance::Lock(lock) => {
                let guard = lock.lock();
                MutexGuard::touch(&guard, touch);
                inside();
                drop(guard);
            }
            Instance::Rwsem(lock) => {
                let guard = lock.write();
                RwLockWriteGuard::touch(&guard, touch);
                inside();
                drop(guard);
            }
            Instance::Line(_) => inside(),
        }
    }

    fn named(&self, name: &str) -> Option<usize> {
        self.preset.objects.iter().position(|object| object.name == name)
    }

    /// Does `inside` with the one object of this name, which excludes also when it is free.
    pub(super) fn holding(&self, name: &str, inside: impl FnOnce()) {
        self.alone(name, 0, inside);
    }

    /// The same; `touch` lines move with it. Of an object that sockets have it is the caller's.
    pub(super) fn alone(&self, name: &str, touch: u64, inside: impl FnOnce()) {
        match self.named(name) {
            Some(object) => {
                self.excluding(object, self.key(object, &At::default(), &Cell::new(0)), touch, inside);
            }
            None => inside(),
        }
    }

    /// A request of the log to the thread of this name.
    pub(super) fn serve_named(&self, name: &str, data: bool) {
        if let (Some(device), true) = (&self.device, data) {
            self.served.fetch_add(1, Relaxed);
            return device.write(&device.log);
        }
        if let Some(object) = self.named(name) {
            self.serve(object, data);
        }
    }

    /// A request to a thread, with a page of data or without: the caller wakes the thread, which serves one at a time: it takes the
    /// request, copies the page, and wakes the caller. A block device has no such thread: a page is written to it, or it is
    /// flushed.
    fn serve(&self, object: usize, data: bool) {
        self.served.fetch_add(1, Relaxed);
        if let Some(device) = &self.device {
            return if data { device.write(&device.data) } else { device.flush() };
        }
        sim::work(Work::WAKEUP, 1);
        let copied = if data { sim::copy_cost(PAGE_BYTES as u64) } else { Nanos::ZERO };
        self.locked(object, 0, 0, || {
            sim::work(BLOCK_REQUEST, 1);
            sim::compute_for(copied);
            sim::work(Work::WAKEUP, 1);
        });
        sim::work(Work::WAKEUP, 1);
    }

    /// An inode is gone, with its pages: nothing will ask for their objects again.
    pub(super) fn forget(&self, ino: u64, pages: &[u64]) {
        let mut instances = self.instances.lock();
        for (number, object) in self.preset.objects.iter().enumerate() {
            match object.of {
                Scope::Inode | Scope::Directory => drop(instances.remove(&(number, ino))),
                Scope::Page => pages.iter().for_each(|page| drop(instances.remove(&(number, *page)))),
                _ => {}
            }
        }
    }
}

/// Copies the bytes of a call between its pages and the caller's buffer.
fn copy(at: &At) {
    for (page, bytes) in &at.used {
        if at.writes {
            sim::copy_to(&page.recency, *bytes);
        } else {
            sim::copy_from(&page.recency, *bytes);
        }
    }
}
