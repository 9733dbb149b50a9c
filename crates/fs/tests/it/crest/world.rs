//! A mount without locks: what DRAM holds, how a call becomes durable, recovery. Deliberately simple: after each call it surveys
//! all records again instead of keeping counts.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use fs::crest::format::clean::{Present, Survey};
use fs::crest::format::inline::Patch;
use fs::crest::format::layout::{BLOCK, LINE, ROOT_INO};
use fs::crest::format::merge::merge;
use fs::crest::format::mutant::{self, Rules};
use fs::crest::format::record::{Body, Create, Id, Open, Previous, Record, Seal};
use fs::crest::format::sieve::{Facts, Sieve};
use fs::crest::format::tree::{Held, Slot, Tree};
use fs::crest::format::zone::{Damage, Found, Log, Stock, Use, Want, Word, lost_ends};

use super::image::{CELLS, Image, Moment, NEVER, Super, Unit, ZONE_BLOCKS};
use super::view::{File, View};

const SECRET: u64 = 0x5EED_5EED_0BAD_CAFE;
/// Openings and inode numbers that the model reserves at a time.
const RESERVED: u64 = 64;

/// How a pool of the model is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub zones: usize,
    pub zone_lines: usize,
    pub shards: usize,
    /// Most lines of a record.
    pub record_lines: usize,
    pub checked: bool,
    /// Whether zones run out: the reserve is kept, and the cleaner runs by itself.
    pub scarce: bool,
    /// Whether seals depend on nonces.
    pub keyed: bool,
}

/// The end of a shard's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tail {
    /// Zone, opening, next line.
    pub open: Option<(u32, u64, u32)>,
    /// Where the log ended in the zone before.
    pub previous: Option<(u32, u64, u32)>,
    pub clock: u64,
}

#[derive(Clone)]
pub(crate) struct World {
    pub setup: Setup,
    pub rules: Rules,
    pub durable: Image,
    pub current: Image,
    pub pending: Vec<(u8, Unit)>,
    pub tails: Vec<Tail>,
    pub supers: (u64, u64, u64),
    pub openings: u64,
    pub inodes: u64,
    pub now: u64,
    pub token: u32,
    /// The first opening of this mount.
    pub mounted: u64,
    /// Ids of the last change of an inode's attributes or size, of its last cut, and of its blocks.
    pub ids: BTreeMap<u64, (u64, u64)>,
    pub block_ids: BTreeMap<(u64, u64), u64>,
    pub bad: BTreeSet<u32>,
    /// What the nonces of this mount come from: a copy of the pool has another.
    pub salt: u64,
    /// Records that the cleaner has copied, by zone and line: a mutant forgets them.
    pub copied: BTreeSet<(u32, u32)>,
    /// Damage, ends and the largest id of the zones that are not freed.
    pub log: Read,
    pub found: Vec<Rc<Found>>,
    /// What has dropped others of them, where the rules allow it.
    pub sieve: Option<Sieve>,
    /// How many of `found` lie in zones that are not freed.
    pub counting: usize,
    pub tree: Tree,
    pub moments: Vec<Moment>,
}

/// A call that cannot be made here.
pub(crate) struct NotNow;

/// No zone is left for a call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoSpace;

impl World {
    /// A pool with an empty root.
    pub(crate) fn format(setup: Setup, rules: Rules) -> Self {
        let mut world = Self::bare(Image::new(setup.zones, setup.zone_lines, setup.keyed), setup, rules);
        (world.now, world.inodes) = (1, 2);
        let root = Create { ino: ROOT_INO, mode: 0o40_755, time: 1, ..Create::default() };
        let record = Record::alone(Id::new(1, 0), Body::Create(root));
        world.tails[0].clock = 1;
        world.append(0, Want::Records, &[record]).expect("an empty pool has room");
        world.fence(0);
        world.moments.clear();
        world.survey();
        world
    }

