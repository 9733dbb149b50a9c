//! Machine presets: what CPU work costs, each value with its source.
//!
//! A preset has the keys of [`works`] under `[work]`, the shape of the machine under `[shape]` and the speeds of
//! copying under `[memory]`, with `dram` for the machine or `dram_per_socket`. `[caches]` may be left out: then there is no
//! private cache of a core, and each copy is one from memory. `[scheduling]` may be left out: then cores are not shared, and each
//! task runs as if its core were its own. `[kernel]` may be left out: then a file system has none of the locks that Linux keeps
//! beside it (`vfs/src/kernel.rs`), as in a process. In it `[kernel.path]` prices what that kernel does above every file system
//! ([`vfs::charges::PATH`]), and `originals` names the designs whose originals are priced part by part (`originals.rs`). Every
//! value is a table with a unit and a source: `{ ns = 67, source = "…" }`. A value without a source is refused, and so are
//! missing and unknown keys. `[ran]` prices the small work that designs and the front end do ([`sim::ran`]); it and each of its
//! keys may be left out: what has no price there takes no time and is not counted. Which of these prices a design pays is said
//! by the set of prices of a comparison (`prices.rs`).
//!
//! `medium = { name = "cxl.asic", source = "…" }` is the medium of cells to which nothing else gives one; a machine without it has
//! that of HiNFS's emulator, as plans had before machines named one.
//!
//! `[memory.model]` may be left out: then a copied byte has one price, however busy memory is (`memory_model.rs`).
//!
//! `NAME,KEY=TIME` is the machine NAME with another cost of a kind of work, as a reading of a paper or a question may need it.
//! `NAME,kernel=VERSION` takes the locks of another Linux, and `kernel=none`, `path=none`, `ran=none`, `caches=none`, `memory=none`
//! or `scheduling=none` leaves the table out. `flush=keeps` keeps lines that are written back in the caches, and `ways=none` takes
//! the cache of a socket for one list of uses.

use std::path::{Path, PathBuf};

use sim::{Activity, Bytes, Caches, Machine, Nanos, Scheduling, Work};
use vfs::Linux;

use crate::environment;
use crate::error::{Error, read_to_string};
use crate::memory_model;
use crate::originals;
use crate::presets::{self, MACHINES};
use document::{Item, Problem, Problems, Table};
use document::{nearest, nearest_or_toml};

/// The keys of tables that may be left out.
const CACHES: &[&str] = &["private", "private_copy", "socket_copy", "socket_hit", FLUSH, WAYS];
/// Whether a line that is written back stays in the caches; may be left out: it does.
const FLUSH: &str = "flush";
/// Lines of a set of the cache of a socket; may be left out: then it is one list of uses.
const WAYS: &str = "ways";
const SCHEDULING: &[&str] = &["latency", "granularity", "wakeup_granularity"];
const ORIGINALS: &str = "originals";
/// The source of a value from a command line.
const BY_HAND: &str = "set by hand";

/// The name of the machine that `weir calibrate` measures.
pub const THIS_HOST: &str = "this-host";

/// The kinds of work of all crates, which every machine prices.
pub fn works() -> impl Iterator<Item = Work> {
    WORKS.iter().flat_map(|of_crate| of_crate.iter().copied())
}

const WORKS: &[&[Work]] = &[Work::OF_SIM, media::charges::WORK, vfs::charges::WORK, workload::charges::WORK];

/// The activities of all crates.
pub fn activities() -> impl Iterator<Item = Activity> {
    [Activity::OF_SIM, media::charges::ACTIVITIES, workload::charges::ACTIVITIES]
        .into_iter()
        .flatten()
        .copied()
}

