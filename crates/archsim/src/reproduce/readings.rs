//! What the publication leaves open, and what else is changed to see what a claim depends on.
//!
//! A reading's default is chosen by the text alone. [`PAIRS`] are readings that belong together because one text has both.
//! [`ABLATIONS`] change one mechanism or size that no text suggests to read otherwise; they explain, and decide nothing.

use super::{Arithmetic, Average, Baseline, Range, Traffic};

/// One way to read what the publication leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Alternative {
    /// Its name.
    pub name: &'static str,
    /// Keys of the machine that it changes.
    pub sets: &'static [(&'static str, &'static str)],
    /// Another machine.
    pub machine: Option<&'static str>,
    /// Another arithmetic.
    pub arithmetic: Arithmetic,
    /// Whether it takes so long that a quick run leaves it out.
    pub long: bool,
}

/// A choice that the publication leaves open.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Its name.
    pub name: &'static str,
    /// What the default is.
    pub default: &'static str,
    /// Why.
    pub why: &'static str,
    /// The others.
    pub others: &'static [Alternative],
}

const DEFAULT: Arithmetic = Arithmetic::DEFAULT;

const fn sets(name: &'static str, sets: &'static [(&'static str, &'static str)]) -> Alternative {
    Alternative { name, sets, machine: None, arithmetic: DEFAULT, long: false }
}

const fn sums(name: &'static str, arithmetic: Arithmetic) -> Alternative {
    Alternative { name, sets: &[], machine: None, arithmetic, long: false }
}

const fn against(name: &'static str) -> Alternative {
    sums(name, Arithmetic { baseline: Baseline::One(name), ..DEFAULT })
}

