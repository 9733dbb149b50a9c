//! Repair, as e2fsck does it: by a mount, of an image that was not unmounted and has no journal; and of any image when a person
//! asks for it (`weir fsck --repair`).
//!
//! | pass | does |
//! |---|---|
//! | `reading` | finds out which superblock counts, and where bitmaps and tables lie |
//! | `hints` | finds out how much of each inode table was used, whatever the descriptors say |
//! | `blocks` | counts the blocks that the medium cannot use |
//! | | drops pointers and extents that lead nowhere, inodes of no kind, and attributes that are not sound |
//! | | what lies beyond the end of a file: a mount drops it, a person's repair makes the file longer |
//! | | counts how often each block is used |
//! | | copies a block that two inodes have, for all but one of them; writes damaged trees of extents anew |
//! | `groups` | finds new places for bitmaps and tables that lie where they cannot |
//! | `root` | makes a root directory where there is none |
//! | here | writes the bitmaps, descriptors and counts anew |
//! | `journal` | finds a journal again whose inode is damaged; makes one anew that no mount takes |
//! | `names` | cuts directory blocks off where their records end to make sense |
//! | | drops names that lead to nothing, a second time to a directory, or that occur twice |
//! | | lets a directory whose index misses a name go without one |
//! | | puts what has no name, and directories that cannot be reached, into `lost+found`; sets `..` and counts links |
//!
//! An inode without links is free, whatever else it says; so is one with a wrong checksum that the bitmap does not have in use.
//!
//! # What a repair never does
//!
//! It makes no inode table, root directory or journal anew while something that looks like it lies where the image says, where a
//! backup says, or where the layout has it: `reading` looks there first, and weighs what it finds. A repair that a person asks for
//! is made in memory (`overlay`), and the names of the image before and after it are compared (`loss`). One that would lose more
//! than the rules of e2fsck allow is not carried out unless the person says so (`weir fsck --repair --force-loss`); `weir fsck
//! --dry-run` tells what would be done and lost.
//!
//! Everything is changed in the cache and written at the end, the superblock last: a crash meanwhile leaves an image that a repair
//! makes sound, too.
//!
//! Source: e2fsck(8) and the passes that its sources describe.

mod blocks;
mod groups;
mod hints;
mod journal;
mod kinds;
mod loss;
mod names;
mod overlay;
mod reading;
mod records;
mod root;
mod weight;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use media::block::BlockDevice;
use sim::Run;

use super::fields::Needed;
use super::groups::{Groups, bit, set_bit, set_padding};
use super::inode::{Inode, InodeState};
use super::journal::Handle;
use super::journal::recovery::Care;
use super::layout::{
    GroupDescriptor, ROOT_INO, STATE_ERRORS, SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, compat, crc32c, group_flag,
    incompat,
};
use super::{Settings, Volume, damaged, fsck, orphan_file};
use base::error::{Error, Result};
use base::name_tree::NameTree;
use design::FsError;
use loss::{Census, Losses};
use overlay::Overlay;

static INODE: sim::LockClass = sim::LockClass::new("ext4.repaired_inode");

/// How often an image is repaired until nothing is wrong.
const MOST_ROUNDS: usize = 3;
/// How often a block of metadata counts as used.
const METADATA: u8 = u8::MAX;

struct Repair<'a> {
    volume: &'a Volume,
    handle: Handle<'a>,
    /// A person asks for it: the damage need not be that of a crash.
    asked: bool,
    /// The kernel's file of orphans, where the number that the superblock has leads to one.
    orphan_file: Option<u64>,
    /// What is wrong with the journal, when it is to be made anew.
    lost_journal: Option<String>,
    /// Inode 7 is to be made anew.
    lost_resize_inode: bool,
    /// How often each block is used.
    counts: Vec<u8>,
    /// How many inodes of each group may be in use.
    used_inodes: Vec<u32>,
    /// Blocks before this one are in use.
    first_free: usize,
    /// Inodes whose tree of extents is to be written anew.
    broken: BTreeSet<u64>,
    /// Directories that have no block.
    empty: BTreeSet<u64>,
    /// Features that the inodes in use need.
    needed: Needed,
    /// Directories with pointers that have holes.
    holed: BTreeSet<u64>,
    /// Something else lies over metadata.
    over_metadata: bool,
    /// The inodes in use; where the record of a name lies: block and offset.
    tree: NameTree<(u64, usize)>,
    /// References to blocks of attributes.
    attributes: BTreeMap<u64, u32>,
    /// What was mended, and how often.
    mended: BTreeMap<&'static str, u64>,
    /// What became of a journal that was made anew.
    journal_note: Option<String>,
}

