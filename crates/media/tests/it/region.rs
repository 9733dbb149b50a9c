//! What a region promises: bytes, bounds, files, faults, events, counts.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use media::event::{Counting, StoreKind, TaskId};
use media::fault::{Fault, Target};
use media::nvmm::Access;
use media::nvmm::null::Null;
use media::{Event, Mark, MediaError, Promise, Region, Tap};
use parking_lot::Mutex;
use proptest::prelude::*;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use sim::{ByteRun, Bytes, Machine, Seed, Setup, ledger::Snapshot};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

fn memory(len: u64) -> Region {
    Region::anonymous(Bytes(len), Box::new(Null)).expect("memory")
}

fn file(path: &Path, len: Option<u64>) -> Result<Region, MediaError> {
    Region::file(path, len.map(Bytes), Access::ReadWrite, Box::new(Null))
}

#[derive(Clone, Copy, Debug, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Inode {
    size: u64,
    links: u32,
    mode: u32,
}

#[test]
fn what_was_stored_is_what_is_loaded() {
    let region = memory(1 << 20);
    region.store(13, b"through the cache").expect("in range");
    region.nt_store(5001, &[9; 10_000]).expect("in range");
    region.store_u16(2, 0x1234).expect("aligned");
    region.store_u32(4, 0xdead_beef).expect("aligned");
    region.store_u64(8192 * 4, u64::MAX - 1).expect("aligned");
    region.store_pair(65_536, [1, 2]).expect("aligned");
    let inode = Inode { size: 7, links: 2, mode: 3 };
    region.write(70_001, &inode).expect("in range");

    let mut buf = [0; 17];
    region.load(13, &mut buf).expect("in range");
    assert_eq!(&buf, b"through the cache");
    let mut big = [0; 10_002];
    region.peek(5000, &mut big).expect("in range");
    assert_eq!((big[0], big[10_001]), (0, 0));
    assert!(big[1..10_001].iter().all(|byte| *byte == 9));
    assert_eq!(region.load_u16(2), Ok(0x1234));
    assert_eq!(region.load_u32(4), Ok(0xdead_beef));
    assert_eq!(region.load_u64(8192 * 4), Ok(u64::MAX - 1));
    assert_eq!((region.load_u64(65_536), region.load_u64(65_544)), (Ok(1), Ok(2)));
    assert_eq!(region.read::<Inode>(70_001), Ok(inode));
    region.nt_zero(5003, 9_990).expect("in range");
    region.peek(5000, &mut big).expect("in range");
    let left = big.iter().map(|byte| usize::from(*byte == 9)).sum::<usize>();
    assert_eq!(left, 10, "three bytes before and seven after");
}

#[test]
fn nothing_outside_the_region_is_touched() {
    for watched in [false, true] {
        let region = memory(4096);
        if watched {
            region.attach(Arc::new(Counting::new()));
        }
        let refused = |result: Result<(), MediaError>| {
            assert!(matches!(result, Err(MediaError::OutOfRange { size: 4096, .. })), "{result:?}");
        };
        for off in [4089, 4096, 1 << 40, u64::MAX - 7, u64::MAX] {
            refused(region.load(off, &mut [0; 8]));
            refused(region.peek(off, &mut [0; 8]));
            refused(region.store(off, &[0; 8]));
            refused(region.nt_store(off, &[0; 8]));
            refused(region.nt_zero(off, 8));
            refused(region.nt_zero(8, off));
            refused(region.read::<[u8; 8]>(off).map(|_| ()));
            refused(region.write(off, &[0_u8; 8]));
            region.flush(off, 8);
            region.flush(1, off);
        }
        refused(region.load_u64(4096).map(|_| ()));
        refused(region.store_pair(4096, [0; 2]));
        assert_eq!(region.load(4096, &mut []), Ok(()), "nothing may be read anywhere");
        assert_eq!(region.nt_zero(4096, 0), Ok(()));
    }
}

#[test]
fn a_bulk_store_that_does_not_fit_writes_nothing() {
    let region = memory(8192);
    assert!(region.nt_store(4090, &[1; 4103]).is_err());
    let mut all = [0; 8192];
    region.peek(0, &mut all).expect("in range");
    assert!(all.iter().all(|byte| *byte == 0));
}

#[test]
fn words_must_be_aligned() {
    let region = memory(4096);
    assert_eq!(region.load_u64(4), Err(MediaError::Misaligned { offset: 4, align: 8 }));
    assert_eq!(region.store_u64(1, 1), Err(MediaError::Misaligned { offset: 1, align: 8 }));
    assert_eq!(region.store_u32(2, 1), Err(MediaError::Misaligned { offset: 2, align: 4 }));
    assert_eq!(region.load_u16(1), Err(MediaError::Misaligned { offset: 1, align: 2 }));
    assert_eq!(region.store_pair(8, [1, 2]), Err(MediaError::Misaligned { offset: 8, align: 16 }));
}

