//! Two front ends on one mount: names, references and attributes that one changes the other has at once, and who is told of what.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::memfs::MemFs;
use sim::{Machine, Seed, Setup};
use vfs::{
    Credentials, Errno, FallocateMode, FileKind, FileSystem, Ino, IoFlags, Mount, MountOptions, NewInode,
    OpenFlags, Owner, Process, RenameFlags, Renaming, SetAttr, Shared, Syscalls, Watcher,
};

const MAKE: OpenFlags = OpenFlags::READ.union(OpenFlags::WRITE).union(OpenFlags::CREATE);
const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };

fn both() -> (Arc<Mount>, Process, Arc<Shared>) {
    let mount = Mount::new(Arc::new(MemFs::new()), MountOptions::default()).expect("it has a root");
    let process = Process::new(Arc::clone(&mount), Credentials::root());
    let shared = Arc::new(Shared::new(Arc::clone(&mount)));
    (mount, process, shared)
}

fn touch(process: &Process, path: &str) {
    process.mknod(path.as_bytes(), FileKind::Regular, 0o644, 0).expect("a free name");
}

#[test]
fn names_that_one_changes_the_other_has_at_once_also_those_that_it_has_looked_up_before() {
    let (_mount, process, shared) = both();
    let root = shared.root();
    assert_eq!(process.stat(b"/new"), Err(Errno::ENOENT));
    let new = shared.create(root, b"new", &NEW).expect("free");
    assert_eq!(process.stat(b"/new").map(|attr| attr.ino), Ok(new.ino));
    assert_eq!(shared.create(root, b"new", &NEW).err(), Some(Errno::EEXIST));
    process.rename(b"/new", b"/old", RenameFlags::empty()).expect("free");
    assert_eq!(shared.lookup(root, b"new").err(), Some(Errno::ENOENT));
    assert_eq!(shared.lookup(root, b"old").map(|attr| attr.ino), Ok(new.ino));
    shared.link(new.ino, root, b"twice").expect("free");
    shared.unlink(root, b"old").expect("there");
    assert_eq!(process.stat(b"/old"), Err(Errno::ENOENT));
    assert_eq!(process.stat(b"/twice").map(|attr| (attr.ino, attr.nlink)), Ok((new.ino, 1)));
    assert_eq!(shared.rmdir(root, b"twice"), Err(Errno::ENOTDIR));
    let same = shared.rename((root, b"twice"), (root, b"twice"), Renaming::default());
    assert_eq!(same, Ok(()), "a name that is renamed to itself is claimed once");
}

#[test]
fn a_directory_that_the_other_front_end_moves_has_its_new_parent_for_a_program_that_works_in_it() {
    let (_mount, process, shared) = both();
    for dir in ["/a", "/b", "/a/d"] {
        process.mkdir(dir.as_bytes(), 0o755).expect("new");
    }
    touch(&process, "/b/mark");
    process.chdir(b"/a/d").expect("there");
    let root = shared.root();
    let (a, b) =
        (shared.lookup(root, b"a").expect("there").ino, shared.lookup(root, b"b").expect("there").ino);
    shared.rename((a, b"d"), (b, b"d"), Renaming::default()).expect("free");
    assert!(process.stat(b"../mark").is_ok(), "the directory above is the new one");
    shared.unlink(b, b"mark").expect("there");
    shared.rmdir(b, b"d").expect("empty");
    assert_eq!(process.open(b"x", MAKE, 0o644), Err(Errno::ENOENT), "it was removed");
}

/// The numbers of this design are given away at once.
#[test]
fn a_number_to_which_one_refers_is_not_given_away_by_the_other() {
    let (_mount, process, shared) = both();
    let root = shared.root();
    touch(&process, "/f");
    let known = shared.lookup(root, b"f").expect("there").ino;
    process.unlink(b"/f").expect("there");
    for number in 0..20 {
        touch(&process, &format!("/other{number}"));
        let other = process.stat(format!("/other{number}").as_bytes()).expect("there").ino;
        assert_ne!(other, known);
    }
    assert_eq!(shared.getattr(known).map(|attr| attr.nlink), Ok(0));
    assert_eq!(shared.write(known, 0, b"kept", IoFlags::empty()).map(|written| written.bytes), Ok(4));
    shared.release(known);
    let given = (20..23).map(|number| {
        touch(&process, &format!("/other{number}"));
        process.stat(format!("/other{number}").as_bytes()).expect("there").ino
    });
    assert!(given.collect::<Vec<_>>().contains(&known), "it is given away when nothing refers to it");
    assert_eq!(shared.read(known, 0, &mut [0; 4], IoFlags::empty()), Err(Errno::ENOENT));
    // The reverse: a program has a directory by its number alone.
    process.mkdir(b"/d", 0o755).expect("new");
    process.chdir(b"/d").expect("there");
    let held = process.stat(b".").expect("there").ino;
    shared.rmdir(root, b"d").expect("empty");
    for number in 0..20 {
        let made = shared.mkdir(root, format!("dir{number}").as_bytes(), &NEW).expect("free").ino;
        assert_ne!(made, held);
    }
}

#[test]
fn bits_that_one_has_set_the_other_obeys() {
    let (mount, process, shared) = both();
    touch(&process, "/f");
    let user = Process::new(Arc::clone(&mount), Credentials::new(7, 7, &[]));
    assert_eq!(user.open(b"/f", OpenFlags::WRITE, 0), Err(Errno::EACCES));
    let known = shared.lookup(shared.root(), b"f").expect("there").ino;
    shared.setattr(known, &SetAttr { perm: Some(0o666), ..SetAttr::default() }).expect("there");
    assert!(user.open(b"/f", OpenFlags::WRITE, 0).is_ok());
}

