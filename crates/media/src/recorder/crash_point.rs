//! What may have happened at one moment, and which of it to try (`docs/models/crash.md`).
//!
//! Everything in flight is cut into units that do not depend on each other; a unit has variants, from nothing
//! (0) to everything (the last). A [`Choice`] picks a variant of each unit.
//!
//! | unit | variants |
//! |---|---|
//! | a line with cached entries | every prefix of its pieces |
//! | one contiguous copy past the cache | of the words that change: none, all, either half, middle line, first or last missing |
//! | a line with a pending non-temporal piece and others | none, all, each piece alone, all but each |
//! | caches that persist (`Mode::Eadr`) | every prefix of all cached pieces |
//! | a sector of a block device, or several (`sectors`) | each version, or parts of the newest |
//!
//! If the product of the variants is small, all choices are tried; else none, all, each unit alone, all but
//! each, every pair, each intermediate variant alone, both sides of every commit store, and random draws from
//! a seed.

use std::collections::BTreeMap;

use rand::RngExt;
use sim::{ByteRun, Seed};

use super::snapshot::{Image, LINE, LineBytes, Snapshot};
use super::state::{Entry, Line, Mode, Persistency};

/// What a unit is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitKind {
    /// Cached entries of one line: a prefix persists.
    Cached,
    /// One contiguous copy past the cache.
    Copy,
    /// A line whose pieces persist independently.
    Unordered,
    /// All cached entries, in their order.
    Order,
    /// Sectors of a block device.
    Sectors,
}

/// Something in flight that does not depend on the rest.
#[derive(Clone, Debug)]
pub struct Unit {
    /// What it is made of.
    pub kind: UnitKind,
    /// The lines, or sectors, that it may change, by their first bytes.
    pub lines: Vec<u64>,
    /// Lines that differ from the guaranteed content, for each variant. The first differs in nothing.
    pub(super) variants: Vec<Vec<(u64, LineBytes)>>,
    /// The last variant before a commit store, and the first with it.
    pub(super) commits: Vec<(usize, usize)>,
}

impl Unit {
    /// How many ways there are for it to persist, "not at all" included.
    pub fn variants(&self) -> usize {
        self.variants.len()
    }
}

/// A variant for each unit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Choice {
    picks: Vec<usize>,
    poisoned: Option<u64>,
}

impl Choice {
    /// A choice of one's own: a variant for each of [`CrashPoint::units`]; missing ones are 0, too large ones
    /// are the last.
    pub fn of(picks: Vec<usize>) -> Self {
        Self { picks, poisoned: None }
    }

    /// The variants, by unit.
    pub fn picks(&self) -> &[usize] {
        &self.picks
    }
}

/// Which choices to try.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// All choices are tried when there are at most this many.
    pub exhaustive_max: usize,
    /// Otherwise, pairs are tried among at most this many units (the first in the order of offsets).
    pub pair_units_max: usize,
    /// And this many random ones.
    pub draws: usize,
    /// Where randomness starts; print it with a failure.
    pub seed: Seed,
}

impl Default for Plan {
    fn default() -> Self {
        Self { exhaustive_max: 512, pair_units_max: usize::MAX, draws: 64, seed: Seed(0) }
    }
}

/// One moment of a recording.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    base: Snapshot,
    units: Vec<Unit>,
    in_flight: Vec<ByteRun>,
    poison: bool,
}

impl CrashPoint {
    pub(super) fn new(state: &Persistency) -> Self {
        let mut units = Vec::new();
        let mut runs: BTreeMap<u64, Vec<(u64, &Line)>> = BTreeMap::new();
        let mut ordered: Vec<(u64, &Line)> = Vec::new();
        for (number, line) in &state.lines {
            match single_run(line) {
                Some(run) => runs.entry(run).or_default().push((*number, line)),
                None if line.is_unordered() => units.push(unordered_unit(state, *number, line)),
                None if state.mode == Mode::Eadr => ordered.push((*number, line)),
                None => units.push(cached_unit(state, *number, line)),
            }
        }
        units.extend(runs.values().map(|lines| copy_unit(state, lines)));
        if !ordered.is_empty() {
            units.push(order_unit(state, &ordered));
        }
        units.extend(state.sectors.units(&state.base));
        units.sort_by_key(|unit| unit.lines.first().copied());
        let poison = state.mode == Mode::Poison;
        Self { base: state.base.clone(), units, in_flight: in_flight(state), poison }
    }

