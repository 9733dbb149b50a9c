//! How an image is read: which superblock counts, and where bitmaps and inode tables lie.
//!
//! A repair asks this first, and changes nothing else before. The primary superblock counts while nothing speaks against it. Where
//! it cannot be, its checksum is wrong, a backup says something else, or bitmaps and tables lie where they cannot, all of these are
//! tried: the primary one with the fields made right that follow from others, also the other way round, as it is, and the backups.
//! The one counts by which most of the inode tables agrees with itself: inodes that can be and are in use in the bitmap,
//! directories whose `.` leads to themselves, the root first. Of equals the first of this order counts.
//!
//! The places of a group's bitmaps and table are those of its descriptor, of the copies of the descriptor, or those that follow
//! from the layout: behind the superblock of the group, beside those of its neighbours. The one counts that holds what looks most
//! like what is looked for. Only where none does is a table made anew (`groups.rs`).

use std::collections::BTreeSet;
use std::sync::Arc;

use media::block::BlockDevice;
use zerocopy::IntoBytes;

use super::weight::{Look, Weight};
use crate::layout::{
    GroupDescriptor, STATE_CLEAN, SUPERBLOCK_OFFSET, Superblock, compat, group_flag, incompat, ro_compat,
};
use crate::related;
use crate::superblock::{self, Geo, overlap};
use design::FsError;

/// Backups that are asked.
const MOST_COPIES: usize = 4;

/// A superblock by which the image may be read.
struct Reading {
    superblock: Superblock,
    geo: Geo,
    /// The descriptors as they lie there, whatever they say.
    descriptors: Vec<GroupDescriptor>,
    /// What it is, if it is not the primary one as it lies there.
    what: Option<String>,
}

impl Reading {
    fn of(device: &dyn BlockDevice, superblock: Superblock, what: Option<String>) -> Result<Self, FsError> {
        let geo = Geo::of(&superblock, device.geometry().bytes.0).map_err(|what| damaged(&what))?;
        let descriptors = superblock::raw_descriptors(device, &geo)?;
        Ok(Self { superblock, geo, descriptors, what })
    }

    /// Whether something speaks against it: a field that does not follow from the others, a backup that says something else, or
    /// what lies behind it.
    fn is_in_doubt(&self, device: &dyn BlockDevice, copies: &[(u64, Superblock)]) -> bool {
        let differs = |copy: &Superblock| Geo::of(copy, device.geometry().bytes.0).as_ref() != Ok(&self.geo);
        !related::correct(&mut self.superblock.clone()).is_empty()
            || self.lacks_kinds(device)
            || copies.iter().any(|(_, copy)| differs(copy))
            || !self.weight(device).is_sound()
    }

    /// Whether names say of what kind they are, which only the feature `filetype` lets them.
    fn lacks_kinds(&self, device: &dyn BlockDevice) -> bool {
        let sb = &self.superblock;
        let has_features = sb.rev_level.get() > 0;
        has_features
            && !sb.has_incompat(incompat::FILETYPE)
            && Look { device, geo: &self.geo }.root_says_kinds(&self.descriptors)
    }

    fn weight(&self, device: &dyn BlockDevice) -> Weight {
        Look { device, geo: &self.geo }.weigh(&self.descriptors)
    }
}

fn damaged(what: &str) -> FsError {
    FsError::Damaged { design: "ext4", what: format!("superblock: {what}") }
}

