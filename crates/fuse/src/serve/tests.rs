//! Ends of requests and of servers, on this host's kernel. They take root and `/dev/fuse`, and say where these are missing.

use std::fs::{self, File};
use std::os::unix::net::UnixDatagram;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::sync::mpsc::TryRecvError;
use std::time::Instant;

use rustix::mount::MountFlags;
use vfs::{
    AccessTimes, Attr, DirEntry, Errno, FileKind, Ino, IoFlags, NewInode, OpenFlags, Owner, Renaming, Result,
    SetAttr, StatFs, Timestamp, Written,
};

use super::*;
use crate::nodes::Nodes;
use crate::options::{Backing, Cache};

/// A design with a root directory, of which looking up a name, making a directory and trimming panic. It counts how often inodes
/// are open. Looking up `slow` takes until it is let go.
#[derive(Default)]
struct Broken {
    opens: AtomicI64,
    looks: AtomicBool,
    let_go: AtomicBool,
    /// The root lists three directories, one of which is [`DAMAGED`].
    lists: bool,
}

/// An inode whose attributes cannot be read.
const DAMAGED: Ino = Ino(7);

fn wait_until(flag: &AtomicBool) {
    while !flag.load(Relaxed) {
        thread::sleep(Duration::from_millis(1));
    }
}

impl FileSystem for Broken {
    fn root(&self) -> Ino {
        Ino(1)
    }
    fn statfs(&self) -> Result<StatFs> {
        Err(Errno::EOPNOTSUPP)
    }
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn unmount(&self) -> Result<()> {
        Ok(())
    }
    fn trim(&self) -> Result<u64> {
        panic!("planted: trim")
    }
    fn lookup(&self, _: Ino, name: &[u8]) -> Result<Attr> {
        if name == b"slow" {
            self.looks.store(true, Relaxed);
            wait_until(&self.let_go);
        }
        if name.starts_with(b"new") || name == b"slow" {
            return Err(Errno::ENOENT);
        }
        panic!("planted: lookup")
    }
    fn create(&self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::ENOSPC)
    }
    fn mkdir(&self, _: Ino, _: &[u8], _: &NewInode) -> Result<Attr> {
        panic!("planted: mkdir")
    }
    fn mknod(&self, _: Ino, _: &[u8], _: FileKind, _: u64, _: &NewInode) -> Result<Attr> {
        Err(Errno::ENOSPC)
    }
    fn symlink(&self, _: Ino, _: &[u8], _: &[u8], _: &NewInode) -> Result<Attr> {
        Err(Errno::ENOSPC)
    }
    fn readlink(&self, _: Ino) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }
    fn link(&self, _: Ino, _: Ino, _: &[u8]) -> Result<Attr> {
        Err(Errno::EPERM)
    }
    fn unlink(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Errno::ENOENT)
    }
    fn rmdir(&self, _: Ino, _: &[u8]) -> Result<()> {
        Err(Errno::ENOENT)
    }
    fn rename(&self, _: (Ino, &[u8]), _: (Ino, &[u8]), _: Renaming<'_>) -> Result<()> {
        Err(Errno::ENOENT)
    }
    fn readdir(&self, _: Ino, cursor: u64, sink: &mut dyn FnMut(DirEntry<'_>) -> bool) -> Result<()> {
        let all = [(2, &b"sound"[..]), (DAMAGED.0, b"damaged"), (3, b"last")];
        let all = if self.lists { &all[..] } else { &[] };
        let rest = (1..).zip(all).skip(cursor as usize);
        let kind = Some(FileKind::Directory);
        for (next, &(ino, name)) in rest {
            if !sink(DirEntry { ino: Ino(ino), kind, name, next }) {
                break;
            }
        }
        Ok(())
    }
    fn getattr(&self, ino: Ino) -> Result<Attr> {
        if ino == DAMAGED {
            return Err(Errno::EUCLEAN);
        }
        let epoch = Timestamp { secs: 0, nanos: 0 };
        Ok(Attr {
            ino,
            kind: FileKind::Directory,
            perm: 0o755,
            nlink: 2,
            owner: Owner { uid: 0, gid: 0 },
            rdev: 0,
            size: 0,
            blocks: 0,
            blksize: 4096,
            atime: epoch,
            mtime: epoch,
            ctime: epoch,
            generation: 0,
        })
    }
    fn setattr(&self, ino: Ino, _: &SetAttr) -> Result<Attr> {
        self.getattr(ino)
    }
    fn open(&self, _: Ino, _: OpenFlags) -> Result<()> {
        self.opens.fetch_add(1, Relaxed);
        Ok(())
    }
    fn release(&self, _: Ino) {
        self.opens.fetch_sub(1, Relaxed);
    }
    fn read(&self, _: Ino, _: u64, _: &mut [u8], _: IoFlags) -> Result<usize> {
        Err(Errno::EISDIR)
    }
    fn write(&self, _: Ino, _: u64, _: &[u8], _: IoFlags) -> Result<Written> {
        Err(Errno::EISDIR)
    }
    fn fsync(&self, _: Ino, _: bool) -> Result<()> {
        Ok(())
    }
}

