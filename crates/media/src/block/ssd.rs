//! An NVMe SSD as a block device: the model of [`crate::flash`] behind a lock.
//!
//! A request moves its bytes when it is submitted and is done when the model says. A write that finds the write buffer full
//! waits for room in its submission, as a driver does whose queue stands still. Writes that come later wait behind it, so that
//! small ones do not take the room for which a large one waits; reads and flushes go on.
//!
//! The device keeps a clock of its own that goes on from run to run, so that what earlier runs wrote stays where it lies:
//!
//! | | device time |
//! |---|---|
//! | in a run | that of the run, plus what had passed before it |
//! | outside a run, where time stands still | each request begins when the device is idle |
//! | [`BlockDevice::reset`], or a run's clock that is behind the last request | idle, and the run's zero is now |
//!
//! Lock order: `room`, then the device's lock, which is a leaf and not held while a task waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use parking_lot::Mutex;
use sim::{Bytes, LockClass, Nanos, sync};

use super::port::now;
use super::{BlockDevice, Geometry, Hint, Port, Request, Ticket, WriteFlags};
use crate::MediaError;
use crate::cost::{Turn, clock_runs};
use crate::flash::config::Kind;
use crate::flash::{self, Command, Config, Data, FlashError, Op, Outcome, SECTOR, Ssd};

/// Waits for the write that waits for room in the write buffer.
pub(super) static ROOM: LockClass = LockClass::new("ssd.write_buffer");

/// The device.
#[derive(Debug)]
pub struct SsdDevice {
    state: Mutex<State>,
    /// The write that waits for room in the write buffer has it.
    room: sync::Mutex<()>,
    /// Writes that wait for room: that one, and those behind it.
    waiting: AtomicU32,
    geometry: Geometry,
    port: Port,
}

#[derive(Debug)]
struct State {
    ssd: Ssd,
    /// Device time at the zero of the current run.
    base: Nanos,
    /// The run's time of the last request.
    last: Nanos,
}

impl SsdDevice {
    /// A device on which nothing was written. `data` must keep bytes.
    pub fn new(config: &Config, data: Data) -> Result<Arc<Self>, FlashError> {
        Self::with_depth(config, data, flash::queues::QUEUE_ENTRIES as u32)
    }

    /// The same with a driver that hands it at most `depth` requests at a time.
    pub fn with_depth(config: &Config, data: Data, depth: u32) -> Result<Arc<Self>, FlashError> {
        if config.kind == Kind::Zoned {
            let what = "a zoned device takes writes at write pointers only, which no block device promises";
            return Err(FlashError::Impossible { what: what.to_owned() });
        }
        if data == Data::Drop {
            return Err(FlashError::NoData);
        }
        let ssd = Ssd::new(config, data)?;
        let geometry = Geometry {
            bytes: ssd.size(0)?,
            block_bytes: SECTOR as u32,
            max_transfer_bytes: u32::try_from(config.max_transfer).unwrap_or(u32::MAX / 4096 * 4096),
            queue_depth: depth.clamp(1, flash::queues::QUEUE_ENTRIES as u32),
            volatile_cache: !config.capacitor,
            discard: config.trim,
        };
        let state = Mutex::new(State { ssd, base: Nanos::ZERO, last: Nanos::ZERO });
        let room = sync::Mutex::new(&ROOM, ());
        Ok(Arc::new(Self { state, room, waiting: AtomicU32::new(0), geometry, port: Port::new() }))
    }

    /// Looks at the model: statistics, places of pages.
    pub fn with<R>(&self, look: impl FnOnce(&Ssd) -> R) -> R {
        look(&self.state.lock().ssd)
    }

    /// Fills up the flash pages that were begun, see [`Ssd::pad`].
    pub fn pad(&self) {
        let mut state = self.state.lock();
        state.time();
        state.ssd.pad();
    }

    /// Power is lost now and comes back; returns how many pages were lost.
    pub fn power_cut(&self) -> Result<usize, MediaError> {
        let mut state = self.state.lock();
        let at = state.time();
        state.ssd.power_cut(at).map_err(|error| media_error(&error, 0))
    }

    /// Submits until the device takes it.
    fn serve(&self, request: &mut Request<'_>) -> Result<Turn, MediaError> {
        sim::interact();
        let arrival = sim::now();
        let writes = matches!(request, Request::Write { .. } | Request::Discard { .. });
        let mut step = None;
        if !writes || self.waiting.load(Relaxed) == 0 {
            step = Some(self.state.lock().submit(request)?);
        }
        let step = match step {
            Some(step @ (Step::Done(_) | Step::Outside)) => step,
            _ => {
                self.waiting.fetch_add(1, Relaxed);
                let step = self.wait_for_room(request);
                self.waiting.fetch_sub(1, Relaxed);
                step?
            }
        };
        Ok(match step {
            Step::Done(end) => Turn { arrival, start: sim::now(), end },
            _ => now(),
        })
    }

