//! What a mount reads: the superblock, the table of zones, every record; and what it makes of them in DRAM.
//!
//! A mount writes no record. It makes the copies of the superblock equal, and those of the words of the table, before it answers
//! the first call: what was seen must not change with a later loss of one copy.
//!
//! It does not mark its reads as those of a recovery, of which a lint wants that the crash has guaranteed them (L8): records, words
//! and superblocks have checks of their own, which tell what is whole.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use ::vfs::FileKind;
use design::{FsError, Violation};
use media::nvmm::Region;
use sim::sync::AtomicBool;
use sim::{Mutex, SpreadRwLock, TaskSpec, ran};

use super::format::damaged;
use super::fsck;
use super::image::make_void;
use super::image_load::{Image, Saved, is_named, look, zones_of_images};
use crate::ablation::Without;
use crate::calls::mapped_atomic::Unsynced;
use crate::calls::namei;
use crate::design::NAME;
use crate::format::clean::Present;
use crate::format::inline::Patch;
use crate::format::layout::{Geometry, ROOT_INO, Superblock, incompat};
use crate::format::merge::merge;
use crate::format::mutant::{self, Rules};
use crate::format::record::{AddId, Previous, Seal};
use crate::format::sieve::Facts;
use crate::format::tree::{self, Name, Slot, Tree};
use crate::format::zone::{Damage, Log, Use, Word, lost_ends};
use crate::index::cache::Cache;
use crate::index::inode::{Body, Inode, Inodes, State, now};
use crate::index::map::{BlockMap, Place};
use crate::index::sharing::Sharing;
use crate::index::sums::Sums;
use crate::store::alloc::Zones;
use crate::store::damage::{LOST, Losses};
use crate::store::frames::Frames;
use crate::store::log::Logs;
use crate::store::parity;
use crate::store::superblock;
use crate::{ORPHANS, RENAMES, Settings, Volume};
use base::dax::DirectMaps;

/// Tasks that read zones side by side, at most.
const READERS_MAX: usize = 16;

/// The superblock and the table of zones.
pub(crate) struct Table {
    pub(crate) superblock: Superblock,
    pub(crate) geometry: Geometry,
    /// The word of each zone; none: both copies are damaged.
    pub(crate) words: Vec<Option<Word>>,
    /// Zones whose copies of the word differ.
    pub(crate) differ: Vec<u32>,
}

/// An image as a mount reads it.
pub(crate) struct Loaded {
    table: Table,
    pub(crate) log: Log,
    pub(crate) tree: Tree,
}

impl Deref for Loaded {
    type Target = Table;
    fn deref(&self) -> &Table {
        &self.table
    }
}

impl Table {
    /// The log zones.
    pub(crate) fn present(&self) -> Vec<Present> {
        let words = self.words.iter().zip(0..);
        let logs = words.filter_map(|(word, zone)| {
            word.filter(|word| word.usage == Use::Log).map(|word| (zone, word.opening))
        });
        logs.map(|(zone, opening)| Present { zone, opening, freed: false }).collect()
    }
}

impl Loaded {
    /// With the tree that the records lead to.
    fn merged(mut self, rules: Rules) -> Self {
        self.tree = merge(&self.log.records, &BTreeSet::new(), rules);
        self
    }

    /// Where the log of each shard ended: its last zone.
    fn ends(&self) -> Vec<Option<Previous>> {
        let mut ends: Vec<Option<Previous>> = vec![None; self.superblock.shards as usize];
        for (zone, opening, lines) in &self.log.ends {
            let word = self.words.get(*zone as usize).copied().flatten();
            let Some(end) = word.and_then(|word| ends.get_mut(usize::from(word.shard))) else { continue };
            if end.is_none_or(|end| end.opening < *opening) {
                *end = Some(Previous { zone: *zone, opening: *opening, lines: *lines as u16 });
            }
        }
        ends
    }
}