    fn bare(image: Image, setup: Setup, rules: Rules) -> Self {
        let supers = newest(&image.supers);
        Self {
            setup,
            rules,
            durable: image.clone(),
            current: image,
            pending: Vec::new(),
            tails: vec![Tail::default(); setup.shards],
            supers,
            openings: supers.1,
            inodes: supers.2,
            now: 1,
            token: 0,
            mounted: supers.1,
            ids: BTreeMap::new(),
            block_ids: BTreeMap::new(),
            bad: BTreeSet::new(),
            salt: 0,
            copied: BTreeSet::new(),
            log: Read::default(),
            found: Vec::new(),
            sieve: None,
            counting: 0,
            tree: Tree::default(),
            moments: Vec::new(),
        }
    }

    // ---- the medium

    pub(crate) fn store(&mut self, task: u8, unit: Unit) {
        self.current.apply(&unit);
        self.pending.push((task, unit));
    }

    /// Makes a task's stores durable. What a crash may leave until then is noted.
    pub(crate) fn fence(&mut self, task: u8) {
        self.note(false);
        let (durable, pending) =
            std::mem::take(&mut self.pending).into_iter().partition(|(by, _)| *by == task);
        self.pending = pending;
        let durable: Vec<(u8, Unit)> = durable;
        for (_, unit) in &durable {
            self.durable.apply(unit);
        }
    }

    pub(crate) fn note(&mut self, after: bool) {
        let pending = self.pending.iter().map(|(_, unit)| unit.clone()).collect();
        self.moments.push(Moment { durable: self.durable.clone(), pending, after });
    }

    fn store_supers(&mut self, task: u8) {
        // The copy that counts is stored last: the other one may be torn already.
        let first = usize::from(self.current.supers[0] > self.current.supers[1]);
        self.supers.0 += 1;
        for copy in [first, 1 - first] {
            self.store(task, Unit::Super { copy, value: Some(self.supers) });
            if copy != first || !self.rules.lacks(mutant::SUPERBLOCKS_TOGETHER) {
                self.fence(task);
            }
        }
    }

    /// The number of a new inode.
    pub(crate) fn next_inode(&mut self, task: u8) -> u64 {
        if self.inodes + 1 > self.supers.2 && !self.rules.lacks(mutant::INODES_FROM_LOG) {
            self.supers.2 = self.inodes + RESERVED;
            self.store_supers(task);
        }
        self.inodes += 1;
        self.inodes - 1
    }

    pub(crate) fn store_words(&mut self, task: u8, zone: u32, word: Word) {
        for copy in 0..2 {
            self.store(task, Unit::Word { copy, zone: zone as usize, word: word.pack(zone) });
        }
    }

    // ---- the log

    pub(crate) fn word(&self, zone: u32) -> Word {
        Word::unpack(zone, self.current.tables[0][zone as usize]).unwrap_or_default()
    }

    /// Whether a store to the word of a zone is not durable yet.
    fn in_flight(&self, zone: u32) -> bool {
        let of_zone = |unit: &Unit| matches!(unit, Unit::Word { zone: of, .. } if *of == zone as usize);
        self.pending.iter().any(|(task, unit)| *task != NEVER && of_zone(unit))
    }

    /// Zones that are free, durably, and hold no data.
    pub(crate) fn free_zones(&self) -> Vec<u32> {
        let used: BTreeSet<u64> =
            self.tree.references(self.rules).keys().map(|block| block / ZONE_BLOCKS as u64).collect();
        let durable = |zone: &u32| !self.in_flight(*zone) || self.rules.lacks(mutant::FREED_BEFORE_FENCE);
        (0..self.setup.zones as u32)
            .filter(|zone| self.word(*zone).usage == Use::Free && !used.contains(&u64::from(*zone)))
            .filter(durable)
            .collect()
    }

    pub(crate) fn stock(&self) -> Stock {
        Stock {
            free: self.free_zones().len() as u32,
            shards: self.setup.shards as u32,
            zone_lines: self.setup.zone_lines as u32 - 1,
            buffered: 0,
            live_lines: if self.setup.scarce { u64::from(self.live_lines()) } else { 0 },
        }
    }

