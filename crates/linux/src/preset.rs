//! Presets of kernels: what file systems share between cores, with a source for each object and each operation.
//!
//! The format is described in docs/designs/linux.md. What is wrong is told with file, line and column, all of it at once as far as
//! it does not follow from something else that is wrong. A preset with a `base` has the rows that differ from that other preset's.

use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock, PoisonError};

use document::{Item, Problem, Problems, Table};
use sim::{LockClass, Nanos};
use vfs::KernelWays;

use super::steps::{Names, Reading, Step, unknown};

/// Presets that come with Weir: the value of the option `kernel`, the file, its text.
static PRESETS: &[(&str, &str, &str)] = &[
    ("4.2", "presets/kernels/linux-4.2.toml", include_str!("../shipped/kernels/linux-4.2.toml")),
    ("6.12", "presets/kernels/linux-6.12.toml", include_str!("../shipped/kernels/linux-6.12.toml")),
];

/// The values of the option `kernel`.
pub(super) const KERNELS: &[&str] = &["4.2", "6.12"];

/// A kernel.
#[derive(Debug)]
pub(super) struct Preset {
    pub(super) objects: Vec<Object>,
    pub(super) systems: Vec<System>,
    /// How often a time stamp changes.
    pub(super) tick: Nanos,
    /// Steps that count passes.
    pub(super) counters: usize,
}

/// Something that cores take from each other.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) name: String,
    pub(super) class: &'static LockClass,
    pub(super) kind: Kind,
    pub(super) of: Scope,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A word that is updated without a lock.
    Line,
    Mutex,
    Spinlock,
    Rwsem,
    /// A lock for which tasks sleep at once.
    Sleeplock,
    /// A thread that serves one request at a time.
    Thread,
}

const KINDS: [(&str, Kind); 6] = [
    ("line", Kind::Line),
    ("mutex", Kind::Mutex),
    ("spinlock", Kind::Spinlock),
    ("rwsem", Kind::Rwsem),
    ("sleeplock", Kind::Sleeplock),
    ("thread", Kind::Thread),
];

impl Kind {
    pub(super) fn word(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// What has one of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    Mount,
    Socket,
    Inode,
    Directory,
    Page,
    /// A block group.
    Group,
    /// 128 locks of groups.
    GroupLock,
    /// A block of group descriptors.
    Descriptors,
    /// A block of the inode table.
    Table,
    /// An allocation group of XFS.
    AllocationGroup,
}

const SCOPES: [(&str, Scope); 10] = [
    ("mount", Scope::Mount),
    ("socket", Scope::Socket),
    ("inode", Scope::Inode),
    ("directory", Scope::Directory),
    ("page", Scope::Page),
    ("group", Scope::Group),
    ("group_lock", Scope::GroupLock),
    ("descriptors", Scope::Descriptors),
    ("table", Scope::Table),
    ("allocation_group", Scope::AllocationGroup),
];

/// An operation, as the interface of file systems has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Lookup,
    Create,
    Link,
    Unlink,
    Rename,
    Readdir,
    Getattr,
    Setattr,
    Truncate,
    Read,
    Write,
    Fsync,
    /// An inode without a name and users is freed.
    Evict,
}

const CALLS: [&str; 13] = [
    "lookup", "create", "link", "unlink", "rename", "readdir", "getattr", "setattr", "truncate", "read",
    "write", "fsync", "evict",
];

/// A file system.
#[derive(Debug)]
pub(super) struct System {
    pub(super) name: String,
    /// What `vfs` charges above it.
    pub(super) ways: KernelWays,
    calls: Vec<Vec<Step>>,
}

impl System {
    /// The steps of an operation.
    pub(super) fn steps(&self, call: Call) -> &[Step] {
        &self.calls[call as usize]
    }
}

