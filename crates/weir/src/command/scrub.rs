//! `weir scrub`: reads all of a pool, and names the files that are damaged.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use design::{Design, FsckReport, Options};
use media::Storage;
use media::nvmm::Access;
use sim::{Bytes, Machine, Seed, Setup};
use vfs::FileSystem;
use vfs::scrub::{Damaged, Scrubbed, scrub};

use super::image;
use crate::failure::{Exit, Failure};
use crate::output::{Output, several};
use crate::partition::Part;
use crate::progress::Counter;

/// Read all metadata and data of an unmounted pool and name what is damaged. The pool is not changed.
#[derive(Args, Debug)]
#[command(after_help = "Exit codes: 0 nothing is damaged, 1 something is, 4 the pool cannot be read\n\
    A design without checksums of data (`weir mkfs crest POOL -O checksum=data`) finds only what cannot be read.")]
pub(crate) struct Scrub {
    /// The design [default: the design that recognises the pool]
    #[arg(long)]
    fs: Option<String>,
    /// The file with the journal, if the journal is not in the pool (ext4) [default: a file beside the pool]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    #[command(flatten)]
    part: Part,
    /// The pool
    pool: PathBuf,
}

/// What was found.
struct Found {
    metadata: FsckReport,
    /// What was read of the files; or why nothing could be.
    data: Result<Scrubbed, String>,
    /// What the design said of the damage.
    told: Vec<String>,
}

impl Found {
    fn damaged(&self) -> usize {
        let data = self.data.as_ref().map_or(1, |data| data.damaged.len());
        self.metadata.violations.len() + data
    }
}

impl Scrub {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let open = |file: &Path| image::open(file, None, Access::Private);
        let region = open(&self.pool)?;
        let (design, part) = image::identify(&region, self.fs.as_deref(), (&self.pool, self.part))?;
        let (storage, _) = image::storage(design, &part, (&self.pool, self.journal.as_deref()), &open)?;
        let found = Self::scrub(design, &storage, output)?;
        if output.is_json() {
            output.document(&document(design, &found));
        } else {
            output.data(&text(&found));
        }
        match found.damaged() {
            0 => Ok(()),
            count => {
                let (pool, places) = (self.pool.display(), several(count, "place"));
                // What cannot be mounted here cannot be mounted at a directory.
                let advice = match &found.data {
                    Ok(_) => format!(
                        "copy what is whole (`weir mount {} {pool} DIR -o ro`), and restore the rest from a backup",
                        design.name()
                    ),
                    Err(_) => format!(
                        "it cannot be mounted: `weir fsck --dry-run {pool}` says what a repair would do, `weir fsck --repair \
                         {pool}` repairs it in place (make a copy first)"
                    ),
                };
                Err(Failure::new(Exit::Check, format!("{pool}: {places} damaged; {advice}")))
            }
        }
    }

    /// Checks the metadata, mounts a private copy for reading, and reads all that is there.
    fn scrub(design: &'static dyn Design, storage: &Storage, output: &Output) -> Result<Found, Failure> {
        let metadata = match design.format().replay(storage) {
            Ok(mut notes) => {
                let mut found = design.format().fsck(storage);
                notes.append(&mut found.notes);
                FsckReport { notes, ..found }
            }
            Err(error) => {
                let mut found = FsckReport::default();
                found.violate("can_be_recovered", error.to_string());
                found
            }
        };
        let told = Arc::new(Mutex::new(Vec::new()));
        let (storage, listener) = (storage.clone(), Arc::clone(&told));
        let counter = Counter::new(output, "MiB read", 0);
        let setup = Setup::real_clock(Machine::unit(), Seed(0));
        let data = sim::run(&setup, move || {
            let options = Options::defaults(design.options()).discarding();
            let fs = design.mount(&storage, &options).map_err(|error| error.to_string())?;
            fs.listen(Box::new(move |what| {
                listener.lock().unwrap_or_else(PoisonError::into_inner).push(what.to_owned());
            }));
            let all = used(&*fs);
            let scrubbed = scrub(&*fs, &mut |done| counter.reach(done.read >> 20, all >> 20));
            // Of a private copy nothing is to be kept.
            let _ = fs.unmount();
            Ok(scrubbed)
        });
        let data = data.map_err(|error| Failure::new(Exit::Internal, error.to_string()))?;
        let told = std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Found { metadata, data, told })
    }
}

/// Bytes of a file system that are in use.
fn used(fs: &dyn FileSystem) -> u64 {
    fs.statfs().map_or(0, |space| space.blocks.saturating_sub(space.blocks_free) * u64::from(space.frsize))
}

/// A place in words: `/dir/file: bytes 4096 to 8191: EIO`.
fn place(damaged: &Damaged) -> String {
    let path = if damaged.path.is_empty() { "/".into() } else { damaged.path.escape_ascii().to_string() };
    let range = damaged
        .range
        .map_or_else(String::new, |(first, len)| format!(": bytes {first} to {}", first + len - 1));
    format!("{path}{range}: {}", damaged.errno.name())
}

fn text(found: &Found) -> String {
    let Found { metadata, data, told } = found;
    let mut lines: Vec<String> = metadata.notes.iter().map(|note| format!("note: {note}")).collect();
    lines.extend(metadata.violations.iter().map(|violation| format!("damaged metadata: {violation}")));
    lines.extend(told.iter().map(|what| format!("note: {what}")));
    match data {
        Err(why) => lines.push(format!("damaged: no file could be read: {why}")),
        Ok(data) => {
            lines.extend(data.damaged.iter().map(|damaged| format!("damaged: {}", place(damaged))));
            let (read, compared) = (Bytes(data.read), Bytes(data.compared));
            lines.push(format!("read: {} inodes, {read} of data", data.inodes));
            lines.push(match data.read - data.compared {
                0 => format!("compared with checksums: all {compared}"),
                rest => format!(
                    "compared with checksums: {compared}; {} have none: of these it is known only that they can be read",
                    Bytes(rest)
                ),
            });
        }
    }
    let verdict = if found.damaged() == 0 { "whole" } else { "damaged" };
    lines.push(format!("{verdict}\n"));
    lines.join("\n")
}

fn document(design: &dyn Design, found: &Found) -> serde_json::Value {
    let violations = found.metadata.violations.iter();
    let metadata = violations
        .map(|violation| serde_json::json!({ "predicate": violation.predicate, "what": violation.what }));
    let data = found.data.as_ref().ok();
    let files = data.map_or(&[][..], |data| &data.damaged);
    let files = files.iter().map(|damaged| {
        let (offset, bytes) = damaged.range.unzip();
        serde_json::json!({
            "path": damaged.path.escape_ascii().to_string(), "offset": offset, "bytes": bytes,
            "error": damaged.errno.name(),
        })
    });
    let notes: Vec<&String> = found.metadata.notes.iter().chain(&found.told).collect();
    serde_json::json!({
        "schema": "weir.scrub/1",
        "fs": design.name(),
        "damaged": found.damaged() > 0,
        "metadata": metadata.collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
        "unread": found.data.as_ref().err(),
        "notes": notes,
        "inodes": data.map_or(0, |data| data.inodes),
        "bytes_read": data.map_or(0, |data| data.read),
        "bytes_compared": data.map_or(0, |data| data.compared),
    })
}
