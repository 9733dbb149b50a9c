//! The ends of logs at an unmount: all log zones get parity (P2 of `parity.rs`).

use sim::ran;
use sim::sync::Ordering::Relaxed;

use super::Store;
use super::log::At;
use super::parity::{Strip, has_head, missing};
use crate::format::clean::Present;
use crate::format::layout::LINE;
use crate::format::zone::Log;
use base::persist::checksum::charge_for;

impl Store {
    /// Gives all log zones parity, at an unmount; durable on return.
    pub(crate) fn end_zones(&self) {
        // What was saved has a checksum of the zones as they are.
        if !self.geometry.parity || self.saved.load(Relaxed) {
            return;
        }
        let (_own, _scope) = (ran::aside(), sim::scope(media::charges::JOURNAL));
        let mut open = Vec::new();
        for tail in &self.logs.tails {
            let mut tail = tail.lock();
            match tail.open {
                Some(At { line: 2.., .. }) => self.leave_zone(&mut tail),
                Some(At { zone, .. }) => open.push(zone),
                None => {}
            }
        }
        let mut bytes = Vec::new();
        for zone in self.zones.log_zones().into_iter().filter(|zone| !open.contains(&zone.zone)) {
            self.end_left(zone, &mut bytes);
        }
        self.region.fence();
    }

    /// Gives a zone parity that a crash has left without.
    fn end_left(&self, Present { zone, opening, .. }: Present, bytes: &mut Vec<u8>) {
        let (seal, at) = (self.seal(opening), self.geometry.zone_at(zone));
        let records = self.geometry.record_lines() as usize * LINE;
        let mut head = [0; LINE];
        let is_read = self.region.load(at + records as u64, &mut head).is_ok();
        if is_read && has_head(&self.geometry, seal, &head) {
            return;
        }
        bytes.resize(records, 0);
        if self.region.load(at, bytes).is_err() {
            return;
        }
        charge_for(records);
        let Some(seal) = seal.of_zone(bytes) else { return };
        let mut log = Log::default();
        log.read_zone(zone, seal, bytes);
        let Some(end) = log.records.last().map(|last| last.line + last.lines) else { return };
        if log.damage.is_empty() && missing(&log, end).is_none() {
            let mut strip = Strip::default();
            strip.add(&self.geometry, 0, &bytes[..end as usize * LINE]);
            self.end_zone(At { zone, opening, nonce: seal.nonce, line: end }, strip);
        }
    }
}