/// A machine with the origin of each value.
#[derive(Clone, Debug, PartialEq)]
pub struct MachinePreset {
    /// The machine.
    pub machine: Machine,
    /// The Linux whose locks stand beside a file system.
    pub kernel: Option<Linux>,
    /// One line for lists.
    pub summary: String,
    /// Claims on which a value was fitted; they do not count as reproduced.
    pub fitted_on: Vec<String>,
    /// The medium of cells to which nothing else gives one.
    pub medium: Option<Value>,
    /// Every value with its source, in the order of the file format.
    pub values: Vec<Value>,
    /// Whether it says itself what small work takes, or that it takes nothing.
    pub(crate) has_own_ran: bool,
}

/// One value of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// Its key.
    pub key: &'static str,
    /// The value with its unit.
    pub value: String,
    /// Where it comes from.
    pub source: String,
}

impl MachinePreset {
    /// Parses a preset; `origin` names the file in messages.
    pub fn parse(origin: &str, text: &str) -> Result<Self, Problem> {
        document::read(origin, text, |root| {
            let mut read = Values::default();
            let shape = read.table(root.need("shape", "sockets and cores").map(Some), shape);
            let (memory, model) = read.table(root.need("memory", "speeds of copying").map(Some), memory);
            let work_ps = read.table(root.need("work", "costs of CPU work").map(Some), work);
            let ran_ps = read.table(Ok(root.get("ran")), ran);
            let mut caches =
                read.table(Ok(root.get("caches")), |table, values| Some(caches_of(table, values)));
            let scheduling =
                read.table(Ok(root.get("scheduling")), |table, values| Some(scheduling_of(table, values)));
            let medium =
                read.all.take(root.get("medium").map(|item| item.read(medium_of)).transpose()).flatten();
            let (kernel, path_ps, originals) = read.table(Ok(root.get("kernel")), kernel_of);
            let fitted_on = root.need("fitted_on", "ids of claims, or []").and_then(|item| item.words());
            let mut fitted_on = read.all.take(fitted_on).unwrap_or_default();
            let name = read.all.take(root.need("name", "how it is called").and_then(|item| item.text()));
            let summary =
                read.all.take(root.need("summary", "one line for lists").and_then(|item| item.text()));
            if shape.2.is_some() && root.get("scheduling").is_none() {
                let message = "\"two_threads\" needs [scheduling]: it says which task has a hardware thread";
                read.all.take(Err::<(), _>(root.problem(message)));
            }
            read.all.take(root.finish());
            read.all.finish()?;
            let cost = |prices: &[u64], index: usize| prices.get(index).copied().unwrap_or_default();
            let work_ps: [u64; Work::MAX] = std::array::from_fn(|index| {
                cost(&work_ps, index) + cost(&path_ps, index) + cost(&ran_ps, index)
            });
            let parts =
                originals::prices(&originals, work_ps[vfs::charges::PATH_COMPONENT.index()], &mut fitted_on)
                    .map_err(|why| root.problem(why))?;
            if let (Some(caches), Some(hit)) = (&mut caches, model.as_ref().and_then(|model| model.l3_hit_ps))
            {
                caches.socket_hit_ps = hit;
            }
            let machine = Machine {
                name: name.unwrap_or_default(),
                sockets: shape.0,
                cores_per_socket: shape.1,
                two_threads_per_mille: shape.2,
                work_ps,
                copy_ps_per_byte: memory.0,
                dram_ps_per_byte: memory.1.0,
                dram_per_socket: memory.1.1,
                memory: model.map(|model| model.model),
                cache: memory.2,
                caches,
                scheduling,
                linux: kernel.map(|linux: Linux| (linux.major, linux.minor)),
                originals: !parts.is_empty(),
                parts,
            };
            let (has_own_ran, values) = (root.get("ran").is_some(), read.list);
            let summary = summary.unwrap_or_default();
            Ok(Self { machine, kernel, summary, fitted_on, medium, values, has_own_ran })
        })
    }

