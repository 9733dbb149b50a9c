//! What a mount reads: the superblock, the table of zones, every record; and what it makes of them in DRAM.
//!
//! A mount writes no record. It makes the copies of the superblock equal, and those of the words of the table, before it answers
//! the first call: what was seen must not change with a later loss of one copy.
//!
//! It does not mark its reads as those of a recovery, of which a lint wants that the crash has guaranteed them (L8): records, words
//! and superblocks have checks of their own, which tell what is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ::vfs::FileKind;
use design::FsError;
use media::nvmm::Region;
use sim::sync::AtomicU32;
use sim::{Mutex, SpreadRwLock, ran};

use super::alloc::Zones;
use super::cache::Cache;
use super::clean::Present;
use super::damage::{LOST, Losses};
use super::design::NAME;
use super::frames::Frames;
use super::fsck;
use super::inode::{Body, Inode, Inodes, State};
use super::layout::{Geometry, ROOT_INO, Superblock, incompat};
use super::log::Logs;
use super::map::{BlockMap, Place};
use super::merge::{self, Slot, Tree, merge};
use super::mutant::Rules;
use super::namei;
use super::record::{Previous, Seal};
use super::sharing::Sharing;
use super::sums::Sums;
use super::superblock;
use super::zone::{Damage, Log, Use, Word, lost_ends};
use super::{ORPHANS, RENAMES, Settings, Volume};
use crate::dax::DirectMaps;
use crate::persist::checksum::charge_for;

/// An image as a mount reads it.
pub(super) struct Loaded {
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    /// The word of each zone; none: both copies are damaged.
    pub(super) words: Vec<Option<Word>>,
    /// Zones whose copies of the word differ.
    pub(super) differ: Vec<u32>,
    pub(super) log: Log,
    pub(super) tree: Tree,
}

