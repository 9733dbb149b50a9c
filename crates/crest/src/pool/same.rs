//! Whether two pools are in the same state: fsck compares what a saved index leads to with what the logs lead to.

use crate::calls::Volume;
use crate::index::saved_inode::Entry;
use crate::index::sums::Sums;

/// Where two mounted pools differ, in words; none if they do so in nothing that a call or the cleaner would see.
pub(crate) fn difference(saved: &Volume, logs: &Volume) -> Option<String> {
    let (a, b) = (saved.inodes.all_numbers(), logs.inodes.all_numbers());
    if a != b {
        let ino = a.iter().zip(&b).find(|(a, b)| a != b).map(|(a, b)| a.min(b));
        return Some(format!("{} inodes, {} by the logs: the first is {ino:?}", a.len(), b.len()));
    }
    for ino in a {
        let [a, b] = [saved, logs].map(|volume| volume.inodes.entry(ino).map(Entry::sorted));
        if a != b {
            return Some(format!("inode {ino}: {a:?}, by the logs {b:?}"));
        }
    }
    if let Some(what) = saved.zones.difference(&logs.zones) {
        return Some(what);
    }
    let words = |sums: &Sums| sums.words().collect::<Vec<_>>();
    if words(&saved.sums) != words(&logs.sums) {
        return Some("checksums of blocks".to_owned());
    }
    for (shard, (a, b)) in saved.logs.tails.iter().zip(&logs.logs.tails).enumerate() {
        let (a, b) = (a.lock(), b.lock());
        if a.previous != b.previous || a.open.is_some() || a.clock < b.clock {
            let ends = format!("{:?} at {}, {:?} at {}", a.previous, a.clock, b.previous, b.clock);
            return Some(format!("the log of shard {shard} ended at {ends}"));
        }
    }
    (saved.mounted != logs.mounted).then(|| format!("openings {}, {}", saved.mounted, logs.mounted))
}