    fn live_lines(&self) -> u32 {
        let zones = self.present();
        let survey = self.surveyed(&zones);
        zones.iter().filter(|zone| !zone.freed).map(|zone| survey.live_lines(zone.zone)).sum()
    }

    fn open_zone(&mut self, shard: usize, want: Want) -> Result<(u32, u64, u32), NoSpace> {
        let free = self.free_zones();
        if self.setup.scarce && !self.stock().grants(want, self.rules) {
            return Err(NoSpace);
        }
        let zone = *free.first().ok_or(NoSpace)?;
        if self.openings + 1 > self.supers.1 && !self.rules.lacks(mutant::OPENING_FROM_TABLE) {
            self.supers.1 = self.openings + RESERVED;
            self.store_supers(shard as u8);
        }
        let opening = self.openings;
        self.openings += 1;
        let task = if self.rules.lacks(mutant::WORD_UNFLUSHED) { NEVER } else { shard as u8 };
        let word = Word { usage: Use::Log, shard: shard as u16, opening };
        if !self.setup.keyed {
            self.store_words(task, zone, word);
        }
        let previous = self.tails[shard].open.or(self.tails[shard].previous);
        let previous = previous.map(|(zone, opening, lines)| Previous { zone, opening, lines: lines as u16 });
        let open = Open { shard: shard as u16, epoch: 0, previous, nonce: self.nonce(opening) };
        self.tails[shard].previous = None;
        let at = (zone, opening, 0);
        let lines = self.put(shard as u8, at, &Record::alone(Id::default(), Body::Open(open)));
        if self.setup.keyed {
            if !self.rules.lacks(mutant::OPEN_WITH_WORD) {
                self.fence(shard as u8);
            }
            self.store_words(task, zone, word);
        }
        Ok((zone, opening, lines))
    }