/// Reads the superblock and the table of zones.
pub(crate) fn load_table(region: &Region) -> Result<Table, FsError> {
    let superblock = superblock::load(region)?;
    let geometry = Geometry::of(&superblock);
    let (mut words, mut differ) = (Vec::new(), Vec::new());
    for zone in 0..geometry.zones {
        // A word that cannot be read is one with a wrong check.
        let copies = geometry.words_at(zone).map(|at| region.load_u64(at).unwrap_or(0));
        let decided = Word::decide(zone, copies);
        words.push(decided.map(|(word, _)| word));
        if decided.is_some_and(|(_, differ)| differ) {
            differ.push(zone);
        }
    }
    Ok(Table { superblock, geometry, words, differ })
}

/// Reads an image, without judging it.
pub(crate) fn load(region: &Arc<Region>, rules: Rules) -> Result<Loaded, FsError> {
    Ok(load_logs(region, load_table(region)?, rules, false)?.0.merged(rules))
}

/// Reads the logs of a pool that is mounted: of the records those that may count.
fn load_sieved(region: &Arc<Region>, table: Table, rules: Rules) -> Result<Loaded, FsError> {
    let sieves = rules.sieves();
    let (mut loaded, facts) = load_logs(region, table, rules, sieves)?;
    if sieves {
        match facts.settle(&loaded.log.records) {
            Some(sieve) => loaded.log.records.retain_mut(|found| sieve.keeps(found)),
            None => loaded = load_logs(region, loaded.table, rules, false)?.0,
        }
    }
    Ok(loaded.merged(rules))
}

/// Reads the logs; with `sieves` without records about inodes that are gone, and what is known of these.
fn load_logs(
    region: &Arc<Region>,
    table: Table,
    rules: Rules,
    sieves: bool,
) -> Result<(Loaded, Facts), FsError> {
    let mut loaded = Loaded { table, log: Log::default(), tree: Tree::default() };
    let zones = loaded.present();
    let (geometry, secret) = (loaded.geometry, loaded.superblock.secret[0]);
    let read = move |region: &Region, zones: &[Present]| -> Result<(Log, Facts), FsError> {
        let mut bytes = vec![0; geometry.zone_bytes as usize];
        let (mut all, mut facts) = (Log::default(), Facts::new(&BTreeSet::new(), rules));
        for Present { zone, opening, .. } in zones {
            let (seal, mut log) =
                (Seal { secret, opening: *opening, keyed: geometry.keyed, nonce: 0, rules }, Log::default());
            parity::read_zone(region, &geometry, (*zone, seal), &mut bytes, &mut log)?;
            if sieves {
                facts.sift_zone(&mut log.records);
            }
            all.add(log);
        }
        Ok((all, facts))
    };
    let mut facts = Facts::new(&BTreeSet::new(), rules);
    for read in by_tasks(region, &loaded, &zones, read) {
        let (log, more) = read?;
        loaded.log.add(log);
        facts.add(more);
    }
    let lost: Vec<Damage> = lost_ends(loaded.log.records.iter(), &loaded.log.ends, rules);
    loaded.log.damage.extend(lost);
    Ok((loaded, facts))
}

/// What `work` answers of shares of these zones, on each of which a task works; in the order of the zones. All tasks have ended.
pub(crate) fn by_tasks<J: Clone + Send + 'static, R: Send + 'static>(
    region: &Arc<Region>,
    table: &Table,
    zones: &[J],
    work: impl Fn(&Region, &[J]) -> R + Copy + Send + 'static,
) -> Vec<R> {
    let tasks = READERS_MAX.min(table.superblock.shards as usize).max(1);
    let mut shares = zones.chunks(zones.len().div_ceil(tasks).max(1));
    let first = shares.next().unwrap_or_default();
    let spawn = |(task, share): (u16, &[J])| {
        let (region, share) = (Arc::clone(region), share.to_vec());
        let spec = TaskSpec::named(format!("crest.read {task}")).on_core(task);
        sim::spawn(spec, move || work(&region, &share))
    };
    let others: Vec<_> = (1..).zip(shares).map(spawn).collect();
    let first = work(region, first);
    std::iter::once(first).chain(others.into_iter().map(sim::JoinHandle::join)).collect()
}

