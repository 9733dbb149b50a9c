//! Recovery: from an image of NVRAM to one that holds the effects of committed transactions, and of no others.
//!
//! 1. Read the superblock, which says how the log has grown, and records from the head on, until one is not whole or of another
//!    pass: that is the tail. Threads that share a software log fill it side by side, so there recovery goes on behind such a
//!    hole, up to where the log would be full.
//! 2. A transaction is committed if its commit record was found. Numbers are used again, so an *instance* is a number, a thread
//!    and how many commits of these came before.
//! 3. Redo: in log order, new values of committed instances.
//! 4. Undo: in reverse order, old values of the others.
//! 5. Holes before the tail are filled with zeros. What was never written there is of the pass before, and the pass after has the
//!    same torn bit: once the head has moved, a later recovery would take it for a record behind the tail.
//! 6. The head moves to the tail.
//!
//! A crash in 3 or 4 leaves the log as it is, and one in 5 leaves all its records: the same steps lead to the same image. Winners
//! are repeated before losers are undone, which is right because transactions keep to themselves until they have committed.

use std::collections::BTreeMap;

use crate::log::Format;
use crate::log::record::{Kind, Record};

/// A deliberate error of recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flaws {
    /// Records of any pass count.
    pub any_pass: bool,
    /// Redo goes from the newest record to the oldest.
    pub reverse_redo: bool,
    /// An instance is its number and thread only.
    pub no_instance: bool,
    /// A log with holes ends at the first.
    pub stop_at_hole: bool,
    /// Holes are left as they are.
    pub keep_holes: bool,
}

/// A word that recovery writes.
pub type Written = (u64, u64);

/// Recovers an image; answers with the words that it wrote, in order.
pub fn recover(image: &mut [u64], logs: &[Format], flaws: Flaws) -> Vec<Written> {
    let mut writes = Vec::new();
    let mut scanned = Vec::new();
    for format in logs {
        let (format, head) = format.of_image(&|addr| image[(addr / 8) as usize]);
        let log = scan(image, &format, head, flaws);
        replay(image, &format, &log.records, flaws, &mut writes);
        scanned.push((format, log));
    }
    for (format, log) in &scanned {
        for hole in log.holes.iter().filter(|_| !flaws.keep_holes) {
            for byte in (0..format.hole_step()).step_by(8) {
                put(image, format.place(hole + byte), 0, &mut writes);
            }
        }
    }
    for (format, log) in scanned {
        for (word, value) in format.superblock(log.tail).into_iter().enumerate() {
            put(image, format.base + 8 * word as u64, value, &mut writes);
        }
    }
    writes
}

fn put(image: &mut [u64], addr: u64, value: u64, writes: &mut Vec<Written>) {
    if let Some(word) = image.get_mut((addr / 8) as usize) {
        *word = value;
        writes.push((addr, value));
    }
}

/// A log from its head on.
struct Scanned {
    /// The whole records. In a log with holes they stand behind records that are not whole, too.
    records: Vec<Record>,
    /// Behind the last of them.
    tail: u64,
    /// Positions of the holes before the tail, each of `Format::hole_step` bytes.
    holes: Vec<u64>,
}

fn scan(image: &[u64], format: &Format, head: u64, flaws: Flaws) -> Scanned {
    let read = |addr: u64| image[(addr / 8) as usize];
    let holes = format.holes && !flaws.stop_at_hole;
    // A log that has grown holds at most what all its areas hold.
    let end = if holes { format.end_after(head) } else { head + 2 * format.area().size };
    let (mut position, mut tail) = (head, head);
    let (mut records, mut steps) = (Vec::new(), Vec::new());
    while position < end {
        if let Some((record, bytes)) = format.decode(position, &read, flaws.any_pass) {
            records.push(record);
            position += bytes;
            tail = position;
        } else if holes {
            steps.push(position);
            position += format.hole_step();
        } else {
            break;
        }
    }
    steps.retain(|hole| *hole < tail);
    Scanned { records, tail, holes: steps }
}

fn replay(image: &mut [u64], format: &Format, records: &[Record], flaws: Flaws, writes: &mut Vec<Written>) {
    // Instance of each record, and the instances that have committed.
    let mut commits: BTreeMap<(u8, u16), u64> = BTreeMap::new();
    let mut instances = Vec::with_capacity(records.len());
    for record in records {
        let name = (record.thread, record.tx);
        let before = commits.entry(name).or_default();
        instances.push((name, if flaws.no_instance { 0 } else { *before }));
        *before += u64::from(record.kind == Kind::Commit);
    }
    let won = |instance: &((u8, u16), u64)| instance.1 < commits[&instance.0];
    let updates = || records.iter().zip(&instances).filter(|(record, _)| record.kind == Kind::Update);
    if format.redo {
        let winners: Vec<&Record> = updates().filter(|(_, i)| won(i)).map(|(record, _)| record).collect();
        let order: Vec<&Record> =
            if flaws.reverse_redo { winners.into_iter().rev().collect() } else { winners };
        for record in order {
            side(image, format, record.addr, &record.redo, writes);
        }
    }
    if format.undo {
        let losers: Vec<&Record> = updates().filter(|(_, i)| !won(i)).map(|(record, _)| record).collect();
        for record in losers.iter().rev() {
            side(image, format, record.addr, &record.undo, writes);
        }
    }
}

fn side(image: &mut [u64], format: &Format, addr: u64, words: &[u64; 8], writes: &mut Vec<Written>) {
    for (index, word) in words[..format.words].iter().enumerate() {
        put(image, addr + 8 * index as u64, *word, writes);
    }
}
