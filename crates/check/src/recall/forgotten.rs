//! Flushes and fences left out, one at a time, by the line of the source that asks for them.
//!
//! Each one of each program is left out by itself: [`forgotten`] while the program runs, [`forgotten_in_recovery`] while the images
//! of its crashes are recovered.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use media::event::{BlockEvent, Event, Site, Tap, TaskId};
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Image, Mode, Persistency, Point, Scratch, Trace};
use sim::Bytes;

use crate::configured::{fsck, try_virtually, unmount};
use crate::crash::record::{Recording, record};
use crate::crash::{Effort, Program, Subject, crash_recovery_with, explore, lints};
use crate::limits::Limits;
use crate::observe::observe;
use crate::tree::{difference, without_times};

/// A line of a source file: path and number.
pub type Line = (String, u32);

/// What was found of the flushes or fences that were left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// By the line that asks for them.
    pub sites: BTreeMap<Line, Counts>,
}

/// What was found of those of one line, or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that were left out.
    pub total: usize,
    /// Found by a lint.
    pub by_lints: usize,
    /// Not by a lint, but by a crash.
    pub by_crash: usize,
    /// Without them the medium is in the same state.
    pub equivalent: usize,
    /// Neither found nor equivalent: program and number.
    pub survived: Vec<(String, u64)>,
}

impl Counts {
    /// Those that were found.
    pub fn killed(&self) -> usize {
        self.by_lints + self.by_crash
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.total += other.total;
        self.by_lints += other.by_lints;
        self.by_crash += other.by_crash;
        self.equivalent += other.equivalent;
        self.survived.extend(other.survived);
    }
}

impl Forgotten {
    /// All lines together.
    pub fn all(&self) -> Counts {
        let mut all = Counts::default();
        self.sites.values().cloned().for_each(|found| all.add(found));
        all
    }

    /// Both together.
    pub fn add(&mut self, other: Self) {
        for (line, found) in other.sites {
            self.sites.entry(line).or_default().add(found);
        }
    }

    fn at(&mut self, line: &Line) -> &mut Counts {
        self.sites.entry(line.clone()).or_default()
    }
}

/// Lines of which one flush or fence went unnoticed.
#[derive(Clone, Debug, Default)]
pub struct Unnoticed(Arc<Mutex<BTreeSet<Line>>>);

impl Unnoticed {
    fn has(&self, line: &Line) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(line)
    }

    fn add(&self, line: &Line) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(line.clone());
    }
}

/// What is left out.
#[derive(Clone, Debug)]
pub struct LeaveOut {
    /// Flushes ([`Target::Flush`]) or fences ([`Target::Fence`]).
    pub target: Target,
    /// None: each of them. Otherwise none of a line of which one went unnoticed, which takes the longest to find out; the counts of
    /// such a line then depend on which came first.
    pub enough: Option<Unnoticed>,
}

impl LeaveOut {
    /// Each flush or fence.
    pub fn each(target: Target) -> Self {
        Self { target, enough: None }
    }

    fn is_enough(&self, line: &Line) -> bool {
        self.enough.as_ref().is_some_and(|unnoticed| unnoticed.has(line))
    }

    /// One of the line went unnoticed.
    fn survived(&self, line: &Line, found: &mut Counts, program: &str, nth: u64) {
        found.survived.push((program.to_owned(), nth));
        if let Some(unnoticed) = &self.enough {
            unnoticed.add(line);
        }
    }
}

/// Leaves out flushes or fences of some programs, one at a time, within limits.
pub fn forgotten(
    subject: &Subject,
    programs: &[Program],
    what: &LeaveOut,
    (seed, limits): (u64, &Limits),
) -> Forgotten {
    sum(limits.side_by_side(programs.len(), &|number| of_program(subject, &programs[number], what, seed)))
}

/// Leaves out flushes or fences of recoveries, one at a time, within limits: of the images that crashes of some programs leave.
pub fn forgotten_in_recovery(
    subject: &Subject,
    programs: &[Program],
    what: &LeaveOut,
    (seed, limits): (u64, &Limits),
) -> Forgotten {
    let one = |number: usize| {
        let (owned, of, what) = (subject.clone(), programs[number].clone(), what.clone());
        try_virtually(seed, move || of_recoveries(&owned, &of, &what)).unwrap_or_default()
    };
    sum(limits.side_by_side(programs.len(), &one))
}

fn sum(all: Vec<Forgotten>) -> Forgotten {
    let mut sum = Forgotten::default();
    for one in all {
        sum.add(one);
    }
    sum
}

fn of_program(subject: &Subject, program: &Program, what: &LeaveOut, seed: u64) -> Forgotten {
    let target = what.target;
    let (owned, of) = (subject.clone(), program.clone());
    let asked = try_virtually(seed, move || equivalents(&owned, &of, target)).unwrap_or_default();
    let mut all = Forgotten::default();
    for (nth, (line, equivalent)) in (1..).zip(asked) {
        let found = all.at(&line);
        if what.is_enough(&line) {
            continue;
        }
        found.total += 1;
        let fault = Fault::DropNth { target, nth };
        let (owned, of) = (subject.clone(), program.clone());
        match () {
            () if equivalent => found.equivalent += 1,
            () if try_virtually(seed, move || lints(&owned, &of, &[fault]))
                .is_ok_and(|lints| lints.is_empty()) =>
            {
                match crash_shows(subject, program, fault, seed) {
                    true => found.by_crash += 1,
                    false => what.survived(&line, found, &program.name, nth),
                }
            }
            () => found.by_lints += 1,
        }
    }
    all
}

