//! Every single fault of the places that a file system of ext2, ext3 or ext4 cannot do without, in small images of eight kinds:
//! what `weir fsck` and its repair make of it, beside e2fsck. `tests/ext4/sweep.sh` runs it, and says what it prints.
//!
//! ```text
//! ext4_sweep FOLDER [STEP [KIND …]]      every STEP-th fault [1] of the kinds of that name [all]
//! ext4_sweep FOLDER again FILE            the faults that FILE names, a line for each as in `faults`, once more
//! ```
//!
//! FOLDER holds the images and `faults`, a line for each fault that was tried: what was done before is not done again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use design::{Design, FsError, Options};
use media::Storage;
use media::nvmm::{Region, null::Null};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{FileKind, FileSystem, Ino, IoFlags, NewInode, Owner};

/// Kinds of images: a name, MiB, and what mke2fs is given.
const KINDS: [(&str, u64, &[&str]); 8] = [
    ("ext2", 7, &["-t", "ext2", "-b", "1024", "-N", "128"]),
    ("ext2-old", 3, &["-t", "ext2", "-r", "0", "-b", "1024", "-N", "64"]),
    ("ext3", 12, &["-t", "ext3", "-b", "1024", "-N", "256", "-J", "size=1"]),
    ("ext4", 12, &["-t", "ext4", "-b", "1024", "-N", "256", "-J", "size=1"]),
    ("ext4-plain", 12, &["-t", "ext4", "-b", "1024", "-N", "256", "-J", "size=1", "-O", "^metadata_csum"]),
    ("ext4-no-journal", 12, &["-t", "ext4", "-b", "1024", "-N", "256", "-O", "^has_journal,^flex_bg"]),
    ("ext4-4k", 16, &["-t", "ext4", "-b", "4096", "-N", "128", "-J", "size=4", "-O", "orphan_file"]),
    ("ext4-small", 12, &["-t", "ext4", "-b", "2048", "-g", "2048", "-I", "128", "-N", "192", "-J", "size=2"]),
];

/// A fault that takes longer is one in which the program hangs, and ends it.
const MOST_SECONDS: u64 = 120;

/// What is written at once where it holds something.
const PIECE: usize = 4096;
static ZEROS: [u8; PIECE] = [0; PIECE];

type Result<T, E = String> = std::result::Result<T, E>;

/// When the fault began that is being tried, in seconds from the start.
static BEGAN: AtomicU64 = AtomicU64::new(0);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("usage: ext4_sweep FOLDER [STEP [KIND ...]]")?);
    let step = arguments.next().unwrap_or_else(|| "1".to_owned());
    let mut only: Vec<String> = arguments.collect();
    let mut again = BTreeSet::new();
    if step == "again" {
        let path = only.pop().ok_or("usage: ext4_sweep FOLDER again FILE")?;
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        again.extend(text.lines().map(|line| line.split(": ").next().unwrap_or(line).to_owned()));
    }
    let step = if again.is_empty() { step.parse().map_err(|error| format!("STEP: {error}"))? } else { 1 };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let start = Instant::now();
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(5));
            let spent = start.elapsed().as_secs().saturating_sub(BEGAN.load(Relaxed));
            if spent > MOST_SECONDS {
                eprintln!(
                    "a fault takes {spent} s: it hangs; the last line of `faults` is the one before it"
                );
                std::process::exit(3);
            }
        }
    });
    let mut sweep = Sweep::new(folder, start)?;
    sweep.again = again;
    for (name, mib, features) in KINDS {
        if only.is_empty() || only.iter().any(|one| one == name) {
            sweep.kind(name, mib, features, step)?;
        }
    }
    sweep.summary()
}

/// What became of one image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    kind: u64,
    content: u64,
    attributes: BTreeMap<Vec<u8>, u64>,
}

type Tree = BTreeMap<String, Seen>;

struct Sweep {
    folder: PathBuf,
    start: Instant,
    /// The faults that were tried, and what differed.
    done: BTreeMap<String, String>,
    /// Those that are tried once more, and no others; empty: all are tried once.
    again: BTreeSet<String>,
    log: File,
}

