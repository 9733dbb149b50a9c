//! Repair of an image by what fsck finds, in the manner of e2fsck: nothing that can still be read is given up.
//!
//! | violation | becomes right by |
//! |---|---|
//! | a last record of the log that is torn | the tail before it |
//! | a name that leads to no inode, a second name of a directory | no name |
//! | an inode without a name, a directory that is not below the root | `lost+found/#NUMBER` |
//! | a wrong parent, link count or next number | what was counted |
//! | a block that is too long, data beyond the size | cut, zeros |
//!
//! Not repaired: the superblock, the checkpoint, a damaged record before the last, a record that does not apply, an image without a
//! root directory. fsck names the record. A repaired state becomes a checkpoint in the other half, as at an unmount.

use std::sync::Arc;

use ::vfs::FileKind;
use media::nvmm::Region;

use super::fsck::names_of;
use super::inode::{Body, Inode};
use super::log::Volume;
use super::recovery::{Loaded, cut_torn_record, load};
use super::state::{BLOCK, Change, ROOT, State, now};
use base::error::{Error, Result};
use base::name_tree::{Fault, NameTree};

/// Most passes: a repair can show the next fault, which what it hid had hidden.
const PASSES: usize = 16;

/// Repairs an image; says what was done.
pub(super) fn repair(region: &Arc<Region>) -> Result<Vec<String>> {
    let mut done: Vec<_> = cut_torn_record(region)?.into_iter().collect();
    let Loaded { mut state, .. } = match load(region) {
        Err(Error::Corrupt(_)) => return Ok(done),
        loaded => loaded?,
    };
    if !state.inodes.get(&ROOT).is_some_and(Inode::is_dir) {
        return Ok(done);
    }
    let before = done.len();
    for _ in 0..PASSES {
        let more = mend(&mut state)?;
        if more.is_empty() {
            break;
        }
        done.extend(more);
    }
    if done.len() > before {
        Volume::open(region, None)?.replace(state)?;
    }
    Ok(done)
}

/// One pass.
fn mend(state: &mut State) -> Result<Vec<String>> {
    let mut done = Vec::new();
    let last = state.inodes.keys().next_back().copied().unwrap_or(ROOT);
    if state.next <= last {
        state.next = last + 1;
        done.push(format!("the next inode is {}", state.next));
    }
    mend_files(state, &mut done);
    let (mut tree, dangling) = names_of(state);
    let second = tree.take_second_names().into_iter().map(|(_, dir, name)| (dir, name));
    mend_names(state, dangling.into_iter().map(|(dir, name, _)| (dir, name)).chain(second), &mut done)?;
    let faults = tree.faults();
    if done.is_empty() {
        mend_lost(state, tree, &mut done)?;
    }
    if done.is_empty() {
        mend_counts(state, faults, &mut done)?;
    }
    Ok(done)
}

fn mend_files(state: &mut State, done: &mut Vec<String>) {
    for (ino, inode) in &mut state.inodes {
        let Body::File { size, blocks } = &mut inode.body else { continue };
        for (block, bytes) in blocks {
            if bytes.len() as u64 > BLOCK {
                bytes.truncate(BLOCK as usize);
                done.push(format!("inode {ino}: block {block} has {BLOCK} bytes"));
            }
            let inside = size.saturating_sub(*block * BLOCK).min(bytes.len() as u64) as usize;
            if bytes[inside..].iter().any(|byte| *byte != 0) {
                bytes[inside..].fill(0);
                done.push(format!("inode {ino}: block {block} has zeros beyond the size {size}"));
            }
        }
    }
}

/// Removes names that lead nowhere, and each name of a directory but one.
fn mend_names(
    state: &mut State,
    gone: impl Iterator<Item = (u64, Vec<u8>)>,
    done: &mut Vec<String>,
) -> Result<()> {
    for (dir, name) in gone {
        state.dir_mut(dir)?.remove(&name)?;
        done.push(format!("directory {dir}: the name {} is gone", String::from_utf8_lossy(&name)));
    }
    Ok(())
}

/// Gives a name to what has none, and to one directory of each circle.
fn mend_lost(state: &mut State, mut tree: NameTree<Vec<u8>>, done: &mut Vec<String>) -> Result<()> {
    let mut lost: Vec<u64> = tree.nameless().collect();
    for ino in tree.circles() {
        for (_, dir, name) in tree.take_names(ino, false) {
            state.dir_mut(dir)?.remove(&name)?;
        }
        lost.push(ino);
    }
    for ino in lost {
        let dir = lost_and_found(state)?;
        let name = format!("#{ino}");
        state.dir_mut(dir)?.set(name.as_bytes(), ino);
        done.push(format!("inode {ino}: is lost+found/{name} now"));
    }
    Ok(())
}

/// The directory `lost+found`, which is made when there is none.
fn lost_and_found(state: &mut State) -> Result<u64> {
    let name = b"lost+found".to_vec();
    if let Some((found, _)) = state.dir_mut(ROOT)?.names.get(&name) {
        return Ok(*found);
    }
    let (ino, mode) = (state.next, FileKind::Directory.mode_bits() | 0o700);
    let make = Change::Make { ino, parent: ROOT, name, mode, owner: (0, 0), rdev: 0, target: Vec::new() };
    state.apply(&make, now())?;
    Ok(ino)
}