impl Preset {
    /// The preset of a kernel, read once.
    pub(super) fn of(kernel: &str) -> Result<&'static Self, Problem> {
        static READ: OnceLock<Vec<Result<Preset, Problem>>> = OnceLock::new();
        let read = || PRESETS.iter().map(|(_, origin, text)| Self::parse(origin, text)).collect();
        let place = PRESETS.iter().position(|(name, ..)| *name == kernel).unwrap_or(0);
        READ.get_or_init(read)[place].as_ref().map_err(Clone::clone)
    }

    /// The file system called `name`.
    pub(super) fn system(&self, name: &str) -> Option<&System> {
        self.systems.iter().find(|system| system.name == name)
    }

    /// Reads a preset.
    pub(super) fn parse(origin: &str, text: &str) -> Result<Self, Problem> {
        document::read(origin, text, |root| {
            let Some(base) = root.get("base") else { return Self::build(Layers { own: root, base: None }) };
            let name = base.text()?;
            let names = || PRESETS.iter().map(|(name, ..)| *name);
            let (_, origin, text) = PRESETS
                .iter()
                .find(|(known, ..)| *known == name)
                .ok_or_else(|| unknown(&base, "preset of a kernel", names()))?;
            document::read(origin, text, |below| {
                if let Some(further) = below.get("base") {
                    return Err(further.problem("a preset that others are built on has no base itself"));
                }
                let built = Self::build(Layers { own: root, base: Some(below) });
                below.take_rest();
                built
            })
        })
    }

    fn build(root: Layers<'_, '_>) -> Result<Self, Problem> {
        let mut all = Problems::default();
        all.take(head(root.own));
        let ways = all.take(above(root));
        let tick = all.take(root.need("timer", "its tick").and_then(|item| item.read(timer)));
        let rows = all.take(root.rows("object", "what is shared"));
        let objects = rows.as_deref().and_then(|rows| all.take(objects(rows)));
        let (Some(ways), Some(tick), Some(rows), Some(objects)) = (ways, tick, rows, objects) else {
            root.own.get("routine");
            root.own.get("fs");
            all.take(root.own.finish());
            return Err(all.finish().expect_err("one of them is wrong"));
        };
        let routines = all.take(root.rows("routine", "what several operations do")).unwrap_or_default();
        let steps = all.take(routine_steps(&routines)).unwrap_or_default();
        let systems = root.systems()?;
        let names = Names { objects: &objects, routines: &steps };
        let mut reading = Reading { used: vec![false; objects.len()], ..Reading::default() };
        let systems = all.take(read_systems(&systems, ways, &names, &mut reading));
        if let Some(systems) = systems {
            all.take(all_used(&rows, &routines, &names, &reading));
            all.finish()?;
            return Ok(Self { systems, tick, counters: reading.counters, objects });
        }
        Err(all.finish().expect_err("no system was read"))
    }
}

/// A preset's file and, below it, the one that it is built on.
#[derive(Clone, Copy)]
struct Layers<'a, 'd> {
    own: &'a Table<'d>,
    base: Option<&'a Table<'d>>,
}

/// A row of a preset.
struct Row<'d> {
    name: String,
    item: Item<'d>,
    /// Whether it stands in the preset's own file.
    own: bool,
}

/// The rows of a file system: its own before those of the preset below.
struct SystemRows<'d> {
    name: String,
    item: Item<'d>,
    hashed: Option<Item<'d>>,
    like: Option<Item<'d>>,
    without: Option<Item<'d>>,
    calls: BTreeMap<String, Item<'d>>,
}

