//! A pool that is served: what the program does by its calls, tools see at once through the mount, and the reverse. Takes
//! `/dev/fuse` and root; says where these are missing. Tools are programs of their own: cat, ls, stat, sh, and Python for maps.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use pool::{Bytes, FallocateMode, OpenOptions, Pool, PoolOptions, RenameFlags, ServeError, Served, Source};

mod stress;

/// Of three kinds: names by maps of the design, names by `vfs` alone, data that waits in DRAM.
const DESIGNS: [&str; 3] = ["crest", "pmfs", "hinfs"];
const SIZE: Bytes = Bytes::mib(32);

fn can_mount() -> bool {
    let device = fs::File::options().read(true).write(true).open("/dev/fuse");
    let root = fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    let can = root && device.is_ok();
    if !can {
        println!("skipped: mounting takes root and /dev/fuse");
    }
    can
}

/// Ends the test with a message if it has not ended in minutes: a call that waits for ever would hide which one it is. The mount is
/// aborted first, so that no program is left that cannot be killed.
struct Watchdog {
    _ends: Sender<()>,
}

impl Watchdog {
    fn new(directory: &Path) -> Self {
        let (sender, ended) = mpsc::channel::<()>();
        let directory = directory.to_owned();
        std::thread::spawn(move || {
            if ended.recv_timeout(Duration::from_secs(240)) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("a call on {} or beside it has not returned in four minutes", directory.display());
                let _ = Command::new("umount").args(["-f", "-l"]).arg(&directory).status();
                std::process::abort();
            }
        });
        Self { _ends: sender }
    }
}

/// A pool in a file, with the directory on which it is served.
struct Scene {
    served: Served,
    pool: Pool,
    directory: PathBuf,
    folder: tempfile::TempDir,
    _watchdog: Watchdog,
}

impl Scene {
    fn new(design: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pool = Pool::create(folder.path().join("pool.weir"), design, SIZE).unwrap();
        let directory = folder.path().join("shown");
        fs::create_dir(&directory).unwrap();
        let watchdog = Watchdog::new(&directory);
        let served = pool.serve(&directory).unwrap();
        Self { served, pool, directory, folder, _watchdog: watchdog }
    }

