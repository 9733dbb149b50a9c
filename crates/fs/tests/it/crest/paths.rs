//! Calls by paths: Crest resolves them itself, and answers as without that part (`-O without=paths`), when the walk above it does.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use check::observe;
use check::tree::{difference, without_times};
use media::Storage;
use sim::{Bytes, Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::{
    Attr, Credentials, Errno, FileKind, FileSystem, Mount, MountOptions, OpenFlags, Process, RenameFlags,
    SetAttr, Syscalls,
};

use crate::shared::harness;

const SEED: u64 = 20_261_127;
const MAKE: OpenFlags = OpenFlags::WRITE.union(OpenFlags::CREATE);

/// A pool with a mount and three programs on it: root's, and those of two users.
struct World {
    storage: Storage,
    part: &'static [(&'static str, &'static str)],
    mount: Arc<Mount>,
    programs: Vec<Process>,
}

fn mounted(storage: &Storage, part: &[(&'static str, &'static str)], makes: bool) -> Arc<dyn FileSystem> {
    let crest = fs::by_name("crest").expect("crest is a design");
    let options = harness::options(crest, &[harness::checking("crest").small, part].concat());
    if makes {
        crest.format().mkfs(storage, &options).expect("mkfs");
    }
    crest.mount(storage, &options).expect("mount")
}

impl World {
    /// With paths, or without.
    fn new(resolves: bool, dentries: usize) -> Self {
        let part: &[_] = if resolves { &[] } else { &[("without", "paths")] };
        let storage = Storage::from(&harness::region(Bytes::mib(2)));
        let fs = mounted(&storage, part, true);
        assert_eq!(fs.paths().is_some(), resolves);
        let mount =
            Mount::new(fs, MountOptions { dentries, ..MountOptions::default() }).expect("it has a root");
        let program = |uid| Process::new(Arc::clone(&mount), Credentials::new(uid, uid, &[]));
        let programs: Vec<_> = [0, 7, 8].map(program).into();
        programs[0].setattr(b"/", &perm(0o777)).expect("root may");
        Self { storage, part, mount, programs }
    }

    /// The tree, which the walk sees as the design does; then it is unmounted, checked, and the same in the next mount.
    fn tree(self) -> check::tree::Tree {
        let Self { storage, part, mount, programs } = self;
        let tree = observe(mount.file_system()).expect("a sound tree");
        let dirs = tree.iter().filter(|(_, entry)| entry.kind == FileKind::Directory).map(|(path, _)| path);
        for path in dirs.flat_map(|dir| NAMES.map(|name| format!("/{dir}/{name}"))) {
            let (by_design, by_walk) = (programs[0].lstat(path.as_bytes()), format!("/.{path}"));
            assert_eq!(by_design, programs[0].lstat(by_walk.as_bytes()), "{path}");
        }
        drop(programs);
        mount.drop_cached_names();
        assert_eq!(mount.cached_names(), 0, "something was left open");
        mount.unmount().expect("unmount");
        drop(mount);
        let crest = fs::by_name("crest").expect("crest is a design");
        assert_eq!(crest.format().fsck(&storage).violations, []);
        let again = observe(&*mounted(&storage, part, false)).expect("a sound tree");
        assert_eq!(difference(&again, &without_times(tree.clone())), None);
        tree
    }
}

fn perm(perm: u32) -> SetAttr {
    SetAttr { perm: Some(perm), ..SetAttr::default() }
}

/// What is seen of a file, but for its number and times.
fn shown(attr: Attr) -> String {
    format!("{:?} {:o} {} {:?} {}", attr.kind, attr.perm, attr.nlink, attr.owner, attr.size)
}

// ---- random calls ----

const NAMES: [&str; 6] = ["a", "b", "c", "d", "l", "m"];

/// Draws the same for both worlds.
#[derive(Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len() as u64) as usize]
    }

    fn path(&mut self) -> Vec<u8> {
        let mut path = self.of(&["/", "/", "", "//"]).to_owned();
        for part in 0..=self.roll(3) {
            path += if part > 0 { self.of(&["/", "/", "/", "//"]) } else { "" };
            let _ = match self.roll(30) {
                0 => write!(path, ".."),
                1 => write!(path, "."),
                2 => write!(path, "{}", "n".repeat(256)),
                3 => write!(path, "a\0"),
                4 => write!(path, "{}", "long".repeat(9)),
                _ => write!(path, "{}", self.of(&NAMES)),
            };
        }
        path += if self.roll(12) == 0 { "/" } else { "" };
        path.into_bytes()
    }
}

fn done((): ()) -> String {
    "done".to_owned()
}

