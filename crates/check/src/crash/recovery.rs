//! Crashes of a recovery.

use std::collections::HashSet;
use std::sync::Arc;

use media::recorder::{Image, Mode, Plan, Scratch, Snapshot, Trace};
use sim::Seed;

use crate::design::{Design, fsck};

/// Crashes the recovery of an image at each of its own crash points, and gives each image that this leaves to `check`; returns
/// how many. Then recovers twice without a mount in between: the second time changes nothing.
pub fn crash_recovery(
    design: &dyn Design,
    scratch: &mut Scratch,
    image: &Image,
    check: &mut dyn FnMut(&Image) -> Result<(), String>,
) -> Result<usize, String> {
    let region = Arc::clone(scratch.load(image).map_err(|error| error.to_string())?);
    let trace = Trace::attach(&region).map_err(|error| error.to_string())?;
    design.recover(&region).map_err(|error| format!("recover: {error}"))?;
    region.detach(&trace);
    fsck(design, &region).map_err(|what| format!("after recover: {what}"))?;
    let snapshot = || Snapshot::of(&region).map_err(|error| error.to_string());
    let first = snapshot()?;
    design.recover(&region).map_err(|error| format!("recover again: {error}"))?;
    if snapshot()?.fingerprint() != first.fingerprint() {
        return Err("recovering twice changes the image".to_owned());
    }
    let mut replay = trace.replay(Mode::Adr);
    let few = Plan { exhaustive_max: 16, pair_units_max: 0, draws: 4, seed: Seed(2) };
    let mut tried = HashSet::new();
    while replay.next_point(|_, _| ()).is_some() {
        let point = replay.state().crash_point();
        for image in point.choices(&few).iter().map(|choice| point.image(choice)) {
            if tried.insert(image.fingerprint()) {
                check(&image).map_err(|what| format!("nested: {what}"))?;
            }
        }
    }
    Ok(tried.len())
}