/// Repairs an image that has been recovered, because a person asks for it; says what was done. What it loses beyond the rules of
/// `loss.rs` it loses only if that is said: otherwise nothing is changed.
pub(super) fn ask(
    device: &Arc<dyn BlockDevice>,
    settings: &Settings,
    at_any_loss: bool,
) -> Result<Vec<String>, FsError> {
    let overlay = Overlay::new(device);
    let journal = settings.journal_device.as_ref().map(Overlay::new);
    let tried: Arc<dyn BlockDevice> = overlay.clone();
    let beside = journal.clone().map(|journal| -> Arc<dyn BlockDevice> { journal });
    let (mut done, losses) = try_on(&tried, &Settings { journal_device: beside, ..settings.clone() })?;
    if losses.is_more_than_rules_allow() && !at_any_loss {
        return Err(FsError::WouldLose { what: losses.refusal(&done) });
    }
    if losses.names > 0 {
        done.push(format!("{} names lost", losses.names));
    }
    // What says that a log is empty, and that all is well, comes when that is so.
    let superblock = SUPERBLOCK_OFFSET..SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES as u64;
    let log = log_begins(&tried)?;
    let is_last = |at: u64| superblock.contains(&at) || log.as_ref().is_some_and(|log| log.contains(&at));
    overlay.carry_out(|at| !is_last(at))?;
    if let Some(journal) = journal {
        journal.carry_out(|_| true)?;
    }
    overlay.carry_out(|_| true)?;
    Ok(done)
}

/// The bytes of the superblock of a journal in the image.
fn log_begins(device: &Arc<dyn BlockDevice>) -> Result<Option<Range<u64>>, FsError> {
    let volume = Volume::open(device, Settings { repairs: true, ..Settings::default() })?;
    if volume.superblock.lock().journal_inum.get() == 0 {
        return Ok(None);
    }
    let first = volume.find_journal().ok().and_then(|place| place.map.0.first().copied());
    let block_bytes = u64::from(volume.geo.block_bytes);
    Ok(first.map(|first| first * block_bytes..(first + 1) * block_bytes))
}

/// Repairs in place; what was done and what it lost.
fn try_on(device: &Arc<dyn BlockDevice>, settings: &Settings) -> Result<(Vec<String>, Losses), FsError> {
    let open = || Volume::open(device, Settings { repairs: true, ..settings.clone() });
    let mut done = reading::settle(device)?;
    let replayed = replay(device, settings)?;
    if !replayed.is_empty() {
        done.extend(replayed);
        // The log may have descriptors.
        done.extend(reading::settle(device)?);
    }
    if let Some(ino) = crate::xattr::value_inode(&open()?) {
        let what = format!(
            "the image uses ea_inode, which weir does not support: inode {ino} keeps the value of an attribute, although the \
             superblock lacks the feature; e2fsck gives it"
        );
        return Err(FsError::Unsupported { what });
    }
    let before = Census::of(&open()?);
    done.extend(groups::place(device, settings)?);
    if open()?.journal_has_stale_words() {
        open()?.clear_stale_journal_words()?;
        done.push("words of another version cleared in the superblock of the journal".to_owned());
    }
    // What one repair gives up may leave another something, as e2fsck begins anew.
    for _ in 0..MOST_ROUNDS {
        done.extend(repair(&open()?, true).map_err(damaged)?);
        if fsck::check(device, None, settings.journal_device.is_some()).violations.is_empty() {
            break;
        }
    }
    Ok((done, before.lost_in(&Census::of(&open()?))))
}

/// Replays what is sound of a log that the recovery before the repair could not, or not wholly, replay; says what was done.
fn replay(device: &Arc<dyn BlockDevice>, settings: &Settings) -> Result<Vec<String>, FsError> {
    let open = || Volume::open(device, Settings { repairs: true, ..settings.clone() });
    let mut done: Vec<String> = journal::restore(device, settings)?.into_iter().collect();
    let volume = open()?;
    let waits = volume.superblock.lock().has_incompat(incompat::RECOVER);
    if waits && volume.find_journal().is_ok() && volume.journal_fault().is_ok() && volume.check_log().is_ok()
    {
        let mounted = Volume::mount(device, settings.clone()).and_then(|volume| {
            volume.unmount().map_err(damaged)?;
            Ok(volume.notes.clone())
        });
        match mounted {
            Ok(notes) => done.extend(notes),
            // Something else is wrong, too.
            Err(_) => done.extend(volume.recover_journal(&volume.find_journal()?, Care::Salvage)?.0.note()),
        }
    }
    done.extend(open()?.salvage_log()?);
    Ok(done)
}

