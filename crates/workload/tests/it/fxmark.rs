//! FxMark on files in memory: what an error, a full file system and a lie do to a run.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use crate::support::wrapped::{self, Lie};
use crate::support::{Memory, setup};
use sim::{Nanos, Seed};
use vfs::{Errno, Syscalls};
use workload::JobError;
use workload::suite::{Cores, How, Measured, Processes, Settings, Stop, by_name};

/// Processes on files in memory, with something between them and the workload.
struct Wrapping<W>(Arc<Memory>, W);

impl<W: Fn(Arc<dyn Syscalls>) -> Arc<dyn Syscalls> + Send + Sync> Processes for Wrapping<W> {
    fn start(&self) -> Arc<dyn Syscalls> {
        self.1(self.0.process())
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        self.start()
    }
}

/// Prepares, works and verifies.
fn run<W: Wrap>(name: &'static str, wrap: W) -> Result<Measured, JobError> {
    run_with(name, &[], true, wrap)
}

/// Prepares and works.
fn run_unverified<W: Wrap>(name: &'static str, wrap: W) -> Result<Measured, JobError> {
    run_with(name, &[], false, wrap)
}

trait Wrap: Fn(Arc<dyn Syscalls>) -> Arc<dyn Syscalls> + Send + Sync + 'static {}

impl<W: Fn(Arc<dyn Syscalls>) -> Arc<dyn Syscalls> + Send + Sync + 'static> Wrap for W {}

fn run_with<W: Wrap>(
    name: &'static str,
    switches: &'static [&'static str],
    verify: bool,
    wrap: W,
) -> Result<Measured, JobError> {
    sim::run(&setup(1), move || {
        let vars = [("workers", "2"), ("files", "50"), ("blocks", "200"), ("region", "8KiB")];
        let vars = vars.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let switches = switches.iter().map(|name| ((*name).to_owned(), true)).collect();
        let settings = Settings { vars, switches, ..Settings::default() };
        let workload = by_name("fxmark").unwrap().load(name, &settings).unwrap();
        let (stop, cores) = (Stop::After(Nanos::from_micros(400)), Cores { sockets: 1, per_socket: 4 });
        let how = How { seed: Seed(1), stop, cores, check: true, ..How::default() };
        let memory = Memory::new();
        let job = workload.job(&how, Arc::new(Wrapping(Arc::clone(&memory), wrap)))?;
        job.prepare()?;
        let measured = job.work(&mut |_| ())?;
        if verify {
            job.verify(&*memory.process())?;
        }
        job.conclude()?;
        Ok(measured)
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn nothing_is_wrong_where_nothing_is_wrong() {
    for name in ["DRBL", "DRBM", "DRBH", "DWOL", "DWOM", "DWAL", "DWTL", "DWSL", "MWCL", "MWCM", "MWUM"] {
        let measured = run(name, |calls| calls).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(measured.ops > 0 && !measured.cut_short, "{name}");
    }
}

/// Each of the two workers may write three times: the block that it makes, and two overwrites.
#[test]
fn a_full_file_system_ends_the_window_and_is_no_error() {
    let measured = run("DWAL", |calls| wrapped::full_after(calls, 3)).unwrap();
    assert!(measured.ops >= 3 && measured.ops <= 6, "{}", measured.ops);
    assert!(!measured.cut_short && measured.errors == 0 && measured.elapsed < Nanos::from_micros(400));
    assert!(measured.provided_for >= 1, "the calls that found it full are told apart from errors");
}

#[test]
fn no_space_for_the_files_themselves_is_told_as_such() {
    let error = run("DRBL", |calls| wrapped::full_after(calls, 0)).unwrap_err();
    assert!(matches!(&error, JobError::Full(told) if told.contains("prepare: write of")), "{error}");
}

#[test]
fn a_call_that_fails_ends_the_run_and_marks_it() {
    let measured = run_unverified("DWAL", |calls| wrapped::failing_after(calls, 5, Errno::EIO)).unwrap();
    assert!(measured.cut_short && measured.errors >= 1, "{measured:?}");
    assert!(measured.notes[0].contains("write of /fxmark/") && measured.notes[0].contains("not valid"));
    assert!(measured.elapsed < Nanos::from_micros(400), "the others do not go on until the end");
}

#[test]
fn data_that_is_not_what_was_written_fails_the_read() {
    for lie in [Lie::Bit, Lie::Shift, Lie::Zero] {
        let reads = Arc::new(AtomicU64::new(0));
        let measured =
            run_unverified("DRBL", move |calls| wrapped::lying(calls, lie, Arc::clone(&reads))).unwrap();
        assert!(measured.cut_short && measured.notes[0].contains("pread"), "{lie:?}: {:?}", measured.notes);
    }
}

#[test]
fn digits_of_the_original_lead_to_eight_files_and_independent_ones_to_all() {
    let visited = |switch: bool| {
        let log = Arc::new(Mutex::new(BTreeSet::new()));
        let noted = Arc::clone(&log);
        let wrap = move |calls| wrapped::noting_stats(calls, Arc::clone(&noted));
        let switches = if switch { &["eight_paths"][..] } else { &[] };
        run_with("MRPM", switches, false, wrap).unwrap();
        log.lock().unwrap().len()
    };
    assert_eq!(visited(true), 8);
    assert!(visited(false) > 300, "two workers of some 400 calls each, at random among 32,768");
}