impl Loaded {
    /// The log zones.
    pub(super) fn present(&self) -> Vec<Present> {
        let words = self.words.iter().zip(0..);
        let logs = words.filter_map(|(word, zone)| {
            word.filter(|word| word.usage == Use::Log).map(|word| (zone, word.opening))
        });
        logs.map(|(zone, opening)| Present { zone, opening, freed: false }).collect()
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

/// Reads an image, without judging it.
pub(super) fn load(region: &Region, rules: Rules) -> Result<Loaded, FsError> {
    let superblock = superblock::load(region)?;
    let geometry = Geometry::new(superblock.size, superblock.made);
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
    let mut loaded =
        Loaded { superblock, geometry, words, differ, log: Log::default(), tree: Tree::default() };
    let mut bytes = vec![0; geometry.zone_bytes as usize];
    for Present { zone, opening, .. } in loaded.present() {
        load_zone(region, geometry.zone_at(zone), &mut bytes)?;
        charge_for(bytes.len());
        let seal = Seal { secret: superblock.secret[0], opening, rules };
        loaded.log.read_zone(zone, seal, &bytes);
    }
    let lost: Vec<Damage> = lost_ends(loaded.log.records.iter(), &loaded.log.ends, rules);
    loaded.log.damage.extend(lost);
    loaded.tree = merge(&loaded.log.records, &BTreeSet::new(), rules);
    Ok(loaded)
}

/// Reads a zone; lines that the medium refuses read as zeros, and so are gaps.
fn load_zone(region: &Region, at: u64, bytes: &mut [u8]) -> Result<(), FsError> {
    if region.load(at, bytes).is_ok() {
        return Ok(());
    }
    let mut refused = None;
    for (line, part) in bytes.chunks_mut(super::layout::LINE).enumerate() {
        if let Err(error) = region.load(at + (line * super::layout::LINE) as u64, part) {
            part.fill(0);
            refused = Some(error);
        }
    }
    // Where nothing can be read, the medium is what failed.
    match refused {
        Some(error) if bytes.iter().all(|byte| *byte == 0) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes the copies of the superblock and of the words equal; says what was done.
pub(super) fn make_equal(region: &Region, loaded: &Loaded) -> Result<Vec<String>, FsError> {
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

/// Mounts a sound image; says what its recovery has done. `part`: also a damaged one, for reading alone, and stores nothing then.
pub(super) fn mount(
    region: &Arc<Region>,
    settings: &Settings,
    part: bool,
) -> Result<(Arc<Volume>, Vec<String>), FsError> {
    let loaded = load(region, settings.rules)?;
    let violations = fsck::violations(&loaded);
    let Some(first) = violations.first() else {
        let done = make_equal(region, &loaded)?;
        return Ok((Arc::new(build(region, &loaded, settings, Losses::default())), done));
    };
    let damaged = |what| Err(FsError::Damaged { design: NAME, what });
    if part {
        return match Losses::of(&loaded, &violations) {
            Ok(losses) => Ok((Arc::new(build(region, &loaded, settings, losses)), Vec::new())),
            Err(what) => damaged(what),
        };
    }
    let more = violations.len() - 1;
    let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
    damaged(format!("{}{more}; `weir mount crest POOL DIR -o ro` shows what is whole", first.what))
}

/// The volume of an image, as far as it is sound.
pub(super) fn build(region: &Arc<Region>, loaded: &Loaded, settings: &Settings, losses: Losses) -> Volume {
    let (Loaded { superblock, geometry, .. }, rules) = (loaded, settings.rules);
    let sharing = Sharing { shards: superblock.shards as u16, ..settings.sharing };
    let sums = Sums::new(geometry, superblock.incompat & incompat::CHECKSUMS != 0);
    let zones = Zones::new(region, *geometry, superblock.shards as usize, settings);
    for (word, zone) in loaded.words.iter().zip(0..) {
        match word {
            Some(Word { usage: Use::Log, opening, .. }) => zones.set_log(zone, *opening),
            Some(Word { usage: Use::Free, .. }) => {}
            _ => zones.set_bad(zone),
        }
    }
    let frames = Frames::new(settings.frames, superblock.shards as usize);
    let cache = Cache::new(region, geometry, (settings.admit, rules), &frames);
    let inodes = Inodes::new();
    for state in states(loaded, &zones, &sums) {
        let parent = state.1;
        zones.add_lines(namei::lines_of(&state.0));
        inodes.insert(Arc::new(Inode::new(state.0, parent, sharing)));
    }
    let clock = loaded.log.top.time();
    Volume {
        region: Arc::clone(region),
        geometry: *geometry,
        secret: superblock.secret[0],
        rules,
        without: settings.without,
        sharing,
        mounted: superblock.openings,
        inodes,
        zones,
        logs: Logs::new(*superblock, clock, loaded.ends()),
        renames: SpreadRwLock::new(&RENAMES, ()),
        orphans: Mutex::new(&ORPHANS, BTreeSet::new()),
        maps: DirectMaps::default(),
        frames,
        cache,
        words: settings.words,
        sums,
        losses,
    }
}

/// The inodes of an image, each with the directory above it.
fn states(loaded: &Loaded, zones: &Zones, sums: &Sums) -> Vec<(State, u64)> {
    let mut all: BTreeMap<u64, (State, u64)> = BTreeMap::new();
    let twice = loaded.tree.blocks_twice();
    for (ino, inode) in &loaded.tree.inodes {
        let blocks = map_of(inode, zones, sums, &twice);
        all.insert(*ino, (state_of(*ino, inode, blocks), ROOT_INO));
    }
    for ((dir, name), held) in &loaded.tree.names {
        let ino = held.value.ino;
        // A name whose inode has lost its birth is shown, in a pool that is mounted for reading alone.
        let is_dir = all.get_mut(&ino).is_some_and(|(child, parent)| {
            *parent = *dir;
            child.is_dir()
        });
        zones.add_lines(namei::name_lines(name));
        let Some((state, _)) = all.get_mut(dir) else { continue };
        if is_dir {
            state.links += 1;
        }
        if let Ok(dir) = state.names() {
            dir.insert(name, ino, held.value.add);
        }
    }
    all.into_values().collect()
}

fn state_of(ino: u64, inode: &merge::Inode, blocks: BlockMap) -> State {
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
        ino,
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
        accessed: false,
        last: 0,
        opens: AtomicU32::new(0),
        nameless: false,
        shared: false,
        changes: 0,
        changer: u32::MAX,
        xattrs: xattrs.collect(),
        body,
        buffer: None,
    }
}

/// Where the blocks of a file lie; those that cannot be found are lost.
fn map_of(inode: &merge::Inode, zones: &Zones, sums: &Sums, twice: &BTreeSet<u64>) -> BlockMap {
    let mut blocks = BlockMap::default();
    for (file, held) in &inode.blocks {
        let Slot::Block { place, unwritten, checksum, .. } = held.value else { continue };
        if twice.contains(&place) || !zones.mark(place) {
            blocks.set(*file, Some(Place { block: LOST, unwritten: false }));
            continue;
        }
        if let Some(sum) = checksum {
            sums.found(place, sum);
        }
        blocks.set(*file, Some(Place { block: place, unwritten }));
    }
    blocks
}

/// What is wrong, in words.
pub(super) fn describe(damage: &Damage) -> String {
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
pub(super) fn zone_of(damage: &Damage) -> u32 {
    match damage {
        Damage::Gap { zone, .. }
        | Damage::LostEnd { zone, .. }
        | Damage::UnknownKind { zone, .. }
        | Damage::Malformed { zone, .. } => *zone,
    }
}