/// Where faults are put: a name, first byte, length, and whether each bit gets one.
type Area = (&'static str, u64, u64, bool);

impl Sweep {
    fn new(folder: PathBuf, start: Instant) -> Result<Self> {
        let path = folder.join("faults");
        let shown = |error: io::Error| format!("{}: {error}", path.display());
        let log = OpenOptions::new().create(true).append(true).open(&path).map_err(shown)?;
        let lines = BufReader::new(File::open(&path).map_err(shown)?).lines();
        let done = lines.map_while(std::result::Result::ok).filter_map(|line| {
            let (fault, what) = line.split_once(": ")?;
            Some((fault.to_owned(), what.to_owned()))
        });
        Ok(Self { folder, start, done: done.collect(), again: BTreeSet::new(), log })
    }

    /// All faults of one kind of image.
    fn kind(&mut self, name: &str, mib: u64, features: &[&str], step: usize) -> Result<()> {
        let path = self.folder.join(format!("{name}.img"));
        if !path.exists() {
            make(&path, mib, features)?;
        }
        let image = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let sound = Image::of(&image);
        let made = tree(&region(&image))?;
        let mut number = 0;
        for (area, first, len, bits) in sound.areas()? {
            for at in 0..len {
                let masks: Vec<u8> = if bits { (0..8).map(|bit| 1 << bit).collect() } else { faults_of(at) };
                for mask in masks {
                    for sealed in [false, true] {
                        if sealed && !(sound.has_checksums() && area_is_sealed(area)) {
                            continue;
                        }
                        number += 1;
                        let seal = if sealed { " sealed" } else { "" };
                        let fault = format!("{name} {area} {at:#x} ^{mask:#04x}{seal}");
                        let is_wanted = match self.again.is_empty() {
                            true => number % step == 0 && !self.done.contains_key(&fault),
                            false => self.again.contains(&fault),
                        };
                        if !is_wanted {
                            continue;
                        }
                        BEGAN.store(self.start.elapsed().as_secs(), Relaxed);
                        let mut faulty = image.clone();
                        faulty[(first + at) as usize] ^= mask;
                        if sealed {
                            sound.seal(area, first, at, &mut faulty);
                        }
                        let what = self.judge(&faulty, &made).join("; ");
                        let what = if what.is_empty() { "ok".to_owned() } else { what };
                        writeln!(self.log, "{fault}: {what}").map_err(|error| error.to_string())?;
                        if what != "ok" {
                            println!("{fault}: {what}");
                        }
                        self.done.insert(fault, what);
                    }
                }
            }
        }
        println!("{name}: {} faults, {} s", number / step, self.start.elapsed().as_secs());
        Ok(())
    }

    /// What differs between e2fsck and weir at one image.
    fn judge(&self, faulty: &[u8], made: &Tree) -> Vec<String> {
        let theirs = self.folder.join("theirs.img");
        write_image(&theirs, faulty).expect("room for an image");
        let (sees, _) = e2fsck(&theirs, "-fn");
        let (code, said) = e2fsck_until_clean(&theirs);
        let ours = region(faulty);
        let mut found = Vec::new();
        let checked = check(&ours);
        match &checked {
            Err(FsError::Unsupported { .. }) => return vec!["refused".to_owned()],
            Ok(violations) if violations.is_empty() && sees != 0 => {
                found.push(format!("missed damage: {}", first_lines(&said)));
            }
            Ok(violations) if !violations.is_empty() && sees == 0 => {
                found.push(format!("clean for e2fsck only: {}", violations[0]));
            }
            _ => {}
        }
        match repair(&ours, false) {
            Err(FsError::Unsupported { .. }) => return vec!["refused".to_owned()],
            Err(error) => {
                let kind = match (&error, code) {
                    (FsError::WouldLose { .. }, _) => "stopped",
                    (_, 0) => "not repaired",
                    _ => return found, // given up by both
                };
                found.push(format!("{kind}: {error}"));
                return found;
            }
            Ok(_) => {}
        }
        let repaired = bytes_of(&ours);
        let path = self.folder.join("ours.img");
        write_image(&path, &repaired).expect("room for an image");
        let (left, said) = e2fsck(&path, "-fn");
        if left != 0 {
            found.push(format!("not clean for e2fsck: {}", first_lines(&said)));
        }
        if code == 0 {
            // Where e2fsck has written beyond the end, the file is longer than memory.
            let mut bytes = vec![0; faulty.len()];
            File::open(&theirs)
                .and_then(|file| file.read_exact_at(&mut bytes, 0))
                .expect("the image is there");
            match (tree(&region(&bytes)), tree(&ours)) {
                (Ok(theirs), Ok(ours)) => found.extend(lost(made, &theirs, &ours)),
                (Ok(_), Err(why)) => found.push(format!("lost: no mount: {why}")),
                (Err(_), _) => {}
            }
        }
        found
    }

    fn summary(&self) -> Result<()> {
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        for what in self.done.values() {
            *kinds.entry(what.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        let counts: Vec<_> = kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        let hours = self.start.elapsed().as_secs_f64() / 3600.0;
        println!("{} faults: {}; {hours:.2} hours", self.done.len(), counts.join(", "));
        let wrong = kinds.keys().any(|kind| !matches!(*kind, "ok" | "refused"));
        if wrong { Err("weir and e2fsck differ".to_owned()) } else { Ok(()) }
    }
}

/// Two faults of a byte: one bit, and all of them.
fn faults_of(at: u64) -> Vec<u8> {
    vec![1 << (at * 5 % 8), 0xff]
}

fn area_is_sealed(area: &str) -> bool {
    area != "directory"
}

/// The bytes of a sound image.
struct Image<'a>(&'a [u8]);

impl<'a> Image<'a> {
    fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn word(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.0[at as usize..][..4].try_into().expect("four bytes"))
    }

    fn half(&self, at: u64) -> u64 {
        u64::from(u16::from_le_bytes(self.0[at as usize..][..2].try_into().expect("two bytes")))
    }

    fn block_bytes(&self) -> u64 {
        1024 << self.word(1024 + 0x18)
    }

    fn has_checksums(&self) -> bool {
        self.word(1024 + 0x64) & 0x400 != 0
    }

    fn descriptors(&self) -> (u64, u64) {
        let wide = self.word(1024 + 0x60) & 0x80 != 0;
        let at = (u64::from(self.word(1024 + 0x14)) + 1) * self.block_bytes();
        (at, if wide { self.half(1024 + 0xfe) } else { 32 })
    }

    fn groups(&self) -> u64 {
        let blocks = u64::from(self.word(1024 + 4)) - u64::from(self.word(1024 + 0x14));
        blocks.div_ceil(u64::from(self.word(1024 + 0x20)))
    }

    fn inode_bytes(&self) -> u64 {
        if self.word(1024 + 0x4c) == 0 { 128 } else { self.half(1024 + 0x58) }
    }

    fn inode(&self, ino: u64) -> u64 {
        let per_group = u64::from(self.word(1024 + 0x28));
        let (descriptors, len) = self.descriptors();
        let table = self.word(descriptors + (ino - 1) / per_group * len + 8);
        u64::from(table) * self.block_bytes() + (ino - 1) % per_group * self.inode_bytes()
    }

    /// The first block of a directory or file.
    fn first_block(&self, ino: u64) -> u64 {
        let map = self.inode(ino) + 0x28;
        let is_tree = self.word(self.inode(ino) + 0x20) & 0x8_0000 != 0;
        u64::from(if is_tree { self.word(map + 20) } else { self.word(map) })
    }

    /// The number that a name in the root has.
    fn lookup(&self, name: &str) -> Result<u64> {
        let block = self.first_block(2) * self.block_bytes();
        let mut at = block;
        while at < block + self.block_bytes() {
            let len = self.0[at as usize + 6] as usize;
            if &self.0[at as usize + 8..][..len] == name.as_bytes() && self.word(at) != 0 {
                return Ok(u64::from(self.word(at)));
            }
            at += self.half(at + 4).max(8);
        }
        Err(format!("{name} is not in the root"))
    }

    fn areas(&self) -> Result<Vec<Area>> {
        let (descriptors, len) = self.descriptors();
        let (dir, large) = (self.lookup("dir")?, self.lookup("large")?);
        Ok(vec![
            ("superblock", 1024, 1024, true),
            ("descriptors", descriptors, self.groups() * len, true),
            ("reserved", self.inode(1), 10 * self.inode_bytes(), false),
            ("root", self.first_block(2) * self.block_bytes(), self.block_bytes(), false),
            ("directory", self.first_block(dir) * self.block_bytes(), self.block_bytes(), false),
            ("inode-of-directory", self.inode(dir), self.inode_bytes(), false),
            ("inode-of-file", self.inode(large), self.inode_bytes(), false),
        ])
    }

    /// Makes the checksum right of what lies at byte `at` of an area.
    fn seal(&self, area: &str, first: u64, at: u64, bytes: &mut [u8]) {
        let seed = crc32c_of(!0, &bytes[1024 + 0x68..1024 + 0x78]);
        match area {
            "superblock" => {
                let sum = crc32c_of(!0, &bytes[1024..2044]);
                bytes[2044..2048].copy_from_slice(&sum.to_le_bytes());
            }
            "descriptors" => {
                let len = self.descriptors().1;
                let (group, begin) = (at / len, (first + at / len * len) as usize);
                let one = &mut bytes[begin..begin + len as usize];
                one[0x1e..0x20].fill(0);
                let sum = crc32c_of(crc32c_of(seed, &(group as u32).to_le_bytes()), one);
                one[0x1e..0x20].copy_from_slice(&(sum as u16).to_le_bytes());
            }
            "root" => {
                let end = (first + self.block_bytes()) as usize;
                let generation = &bytes[self.inode(2) as usize + 0x64..][..4];
                let seed = crc32c_of(crc32c_of(seed, &2_u32.to_le_bytes()), generation);
                let sum = crc32c_of(seed, &bytes[first as usize..end - 12]);
                bytes[end - 4..end].copy_from_slice(&sum.to_le_bytes());
            }
            _ => {
                let len = self.inode_bytes();
                let begin = (first + at / len * len) as usize;
                let ino = match area {
                    "reserved" => 1 + at / len,
                    "inode-of-directory" => self.lookup("dir").expect("it is there"),
                    _ => self.lookup("large").expect("it is there"),
                };
                seal_inode(seed, ino as u32, &mut bytes[begin..begin + len as usize]);
            }
        }
    }
}

fn crc32c_of(seed: u32, bytes: &[u8]) -> u32 {
    !crc32c::crc32c_append(!seed, bytes)
}

fn seal_inode(seed: u32, ino: u32, inode: &mut [u8]) {
    let wide = inode.len() > 128 && u16::from_le_bytes([inode[0x80], inode[0x81]]) >= 4;
    inode[0x7c..0x7e].fill(0);
    if wide {
        inode[0x82..0x84].fill(0);
    }
    let seed = crc32c_of(crc32c_of(seed, &ino.to_le_bytes()), &inode[0x64..0x68]);
    let sum = crc32c_of(seed, inode).to_le_bytes();
    inode[0x7c..0x7e].copy_from_slice(&sum[..2]);
    if wide {
        inode[0x82..0x84].copy_from_slice(&sum[2..]);
    }
}

fn design() -> &'static dyn Design {
    fs::by_name("ext4").expect("a design")
}

