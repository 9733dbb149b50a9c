//! Does every design do the plain things, and leave a clean image?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use design::{Design, Options};
use fs::FILE_SYSTEMS;
use media::Storage;
use media::event::{Event, Tap, TaskId};
use media::nvmm::Region;
use sim::ledger::Snapshot;
use sim::{Bytes, Clock, Machine, Seed, Setup};
use vfs::{
    Errno, FallocateMode, FileSystem, IoFlags, LeftOut, NewInode, RenameFlags, SetAttr, SetTime, Timestamp,
    XattrMode,
};

use crate::shared::harness::{subjects, virtually};

const NEW: NewInode = NewInode { perm: 0o644, owner: vfs::Owner { uid: 0, gid: 0 } };

fn region(size: Bytes) -> Arc<Region> {
    Arc::new(Region::anonymous(size, Box::new(media::nvmm::null::Null)).expect("memory"))
}

fn options(design: &dyn Design) -> Options {
    Options::resolve(design.name(), design.options(), &BTreeMap::new()).expect("defaults are valid")
}

/// Runs `body` on a fresh image of every design under both clocks, then checks the image.
fn on_every_design(size: Bytes, body: fn(&dyn FileSystem)) {
    on_designs_with(LeftOut::empty(), size, body);
}

/// The same on those whose formats have room for these.
fn on_designs_with(needs: LeftOut, size: Bytes, body: fn(&dyn FileSystem)) {
    let has = |design: &&dyn Design| !design.promises(&options(*design)).left_out.intersects(needs);
    for design in FILE_SYSTEMS.iter().copied().filter(has) {
        for clock in [Clock::Virtual, Clock::Real] {
            let mut setup = Setup::virtual_clock(Machine::unit(), Seed(1));
            setup.clock = clock;
            let report = sim::run(&setup, move || {
                let region = region(size);
                let options = options(design);
                design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
                let fs = design.mount(&Storage::from(&region), &options).expect("mount");
                body(&*fs);
                fs.unmount().expect("unmount");
                drop(fs);
                let first = design.format().fsck(&Storage::from(&region));
                let fs = design.mount(&Storage::from(&region), &options).expect("mount again");
                fs.unmount().expect("unmount again");
                (first, design.format().fsck(&Storage::from(&region)))
            });
            let (first, second) = report.unwrap_or_else(|error| panic!("{} {clock}: {error}", design.name()));
            assert_eq!(first.violations, [], "{} {clock}", design.name());
            assert_eq!(second.violations, [], "{} {clock}", design.name());
        }
    }
}

/// PMFS: one fence for the log, one before the commit and one after it; an open file needs the truncate list besides. A format
/// without room for files that have no name keeps no such list; the own tests of these designs count their fences.
#[test]
fn removing_a_file_that_is_not_open_takes_three_fences_at_most() {
    on_designs_with(LeftOut::NAMELESS, Bytes::mib(32), |fs| {
        let mut free = Vec::new();
        for name in [b"warm", b"file"] {
            let file = fs.create(fs.root(), name, &NEW).expect("create").ino;
            fs.write(file, 0, &[1; 5000], IoFlags::empty()).expect("write");
            fs.fsync(file, false).expect("fsync");
            let before = Snapshot::of_task();
            fs.unlink(fs.root(), name).expect("unlink");
            assert!(Snapshot::of_task().since(&before).count_all(&media::charges::FENCES) <= 3);
            assert_eq!(fs.getattr(file), Err(vfs::Errno::ENOENT));
            free.push(fs.statfs().expect("statfs"));
        }
        assert_eq!(free[0], free[1], "nothing is lost");
    });
}