    /// What a command of the shell prints, run in the directory.
    #[track_caller]
    fn tool(&self, command: &str) -> String {
        let output = Command::new("sh").args(["-c", command]).current_dir(&self.directory).output().unwrap();
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {failed}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// Runs `test` on each design, served.
fn on_each(test: impl Fn(&mut Scene)) {
    if can_mount() {
        for design in DESIGNS {
            test(&mut Scene::new(design));
        }
    }
}

/// A program that holds a file open, or maps it, and does what it is told.
struct Tool {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Tool {
    /// Opens a file for reading and writing, and keeps `pages` of it mapped, shared.
    fn new(file: &Path, pages: usize) -> Option<Self> {
        Self::open(file, pages, "rw")
    }

    /// The same for reading.
    fn reader(file: &Path, pages: usize) -> Option<Self> {
        Self::open(file, pages, "r")
    }

    fn open(file: &Path, pages: usize, mode: &str) -> Option<Self> {
        const PROGRAM: &str = "import mmap,os,sys
writes=sys.argv[3]=='rw'
fd=os.open(sys.argv[1],os.O_RDWR if writes else os.O_RDONLY)
protection=mmap.PROT_READ|(mmap.PROT_WRITE if writes else 0)
m=mmap.mmap(fd,4096*int(sys.argv[2]),prot=protection) if int(sys.argv[2]) else None
print('ready',flush=True)
for line in sys.stdin:
    do,at,what=line.split()
    at=int(at)
    if do=='load': print(m[at:at+int(what)].decode(),flush=True)
    elif do=='store': m[at:at+len(what)]=what.encode(); print('stored',flush=True)
    elif do=='read': print(os.pread(fd,int(what),at).decode(),flush=True)
    elif do=='write': os.pwrite(fd,what.encode(),at); print('written',flush=True)
    elif do=='spin':
        for n in range(int(what)): m[at:at+8]=b'%08d'%n
    elif do=='size': print(os.fstat(fd).st_size,flush=True)
";
        let mut python = Command::new("python3");
        python.args(["-c", PROGRAM]).arg(file).args([&pages.to_string(), mode]);
        let child = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let Ok(mut child) = child else {
            println!("skipped: maps, for which Python is missing");
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut tool = Self { child, input, output };
        assert_eq!(tool.answer(), "ready");
        Some(tool)
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn ask(&mut self, what: &str) -> String {
        writeln!(self.input, "{what}").unwrap();
        self.answer()
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends the service. A child that another test is just starting may have a copy of a descriptor for a moment.
fn unmount(served: &mut Served) {
    let until = Instant::now() + Duration::from_secs(100);
    while let Err(error) = served.unmount() {
        assert!(error.kind() == ErrorKind::ResourceBusy && Instant::now() < until, "{error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn sorted(listing: &str) -> Vec<&str> {
    let mut names: Vec<_> = listing.lines().collect();
    names.sort_unstable();
    names
}

#[test]
fn tools_see_what_the_program_writes_at_once_also_what_they_have_looked_at_before() {
    on_each(|scene| {
        let Scene { pool, .. } = &*scene;
        pool.create_dir("d").unwrap();
        pool.write("d/file", "old").unwrap();
        // Bytes, attributes, a missing name and a listing, twice: the second time from what the kernel would keep.
        for _ in 0..2 {
            assert_eq!(
                scene.tool("cat d/file; stat -c %s-%a d/file; ls d; ls d/new 2>/dev/null || echo missing"),
                "old3-644\nfile\nmissing\n"
            );
        }
        pool.write("d/file", "newer").unwrap();
        assert_eq!(scene.tool("cat d/file"), "newer");
        pool.set_mode("d/file", 0o600).unwrap();
        pool.write("d/new", "").unwrap();
        assert_eq!(scene.tool("stat -c %s-%a d/file; ls d/new"), "5-600\nd/new\n");
        pool.rename("d/file", "d/moved").unwrap();
        assert_eq!(
            sorted(&scene.tool("ls d; cat d/moved; ls d/file 2>/dev/null || echo; echo gone")),
            ["gone", "moved", "new", "newer"]
        );
        pool.hard_link("d/moved", "d/twice").unwrap();
        pool.symlink("moved", "d/link").unwrap();
        assert_eq!(scene.tool("stat -c %h d/moved; readlink d/link; cat d/link"), "2\nmoved\nnewer");
        pool.rename_with("d/new", "d/moved", RenameFlags::EXCHANGE).unwrap();
        assert_eq!(scene.tool("cat d/moved; cat d/new"), "newer");
        pool.remove_file("d/twice").unwrap();
        pool.remove_dir_all("d").unwrap();
        assert_eq!(scene.tool("ls; ls d 2>/dev/null || echo gone"), "gone\n");
        pool.write("d", "a file now").unwrap();
        assert_eq!(scene.tool("cat d"), "a file now");
    });
}

#[test]
fn an_open_file_of_a_tool_shows_what_the_program_writes_and_where_it_ends() {
    on_each(|scene| {
        scene.pool.write("file", "0123456789").unwrap();
        let file = scene.pool.create_file("other").unwrap();
        let Some(mut tool) = Tool::new(&scene.directory.join("file"), 0) else { return };
        assert_eq!(tool.ask("read 0 10"), "0123456789");
        let direct = OpenOptions::new().write(true).open(&scene.pool, "file").unwrap();
        direct.write_all_at(b"ab", 4).unwrap();
        assert_eq!(tool.ask("read 0 10"), "0123ab6789");
        direct.write_all_at(b"xyz", 10).unwrap();
        assert_eq!((tool.ask("read 8 10"), tool.ask("size 0 0")), ("89xyz".to_owned(), "13".to_owned()));
        direct.set_len(5).unwrap();
        assert_eq!((tool.ask("read 0 10"), tool.ask("size 0 0")), ("0123a".to_owned(), "5".to_owned()));
        file.copy_from(&scene.pool.open_file("file").unwrap()).unwrap();
        assert_eq!(scene.tool("cat other"), "0123a");
    });
}

/// An append goes to the end that the file has, not to that which the kernel remembers.
#[test]
fn appends_of_both_sides_follow_each_other() {
    on_each(|scene| {
        let log = OpenOptions::new().append(true).create(true).open(&scene.pool, "log").unwrap();
        let mut tools = fs::File::options().append(true).open(scene.directory.join("log")).unwrap();
        for number in 0..20 {
            writeln!(&log, "program {number}").unwrap();
            writeln!(tools, "tool {number}").unwrap();
        }
        let lines = scene.pool.read_to_string("log").unwrap();
        let expected = (0..20).flat_map(|number| [format!("program {number}"), format!("tool {number}")]);
        assert!(lines.lines().eq(expected), "{lines}");
    });
}

#[test]
fn a_map_of_a_tool_shows_what_the_program_writes_cuts_and_frees() {
    on_each(|scene| {
        for tool in [Tool::reader, Tool::new] {
            scene.pool.write("file", vec![b'.'; 12288]).unwrap();
            let Some(mut tool) = tool(&scene.directory.join("file"), 3) else { return };
            check_map(scene, &mut tool);
        }
    });
}

fn check_map(scene: &Scene, tool: &mut Tool) {
    let direct = OpenOptions::new().read(true).write(true).open(&scene.pool, "file").unwrap();
    for round in 0..20 {
        assert_eq!(tool.ask("load 4094 4").len(), 4, "the pages are there before the program writes");
        let text = format!("{round:04}");
        direct.write_all_at(text.as_bytes(), 4094).unwrap();
        assert_eq!(tool.ask("load 4094 4"), text);
    }
    assert_eq!(tool.ask("load 8192 4"), "....");
    direct.set_len(8192).unwrap();
    direct.set_len(12288).unwrap();
    assert_eq!(tool.ask("load 8192 4"), "\0\0\0\0");
    if direct.allocate(FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 0, 4096).is_ok() {
        assert_eq!(tool.ask("load 0 4"), "\0\0\0\0");
    }
    let source = scene.pool.create_file("source").unwrap();
    source.write_all_at(&[b'c'; 12288], 0).unwrap();
    direct.copy_from(&source).unwrap();
    assert_eq!(tool.ask("load 4094 4"), "cccc");
}

/// Without msync: the next call of the program has what was stored written first.
#[test]
fn what_a_tool_stores_to_a_map_the_program_reads_and_does_not_lose_to_its_own_write() {
    on_each(|scene| {
        scene.pool.write("file", vec![b'.'; 8192]).unwrap();
        let Some(mut tool) = Tool::new(&scene.directory.join("file"), 2) else { return };
        let direct = OpenOptions::new().read(true).write(true).open(&scene.pool, "file").unwrap();
        let mut seen = [0; 8];
        for round in 0..20 {
            let (theirs, ours) = (format!("t{round:03}"), format!("p{round:03}"));
            assert_eq!(tool.ask(&format!("store 100 {theirs}")), "stored");
            direct.read_exact_at(&mut seen, 100).unwrap();
            assert_eq!(&seen[..4], theirs.as_bytes());
            // In one page with what the tool has stored.
            assert_eq!(tool.ask(&format!("store 100 T{round:03}")), "stored");
            direct.write_all_at(ours.as_bytes(), 104).unwrap();
            assert_eq!(tool.ask("load 100 8"), format!("T{round:03}{ours}"));
        }
        assert_eq!(tool.ask("store 4096 late"), "stored");
        direct.set_len(10).unwrap();
        drop(tool);
        assert_eq!(
            scene.pool.metadata("file").unwrap().len(),
            10,
            "a page that was kept does not extend a file"
        );
    });
}

#[test]
fn a_file_that_the_program_cuts_while_a_tool_stores_to_its_map_stays_cut() {
    on_each(|scene| {
        scene.pool.write("file", vec![b'.'; 8192]).unwrap();
        let Some(mut tool) = Tool::new(&scene.directory.join("file"), 2) else { return };
        writeln!(tool.input, "spin 4096 1000000").unwrap();
        let direct = OpenOptions::new().write(true).open(&scene.pool, "file").unwrap();
        direct.set_len(10).unwrap();
        // It ends by SIGBUS, as on any file system, or here, in the midst of its stores.
        drop(tool);
        assert_eq!(scene.pool.metadata("file").unwrap().len(), 10);
    });
}

#[test]
fn the_program_sees_what_tools_do_at_once_also_what_it_has_looked_at_before() {
    on_each(|scene| {
        let Scene { pool, .. } = &*scene;
        pool.create_dir("d").unwrap();
        pool.write("d/file", "old").unwrap();
        let open = pool.open_file("d/file").unwrap();
        assert!(!pool.exists("d/new").unwrap() && pool.exists("d/file").unwrap());
        scene.tool("printf newer >d/file; chmod 600 d/file; touch d/new");
        assert_eq!(
            (pool.read_to_string("d/file").unwrap(), open.metadata().unwrap().mode() & 0o777),
            ("newer".to_owned(), 0o600)
        );
        assert!(pool.exists("d/new").unwrap());
        scene.tool("mv d/file d/moved; ln d/moved d/twice; ln -s moved d/link");
        assert!(!pool.exists("d/file").unwrap());
        assert_eq!(pool.read_to_string("d/link").unwrap(), "newer");
        assert_eq!(open.metadata().unwrap().nlink(), 2);
        // A directory that moves, with one below it.
        scene.tool("mkdir -p a/b/c; printf x >a/b/c/x");
        assert_eq!(pool.read_to_string("a/b/c/x").unwrap(), "x");
        scene.tool("mv a/b b; mv a b/a; rmdir d/none 2>/dev/null || mkdir d/none");
        assert_eq!(pool.read_to_string("b/c/../c/x").unwrap(), "x");
        assert!(pool.exists("b/a/../c/x").unwrap() && !pool.exists("a").unwrap());
        scene.tool("rm -r b d; printf file >d");
        assert_eq!(pool.read_to_string("d").unwrap(), "file");
        let mut rest = String::new();
        (&open).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "newer", "an open file of the program outlives its names");
    });
}

#[test]
fn a_file_that_a_side_has_open_lives_until_both_have_closed_it() {
    on_each(|scene| {
        let Scene { pool, .. } = &*scene;
        pool.write("file", "kept").unwrap();
        let Some(mut tool) = Tool::new(&scene.directory.join("file"), 0) else { return };
        pool.remove_file("file").unwrap();
        // Its number is not given to another file while the tool has it.
        for number in 0..50 {
            pool.write(format!("f{number}"), "other").unwrap();
        }
        assert_eq!(tool.ask("read 0 9"), "kept");
        assert_eq!(tool.ask("write 4 .more"), "written");
        assert_eq!(tool.ask("read 0 9"), "kept.more");
        assert_eq!(scene.tool("ls file 2>/dev/null || echo gone"), "gone\n");
        for number in 0..50 {
            assert_eq!(pool.read_to_string(format!("f{number}")).unwrap(), "other");
        }
    });
}

/// A working directory is known by its number alone: neither side has it open.
#[test]
fn a_directory_in_which_a_tool_works_is_not_taken_for_another_after_the_program_has_removed_it() {
    on_each(|scene| {
        let Scene { pool, .. } = &*scene;
        pool.create_dir("d").unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", "cd d && echo in && read go && { touch x 2>/dev/null || echo refused; }; ls"]);
        let shell = shell.current_dir(&scene.directory).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut said = BufReader::new(shell.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        pool.remove_dir("d").unwrap();
        for number in 0..50 {
            pool.create_dir(format!("d{number}")).unwrap();
        }
        writeln!(shell.stdin.take().unwrap(), "go").unwrap();
        said.read_line(&mut line).unwrap();
        shell.wait().unwrap();
        assert_eq!(line, "in\nrefused\n");
        for number in 0..50 {
            assert!(pool.read_dir(format!("d{number}")).unwrap().is_empty(), "{number}");
        }
    });
}

/// What a tool has looked at and closed, the kernel remembers; the space of what is removed comes back all the same.
#[test]
fn the_space_of_a_file_that_tools_have_looked_at_comes_back_when_the_program_removes_it() {
    on_each(|scene| {
        let Scene { pool, .. } = &*scene;
        for round in 0..4 {
            pool.create_dir("d").unwrap();
            pool.write("d/large", vec![1; 12 << 20]).unwrap();
            scene.tool("stat d/large >/dev/null; cat d/large >/dev/null");
            pool.remove_dir_all("d").unwrap();
            let until = Instant::now() + Duration::from_secs(100);
            while pool.space().unwrap().free() < 20 << 20 {
                assert!(Instant::now() < until, "round {round}: the kernel still holds the file");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    });
}

#[test]
fn a_pool_that_is_served_is_neither_closed_nor_opened_twice_nor_served_twice() {
    on_each(|scene| {
        let file = scene.folder.path().join("pool.weir");
        let error = Pool::open(&file, "crest").unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        let error = scene.pool.serve(scene.folder.path().join("other")).unwrap_err();
        assert!(matches!(&error, ServeError::Served(place) if *place == scene.directory), "{error}");
    });
    if !can_mount() {
        return;
    }
    let Scene { mut served, pool, directory, folder, _watchdog } = Scene::new("crest");
    pool.write("file", "kept").unwrap();
    let error = pool.close().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    assert!(error.to_string().contains(directory.to_str().unwrap()), "{error}");
    assert_eq!(fs::read(directory.join("file")).unwrap(), b"kept", "it goes on being served");
    unmount(&mut served);
    drop(served);
    let again = Pool::open(folder.path().join("pool.weir"), "crest").unwrap();
    assert_eq!(again.read_to_string("file").unwrap(), "kept");
}

#[test]
fn unmounting_is_refused_while_a_tool_uses_the_directory_and_dropping_is_not() {
    if !can_mount() {
        return;
    }
    let Scene { mut served, pool, directory, folder: _folder, _watchdog } = Scene::new("crest");
    pool.write("file", "text").unwrap();
    let Some(mut tool) = Tool::new(&directory.join("file"), 0) else { return };
    assert_eq!(served.unmount().unwrap_err().kind(), ErrorKind::ResourceBusy);
    assert_eq!(tool.ask("read 0 4"), "text", "it goes on being served");
    drop(served);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "the directory is free");
    assert_eq!(pool.read_to_string("file").unwrap(), "text");
    // The tool hears that the mount has gone: it ends with an exception.
    writeln!(tool.input, "read 0 4").unwrap();
    assert_eq!(tool.answer(), "");
    // Another mount of the same pool, which the user ends.
    let mut again = pool.serve(&directory).unwrap();
    assert_eq!(fs::read(directory.join("file")).unwrap(), b"text");
    assert!(Command::new("umount").arg(&directory).status().unwrap().success());
    again.unmount().unwrap();
    pool.close().unwrap_err();
    drop(again);
}

#[test]
fn a_directory_that_cannot_be_mounted_on_is_refused_and_the_pool_can_be_served_elsewhere() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let pool = PoolOptions::new("crest").size(SIZE).open_source(&Source::Memory).unwrap();
    let missing = pool.serve(folder.path().join("none")).unwrap_err();
    assert!(missing.to_string().contains("make it first"), "{missing}");
    let shown = folder.path().join("shown");
    fs::create_dir(&shown).unwrap();
    drop(pool.serve(&shown).unwrap());
    pool.close().unwrap();
}

#[test]
fn a_pool_that_is_open_for_reading_is_served_for_reading() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (file, shown) = (folder.path().join("pool.weir"), folder.path().join("shown"));
    let pool = Pool::create(&file, "crest", SIZE).unwrap();
    pool.write("file", "text").unwrap();
    pool.close().unwrap();
    fs::create_dir(&shown).unwrap();
    let pool = PoolOptions::new("crest").read_only(true).open(&file).unwrap();
    let _served = pool.serve(&shown).unwrap();
    assert_eq!(fs::read(shown.join("file")).unwrap(), b"text");
    assert_eq!(fs::write(shown.join("file"), "other").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
}

/// Where [`owner`] finds its pool and directory.
const OWNER: &str = "WEIR_TEST_OWNER";

/// A program that the next test starts in a process of its own and kills: by itself it tests nothing, so it is not run.
#[test]
#[ignore = "no test, but the program that a test kills"]
fn owner() {
    let folder = PathBuf::from(std::env::var_os(OWNER).expect("a folder"));
    let pool = Pool::create(folder.join("pool.weir"), "crest", SIZE).unwrap();
    let _served = pool.serve(folder.join("shown")).unwrap();
    for number in 0..3000 {
        pool.write(format!("{number}"), vec![7; 5000]).unwrap();
        println!("made {number}");
    }
}

#[test]
fn the_pool_of_a_program_that_was_killed_mounts_and_its_directory_is_freed_by_hand() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let shown = folder.path().join("shown");
    fs::create_dir(&shown).unwrap();
    let _watchdog = Watchdog::new(&shown);
    let mut owner = Command::new(std::env::current_exe().unwrap());
    owner.args(["--exact", "served::owner", "--ignored", "--nocapture"]).env(OWNER, folder.path());
    let mut child = owner.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("made 20")), "it serves");
    fs::write(shown.join("by a tool"), "durable").unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let made = lines.filter_map(|line| line.split("made ").nth(1)?.parse::<u32>().ok()).max().unwrap_or(20);
    assert_eq!(fs::metadata(&shown).unwrap_err().kind(), ErrorKind::NotConnected);
    let freed = Command::new("fusermount3").arg("-u").arg(&shown).status();
    let freed = freed.or_else(|_| Command::new("umount").arg(&shown).status());
    assert!(freed.unwrap().success());
    let pool = Pool::open(folder.path().join("pool.weir"), "crest").unwrap();
    assert_eq!(pool.read_to_string("by a tool").unwrap(), "durable");
    for number in 0..=made {
        assert_eq!(pool.read(format!("{number}")).unwrap(), vec![7; 5000], "{number} of {made}");
    }
    let _served = pool.serve(&shown).unwrap();
    assert_eq!(fs::read(shown.join("by a tool")).unwrap(), b"durable");
}
