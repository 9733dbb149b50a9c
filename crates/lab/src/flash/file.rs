//! A file on flash: what its extents cost to read on a device.
//!
//! Which die a page lies on follows from the order in which the device was written, which an extent map does not hold. The
//! prediction takes the order of the addresses: what the study's set-up gives (blocks are handed out one after the other), and a
//! device that was copied or restored. An overwrite, or collection, moves pages and leaves the extents as they are; then the file
//! may lie worse than its extents say.
//!
//! ```text
//! as it lies   every stripe that holds a page of the file is written, in the order of addresses; read by extents
//! restored     the same extents, written in the order of the file with the hints of the study's approach
//! whole        one extent, written at once
//! ```
//!
//! Stripes without pages of the file are left out. As many are kept together as the cells of the device repeat in, so that a page
//! keeps its die and its kind of cell.
//!
//! Reference: "We Ain't Afraid of No File Fragmentation" (FAST 2024), sections 2 and 4.

use std::collections::BTreeMap;

use media::flash::{Command, Data, Hint, Op, PAGE, Ssd, SsdModel};
use results::PlacementRecord;
use sim::{MIB, Nanos};
use workload::fragmentation::REQUEST;
use workload::fragmentation::layout::Traffic;

use super::fragmentation::{Reading, calls};
use super::host::HostCost;
use super::replay::wait;
use crate::error::Error;

/// A stretch of a file's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte of the file.
    pub offset: u64,
    /// The first byte on the device.
    pub physical: u64,
    /// Length in bytes.
    pub bytes: u64,
}

/// How long a read of the file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Took {
    /// With the host's part.
    pub with_host: Nanos,
    /// The device alone.
    pub device: Nanos,
}

/// What the extents of a file cost.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Bytes that the prediction is about: the beginning of a large file.
    pub bytes: u64,
    /// Pieces of these bytes that do not follow each other on the device: the study's degree of fragmentation.
    pub pieces: u64,
    /// A granule on each die.
    pub stripe: u64,
    /// The die of each page.
    pub placement: PlacementRecord,
    /// As it lies.
    pub as_it_lies: Took,
    /// The same pieces, if the device had been told which page follows which.
    pub restored: Took,
    /// In one piece, written at once.
    pub whole: Took,
}

/// Most that is predicted of a file.
const MOST_BYTES: u64 = 4 << 30;
/// Most that is written on the model for it.
const MOST_WRITTEN: u64 = 16 << 30;

/// Neighbours that follow each other on the device are one piece.
pub fn merged(pieces: &[Piece]) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::new();
    for piece in pieces {
        match merged.last_mut() {
            Some(last) if last.physical + last.bytes == piece.physical => last.bytes += piece.bytes,
            _ => merged.push(*piece),
        }
    }
    merged
}

/// What these pieces, in the order of the file, cost on a device.
pub fn predict(pieces: &[Piece], model: &SsdModel, host: HostCost) -> Result<Predicted, Error> {
    let (mut off, mut on) = (model.clone(), model.clone());
    for (model, value) in [(&mut off, "off"), (&mut on, "on")] {
        let set = model.set("allocation", value, "the prediction");
        set.map_err(|error| Error::Setting(error.to_string()))?;
    }
    let device = Ssd::new(&off.config()?, Data::Drop)?;
    let stripe = u64::from(device.config().dies()) * device.config().oneshot_page;
    let kept =
        compact(&merged(pieces), stripe * u64::from(device.config().timing.cells), device.size(0)?.0 / 2);
    if kept.extents.is_empty() {
        return Err(Error::Setting(
            "the file holds no data: there is nothing to read from a device".to_owned(),
        ));
    }
    let bytes = kept.extents.iter().map(|(_, bytes)| bytes).sum();
    let lies = written(device, &[(0, kept.end)], false)?;
    let dies = kept.extents.iter().flat_map(|(start, len)| (*start..start + len).step_by(PAGE as usize));
    let dies: Vec<u32> = dies.filter_map(|at| lies.layout(at)).map(|place| place.die).collect();
    if dies.is_empty() {
        let what = format!("{} is not an SSD with a known placement of pages on dies", model.name());
        return Err(Error::Setting(what));
    }
    let whole = vec![(0, bytes)];
    let runs = dies.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect();
    let stripe_pages = (stripe / PAGE) as u32;
    Ok(Predicted {
        bytes,
        pieces: kept.extents.len() as u64,
        stripe,
        placement: PlacementRecord { dies: lies.config().dies(), stripe_pages, runs },
        as_it_lies: took(&lies, &kept.extents, host)?,
        restored: took(
            &written(Ssd::new(&on.config()?, Data::Drop)?, &kept.extents, true)?,
            &kept.extents,
            host,
        )?,
        whole: took(&written(Ssd::new(&off.config()?, Data::Drop)?, &whole, false)?, &whole, host)?,
    })
}

/// The stripes that hold pages of the file, one after the other.
#[derive(Debug, Default)]
struct Compact {
    extents: Vec<(u64, u64)>,
    end: u64,
}

