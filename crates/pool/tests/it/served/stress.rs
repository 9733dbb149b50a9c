//! Calls of the program and of tools at once, on the same names: none waits for ever, each side sees its own changes through the
//! other at once, and in the end both see the same files, as does the next opening.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use pool::{FileKind, OpenOptions, Pool};
use sim::Seed;

use super::{Scene, Tool, on_each, unmount};

const STEPS: u32 = 1500;
const NAMES: u64 = 6;

/// Random numbers from a seed.
struct Rng {
    seed: Seed,
    drawn: u64,
}

impl Rng {
    fn below(&mut self, end: u64) -> u64 {
        self.drawn += 1;
        self.seed.derive("draw", self.drawn).0 % end
    }
}

/// What both sides can do, by paths from the root.
trait Side {
    fn write(&self, path: &str, data: &[u8]) -> io::Result<()>;
    fn overwrite(&self, path: &str, data: &[u8], at: u64) -> io::Result<()>;
    fn read(&self, path: &str) -> io::Result<Vec<u8>>;
    fn truncate(&self, path: &str, size: u64) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, path: &str) -> io::Result<()>;
    fn make_dir(&self, path: &str) -> io::Result<()>;
    fn remove_dir(&self, path: &str) -> io::Result<()>;
    fn list(&self, path: &str) -> io::Result<Vec<String>>;
    fn set_mode(&self, path: &str, mode: u32) -> io::Result<()>;
}

struct Program<'a>(&'a Pool);

impl Side for Program<'_> {
    fn write(&self, path: &str, data: &[u8]) -> io::Result<()> {
        self.0.write(path, data)
    }
    fn overwrite(&self, path: &str, data: &[u8], at: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.0, path)?.write_all_at(data, at)
    }
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.read(path)
    }
    fn truncate(&self, path: &str, size: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.0, path)?.set_len(size)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.hard_link(from, to)
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        self.0.remove_file(path)
    }
    fn make_dir(&self, path: &str) -> io::Result<()> {
        self.0.create_dir(path)
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.0.remove_dir(path)
    }
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let name = |entry: &pool::DirEntry| entry.file_name().to_string_lossy().into_owned();
        Ok(self.0.read_dir(Path::new("/").join(path))?.iter().map(name).collect())
    }
    fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        self.0.set_mode(path, mode)
    }
}

struct Mount<'a>(&'a Path);

impl Side for Mount<'_> {
    fn write(&self, path: &str, data: &[u8]) -> io::Result<()> {
        fs::write(self.0.join(path), data)
    }
    fn overwrite(&self, path: &str, data: &[u8], at: u64) -> io::Result<()> {
        fs::File::options().write(true).open(self.0.join(path))?.write_all_at(data, at)
    }
    fn read(&self, path: &str) -> io::Result<Vec<u8>> {
        fs::read(self.0.join(path))
    }
    fn truncate(&self, path: &str, size: u64) -> io::Result<()> {
        fs::File::options().write(true).open(self.0.join(path))?.set_len(size)
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.0.join(from), self.0.join(to))
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        fs::hard_link(self.0.join(from), self.0.join(to))
    }
    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(path))
    }
    fn make_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.0.join(path))
    }
    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.0.join(path))
    }
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        fs::read_dir(self.0.join(path))?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    }
    fn set_mode(&self, path: &str, mode: u32) -> io::Result<()> {
        fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(mode))
    }
}

/// What a call on a name that others change may fail with.
fn check(what: &str, done: io::Result<()>) {
    const ELOOP: i32 = 40;
    const ESTALE: i32 = 116;
    let Err(error) = done else { return };
    let expected = [
        ErrorKind::NotFound,
        ErrorKind::AlreadyExists,
        ErrorKind::NotADirectory,
        ErrorKind::IsADirectory,
        ErrorKind::DirectoryNotEmpty,
        ErrorKind::InvalidInput,
        ErrorKind::PermissionDenied,
    ];
    let raced = matches!(error.raw_os_error(), Some(ELOOP | ESTALE));
    assert!(raced || expected.contains(&error.kind()), "{what}: {error}");
}

/// A name in the root or in one of two directories, each of which may be missing.
fn any_path(rng: &mut Rng) -> String {
    let name = rng.below(NAMES);
    match rng.below(3) {
        0 => format!("n{name}"),
        dir => format!("d{dir}/n{name}"),
    }
}