fn region(bytes: &[u8]) -> Arc<Region> {
    let region = Region::anonymous(Bytes(bytes.len() as u64), Box::new(Null)).expect("room for an image");
    for (at, piece) in pieces(bytes) {
        region.store(at, piece).expect("it fits");
    }
    Arc::new(region)
}

/// The parts of an image that hold something: most of it is zeros.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = (u64, &[u8])> {
    let all = (0..).step_by(PIECE).zip(bytes.chunks(PIECE));
    all.filter(|(_, piece)| **piece != ZEROS[..piece.len()])
}

/// Writes an image to a file, with holes.
fn write_image(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = File::create(path)?;
    file.set_len(bytes.len() as u64)?;
    pieces(bytes).try_for_each(|(at, piece)| file.write_all_at(piece, at))
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.peek(0, &mut bytes).expect("the whole region");
    bytes
}

fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> Result<R, FsError> {
    let panicked = |error: sim::RunError| FsError::Unsupported { what: format!("panic: {error}") };
    let ran = sim::run(&Setup::real_clock(Machine::unit(), Seed(0)), work);
    ran.inspect_err(|error| println!("panic: {error}")).map_err(panicked)
}

/// What our check finds in a copy, as the command does.
fn check(image: &Region) -> Result<Vec<String>, FsError> {
    let copy = region(&bytes_of(image));
    run(move || {
        let storage = Storage::from(&copy);
        match design().format().replay(&storage) {
            Err(FsError::Unsupported { what }) => Err(FsError::Unsupported { what }),
            Err(error) => Ok(vec![error.to_string()]),
            Ok(_) => {
                let found = design().format().fsck(&storage);
                Ok(found.violations.iter().map(ToString::to_string).collect())
            }
        }
    })?
}

