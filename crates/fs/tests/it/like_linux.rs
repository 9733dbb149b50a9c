//! What calls leave beside data and names: times and space, as in Linux.

use std::sync::Arc;

use check::NEW;
use media::Storage;
use sim::Bytes;
use vfs::{Errno, FallocateMode, FileSystem, Ino, IoFlags, RenameFlags, Renaming, SetAttr};

use crate::shared::harness::{checking, names, options, region, virtually};

/// Does `work` on each design that has an image, mounted, in a run; `work` gets its name.
fn on_each(work: impl Fn(&'static str, &dyn FileSystem) + Clone + Send + 'static) {
    for name in names() {
        let work = work.clone();
        virtually(1, move || {
            let design = fs::by_name(name).expect("a design");
            let given = options(design, checking(name).small);
            let storage = Storage::from(&region(Bytes::mib(32)));
            design.format().mkfs(&storage, &given).expect("mkfs");
            let fs: Arc<dyn FileSystem> = design.mount(&storage, &given).expect("mount");
            work(name, &*fs);
            fs.unmount().expect("unmount");
            assert_eq!(design.format().fsck(&storage).violations, [], "{name}");
        });
    }
}

fn file(fs: &dyn FileSystem, name: &[u8], bytes: usize) -> Ino {
    let ino = fs.create(fs.root(), name, &NEW).expect("create").ino;
    fs.write(ino, 0, &vec![7; bytes], IoFlags::empty()).expect("write");
    ino
}

#[test]
fn both_files_of_an_exchange_have_changed() {
    on_each(|name, fs| {
        let files = [file(fs, b"a", 10), file(fs, b"b", 10)];
        let before = files.map(|ino| fs.getattr(ino).expect("getattr").ctime);
        sim::sleep(sim::Nanos::from_secs(2));
        let how = Renaming { flags: RenameFlags::EXCHANGE, whiteout: None };
        match fs.rename((fs.root(), b"a"), (fs.root(), b"b"), how) {
            Err(Errno::EINVAL) => return,
            done => done.expect("an exchange"),
        }
        for (ino, before) in files.into_iter().zip(before) {
            assert!(fs.getattr(ino).expect("getattr").ctime > before, "{name}: file {ino:?}");
        }
    });
}

#[test]
fn a_punch_within_a_block_changes_the_times() {
    on_each(|name, fs| {
        let ino = file(fs, b"a", 4096);
        let before = fs.getattr(ino).expect("getattr");
        sim::sleep(sim::Nanos::from_secs(2));
        match fs.fallocate(ino, FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 100, 50) {
            Err(Errno::EOPNOTSUPP) => return,
            done => done.expect("a punch"),
        }
        let after = fs.getattr(ino).expect("getattr");
        assert!(after.mtime > before.mtime && after.ctime > before.ctime, "{name}");
    });
}

#[test]
fn a_reservation_for_which_there_is_no_space_takes_none() {
    on_each(|name, fs| {
        let ino = file(fs, b"a", 4096);
        fs.sync().expect("sync");
        let before = fs.statfs().expect("statfs").blocks_free;
        match fs.fallocate(ino, FallocateMode::empty(), 0, 100 << 20) {
            Err(Errno::EOPNOTSUPP) => return,
            done => assert!(matches!(done, Err(Errno::ENOSPC | Errno::EFBIG)), "{name}: {done:?}"),
        }
        assert_eq!(fs.getattr(ino).expect("getattr").size, 4096, "{name}");
        if name.starts_with("ext") {
            // As the kernel does: what was reserved stays.
            return;
        }
        let after = fs.statfs().expect("statfs").blocks_free;
        assert!(after + 8 >= before, "{name}: {before} were free, {after} are");
    });
}

#[test]
fn a_truncation_gives_back_what_is_reserved_beyond_the_end() {
    on_each(|name, fs| {
        let ino = file(fs, b"a", 0);
        match fs.fallocate(ino, FallocateMode::KEEP_SIZE, 0, 4 << 20) {
            Err(Errno::EOPNOTSUPP) => return,
            done => done.expect("a reservation"),
        }
        assert!(fs.getattr(ino).expect("getattr").blocks > 0, "{name}");
        fs.setattr(ino, &SetAttr { size: Some(0), ..SetAttr::default() }).expect("a truncation");
        assert_eq!(fs.getattr(ino).expect("getattr").blocks, 0, "{name}");
    });
}

#[test]
fn a_truncation_that_clears_set_id_bits_and_sets_times_does_all_three() {
    on_each(|name, fs| {
        let ino = file(fs, b"a", 4096);
        fs.setattr(ino, &SetAttr { perm: Some(0o4755), ..SetAttr::default() }).expect("chmod");
        let mtime = fs.getattr(ino).expect("getattr").mtime;
        sim::sleep(sim::Nanos::from_secs(2));
        let set = SetAttr {
            size: Some(100),
            perm: Some(0o755),
            mtime: Some(vfs::SetTime::To(mtime)),
            ..SetAttr::default()
        };
        let attr = fs.setattr(ino, &set).expect("a truncation");
        assert_eq!((attr.size, attr.perm, attr.mtime), (100, 0o755, mtime), "{name}");
    });
}
