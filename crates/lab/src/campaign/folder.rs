//! The folder of a campaign: its files, the states of its shards, and a shard that is run here.
//!
//! Lock order: one lock, inside of [`Kept`].

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, SystemTime};

use results::HostFacts;
use serde::de::IgnoredAny;

use super::manifest::SCHEMA;
use super::{Error, Fault, Manifest};
use crate::canonical;
use crate::cells::{self, Cell, Contents, Head, Kept, ShardHead, Writer};
use crate::environment;
use crate::plan::Plan;
use crate::runner::{Progress, Runner, Settings};

/// The manifest's file.
pub const MANIFEST: &str = "campaign.json";
/// The folder of shards.
pub const OUT: &str = "out";
/// The program.
pub const PROGRAM: &str = "bin/weir";

/// How often a process says that it lives.
const SIGN: Duration = Duration::from_secs(10);
/// A process of another host that has not said so for this long counts as dead.
const SILENCE: Duration = Duration::from_secs(60);

/// An open campaign.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The folder.
    pub folder: PathBuf,
    /// What is run.
    pub manifest: Manifest,
    /// The hash of the manifest's file, which tells this campaign from others.
    pub digest: String,
}

/// The state of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing of it is there.
    Missing,
    /// A process was begun and has ended before the shard was whole, or its file lacks cells.
    Failed,
    /// A process runs it.
    Running,
    /// It is whole.
    Done,
}

/// What a file of a shard is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Whole.
    Whole,
    /// Being written, or left by a process that was killed.
    Part,
    /// Left by a process that ended early.
    Left,
}

impl Kind {
    const ALL: [(Self, &'static str); 3] =
        [(Self::Whole, "jsonl"), (Self::Part, "part"), (Self::Left, "left")];

    fn ending(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, ending)| ending)
    }
}

/// A file of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Which shard.
    pub shard: usize,
    /// What it is.
    pub kind: Kind,
    /// The file.
    pub path: PathBuf,
}

/// The shard and kind that the name of a file says: `00012.5f3a.jsonl`.
fn parse_name(name: &str) -> Option<(usize, Kind)> {
    let (shard, rest) = name.split_once('.')?;
    let (attempt, ending) = rest.rsplit_once('.')?;
    let (kind, _) = Kind::ALL.into_iter().find(|(_, known)| *known == ending)?;
    let digits = shard.len() >= 5 && shard.bytes().all(|byte| byte.is_ascii_digit());
    (digits && is_attempt(attempt)).then(|| shard.parse().ok()).flatten().map(|shard| (shard, kind))
}

