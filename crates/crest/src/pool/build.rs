//! The volume that a mount makes of what it has read.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::dax::DirectMaps;
use media::nvmm::Region;
use sim::sync::AtomicBool;
use sim::{Mutex, SpreadRwLock, ran};
use vfs::FileKind;

use super::Settings;
use super::loaded::Loaded;
use super::saved::SavedIndex;
use crate::ablation::Without;
use crate::calls::Volume;
use crate::format::inline::Patch;
use crate::format::layout::{ROOT_INO, incompat};
use crate::format::record;
use crate::format::tree::{self, Name, Slot};
use crate::format::zone::Found;
use crate::index::Index;
use crate::index::cache::Cache;
use crate::index::inode::{Attribute, Body, Changes, Inode, State, now};
use crate::index::inodes::Inodes;
use crate::index::lines::{lines_of, name_lines};
use crate::index::map::{BlockMap, Place};
use crate::index::mapped_pages::MappedPages;
use crate::index::sharing::Sharing;
use crate::index::sums::Sums;
use crate::locks;
use crate::store::Store;
use crate::store::alloc::Zones;
use crate::store::damage::{LOST, Losses};
use crate::store::frames::Frames;
use crate::store::log::Logs;
use crate::store::steps::Steps;
use crate::store::zone_table::Table;

/// The volume of a saved index; none if that is not whole after all.
pub(crate) fn build_from_saved(
    region: &Arc<Region>,
    table: &Table,
    settings: &Settings,
    saved: SavedIndex,
) -> Option<Volume> {
    let (zones, sums) = (table.zones(settings.frames.dirty(), settings.rules), sums_of(table));
    saved.restore_zones(table, &zones)?;
    if sums.are_on() {
        saved.restore_sums(table, &sums);
    }
    let logs = Logs::new(table.superblock, saved.head.clock, saved.ends(table)?, log_lines(table));
    let inodes = Inodes::new(Some(saved.cold(sharing_of(table, settings))));
    let built = (inodes, zones, logs, sums);
    let mut volume = assemble(region, table, settings, built, (Losses::default(), true));
    volume.index.store.from_saved = true;
    Some(volume)
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
    let zones = loaded.zones(settings.frames.dirty(), settings.rules);
    let inodes = Inodes::new(None);
    for state in states(loaded, &zones, &sums) {
        let parent = state.1;
        zones.add_lines(lines_of(&state.0));
        if let Body::File(blocks) = &state.0.body {
            zones.change_inlines(blocks.take_change());
        }
        inodes.insert(Arc::new(Inode::new(state.0, parent, sharing)));
    }
    let logs = Logs::new(loaded.superblock, loaded.log.top.time(), loaded.ends(), log_lines(loaded));
    let voids = loaded.log.records.iter().any(|found| matches!(found.record.body, record::Body::Void(_)));
    assemble(region, loaded, settings, (inodes, zones, logs, sums), (losses, !voids))
}

/// A volume with what has been found of inodes, zones, logs and checksums. `steps`: whether its log may be cleaned in steps.
fn assemble(
    region: &Arc<Region>,
    table: &Table,
    settings: &Settings,
    (inodes, zones, logs, sums): (Inodes, Zones, Logs, Sums),
    (losses, steps): (Losses, bool),
) -> Volume {
    let Table { superblock, geometry, .. } = table;
    let frames = Frames::new(settings.frames, superblock.shards as usize);
    let cache = Cache::new(region, geometry, (settings.admit, settings.rules), &frames);
    let store = Store {
        region: Arc::clone(region),
        geometry: *geometry,
        secret: superblock.secret[0],
        salt: sim::Seed(sim::seed().0 ^ now()).derive("crest.salt", superblock.generation).0,
        rules: settings.rules,
        without: settings.without,
        mounted: superblock.openings,
        from_saved: false,
        saved: AtomicBool::new(false),
        zones,
        logs,
        orphans: Mutex::new(&locks::ORPHANS, BTreeSet::new()),
        frames,
        losses,
        steps: Steps::new(superblock.shards as usize, steps && settings.without != Without::Steps),
    };
    let mapped = MappedPages::default();
    let index = Index { store, sharing: sharing_of(table, settings), inodes, sums, cache, mapped };
    Volume {
        index,
        renames: SpreadRwLock::new(&locks::RENAMES, ()),
        maps: DirectMaps::default(),
        maps_atomically: settings.maps_atomically,
        words: settings.words,
        // Only where other code expects them.
        inlines: superblock.incompat & incompat::INLINE != 0 && settings.takes_inlines(),
    }
}

/// The inodes of an image, each with the directory above it.
fn states(loaded: &Loaded, zones: &Zones, sums: &Sums) -> Vec<(State, u64)> {
    let tree = &loaded.tree;
    let twice = tree.blocks_twice();
    let state = |(ino, inode)| {
        let attributes = changes_of(inode, &loaded.log.records);
        let records = &*loaded.log.records;
        let state = state_of((ino, inode), records, map_of(inode, records, zones, (sums, &twice)));
        (State { attributes, ..state }, ROOT_INO)
    };
    let mut all: Vec<(State, u64)> = tree.inodes.in_order().map(state).collect();
    let mut known = (ROOT_INO, tree.inodes.position(ROOT_INO));
    for Name { dir, ino, name, add, .. } in &tree.names {
        // A name whose inode has lost its birth is shown, in a pool that is mounted for reading alone.
        let child = tree.inodes.position(*ino).and_then(|at| all.get_mut(at));
        let is_dir = child.is_some_and(|(child, parent)| {
            *parent = *dir;
            child.is_dir()
        });
        zones.add_lines(name_lines(name));
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

/// When the records of an inode last set its owner and made it shorter, if any did after its birth.
fn changes_of(inode: &tree::Inode, records: &[Found]) -> Option<Box<Changes>> {
    let time = |by: usize| records.get(by).map_or(0, |found| found.record.id.time());
    let owner = if inode.owner.by == inode.birth.by { 0 } else { time(inode.owner.by) };
    let cut = inode.cuts.last().map_or(0, |(by, _)| time(*by));
    (owner > 0 || cut > 0).then(|| Box::new(Changes { owner, cut }))
}

fn state_of((ino, inode): (u64, &tree::Inode), records: &[Found], blocks: BlockMap) -> State {
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
        .filter_map(|(name, held)| Some((ran::copied(name), ran::copied(held.value.as_ref()?), held.by)));
    let since = |by: usize| records.get(by).map_or(0, |found| found.record.id.time());
    let xattrs = xattrs.map(|(name, value, by)| (name, Attribute { value, since: since(by) }));
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
fn map_of(
    inode: &tree::Inode,
    records: &[Found],
    zones: &Zones,
    (sums, twice): (&Sums, &BTreeSet<u64>),
) -> BlockMap {
    let mut blocks = BlockMap::default();
    for (file, held) in inode.blocks.in_order() {
        let Slot::Block { place, unwritten, checksum, cloned } = held.value else { continue };
        if twice.contains(&place) || !zones.mark(place) {
            blocks.set(file, Some(Place { block: LOST, unwritten: false }));
            continue;
        }
        let by = records.get(held.by).filter(|_| !cloned && zones.references(place) <= 1);
        zones.place(place, by.map(|found| found.record.id.time()));
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