#[test]
fn what_is_written_is_read() {
    on_every_design(Bytes::mib(32), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.open(file, vfs::OpenFlags::READ | vfs::OpenFlags::WRITE).expect("open");
        let data: Vec<u8> = (0..300_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (offset, len) in
            [(0usize, 100usize), (4000, 9000), (100_000, 200_000), (50, 1), (8192, 4096), (299_999, 1)]
        {
            let written =
                fs.write(file, offset as u64, &data[offset..offset + len], IoFlags::empty()).expect("write");
            assert_eq!(written.bytes, len);
            let mut back = vec![0; len];
            assert_eq!(fs.read(file, offset as u64, &mut back, IoFlags::empty()), Ok(len));
            assert_eq!(back, data[offset..offset + len], "at {offset}");
        }
        let mut hole = [1; 100];
        assert_eq!(fs.read(file, 50_000, &mut hole, IoFlags::empty()), Ok(100));
        assert_eq!(hole, [0; 100]);
        fs.fsync(file, false).expect("fsync");
        fs.setattr(file, &SetAttr { size: Some(4100), ..SetAttr::default() }).expect("truncate");
        fs.setattr(file, &SetAttr { size: Some(9000), ..SetAttr::default() }).expect("extend");
        let mut tail = [1; 4900];
        assert_eq!(fs.read(file, 4100, &mut tail, IoFlags::empty()), Ok(4900));
        assert_eq!(tail, [0; 4900], "bytes beyond a cut come back as zeros");
        fs.release(file);
    });
}

#[test]
fn a_file_made_without_a_name_gets_one_while_it_is_open_but_not_after_its_last_name_went() {
    on_designs_with(LeftOut::NAMELESS, Bytes::mib(32), |fs| {
        let files = [b"one", b"two", b"not"].map(|name| (name, fs.tmpfile(&NEW).expect("tmpfile").ino));
        for (name, file) in files {
            fs.write(file, 0, &name.repeat(3000), IoFlags::empty()).expect("write");
        }
        for (name, file) in [files[1], files[0]] {
            assert_eq!(fs.link(file, fs.root(), name).map(|attr| attr.nlink), Ok(1));
            assert_eq!(fs.lookup(fs.root(), name).map(|attr| attr.ino), Ok(file));
        }
        fs.unlink(fs.root(), b"one").expect("unlink");
        assert_eq!(fs.link(files[0].1, fs.root(), b"again"), Err(Errno::ENOENT));
        for (_, file) in files {
            fs.release(file);
        }
        assert_eq!(fs.link(files[2].1, fs.root(), b"late"), Err(Errno::ENOENT));
        let mut back = vec![0; 9000];
        assert_eq!(fs.read(files[1].1, 0, &mut back, IoFlags::empty()), Ok(9000));
        assert_eq!(back, b"two".repeat(3000));
        assert_eq!(fs.getattr(files[0].1), Err(Errno::ENOENT), "no name, not open");
        assert_eq!(fs.getattr(files[2].1), Err(Errno::ENOENT), "never had a name, not open");
    });
}

/// Leaves every free block full of `byte`.
fn litter(fs: &dyn FileSystem, byte: u8) {
    let file = fs.create(fs.root(), b"litter", &NEW).expect("create").ino;
    let mut offset = 0;
    while let Ok(written) = fs.write(file, offset, &[byte; 8 << 10], IoFlags::SYNC) {
        offset += written.bytes as u64;
    }
    fs.unlink(fs.root(), b"litter").expect("unlink");
}

#[test]
fn a_file_never_shows_what_its_blocks_held_before() {
    on_every_design(Bytes::mib(8), |fs| {
        let grow =
            |file, size| fs.setattr(file, &SetAttr { size: Some(size), ..SetAttr::default() }).map(|_| ());
        let write = |file, offset, len, flags| fs.write(file, offset, &vec![7; len], flags).map(|_| ());
        // A sparse size, a write (offset, length), then growth to a size by truncate, by a write, by fallocate where it reserves.
        let writes = [
            (0, 0, 100),
            (9000, 0, 100),
            (0, 5000, 100),
            (9000, 5000, 100),
            (20_000, 4000, 8000),
            (0, 0, 5000),
        ];
        for flags in [IoFlags::empty(), IoFlags::SYNC] {
            for (sparse, offset, len) in writes {
                for way in 0..3 {
                    litter(fs, 0xee);
                    let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
                    fs.open(file, vfs::OpenFlags::READ | vfs::OpenFlags::WRITE).expect("open");
                    grow(file, sparse).expect("sparse");
                    write(file, offset, len, flags).expect("write");
                    let grown = match way {
                        0 => grow(file, 30_000),
                        1 => write(file, 29_999, 1, flags),
                        _ => fs.fallocate(file, FallocateMode::empty(), 0, 30_000),
                    };
                    if grown == Err(Errno::EOPNOTSUPP) && way == 2 {
                        grow(file, 30_000).expect("growth");
                    } else {
                        grown.expect("growth");
                    }
                    let mut all = vec![1; 30_000];
                    assert_eq!(fs.read(file, 0, &mut all, IoFlags::empty()), Ok(30_000));
                    let mut expected = vec![0; 30_000];
                    expected[offset as usize..][..len].fill(7);
                    expected[29_999] = if way == 1 { 7 } else { 0 };
                    assert!(all == expected, "{sparse} {offset} {len} {way} {flags:?}");
                    fs.release(file);
                    fs.unlink(fs.root(), b"file").expect("unlink");
                }
            }
        }
    });
}

