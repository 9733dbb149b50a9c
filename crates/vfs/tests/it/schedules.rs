//! The front end in other orders than that of time: whatever turns tasks take, some sequential order of their calls explains every
//! answer and the tree that they leave.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::memfs::MemFs;
use sim::{Machine, Schedule, Seed, Setup, TaskSpec};
use vfs::{
    Credentials, Errno, Fd, FileKind, Linux, Mount, MountOptions, OpenFlags, Process, RenameFlags, SetAttr,
    Syscalls,
};

const WRITE: OpenFlags = OpenFlags::WRITE;
const MAKE: OpenFlags = WRITE.union(OpenFlags::CREATE);

/// A small tree and three programs on it.
struct World {
    fs: Arc<MemFs>,
    mount: Arc<Mount>,
    root: Process,
    /// Of an ordinary user, who may write `/A/set`.
    user: Process,
    set: Fd,
    /// Its working directory is `/A/d`.
    inside: Process,
}

impl World {
    fn new(kernel: Option<Linux>) -> Self {
        let fs = Arc::new(MemFs::new().resolving(true));
        let options = MountOptions { kernel, dentries: 0, ..MountOptions::default() };
        let mount = Mount::new(fs.clone(), options).expect("it has a root");
        let process = |uid| Process::new(Arc::clone(&mount), Credentials::new(uid, uid, &[]));
        let (root, user, inside) = (process(0), process(7), process(0));
        for dir in ["/A", "/B", "/A/d"] {
            root.mkdir(dir.as_bytes(), 0o755).expect("new");
        }
        for (path, perm) in [("/A/f", 0o644), ("/B/g", 0o640), ("/A/set", 0o4777)] {
            root.mknod(path.as_bytes(), FileKind::Regular, 0o600, 0).expect("new");
            root.setattr(path.as_bytes(), &chmod(perm)).expect("there");
        }
        let set = user.open(b"/A/set", WRITE, 0).expect("all may write it");
        inside.chdir(b"/A/d").expect("there");
        Self { fs, mount, root, user, set, inside }
    }

    /// Every name below `dir`, with what can be seen of it.
    fn list(&self, dir: &str, lines: &mut Vec<String>) {
        let fd = self.root.open(if dir.is_empty() { b"/" } else { dir.as_bytes() }, OpenFlags::READ, 0);
        let fd = fd.expect("a directory");
        let mut names = Vec::new();
        let listed = self.root.getdents(fd, &mut |entry| {
            names.push(String::from_utf8_lossy(entry.name).into_owned());
            true
        });
        listed.and_then(|()| self.root.close(fd)).expect("open");
        names.retain(|name| name != "." && name != "..");
        names.sort();
        for name in names {
            let path = format!("{dir}/{name}");
            let attr = self.root.lstat(path.as_bytes()).expect("listed");
            let size = if attr.kind == FileKind::Directory { 0 } else { attr.size };
            lines.push(format!("{path} {:?} {:o} {} {size}", attr.kind, attr.perm, attr.nlink));
            if attr.kind == FileKind::Directory {
                self.list(&path, lines);
            }
        }
    }

    /// The tree, as this mount and as a fresh one see it.
    fn tree(self) -> String {
        let mut seen = Vec::new();
        self.list("", &mut seen);
        let Self { fs, mount, root, user, inside, .. } = self;
        drop((root, user, inside));
        mount.drop_cached_names();
        assert_eq!((fs.opens(), mount.cached_names()), (0, 0), "something was left open");
        drop(mount);
        let mount = Mount::new(fs.clone(), MountOptions::default()).expect("it has a root");
        let process = || Process::new(Arc::clone(&mount), Credentials::root());
        let fresh = Self {
            root: process(),
            user: process(),
            inside: process(),
            set: Fd(0),
            fs,
            mount: mount.clone(),
        };
        let mut known = Vec::new();
        fresh.list("", &mut known);
        assert_eq!(seen, known, "the cache is not what the file system has");
        seen.join("\n")
    }
}

fn chmod(perm: u32) -> SetAttr {
    SetAttr { perm: Some(perm), ..SetAttr::default() }
}