/// Whether a text can name an attempt.
pub fn is_attempt(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// A text that no other process draws.
pub fn new_attempt() -> String {
    // Its keys are drawn by the operating system: no result depends on it.
    let drawn = RandomState::new().hash_one((std::process::id(), SystemTime::now()));
    format!("{drawn:016x}")
}

fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> crate::Error + use<> {
    let path = path.to_owned();
    move |source| crate::Error::Io { action, path, source }
}

impl Campaign {
    /// Writes a campaign into its folder, the manifest last: until it is there, there is no campaign.
    pub fn create(folder: &Path, manifest: Manifest, program: &Path) -> Result<Self, Error> {
        for name in [OUT, "bin", "log", "submit", "texts"] {
            let path = folder.join(name);
            std::fs::create_dir_all(&path).map_err(io("make the folder", &path))?;
        }
        let copy = folder.join(PROGRAM);
        let source = std::fs::File::open(program).map_err(io("read", program))?;
        let mode = source.metadata().map_err(io("read", program))?.permissions();
        let copied = results::file::replace(&copy, |file| {
            std::io::copy(&mut &source, file)?;
            file.set_permissions(mode)
        });
        copied.map_err(io("write", &copy))?;
        let text =
            serde_json::to_string_pretty(&manifest).expect("our documents have string keys only") + "\n";
        results::file::write_atomic(&folder.join(MANIFEST), &text)?;
        Ok(Self { folder: folder.to_owned(), manifest, digest: canonical::sha256(text) })
    }

    /// Opens the campaign in a folder.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let path = folder.join(MANIFEST);
        let advice = "give the folder of a campaign, which `weir campaign new` makes";
        let text = crate::error::read_to_string(&path, "campaign", advice)?;
        let broken = |error: serde_json::Error| {
            Fault::damaged(format!("{}: is no campaign of this version of Weir: {error}", path.display()))
        };
        let probe: serde_json::Value = serde_json::from_str(&text).map_err(broken)?;
        if probe["schema"] != SCHEMA {
            let (path, found) = (path.display(), &probe["schema"]);
            return Err(Fault::foreign(format!(
                "{path}: schema is {found}, and this Weir reads \"{SCHEMA}\": use the campaign's own {PROGRAM}"
            ))
            .into());
        }
        let manifest = serde_json::from_value(probe).map_err(broken)?;
        Ok(Self { folder: folder.to_owned(), manifest, digest: canonical::sha256(text) })
    }

    /// Refuses to run by another program than the campaign's.
    pub fn check_build(&self, build: &str) -> Result<(), Error> {
        let Manifest { build: wanted, target, .. } = &self.manifest;
        if build == wanted {
            return Ok(());
        }
        let program = self.folder.join(PROGRAM);
        Err(Fault::foreign(format!(
            "this is build {build}, and the campaign is of build {wanted} for {target}: use {}",
            program.display()
        ))
        .into())
    }

    /// The files of shards, in the order of their names, and the names of files that are none. Those that begin with a dot are
    /// being written.
    pub fn attempts(&self) -> Result<(Vec<Attempt>, Vec<PathBuf>), Error> {
        let folder = self.folder.join(OUT);
        let entries = match std::fs::read_dir(&folder) {
            // An engine that copies files has brought no empty folder.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok((Vec::new(), Vec::new()));
            }
            entries => entries.map_err(io("read", &folder))?,
        };
        let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        let (mut attempts, mut others) = (Vec::new(), Vec::new());
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match parse_name(&name) {
                Some((shard, kind)) if shard < self.manifest.shards.len() => {
                    attempts.push(Attempt { shard, kind, path });
                }
                _ if name.starts_with('.') => {}
                _ => others.push(path),
            }
        }
        Ok((attempts, others))
    }

    /// The state of each shard. All of its files are read.
    pub fn states(&self) -> Result<Vec<State>, Error> {
        let mut states = vec![State::Missing; self.manifest.shards.len()];
        for attempt in self.attempts()?.0 {
            states[attempt.shard] = self.with(states[attempt.shard], &attempt)?;
        }
        Ok(states)
    }

    /// The state of a shard.
    pub fn state(&self, shard: usize) -> Result<State, Error> {
        let (attempts, _) = self.attempts()?;
        let mut own = attempts.iter().filter(|attempt| attempt.shard == shard);
        own.try_fold(State::Missing, |state, attempt| self.with(state, attempt))
    }

    /// The state of a shard of which a further file is there.
    fn with(&self, state: State, attempt: &Attempt) -> Result<State, Error> {
        let of = match attempt.kind {
            _ if state == State::Done => State::Done,
            Kind::Whole if self.is_whole(attempt)? => State::Done,
            Kind::Part if state < State::Running && is_alive(&attempt.path, &Writer::here()) => {
                State::Running
            }
            _ => State::Failed,
        };
        Ok(state.max(of))
    }

    /// Whether a file holds all cells of its shard: a copy that broke off, or a full disk, leaves one that does not, under the name
    /// of a whole one.
    pub fn is_whole(&self, attempt: &Attempt) -> Result<bool, Error> {
        let contents = match cells::read_file_of::<IgnoredAny>(&attempt.path) {
            Err(crate::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
            contents => contents?,
        };
        let Some(contents) = contents.filter(|contents| contents.wrong.is_none()) else { return Ok(false) };
        let has: BTreeSet<&String> = contents.cells.iter().map(|cell| &cell.key).collect();
        Ok(self.manifest.shards[attempt.shard].cells.iter().all(|key| has.contains(key)))
    }

    /// Names the files of a shard that claim to be whole and are not as those that a process has left: their cells are in a whole
    /// one now, and a merge passes them over. One of another build or campaign keeps its name, for the merge to refuse.
    fn set_aside(&self, shard: usize) -> Result<(), Error> {
        let (attempts, _) = self.attempts()?;
        for attempt in attempts.iter().filter(|one| one.shard == shard && one.kind == Kind::Whole) {
            let is_ours =
                cells::read_head(&attempt.path).is_none_or(|head| self.check_head(attempt, &head).is_ok());
            if is_ours && !self.is_whole(attempt)? {
                let left = self.name(shard, &format!("cut-{}", &new_attempt()[..8]), Kind::Left);
                std::fs::rename(&attempt.path, &left).map_err(io("rename", &attempt.path))?;
            }
        }
        Ok(())
    }

    /// Whether the file was written for this campaign by its build.
    pub(super) fn check_head(&self, attempt: &Attempt, head: &Head) -> Result<(), Fault> {
        let path = attempt.path.display();
        let Head { build, shard, .. } = head;
        let wanted = &self.manifest.build;
        if build != wanted {
            return Err(Fault::foreign(format!(
                "{path}: is of build {build}, and the campaign is of build {wanted}"
            )));
        }
        match shard {
            Some(of) if of.campaign != self.digest => Err(Fault::foreign(format!(
                "{path}: is of another campaign, or campaign.json was changed after it was written"
            ))),
            Some(of) if of.shard == attempt.shard => Ok(()),
            Some(of) => Err(Fault::damaged(format!("{path}: holds shard {}", of.shard))),
            None => Err(Fault::foreign(format!("{path}: is of no campaign"))),
        }
    }

    /// The cells of a shard that its files hold, each once; files that are of another campaign are passed over.
    fn held(&self, shard: usize) -> Result<BTreeMap<String, Cell<IgnoredAny>>, Error> {
        let wanted: BTreeSet<&String> = self.manifest.shards[shard].cells.iter().collect();
        let mut held = BTreeMap::new();
        let (attempts, _) = self.attempts()?;
        for attempt in attempts.into_iter().filter(|attempt| attempt.shard == shard) {
            let contents = match cells::read_file_of(&attempt.path) {
                // Its process has just renamed it.
                Err(crate::Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                    continue;
                }
                contents => contents?,
            };
            let usable = |contents: &Contents<IgnoredAny>| self.check_head(&attempt, &contents.head).is_ok();
            let cells = contents.filter(usable).into_iter().flat_map(|contents| contents.cells);
            for cell in cells.filter(|cell| wanted.contains(&cell.key)) {
                held.entry(cell.key.clone()).or_insert(cell);
            }
        }
        Ok(held)
    }

    /// The name of a file of a shard.
    fn name(&self, shard: usize, attempt: &str, kind: Kind) -> PathBuf {
        self.folder.join(OUT).join(format!("{shard:05}.{attempt}.{}", kind.ending()))
    }

    /// Runs what is missing of a shard of plans, and writes it whole under the name of the attempt.
    pub fn run(
        &self,
        shard: usize,
        attempt: &str,
        plans: &[Plan],
        settings: Settings,
        progress: &dyn Progress,
    ) -> Result<Ran, Error> {
        self.run_by(shard, attempt, |wanted, kept| {
            let interrupt = settings.interrupt.clone();
            let mut runner = Runner::new(settings, progress);
            runner.keep_in((kept, BTreeMap::new()));
            let ran = runner.measure_these(plans, wanted);
            let complete = wanted.iter().all(|key| runner.sample(key).is_some_and(|sample| !sample.partial));
            let kept = runner.take_kept().expect("it was just given");
            let ended = match (ran, complete) {
                (Ok(()), false) if !interrupt.load(std::sync::atomic::Ordering::Relaxed) => {
                    Err(Fault::damaged(format!("shard {shard}: a cell has no sample")).into())
                }
                (ran, complete) => ran.map(|()| complete).map_err(Error::from),
            };
            (kept, ended)
        })
    }

    /// The same by other code: it is given the keys of the cells that are missing and the file in which each is kept as soon as it
    /// has run, and returns the file and whether all have run; if not, it was interrupted.
    pub fn run_by(
        &self,
        shard: usize,
        attempt: &str,
        work: impl FnOnce(&BTreeSet<String>, Kept) -> (Kept, Result<bool, Error>),
    ) -> Result<Ran, Error> {
        let of = &self.manifest.shards[shard];
        let held = self.held(shard)?;
        let out = self.folder.join(OUT);
        std::fs::create_dir_all(&out).map_err(io("make the folder", &out))?;
        let part = self.name(shard, &format!("{attempt}-{}", &new_attempt()[..8]), Kind::Part);
        let kept = Kept::create(&part, &self.head(shard))?;
        of.cells.iter().filter_map(|key| held.get(key)).for_each(|cell| kept.add_text(&cell.text));
        let wanted: BTreeSet<String> =
            of.cells.iter().filter(|key| !held.contains_key(*key)).cloned().collect();
        let (kept, ended) = alive(|| work(&wanted, kept), &part);
        let kind = if matches!(ended, Ok(true)) { Kind::Whole } else { Kind::Left };
        if kind == Kind::Whole {
            self.set_aside(shard)?;
        }
        kept.rename(&self.name(shard, attempt, kind))?;
        ended.map(|whole| Ran { cells: wanted.len(), known: held.len(), whole })
    }

    fn head(&self, shard: usize) -> Head {
        let environment = environment::capture();
        let id = canonical::sha256(format!("{} {}", self.digest, environment::machine_id()))[..12].to_owned();
        let (campaign, host, writer) = (self.digest.clone(), HostFacts { id, environment }, Writer::here());
        Head { shard: Some(ShardHead { campaign, shard, host, writer }), ..Head::of(&self.manifest.build) }
    }
}

