//! Packages: what a call writes once, and what a mount reads.

use sim::Run;
use zerocopy::{FromBytes, IntoBytes};

use crate::layout::{
    Head, Kind, NAME_MAX, PACKAGE_MAGIC, PATCH, RENAME, RawAttr, RawCreate, RawData, RawUnlink,
};
use crate::mutant::{self, Rules};
use base::persist::checksum::crc32c;

/// Where a package lies: its offset on the device.
pub type Place = u64;
/// A file through all its names: its number and its birth, so that packages of an earlier file with the number do not count.
pub type Key = (u32, u32);

/// A time in one word: 34 bits of seconds, 30 of nanoseconds.
pub type Time = u64;

/// The attributes that every CREATE and ATTR carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Kind and permission bits. An ATTR carries the permission bits alone.
    pub mode: u32,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of attributes.
    pub ctime: Time,
}

/// A name and the inode that it leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create {
    /// Its number.
    pub vtail: u64,
    /// The inode.
    pub key: Key,
    /// The directory that has the name.
    pub parent: u32,
    /// The name.
    pub name: Vec<u8>,
    /// All attributes of the inode.
    pub attributes: Attributes,
    /// Device number of a device node.
    pub rdev: u64,
    /// When the names of the directory changed.
    pub changed: Time,
    /// Whether it belongs to a rename.
    pub renamed: bool,
}

/// A name is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlink {
    /// Its number.
    pub vtail: u64,
    /// The inode that the name led to.
    pub key: Key,
    /// The directory that had the name.
    pub parent: u32,
    /// Where the CREATE lies that it hides.
    pub hides: Place,
    /// When the names of the directory changed.
    pub changed: Time,
    /// Of a rename: place and number of the CREATE without which it does not count.
    pub mate: Option<(Place, u64)>,
}

/// Blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// Its number.
    pub vtail: u64,
    /// The file.
    pub key: Key,
    /// First block of the file.
    pub first: u64,
    /// First block on the device.
    pub block: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Size of the file: that of the write, or the patched one.
    pub size: u64,
    /// When it was written.
    pub time: Time,
    /// Its place among the packages of one write.
    pub index: u16,
    /// Number of packages of the write.
    pub count: u16,
}

impl Data {
    /// The numbers of the packages of its write.
    pub fn write(&self) -> Run {
        match self.count {
            0 | 1 => Run::new(self.vtail, 1),
            count => Run::new(self.vtail.saturating_sub(u64::from(self.index)), u64::from(count)),
        }
    }
}

/// All attributes of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Its number.
    pub vtail: u64,
    /// The inode.
    pub key: Key,
    /// The attributes.
    pub attributes: Attributes,
    /// The size: blocks of older DATA that begin beyond it do not count.
    pub size: u64,
}

/// A package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Package {
    /// See [`Create`].
    Create(Create),
    /// See [`Unlink`].
    Unlink(Unlink),
    /// See [`Data`].
    Data(Data),
    /// See [`Attr`].
    Attr(Attr),
}

impl Package {
    /// Its kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Create(_) => Kind::Create,
            Self::Unlink(_) => Kind::Unlink,
            Self::Data(_) => Kind::Data,
            Self::Attr(_) => Kind::Attr,
        }
    }

    /// Its number.
    pub fn vtail(&self) -> u64 {
        match self {
            Self::Create(create) => create.vtail,
            Self::Unlink(unlink) => unlink.vtail,
            Self::Data(data) => data.vtail,
            Self::Attr(attr) => attr.vtail,
        }
    }

    /// The inode that it is about.
    pub fn key(&self) -> Key {
        match self {
            Self::Create(create) => create.key,
            Self::Unlink(unlink) => unlink.key,
            Self::Data(data) => data.key,
            Self::Attr(attr) => attr.key,
        }
    }

    /// The largest number that it has or names.
    pub fn largest(&self, rules: Rules) -> u64 {
        match self {
            Self::Unlink(Unlink { vtail, mate: Some((_, mate)), .. })
                if !rules.lacks(mutant::NAMED_IGNORED) =>
            {
                *mate.max(vtail)
            }
            package => package.vtail(),
        }
    }

    /// Its bytes.
    pub(crate) fn encode(&self, rules: Rules) -> Vec<u8> {
        let head =
            |flags, vtail| Head { magic: PACKAGE_MAGIC, kind: self.kind() as u8, flags, crc: 0, vtail };
        let mut bytes = match self {
            Self::Create(create) => {
                let mut name = [0; NAME_MAX];
                let len = create.name.len().min(NAME_MAX);
                name[..len].copy_from_slice(&create.name[..len]);
                let Attributes { mode, uid, gid, atime, mtime, ctime } = create.attributes;
                let raw = RawCreate {
                    head: head(if create.renamed { RENAME } else { 0 }, create.vtail),
                    rdev: create.rdev,
                    ino: create.key.0,
                    birth: create.key.1,
                    parent: create.parent,
                    changed: create.changed,
                    name_len: len as u8,
                    zero: [0; 84],
                    mode,
                    uid,
                    gid,
                    atime,
                    mtime,
                    ctime,
                    name,
                };
                sim::ran::copied(raw.as_bytes())
            }
            Self::Unlink(unlink) => {
                let (mate, mate_vtail) = unlink.mate.unwrap_or((0, 0));
                let raw = RawUnlink {
                    head: head(if unlink.mate.is_some() { RENAME } else { 0 }, unlink.vtail),
                    hides: unlink.hides,
                    ino: unlink.key.0,
                    birth: unlink.key.1,
                    changed: unlink.changed,
                    parent: unlink.parent,
                    zero: 0,
                    mate,
                    mate_vtail,
                };
                sim::ran::copied(raw.as_bytes())
            }
            Self::Data(data) => sim::ran::copied(raw_data(data, head(0, data.vtail)).as_bytes()),
            Self::Attr(attr) => {
                let Attributes { mode, uid, gid, atime, mtime, ctime } = attr.attributes;
                let head = head((mode & 0o7777) as u16, attr.vtail);
                let ((ino, birth), size) = (attr.key, attr.size);
                let raw = RawAttr { head, atime, ino, birth, mtime, ctime, size, uid, gid };
                sim::ran::copied(raw.as_bytes())
            }
        };
        let crc = if rules.lacks(mutant::CRC_BEFORE_LAST_FIELD) {
            let mut early = bytes.clone();
            early[8..16].fill(0);
            sum(self.kind(), &early)
        } else {
            sum(self.kind(), &bytes)
        };
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The package in these bytes of a container; none where there is no whole one.
    pub(crate) fn decode(kind: Kind, bytes: &[u8], rules: Rules) -> Option<Self> {
        let head = Head::read_from_prefix(bytes).ok()?.0;
        if head.magic != PACKAGE_MAGIC || head.kind != kind as u8 || bytes.len() as u64 != kind.bytes() {
            return None;
        }
        if sum(kind, bytes) != head.crc && !rules.lacks(mutant::CRC_NOT_CHECKED) {
            return None;
        }
        Some(match kind {
            Kind::Create => Self::Create(create(&RawCreate::read_from_bytes(bytes).ok()?)?),
            Kind::Unlink => Self::Unlink(unlink(&RawUnlink::read_from_bytes(bytes).ok()?)),
            Kind::Data => Self::Data(data(&RawData::read_from_bytes(bytes).ok()?, rules)),
            Kind::Attr => Self::Attr(attr(&RawAttr::read_from_bytes(bytes).ok()?)),
        })
    }
}