/// Finds out how the image is to be read, and writes that to the places of the primary superblock and descriptors; says what was
/// wrong.
pub(super) fn settle(device: &Arc<dyn BlockDevice>) -> Result<Vec<String>, FsError> {
    let device = &**device;
    let (primary, torn) = match superblock::read_raw(device, SUPERBLOCK_OFFSET) {
        Ok((superblock, torn)) => (Some(superblock), torn),
        Err(_) => (None, true),
    };
    if let Some(primary) = primary.as_ref().filter(|_| !torn) {
        superblock::check_readable(primary)?;
    }
    let copies = copies(device, primary.as_ref());
    let as_it_is = primary.clone().and_then(|primary| Reading::of(device, primary, None).ok());
    let as_it_is = match as_it_is {
        Some(reading) if !torn && !reading.is_in_doubt(device, &copies) => {
            return settle_places(device, &reading);
        }
        other => other,
    };
    // A wrong checksum says that something is wrong: what the superblock says then counts less than a copy.
    let (first, last) = if torn { (None, as_it_is) } else { (as_it_is, None) };
    let mended = primary.as_ref().and_then(|primary| {
        let (mended, what) = mended(device, primary, &copies);
        Reading::of(device, mended, Some(what.join(", "))).ok().filter(|_| !what.is_empty())
    });
    let of_copies = copies.iter().filter_map(|(block, copy)| {
        let what = format!("the primary superblock is bad; the backup at block {block} was used");
        Reading::of(device, copy.clone(), Some(what)).ok()
    });
    let counted = primary.as_ref().and_then(|primary| {
        let (counted, what) = by_count(primary)?;
        Reading::of(device, counted, Some(what)).ok()
    });
    // A backup says which of the two is wrong.
    let agrees = |one: &Reading| {
        let says = |copy: &Superblock| copy.inodes_per_group == one.superblock.inodes_per_group;
        copies.iter().any(|(_, copy)| says(copy))
    };
    let mended = mended.filter(|_| !counted.as_ref().is_some_and(agrees));
    let others = counted.into_iter().chain(first);
    let mut readings: Vec<Reading> = mended.into_iter().chain(others).chain(of_copies).chain(last).collect();
    // The first of equals.
    let weights: Vec<Weight> = readings.iter().map(|reading| reading.weight(device)).collect();
    let best = (0..readings.len()).rev().max_by_key(|at| weights[*at]);
    let mut reading = readings.swap_remove(best.ok_or_else(|| unreadable(device, primary.as_ref()))?);
    let mut done = Vec::new();
    if torn || reading.what.is_some() {
        let what = reading.what.clone().unwrap_or_else(|| "its checksum corrected".to_owned());
        done.push(format!("superblock: {what}"));
        write_superblock(device, &mut reading)?;
    }
    done.extend(settle_places(device, &reading)?);
    Ok(done)
}

/// Why an image cannot be read by any superblock.
fn unreadable(device: &dyn BlockDevice, primary: Option<&Superblock>) -> FsError {
    let what = primary.map(|primary| Geo::of(primary, device.geometry().bytes.0));
    match what {
        None => damaged("there is none, and no backup"),
        Some(Err(what)) => damaged(&format!("{what}; no backup was found")),
        Some(Ok(_)) => damaged("wrong checksum; no backup was found"),
    }
}

/// Backups, with the block of each, that say different things.
fn copies(device: &dyn BlockDevice, primary: Option<&Superblock>) -> Vec<(u64, Superblock)> {
    let mut found: Vec<(u64, Superblock, Geo)> = Vec::new();
    let look = |places: &mut dyn Iterator<Item = (u64, u64)>, found: &mut Vec<(u64, Superblock, Geo)>| {
        for (block_bytes, block) in places {
            if found.len() == MOST_COPIES {
                break;
            }
            let Some((superblock, geo)) = superblock::copy_at(device, block_bytes, block) else { continue };
            if found.iter().all(|(.., other)| *other != geo) {
                found.push((block, superblock, geo));
            }
        }
    };
    if let Some(geo) = primary.and_then(|primary| Geo::of(primary, device.geometry().bytes.0).ok()) {
        let holders = (1..geo.groups).filter(|group| geo.has_superblock(*group)).take(MOST_COPIES);
        look(&mut holders.map(|group| (u64::from(geo.block_bytes), geo.group_start(group))), &mut found);
    }
    look(&mut superblock::usual_places(), &mut found);
    if found.is_empty() {
        look(&mut superblock::other_places(), &mut found);
    }
    found.into_iter().map(|(block, superblock, _)| (block, superblock)).collect()
}

