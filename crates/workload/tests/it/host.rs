//! The same engine on a directory of the host: a file system is a file system.

use std::sync::Arc;

use crate::support::{checked, machine, personality};
use sim::{Nanos, Seed, Setup};
use vfs::{Host, Syscalls};
use workload::filebench::{Engine, Options};

#[test]
fn a_directory_of_the_host_is_worked_on_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_owned();
    let setup = Setup::real_clock(machine(), Seed(1));
    let program = personality("varmail", &[("nfiles", "300"), ("nthreads", "2")]);
    sim::run(&setup, move || {
        let calls: Arc<dyn Syscalls> = Arc::new(Host::new(&path).unwrap());
        // A count, not a time: a host whose disk syncs thirty times a second does the same.
        let options = Options { stop_after_ops: Some(60), ..checked(1, Nanos::from_secs(600)) };
        let engine = Engine::new(program, options).unwrap();
        let prepared = engine.prepare(&calls).unwrap();
        assert!((200..280).contains(&prepared.files), "{prepared:?}");
        let outcome = engine.run(&calls).unwrap();
        assert!(outcome.ops() >= 60, "{}", outcome.summary());
        let verified = engine.verify(&*calls).unwrap();
        assert_eq!(verified.files + verified.absent, 300);
    })
    .unwrap();
}