/// The checksum of the bytes of a package.
fn sum(kind: Kind, bytes: &[u8]) -> u32 {
    let mut summed = sim::ran::copied(bytes);
    summed[4..8].fill(0);
    if kind == Kind::Data {
        summed[PATCH as usize..PATCH as usize + 8].fill(0);
    }
    crc32c(&summed)
}

/// Gives the bytes of a package their checksum, whatever they say.
pub(crate) fn certify(kind: Kind, bytes: &mut [u8]) {
    let crc = sum(kind, bytes);
    bytes[4..8].copy_from_slice(&crc.to_le_bytes());
}

fn raw_data(data: &Data, head: Head) -> RawData {
    RawData {
        head,
        patch: 0,
        ino: data.key.0,
        birth: data.key.1,
        time: data.time,
        size: data.size,
        first: data.first as u32,
        block: data.block as u32,
        blocks: data.blocks as u32,
        index: data.index,
        count: data.count,
    }
}

/// The word that patches the size of the DATA with this number.
pub(crate) fn patch_of(vtail: u64, size: u64) -> u64 {
    vtail << 48 | size & SIZE_BITS
}

const SIZE_BITS: u64 = (1 << 48) - 1;

fn create(raw: &RawCreate) -> Option<Create> {
    let RawCreate { mode, uid, gid, atime, mtime, ctime, .. } = *raw;
    Some(Create {
        vtail: raw.head.vtail,
        key: (raw.ino, raw.birth),
        parent: raw.parent,
        name: sim::ran::copied(raw.name.get(..raw.name_len as usize)?),
        attributes: Attributes { mode, uid, gid, atime, mtime, ctime },
        rdev: raw.rdev,
        changed: raw.changed,
        renamed: raw.head.flags & RENAME != 0,
    })
}

fn unlink(raw: &RawUnlink) -> Unlink {
    Unlink {
        vtail: raw.head.vtail,
        key: (raw.ino, raw.birth),
        parent: raw.parent,
        hides: raw.hides,
        changed: raw.changed,
        mate: (raw.head.flags & RENAME != 0).then_some((raw.mate, raw.mate_vtail)),
    }
}

fn data(raw: &RawData, rules: Rules) -> Data {
    let (vtail, patch) = (raw.head.vtail, raw.patch & SIZE_BITS);
    let is_own = raw.patch == patch_of(vtail, patch) || rules.lacks(mutant::PATCH_NOT_TAGGED);
    Data {
        vtail,
        key: (raw.ino, raw.birth),
        first: u64::from(raw.first),
        block: u64::from(raw.block),
        blocks: u64::from(raw.blocks),
        size: if patch != 0 && is_own { patch } else { raw.size },
        time: raw.time,
        index: raw.index,
        count: raw.count,
    }
}

fn attr(raw: &RawAttr) -> Attr {
    let RawAttr { uid, gid, atime, mtime, ctime, size, .. } = *raw;
    let mode = u32::from(raw.head.flags);
    let attributes = Attributes { mode, uid, gid, atime, mtime, ctime };
    Attr { vtail: raw.head.vtail, key: (raw.ino, raw.birth), attributes, size }
}
