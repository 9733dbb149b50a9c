//! Image fuzzing: on any image, no call panics or hangs, and fsck and mount agree.
//!
//! | module | holds |
//! |---|---|
//! | `corpus` | images to begin with: what random programs leave, unmounted and crashed |
//! | `mutate` | [`Mutant`]: an image with edits; how edits are made |
//! | `examine` | what is done with an image, and what must hold |
//! | `look` `watch` | reads all files within a bound; the tap that records reads and stops endless loops |
//! | `shrink` | a failing mutant with the fewest edits |
//!
//! # Guidance
//!
//! A mutant joins the corpus when it shows something new: a line that its phase has not read before (fsck, dump, recover, mount,
//! look, use, unmount), about twice as many lines, or a new message (violations and errors, without numbers). This is
//! *structural* coverage of the format. It is not edge coverage of the code, which needs the compiler, and does not see which
//! branch the code took on the bytes that it read.
//!
//! # What must hold
//!
//! * No task panics. The virtual clock turns a panic into an error, also in a background task.
//! * Every call ends: each line of an image may be touched two hundred times on average. A loop that does not touch the image is
//!   found only if it lets time pass.
//! * Memory is bounded: the peak of the whole process (`VmHWM`) may not grow by more than 64 MiB over one image. With several
//!   threads it is not certain which image is the cause.
//! * No access outside of the region: every access of a design goes through [`Region`](media::Region), which refuses a range that
//!   is not wholly inside before any byte is touched, and gives the design an error. That check is the bounds check of the
//!   designs, so a refused access is no failure by itself; the answer of the design is judged like any other.
//! * A mount that is refused may have done steps of recovery, such as replaying the journal. Fsck must report the image that it
//!   leaves, a second mount must be refused, and a third must change nothing.
//! * If fsck finds nothing, recovery and mount succeed, no call answers `EIO` or `EUCLEAN`, and fsck finds nothing after use.

mod corpus;
mod examine;
mod look;
mod mutate;
mod shrink;
mod watch;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rand::RngExt;
use rustix::time::ClockId;
use sim::{Bytes, Seed};

use crate::configured::{Configured, cpu_time};
use crate::limits::Limits;
use examine::{Examined, Fate, examine};
use mutate::{EDITS_MAX, Mutator};
pub use mutate::{Edit, Mutant};

/// Images to begin with.
const IMAGES: usize = 16;
/// What the region has beside what the format needs.
const SPARE: Bytes = Bytes::kib(128);
/// Mutants of the corpus beside the images; when there are more, the oldest go.
const KEPT_MAX: usize = 4_000;
/// How much one image may raise the peak memory of the process.
const MEMORY_MAX: Bytes = Bytes::mib(64);

/// How much to try.
#[derive(Clone, Debug)]
pub struct Effort {
    /// Where randomness starts. With one thread the same seed gives the same mutants.
    pub seed: u64,
    /// Mutants, by number. Each is made of what those before it in this range have shown, so ranges find other ones than a whole.
    pub mutants: Range<u64>,
    /// How far.
    pub limits: Limits,
}

/// What was done and found.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Mutants examined.
    pub mutants: u64,
    /// Those that could not be mounted.
    pub refused: u64,
    /// Those that were mounted although fsck reports violations.
    pub damaged: u64,
    /// Those in which fsck finds nothing.
    pub sound: u64,
    /// Mutants that showed something new.
    pub kept: u64,
    /// Different things that were seen: lines in phases, words.
    pub features: u64,
    /// Most lines that one image caused to be touched.
    pub touched: u64,
    /// By how much the peak memory of the process grew.
    pub memory: Bytes,
    /// Time of the processor, on all threads together.
    pub cpu: Duration,
    /// What was wrong; the first of each kind.
    pub failures: Vec<Failure>,
}

impl Tally {
    /// Mutants examined in a second of one core.
    pub fn mutants_per_core_second(&self) -> f64 {
        let seconds = self.cpu.as_secs_f64();
        if seconds > 0.0 { self.mutants as f64 / seconds } else { 0.0 }
    }
}

/// An image with which something went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// With the fewest edits that were found.
    pub mutant: Mutant,
    /// What is wrong.
    pub what: String,
}

/// A design and the images of a seed.
#[derive(Debug)]
pub struct Fuzzer {
    design: Arc<Configured>,
    images: Vec<Vec<u8>>,
    seed: u64,
}

/// What is wrong with an image after the edits of a mutant, if anything.
pub fn try_image(design: &Arc<Configured>, image: &[u8], mutant: &Mutant) -> Result<(), String> {
    let inos = examine(design, image.to_vec(), &[]).map(|examined| examined.inos).unwrap_or_default();
    examine(design, mutant.apply(image), &inos).map(drop)
}

/// What grows while mutants are tried.
struct Corpus {
    entries: Vec<Entry>,
    features: BTreeSet<u64>,
    /// Failures by what is said, numbers left out.
    kinds: BTreeSet<String>,
    tally: Tally,
}

/// A mutant to start from.
#[derive(Clone)]
struct Entry {
    mutant: Mutant,
    lines: Arc<Vec<usize>>,
    inos: Arc<Vec<u64>>,
}

impl Fuzzer {
    /// Makes the images of a seed.
    pub fn new(design: &Arc<Configured>, seed: u64) -> Result<Self, String> {
        let size = Bytes((design.min_size().0 + SPARE.0).next_multiple_of(4096));
        let images = (0..IMAGES).map(|number| corpus::image(design, size, (seed, number)));
        Ok(Self { design: Arc::clone(design), images: images.collect::<Result<_, _>>()?, seed })
    }

