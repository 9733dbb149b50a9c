//! A loop device over a file in memory (ramfs): one worker copies, request after request.
//!
//! | what | costs | because |
//! |---|---|---|
//! | a request | [`BLOCK_REQUEST`], [`Work::CALL`] | it is started and completed; a call reads or writes the file |
//! | a page of it | [`Work::LOCK`], two steps | the page is found in the page cache and referenced |
//! | its bytes | a copy | the worker moves them, not the submitter |
//! | a worker that has nothing to do | [`Work::WAKEUP`] | the submitter queues the work and wakes it |
//!
//! So requests are done one after the other, however many are outstanding.
//!
//! Source: Linux 5.15, `drivers/block/loop.c`: `loop_queue_work`, `lo_read_simple`; requests have at most 128 segments of a
//! page (`BLK_MAX_SEGMENTS`).

use std::sync::Arc;

use parking_lot::Mutex;
use sim::{Bytes, Nanos, Work};

use super::port::now;
use super::{BlockDevice, Geometry, MemoryDevice, Port, Request, Ticket};
use crate::MediaError;
use crate::charges::BLOCK_REQUEST;
use crate::cost::{Turn, clock_runs};

const PAGE: u64 = 4096;

/// The device.
#[derive(Debug)]
pub struct LoopDevice {
    memory: Arc<MemoryDevice>,
    geometry: Geometry,
    port: Port,
    /// When the worker will be free, in the time of the run.
    free_at: Mutex<Nanos>,
}

impl LoopDevice {
    /// A device of so many bytes, for at most `depth` requests at a time.
    pub fn new(bytes: Bytes, depth: u32) -> Result<Arc<Self>, MediaError> {
        let memory = MemoryDevice::ram(bytes)?;
        let geometry =
            Geometry { max_transfer_bytes: 128 * PAGE as u32, queue_depth: depth, ..*memory.geometry() };
        Ok(Arc::new(Self { memory, geometry, port: Port::new(), free_at: Mutex::new(Nanos::ZERO) }))
    }

    fn serve(&self, request: &mut Request<'_>) -> Result<Turn, MediaError> {
        sim::interact();
        self.move_bytes(request)?;
        if !clock_runs() {
            return Ok(now());
        }
        let bytes = request.range().map_or(0, |(_, len)| len);
        let pages = bytes.div_ceil(PAGE);
        let work = sim::cost_of(BLOCK_REQUEST, 1)
            + sim::cost_of(Work::CALL, 1)
            + sim::cost_of(Work::LOCK, pages)
            + sim::cost_of(Work::STEP, 2 * pages);
        let arrival = sim::now();
        let mut free_at = self.free_at.lock();
        let begin = if *free_at > arrival { *free_at } else { arrival + sim::cost_of(Work::WAKEUP, 1) };
        *free_at = begin + work + sim::copy_cost(bytes);
        Ok(Turn { arrival, start: begin, end: *free_at })
    }

    fn move_bytes(&self, request: &mut Request<'_>) -> Result<(), MediaError> {
        let region = self.memory.region();
        match request {
            Request::Read { off, buf } => region.copy_out(*off, buf),
            Request::Write { off, data, .. } => region.nt_store(*off, data),
            Request::Discard { off, len } => region.nt_zero(*off, *len),
            Request::Flush => Ok(()),
        }
    }
}

impl BlockDevice for LoopDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn port(&self) -> &Port {
        &self.port
    }

    fn submit(&self, request: Request<'_>) -> Ticket {
        self.port.submit(&self.geometry, request, |request| self.serve(request))
    }

    fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.memory.peek(off, buf)
    }

    fn reset(&self) {
        *self.free_at.lock() = Nanos::ZERO;
    }
}
