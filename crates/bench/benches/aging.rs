//! How much slower a file is read after each of its blocks was overwritten once in random order, under the real clock, on memory.
//!
//! Whole blocks that are written anew lie where there is room, so the file scatters; the virtual clock does not see that.
//! `SIZE=n` (256) MiB of the file; `DESIGNS=a,b` (crest,nova,pmfs); `ROUNDS=n` (5): the least time of so many rounds counts, in which
//! designs and the two states of the file take turns.

#[path = "shared/cpu.rs"]
mod cpu;

use std::collections::BTreeMap;
use std::sync::Arc;

use media::Storage;
use media::nvmm::{Region, null::Null};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{FileSystem, Ino, IoFlags, NewInode, Owner};

const NEW: NewInode = NewInode { perm: 0o755, owner: Owner { uid: 0, gid: 0 } };
const BLOCK: usize = 4096;
/// Bytes of a read.
const READS: [usize; 2] = [BLOCK, 1 << 20];

fn wanted(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// A design with two files of the same content: one written in order, the other overwritten in random order since.
struct Subject {
    name: &'static str,
    fs: Arc<dyn FileSystem>,
    files: [Ino; 2],
    /// By state and by length: nanoseconds of processor time of a read.
    best: [[f64; 2]; 2],
}

impl Subject {
    fn new(name: &str, blocks: u64) -> Self {
        let design = fs::by_name(name).unwrap_or_else(|| panic!("{name} is no design"));
        let options =
            design::Options::resolve(design.name(), design.options(), &BTreeMap::new()).expect("defaults");
        let size = Bytes(blocks * BLOCK as u64 * 4);
        let region = Arc::new(Region::anonymous(size, Box::new(Null)).expect("memory"));
        let storage = Storage::from(&region);
        design.format().mkfs(&storage, &options).expect("mkfs");
        let fs = design.mount(&storage, &options).expect("mount");
        let made = |name: &[u8]| {
            let file = fs.create(fs.root(), name, &NEW).expect("create").ino;
            (0..blocks).for_each(|block| write(&*fs, file, block));
            file
        };
        let files = [made(b"in order"), made(b"at random")];
        for block in shuffled(blocks) {
            write(&*fs, files[1], block);
        }
        fs.sync().expect("sync");
        Self { name: design.name(), fs, files, best: [[f64::INFINITY; 2]; 2] }
    }

    fn round(&mut self, blocks: u64) {
        for (file, best) in self.files.iter().zip(&mut self.best) {
            for (bytes, best) in READS.iter().zip(best) {
                let mut buffer = vec![0; *bytes];
                let ns = cpu::each(blocks * BLOCK as u64 / *bytes as u64, |n| {
                    let read = self.fs.read(*file, n * *bytes as u64, &mut buffer, IoFlags::empty());
                    assert_eq!(read.expect("read"), *bytes);
                });
                *best = best.min(ns);
            }
        }
    }
}

fn write(fs: &dyn FileSystem, file: Ino, block: u64) {
    fs.write(file, block * BLOCK as u64, &[block as u8; BLOCK], IoFlags::empty()).expect("write");
}

/// All numbers below `count`, in an order of xorshift's.
fn shuffled(count: u64) -> Vec<u64> {
    let (mut all, mut state) = ((0..count).collect::<Vec<_>>(), 0x9e37_79b9_7f4a_7c15_u64);
    for n in (1..all.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        all.swap(n, (state % (n as u64 + 1)) as usize);
    }
    all
}

fn main() {
    let designs = std::env::var("DESIGNS").unwrap_or_else(|_| "crest,nova,pmfs".into());
    let (size, rounds) = (Bytes::mib(wanted("SIZE", 256)), wanted("ROUNDS", 5));
    let blocks = size.0 / BLOCK as u64;
    let measured = sim::run(&Setup::real_clock(Machine::unit(), Seed(1)), move || {
        let mut subjects: Vec<_> = designs.split(',').map(|name| Subject::new(name, blocks)).collect();
        for _ in 0..rounds {
            for subject in &mut subjects {
                subject.round(blocks);
            }
        }
        for Subject { name, fs, best: [before, after], .. } in subjects {
            for ((bytes, before), after) in READS.iter().zip(before).zip(after) {
                let ratio = after / before;
                println!(
                    "{name:<8} reads of {bytes:>7}: {before:.0} ns before, {after:.0} ns after random overwrites: {ratio:.2}"
                );
            }
            fs.unmount().expect("unmount");
        }
    });
    measured.expect("the run ends");
}
