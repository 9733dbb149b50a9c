//! Records: what they say, and their bytes.
//!
//! A record is bound to its place by its seal, which is seeded with the pool's secret, the opening of the zone (a number that is
//! never used twice) and the line. So bytes that an earlier use of the zone left, a copy of a record elsewhere, or data of a file
//! never pass for a record, and a record of which a line is missing does not pass either. A copy of the pool has the same secret,
//! and uses the same openings: what it wrote may lie here in blocks of a file, which stores an image of it. So the seals depend on
//! a nonce, too, which the first record of a zone, its Open, has drawn when the zone was opened.

mod attributes;

use smallvec::{SmallVec, smallvec};
use twox_hash::XxHash3_64;
use zerocopy::{FromBytes, IntoBytes};

use super::inline::Inline;
use super::layout::{
    BODY, EXTENT_BLOCKS_MAX, EXTENT_BYTES, Head, ITEM_BYTES, LINE, RECORD_LINES_MAX, RawCreate, RawExtent,
    RawItem, RawNames, RawOpen, RawRange, RawWrite, U40, U48, item, kind, sets,
};
use super::mutant::{self, Rules};
use super::raw::{Raw, Refused, body, take};

/// The identity of an operation: its logical time, then its shard, so that ids are ordered as numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id(pub u64);

impl Id {
    const SHARD_BITS: u32 = 12;

    /// The id of a shard's operation at a logical time.
    pub const fn new(time: u64, shard: u16) -> Self {
        Self(time << Self::SHARD_BITS | shard as u64)
    }

    /// The logical time.
    pub const fn time(self) -> u64 {
        self.0 >> Self::SHARD_BITS
    }

    /// The shard.
    pub const fn shard(self) -> usize {
        (self.0 & (1 << Self::SHARD_BITS) - 1) as usize
    }
}

/// One add of an operation: what a removal names.
pub type AddId = (Id, u8);

/// A record: a member of an operation, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// The operation.
    pub id: Id,
    /// Lines of its group before it; a copy keeps it, so that (id, part) tells records apart.
    pub part: u16,
    /// Lines of its group, of which all or none count; 0: it stands alone.
    pub group: u16,
    /// Of a copy that was stored with others under one fence: lines of these before it, and one; 0: it was not. Each counts alone.
    pub batch: u16,
    /// What it says.
    pub body: Body,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A log zone begins.
    Open(Open),
    /// A new inode.
    Create(Create),
    /// Names come and go.
    Names(Names),
    /// Blocks of a file get places.
    Write(Write),
    /// A file becomes shorter.
    Cut(Cut),
    /// A range of a file becomes a hole.
    Hole(Hole),
    /// Mode and owner.
    Owner(Owner),
    /// Times.
    Times(Times),
    /// An extended attribute.
    Xattr(Xattr),
    /// An operation failed.
    Void(Void),
    /// Bytes of a block.
    Inline(Inline),
}

/// A log zone begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Open {
    /// The shard that writes the zone.
    pub shard: u16,
    /// Epoch of snapshots.
    pub epoch: u16,
    /// The zone that the shard filled before in this mount.
    pub previous: Option<Previous>,
    /// What the seals of the other records of the zone depend on; 0: nothing.
    pub nonce: u64,
}

/// A zone that its shard has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Previous {
    /// The zone.
    pub zone: u32,
    /// Its opening.
    pub opening: u64,
    /// Lines that hold records.
    pub lines: u16,
}

/// A new inode.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Create {
    /// Its number.
    pub ino: u64,
    /// The directory of its name; 0: none.
    pub dir: u64,
    /// Its name; empty: it has none (the root, `O_TMPFILE`, a copy after the name went).
    pub name: Vec<u8>,
    /// Type and permissions.
    pub mode: u16,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u32,
    /// When.
    pub time: u64,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
}

/// Names come and go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Names {
    /// When.
    pub time: u64,
    /// Which.
    pub items: Vec<Item>,
}

/// A name that comes or goes, or only the times that it set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Item {
    /// Bits of [`item`].
    pub what: u8,
    /// Which add of this operation; of a removal, which add of `added`.
    pub index: u8,
    /// The directory.
    pub dir: u64,
    /// The inode.
    pub ino: u64,
    /// Of a removal: the operation that added the name.
    pub added: Id,
    /// Of an add: the name.
    pub name: Vec<u8>,
}