    /// The preset called `name`, the calibrated one, or the one in a file.
    pub fn load(name: &str) -> Result<Self, Error> {
        if let Some((base, values)) = name.split_once(',') {
            return values
                .split(',')
                .try_fold(Self::load(base)?, Self::with)
                .map(|preset| preset.called(name));
        }
        if let Some(preset) = MACHINES.iter().find(|preset| preset.name == name) {
            return Ok(Self::parse(&format!("presets/machines/{name}.toml"), preset.text)?);
        }
        if let Some(file) = presets::of_validation(name) {
            return Ok(Self::parse(&format!("presets/{name}"), file.text)?);
        }
        if name == THIS_HOST {
            return Self::read(&this_host_path()?, "run `weir calibrate` once to measure this host");
        }
        if Path::new(name).extension().is_some_and(|extension| extension == "toml") {
            return Self::read(Path::new(name), "give a file written by `weir calibrate -o`");
        }
        let known = MACHINES.iter().map(|preset| preset.name).chain([THIS_HOST]);
        let advice = nearest_or_toml(name, known);
        Err(Error::Unknown { what: "machine", name: name.to_owned(), advice })
    }

    /// With `KEY=TIME` for a kind of work, or with another kernel, or without a table.
    fn with(mut self, setting: &str) -> Result<Self, Error> {
        let wrong = |what: String| Error::Setting(format!("machine {}: {what}", self.machine.name));
        let (key, text) =
            setting.split_once('=').ok_or_else(|| wrong(format!("\"{setting}\" is not KEY=VALUE")))?;
        match (key, text) {
            ("kernel", "none") => return Ok(self.without_path().without_originals().without(&["linux"])),
            ("path", "none") => return Ok(self.without_path()),
            ("cost", _) => {
                return Err(wrong(format!(
                    "\"{setting}\": what the code of designs costs is said by --prices ran, or originals"
                )));
            }
            ("path", _) => return Err(wrong(format!("\"{setting}\": path=none"))),
            ("ran", "none") => return Ok(self.without_ran()),
            ("ran", _) => return Err(wrong(format!("\"{setting}\": ran=none, or a price as alloc=20ns"))),
            ("caches", "none") => return Ok(self.without(CACHES)),
            ("memory", "none") => return Ok(self.without_memory_model()),
            ("memory", _) => return Err(wrong(format!("\"{setting}\": memory=none"))),
            ("flush", "keeps") => {
                if let Some(caches) = &mut self.machine.caches {
                    caches.flush_evicts = false;
                }
                self.values.retain(|value| value.key != FLUSH);
                return Ok(self);
            }
            ("ways", "none") => {
                if let Some(caches) = &mut self.machine.caches {
                    caches.ways = None;
                }
                self.values.retain(|value| value.key != WAYS);
                return Ok(self);
            }
            ("scheduling", "none") if self.machine.two_threads_per_mille.is_some() => {
                return Err(wrong("its hardware threads need [scheduling]".to_owned()));
            }
            ("scheduling", "none") => return Ok(self.without(SCHEDULING)),
            ("kernel", version) => {
                let linux =
                    version.parse().map_err(|error: &str| wrong(format!("{key}: {error}, or none")))?;
                self = self.without(&["linux"]);
                self.kernel = Some(linux);
                self.machine.linux = Some((linux.major, linux.minor));
                self.values.push(Value {
                    key: "linux",
                    value: version.to_owned(),
                    source: BY_HAND.to_owned(),
                });
                return Ok(self);
            }
            _ => {}
        }
        let Some(work) = works().chain(Work::RAN.iter().copied()).find(|known| known.key() == key) else {
            let tables = ["kernel", "path", "ran", "caches", "flush", "ways", "scheduling", "memory"];
            let all = works().chain(Work::RAN.iter().copied()).map(Work::key);
            return Err(wrong(format!("there is no work \"{key}\"; {}", nearest(key, all.chain(tables)))));
        };
        self.has_own_ran |= is_ran(key);
        let time: Nanos = text.parse().map_err(|error| wrong(format!("{key}: {error}")))?;
        self.machine.work_ps[work.index()] = time.0 * 1_000;
        self.note(Value { key: work.key(), value: format!("{} ns", time.0), source: BY_HAND.to_owned() });
        Ok(self)
    }

