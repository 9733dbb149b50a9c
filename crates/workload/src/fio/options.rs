//! Every option of a job file by name, and what becomes of it.
//!
//! | fate | meaning |
//! |---|---|
//! | [`Fate::Honoured`] | it does what fio's HOWTO says; the note says how, or within which bounds |
//! | [`Fate::Ignored`] | it changes nothing that is measured here, is accepted, and a note of the run names it |
//! | [`Fate::Refused`] | it would change what is measured and cannot be done; values that mean "off" are accepted |
//!
//! The names are those of fio 3.33 (`fio --cmdhelp=all`, `fio --enghelp=ENGINE`) and of its HOWTO. `docs/fio.md` has this table;
//! a test compares the two.

/// What becomes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is done.
    Honoured,
    /// It has no influence here.
    Ignored,
    /// It cannot be done; the values at which it does nothing are accepted.
    Refused(&'static [&'static str]),
}

/// An option.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Its name and its aliases.
    pub(super) names: &'static [&'static str],
    pub(super) fate: Fate,
    /// How it is honoured, or why it is not.
    pub(super) note: &'static str,
}

impl Known {
    /// The name by which the rest of the suite asks for it.
    pub(super) fn name(&self) -> &'static str {
        self.names[0]
    }
}

/// The option of that name.
pub(super) fn find(name: &str) -> Option<&'static Known> {
    TABLE.iter().find(|known| known.names.contains(&name))
}

/// The name that is most like `name`, if one is like it at all.
pub(super) fn nearest(name: &str) -> Option<&'static str> {
    document::nearest_of(name, TABLE.iter().flat_map(|known| known.names.iter().copied()))
}

macro_rules! table {
    ($($fate:ident $([$($off:literal),*])? $($name:literal)|+ : $note:literal;)*) => {
        /// Every option.
        pub(super) const TABLE: &[Known] = &[$(Known {
            names: &[$($name),+],
            fate: Fate::$fate $((&[$($off),*]))?,
            note: $note,
        },)*];
    };
}