#[test]
fn a_region_has_bytes() {
    assert_eq!(Region::anonymous(Bytes(0), Box::new(Null)).err(), Some(MediaError::Empty));
}

#[test]
fn a_file_keeps_its_bytes_from_one_opening_to_the_next() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let region = file(&path, Some(64 << 10)).expect("created");
    region.nt_store(100, b"kept").expect("in range");
    region.fence();
    region.sync().expect("written back");
    drop(region);
    let region = file(&path, None).expect("opened");
    assert_eq!(region.len(), 64 << 10);
    assert_eq!(region.read::<[u8; 4]>(100), Ok(*b"kept"));
    drop(region);
    assert_eq!(&std::fs::read(&path).expect("a file")[100..104], b"kept");
    assert!(!file(&path, None).expect("opened").is_persistent(), "a fence does not reach the disk");
}

/// A child that another thread is starting has the descriptor, too, until it executes its program.
#[test]
fn a_file_can_be_opened_again_although_a_copy_of_its_descriptor_is_left() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let region = file(&path, Some(64 << 10)).expect("created");
    let entries = std::fs::read_dir("/proc/self/fd").expect("Linux").flatten();
    let of_region =
        entries.map(|entry| entry.path()).find(|fd| std::fs::read_link(fd).is_ok_and(|to| to == path));
    let number =
        of_region.expect("the region has it open").file_name().unwrap().to_str().unwrap().parse().unwrap();
    let this = pidfd_open(getpid(), PidfdFlags::empty()).expect("a descriptor of this process");
    let copy = pidfd_getfd(&this, number, PidfdGetfdFlags::empty()).expect("a copy");
    assert_eq!(file(&path, None).err(), Some(MediaError::InUse));
    drop(region);
    file(&path, None).expect("the lock is released");
    drop(copy);
}

#[test]
fn what_was_stored_is_in_the_file_even_if_nobody_syncs() {
    // The mapping is shared with the page cache: a process that dies loses nothing, only a power loss does.
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let region = file(&path, Some(4096)).expect("created");
    region.store(0, b"here").expect("in range");
    assert_eq!(&std::fs::read(&path).expect("a file")[..4], b"here");
    drop(region);
}

#[test]
fn a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_permissions() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let mode = || std::fs::metadata(&path).expect("it is there").permissions().mode() & 0o7777;
    drop(file(&path, Some(4096)).expect("a new file"));
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("its owner may");
    drop(file(&path, Some(8192)).expect("the old file"));
    assert_eq!(mode(), 0o640);
}

#[test]
fn a_file_grows_to_the_length_asked_for_and_never_shrinks() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    assert!(
        matches!(file(&path, None), Err(MediaError::Io { doing: "open the file", .. })),
        "not created without a length"
    );
    drop(file(&path, Some(8192)).expect("created"));
    assert_eq!(file(&path, Some(16_384)).expect("grown").len(), 16_384);
    assert_eq!(file(&path, Some(4096)).expect("opened").len(), 16_384);
}

/// A small ext4 of the host, unmounted at the end. None where that takes another user or kernel.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().expect("a directory");
        let (disk, at) = (dir.path().join("disk"), dir.path().join("at"));
        std::fs::File::create(&disk).expect("a file").set_len(32 << 20).expect("a size");
        std::fs::create_dir(&at).expect("a directory");
        let done = |command: &mut Command| command.status().is_ok_and(|status| status.success());
        let made = done(Command::new("mkfs.ext4").arg("-q").arg(&disk))
            && done(Command::new("mount").args(["-o", "loop"]).args([&disk, &at]));
        made.then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(self.0.path().join("at")).status();
    }
}

#[test]
fn a_file_that_cannot_grow_keeps_its_length_and_takes_no_more_of_the_disk() {
    let Some(disk) = SmallDisk::new() else { return println!("skipped: no ext4 can be mounted here") };
    let path = disk.0.path().join("at/image");
    file(&path, Some(1 << 20)).expect("created").store(8, b"kept").expect("in range");
    let refused = file(&path, Some(1 << 30)).err();
    assert!(matches!(refused, Some(MediaError::Io { errno: 28, .. })), "{refused:?}");
    let data = std::fs::metadata(&path).expect("it is there");
    assert_eq!(data.len(), 1 << 20);
    assert!(data.blocks() * 512 < 2 << 20, "{} blocks", data.blocks());
    assert_eq!(file(&path, None).expect("opened").read::<[u8; 4]>(8), Ok(*b"kept"));
}

