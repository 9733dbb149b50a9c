//! Small random programs, with which models are held against designs and against rules (`crates/fs/tests/it/inclusion.rs`, and the
//! tests beside).

use std::collections::BTreeMap;

use rand::RngExt;
use sim::Seed;

use super::story::{CallInfo, Deed, Done, Entry, Inode, Kind, Node, ROOT, Story, What};

const NAMES: [&[u8]; 3] = [b"a", b"b", b"c"];
const CALLS: usize = 6;

fn node(kind: Kind) -> Node {
    Node {
        kind,
        mode: 0o644,
        target: None,
        initial: false,
        bytes: None,
        size: 0,
        attributes: BTreeMap::new(),
        path: String::new(),
        device: 0,
    }
}

/// A small random program over three names of the root, which writes only letters from this one on, another one by each call.
pub fn random(seed: u64, letter: u8) -> Story {
    Random::new(seed, letter).story
}

struct Random {
    story: Story,
    bound: [Option<Inode>; 3],
    sizes: Vec<u64>,
    letter: u8,
}

impl Random {
    fn new(seed: u64, letter: u8) -> Self {
        let mut random = Self { story: Story::default(), bound: [None; 3], sizes: vec![0, 0], letter };
        random.story.inodes = vec![node(Kind::Directory), node(Kind::Directory)];
        random.story.names = NAMES.iter().map(|name| (*name).into()).collect();
        let mut rng = Seed(seed).rng();
        while random.story.calls.len() < CALLS {
            let (kind, one, other) = (rng.random_range(0..8), rng.random_range(0..3), rng.random_range(0..3));
            let (at, len) = (rng.random_range(0..6000_u64), rng.random_range(1..5000_u64));
            if let Some((name, deed)) = random.deed((kind, one, other), (at, len)) {
                random.push(name, deed);
            }
        }
        random.story.end_ns = 1000 * (CALLS as u64 + 2);
        random
    }

    fn push(&mut self, name: &'static str, deed: Deed) {
        let call = self.story.calls.len() as u32;
        let begin_ns = 1000 * (u64::from(call) + 1);
        let (paths, range) = ([None, None], None);
        let (end_ns, stack) = (begin_ns + 100, Vec::new());
        let info = CallInfo { name, paths, range, thread: 1, line: 1, begin_ns, end_ns, stack };
        self.story.calls.push(info);
        self.story.deeds.push(Done { call, deed });
    }

    fn deed(
        &mut self,
        (kind, one, other): (u32, usize, usize),
        (at, len): (u64, u64),
    ) -> Option<(&'static str, Deed)> {
        let entry = |name: usize| -> Entry { (ROOT, name as u32) };
        let here = self.bound[one];
        Some(match (kind, here) {
            (0..=3, None) => {
                self.story.inodes.push(node(Kind::File));
                self.sizes.push(0);
                let inode = self.story.inodes.len() as Inode - 1;
                self.bound[one] = Some(inode);
                ("open", Deed::Make(entry(one), inode))
            }
            (0..=2, Some(inode)) => {
                let offset = at.min(self.sizes[inode as usize]);
                let letter = self.letter + self.story.calls.len() as u8;
                let bytes = self.story.blobs.add(vec![letter; len as usize]);
                let size = &mut self.sizes[inode as usize];
                *size = (*size).max(offset + len);
                ("write", Deed::Write { inode, offset, bytes, direct: false, shares: false })
            }
            (3, Some(inode)) => {
                let size = at.min(self.sizes[inode as usize]);
                if size == self.sizes[inode as usize] {
                    return None;
                }
                self.sizes[inode as usize] = size;
                ("truncate", Deed::Size { inode, size })
            }
            (4, Some(inode)) => {
                self.bound[one] = None;
                ("unlink", Deed::Unlink(entry(one), inode))
            }
            (5, Some(inode)) if one != other && self.bound[other] != here => {
                let replaced = self.bound[other].replace(inode);
                self.bound[one] = None;
                (
                    "rename",
                    Deed::Rename { from: entry(one), to: entry(other), inode, replaced, exchange: false },
                )
            }
            (6, Some(inode)) => {
                let sync = What::File { inode, data_only: false, range: None, of_write: false };
                ("fsync", Deed::Sync(sync))
            }
            (7, _) => ("fsync", Deed::Sync(What::Folder(ROOT))),
            _ => return None,
        })
    }
}