/// The primary superblock with those fields made right that follow from others or from what lies behind it; what was wrong.
fn mended(
    device: &dyn BlockDevice,
    primary: &Superblock,
    copies: &[(u64, Superblock)],
) -> (Superblock, Vec<String>) {
    let mut sb = primary.clone();
    let mut wrong = related::correct(&mut sb);
    let says = u64::from(sb.reserved_gdt_blocks.get());
    // Without a right number of them nothing else can be judged.
    sb.reserved_gdt_blocks = 0.into();
    if let Ok(reading) = Reading::of(device, sb.clone(), None) {
        let kept = fitting(device, &reading, says, copies);
        if kept != says {
            wrong.push(format!("reserved_gdt_blocks is {says}, should be {kept}"));
        }
        sb.reserved_gdt_blocks = (kept as u16).into();
    } else {
        sb.reserved_gdt_blocks = (says as u16).into();
    }
    if Reading::of(device, sb.clone(), None).is_ok_and(|reading| reading.lacks_kinds(device)) {
        sb.feature_incompat = (sb.feature_incompat.get() | incompat::FILETYPE).into();
        wrong.push("names have kinds, and there is no feature filetype".to_owned());
    }
    if lacks_copies(device, &sb, copies) {
        sb.feature_ro_compat = (sb.feature_ro_compat.get() | ro_compat::SPARSE_SUPER).into();
        wrong.push("not all groups have a backup, and there is no feature sparse_super".to_owned());
    }
    (sb, wrong)
}

/// Whether a backup, unlike the superblock, says that not all groups have backups, and one that need not have one has none.
fn lacks_copies(device: &dyn BlockDevice, sb: &Superblock, copies: &[(u64, Superblock)]) -> bool {
    let is_sparse = |sb: &Superblock| sb.has_ro_compat(ro_compat::SPARSE_SUPER);
    let Some((_, sparse)) = copies.iter().find(|(_, copy)| is_sparse(copy)).filter(|_| !is_sparse(sb)) else {
        return false;
    };
    let Ok(geo) = Geo::of(sparse, device.geometry().bytes.0) else { return false };
    let (mut others, block_bytes) =
        ((1..geo.groups).filter(|group| !geo.has_superblock(*group)), geo.block_bytes);
    others.any(|group| superblock::copy_at(device, block_bytes.into(), geo.group_start(group)).is_none())
}

/// The primary superblock with as many inodes in a group as their count says; what was wrong.
fn by_count(primary: &Superblock) -> Option<(Superblock, String)> {
    let mut sb = primary.clone();
    let (first, per_group) = (u64::from(sb.first_data_block.get()), u64::from(sb.blocks_per_group.get()));
    let groups = sb.blocks().checked_sub(first).filter(|_| per_group > 0)?.div_ceil(per_group);
    let inodes = u64::from(sb.inodes_count.get());
    let should = u32::try_from(inodes.checked_div(groups)?).ok().filter(|_| inodes.is_multiple_of(groups))?;
    let says = sb.inodes_per_group.get();
    sb.inodes_per_group = should.into();
    related::correct(&mut sb);
    (should != says).then(|| (sb, format!("inodes_per_group is {says}, should be {should}")))
}

/// How many blocks are kept for more descriptors: `says`, if these lie over nothing; else what a backup or the resize inode says,
/// or as many as there is room for.
fn fitting(device: &dyn BlockDevice, reading: &Reading, says: u64, copies: &[(u64, Superblock)]) -> u64 {
    let geo = &reading.geo;
    if !reading.superblock.has_compat(compat::RESIZE_INODE) {
        return 0;
    }
    let places: BTreeSet<u64> = reading
        .descriptors
        .iter()
        .flat_map(|one| [one.block_bitmap(), one.inode_bitmap(), one.inode_table()])
        .collect();
    let room = (0..geo.groups).filter(|group| geo.has_superblock(*group)).map(|group| {
        let start = geo.group_start(group) + u64::from(geo.base_blocks(group));
        let end = geo.group_start(group) + u64::from(geo.group_blocks(group));
        places.range(start..end.max(start)).next().map_or(u64::MAX, |place| place - start)
    });
    let room = room.min().unwrap_or(0).min(u64::from(geo.block_bytes) / 4);
    let of_inode = Look { device, geo }.kept_blocks(&reading.descriptors).map(u64::from);
    let of_copy = copies.iter().map(|(_, copy)| u64::from(copy.reserved_gdt_blocks.get()));
    let others = of_inode.into_iter().chain(of_copy);
    let known: Vec<u64> = others.filter(|kept| *kept <= room).collect();
    match known.first() {
        _ if known.contains(&says) => says,
        Some(other) => *other,
        None if says <= room => says,
        None => room,
    }
}

