//! Job files on files in memory: what is done, when, and what an error or a lie does to a run.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::support::wrapped::{self, Lie};
use crate::support::{Memory, setup};
use results::JobRecord;
use sim::{Nanos, Seed};
use vfs::{Errno, OpenFlags, Syscalls};
use workload::JobError;
use workload::suite::{Cores, How, Measured, Processes, Settings, Stop, by_name};

struct Wrapping<W>(Arc<Memory>, W);

impl<W: Fn(Arc<dyn Syscalls>) -> Arc<dyn Syscalls> + Send + Sync> Processes for Wrapping<W> {
    fn start(&self) -> Arc<dyn Syscalls> {
        self.1(self.0.process())
    }

    fn start_plain(&self) -> Arc<dyn Syscalls> {
        self.start()
    }
}

/// Calls as they are.
fn plain(calls: Arc<dyn Syscalls>) -> Arc<dyn Syscalls> {
    calls
}

/// Prepares, works, verifies (where nothing failed) and clears up.
fn run_with(
    text: &str,
    stop: Stop,
    wrap: impl Fn(Arc<dyn Syscalls>) -> Arc<dyn Syscalls> + Send + Sync + 'static,
) -> Result<Measured, JobError> {
    let text = text.to_owned();
    sim::run(&setup(1), move || {
        let workload = by_name("fio").unwrap().read("t.fio", &text, &Settings::default()).unwrap();
        let cores = Cores { sockets: 1, per_socket: 8 };
        let how = How { seed: Seed(1), stop, cores, check: true, ..How::default() };
        let memory = Memory::new();
        let job = workload.job(&how, Arc::new(Wrapping(Arc::clone(&memory), wrap)))?;
        job.prepare()?;
        let measured = job.work(&mut |_| ())?;
        if !measured.cut_short {
            job.verify(&*memory.process())?;
        }
        job.conclude()?;
        assert_eq!(memory.process().stat(b"/fio").map(drop), Err(Errno::ENOENT), "nothing is left");
        Ok(measured)
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

fn run(text: &str) -> Measured {
    let measured = run_with(text, Stop::After(Nanos::MAX), plain).unwrap_or_else(|error| panic!("{error}"));
    assert!(!measured.cut_short && measured.errors == 0, "{:?}", measured.notes);
    measured
}

fn job<'a>(measured: &'a Measured, name: &str, direction: &str) -> &'a JobRecord {
    let found = measured.jobs.iter().find(|job| job.name == name && job.direction == direction);
    found.unwrap_or_else(|| panic!("{name} {direction}: {:?}", names(measured)))
}

fn names(measured: &Measured) -> Vec<String> {
    measured.jobs.iter().map(|job| format!("{} {}", job.name, job.direction)).collect()
}

#[test]
fn a_job_moves_its_size_once_a_loop() {
    let measured = run("[a]\nrw=write\nsize=1m\n[b]\nrw=randread\nsize=1m\nloops=3\n");
    let (a, b) = (job(&measured, "a", "write"), job(&measured, "b", "read"));
    assert_eq!((a.count, a.bytes, b.count, b.bytes), (256, 1 << 20, 768, 3 << 20));
    assert_eq!((measured.ops, measured.read_bytes, measured.written_bytes), (1024, 3 << 20, 1 << 20));
    assert_eq!(measured.steps[0].latency_ns.count(), 1024);
}

#[test]
fn a_rate_is_honoured_exactly() {
    for (text, ios, engine) in
        [("rate_iops=1000", 2000, "psync"), ("rate=4m", 2048, "psync"), ("rate_iops=500", 1000, "libaio")]
    {
        let text = format!(
            "[a]\nrw=randread\nsize=1m\ntime_based\nruntime=2\nioengine={engine}\niodepth=4\n{text}\n"
        );
        let measured = run(&text);
        let a = job(&measured, "a", "read");
        assert_eq!((a.count, a.elapsed_ns), (ios, 2_000_000_000), "{text}");
        assert_eq!(measured.elapsed, Nanos::from_secs(2));
    }
}

#[test]
fn a_rate_of_writes_limits_writes_alone() {
    let measured =
        run("[a]\nrw=randrw\nrwmixread=90\nsize=1m\nrate_iops=,100\ntime_based\nruntime=1\nnorandommap\n");
    assert_eq!(job(&measured, "a", "write").count, 100);
    assert!(job(&measured, "a", "read").count > 50_000, "reads go on");
}

#[test]
fn a_job_that_misses_its_least_rate_or_its_largest_latency_fails_with_the_reason() {
    for (text, told) in [
        ("rate_min=1g\ntime_based\nruntime=9", "a: rate_min=1073741824 bytes/s is not met: "),
        ("max_latency=1us", "a: an I/O took"),
        (
            "latency_target=1us\nlatency_window=1ms\nioengine=libaio\niodepth=4",
            "a: latency_target is not met",
        ),
    ] {
        let text = format!("[a]\nrw=write\nsize=64k\n{text}\n");
        let measured = run_with(&text, Stop::After(Nanos::MAX), plain).unwrap();
        assert!(
            measured.cut_short && measured.notes.iter().any(|note| note.contains(told)),
            "{:?}",
            measured.notes
        );
    }
    let measured = run("[a]\nrw=write\nsize=64k\nrate_min=1m\ntime_based\nruntime=4\n");
    assert_eq!(job(&measured, "a", "write").elapsed_ns / 1_000_000, 4_000, "it goes on to its end");
}

#[test]
fn a_depth_within_the_latency_is_found_and_noted() {
    let text = "[a]\nrw=randread\nsize=1m\nioengine=libaio\niodepth=16\ntime_based\nruntime=9\nlatency_target=1ms\n\
                latency_window=1ms\nlatency_percentile=99\n";
    let measured = run(text);
    let depth = measured.notes.iter().find(|note| note.contains("latency_target: a depth of")).unwrap();
    assert!(depth.ends_with(" 16"), "{depth}: the target is far above what a call takes");
    let a = job(&measured, "a", "read");
    assert!(a.elapsed_ns < 3_000_000, "{}: the search is not in the result, and ends the job", a.elapsed_ns);
}

#[test]
fn a_job_ends_when_its_rate_is_steady_and_a_group_as_one() {
    // Warmed by a first pass, a read of 4 KiB takes the same time always: steady after two intervals, the ramp before them.
    let steady = "rw=read\nsize=64k\ntime_based\nruntime=9\nsteadystate=iops:5%\nss_dur=20ms\nss_interval=10\nss_ramp=10ms\n";
    let measured = run(&format!("[a]\n{steady}"));
    let note = measured.notes.iter().find(|note| note.contains("steadystate")).unwrap();
    assert!(note.starts_with("a: steadystate: attained after 30.0 ms"), "{note}");
    let a = job(&measured, "a", "read");
    assert_eq!(a.elapsed_ns / 1_000_000, 30);
    let measured = run(&format!("[a]\nnumjobs=2\ngroup_reporting\n{steady}"));
    let notes = measured.notes.iter().filter(|note| note.contains("steadystate"));
    assert_eq!(notes.count(), 1, "{:?}", measured.notes);
    // A job that is over before says so; without a duration nothing is judged, as at fio.
    let measured = run("[a]\nrw=read\nsize=64k\nss=iops:5%\nss_dur=20\n");
    assert!(measured.notes.iter().any(|note| note.contains("not attained: the job ended before")));
    let measured = run("[a]\nrw=read\nsize=64k\nsteadystate=bw_slope:1m\n");
    assert_eq!(measured.notes.iter().filter(|note| note.contains("steadystate")).count(), 0);
}

#[test]
fn a_log_is_replayed_on_its_files_at_its_times() {
    let home = tempfile::tempdir().unwrap();
    let log = home.path().join("log");
    std::fs::write(
        &log,
        "fio version 3 iolog\n0 /dev/sdx add\n0 /dev/sdx write 0 8192\n500 /dev/sdx read 65536 4096\n\
         900 other read 0 512\n2000 /dev/sdx sync 0 0\n",
    )
    .unwrap();
    let text = format!("[a]\nread_iolog={}\nloops=3\n", log.display());
    let measured = run(&text);
    let (write, read) = (job(&measured, "a", "write"), job(&measured, "a", "read"));
    assert_eq!((write.count, write.bytes, read.count, read.bytes), (1, 8192, 2, 4608));
    assert_eq!((job(&measured, "a", "sync").count, measured.elapsed >= Nanos::from_millis(2)), (1, true));
    let at_once = run(&format!("{text}replay_no_stall=1\n"));
    assert!(at_once.elapsed < Nanos::from_millis(1), "{}", at_once.elapsed);
}

/// A call takes five microseconds, and one is asked for every half: each waits longer than the one before it. A tool that
/// measures from the call would report five for all.
#[test]
fn latency_under_a_rate_counts_from_the_intended_start() {
    let measured = run("[a]\nrw=read\nsize=4m\nrate_iops=2000000\n");
    let a = job(&measured, "a", "read");
    assert!(a.clat_ns.quantile_ns(0.99) < 6_000, "{}", a.clat_ns.quantile_ns(0.99));
    assert!(a.lat_ns.quantile_ns(0.99) > 300_000, "{}", a.lat_ns.quantile_ns(0.99));
    assert_eq!(a.slat_ns.count(), a.count);
    let unhurried = run("[a]\nrw=read\nsize=4m\nrate_iops=10000\n");
    let a = job(&unhurried, "a", "read");
    assert_eq!(a.lat_ns.quantile_ns(0.99), a.clat_ns.quantile_ns(0.99), "nothing is late");
}

#[test]
fn a_time_based_job_goes_on_until_its_time_and_a_ramp_is_not_measured() {
    let text = |ramp| format!("[a]\nrw=randwrite\nsize=256k\ntime_based\nruntime=50ms\n{ramp}\n");
    let (plain, ramped) = (run(&text("")), run(&text("ramp_time=20ms")));
    let (plain, ramped) = (job(&plain, "a", "write"), job(&ramped, "a", "write"));
    assert!(plain.bytes > 10 * (256 << 10), "many passes");
    assert!((50_000_000..50_010_000).contains(&ramped.elapsed_ns), "{}", ramped.elapsed_ns);
    let ratio = ramped.count as f64 / plain.count as f64;
    assert!((ratio - 1.0).abs() < 0.02, "{ratio}");
    assert!(run("[a]\nrw=read\nsize=64m\nruntime=1ms\n").ops < 2000, "runtime caps a size");
}

#[test]
fn stages_follow_each_other_and_their_times_add_up() {
    let measured = run("[global]\nsize=1m\nrw=read\n[a]\n[b]\n[c]\nstonewall\n");
    let time = |name: &str| job(&measured, name, "read").elapsed_ns;
    assert_eq!(measured.elapsed.0, time("a").max(time("b")) + time("c"));
    assert_eq!(job(&measured, "group 0", "read").jobs, 2);
    assert_eq!(job(&measured, "c", "read").group, 1);
}

#[test]
fn a_job_waits_for_another_or_for_its_delay_and_ends_all_with_exitall() {
    let measured = run("[a]\nrw=read\nsize=1m\n[b]\nrw=read\nsize=1m\nwait_for=a\n");
    let alone = run("[a]\nrw=read\nsize=1m\n");
    let (b, a) = (job(&measured, "b", "read").elapsed_ns, job(&alone, "a", "read").elapsed_ns);
    assert!(b.abs_diff(a) < a / 10, "{b} {a}: its time begins when it begins");
    let delayed = run("[a]\nrw=read\nsize=256k\n[b]\nrw=read\nsize=256k\nstartdelay=1\n");
    assert!(job(&delayed, "b", "read").elapsed_ns < 1_000_000_000);
    let ended = run("[a]\nrw=read\nsize=64k\nexitall\n[b]\nrw=read\nsize=1m\ntime_based\nruntime=1\n");
    assert!(job(&ended, "b", "read").elapsed_ns < 1_000_000);
}

#[test]
fn clones_are_reported_each_or_together() {
    let each = run("[a]\nrw=randrw\nsize=256k\nnumjobs=3\n");
    assert!(
        names(&each).contains(&"a.2 write".to_owned()) && names(&each).contains(&"group 0 read".to_owned())
    );
    let together = run("[a]\nrw=randrw\nsize=256k\nnumjobs=3\ngroup_reporting\n");
    assert_eq!(names(&together), ["a read", "a write"]);
    assert_eq!(job(&together, "a", "read").count + job(&together, "a", "write").count, 192);
    let mixed = run("[a]\nrw=randrw\nsize=256k\nunified_rw_reporting=mixed\n");
    assert_eq!((names(&mixed), job(&mixed, "a", "mixed").count), (vec!["a mixed".to_owned()], 64));
    let both = run("[a]\nrw=randrw\nsize=256k\nunified_rw_reporting=both\n");
    assert_eq!(names(&both), ["a read", "a write", "a mixed"]);
}

#[test]
fn written_blocks_are_read_back_and_are_what_was_written() {
    for verify in ["crc32c", "md5", "sha256", "crc7", "meta", "pattern\nverify_pattern=0xdead%o"] {
        for how in [
            "rw=randwrite",
            "rw=write\nioengine=libaio\niodepth=8",
            "rw=randrw\nnorandommap",
            "rw=write\nverify_backlog=16",
        ] {
            let measured = run(&format!("[a]\nsize=512k\n{how}\nverify={verify}\n"));
            let (written, read) = (job(&measured, "a", "write").count, job(&measured, "a", "verify").count);
            let distinct = if how.contains("norandommap") { 1..=written } else { written..=written };
            assert!(distinct.contains(&read), "{how} {verify}: {read} of {written}");
        }
    }
    let intervals = run("[a]\nsize=512k\nrw=write\nbs=16k\nverify=crc32c\nverify_interval=512\n");
    assert_eq!(job(&intervals, "a", "verify").count, 32);
    let unread = run("[a]\nsize=512k\nrw=write\nverify=crc32c\ndo_verify=0\n");
    assert_eq!(names(&unread), ["a write"]);
}

/// The canary: one flipped byte in the hundredth read.
#[test]
fn a_byte_that_was_not_written_so_is_found() {
    for lie in [Lie::Bit, Lie::Shift, Lie::Zero] {
        for fatal in [0, 1] {
            let reads = Arc::new(AtomicU64::new(0));
            let text = format!("[a]\nrw=randwrite\nsize=1m\nverify=crc32c\nverify_fatal={fatal}\n");
            let wrap = move |calls| wrapped::lying(calls, lie, Arc::clone(&reads));
            let measured = run_with(&text, Stop::After(Nanos::MAX), wrap).unwrap();
            assert!(measured.cut_short && measured.errors >= 1, "{lie:?}");
            let note =
                measured.notes.iter().find(|note| note.contains("verify of /fio/a.0.0: offset")).unwrap();
            assert!(note.contains("not valid"), "{note}");
        }
    }
}

#[test]
fn a_job_that_reads_verifies_what_another_has_written() {
    let text = |check: &str| {
        format!(
            "[w]\nrw=write\nfilename=x\nsize=256k\nverify=crc32c\ndo_verify=0\n[r]\nstonewall\nrw=read\nfilename=x\nsize=256k\nverify={check}\n"
        )
    };
    assert_eq!(job(&run(&text("crc32c")), "r", "read").count, 64);
    let other = run_with(&text("md5"), Stop::After(Nanos::MAX), plain).unwrap();
    assert!(other.cut_short && other.errors == 64, "{:?}", other.notes);
}

#[test]
fn no_space_and_a_failing_call_are_told_with_their_place() {
    let text = "[a]\nrw=write\nsize=1m\nioengine=sync\n";
    let stop = Stop::After(Nanos::MAX);
    let full = run_with(text, stop, |calls| wrapped::full_after(calls, 10)).unwrap_err();
    assert!(
        matches!(&full, JobError::Full(told) if told.contains("a: write of 4096 bytes at 40960 of /fio/a.0.0")),
        "{full}"
    );
    let failing = run_with(text, stop, |calls| wrapped::failing_after(calls, 10, Errno::EIO)).unwrap();
    assert!(
        failing.cut_short && failing.errors == 1 && failing.notes[0].contains("write of 4096 bytes"),
        "{failing:?}"
    );
}

#[test]
fn files_of_others_are_not_touched() {
    let error = sim::run(&setup(1), || {
        let workload = by_name("fio").unwrap().load("log", &Settings::default()).unwrap();
        let memory = Memory::new();
        memory.process().mkdir(b"/fio", 0o755).unwrap();
        let job = workload.job(&How::default(), Arc::new(Wrapping(Arc::clone(&memory), plain))).unwrap();
        let error = job.prepare().unwrap_err();
        job.conclude().unwrap();
        memory.process().stat(b"/fio").expect("it is still there");
        error
    });
    assert!(error.unwrap().to_string().contains("/fio exists"));
}

#[test]
fn files_are_removed_when_the_job_says_so_and_made_when_it_opens_them() {
    for text in ["unlink=1", "unlink_each_loop=1\nloops=3", "create_on_open=1\nunlink=1", "create_on_open=1"]
    {
        let measured = run(&format!("[a]\nrw=write\nsize=64k\nnrfiles=2\n{text}\n"));
        assert!(measured.ops >= 16, "{text}");
    }
    assert_eq!(run("[a]\nrw=read\nsize=64k\nunlink_each_loop=1\nloops=3\n").ops, 48);
}

#[test]
fn thinking_stops_the_job_and_tasks_run_side_by_side() {
    let thinking = run("[a]\nrw=read\nsize=64k\nthinktime=1ms\nthinktime_blocks=4\n");
    let time = job(&thinking, "a", "read").elapsed_ns;
    assert!((4_000_000..4_100_000).contains(&time), "{time}: sixteen I/Os, four pauses");
    let time = |depth| {
        let text = format!("[a]\nrw=randread\nsize=1m\nioengine=posixaio\niodepth={depth}\n");
        job(&run(&text), "a", "read").elapsed_ns
    };
    assert!(time(8) * 2 < time(1), "{} {}", time(8), time(1));
}

#[test]
fn the_caller_may_end_a_run_before_the_file_does() {
    let text = "[a]\nrw=randread\nsize=1m\ntime_based\nruntime=10\n";
    let counted = run_with(text, Stop::Operations(100), plain).unwrap();
    assert_eq!(counted.ops, 100);
    let timed = run_with(text, Stop::After(Nanos::from_millis(5)), plain).unwrap();
    assert!((5_000_000..5_010_000).contains(&timed.elapsed.0), "{}", timed.elapsed);
    for measured in [counted, timed] {
        assert!(
            measured.notes.iter().any(|note| note.contains("not by the job file")),
            "{:?}",
            measured.notes
        );
    }
}

#[test]
fn what_a_job_file_does_differently_here_is_in_its_notes() {
    let measured =
        run("[a]\nrw=randread\nsize=64k\nioengine=io_uring\niodepth=4\nwrite_bw_log=x\nmem=malloc\n");
    let notes = measured.notes.join("\n");
    assert!(notes.contains("ignored: write_bw_log (line 6), mem (line 7)"), "{notes}");
    assert!(notes.contains("ioengine=io_uring with iodepth=4 is 4 tasks on the job's core"), "{notes}");
}

#[test]
fn variables_set_options_and_threads_are_clones() {
    let load = |text: &str, settings: &Settings| by_name("fio").unwrap().read("t.fio", text, settings);
    let vars = [("SIZE", "2m"), ("bs", "8k")].map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let settings = Settings { vars, threads: Some("3".to_owned()), ..Settings::default() };
    let workload = load("[a]\nrw=read\nsize=${SIZE}\n", &settings).unwrap();
    assert_eq!((workload.tasks(), workload.data_bytes()), (3, 6 << 20));
    assert!(workload.settings().contains("Fixed(8192)"));
    let error = load("[a]\nrw=reed\nsize=4q\n[b]\nnice=5\n", &Settings::default()).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    assert_eq!(lines.len(), 4, "{error}");
    for (line, told) in
        ["t.fio:2: rw", "t.fio:3: size", "t.fio:4: no size", "t.fio:5: nice cannot be honoured"]
            .iter()
            .enumerate()
    {
        assert!(lines[line].starts_with(told), "{error}");
    }
    let missing = load("[a]\nsize=${WEIR_NONE}\n", &Settings::default()).unwrap_err().to_string();
    assert!(
        missing.lines().count() == 1 && missing.contains("t.fio:2: ${WEIR_NONE} has no value"),
        "{missing}"
    );
    let lenient = Settings { switches: [("lenient".to_owned(), true)].into(), ..Settings::default() };
    assert!(load("[a]\nsize=1m\nnice=5\n", &lenient).is_ok());
}

/// Reading and writing by another process see the same files: `OpenFlags` reach the calls.
#[test]
fn direct_and_synchronous_jobs_open_their_files_so() {
    for (text, flag) in
        [("direct=1", OpenFlags::DIRECT), ("sync=1", OpenFlags::SYNC), ("sync=dsync", OpenFlags::DSYNC)]
    {
        let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let wrap = move |calls| wrapped::noting_flags(calls, Arc::clone(&noted));
        run_with(&format!("[a]\nrw=write\nsize=64k\n{text}\n"), Stop::After(Nanos::MAX), wrap).unwrap();
        assert!(seen.lock().unwrap().iter().any(|flags: &OpenFlags| flags.contains(flag)), "{text}");
    }
}

#[test]
fn a_file_that_cannot_be_mapped_fails_its_job_and_the_message_says_what_to_do() {
    let failed = run_with("[a]\nsize=64k\nrw=randrw\nioengine=mmap\n", Stop::After(Nanos::MAX), plain);
    let measured = failed.expect("it ends");
    let what = format!("{:?}", measured.notes);
    assert!(measured.errors > 0, "files in memory have no mmap");
    assert!(what.contains("mmap of") && what.contains("use another ioengine"), "{what}");
}

#[test]
fn exitall_ends_the_jobs_of_its_group_and_no_others() {
    let text = "[global]\nrw=write\nsize=1m\nrate_iops=1000\nexitall\n[a]\nsize=40k\n[b]\n[c]\nnew_group\n[d]\nstonewall\nsize=40k\n";
    let measured = run(text);
    let count = |name| job(&measured, name, "write").count;
    assert!((10..=12).contains(&count("b")), "{}: b is of the group of a", count("b"));
    assert_eq!((count("a"), count("c"), count("d")), (10, 256, 10));
}

#[test]
fn a_sync_does_not_move_the_descriptor() {
    let time = |engine: &str| {
        let text = format!("[a]\nrw=write\nsize=64k\nfsync=1\nioengine={engine}\n");
        job(&run(&text), "a", "write").elapsed_ns
    };
    // A call takes a microsecond: the one seek is that to the start.
    assert!(time("sync") <= time("psync") + 1_500, "{} and {}", time("sync"), time("psync"));
}
