//! The reference of all columns: a name means the same in every table.

use super::{Column, Grain, Type, Value};

use Type::{Count, Flag, Number, Text};

/// Name, type, unit, meaning.
const COLUMNS: &[(&str, Type, &str, &str)] = &[
    ("sample", Count, "", "number of the sample in this export, from 0: the key that joins the tables"),
    ("plan", Text, "", "name of the plan"),
    ("repeat", Count, "", "which repeat of the cell, from 0"),
    ("seed", Count, "", "seed of the sample; samples of several designs with one seed are pairs"),
    ("counted_per_mille", Count, "1/1000", "part of the time for which an event was counted"),
    ("missing", Text, "", "why an event has no counter"),
    ("clock", Text, "", "virtual: modelled; real: the host's own"),
    ("machine", Text, "", "machine that priced CPU work; host under the real clock"),
    ("elapsed_ns", Count, "ns", "measured time, preparation and warm-up excluded"),
    ("ops", Count, "operations", "operations as the workload counts them"),
    ("throughput_ops_per_s", Number, "operations/s", "ops by elapsed_ns"),
    ("read_ops", Count, "operations", "operations that read data"),
    ("write_ops", Count, "operations", "operations that wrote data"),
    ("read_bytes", Count, "bytes", "bytes that the workload read"),
    ("written_bytes", Count, "bytes", "bytes that the workload wrote"),
    ("errors", Count, "", "how many failed"),
    ("partial", Flag, "", "whether it was cut short"),
    ("failed", Text, "", "why it has no numbers; empty where it has"),
    ("notes", Text, "", "what a reader must know, sentences separated by semicolons"),
    ("host_wall_ns", Count, "ns", "wall time of the whole cell, under the real clock"),
    ("host_cpu_ns", Count, "ns", "processor time that this process took"),
    ("host_others_ns", Count, "ns", "processor time that other processes took"),
    ("host_steal_ns", Count, "ns", "time for which processors were withheld from this virtual machine"),
    ("host_noise", Text, "", "why its time cannot be relied on; empty when the host was quiet"),
    ("operation", Text, "", "operation of the workload, as its script names it"),
    ("call", Text, "", "kind of file-system call"),
    ("count", Count, "", "how many"),
    ("bytes", Count, "bytes", "bytes that they moved"),
    ("time_ns", Count, "ns", "time of all of them together"),
    ("mean_ns", Number, "ns", "mean latency"),
    ("stddev_ns", Number, "ns", "standard deviation of the latency"),
    ("min_ns", Count, "ns", "least latency"),
    ("p50_ns", Count, "ns", "median latency"),
    ("p90_ns", Count, "ns", "90th percentile of the latency"),
    ("p95_ns", Count, "ns", "95th percentile of the latency"),
    ("p99_ns", Count, "ns", "99th percentile of the latency"),
    ("p99_9_ns", Count, "ns", "99.9th percentile of the latency"),
    ("p99_99_ns", Count, "ns", "99.99th percentile of the latency"),
    ("max_ns", Count, "ns", "greatest latency"),
    (
        "split",
        Text,
        "",
        "activity: the parts sum to the calls' time; lock: of lock_wait, by lock; line: of CPU work, waits for cache lines of \
         other cores; part: named functions of the design, with those inside; work: price of each kind of CPU work. Sum within \
         one split",
    ),
    ("part", Text, "", "name of the part; other: what the named parts leave of their whole"),
    ("units", Count, "", "units of the kind of work, or how often the function ran; empty for other splits"),
    ("counter", Text, "", "name of the counter, its unit in the name"),
    ("value", Count, "", "value of the counter's part"),
    ("worker", Count, "", "number of the worker, from 0"),
    ("core", Count, "", "core on which it ran; empty when it was not placed"),
    ("background", Flag, "", "whether it worked beside those that are measured"),
    ("job", Text, "", "name of the job in the job file"),
    ("direction", Text, "", "read, write, trim, sync, verify, or mixed: reads, writes and trims together"),
    ("at_ns", Count, "ns", "beginning of the stretch, from the start of the measured time"),
    ("length_ns", Count, "ns", "length of the stretch"),
    ("calls", Count, "", "calls that ended in the stretch"),
    ("grain", Text, "", "call, operation, or job: clat, slat, lat as in fio"),
    ("name", Text, "", "name of the call, operation or job"),
    ("low_ns", Count, "ns", "least latency of this row"),
    (
        "high_ns",
        Count,
        "ns",
        "greatest latency of this row; the p-th percentile is `high_ns` of the first row at which the running sum of `count` \
         reaches p % of its total",
    ),
    (
        "verdict",
        Text,
        "",
        "wins: the best is faster than every other design; tie, few repeats, unsteady, chance, host busy, cut short: why no winner \
         is named. All places of a plan are judged together (Holm)",
    ),
    ("best", Text, "", "design that measured highest"),
    ("rival", Text, "", "the next best design"),
    ("ratio", Number, "", "throughput of best by that of rival"),
    ("ratio_low", Number, "", "lower end of the interval of ratio"),
    ("ratio_high", Number, "", "upper end of the interval of ratio"),
    ("interval", Text, "", "what the interval is: of confidence, of pairs, or a range of few repeats"),
    ("says", Text, "", "the verdict in a sentence"),
    ("kind", Text, "", "plan, machine or medium"),
    ("owner", Text, "", "name of the plan, machine or medium"),
    ("parameter", Text, "", "the parameter, from the outermost table inwards"),
    ("text", Text, "", "its value as it is written"),
    ("number", Number, "see unit", "its value where it is a number"),
    ("unit", Text, "", "unit of the number where the preset names it"),
    ("source", Text, "", "where the value is from, tag first; empty where the file names none"),
    ("table", Text, "", "table that has the column"),
    ("column", Text, "", "name of the column"),
    ("type", Text, "", "text, count, number or flag"),
    ("meaning", Text, "", "what the column says"),
];

/// The columns called `names`.
pub(super) fn named(names: &[&str]) -> Vec<Column> {
    let of = |name: &&str| {
        let found = COLUMNS.iter().find(|column| column.0 == *name);
        let (name, of, unit, meaning) = *found.expect("every column is in the reference");
        Column { name: name.to_owned(), of, unit, meaning }
    };
    names.iter().map(of).collect()
}

/// The columns of `grains` and of the reference itself.
pub(super) fn reference(grains: &[Grain]) -> Grain {
    let columns = named(&["table", "column", "type", "unit", "meaning"]);
    let mut reference = Grain::new("columns", "a column of these tables", columns);
    let own = Grain { rows: Vec::new(), ..reference.clone() };
    for grain in grains.iter().chain([&own]) {
        for column in &grain.columns {
            let of = match column.of {
                Text => "text",
                Count => "count",
                Number => "number",
                Flag => "flag",
            };
            let cells = [grain.name, &column.name, of, column.unit, column.meaning];
            reference.rows.push(cells.map(|cell| Value::Text(cell.to_owned())).to_vec());
        }
    }
    reference
}
