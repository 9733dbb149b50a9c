//! Attributes that statx(2), lsattr(1) and chattr(1) ask for beside the usual ones.
//!
//! The kernel sends the `ioctl`s of chattr(1) as its own request, opens the file for it, and has checked who may change what. It
//! has kept the attributes from before: after a change it is told to ask for them again.

use vfs::{Errno, InodeFlags, Result, ops};

use super::Handler;
use crate::wire::abi;
use crate::wire::{Reply, Request};

/// Numbers of `ioctl`s on 64-bit Linux (`include/uapi/linux/fs.h`): flags as chattr(1) has them, and as XFS has them.
const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_XFLAGS: u32 = 0x801C_581F;
const SET_XFLAGS: u32 = 0x401C_5820;
/// The generation (`lsattr -v`).
const GET_VERSION: u32 = 0x8008_7601;

/// Bytes of the structure with the flags of XFS: flags, the size of extents, their number, the project, another size, padding.
const XFLAGS_BYTES: usize = 28;

/// The flags that both have.
const XFLAGS: [(u32, InodeFlags); 5] = [
    (1 << 3, InodeFlags::IMMUTABLE),
    (1 << 4, InodeFlags::APPEND),
    (1 << 5, InodeFlags::SYNC),
    (1 << 6, InodeFlags::NOATIME),
    (1 << 7, InodeFlags::NODUMP),
];

impl Handler {
    /// Where the design keeps no times of birth, the kernel is told so, and sends `GETATTR` from then on. A recorder knows only
    /// that.
    pub(super) fn statx(&self, ask: &Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::STAT);
        let ino = self.numbers.ino(ask.header.nodeid);
        let born = match self.fs().birth_time(ino) {
            Err(Errno::EOPNOTSUPP) => return Err(Errno::ENOSYS),
            _ if self.recorder.is_some() => return Err(Errno::ENOSYS),
            born => born?,
        };
        let attr = self.fs().getattr(ino)?;
        let (valid, stat) = (self.valid_secs(&attr), self.numbers.statx(&attr, born));
        reply.put(&abi::StatxOut { valid, stat, ..abi::StatxOut::default() });
        Ok(())
    }

    pub(super) fn ioctl(&self, ask: &mut Request<'_>, reply: &mut Reply) -> Result<()> {
        let _op = self.begin(ops::SETATTR);
        let given: abi::IoctlIn = ask.take()?;
        let ino = self.numbers.ino(ask.header.nodeid);
        let data = ask.data().get(..given.in_size as usize).ok_or(Errno::EIO)?;
        let answer = match given.command {
            GET_FLAGS => self.fs().inode_flags(ino)?.bits().to_le_bytes().to_vec(),
            GET_XFLAGS => xflags(self.fs().inode_flags(ino)?),
            GET_VERSION => self.fs().getattr(ino)?.generation.to_le_bytes().to_vec(),
            SET_FLAGS => self.set_flags(ask.header.nodeid, InodeFlags::from_bits_retain(first(data)?))?,
            SET_XFLAGS => {
                let flags = with_xflags(self.fs().inode_flags(ino)?, data)?;
                self.set_flags(ask.header.nodeid, flags)?
            }
            _ => return Err(Errno::ENOTTY),
        };
        // Of a generation programs expect four bytes, though its number says eight; all else is of the size that was asked for.
        let size = if given.command == GET_VERSION {
            answer.len().min(given.out_size as usize)
        } else {
            given.out_size as usize
        };
        reply.put(&abi::IoctlOut::default());
        let room = reply.room(size);
        let bytes = answer.len().min(size);
        room.fill(0);
        room[..bytes].copy_from_slice(&answer[..bytes]);
        Ok(())
    }

    /// Sets the flags of an inode; the answer is empty.
    fn set_flags(&self, node: u64, flags: InodeFlags) -> Result<Vec<u8>> {
        if self.backing.discards() {
            return Err(Errno::EROFS);
        }
        let ino = self.numbers.ino(node);
        self.fs().set_inode_flags(ino, flags)?;
        self.nodes.changed(ino);
        self.invalidator.attributes_changed(node);
        self.settle(&[ino])?;
        Ok(Vec::new())
    }
}

fn first(data: &[u8]) -> Result<u32> {
    data.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or(Errno::EINVAL)
}

/// Flags in the structure of XFS.
fn xflags(flags: InodeFlags) -> Vec<u8> {
    let bits = XFLAGS.iter().filter(|(_, flag)| flags.contains(*flag)).map(|(bit, _)| bit);
    let mut bytes = bits.fold(0, |all, bit| all | bit).to_le_bytes().to_vec();
    bytes.resize(XFLAGS_BYTES, 0);
    bytes
}

/// The flags of an inode that has `old`, after a change by the structure of XFS. `EOPNOTSUPP` for what only XFS has.
fn with_xflags(old: InodeFlags, data: &[u8]) -> Result<InodeFlags> {
    let bits = first(data)?;
    let known = XFLAGS.iter().fold(0, |all, (bit, _)| all | bit);
    // Of the numbers behind the flags, that of extents in the file is only told.
    let numbers = |range: std::ops::Range<usize>| {
        data.get(range).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0))
    };
    if bits & !known != 0 || !numbers(4..8) || !numbers(12..20) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(XFLAGS.iter().fold(old, |mut flags, (bit, flag)| {
        flags.set(*flag, bits & bit != 0);
        flags
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_survive_the_way_through_the_structure_of_xfs_and_what_it_cannot_say_stays() {
        let extents = InodeFlags::from_bits_retain(0x8_0000);
        let flags = InodeFlags::IMMUTABLE | InodeFlags::NODUMP;
        let bytes = xflags(flags | extents);
        assert_eq!(bytes.len(), XFLAGS_BYTES);
        assert_eq!(with_xflags(extents | InodeFlags::APPEND, &bytes), Ok(flags | extents));
    }

    #[test]
    fn what_only_xfs_has_is_refused() {
        let mut project = xflags(InodeFlags::empty());
        project[12] = 7;
        assert_eq!(with_xflags(InodeFlags::empty(), &project), Err(Errno::EOPNOTSUPP));
        assert_eq!(with_xflags(InodeFlags::empty(), &[1, 0, 0]), Err(Errno::EINVAL), "it is too short");
        let mut realtime = xflags(InodeFlags::empty());
        realtime[0] = 1;
        assert_eq!(with_xflags(InodeFlags::empty(), &realtime), Err(Errno::EOPNOTSUPP));
    }
}