/// One call of a program; what it draws does not depend on what it answers.
fn call(process: &Process, dice: &mut Dice) -> String {
    let (number, path, other) = (dice.roll(22), dice.path(), dice.path());
    let mode = dice.of(&[0o777, 0o755, 0o700, 0o1777, 0o666, 0o2775]);
    let open = |flags| {
        process.open(&path, flags, mode).and_then(|fd| {
            let seen = process.fstat(fd).map(shown);
            process.close(fd).and(seen)
        })
    };
    let rename = |flags| process.rename(&path, &other, flags).map(done);
    let answer = match number {
        0..=4 => open(MAKE | dice.of(&[OpenFlags::EXCLUSIVE, OpenFlags::TRUNCATE, OpenFlags::NOFOLLOW])),
        5..=6 => process.mkdir(&path, mode).map(done),
        7 => process.rmdir(&path).map(done),
        8 => process.mknod(&path, dice.of(&[FileKind::Fifo, FileKind::CharDevice]), mode, 5).map(done),
        9 => process.symlink(&other, &path).map(done),
        10..=11 => process.unlink(&path).map(done),
        12..=13 => rename(RenameFlags::empty()),
        14 => rename(dice.of(&[RenameFlags::NOREPLACE, RenameFlags::EXCHANGE, RenameFlags::WHITEOUT])),
        15..=16 => process.link(&path, &other).map(done),
        17 => process.chdir(&path).map(done),
        18 => process.setattr(&path, &perm(mode)).map(done),
        19 => process.stat(&path).map(shown),
        20 => process.lstat(&path).map(shown),
        _ => open(OpenFlags::READ),
    };
    answer.unwrap_or_else(|errno| errno.name().to_owned())
}

/// So many random calls in both worlds.
fn compare(seed: u64, calls: u32) {
    let mut dice = Dice(seed);
    let dentries = dice.of(&[0, 1 << 10]);
    let [with, without] = [true, false].map(|resolves| World::new(resolves, dentries));
    for number in 0..calls {
        let user = dice.of(&[0, 0, 1, 2]);
        let mut again = dice.clone();
        let answer = call(&with.programs[user], &mut dice);
        assert_eq!(
            answer,
            call(&without.programs[user], &mut again),
            "seed {seed}, call {number} of user {user}"
        );
        if dice.roll(40) == 0 {
            with.mount.drop_cached_names();
            without.mount.drop_cached_names();
        }
    }
    let [with, without] = [with, without].map(|world| without_times(world.tree()));
    assert_eq!(difference(&with, &without), None, "seed {seed}");
}

#[test]
fn calls_by_paths_answer_as_without_that_part_and_leave_the_same_tree() {
    let many = std::env::var("WEIR_CREST_DEPTH").is_ok_and(|depth| depth == "long");
    for seed in SEED..SEED + if many { 5_000 } else { 200 } {
        harness::virtually(seed, move || compare(seed, 250));
    }
}

/// What a user who must not search `/a` may do by paths through it: nothing, until they may.
#[test]
fn no_path_leads_through_a_directory_that_must_not_be_searched() {
    harness::virtually(SEED, || {
        for resolves in [true, false] {
            let world = World::new(resolves, 1 << 10);
            let [root, user, _] = &world.programs[..] else { panic!("three programs") };
            let chmod = |path: &[u8], mode| root.setattr(path, &perm(mode)).expect("there");
            for dir in [b"/a".as_slice(), b"/a/d"] {
                root.mkdir(dir, 0o777).expect("new");
                chmod(dir, 0o777);
            }
            for file in [b"/a/b".as_slice(), b"/a/d/b", b"/a/d/c"] {
                root.mknod(file, FileKind::Regular, 0o666, 0).expect("new");
                chmod(file, 0o666);
            }
            let calls = || {
                let plain = RenameFlags::empty();
                [
                    make(user, "/a/b", MAKE),
                    make(user, "/a/d/b", MAKE),
                    make(user, "/a/d/l", MAKE),
                    user.stat(b"/a/b").map(|_| done(())),
                    user.link(b"/a/d/b", b"/a/d/m").map(done),
                    rename(user, "/a/d/c", "/a/c", plain),
                    user.unlink(b"/a/d/b").map(done),
                ]
            };
            chmod(b"/a", 0o766);
            assert_eq!(calls(), [const { Err(Errno::EACCES) }; 7], "{resolves}");
            chmod(b"/a", 0o777);
            assert!(calls().iter().all(Result::is_ok), "{resolves}");
            world.tree();
        }
    });
}

// ---- two at once ----