    fn nonce(&self, opening: u64) -> u64 {
        if self.setup.keyed { (opening << 8 | self.salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 } else { 0 }
    }

    fn put(&mut self, task: u8, (zone, opening, line): (u32, u64, u32), record: &Record) -> u32 {
        let (keyed, nonce) = (self.setup.keyed, self.nonce(opening));
        let seal = Seal { secret: SECRET, opening, keyed, nonce, rules: self.rules };
        let bytes = record.encode(seal, line).expect("records of the model are short");
        let first = zone as usize * self.setup.zone_lines + line as usize;
        for (index, bytes) in bytes.chunks_exact(LINE).enumerate() {
            self.store(task, Unit::Line { at: first + index, bytes: bytes.try_into().expect("whole lines") });
        }
        (bytes.len() / LINE) as u32
    }

    /// Whether a shard's log has so many lines without a new zone.
    pub(crate) fn fits(&self, shard: usize, lines: u32) -> bool {
        self.tails[shard].open.is_some_and(|(.., line)| line + lines <= self.setup.zone_lines as u32)
    }

    /// Stores records at the end of a shard's log; the caller fences.
    pub(crate) fn append(&mut self, shard: usize, want: Want, records: &[Record]) -> Result<(), NoSpace> {
        let lines: u32 = records.iter().map(|record| record.lines() as u32).sum();
        assert!(lines < self.setup.zone_lines as u32, "an operation of {lines} lines");
        if !self.fits(shard, lines) {
            self.tails[shard].open = Some(self.open_zone(shard, want)?);
        }
        let (zone, opening, mut line) = self.tails[shard].open.expect("opened above");
        for record in records {
            line += self.put(shard as u8, (zone, opening, line), record);
        }
        self.tails[shard].open = Some((zone, opening, line));
        Ok(())
    }

    /// The id of a shard's next operation that depends on changes with these ids.
    pub(crate) fn next_id(&mut self, shard: usize, objects: &[u64]) -> Id {
        let clock = &mut self.tails[shard].clock;
        let known = objects.iter().copied().max().unwrap_or(0);
        *clock = 1 + if self.rules.lacks(mutant::CLOCK_OF_SHARD) { *clock } else { known.max(*clock) };
        Id::new(*clock, shard as u16)
    }

    /// A call: data, fence, records, fence.
    pub(crate) fn commit(
        &mut self,
        shard: usize,
        want: Want,
        data: &[Unit],
        records: &[Record],
    ) -> Result<(), NoSpace> {
        let task = shard as u8;
        for unit in data {
            self.store(task, unit.clone());
        }
        if !data.is_empty() && !self.rules.lacks(mutant::DATA_UNFENCED) {
            self.fence(task);
        }
        self.append(shard, want, records)?;
        self.fence(task);
        self.survey();
        Ok(())
    }

    // ---- what DRAM knows

    /// Log zones that are present: freed ones, too, until the word is durable.
    pub(crate) fn present(&self) -> Vec<Present> {
        let zone = |zone: u32| {
            let word = self.word(zone);
            let gone = matches!(word.usage, Use::Free | Use::Bad);
            if word.usage == Use::Log {
                return Some(Present { zone, opening: word.opening, freed: false });
            }
            let durable = Word::unpack(zone, self.durable.tables[0][zone as usize])?;
            let freed = gone && durable.usage == Use::Log && self.in_flight(zone);
            let stays = word.usage == Use::Bad && self.rules.lacks(mutant::BAD_ZONE_STAYS);
            let opening = if stays { word.opening } else { durable.opening };
            (freed || stays).then_some(Present { zone, opening, freed: true })
        };
        (0..self.setup.zones as u32).filter_map(zone).collect()
    }

    pub(crate) fn survey(&mut self) {
        let (freed, present): (Vec<_>, Vec<_>) = self.present().into_iter().partition(|zone| zone.freed);
        let mut log = read_log(&self.current, &present, self.rules);
        log.check_ends(self.rules);
        self.found = std::mem::take(&mut log.records);
        self.counting = self.found.len();
        self.log = log;
        if !freed.is_empty() {
            self.found.extend(read_log(&self.current, &freed, self.rules).records);
        }
        self.sift();
        self.tree = merge(&self.found[..self.counting], &BTreeSet::new(), self.rules);
        if self.rules.lacks(mutant::REMOVAL_AWAITS_ONE_COPY) {
            let forgotten = |found: &&mut Rc<Found>| self.copied.contains(&(found.zone, found.line));
            for found in self.found.iter_mut().filter(forgotten) {
                Rc::make_mut(found).record.body = Body::Open(Open::default());
            }
        }
    }

    /// Drops what the mount drops as it reads zones.
    fn sift(&mut self) {
        self.sieve = None;
        if !self.rules.sieves() {
            return;
        }
        let (mut facts, mut candidates) = (Facts::new(&BTreeSet::new(), self.rules), Vec::new());
        for zone in self.found.chunk_by(|one, other| one.zone == other.zone) {
            let mut records = zone.to_vec();
            facts.sift_zone(&mut records);
            candidates.append(&mut records);
        }
        let Ok(sieve) = facts.settle(&candidates) else { return };
        let counting: BTreeSet<u32> = self.found[..self.counting].iter().map(|found| found.zone).collect();
        let kept = candidates.into_iter().filter_map(|found| {
            let mut found = Rc::unwrap_or_clone(found);
            sieve.keeps(&mut found).then(|| Rc::new(found))
        });
        self.found = kept.collect();
        self.counting = self.found.partition_point(|found| counting.contains(&found.zone));
        self.sieve = Some(sieve);
    }

    pub(crate) fn surveyed(&self, zones: &[Present]) -> Survey<'_, Rc<Found>> {
        Survey::sieved(&self.found, &self.tree, zones, self.sieve.as_ref(), (self.mounted, self.rules))
    }

    /// Sealed log zones.
    pub(crate) fn sealed(&self) -> Vec<u32> {
        let is_open = |zone: u32| self.tails.iter().any(|tail| tail.open.is_some_and(|open| open.0 == zone));
        let zones = self.present().into_iter().filter(|zone| !zone.freed).map(|zone| zone.zone);
        zones.filter(|zone| !is_open(*zone)).collect()
    }

