//! What a run promises: it repeats, its parts sum up, structures stay right, and no crash breaks a scheme that says so.

use archsim::crash::mutant::Mutant;
use archsim::crash::{Recording, campaign, crash_config};
use archsim::engine::{Engine, Flaws};
use archsim::run::{ProgramFeed, run_prepared};
use archsim::scheme::SCHEMES;
use archsim::workload::WORKLOADS;
use archsim::{Config, Machine, run};

fn config(scheme: &str, workload: &str, threads: u64) -> Config {
    let mut machine = Machine::load("hpca18").unwrap();
    for (key, value) in [("footprint", "1MiB"), ("l2_size", "128KiB"), ("warmup", "100")] {
        machine.set(key, value).unwrap();
    }
    let (scheme, workload) = (scheme.to_owned(), workload.to_owned());
    Config { machine, scheme, workload, threads, seed: 3, ops: 1000, trace: None }
}

#[test]
fn a_run_repeats_to_the_cycle_with_one_thread_and_with_four() {
    for scheme in ["undo-clwb", "fwb"] {
        for threads in [1, 4] {
            let config = config(scheme, "rbtree", threads);
            let (one, other) = (run(&config).unwrap(), run(&config).unwrap());
            assert_eq!(one, other);
            let elsewhere = run(&Config { seed: 4, ..config }).unwrap();
            assert_ne!(one.time, elsewhere.time);
        }
    }
}

#[test]
fn every_workload_leaves_a_right_structure_under_every_scheme() {
    for known in WORKLOADS {
        for scheme in SCHEMES {
            let mut config = config(scheme.name, known.name, 2);
            config.machine.set("footprint", "64KiB").unwrap();
            let feed = ProgramFeed::new(&config, scheme, 300, false).unwrap();
            let mut engine = Engine::new(&config.machine, scheme, 2, Flaws::default(), feed);
            engine.run(u64::MAX).unwrap_or_else(|error| panic!("{} {}: {error}", known.name, scheme.name));
            assert_eq!(engine.acknowledged.0, 600, "{} {}", known.name, scheme.name);
            let program = &engine.feed.program;
            let heap = program.layout().heap;
            let read = |addr: u64| program.memory()[((addr - heap) / 8) as usize];
            engine.feed.check(&read).unwrap_or_else(|what| panic!("{}: {what}", known.name));
            engine.caches.check();
        }
    }
}

#[test]
fn a_run_on_structures_that_were_built_before_is_the_same() {
    let mut prepared = None;
    for scheme in ["undo-clwb", "fwb", "redo-clwb"] {
        for workload in ["rbtree", "memcached-like"] {
            let config = config(scheme, workload, 2);
            assert_eq!(run_prepared(&config, &mut prepared).unwrap(), run(&config).unwrap());
        }
        let again = config(scheme, "memcached-like", 2);
        assert_eq!(run_prepared(&again, &mut prepared).unwrap(), run(&again).unwrap());
    }
}

#[test]
fn the_parts_of_a_run_sum_up() {
    for scheme in ["non-pers", "redo-clwb", "hwl", "fwb"] {
        let config = config(scheme, "hash", 2);
        let outcome = run(&config).unwrap();
        let spent: u64 = outcome.spent.iter().sum();
        let whole = outcome.time * config.threads;
        assert!(spent.abs_diff(whole) * 20 < whole, "{scheme}: {spent} of {whole}");
        assert!(outcome.counter("row_hits") <= outcome.lines.iter().sum());
    }
}

/// The published gains cannot follow from records of both sides against records of one, however data are written back: with
/// string values a transaction of `fwb` writes more log lines than one of `redo-clwb` moves lines at all. Its log alone, which
/// lies in one bank at a time, also takes longer.
#[test]
fn the_log_of_lines_alone_exceeds_all_that_redo_logging_does() {
    let run = |scheme| run(&config(scheme, "sps-str", 8)).unwrap();
    let (fwb, redo) = (run("fwb"), run("redo-clwb"));
    let log = fwb.lines[archsim::memory::Cause::Log as usize] as f64 / fwb.transactions as f64;
    assert!(log * 64.0 > redo.traffic(), "{log} lines, {} bytes", redo.traffic());
    assert!(log * 36.0 > 1e9 / redo.throughput(), "{log} lines, {} ns", 1e9 / redo.throughput());
    assert!(1e9 / fwb.throughput() >= log * 36.0);
}

/// A record that nothing waits for leaves all the same: a store costs the record before it, not the time to the next scan.
#[test]
fn a_store_without_a_log_buffer_waits_for_the_record_before_it_and_no_longer() {
    for (scheme, threads) in [("fwb", 1), ("fwb", 4), ("hwl", 4)] {
        let time = |records: &str| {
            let mut config = config(scheme, "hash", threads);
            config.machine.set("log_buffer", records).unwrap();
            run(&config).unwrap().time
        };
        let (without, with) = (time("0"), time("15"));
        assert!(without < 4 * with, "{scheme} x {threads}: {without} and {with}");
    }
}

#[test]
fn log_bytes_are_records_times_their_length() {
    let mut config = config("fwb", "sps", 1);
    config.machine.set("log_grain", "word").unwrap();
    config.machine.warmup = 0;
    let outcome = run(&config).unwrap();
    let words = outcome.counter("hw_records") * 32 + outcome.transactions * 32;
    assert!(outcome.counter("hw_log_bytes").abs_diff(words) <= 64, "{outcome:?}");
}

#[test]
fn one_record_a_block_shortens_the_log_of_every_scheme() {
    for scheme in ["undo-clwb", "redo-clwb", "undoredo-clwb", "hwl", "fwb"] {
        let log = |coalesce: &str| {
            let mut config = config(scheme, "sps-str", 1);
            config.machine.set("log_coalesce", coalesce).unwrap();
            run(&config).unwrap().lines[archsim::memory::Cause::Log as usize]
        };
        assert!(log("first") * 3 < log("none"), "{scheme}: {} and {}", log("first"), log("none"));
    }
}

