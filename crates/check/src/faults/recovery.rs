//! Failures of the mount after a crash: the mount is refused, or succeeds; in both cases the next mount shows the same as an
//! undisturbed one. Only one load of each line fails, because a scan reads the same lines many times.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use media::event::Tap;
use media::nvmm::null::Null;
use media::recorder::{Image, Point};

use super::operations::{LinesRead, VIOLATIONS_MAX};
use super::{Failure, Kind, Outcome, Tally, violation};
use crate::configured::{Configured, fsck, try_virtually, unmount};
use crate::crash::record::record;
use crate::crash::{Program, Subject};
use crate::observe::observe;
use crate::tree::{Tree, difference};

/// Images of each program: the last crash points have the most to undo.
const IMAGES: usize = 2;

/// Crashes the last operations of a program and lets every access of the mount fail.
pub fn fail_recovery(subject: &Subject, program: &Program, seed: u64) -> Tally {
    let mut tally = Tally::default();
    if let Err(what) = fail(subject, program, seed, &mut tally) {
        tally.violations.push(violation(&program.name, what));
    }
    tally
}

fn fail(subject: &Subject, program: &Program, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let (owned, of) = (subject.clone(), program.clone());
    let images = try_virtually(seed, move || images(&owned, &of))??;
    for image in images {
        let crashed = Crashed { design: &subject.design, image, seed };
        let Undisturbed { tree, lines } = crashed.undisturbed()?;
        for kind in [Kind::Store, Kind::Stores, Kind::Flush, Kind::Flushes] {
            let mut at = 1;
            while let Some(came) = crashed.one(Failure { kind, at }, &tree).transpose() {
                tally.note(&program.name, Failure { kind, at }, came);
                at += 1;
                if tally.violations.len() >= VIOLATIONS_MAX {
                    return Ok(());
                }
            }
        }
        for at in lines {
            let failure = Failure { kind: Kind::Poison, at };
            if let Some(came) = crashed.one(failure, &tree).transpose() {
                tally.note(&program.name, failure, came);
            }
        }
    }
    Ok(())
}

/// What a crash may leave just before the last fences of a program, when all that was stored has persisted.
fn images(subject: &Subject, program: &Program) -> Result<Vec<Image>, String> {
    let Some(recording) = record(subject, program, &|_| ())? else { return Ok(Vec::new()) };
    let mut replay = recording.trace.replay(subject.mode);
    let (mut images, mut seen) = (Vec::new(), HashSet::new());
    while let Some(point) = replay.next_point(|_, _| ()) {
        let crash = replay.state().crash_point();
        let image = crash.image(&crash.all());
        if point == Point::BeforeFence && seen.insert(image.fingerprint()) {
            images.push(image);
        }
    }
    let first = images.len().saturating_sub(IMAGES);
    Ok(images.split_off(first))
}

/// What a mount of an image shows, and what it reads.
struct Undisturbed {
    tree: Tree,
    lines: BTreeSet<u64>,
}

/// An image that a crash has left.
struct Crashed<'a> {
    design: &'a Arc<Configured>,
    image: Image,
    seed: u64,
}

impl Crashed<'_> {
    fn undisturbed(&self) -> Result<Undisturbed, String> {
        let (design, image) = (Arc::clone(self.design), self.image.clone());
        try_virtually(self.seed, move || {
            let region = image.region(Box::new(Null)).map_err(|error| error.to_string())?;
            let lines = Arc::new(LinesRead::default());
            region.attach(Arc::clone(&lines) as Arc<dyn Tap>);
            let fs = design.mount(&region).map_err(|error| format!("mount: {error}"))?;
            region.detach(&lines);
            let tree = observe(&*fs)?;
            unmount(&*fs)?;
            Ok(Undisturbed { tree, lines: lines.take().ends })
        })?
    }

    /// Mounts with one failure, then again; none when there are fewer accesses.
    fn one(&self, failure: Failure, expected: &Tree) -> Result<Option<Outcome>, String> {
        let (design, image, expected) = (Arc::clone(self.design), self.image.clone(), expected.clone());
        try_virtually(self.seed, move || {
            let region = image.region(Box::new(Null)).map_err(|error| error.to_string())?;
            region.inject(failure.fault());
            let first = design.mount(&region);
            if region.clear_faults() == 0 {
                return Ok(None);
            }
            let (outcome, fs) = match first {
                Ok(fs) => (Outcome::Absorbed, fs),
                Err(_) => {
                    let again = design.mount(&region);
                    let fs = again.map_err(|error| format!("a mount that failed, and then: {error}"))?;
                    (Outcome::MountedLater, fs)
                }
            };
            let seen = observe(&*fs)?;
            difference(&seen, &expected)
                .map_or(Ok(()), |what| Err(format!("recovery, {outcome:?}: {what}")))?;
            unmount(&*fs).map_err(|what| format!("recovery, {outcome:?}: {what}"))?;
            fsck(&design, &region).map_err(|what| format!("recovery, {outcome:?}: {what}"))?;
            Ok(Some(outcome))
        })?
    }
}