#[test]
fn names_come_and_go() {
    on_every_design(Bytes::mib(16), |fs| {
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        for number in 0..1000 {
            let name = format!("{number:08}");
            fs.create(dir, name.as_bytes(), &NEW).expect("create");
        }
        for number in (0..1000).step_by(3) {
            fs.unlink(dir, format!("{number:08}").as_bytes()).expect("unlink");
        }
        for number in 0..1000 {
            let found = fs.lookup(dir, format!("{number:08}").as_bytes());
            assert_eq!(found.is_ok(), number % 3 != 0, "{number}");
        }
        let mut count = 0;
        fs.readdir(dir, 0, &mut |_| {
            count += 1;
            true
        })
        .expect("readdir");
        assert_eq!(count, 666 + 2);
        assert_eq!(fs.rmdir(fs.root(), b"dir"), Err(vfs::Errno::ENOTEMPTY));
        let other = fs.mkdir(fs.root(), b"other", &NEW).expect("mkdir").ino;
        let none = RenameFlags::empty();
        fs.rename((dir, b"00000001"), (other, b"moved"), none.into()).expect("rename across");
        fs.rename((dir, b"00000002"), (dir, b"00000004"), none.into()).expect("rename over");
        fs.rename((fs.root(), b"other"), (dir, b"below"), none.into()).expect("move a directory");
        assert_eq!(fs.rename((fs.root(), b"dir"), (other, b"loop"), none.into()), Err(vfs::Errno::EINVAL));
        fs.link(fs.lookup(dir, b"00000007").expect("there").ino, fs.root(), b"link").expect("link");
        fs.symlink(fs.root(), b"sym", b"dir/00000008", &NEW).expect("symlink");
        assert_eq!(
            fs.readlink(fs.lookup(fs.root(), b"sym").expect("there").ino),
            Ok(b"dir/00000008".to_vec())
        );
    });
}

#[test]
fn two_names_are_exchanged() {
    on_designs_with(LeftOut::EXCHANGES, Bytes::mib(16), |fs| {
        let dir = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        let below = fs.mkdir(dir, b"below", &NEW).expect("mkdir").ino;
        let file = fs.create(dir, b"file", &NEW).expect("create").ino;
        fs.rename((dir, b"below"), (dir, b"file"), RenameFlags::EXCHANGE.into()).expect("exchange");
        let found = [&b"below"[..], b"file"].map(|name| fs.lookup(dir, name).expect("there").ino);
        assert_eq!(found, [file, below]);
    });
}