    /// Frees the sealed zones in which nothing is live. Their words are not fenced.
    pub(crate) fn reap(&mut self, task: u8) {
        let zones = self.present();
        let survey = self.surveyed(&zones);
        let empty: Vec<_> = self.sealed().into_iter().filter(|zone| survey.is_empty(*zone)).collect();
        for zone in empty {
            let opening = self.word(zone).opening;
            let usage = if self.bad.contains(&zone) { Use::Bad } else { Use::Free };
            self.store_words(task, zone, Word { usage, shard: 0, opening });
        }
        self.survey();
    }

    /// Copies the next live record of a zone, the newest first, so that of two that hide the same the later is kept; false: there is
    /// none.
    pub(crate) fn copy_next(&mut self, shard: usize, zone: u32) -> Result<bool, NoSpace> {
        let zones = self.present();
        let survey = self.surveyed(&zones);
        let mut records: Vec<_> =
            (0..self.found.len()).filter(|index| self.found[*index].zone == zone).collect();
        records.sort_by_key(|index| Reverse((self.found[*index].record.id, self.found[*index].record.part)));
        let next = records.into_iter().find_map(|index| Some((index, survey.live(index)?)));
        let Some((index, mut copy)) = next else { return Ok(false) };
        self.copied.insert((zone, self.found[index].line));
        if self.rules.lacks(mutant::COPY_WITH_NEW_ID) {
            copy.id = self.next_id(shard, &[]);
        }
        self.append(shard, Want::Copies, &[copy])?;
        if !self.rules.lacks(mutant::CLEANED_BEFORE_FENCE) {
            self.fence(shard as u8);
        }
        self.survey();
        Ok(true)
    }

    // ---- recovery

    /// A mount of an image. Writes words of the table only.
    pub(crate) fn recover(image: Image, setup: Setup, rules: Rules) -> Self {
        let mut image = image;
        for zone in 0..setup.zones {
            let copies = [image.tables[0][zone], image.tables[1][zone]];
            if let Some((word, true)) = Word::decide(zone as u32, copies)
                && !rules.lacks(mutant::EITHER_WORD)
            {
                let word = word.pack(zone as u32);
                (0..2).for_each(|copy| _ = image.apply(&Unit::Word { copy, zone, word }));
            }
        }
        let mut world = Self::bare(image, setup, rules);
        world.survey();
        world.restore_clocks();
        world
    }

    fn restore_clocks(&mut self) {
        let zones = self.present();
        let openings = zones.iter().map(|zone| zone.opening + 1).max().unwrap_or(1);
        if self.rules.lacks(mutant::OPENING_FROM_TABLE) {
            (self.openings, self.mounted) = (openings, openings);
        }
        if self.rules.lacks(mutant::INODES_FROM_LOG) {
            self.inodes = self.tree.inodes.numbers().next_back().map_or(2, |ino| ino + 1);
        }
        let in_records = self.found.iter().flat_map(|found| match &found.record.body {
            Body::Inline(inline) => cells_of(&inline.patch),
            _ => Vec::new(),
        });
        self.token = self.current.cells.iter().copied().chain(in_records).max().unwrap_or(0);
        for shard in 0..self.setup.shards {
            let zones = zones.iter().filter(|zone| usize::from(self.word(zone.zone).shard) == shard);
            let last = zones.max_by_key(|zone| zone.opening).map(|zone| zone.zone);
            let end = last.and_then(|last| self.log.ends.iter().find(|end| end.0 == last).copied());
            let clock = if self.rules.lacks(mutant::CLOCK_FROM_ZERO) { 0 } else { self.log.top.time() };
            let open = end.filter(|_| self.rules.lacks(mutant::APPENDED_AFTER_CRASH));
            self.tails[shard] = Tail { open, previous: end, clock };
        }
    }