/// Blocks of a file get places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Write {
    /// The file.
    pub ino: u64,
    /// Which blocks lie where; none: only the size or the time is set.
    pub extents: Extents,
    /// The new size, if the file grew.
    pub size: Option<u64>,
    /// When the data changed, unless it did not (a block has moved).
    pub time: Option<u64>,
}

/// Extents of a record: mostly one.
pub type Extents = SmallVec<[Extent; 1]>;

/// Neighbouring blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extent {
    /// First block of the file.
    pub file: u64,
    /// First block of the medium.
    pub place: u64,
    /// How many.
    pub count: u16,
    /// Whether another file may have the same blocks.
    pub cloned: bool,
    /// Whether the blocks are allocated only, and read as zeros.
    pub unwritten: bool,
    /// CRC-32C of each block, or none. The written extents of a record all have some, or none of them has; others have none.
    pub checksums: Vec<u32>,
}

/// A file becomes shorter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cut {
    /// The file.
    pub ino: u64,
    /// The boundary.
    pub size: u64,
    /// Openings from this one on hold nothing that the cut hides.
    pub before: u64,
    /// When.
    pub time: u64,
}

/// A range of a file becomes a hole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hole {
    /// The file.
    pub ino: u64,
    /// First block.
    pub from: u64,
    /// How many.
    pub count: u64,
    /// As in [`Cut`].
    pub before: u64,
    /// When.
    pub time: u64,
}

/// Mode and owner: always all of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The inode.
    pub ino: u64,
    /// Type and permissions.
    pub mode: u16,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// When.
    pub time: u64,
}

/// Times.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// The inode.
    pub ino: u64,
    /// Bits of [`super::layout::times`].
    pub mask: u8,
    /// When they were set: of two times the one with the later stamp counts.
    pub stamp: u64,
    /// Time of the last access.
    pub atime: u64,
    /// Time of the last change of data.
    pub mtime: u64,
}

/// An extended attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Xattr {
    /// The inode.
    pub ino: u64,
    /// Its name, with the prefix.
    pub name: Vec<u8>,
    /// Its value, unless that lies in blocks.
    pub value: Vec<u8>,
    /// First block and length of a long value.
    pub blocks: Option<(u64, u32)>,
    /// As in [`Cut`].
    pub before: u64,
    /// When.
    pub time: u64,
    /// Whether the attribute is removed.
    pub removed: bool,
}

/// An operation failed: its records in this opening of a zone do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Void {
    /// The zone.
    pub zone: u32,
    /// Its opening.
    pub opening: u64,
    /// The operation.
    pub failed: Id,
}

/// What binds a record to its place.
#[derive(Clone, Copy, Debug)]
pub struct Seal {
    /// The pool's secret.
    pub secret: u64,
    /// The opening of the zone.
    pub opening: u64,
    /// Whether the records behind the Open of the zone depend on its nonce (`incompat::NONCE`).
    pub keyed: bool,
    /// That nonce; 0: it is not known yet.
    pub nonce: u64,
    /// Rules of the instance.
    pub rules: Rules,
}

impl Seal {
    /// The seal of the records of a zone with these bytes; none if it has lost its Open, without which none of them is known.
    pub fn of_zone(self, bytes: &[u8]) -> Option<Self> {
        if !self.keyed || self.nonce != 0 {
            return Some(self);
        }
        match Record::decode(bytes, self, 0) {
            Ok((Record { body: Body::Open(Open { nonce, .. }), .. }, _)) => Some(Self { nonce, ..self }),
            _ => None,
        }
    }

    /// The seal of a record at a line, of which `bytes` are all lines; what stands in the place of the seal does not matter.
    pub(crate) fn of(&self, line: u32, bytes: &[u8]) -> u64 {
        let opening = if self.rules.lacks(mutant::SEAL_WITHOUT_OPENING) { 0 } else { self.opening };
        let is_free = line == 0 || self.rules.lacks(mutant::SEAL_WITHOUT_NONCE);
        let nonce = if is_free { 0 } else { self.nonce };
        let seed = self.secret ^ nonce ^ (opening << 16 | u64::from(line));
        let end =
            if self.rules.lacks(mutant::SEAL_OF_FIRST_LINE) { LINE.min(bytes.len()) } else { bytes.len() };
        XxHash3_64::oneshot_with_seed(seed, bytes.get(size_of::<u64>()..end).unwrap_or_default())
    }

    /// Seals a record, whose lines these bytes are, at a line.
    pub(crate) fn close(&self, line: u32, bytes: &mut [u8]) {
        let sum = self.of(line, bytes);
        if let Some(seal) = bytes.get_mut(..size_of::<u64>()) {
            seal.copy_from_slice(&sum.to_le_bytes());
        }
    }
}

