//! A profile as a workload: files before, threads of groups, a sync behind.

use std::sync::{Arc, Mutex, PoisonError};

use rand::RngExt as _;
use sim::{Bytes, Nanos, Rng};
use vfs::Syscalls;

use super::files::{self, Files};
use super::operations::{DRAWN, KINDS, Kind, Thread, Weight};
use super::profile::{self, FileSystem, Group, Profile};
use crate::app::control::{self, Control, Failure, Tally};
use crate::app::run::{self, Place, Plan, Run};
use crate::charges::GENERATOR;
use crate::suite::{Growth, How, Job, JobError, LoadError, Measured, Processes, Settings, Stop, Workload};
use crate::tree::CallFailed;

/// More draws than that, one after the other, of operations that find no file: there will be none.
const MOST_MISSES: u32 = 100_000;

/// A profile, checked.
#[derive(Debug)]
pub(super) struct Loaded {
    name: String,
    text: String,
    profile: Arc<Profile>,
    variables: Vec<(String, String)>,
}

impl Loaded {
    pub(super) fn read(name: &str, text: &str, settings: &Settings) -> Result<Self, LoadError> {
        let mut vars = settings.vars.clone();
        if let Some(threads) = &settings.threads {
            vars.insert("num_threads".to_owned(), threads.clone());
        }
        let profile = profile::read(name, text, &vars).map_err(LoadError::Wrong)?;
        let variables = vars.into_iter().collect();
        Ok(Self { name: name.to_owned(), text: text.to_owned(), profile: Arc::new(profile), variables })
    }

    /// The variables that a built-in profile was made with.
    pub(super) fn set_variables(&mut self, settings: &Settings) {
        self.variables = settings.vars.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        if let Some(threads) = &settings.threads {
            self.variables.push(("threads".to_owned(), threads.clone()));
        }
    }
}

impl FileSystem {
    /// What its files take at first.
    fn bytes(&self) -> u64 {
        let (largest, mean) = self.sizes.largest_and_mean();
        let files = self.files.saturating_mul(mean + mean / 8 + 4096);
        files.max(self.init_size).saturating_add(16 * largest).saturating_add(self.directories * 4096)
    }
}

impl Workload for Loaded {
    fn settings(&self) -> String {
        format!("{} {:?} {}", self.name, self.variables, self.text)
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    fn data_bytes(&self) -> u64 {
        self.profile.file_systems.iter().fold(0, |sum: u64, of| sum.saturating_add(of.bytes()))
    }

    fn small_files(&self) -> u64 {
        self.profile.file_systems.iter().map(|of| of.files + of.directories).sum()
    }

    fn growth(&self) -> Growth {
        let of = |group: &Group, kind| group.weights.iter().any(|weight| weight.kind == kind);
        let largest =
            self.profile.file_systems.iter().map(|of| of.sizes.largest_and_mean().0).max().unwrap_or(0);
        let groups = self.profile.groups.iter();
        // A block is an operation.
        let grown = groups.map(|group| {
            let grows = of(group, Kind::Create) || of(group, Kind::Append) || of(group, Kind::CreateDir);
            let most = if of(group, Kind::Create) { largest } else { group.write.size };
            if grows || of(group, Kind::Meta) { group.write.block.min(most).max(4096) } else { 0 }
        });
        match grown.max() {
            Some(bytes) if bytes > 0 => Growth::PerOperation(bytes),
            _ => Growth::None,
        }
    }

    fn tasks(&self) -> u64 {
        self.profile.groups.iter().map(|group| group.threads).sum()
    }

    fn ends(&self) -> bool {
        true
    }

    fn sizes(&self) -> &'static [&'static str] {
        &["files", "num_files"]
    }

    fn job(&self, how: &How, processes: Arc<dyn Processes>) -> Result<Arc<dyn Job>, JobError> {
        let mut how = how.clone();
        if how.stop == Stop::After(Nanos::MAX) {
            how.stop = Stop::After(Nanos::from_secs(self.profile.time));
        }
        let files = self.profile.file_systems.iter().enumerate();
        let files = files.map(|(number, of)| Files::new(number, of)).collect();
        let load = Load {
            name: self.name.clone(),
            profile: Arc::clone(&self.profile),
            files,
            main: Mutex::default(),
        };
        Ok(Arc::new(Run::new(Arc::new(load), &how, processes)))
    }
}

/// A profile on one subject.
struct Load {
    name: String,
    profile: Arc<Profile>,
    files: Vec<Files>,
    /// The process that syncs at the end.
    main: Mutex<Option<Arc<dyn Syscalls>>>,
}

impl Load {
    /// The group of a thread.
    fn group(&self, thread: u64) -> &Group {
        let mut before = 0;
        let found = self.profile.groups.iter().find(|group| {
            before += group.threads;
            thread < before
        });
        found.unwrap_or(&self.profile.groups[0])
    }

    /// The files must fit, and room must be left.
    fn fits(&self, calls: &dyn Syscalls) -> Result<(), Failure> {
        let found = calls.statfs(b".").map_err(CallFailed::of("statfs", "."))?;
        let mut room = found.blocks_free.saturating_mul(u64::from(found.frsize));
        for of in &self.profile.file_systems {
            let (_, mean) = of.sizes.largest_and_mean();
            let (key, needed) = match of.files.saturating_mul(mean) {
                bytes if bytes >= of.init_size => (format!("num_files = {}", of.files), bytes),
                _ => (format!("init_size = {}", Bytes(of.init_size)), of.init_size),
            };
            if needed > room {
                let told = format!(
                    "line {}: {key}: {} in files of {} each, mean, where {} are free; make files fewer or the file system larger",
                    of.line,
                    Bytes(needed),
                    Bytes(mean),
                    Bytes(room)
                );
                return Err(Failure::new(told, Some(vfs::Errno::ENOSPC)));
            }
            room -= needed;
        }
        Ok(())
    }