/// What a format has no room for is refused, and changes nothing.
#[test]
fn calls_that_are_left_out_are_refused_with_their_errno() {
    for design in FILE_SYSTEMS.iter().copied() {
        let promises = design.promises(&options(design));
        let refused = virtually(1, move || {
            let region = region(Bytes::mib(16));
            design.format().mkfs(&Storage::from(&region), &options(design)).expect("mkfs");
            let fs = design.mount(&Storage::from(&region), &options(design)).expect("mount");
            let (root, none) = (fs.root(), Errno::EOPNOTSUPP);
            let file = fs.create(root, b"file", &NEW).expect("create").ino;
            fs.create(root, b"other", &NEW).expect("create");
            let exchange = RenameFlags::EXCHANGE.into();
            let answers = [
                (LeftOut::ATTRIBUTES, none, fs.setxattr(file, b"user.a", b"x", XattrMode::Set)),
                (LeftOut::EXCHANGES, Errno::EINVAL, fs.rename((root, b"file"), (root, b"other"), exchange)),
                (LeftOut::RANGES, none, fs.fallocate(file, FallocateMode::ZERO_RANGE, 0, 4096)),
                (LeftOut::NODES, none, fs.mknod(root, b"fifo", vfs::FileKind::Fifo, 0, &NEW).map(drop)),
                (LeftOut::NAMELESS, none, fs.tmpfile(&NEW).map(|made| fs.release(made.ino))),
            ];
            fs.setattr(file, &SetAttr { size: Some(1 << 20), ..SetAttr::default() }).expect("growth");
            let has_all = fs.getattr(file).expect("attr").blocks * 512 >= 1 << 20;
            assert_eq!(has_all, promises.left_out.contains(LeftOut::HOLES), "{}: holes", design.name());
            let long = vec![b'n'; promises.name_max as usize];
            assert!(fs.create(root, &long, &NEW).is_ok(), "{}", design.name());
            if promises.name_max < 255 {
                let longer = [&long[..], b"n"].concat();
                assert_eq!(fs.create(root, &longer, &NEW).err(), Some(Errno::ENAMETOOLONG));
            }
            fs.unmount().expect("unmount");
            answers
        });
        for (call, errno, answer) in refused {
            let expected = if promises.left_out.contains(call) { Err(errno) } else { Ok(()) };
            assert_eq!(answer, expected, "{}: {call:?}", design.name());
        }
    }
}

#[test]
fn space_comes_back() {
    on_every_design(Bytes::mib(8), |fs| {
        fs.create(fs.root(), b"warm", &NEW).expect("create");
        fs.unlink(fs.root(), b"warm").expect("unlink");
        let before = fs.statfs().expect("statfs").blocks_free;
        let file = fs.create(fs.root(), b"big", &NEW).expect("create").ino;
        let data = vec![7; 1 << 20];
        let mut offset = 0;
        let error = loop {
            match fs.write(file, offset, &data, IoFlags::empty()) {
                Ok(written) => offset += written.bytes as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error, vfs::Errno::ENOSPC);
        assert_eq!(fs.getattr(file).expect("attr").size, offset);
        fs.unlink(fs.root(), b"big").expect("unlink");
        assert_eq!(fs.statfs().expect("statfs").blocks_free, before);
    });
}

/// Loads of a region.
#[derive(Default)]
struct Loads(AtomicU64);

impl Tap for Loads {
    fn event(&self, _: TaskId, event: Event<'_>) {
        self.0.fetch_add(u64::from(matches!(event, Event::Load { .. })), Ordering::Relaxed);
    }

    fn hears_loads(&self) -> bool {
        true
    }
}

/// The least that a search of a block tree loads is a node at each level, 512 words.
#[test]
fn cutting_the_last_block_off_a_long_file_loads_no_more_than_off_a_short_one() {
    for design in FILE_SYSTEMS.iter().copied() {
        let region = region(Bytes::mib(96));
        let options = options(design);
        design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
        let loads = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), move || {
            let fs = design.mount(&Storage::from(&region), &options).expect("mount");
            let cut = |blocks: u64| {
                let file = fs.create(fs.root(), blocks.to_string().as_bytes(), &NEW).expect("create").ino;
                for block in 0..blocks {
                    fs.write(file, block * 4096, &[1; 4096], IoFlags::empty()).expect("write");
                }
                let loads = Arc::new(Loads::default());
                region.attach(Arc::<Loads>::clone(&loads));
                let size = SetAttr { size: Some((blocks - 1) * 4096), ..SetAttr::default() };
                fs.setattr(file, &size).expect("truncate");
                region.detach(&loads);
                loads.0.load(Ordering::Relaxed)
            };
            let loads = (cut(600), cut(6000));
            fs.unmount().expect("unmount");
            loads
        });
        let (short, long) = loads.expect("runs");
        assert!(long <= short + 1024, "{}: {long} loads, {short} for the short file", design.name());
    }
}