impl Body {
    /// The largest inode number in a record.
    pub(crate) fn last_ino(&self) -> u64 {
        match self {
            Self::Create(create) => create.ino.max(create.dir),
            Self::Names(names) => names.items.iter().map(|item| item.ino.max(item.dir)).max().unwrap_or(0),
            Self::Write(write) => write.ino,
            Self::Inline(inline) => inline.ino,
            Self::Cut(cut) => cut.ino,
            Self::Hole(hole) => hole.ino,
            Self::Owner(owner) => owner.ino,
            Self::Times(times) => times.ino,
            Self::Xattr(xattr) => xattr.ino,
            Self::Open(_) | Self::Void(_) => 0,
        }
    }

    /// Whether a record dies only when its name, or blocks to which it leads, go.
    pub(crate) fn is_firm(&self) -> bool {
        match self {
            Self::Create(create) => !create.name.is_empty() && create.target.is_empty(),
            Self::Write(write) => !write.extents.is_empty(),
            _ => false,
        }
    }
}

impl Record {
    /// A record that stands alone.
    pub fn alone(id: Id, body: Body) -> Self {
        Self { id, part: 0, group: 0, batch: 0, body }
    }

    /// Lines that the record takes.
    pub fn lines(&self) -> usize {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        bytes.len() / LINE
    }

    /// The bytes of the record at a line of a zone: whole lines.
    ///
    /// A record of more than [`RECORD_LINES_MAX`] lines has none: [`Write::split`] it into a group.
    pub fn encode(&self, seal: Seal, line: u32) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes);
        if bytes.len() > RECORD_LINES_MAX * LINE {
            return None;
        }
        seal.close(line, &mut bytes);
        Some(bytes)
    }

    /// Reads the record that begins at a line, of which `bytes` is the zone from there on; with the number of its lines.
    pub fn decode(bytes: &[u8], seal: Seal, line: u32) -> Result<(Self, usize), Refused> {
        let (head, _) = Head::read_from_prefix(bytes).map_err(|_| Refused::NotSealed)?;
        let lines = usize::from(head.lines);
        let whole =
            bytes.get(..lines * LINE).filter(|whole| whole.len() >= LINE).ok_or(Refused::NotSealed)?;
        if head.seal != seal.of(line, whole) {
            return Err(Refused::NotSealed);
        }
        let (group, batch) = if head.sets & sets::BATCH != 0 { (0, head.group) } else { (head.group, 0) };
        if lines > RECORD_LINES_MAX || group != 0 && head.part >= group {
            return Err(Refused::Malformed);
        }
        let body = decode_body(&head, whole.get(LINE..).unwrap_or_default())?;
        Ok((Self { id: Id(head.id), part: head.part, group, batch, body }, lines))
    }

    /// Adds the lines of the record to some bytes, without the seal.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let first = out.len();
        out.resize(first + LINE, 0);
        let (kind, sets, items, body) = match &self.body {
            Body::Open(open) => (kind::OPEN, 0, 0, open.raw()),
            Body::Create(create) => create.raw(out),
            Body::Names(names) => names.raw(out),
            Body::Write(write) => write.raw(out),
            Body::Cut(cut) => (kind::CUT, 0, 0, cut.raw()),
            Body::Hole(hole) => (kind::HOLE, 0, 0, hole.raw()),
            Body::Owner(owner) => (kind::OWNER, 0, 0, owner.raw()),
            Body::Times(times) => (kind::TIMES, 0, 0, times.raw()),
            Body::Xattr(xattr) => xattr.raw(out),
            Body::Void(void) => (kind::VOID, 0, 0, void.raw()),
            Body::Inline(inline) => inline.raw(out),
        };
        out.resize(first + (out.len() - first).next_multiple_of(LINE), 0);
        let (part, id, lines) = (self.part, self.id.0, (out.len() - first) / LINE);
        let (group, sets) =
            if self.batch > 0 { (self.batch, sets | sets::BATCH) } else { (self.group, sets) };
        let head = Head { seal: 0, kind, lines: lines as u8, part, group, sets, items, id, body };
        out[first..first + LINE].copy_from_slice(head.as_bytes());
    }
}

/// Lines of the record that some bytes begin with, as it says itself; none if there are no more.
pub(crate) fn lines_of(bytes: &[u8]) -> Option<usize> {
    Head::read_from_prefix(bytes).ok().map(|(head, _)| usize::from(head.lines).max(1))
}

