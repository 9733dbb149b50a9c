//! Runs every operation on an image with any content, and judges the result.
//!
//! ```text
//!   image ──► fsck ──► dump ──► [recover ──► fsck] ──► mount ──► look at everything ──► random operations ──► unmount ──► fsck
//!                                                       └── refused ──► fsck ──► mount twice again: refused, nothing changed
//! ```
//!
//! Half of the images are recovered before the mount. Once fsck has found nothing, no call may fail with `EIO` or `EUCLEAN`, and
//! fsck must find nothing at the end.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use media::event::Tap;
use media::nvmm::Region;
use sim::{Bytes, Seed};
use vfs::{Errno, FileSystem};

use super::look::{Seen, look};
use super::watch::Watch;
use crate::configured::{self, Configured, try_virtually};
use crate::generate::Generator;
use crate::op::{Op, Runner};

/// Operations on what could be mounted.
const OPS: usize = 24;
/// Inodes that are dumped.
const DUMPED: usize = 8;
/// Each line of an image may be touched so often.
const TOUCHES_PER_LINE: u64 = 200;

const GENERATOR: Generator =
    Generator { reads: true, handles: true, remounts: false, bulk: false, maps: false, clones: false };

/// The result for an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It was not mounted.
    Refused,
    /// It was mounted although fsck reports violations.
    Damaged,
    /// Fsck found nothing, and all calls succeeded.
    Sound,
}

/// What was seen of an image.
#[derive(Debug)]
pub(super) struct Examined {
    pub(super) fate: Fate,
    /// What makes an image new: predicates, errors and lines, as numbers.
    pub(super) features: BTreeSet<u64>,
    /// Lines that were read in any phase.
    pub(super) lines: Vec<usize>,
    /// Inodes that could be reached.
    pub(super) inos: Vec<u64>,
    /// Lines touched.
    pub(super) touched: u64,
}

/// Examines an image in a virtual run of its own. `inos` are numbers to dump.
pub(super) fn examine(design: &Arc<Configured>, bytes: Vec<u8>, inos: &[u64]) -> Result<Examined, String> {
    let (design, inos) = (Arc::clone(design), inos.to_vec());
    let examined = try_virtually(1, move || Examination::new(&design, &bytes)?.run(&inos));
    examined.and_then(|examined| examined)
}

struct Examination<'a> {
    design: &'a Configured,
    region: Arc<Region>,
    watch: Arc<Watch>,
    features: BTreeSet<u64>,
    lines: BTreeSet<usize>,
    recovers: bool,
}

impl<'a> Examination<'a> {
    fn new(design: &'a Configured, bytes: &[u8]) -> Result<Self, String> {
        let region = configured::region(Bytes(bytes.len() as u64));
        region.store(0, bytes).map_err(|error| error.to_string())?;
        let lines = region.len().div_ceil(64);
        let watch = Arc::new(Watch::new(region.len(), TOUCHES_PER_LINE * (lines + 1_000)));
        region.attach(Arc::clone(&watch) as Arc<dyn Tap>);
        let (features, lines) = Default::default();
        Ok(Self { design, region, watch, features, lines, recovers: number(bytes) % 2 == 1 })
    }

    fn run(mut self, inos: &[u64]) -> Result<Examined, String> {
        let mut clean = self.fsck("fsck");
        self.dump(inos);
        if self.recovers {
            let recovered = self.design.recover(&self.region);
            self.phase("recover", recovered.as_ref().err().into_iter());
            match recovered {
                Ok(()) => clean = self.fsck("recovered"),
                Err(error) if clean => return Err(format!("fsck is content, but recover says: {error}")),
                Err(_) => {}
            }
        }
        let mounted = self.design.mount(&self.region);
        self.phase("mount", mounted.as_ref().err().into_iter());
        let (fate, inos) = match mounted {
            Ok(fs) => (if clean { Fate::Sound } else { Fate::Damaged }, self.use_it(&fs, clean)?),
            Err(error) if clean => return Err(format!("fsck is content, but mount says: {error}")),
            Err(error) => (self.refused(&error).map(|()| Fate::Refused)?, Vec::new()),
        };
        let (lines, touched) = (self.lines.into_iter().collect(), self.watch.touched());
        Ok(Examined { fate, features: self.features, lines, inos, touched })
    }