    /// What a user sees of an image, or what is wrong.
    pub(crate) fn view(&self) -> Result<View, String> {
        if self.current.supers == [None, None] {
            return Err("both superblocks are torn".to_owned());
        }
        if let Some(damage) = self.log.damage.first() {
            return Err(format!("damage: {damage:?}"));
        }
        let seen = view(&self.tree, &self.current)?;
        // The merge must not depend on the order in which zones are read, nor on how often.
        let records = &self.found[..self.counting];
        let reversed: Vec<_> = records.iter().rev().chain(records).cloned().collect();
        let again = view(&merge(&reversed, &BTreeSet::new(), self.rules), &self.current)?;
        if again != seen {
            return Err(format!("read in another order the records show {again:?}, not {seen:?}"));
        }
        Ok(seen)
    }
}

pub(crate) fn newest(supers: &[Super; 2]) -> (u64, u64, u64) {
    supers.iter().flatten().copied().max().unwrap_or((0, 0, 0))
}

/// What several zones hold.
#[derive(Clone, Default)]
pub(crate) struct Read {
    pub records: Vec<Rc<Found>>,
    pub damage: Vec<Damage>,
    pub top: Id,
    pub ends: Vec<(u32, u64, u32)>,
}

impl Read {
    fn check_ends(&mut self, rules: Rules) {
        self.damage.extend(lost_ends(self.records.iter().map(|found| &**found), (&self.ends, &[]), rules));
    }
}

/// A zone, its opening, and the digest of its bytes.
type ZoneKey = (u32, u64, u64);

thread_local! {
    /// Zones that have been read: the same ones come up again and again.
    static ZONES: RefCell<FxHashMap<ZoneKey, Rc<Read>>> = RefCell::default();
}

/// Forgets what has been read: other rules may read other records.
pub(crate) fn forget_zones() {
    ZONES.with_borrow_mut(FxHashMap::clear);
}

fn read_zone(image: &Image, zone: &Present, rules: Rules) -> Rc<Read> {
    let digest = image.log_digests[zone.zone as usize];
    let read = || {
        let mut log = Log::default();
        let seal = Seal { secret: SECRET, opening: zone.opening, keyed: image.keyed, nonce: 0, rules };
        log.read_zone(zone.zone, seal, image.log(zone.zone as usize));
        let records = log.records.into_iter().map(Rc::new).collect();
        Rc::new(Read { records, damage: log.damage, top: log.top, ends: log.ends })
    };
    ZONES.with_borrow_mut(|zones| {
        Rc::clone(zones.entry((zone.zone, zone.opening, digest)).or_insert_with(read))
    })
}

pub(crate) fn read_log(image: &Image, zones: &[Present], rules: Rules) -> Read {
    let mut all = Read::default();
    for zone in zones {
        let read = read_zone(image, zone, rules);
        all.records.extend(read.records.iter().cloned());
        all.damage.extend_from_slice(&read.damage);
        all.ends.extend_from_slice(&read.ends);
        all.top = all.top.max(read.top);
    }
    all
}

/// What a mount of an image shows, or what is wrong with it.
pub(crate) fn show(image: &Image, rules: Rules) -> Result<View, String> {
    let seen = show_by_table(image, 0, rules)?;
    // A mount makes the copies of the table equal before it answers; otherwise the loss of the first shows the second.
    if rules.lacks(mutant::EITHER_WORD) && show_by_table(image, 1, rules)? != seen {
        return Err("after the loss of the first copy of the table another state is shown".to_owned());
    }
    Ok(seen)
}

fn show_by_table(image: &Image, table: usize, rules: Rules) -> Result<View, String> {
    if image.supers == [None, None] {
        return Err("both superblocks are torn".to_owned());
    }
    let words = image.tables[table].iter().enumerate();
    let zones = words.filter_map(|(zone, word)| {
        let word = Word::unpack(zone as u32, *word)?;
        let (zone, opening) = (zone as u32, word.opening);
        (word.usage == Use::Log).then_some(Present { zone, opening, freed: false })
    });
    let mut log = read_log(image, &zones.collect::<Vec<_>>(), rules);
    log.check_ends(rules);
    if let Some(damage) = log.damage.first() {
        return Err(format!("damage: {damage:?}"));
    }
    view(&merge(&log.records, &BTreeSet::new(), rules), image)
}