impl<'d> Layers<'_, 'd> {
    /// The value of a key, of the uppermost file that has it.
    fn get(self, key: &'static str) -> Option<Item<'d>> {
        self.own.get(key).or_else(|| self.base.and_then(|base| base.get(key)))
    }

    fn need(self, key: &'static str, why: &str) -> Result<Item<'d>, Problem> {
        match self.get(key) {
            Some(item) => Ok(item),
            None => self.own.need(key, why),
        }
    }

    /// The rows of a table of both files: those of the base first, each with what the own file says of it.
    fn rows(self, key: &'static str, why: &str) -> Result<Vec<Row<'d>>, Problem> {
        self.need(key, why)?;
        let mut rows: Vec<Row<'d>> = Vec::new();
        for (table, own) in [(self.base, false), (Some(self.own), true)] {
            let Some(item) = table.and_then(|table| table.get(key)) else { continue };
            for (name, item) in item.table()?.take_rest() {
                match rows.iter_mut().find(|row| row.name == name) {
                    Some(row) => *row = Row { name, item, own },
                    None => rows.push(Row { name, item, own }),
                }
            }
        }
        Ok(rows)
    }

    fn systems(self) -> Result<Vec<SystemRows<'d>>, Problem> {
        let why = "the file systems, with a table for each operation";
        self.need("fs", why)?;
        let mut systems: Vec<SystemRows<'d>> = Vec::new();
        let mut all = Problems::default();
        for table in self.base.into_iter().chain([self.own]) {
            let Some(item) = table.get("fs") else { continue };
            for (name, item) in item.table()?.take_rest() {
                let Some(table) = all.take(item.table()) else { continue };
                let (hashed, like) = (table.get("hashed"), table.get("like"));
                let (without, calls) = (table.get("without"), table.take_rest().into_iter().collect());
                let row = SystemRows { name, item, hashed, like, without, calls };
                match systems.iter_mut().find(|system| system.name == row.name) {
                    Some(system) => system.overlay(row),
                    None => systems.push(row),
                }
            }
        }
        all.finish().map(|()| systems)
    }
}

impl<'d> SystemRows<'d> {
    fn overlay(&mut self, own: SystemRows<'d>) {
        self.item = own.item;
        self.hashed = own.hashed.or(self.hashed.take());
        self.like = own.like.or(self.like.take());
        self.without = own.without.or(self.without.take());
        self.calls.extend(own.calls);
    }
}

fn head(root: &Table<'_>) -> Result<(), Problem> {
    let mut all = Problems::default();
    for (key, why) in [
        ("summary", "what it is, in one line"),
        ("date", "when the kernel was current"),
        ("tree", "the tree in which sources were read"),
    ] {
        all.take(root.need(key, why).and_then(|item| item.text()));
    }
    let fitted = all.take(root.need("fitted_on", "the claims that a value was fitted on: none"));
    if let Some(fitted) = fitted
        && fitted.words().is_ok_and(|words| !words.is_empty())
    {
        all.take::<()>(Err(
            fitted.problem("nothing in a kernel's preset may be fitted: it says what the source says")
        ));
    }
    all.finish()
}

/// Where a row comes from.
fn source(table: &Table<'_>) -> Result<(), Problem> {
    let item = table.need("source", "the file and line that say so")?;
    if item.text()?.trim().is_empty() {
        Err(item.problem("has no source: say which file and line say so"))
    } else {
        Ok(())
    }
}

/// A row of `[above]`: lines that move with a lock.
fn lines(table: &Table<'_>) -> Result<u64, Problem> {
    source(table)?;
    table.need("fields", "the fields on these lines")?.text()?;
    table.need("lines", "how many lines move with the lock")?.number()
}

fn above(root: Layers<'_, '_>) -> Result<KernelWays, Problem> {
    root.need("above", "what vfs charges")?;
    let own = root.own.get("above").map(|item| item.table()).transpose()?;
    let base = root.base.and_then(|base| base.get("above")).map(|item| item.table()).transpose()?;
    let (Some(own), base) = (own.as_ref().or(base.as_ref()), base.as_ref()) else {
        unreachable!("it is there")
    };
    let table = Layers { own, base };
    let mut all = Problems::default();
    let mut of = |key: &'static str, why: &str| {
        all.take(table.need(key, why).and_then(|item| item.read(lines))).unwrap_or(0)
    };
    let mut ways = KernelWays {
        directory_change: of("directory_change", "lines of a change under a directory's lock"),
        directory_listing: of("directory_listing", "lines of a listing under a directory's lock"),
        new_inode: of("new_inode", "lines of an inode that comes into the list"),
        old_inode: of("old_inode", "lines of an inode that leaves the list"),
        inode_hash: of("inode_hash", "lines of a chain of the hash of inodes"),
        rename: of("rename", "lines of a dentry that moves"),
        ..KernelWays::default()
    };
    let mut word = |key: &'static str, why: &str, words: &[(&str, bool)]| {
        let read = |table: &Table<'_>| {
            source(table)?;
            table.need("as", why)?.one_of(words)
        };
        all.take(table.need(key, why).and_then(|item| item.read(read)))
    };
    ways.exchanges_references =
        word("dentry", "how the count of a dentry is updated", &[("exchange", true), ("add", false)])
            .unwrap_or(false);
    ways.lookups_see_renames =
        word("lookup", "whether a lookup looks at rename_lock", &[("sequence", true), ("nothing", false)])
            .unwrap_or(false);
    let readers = [("shared", true), ("alone", false)];
    ways.shares_directories = word("directory_read", "how a lookup or listing holds a directory", &readers);
    all.take(own.finish());
    all.finish().map(|()| ways)
}