/// A medium that remembers which panics it was told of.
#[derive(Default)]
struct Told(Mutex<Vec<(String, bool)>>);

impl Backing for Told {
    fn fence(&self) {}
    fn sync(&self) -> Result<()> {
        Ok(())
    }
    fn panicked(&self, operation: &str, changes: bool) {
        self.0.lock().unwrap().push((operation.to_owned(), changes));
    }
}

fn can_mount() -> bool {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let can = rustix::process::geteuid().is_root() && device.is_ok();
    if !can {
        println!("skipped: mounting takes root and /dev/fuse");
    }
    can
}

fn options(told: &Arc<Told>) -> Options {
    Options {
        source: "test".to_owned(),
        design: "test".to_owned(),
        flags: MountFlags::NOSUID | MountFlags::NODEV,
        allow_other: false,
        non_empty: false,
        access_times: AccessTimes::Never,
        cache: Cache::Pages,
        threads: 2,
        readers: 2,
        poll: Duration::from_micros(50),
        lists: false,
        result_so_far: Arc::new(|_| Vec::new()),
        backing: Arc::clone(told) as Arc<dyn Backing>,
        recorder: None,
    }
}

/// The answer of a call that must come, in minutes on the busiest host.
fn soon<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, answer) = mpsc::channel();
    thread::spawn(move || sender.send(call()));
    answer.recv_timeout(Duration::from_secs(300)).expect("an answer")
}

/// Unmounts when a test ends, however it ends.
struct Unmounting(Unmounter);

impl Drop for Unmounting {
    fn drop(&mut self) {
        self.0.0.abort();
        let _ = self.0.unmount();
    }
}

#[test]
fn a_call_that_panics_is_answered_eio_and_reported_once_and_the_mount_goes_on() {
    if !can_mount() {
        return;
    }
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    let server = Server::new(Arc::new(Broken::default()), folder.path(), &options(&told)).unwrap();
    let unmounting = Unmounting(server.unmounter());
    let serving = thread::spawn(move || server.serve());
    let eio = Some(Errno::EIO.number());
    for _ in 0..5 {
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        assert_eq!(soon(move || fs::metadata(old)).unwrap_err().raw_os_error(), eio);
        assert_eq!(soon(move || fs::create_dir(new)).unwrap_err().raw_os_error(), eio);
        let path = folder.path().to_owned();
        assert!(soon(move || fs::read_dir(path)).unwrap().next().is_none(), "other calls work as before");
    }
    assert_eq!(*told.0.lock().unwrap(), [("lookup".to_owned(), false), ("mkdir".to_owned(), true)]);
    unmounting.0.unmount().unwrap();
    soon(move || serving.join()).unwrap().unwrap();
}

#[test]
fn an_inode_that_cannot_be_read_does_not_hide_the_other_names_of_its_directory() {
    if !can_mount() {
        return;
    }
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    let design = Broken { lists: true, ..Broken::default() };
    let server = Server::new(Arc::new(design), folder.path(), &options(&told)).unwrap();
    let _unmounting = Unmounting(server.unmounter());
    thread::spawn(move || server.serve());
    let path = folder.path().to_owned();
    let names = soon(move || {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.map(|entry| entry.file_name()));
        entries.collect::<std::io::Result<Vec<_>>>()
    });
    assert_eq!(names.unwrap(), ["sound", "damaged", "last"]);
    let sound = folder.path().join("sound");
    assert!(soon(move || fs::metadata(sound)).is_ok(), "the listing has told its attributes");
}