    /// Waits for the writes that came before, and then for room.
    fn wait_for_room(&self, request: &mut Request<'_>) -> Result<Step, MediaError> {
        let _turn = self.room.lock();
        loop {
            // Not in the `match`, whose arms would have the lock.
            let step = self.state.lock().submit(request)?;
            match step {
                Step::Again(at) => sim::sleep_until(at),
                done => return Ok(done),
            }
        }
    }
}

/// What became of an attempt, in the time of the run.
enum Step {
    Done(Nanos),
    /// It is done; no run, no time.
    Outside,
    Again(Nanos),
}

impl State {
    /// Device time now.
    fn time(&mut self) -> Nanos {
        if !clock_runs() {
            self.last = Nanos::MAX; // whatever run comes next is a new one
            return self.ssd.idle_at();
        }
        let run = sim::now();
        if run < self.last {
            self.base = self.ssd.idle_at();
        }
        self.last = run;
        (self.base + run).max(self.ssd.now())
    }

    fn submit(&mut self, request: &mut Request<'_>) -> Result<Step, MediaError> {
        let mut at = self.time();
        loop {
            let outcome = self.attempt(request, at);
            let off = request.range().map_or(0, |(off, _)| off);
            match outcome.map_err(|error| media_error(&error, off))? {
                Outcome::Done { .. } if !clock_runs() => return Ok(Step::Outside),
                Outcome::Done { at } => return Ok(Step::Done(at.since(self.base))),
                Outcome::Busy { retry_at } if clock_runs() => {
                    return Ok(Step::Again(retry_at.since(self.base)));
                }
                Outcome::Busy { retry_at } => at = retry_at,
            }
        }
    }

    fn attempt(&mut self, request: &mut Request<'_>, at: Nanos) -> Result<Outcome, FlashError> {
        match request {
            Request::Read { buf: [], .. } | Request::Write { data: [], .. } => Ok(Outcome::Done { at }),
            Request::Read { off, buf } => {
                self.ssd.read(&Command::new(Op::Read, *off, buf.len() as u64), buf, at)
            }
            Request::Write { off, data, flags } => {
                let command = write(*off, data.len() as u64, *flags);
                self.ssd.write(&command, data, at)
            }
            Request::Flush => self.ssd.submit(&Command::new(Op::Flush, 0, 0), at),
            Request::Discard { off, len } => self.discard(*off, *len, at),
        }
    }

    /// A trim covers whole pages; what it leaves at the ends is written with zeros.
    fn discard(&mut self, off: u64, len: u64, at: Nanos) -> Result<Outcome, FlashError> {
        let (first, end) = (off.next_multiple_of(flash::PAGE), (off + len) / flash::PAGE * flash::PAGE);
        let edges = if first < end { vec![(off, first), (end, off + len)] } else { vec![(off, off + len)] };
        let mut latest = at;
        for (from, to) in edges.into_iter().filter(|(from, to)| from < to) {
            let zeros = vec![0; (to - from) as usize];
            match self.ssd.write(&Command::new(Op::Write, from, to - from), &zeros, at)? {
                Outcome::Done { at } => latest = latest.max(at),
                busy @ Outcome::Busy { .. } => return Ok(busy),
            }
        }
        if first < end
            && let Outcome::Done { at } = self.ssd.submit(&Command::new(Op::Trim, first, end - first), at)?
        {
            latest = latest.max(at);
        }
        Ok(Outcome::Done { at: latest })
    }
}

fn write(off: u64, len: u64, flags: WriteFlags) -> Command {
    let hint = match flags.hint {
        Hint::None => flash::Hint::None,
        Hint::Append { previous_lba } => flash::Hint::Append { prior_lba: previous_lba },
        Hint::Overwrite => flash::Hint::Overwrite,
    };
    Command { fua: flags.fua, ..Command::new(Op::Write, off, len).with_hint(hint) }
}

/// The port has checked addresses and lengths: what is left is a device that is full.
fn media_error(error: &FlashError, offset: u64) -> MediaError {
    match error {
        FlashError::Length { bytes, most } => MediaError::TransferTooLarge { len: *bytes, most: *most },
        FlashError::Unsupported { .. } => MediaError::NoDiscard,
        _ => MediaError::NoFreeLine { offset },
    }
}

impl BlockDevice for SsdDevice {
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
        let (Bytes(size), len) = (self.geometry.bytes, buf.len() as u64);
        if off > size || len > size - off {
            return Err(MediaError::OutOfRange { offset: off, len, size });
        }
        self.state.lock().ssd.peek(off, buf);
        Ok(())
    }

    fn reset(&self) {
        let mut state = self.state.lock();
        (state.base, state.last) = (state.ssd.idle_at(), Nanos::ZERO);
    }
}