fn write_superblock(device: &dyn BlockDevice, reading: &mut Reading) -> Result<(), FsError> {
    let superblock = &mut reading.superblock;
    if superblock.block_group_nr.get() != 0 {
        superblock.block_group_nr = 0.into();
        // A backup does not know how the file system was left, nor whether the journal is empty.
        superblock.state = (superblock.state.get() & !STATE_CLEAN).into();
        if superblock.has_compat(compat::HAS_JOURNAL) {
            superblock.feature_incompat = (superblock.feature_incompat.get() | incompat::RECOVER).into();
        }
    }
    superblock.seal();
    superblock::write_bytes(device, SUPERBLOCK_OFFSET, superblock.as_bytes())?;
    Ok(())
}

/// A group's parts: bitmap of blocks, of inodes, inode table.
const PARTS: [u8; 3] = [0, 1, 2];

fn place_of(descriptor: &GroupDescriptor, part: u8) -> u64 {
    match part {
        0 => descriptor.block_bitmap(),
        1 => descriptor.inode_bitmap(),
        _ => descriptor.inode_table(),
    }
}

fn set_place(descriptor: &mut GroupDescriptor, part: u8, place: u64) {
    match part {
        0 => descriptor.set_block_bitmap(place),
        1 => descriptor.set_inode_bitmap(place),
        _ => descriptor.set_inode_table(place),
    }
}

/// First block, length, and whose it is: of a group and part; none of a superblock.
type Run = (u64, u64, Option<(u32, u8)>);

/// Which blocks bitmaps and tables take, and the places of superblocks.
struct Taken {
    runs: Vec<Run>,
    longest: u64,
}

impl Taken {
    fn by(geo: &Geo, all: &[GroupDescriptor]) -> Self {
        let bases =
            (0..geo.groups).map(|group| (geo.group_start(group), u64::from(geo.base_blocks(group)), None));
        let parts = (0..geo.groups).zip(all).flat_map(|(group, descriptor)| {
            PARTS.map(|part| (place_of(descriptor, part), len_of(geo, part), Some((group, part))))
        });
        let mut runs: Vec<_> = bases.chain(parts).filter(|(start, len, _)| *start > 0 && *len > 0).collect();
        runs.sort_unstable();
        let longest = runs.iter().map(|(_, len, _)| *len).max().unwrap_or(0);
        Self { runs, longest }
    }

    /// Whether `len` blocks from `start` on lie over a superblock and what belongs to it.
    fn lies_over_base(&self, start: u64, len: u64) -> bool {
        let bases = self.runs.iter().filter(|(.., whose)| whose.is_none());
        bases.into_iter().any(|(at, its, _)| *at < start + len && start < at.saturating_add(*its))
    }

    /// Whether something else than this part lies over `len` blocks from `start` on.
    fn lies_over(&self, start: u64, len: u64, own: (u32, u8)) -> bool {
        let first = self.runs.partition_point(|(at, ..)| at.saturating_add(self.longest) <= start);
        let near = self.runs[first..].iter().take_while(|(at, ..)| *at < start + len);
        near.into_iter().any(|(at, its, whose)| at.saturating_add(*its) > start && *whose != Some(own))
    }
}