#[test]
fn a_panic_in_a_command_counts_as_one_in_a_change() {
    if !can_mount() {
        return;
    }
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    let server = Server::new(Arc::new(Broken::default()), folder.path(), &options(&told)).unwrap();
    let _unmounting = Unmounting(server.unmounter());
    thread::spawn(move || server.serve());
    for name in ["weir.trim", "user.other"] {
        let path = folder.path().to_owned();
        assert!(soon(move || rustix::fs::getxattr(path, name, &mut [0; 20]).is_err()), "{name}");
    }
    // It is told after the caller was answered.
    let changes = || told.0.lock().unwrap().iter().map(|(_, changes)| *changes).collect::<Vec<_>>();
    let until = Instant::now() + Duration::from_secs(300);
    while changes().is_empty() && Instant::now() < until {
        thread::yield_now();
    }
    assert_eq!(changes(), [true]);
}

#[test]
fn when_a_thread_cannot_read_those_that_sleep_end_as_well() {
    if !can_mount() {
        return;
    }
    let (folder, told) = (tempfile::tempdir().unwrap(), Arc::new(Told::default()));
    let server = Server::new(Arc::new(Broken::default()), folder.path(), &options(&told)).unwrap();
    let _unmounting = Unmounting(server.unmounter());
    let limits = Limits { threads: 3, most: 3, poll: Duration::ZERO };
    let threads = RequestThreads::new(Arc::clone(&server.device), limits);
    threads.read_with_all();
    let (sender, ends) = mpsc::channel();
    let buffer = vec![0; HEAD_BYTES + REQUEST_BYTES as usize];
    server.start_thread(&threads, 0, buffer.clone(), sender.clone()).unwrap();
    server.start_thread(&threads, 1, buffer, sender.clone()).unwrap();
    while threads.asleep() < 2 {
        thread::yield_now();
    }
    // The kernel refuses a buffer that no request fits in: EINVAL.
    server.start_thread(&threads, 2, vec![0; 512], sender).unwrap();
    let began = Instant::now();
    let error = server.wait_for_end(&threads, &ends).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::EINVAL.number()));
    assert!(began.elapsed() < ABORT, "the sleepers have not ended");
    assert!(matches!(ends.try_recv(), Err(TryRecvError::Disconnected)), "a thread is left");
    assert!(fs::metadata(folder.path().join("new")).is_err(), "no caller waits for ever");
}

#[test]
fn a_call_that_is_served_when_another_thread_cannot_read_is_waited_for() {
    if !can_mount() {
        return;
    }
    let (folder, told, design) =
        (tempfile::tempdir().unwrap(), Arc::new(Told::default()), Arc::new(Broken::default()));
    let fs = Arc::clone(&design) as Arc<dyn FileSystem>;
    let server = Server::new(fs, folder.path(), &options(&told)).unwrap();
    let _unmounting = Unmounting(server.unmounter());
    let limits = Limits { threads: 2, most: 2, poll: Duration::ZERO };
    let threads = RequestThreads::new(Arc::clone(&server.device), limits);
    threads.read_with_all();
    let (sender, ends) = mpsc::channel();
    let buffer = vec![0; HEAD_BYTES + REQUEST_BYTES as usize];
    server.start_thread(&threads, 0, buffer, sender.clone()).unwrap();
    let slow = folder.path().join("slow");
    let caller = thread::spawn(move || fs::metadata(slow).is_err());
    wait_until(&design.looks);
    server.start_thread(&threads, 1, vec![0; 512], sender).unwrap();
    let waiting = thread::spawn(move || server.wait_for_end(&threads, &ends).unwrap_err());
    assert!(soon(move || caller.join()).unwrap(), "its caller hears that the mount has gone");
    thread::sleep(ABORT + Duration::from_secs(1));
    assert!(!waiting.is_finished(), "the design would be unmounted under a call");
    design.let_go.store(true, Relaxed);
    assert_eq!(soon(move || waiting.join()).unwrap().raw_os_error(), Some(Errno::EINVAL.number()));
}

/// What a thread does with a request that a test sends it.
const SERVE: u8 = 0;
const BLOCK: u8 = 1;
const END: u8 = 2;