/// Every reading, with its alternatives to the default.
pub static READINGS: &[Reading] = &[
    Reading {
        name: "baseline",
        default: "the faster of undo-clwb and redo-clwb at each point",
        why: "slides name either undo or redo logging as costly; the weakest claim to make for the hardware",
        others: &[
            against("undo-clwb"),
            against("redo-clwb"),
            against("undoredo-clwb"),
            sums("unsafe-base", Arithmetic { baseline: Baseline::Unsafe, ..DEFAULT }),
        ],
    },
    Reading {
        name: "ratio",
        default: "new by old",
        why: "traffic reduced by 2.36x and 3.3X make sense only as ratios",
        others: &[sums("1 + gain", Arithmetic { gain: true, ..DEFAULT })],
    },
    Reading {
        name: "range",
        default: "ends are 1 and 8 threads",
        why: "each end is an average, so no single benchmarks",
        others: &[
            sums("int and string values", Arithmetic { range: Range::Values, ..DEFAULT }),
            sums("undo and redo baseline", Arithmetic { range: Range::Baselines, ..DEFAULT }),
            sums("worst and best benchmark", Arithmetic { range: Range::Benchmarks, ..DEFAULT }),
        ],
    },
    Reading {
        name: "average",
        default: "geometric",
        why: "usual for ratios",
        others: &[
            sums("arithmetic", Arithmetic { average: Average::Arithmetic, ..DEFAULT }),
            sums("ratio of sums", Arithmetic { average: Average::Sums, ..DEFAULT }),
        ],
    },
    Reading {
        name: "micro set",
        default: "five benchmarks, int and string",
        why: "as HPCA 2018",
        others: &[sums("int only", Arithmetic { int_only: true, ..DEFAULT })],
    },
    Reading {
        name: "grain",
        default: "a record holds cache lines",
        why: "slides: undo cache line value and redo cache line value",
        others: &[sets("word", &[("log_grain", "word")])],
    },
    Reading {
        name: "per store",
        default: "a record for each store",
        why: "slides: writes to persistent memory automatically trigger a write to the log",
        others: &[sets("first of a line", &[("log_coalesce", "first")])],
    },
    Reading {
        name: "software cost",
        default: "a fence after each undo record, instructions as documented",
        why: "slides draw a barrier between log and data",
        others: &[
            sets("a fence a transaction", &[("sw_fence", "once")]),
            sets("half the instructions", &[("sw_cost", "50%")]),
            sets("twice the instructions", &[("sw_cost", "200%")]),
        ],
    },
    Reading {
        name: "software record",
        default: "packed where consecutive",
        why: "the software's best case",
        others: &[sets("in lines of its own", &[("sw_record", "padded")])],
    },
    Reading {
        name: "software log",
        default: "one for the process",
        why: "HPCA 2018's machine has one circular log a process; no text gives a scheme another, and both sides keep it alike",
        others: &[sets("one for each thread", &[("sw_log", "thread")])],
    },
    Reading {
        name: "log at small scale",
        default: "4 MiB and a scan every 3,000,000 cycles, as published",
        why: "data and last level shrink together, so that the miss ratio stays alike; no text shrinks the log with them",
        others: &[sets("by 16, as data and last level", &[("log_size", "256KiB"), ("fwb_period", "192000")])],
    },
    Reading {
        name: "domain",
        default: "media",
        why: "slides draw nothing between the volatile processor and NVRAM",
        others: &[sets("adr", &[("domain", "adr")])],
    },
    Reading {
        name: "commit",
        default: "waits for the log",
        why: "a commit that may be lost is no commit",
        others: &[sets("async", &[("commit", "async")])],
    },
    Reading {
        name: "traffic",
        default: "reads and writes of NVRAM, log included",
        why: "slides say memory traffic",
        others: &[
            sums("writes only", Arithmetic { traffic: Traffic::Writes, ..DEFAULT }),
            sums("with DRAM", Arithmetic { traffic: Traffic::WithDram, ..DEFAULT }),
        ],
    },
    Reading {
        name: "energy",
        default: "a line in the array",
        why: "partial writes of dirty columns",
        others: &[sets("row", &[("energy_bits", "row")])],
    },
    Reading {
        name: "conflict",
        default: "at request",
        why: "the simplest",
        others: &[sets("at evict", &[("conflict", "at_evict")])],
    },
    Reading {
        name: "machine",
        default: "hpca18",
        why: "the later paper's, as far as it is recalled",
        others: &[Alternative {
            name: "mcsima",
            sets: &[],
            machine: Some("mcsima"),
            arithmetic: DEFAULT,
            long: false,
        }],
    },
    Reading {
        name: "core",
        default: "window",
        why: "HPCA 2018: out of order",
        others: &[sets("in order", &[("core", "inorder")])],
    },
    Reading {
        name: "log buffer",
        default: "15 lines, enforced",
        why: "HPCA 2018; time alone is no guarantee when the domain is the medium",
        others: &[
            sets("15 by timing", &[("log_bound", "timing")]),
            sets("8", &[("log_buffer", "8")]),
            sets("64", &[("log_buffer", "64")]),
            sets("none", &[("log_buffer", "0")]),
        ],
    },
    Reading {
        name: "log order",
        default: "hardware's log lines become durable one after the other",
        why: "slides: a FIFO; the other needs records that recovery can judge one by one, which these are",
        others: &[sets("side by side in several banks", &[("log_order", "banked")])],
    },
    Reading {
        name: "fwb trigger",
        default: "timer and watermark",
        why: "HPCA 2018: periodic; slides: when a log entry is almost overwritten",
        others: &[
            sets("timer", &[("fwb_trigger", "timer")]),
            sets("watermark", &[("fwb_trigger", "watermark")]),
        ],
    },
    Reading {
        name: "registers",
        default: "per processor",
        why: "slides print the sum alone",
        others: &[sums("per core", Arithmetic { per_core: true, ..DEFAULT })],
    },
    Reading {
        name: "memcached",
        default: "half gets, 256 B",
        why: "the middle of each list",
        others: &[
            sets("95 % gets", &[("gets", "95%")]),
            sets("10 % gets", &[("gets", "10%")]),
            sets("values of 64 B", &[("value", "64B")]),
            sets("values of 1 KiB", &[("value", "1KiB")]),
        ],
    },
    Reading {
        name: "footprint",
        default: "small: last level and data by 16",
        why: "time; the miss ratio stays alike",
        others: &[Alternative {
            name: "full",
            sets: &[("warmup", "160000")],
            machine: Some("hpca18-full"),
            arithmetic: DEFAULT,
            long: true,
        }],
    },
];