#[test]
fn a_truncated_file_is_a_shorter_region_not_a_crash() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    drop(file(&path, Some(8192)).expect("created"));
    std::fs::OpenOptions::new().write(true).open(&path).expect("a file").set_len(5000).expect("cut");
    let region = file(&path, None).expect("opened");
    assert_eq!(region.len(), 5000);
    assert!(region.load(4990, &mut [0; 10]).is_ok());
    assert!(region.load(4990, &mut [0; 11]).is_err());
    region.flush(4990, 100);
    drop(region);
    std::fs::OpenOptions::new().write(true).open(&path).expect("a file").set_len(0).expect("cut");
    assert_eq!(file(&path, None).err(), Some(MediaError::Empty));
}

#[test]
fn a_second_opener_is_refused_until_the_first_is_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let read_only = || Region::file(&path, None, Access::ReadOnly, Box::new(Null));
    let first = file(&path, Some(4096)).expect("created");
    assert_eq!(file(&path, None).err(), Some(MediaError::InUse));
    assert_eq!(read_only().err(), Some(MediaError::InUse));
    drop(first);
    let (_a, _b) = (read_only().expect("a reader"), read_only().expect("two readers"));
    assert_eq!(file(&path, None).err(), Some(MediaError::InUse));
}

#[test]
fn a_read_only_region_refuses_stores_and_only_those() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    file(&path, Some(4096)).expect("created").store(8, b"x").expect("in range");
    let region = Region::file(&path, None, Access::ReadOnly, Box::new(Null)).expect("opened");
    let refused = Err(MediaError::ReadOnly { offset: 8 });
    assert_eq!(region.store(8, b"y"), refused);
    assert_eq!(region.store_u64(8, 1), refused);
    assert_eq!(region.nt_store(8, &[1; 8]), refused);
    region.inject(Fault::Poison { offset: 1024 });
    assert_eq!(region.store(8, b"y"), refused);
    assert_eq!(region.read::<[u8; 1]>(8), Ok(*b"x"));
}

#[test]
fn a_file_that_is_to_be_new_is_made_or_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let new = |len: u64| Region::file(&path, Some(Bytes(len)), Access::New, Box::new(Null));
    assert_eq!(new(8192).expect("it is new").len(), 8192);
    assert!(matches!(new(1 << 20), Err(MediaError::Io { errno: libc::EEXIST, .. })));
    assert_eq!(std::fs::metadata(&path).expect("it is there").len(), 8192, "a refusal changes nothing");
    std::fs::remove_file(&path).expect("it is removed");
    assert!(new(1 << 62).is_err() && !path.exists(), "nothing is left of what could not be made");
    std::os::unix::fs::symlink(dir.path().join("other"), &path).expect("a link");
    assert!(new(8192).is_err() && path.is_symlink());
}

#[test]
fn an_ordinary_file_is_not_persistent_memory() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("image");
    let found = Region::direct(&path, Some(Bytes(1 << 20)), Access::New, Box::new(Null)).err();
    assert_eq!(found, Some(MediaError::NotPersistent));
    assert!(!path.exists(), "nothing is left of it");
}

#[test]
fn a_poisoned_line_cannot_be_read_until_it_is_written_whole() {
    let region = memory(4096);
    region.inject(Fault::Poison { offset: 100 });
    let poisoned = Err(MediaError::Poisoned { offset: 64 });
    assert_eq!(region.load_u64(64).map(|_| ()), poisoned);
    assert_eq!(region.load(0, &mut [0; 4096]), poisoned);
    assert_eq!(region.peek(120, &mut [0; 1]), poisoned);
    assert!(region.load_u64(56).is_ok() && region.load_u64(128).is_ok(), "neighbours are well");
    region.store(64, &[1; 63]).expect("stores go through");
    assert_eq!(region.load_u64(64).map(|_| ()), poisoned);
    region.nt_store(64, &[1; 64]).expect("stores go through");
    assert!(region.load_u64(64).is_ok());
}

#[test]
fn the_nth_access_fails_once_and_changes_nothing() {
    let region = memory(4096);
    region.inject(Fault::FailNth { target: Target::Store, nth: 2 });
    region.store_u64(0, 1).expect("the first");
    assert!(matches!(
        region.store_u64(0, 2),
        Err(MediaError::Injected { target: Target::Store, offset: 0, len: 8 })
    ));
    assert_eq!(region.load_u64(0), Ok(1));
    region.store_u64(0, 3).expect("the third");
    region.inject(Fault::FailNth { target: Target::Load, nth: 1 });
    assert!(region.load_u64(0).is_err());
    assert_eq!(region.load_u64(0), Ok(3));
}