    /// What is in flight, in the order of offsets.
    pub fn units(&self) -> &[Unit] {
        &self.units
    }

    /// Bytes of memory that are not guaranteed, commit stores and what they guarantee
    /// excepted: what a read of them gives after the crash is not determined. Sectors are not among them: a journal on a
    /// block device is read to find out, by checksums and numbers, how far it got.
    pub fn unguaranteed(&self) -> &[ByteRun] {
        &self.in_flight
    }

    /// Number of all choices, without poison.
    pub fn combinations(&self) -> u128 {
        self.units.iter().fold(1, |product: u128, unit| product.saturating_mul(unit.variants.len() as u128))
    }

    /// Nothing in flight got through.
    pub fn none(&self) -> Choice {
        Choice::of(vec![0; self.units.len()])
    }

    /// All in flight got through.
    pub fn all(&self) -> Choice {
        Choice::of(self.units.iter().map(|unit| unit.variants.len() - 1).collect())
    }

    /// The choices worth trying, without repeats: "none" first, then "all".
    pub fn choices(&self, plan: &Plan) -> Vec<Choice> {
        let mut choices = vec![self.none(), self.all()];
        if self.combinations() <= plan.exhaustive_max as u128 {
            self.add_every(&mut choices);
        } else {
            self.add_singles(&mut choices);
            self.add_pairs(&mut choices, plan.pair_units_max);
            self.add_draws(&mut choices, plan);
        }
        self.add_commits(&mut choices);
        if self.poison {
            self.add_poisoned(&mut choices);
        }
        let mut seen = std::collections::BTreeSet::new();
        choices.retain(|choice| seen.insert(choice.clone()));
        choices
    }

    /// The image that a choice leaves.
    pub fn image(&self, choice: &Choice) -> Image {
        let mut delta = Vec::new();
        for (index, unit) in self.units.iter().enumerate() {
            let pick = choice.picks.get(index).copied().unwrap_or(0).min(unit.variants.len() - 1);
            delta.extend_from_slice(&unit.variants[pick]);
        }
        Image { base: self.base.clone(), delta, poisoned: choice.poisoned }
    }

    /// Counts through all choices like an odometer.
    fn add_every(&self, choices: &mut Vec<Choice>) {
        let mut picks = vec![0; self.units.len()];
        while let Some(turn) =
            (0..picks.len()).find(|index| picks[*index] + 1 < self.units[*index].variants.len())
        {
            picks[..turn].fill(0);
            picks[turn] += 1;
            choices.push(Choice::of(picks.clone()));
        }
    }

    fn add_singles(&self, choices: &mut Vec<Choice>) {
        let (none, all) = (self.none(), self.all());
        for (index, unit) in self.units.iter().enumerate() {
            choices.extend((1..unit.variants.len()).map(|pick| none.with(index, pick)));
            choices.push(all.with(index, 0));
        }
    }

    fn add_pairs(&self, choices: &mut Vec<Choice>, units_max: usize) {
        let (none, all) = (self.none(), self.all());
        let count = self.units.len().min(units_max);
        for first in 0..count {
            for second in first + 1..count {
                choices.push(none.with(first, all.picks[first]).with(second, all.picks[second]));
            }
        }
    }

    fn add_draws(&self, choices: &mut Vec<Choice>, plan: &Plan) {
        let mut rng = plan.seed.derive("media.crash_point", self.base.fingerprint()).rng();
        for _ in 0..plan.draws {
            let draw = self.units.iter().map(|unit| rng.random_range(0..unit.variants.len()));
            choices.push(Choice::of(draw.collect()));
        }
    }

    /// Each commit store alone, and everything but it.
    fn add_commits(&self, choices: &mut Vec<Choice>) {
        let (none, all) = (self.none(), self.all());
        for (index, unit) in self.units.iter().enumerate() {
            for (before, with) in &unit.commits {
                choices.push(none.with(index, *with));
                choices.push(all.with(index, *before));
            }
        }
    }

    fn add_poisoned(&self, choices: &mut Vec<Choice>) {
        for line in self.units.iter().flat_map(|unit| &unit.lines) {
            choices.push(Choice { poisoned: Some(line / LINE), ..self.none() });
        }
    }
}