    /// Draws operations of the ageing group until so much of the file system is used.
    fn age(
        &self,
        at: usize,
        group: &Group,
        share: u64,
        rng: &mut Rng,
        calls: &dyn Syscalls,
    ) -> Result<(), Failure> {
        let of = &self.profile.file_systems[at];
        let mut group = group.clone();
        group.write.block = of.age_block;
        let mut misses = 0;
        while files::used(calls)? < share {
            let Some(weight) = Weight::draw(&group.weights, rng) else { break };
            let mut thread = Thread {
                calls,
                files: &self.files[at],
                group: &group,
                rng: &mut *rng,
                is_direct: false,
                is_aligned: self.profile.is_aligned,
                each: &mut |_, _| (),
            };
            let done = thread.make(weight)?;
            let grows = matches!(weight.kind, Kind::Create | Kind::Append);
            misses = if done && grows { 0 } else { misses + 1 };
            if misses > MOST_MISSES {
                let told = format!(
                    "line {}: ageing does not reach desired_util: its weights make too few files (line {})",
                    of.line, group.line
                );
                return Err(Failure::new(told, None));
            }
        }
        Ok(())
    }
}

impl Plan for Load {
    fn suite(&self) -> &'static str {
        "ffsb"
    }

    fn name(&self) -> &'static str {
        "profile"
    }

    fn kinds(&self) -> &'static [control::Kind] {
        KINDS
    }

    fn clients(&self) -> u64 {
        self.profile.groups.iter().map(|group| group.threads).sum()
    }

    fn buffer(&self) -> Bytes {
        let blocks = self.profile.groups.iter().flat_map(|group| [group.read.block, group.write.block]);
        Bytes(blocks.max().unwrap_or(4096))
    }

    fn prepare(&self, how: &How, calls: &dyn Syscalls) -> Result<(), Failure> {
        let named = |failure: Failure| failure.of(&self.name);
        self.fits(calls).map_err(named)?;
        for (at, (files, of)) in self.files.iter().zip(&self.profile.file_systems).enumerate() {
            let mut rng = how.seed.derive("ffsb.files", at as u64).rng();
            files.make(of, &mut rng, calls).map_err(|failure| failure.of(&self.name))?;
            if let Some((group, share)) = &of.ageing {
                self.age(at, group, *share, &mut rng, calls).map_err(|failure| failure.of(&self.name))?;
            }
        }
        Ok(())
    }

    fn client(self: Arc<Self>, client: u64, place: Place<'_>) -> Box<dyn run::Client> {
        let calls = place.processes.start();
        if client == 0 {
            let mut main = self.main.lock().unwrap_or_else(PoisonError::into_inner);
            *main = Some(place.processes.start());
        }
        let group = self.group(client).clone();
        let bound = self.profile.file_systems.iter().position(|of| Some(&of.location) == group.bind.as_ref());
        let rng = place.how.seed.derive("ffsb.thread", client).rng();
        Box::new(Client { plan: self, group, bound, rng, calls, misses: 0 })
    }

    /// The sync at the end is part of the time.
    fn conclude(&self, measured: &mut Measured) -> Result<(), Failure> {
        let main = self.main.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(calls) = main {
            let started = sim::now();
            calls.sync().map_err(CallFailed::of("sync", "/"))?;
            let took = sim::now().since(started);
            measured.elapsed += took;
            measured.counters.insert("ffsb.sync_ns".to_owned(), took.0);
        }
        if !self.profile.ignored.is_empty() {
            measured
                .notes
                .push(format!("without influence here, and ignored: {}", self.profile.ignored.join(", ")));
        }
        Ok(())
    }
}

/// A thread of a group.
struct Client {
    plan: Arc<Load>,
    group: Group,
    /// The only file system that it uses, if it is bound.
    bound: Option<usize>,
    rng: Rng,
    calls: Arc<dyn Syscalls>,
    /// Draws, one after the other, that found no file.
    misses: u32,
}

impl run::Client for Client {
    fn step(&mut self, control: &Arc<Control>, tally: &mut Tally) -> Result<bool, Failure> {
        sim::work(GENERATOR, 1);
        // What others have made and removed before this time.
        sim::interact();
        let Some(weight) = Weight::draw(&self.group.weights, &mut self.rng) else { return Ok(false) };
        let at = self.bound.unwrap_or_else(|| self.rng.random_range(0..self.plan.files.len()));
        let kind = weight.kind as usize;
        let mut thread = Thread {
            calls: &*self.calls,
            files: &self.plan.files[at],
            group: &self.group,
            rng: &mut self.rng,
            is_direct: self.plan.profile.is_direct,
            is_aligned: self.plan.profile.is_aligned,
            each: &mut |bytes, started| control.note(tally, kind, bytes, started),
        };
        let done = thread.make(weight).map_err(|failure| failure.of(&self.plan.name))?;
        if done {
            self.misses = 0;
            tally.add(DRAWN[kind], u64::from(sim::now() >= control.begin()));
        } else {
            self.misses += 1;
        }
        if self.misses > MOST_MISSES {
            let told = format!("{}:{}: no file is left for this operation", self.plan.name, weight.line);
            return Err(Failure::new(told, None));
        }
        if self.group.delay_ms > 0 {
            sim::sleep(Nanos::from_millis(self.group.delay_ms));
        }
        Ok(true)
    }
}
