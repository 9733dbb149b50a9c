//! Files that share blocks: what a clone costs, who may change a block, and crashes.

use std::sync::Arc;

use check::crash::programs;
use check::crash::{Effort, Subject, explore};
use check::{NEW, observe};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{Credentials, Errno, FileSystem, Ino, IoFlags, Mount, MountOptions, OpenFlags, Process, Syscalls};

use super::mount::{assert_sound, cost, made, mounted};
use crate::shared::harness::{self, mutant, small_with, subject, virtually, with_mutant};

const SEED: u64 = 20_261_127;
const NONE: IoFlags = IoFlags::empty();

/// A file with so many bytes, of which each block has a value of its own.
fn file(fs: &dyn FileSystem, name: &[u8], len: usize) -> Ino {
    let ino = fs.create(fs.root(), name, &NEW).expect("a new name").ino;
    if len > 0 {
        let bytes: Vec<u8> = (0..len).map(|at| (1 + at / 4096 + at % 7) as u8).collect();
        assert_eq!(fs.write(ino, 0, &bytes, NONE).expect("room").bytes, len);
    }
    ino
}

fn bytes(fs: &dyn FileSystem, ino: Ino) -> Vec<u8> {
    let mut bytes = vec![0xEE; fs.getattr(ino).expect("it is there").size as usize];
    assert_eq!(fs.read(ino, 0, &mut bytes, NONE).expect("it can be read"), bytes.len());
    bytes
}

fn free(fs: &dyn FileSystem) -> u64 {
    fs.statfs().expect("statfs").blocks_free
}

fn pool() -> (Arc<Region>, Arc<dyn FileSystem>) {
    let region = made(Bytes::mib(8));
    let fs = mounted(&region);
    (region, fs)
}

#[test]
fn a_clone_stores_a_record_and_no_data_and_the_last_file_frees_its_blocks() {
    virtually(1, || {
        let (region, fs) = pool();
        let (source, target) = (file(&*fs, b"source", 400_000), file(&*fs, b"target", 0));
        let before = free(&*fs);
        assert_eq!(cost(|| fs.clone_range((source, 0), (target, 0), 400_000)), (1, 1), "fences and lines");
        assert_eq!(bytes(&*fs, target), bytes(&*fs, source));
        assert!(before - free(&*fs) <= 2, "98 blocks have 98 further lines at most: less than two blocks");
        fs.unlink(fs.root(), b"source").expect("it is there");
        assert!(free(&*fs) <= before + 2, "the clone keeps the blocks");
        fs.unmount().expect("unmount");
        assert_sound(&region);
        let fs = mounted(&region);
        let kept = bytes(&*fs, fs.lookup(fs.root(), b"target").expect("it is there").ino);
        assert_eq!(
            (kept.len(), kept[0], kept[399_999]),
            (400_000, 1, (1 + 399_999 / 4096 + 399_999 % 7) as u8)
        );
        fs.unlink(fs.root(), b"target").expect("it is there");
        assert!(free(&*fs) >= before + 98, "the last file has freed them");
    });
}

#[test]
fn a_change_of_one_file_does_not_show_in_the_other() {
    virtually(1, || {
        let (region, fs) = pool();
        let source = file(&*fs, b"source", 9000);
        let old = bytes(&*fs, source);
        let clones: Vec<Ino> = (0..6).map(|n| file(&*fs, &[b'a' + n], 0)).collect();
        for clone in &clones {
            fs.clone_range((source, 0), (*clone, 0), 9000).expect("a clone");
        }
        fs.write(clones[0], 100, &[0xAA; 50], NONE).expect("a write within a block");
        fs.write(clones[1], 9000, &[0xAA; 50], NONE).expect("an append within the last block");
        let size = |size| vfs::SetAttr { size: Some(size), ..vfs::SetAttr::default() };
        fs.setattr(clones[2], &size(9100)).expect("growth over the end within a block");
        fs.write(source, 9000, &[0xBB; 60], NONE).expect("an append to the source");
        let maps = fs.mapped_files().expect("files can be mapped");
        maps.map(clones[3], &(0..3), true).expect("a mapping");
        maps.store(clones[3], 5000, &[0xCC; 16]).expect("a store");
        // A page that is dirty already is cloned, and stored to again.
        fs.clone_range((clones[3], 0), (clones[4], 0), 9000).expect("a clone of a mapped file");
        maps.store(clones[3], 5000, &[0xDD; 16]).expect("a store");
        maps.unmap(clones[3], &(0..3), true);
        let mut expected = vec![old.clone(); 6];
        expected[0][100..150].fill(0xAA);
        expected[1].extend([0xAA; 50]);
        expected[2].extend([0; 100]);
        expected[3][5000..5016].fill(0xDD);
        expected[4][5000..5016].fill(0xCC);
        fs.sync().expect("sync");
        for (clone, expected) in clones.iter().zip(&expected) {
            assert!(bytes(&*fs, *clone) == *expected, "{clone:?}");
        }
        let tree = observe(&*fs).expect("a sound tree");
        fs.unmount().expect("unmount");
        assert_sound(&region);
        assert_eq!(observe(&*mounted(&region)).expect("a sound tree"), tree);
    });
}