fn timer(table: &Table<'_>) -> Result<Nanos, Problem> {
    table.need("tick", "how often a time stamp changes")?.read(|table| {
        source(table)?;
        let item = table.need("ms", "milliseconds")?;
        match item.number()? {
            0 => Err(item.problem("a tick takes some time")),
            ms => Ok(Nanos(ms.saturating_mul(1_000_000))),
        }
    })
}

fn objects(rows: &[Row<'_>]) -> Result<Vec<Object>, Problem> {
    let read = |Row { name, item, .. }: &Row<'_>| {
        item.read(|table| {
            let mut all = Problems::default();
            let kind = all.take(table.need("kind", "what it is").and_then(|item| item.one_of(&KINDS)));
            let of =
                all.take(table.need("of", "what has one of its own").and_then(|item| item.one_of(&SCOPES)));
            let what = all.take(table.need("what", "what it is, in words").and_then(|item| item.text()));
            all.take(source(table));
            all.finish()?;
            let (Some(kind), Some(of), Some(what)) = (kind, of, what) else { unreachable!("all are there") };
            Ok(Object { name: name.clone(), class: class_of(name, kind, what), kind, of })
        })
    };
    Problems::each(rows.iter().map(read))
}

/// The class of an object in the ledger: one for all presets that have it, kept for the life of the process.
fn class_of(name: &str, kind: Kind, what: String) -> &'static LockClass {
    static MADE: Mutex<BTreeMap<(String, bool), &'static LockClass>> = Mutex::new(BTreeMap::new());
    let line = kind == Kind::Line;
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.entry((name.to_owned(), line)).or_insert_with(|| {
        let name: &'static str = Box::leak(format!("linux.{name}").into_boxed_str());
        let class = if line {
            LockClass::of_lines(name, Box::leak(what.into_boxed_str()))
        } else {
            LockClass::new(name)
        };
        Box::leak(Box::new(class))
    })
}

/// The steps of each routine, as they stand in the file.
fn routine_steps<'d>(rows: &[Row<'d>]) -> Result<BTreeMap<String, Item<'d>>, Problem> {
    let read = |Row { name, item, .. }: &Row<'d>| {
        let steps = item.read(|table| {
            source(table)?;
            table.need("steps", "what it does")
        })?;
        Ok((name.clone(), steps))
    };
    Problems::each(rows.iter().map(read)).map(|all| all.into_iter().collect())
}

