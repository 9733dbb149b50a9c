//! Where data goes: past the cache, into preallocated blocks; and a journal on a device of its own.

use std::sync::Arc;

use check::NEW;
use check::configured::{region, virtually};
use media::Storage;
use media::block::{Geometry, MemoryDevice};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FileExtent, FileSystem, Ino, IoFlags};

use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save};
use crate::shared::harness::options;

const PIECE: u64 = 32 << 10;

fn mounted(region: &Arc<Region>, given: &[(&str, &str)]) -> Arc<dyn FileSystem> {
    let ext4 = fs::by_name("ext4").expect("a design");
    let options = options(ext4, given);
    ext4.format().mkfs(&Storage::from(region), &options).expect("mkfs");
    ext4.mount(&Storage::from(region), &options).expect("mount")
}

fn file(fs: &dyn FileSystem, name: &[u8]) -> Ino {
    fs.create(fs.root(), name, &NEW).expect("create").ino
}

fn write(fs: &dyn FileSystem, ino: Ino, offset: u64, byte: u8, flags: IoFlags) {
    let data = vec![byte; PIECE as usize];
    assert_eq!(fs.write(ino, offset, &data, flags).expect("write").bytes, data.len());
}

fn read(fs: &dyn FileSystem, ino: Ino, offset: u64, flags: IoFlags) -> Vec<u8> {
    let mut buffer = vec![0xee; PIECE as usize];
    let bytes = fs.read(ino, offset, &mut buffer, flags).expect("read");
    buffer.truncate(bytes);
    buffer
}

#[test]
fn direct_and_cached_reads_and_writes_see_each_other() {
    let image = region(Bytes::mib(64));
    let of = Arc::clone(&image);
    virtually(1, move || {
        let fs = mounted(&of, &[]);
        let (fs, direct, cached) = (&*fs, IoFlags::DIRECT, IoFlags::empty());
        let ino = file(fs, b"f");
        let is = |offset, flags, byte| {
            assert!(read(fs, ino, offset, flags).iter().all(|found| *found == byte), "{offset} {flags:?}");
        };
        write(fs, ino, 0, 1, cached);
        is(0, direct, 1);
        is(0, cached, 1);
        write(fs, ino, 0, 2, direct);
        is(0, cached, 2);
        // An append, a hole before it, and a rest that is no whole block.
        write(fs, ino, 4 * PIECE, 3, direct);
        is(4 * PIECE, cached, 3);
        is(2 * PIECE, direct, 0);
        fs.write(ino, 5 * PIECE, &[4; 100], cached).expect("write");
        assert_eq!(read(fs, ino, 5 * PIECE, direct), [4; 100]);
        assert_eq!(read(fs, ino, 6 * PIECE, direct), [0; 0]);
        fs.drop_caches().expect("caches");
        is(0, cached, 2);
        is(4 * PIECE, cached, 3);
        fs.unmount().expect("unmount");
    });
    if has_e2fsck() {
        assert_eq!(e2fsck(&image), Ok(()));
    }
}

/// Appends to two files in turns, each synced; where they lie.
fn in_turns(given: &'static [(&'static str, &'static str)]) -> [Vec<FileExtent>; 2] {
    let image = region(Bytes::mib(128));
    let of = Arc::clone(&image);
    let extents = virtually(1, move || {
        let fs = mounted(&of, given);
        let files = [file(&*fs, b"a"), file(&*fs, b"b")];
        for step in 0..64 {
            for ino in files {
                write(&*fs, ino, step * PIECE, step as u8, IoFlags::empty());
                fs.fsync(ino, true).expect("fdatasync");
            }
        }
        let extents = files.map(|ino| fs.extents(ino).expect("extents"));
        fs.unmount().expect("unmount");
        extents
    });
    if has_e2fsck() {
        assert_eq!(e2fsck(&image), Ok(()));
    }
    extents
}

#[test]
fn small_files_share_chunks_so_that_appends_in_turns_are_a_log() {
    let [a, b] = in_turns(&[("stream_request", "1TiB")]);
    assert_eq!((a.len(), b.len()), (64, 64));
    let next = |(a, b): (&FileExtent, &FileExtent)| a.physical + a.len == b.physical;
    assert!(a.iter().zip(&b).all(next), "{a:?} {b:?}");
}

#[test]
fn large_files_have_windows_of_their_own() {
    let [a, b] = in_turns(&[]);
    assert!(a.len() < 12 && b.len() < 12, "{} and {} extents", a.len(), b.len());
}

#[test]
fn what_is_set_aside_is_given_up_before_a_file_system_is_full() {
    let image = region(Bytes::mib(16));
    virtually(1, move || {
        let fs = mounted(&image, &[("journal", "0")]);
        let free = fs.statfs().expect("statfs").blocks_free;
        let (a, b) = (file(&*fs, b"a"), file(&*fs, b"b"));
        write(&*fs, a, 0, 1, IoFlags::empty());
        let (mut at, data) = (0, [2; 4096]);
        while fs.write(b, at, &data, IoFlags::empty()).is_ok() {
            at += 4096;
        }
        let left = fs.statfs().expect("statfs").blocks_free;
        assert!(
            left < 2 && at / 4096 + 16 > free - PIECE / 4096,
            "{left} of {free} are left after {at} bytes"
        );
    });
}

#[test]
fn a_journal_on_another_device_is_replayed_and_e2fsck_takes_both() {
    let (image, log) = (region(Bytes::mib(64)), region(Bytes::mib(16)));
    let (of, beside) = (Arc::clone(&image), Arc::clone(&log));
    virtually(1, move || {
        let device = MemoryDevice::over(Arc::clone(&of), Geometry::memory(Bytes(of.len()))).expect("device");
        let storage = Storage::of_memory(beside).with_block(device);
        let ext4 = fs::by_name("ext4").expect("a design");
        let options = options(ext4, &[("external_journal", "true"), ("lazy_itable", "true")]);
        ext4.format().mkfs(&storage, &options).expect("mkfs");
        let lost = ext4.mount(&storage, &options).expect("mount");
        let ino = file(&*lost, b"kept");
        write(&*lost, ino, 0, 7, IoFlags::empty());
        lost.fsync(ino, false).expect("fsync");
        // It is not unmounted: what it knows is in the journal only.
        let fs = ext4.mount(&storage, &options).expect("mount after a crash");
        let found = fs.lookup(fs.root(), b"kept").expect("the file").ino;
        assert!(read(&*fs, found, 0, IoFlags::empty()).iter().all(|byte| *byte == 7));
        fs.unmount().expect("unmount");
        assert!(ext4.mount(&Storage::from(&of), &options).is_err(), "the journal is missing");
    });
    if has_e2fsck() {
        let (image, log): (Scratch, Scratch) = (save(&image), save(&log));
        let output = run("e2fsck", &["-fn", "-j", &log.0, &image.0]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