    /// What goes wrong with one mutant, if anything.
    pub fn try_one(&self, mutant: &Mutant) -> Result<(), String> {
        let image = self.images.get(mutant.base).ok_or_else(|| format!("there are {IMAGES} images"))?;
        try_image(&self.design, image, mutant)
    }

    /// Tries mutants until the wanted number is reached or the time is over. Calls `done` for each.
    pub fn run(&self, effort: &Effort, done: &(dyn Fn() + Sync)) -> Tally {
        let (began, memory) = (cpu_time(ClockId::ProcessCPUTime), peak_memory());
        let corpus = Mutex::new(self.first());
        let (next, is_empty) = (AtomicU64::new(effort.mutants.start), corpus_of(&corpus).entries.is_empty());
        effort.limits.on_threads(|| {
            while !is_empty && !effort.limits.are_reached() {
                let number = next.fetch_add(1, Relaxed);
                if number >= effort.mutants.end {
                    break;
                }
                self.step(&corpus, effort, number);
                done();
            }
        });
        let corpus = corpus.into_inner().unwrap_or_else(PoisonError::into_inner);
        let memory = Bytes(peak_memory().0.saturating_sub(memory.0));
        let (features, cpu) =
            (corpus.features.len() as u64, cpu_time(ClockId::ProcessCPUTime).saturating_sub(began));
        Tally { features, memory, cpu, ..corpus.tally }
    }

    /// The corpus with the images as they are.
    fn first(&self) -> Corpus {
        let (entries, features, kinds, tally) = Default::default();
        let mut corpus = Corpus { entries, features, kinds, tally };
        for (base, image) in self.images.iter().enumerate() {
            let mutant = Mutant::of(base);
            match examine(&self.design, image.clone(), &[]) {
                Ok(examined) => corpus.keep(mutant, &[], examined),
                Err(what) => corpus.fail(mutant, what),
            }
        }
        corpus
    }

    fn step(&self, corpus: &Mutex<Corpus>, effort: &Effort, number: u64) {
        let mut rng = Seed(effort.seed).derive("fuzz.mutant", number).rng();
        let entry = {
            let corpus = corpus_of(corpus);
            corpus.entries[rng.random_range(0..corpus.entries.len())].clone()
        };
        let mut mutant = entry.mutant;
        let image = &self.images[mutant.base];
        let uncut = Mutant { len: None, ..mutant.clone() };
        let other = &self.images[rng.random_range(0..self.images.len())];
        Mutator { bytes: uncut.apply(image), rng: &mut rng, other, lines: &entry.lines }.mutate(&mut mutant);
        if Seed(effort.seed).derive("fuzz.certified", number).rng().random_range(0..2) == 0 {
            mutant.certify(image, self.design.design().format());
        }
        let memory = peak_memory();
        let examined = examine(&self.design, mutant.apply(image), &entry.inos);
        let grown = Bytes(peak_memory().0.saturating_sub(memory.0));
        let what = match examined {
            Ok(_) if grown > MEMORY_MAX => format!("the peak of memory grew by {grown}"),
            Ok(examined) => return corpus_of(corpus).count(mutant, &entry.inos, examined),
            Err(what) => what,
        };
        let mut known = corpus_of(corpus);
        known.tally.mutants += 1;
        if !known.kinds.insert(kind_of(&what)) {
            return;
        }
        drop(known);
        let fails = |mutant: &Mutant| examine(&self.design, mutant.apply(image), &entry.inos).err();
        let (mutant, what) = shrink::shrink((mutant, image), what, &fails);
        corpus_of(corpus).fail(mutant, what);
    }

    /// The seed of its images.
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

impl Corpus {
    fn count(&mut self, mutant: Mutant, inos: &[u64], examined: Examined) {
        self.tally.mutants += 1;
        self.tally.touched = self.tally.touched.max(examined.touched);
        match examined.fate {
            Fate::Refused => self.tally.refused += 1,
            Fate::Damaged => self.tally.damaged += 1,
            Fate::Sound => self.tally.sound += 1,
        }
        let known = self.features.len();
        self.features.extend(&examined.features);
        if self.features.len() > known {
            self.tally.kept += 1;
            if mutant.edits.len() <= EDITS_MAX {
                self.keep(mutant, inos, examined);
            }
        }
    }

    fn keep(&mut self, mutant: Mutant, inos: &[u64], examined: Examined) {
        self.features.extend(&examined.features);
        let inos = if examined.inos.is_empty() { inos.to_vec() } else { examined.inos };
        self.entries.push(Entry { mutant, lines: Arc::new(examined.lines), inos: Arc::new(inos) });
        if self.entries.len() > IMAGES + KEPT_MAX {
            self.entries.remove(IMAGES);
        }
    }

    fn fail(&mut self, mutant: Mutant, what: String) {
        self.kinds.insert(kind_of(&what));
        self.tally.failures.push(Failure { mutant, what });
    }
}

fn corpus_of(corpus: &Mutex<Corpus>) -> MutexGuard<'_, Corpus> {
    corpus.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kind_of(what: &str) -> String {
    what.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The most memory that this process has had so far; zero where the host does not say.
fn peak_memory() -> Bytes {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    Bytes::kib(kib.unwrap_or(0))
}
