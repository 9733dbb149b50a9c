//! Scenarios: what several tasks do to one small tree.
//!
//! The name of a scenario describes it completely: `full: open-unlink; create | append` has two tasks, of which the first
//! performs two actions, on a tree with hardly any space left; `worn: create | create` begins where the log of the design is
//! full of
//! records that are dead. A failure can therefore be repeated by name.

use std::collections::BTreeSet;

use rand::RngExt;
use sim::Rng;
use vfs::{FallocateMode, RenameFlags, XattrMode};

use crate::op::{File, Op, Pattern, split};

/// What all scenarios begin with.
pub(super) const TREE: &[&str] = &["A", "B", "A/dir"];
/// Its files, with their sizes.
pub(super) const FILES: &[(&str, usize)] = &[("A/foo", 6000), ("A/bar", 100), ("B/baz", 4096), ("other", 0)];

const ATTRIBUTE: &str = "user.a";

/// Creations and removals of `churn`: more than a small journal holds, so that it wraps.
const CHURN: usize = 70;

/// Something that a task does, by name: what it is made of, given the number of its task.
type Action = (&'static str, fn(u8) -> Vec<Op>);

fn at(path: &str) -> File {
    File::At(path.to_owned())
}

fn path(path: &str) -> String {
    path.to_owned()
}

fn write(to: &str, offset: Option<u64>, len: usize, tag: u8) -> Vec<Op> {
    vec![Op::Write(at(to), offset, Pattern { len, tag })]
}

fn rename(from: &str, to: &str, flags: RenameFlags) -> Vec<Op> {
    vec![Op::Rename(path(from), path(to), flags)]
}

fn fallocate(mode: FallocateMode, offset: u64, len: u64) -> Vec<Op> {
    vec![Op::Fallocate(at("A/foo"), mode, offset, len)]
}

fn set_attribute(mode: XattrMode, len: usize, task: u8) -> Vec<Op> {
    vec![Op::SetXattr(path("A/foo"), ATTRIBUTE.to_owned(), Pattern { len, tag: 60 + task }, mode)]
}

/// Everything that a task can do. Most of it meets at `A/foo`, `A`, or the name `A/new`.
const ACTIONS: &[Action] = &[
    ("create", |_| vec![Op::Create(path("A/new"))]),
    ("mkdir", |_| vec![Op::Mkdir(path("A/new"))]),
    ("symlink", |_| vec![Op::Symlink(path("A/new"), 60)]),
    ("unlink", |_| vec![Op::Unlink(path("A/foo"))]),
    ("rmdir", |_| vec![Op::Rmdir(path("A/dir"))]),
    ("create-below", |_| vec![Op::Create(path("A/dir/x"))]),
    ("link", |_| vec![Op::Link(path("A/foo"), path("A/new"))]),
    ("rename", |_| rename("A/foo", "A/new", RenameFlags::empty())),
    ("rename-away", |_| rename("A/foo", "B/foo", RenameFlags::empty())),
    ("rename-over", |_| rename("A/bar", "A/foo", RenameFlags::empty())),
    ("rename-back", |_| rename("B/baz", "A/foo", RenameFlags::empty())),
    ("exchange", |_| rename("A/foo", "B/baz", RenameFlags::EXCHANGE)),
    ("whiteout", |_| rename("A/foo", "B/baz", RenameFlags::WHITEOUT)),
    ("move-dir", |_| rename("A/dir", "B/dir", RenameFlags::empty())),
    ("nest", |_| rename("A", "B/A", RenameFlags::empty())),
    ("nest-back", |_| rename("B", "A/B", RenameFlags::empty())),
    ("write", |task| write("A/foo", Some(3000), 2500, 10 + task)),
    ("append", |task| write("A/foo", None, 3000, 20 + task)),
    ("extend", |task| write("A/foo", Some(20_000), 500, 30 + task)),
    ("read", |_| vec![Op::Read(at("A/foo"), 0, 30_000)]),
    ("cut", |_| vec![Op::Truncate(at("A/foo"), 100)]),
    ("grow", |_| vec![Op::Truncate(at("A/foo"), 12_000)]),
    ("punch", |_| fallocate(FallocateMode::PUNCH_HOLE | FallocateMode::KEEP_SIZE, 0, 4096)),
    ("zero", |_| fallocate(FallocateMode::ZERO_RANGE, 1000, 7000)),
    ("reserve", |_| fallocate(FallocateMode::empty(), 5000, 9000)),
    ("fsync", |_| vec![Op::Fsync(at("A/foo"))]),
    ("sync", |_| vec![Op::Sync]),
    ("list", |_| vec![Op::ReadDir(path("A"))]),
    ("chmod", |_| vec![Op::Chmod(path("A/foo"), 0o600)]),
    ("chown", |_| vec![Op::ChmodChown(path("A/foo"), 0o640, 5, 6)]),
    ("attribute", |task| set_attribute(XattrMode::Set, 100, task)),
    ("new-attribute", |task| set_attribute(XattrMode::Create, 3000, task)),
    ("no-attribute", |_| vec![Op::RemoveXattr(path("A/foo"), ATTRIBUTE.to_owned())]),
    ("push", |task| write("other", Some(0), 12_288, 40 + task)),
    ("open-unlink", |task| {
        let number = usize::from(task);
        vec![Op::Open(path("A/foo"), number), Op::Unlink(path("A/foo")), Op::Close(number)]
    }),
    ("orphan-append", |task| {
        let number = usize::from(task);
        let append = Op::Write(File::Opened(number), None, Pattern { len: 5000, tag: 50 + task });
        vec![Op::Open(path("A/foo"), number), Op::Unlink(path("A/foo")), append, Op::Close(number)]
    }),
    ("churn", |task| {
        let name = format!("churn{task}");
        (0..CHURN).flat_map(|_| [Op::Create(name.clone()), Op::Unlink(name.clone())]).collect()
    }),
];

/// Those that take or give space.
const SPACE: &[&str] = &[
    "create",
    "mkdir",
    "unlink",
    "link",
    "append",
    "extend",
    "cut",
    "reserve",
    "attribute",
    "punch",
    "push",
    "fsync",
    "rename-over",
    "orphan-append",
];
/// Those that are run beside `churn`.
const BESIDE_CHURN: &[&str] =
    &["append", "extend", "push", "create", "rename-away", "cut", "unlink", "fsync", "churn"];

/// What a scenario begins with besides the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// Nothing.
    Usual,
    /// Hardly any space: a call may answer `ENOSPC`.
    Full,
    /// So many changes that the next one has to clean. There is space enough, and no call may answer `ENOSPC`.
    Worn,
}

