//! `weir explain fragmentation FILE`: the extents of a file, the dies on which they would lie, and how long reads of it take.
//!
//! The file is one of this host, asked by FIEMAP, or one in an image, whose design is asked. An image is mounted from a copy in
//! memory and never changed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use design::Options;
use lab::MachinePreset;
use lab::flash::file::{self, Piece, Predicted, Took};
use lab::flash::host::HostCost;
use media::fiemap::host_extents;
use media::flash::SsdModel;
use media::nvmm::Access;
use report::table::Table;
use report::units::Unit;
use serde_json::json;
use sim::{Machine, Nanos, Seed, Setup};
use vfs::{Credentials, Errno, FileKind, Mount, MountOptions, OpenFlags, Process, Syscalls};

use crate::command::image;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::partition::Part;

/// A file and where its data lies.
struct Found {
    name: String,
    size: u64,
    /// Data, in the order of the file.
    pieces: Vec<Piece>,
    /// Space that is allocated and reads as zeros.
    unwritten: u64,
    /// Data that lies in no block of its own: in the inode, compressed.
    elsewhere: u64,
}

/// Stretches of the file in the picture of the dies.
const LINES: usize = 16;

pub(super) fn explain(
    what: (&str, Part),
    medium: &str,
    machine: &str,
    output: &Output,
) -> Result<(), Failure> {
    let model = SsdModel::parse(medium)?;
    model.config()?;
    let host = HostCost::of(&MachinePreset::load(machine)?.machine);
    let found = find(what)?;
    if found.pieces.is_empty() {
        let why = match (found.size, found.elsewhere, found.unwritten) {
            (0, ..) => "is empty",
            (_, 1.., _) => "has no data blocks of its own (its data is in the inode, or compressed)",
            (.., 1..) => "has space but no data: nothing was written to it yet",
            _ => "is one hole: it has no blocks",
        };
        return Err(Failure::usage(format!(
            "{} {why}, so there is nothing to read from a device",
            found.name
        )));
    }
    let predicted = file::predict(&found.pieces, &model, host)?;
    if output.is_json() {
        output.document(&document(&found, &predicted, &model, machine));
    } else {
        output.data(&text(&found, &predicted, &model, machine));
    }
    Ok(())
}

/// A file of the host; else the longest beginning before a colon that is one is an image.
fn find((what, part): (&str, Part)) -> Result<Found, Failure> {
    if Path::new(what).exists() {
        return on_host(what);
    }
    let mut splits = what.match_indices(':').map(|(at, _)| (&what[..at], &what[at + 1..]));
    match splits.rfind(|(image, _)| Path::new(image).is_file()) {
        Some((image, path)) => in_image((Path::new(image), part), path),
        None => Err(Failure::usage(format!(
            "{what}: there is no such file; one in a pool is written POOL:/PATH, and POOL must be a file"
        ))),
    }
}

fn on_host(name: &str) -> Result<Found, Failure> {
    let path = Path::new(name);
    let data = std::fs::metadata(path).map_err(|error| Failure::io("look at", path, &error))?;
    if !data.is_file() {
        return Err(Failure::usage(format!(
            "{name} is not a regular file, and only regular files have extents"
        )));
    }
    let file = File::open(path).map_err(|error| Failure::io("open", path, &error))?;
    let extents = host_extents(&file).map_err(|error| untold(path, &error))?;
    let mut found =
        Found { name: name.to_owned(), size: data.len(), pieces: Vec::new(), unwritten: 0, elsewhere: 0 };
    for extent in extents {
        match extent.physical {
            Some(physical) if !extent.unwritten => found.add(extent.offset, physical, extent.len),
            Some(_) => found.unwritten += extent.len,
            None => found.elsewhere += extent.len,
        }
    }
    Ok(found)
}

/// FIEMAP was refused.
fn untold(path: &Path, error: &std::io::Error) -> Failure {
    let unknown =
        [rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::NOTTY].map(rustix::io::Errno::raw_os_error);
    if !error.raw_os_error().is_some_and(|number| unknown.contains(&number)) {
        return Failure::io("ask for the extents of", path, error);
    }
    let message = format!(
        "{}: its file system does not report extents (FIEMAP): tmpfs has no device, network and FUSE file systems \
         hide theirs; copy the file to ext4 or XFS, or ask for one in a pool (POOL:/PATH)",
        path.display()
    );
    Failure::new(Exit::Host, message)
}

