//! A block device over a region: a RAM disk, a file, or NVMM.
//!
//! The driver copies the bytes itself, on the core of the submitter, so a request is done when it has been
//! submitted. What it takes is what the region's accesses take:
//!
//! | device | region | a 4-KiB page written | read |
//! |---|---|---|---|
//! | RAM disk | anonymous, no model | one copy | one copy |
//! | file | mapped, no model | one copy | one copy |
//! | NVMMBD (HiNFS, EuroSys 2016, section 5.1) | the `hinfs` model | 64 flushed lines: 12.8 us at 200 ns | one copy |

use std::ops::Range;
use std::sync::Arc;

use sim::Bytes;

use super::port::now;
use super::{BlockDevice, Geometry, Port, Request, Ticket};
use crate::nvmm::null::Null;
use crate::{CostModel, MediaError, Region};

/// The device.
#[derive(Debug)]
pub struct MemoryDevice {
    region: Arc<Region>,
    /// Where it begins in the region.
    start: u64,
    geometry: Geometry,
    port: Port,
    /// The region's taps hear of requests, and not of the stores that carry them out.
    exposed: bool,
}

impl MemoryDevice {
    /// A RAM disk: memory of this process, zero at first and touched lazily.
    pub fn ram(bytes: Bytes) -> Result<Arc<Self>, MediaError> {
        let region = Region::anonymous(bytes, Box::new(Null))?;
        Self::over(Arc::new(region), Geometry::memory(bytes))
    }

    /// NVMMBD: a RAM-disk driver on memory with this cost model.
    pub fn nvmm(bytes: Bytes, model: Box<dyn CostModel>) -> Result<Arc<Self>, MediaError> {
        let region = Region::anonymous(bytes, model)?;
        Self::over(Arc::new(region), Geometry::memory(bytes))
    }

    /// A device over a whole region; that of an ordinary file of the host has a volatile cache, the host's page cache.
    pub fn whole(region: Arc<Region>) -> Result<Arc<Self>, MediaError> {
        let geometry = Geometry::memory(Bytes(region.len())).with_volatile_cache(region.needs_sync());
        Self::over(region, geometry)
    }

    /// A device over a range of a region, as a partition of a disk; it begins at a multiple of its logical block.
    pub fn range(region: Arc<Region>, range: Range<u64>) -> Result<Arc<Self>, MediaError> {
        let (start, size) = (range.start, region.len());
        let len = range.end.saturating_sub(start);
        let geometry = Geometry::memory(Bytes(len)).with_volatile_cache(region.needs_sync());
        if len == 0 || range.end > size {
            return Err(MediaError::OutOfRange { offset: start, len: len.max(1), size });
        }
        let align = u64::from(geometry.block_bytes);
        if !start.is_multiple_of(align) {
            return Err(MediaError::Misaligned { offset: start, align });
        }
        let port = Port::over(Arc::clone(&region));
        Ok(Arc::new(Self { region, start, geometry, port, exposed: false }))
    }

    /// A device over a region, which others may use as memory at the same time. The geometry may be smaller
    /// than the region.
    pub fn over(region: Arc<Region>, geometry: Geometry) -> Result<Arc<Self>, MediaError> {
        let size = region.len();
        match geometry.bytes.0 {
            0 => Err(MediaError::Empty),
            len if len > size => Err(MediaError::OutOfRange { offset: 0, len, size }),
            _ => {
                let port = Port::over(Arc::clone(&region));
                Ok(Arc::new(Self { region, start: 0, geometry, port, exposed: false }))
            }
        }
    }

    /// A device with a volatile cache over a region, whose taps hear its requests and whose faults strike them:
    /// what checks of crashes and failures use. The stores below cost nothing and are unseen.
    pub fn exposed(region: Arc<Region>) -> Arc<Self> {
        let bytes = Bytes(region.len());
        Self::exposed_start(region, bytes)
    }

    /// The same over the first `bytes` of a region only.
    pub fn exposed_start(region: Arc<Region>, bytes: Bytes) -> Arc<Self> {
        let geometry = Geometry::memory(Bytes(bytes.0.min(region.len()))).with_volatile_cache(true);
        let port = Port::of(Arc::clone(&region));
        Arc::new(Self { region, start: 0, geometry, port, exposed: true })
    }

    /// The region below.
    pub fn region(&self) -> &Arc<Region> {
        &self.region
    }

    fn serve(&self, request: &mut Request<'_>) -> Result<(), MediaError> {
        if self.exposed {
            return self.serve_unseen(request);
        }
        match request {
            Request::Read { off, buf } => self.region.load(self.start + *off, buf),
            Request::Write { off, data, flags } => {
                self.region.nt_store(self.start + *off, data)?;
                self.region.fence();
                if flags.fua && self.geometry.volatile_cache { self.region.sync() } else { Ok(()) }
            }
            Request::Discard { off, len } => {
                self.region.nt_zero(self.start + *off, *len)?;
                self.region.fence();
                Ok(())
            }
            Request::Flush => self.region.sync(),
        }
    }

    fn serve_unseen(&self, request: &mut Request<'_>) -> Result<(), MediaError> {
        match request {
            Request::Read { off, buf } => self.region.copy_out(*off, buf),
            Request::Write { off, data, .. } => self.region.copy_in(*off, data),
            Request::Discard { off, len } => self.region.copy_in(*off, &vec![0; *len as usize]),
            Request::Flush => Ok(()),
        }
    }
}

impl BlockDevice for MemoryDevice {
    fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    fn port(&self) -> &Port {
        &self.port
    }

    fn submit(&self, request: Request<'_>) -> Ticket {
        self.port.submit(&self.geometry, request, |request| self.serve(request).map(|()| now()))
    }

    fn peek(&self, off: u64, buf: &mut [u8]) -> Result<(), MediaError> {
        self.region.copy_out(self.start + off, buf)
    }

    fn reset(&self) {
        self.region.model().reset();
    }
}