/// Leaves out what is between the pieces, `unit` bytes at a time. Ends where the model would have to write too much.
fn compact(pieces: &[Piece], unit: u64, most: u64) -> Compact {
    let mut taken = 0;
    let mut units: BTreeMap<u64, u64> = BTreeMap::new();
    let mut extents: Vec<(u64, u64)> = Vec::new();
    'pieces: for piece in pieces {
        let (start, end) =
            (piece.physical / PAGE * PAGE, (piece.physical + piece.bytes).next_multiple_of(PAGE));
        let mut from = start;
        while from < end {
            let is_known = units.contains_key(&(from / unit));
            let is_too_much = (units.len() as u64 + 1) * unit > most.min(MOST_WRITTEN);
            if taken >= MOST_BYTES || !is_known && is_too_much {
                break 'pieces;
            }
            units.insert(from / unit, 0);
            let to = end.min((from / unit + 1) * unit);
            match extents.last_mut() {
                Some((first, len)) if *first + *len == from => *len += to - from,
                _ => extents.push((from, to - from)),
            }
            taken += to - from;
            from = to;
        }
    }
    units.values_mut().zip(0..).for_each(|(place, number)| *place = number * unit);
    let end = units.len() as u64 * unit;
    // A piece lies in units that follow each other, so it stays whole.
    for (start, _) in &mut extents {
        *start = units[&(*start / unit)] + *start % unit;
    }
    Compact { extents, end }
}

/// The device after these extents were written in this order, each request waited for.
fn written(mut ssd: Ssd, extents: &[(u64, u64)], hinted: bool) -> Result<Ssd, Error> {
    let step = REQUEST.min(ssd.config().max_transfer);
    let (mut now, mut previous) = (Nanos::ZERO, None);
    for (start, len) in extents {
        for at in (*start..start + len).step_by(step as usize) {
            let bytes = step.min(start + len - at);
            let command = Command::new(Op::Write, at, bytes);
            let hint = previous.filter(|_| hinted).map(|prior_lba| Hint::Append { prior_lba });
            now = wait(&mut ssd, &command.with_hint(hint.unwrap_or_default()), now)?;
            previous = Some((at + bytes - PAGE) / media::flash::SECTOR);
        }
    }
    Ok(ssd)
}

/// Direct reads of 1 MiB over these extents.
fn took(ssd: &Ssd, extents: &[(u64, u64)], host: HostCost) -> Result<Took, Error> {
    let traffic = Traffic { extents: extents.to_vec(), ..Traffic::default() };
    let read = |host| {
        let mut ssd = ssd.clone();
        // A whole second: the beginning of a bucket of the links.
        let start = Nanos::from_secs(ssd.idle_at().0 / 1_000_000_000 + 1);
        calls(&mut ssd, &traffic.reads(MIB), Reading::CALLS.depth, host, start)
    };
    Ok(Took { with_host: read(host)?, device: read(HostCost::NONE)? })
}

impl Predicted {
    /// Which part of what is lost against one piece is lost by more requests, and not by dies; none if little is lost.
    pub fn splitting(&self) -> Option<f64> {
        let (lies, restored, whole) =
            (self.as_it_lies.with_host.0, self.restored.with_host.0, self.whole.with_host.0);
        let lost = lies as f64 - whole as f64;
        (lost > 0.01 * whole as f64).then(|| ((restored as f64 - whole as f64) / lost).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;

    fn fast24() -> SsdModel {
        SsdModel::parse("fast24").unwrap()
    }

    /// 8 MiB in pieces of 32 KiB, one every `every` bytes, far out on the device.
    fn pieces(every: u64) -> Vec<Piece> {
        let piece = |number: u64| Piece {
            offset: number * 32 * KIB,
            physical: (3 << 40) + number * every,
            bytes: 32 * KIB,
        };
        (0..256).map(piece).collect()
    }

    #[test]
    fn pieces_a_stripe_apart_lie_on_one_die_and_take_the_published_time() {
        let predicted = predict(&pieces(256 * KIB), &fast24(), HostCost::NONE).unwrap();
        assert_eq!((predicted.pieces, predicted.placement.runs.len()), (256, 1));
        assert!(predicted.placement.collisions().iter().all(|worst| (*worst - 8.0).abs() < 1e-9));
        let rate = |took: Took| 8.0 / took.device.as_secs_f64();
        // The independent model of the study's device: 408, 2467 and 2495 MiB/s.
        for (took, published) in
            [(predicted.as_it_lies, 408.0), (predicted.restored, 2467.0), (predicted.whole, 2495.0)]
        {
            assert!((rate(took) / published - 1.0).abs() < 0.02, "{} for {published}", rate(took));
        }
        assert!(predicted.splitting().unwrap() < 0.05);
    }

    #[test]
    fn pieces_that_follow_each_other_are_one_and_lose_nothing() {
        let predicted = predict(&pieces(32 * KIB), &fast24(), HostCost::NONE).unwrap();
        assert_eq!(
            (predicted.pieces, predicted.as_it_lies, predicted.splitting()),
            (1, predicted.whole, None)
        );
    }

    #[test]
    fn a_file_without_data_and_a_device_without_dies_are_refused() {
        let told = |pieces: &[Piece], model: &str| {
            predict(pieces, &SsdModel::parse(model).unwrap(), HostCost::NONE).unwrap_err().to_string()
        };
        assert!(told(&[], "fast24").contains("holds no data"));
        assert!(told(&pieces(32 * KIB), "nvmevirt.units").contains("not an SSD with a known placement"));
    }
}