/// What the file systems' tables have: one may be `like` another above or below it.
fn read_systems(
    rows: &[SystemRows<'_>],
    ways: KernelWays,
    names: &Names<'_, '_>,
    reading: &mut Reading,
) -> Result<Vec<System>, Problem> {
    let mut all = Problems::default();
    let mut systems = Vec::new();
    for row in rows {
        systems.extend(all.take(system(row, rows, (ways, names), reading)));
    }
    all.finish().map(|()| systems)
}

fn system(
    of: &SystemRows<'_>,
    rows: &[SystemRows<'_>],
    (ways, names): (KernelWays, &Names<'_, '_>),
    reading: &mut Reading,
) -> Result<System, Problem> {
    let SystemRows { name, item, .. } = of;
    let why = "whether its inodes are in the hash of inodes";
    let hashed = of.hashed.as_ref().ok_or_else(|| item.problem(format!("{name} needs \"hashed\": {why}")))?;
    let hashed = hashed.read(|table| {
        source(table)?;
        table.need("is", "true or false")?.typed::<bool>()
    })?;
    let base = match &of.like {
        Some(like) => {
            let text = like.text()?;
            let known = || rows.iter().map(|row| row.name.as_str()).filter(|other| other != name);
            let found = rows.iter().find(|row| row.name == text && text != *name);
            Some(found.ok_or_else(|| unknown(like, "file system", known()))?)
        }
        None => None,
    };
    let mut without = Vec::new();
    for item in of.without.as_ref().map(Item::items).transpose()?.unwrap_or_default() {
        let text = item.text()?;
        if !names.routines.contains_key(&text) {
            return Err(unknown(&item, "routine", names.routines.keys().map(String::as_str)));
        }
        without.push(text);
    }
    let mut all = Problems::default();
    for (call, item) in &of.calls {
        if !CALLS.contains(&call.as_str()) {
            let advice = document::nearest(call, CALLS);
            all.take::<()>(Err(item.problem(format!("no operation is called \"{call}\"; {advice}"))));
        }
    }
    let mut calls = Vec::new();
    for call in CALLS {
        let row = of.calls.get(call).or_else(|| base.and_then(|base| base.calls.get(call)));
        let read = row.ok_or_else(|| item.problem(format!("{name} needs a table for \"{call}\"")));
        calls.extend(all.take(read.and_then(|row| {
            row.read(|table| {
                source(table)?;
                let list = table.need("steps", "what it takes; [] where nothing is shared")?;
                names.steps(&list, &without, reading)
            })
        })));
    }
    all.finish()?;
    Ok(System { name: name.clone(), ways: KernelWays { unhashed: !hashed, ..ways }, calls })
}

/// Every object and routine is for something. A preset may leave what it is built on unused.
fn all_used(
    objects: &[Row<'_>],
    routines: &[Row<'_>],
    names: &Names<'_, '_>,
    reading: &Reading,
) -> Result<(), Problem> {
    let mut all = Problems::default();
    for Row { name, item, .. } in objects.iter().filter(|row| row.own) {
        let place = names.objects.iter().position(|object| object.name == *name);
        if place.is_some_and(|place| !reading.used[place]) {
            all.take::<()>(Err(item.problem(format!("object \"{name}\" is used by no step"))));
        }
    }
    for Row { name, item, .. } in routines.iter().filter(|row| row.own) {
        if !reading.called.contains(name) {
            all.take::<()>(Err(item.problem(format!("routine \"{name}\" is called by no step"))));
        }
    }
    all.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "summary = \"s\"\ndate = \"d\"\ntree = \"t\"\nfitted_on = []\n";

    /// The preset of 4.2 with `from` replaced by `to`.
    fn edited(from: &str, to: &str) -> String {
        let text = PRESETS[0].2;
        assert!(text.contains(from), "{from}");
        Preset::parse("k.toml", &text.replacen(from, to, 1)).unwrap_err().to_string()
    }

    #[test]
    fn the_presets_that_come_with_weir_are_right_and_have_the_kernels_of_the_option() {
        assert_eq!(PRESETS.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), KERNELS);
        for kernel in KERNELS {
            let preset = Preset::of(kernel).unwrap();
            assert!(preset.system("tmpfs").is_some() && preset.system("ext4nj").is_some());
        }
    }

    #[test]
    fn an_unknown_object_routine_component_or_part_is_named_with_its_place_and_the_nearest() {
        let told = edited("{ lock = \"super_stat\" }]", "{ lock = \"super_stad\" }]");
        assert!(
            told.starts_with("k.toml:")
                && told.contains("no object is called \"super_stad\"; did you mean \"super_stat\"?"),
            "{told}"
        );
        let told = edited("{ call = \"old_page\" }", "{ call = \"old_pages\" }");
        assert!(told.contains("no routine is called \"old_pages\"; did you mean \"old_page\"?"), "{told}");
        let told = edited("component = \"jbd2.stop\"", "component = \"jbd2.stopp\"");
        assert!(told.contains("did you mean \"jbd2.stop\"?"), "{told}");
        let told = edited("part = \"ext4.handle\"", "part = \"ext4.handel\"");
        assert!(told.contains("no part is called \"ext4.handel\"; did you mean \"ext4.handle\"?"), "{told}");
        let told = edited("{ copy = true }", "{ copi = true }");
        assert!(told.contains("unknown key \"copi\"") || told.contains("a step has one of"), "{told}");
    }

    #[test]
    fn a_missing_source_a_touch_without_fields_and_a_fitted_value_are_refused() {
        let told = edited("source = \"mm/shmem.c:3111, noop_fsync\"\n", "");
        assert!(told.contains("needs \"source\""), "{told}");
        let told = edited(
            "touch = 4, fields = \"size, times, version, the node of the tree of pages\"",
            "touch = 4",
        );
        assert!(told.contains("\"touch\" needs \"fields\""), "{told}");
        let told = edited("fitted_on = []", "fitted_on = [\"fxmark.k.dwol.classes\"]");
        assert!(told.contains("nothing in a kernel's preset may be fitted"), "{told}");
    }

    #[test]
    fn routines_that_call_each_other_in_a_circle_are_refused() {
        let told = edited(
            "steps = [{ lock = \"super_buffer\" }, { lock = \"super_buffer\" }]",
            "steps = [{ lock = \"super_buffer\" }, { call = \"orphan_add\" }]",
        );
        assert!(told.contains("calls itself, by way of orphan_add, log_super"), "{told}");
    }

    #[test]
    fn an_operation_that_is_missing_or_unknown_and_what_nothing_uses_are_told() {
        let told = edited("[fs.tmpfs.fsync]", "[fs.tmpfs.fsinc]");
        assert!(told.contains("no operation is called \"fsinc\"; did you mean \"fsync\"?"), "{told}");
        assert!(told.contains("tmpfs needs a table for \"fsync\""), "{told}");
        let told = edited(
            "[routine.handle_start]",
            "[routine.idle]\nsource = \"s\"\nsteps = []\n\n[routine.handle_start]",
        );
        assert!(told.contains("routine \"idle\" is called by no step"), "{told}");
        let object =
            "[object.idle]\nkind = \"line\"\nof = \"mount\"\nwhat = \"w\"\nsource = \"s\"\n\n[object.page]";
        assert!(edited("[object.page]", object).contains("object \"idle\" is used by no step"));
    }

    #[test]
    fn a_preset_that_is_built_on_another_has_its_rows_and_tells_what_is_wrong_in_its_own() {
        let on = |more: &str| Preset::parse("k.toml", &format!("{HEAD}base = \"4.2\"\n{more}"));
        let same = on("").unwrap();
        assert_eq!(same.objects.len(), Preset::of("4.2").unwrap().objects.len());
        let inode = "[object.inode]\nkind = \"rwsem\"\nof = \"inode\"\nwhat = \"w\"\nsource = \"s\"\n";
        let other = on(inode).unwrap();
        let kind = |preset: &Preset| preset.objects.iter().find(|one| one.name == "inode").unwrap().kind;
        assert_eq!((kind(&same), kind(&other)), (Kind::Mutex, Kind::Rwsem));
        let fsync = |preset: &Preset| preset.system("xfs").unwrap().steps(Call::Fsync).len();
        let changed = on("[fs.xfs.fsync]\nsource = \"s\"\nsteps = []\n").unwrap();
        assert_eq!((fsync(&changed), fsync(&same) > 0), (0, true));
        let told = on(&inode.replace("inode]", "idle]")).unwrap_err().to_string();
        assert!(told.starts_with("k.toml:") && told.contains("\"idle\" is used by no step"), "{told}");
        let told = on("[above]\nnew_inod = { lines = 1 }\n").unwrap_err().to_string();
        assert!(told.contains("unknown key \"new_inod\""), "{told}");
        let told = Preset::parse("k.toml", &format!("{HEAD}base = \"4.1\"\n")).unwrap_err().to_string();
        assert!(told.contains("no preset of a kernel is called \"4.1\""), "{told}");
    }

    #[test]
    fn readers_of_a_directory_share_it_in_the_newer_kernel_alone() {
        let shared = |kernel| Preset::of(kernel).unwrap().system("ext4").unwrap().ways.shares_directories;
        assert_eq!((shared("4.2"), shared("6.12")), (Some(false), Some(true)));
    }

    #[test]
    fn a_kind_that_a_step_does_not_take_is_refused() {
        let told = edited("{ add = \"page\" }", "{ lock = \"page\" }");
        assert!(told.contains("\"page\" is a line, which this step does not take"), "{told}");
        let told = Preset::parse("k.toml", HEAD).unwrap_err().to_string();
        assert!(told.contains("needs \"above\"") && told.contains("needs \"object\""), "{told}");
    }
}