fn crash_shows(subject: &Subject, program: &Program, fault: Fault, seed: u64) -> bool {
    let (owned, of) = (subject.clone(), program.clone());
    let effort = Effort { violations_max: 1, ..Effort::usual(seed, 0) };
    let explored = try_virtually(seed, move || explore(&owned, &of, &effort, &[fault]));
    explored.map_or(true, |tally| !tally.violations.is_empty())
}

/// A tap that writes down who asks for flushes or fences.
struct Asked {
    target: Target,
    sites: Mutex<Vec<Site>>,
}

impl Asked {
    /// Listens to a region.
    fn attach(region: &Region, target: Target) -> Arc<Self> {
        let asked = Arc::new(Self { target, sites: Mutex::default() });
        region.attach(Arc::clone(&asked) as Arc<dyn Tap>);
        asked
    }

    /// In the order in which they asked.
    fn lines(&self) -> Vec<Line> {
        let sites = self.sites.lock().unwrap_or_else(PoisonError::into_inner);
        sites.iter().map(|site| (site.file().to_owned(), site.line())).collect()
    }
}

impl Tap for Asked {
    fn event(&self, _: TaskId, _: Event<'_>) {}

    fn asked(&self, target: Target, site: Site) {
        if target == self.target {
            self.sites.lock().unwrap_or_else(PoisonError::into_inner).push(site);
        }
    }
}

/// Each flush or fence of a program: who asks for it, and whether the medium is in the same state without it.
fn equivalents(subject: &Subject, program: &Program, target: Target) -> Vec<(Line, bool)> {
    let asked = Mutex::new(None);
    let listen = |region: &Region| {
        *asked.lock().unwrap_or_else(PoisonError::into_inner) = Some(Asked::attach(region, target));
    };
    let Ok(Some(recording)) = record(subject, program, &listen) else { return Vec::new() };
    let asked = asked.into_inner().unwrap_or_else(PoisonError::into_inner);
    let lines = asked.map_or(Vec::new(), |asked| asked.lines());
    let same = |(nth, line)| Some((line, is_equivalent((&recording.trace, subject.mode), target, nth)?));
    (1..).zip(lines).map_while(same).collect()
}

/// Replays a trace with the nth flush or fence and without it. None: there are fewer.
fn is_equivalent((trace, mode): (&Trace, Mode), target: Target, nth: u64) -> Option<bool> {
    let mut with = trace.replay(mode);
    let mut without = with.state().clone();
    let (mut count, mut same) = (0, true);
    while let Some(point) = with.next_point(|task, event| {
        let counts = matches!(
            (target, event),
            (Target::Flush, Event::Flush { .. } | Event::Block(BlockEvent::Flush { .. }))
                | (Target::Fence, Event::Fence)
        );
        count += u64::from(counts);
        if !(counts && count == nth) {
            without.apply(task, event);
        }
    }) {
        same &= point != Point::AfterFence || in_flight(with.state()) == in_flight(&without);
    }
    (count >= nth).then_some(same)
}

/// What a crash may leave or not: how many pieces of which line, and versions of which sector.
fn in_flight(state: &Persistency) -> Vec<(u64, usize)> {
    let lines = state.in_flight().map(|line| (line.offset, line.pieces));
    lines.chain(state.sectors_in_flight()).collect()
}

/// The recoveries of what crashes of one program leave: nothing or all of what is in flight before each fence.
fn of_recoveries(subject: &Subject, program: &Program, what: &LeaveOut) -> Forgotten {
    let mut all = Forgotten::default();
    let Ok(Some(recording)) = record(subject, program, &|_| ()) else { return all };
    for (number, image) in images(&recording, subject.mode).iter().enumerate() {
        let name = format!("{}, image {number}", program.name);
        // An image that cannot be recovered is the crash explorer's to report.
        let _ = of_recovery(subject, (&name, image), what, &mut all);
    }
    all
}

fn images(recording: &Recording, mode: Mode) -> Vec<Image> {
    let mut replay = recording.trace.replay(mode);
    let (mut images, mut seen) = (Vec::new(), HashSet::new());
    while replay.next_point(|_, _| ()).is_some() {
        let point = replay.state().crash_point();
        let both = [point.none(), point.all()].map(|choice| point.image(&choice));
        images.extend(both.into_iter().filter(|image| seen.insert(image.fingerprint())));
    }
    images
}

fn of_recovery(
    subject: &Subject,
    (name, image): (&str, &Image),
    what: &LeaveOut,
    all: &mut Forgotten,
) -> Result<(), String> {
    let design = &*subject.design;
    let scratch = |size: Bytes| Scratch::new(size, Box::new(Null)).map_err(|error| error.to_string());
    let (mut first, mut second) = (scratch(subject.size)?, scratch(subject.size)?);
    let mut tree_of = |image: &Image| {
        let region = Arc::clone(second.load(image).map_err(|error| error.to_string())?);
        let fs = design.mount(&region).map_err(|error| format!("mount: {error}"))?;
        let tree = observe(&*fs)?;
        unmount(&*fs)?;
        fsck(design, &region)?;
        Ok::<_, String>(without_times(tree))
    };
    let expected = tree_of(image)?;
    let region = Arc::clone(first.load(image).map_err(|error| error.to_string())?);
    let asked = Asked::attach(&region, what.target);
    design.recover(&region)?;
    region.detach(&asked);
    for (nth, line) in (1..).zip(asked.lines()) {
        let found = all.at(&line);
        if what.is_enough(&line) {
            continue;
        }
        found.total += 1;
        let fault = Fault::DropNth { target: what.target, nth };
        let shown = crash_recovery_with((design, subject.mode), &mut first, image, &[fault], &mut |image| {
            difference(&tree_of(image)?, &expected).map_or(Ok(()), Err)
        });
        match shown {
            Err(_) => found.by_crash += 1,
            Ok(_) => what.survived(&line, found, name, nth),
        }
    }
    Ok(())
}