#[test]
fn a_dropped_flush_or_fence_is_not_told_to_anybody() {
    let region = memory(4096);
    let counts = Arc::new(Counting::new());
    region.attach(Arc::clone(&counts) as Arc<dyn Tap>);
    region.inject(Fault::DropNth { target: Target::Flush, nth: 2 });
    region.inject(Fault::DropNth { target: Target::Fence, nth: 1 });
    for _ in 0..3 {
        region.flush(0, 8);
        region.fence();
    }
    assert_eq!(counts.of(Event::Flush { off: 0, len: 0 }), 2);
    assert_eq!(counts.of(Event::Fence), 2);
}

#[test]
fn events_of_any_number_of_threads_are_counted_and_loads_are_not() {
    let region = memory(4096);
    let counts = Arc::new(Counting::new());
    region.attach(Arc::clone(&counts) as Arc<dyn Tap>);
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                for _ in 0..500 {
                    region.store_u64(0, 1).expect("in range");
                    region.load_u64(0).expect("in range");
                    region.fence();
                }
            });
        }
    });
    let store = Event::Store { off: 0, data: &[], kind: StoreKind::Word };
    let told = [store, Event::Fence, Event::Load { off: 0, len: 8 }].map(|event| counts.of(event));
    assert_eq!(told, [50_000, 50_000, 0]);
}

#[test]
fn who_hears_no_loads_is_not_told_them_beside_one_who_does() {
    let region = memory(4096);
    let (deaf, log) = (Arc::new(Deaf), Arc::new(Log::default()));
    region.attach(deaf as Arc<dyn Tap>);
    region.attach(Arc::clone(&log) as Arc<dyn Tap>);
    region.load_u64(8).expect("in range");
    assert_eq!(*log.0.lock(), ["load 8+8"]);
}

/// Hears no loads.
struct Deaf;

impl Tap for Deaf {
    fn event(&self, _: TaskId, event: Event<'_>) {
        assert!(!matches!(event, Event::Load { .. }), "told {event:?}");
    }
}

/// Keeps events as text.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Tap for Log {
    fn event(&self, _: TaskId, event: Event<'_>) {
        self.0.lock().push(match event {
            Event::Load { off, len } => format!("load {off}+{len}"),
            Event::Store { off, data, kind: StoreKind::Bytes } => format!("store {off}+{}", data.len()),
            Event::Store { off, data, kind } => format!("{kind:?} {off}+{}", data.len()),
            Event::NtStore { off, data } => format!("nt {off}+{}", data.len()),
            Event::Flush { off, len } => format!("flush {off}+{len}"),
            Event::Fence => "fence".to_owned(),
            Event::Block(event) => format!("{event:?}"),
            Event::Mark(mark) => format!("{mark:?}"),
        });
    }

    fn hears_loads(&self) -> bool {
        true
    }
}

fn events(work: impl FnOnce(&Region)) -> Vec<String> {
    let region = memory(1 << 20);
    let log = Arc::new(Log::default());
    region.attach(Arc::clone(&log) as Arc<dyn Tap>);
    work(&region);
    region.detach(&log);
    region.store_u64(0, 1).expect("in range");
    std::mem::take(&mut log.0.lock())
}

#[test]
fn the_edges_of_a_bulk_store_go_through_the_cache_and_are_flushed() {
    let nt = |off, len: usize| events(move |region| region.nt_store(off, &vec![1; len]).expect("in range"));
    assert_eq!(nt(0, 64), ["nt 0+64"]);
    assert_eq!(nt(3, 2), ["store 3+2", "flush 3+2"]);
    assert_eq!(nt(3, 21), ["store 3+5", "flush 3+5", "nt 8+16"]);
    assert_eq!(nt(8, 13), ["nt 8+8", "store 16+5", "flush 16+5"]);
    assert_eq!(nt(4090, 16), ["store 4090+6", "flush 4090+6", "nt 4096+8", "store 4104+2", "flush 4104+2"]);
    assert_eq!(nt(4000, 4096), ["nt 4000+96", "nt 4096+4000"], "pieces end at pages");
}

