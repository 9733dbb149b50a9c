//! What the engine itself costs the host: runs on system calls that do nothing.
//!
//! `cargo bench -p weir-workload --bench overhead`

#[path = "../../workload/tests/it/support/mod.rs"]
mod support;

use std::sync::Arc;
use std::time::Instant;

use sim::{Clock, Nanos, Seed, Setup};
use support::{personality, wrapped};
use workload::filebench::{Engine, Options};

/// Host time of one counted operation, in nanoseconds.
fn host_ns(clock: Clock, name: &str, variables: &[(&str, &str)], check: bool) -> f64 {
    let setup = Setup { clock, ..Setup::virtual_clock(support::machine(), Seed(1)) };
    let program = personality(name, variables);
    sim::run(&setup, move || {
        let duration = match clock {
            Clock::Virtual => Nanos::from_millis(500),
            Clock::Real => Nanos::from_secs(2),
        };
        let options = Options { check, duration: Some(duration), ..Options::new(Seed(1)) };
        let engine = Engine::new(program, options).unwrap();
        let calls: Arc<dyn vfs::Syscalls> = Arc::new(wrapped::Nothing::new(16 << 10));
        engine.prepare(&calls).unwrap();
        let start = Instant::now();
        let outcome = engine.run(&calls).unwrap();
        let spent = start.elapsed().as_nanos() as f64;
        spent / outcome.ops() as f64
    })
    .unwrap()
}

fn main() {
    let small = [("nfiles", "40960"), ("nthreads", "1")];
    let large = [("nfiles", "327680"), ("nthreads", "10")];
    for name in ["fileserver", "webserver", "webproxy", "varmail"] {
        for (threads, variables) in [(1, &small), (10, &large)] {
            let ns = host_ns(Clock::Virtual, name, variables, false);
            println!("{name}, virtual clock, {threads} threads: {ns:.0} ns");
        }
        println!("{name}, real clock, 1 thread: {:.0} ns", host_ns(Clock::Real, name, &small, false));
    }
    let ns = host_ns(Clock::Virtual, "randomwrite", &[("filesize", "64m")], false);
    println!("randomwrite, virtual clock, 1 thread: {ns:.0} ns");
}