/// A page fault is such a wait, for example.
#[test]
fn a_wait_that_no_thread_tells_of_is_noticed_after_requests_with_pauses() {
    let (program, device) = UnixDatagram::pair().unwrap();
    let limits = Limits { threads: 3, most: 1, poll: Duration::ZERO };
    let threads = RequestThreads::new(Arc::new(Device::new(device.into()).unwrap()), limits);
    let (sender, served) = mpsc::channel();
    let (release, held) = mpsc::channel();
    let held = Arc::new(Mutex::new(held));
    let run = || {
        let (threads, sender, held) = (Arc::clone(&threads), sender.clone(), Arc::clone(&held));
        thread::spawn(move || {
            threads.work(&mut [0; 64], |request| {
                sender.send(request[0]).unwrap();
                if request[0] == BLOCK {
                    held.lock().unwrap().recv().unwrap();
                }
                request[0] != END
            })
        })
    };
    let running = [run(), run(), run()];
    let ask = |what| {
        program.send(&[what]).unwrap();
        assert_eq!(served.recv_timeout(Duration::from_secs(300)), Ok(what));
    };
    // Longer than the monitor watches a mount without requests.
    for _ in 0..100 {
        ask(SERVE);
        thread::sleep(Duration::from_millis(3));
    }
    ask(BLOCK);
    ask(SERVE);
    release.send(()).unwrap();
    ask(END);
    // Those that sleep in read(2) end when they wake.
    for thread in running {
        program.send(&[END]).unwrap();
        program.send(&[END]).unwrap();
        soon(|| thread.join()).unwrap().unwrap();
    }
}

/// The kernel has not heard yet that the program has cut the file, which is empty.
#[test]
fn pages_with_stores_beyond_the_end_are_dropped_and_do_not_extend_a_file_that_was_cut() {
    let (_program, device) = UnixDatagram::pair().unwrap();
    let device = Arc::new(Device::new(device.into()).unwrap());
    let (invalidator, _invalidations) = invalidate::channel(&device);
    let options = Options { cache: Cache::Shared, ..options(&Arc::default()) };
    let handler = Handler::new(Arc::new(Broken::default()), &options, invalidator);
    assert_eq!(handler.put_beside(Ino(1), 4096, b"stored", (1, true)), Ok(6), "the kernel is to be content");
    let written = handler.put_beside(Ino(1), 4096, b"written", (1, false));
    assert_eq!(written, Err(Errno::EISDIR), "a write reaches the design");
}

#[test]
fn an_inode_is_open_in_the_design_from_the_loss_of_a_name_until_the_kernel_forgets_it() {
    let (design, nodes) = (Broken::default(), Nodes::new());
    let opens = || design.opens.load(Relaxed);
    for number in (0..1000).map(|number| number * 128) {
        nodes.learn(Ino(number));
        nodes.learn(Ino(number));
    }
    assert_eq!(opens(), 0, "what keeps its name is not open");
    nodes.pin(&design, Ino(128)).unwrap();
    nodes.pin(&design, Ino(128)).unwrap();
    nodes.pin(&design, Ino(7)).unwrap();
    assert_eq!(opens(), 1, "once, and not what the kernel does not know");
    nodes.forget(&design, Ino(128), 1);
    assert_eq!(opens(), 1);
    nodes.forget(&design, Ino(128), 1);
    nodes.forget(&design, Ino(256), 2);
    assert_eq!(opens(), 0);
    nodes.learn_pinned(&design, Ino(5)).unwrap();
    nodes.learn_pinned(&design, Ino(5)).unwrap();
    assert_eq!(opens(), 1);
    nodes.set_cached(Ino(384));
    assert!(nodes.may_be_cached(Ino(384)) && !nodes.may_be_cached(Ino(256)));
    let both = OpenFlags::READ | OpenFlags::WRITE;
    nodes.opened(Ino(384), both);
    nodes.opened(Ino(384), both);
    nodes.closed(Ino(384), both);
    assert!(nodes.may_be_mapped(Ino(384)) && nodes.may_be_cached(Ino(384)));
    nodes.closed(Ino(384), both);
    nodes.closed(Ino(384), both);
    assert!(!nodes.may_be_mapped(Ino(384)) && nodes.may_be_cached(Ino(384)));
    nodes.forget_all(&design);
    assert_eq!(opens(), 0);
}