    /// Puts a value in the place of that of its key; a price of `[ran]` that is new, behind the others.
    fn note(&mut self, value: Value) {
        match self.values.iter_mut().find(|known| known.key == value.key) {
            Some(known) => *known = value,
            None => {
                let last = self.values.iter().rposition(|known| is_ran(known.key));
                self.values.insert(last.map_or(self.values.len(), |last| last + 1), value);
            }
        }
    }

    /// Without prices of what designs and the front end do.
    fn without_ran(mut self) -> Self {
        self.has_own_ran = true;
        self.values.retain(|value| !is_ran(value.key));
        for work in Work::RAN {
            self.machine.work_ps[work.index()] = 0;
        }
        self
    }

    /// Without the table that has these keys.
    fn without(mut self, keys: &[&str]) -> Self {
        self.values.retain(|value| !keys.contains(&value.key));
        match keys {
            CACHES => self.machine.caches = None,
            SCHEDULING => self.machine.scheduling = None,
            _ => (self.kernel, self.machine.linux) = (None, None),
        }
        self
    }

    /// With prices of a copied byte only, as if its memory were the same under load.
    fn without_memory_model(mut self) -> Self {
        self.machine.memory = None;
        self.values.retain(|value| !memory_model::KEYS.contains(&value.key));
        let hit = self.values.iter().find(|value| value.key == "socket_hit");
        let hit = hit.and_then(|value| value.value.strip_suffix(" ns")?.parse::<f64>().ok());
        if let (Some(caches), Some(ns)) = (&mut self.machine.caches, hit) {
            caches.socket_hit_ps = (ns * 1_000.0).round() as u64;
        }
        self
    }

    /// Without prices of what its kernel does above every file system.
    fn without_path(mut self) -> Self {
        self.values.retain(|value| vfs::charges::PATH.iter().all(|work| work.key() != value.key));
        for work in vfs::charges::PATH {
            self.machine.work_ps[work.index()] = 0;
        }
        self
    }

    /// Without prices of the originals of designs.
    fn without_originals(mut self) -> Self {
        self.values.retain(|value| value.key != ORIGINALS);
        self.machine.parts.clear();
        self.machine.originals = false;
        self
    }

    /// With another name: results must tell it from the machine that it was made from.
    fn called(mut self, name: &str) -> Self {
        name.clone_into(&mut self.machine.name);
        self
    }

    /// A machine without sources.
    pub(crate) fn bare(machine: Machine) -> Self {
        let (summary, fitted_on, values) = Default::default();
        Self { machine, kernel: None, summary, fitted_on, medium: None, values, has_own_ran: true }
    }

    fn read(path: &Path, advice: &str) -> Result<Self, Error> {
        let text = read_to_string(path, "machine file", advice)?;
        let parsed = Self::parse(&path.display().to_string(), &text);
        Ok(parsed.map_err(|problem| {
            let message =
                format!("{}; if another Weir wrote it, run `weir calibrate` again", problem.message);
            Problem { message, ..problem }
        })?)
    }

    /// Whether `weir calibrate` measured it.
    pub fn is_measured(&self) -> bool {
        self.values.iter().any(|value| value.source.starts_with("[M] weir calibrate"))
    }

    /// Every preset that is part of the program.
    pub fn embedded() -> Result<Vec<Self>, Error> {
        presets::MACHINES.iter().map(|preset| Self::load(preset.name)).collect()
    }