/// Makes an image sound. The volume was opened to be repaired and not mounted; open it again afterwards. Returns what was done,
/// in words. `asked`: by a person, not by a mount after a crash.
pub(super) fn repair(volume: &Volume, asked: bool) -> Result<Vec<String>> {
    if volume.groups.lock().descriptors.iter().any(groups::is_incomplete) {
        return Err(Error::Corrupt(
            "descriptors of groups are not possible; run `weir fsck --repair`".to_owned(),
        ));
    }
    let mut repair = Repair::new(volume, asked)?;
    repair.judge_hints();
    repair.count_metadata();
    repair.mend_blocks()?;
    if !asked && !repair.tree.is_dir(ROOT_INO) {
        return Err(Error::Corrupt("the root is no directory; run `weir fsck --repair`".to_owned()));
    }
    repair.mend_root()?;
    repair.write_maps()?;
    repair.mend_names()?;
    if let Some(what) = repair.lost_journal.take() {
        repair.make_journal(&what)?;
    }
    repair.empty_orphan_file()?;
    volume.write_metadata()?;
    // Only what is durable may be called clean.
    volume.device.flush()?;
    repair.mend_superblock();
    volume.leave_clean()?;
    volume.device.flush()?;
    let mended = repair.mended.iter().map(|(what, count)| format!("{count} {what}"));
    Ok(mended.chain(repair.journal_note).collect())
}

impl<'a> Repair<'a> {
    fn new(volume: &'a Volume, asked: bool) -> Result<Self> {
        Ok(Self {
            volume,
            handle: Handle::none(),
            asked,
            orphan_file: volume.geo.orphan_file.filter(|number| orphan_file::holds_orphans(volume, *number)),
            lost_journal: if asked { journal::lost(volume)? } else { None },
            lost_resize_inode: false,
            counts: vec![0; volume.geo.blocks as usize],
            used_inodes: Vec::new(),
            first_free: 0,
            broken: BTreeSet::new(),
            holed: BTreeSet::new(),
            empty: BTreeSet::new(),
            needed: Needed::default(),
            over_metadata: false,
            tree: NameTree::new(ROOT_INO),
            attributes: BTreeMap::new(),
            mended: BTreeMap::new(),
            journal_note: None,
        })
    }
}

