//! The other classes of promise: frames (`sync=fsync`), overwrites in place (`atomic=words`).

use std::sync::Arc;

use check::crash::programs::Program;
use check::crash::{Effort, Subject, explore};
use check::{File, NEW, Op, Pattern};
use design::Mutant;
use media::Storage;
use media::nvmm::Region;
use media::recorder::Plan;
use sim::{Bytes, Nanos, Seed};
use vfs::{Errno, FileSystem, Ino, IoFlags, SetAttr, SetTime, Timestamp};

use super::mount::{cost, made};
use crate::shared::harness::{self, Given, promises, subject, virtually, with_mutant};

const SEED: u64 = 20_261_128;
const BLOCK: usize = 4096;
const NONE: IoFlags = IoFlags::empty();
const FSYNC: Given<'static> = &[("sync", "fsync")];
/// Four frames, where small mounts have one.
const FOUR: Given<'static> = &[("sync", "fsync"), ("buffer", "16k")];
/// Eight frames.
const EIGHT: Given<'static> = &[("sync", "fsync"), ("buffer", "32k"), ("writeback_tasks", "1")];

fn mounted(region: &Arc<Region>, given: Given) -> Arc<dyn FileSystem> {
    let crest = fs::by_name("crest").expect("crest is a design");
    crest.mount(&Storage::from(region), &harness::options(crest, given)).expect("mount")
}

/// A pool with a file, mounted.
fn with_file(given: Given<'static>, body: impl FnOnce(&Arc<Region>, &dyn FileSystem, Ino) + Send + 'static) {
    virtually(1, move || {
        let region = made(Bytes::mib(8));
        let fs = mounted(&region, given);
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        body(&region, &*fs, file);
        fs.unmount().expect("unmount");
        let crest = fs::by_name("crest").expect("crest is a design");
        assert_eq!(crest.format().fsck(&Storage::from(&region)).violations, []);
    });
}

fn read(fs: &dyn FileSystem, file: Ino) -> Vec<u8> {
    let mut bytes = vec![0xAA; fs.getattr(file).expect("it is there").size as usize];
    assert_eq!(fs.read(file, 0, &mut bytes, NONE), Ok(bytes.len()));
    bytes
}

/// Lines that are written by a call.
fn lines(call: impl FnOnce() -> vfs::Result<()>) -> u64 {
    cost(call).1
}

#[test]
fn a_lazy_write_costs_no_line_and_a_sync_one_record_for_all_of_them() {
    with_file(FSYNC, |_, fs, file| {
        let data = vec![7; 8 * BLOCK];
        let write = |at, len: usize| cost(|| fs.write(file, at, &data[..len], NONE));
        assert_eq!(write(0, data.len()), (0, 0), "eight blocks");
        assert_eq!(write(100, 5000), (0, 0), "over them");
        assert_eq!(cost(|| fs.fsync(file, false)), (2, 8 * 64 + 1), "one run, one record");
        assert_eq!(cost(|| fs.fsync(file, false)), (0, 0), "nothing is dirty");
        assert_eq!((write(8 * 4096, 100), write(8 * 4096 + 100, 100)), ((0, 0), (0, 0)), "appends");
        assert_eq!(cost(|| fs.fsync(file, false)), (2, 4 + 1), "the lines of a new block that the file has");
        assert_eq!((write(8 * 4096 + 200, 56), write(8 * 4096 + 256, 64)), ((0, 0), (0, 0)));
        assert_eq!(cost(|| fs.fsync(file, false)), (2, 2 + 1), "behind the durable end in place");
        assert_eq!(read(fs, file), vec![7; 8 * BLOCK + 320]);
    });
}

#[test]
fn a_file_that_is_written_once_for_each_sync_is_written_as_under_strict() {
    with_file(FSYNC, |_, fs, file| {
        let write = || cost(|| fs.write(file, 0, &[1; BLOCK], NONE));
        assert_eq!((write(), cost(|| fs.fsync(file, false))), ((0, 0), (2, 65)), "not known yet");
        assert_eq!((write(), cost(|| fs.fsync(file, false))), ((2, 65), (0, 0)), "as the last time");
        assert_eq!((write(), write(), write()), ((2, 65), (0, 0), (0, 0)), "a second one without a sync");
        assert_eq!(cost(|| fs.fsync(file, false)), (2, 65));
        assert_eq!(write(), (0, 0), "lazy again");
    });
}

