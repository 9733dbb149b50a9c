//! A pool keeps what it promises to a program: contents, names, attributes, errors, across closing and without it.

use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use pool::{
    Bytes, File, FileKind, MappingKind, OpenOptions, Pool, PoolError, PoolOptions, RenameFlags, SeekTo,
    Source, Timestamp,
};

const DESIGNS: [&str; 2] = ["pmfs", "hinfs"];
const SIZE: Bytes = Bytes::mib(32);

/// Runs `test` on a pool of each design in a file of its own.
fn on_each(test: impl Fn(&str, PathBuf)) {
    for design in DESIGNS {
        let folder = tempfile::tempdir().unwrap();
        test(design, folder.path().join("pool.weir"));
    }
}

fn in_memory(design: &str) -> Pool {
    PoolOptions::new(design).size(SIZE).open_source(&Source::Memory).unwrap()
}

#[test]
fn what_was_written_is_there_after_closing_and_opening() {
    on_each(|design, path| {
        let pool = Pool::create(&path, design, SIZE).unwrap();
        pool.create_dir_all("a/b/c").unwrap();
        pool.create_dir_all("/a/b/c").unwrap();
        pool.write("a/b/c/file", vec![7; 100_000]).unwrap();
        pool.symlink("b/c/file", "a/link").unwrap();
        pool.hard_link("a/b/c/file", "other").unwrap();
        pool.close().unwrap();
        let pool = Pool::open(&path, design).unwrap();
        assert_eq!(pool.read("a/link").unwrap(), vec![7; 100_000]);
        assert_eq!(pool.metadata("other").unwrap().nlink(), 2);
        assert_eq!(pool.read_link("a/link").unwrap(), PathBuf::from("b/c/file"));
        let mut names: Vec<_> =
            pool.read_dir("/").unwrap().iter().map(|entry| entry.file_name().to_owned()).collect();
        names.sort();
        assert_eq!(names, ["a", "other"]);
        pool.remove_dir_all("a").unwrap();
        assert!(!pool.exists("a").unwrap() && pool.exists("other").unwrap());
    });
}

/// ext4's external journals and fstab find an image by it; it is at byte 104 of the superblock, which is at byte 1024.
#[test]
fn two_new_pools_differ_in_their_uuid() {
    let folder = tempfile::tempdir().unwrap();
    let uuid = |name: &str| {
        let path = folder.path().join(name);
        Pool::create(&path, "ext4", SIZE).unwrap().close().unwrap();
        std::fs::read(&path).unwrap()[1024 + 104..][..16].to_vec()
    };
    assert_ne!(uuid("one"), uuid("other"));
}

#[test]
fn a_file_is_read_and_written_at_places_and_at_its_cursor() {
    for design in DESIGNS {
        let pool = in_memory(design);
        let mut file = pool.create_file("f").unwrap();
        file.write_all(b"hello, ").unwrap();
        file.write_all(b"reader").unwrap();
        file.write_all_at(b"H", 0).unwrap();
        file.seek(SeekFrom::Start(7)).unwrap();
        let mut rest = String::new();
        file.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "reader");
        file.set_len(1 << 20).unwrap();
        file.write_all_at(b"end", (1 << 20) - 3).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        assert!(file.metadata().unwrap().allocated() < 64 << 10, "a hole takes no space");
        assert_eq!(file.seek_to(SeekTo::Data, 4096).unwrap(), Some((1 << 20) - 4096));
        assert_eq!(file.seek_to(SeekTo::Data, 1 << 20).unwrap(), None);
        let mut bytes = [0xEE; 5];
        assert_eq!(file.read_at(&mut bytes, (1 << 20) - 2).unwrap(), 2);
        let short = file.read_exact_at(&mut bytes, (1 << 20) - 2).unwrap_err();
        assert_eq!(short.kind(), ErrorKind::UnexpectedEof);
        let mut log = OpenOptions::new().append(true).open(&pool, "f").unwrap();
        log.write_all(b"!").unwrap();
        assert_eq!(pool.metadata("f").unwrap().len(), (1 << 20) + 1);
    }
}