impl Repair<'_> {
    fn note(&mut self, what: &'static str) {
        *self.mended.entry(what).or_default() += 1;
    }

    /// What the kernel's file of orphans led to has a name now, or is free.
    fn empty_orphan_file(&mut self) -> Result<()> {
        if let Some(number) = self.orphan_file
            && self.volume.empty_orphan_file(&self.handle, number)?
        {
            self.note("files of orphans emptied");
        }
        Ok(())
    }

    /// Whether an inode belongs to the file system itself.
    fn is_special(&self, ino: u64) -> bool {
        ino < self.volume.geo.first_ino && ino != ROOT_INO || self.orphan_file == Some(ino)
    }

    /// Everything without a name has one now, or is free; and a person knows of the errors.
    fn mend_superblock(&mut self) {
        if self.asked && !self.needed.missing(self.volume).is_empty() {
            self.note("features set that files use");
            self.needed.set(self.volume);
        }
        if self.orphan_file != self.volume.geo.orphan_file {
            self.note("files of orphans given up");
        }
        let mut superblock = self.volume.superblock.lock();
        let orphans = superblock.last_orphan.get() != 0;
        superblock.last_orphan = 0.into();
        superblock.leave_orphan_file();
        if self.orphan_file.is_none() {
            superblock.orphan_file_inum = 0.into();
            superblock.feature_compat = (superblock.feature_compat.get() & !compat::ORPHAN_FILE).into();
        }
        if self.asked && superblock.state.get() & STATE_ERRORS != 0 {
            superblock.state = (superblock.state.get() & !STATE_ERRORS).into();
            superblock.error_count = 0.into();
            superblock.error_log = Default::default();
        }
        drop(superblock);
        if orphans {
            self.note("lists of orphans emptied");
        }
    }

    fn count_metadata(&mut self) {
        let geo = &self.volume.geo;
        let descriptors = self.volume.groups.lock().descriptors.clone();
        let mut taken = vec![Run::new(0, geo.first_data_block + 1)];
        for (group, descriptor) in (0..).zip(&descriptors) {
            taken.push(Run::new(geo.group_start(group), u64::from(geo.base_blocks(group))));
            let own = [
                Run::new(descriptor.block_bitmap(), 1),
                Run::new(descriptor.inode_bitmap(), 1),
                Run::new(descriptor.inode_table(), u64::from(geo.table_blocks())),
            ];
            taken.extend(own.into_iter().filter(|run| run.first > 0));
        }
        for run in taken {
            let end = run.end().min(geo.blocks);
            self.counts[run.first as usize..end as usize].fill(METADATA);
        }
    }

    /// An inode of the table as the code of a mounted file system takes it; it is in no cache.
    fn inode(&self, ino: u64) -> Result<Inode> {
        let (raw, extra) = self.volume.read_inode(ino)?;
        Ok(Inode::alone(ino, &INODE, InodeState::of(raw, extra)))
    }

    /// Writes bitmaps, descriptors and counts of what is in use.
    fn write_maps(&mut self) -> Result<()> {
        let (volume, geo) = (self.volume, &self.volume.geo);
        let mut descriptors = volume.groups.lock().descriptors.clone();
        let mut changed = false;
        for (group, descriptor) in (0..geo.groups).zip(&mut descriptors) {
            let blocks = self.block_bits(group);
            let inodes = self.inode_bits(group);
            let count = |bits: &[u8], end: u32| (0..end).filter(|at| !bit(bits, *at)).count() as u32;
            descriptor.set_free_blocks(count(&blocks, geo.group_blocks(group)));
            descriptor.set_free_inodes(count(&inodes, geo.inodes_per_group));
            descriptor.set_used_dirs(self.directories_in(group));
            self.raise_hint(descriptor, &inodes);
            descriptor.clear(group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT);
            if !geo.gdt_csum {
                descriptor.set_itable_unused(0);
            }
            if geo.metadata_csum {
                let sum = |bits: &[u8], len: u32| crc32c(geo.checksum_seed, &bits[..len as usize / 8]);
                descriptor.set_block_bitmap_csum(sum(&blocks, geo.blocks_per_group));
                descriptor.set_inode_bitmap_csum(sum(&inodes, geo.inodes_per_group));
            }
            for (at, bits) in [(descriptor.block_bitmap(), &blocks), (descriptor.inode_bitmap(), &inodes)] {
                if !volume.look(at, |old| old == &bits[..])? {
                    changed = true;
                    volume.change(&self.handle, at, |old| old.copy_from_slice(bits))?;
                }
            }
            let (at, offset) = geo.descriptor_at(group);
            let is_stored = volume.look(at, |bytes| {
                let mut right = bytes.to_vec();
                geo.store_descriptor(group, descriptor, &mut right[offset..]);
                right == bytes
            });
            if !is_stored? {
                changed = true;
                volume.store_group(&self.handle, group, descriptor)?;
            }
        }
        *volume.groups.lock() = Groups::new(descriptors, &volume.space);
        if changed {
            self.note("times bitmaps and counts");
        }
        Ok(())
    }

    /// The inodes that a descriptor has as never used are behind those in use.
    fn raise_hint(&self, descriptor: &mut GroupDescriptor, inodes: &[u8]) {
        let all = self.volume.geo.inodes_per_group;
        let end = (0..all).rev().find(|at| bit(inodes, *at)).map_or(0, |last| last + 1);
        let never_used = if self.volume.geo.gdt_csum { all - end } else { 0 };
        if descriptor.has(group_flag::INODE_UNINIT) || descriptor.itable_unused() > never_used {
            descriptor.set_itable_unused(never_used);
        }
    }

    fn block_bits(&self, group: u32) -> Vec<u8> {
        let geo = &self.volume.geo;
        let mut bits = vec![0; geo.block_bytes as usize];
        let start = geo.group_start(group);
        let used = |at: &u32| self.counts[(start + u64::from(*at)) as usize] > 0;
        (0..geo.group_blocks(group)).filter(used).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.group_blocks(group));
        bits
    }

    fn inode_bits(&self, group: u32) -> Vec<u8> {
        let geo = &self.volume.geo;
        let mut bits = vec![0; geo.block_bytes as usize];
        let first = u64::from(group) * u64::from(geo.inodes_per_group) + 1;
        let used = |at: &u32| {
            let ino = first + u64::from(*at);
            ino < geo.first_ino || self.orphan_file == Some(ino) || self.tree.nodes.contains_key(&ino)
        };
        (0..geo.inodes_per_group).filter(used).for_each(|at| set_bit(&mut bits, at));
        set_padding(&mut bits, geo.inodes_per_group);
        bits
    }

    fn directories_in(&self, group: u32) -> u32 {
        let per_group = u64::from(self.volume.geo.inodes_per_group);
        let first = u64::from(group) * per_group + 1;
        let inodes = self.tree.nodes.range(first..first + per_group);
        inodes.filter(|(_, node)| node.is_dir()).count() as u32
    }
}
