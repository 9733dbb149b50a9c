//! Random operations on a design and on the reference, answer by answer, then tree by tree.
//!
//! Every design with every row of [`configurations`]; `WEIR_MODEL_OPS=n` operations for each seed. A failure prints the seed and
//! the operations of the run up to the difference.

#![allow(unreachable_pub)] // what the test binaries share is not a library

#[path = "../shared/mod.rs"]
mod shared;

use std::sync::Arc;

use fs::FsType;
use media::nvmm::Region;
use rand::RngExt;
use shared::generate::Generator;
use shared::harness::{self, fsck_complaint, virtually};
use shared::model::Model;
use shared::observe::observe;
use shared::op::{NEW, Op, Reply, Runner};
use shared::tree::difference;
use sim::{Bytes, Seed, TaskSpec};
use vfs::{Errno, FileSystem, IoFlags, RenameFlags};

/// A way of mounting a design: region size, options, and whether space may run out.
#[derive(Clone, Copy)]
struct Configuration {
    design: &'static dyn FsType,
    size: Bytes,
    options: &'static [(&'static str, &'static str)],
}

fn configurations() -> Vec<Configuration> {
    let design = fs::by_name("pmfs").expect("pmfs is a design");
    let with = |size, options| Configuration { design, size, options };
    vec![
        with(Bytes::mib(8), &[("jsize", "64k"), ("dir_index", "true")]),
        with(Bytes::mib(8), &[("jsize", "64k"), ("dir_index", "false")]),
        with(Bytes::kib(400), &[("jsize", "64k"), ("dir_index", "true")]),
        with(Bytes::kib(300), &[("jsize", "64k"), ("dir_index", "false")]),
        with(Bytes::mib(64), &[("jsize", "64k"), ("block_size", "2M")]),
    ]
}

/// What a run does beside comparing.
#[derive(Default)]
struct Seen {
    ops: usize,
    out_of_space: usize,
    remounts: usize,
}

struct Run {
    configuration: Configuration,
    region: Arc<Region>,
    runner: Runner,
    model: Model,
    history: Vec<String>,
    seen: Seen,
}

impl Run {
    fn new(configuration: Configuration) -> Self {
        let region = harness::region(configuration.size);
        let options = harness::options(configuration.design, configuration.options);
        configuration.design.mkfs(&region, &options).expect("mkfs");
        let runner = Runner::new(configuration.design.mount(&region, &options).expect("mount"));
        let root = runner.fs.getattr(runner.fs.root()).expect("the root");
        let model = Model::new(root.perm, (root.owner.uid, root.owner.gid));
        Self { configuration, region, runner, model, history: Vec::new(), seen: Seen::default() }
    }

    fn step(&mut self, op: &Op) -> Result<(), String> {
        self.seen.ops += 1;
        if matches!(op, Op::Remount) {
            self.history.push("remount".to_owned());
            return self.remount();
        }
        let done = self.runner.run(op);
        self.history.push(format!("{op:?} -> {:?}", done.as_ref().map(|reply| matches!(reply, Reply::Done))));
        if done == Err(Errno::ENOSPC) {
            self.seen.out_of_space += 1;
            return Ok(());
        }
        let limit = match &done {
            Ok(Reply::Written(bytes)) => Some(*bytes),
            _ => None,
        };
        let expected = self.model.run(op, limit);
        if done == expected { Ok(()) } else { Err(format!("{op:?} gave {done:?}, expected {expected:?}")) }
    }

    fn compare(&self) -> Result<(), String> {
        difference(&observe(&*self.runner.fs)?, &self.model.tree(), &[]).map_or(Ok(()), Err)
    }

    /// Unmounts, checks, mounts; what was open is closed in both worlds.
    fn remount(&mut self) -> Result<(), String> {
        self.seen.remounts += 1;
        self.runner.close_all();
        for number in 0..4 {
            let _ = self.model.run(&Op::Close(number), None);
        }
        self.runner.fs.unmount().map_err(|errno| format!("unmount: {}", errno.name()))?;
        if let Some(complaint) = fsck_complaint(self.configuration.design, &self.region) {
            return Err(complaint);
        }
        let options = harness::options(self.configuration.design, self.configuration.options);
        let fs = self.configuration.design.mount(&self.region, &options);
        self.runner = Runner::new(fs.map_err(|error| format!("mount: {error}"))?);
        self.compare()
    }
}

fn agree(configuration: Configuration, seed: u64, ops: usize) -> Result<Seen, String> {
    let mut run = Run::new(configuration);
    let mut rng = Seed(seed).derive("model", 0).rng();
    let generator = Generator { reads: true, handles: true, remounts: true, bulk: true };
    let done = (0..ops).try_for_each(|number| {
        let op = generator.op(&mut rng, number as u8);
        run.step(&op)?;
        if number % 50 == 0 { run.compare() } else { Ok(()) }
    });
    let done = done.and_then(|()| run.compare()).and_then(|()| run.remount());
    done.map_err(|what| {
        let last = run.history.len().saturating_sub(30);
        format!("{what}\nafter:\n  {}", run.history[last..].join("\n  "))
    })?;
    Ok(run.seen)
}