#[test]
fn a_tap_hears_everything_in_program_order_until_it_is_detached() {
    let heard = events(|region| {
        region.mark(Mark::OpBegin("op"));
        region.store_u64(8, 1).expect("in range");
        region.store_pair(16, [1, 2]).expect("in range");
        region.write(32, &[1_u8; 3]).expect("in range");
        region.load_u64(8).expect("in range");
        region.flush(8, 27);
        region.fence();
        region.mark(Mark::OpEnd("op", Promise::All));
    });
    let expected = [
        "OpBegin(\"op\")",
        "Word 8+8",
        "Pair 16+16",
        "store 32+3",
        "load 8+8",
        "flush 8+27",
        "fence",
        "OpEnd(\"op\", All)",
    ];
    assert_eq!(heard, expected);
}

#[test]
fn the_ledger_counts_what_moved() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let counts = sim::run(&setup, || {
        let region = memory(1 << 20);
        region.nt_store(4, &[1; 4096]).expect("in range");
        region.store(0, &[1; 10]).expect("in range");
        region.store_u64(64, 1).expect("in range");
        region.flush(60, 8);
        region.fence();
        region.load(0, &mut [0; 5000]).expect("in range");
        region.peek(0, &mut [0; 5000]).expect("in range");
        let run = Snapshot::of_run();
        media::charges::COUNTS.map(|count| (count.name(), run.count_all(count)))
    });
    let expected = [
        ("bytes_loaded", 5000),
        ("bytes_stored", 4 + 4 + 10 + 8),
        ("bytes_nt_stored", 4088),
        // Body: bytes 8..4096 are lines 0..63, and the edge before it lies in the first of these. The edge after it: 1. The
        // flush: 2.
        ("lines_written", 64 + 1 + 2),
        ("flushes", 3),
        ("fences", 1),
    ];
    assert_eq!(counts.expect("the run ends"), expected);
}

/// Offset and length of what a tap hears.
#[derive(Default)]
struct Places(Mutex<Vec<(u64, u64)>>);

impl Tap for Places {
    fn event(&self, _: TaskId, event: Event<'_>) {
        self.0.lock().extend(match event {
            Event::Store { off, data, .. } | Event::NtStore { off, data } => vec![(off, data.len() as u64)],
            Event::Flush { off, len } => vec![(off, len)],
            Event::Mark(Mark::Commit { at, needs }) => {
                let needs = needs.iter().map(|run| (run.at, run.len));
                [(at, 8)].into_iter().chain(needs).collect()
            }
            _ => Vec::new(),
        });
    }
}

#[test]
fn a_part_has_the_bytes_taps_and_faults_of_the_whole_by_their_place_there() {
    let whole = Arc::new(memory(16384));
    let part = Region::part(&whole, 8192..16384).expect("two pages");
    let places = Arc::new(Places::default());
    whole.attach(Arc::clone(&places) as Arc<dyn Tap>);
    part.nt_store(64, &[7; 64]).expect("in range");
    part.store_u64(0, 9).expect("in range");
    part.flush(0, 8);
    part.mark(Mark::Commit { at: 8, needs: &[ByteRun::new(64, 64)] });
    assert_eq!(*places.0.lock(), [(8256, 64), (8192, 8), (8192, 8), (8200, 8), (8256, 64)]);
    assert_eq!((whole.load_u64(8192), part.load_u64(0)), (Ok(9), Ok(9)));
    assert!(part.store_u64(8192, 1).is_err(), "outside");
    whole.inject(Fault::FailNth { target: Target::Store, nth: 2 });
    assert!(whole.store_u64(0, 1).is_ok() && part.store_u64(0, 1).is_err(), "they count together");
    assert_eq!(whole.clear_faults(), 1);
    assert!(Region::part(&whole, 100..8192).is_err() && Region::part(&whole, 8192..20480).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_mix_of_stores_leaves_what_a_plain_array_would_hold(
        stores in prop::collection::vec((0..3u8, 0..9000u64, 0..6000usize, any::<u8>()), 1..40),
        watched in any::<bool>(),
    ) {
        let region = memory(8192);
        if watched {
            region.attach(Arc::new(Counting::new()));
        }
        let mut model = vec![0; 8192];
        for (how, off, len, byte) in stores {
            let data = vec![byte; len];
            let stored = match how {
                0 => region.store(off, &data),
                1 => region.nt_store(off, &data),
                _ => region.nt_zero(off, len as u64),
            };
            let fits = off as usize + len <= model.len();
            prop_assert_eq!(stored.is_ok(), fits);
            if fits {
                model[off as usize..off as usize + len].fill(if how == 2 { 0 } else { byte });
            }
        }
        let mut found = vec![0; 8192];
        region.load(0, &mut found).expect("in range");
        prop_assert_eq!(found, model);
    }
}