/// What a run of a shard came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// Cells that were to run.
    pub cells: usize,
    /// Cells that were known from earlier attempts.
    pub known: usize,
    /// Whether the shard is whole; if not, it was interrupted.
    pub whole: bool,
}

/// Works while the time of the file says that this process lives.
fn alive<T>(work: impl FnOnce() -> T, part: &Path) -> T {
    let (end, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while ended.recv_timeout(SIGN) == Err(RecvTimeoutError::Timeout) {
                // A file system that refuses costs no more than a shard that is run twice.
                let _ = std::fs::File::options()
                    .append(true)
                    .open(part)
                    .and_then(|file| file.set_modified(SystemTime::now()));
            }
        });
        let done = work();
        drop(end);
        done
    })
}

/// Whether the process that writes a file lives, as far as this host can tell.
fn is_alive(path: &Path, here: &Writer) -> bool {
    let head = cells::read_head(path);
    match head.and_then(|head| head.shard) {
        Some(of) if of.writer.boot == here.boot => of.writer.alive(),
        _ => {
            let changed = std::fs::metadata(path).and_then(|data| data.modified()).ok();
            let silent = changed.and_then(|changed| SystemTime::now().duration_since(changed).ok());
            // A time that lies ahead is that of a host whose clock goes before ours.
            changed.is_some() && silent.is_none_or(|silent| silent <= SILENCE)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_say_shard_and_kind() {
        assert_eq!(parse_name("00012.5f3a.jsonl"), Some((12, Kind::Whole)));
        assert_eq!(parse_name("123456.a-1.part"), Some((123_456, Kind::Part)));
        assert_eq!(parse_name("00000.x.left"), Some((0, Kind::Left)));
        for name in [
            "12.a.jsonl",
            "00012.jsonl",
            "00012..jsonl",
            "00012.a.b.jsonl",
            "0001x.a.jsonl",
            "00012.a.json",
            "x",
        ] {
            assert_eq!(parse_name(name), None, "{name}");
        }
        assert!(is_attempt(&new_attempt()) && new_attempt() != new_attempt());
    }

    #[test]
    fn a_process_is_told_from_one_that_has_its_number_later() {
        let here = Writer::here();
        assert!(here.alive());
        assert!(!Writer { started: here.started + 1, ..here }.alive());
    }
}
