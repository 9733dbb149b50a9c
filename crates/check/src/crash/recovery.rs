//! Crashes of a recovery.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use media::event::{BlockEvent, Event, Tap, TaskId};
use media::fault::Fault;
use media::nvmm::Region;
use media::recorder::{Image, Mode, Plan, Scratch, Trace};
use sim::{PAGE_BYTES, Seed};

use crate::configured::{Configured, fsck};

/// Crashes the recovery of an image at each of its own crash points, on a machine of which `mode` says what survives, and passes
/// each resulting image to `check`; returns how many. Also recovers twice without a mount in between: the second recovery must
/// change nothing.
pub fn crash_recovery(
    (design, mode): (&Configured, Mode),
    scratch: &mut Scratch,
    image: &Image,
    check: &mut dyn FnMut(&Image) -> Result<(), String>,
) -> Result<usize, String> {
    crash_recovery_with((design, mode), scratch, image, &[], check)
}

/// The same with faults in the first recovery.
pub(crate) fn crash_recovery_with(
    (design, mode): (&Configured, Mode),
    scratch: &mut Scratch,
    image: &Image,
    faults: &[Fault],
    check: &mut dyn FnMut(&Image) -> Result<(), String>,
) -> Result<usize, String> {
    let region = Arc::clone(scratch.load(image).map_err(|error| error.to_string())?);
    let trace = Trace::attach_at(&region, image.content());
    for fault in faults {
        region.inject(*fault);
    }
    let recovered = design.recover(&region);
    region.clear_faults();
    region.detach(&trace);
    recovered.map_err(|error| format!("recover: {error}"))?;
    fsck(design, &region).map_err(|what| format!("after recover: {what}"))?;
    recover_again(design, scratch, image)?;
    let mut replay = trace.replay(mode);
    let few = Plan { exhaustive_max: 16, pair_units_max: 0, draws: 4, seed: Seed(2) };
    let mut tried = HashSet::new();
    let mut ended = false;
    while !ended {
        // The last crash is after the last store.
        ended = replay.next_point(|_, _| ()).is_none();
        let point = replay.state().crash_point();
        for image in point.choices(&few).iter().map(|choice| point.image(choice)) {
            if tried.insert(image.fingerprint()) {
                check(&image).map_err(|what| format!("nested: {what}"))?;
            }
        }
    }
    Ok(tried.len())
}

/// Recovers the region of `scratch` once more, and returns an error when that changes anything. It gets the state before by
/// recovering the image again, which is cheaper than a copy of the region.
fn recover_again(design: &Configured, scratch: &mut Scratch, image: &Image) -> Result<(), String> {
    let region = Arc::clone(scratch.region());
    let stored = Arc::new(StoredPages::default());
    region.attach(Arc::clone(&stored) as Arc<dyn Tap>);
    let again = design.recover(&region);
    region.detach(&stored);
    again.map_err(|error| format!("recover again: {error}"))?;
    let stored = stored.0.lock().unwrap_or_else(PoisonError::into_inner);
    let pages =
        |region: &Region| stored.iter().map(|page| page_of(region, *page)).collect::<Result<Vec<_>, _>>();
    let after = pages(&region)?;
    let region = scratch.load(image).map_err(|error| error.to_string())?;
    design.recover(region).map_err(|error| format!("recover anew: {error}"))?;
    let before = pages(region)?;
    let changed = before.iter().zip(&after).zip(&*stored).find(|((before, after), _)| before != after);
    changed.map_or(Ok(()), |(_, page)| {
        Err(format!("recovering twice changes the page at {}", page * PAGE_BYTES as u64))
    })
}

fn page_of(region: &Region, page: u64) -> Result<Vec<u8>, String> {
    let at = page * PAGE_BYTES as u64;
    let mut bytes = vec![0; PAGE_BYTES.min((region.len() - at) as usize)];
    region.peek(at, &mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

/// The pages that were stored to.
#[derive(Default)]
struct StoredPages(Mutex<BTreeSet<u64>>);

impl Tap for StoredPages {
    fn event(&self, _: TaskId, event: Event<'_>) {
        if let Event::Store { off, data, .. }
        | Event::NtStore { off, data }
        | Event::Block(BlockEvent::Write { off, data, .. }) = event
            && !data.is_empty()
        {
            let (first, last) = (off, off + data.len() as u64 - 1);
            let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            pages.extend(first / PAGE_BYTES as u64..=last / PAGE_BYTES as u64);
        }
    }
}