/// Repairs, as the command does.
fn repair(image: &Arc<Region>, at_any_loss: bool) -> Result<Vec<String>, FsError> {
    let region = Arc::clone(image);
    run(move || {
        let (storage, format) = (Storage::from(&region), design().format());
        let clean = format.replay(&storage).is_ok() && format.fsck(&storage).violations.is_empty();
        if clean {
            return format.recover(&storage);
        }
        let done = if at_any_loss { format.repair_at_any_loss(&storage) } else { format.repair(&storage) };
        if format.fsck(&storage).violations.is_empty() {
            format.recover(&storage)?;
        }
        done
    })?
}

/// What a mount shows.
fn tree(image: &Region) -> Result<Tree> {
    let copy = region(&bytes_of(image));
    let walked = run(move || {
        let options = Options::defaults(design().options()).discarding();
        let fs = design().mount(&Storage::from(&copy), &options).map_err(|error| error.to_string())?;
        let mut tree = Tree::new();
        let walked = walk(&*fs, fs.root(), String::new(), &mut tree);
        // Else its tasks keep the copy.
        let _ = fs.unmount();
        walked.map_err(|errno| errno.name().to_owned())?;
        Ok(tree)
    });
    walked.map_err(|error| error.to_string())?
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn walk(fs: &dyn FileSystem, ino: Ino, path: String, tree: &mut Tree) -> Result<(), vfs::Errno> {
    let attr = fs.getattr(ino)?;
    let mut seen = Seen { kind: hash(attr.kind as u8), ..Seen::default() };
    for name in fs.listxattr(ino)?.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        seen.attributes.insert(name.to_vec(), hash(fs.getxattr(ino, name)?));
    }
    match attr.kind {
        FileKind::Regular if attr.size < 1 << 24 => {
            let mut content = vec![0; attr.size as usize];
            fs.read(ino, 0, &mut content, IoFlags::empty())?;
            seen.content = hash(content);
        }
        FileKind::Symlink => seen.content = hash(fs.readlink(ino)?),
        FileKind::Directory if path.split('/').count() < 20 => {
            let mut names = Vec::new();
            fs.readdir(ino, 0, &mut |entry| {
                names.push((entry.name.to_vec(), entry.ino));
                true
            })?;
            for (name, child) in names.into_iter().filter(|(name, _)| name != b"." && name != b"..") {
                walk(fs, child, format!("{path}/{}", name.escape_ascii()), tree)?;
            }
        }
        _ => {}
    }
    tree.insert(path, seen);
    Ok(())
}