#[test]
fn a_synchronous_write_settles_what_is_dirty() {
    with_file(FSYNC, |_, fs, file| {
        fs.write(file, 0, &[1; BLOCK], NONE).expect("write");
        assert_eq!(
            cost(|| fs.write(file, 8192, &[2; BLOCK], IoFlags::SYNC)),
            (4, 130),
            "two writes of a block"
        );
        assert_eq!(cost(|| fs.fsync(file, false)), (0, 0));
    });
}

#[test]
fn without_frames_a_write_is_durable_on_return() {
    with_file(&[("sync", "fsync"), ("buffer", "0")], |_, fs, file| {
        assert_eq!(cost(|| fs.write(file, 0, &[1; BLOCK], NONE)), (2, 65));
    });
}

#[test]
fn a_file_that_is_removed_in_time_costs_no_line_of_data() {
    with_file(FSYNC, |_, fs, file| {
        let before = fs.statfs().expect("statfs").blocks_free;
        let spent = lines(|| {
            fs.write(file, 0, &[1; 3 * BLOCK], NONE)?;
            let cut = SetAttr { size: Some(0), ..SetAttr::default() };
            fs.setattr(file, &cut)?;
            fs.write(file, 0, &[1; 3 * BLOCK], NONE)?;
            fs.unlink(fs.root(), b"file")
        });
        assert_eq!(spent, 2, "a record of the cut, one of the removal");
        assert!(fs.statfs().expect("statfs").blocks_free >= before, "its blocks are free");
    });
}

#[test]
fn what_is_written_to_frames_is_read_whatever_lies_on_the_medium() {
    with_file(FSYNC, |region, fs, file| {
        let mut expected = vec![1; 3 * BLOCK - 1000];
        fs.write(file, 0, &expected, IoFlags::SYNC).expect("write");
        let mut write = |at: usize, len: usize, tag: u8| {
            fs.write(file, at as u64, &vec![tag; len], NONE).expect("write");
            expected.resize(expected.len().max(at + len), 0);
            expected[at..at + len].fill(tag);
            assert_eq!(read(fs, file), expected, "after {len} bytes at {at}");
        };
        write(3 * BLOCK - 900, 100, 2); // behind the durable end, with a gap
        write(100, 50, 3); // within a block
        write(BLOCK - 10, 20, 4); // over two blocks
        write(3 * BLOCK - 1010, 20, 5); // before the durable end of its block
        write(5 * BLOCK + 7, 10, 6); // behind a hole
        write(0, 2 * BLOCK, 7); // whole blocks
        write(3 * BLOCK - 500, 3 * BLOCK, 8); // over the hole
        fs.fsync(file, false).expect("fsync");
        assert_eq!(read(fs, file), expected, "after a sync");
        fs.unmount().expect("unmount");
        let again = mounted(region, FSYNC);
        assert_eq!(read(&*again, again.lookup(again.root(), b"file").expect("it is there").ino), expected);
        again.unmount().expect("unmount");
    });
}

#[test]
fn more_data_than_frames_is_written_back_and_read_right() {
    with_file(EIGHT, |_, fs, file| {
        let other = fs.create(fs.root(), b"other", &NEW).expect("create").ino;
        let mut expected = Vec::new();
        for round in 0..40_u8 {
            let piece = vec![round; 1000 + 100 * usize::from(round)];
            for file in [file, other] {
                let at = expected.len() as u64;
                assert_eq!(fs.write(file, at, &piece, NONE).expect("write").bytes, piece.len());
            }
            expected.extend(piece);
            assert_eq!(
                (read(fs, file), read(fs, other)),
                (expected.clone(), expected.clone()),
                "round {round}"
            );
        }
        assert_eq!(
            fs.write(file, 0, &vec![9; 20 * BLOCK], NONE).expect("write").bytes,
            20 * BLOCK,
            "more than all frames"
        );
        expected[..20 * BLOCK].fill(9);
        assert_eq!(read(fs, file), expected);
    });
}

