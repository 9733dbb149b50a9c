//! A device over another one that keeps in memory what is written to it: a repair is made there, judged, and then carried out as a
//! whole or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;

use media::MediaError;
use media::block::{BlockDevice, Geometry, Port, Request, Ticket, WriteFlags};
use media::cost::Turn;
use parking_lot::Mutex;

/// The device. Its one lock is held for no call that may switch tasks.
#[derive(Debug)]
pub(super) struct Overlay {
    below: Arc<dyn BlockDevice>,
    geometry: Geometry,
    port: Port,
    /// What was written, by number of the logical block.
    written: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl Overlay {
    /// Nothing has been written yet.
    pub(super) fn new(below: &Arc<dyn BlockDevice>) -> Arc<Self> {
        let geometry = *below.geometry();
        let written = Mutex::new(BTreeMap::new());
        Arc::new(Self { below: Arc::clone(below), geometry, port: Port::new(), written })
    }

    fn unit(&self) -> u64 {
        u64::from(self.geometry.block_bytes)
    }

    fn put(&self, off: u64, data: &[u8]) {
        let (first, unit) = (off / self.unit(), self.unit() as usize);
        let mut written = self.written.lock();
        for (number, piece) in (first..).zip(data.chunks(unit)) {
            written.insert(number, piece.into());
        }
    }

    fn cover(&self, off: u64, buf: &mut [u8]) {
        let (first, unit) = (off / self.unit(), self.unit() as usize);
        let end = first + (buf.len() / unit) as u64;
        for (number, bytes) in self.written.lock().range(first..end) {
            let at = (number - first) as usize * unit;
            buf[at..at + unit].copy_from_slice(bytes);
        }
    }

    fn serve(&self, request: &mut Request<'_>) -> Result<(), MediaError> {
        match request {
            Request::Read { off, buf } => {
                self.below.read(*off, buf)?;
                self.cover(*off, buf);
            }
            Request::Write { off, data, .. } => self.put(*off, data),
            Request::Discard { off, len } => self.put(*off, &vec![0; *len as usize]),
            Request::Flush => {}
        }
        Ok(())
    }

    /// Writes to the device below, durably, what was written to this one where `takes` says so of a byte; the rest stays for later.
    pub(super) fn carry_out(&self, takes: impl Fn(u64) -> bool) -> Result<(), MediaError> {
        let unit = self.unit();
        let all = std::mem::take(&mut *self.written.lock());
        let (now, later): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.into_iter().partition(|(number, _)| takes(number * unit));
        let mut run: (u64, Vec<u8>) = (0, Vec::new());
        for (number, bytes) in &now {
            let end = run.0 + run.1.len() as u64;
            let most = self.geometry.max_transfer_bytes as usize;
            if end != number * unit || run.1.len() + bytes.len() > most {
                self.write_below(&run)?;
                run = (number * unit, Vec::new());
            }
            run.1.extend_from_slice(bytes);
        }
        self.write_below(&run)?;
        self.below.flush()?;
        *self.written.lock() = later;
        Ok(())
    }

    fn write_below(&self, (off, data): &(u64, Vec<u8>)) -> Result<(), MediaError> {
        if data.is_empty() { Ok(()) } else { self.below.write(*off, data, WriteFlags::default()) }
    }
}

impl BlockDevice for Overlay {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn port(&self) -> &Port {
        &self.port
    }

    fn submit(&self, request: Request<'_>) -> Ticket {
        self.port.submit(&self.geometry, request, |request| {
            self.serve(request)?;
            let now = sim::now();
            Ok(Turn { arrival: now, start: now, end: now })
        })
    }

    fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        let unit = self.unit();
        let (start, end) = (off / unit * unit, (off + buf.len() as u64).div_ceil(unit) * unit);
        let mut whole = vec![0; (end - start) as usize];
        self.below.peek(start, &mut whole)?;
        self.cover(start, &mut whole);
        buf.copy_from_slice(&whole[(off - start) as usize..][..buf.len()]);
        Ok(())
    }
}