    /// Notes what a phase said, and which lines it read.
    fn phase<'w>(&mut self, name: &str, words: impl Iterator<Item = &'w String>) {
        for word in words {
            // Numbers differ from image to image; the message does not.
            let said: String = word.chars().filter(|c| !c.is_ascii_digit()).collect();
            self.features.insert(number((name, said)));
        }
        let lines = self.watch.take();
        self.features.insert(number((name, "lines", lines.len().next_power_of_two())));
        self.features.extend(lines.iter().map(|line| number((name, line))));
        self.lines.extend(lines);
    }

    fn fsck(&mut self, phase: &str) -> bool {
        let violations = self.design.fsck(&self.region);
        self.phase(phase, violations.iter());
        violations.is_empty()
    }

    fn dump(&mut self, inos: &[u64]) {
        for part in self.design.dump_parts() {
            let parts: Vec<String> = match part.strip_suffix(" N") {
                Some(part) => inos.iter().take(DUMPED).map(|ino| format!("{part} {ino}")).collect(),
                None => vec![part],
            };
            let refused = parts.iter().filter_map(|part| self.design.dump(&self.region, part).err());
            let refused: Vec<_> = refused.collect();
            self.phase("dump", refused.iter());
        }
    }

    /// Fsck must report violations; mounting again must be refused too, and must change nothing at the end.
    fn refused(&mut self, why: &str) -> Result<(), String> {
        if self.fsck("refused") {
            return Err(format!("mount says: {why}, and afterwards fsck is content"));
        }
        let mut before = 0;
        for _ in 0..2 {
            before = self.content()?;
            if self.design.mount(&self.region).is_ok() {
                return Err(format!("mount says: {why}, but not when it is asked again"));
            }
        }
        if self.content()? == before {
            return Ok(());
        }
        Err(format!("mount says: {why}, and changes the image each time"))
    }

    fn content(&self) -> Result<u64, String> {
        let mut bytes = vec![0; self.region.len() as usize];
        self.region.peek(0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(number(bytes))
    }

    fn use_it(&mut self, fs: &Arc<dyn FileSystem>, clean: bool) -> Result<Vec<u64>, String> {
        let seen = look(&**fs);
        self.phase("look", calls(&seen).iter());
        if let Some((call, errno)) = seen.errors.first().filter(|_| clean) {
            return Err(format!("fsck is content, but {call} gives {errno}"));
        }
        let mut failed = BTreeSet::new();
        let mut runner = Runner::new(Arc::clone(fs));
        for op in program(&seen) {
            if let Err(errno) = runner.run(&op) {
                if clean && matches!(errno, Errno::EIO | Errno::EUCLEAN) {
                    return Err(format!("fsck is content, but {op:?} gives {}", errno.name()));
                }
                failed.insert(format!("{} {}", op.name(), errno.name()));
            }
        }
        runner.close_all();
        self.phase("use", failed.iter());
        let unmounted = fs.unmount().map_err(|errno| errno.name().to_owned());
        self.phase("unmount", unmounted.as_ref().err().into_iter());
        if let (true, Err(errno)) = (clean, &unmounted) {
            return Err(format!("fsck is content, but unmount gives {errno}"));
        }
        let violations = self.design.fsck(&self.region);
        self.phase("afterwards", violations.iter());
        match violations.first().filter(|_| clean) {
            Some(violation) => Err(format!("fsck was content, and after use says: {violation}")),
            None => Ok(seen.inos.iter().map(|ino| ino.0).collect()),
        }
    }
}

fn calls(seen: &Seen) -> Vec<String> {
    seen.errors.iter().map(|(call, errno)| format!("{call} {errno}")).collect()
}

/// Random operations; the same for images in which as much could be reached.
fn program(seen: &Seen) -> Vec<Op> {
    let mut rng = Seed(seen.inos.len() as u64).derive("fuzz.use", 0).rng();
    (0..OPS).map(|tag| GENERATOR.op(&mut rng, tag as u8)).collect()
}

fn number(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