table! {
    // ---- the job ----
    Honoured "name": "renames the job";
    Ignored "description": "a text without effect";
    Honoured "loops": "number of passes over the files";
    Honoured "numjobs": "number of clones; each is a process with its own descriptors";
    Honoured "runtime"|"timeout": "ends the job; verification of the written data still completes";
    Honoured "time_based": "repeats passes until the end of `runtime`, which is required";
    Honoured "startdelay": "a time or a range of times";
    Honoured "ramp_time": "the job runs without being measured for this time";
    Honoured "stonewall"|"wait_for_previous": "this job starts after the jobs above it have ended";
    Honoured "wait_for": "this job starts after the named job above it has ended";
    Honoured "group_reporting": "prints the jobs of a group together";
    Honoured "new_group": "begins a new group";
    Honoured "exitall": "the first job of a group that ends also ends the others of that group";
    Ignored "exitall_on_error": "an error always ends the run";
    Refused[] "exit_what": "only the default of `exitall` is implemented: it ends the jobs of its group";
    Honoured "thread": "the clones of a job share a process";
    Honoured "unified_rw_reporting": "none, mixed, both";
    Honoured "percentile_list": "the columns of the table of latencies; at most 20";
    Honoured "kb_base": "1024 (k, kb, ki are 1024; kib is 1000) or 1000 (k, kb, ki are 1000; kib is 1024), as fio reads them";
    // ---- files ----
    Honoured "directory": "a path in the file system under test, below /fio";
    Honoured "filename": "names separated by colons, below /fio; a device or stdin is refused";
    Honoured "filename_format": "$jobname, $jobnum and $filenum are replaced";
    Refused["0"] "unique_filename": "there are no network clients";
    Refused[] "opendir": "each run lays out its own files on a file system of its own";
    Refused["none"] "lockfile": "files are not locked: use `serialize_overlap`";
    Honoured "nrfiles"|"nr_files": "number of files; `size` is divided among them unless `filesize` is given";
    Honoured "openfiles": "all files of a job stay open; a smaller number is refused";
    Honoured "file_service_type": "roundrobin, random and sequential, with `:N`; zipf, pareto and normal are refused";
    Honoured "size": "bytes, or a percentage of each file, which needs `filesize`; at most what is behind `offset`";
    Honoured "io_size"|"io_limit": "bytes, or a percentage of what `size` gives";
    Honoured "filesize": "a size or a range; sizes within a range are drawn from a fixed seed";
    Honoured "offset": "bytes, or a percentage of the file, rounded up to a block";
    Honoured "offset_increment": "bytes or a percentage of the file; is multiplied by the number of the clone";
    Honoured "offset_align": "an offset given as a percentage is rounded up to a multiple of this";
    Honoured "fallocate": "none, native, posix, keep, truncate; on designs that reserve nothing posix writes, keep fails";
    Honoured "create_on_open": "the first open creates the file, within the measured time";
    Ignored "create_serialize": "files are always laid out one after the other, before anything is measured";
    Honoured "create_fsync": "each file is synced after it is laid out";
    Refused["0"] "create_only": "nothing would be measured";
    Refused["1"] "allow_file_create": "each run begins on files that it has made";
    Ignored "allow_mounted_write": "no device is written to";
    Honoured "pre_read": "every file is read completely before the measured time";
    Honoured "unlink": "files are removed at the end of the job, after its measured time";
    Honoured "unlink_each_loop": "files are removed after each pass; the next open creates them again";
    Honoured "overwrite": "files are laid out with data, so writes overwrite existing blocks";
    Refused["0"] "file_append": "offsets begin at `offset`";
    Refused["0"] "fill_device"|"fill_fs": "the region is sized from the files; `weir bench fxmark/DWAL` fills a file system";
    // ---- what is done ----
    Honoured "rw"|"readwrite": "all modes, with `:N`, also negative; trims punch holes by fallocate(2), where the design has it";
    Honoured "rw_sequencer": "sequential, identical";
    Honoured "rwmixread": "percent of reads, drawn for each I/O";
    Honoured "rwmixwrite": "100 less `rwmixread`";
    Honoured "bs"|"blocksize": "for reads, writes, trims";
    Honoured "bsrange"|"blocksize_range": "multiples of the smallest, drawn uniformly";
    Honoured "bssplit": "sizes with percentages, for reads, writes, trims; sizes without a percentage share the rest";
    Honoured "bs_unaligned"|"blocksize_unaligned": "any size within `bsrange`; needs `direct=0`";
    Honoured "bs_is_seq_rand": "the first size is for sequential I/O, the second for random";
    Honoured "ba"|"blockalign": "random offsets are multiples of this; default: the smallest `bs`";
    Honoured "number_ios": "ends the job after this many I/Os, times `loops`";
    Honoured "randrepeat": "default 1: offsets are the same in every run; 0: they follow the run's --seed";
    Honoured "allrandrepeat": "all random numbers are the same in every run";
    Honoured "randseed": "the seed of all random numbers";
    Honoured "norandommap": "blocks may repeat within a pass";
    Ignored "softrandommap": "the map of blocks always fits in memory: one bit per block";
    Honoured "random_generator": "any name selects xoshiro256++; with `lfsr` a map ensures that each block is used once";
    Honoured "random_distribution": "random, zipf, pareto, normal, zoned, zoned_abs, as in fio, also open-ended zones";
    Honoured "percentage_random": "the other I/Os of a random job continue sequentially from the last I/O";
    Honoured "ioengine": "see above";
    Honoured "iodepth": "number of tasks that each wait for one call: see above";
    Ignored "iodepth_batch"|"iodepth_batch_submit": "requests go to the file system one by one";
    Ignored "iodepth_batch_complete_min"|"iodepth_batch_complete": "each request completes separately";
    Ignored "iodepth_batch_complete_max": "each request completes separately";
    Ignored "iodepth_low": "the next request starts as soon as one ends";
    Honoured "serialize_overlap": "an I/O waits for an I/O in flight on the same bytes; always on with `verify`";
    Ignored "io_submit_mode": "each request has a task of its own in any case";
    Honoured "direct": "opens with O_DIRECT";
    Honoured "buffered": "the opposite of `direct`";
    Refused["0"] "atomic": "no front end has atomic writes";
    Honoured "sync": "none, sync (O_SYNC), dsync (O_DSYNC), 0, 1";
    Honoured "fsync": "syncs the file last written after this many writes";
    Honoured "fdatasync": "likewise with fdatasync";
    Refused["0"] "sync_file_range": "no front end has such a call: use `fdatasync`";
    Refused["0"] "write_barrier": "no front end has such a call";
    Honoured "end_fsync": "syncs each file at the end of each pass, within its time";
    Honoured "fsync_on_close": "syncs each file before each close";
    Honoured "thinktime": "the job sleeps for this time after its I/Os";
    Honoured "thinktime_spin": "at most `thinktime`; the job sleeps for this part, too";
    Honoured "thinktime_blocks": "number of I/Os between two pauses";
    Honoured "thinktime_blocks_type": "complete; issue is treated as complete";
    Honoured "thinktime_iotime": "time between two pauses";
    Honoured "rate": "bytes per second; a direction without one is not held back; latency counts from the scheduled start";
    Honoured "rate_iops": "I/Os per second; latency is measured from the scheduled start";
    Honoured "rate_process": "linear, poisson";
    Honoured "rate_ignore_thinktime": "the schedule pauses during `thinktime`";
    Honoured "rate_min": "bytes per second; a job that falls below it in a `rate_cycle` fails, after its first two seconds";
    Honoured "rate_iops_min": "the same in I/Os per second";
    Honoured "rate_cycle": "the time over which `rate_min` is judged, in ms; default 1000";
    Honoured "latency_target": "searches as fio does for the greatest depth up to `iodepth` within it; a note has the depth";
    Honoured "latency_window": "the time over which `latency_target` is judged";
    Honoured "latency_percentile": "percent of the I/Os that must be within `latency_target`; default 100";
    Honoured "latency_run": "1: the job goes on when the depth is found";
    Honoured "max_latency": "a job with a slower I/O fails";
    Refused["0"] "flow": "jobs do not wait for each other's progress";
    Ignored "flow_id": "it belongs to `flow`";
    Ignored "flow_sleep": "it belongs to `flow`";
    // ---- contents ----
    Honoured "zero_buffers": "buffers are zeros";
    Honoured "refill_buffers": "new random bytes for each write";
    Honoured "scramble_buffers": "default 1: eight bytes of every 512 change from write to write";
    Honoured "buffer_pattern": "numbers, hexadecimal numbers and \"texts\"; a file's content is refused";
    Refused["0"] "buffer_compress_percentage": "no design compresses data";
    Ignored "buffer_compress_chunk": "it belongs to `buffer_compress_percentage`";
    Refused["0"] "dedupe_percentage": "no design deduplicates data";
    Ignored "dedupe_mode": "it belongs to `dedupe_percentage`";
    Ignored "dedupe_working_set_percentage": "it belongs to `dedupe_percentage`";
    Ignored "dedupe_global": "it belongs to `dedupe_percentage`";
    Honoured "verify": "crc7, crc16, crc32, crc32c, crc64, md5, sha1, sha256, sha512, xxhash, pattern, meta, null; sha3 is refused";
    Honoured "do_verify": "0: blocks are written for a later verification and not read back";
    Honoured "verify_interval": "a header for each interval of this many bytes of a block";
    Honoured "verify_pattern": "as `buffer_pattern`, and %o for the offset of the block";
    Honoured "verify_backlog": "written blocks are read back after this many writes";
    Ignored "verify_backlog_batch": "the whole backlog is read back at once";
    Honoured "verify_fatal": "1: the first wrong block ends the run; 0: all are counted";
    Ignored "verify_dump": "the message has file, offset and the difference";
    Ignored "verify_async": "the task that read a block checks it";
    Ignored "verify_async_cpus": "the task that read a block checks it";
    Refused["0"] "verify_offset": "headers are always at the beginning of each interval";
    Refused["0"] "verify_only": "each run begins on new files, which hold nothing of an earlier run";
    Refused["0"] "experimental_verify": "the record of written blocks is always kept";
    Ignored "verify_state_save": "each run begins on new files";
    Refused["0"] "verify_state_load": "each run begins on new files";
    Refused["0"] "trim_percentage": "trims of verified writes are not implemented: use rw=trimwrite";
    Ignored "trim_verify_zero": "it belongs to `trim_percentage`";
    Ignored "trim_backlog": "it belongs to `trim_percentage`";
    Ignored "trim_backlog_batch": "it belongs to `trim_percentage`";
    // ---- the host ----
    Honoured "cpus_allowed": "the tasks of a job are assigned to these cores in turn, one core each";
    Refused[] "cpumask": "use a list instead: cpus_allowed=0,2-3";
    Ignored "cpus_allowed_policy": "each task has one core of the list (split)";
    Refused[] "numa_cpu_nodes": "use cpus_allowed";
    Refused[] "numa_mem_policy": "the host places memory";
    Refused["0"] "nice": "priorities of the host are not changed";
    Refused["0"] "prio": "priorities of the host are not changed";
    Refused["0"] "prioclass": "priorities of the host are not changed";
    Refused[] "ioscheduler": "settings of the host's devices are not changed";
    Refused[] "cgroup": "control groups of the host are not made";
    Ignored "cgroup_nodelete": "it belongs to `cgroup`";
    Refused[] "cgroup_weight": "control groups of the host are not made";
    Refused[] "uid": "the user is not changed";
    Refused[] "gid": "the user is not changed";
    Refused["0"] "lockmem": "memory is not taken from the host";
    Refused[] "exec_prerun": "commands of a job file are never run";
    Refused[] "exec_postrun": "commands of a job file are never run";
    Refused[] "profile": "jobs come from the file only";
    Honoured "invalidate": "0; with 1, the default, the page cache is not dropped, and a note says so if a job reads through it";
    Ignored "fadvise_hint": "advice is not passed to the file system";
    Ignored "madvise_hint": "advice is not passed to the file system";
    Ignored "write_hint": "advice is not passed to the file system";
    Ignored "mem"|"iomem": "buffers are ordinary memory";
    Ignored "mem_align"|"iomem_align": "buffers are aligned to 4 KiB";
    Ignored "hugepage-size": "buffers are ordinary memory";
    Ignored "clocksource": "the clock is Weir's";
    Ignored "gtod_reduce": "the clock is Weir's, and cheap";
    Ignored "gtod_cpu": "the clock is Weir's, and cheap";
    Ignored "disable_lat": "latencies are always kept";
    Ignored "disable_clat": "latencies are always kept";
    Ignored "disable_slat": "latencies are always kept";
    Ignored "disable_bw_measurement"|"disable_bw": "rates are always kept";
    // ---- errors, logs, output ----
    Refused["none", "0"] "continue_on_error": "an error always ends the run";
    Refused[] "ignore_error": "an error always ends the run";
    Ignored "error_dump": "errors are always printed";
    Ignored "write_bw_log": "results contain all measurements";
    Ignored "write_lat_log": "results contain histograms of all latencies";
    Ignored "write_hist_log": "results contain histograms of all latencies";
    Ignored "write_iops_log": "results contain all measurements";
    Ignored "write_iolog": "accesses are not logged";
    Ignored "per_job_logs": "no logs are written";
    Ignored "log_entries": "no logs are written";
    Ignored "log_avg_msec": "no logs are written";
    Ignored "log_hist_msec": "no logs are written";
    Ignored "log_hist_coarseness": "no logs are written";
    Ignored "log_max_value": "no logs are written";
    Ignored "log_offset": "no logs are written";
    Ignored "log_prio": "no logs are written";
    Ignored "log_compression": "no logs are written";
    Ignored "log_compression_cpus": "no logs are written";
    Ignored "log_store_compressed": "no logs are written";
    Ignored "log_unix_epoch": "no logs are written";
    Ignored "log_alternate_epoch": "no logs are written";
    Ignored "log_alternate_epoch_clock_id": "no logs are written";
    Ignored "bwavgtime": "no logs are written";
    Ignored "iopsavgtime": "no logs are written";
    Ignored "block_error_percentiles": "an error always ends the run";
    Ignored "stats": "everything is counted";
    Ignored "disk_util": "the ledger shows where the time went";
    Ignored "unit_base": "output formatting";
    Ignored "significant_figures": "output formatting";
    Ignored "clat_percentiles": "all latencies are printed";
    Ignored "lat_percentiles": "all latencies are printed";
    Ignored "slat_percentiles": "all latencies are printed";
    Honoured "steadystate"|"ss": "ends the job, or the jobs of a group with `group_reporting`, by fio's rules; a note says when";
    Honoured "steadystate_duration"|"ss_dur": "the time that is judged, in s; without it, as at fio, nothing is";
    Honoured "steadystate_ramp_time"|"ss_ramp": "what is not judged, from the start on";
    Honoured "steadystate_check_interval"|"ss_interval": "the time between two judgements, in ms; default 1000";
    // ---- other I/O than that of files ----
    Honoured "read_iolog": "a file of the host: fio's iolog of version 2 or 3, also packed; it is replayed once";
    Ignored "read_iolog_chunked": "it belongs to `read_iolog`";
    Honoured "replay_no_stall": "1: each I/O of a log follows the one before at once";
    Honoured "replay_redirect": "all I/Os of a log go to this file";
    Honoured "replay_scale": "offsets of a log are divided by this";
    Honoured "replay_align": "offsets of a log are rounded down to a multiple of this power of 2";
    Honoured "replay_time_scale": "percent of the recorded speed";
    Ignored "replay_skip": "fio follows it in traces of blktrace only, which `weir sim flash` replays";
    Refused[] "merge_blktrace_file": "traces are not merged";
    Ignored "merge_blktrace_scalars": "it belongs to `merge_blktrace_file`";
    Ignored "merge_blktrace_iters": "it belongs to `merge_blktrace_file`";
    Honoured "zonemode": "none, strided; zbd is refused: only `weir sim flash` simulates zones with write pointers";
    Honoured "zonesize": "bytes of I/O in a zone before the next one; needs `zonemode=strided`";
    Honoured "zonerange": "bytes of a zone; default: `zonesize`";
    Honoured "zoneskip": "bytes between two zones that are left out";
    Refused["0"] "zonecapacity": "it belongs to `zonemode=zbd`, which is refused";
    Ignored "read_beyond_wp": "it belongs to `zonemode=zbd`";
    Ignored "max_open_zones": "it belongs to `zonemode=zbd`";
    Ignored "job_max_open_zones": "it belongs to `zonemode=zbd`";
    Ignored "ignore_zone_limits": "it belongs to `zonemode=zbd`";
    Ignored "zone_reset_threshold": "it belongs to `zonemode=zbd`";
    Ignored "zone_reset_frequency": "it belongs to `zonemode=zbd`";
    // ---- options of engines ----
    Ignored "userspace_reap": "there is no kernel queue";
    Ignored "hipri": "completions are not polled";
    Ignored "hipri_percentage": "completions are not polled";
    Ignored "fixedbufs": "there is no io_uring";
    Ignored "registerfiles": "there is no io_uring";
    Ignored "sqthread_poll": "there is no io_uring";
    Ignored "sqthread_poll_cpu": "there is no io_uring";
    Ignored "nonvectored": "there is no io_uring";
    Ignored "uncached": "there is no io_uring";
    Ignored "force_async": "there is no io_uring";
    Refused["0"] "nowait": "calls always wait";
    Refused["0"] "cmdprio_percentage": "requests have no priorities";
    Refused[] "cmdprio_class": "requests have no priorities";
    Refused[] "cmdprio": "requests have no priorities";
    Refused[] "cmdprio_bssplit": "requests have no priorities";
    Refused[] "cmd_type": "its engine passes commands to devices";
    Ignored "thp": "buffers of I/O are ordinary memory";
    Refused[] "hostname": "its engine does not work on files";
    Refused[] "port": "its engine does not work on files";
    Refused[] "protocol"|"proto": "its engine does not work on files";
    Refused[] "nodelay": "its engine does not work on files";
    Refused[] "listen": "its engine does not work on files";
    Refused[] "pingpong": "its engine does not work on files";
    Refused[] "interface": "its engine does not work on files";
    Refused[] "ttl": "its engine does not work on files";
    Refused[] "window_size": "its engine does not work on files";
    Refused[] "mss": "its engine does not work on files";
    Refused[] "namenode": "its engine does not work on files";
    Refused[] "hdfsdirectory": "its engine does not work on files";
    Refused[] "chunk_size": "its engine does not work on files";
    Refused[] "serverip": "its engine does not work on files";
    Refused[] "direct_write_to_pmem": "its engine does not work on files";
    Refused[] "busy_wait_polling": "its engine does not work on files";
    Refused[] "bindname": "its engine does not work on files";
    Refused[] "verb": "its engine does not work on files";
    Refused[] "clustername": "its engine does not work on files";
    Refused[] "rbdname": "its engine does not work on files";
    Refused[] "clientname": "its engine does not work on files";
    Refused[] "conf": "its engine does not work on files";
    Refused[] "busy_poll": "its engine does not work on files";
    Refused[] "touch_objects": "its engine does not work on files";
    Refused[] "pool": "its engine does not work on files";
    Refused[] "cont": "its engine does not work on files";
    Refused[] "object_class": "its engine does not work on files";
    Refused[] "volume": "its engine does not work on files";
    Refused[] "brick": "its engine does not work on files";
    Refused[] "single-instance": "its engine does not work on files";
    Refused[] "uri": "its engine does not work on files";
    Refused[] "nfs_url": "its engine does not work on files";
    Refused[] "http_host": "its engine does not work on files";
    Refused[] "http_user": "its engine does not work on files";
    Refused[] "http_pass": "its engine does not work on files";
    Refused[] "https": "its engine does not work on files";
    Refused[] "http_mode": "its engine does not work on files";
    Refused[] "http_s3_region": "its engine does not work on files";
    Refused[] "http_s3_key": "its engine does not work on files";
    Refused[] "http_s3_keyid": "its engine does not work on files";
    Refused[] "http_s3_sse_customer_key": "its engine does not work on files";
    Refused[] "http_s3_sse_customer_algorithm": "its engine does not work on files";
    Refused[] "http_s3_storage_class": "its engine does not work on files";
    Refused[] "http_swift_auth_token": "its engine does not work on files";
    Refused[] "http_verbose": "its engine does not work on files";
    Refused[] "gpu_dev_ids": "its engine does not work on files";
    Refused[] "cuda_io": "its engine does not work on files";
    Refused[] "readfua": "its engine passes commands to devices";
    Refused[] "writefua": "its engine passes commands to devices";
    Refused[] "sg_write_mode": "its engine passes commands to devices";
    Refused[] "stream_id": "its engine passes commands to devices";
    Refused[] "skip_bad": "its engine passes commands to devices";
    Refused[] "xnvme_async": "its engine passes commands to devices";
    Refused[] "xnvme_sync": "its engine passes commands to devices";
    Refused[] "xnvme_admin": "its engine passes commands to devices";
    Refused[] "xnvme_dev_nsid": "its engine passes commands to devices";
    Refused[] "xnvme_iovec": "its engine passes commands to devices";
    Refused[] "cpuload": "its engine burns processor time";
    Refused[] "cpuchunks": "its engine burns processor time";
    Refused[] "cpumode": "its engine burns processor time";
    Refused[] "exit_on_io_done": "its engine burns processor time";
    Refused[] "program": "commands of a job file are never run";
    Refused[] "arguments": "commands of a job file are never run";
    Refused[] "grace_time": "commands of a job file are never run";
    Refused[] "std_redirect": "commands of a job file are never run";
    Refused[] "donorname": "its engine moves extents";
    Refused[] "inplace": "its engine moves extents";
    Refused[] "stat_type": "its engine measures metadata: FxMark's loops do (`weir bench fxmark/MRPL`)";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    /// The table as Markdown, one section for each fate.
    fn markdown() -> String {
        let mut text = String::new();
        let of_fate = |title: &str, head: &str, of: &dyn Fn(Fate) -> bool, text: &mut String| {
            let _ = write!(text, "### {title}\n\n| option | {head} |\n|---|---|\n");
            for known in TABLE.iter().filter(|known| of(known.fate)) {
                let names: Vec<_> = known.names.iter().map(|name| format!("`{name}`")).collect();
                let off = match known.fate {
                    Fate::Refused(off) if !off.is_empty() => format!(" (`{}` is accepted)", off.join("`, `")),
                    _ => String::new(),
                };
                let _ = writeln!(text, "| {} | {}{off} |", names.join(", "), known.note);
            }
            text.push('\n');
        };
        of_fate("Honoured", "how", &|fate| fate == Fate::Honoured, &mut text);
        of_fate(
            "Ignored: without influence on what is measured",
            "why",
            &|fate| fate == Fate::Ignored,
            &mut text,
        );
        of_fate("Refused", "why", &|fate| matches!(fate, Fate::Refused(_)), &mut text);
        text
    }

    #[test]
    fn every_name_is_there_once() {
        let mut names: Vec<_> = TABLE.iter().flat_map(|known| known.names).collect();
        names.sort();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(twice, None);
    }

    #[test]
    fn a_misspelled_option_leads_to_the_nearest() {
        for (wrong, right) in [("iodept", "iodepth"), ("ioengin", "ioengine"), ("blocksiz", "blocksize")] {
            assert_eq!(nearest(wrong), Some(right));
        }
        assert_eq!(nearest("zzzzzzzz"), None);
    }

    /// `docs/fio.md` has the table between two marks. `WEIR_BLESS=1` writes it anew.
    #[test]
    fn the_manual_has_this_table() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/fio.md");
        let page = std::fs::read_to_string(&path).unwrap();
        let (begin, end) = ("<!-- options -->\n", "<!-- end of options -->");
        let (head, rest) = page.split_once(begin).expect("the mark at which the table begins");
        let (table, tail) = rest.split_once(end).expect("the mark at which the table ends");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&path, format!("{head}{begin}{}{end}{tail}", markdown())).unwrap();
            return;
        }
        assert!(table == markdown(), "docs/fio.md is not what the table says: WEIR_BLESS=1 writes it");
    }
}