/// Checksum of a block of the model.
pub(crate) fn checksum(cells: &[u32]) -> u32 {
    crc32c::crc32c(&cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<_>>())
}

pub(crate) fn block_cells(image: &Image, place: u64) -> &[u32] {
    let from = place as usize * CELLS;
    &image.cells[from..from + CELLS]
}

fn view(tree: &Tree, image: &Image) -> Result<View, String> {
    if let Some(ino) = tree.unborn.first() {
        return Err(format!("inode {ino} has a name and no birth"));
    }
    if let Some(block) = tree.blocks_twice().first() {
        return Err(format!("two files have block {block}"));
    }
    let names = tree.names.iter().map(|name| ((name.dir, name.name[0]), name.ino)).collect();
    let mut files = BTreeMap::new();
    for (ino, inode) in tree.inodes.in_order() {
        let written = |held: &Held<Slot>| matches!(held.value, Slot::Block { unwritten: false, .. });
        let has_place = |block: &u64| inode.blocks.get(*block).is_some_and(written);
        let mut patched = inode.patches.iter().filter(|(_, patches)| !patches.is_empty());
        if let Some((block, _)) = patched.find(|(block, _)| !has_place(block)) {
            return Err(format!("records have bytes of block {block} of inode {ino}, which has no place"));
        }
        let cells = (0..inode.bytes() as usize / CELL_BYTES).map(|cell| read_cell(inode, image, cell));
        files.insert(
            ino,
            File {
                mode: inode.owner.value.0,
                uid: inode.owner.value.1,
                links: inode.links,
                cells: cells.collect::<Result<_, _>>()?,
                atime: inode.atime.value.value,
                mtime: inode.mtime.value.value,
                ctime: inode.ctime.value.value,
                born: inode.birth.value.time,
                target: inode.birth.value.target.clone(),
                xattr: inode.xattrs.values().find_map(|held| held.value.as_ref().map(|value| value[0])),
            },
        );
    }
    Ok(View { names, files })
}

/// Where the bytes of a cell lie in its block that a record with bytes has of it: those of two cells side by side.
fn cell_at(cell: usize) -> usize {
    (cell % CELLS + 1) * CELL_BYTES - if cell.is_multiple_of(CELLS) { size_of::<u32>() } else { CELL_BYTES }
}

/// The bytes of cells of one block from one on, as a record has them.
pub(crate) fn patch(cell: usize, values: &[u32]) -> Patch {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Patch { from: cell_at(cell) as u16, bytes }
}

fn cells_of(patch: &Patch) -> Vec<u32> {
    (0..CELLS).filter_map(|cell| cell_in(patch, cell)).collect()
}

/// What a record with bytes says of a cell.
fn cell_in(patch: &Patch, cell: usize) -> Option<u32> {
    let from = cell_at(cell).checked_sub(usize::from(patch.from))?;
    let bytes = patch.bytes.get(from..from + size_of::<u32>())?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

const _: () =
    assert!(CELLS == 2 && BLOCK as usize == 2 * CELL_BYTES, "two cells meet in the middle of a block");

/// Bytes of a cell.
pub(crate) const CELL_BYTES: usize = fs::crest::format::layout::BLOCK as usize / CELLS;

fn read_cell(inode: &fs::crest::format::tree::Inode, image: &Image, cell: usize) -> Result<u32, String> {
    let Some(held) = inode.blocks.get((cell / CELLS) as u64) else { return Ok(0) };
    match held.value {
        Slot::Block { place, unwritten: false, checksum: sum, .. } => {
            let cells = block_cells(image, place);
            if sum.is_some_and(|sum| sum != checksum(cells)) {
                return Err(format!("checksum of block {place}"));
            }
            let patches = inode.patches.get(&((cell / CELLS) as u64));
            let last = patches.into_iter().flatten().rev().find_map(|patch| cell_in(&patch.value, cell));
            Ok(last.unwrap_or(cells[cell % CELLS]))
        }
        _ => Ok(0),
    }
}
