//! `grep -rn PATTERN` over a tree of a kernel's sources, which has no match.
//!
//! The tree is generated: sizes of files by the percentiles of Linux 4.2.8 (`git ls-tree -lr`), a directory for 15 files, depths as
//! there. The calls were read from GNU grep 3 by strace: of 216 files 258 opens, 451 reads, 251 fstat, 248 close, 8 getdents.
//!
//! | of each | calls |
//! |---|---|
//! | directory | open, fstat, getdents until nothing comes, close |
//! | file | open, fstat, reads of 96 KiB until nothing comes, close |
//!
//! Before the first pass the caches of the file system are dropped, where it has any and lets them be dropped.

use std::sync::Arc;

use rand::RngExt as _;
use sim::{Bytes, Nanos, Rng, Seed};
use vfs::{Errno, OpenFlags, Syscalls};

use super::control::{Control, Does, Failure, Kind, Tally};
use super::listing::Listing;
use super::run::{self, Place, Plan, Run};
use super::variables::{MAX_CLIENTS, Reader, Values};
use crate::charges::GENERATOR;
use crate::suite::{How, Job, JobError, LoadError, Processes, Settings, Workload};
use crate::tree::{CallFailed, write_text};

pub(super) const DETAIL: &str = "\
Each client reads a generated tree from end to end as grep -rn does; all read the same one. Nothing is written.

  clients     how many there are (--threads)
  files       of the tree; Linux 3.11 has about 43,000
  passes      of each client; 0: until the time is over
  scan_ps     what a byte takes to be searched, in picoseconds

An operation is a file that was read.
";

/// Bytes of a read.
const READ: usize = 96 << 10;
const PIECE: usize = 64 << 10;
/// Sizes of files at 0, 1, …, 9 tenths, and at 95, 99 and 100 of hundred (Linux 4.2.8).
const SIZES: [(f64, f64); 13] = [
    (0.0, 0.0),
    (0.1, 498.0),
    (0.2, 1125.0),
    (0.3, 1874.0),
    (0.4, 2874.0),
    (0.5, 4277.0),
    (0.6, 6347.0),
    (0.7, 9569.0),
    (0.8, 15_465.0),
    (0.9, 29_157.0),
    (0.95, 49_502.0),
    (0.99, 130_395.0),
    (1.0, 2_760_000.0),
];
/// How many files lie below so many directories: 1, 2, … (the same tree).
const DEPTHS: [u64; 6] = [944, 11_789, 20_275, 17_320, 6678, 5000];
/// Files of a directory.
const OF_DIRECTORY: u64 = 15;

const KINDS: &[Kind] = &[Kind { name: "file", does: Does::Reads }];

/// All variables, checked.
#[derive(Clone, Debug)]
struct Grep {
    clients: u64,
    files: u64,
    passes: u64,
    scan_ps: u64,
    values: Values,
}

pub(super) fn load(settings: &Settings) -> Result<Arc<dyn Workload>, LoadError> {
    let mut reader = Reader::new("kernel-grep", "clients", settings);
    Ok(Arc::new(Grep {
        clients: reader.count("clients", 1, 1..=MAX_CLIENTS)?,
        files: reader.count("files", 4300, 1..=10_000_000)?,
        passes: reader.count("passes", 1, 0..=1_000_000)?,
        scan_ps: reader.count("scan_ps", 600, 0..=1_000_000)?,
        values: reader.finish()?,
    }))
}

/// A size whose share of smaller ones is `share`.
fn size_at(share: f64) -> u64 {
    let after = SIZES.iter().position(|(at, _)| *at > share).unwrap_or(SIZES.len() - 1);
    let ((low, from), (high, to)) = (SIZES[after - 1], SIZES[after]);
    (from + (to - from) * (share - low) / (high - low)) as u64
}

/// Names of directories, each after that above it, and the directory and size of each file.
struct Tree {
    directories: Vec<String>,
    files: Vec<(usize, u64)>,
}

impl Tree {
    fn new(files: u64, seed: Seed) -> Self {
        let mut rng = seed.derive("app.kernel-grep", 0).rng();
        let mut directories: Vec<String> = Vec::new();
        let mut of_depth: [Vec<usize>; DEPTHS.len()] = Default::default();
        let mut add = |depth: usize, of_depth: &mut [Vec<usize>; DEPTHS.len()], rng: &mut Rng| {
            let above = match depth.checked_sub(1).map(|above| &of_depth[above]) {
                Some(above) => directories[above[rng.random_range(0..above.len())]].clone(),
                None => "tree".to_owned(),
            };
            directories.push(format!("{above}/d{}", directories.len()));
            of_depth[depth].push(directories.len() - 1);
        };
        (0..DEPTHS.len()).for_each(|depth| add(depth, &mut of_depth, &mut rng));
        for _ in DEPTHS.len() as u64..files / OF_DIRECTORY {
            let depth = Self::depth(&mut rng);
            add(depth, &mut of_depth, &mut rng);
        }
        let file = |at: u64| {
            let within = &of_depth[Self::depth(&mut rng)];
            let directory = within[rng.random_range(0..within.len())];
            // One file at each quantile: the sum of all is that of the distribution.
            (directory, size_at((at as f64 + 0.5) / files as f64))
        };
        let files = (0..files).map(file).collect();
        Self { directories, files }
    }