/// Makes the copies of the superblock and of the words equal; says what was done.
pub(crate) fn make_equal(region: &Region, loaded: &Table) -> Result<Vec<String>, FsError> {
    let mut done = Vec::new();
    if superblock::differ(region) {
        superblock::store(region, &loaded.superblock, false)?;
        done.push("the copies of the superblock are equal again".to_owned());
    }
    for zone in &loaded.differ {
        let Some(word) = loaded.words.get(*zone as usize).copied().flatten() else { continue };
        for at in loaded.geometry.words_at(*zone) {
            region.store_u64(at, word.pack(*zone))?;
            region.flush(at, 8);
        }
    }
    if !loaded.differ.is_empty() {
        region.fence();
        done.push(format!("the copies of the words of {} zones are equal again", loaded.differ.len()));
    }
    Ok(done)
}

/// Makes the copies of superblock and words equal in a sound image; says what was done. A saved index stays.
pub(crate) fn recover(region: &Arc<Region>) -> Result<Vec<String>, FsError> {
    let loaded = load(region, Rules::ALL)?;
    refuse(&fsck::violations(&loaded))?;
    make_equal(region, &loaded)
}

/// Mounts a sound image, from its saved index if that counts, which is void from then on.
pub(crate) fn mount(region: &Arc<Region>, settings: &Settings) -> Result<Arc<Volume>, FsError> {
    let (table, rules) = (load_table(region)?, settings.rules);
    let mut losses = Losses::default();
    let trusts = rules.lacks(mutant::IMAGE_NOT_VOIDED);
    let saved = if settings.without == Without::Image { Saved::None } else { look(region, &table, trusts) };
    let is_named = is_named(region) || matches!(saved, Saved::Damaged(_));
    let zones = zones_of_images(&table);
    let from_image = match saved {
        Saved::Whole(image) => build_from_image(region, &table, settings, image),
        Saved::Damaged(why) => {
            losses.note(format!("{why}; the mount has read the logs instead, and nothing is lost"));
            None
        }
        Saved::None => None,
    };
    let volume = if let Some(volume) = from_image {
        volume
    } else {
        let loaded = load_sieved(region, table, rules)?;
        refuse(&fsck::violations(&loaded))?;
        make_equal(region, &loaded)?;
        losses.note_computed(&loaded.log.computed);
        build(region, &loaded, settings, losses)
    };
    if (is_named || !zones.is_empty()) && !trusts {
        make_void(region, &volume.geometry, &zones).map_err(damaged)?;
    }
    Ok(Arc::new(volume))
}

/// Mounts an image for reading alone, also one that is damaged, as far as there is something to show. Stores nothing.
pub(crate) fn mount_for_reading(region: &Arc<Region>, settings: &Settings) -> Result<Arc<Volume>, FsError> {
    let mut loaded = load(region, settings.rules)?;
    let mut losses = match &*fsck::violations(&loaded) {
        [] => Losses::default(),
        violations => {
            Losses::of(&loaded, violations).map_err(|what| FsError::Damaged { design: NAME, what })?
        }
    };
    // A directory shows the later of two names.
    let twice: BTreeSet<AddId> = loaded.tree.names_twice().into_iter().map(|name| name.add).collect();
    loaded.tree.names.retain(|name| !twice.contains(&name.add));
    losses.note_computed(&loaded.log.computed);
    Ok(Arc::new(build(region, &loaded, settings, losses)))
}

fn refuse(violations: &[Violation]) -> Result<(), FsError> {
    let Some(first) = violations.first() else { return Ok(()) };
    let more = violations.len() - 1;
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    let what = format!("{}{more}; `weir mount crest POOL DIR -o ro` shows what is whole", first.what);
    Err(FsError::Damaged { design: NAME, what })
}

/// The zones of a pool by its table, without blocks.
pub(crate) fn zones_of(table: &Table, settings: &Settings) -> Zones {
    let zones = Zones::new(table.geometry, table.superblock.shards as usize, settings);
    for (word, zone) in table.words.iter().zip(0..) {
        match word {
            Some(Word { usage: Use::Log, opening, .. }) => zones.set_log(zone, *opening),
            // What an image has taken is free when the pool is mounted.
            Some(Word { usage: Use::Free | Use::Image, .. }) => {}
            _ => zones.set_bad(zone),
        }
    }
    zones
}