#[test]
fn write_back_settles_files_thirty_seconds_after_their_last_write() {
    with_file(FSYNC, |_, fs, file| {
        fs.write(file, 0, &[1; BLOCK], NONE).expect("write");
        sim::sleep(Nanos::from_secs(20));
        fs.write(file, 0, &[2; BLOCK], NONE).expect("write");
        sim::sleep(Nanos::from_secs(20));
        fs.write(file, 4096, &[3; 10], NONE).expect("write");
        assert!(lines(|| fs.fsync(file, false)) > 64, "the last write was 20 s before");
        fs.write(file, 0, &[4; BLOCK], NONE).expect("write");
        fs.write(file, 0, &[4; BLOCK], NONE).expect("write");
        sim::sleep(Nanos::from_secs(40));
        assert_eq!(lines(|| fs.fsync(file, false)), 0, "settled by write-back");
    });
}

/// A write that finds room is never refused later.
#[test]
fn a_full_pool_is_refused_at_the_write_and_not_at_the_sync() {
    let given: Given<'static> = &[("sync", "fsync"), ("buffer", "256k")];
    virtually(1, move || {
        let region = made(Bytes::kib(512));
        let fs = mounted(&region, given);
        for round in 0..4_u8 {
            let mut files: Vec<(Ino, Vec<u8>)> = Vec::new();
            'full: for number in 0_u8.. {
                let Ok(made) = fs.create(fs.root(), format!("{number}").as_bytes(), &NEW) else { break };
                files.push((made.ino, Vec::new()));
                for piece in 0..3_u8 {
                    let data = vec![number ^ piece ^ round; 3000];
                    match fs.write(made.ino, files[files.len() - 1].1.len() as u64, &data, NONE) {
                        Ok(written) => {
                            files.last_mut().expect("it was made").1.extend(&data[..written.bytes]);
                        }
                        Err(errno) => {
                            assert_eq!(errno, Errno::ENOSPC);
                            break 'full;
                        }
                    }
                }
            }
            assert!(files.len() > 20, "{} files", files.len());
            fs.sync().expect("all that was written finds room");
            for (ino, expected) in &files {
                assert_eq!(read(&*fs, *ino), *expected, "round {round}");
            }
            for number in 0..files.len() {
                fs.unlink(fs.root(), format!("{number}").as_bytes()).expect("a full pool can be emptied");
            }
        }
        fs.unmount().expect("unmount");
    });
}

#[test]
fn an_overwrite_in_place_costs_its_lines_and_one_fence_and_a_record_in_a_new_tick() {
    with_file(&[("atomic", "words")], |_, fs, file| {
        let write = |at, len: usize| cost(|| fs.write(file, at, &[7; 2 * BLOCK][..len], NONE));
        let mtime = || fs.getattr(file).expect("it is there").mtime;
        let next_tick = || sim::sleep_until(sim::now() + Nanos::from_millis(4));
        assert_eq!(write(0, 2 * BLOCK), (2, 2 * 64 + 1), "growth as under atomic=whole");
        let used = fs.statfs().expect("statfs").blocks_free;
        let grown = mtime();
        assert_eq!((write(4096, BLOCK), mtime()), ((1, 64), grown), "in the tick of the growth");
        next_tick();
        assert_eq!(write(4096, BLOCK), (1, 65));
        assert!(mtime() > grown);
        assert_eq!(write(100, 100), (1, 3), "four lines less the one that it begins and ends within");
        let day = Timestamp { secs: 86_400, nanos: 0 };
        let set = SetAttr { mtime: Some(SetTime::To(day)), ..SetAttr::default() };
        fs.setattr(file, &set).expect("setattr");
        assert_eq!(write(0, BLOCK), (1, 65), "after a time that a call has set");
        assert!(mtime() > grown);
        assert_eq!(fs.statfs().expect("statfs").blocks_free, used, "no block is taken");
        assert_eq!(write(8190, 100).0, 2, "growth");
    });
}