#[test]
fn an_open_file_outlives_its_name() {
    on_every_design(Bytes::mib(8), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.open(file, vfs::OpenFlags::WRITE).expect("open");
        fs.unlink(fs.root(), b"file").expect("unlink");
        fs.write(file, 0, b"still here", IoFlags::empty()).expect("write");
        let mut back = [0; 10];
        assert_eq!(fs.read(file, 0, &mut back, IoFlags::empty()), Ok(10));
        assert_eq!(&back, b"still here");
        fs.release(file);
        assert_eq!(fs.getattr(file).map(|_| ()), Err(vfs::Errno::ENOENT));
    });
}

#[test]
fn ranges_are_reserved_zeroed_and_punched() {
    on_every_design(Bytes::mib(16), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        fs.write(file, 0, &vec![9; 40_000], IoFlags::empty()).expect("write");
        let punch = FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE;
        if fs.fallocate(file, punch, 5_000, 20_000) == Err(vfs::Errno::EOPNOTSUPP) {
            return;
        }
        let mut back = vec![1; 40_000];
        fs.read(file, 0, &mut back, IoFlags::empty()).expect("read");
        assert!(back[..5_000].iter().all(|b| *b == 9) && back[25_000..].iter().all(|b| *b == 9));
        assert!(back[5_000..25_000].iter().all(|b| *b == 0));
        assert_eq!(fs.seek(file, 0, vfs::SeekTo::Hole), Ok(8192));
        match fs.fallocate(file, FallocateMode::empty(), 100_000, 50_000) {
            Err(Errno::EOPNOTSUPP) => assert_eq!(fs.getattr(file).expect("attr").size, 40_000),
            reserved => {
                reserved.expect("reserve");
                assert_eq!(fs.getattr(file).expect("attr").size, 150_000);
            }
        }
        fs.fallocate(file, FallocateMode::ZERO_RANGE, 0, 100).expect("zero");
        fs.read(file, 0, &mut back[..101], IoFlags::empty()).expect("read");
        assert!(back[..100].iter().all(|b| *b == 0) && back[100] == 9);
    });
}

/// Takes all space, by large writes and then by small ones.
fn fill(fs: &dyn FileSystem) {
    for (name, piece) in [(b"a", 256 << 10), (b"b", 4096), (b"c", 100)] {
        let file = fs.create(fs.root(), name, &NEW).expect("create").ino;
        let data = vec![1; piece];
        while fs.write(file, 0, &data, IoFlags::APPEND | IoFlags::SYNC).is_ok() {}
    }
}

/// The canary is in it: on some design that promises nothing, an overwrite in the full file system fails.
#[test]
fn a_write_to_a_reserved_range_never_fails_for_space_or_nothing_is_reserved() {
    const RANGE: u64 = 1 << 20;
    let mut refused = 0;
    for subject in subjects() {
        let size = Bytes(subject.size.0.max(Bytes::mib(16).0));
        let (design, reserves) = (subject.design, subject.promises.reservations);
        let name = format!("{} {}", design.name(), design.arguments());
        let told = name.clone();
        let done = virtually(1, move || {
            let region = region(size);
            design.mkfs(&region).expect("mkfs");
            let fs = design.mount(&region).expect("mount");
            let file = fs.create(fs.root(), b"reserved", &NEW).expect("create").ino;
            for (mode, at) in [(FallocateMode::empty(), 0), (FallocateMode::KEEP_SIZE, RANGE)] {
                let expected = if reserves { Ok(()) } else { Err(Errno::EOPNOTSUPP) };
                assert_eq!(fs.fallocate(file, mode, at, RANGE), expected, "{name}: {mode:?}");
            }
            if !reserves {
                fs.write(file, 0, &vec![1; 2 * RANGE as usize], IoFlags::SYNC).expect("the first write");
            }
            fill(&*fs);
            let overwrite = |round, at| fs.write(file, at, &[round; 4096], IoFlags::SYNC).map(|_| ());
            let mut blocks = (1..4).flat_map(|round| (0..2 * RANGE).step_by(4096).map(move |at| (round, at)));
            let done = blocks.try_for_each(|(round, at)| overwrite(round, at));
            fs.unmount().expect("unmount");
            done
        });
        refused += usize::from(done.is_err());
        let is_right = done.is_ok() || !reserves && done == Err(Errno::ENOSPC);
        assert!(is_right, "{told}: {done:?}");
    }
    assert!(refused > 0, "no design shows what a reservation is for");
}