/// The volume of a saved index; none if that is not whole after all.
pub(crate) fn build_from_image(
    region: &Arc<Region>,
    table: &Table,
    settings: &Settings,
    image: Image,
) -> Option<Volume> {
    let (zones, sums) = (zones_of(table, settings), sums_of(table));
    image.restore_zones(table, &zones)?;
    if sums.are_on() {
        image.restore_sums(table, &sums);
    }
    let logs = Logs::new(table.superblock, image.head.clock, image.ends(table)?, log_lines(table));
    let inodes = Inodes::new(Some(image.cold(sharing_of(table, settings))));
    let volume = assemble(region, table, settings, (inodes, zones, logs, sums), Losses::default());
    Some(Volume { from_image: true, ..volume })
}

/// Lines of the log zones, all of which may be dead as far as a mount knows.
fn log_lines(table: &Table) -> u64 {
    table.present().len() as u64 * u64::from(table.geometry.zone_lines())
}

fn sharing_of(table: &Table, settings: &Settings) -> Sharing {
    Sharing { shards: table.superblock.shards as u16, ..settings.sharing }
}

fn sums_of(table: &Table) -> Sums {
    Sums::new(&table.geometry, table.superblock.incompat & incompat::CHECKSUMS != 0)
}

/// The volume of an image, as far as it is sound.
pub(crate) fn build(region: &Arc<Region>, loaded: &Loaded, settings: &Settings, losses: Losses) -> Volume {
    let (sharing, sums) = (sharing_of(loaded, settings), sums_of(loaded));
    let zones = zones_of(loaded, settings);
    let inodes = Inodes::new(None);
    for state in states(loaded, &zones, &sums) {
        let parent = state.1;
        zones.add_lines(namei::lines_of(&state.0));
        if let Body::File(blocks) = &state.0.body {
            zones.change_inlines(blocks.take_change());
        }
        inodes.insert(Arc::new(Inode::new(state.0, parent, sharing)));
    }
    let logs = Logs::new(loaded.superblock, loaded.log.top.time(), loaded.ends(), log_lines(loaded));
    assemble(region, loaded, settings, (inodes, zones, logs, sums), losses)
}

/// A volume with what has been found of inodes, zones, logs and checksums.
fn assemble(
    region: &Arc<Region>,
    table: &Table,
    settings: &Settings,
    (inodes, zones, logs, sums): (Inodes, Zones, Logs, Sums),
    losses: Losses,
) -> Volume {
    let Table { superblock, geometry, .. } = table;
    let frames = Frames::new(settings.frames, superblock.shards as usize);
    let cache = Cache::new(region, geometry, (settings.admit, settings.rules), &frames);
    Volume {
        region: Arc::clone(region),
        geometry: *geometry,
        secret: superblock.secret[0],
        salt: sim::Seed(sim::seed().0 ^ now()).derive("crest.salt", superblock.generation).0,
        rules: settings.rules,
        without: settings.without,
        sharing: sharing_of(table, settings),
        mounted: superblock.openings,
        from_image: false,
        saved: AtomicBool::new(false),
        inodes,
        zones,
        logs,
        renames: SpreadRwLock::new(&RENAMES, ()),
        orphans: Mutex::new(&ORPHANS, BTreeSet::new()),
        maps: DirectMaps::default(),
        unsynced: Unsynced::default(),
        maps_atomically: settings.maps_atomically,
        frames,
        cache,
        words: settings.words,
        // Only where other code expects them.
        inlines: superblock.incompat & incompat::INLINE != 0 && settings.takes_inlines(),
        sums,
        losses,
    }
}