#[test]
fn a_write_that_is_durable_on_return_overwrites_in_place_with_both_options() {
    with_file(&[("sync", "fsync"), ("atomic", "words")], |_, fs, file| {
        let write = |flags| cost(|| fs.write(file, 0, &[1; BLOCK], flags));
        assert_eq!(
            (write(NONE), write(NONE), cost(|| fs.fsync(file, false))),
            ((0, 0), (0, 0), (2, 65)),
            "lazy"
        );
        assert_eq!(write(IoFlags::SYNC), (1, 64), "synchronous, in the same tick");
        assert_eq!((write(NONE), cost(|| fs.fsync(file, false))), ((0, 0), (2, 65)), "once before a sync");
        assert_eq!((write(NONE), cost(|| fs.fsync(file, false))), ((1, 64), (0, 0)), "eager");
    });
}

// ---- crashes

fn foo() -> File {
    File::At("foo".to_owned())
}

fn write(at: u64, len: usize, tag: u8) -> Op {
    Op::Write(foo(), Some(at), Pattern { len, tag })
}

/// Programs of lazy writes and what settles them.
fn programs() -> Vec<Program> {
    let made = || vec![Op::Create("foo".to_owned()), write(0, 5000, 1), Op::Sync];
    let program = |name: &str, core: Vec<Op>| Program::new(name, made(), core);
    vec![
        program("write, write-back", vec![write(0, 3 * BLOCK, 2)]),
        program("write, fsync", vec![write(4000, 2 * BLOCK, 2), Op::Fsync(foo()), write(100, 10, 3)]),
        program("gap, fsync", vec![write(9000, 10, 2), Op::Fsync(foo())]),
        program(
            "write, rename",
            vec![
                write(4096, 2 * BLOCK, 2),
                Op::Rename("foo".to_owned(), "bar".to_owned(), vfs::RenameFlags::empty()),
            ],
        ),
        program(
            "write, cut, write",
            vec![write(0, 3 * BLOCK, 2), Op::Truncate(foo(), 4096), write(4090, 3000, 3), Op::Fsync(foo())],
        ),
        program(
            "more than the frames",
            vec![write(0, 3 * BLOCK, 2), write(4096, 3 * BLOCK, 3), write(0, 6 * BLOCK, 4)],
        ),
    ]
}

fn violations(subject: Subject) -> Vec<String> {
    virtually(SEED, move || {
        let plan = Plan { exhaustive_max: 48, pair_units_max: 6, draws: 12, seed: Seed(SEED) };
        let effort = Effort { plan, ..Effort::usual(SEED, 1) };
        let explored = programs().into_iter().map(|program| explore(&subject, &program, &effort, &[]));
        explored
            .flat_map(|tally| {
                assert_eq!(tally.without_space, 0);
                tally.violations
            })
            .map(|violation| format!("{violation:?}"))
            .collect()
    })
}

#[test]
fn a_crash_loses_what_was_not_synced_and_shows_no_size_without_its_data() {
    assert_eq!(violations(subject("crest", FOUR)), Vec::<String>::new());
    assert_eq!(violations(subject("crest", EIGHT)), Vec::<String>::new());
}

/// Canaries, each found by the programs above.
#[test]
fn sizes_ahead_of_their_data_are_found() {
    for (mutant, what) in [
        (fs::crest::format::mutant::SIZE_AHEAD_OF_DATA, "which it never was"),
        (fs::crest::format::mutant::NAME_BEFORE_SIZE, "allowed are"),
    ] {
        let found = violations(with_bug(mutant));
        assert!(found.iter().any(|violation| violation.contains(what)), "{}: {found:?}", mutant.name());
    }
}

fn with_bug(mutant: Mutant) -> Subject {
    let given = [harness::checking("crest").small, FOUR].concat();
    let design = with_mutant("crest", &given, mutant);
    Subject { design, promises: promises("crest", FOUR), ..subject("crest", FOUR) }
}