#[test]
fn a_redo_log_is_fenced_behind_its_data_only_where_it_is_truncated() {
    let config = config("redo-clwb", "sps", 1);
    let outcome = run(&config).unwrap();
    let fences = outcome.executed.fences as f64 / outcome.transactions as f64;
    assert!((2.0..2.1).contains(&fences), "{fences}");
}

#[test]
fn no_crash_breaks_a_scheme_with_other_logs_and_domains() {
    let keys = [
        ("log_coalesce", "first"),
        ("log_grain", "line"),
        ("sw_record", "padded"),
        ("sw_log", "thread"),
        ("log_order", "banked"),
        ("domain", "adr"),
        ("log_priority", "all"),
        ("map", "line"),
        ("row_buffers", "4"),
        ("log_buffer", "0"),
    ];
    for (key, value) in keys {
        for scheme in SCHEMES.iter().filter(|scheme| scheme.promises) {
            let mut config = crash_config(scheme.name, 1).unwrap();
            config.machine.set(key, value).unwrap();
            let verdict = campaign(&config, None, 2_000).unwrap();
            assert_eq!(verdict.failures, 0, "{} with {key} = {value}: {:?}", scheme.name, verdict.first);
        }
    }
}

#[test]
fn no_crash_breaks_a_scheme_that_promises() {
    for scheme in SCHEMES.iter().filter(|scheme| scheme.promises) {
        let verdict = campaign(&crash_config(scheme.name, 1).unwrap(), None, 12_000).unwrap();
        assert!(verdict.points >= 12_000 && verdict.nested > 100);
        assert_eq!(verdict.failures, 0, "{}: {:?}", scheme.name, verdict.first);
    }
}

/// A transaction stores two values of 256 bytes, whose records take twice the log.
fn with_small_log(scheme: &str, threads: u64) -> Config {
    let mut config =
        Config { workload: "sps-str".into(), threads, ops: 40, ..crash_config(scheme, 1).unwrap() };
    for (key, value) in [("log_size", "1KiB"), ("value", "256B")] {
        config.machine.set(key, value).unwrap();
    }
    config
}

#[test]
fn no_crash_breaks_a_scheme_whose_log_grows() {
    for scheme in SCHEMES.iter().filter(|scheme| scheme.promises) {
        for (threads, log) in [(1, "process"), (2, "process"), (2, "thread")] {
            let mut config = with_small_log(scheme.name, threads);
            config.machine.set("sw_log", log).unwrap();
            let recording = Recording::new(&config, None).unwrap();
            // Redo records of a block that is logged once are short; all others must have grown.
            assert!(recording.growths() > 0 || scheme.name.ends_with("-like"), "{}", scheme.name);
            let verdict = recording.explore(4);
            assert!(verdict.points > 1000, "{}: {}", scheme.name, verdict.points);
            assert_eq!(verdict.failures, 0, "{} x {threads}: {:?}", scheme.name, verdict.first);
        }
    }
}

#[test]
fn a_log_that_grows_before_its_superblock_is_durable_is_noticed() {
    let recording = Recording::new(&with_small_log("fwb", 1), Some(Mutant::LateSuperblock)).unwrap();
    assert!(recording.growths() > 0);
    assert!(recording.explore(4).failures > 0);
}

#[test]
fn a_log_that_may_not_grow_ends_the_run_with_the_key_to_set() {
    for scheme in ["undo-clwb", "redo-clwb", "hwl", "fwb"] {
        let mut config = with_small_log(scheme, 1);
        config.machine.set("log_grow", "no").unwrap();
        let told = run(&config).unwrap_err().to_string();
        assert!(told.contains("set log_size"), "{scheme}: {told}");
    }
}

#[test]
fn the_campaign_notices_schemes_without_promises() {
    for scheme in SCHEMES.iter().filter(|scheme| !scheme.promises) {
        let verdict = campaign(&crash_config(scheme.name, 1).unwrap(), None, 2_000).unwrap();
        assert!(verdict.failures > 0, "{}", scheme.name);
    }
}

#[test]
fn every_mutant_is_caught() {
    for mutant in Mutant::ALL {
        let verdict = campaign(&crash_config(mutant.scheme(), 1).unwrap(), Some(mutant), 100_000).unwrap();
        assert!(verdict.failures > 0, "{} after {} crashes", mutant.name(), verdict.points);
    }
}

#[test]
fn a_case_runs_again_alone() {
    let config = Config { workload: "hash".into(), ..crash_config("fwb", 1).unwrap() };
    let again = || Recording::new(&config, Some(Mutant::EarlyAcknowledge)).unwrap().explore(4);
    let (one, other) = (again(), again());
    assert!(one.failures > 0);
    assert_eq!(one, other);
}

#[test]
fn what_does_not_fit_is_refused_with_key_and_range() {
    let told = |config: &Config| run(config).unwrap_err().to_string();
    let many = Config { threads: 9, ..config("fwb", "hash", 1) };
    assert_eq!(told(&many), "threads = 9: from 1 to 8");
    let unknown = config("fwd", "hash", 1);
    assert!(told(&unknown).contains("did you mean \"fwb\"?"));
    let mut large = config("fwb", "hash", 1);
    large.machine.set("footprint", "16GiB").unwrap();
    assert!(told(&large).contains("set footprint or memory"));
    let mut small = config("fwb", "sps-str", 1);
    small.machine.set("log_size", "1KiB").unwrap();
    small.machine.set("log_grow", "no").unwrap();
    assert!(told(&small).contains("set log_size"));
}
