//! What a program does to the log that its threads share, whose places are known only when a record is stored: see
//! [`crate::log::shared`].
//!
//! | | instructions |
//! |---|---|
//! | a record | 2, a load of the head, an atomic addition to the tail, before those that every record takes |
//! | the first record of a transaction | a store: from here on the thread needs the log |
//! | a commit | a store: it needs its records no more; 2 and a load of the head: is a quarter used? |
//! | moving the head | a load for each other thread, a superblock, a fence; redo logging: a fence before that |

use super::{Program, Software};
use crate::log::record::Record;
use crate::log::shared::{HEAD, TAKEN, needed_by};
use crate::op::{Kind, Op};

const COMPARE: u32 = 2;

impl Program {
    /// Appends a record.
    pub(super) fn append_shared(&mut self, record: &Record, cached: bool) {
        let first = !std::mem::replace(&mut self.open[self.thread].has_records, true);
        if first {
            self.add(Kind::Store, needed_by(self.thread), 0);
        }
        self.work(COMPARE);
        self.add(Kind::Load, HEAD, 0);
        let format = &self.logs[self.thread].format;
        let length = format.length(record.kind);
        let place = self.payload.as_mut().map_or(0, |payload| {
            payload.extend_from_slice(&format.encode(record, 0)[..length]);
            payload.len() - length
        });
        let words = length as u16;
        let take = Op::new(Kind::TakeSpace, u64::from(first), place as u64);
        self.push(Op { words, logging: true, ..take });
        self.executed.log_stores += length as u64;
        if cached {
            (0..length as u64).for_each(|word| self.add(Kind::Store, TAKEN + 8 * word, 0));
        } else {
            self.push(Op { words, logging: true, ..Op::new(Kind::NtStore, TAKEN, 0) });
        }
    }

    /// The thread needs its earlier transactions' records no more, nor, unless `keep`, those of the open one.
    pub(super) fn release(&mut self, keep: bool) {
        let keep = keep && self.open[self.thread].has_records;
        self.add(Kind::Release, needed_by(self.thread), u64::from(keep));
    }

    /// After a commit: the head moves, if a quarter of the log is used.
    pub(super) fn truncate_shared(&mut self, software: Software) {
        if software.in_place {
            self.release(false);
        }
        self.work(COMPARE);
        self.add(Kind::Load, HEAD, 0);
        self.add(Kind::Truncate, 0, 0);
    }

    /// The thread has no more transactions: what it has written back is durable before it ends, and holds no head.
    pub(crate) fn end(&mut self) {
        let Some(software) = self.scheme.software.filter(|software| self.shared && !software.in_place) else {
            return;
        };
        if !std::mem::replace(&mut self.open[self.thread].ended, true) {
            if software.ordered {
                self.add(Kind::Fence, 0, 0);
            }
            self.release(false);
        }
    }
}