fn read<T: FromBytes>(body: &[u8; BODY]) -> Result<T, Refused> {
    T::read_from_bytes(body).map_err(|_| Refused::Malformed)
}

fn decode_body(head: &Head, tail: &[u8]) -> Result<Body, Refused> {
    let raw = &head.body;
    Ok(match head.kind {
        kind::OPEN => Body::Open(Open::from_raw(&read(raw)?)),
        kind::CREATE => Body::Create(Create::from_raw(&read(raw)?, tail)?),
        kind::NAMES => Body::Names(Names::from_raw(&read(raw)?, head.items, tail)?),
        kind::WRITE => Body::Write(Write::from_raw(&read(raw)?, head.sets, tail)?),
        kind::CUT => Body::Cut(Cut::from_raw(&read(raw)?)),
        kind::HOLE => Body::Hole(Hole::from_raw(&read(raw)?)),
        kind::OWNER => Body::Owner(Owner::from_raw(&read(raw)?)),
        kind::TIMES => Body::Times(Times::from_raw(&read(raw)?)),
        kind::XATTR => Body::Xattr(Xattr::from_raw(&read(raw)?, head.sets, tail)?),
        kind::VOID => Body::Void(Void::from_raw(&read(raw)?)),
        kind::INLINE => Body::Inline(Inline::from_raw(&read(raw)?, head.sets, tail)?),
        other => return Err(Refused::UnknownKind(other)),
    })
}

impl Open {
    fn raw(&self) -> [u8; BODY] {
        let previous = self.previous.unwrap_or_default();
        body(&RawOpen {
            zone: previous.zone.to_le_bytes(),
            opening: U40::new(previous.opening),
            lines: previous.lines.to_le_bytes(),
            shard: self.shard.to_le_bytes(),
            epoch: self.epoch.to_le_bytes(),
            nonce: self.nonce.to_le_bytes(),
            ..RawOpen::default()
        })
    }

    fn from_raw(raw: &RawOpen) -> Self {
        let (zone, opening) = (u32::from_le_bytes(raw.zone), raw.opening.get());
        let lines = u16::from_le_bytes(raw.lines);
        let previous = (opening != 0).then_some(Previous { zone, opening, lines });
        let nonce = u64::from_le_bytes(raw.nonce);
        Self { shard: u16::from_le_bytes(raw.shard), epoch: u16::from_le_bytes(raw.epoch), previous, nonce }
    }
}

impl Create {
    fn raw(&self, tail: &mut Vec<u8>) -> Raw {
        let raw = RawCreate {
            ino: U48::new(self.ino),
            dir: U48::new(self.dir),
            mode: self.mode.to_le_bytes(),
            target_len: (self.target.len() as u16).to_le_bytes(),
            uid: self.uid.to_le_bytes(),
            gid: self.gid.to_le_bytes(),
            rdev: self.rdev.to_le_bytes(),
            time: self.time.to_le_bytes(),
            name_len: self.name.len() as u8,
            zero: [0; 3],
        };
        tail.extend_from_slice(&self.name);
        tail.extend_from_slice(&self.target);
        (kind::CREATE, 0, 0, body(&raw))
    }

    fn from_raw(raw: &RawCreate, mut tail: &[u8]) -> Result<Self, Refused> {
        let name = take(&mut tail, usize::from(raw.name_len))?.to_vec();
        let target = take(&mut tail, usize::from(u16::from_le_bytes(raw.target_len)))?.to_vec();
        Ok(Self {
            ino: raw.ino.get(),
            dir: raw.dir.get(),
            name,
            mode: u16::from_le_bytes(raw.mode),
            uid: u32::from_le_bytes(raw.uid),
            gid: u32::from_le_bytes(raw.gid),
            rdev: u32::from_le_bytes(raw.rdev),
            time: u64::from_le_bytes(raw.time),
            target,
        })
    }
}

impl Names {
    fn raw(&self, tail: &mut Vec<u8>) -> Raw {
        let mut items = self.items.iter().map(Item::raw);
        let first =
            RawNames { time: self.time.to_le_bytes(), zero: [0; 8], item: items.next().unwrap_or_default() };
        items.for_each(|raw| tail.extend_from_slice(raw.as_bytes()));
        self.items.iter().for_each(|item| tail.extend_from_slice(&item.name));
        (kind::NAMES, 0, self.items.len() as u8, body(&first))
    }