    /// The preset as a file.
    pub fn to_toml(&self) -> String {
        let medium = |Value { value, source, .. }: &Value| {
            format!("medium = {{ name = {value:?}, source = {source:?} }}")
        };
        let head = [
            format!("name = {:?}", self.machine.name),
            format!("summary = {:?}", self.summary),
            format!("fitted_on = {:?}", self.fitted_on),
        ];
        let head = head.into_iter().chain(self.medium.as_ref().map(medium));
        let ran = self.values.iter().position(|value| is_ran(value.key));
        let model = self.values.iter().position(|value| memory_model::KEYS.contains(&value.key));
        let values = self.values.iter().enumerate().map(|(at, value)| match value.key {
            _ if model == Some(at) => format!("\n[memory.model]\n{}", value.to_toml()),
            _ if ran == Some(at) => format!("\n[ran]\n{}", value.to_toml()),
            "sockets" => format!("\n[shape]\n{}", value.to_toml()),
            "copy" => format!("\n[memory]\n{}", value.to_toml()),
            "syscall" => format!("\n[work]\n{}", value.to_toml()),
            "private" => format!("\n[caches]\n{}", value.to_toml()),
            "latency" => format!("\n[scheduling]\n{}", value.to_toml()),
            "linux" => format!("\n[kernel]\n{}", value.to_toml()),
            "new_inode" => format!("\n[kernel.path]\n{}", value.to_toml()),
            _ => value.to_toml(),
        });
        let no_ran = (self.has_own_ran && ran.is_none()).then(|| "\n[ran]".to_owned());
        head.chain(values).chain(no_ran).map(|line| line + "\n").collect()
    }
}

impl Value {
    fn to_toml(&self) -> String {
        if self.key == "linux" {
            return format!("linux = {{ version = {:?}, source = {:?} }}", self.value, self.source);
        }
        if self.key == FLUSH {
            return format!("flush = {{ keeps = {:?}, source = {:?} }}", self.value, self.source);
        }
        if memory_model::TEXTS.contains(&self.key) {
            return format!("{} = {{ text = {:?}, source = {:?} }}", self.key, self.value, self.source);
        }
        if self.key == ORIGINALS {
            let designs: Vec<_> = self.value.split(", ").collect();
            return format!("originals = {{ designs = {designs:?}, source = {:?} }}", self.source);
        }
        let (number, unit) = self.value.split_once(' ').unwrap_or((&self.value, "count"));
        let unit = match unit {
            "GB/s" => "gb_per_s",
            "MiB" => "mib",
            "MT/s" => "mt_per_s",
            "bit" => "bits",
            unit => unit,
        };
        format!("{} = {{ {unit} = {number}, source = {:?} }}", self.key, self.source)
    }
}

/// The host's processor under the real clock, which prices nothing: only its shape.
pub(crate) fn of_host() -> Machine {
    let cores_per_socket = environment::cores() as u16;
    Machine { name: "host".to_owned(), sockets: 1, cores_per_socket, ..Machine::unit() }
}

/// Where `weir calibrate` writes: the user's configuration folder.
pub fn this_host_path() -> Result<PathBuf, Error> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let config = set("XDG_CONFIG_HOME").or_else(|| Some(set("HOME")?.join(".config")));
    let config = config.ok_or_else(|| {
        Error::Host(
            "neither XDG_CONFIG_HOME nor HOME is set: name a file, as in --machine host.toml".to_owned(),
        )
    })?;
    Ok(config.join("weir/machines/this-host.toml"))
}

/// The medium where none is named.
fn medium_of(table: &Table<'_>) -> Result<Value, Problem> {
    let item = table.need("name", "a medium (`weir list media`)")?;
    let (value, source) = (item.text()?, table.need("source", "why this one")?.text()?);
    table.finish()?;
    let known = media::medium::Medium::parse(&value).map(drop);
    let known = known.or_else(|error| media::block::BlockModel::parse(&value).map(drop).map_err(|_| error));
    known.map_err(|error| item.problem(error.to_string()))?;
    Ok(Value { key: "medium", value, source })
}

/// Sockets, cores of each, and what two hardware threads of a core do together, in thousandths of what one does.
fn shape(table: &Table<'_>, values: &mut Values) -> (u16, u16, Option<u32>) {
    let (sockets, cores) = (count(table, "sockets", values), count(table, "cores_per_socket", values));
    (sockets, cores, table.get("two_threads").map(|_| per_mille(table, "two_threads", values)))
}

