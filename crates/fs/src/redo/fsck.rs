//! The invariants of an image, by name.
//!
//! | predicate | says |
//! |---|---|
//! | `loads` | superblock, checkpoint and every record are whole, and the log applies |
//! | `entries_lead_to_inodes` | each name leads to an inode that exists |
//! | `links_match` | an inode's link count is the number of its names, a directory's 2 and one for each subdirectory |
//! | `parents_match` | a directory's parent has its name, and leads to the root |
//! | `sizes_cover_blocks` | what a file has reserved beyond its size reads as zeros, and no block is longer than a block |
//! | `numbers_are_below_next` | no inode has the number that the next one would get |

use ::vfs::FileKind;
use media::nvmm::Region;

use super::inode::Body;
use super::recovery::{Loaded, load};
use super::state::{BLOCK, ROOT, State};
use base::name_tree::{Fault, NameTree};
use design::{FsckReport, Violation};

/// Checks an image without changing it.
pub(super) fn check(region: &Region) -> FsckReport {
    let mut report = FsckReport::default();
    let loaded = match load(region) {
        Ok(loaded) => loaded,
        Err(error) => {
            report.violations.push(Violation { predicate: "loads", what: error.to_string() });
            return report;
        }
    };
    let Loaded { state, records, .. } = loaded;
    report.checked = vec![("inodes", state.inodes.len() as u64), ("records", records)];
    check_tree(&state, &mut report.violations);
    check_files(&state, &mut report.violations);
    report
}

/// A name that leads to no inode: in which directory, to what.
type Dangling = (u64, Vec<u8>, u64);

/// The names of a state, and those of them that lead nowhere.
pub(super) fn names_of(state: &State) -> (NameTree<Vec<u8>>, Vec<Dangling>) {
    let (mut tree, mut dangling) = (NameTree::new(ROOT), Vec::new());
    for (ino, inode) in &state.inodes {
        let kind = FileKind::from_mode(inode.mode).filter(|kind| *kind != FileKind::Directory);
        let (kind, dotdot) = match &inode.body {
            Body::Dir(dir) => (FileKind::Directory, Some(dir.parent)),
            _ => (kind.unwrap_or(FileKind::Regular), None),
        };
        tree.insert(*ino, kind, inode.links, dotdot);
    }
    for (ino, inode) in &state.inodes {
        let Body::Dir(dir) = &inode.body else { continue };
        for (name, (child, _)) in &dir.names {
            if !tree.add_name(*ino, *child, name.clone()) {
                dangling.push((*ino, name.clone(), *child));
            }
        }
    }
    (tree, dangling)
}

fn check_tree(state: &State, violations: &mut Vec<Violation>) {
    let mut fail = |predicate, what| violations.push(Violation { predicate, what });
    let (tree, dangling) = names_of(state);
    for (dir, name, child) in dangling {
        let name = String::from_utf8_lossy(&name);
        fail("entries_lead_to_inodes", format!("\"{name}\" in directory {dir} leads to inode {child}"));
    }
    if !tree.is_dir(ROOT) {
        fail("parents_match", "the root is no directory".to_owned());
    }
    for (ino, fault) in tree.faults() {
        let predicate = match fault {
            Fault::Nameless { links: 0 } => continue,
            Fault::Nameless { .. } | Fault::Links { .. } => "links_match",
            Fault::Names(_) | Fault::Parent { .. } | Fault::Circle => "parents_match",
        };
        fail(predicate, format!("inode {ino}: {fault}"));
    }
    for ino in state.inodes.range(state.next..).map(|(ino, _)| ino) {
        fail("numbers_are_below_next", format!("inode {ino} exists, the next is {}", state.next));
    }
}

fn check_files(state: &State, violations: &mut Vec<Violation>) {
    for (ino, inode) in &state.inodes {
        let Ok((size, blocks)) = inode.file() else { continue };
        let long = blocks.iter().find(|(_, bytes)| bytes.len() as u64 > BLOCK);
        if let Some((block, bytes)) = long {
            let what = format!("block {block} of inode {ino} has {} bytes", bytes.len());
            violations.push(Violation { predicate: "sizes_cover_blocks", what });
        }
        // A file that grows shows them.
        let beyond = blocks.iter().find(|(block, bytes)| {
            let inside = size.saturating_sub(**block * BLOCK).min(bytes.len() as u64) as usize;
            bytes[inside..].iter().any(|byte| *byte != 0)
        });
        if let Some((block, _)) = beyond {
            let what = format!("block {block} of inode {ino} has data beyond the size {size}");
            violations.push(Violation { predicate: "sizes_cover_blocks", what });
        }
    }
}

#[cfg(test)]
mod tests {
    use sim::map::TreeMap;

    use super::*;

    #[test]
    fn a_block_that_is_too_long_or_has_data_beyond_the_size_is_found() {
        let found = |size: u64, bytes: Vec<u8>| {
            let mut state = State::new();
            state.inode_mut(ROOT).unwrap().body =
                Body::File { size, blocks: TreeMap::from_iter([(1, bytes.into())]) };
            let mut violations = Vec::new();
            check_files(&state, &mut violations);
            violations.iter().map(|violation| violation.predicate).collect::<Vec<_>>()
        };
        assert_eq!(found(BLOCK + 3, vec![1; 3]), [""; 0], "data up to the size");
        assert_eq!(found(0, vec![0; 4096]), [""; 0], "reserved");
        assert_eq!(found(BLOCK + 3, vec![1; 4]), ["sizes_cover_blocks"]);
        assert_eq!(found(0, vec![0, 1]), ["sizes_cover_blocks"]);
        assert_eq!(found(4 * BLOCK, vec![0; 4097]), ["sizes_cover_blocks"]);
    }
}
