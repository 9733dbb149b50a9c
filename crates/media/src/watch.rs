//! Who watches a medium: its taps and its faults. Regions and block devices have one each.
//!
//! The list of taps is read by every event and changed by almost none, so readers take no lock: they load a
//! pointer to an immutable list. A list that was replaced stays allocated until the region goes, because a
//! reader may still walk it.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::MediaError;
use crate::event::{Event, Site, Tap, Taps, current_task};
use crate::fault::{Fault, Faults, Target};

#[derive(Debug)]
pub(crate) struct Watch {
    /// The current list, or null; it is the last of `lists`.
    taps: AtomicPtr<Taps>,
    /// Every list there has been.
    lists: Mutex<Vec<Arc<Taps>>>,
    faults: Mutex<Faults>,
    /// `faults` is not empty.
    faulty: AtomicBool,
    /// The number of the next request to a block device.
    next_request: AtomicU64,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Self {
            taps: AtomicPtr::new(ptr::null_mut()),
            lists: Mutex::new(Vec::new()),
            faults: Mutex::new(Faults::default()),
            faulty: AtomicBool::new(false),
            next_request: AtomicU64::new(1),
        }
    }

    /// A number that no request had before.
    pub(crate) fn number_request(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// A tap listens.
    pub(crate) fn is_heard(&self) -> bool {
        !self.current().is_empty()
    }

    /// A tap listens to loads.
    pub(crate) fn hears_loads(&self) -> bool {
        self.current().iter().any(|tap| tap.hears_loads())
    }

    /// Something is to fail.
    pub(crate) fn is_faulty(&self) -> bool {
        self.faulty.load(Ordering::Acquire)
    }

    #[inline]
    fn current(&self) -> &[Arc<dyn Tap>] {
        // SAFETY: the pointer is null or points to a list of `lists`, which lives as long as `self` and is
        // never changed.
        unsafe { self.taps.load(Ordering::Acquire).as_ref() }.map_or(&[], |taps| &taps.0)
    }

    /// Replaces the list of taps by `change` of it.
    pub(crate) fn change_taps(&self, change: impl FnOnce(&mut Vec<Arc<dyn Tap>>)) {
        let mut lists = self.lists.lock();
        let mut next = lists.last().map_or_else(Taps::default, |taps| (**taps).clone());
        change(&mut next.0);
        let next = Arc::new(next);
        self.taps.store(Arc::as_ptr(&next).cast_mut(), Ordering::Release);
        lists.push(next);
    }

    pub(crate) fn add_fault(&self, fault: Fault) {
        self.faults.lock().add(fault);
        self.faulty.store(true, Ordering::Release);
    }

    /// Forgets the faults; returns how many accesses have gone wrong.
    pub(crate) fn clear_faults(&self) -> u64 {
        let faults = std::mem::take(&mut *self.faults.lock());
        self.faulty.store(false, Ordering::Release);
        faults.struck()
    }

    #[inline]
    pub(crate) fn tell(&self, event: Event<'_>) {
        let taps = self.current();
        if !taps.is_empty() {
            let task = current_task();
            for tap in taps {
                tap.event(task, event);
            }
        }
    }

    /// Tells a load to those who want to hear of loads.
    pub(crate) fn tell_load(&self, off: u64, len: u64) {
        for tap in self.current().iter().filter(|tap| tap.hears_loads()) {
            tap.event(current_task(), Event::Load { off, len });
        }
    }

    /// Whether a load or store may go on.
    pub(crate) fn admit(&self, target: Target, offset: u64, len: u64) -> Result<(), MediaError> {
        if !self.is_faulty() {
            return Ok(());
        }
        let mut faults = self.faults.lock();
        if faults.strikes(target) {
            return Err(MediaError::Injected { target, offset, len });
        }
        faults.check_poison(target, offset, len)
    }

    /// The blocks of this write to a block device that arrive, if a fault tears it.
    pub(crate) fn tears(&self) -> Option<u64> {
        if self.is_faulty() { self.faults.lock().tears() } else { None }
    }

    /// Tells the taps who asks for a flush or a fence, and returns whether it is to be left out.
    pub(crate) fn drops_for(&self, target: Target, site: Site) -> bool {
        self.current().iter().for_each(|tap| tap.asked(target, site));
        self.drops(target) || self.is_faulty() && self.faults.lock().leaves_out(target, site)
    }

    /// Whether this flush or fence is to be left out, or this allocation to be refused.
    pub(crate) fn drops(&self, target: Target) -> bool {
        self.is_faulty() && self.faults.lock().strikes(target)
    }
}