/// What the one tree has and the other has not; what lies in `lost+found` is not lost, nor what was not there when the image was made:
/// e2fsck keeps names of files over whose contents it has written.
fn lost(made: &Tree, theirs: &Tree, ours: &Tree) -> Option<String> {
    let all = |tree: &Tree| -> BTreeSet<(u64, u64)> {
        tree.values().map(|seen| (seen.kind, seen.content)).collect()
    };
    let (found, known) = (all(ours), all(made));
    let attributes: BTreeSet<(&Vec<u8>, &u64)> = made.values().flat_map(|seen| &seen.attributes).collect();
    let is_kept = |seen: &Seen, other: &Seen| {
        let has = |(name, value): (&Vec<u8>, &u64)| {
            !attributes.contains(&(name, value)) || other.attributes.get(name) == Some(value)
        };
        (seen.kind, seen.content) == (other.kind, other.content) && seen.attributes.iter().all(has)
    };
    let missing = theirs.iter().filter(|(path, seen)| {
        known.contains(&(seen.kind, seen.content))
            && if path.starts_with("/lost+found") {
                !found.contains(&(seen.kind, seen.content))
            } else {
                made.contains_key(*path) && !ours.get(*path).is_some_and(|other| is_kept(seen, other))
            }
    });
    let missing: Vec<_> = missing
        .map(|(path, seen)| match ours.get(path) {
            Some(other) if other.content == seen.content => format!("{path} (attributes)"),
            Some(_) => format!("{path} (contents)"),
            None => path.clone(),
        })
        .collect();
    let first = missing.first()?;
    Some(format!("lost: {} of {}: {first}", missing.len(), theirs.len()))
}

