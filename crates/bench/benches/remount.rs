//! How long a mount takes after a crash: an image with many files, each with a block, is left without an unmount and mounted again,
//! under the real clock, on memory.
//!
//! `FILES=n` (1,000,000) in directories of 1,000; `SIZE=n` (10) GiB; `DESIGNS=a,b` (nova). The second mount is that of an image
//! that was unmounted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use design::Design;
use media::nvmm::{Region, null::Null};
use media::{MediaError, Storage};
use sim::{Bytes, Machine, Seed, Setup};
use vfs::{FileSystem, IoFlags, NewInode, Owner};

const NEW: NewInode = NewInode { perm: 0o755, owner: Owner { uid: 0, gid: 0 } };
const IN_A_DIRECTORY: u64 = 1_000;

fn wanted(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

fn fill(fs: &dyn FileSystem, files: u64) {
    let mut dir = fs.root();
    for n in 0..files {
        if n % IN_A_DIRECTORY == 0 {
            dir = fs.mkdir(fs.root(), format!("dir{n}").as_bytes(), &NEW).expect("mkdir").ino;
        }
        let file = fs.create(dir, format!("file{n}").as_bytes(), &NEW).expect("create").ino;
        fs.write(file, 0, &[n as u8; 4096], IoFlags::empty()).expect("write");
    }
    fs.sync().expect("sync");
}

fn measure(design: &'static dyn Design, size: Bytes, files: u64) -> Result<(), MediaError> {
    let options =
        design::Options::resolve(design.name(), design.options(), &BTreeMap::new()).expect("defaults");
    let region = Arc::new(Region::anonymous(size, Box::new(Null))?);
    let setup = Setup::real_clock(Machine::unit(), Seed(1));
    let done = sim::run(&setup, move || {
        let storage = Storage::from(&region);
        design.format().mkfs(&storage, &options).expect("mkfs");
        let mount = || {
            let began = Instant::now();
            let fs = design.mount(&storage, &options).expect("mount");
            (fs, began.elapsed().as_secs_f64())
        };
        let (fs, empty) = mount();
        fill(&*fs, files);
        drop(fs);
        let (fs, after_crash) = mount();
        fs.unmount().expect("unmount");
        drop(fs);
        let (fs, after_unmount) = mount();
        assert!(fs.statfs().expect("statfs").blocks_free > 0);
        fs.unmount().expect("unmount");
        println!(
            "{:<8} {files} files on {size}: empty {empty:.2} s, after a crash {after_crash:.2} s, after an unmount \
             {after_unmount:.2} s",
            design.name()
        );
    });
    done.expect("the run ends");
    Ok(())
}

fn main() {
    let designs = std::env::var("DESIGNS").unwrap_or_else(|_| "nova".into());
    let (files, size) = (wanted("FILES", 1_000_000), Bytes::gib(wanted("SIZE", 10)));
    for name in designs.split(',') {
        let design = fs::by_name(name).unwrap_or_else(|| panic!("{name} is no design"));
        measure(design, size, files).expect("memory");
    }
}