/// Does random things by one side on names that all use; on a file of its own, looks by the other side at each change.
fn work(own: &str, (side, other): (&dyn Side, &dyn Side), mut rng: Rng) {
    for step in 0..STEPS {
        let (path, to) = (any_path(&mut rng), any_path(&mut rng));
        let dir = format!("d{}", 1 + rng.below(2));
        let data = vec![b'a' + (step % 26) as u8; rng.below(10_000) as usize];
        match rng.below(14) {
            0 | 1 => check("write", side.write(&path, &data)),
            2 => check("overwrite", side.overwrite(&path, &data, rng.below(5000))),
            3 => check("read", side.read(&path).map(drop)),
            4 => check("truncate", side.truncate(&path, rng.below(10_000))),
            5 => check("rename", side.rename(&path, &to)),
            6 => check("link", side.link(&path, &to)),
            7 => check("remove", side.remove(&path)),
            8 => check("make a directory", side.make_dir(&dir)),
            9 => check("remove a directory", side.remove_dir(&dir)),
            10 => check("list", side.list(&dir).map(drop)),
            11 => check("rename a directory", side.rename(&dir, if dir == "d1" { "d2" } else { "d1" })),
            12 => check("set the mode", side.set_mode(&path, 0o600 + rng.below(64) as u32)),
            _ => {
                let moved = format!("{own}.moved");
                side.write(own, &data).unwrap();
                assert_eq!(other.read(own).unwrap(), data, "step {step}: what {own} holds");
                side.overwrite(own, b"over", 3).unwrap();
                assert_eq!(other.read(own).unwrap()[3..7], *b"over", "step {step}");
                side.rename(own, &moved).unwrap();
                assert!(other.read(own).is_err(), "step {step}: {own} has moved");
                assert!(other.list("").unwrap().contains(&moved), "step {step}: {moved} is listed");
                other.remove(&moved).unwrap();
                assert!(side.read(&moved).is_err(), "step {step}: {moved} was removed");
            }
        }
    }
}

/// All files by path: kind, mode, links, contents.
type Tree = BTreeMap<PathBuf, (bool, u32, u64, Vec<u8>)>;

fn by_program(pool: &Pool, dir: &Path, tree: &mut Tree) {
    for entry in pool.read_dir(Path::new("/").join(dir)).unwrap() {
        let path = dir.join(entry.file_name());
        let known = pool.metadata(&path).unwrap();
        let is_dir = known.kind() == FileKind::Directory;
        let contents = if is_dir { Vec::new() } else { pool.read(&path).unwrap() };
        tree.insert(path.clone(), (is_dir, known.mode() & 0o7777, u64::from(known.nlink()), contents));
        if is_dir {
            by_program(pool, &path, tree);
        }
    }
}

fn by_tools(root: &Path, dir: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(dir)).unwrap() {
        let path = dir.join(entry.unwrap().file_name());
        let known = fs::metadata(root.join(&path)).unwrap();
        let contents = if known.is_dir() { Vec::new() } else { fs::read(root.join(&path)).unwrap() };
        assert!(known.is_dir() || known.len() == contents.len() as u64);
        tree.insert(path.clone(), (known.is_dir(), known.mode() & 0o7777, known.nlink(), contents));
        if known.is_dir() {
            by_tools(root, &path, tree);
        }
    }
}

/// A tool stores to a map of a file while the program writes, cuts and reads it.
fn store(tool: &mut Tool, pool: &Pool, ended: &AtomicBool) {
    let file = OpenOptions::new().read(true).write(true).open(pool, "mapped").unwrap();
    let mut round = 0_u64;
    while !ended.load(Relaxed) {
        let at = round % 3 * 4096;
        assert_eq!(tool.ask(&format!("store {at} {round:08}")), "stored");
        let mut seen = [0; 8];
        file.read_exact_at(&mut seen, at).unwrap();
        assert_eq!(seen, format!("{round:08}").as_bytes(), "what the tool has stored");
        file.write_all_at(b"program", at + 16).unwrap();
        assert_eq!(tool.ask(&format!("load {} 7", at + 16)), "program");
        round += 1;
    }
}

#[test]
fn calls_of_both_sides_on_the_same_names_end_and_leave_both_with_the_same_files() {
    let seed = std::env::var("WEIR_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("seed {seed} (WEIR_TEST_SEED)");
    on_each(|scene| {
        let Scene { pool, directory, .. } = &*scene;
        pool.write("mapped", vec![b'.'; 12288]).unwrap();
        let tool = Tool::new(&directory.join("mapped"), 3);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let storing = tool.map(|mut tool| {
                let ended = &ended;
                scope.spawn(move || store(&mut tool, pool, ended))
            });
            let workers: Vec<_> = (0..4)
                .map(|number| {
                    let rng = Rng { seed: Seed(seed).derive("worker", number), drawn: 0 };
                    scope.spawn(move || {
                        let (program, mount) = (Program(pool), Mount(directory));
                        let own = format!("own{number}");
                        match number % 2 {
                            0 => work(&own, (&program, &mount), rng),
                            _ => work(&own, (&mount, &program), rng),
                        }
                    })
                })
                .collect();
            let done: Vec<_> = workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
            ended.store(true, Relaxed);
            if let Some(storing) = storing {
                storing.join().unwrap();
            }
            assert!(done.iter().all(Result::is_ok), "seed {seed}: a thread has failed");
        });
        let (mut ours, mut theirs) = (Tree::new(), Tree::new());
        by_program(pool, Path::new(""), &mut ours);
        by_tools(directory, Path::new(""), &mut theirs);
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
        assert!(ours == theirs, "seed {seed}: the sides differ in attributes or contents");
        unmount(&mut scene.served);
        scene.pool.sync().unwrap();
    });
}