fn in_image((image, part): (&Path, Part), path: &str) -> Result<Found, Failure> {
    let region = image::open(image, None, Access::Private)?;
    let (design, storage) = image::identify(&region, None, (image, part))?;
    let base = part.range(&region, image)?.map_or(0, |range| range.start);
    let options = Options::resolve(design.name(), design.options(), &BTreeMap::new())
        .map_err(|error| Failure::usage(error.to_string()))?;
    let name = format!("{}:{path}", image.display());
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let place = image.to_owned();
    let looked = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), move || {
        let mounted = design.mount(&storage, &options);
        let mounted = mounted.map_err(|error| image::unusable(&place, error))?;
        let told = |errno: Errno| refused(&name, design.name(), errno);
        let mount = Mount::new(mounted, MountOptions::default()).map_err(told)?;
        let process = Process::new(mount.clone(), Credentials::root());
        let found = look(&process, &path, &name, base).map_err(told);
        drop(process);
        let ended = mount.unmount().map_err(told);
        let found = found?;
        ended.map(|()| found)
    });
    looked.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?
}

/// `base` is the byte of the image at which the file system begins.
fn look(process: &Process, path: &str, name: &str, base: u64) -> Result<Found, Errno> {
    let data = process.stat(path.as_bytes())?;
    if data.kind != FileKind::Regular {
        return Err(Errno::EINVAL);
    }
    let fd = process.open(path.as_bytes(), OpenFlags::READ, 0)?;
    let extents = process.extents(fd);
    process.close(fd)?;
    let mut found =
        Found { name: name.to_owned(), size: data.size, pieces: Vec::new(), unwritten: 0, elsewhere: 0 };
    for extent in extents? {
        if extent.unwritten {
            found.unwritten += extent.len;
        } else {
            found.add(extent.offset, base + extent.physical, extent.len);
        }
    }
    Ok(found)
}

fn refused(name: &str, design: &str, errno: Errno) -> Failure {
    match errno {
        Errno::EOPNOTSUPP => Failure::usage(format!(
            "{name}: {design} does not report extents, because it does not use a block device; ext4 does"
        )),
        Errno::EINVAL => {
            Failure::usage(format!("{name} is not a regular file, and only regular files have extents"))
        }
        errno => Failure::usage(format!("{name}: {errno}")),
    }
}

impl Found {
    /// Data of the file; what lies beyond its end is not read.
    fn add(&mut self, offset: u64, physical: u64, len: u64) {
        let bytes = len.min(self.size.saturating_sub(offset));
        if bytes > 0 {
            self.pieces.push(Piece { offset, physical, bytes });
        }
    }

    /// Bytes of the file that have no blocks.
    fn holes(&self) -> u64 {
        let data: u64 = self.pieces.iter().map(|piece| piece.bytes).sum();
        self.size.saturating_sub(data + self.unwritten + self.elsewhere)
    }
}

fn rate(bytes: u64, took: Nanos) -> f64 {
    bytes as f64 / took.as_secs_f64().max(1e-9)
}

fn document(found: &Found, predicted: &Predicted, model: &SsdModel, machine: &str) -> serde_json::Value {
    let extent = |piece: &Piece| {
        let Piece { offset, physical, bytes } = *piece;
        json!({ "offset": offset, "physical": physical, "bytes": bytes })
    };
    let took = |took: Took| {
        json!({
            "ns": took.with_host.0,
            "bytes_per_s": rate(predicted.bytes, took.with_host),
            "device_only_ns": took.device.0,
        })
    };
    let collisions = predicted.placement.collisions();
    json!({
        "schema": "weir.explain.fragmentation/1",
        "file": found.name,
        "bytes": found.size,
        "holes": found.holes(),
        "unwritten": found.unwritten,
        "extents": found.pieces.iter().map(extent).collect::<Vec<_>>(),
        "degree_of_fragmentation": file::merged(&found.pieces).len(),
        "device": model.to_string(),
        "machine": machine,
        "predicted_bytes": predicted.bytes,
        "stripe": predicted.stripe,
        "die_runs": predicted.placement.runs,
        "collisions": collisions,
        "as_it_lies": took(predicted.as_it_lies),
        "with_hints": took(predicted.restored),
        "in_one_piece": took(predicted.whole),
        "lost_by_splitting": predicted.splitting(),
        "assumes": ASSUMES,
    })
}