impl Choice {
    fn with(&self, index: usize, pick: usize) -> Self {
        let mut changed = self.clone();
        changed.picks[index] = pick;
        changed
    }
}

/// The copy that all entries of the line belong to, if they do.
fn single_run(line: &Line) -> Option<u64> {
    let run = line.entries.first()?.run?;
    line.entries.iter().all(|entry| entry.run == Some(run)).then_some(run)
}

/// All pieces of a line in program order.
fn pieces_of(line: &Line) -> Vec<(&Entry, u64)> {
    line.entries.iter().flat_map(|entry| entry.pieces().map(move |piece| (entry, piece))).collect()
}

/// The line with those of its pieces that `keep` by their number.
fn line_with(
    state: &Persistency,
    number: u64,
    pieces: &[(&Entry, u64)],
    keep: impl Fn(usize) -> bool,
) -> LineBytes {
    let mut bytes = state.base.line(number);
    for (_, (entry, piece)) in pieces.iter().enumerate().filter(|(index, _)| keep(*index)) {
        entry.apply(*piece, &mut bytes);
    }
    bytes
}

fn cached_unit(state: &Persistency, number: u64, line: &Line) -> Unit {
    let pieces = pieces_of(line);
    let prefix = |count: usize| match count {
        0 => Vec::new(),
        count => vec![(number, line_with(state, number, &pieces, |index| index < count))],
    };
    let commits = pieces.iter().enumerate().filter(|(_, (entry, _))| entry.commit);
    Unit {
        kind: UnitKind::Cached,
        lines: vec![number * LINE],
        variants: (0..=pieces.len()).map(prefix).collect(),
        commits: commits.map(|(index, _)| (index, index + 1)).collect(),
    }
}

fn unordered_unit(state: &Persistency, number: u64, line: &Line) -> Unit {
    let pieces = pieces_of(line);
    let count = pieces.len();
    let mut subsets: Vec<Vec<bool>> = vec![vec![false; count]];
    subsets.extend((0..count).map(|one| (0..count).map(|index| index == one).collect()));
    subsets.extend((0..count).map(|one| (0..count).map(|index| index != one).collect()));
    subsets.push(vec![true; count]);
    keep_first_of_each(&mut subsets);
    let variant =
        |subset: &Vec<bool>| vec![(number, line_with(state, number, &pieces, |index| subset[index]))];
    let mut variants: Vec<_> = subsets.iter().map(variant).collect();
    variants[0].clear();
    let all = variants.len() - 1;
    let commits = if line.entries.iter().any(|entry| entry.commit) { vec![(0, all)] } else { Vec::new() };
    Unit { kind: UnitKind::Unordered, lines: vec![number * LINE], variants, commits }
}

/// Drops repeats, but keeps the last element last.
pub(super) fn keep_first_of_each(subsets: &mut Vec<Vec<bool>>) {
    let last = subsets.pop();
    let mut seen: Vec<Vec<bool>> = Vec::new();
    subsets.retain(|subset| {
        let new = Some(subset) != last.as_ref() && !seen.contains(subset);
        seen.push(subset.clone());
        new
    });
    subsets.extend(last);
}

/// The seven variants of a copy past the cache, over those of its pieces that change something, in the order of addresses: of a
/// block of metadata that is written whole, a few words.
fn copy_unit(state: &Persistency, lines: &[(u64, &Line)]) -> Unit {
    let pieces: Vec<(u64, Vec<(&Entry, u64)>)> =
        lines.iter().map(|(number, line)| (*number, pieces_of(line))).collect();
    let changing = changing_pieces(state, &pieces);
    let count = changing.len();
    let middle = changing.get(count / 2).map(|(_, number)| *number);
    let before = |index: usize| changing.partition_point(|(other, _)| *other < index);
    let first = changing.first().map(|(index, _)| *index);
    let last = changing.last().map(|(index, _)| *index);
    let keeps: [&dyn Fn(u64, usize) -> bool; 7] = [
        &|_, _| false,
        &|_, index| before(index) < count / 2,
        &|_, index| before(index) >= count / 2,
        &|number, _| Some(number) != middle,
        &|_, index| Some(index) != first,
        &|_, index| Some(index) != last,
        &|_, _| true,
    ];
    let mut subsets: Vec<Vec<bool>> = Vec::new();
    for keep in keeps {
        let numbers = pieces.iter().flat_map(|(number, pieces)| pieces.iter().map(move |_| *number));
        subsets.push(numbers.enumerate().map(|(index, number)| keep(number, index)).collect());
    }
    keep_first_of_each(&mut subsets);
    let variants = subsets.iter().map(|subset| copy_variant(state, &pieces, subset)).collect::<Vec<_>>();
    let commits = lines.iter().flat_map(|(_, line)| &line.entries).any(|entry| entry.commit);
    Unit {
        kind: UnitKind::Copy,
        lines: lines.iter().map(|(number, _)| number * LINE).collect(),
        commits: if commits { vec![(0, variants.len() - 1)] } else { Vec::new() },
        variants,
    }
}

