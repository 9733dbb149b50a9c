//! The request layer between a file system and a device: what the kernel's block layer does with a plugged list
//! of requests.
//!
//! A caller hands over pieces, in any number. Neighbours in the order given are merged, requests are split at
//! the device's maximum, and no more than the queue's depth are outstanding; the call returns when all are
//! complete. Each request that reaches the device charges [`crate::charges::BLOCK_REQUEST`] to the caller, and each time that
//! the caller sleeps [`Work::WAKEUP`]: for a place in the queue, and once for all that is outstanding at the end.
//!
//! Merged requests carry the hint of their first piece, as a bio that mixes old and new pages does in the study
//! of fragmentation on flash (FAST 2024); the later parts of a split append follow the part before them.

use std::collections::VecDeque;
use std::sync::Arc;

use sim::{Nanos, Work};

use super::{BlockDevice, Hint, Request, Ticket, WriteFlags};
use crate::MediaError;

/// A piece of data for a device.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// First byte on the device.
    pub off: u64,
    /// The bytes.
    pub data: &'a [u8],
    /// What the device is told beside.
    pub hint: Hint,
}

/// The queue of a device.
#[derive(Clone, Debug)]
pub struct Queue {
    device: Arc<dyn BlockDevice>,
    /// Most requests outstanding for one call.
    depth: usize,
}

impl Queue {
    /// A queue of the device's own depth.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        let depth = device.geometry().queue_depth.max(1) as usize;
        Self { device, depth }
    }

    /// The same with at most `depth` requests outstanding (`nr_requests`).
    #[must_use]
    pub fn with_depth(self, depth: u32) -> Self {
        Self { depth: self.depth.min(depth.max(1) as usize), ..self }
    }

    /// The device below.
    pub fn device(&self) -> &Arc<dyn BlockDevice> {
        &self.device
    }

    /// Writes all pieces and waits. The first error is returned when every request has ended.
    pub fn write(&self, pieces: &[Piece<'_>], fua: bool) -> Result<(), MediaError> {
        // The memory of requests is in their price, here and below.
        let _own = sim::ran::aside();
        let mut flight = Flight::new(self);
        let mut rest = pieces;
        while let Some(first) = rest.first() {
            let run = run_length(rest.iter().map(|piece| (piece.off, piece.data.len())));
            let (merged, after) = rest.split_at(run);
            rest = after;
            match merged {
                [only] => flight.write(first.off, only.data, fua, first.hint),
                several => {
                    let data = several.iter().map(|piece| piece.data).collect::<Vec<_>>().concat();
                    flight.write(first.off, &data, fua, first.hint);
                }
            }
        }
        flight.land()
    }

    /// Fills all buffers and waits.
    pub fn read(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), MediaError> {
        let _own = sim::ran::aside();
        let mut flight = Flight::new(self);
        let mut rest = pieces;
        while !rest.is_empty() {
            let run = run_length(rest.iter().map(|(off, buffer)| (*off, buffer.len())));
            let (merged, after) = rest.split_at_mut(run);
            rest = after;
            match merged {
                [(off, buffer)] => flight.read(*off, buffer),
                several => {
                    let len = several.iter().map(|(_, buffer)| buffer.len()).sum();
                    let mut data = vec![0; len];
                    flight.read(several[0].0, &mut data);
                    let mut at = 0;
                    for (_, buffer) in several {
                        buffer.copy_from_slice(&data[at..at + buffer.len()]);
                        at += buffer.len();
                    }
                }
            }
        }
        flight.land()
    }

    /// Submits reads of all buffers and returns at once: for each, when its bytes are there. They may be used from then on.
    pub fn read_ahead(&self, pieces: &mut [(u64, &mut [u8])]) -> Vec<Result<Nanos, MediaError>> {
        let _own = sim::ran::aside();
        let most = self.device.geometry().max_transfer_bytes as usize;
        let mut arrivals = Vec::with_capacity(pieces.len());
        let mut rest = pieces;
        while !rest.is_empty() {
            let run = run_length(rest.iter().map(|(off, buffer)| (*off, buffer.len())));
            let (merged, after) = rest.split_at_mut(run);
            rest = after;
            let mut merged = merged;
            while let Some((off, buffer)) = merged.first() {
                let fits = (most / buffer.len().max(1)).clamp(1, merged.len());
                let mut data = vec![0; buffer.len() * fits];
                sim::work(crate::charges::BLOCK_REQUEST, 1);
                let ticket = self.device.submit(Request::Read { off: *off, buf: &mut data });
                let (now, later) = merged.split_at_mut(fits);
                for ((_, buffer), data) in now.iter_mut().zip(data.chunks(data.len() / fits)) {
                    buffer.copy_from_slice(data);
                    arrivals.push(ticket.result.map(|()| ticket.done_at()));
                }
                merged = later;
            }
        }
        arrivals
    }
}

/// How many of the pieces, from the first on, follow each other on the device.
fn run_length(pieces: impl Iterator<Item = (u64, usize)>) -> usize {
    let (mut count, mut end) = (0, None);
    for (off, len) in pieces {
        if end.is_some_and(|end| end != off) {
            break;
        }
        end = Some(off + len as u64);
        count += 1;
    }
    count
}

/// The requests of one call.
struct Flight<'a> {
    queue: &'a Queue,
    outstanding: VecDeque<Ticket>,
    result: Result<(), MediaError>,
}

impl<'a> Flight<'a> {
    fn new(queue: &'a Queue) -> Self {
        Self { queue, outstanding: VecDeque::new(), result: Ok(()) }
    }

    fn most(&self) -> usize {
        self.queue.device.geometry().max_transfer_bytes as usize
    }

    fn write(&mut self, off: u64, data: &[u8], fua: bool, mut hint: Hint) {
        let mut at = off;
        for data in data.chunks(self.most()) {
            self.submit(Request::Write { off: at, data, flags: WriteFlags { fua, hint } });
            at += data.len() as u64;
            if let Hint::Append { previous_lba } = &mut hint {
                *previous_lba = at / u64::from(self.queue.device.geometry().block_bytes) - 1;
            }
        }
    }

    fn read(&mut self, off: u64, buffer: &mut [u8]) {
        let mut at = off;
        for buf in buffer.chunks_mut(self.most()) {
            let len = buf.len() as u64;
            self.submit(Request::Read { off: at, buf });
            at += len;
        }
    }

    fn submit(&mut self, request: Request<'_>) {
        if self.outstanding.len() == self.queue.depth && self.wait_for_first() {
            sim::work(Work::WAKEUP, 1);
        }
        sim::work(crate::charges::BLOCK_REQUEST, 1);
        self.outstanding.push_back(self.queue.device.submit(request));
    }

    /// Whether it took time.
    fn wait_for_first(&mut self) -> bool {
        let Some(ticket) = self.outstanding.pop_front() else { return false };
        let sleeps = ticket.done_at() > sim::now();
        let result = self.queue.device.wait(ticket);
        self.result = std::mem::replace(&mut self.result, Ok(())).and(result);
        sleeps
    }

    fn land(mut self) -> Result<(), MediaError> {
        let mut slept = false;
        while !self.outstanding.is_empty() {
            slept |= self.wait_for_first();
        }
        if slept {
            sim::work(Work::WAKEUP, 1);
        }
        self.result
    }
}
