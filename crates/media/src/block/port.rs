//! What all block devices share: the check of a request, faults, taps.

use std::panic::Location;
use std::sync::Arc;

use super::{Geometry, Request, Ticket};
use crate::cost::Turn;
use crate::event::{BlockEvent, Event, Mark, Tap};
use crate::fault::{Fault, Target};
use crate::watch::Watch;
use crate::{MediaError, Region};

/// The entrance of a device.
#[derive(Debug)]
pub struct Port {
    watch: Watch,
    /// The region whose taps and faults count instead.
    region: Option<Arc<Region>>,
    /// The region below, whose taps hear the stores that carry requests out. They hear marks too, and a fault that leaves no
    /// space is one of the device's.
    below: Option<Arc<Region>>,
}

impl Default for Port {
    fn default() -> Self {
        Self::new()
    }
}

impl Port {
    /// Without taps and without faults.
    pub fn new() -> Self {
        Self { watch: Watch::new(), region: None, below: None }
    }

    /// Of a device on a region that tells its stores itself.
    pub(super) fn over(region: Arc<Region>) -> Self {
        Self { below: Some(region), ..Self::new() }
    }

    /// With the taps and faults of a region.
    pub(super) fn of(region: Arc<Region>) -> Self {
        Self { region: Some(region), ..Self::new() }
    }

    fn watch(&self) -> &Watch {
        self.region.as_ref().map_or(&self.watch, |region| region.watch())
    }

    /// Checks a request, lets `serve` carry it out unless a fault says otherwise, and tells it. `serve` moves
    /// the bytes and returns when the device does the work.
    pub fn submit(
        &self,
        geometry: &Geometry,
        request: Request<'_>,
        serve: impl FnOnce(&mut Request<'_>) -> Result<Turn, MediaError>,
    ) -> Ticket {
        let id = self.watch().number_request();
        let told = !matches!(request, Request::Read { .. });
        let served = check(geometry, &request).and_then(|()| self.serve(id, geometry, request, serve));
        let (turn, result) = match served {
            Ok((turn, result)) => (turn, result),
            Err(error) => (now(), Err(error)),
        };
        Ticket { id, turn, told, queued: None, result }
    }

    /// The outer error is of a request that was not begun; the inner one of one that was cut short.
    fn serve(
        &self,
        id: u64,
        geometry: &Geometry,
        mut request: Request<'_>,
        serve: impl FnOnce(&mut Request<'_>) -> Result<Turn, MediaError>,
    ) -> Result<(Turn, Result<(), MediaError>), MediaError> {
        let mut result = Ok(());
        match &mut request {
            Request::Read { off, buf } => {
                self.watch().admit(Target::Load, *off, buf.len() as u64)?;
                self.watch().tell_load(*off, buf.len() as u64);
            }
            Request::Write { off, data, .. } => {
                let len = data.len() as u64;
                if let Some(blocks) = self.watch().tears() {
                    let kept = (blocks * u64::from(geometry.block_bytes)).min(len);
                    *data = &data[..kept as usize];
                    result = Err(MediaError::Injected { target: Target::Store, offset: *off, len });
                } else {
                    self.watch().admit(Target::Store, *off, len)?;
                }
            }
            Request::Discard { off, len } => self.watch().admit(Target::Store, *off, *len)?,
            Request::Flush if self.watch().drops_for(Target::Flush, Location::caller()) => {
                return Ok((now(), Ok(())));
            }
            Request::Flush => self.watch().admit(Target::DeviceFlush, 0, 0)?,
        }
        let turn = serve(&mut request)?;
        if let Some(event) = event_of(id, &request) {
            self.watch().tell(Event::Block(event));
        }
        Ok((turn, result))
    }

    /// Tells that a request is complete, if it went well.
    pub(super) fn complete(&self, ticket: &Ticket) {
        if ticket.told && ticket.result.is_ok() {
            self.watch().tell(Event::Block(BlockEvent::Complete { id: ticket.id }));
        }
    }

    /// Lets `tap` listen from now on, after those that listen already.
    pub fn attach(&self, tap: Arc<dyn Tap>) {
        match &self.region {
            Some(region) => region.attach(tap),
            None => self.watch.change_taps(|taps| taps.push(tap)),
        }
    }

    /// Stops telling `tap`. The device keeps it alive until it goes itself.
    pub fn detach<T: Tap + ?Sized>(&self, tap: &Arc<T>) {
        if let Some(region) = &self.region {
            return region.detach(tap);
        }
        let gone = Arc::as_ptr(tap).cast::<()>();
        self.watch.change_taps(|taps| taps.retain(|tap| Arc::as_ptr(tap).cast::<()>() != gone));
    }

    /// Makes something go wrong: [`Target::Load`] is a read, [`Target::Store`] a write or discard, [`Target::DeviceFlush`] a flush
    /// that fails, [`Target::Flush`] one that is left out.
    pub fn inject(&self, fault: Fault) {
        match &self.region {
            Some(region) => region.inject(fault),
            None => self.watch.add_fault(fault),
        }
    }

    /// Makes all well again; returns how many requests have gone wrong since it was so last.
    pub fn clear_faults(&self) -> u64 {
        self.region.as_ref().map_or_else(|| self.watch.clear_faults(), |region| region.clear_faults())
    }

    /// Whether a design's allocator may give out the block or inode that it is about to.
    pub fn grants_space(&self) -> bool {
        !self.watch().drops(Target::Space) && self.below.as_ref().is_none_or(|region| region.grants_space())
    }

    /// Tells the taps what the design is doing.
    pub fn mark(&self, mark: Mark<'_>) {
        self.watch().tell(Event::Mark(mark));
        if let Some(region) = &self.below {
            region.mark(mark);
        }
    }
}

/// A request that is done as soon as it was submitted.
pub(super) fn now() -> Turn {
    let now = sim::now();
    Turn { arrival: now, start: now, end: now }
}

fn check(geometry: &Geometry, request: &Request<'_>) -> Result<(), MediaError> {
    let Some((offset, len)) = request.range() else { return Ok(()) };
    let align = u64::from(geometry.block_bytes);
    if !offset.is_multiple_of(align) || !len.is_multiple_of(align) {
        return Err(MediaError::Misaligned { offset, align });
    }
    let size = geometry.bytes.0;
    if offset > size || len > size - offset {
        return Err(MediaError::OutOfRange { offset, len, size });
    }
    let most = u64::from(geometry.max_transfer_bytes);
    match request {
        Request::Discard { .. } if !geometry.discard => Err(MediaError::NoDiscard),
        Request::Read { .. } | Request::Write { .. } if len > most => {
            Err(MediaError::TransferTooLarge { len, most })
        }
        _ => Ok(()),
    }
}

fn event_of<'a>(id: u64, request: &'a Request<'_>) -> Option<BlockEvent<'a>> {
    Some(match request {
        Request::Read { .. } => return None,
        Request::Write { off, data, flags } => BlockEvent::Write { id, off: *off, data, flags: *flags },
        Request::Flush => BlockEvent::Flush { id },
        Request::Discard { off, len } => BlockEvent::Discard { id, off: *off, len: *len },
    })
}