/// The marks of scenarios.
const MARKS: [(&str, Start); 2] = [("full: ", Start::Full), ("worn: ", Start::Worn)];
const FULL: &str = MARKS[0].0;

/// Tasks, each with its operations, and what they begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Its name, which describes it completely.
    pub name: String,
    pub(super) start: Start,
    pub(super) tasks: Vec<Vec<Op>>,
}

impl Scenario {
    /// The scenario of that name; an error names what there is.
    pub fn named(name: &str) -> Result<Self, String> {
        let marked = MARKS.iter().find_map(|(mark, start)| Some((*start, name.strip_prefix(mark)?)));
        let (start, tasks) = marked.unwrap_or((Start::Usual, name));
        let tasks = tasks.split('|').zip(0..).map(|(actions, task)| {
            let ops = actions.split(';').map(|action| ops_of(action.trim(), task));
            Ok(ops.collect::<Result<Vec<_>, String>>()?.concat())
        });
        Ok(Self { name: name.to_owned(), start, tasks: tasks.collect::<Result<_, String>>()? })
    }

    /// What must mean one inode throughout, so that each operation is one call: the paths that operations resolve. A name that is
    /// made, removed or replaced is not among them, unless another operation goes through it. Where two calls meet and no name can
    /// change its meaning, nothing need be pinned, and what is removed is not open.
    pub(super) fn pins(&self) -> BTreeSet<String> {
        let ops: Vec<&Op> = self.tasks.iter().flatten().collect();
        if ops.len() <= 2 && self.tasks.len() == 2 && !ops.iter().any(|op| matches!(op, Op::Rename(..))) {
            return BTreeSet::new();
        }
        let mut pins: BTreeSet<String> = ops.into_iter().flat_map(resolved).map(str::to_owned).collect();
        pins.remove("");
        pins
    }
}