    fn from_raw(raw: &RawNames, count: u8, mut tail: &[u8]) -> Result<Self, Refused> {
        let mut raws = vec![raw.item];
        for _ in 1..count {
            let bytes = take(&mut tail, ITEM_BYTES)?;
            raws.push(RawItem::read_from_bytes(bytes).map_err(|_| Refused::Malformed)?);
        }
        let items = raws.iter().map(|raw| Item::from_raw(raw, &mut tail)).collect::<Result<_, _>>()?;
        Ok(Self { time: u64::from_le_bytes(raw.time), items })
    }
}

impl Item {
    /// Whether a name comes.
    pub fn adds(&self) -> bool {
        self.what & item::ADD != 0
    }

    /// Whether a name goes.
    pub fn removes(&self) -> bool {
        self.what & item::REMOVE != 0
    }

    fn raw(&self) -> RawItem {
        RawItem {
            what: self.what,
            index: self.index,
            name_len: self.name.len() as u8,
            zero: 0,
            dir: U48::new(self.dir),
            ino: U48::new(self.ino),
            added: self.added.0.to_le_bytes(),
        }
    }

    fn from_raw(raw: &RawItem, names: &mut &[u8]) -> Result<Self, Refused> {
        Ok(Self {
            what: raw.what,
            index: raw.index,
            dir: raw.dir.get(),
            ino: raw.ino.get(),
            added: Id(u64::from_le_bytes(raw.added)),
            name: take(names, usize::from(raw.name_len))?.to_vec(),
        })
    }
}

/// The records of an operation: one that stands alone, or a group of which all or none count.
pub fn group(id: Id, bodies: Vec<Body>) -> Vec<Record> {
    let mut records: Vec<_> = bodies.into_iter().map(|body| Record::alone(id, body)).collect();
    if records.len() > 1 {
        let lines: Vec<_> = records.iter().map(|record| record.lines() as u16).collect();
        let (all, mut part) = (lines.iter().sum(), 0);
        for (record, lines) in records.iter_mut().zip(lines) {
            (record.part, record.group) = (part, all);
            part += lines;
        }
    }
    records
}

impl Write {
    /// The records of a write whose records take at most so many lines each: one, or the members of a group.
    pub fn split(self, id: Id, lines: usize) -> Vec<Record> {
        if self.extents.len() <= 1 {
            return vec![Record::alone(id, Body::Write(self))];
        }
        let room = lines.saturating_sub(1) * LINE;
        let mut members: Vec<Self> = Vec::new();
        let mut used = 0;
        // A record says of all its written extents whether they have checksums.
        let checked = |extent: &Extent| (!extent.unwritten).then_some(!extent.checksums.is_empty());
        let mut kind = None;
        for extent in self.extents {
            let bytes = extent.bytes();
            let fits = kind.is_none() || checked(&extent).is_none_or(|own| kind == Some(own));
            kind = if fits { kind.or(checked(&extent)) } else { checked(&extent) };
            match members.last_mut() {
                Some(last) if used + bytes <= room && fits => {
                    used += bytes;
                    last.extents.push(extent);
                }
                _ => {
                    kind = checked(&extent);
                    used = bytes - EXTENT_BYTES;
                    members.push(Self { ino: self.ino, extents: smallvec![extent], size: None, time: None });
                }
            }
        }
        if let Some(first) = members.first_mut() {
            (first.size, first.time) = (self.size, self.time);
        }
        group(id, members.into_iter().map(Body::Write).collect())
    }

    fn raw(&self, tail: &mut Vec<u8>) -> Raw {
        let mut extents = self.extents.iter().map(Extent::raw);
        let first = RawWrite {
            ino: U48::new(self.ino),
            extents: (self.extents.len() as u16).to_le_bytes(),
            size: U48::new(self.size.unwrap_or_default()),
            zero: [0; 2],
            time: self.time.unwrap_or_default().to_le_bytes(),
            extent: extents.next().unwrap_or_default(),
        };
        let summed = || self.extents.iter().filter(|extent| extent.count > 1);
        extents.for_each(|raw| tail.extend_from_slice(raw.as_bytes()));
        for sum in summed().flat_map(|extent| &extent.checksums) {
            tail.extend_from_slice(&sum.to_le_bytes());
        }
        let checked = self.extents.iter().any(|extent| !extent.checksums.is_empty());
        let parts =
            [(self.size.is_some(), sets::SIZE), (self.time.is_some(), sets::TIMES), (checked, sets::CHECKED)];
        let sets = parts.iter().filter(|(set, _)| *set).fold(0, |sets, (_, bit)| sets | bit);
        (kind::WRITE, sets, 0, body(&first))
    }