fn len_of(geo: &Geo, part: u8) -> u64 {
    if part == 2 { u64::from(geo.table_blocks()) } else { 1 }
}

/// Finds the bitmaps and tables of descriptors that are wrong, or that say something else than their copies, and writes the
/// descriptors; says what was done. What is found nowhere gets the place 0.
fn settle_places(device: &dyn BlockDevice, reading: &Reading) -> Result<Vec<String>, FsError> {
    let geo = &reading.geo;
    let look = Look { device, geo };
    let mut all = reading.descriptors.clone();
    let over: BTreeSet<(usize, u8)> = overlap(geo, &all).into_iter().collect();
    let mut taken = Taken::by(geo, &all);
    let (mut corrected, mut moved) = (0, 0);
    // Tables that are settled: what lies over one lies wrong.
    let mut settled: Vec<sim::Run> = Vec::new();
    for group in 0..geo.groups {
        let at = group as usize;
        let copies = superblock::copied_descriptors(device, geo, group);
        let raw = superblock::raw_descriptor(device, geo, group)?;
        let sound = geo.load_descriptor(group, &raw).is_ok();
        for part in PARTS.into_iter().rev() {
            let own = place_of(&all[at], part);
            let len = len_of(geo, part);
            let is_place = geo.is_place(group, own, len as u32);
            let fits = is_place && !over.contains(&(at, part));
            // A table over which a bitmap lies may be right: then the bitmap is wrong.
            let is_settled = |table: &sim::Run| table.first < own + len && own < table.end();
            let may_be_right =
                part == 2 && is_place && !settled.iter().any(is_settled) && !taken.lies_over_base(own, len);
            let differs = copies.iter().any(|copy| place_of(copy, part) != own);
            if sound && fits && !differs && looks_right(&look, (group, part), &all[at]) {
                continue;
            }
            let place = find(&look, (&all, &taken), (group, part), (fits || may_be_right, sound), &copies);
            if place != own {
                moved += u64::from(place != 0);
                set_place(&mut all[at], part, place);
                taken = Taken::by(geo, &all);
            }
        }
        settled.push(sim::Run::new(place_of(&all[at], 2), len_of(geo, 2)));
        // The group of the root has inodes, whatever its descriptor says.
        if group == 0 && all[at].has(group_flag::INODE_UNINIT) && look.weigh_table(group, &all[at]) > 0 {
            all[at].clear(group_flag::INODE_UNINIT);
            corrected += u64::from(sound);
        }
        if !sound {
            corrected += 1;
            let descriptor = &mut all[at];
            descriptor.clear(group_flag::BLOCK_UNINIT | group_flag::INODE_UNINIT);
            descriptor.set_itable_unused(0);
            descriptor.set_free_blocks(descriptor.free_blocks().min(geo.group_blocks(group)));
            descriptor.set_free_inodes(descriptor.free_inodes().min(geo.inodes_per_group));
        }
    }
    if all != reading.descriptors || corrected > 0 {
        superblock::write_descriptors(device, geo, &all)?;
    }
    let mut done = Vec::new();
    if corrected > 0 {
        done.push(format!("{corrected} descriptors of groups corrected"));
    }
    if moved > 0 {
        done.push(format!("{moved} bitmaps and inode tables found elsewhere than their descriptors said"));
    }
    Ok(done)
}

/// Whether a part of a group is what it should be. A bitmap that was never written is in no block.
fn looks_right(look: &Look<'_>, (group, part): (u32, u8), descriptor: &GroupDescriptor) -> bool {
    match part {
        0 => descriptor.has(group_flag::BLOCK_UNINIT) || look.is_bitmap(group, descriptor, true),
        1 => descriptor.has(group_flag::INODE_UNINIT) || look.is_bitmap(group, descriptor, false),
        _ => looks_like_table(look, group, descriptor),
    }
}