/// A ratio between 1 and 2.
fn per_mille(table: &Table<'_>, key: &'static str, values: &mut Values) -> u32 {
    value(table, key, values, |entry| {
        let item = entry.need("times", "what both do together by what one does alone")?;
        let ratio = positive(&item)?;
        if !(1.0..=2.0).contains(&ratio) {
            return Err(item.problem("must be between 1 and 2"));
        }
        Ok(((ratio * 1_000.0).round() as u32, format!("{ratio} times")))
    })
}

/// The speed of a core; that of memory, and whether each socket has its own; the cache of a socket. Memory under load.
type Memory = ((u64, (u64, bool), Bytes), Option<memory_model::Read>);

fn memory(table: &Table<'_>, values: &mut Values) -> Memory {
    let copy = ps_per_byte(table, "copy", values);
    let dram = match table.get("dram_per_socket") {
        Some(_) => (ps_per_byte(table, "dram_per_socket", values), true),
        None => (ps_per_byte(table, "dram", values), false),
    };
    let cache = mebibytes(table, "cache", values);
    let model = table.get("model").and_then(|item| values.table(Ok(Some(item)), memory_model::read));
    ((copy, dram, cache), model)
}

fn caches_of(table: &Table<'_>, values: &mut Values) -> Caches {
    Caches {
        private: mebibytes(table, "private", values),
        private_copy_ps_per_byte: ps_per_byte(table, "private_copy", values),
        socket_copy_ps_per_byte: ps_per_byte(table, "socket_copy", values),
        socket_hit_ps: picoseconds(table, "socket_hit", values),
        flush_evicts: table.get(FLUSH).is_some() && flush_evicts(table, values),
        ways: table.get(WAYS).map(|_| count(table, WAYS, values)),
    }
}

fn flush_evicts(table: &Table<'_>, values: &mut Values) -> bool {
    value(table, FLUSH, values, |entry| {
        let keeps = entry.need("keeps", "yes or no")?.one_of(&[("yes", true), ("no", false)])?;
        Ok((!keeps, if keeps { "yes" } else { "no" }.to_owned()))
    })
}

fn work(table: &Table<'_>, values: &mut Values) -> Vec<u64> {
    let mut work_ps = vec![0; Work::MAX];
    for work in works() {
        work_ps[work.index()] = picoseconds(table, work.key(), values);
    }
    work_ps
}

/// Prices of [`Work::RAN`]; those that are not there are off.
fn ran(table: &Table<'_>, values: &mut Values) -> Vec<u64> {
    let mut ran_ps = vec![0; Work::MAX];
    for work in Work::RAN.iter().filter(|work| table.get(work.key()).is_some()) {
        ran_ps[work.index()] = picoseconds(table, work.key(), values);
    }
    ran_ps
}

fn is_ran(key: &str) -> bool {
    Work::RAN.iter().any(|work| work.key() == key)
}

fn scheduling_of(table: &Table<'_>, values: &mut Values) -> Scheduling {
    Scheduling {
        latency: milliseconds(table, "latency", values),
        granularity: milliseconds(table, "granularity", values),
        wakeup_granularity: milliseconds(table, "wakeup_granularity", values),
    }
}

/// The version; the prices of what it does above every file system; the designs whose originals have prices.
type Kernel = (Option<Linux>, Vec<u64>, Vec<String>);

fn kernel_of(table: &Table<'_>, values: &mut Values) -> Kernel {
    let linux = value(table, "linux", values, |entry| {
        let item = entry.need("version", "a version, as \"3.11\"")?;
        let text = item.text()?;
        let linux = text.parse().map_err(|error: &str| item.problem(error))?;
        Ok((Some(linux), text))
    });
    let mut originals = Vec::new();
    if table.get(ORIGINALS).is_some() {
        originals = value(table, ORIGINALS, values, |entry| {
            let designs = entry.need("designs", "names of files in presets/originals")?.words()?;
            Ok((designs.clone(), designs.join(", ")))
        });
    }
    let path_ps = values.table(Ok(table.get("path")), |table, values| {
        let mut path_ps = vec![0; Work::MAX];
        for work in vfs::charges::PATH {
            path_ps[work.index()] = picoseconds(table, work.key(), values);
        }
        path_ps
    });
    (linux, path_ps, originals)
}