/// What is written to a buffer, to a new block or to an old one, by hand or by the clock: every time has its nanoseconds.
#[test]
fn times_have_nanoseconds() {
    on_every_design(Bytes::mib(16), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let mtime = || fs.getattr(file).expect("attr").mtime;
        let writes: [(u64, usize); 4] = [(0, 100), (0, 10), (50, 100), (10_000, 5000)];
        for (offset, len) in writes {
            let before = mtime();
            // ext4 takes times of ticks, 250 a second; the host's clock for times of files moves in steps, too.
            sim::sleep(sim::Nanos(5_000_321));
            while Timestamp::now() <= before {
                sim::sleep(sim::Nanos(1_000_321));
            }
            fs.write(file, offset, &vec![1; len], IoFlags::empty()).expect("write");
            assert!(mtime() > before, "{:?} after {before:?}", mtime());
            fs.fsync(file, false).expect("fsync");
        }
        for secs in [0, (1 << 31) + 1, (1 << 32) + 1, -1] {
            let [atime, mtime] = [111_222_333, 999_999_999].map(|nanos| Timestamp { secs, nanos });
            let set = SetAttr {
                atime: Some(SetTime::To(atime)),
                mtime: Some(SetTime::To(mtime)),
                ..SetAttr::default()
            };
            let attr = fs.setattr(file, &set).expect("utimens");
            assert_eq!((attr.atime, attr.mtime), (atime, mtime));
            assert_eq!(fs.getattr(file), Ok(attr));
        }
    });
}

#[test]
fn attributes_are_set_listed_and_removed_and_give_their_space_back() {
    on_designs_with(LeftOut::ATTRIBUTES, Bytes::mib(16), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let (free, blocks) =
            (fs.statfs().expect("statfs").blocks_free, |ino| fs.getattr(ino).expect("attr").blocks);
        assert_eq!(fs.listxattr(file), Ok(vec![]));
        assert_eq!(fs.getxattr(file, b"user.a"), Err(Errno::ENODATA));
        fs.setxattr(file, b"user.a", b"one", XattrMode::Create).expect("set");
        fs.setxattr(file, b"user.b", b"", XattrMode::Set).expect("set");
        assert_eq!(fs.setxattr(file, b"user.a", b"x", XattrMode::Create), Err(Errno::EEXIST));
        assert_eq!(fs.setxattr(file, b"user.c", b"x", XattrMode::Replace), Err(Errno::ENODATA));
        // Where all attributes share one block, this one has no room.
        match fs.setxattr(file, b"user.c", &[1; 4096], XattrMode::Set) {
            Ok(()) => fs.removexattr(file, b"user.c").expect("remove"),
            Err(errno) => assert_eq!(errno, Errno::ENOSPC),
        }
        fs.setxattr(file, b"user.a", b"two", XattrMode::Replace).expect("replace");
        assert_eq!(fs.getxattr(file, b"user.a"), Ok(b"two".to_vec()));
        assert_eq!(fs.getxattr(file, b"user.b"), Ok(vec![]));
        let mut names: Vec<_> =
            fs.listxattr(file).expect("list").split_inclusive(|b| *b == 0).map(<[u8]>::to_vec).collect();
        names.sort();
        assert_eq!(names, [b"user.a\0", b"user.b\0"]);
        let taken = free - fs.statfs().expect("statfs").blocks_free;
        assert!(taken <= 1 && blocks(file) <= 8, "they share one block at most: {taken}, {}", blocks(file));
        fs.removexattr(file, b"user.a").expect("remove");
        assert_eq!(fs.removexattr(file, b"user.a"), Err(Errno::ENODATA));
        fs.removexattr(file, b"user.b").expect("remove");
        assert_eq!((blocks(file), fs.statfs().expect("statfs").blocks_free), (0, free));
        let other = fs.mkdir(fs.root(), b"dir", &NEW).expect("mkdir").ino;
        for ino in [file, other] {
            fs.setxattr(ino, b"user.a", b"left for the removal", XattrMode::Set).expect("set");
        }
        fs.write(file, 0, &[1; 5000], IoFlags::empty()).expect("write");
        fs.setattr(file, &SetAttr { size: Some(10), ..SetAttr::default() }).expect("truncate");
        assert!((8..=16).contains(&blocks(file)));
        fs.rmdir(fs.root(), b"dir").expect("rmdir");
        fs.unlink(fs.root(), b"file").expect("unlink");
        assert_eq!(fs.statfs().expect("statfs").blocks_free, free);
    });
}

