//! Records of owners, times, extended attributes, and of operations that do not count, on the medium.

use super::{Id, Owner, Times, Void, Xattr};
use crate::format::layout::{BODY, RawOwner, RawTimes, RawVoid, RawXattr, U40, U48, kind, sets};
use crate::format::raw::{Raw, Refused, body, take};

impl Owner {
    pub(super) fn raw(&self) -> [u8; BODY] {
        body(&RawOwner {
            ino: U48::new(self.ino),
            mode: self.mode.to_le_bytes(),
            uid: self.uid.to_le_bytes(),
            gid: self.gid.to_le_bytes(),
            time: self.time.to_le_bytes(),
            ..RawOwner::default()
        })
    }

    pub(super) fn from_raw(raw: &RawOwner) -> Self {
        let (uid, gid) = (u32::from_le_bytes(raw.uid), u32::from_le_bytes(raw.gid));
        let (mode, time) = (u16::from_le_bytes(raw.mode), u64::from_le_bytes(raw.time));
        Self { ino: raw.ino.get(), mode, uid, gid, time }
    }
}

impl Times {
    pub(super) fn raw(&self) -> [u8; BODY] {
        body(&RawTimes {
            ino: U48::new(self.ino),
            mask: self.mask,
            stamp: self.stamp.to_le_bytes(),
            atime: self.atime.to_le_bytes(),
            mtime: self.mtime.to_le_bytes(),
            ..RawTimes::default()
        })
    }

    pub(super) fn from_raw(raw: &RawTimes) -> Self {
        let (atime, mtime) = (u64::from_le_bytes(raw.atime), u64::from_le_bytes(raw.mtime));
        Self { ino: raw.ino.get(), mask: raw.mask, stamp: u64::from_le_bytes(raw.stamp), atime, mtime }
    }
}

impl Xattr {
    pub(super) fn raw(&self, tail: &mut Vec<u8>) -> Raw {
        let (place, len) = self.blocks.unwrap_or((0, self.value.len() as u32));
        let raw = RawXattr {
            ino: U48::new(self.ino),
            name_len: self.name.len() as u8,
            before: U40::new(self.before),
            place: U40::new(place),
            value_len: len.to_le_bytes(),
            time: self.time.to_le_bytes(),
            ..RawXattr::default()
        };
        let sets = if self.removed { sets::REMOVED } else { 0 };
        tail.extend_from_slice(&self.name);
        tail.extend_from_slice(&self.value);
        (kind::XATTR, sets, 0, body(&raw))
    }

    pub(super) fn from_raw(raw: &RawXattr, sets: u8, mut tail: &[u8]) -> Result<Self, Refused> {
        let name = take(&mut tail, usize::from(raw.name_len))?.to_vec();
        let (place, len) = (raw.place.get(), u32::from_le_bytes(raw.value_len));
        let blocks = (place != 0).then_some((place, len));
        let value = if blocks.is_some() { Vec::new() } else { take(&mut tail, len as usize)?.to_vec() };
        let (before, time) = (raw.before.get(), u64::from_le_bytes(raw.time));
        let removed = sets & sets::REMOVED != 0;
        Ok(Self { ino: raw.ino.get(), name, value, blocks, before, time, removed })
    }
}

impl Void {
    pub(super) fn raw(&self) -> [u8; BODY] {
        body(&RawVoid {
            zone: self.zone.to_le_bytes(),
            opening: U40::new(self.opening),
            id: self.failed.0.to_le_bytes(),
            ..RawVoid::default()
        })
    }

    pub(super) fn from_raw(raw: &RawVoid) -> Self {
        let (zone, failed) = (u32::from_le_bytes(raw.zone), Id(u64::from_le_bytes(raw.id)));
        Self { zone, opening: raw.opening.get(), failed }
    }
}