#[test]
fn ranges_that_share_no_whole_blocks_are_refused() {
    virtually(1, || {
        let (_region, fs) = pool();
        let (source, target) = (file(&*fs, b"source", 9000), file(&*fs, b"target", 9500));
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("a new name").ino;
        let clone = |from, to, len| fs.clone_range((source, from), (target, to), len);
        assert_eq!(clone(100, 0, 4096), Err(Errno::EINVAL), "an offset within a block");
        assert_eq!(clone(0, 100, 4096), Err(Errno::EINVAL), "the same in the target");
        assert_eq!(clone(0, 0, 5000), Err(Errno::EINVAL), "the end within a block of the source");
        assert_eq!(clone(0, 0, 9000), Err(Errno::EINVAL), "the target goes on within its block");
        assert_eq!(clone(4096, 0, 8192), Err(Errno::EINVAL), "more than the source has");
        assert_eq!(fs.clone_range((source, 0), (source, 4096), 8192), Err(Errno::EINVAL), "an overlap");
        assert_eq!(fs.clone_range((dir, 0), (target, 0), 4096), Err(Errno::EISDIR));
        assert_eq!(bytes(&*fs, target).len(), 9500, "nothing has changed");
        assert_eq!(clone(8192, 12_288, 808), Ok(()), "the end of the source, beyond the target's");
        assert_eq!(fs.getattr(target).expect("it is there").size, 13_096);
    });
}

/// The rules of a copy are those of every design; blocks are shared where the design has clones.
#[test]
fn a_copy_between_files_has_the_bytes_in_every_design_and_shares_blocks_in_crest() {
    for name in harness::names() {
        let design = small_with(name, &[]);
        if design.design().without_image().is_some() {
            continue;
        }
        virtually(SEED, move || {
            let region = harness::region(check::configured::usual_size(&design));
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let process = Process::new(
                Mount::new(Arc::clone(&fs), MountOptions::default()).expect("a mount"),
                Credentials::root(),
            );
            let open = |path: &[u8]| {
                process
                    .open(path, OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE, 0o644)
                    .expect("open")
            };
            let (source, target) = (open(b"source"), open(b"target"));
            let data: Vec<u8> = (0..50_001_u32).map(|at| (at / 7 % 251) as u8 + 1).collect();
            assert_eq!(process.pwrite(source, &data, 0), Ok(data.len()), "{name}");
            let mut expected = vec![0; 50_001];
            for (from, to, len) in
                [(0, 0, 50_001), (100, 4196, 20_000), (1, 2, 5000), (40_000, 40_000, 99_999)]
            {
                let copied = process.copy_file_range((source, from), (target, to), len);
                let end = data.len().min((from + len) as usize);
                let bytes = &data[from as usize..end];
                assert_eq!(copied, Ok(bytes.len() as u64), "{name}");
                expected.resize(expected.len().max(to as usize + bytes.len()), 0);
                expected[to as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            let mut seen = vec![0xEE; expected.len() + 1];
            assert_eq!(process.pread(target, &mut seen, 0), Ok(expected.len()), "{name}");
            assert!(seen[..expected.len()] == expected, "{name}");
            let overlap = process.copy_file_range((source, 0), (source, 100), 4096);
            assert_eq!(overlap, Err(Errno::EINVAL), "{name}");
            let third = open(b"third");
            let used = |process: &Process| process.statfs(b"/").expect("statfs").blocks_free;
            let before = used(&process);
            let cloned = process.clone_range((source, 0), (third, 0), 0);
            let clones = name.starts_with("crest");
            assert_eq!(cloned, if clones { Ok(()) } else { Err(Errno::EOPNOTSUPP) }, "{name}");
            assert!(!clones || before - used(&process) <= 1, "{name}: no block was written");
            for fd in [source, target, third] {
                process.close(fd).expect("it is open");
            }
            drop(process);
            fs.unmount().expect("unmount");
        });
    }
}

fn found(subject: &Subject, nested: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    for program in programs::clones() {
        let tally = explore(subject, &program, &Effort::usual(SEED, nested), &[]);
        println!("{}: {} points, {} images", program.name, tally.points, tally.distinct_images);
        assert_eq!(tally.without_space, 0, "{}", program.name);
        wrong.extend(tally.violations.iter().map(ToString::to_string));
    }
    wrong
}

#[test]
fn every_crash_around_a_clone_leaves_an_allowed_state() {
    assert_eq!(found(&subject("crest", &[]), 2), [""; 0], "seed {SEED}");
}

/// Canaries: the rules of lemma L11.
#[test]
fn a_block_that_is_freed_or_changed_while_another_file_has_it_is_found() {
    for name in ["clones-not-counted", "shared-in-place"] {
        let design = with_mutant("crest", harness::checking("crest").small, mutant("crest", name));
        let wrong = found(&Subject { design, ..subject("crest", &[]) }, 0);
        println!("{name}: {}", wrong.first().expect("it is found"));
    }
}