/// Sets parents and link counts as the names say.
fn mend_counts(state: &mut State, faults: Vec<(u64, Fault)>, done: &mut Vec<String>) -> Result<()> {
    for (ino, fault) in faults {
        match fault {
            Fault::Links { expected, .. } => {
                state.inode_mut(ino)?.links = expected;
                done.push(format!("inode {ino}: has {expected} links"));
            }
            Fault::Parent { named_in, .. } => {
                state.dir_mut(ino)?.parent = named_in;
                done.push(format!("directory {ino}: .. leads to {named_in}"));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use media::nvmm::null::Null;
    use sim::Bytes;

    use super::super::fsck::check;
    use super::super::mkfs::mkfs;
    use super::*;

    const FILE: u64 = 10;
    const DIR: u64 = 11;
    const SUB: u64 = 12;

    fn make(state: &mut State, ino: u64, parent: u64, name: &str, kind: FileKind) {
        let (name, mode) = (name.as_bytes().to_vec(), kind.mode_bits() | 0o644);
        let change = Change::Make { ino, parent, name, mode, owner: (0, 0), rdev: 0, target: Vec::new() };
        state.apply(&change, now()).expect("it can be made");
    }

    /// `file`, `dir`, `dir/sub`.
    fn filled() -> State {
        let mut state = State::new();
        make(&mut state, FILE, ROOT, "file", FileKind::Regular);
        make(&mut state, DIR, ROOT, "dir", FileKind::Directory);
        make(&mut state, SUB, DIR, "sub", FileKind::Directory);
        let write = Change::Write { ino: FILE, offset: 0, data: vec![7; 5000] };
        state.apply(&write, now()).expect("it can be written");
        state
    }

    fn image(state: State) -> Arc<Region> {
        let region = Arc::new(Region::anonymous(Bytes::mib(1), Box::new(Null)).expect("memory"));
        mkfs(&region).expect("a new image");
        Volume::open(&region, None).expect("a mount").replace(state).expect("a checkpoint");
        region
    }

    fn predicates(region: &Region) -> Vec<&'static str> {
        let mut found: Vec<_> =
            check(region).violations.iter().map(|violation| violation.predicate).collect();
        found.dedup();
        found
    }

    /// A fault: what it violates first, how it is planted.
    type Canary = (&'static str, fn(&mut State));

    const CANARIES: &[Canary] = &[
        ("entries_lead_to_inodes", |state| state.dir_mut(DIR).expect("it is").set(b"none", 77)),
        ("links_match", |state| state.inode_mut(FILE).expect("it is").links = 9),
        ("links_match", |state| state.inode_mut(ROOT).expect("it is").links = 9),
        ("links_match", |state| drop(state.dir_mut(ROOT).expect("it is").remove(b"file"))),
        ("links_match", |state| drop(state.dir_mut(DIR).expect("it is").remove(b"sub"))),
        ("parents_match", |state| state.dir_mut(SUB).expect("it is").parent = ROOT),
        ("parents_match", |state| state.dir_mut(ROOT).expect("it is").set(b"again", SUB)),
        ("links_match", |state| {
            // A directory within itself, and no other name.
            drop(state.dir_mut(ROOT).expect("it is").remove(b"dir"));
            state.dir_mut(SUB).expect("it is").set(b"up", DIR);
        }),
        ("sizes_cover_blocks", |state| {
            let Body::File { size, .. } = &mut state.inode_mut(FILE).expect("it is").body else { return };
            *size = 100;
        }),
        ("numbers_are_below_next", |state| state.next = 3),
    ];

    #[test]
    fn repair_makes_each_planted_fault_right_and_finds_nothing_in_what_it_has_repaired() {
        for (number, (predicate, plant)) in CANARIES.iter().enumerate() {
            let mut state = filled();
            assert_eq!(predicates(&image(state.clone())), [""; 0]);
            plant(&mut state);
            let region = image(state);
            assert!(predicates(&region).contains(predicate), "{number}: {:?}", check(&region).violations);
            let done = repair(&region).expect("repair");
            assert!(!done.is_empty(), "{number}");
            assert_eq!(check(&region).violations, [], "{number}: {done:?}");
            assert_eq!(repair(&region).expect("again"), Vec::<String>::new(), "{number}");
            let state = load(&region).expect("it loads").state;
            assert!([FILE, DIR, SUB].iter().all(|ino| state.inodes.contains_key(ino)), "{number}: {done:?}");
        }
    }

    /// Three records; one of them is damaged.
    #[test]
    fn repair_cuts_a_torn_last_record_off_and_names_one_that_is_damaged_before_it() {
        let record = |damaged: u64| {
            let region = image(State::new());
            let mut volume = Volume::open(&region, None).expect("a mount");
            let mut places = Vec::new();
            for ino in [FILE, DIR, SUB] {
                places.push(load(&region).expect("it loads").header.tail);
                let (name, mode) = (format!("f{ino}").into_bytes(), FileKind::Regular.mode_bits() | 0o644);
                let make =
                    Change::Make { ino, parent: ROOT, name, mode, owner: (0, 0), rdev: 0, target: vec![] };
                volume.change(&make, 0).expect("space");
            }
            let start = load(&region).expect("it loads").start(region.len());
            let at = start + places[damaged as usize] + 12;
            let word = region.load_u16(at).expect("a load");
            region.store_u16(at, word ^ 1).expect("a store");
            region
        };
        let torn = record(2);
        assert_eq!(predicates(&torn), ["loads"]);
        assert_eq!(repair(&torn).expect("repair").len(), 1);
        assert_eq!(check(&torn).violations, []);
        let state = load(&torn).expect("it loads").state;
        assert_eq!(state.inodes.keys().copied().collect::<Vec<_>>(), [ROOT, FILE, DIR]);
        let damaged = record(1);
        assert_eq!(repair(&damaged).expect("nothing is done"), Vec::<String>::new());
        let left = check(&damaged).violations;
        assert!(
            left.iter().any(|left| left.what.contains("record 1 at")),
            "what follows may depend on it: {left:?}"
        );
    }
}