    fn depth(rng: &mut Rng) -> usize {
        let mut at = rng.random_range(0..DEPTHS.iter().sum::<u64>());
        let found = DEPTHS.iter().position(|count| {
            let is_here = at < *count;
            at = at.saturating_sub(*count);
            is_here
        });
        found.unwrap_or(0)
    }
}

impl Workload for Grep {
    fn settings(&self) -> String {
        format!("app/kernel-grep {:?}", self.values)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.values.clone()
    }

    fn data_bytes(&self) -> u64 {
        let sizes = (0..self.files).map(|at| size_at((at as f64 + 0.5) / self.files as f64));
        sizes.map(|size| size.next_multiple_of(4096)).sum()
    }

    fn small_files(&self) -> u64 {
        self.files + self.files / OF_DIRECTORY + DEPTHS.len() as u64
    }

    fn tasks(&self) -> u64 {
        self.clients
    }

    fn ends(&self) -> bool {
        self.passes > 0
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["files"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        Ok(Arc::new(Run::new(Arc::new(self.clone()), how, processes)))
    }
}

impl Plan for Grep {
    fn name(&self) -> &'static str {
        "kernel-grep"
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.clients
    }

    fn buffer(&self) -> Bytes {
        Bytes(READ as u64)
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let tree = Tree::new(self.files, how.seed);
        for path in std::iter::once("tree").chain(tree.directories.iter().map(String::as_str)) {
            calls.mkdir(path.as_bytes(), 0o755).map_err(CallFailed::of("mkdir", path))?;
        }
        for (number, (directory, size)) in tree.files.iter().enumerate() {
            let path = format!("{}/f{number}.c", tree.directories[*directory]);
            write_text(calls, &path, *size, PIECE)?;
        }
        calls.sync().map_err(CallFailed::of("sync", "/"))?;
        match calls.drop_caches() {
            Err(Errno::EOPNOTSUPP | Errno::EPERM | Errno::EACCES) => Ok(()),
            dropped => Ok(dropped.map_err(CallFailed::of("drop_caches", "/"))?),
        }
    }

    fn client(self: Arc<Self>, _client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        Box::new(Client {
            left: if self.passes > 0 { self.passes } else { u64::MAX },
            scan_ps: self.scan_ps,
            calls: place.processes.start(),
            pending: Vec::new(),
            buffer: vec![0; READ],
        })
    }
}

/// A process of grep.
struct Client {
    /// Passes that have not begun.
    left: u64,
    scan_ps: u64,
    calls: Arc<dyn Syscalls>,
    /// Names below the tree that are not read yet, and whether each is a directory.
    pending: Vec<(String, bool)>,
    buffer: Vec<u8>,
}

impl Client {
    fn list(&mut self, path: &str) -> Result<(), CallFailed> {
        let calls = &*self.calls;
        let fd = Listing::open(calls, path.as_bytes()).map_err(CallFailed::of("open", path))?;
        let mut listing = Listing::default();
        let from = self.pending.len();
        while listing.fill(calls, fd).map_err(CallFailed::of("getdents", path))? {
            let names = listing.names().filter(|name| *name != b"." && *name != b"..");
            // The names of the tree say what they are, as the kinds of their entries do.
            self.pending.extend(
                names.map(|name| (format!("{path}/{}", String::from_utf8_lossy(name)), name[0] == b'd')),
            );
        }
        self.pending[from..].reverse();
        calls.close(fd).map_err(CallFailed::of("close", path))
    }

    /// The bytes of a file.
    fn read(&mut self, path: &str) -> Result<u64, CallFailed> {
        let calls = &*self.calls;
        let fd = calls.open(path.as_bytes(), OpenFlags::READ, 0).map_err(CallFailed::of("open", path))?;
        calls.fstat(fd).map_err(CallFailed::of("fstat", path))?;
        let mut all = 0;
        loop {
            let read = calls.read(fd, &mut self.buffer).map_err(CallFailed::of("read", path))? as u64;
            if read == 0 {
                break;
            }
            sim::compute_for(Nanos(read * self.scan_ps / 1000));
            all += read;
        }
        calls.close(fd).map_err(CallFailed::of("close", path))?;
        Ok(all)
    }
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        sim::work(GENERATOR, 1);
        let Some((path, is_directory)) = self.pending.pop() else {
            let Some(left) = self.left.checked_sub(1) else { return Ok(false) };
            self.left = left;
            self.list("tree")?;
            return Ok(true);
        };
        if is_directory {
            self.list(&path)?;
            return Ok(true);
        }
        let started = sim::now();
        let bytes = self.read(&path)?;
        control.note(tally, 0, bytes, started);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_has_the_sizes_of_the_kernels() {
        let sizes: Vec<u64> = (0..4300).map(|at| size_at((f64::from(at) + 0.5) / 4300.0)).collect();
        for (at, published) in [(430, 499), (2150, 4281), (3870, 29_204)] {
            assert!(sizes[at].abs_diff(published) * 100 <= published, "{} for {published}", sizes[at]);
        }
        let mean = sizes.iter().sum::<u64>() / 4300;
        // 13,501 bytes there; lines between percentiles lie above the curve.
        assert!((12_000..26_000).contains(&mean), "{mean}");
        let tree = Tree::new(4300, Seed(1));
        assert_eq!((tree.files.len(), tree.directories.len()), (4300, 4300 / 15));
    }
}