/// The inodes of an image, each with the directory above it.
fn states(loaded: &Loaded, zones: &Zones, sums: &Sums) -> Vec<(State, u64)> {
    let tree = &loaded.tree;
    let twice = tree.blocks_twice();
    let state = |(ino, inode)| (state_of(ino, inode, map_of(inode, zones, sums, &twice)), ROOT_INO);
    let mut all: Vec<(State, u64)> = tree.inodes.iter().map(state).collect();
    let mut known = (ROOT_INO, tree.inodes.position(ROOT_INO));
    for Name { dir, ino, name, add, .. } in &tree.names {
        // A name whose inode has lost its birth is shown, in a pool that is mounted for reading alone.
        let child = tree.inodes.position(*ino).and_then(|at| all.get_mut(at));
        let is_dir = child.is_some_and(|(child, parent)| {
            *parent = *dir;
            child.is_dir()
        });
        zones.add_lines(namei::name_lines(name));
        if known.0 != *dir {
            known = (*dir, tree.inodes.position(*dir));
        }
        let Some((state, _)) = known.1.and_then(|at| all.get_mut(at)) else { continue };
        if is_dir {
            state.links += 1;
        }
        if let Ok(dir) = state.names() {
            dir.insert(name, *ino, *add);
        }
    }
    all
}

fn state_of(ino: u64, inode: &tree::Inode, blocks: BlockMap) -> State {
    let (mode, uid, gid) = inode.owner.value;
    // The kind is that of the birth: no call changes it.
    let mode = u32::from(inode.birth.value.mode & 0o170_000 | mode & 0o7777);
    let (links, body) = match FileKind::from_mode(mode) {
        Some(FileKind::Directory) => (2, Body::Dir(Arc::default())),
        Some(FileKind::Regular) => (inode.links, Body::File(blocks)),
        Some(FileKind::Symlink) => (inode.links, Body::Symlink(inode.birth.value.target.as_slice().into())),
        _ => (inode.links, Body::Node),
    };
    let xattrs = inode
        .xattrs
        .iter()
        .filter_map(|(name, held)| Some((ran::copied(name), ran::copied(held.value.as_ref()?))));
    State {
        mode,
        uid,
        gid,
        rdev: inode.birth.value.rdev,
        links,
        size: inode.bytes(),
        birth: inode.birth.value.time,
        atime: inode.atime.value,
        mtime: inode.mtime.value,
        ctime: inode.ctime.value,
        xattrs: xattrs.collect(),
        ..State::new(ino, body)
    }
}

/// Where the blocks of a file lie; those that cannot be found are lost.
fn map_of(inode: &tree::Inode, zones: &Zones, sums: &Sums, twice: &BTreeSet<u64>) -> BlockMap {
    let mut blocks = BlockMap::default();
    for (file, held) in inode.blocks.iter() {
        let Slot::Block { place, unwritten, checksum, .. } = held.value else { continue };
        if twice.contains(&place) || !zones.mark(place) {
            blocks.set(file, Some(Place { block: LOST, unwritten: false }));
            continue;
        }
        if let Some(sum) = checksum {
            sums.found(place, sum);
        }
        blocks.set(file, Some(Place { block: place, unwritten }));
    }
    for (file, patches) in &inode.patches {
        if blocks.get(*file).is_some_and(|place| !place.unwritten) {
            for Patch { from, bytes } in patches.iter().map(|held| &held.value) {
                blocks.patch(*file, usize::from(*from), bytes);
            }
        }
    }
    blocks
}

/// What is wrong, in words.
pub(crate) fn describe(damage: &Damage) -> String {
    match damage {
        Damage::Gap { zone, line } => format!("zone {zone}: line {line} holds no record, but later lines do"),
        Damage::LostEnd { zone, lines } => {
            format!("zone {zone}: records are missing before line {lines}, where its log ended")
        }
        Damage::UnknownKind { zone, line, kind } => {
            format!(
                "zone {zone}: the record at line {line} is of the unknown kind {kind}; newer code wrote it"
            )
        }
        Damage::Malformed { zone, line } => {
            format!("zone {zone}: the record at line {line} has a field out of range")
        }
    }
}

/// The zone of a damage.
pub(crate) fn zone_of(damage: &Damage) -> u32 {
    match damage {
        Damage::Gap { zone, .. }
        | Damage::LostEnd { zone, .. }
        | Damage::UnknownKind { zone, .. }
        | Damage::Malformed { zone, .. } => *zone,
    }
}