/// Whether a group's table is as its descriptor counts: empty only if no inode is in use, and not that of the root.
fn looks_like_table(look: &Look<'_>, group: u32, descriptor: &GroupDescriptor) -> bool {
    let may_be_empty = group > 0 && descriptor.free_inodes() == look.geo.inodes_per_group;
    let weight = look.weigh_table(group, descriptor);
    weight > 0 || weight == 0 && may_be_empty
}

/// Where a part of a group lies. `fits`: where the descriptor has it is possible; `sound`: nothing is wrong with the descriptor.
fn find(
    look: &Look<'_>,
    (all, taken): (&[GroupDescriptor], &Taken),
    (group, part): (u32, u8),
    (fits, sound): (bool, bool),
    copies: &[GroupDescriptor],
) -> u64 {
    let (geo, own) = (look.geo, place_of(&all[group as usize], part));
    let weigh = |place: u64| {
        let mut tried = all[group as usize].clone();
        set_place(&mut tried, part, place);
        match part {
            2 => look.weigh_table(group, &tried),
            _ => i64::from(look.is_bitmap(group, &tried, part == 0)),
        }
    };
    let may_be = |place: u64| {
        let len = len_of(geo, part);
        geo.is_place(group, place, len as u32) && !taken.lies_over(place, len, (group, part))
    };
    let of_copies = copies.iter().map(|copy| place_of(copy, part)).filter(|place| may_be(*place));
    let known: Vec<u64> = match (fits, sound) {
        (true, true) => [own].into_iter().chain(of_copies).collect(),
        (true, false) => of_copies.chain([own]).collect(),
        (false, _) => of_copies.collect(),
    };
    let implied = implied(geo, all, group, part);
    let others = implied.iter().copied().filter(|place| may_be(*place));
    let places: Vec<u64> = known.iter().copied().chain(others).collect();
    // The first of equals; of none that holds anything the first that is said somewhere.
    let best = places.into_iter().rev().map(|place| (weigh(place), place)).max_by_key(|(weight, _)| *weight);
    match best {
        Some((weight, place)) if weight > 0 => place,
        // Of places that hold nothing, one that the layout has, too.
        _ => known.iter().find(|place| implied.contains(place)).or(known.first()).copied().unwrap_or(0),
    }
}

/// Where the layout has a part of a group: behind its superblock, or beside that of its neighbours.
fn implied(geo: &Geo, all: &[GroupDescriptor], group: u32, part: u8) -> Vec<u64> {
    let at = group as usize;
    let len = len_of(geo, part);
    let own = geo.group_start(group) + u64::from(geo.base_blocks(group)) + u64::from(part);
    let mut places = vec![own];
    let (bitmap, inodes) = (all[at].block_bitmap(), all[at].inode_bitmap());
    places.extend(match part {
        0 => [inodes.saturating_sub(1), 0],
        1 => [bitmap.saturating_add(1), 0],
        _ => [inodes.saturating_add(1), bitmap.saturating_add(2)],
    });
    // Behind those of all groups that lie together.
    if geo.flex_bg {
        let index = u64::from(group) % geo.flex_groups;
        let table_behind = |inodes: u64| (inodes + geo.flex_groups + index * len).saturating_sub(index);
        places.extend(match part {
            0 => [inodes.saturating_sub(geo.flex_groups), 0],
            1 => [bitmap.saturating_add(geo.flex_groups), 0],
            _ => [inodes, bitmap.saturating_add(geo.flex_groups)].map(table_behind),
        });
    }
    let before = at.checked_sub(1).and_then(|before| all.get(before));
    places.extend(before.map(|before| place_of(before, part).saturating_add(len)));
    places.extend(all.get(at + 1).map(|after| place_of(after, part).saturating_sub(len)));
    // With bitmaps and tables in their own groups, at the same place in each.
    for (other, descriptor) in (0_u32..).zip(all).filter(|(other, _)| *other != group).take(4) {
        let same = geo.has_superblock(other) == geo.has_superblock(group);
        let place = place_of(descriptor, part);
        if same && place > geo.group_start(other) {
            places.push((place - geo.group_start(other)).saturating_add(geo.group_start(group)));
        }
    }
    places
}