/// Readings taken together: why, and each as reading and alternative.
pub static PAIRS: &[(&str, &[(&str, &str)])] = &[
    ("HPCA 2018's words, the baseline of undo logging", &[("grain", "word"), ("baseline", "undo-clwb")]),
    ("HPCA 2018's words, the baseline of undo+redo", &[("grain", "word"), ("baseline", "undoredo-clwb")]),
    (
        "words, software records in lines of their own",
        &[("grain", "word"), ("software record", "in lines of its own")],
    ),
    ("words, and one record a word", &[("grain", "word"), ("per store", "first of a line")]),
    ("words, queue that persists", &[("grain", "word"), ("domain", "adr")]),
    ("queue that persists, the baseline of undo logging", &[("domain", "adr"), ("baseline", "undo-clwb")]),
    (
        "log lines in several banks, the baseline of undo logging",
        &[("log order", "side by side in several banks"), ("baseline", "undo-clwb")],
    ),
    (
        "as measured before 23 November 2026",
        &[("software log", "one for each thread"), ("log at small scale", "by 16, as data and last level")],
    ),
    ("queue that persists, one record a line", &[("domain", "adr"), ("per store", "first of a line")]),
];

/// Changes of one mechanism or size.
pub static ABLATIONS: &[Reading] = &[
    group("bank mapping", "a row in one bank", &[sets("the next bank for each line", &[("map", "line")])]),
    group(
        "priority of the log",
        "as other writes",
        &[
            sets("before writes", &[("log_priority", "writes")]),
            sets("before reads, too", &[("log_priority", "all")]),
        ],
    ),
    group("row hit", "36 ns", &[sets("5 ns, a burst", &[("row_hit", "5ns")])]),
    group(
        "write conflict",
        "300 ns",
        &[sets("100 ns", &[("write_conflict", "100ns")]), sets("1000 ns", &[("write_conflict", "1000ns")])],
    ),
    group("banks", "8", &[sets("1", &[("banks", "1")]), sets("32", &[("banks", "32")])]),
    group(
        "on-DIMM buffer",
        "a row of 2 KiB a bank",
        &[
            sets("4 rows of 512 B a bank", &[("row_buffers", "4"), ("row", "512B")]),
            sets("8 blocks of 256 B a bank", &[("row_buffers", "8"), ("row", "256B")]),
        ],
    ),
    group(
        "write combining",
        "6 lines",
        &[sets("1 line", &[("wc_lines", "1")]), sets("16 lines", &[("wc_lines", "16")])],
    ),
    group("log buffer", "15 lines", &[sets("256 lines", &[("log_buffer", "256")])]),
    group(
        "write queue",
        "64",
        &[sets("16", &[("write_queue", "16")]), sets("256", &[("write_queue", "256")])],
    ),
    group(
        "fwb period",
        "3,000,000 cycles",
        &[sets("a quarter", &[("fwb_period", "750000")]), sets("four times", &[("fwb_period", "12000000")])],
    ),
    group(
        "write queue under scans",
        "they fill it",
        &[sets("they stay below the high watermark", &[("fwb_queue", "watermark")])],
    ),
    group(
        "log size",
        "4 MiB",
        &[sets("256 KiB", &[("log_size", "256KiB")]), sets("1 MiB", &[("log_size", "1MiB")])],
    ),
    group(
        "working set",
        "16 MiB under 512 KiB",
        &[
            sets("256 KiB: in the caches", &[("footprint", "256KiB")]),
            sets("16 MiB under 8 MiB", &[("l2_size", "8MiB")]),
        ],
    ),
    group(
        "core",
        "window of 128",
        &[sets("window of 32", &[("window", "32")]), sets("window of 224", &[("window", "224")])],
    ),
];

const fn group(name: &'static str, default: &'static str, others: &'static [Alternative]) -> Reading {
    Reading { name, default, why: "to see what depends on it", others }
}