fn milliseconds(table: &Table<'_>, key: &'static str, values: &mut Values) -> Nanos {
    value(table, key, values, |entry| {
        let number = positive(&entry.need("ms", "a time in milliseconds")?)?;
        Ok((Nanos((number * 1e6).round() as u64), format!("{number} ms")))
    })
}

/// The values that were read, and what is wrong with the others.
#[derive(Default)]
pub(crate) struct Values {
    list: Vec<Value>,
    all: Problems,
}

impl Values {
    /// Notes what values are together, unless one of them is wrong by itself.
    pub(crate) fn refuse(&mut self, together: Result<(), Problem>) {
        if self.all.is_empty() {
            self.all.take(together);
        }
    }

    /// What a table is read as; the default if it is not there, or wrong.
    fn table<T: Default>(
        &mut self,
        item: Result<Option<Item<'_>>, Problem>,
        read: impl FnOnce(&Table<'_>, &mut Self) -> T,
    ) -> T {
        let Some(Some(item)) = self.all.take(item) else { return T::default() };
        let Some(table) = self.all.take(item.table()) else { return T::default() };
        let value = read(&table, self);
        self.all.take(table.finish());
        value
    }
}

/// Reads one value with `read`, and notes it with its source; the default if it is wrong.
pub(crate) fn value<T: Default>(
    table: &Table<'_>,
    key: &'static str,
    values: &mut Values,
    read: impl FnOnce(&Table<'_>) -> Result<(T, String), Problem>,
) -> T {
    let entry = table.need(key, "every value of the format must be there").and_then(|item| {
        item.read(|entry| {
            let source = entry.need("source", "where the number comes from")?.text()?;
            let (parsed, text) = read(entry)?;
            if source.trim().is_empty() {
                return Err(entry.problem(format!("\"{key}\" has an empty source: say where it comes from")));
            }
            Ok((parsed, Value { key, value: text, source }))
        })
    });
    let Some((parsed, value)) = values.all.take(entry) else { return T::default() };
    values.list.push(value);
    parsed
}

pub(crate) fn count(table: &Table<'_>, key: &'static str, values: &mut Values) -> u16 {
    value(table, key, values, |entry| {
        let item = entry.need("count", "a number, at least 1")?;
        let number = u16::try_from(item.number()?).ok().filter(|number| *number > 0);
        let number = number.ok_or_else(|| item.problem("must be between 1 and 65535"))?;
        Ok((number, number.to_string()))
    })
}

fn picoseconds(table: &Table<'_>, key: &'static str, values: &mut Values) -> u64 {
    value(table, key, values, |entry| {
        let (item, factor, unit) = match entry.get("ps") {
            Some(item) => (item, 1.0, "ps"),
            None => (entry.need("ns", "or \"ps\": the cost of one")?, 1_000.0, "ns"),
        };
        let number = positive(&item)?;
        Ok(((number * factor).round() as u64, format!("{number} {unit}")))
    })
}

fn ps_per_byte(table: &Table<'_>, key: &'static str, values: &mut Values) -> u64 {
    value(table, key, values, |entry| {
        let rate = positive(&entry.need("gb_per_s", "10^9 bytes copied a second")?)?;
        Ok(((1_000.0 / rate).round() as u64, format!("{rate} GB/s")))
    })
}

fn mebibytes(table: &Table<'_>, key: &'static str, values: &mut Values) -> Bytes {
    value(table, key, values, |entry| {
        let number = positive(&entry.need("mib", "its size in MiB")?)?;
        Ok((Bytes((number * sim::MIB as f64) as u64), format!("{number} MiB")))
    })
}

pub(crate) fn positive(item: &Item<'_>) -> Result<f64, Problem> {
    let number = item.float()?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err(item.problem("must be above 0")) }
}

#[cfg(test)]
mod tests;