/// The pieces that differ from what is guaranteed, by index and line; all, if none does.
fn changing_pieces(state: &Persistency, pieces: &[(u64, Vec<(&Entry, u64)>)]) -> Vec<(usize, u64)> {
    let all = pieces.iter().flat_map(|(number, pieces)| pieces.iter().map(move |piece| (*number, piece)));
    let changes = |number: u64, (entry, piece): &(&Entry, u64)| {
        let base = state.base.line(number);
        let mut line = base;
        entry.apply(*piece, &mut line);
        line != base
    };
    let numbered = || all.clone().enumerate();
    let changing: Vec<_> = numbered()
        .filter(|(_, (number, piece))| changes(*number, piece))
        .map(|(index, (number, _))| (index, number))
        .collect();
    if changing.is_empty() {
        numbered().map(|(index, (number, _))| (index, number)).collect()
    } else {
        changing
    }
}

fn copy_variant(
    state: &Persistency,
    pieces: &[(u64, Vec<(&Entry, u64)>)],
    subset: &[bool],
) -> Vec<(u64, LineBytes)> {
    let mut first = 0;
    let mut changed = Vec::new();
    for (number, pieces) in pieces {
        let keep = &subset[first..first + pieces.len()];
        if keep.contains(&true) {
            changed.push((*number, line_with(state, *number, pieces, |index| keep[index])));
        }
        first += pieces.len();
    }
    changed
}

/// Every prefix of all cached pieces.
fn order_unit(state: &Persistency, lines: &[(u64, &Line)]) -> Unit {
    let mut pieces: Vec<(u64, &Entry, u64)> = Vec::new();
    for (number, line) in lines {
        pieces.extend(pieces_of(line).into_iter().map(|(entry, piece)| (*number, entry, piece)));
    }
    pieces.sort_by_key(|(_, entry, _)| entry.seq);
    let mut now: BTreeMap<u64, LineBytes> = BTreeMap::new();
    let mut variants = vec![Vec::new()];
    let mut commits = Vec::new();
    for (number, entry, piece) in pieces {
        entry.apply(piece, now.entry(number).or_insert_with(|| state.base.line(number)));
        if entry.commit {
            commits.push((variants.len() - 1, variants.len()));
        }
        variants.push(now.iter().map(|(number, bytes)| (*number, *bytes)).collect());
    }
    let lines = lines.iter().map(|(number, _)| number * LINE).collect();
    Unit { kind: UnitKind::Order, lines, variants, commits }
}

/// Words that are not guaranteed, neighbours joined; commit stores are meant to be read either way, and tell
/// whether what is before them in their line may be.
fn in_flight(state: &Persistency) -> Vec<ByteRun> {
    let mut ranges: Vec<ByteRun> = Vec::new();
    for (number, line) in &state.lines {
        // Caches that persist leave nothing to luck but what went past them.
        let may_go = |entry: &&Entry| state.mode != Mode::Eadr || entry.run.is_some();
        let entries = line.entries.iter().filter(|entry| !entry.commit && !entry.vouched).filter(may_go);
        let covered = entries.fold(0, |mask, entry| mask | entry.mask);
        for byte in (0..LINE).filter(|byte| covered >> byte & 1 == 1) {
            let off = number * LINE + byte;
            match ranges.last_mut() {
                Some(run) if run.at + run.len == off => run.len += 1,
                _ => ranges.push(ByteRun::new(off, 1)),
            }
        }
    }
    ranges
}