fn e2fsck(image: &Path, how: &str) -> (i32, String) {
    let name = ["/usr/sbin/e2fsck", "/sbin/e2fsck"].into_iter().find(|path| Path::new(path).exists());
    let output = Command::new(name.unwrap_or("e2fsck"))
        .arg(how)
        .arg(image)
        .env("E2FSCK_CONFIG", "/dev/null")
        .output()
        .expect("e2fsck runs");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Repairs by e2fsck, again while it asks for that: 0 where the image is clean afterwards; what it said first.
fn e2fsck_until_clean(image: &Path) -> (i32, String) {
    let mut first = None;
    for _ in 0..4 {
        let (code, said) = e2fsck(image, "-fy");
        first.get_or_insert(said);
        if code == 0 || code & !3 != 0 {
            return (code, first.unwrap_or_default());
        }
    }
    (1, first.unwrap_or_default())
}

fn first_lines(said: &str) -> String {
    let lines = said.lines().filter(|line| !line.starts_with("Pass ") && !line.is_empty());
    lines.take(2).collect::<Vec<_>>().join(" | ")
}

/// Makes an image of mke2fs with files in it, which e2fsck finds clean.
fn make(path: &Path, mib: u64, features: &[&str]) -> Result<()> {
    let file = File::create(path).and_then(|file| file.set_len(mib << 20));
    file.map_err(|error| format!("{}: {error}", path.display()))?;
    let name = ["/usr/sbin/mke2fs", "/sbin/mke2fs"].into_iter().find(|path| Path::new(path).exists());
    let made = Command::new(name.ok_or("mke2fs is not installed (package e2fsprogs)")?)
        .args(["-q", "-F", "-U", "01234567-89ab-cdef-0123-456789abcdef"])
        .args(features)
        .arg(path)
        .env("MKE2FS_CONFIG", "/etc/mke2fs.conf")
        .output()
        .map_err(|error| error.to_string())?;
    if !made.status.success() {
        return Err(format!("mke2fs {features:?}: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let image = region(&std::fs::read(path).map_err(|error| error.to_string())?);
    let filled = Arc::clone(&image);
    run(move || {
        let fs = design().mount(&Storage::from(&filled), &Options::defaults(design().options()));
        let fs = fs.map_err(|error| error.to_string())?;
        fill(&*fs).and_then(|()| fs.unmount()).map_err(|errno| errno.name().to_owned())
    })
    .map_err(|error| error.to_string())??;
    std::fs::write(path, bytes_of(&image)).map_err(|error| error.to_string())?;
    match e2fsck(path, "-fy") {
        (0 | 1, _) => Ok(()),
        (code, said) => Err(format!("e2fsck of {features:?}: {code}: {said}")),
    }
}

/// Directories with and without an index, a file in many pieces, links, attributes in an inode and in a block.
fn fill(fs: &dyn FileSystem) -> Result<(), vfs::Errno> {
    let new = NewInode { perm: 0o644, owner: Owner::default() };
    let dir = fs.mkdir(fs.root(), b"dir", &new)?.ino;
    let sub = fs.mkdir(dir, b"sub", &new)?.ino;
    for number in 0..8_u8 {
        for parent in [dir, sub] {
            let file = fs.create(parent, format!("file {number}").as_bytes(), &new)?.ino;
            fs.write(file, 0, &[number + 1; 1500], IoFlags::empty())?;
        }
    }
    let large = fs.create(fs.root(), b"large", &new)?.ino;
    for piece in 0..12_u64 {
        fs.write(large, piece * 9000, &[piece as u8 + 1; 3000], IoFlags::empty())?;
        fs.sync()?;
    }
    fs.symlink(fs.root(), b"short", b"dir", &new)?;
    fs.symlink(fs.root(), b"long", &[b'x'; 300], &new)?;
    fs.link(large, dir, b"link")?;
    fs.setxattr(large, b"user.colour", &[7; 40], vfs::XattrMode::Set)?;
    fs.setxattr(dir, b"user.large", &[9; 600], vfs::XattrMode::Set)
}