    fn from_raw(raw: &RawWrite, sets: u8, mut tail: &[u8]) -> Result<Self, Refused> {
        let count = u16::from_le_bytes(raw.extents);
        let mut raws: SmallVec<[_; 1]> = std::iter::repeat_n(raw.extent, usize::from(count.min(1))).collect();
        for _ in 1..count {
            let bytes = take(&mut tail, EXTENT_BYTES)?;
            raws.push(RawExtent::read_from_bytes(bytes).map_err(|_| Refused::Malformed)?);
        }
        let checked = sets & sets::CHECKED != 0;
        let extents =
            raws.iter().map(|raw| Extent::from_raw(raw, checked, &mut tail)).collect::<Result<_, _>>()?;
        Ok(Self {
            ino: raw.ino.get(),
            extents,
            size: (sets & sets::SIZE != 0).then(|| raw.size.get()),
            time: (sets & sets::TIMES != 0).then(|| u64::from_le_bytes(raw.time)),
        })
    }
}

impl Extent {
    const CLONED: u16 = 1 << 14;
    const UNWRITTEN: u16 = 1 << 15;

    /// Bytes in the record, its checksums included.
    fn bytes(&self) -> usize {
        EXTENT_BYTES + if self.count > 1 { 4 * self.checksums.len() } else { 0 }
    }

    fn raw(&self) -> RawExtent {
        let flags = [(self.cloned, Self::CLONED), (self.unwritten, Self::UNWRITTEN)];
        let flags = flags.iter().filter(|(set, _)| *set).fold(0, |flags, (_, bit)| flags | bit);
        let single = if self.count == 1 { self.checksums.first().copied() } else { None };
        RawExtent {
            file: U40::new(self.file),
            place: U40::new(self.place),
            count: (self.count & EXTENT_BLOCKS_MAX | flags).to_le_bytes(),
            checksum: single.unwrap_or_default().to_le_bytes(),
        }
    }

    fn from_raw(raw: &RawExtent, checked: bool, sums: &mut &[u8]) -> Result<Self, Refused> {
        let word = u16::from_le_bytes(raw.count);
        let count = word & EXTENT_BLOCKS_MAX;
        let checksums = match count {
            _ if !checked || word & Self::UNWRITTEN != 0 => Vec::new(),
            1 => vec![u32::from_le_bytes(raw.checksum)],
            _ => {
                let bytes = take(sums, 4 * usize::from(count))?;
                let words = bytes.chunks_exact(4);
                words.map(|word| word.iter().rev().fold(0, |sum, byte| sum << 8 | u32::from(*byte))).collect()
            }
        };
        let (file, place) = (raw.file.get(), raw.place.get());
        let (cloned, unwritten) = (word & Self::CLONED != 0, word & Self::UNWRITTEN != 0);
        Ok(Self { file, place, count, cloned, unwritten, checksums })
    }
}

impl Cut {
    fn raw(&self) -> [u8; BODY] {
        body(&RawRange {
            ino: U48::new(self.ino),
            from: U48::new(self.size),
            before: U40::new(self.before),
            time: self.time.to_le_bytes(),
            ..RawRange::default()
        })
    }

    fn from_raw(raw: &RawRange) -> Self {
        let (ino, size, before) = (raw.ino.get(), raw.from.get(), raw.before.get());
        Self { ino, size, before, time: u64::from_le_bytes(raw.time) }
    }
}

/// The adds that a record removes, each with the inode of the name.
pub fn removals(record: &Record) -> impl Iterator<Item = (AddId, u64)> {
    let names: &[Item] = match &record.body {
        Body::Names(names) => &names.items,
        _ => &[],
    };
    names.iter().filter(|item| item.removes()).map(|item| ((item.added, item.index), item.ino))
}

impl Hole {
    fn raw(&self) -> [u8; BODY] {
        body(&RawRange {
            ino: U48::new(self.ino),
            from: U48::new(self.from),
            count: U48::new(self.count),
            before: U40::new(self.before),
            time: self.time.to_le_bytes(),
            ..RawRange::default()
        })
    }

    fn from_raw(raw: &RawRange) -> Self {
        let (from, count, before) = (raw.from.get(), raw.count.get(), raw.before.get());
        Self { ino: raw.ino.get(), from, count, before, time: u64::from_le_bytes(raw.time) }
    }
}
