//! Asynchronous calls: the control blocks of `io_submit` are stored as the reads, writes and syncs that they ask for; of io_uring
//! only is known that there is one.
//!
//! What an asynchronous call has done `io_getevents` says later. A control block is stored when it was submitted, with what it was
//! asked for as its result; an event that says less makes the trace a lossy one. Events that the program takes from the queue's
//! memory are not seen: then the sizes of the files at the end say it.

use std::collections::VecDeque;
use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::args;
use super::{Importer, Lost};
use crate::call::{Call, Op};

/// What is asked for and not answered, by the data of the control block.
pub(super) type Pending = FxHashMap<i64, VecDeque<i64>>;

const UNDONE: &str = "an asynchronous call has done less than it was asked for";
const STRANGE: &str = "an asynchronous call that a trace does not know";

/// The call that a control block asks for, and its result when it is done; none where it is no call of files.
fn asked(block: &[u8]) -> Option<(Call, i64)> {
    let member = |name| args::member(block, name);
    let number = |name| member(name).and_then(args::number).unwrap_or(0);
    let op = match member("aio_lio_opcode")? {
        b"IOCB_CMD_PREAD" | b"IOCB_CMD_PREADV" => Op::Pread,
        b"IOCB_CMD_PWRITE" | b"IOCB_CMD_PWRITEV" => Op::Pwrite,
        b"IOCB_CMD_FSYNC" => Op::Fsync,
        b"IOCB_CMD_FDSYNC" => Op::Fdatasync,
        _ => return None,
    };
    let mut call = Call::new(op);
    call.fd = member("aio_fildes").and_then(args::fd)?.number;
    if matches!(op, Op::Pread | Op::Pwrite) {
        let vector = member("aio_buf").filter(|buffer| buffer.first() == Some(&b'['));
        let bytes = vector.map_or_else(|| Some(number("aio_nbytes").max(0).cast_unsigned()), args::vector)?;
        (call.len, call.offset) = (bytes, number("aio_offset"));
    }
    let done = i64::try_from(call.len).ok()?;
    Some((call, done))
}

impl<W: Write> Importer<W> {
    /// `io_submit`: so many of the control blocks were taken as the result says.
    pub(super) fn submitted(
        &mut self,
        tid: u32,
        text: &[u8],
        times: (u64, u64),
        result: i64,
    ) -> io::Result<()> {
        let number = self.runner(tid).number;
        let list = args::split(text).into_iter().nth(2).unwrap_or_default();
        let blocks = list.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")).map(args::split);
        let blocks = blocks.unwrap_or_default();
        let taken = usize::try_from(result).unwrap_or(0);
        let mut times = times;
        for block in blocks.iter().take(taken) {
            let fd = args::member(block, "aio_fildes").and_then(args::fd).unwrap_or_default();
            let is_poll = args::member(block, "aio_lio_opcode") == Some(b"IOCB_CMD_POLL");
            let (kept, asked) = (self.is_stored(tid, &fd)?, asked(block));
            match (kept, asked) {
                _ if is_poll => self.out.skip(number, times.1, "waits"),
                (Ok(()), Some((call, done))) => {
                    let data = args::member(block, "aio_data").and_then(args::number).unwrap_or(0);
                    self.pending.entry(data).or_default().push_back(done);
                    self.out.call(number, times, call, done)?;
                }
                (Ok(()), None) => self.lose(number, times.1, 1, Lost { name: b"io_submit", why: STRANGE }),
                (Err(class), _) => self.leave(number, times.1, "io_submit", class),
            }
            // Those of one call share its time, which the first has.
            times = (times.0 + times.1, 0);
        }
        if taken > blocks.len() {
            let missing = (taken - blocks.len()) as u64;
            self.lose(
                number,
                times.1,
                missing,
                Lost { name: b"io_submit", why: "strace does not show the control blocks" },
            );
        }
        Ok(())
    }

    /// `io_getevents`: what came of them.
    pub(super) fn completed(&mut self, tid: u32, text: &[u8], times: (u64, u64), result: i64) {
        let number = self.runner(tid).number;
        self.out.skip(number, times.1, "waits");
        let lists =
            args::split(text).into_iter().filter_map(|arg| arg.strip_prefix(b"[")?.strip_suffix(b"]"));
        let events: Vec<&[u8]> =
            lists.flat_map(args::split).filter(|event| args::member(event, "res").is_some()).collect();
        for event in events.iter().take(usize::try_from(result).unwrap_or(0)) {
            let value = |name| args::member(event, name).and_then(args::number);
            let queue = value("data").and_then(|data| self.pending.get_mut(&data));
            let Some(asked) = queue.and_then(VecDeque::pop_front) else { continue };
            if value("res").is_some_and(|done| done < asked) {
                self.lose(number, 0, 1, Lost { name: b"io_getevents", why: UNDONE });
            }
        }
    }
}
