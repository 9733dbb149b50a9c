//! The medium of the model: what is durable, what is stored but not fenced, and the images that a crash may leave.

use std::hash::{Hash, Hasher};

use fs::crest::format::layout::LINE;
use rustc_hash::FxHasher;

/// Blocks of a zone that holds data, and cells of a block.
pub(crate) const ZONE_BLOCKS: usize = 2;
/// Cells of a block: the model's unit of data.
pub(crate) const CELLS: usize = 2;
/// A store that no fence of the model covers.
pub(crate) const NEVER: u8 = u8::MAX;

/// A superblock as far as the model has it: generation, reserved openings, reserved inode numbers; none: torn.
pub(crate) type Super = Option<(u64, u64, u64)>;

/// The bytes of a pool, with a digest that stores keep up to date.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Image {
    pub zone_lines: usize,
    /// Whether seals depend on nonces.
    pub keyed: bool,
    pub supers: [Super; 2],
    pub tables: [Vec<u64>; 2],
    pub logs: Vec<u8>,
    pub cells: Vec<u32>,
    /// Of each log zone.
    pub log_digests: Vec<u64>,
    pub digest: u64,
}

impl Hash for Image {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.digest.hash(state);
    }
}

/// A store that a crash may leave or not.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Unit {
    Line { at: usize, bytes: [u8; LINE] },
    Word { copy: usize, zone: usize, word: u64 },
    Cell { at: usize, value: u32 },
    Super { copy: usize, value: Super },
}

impl Image {
    pub(crate) fn new(zones: usize, zone_lines: usize, keyed: bool) -> Self {
        let free = (0..zones).map(|zone| fs::crest::format::zone::Word::default().pack(zone as u32));
        let table: Vec<_> = free.collect();
        Self {
            zone_lines,
            keyed,
            supers: [Some((1, 1, 2)), Some((1, 1, 2))],
            tables: [table.clone(), table],
            logs: vec![0; zones * zone_lines * LINE],
            cells: vec![0; zones * ZONE_BLOCKS * CELLS],
            log_digests: vec![0; zones],
            digest: 0,
        }
    }

    /// The bytes of a zone.
    pub(crate) fn log(&self, zone: usize) -> &[u8] {
        let bytes = self.zone_lines * LINE;
        &self.logs[zone * bytes..(zone + 1) * bytes]
    }

    /// Makes a store; the result undoes it.
    pub(crate) fn apply(&mut self, unit: &Unit) -> Unit {
        let mut old = unit.clone();
        match (&mut old, unit) {
            (Unit::Line { bytes: old, .. }, Unit::Line { at, bytes }) => {
                let line = &mut self.logs[at * LINE..(at + 1) * LINE];
                old.copy_from_slice(line);
                line.copy_from_slice(bytes);
            }
            (Unit::Word { word: old, .. }, Unit::Word { copy, zone, word }) => {
                *old = std::mem::replace(&mut self.tables[*copy][*zone], *word);
            }
            (Unit::Cell { value: old, .. }, Unit::Cell { at, value }) => {
                *old = std::mem::replace(&mut self.cells[*at], *value);
            }
            (Unit::Super { value: old, .. }, Unit::Super { copy, value }) => {
                *old = std::mem::replace(&mut self.supers[*copy], *value);
            }
            _ => unreachable!("a clone is of the same kind"),
        }
        let change = digest(&old) ^ digest(unit);
        self.digest ^= change;
        if let Unit::Line { at, .. } = unit {
            self.log_digests[at / self.zone_lines] ^= change;
        }
        old
    }

    /// The store of which the end is lost.
    fn torn(&self, unit: &Unit) -> Option<Unit> {
        match unit {
            Unit::Line { at, bytes } => {
                let mut torn = *bytes;
                let half = LINE / 2;
                torn[half..].copy_from_slice(&self.logs[at * LINE + half..(at + 1) * LINE]);
                Some(Unit::Line { at: *at, bytes: torn })
            }
            Unit::Super { copy, .. } => Some(Unit::Super { copy: *copy, value: None }),
            _ => None,
        }
    }
}

fn digest(unit: &Unit) -> u64 {
    let mut hasher = FxHasher::default();
    unit.hash(&mut hasher);
    hasher.finish()
}

/// What a moment of a history leaves to chance: what is durable, and what may be.
#[derive(Clone)]
pub(crate) struct Moment {
    pub durable: Image,
    pub pending: Vec<Unit>,
    /// Whether the call has returned.
    pub after: bool,
}

/// Most pending stores of which all subsets are tried.
const ALL_SUBSETS: usize = 9;

impl Moment {
    /// Shows the images of a crash at this moment or since the last one; false: not all subsets are among them.
    pub(crate) fn images(&self, show: &mut dyn FnMut(&Image)) -> bool {
        let count = self.pending.len();
        let mut image = self.durable.clone();
        let all = count <= ALL_SUBSETS;
        if all {
            self.subsets(0, &mut image, show);
        } else {
            for other in [true, false] {
                for (one, two) in (0..count).flat_map(|one| (one..count).map(move |two| (one, two))) {
                    self.image(&mut image, |index| (index == one || index == two) != other, None, show);
                }
            }
        }
        for torn in 0..count {
            self.image(&mut image, |_| true, Some(torn), show);
            self.image(&mut image, |_| false, Some(torn), show);
        }
        let supers = |unit: &&Unit| matches!(unit, Unit::Super { .. });
        if self.pending.iter().filter(supers).count() > 1 {
            let torn: Vec<_> =
                self.pending.iter().filter(supers).filter_map(|unit| image.torn(unit)).collect();
            for unit in &torn {
                image.apply(unit);
            }
            show(&image);
        }
        all
    }

    fn subsets(&self, from: usize, image: &mut Image, show: &mut dyn FnMut(&Image)) {
        let Some(unit) = self.pending.get(from) else { return show(image) };
        self.subsets(from + 1, image, show);
        let undo = image.apply(unit);
        self.subsets(from + 1, image, show);
        image.apply(&undo);
    }

    fn image(
        &self,
        image: &mut Image,
        persists: impl Fn(usize) -> bool,
        torn: Option<usize>,
        show: &mut dyn FnMut(&Image),
    ) {
        let mut undo = Vec::new();
        for (index, unit) in self.pending.iter().enumerate() {
            if torn == Some(index) {
                let Some(torn) = image.torn(unit) else { continue };
                undo.push(image.apply(&torn));
            } else if persists(index) {
                undo.push(image.apply(unit));
            }
        }
        show(image);
        undo.iter().rev().for_each(|unit| _ = image.apply(unit));
    }
}