/// A call of a program by name; what it answers.
type Act = (&'static str, fn(&[Process]) -> vfs::Result<String>);

fn make(process: &Process, path: &str, flags: OpenFlags) -> vfs::Result<String> {
    process.open(path.as_bytes(), flags, 0o644).and_then(|fd| process.close(fd)).map(done)
}

fn rename(process: &Process, from: &str, to: &str, flags: RenameFlags) -> vfs::Result<String> {
    process.rename(from.as_bytes(), to.as_bytes(), flags).map(done)
}

const ACTS: &[Act] = &[
    ("create", |all| make(&all[0], "/a/n", MAKE)),
    ("create alone", |all| make(&all[0], "/a/n", MAKE | OpenFlags::EXCLUSIVE)),
    ("create below", |all| make(&all[0], "/a/d/n", MAKE)),
    ("create inside", |all| make(&all[1], "n", MAKE)),
    ("symlink", |all| all[0].symlink(b"f", b"/a/n").map(done)),
    ("mkdir", |all| all[0].mkdir(b"/a/n", 0o755).map(done)),
    ("unlink", |all| all[0].unlink(b"/a/f").map(done)),
    ("unlink by a user", |all| all[2].unlink(b"/a/f").map(done)),
    ("rmdir", |all| all[0].rmdir(b"/a/d").map(done)),
    ("rename", |all| rename(&all[0], "/a/f", "/a/n", RenameFlags::empty())),
    ("rename over", |all| rename(&all[0], "/a/f", "/b/g", RenameFlags::empty())),
    ("rename back", |all| rename(&all[0], "/b/g", "/a/f", RenameFlags::NOREPLACE)),
    ("exchange", |all| rename(&all[0], "/a/f", "/b/g", RenameFlags::EXCHANGE)),
    ("move a directory", |all| rename(&all[0], "/a/d", "/b/d", RenameFlags::empty())),
    ("move all", |all| rename(&all[0], "/a", "/b/a", RenameFlags::empty())),
    ("stat", |all| all[0].stat(b"/a/n").map(shown)),
];

/// What two acts answer, each in its place, and the tree that they leave.
fn acted(acts: [Act; 2], in_turn: Option<[usize; 2]>) -> (Vec<String>, String) {
    let world = World::new(true, 1 << 10);
    let root = &world.programs[0];
    for dir in ["/a", "/b", "/a/d"] {
        root.mkdir(dir.as_bytes(), 0o777).expect("new");
    }
    for file in ["/a/f", "/b/g"] {
        root.mknod(file.as_bytes(), FileKind::Regular, 0o644, 0).expect("new");
    }
    world.programs[1].chdir(b"/a/d").expect("there");
    let world = Arc::new(world);
    let act = |number: usize| {
        let world = Arc::clone(&world);
        move || acts[number].1(&world.programs).unwrap_or_else(|errno| errno.name().to_owned())
    };
    let mut answers = vec![String::new(); 2];
    match in_turn {
        Some(order) => order.into_iter().for_each(|number| answers[number] = act(number)()),
        None => {
            let tasks = [0, 1].map(|number| sim::spawn(TaskSpec::named(acts[number].0), act(number)));
            answers = tasks.map(sim::JoinHandle::join).into();
        }
    }
    let tree = Arc::into_inner(world).expect("the tasks have ended").tree();
    let line = |(path, entry): (&String, &check::tree::Entry)| {
        format!("{path} {:?} {:o} {} {}", entry.kind, entry.perm, entry.nlink, entry.same_as)
    };
    (answers, tree.iter().map(line).collect::<Vec<_>>().join("\n"))
}

#[test]
fn two_calls_by_paths_at_once_are_as_one_after_the_other() {
    let setup = |seed| Setup::virtual_clock(Machine::unit(), Seed(seed));
    let mut outcomes = BTreeSet::new();
    for (number, one) in ACTS.iter().enumerate() {
        for other in &ACTS[number..] {
            let acts = [*one, *other];
            let in_turn = |order| sim::run(&setup(SEED), move || acted(acts, Some(order))).expect("it ends");
            let allowed = [[0, 1], [1, 0]].map(in_turn);
            for seed in SEED..SEED + 10 {
                let schedule = match seed % 2 {
                    0 => Schedule::Random,
                    _ => Schedule::Pct { depth: 3, length: 200 },
                };
                let (seen, _) = sim::explore(&setup(seed), &schedule, move || acted(acts, None));
                let seen = seen.expect("it ends");
                let names = acts.map(|act| act.0);
                assert!(allowed.contains(&seen), "{names:?}, seed {seed}: {seen:#?}, but {allowed:#?}");
                outcomes.insert(seen);
            }
        }
    }
    assert!(outcomes.len() > 60, "{} outcomes: tasks switch", outcomes.len());
}