#[test]
fn every_answer_is_that_of_the_reference() {
    let ops: usize = std::env::var("WEIR_MODEL_OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    for (index, configuration) in configurations().into_iter().enumerate() {
        let mut total = Seen::default();
        for seed in 0..4u64 {
            let seed = 1000 * index as u64 + seed;
            let done = virtually(seed, move || agree(configuration, seed, ops));
            let shown = (configuration.design.name(), configuration.size, configuration.options);
            let seen = done.unwrap_or_else(|what| panic!("{shown:?}, seed {seed}: {what}"));
            total.ops += seen.ops;
            total.out_of_space += seen.out_of_space;
            total.remounts += seen.remounts;
        }
        println!(
            "{} on {}, {:?}: {} operations agree, {} of them without space, {} remounts",
            configuration.design.name(),
            configuration.size,
            configuration.options,
            total.ops,
            total.out_of_space,
            total.remounts
        );
    }
}

/// One of several tasks on shared directories.
fn meddle(fs: &dyn FileSystem, dirs: &[vfs::Ino], seed: Seed, task: u64) {
    let mut rng = seed.derive("meddle", task).rng();
    for _ in 0..400 {
        let dir = dirs[rng.random_range(0..dirs.len())];
        let other = dirs[rng.random_range(0..dirs.len())];
        let name = format!("n{}", rng.random_range(0..12));
        let to = format!("n{}", rng.random_range(0..12));
        let done = match rng.random_range(0..10) {
            0..3 => fs.create(dir, name.as_bytes(), &NEW).map(drop),
            3 => fs.mkdir(dir, name.as_bytes(), &NEW).map(drop),
            4 => fs.unlink(dir, name.as_bytes()),
            5 => fs.rmdir(dir, name.as_bytes()),
            6 => fs.rename((dir, name.as_bytes()), (other, to.as_bytes()), RenameFlags::empty()),
            7 => fs.rename((dir, name.as_bytes()), (other, to.as_bytes()), RenameFlags::EXCHANGE),
            8 => fs
                .lookup(dir, name.as_bytes())
                .and_then(|attr| fs.link(attr.ino, other, to.as_bytes()))
                .map(drop),
            _ => fs.lookup(dir, name.as_bytes()).and_then(|attr| {
                fs.write(attr.ino, rng.random_range(0..9000), &[task as u8 + 1; 3000], IoFlags::empty())
                    .map(drop)
            }),
        };
        if let Err(errno) = done {
            let fine = [
                Errno::ENOENT,
                Errno::EEXIST,
                Errno::EISDIR,
                Errno::ENOTDIR,
                Errno::ENOTEMPTY,
                Errno::EINVAL,
                Errno::EPERM,
                Errno::ENOSPC,
            ];
            assert!(fine.contains(&errno), "seed {seed:?}, task {task}: {}", errno.name());
        }
    }
}

#[test]
fn many_tasks_leave_one_consistent_tree() {
    let mut operations = 0;
    for configuration in configurations().into_iter().take(2) {
        for seed in 0..40u64 {
            let complaint = virtually(seed, move || {
                let Run { region, runner, .. } = Run::new(configuration);
                let fs = Arc::clone(&runner.fs);
                let dirs: Vec<_> = (0..3)
                    .map(|number| {
                        fs.mkdir(fs.root(), format!("d{number}").as_bytes(), &NEW).expect("mkdir").ino
                    })
                    .chain([fs.root()])
                    .collect();
                let tasks: Vec<_> = (0..6u64)
                    .map(|task| {
                        let (fs, dirs) = (Arc::clone(&fs), dirs.clone());
                        let spec = TaskSpec::named(format!("task {task}")).on_core(task as u16 * 7);
                        sim::spawn(spec, move || meddle(&*fs, &dirs, Seed(seed), task))
                    })
                    .collect();
                tasks.into_iter().for_each(sim::JoinHandle::join);
                let before = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                fsck_complaint(configuration.design, &region).map_or(Ok(()), Err)?;
                let options = harness::options(configuration.design, configuration.options);
                let fs = configuration.design.mount(&region, &options).map_err(|error| error.to_string())?;
                let after = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                difference(&after, &before, &[]).map_or(Ok(()), Err)
            });
            complaint
                .unwrap_or_else(|what: String| panic!("{:?}, seed {seed}: {what}", configuration.options));
            operations += 6 * 400;
        }
    }
    println!("{operations} operations of 6 tasks, 80 schedules");
}