#[test]
fn the_end_of_a_front_end_gives_its_references_back() {
    let (_mount, process, shared) = both();
    touch(&process, "/f");
    let known = shared.lookup(shared.root(), b"f").expect("there").ino;
    shared.open(known, OpenFlags::READ).expect("there");
    process.unlink(b"/f").expect("there");
    assert!(process.statfs(b"/").is_ok() && shared.getattr(known).is_ok());
    shared.end();
    assert_eq!(shared.getattr(known).err(), Some(Errno::ENOENT), "nothing keeps it");
}

/// A watcher that notes what it is told, and uses the other front end meanwhile, as a kernel does whose requests come first.
struct Watching {
    shared: Arc<Shared>,
    told: Mutex<Vec<String>>,
}

impl Watching {
    fn note(&self, what: String) {
        self.told.lock().expect("no panic").push(what);
    }

    fn told(&self) -> String {
        std::mem::take(&mut *self.told.lock().expect("no panic")).join(" ")
    }

    fn use_names(&self, ino: Ino) {
        let root = self.shared.root();
        for name in [&b"f"[..], b"g", b"h", b"o", b"d"] {
            let _ = self.shared.rename((root, name), (root, b"elsewhere"), Renaming::default());
            let _ = self.shared.rename((root, b"elsewhere"), (root, name), Renaming::default());
        }
        let _ = self.shared.setattr(ino, &SetAttr { perm: Some(0o640), ..SetAttr::default() });
    }
}

fn shown(bytes: &Range<u64>) -> String {
    if bytes.end == u64::MAX {
        format!("{}..", bytes.start)
    } else {
        format!("{}..{}", bytes.start, bytes.end)
    }
}

impl Watcher for Watching {
    fn about_to_use(&self, ino: Ino, bytes: Range<u64>) {
        self.use_names(ino);
        self.note(format!("before {}", shown(&bytes)));
    }
    fn changed(&self, ino: Ino, bytes: Range<u64>) {
        self.use_names(ino);
        self.note(format!("after {}", shown(&bytes)));
    }
    fn removed(&self, _: Ino, name: &[u8], ino: Ino) {
        self.use_names(ino);
        self.note(format!("gone {}", String::from_utf8_lossy(name)));
    }
}

/// The table in `watch.rs`. Under the virtual clock a call that waits for a claim of its own is found to be a deadlock.
#[test]
fn a_watcher_is_told_of_what_the_program_does_and_holds_no_lock_that_the_other_front_end_takes() {
    let setup = Setup::virtual_clock(Machine::unit(), Seed(1));
    let done = sim::run(&setup, || {
        let (mount, process, shared) = both();
        let root = shared.root();
        let watcher = Arc::new(Watching { shared: Arc::clone(&shared), told: Mutex::default() });
        mount.watch(Some(watcher.clone()));
        let told = |what: &str, expected: &str| assert_eq!(watcher.told(), expected, "{what}");
        let file = process.open(b"/f", MAKE, 0o644).expect("new");
        shared.lookup(root, b"f").expect("there");
        process.mkdir(b"/d", 0o755).expect("new");
        process.link(b"/f", b"/g").expect("free");
        process.setattr(b"/f", &SetAttr { perm: Some(0o600), ..SetAttr::default() }).expect("there");
        told("create, mkdir, link, chmod", "");
        process.pwrite(file, b"0123456789", 5).expect("space");
        told("write", "before 5..15 after 5..15");
        process.pread(file, &mut [0; 4], 2).expect("open");
        told("read", "before 2..6");
        process.ftruncate(file, 3).expect("open");
        told("truncate", "before 0.. after 3..");
        let log = process.open(b"/f", OpenFlags::WRITE | OpenFlags::APPEND, 0).expect("there");
        process.write(log, b"end").expect("space");
        told("append", "before 0.. after 3..6");
        process.open(b"/f", OpenFlags::WRITE | OpenFlags::TRUNCATE, 0).expect("there");
        told("open with O_TRUNC", "before 0.. after 0..");
        let _ = process.fallocate(file, FallocateMode::KEEP_SIZE, 1, 2);
        told("fallocate", "before 1..3 after 1..3");
        let other = process.open(b"/o", MAKE, 0o644).expect("new");
        process.pwrite(other, b"source", 0).expect("space");
        told("write", "before 0..6 after 0..6");
        process.copy_file_range((other, 1), (file, 2), 3).expect("open");
        told("copy", "before 1..4 before 2..5 after 2..5");
        process.rename(b"/o", b"/g", RenameFlags::empty()).expect("there");
        told("rename over a name", "gone g");
        process.rename(b"/g", b"/h", RenameFlags::empty()).expect("there");
        told("rename to a free name", "");
        process.unlink(b"/h").expect("there");
        process.rmdir(b"/d").expect("empty");
        told("unlink, rmdir", "gone h gone d");
        assert!(shared.write(process.stat(b"/f").expect("there").ino, 0, b"x", IoFlags::empty()).is_ok());
        told("a write by the other front end", "");
        mount.watch(None);
        process.pwrite(file, b"x", 0).expect("space");
        told("the end", "");
    });
    done.unwrap_or_else(|error| panic!("{error}"));
}