/// Linux's ext4 has no room for more than the inode and one block without the feature `ea_inode`.
#[test]
fn a_value_has_64_kib_and_the_names_of_an_inode_too_but_in_ext4() {
    on_designs_with(LeftOut::ATTRIBUTES, Bytes::mib(32), |fs| {
        let file = fs.create(fs.root(), b"file", &NEW).expect("create").ino;
        let free = fs.statfs().expect("statfs").blocks_free;
        let blocks = || fs.getattr(file).expect("attr").blocks;
        let value = |tag: u8| (0..=u16::MAX).map(|byte| byte as u8 ^ tag).collect::<Vec<_>>();
        let set = |name: &[u8], value: &[u8]| fs.setxattr(file, name, value, XattrMode::Set);
        if let Err(errno) = set(b"user.first", &value(1)) {
            assert_eq!((errno, fs.statfs().expect("statfs").blocks_free), (Errno::ENOSPC, free));
            return;
        }
        let one = blocks();
        for (name, tag) in [(&b"user.second"[..], 2), (b"user.first", 3), (b"user.third", 4)] {
            set(name, &value(tag)).expect("set");
        }
        fs.write(file, 0, &[1; 5000], IoFlags::empty()).expect("write");
        fs.setattr(file, &SetAttr { size: Some(10), ..SetAttr::default() }).expect("truncate");
        assert!(one == 0 || blocks() >= 3 * 128, "{} blocks", blocks());
        for (name, tag) in [(&b"user.first"[..], 3), (b"user.second", 2), (b"user.third", 4)] {
            assert!(fs.getxattr(file, name) == Ok(value(tag)), "{}", name.escape_ascii());
        }
        for name in [&b"user.first"[..], b"user.third"] {
            fs.removexattr(file, name).expect("remove");
        }
        assert!(fs.getxattr(file, b"user.second") == Ok(value(2)));
        fs.removexattr(file, b"user.second").expect("remove");
        assert!(blocks() <= 8, "only the file's own block is left: {}", blocks());
        let name = |number: usize| format!("user.{number:0>250}").into_bytes();
        for number in 0..256 {
            set(&name(number), format!("{number:0>300}").as_bytes()).expect("set");
        }
        assert_eq!(fs.listxattr(file).map(|names| names.len()), Ok(1 << 16));
        for number in 0..256 {
            assert_eq!(fs.getxattr(file, &name(number)), Ok(format!("{number:0>300}").into_bytes()));
        }
        fs.unlink(fs.root(), b"file").expect("unlink");
        assert!(fs.statfs().expect("statfs").blocks_free >= free, "nothing is lost");
    });
}

/// As a plan sizes regions: half as much again for what is removed later, and room for tables.
#[test]
fn the_storage_that_a_design_asks_for_holds_the_files_and_redo_counts_them_in_dram() {
    const FILE: u64 = 600 << 20;
    for design in FILE_SYSTEMS.iter().copied() {
        let options = options(design);
        let asked = design
            .format()
            .size_for(Bytes(FILE + FILE / 8), &options)
            .max(design.format().min_size(&options));
        if design.name() == "redo" {
            assert!(design.dram(&options, asked) >= Bytes(FILE), "its data is in DRAM");
        }
        let free = sim::run(&Setup::virtual_clock(Machine::unit(), Seed(1)), move || {
            let region = region(asked);
            design.format().mkfs(&Storage::from(&region), &options).expect("mkfs");
            let fs = design.mount(&Storage::from(&region), &options).expect("mount");
            let free = fs.statfs().expect("statfs");
            fs.unmount().expect("unmount");
            free.blocks_free * u64::from(free.frsize)
        });
        let free = free.unwrap_or_else(|error| panic!("{}: {error}", design.name()));
        assert!(free >= FILE, "{}: {free} bytes of {asked} are free", design.name());
    }
}