/// One call of a program, by name; what it answers.
type Act = (&'static str, fn(&World) -> Result<String, Errno>);

fn done((): ()) -> String {
    "done".to_owned()
}

fn rename(world: &World, from: &str, to: &str, flags: RenameFlags) -> Result<String, Errno> {
    world.root.rename(from.as_bytes(), to.as_bytes(), flags).map(done)
}

fn make(process: &Process, path: &str, flags: OpenFlags) -> Result<String, Errno> {
    process.open(path.as_bytes(), flags, 0o640).and_then(|fd| process.close(fd)).map(done)
}

fn stat(process: &Process, path: &str) -> Result<String, Errno> {
    process.stat(path.as_bytes()).map(|attr| format!("{:?} {:o} {}", attr.kind, attr.perm, attr.size))
}

const NAMES: &[Act] = &[
    ("create", |w| make(&w.root, "/A/n", MAKE)),
    ("create alone", |w| make(&w.root, "/A/n", MAKE | OpenFlags::EXCLUSIVE)),
    ("create over", |w| make(&w.root, "/A/f", MAKE | OpenFlags::TRUNCATE)),
    ("create below", |w| make(&w.root, "/A/d/x", MAKE)),
    ("create inside", |w| make(&w.inside, "x", MAKE)),
    ("look inside", |w| stat(&w.inside, "x")),
    ("look up from inside", |w| stat(&w.inside, "../f")),
    ("mkdir", |w| w.root.mkdir(b"/A/n", 0o755).map(done)),
    ("mkdir below", |w| w.root.mkdir(b"/A/d/x", 0o755).map(done)),
    ("symlink", |w| w.root.symlink(b"f", b"/A/n").map(done)),
    ("stat", |w| stat(&w.root, "/A/f")),
    ("stat new", |w| stat(&w.root, "/A/n")),
    ("stat moved", |w| stat(&w.root, "/B/A/f")),
    ("unlink", |w| w.root.unlink(b"/A/f").map(done)),
    ("unlink other", |w| w.root.unlink(b"/B/g").map(done)),
    ("rmdir", |w| w.root.rmdir(b"/A/d").map(done)),
    ("rmdir full", |w| w.root.rmdir(b"/B").map(done)),
    ("link", |w| w.root.link(b"/A/f", b"/A/n").map(done)),
    ("link away", |w| w.root.link(b"/A/f", b"/B/n").map(done)),
    ("rename", |w| rename(w, "/A/f", "/A/n", RenameFlags::empty())),
    ("rename away", |w| rename(w, "/A/f", "/B/n", RenameFlags::empty())),
    ("rename over", |w| rename(w, "/A/f", "/B/g", RenameFlags::empty())),
    ("rename back", |w| rename(w, "/B/g", "/A/f", RenameFlags::empty())),
    ("rename alone", |w| rename(w, "/B/g", "/A/n", RenameFlags::NOREPLACE)),
    ("exchange", |w| rename(w, "/A/f", "/B/g", RenameFlags::EXCHANGE)),
    ("exchange with dir", |w| rename(w, "/A/d", "/B/g", RenameFlags::EXCHANGE)),
    ("move dir", |w| rename(w, "/A/d", "/B/d", RenameFlags::empty())),
    ("move dir over", |w| rename(w, "/A/d", "/A/n", RenameFlags::empty())),
    ("nest", |w| rename(w, "/A", "/B/A", RenameFlags::empty())),
    ("nest back", |w| rename(w, "/B", "/A/d/B", RenameFlags::empty())),
];

/// Two walks that are not one step, in the kernel neither: a call has found its source or its directory, which moves, and then
/// finds
/// the other name taken, the source without a name, or the one directory above the other.
const IN_STEPS: &[(&str, &str)] = &[
    ("link", "rename"),
    ("link", "rename back"),
    ("link away", "rename away"),
    ("link away", "rename back"),
    ("exchange with dir", "nest back"),
    ("move dir", "nest back"),
    ("nest", "nest back"),
];

/// Calls on `/A/set`. That its set-id bits go is a step of a write by itself, in the kernel too, so sizes are not looked at.
const RIGHTS: &[Act] = &[
    ("write", |w| w.user.write(w.set, b"data").map(|bytes| bytes.to_string())),
    ("cut", |w| w.user.ftruncate(w.set, 1).map(done)),
    ("reserve", |w| w.user.fallocate(w.set, vfs::FallocateMode::empty(), 0, 9).map(done)),
    ("chmod", |w| w.root.setattr(b"/A/set", &chmod(0o600)).map(done)),
    ("chmod set-id", |w| w.root.setattr(b"/A/set", &chmod(0o6755)).map(done)),
    ("chmod by owner", |w| w.user.setattr(b"/A/set", &chmod(0o4711)).map(done)),
    ("give", |w| w.root.setattr(b"/A/set", &SetAttr { uid: Some(7), ..SetAttr::default() }).map(done)),
    ("take", |w| w.root.setattr(b"/A/set", &SetAttr { uid: Some(0), ..SetAttr::default() }).map(done)),
    ("open to write", |w| make(&w.user, "/A/set", WRITE)),
    ("stat", |w| w.user.stat(b"/A/set").map(|attr| format!("{:o} {}", attr.perm, attr.owner.uid))),
];

/// The answers in the order of the acts, and the tree.
type Shown = (Vec<String>, String);

fn answer(world: &World, act: Act) -> String {
    (act.1)(world).unwrap_or_else(|errno| errno.name().to_owned())
}

/// What the acts show one after the other, in every order.
fn sequentially(acts: &[Act], kernel: Option<Linux>) -> BTreeSet<Shown> {
    let mut shown = BTreeSet::new();
    for order in orders(acts.len()) {
        let world = World::new(kernel);
        let mut answers = vec![String::new(); acts.len()];
        for number in order {
            answers[number] = answer(&world, acts[number]);
        }
        shown.insert((answers, world.tree()));
    }
    shown
}

fn orders(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let shorter = orders(count - 1);
    let with = |order: &Vec<usize>, at: usize| {
        let mut order = order.clone();
        order.insert(at, count - 1);
        order
    };
    shorter.iter().flat_map(|order| (0..count).map(move |at| with(order, at))).collect()
}

/// What they show at once, each in a task of its own.
fn together(acts: &[Act], kernel: Option<Linux>, schedule: &Schedule, seed: u64) -> Shown {
    let acts = acts.to_vec();
    let setup = Setup::virtual_clock(Machine::unit(), Seed(seed));
    let (shown, _) = sim::explore(&setup, schedule, move || {
        let world = Arc::new(World::new(kernel));
        let tasks: Vec<_> = acts
            .into_iter()
            .map(|act| {
                let world = Arc::clone(&world);
                sim::spawn(TaskSpec::named(act.0), move || answer(&world, act))
            })
            .collect();
        let answers = tasks.into_iter().map(sim::JoinHandle::join).collect();
        let world = Arc::into_inner(world).expect("the tasks have ended");
        (answers, world.tree())
    });
    shown.expect("the run ends")
}

fn check(acts: &[Act], seeds: u64) {
    for kernel in [None, Some(Linux { major: 3, minor: 11 }), Some(Linux { major: 4, minor: 7 })] {
        let allowed = sequentially(acts, kernel);
        for seed in 0..seeds {
            let schedule = match seed % 2 {
                0 => Schedule::Random,
                _ => Schedule::Pct { depth: 3, length: 60 },
            };
            let shown = together(acts, kernel, &schedule, seed);
            let names: Vec<_> = acts.iter().map(|act| act.0).collect();
            assert!(
                allowed.contains(&shown),
                "{names:?}, {kernel:?}, seed {seed}, {schedule:?}: no order of the calls shows {shown:#?} but {allowed:#?}"
            );
        }
    }
}

#[test]
fn any_two_calls_on_names_at_once_are_as_one_after_the_other() {
    for (number, one) in NAMES.iter().enumerate() {
        for other in &NAMES[number..] {
            if !IN_STEPS.contains(&(one.0, other.0)) {
                check(&[*one, *other], 12);
            }
        }
    }
}

#[test]
fn any_two_changes_of_rights_at_once_are_as_one_after_the_other() {
    for one in RIGHTS {
        for other in RIGHTS {
            check(&[*one, *other], 30);
        }
    }
}