const ASSUMES: &str = "the device was written in the order of its addresses: extents do not say when a page was written. \
                       A file that was overwritten in place may lie worse than its extents";

fn text(found: &Found, predicted: &Predicted, model: &SsdModel, machine: &str) -> String {
    let human = |bytes: u64| Unit::Bytes.human(bytes as f64);
    let pieces = file::merged(&found.pieces);
    let placement = &predicted.placement;
    let data: u64 = pieces.iter().map(|piece| piece.bytes).sum();
    let short = pieces.iter().filter(|piece| piece.bytes < predicted.stripe).count();
    let mut table = Table::new(format!("{}: {} on {}", found.name, human(found.size), model.name()));
    table.words("");
    table.words("");
    let mut row = |name: &str, value: String| table.rows.push(vec![name.to_owned(), value]);
    let mean = human(data / pieces.len().max(1) as u64);
    let degree = format!("{} (1 is whole), {mean} in the mean, {short} shorter than a stripe", pieces.len());
    row("degree of fragmentation", degree);
    let gaps = [
        ("of holes", found.holes()),
        ("allocated and never written", found.unwritten),
        ("in no blocks", found.elsewhere),
    ];
    for (what, bytes) in gaps.into_iter().filter(|(_, bytes)| *bytes > 0) {
        row("not read from the device", format!("{} {what}", human(bytes)));
    }
    let granule = predicted.stripe / u64::from(placement.dies.max(1));
    row(
        "stripe",
        format!("{}: {} on each of {} dies", human(predicted.stripe), human(granule), placement.dies),
    );
    let collisions = placement.collisions();
    let mean = collisions.iter().sum::<f64>() / collisions.len().max(1) as f64;
    let worst = collisions.iter().copied().fold(0.0, f64::max);
    row("runs on one die", placement.runs.len().to_string());
    row("fullest die of a stretch", format!("{mean:.2} times its share in the mean, {worst:.2} at worst"));
    if predicted.bytes < data {
        row("predicted", format!("the first {} of {}", human(predicted.bytes), human(data)));
    }
    [
        table.to_text(),
        times(predicted, machine),
        picture(predicted),
        format!("  Assumed: {}.\n", ASSUMES.replace(". A", ".\n  A")),
    ]
    .join("\n")
}

fn times(predicted: &Predicted, machine: &str) -> String {
    let mut table = Table::new(format!("Direct reads of the file, 1 MiB a call, on {machine}"));
    table.words("");
    for column in ["takes", "rate", "device alone"] {
        table.numbers(column);
    }
    let rows = [
        ("as it lies", predicted.as_it_lies),
        ("written with the study's hints", predicted.restored),
        ("in one piece", predicted.whole),
    ];
    for (name, took) in rows {
        let rate = Unit::BytesPerSecond.human(rate(predicted.bytes, took.with_host));
        table.rows.push(vec![name.to_owned(), took.with_host.to_string(), rate, took.device.to_string()]);
    }
    let slower = predicted.as_it_lies.with_host.0 as f64 / predicted.whole.with_host.0.max(1) as f64;
    let why = match predicted.splitting() {
        Some(share) => format!(
            "  As it lies it takes {slower:.2} times as long; {:.0} % of what is lost is due to dies that collide, {:.0} % to \
             more requests.\n",
            (1.0 - share) * 100.0,
            share * 100.0
        ),
        None => format!("  As it lies it takes {slower:.2} times as long: nothing is to be gained.\n"),
    };
    table.to_text() + &why
}

/// The die of each granule, a stretch as long as a stripe on each line.
fn picture(predicted: &Predicted) -> String {
    let placement = &predicted.placement;
    let granule = (placement.stripe_pages / placement.dies.max(1)).max(1) as usize;
    let pages = placement.pages();
    let lines = pages.chunks(placement.stripe_pages.max(1) as usize).take(LINES);
    let width = placement.dies.saturating_sub(1).to_string().len();
    let line = |stretch: &[u32]| {
        // A granule whose pages lie on several dies shows that of its first page.
        let dies = stretch.iter().step_by(granule).map(|die| format!("{die:>width$}"));
        format!("    {}\n", dies.collect::<Vec<_>>().join(" "))
    };
    let text: String = lines.map(line).collect();
    let kib = granule * 4;
    format!("  The die of each {kib} KiB of the beginning, a stripe on each line:\n{text}")
}