/// The paths that an operation looks up before it is carried out.
pub(crate) fn resolved(op: &Op) -> Vec<&str> {
    match op {
        Op::Create(path)
        | Op::Mkdir(path)
        | Op::Mknod(path, ..)
        | Op::Symlink(path, _)
        | Op::Unlink(path)
        | Op::Rmdir(path) => {
            vec![split(path).0]
        }
        Op::Rename(from, to, _) => vec![split(from).0, split(to).0],
        Op::Link(from, to) => vec![from, split(to).0],
        Op::LinkOpened(_, to) => vec![split(to).0],
        Op::Write(file, ..)
        | Op::Read(file, ..)
        | Op::Truncate(file, _)
        | Op::Fallocate(file, ..)
        | Op::Fsync(file) => match file {
            File::At(path) => vec![path],
            File::Opened(_) => Vec::new(),
        },
        Op::Clone((from, _), (to, _), _) => {
            let paths = [from, to].into_iter().filter_map(|file| match file {
                File::At(path) => Some(path.as_str()),
                File::Opened(_) => None,
            });
            paths.collect()
        }
        Op::Chmod(path, _)
        | Op::Chown(path, ..)
        | Op::ChmodChown(path, ..)
        | Op::Utimes(path, ..)
        | Op::SetXattr(path, ..)
        | Op::RemoveXattr(path, _)
        | Op::ReadDir(path)
        | Op::Open(path, _)
        | Op::Map(path, _) => vec![path],
        Op::Nameless(_)
        | Op::Close(_)
        | Op::Sync
        | Op::Unmap(_)
        | Op::Store(..)
        | Op::Load(..)
        | Op::Msync(_)
        | Op::Remount => Vec::new(),
    }
}

fn ops_of(action: &str, task: u8) -> Result<Vec<Op>, String> {
    let known = ACTIONS.iter().find(|(name, _)| *name == action);
    known.map(|(_, ops)| ops(task)).ok_or_else(|| {
        let names: Vec<_> = ACTIONS.iter().map(|(name, _)| *name).collect();
        format!(
            "no action is called \"{action}\"; a scenario is like \"full: create; sync | append\", of: {}",
            names.join(", ")
        )
    })
}

fn known(name: &str) -> Scenario {
    Scenario::named(name).expect("the tables of actions agree")
}

/// Every pair of actions, including each with itself; pairs in which space runs out; pairs in which the journal wraps.
pub fn pairs() -> Vec<Scenario> {
    let usual: Vec<_> = ACTIONS.iter().map(|(name, _)| *name).filter(|name| *name != "churn").collect();
    let both = |names: &[&str], mark: &str| -> Vec<Scenario> {
        let pairs = (0..names.len()).flat_map(|one| (one..names.len()).map(move |other| (one, other)));
        pairs.map(|(one, other)| known(&format!("{mark}{} | {}", names[one], names[other]))).collect()
    };
    let mut all = both(&usual, "");
    all.extend(both(SPACE, FULL));
    all.extend(BESIDE_CHURN.iter().map(|name| known(&format!("{name} | churn"))));
    all
}

/// Three tasks with an action each, or two to four tasks with one to three; one in four on the full tree.
pub fn draw(rng: &mut Rng) -> Scenario {
    let triple = rng.random_range(0..2) == 0;
    let tasks = if triple { 3 } else { rng.random_range(2..=4) };
    let task = |rng: &mut Rng| {
        let actions = if triple { 1 } else { rng.random_range(1..=3) };
        let names = (0..actions).map(|_| ACTIONS[rng.random_range(0..ACTIONS.len() - 1)].0);
        names.collect::<Vec<_>>().join("; ")
    };
    let tasks: Vec<_> = (0..tasks).map(|_| task(rng)).collect();
    let mark = if rng.random_range(0..4) == 0 { FULL } else { "" };
    known(&format!("{mark}{}", tasks.join(" | ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_to_its_tasks_and_back() {
        let scenario = Scenario::named("full: open-unlink; create | append").unwrap();
        assert_eq!(scenario.start, Start::Full);
        assert_eq!(scenario.tasks.iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
        let unknown = Scenario::named("create | fly").unwrap_err();
        assert!(unknown.contains("\"fly\"") && unknown.contains("append"), "{unknown}");
    }

    #[test]
    fn every_pair_is_there_once() {
        let names: BTreeSet<_> = pairs().into_iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), pairs().len());
        let usual = ACTIONS.len() - 1;
        assert_eq!(
            names.len(),
            usual * (usual + 1) / 2 + SPACE.len() * (SPACE.len() + 1) / 2 + BESIDE_CHURN.len()
        );
    }

    #[test]
    fn only_what_may_change_its_meaning_is_pinned() {
        let pins = |name: &str| known(name).pins().into_iter().collect::<Vec<_>>();
        assert_eq!(pins("unlink | append"), Vec::<String>::new());
        assert_eq!(pins("unlink | rename-over"), ["A"]);
        assert_eq!(pins("unlink | append | create"), ["A", "A/foo"]);
    }
}
