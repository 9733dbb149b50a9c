//! The state of every sector of a block device that is not guaranteed (`docs/models/crash.md`).
//!
//! A sector of 512 bytes persists whole. Each write or discard of it that is not guaranteed is a version:
//!
//! ```text
//!   base (guaranteed)   write 1, complete   write 2, in flight
//!                       │◄─ a flush submitted now covers it ─►│
//! ```
//!
//! | event | effect |
//! |---|---|
//! | a write or discard is submitted | a version of each of its sectors |
//! | it completes | a flush that is submitted from now on covers it; with FUA, or where caches persist, it is guaranteed |
//! | a flush is submitted | it covers what has completed |
//! | the flush completes | what it covers is guaranteed |
//!
//! A crash leaves of each sector the base or any version, whatever it leaves of others. What is guaranteed takes the place of
//! the base and of all older versions: a device keeps the order of writes of one sector.
//!
//! | in flight | units |
//! |---|---|
//! | at most [`FEW`] sectors | each sector, all its versions: every image there is |
//! | more | the sectors of each 4 KiB that the same requests wrote, as below |
//!
//! Of many sectors none persist, all, either half, all but the middle, the first or the last, or each older version.

use std::collections::BTreeMap;

use super::crash_point::{Unit, UnitKind, keep_first_of_each};
use super::snapshot::{LINE, LineBytes, Snapshot};
use crate::event::BlockEvent;

/// What a power loss leaves whole of a block device.
pub const SECTOR: u64 = 512;
/// Up to so many sectors in flight are units of their own.
const FEW: usize = 9;
/// More are taken together by the 4 KiB that they lie in.
const GROUP: u64 = 4096;

const LINES: u64 = SECTOR / LINE;
type SectorBytes = [u8; SECTOR as usize];

/// A write or discard that is not guaranteed.
#[derive(Clone, Debug)]
struct Request {
    /// Its sectors: the first, and the one after the last.
    sectors: (u64, u64),
    fua: bool,
    complete: bool,
}

/// What a request makes of a sector.
#[derive(Clone, Debug)]
struct Version {
    request: u64,
    bytes: Box<SectorBytes>,
}

/// Everything that a block device was told and has not guaranteed.
#[derive(Clone, Debug, Default)]
pub(super) struct Sectors {
    requests: BTreeMap<u64, Request>,
    /// Flushes under way, and the requests that each covers.
    flushes: BTreeMap<u64, Vec<u64>>,
    /// Versions by sector, in the order of submission.
    versions: BTreeMap<u64, Vec<Version>>,
}

impl Sectors {
    /// Whether anything of the range is not guaranteed.
    pub(super) fn covers(&self, off: u64, len: u64) -> bool {
        len > 0 && self.versions.range(off / SECTOR..(off + len).div_ceil(SECTOR)).next().is_some()
    }

    /// First bytes of the sectors that are not guaranteed, and how many versions each has.
    pub(super) fn in_flight(&self) -> impl Iterator<Item = (u64, usize)> {
        self.versions.iter().map(|(sector, versions)| (sector * SECTOR, versions.len()))
    }

    /// Whether the completion of this request guarantees anything.
    pub(super) fn is_barrier(&self, id: u64, persistent: bool) -> bool {
        self.flushes.contains_key(&id)
            || self.requests.get(&id).is_some_and(|request| request.fua || persistent)
    }

    /// Moves on by one event. `persistent`: the device's cache survives a power loss.
    pub(super) fn apply(&mut self, base: &mut Snapshot, event: BlockEvent<'_>, persistent: bool) {
        match event {
            BlockEvent::Write { id, off, data, flags } => {
                self.submit(id, (off, data.len() as u64), flags.fua, |from, to| {
                    to.copy_from_slice(&data[from..from + to.len()]);
                });
            }
            BlockEvent::Discard { id, off, len } => {
                self.submit(id, (off, len), false, |_, to| to.fill(0));
            }
            BlockEvent::Flush { id } => {
                let complete = self.requests.iter().filter(|(_, request)| request.complete);
                let covered = complete.map(|(id, _)| *id).collect();
                self.flushes.insert(id, covered);
            }
            BlockEvent::Complete { id } => self.complete(base, id, persistent),
        }
    }

    /// A request for a range of whole sectors; `fill` gives the bytes from an offset within it on.
    fn submit(&mut self, id: u64, (off, len): (u64, u64), fua: bool, fill: impl Fn(usize, &mut [u8])) {
        let sectors = (off / SECTOR, (off + len).div_ceil(SECTOR));
        for sector in sectors.0..sectors.1 {
            let mut bytes = Box::new([0; SECTOR as usize]);
            let from = (sector * SECTOR - off) as usize;
            let here = SECTOR.min(off + len - sector * SECTOR) as usize;
            fill(from, &mut bytes[..here]);
            self.versions.entry(sector).or_default().push(Version { request: id, bytes });
        }
        self.requests.insert(id, Request { sectors, fua, complete: false });
    }