#[test]
fn attributes_are_kept() {
    for design in DESIGNS {
        let pool = in_memory(design);
        pool.write("f", "x").unwrap();
        pool.set_mode("f", 0o4751).unwrap();
        pool.set_owner("f", 5, 6).unwrap();
        pool.set_mode("f", 0o640).unwrap();
        let time = Timestamp { secs: 1_234_567, nanos: 0 };
        pool.set_times("f", time, time).unwrap();
        let seen = pool.metadata("f").unwrap();
        assert_eq!((seen.mode(), seen.owner(), seen.kind()), (0o640, (5, 6), FileKind::Regular));
        assert_eq!((seen.accessed(), seen.modified()), (time, time));
        let before = pool.space().unwrap();
        pool.write("g", vec![1; 1 << 20]).unwrap();
        pool.sync().unwrap();
        assert!(pool.space().unwrap().free() <= before.free() - (1 << 20));
    }
}

#[test]
fn errors_have_the_kernel_s_numbers() {
    for design in DESIGNS {
        let pool = in_memory(design);
        pool.create_dir("d").unwrap();
        pool.write("d/f", "x").unwrap();
        let number = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(number(pool.open_file("none").map(drop)), Some(2));
        assert_eq!(number(pool.create_dir("d")), Some(17));
        assert_eq!(number(pool.remove_dir("d")), Some(39));
        assert_eq!(number(pool.remove_file("d")), Some(21));
        assert_eq!(number(pool.read("d/f/x").map(drop)), Some(20));
        assert_eq!(number(pool.rename("d", "d/below")), Some(22));
        assert_eq!(
            number(OpenOptions::new().write(true).create_new(true).open(&pool, "d/f").map(drop)),
            Some(17)
        );
        assert_eq!(number(pool.rename_with("d/f", "d", RenameFlags::NOREPLACE)), Some(17));
        let full = pool.write("big", vec![1; SIZE.0 as usize]).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::StorageFull);
    }
}

#[test]
fn a_pool_has_one_user_and_says_so() {
    on_each(|design, path| {
        let pool = Pool::create(&path, design, SIZE).unwrap();
        assert!(matches!(Pool::create(&path, design, SIZE), Err(PoolError::Exists(_))));
        assert!(matches!(Pool::open(&path, design), Err(PoolError::Media { .. })), "it is in use");
        let file = pool.create_file("f").unwrap();
        assert_eq!(pool.close().unwrap_err().kind(), ErrorKind::ResourceBusy);
        file.write_all_at(b"still usable", 0).unwrap();
        drop(file); // unmounts
        assert_eq!(Pool::open(&path, design).unwrap().read("f").unwrap(), b"still usable");
    });
}

#[test]
fn a_pool_whose_last_user_panics_is_closed() {
    on_each(|design, path| {
        let (used, named) = (path.clone(), design.to_owned());
        let user = std::thread::spawn(move || {
            let pool = Pool::create(used, &named, SIZE).unwrap();
            pool.write("f", b"kept").unwrap();
            panic!("as planned");
        });
        assert!(user.join().is_err());
        assert_eq!(Pool::open(&path, design).unwrap().read("f").unwrap(), b"kept", "{design}");
    });
}

#[test]
fn of_those_that_make_a_pool_at_a_time_one_does_and_keeps_it() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..40 {
        let path = folder.path().join(format!("{round}"));
        let start = std::sync::Barrier::new(8);
        let make = |number: u8| {
            start.wait();
            let pool = match Pool::create(&path, "redo", SIZE) {
                Ok(pool) => pool,
                Err(PoolError::Exists(_)) => return None,
                Err(error) => panic!("{error}"),
            };
            pool.write("mine", [number]).unwrap();
            pool.close().unwrap();
            Some(number)
        };
        let makers: Vec<_> = std::thread::scope(|scope| {
            let running: Vec<_> = (0..8).map(|number| scope.spawn(move || make(number))).collect();
            running.into_iter().filter_map(|running| running.join().unwrap()).collect()
        });
        assert_eq!(makers.len(), 1, "round {round}: {makers:?}");
        assert_eq!(Pool::open(&path, "redo").unwrap().read("mine").unwrap(), makers);
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_link_to_a_directory_is_removed_without_what_it_leads_to() {
    for design in DESIGNS {
        let pool = in_memory(design);
        pool.create_dir_all("kept/below").unwrap();
        pool.write("kept/file", "x").unwrap();
        pool.symlink("kept", "link").unwrap();
        pool.remove_dir_all("link").unwrap();
        assert!(pool.symlink_metadata("link").is_err() && pool.exists("kept/below").unwrap());
        assert_eq!(pool.read_to_string("kept/file").unwrap(), "x");
        assert_eq!(pool.remove_dir_all("kept/file").unwrap_err().kind(), ErrorKind::NotADirectory);
        assert!(pool.exists("kept/file").unwrap());
    }
}

#[test]
fn what_is_wrong_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let said = |result: Result<Pool, PoolError>| result.unwrap_err().to_string();
    let path = folder.path().join("p");
    assert!(said(Pool::open(&path, "pmsf")).contains("take one of"));
    assert!(said(Pool::open(&path, "pmfs")).contains("only with a size"));
    assert!(said(Pool::create(&path, "pmfs", Bytes::kib(64))).contains("needs at least"));
    assert!(!path.exists(), "a pool that could not be made is not left there");
    assert!(said(PoolOptions::new("hinfs").option("bufer", "1M").size(SIZE).open(&path)).contains("bufer"));
    std::fs::write(&path, vec![0xAA; 4 << 20]).unwrap();
    assert!(said(Pool::open(&path, "pmfs")).contains("not a pmfs image"));
    assert_eq!(std::fs::read(&path).unwrap(), vec![0xAA; 4 << 20], "and what is there stays");
}

#[test]
fn a_pool_that_is_read_only_refuses_changes() {
    on_each(|design, path| {
        let pool = Pool::create(&path, design, SIZE).unwrap();
        pool.write("f", "x").unwrap();
        pool.close().unwrap();
        let pool = PoolOptions::new(design).read_only(true).open(&path).unwrap();
        assert_eq!(pool.read("f").unwrap(), b"x");
        assert_eq!(pool.write("g", "x").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    });
}

#[test]
fn threads_share_a_pool() {
    for design in DESIGNS {
        let pool = in_memory(design);
        let file = pool.create_file("shared").unwrap();
        std::thread::scope(|scope| {
            for number in 0..4_u8 {
                let (pool, file): (&Pool, &File) = (&pool, &file);
                scope.spawn(move || {
                    pool.write(format!("own{number}"), vec![number; 10_000]).unwrap();
                    for block in 0..16 {
                        file.write_all_at(&[number + 1; 4096], (block * 4 + u64::from(number)) * 4096)
                            .unwrap();
                        file.sync_data().unwrap();
                    }
                });
            }
        });
        let bytes = pool.read("shared").unwrap();
        assert_eq!(bytes.len(), 64 * 4096);
        assert!(bytes.chunks(4096).enumerate().all(|(at, block)| *block == [at as u8 % 4 + 1; 4096]));
        for number in 0..4_u8 {
            assert_eq!(pool.read(format!("own{number}")).unwrap(), vec![number; 10_000]);
        }
    }
}

/// A copy of the file of a pool, as a power loss leaves it, is opened.
#[test]
fn a_sync_of_an_atomic_mapping_makes_all_of_its_pages_durable_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("pool.weir"), folder.path().join("copy.weir"));
    let pool = Pool::create(&path, "crest", SIZE).unwrap();
    pool.write("file", vec![1; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&pool, "file").unwrap();
    let mapping = file.map(0, 8192, true, MappingKind::Atomic).unwrap();
    let other = file.map(0, 8192, true, MappingKind::Direct).unwrap_err();
    assert_eq!(other.raw_os_error(), Some(vfs::Errno::EBUSY.number()));
    drop(file);
    let after_a_power_loss = || {
        std::fs::copy(&path, &copy).unwrap();
        let pool = Pool::open(&copy, "crest").unwrap();
        let bytes = pool.read("file").unwrap();
        pool.close().unwrap();
        bytes
    };
    mapping.store(&[2; 100], 4050).unwrap();
    assert_eq!(after_a_power_loss(), [1; 8192]);
    assert_eq!(pool.read("file").unwrap()[4049..4051], [1, 2], "reads see it");
    mapping.sync(0, 8192).unwrap();
    let bytes = after_a_power_loss();
    assert_eq!((&bytes[4050..4150], bytes[4150]), (&[2; 100][..], 1));
    let mut loaded = [0; 3];
    mapping.load(&mut loaded, 4148).unwrap();
    assert_eq!(loaded, [2, 2, 1]);
    drop(mapping);
    pool.close().unwrap();
}

#[test]
fn a_design_without_atomic_mappings_says_so() {
    let pool = in_memory("pmfs");
    pool.write("file", vec![1; 8192]).unwrap();
    let file = OpenOptions::new().read(true).write(true).open(&pool, "file").unwrap();
    let refused = file.map(0, 8192, true, MappingKind::Atomic).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(vfs::Errno::EOPNOTSUPP.number()));
    file.map(0, 8192, true, MappingKind::AsMounted).unwrap().store(b"x", 5).unwrap();
    assert_eq!(pool.read("file").unwrap()[5], b'x');
}