    fn complete(&mut self, base: &mut Snapshot, id: u64, persistent: bool) {
        for covered in self.flushes.remove(&id).unwrap_or_default() {
            self.guarantee(base, covered);
        }
        let Some(request) = self.requests.get_mut(&id) else { return };
        request.complete = true;
        if request.fua || persistent {
            self.guarantee(base, id);
        }
    }

    /// Puts what a request wrote into the base, over all that was written there before it.
    fn guarantee(&mut self, base: &mut Snapshot, id: u64) {
        let Some(request) = self.requests.remove(&id) else { return };
        for sector in request.sectors.0..request.sectors.1 {
            let Some(versions) = self.versions.get_mut(&sector) else { continue };
            let Some(place) = versions.iter().position(|version| version.request == id) else { continue };
            for (line, bytes) in lines_of(sector, &versions[place].bytes) {
                base.set_line(line, &bytes);
            }
            versions.drain(..=place);
            if versions.is_empty() {
                self.versions.remove(&sector);
            }
        }
    }

    /// What may or may not have persisted.
    pub(super) fn units(&self, base: &Snapshot) -> Vec<Unit> {
        let differing: Vec<Sector<'_>> = self
            .versions
            .iter()
            .filter_map(|(sector, versions)| Sector::of(base, *sector, versions))
            .collect();
        if differing.len() <= FEW {
            return differing.iter().map(|sector| unit(base, std::slice::from_ref(sector))).collect();
        }
        let mut groups: BTreeMap<(u64, Vec<u64>), Vec<Sector<'_>>> = BTreeMap::new();
        for sector in differing {
            let requests = sector.versions.iter().map(|version| version.request).collect();
            groups.entry((sector.number * SECTOR / GROUP, requests)).or_default().push(sector);
        }
        groups.values().map(|sectors| unit(base, sectors)).collect()
    }
}

/// A sector of which a version differs from the base.
struct Sector<'a> {
    number: u64,
    versions: &'a [Version],
}

impl<'a> Sector<'a> {
    fn of(base: &Snapshot, number: u64, versions: &'a [Version]) -> Option<Self> {
        let differs = |version: &Version| !changed_lines(base, number, &version.bytes).is_empty();
        versions.iter().any(differs).then_some(Self { number, versions })
    }
}

/// Sectors that the same requests wrote. The last variant is the newest version of each.
fn unit(base: &Snapshot, sectors: &[Sector<'_>]) -> Unit {
    let count = sectors.len();
    let newest = sectors[0].versions.len() - 1;
    let keeps: [&dyn Fn(usize) -> bool; 7] = [
        &|_| false,
        &|index| index < count / 2,
        &|index| index >= count / 2,
        &|index| index != count / 2,
        &|index| index > 0,
        &|index| index + 1 < count,
        &|_| true,
    ];
    let mut subsets: Vec<Vec<bool>> = keeps.iter().map(|keep| (0..count).map(keep).collect()).collect();
    keep_first_of_each(&mut subsets);
    let with = |version: usize, subset: &[bool]| -> Vec<(u64, LineBytes)> {
        let kept = sectors.iter().zip(subset).filter(|(_, kept)| **kept);
        kept.flat_map(|(sector, _)| changed_lines(base, sector.number, &sector.versions[version].bytes))
            .collect()
    };
    let all = vec![true; count];
    let last = subsets.pop().unwrap_or_default();
    let mut variants: Vec<_> = subsets.iter().map(|subset| with(newest, subset)).collect();
    variants.extend((0..newest).map(|version| with(version, &all)));
    variants.push(with(newest, &last));
    Unit {
        kind: UnitKind::Sectors,
        lines: sectors.iter().map(|sector| sector.number * SECTOR).collect(),
        variants,
        commits: Vec::new(),
    }
}

/// The lines of a sector.
fn lines_of(sector: u64, bytes: &SectorBytes) -> impl Iterator<Item = (u64, LineBytes)> {
    let lines = bytes.as_chunks::<{ LINE as usize }>().0.iter();
    lines.zip(sector * LINES..).map(|(bytes, line)| (line, *bytes))
}

/// The lines of a sector that differ from the base.
fn changed_lines(base: &Snapshot, sector: u64, bytes: &SectorBytes) -> Vec<(u64, LineBytes)> {
    lines_of(sector, bytes).filter(|(line, bytes)| base.line(*line) != *bytes).collect()
}
