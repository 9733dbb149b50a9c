//! From settings to a job: every value read, every problem told at its line.
//!
//! [`Reader`] takes settings by name, reports what is wrong with each, and goes on with the default, so that one look shows
//! everything. Options that agree only together are compared in [`check`].

use std::sync::Arc;

use sim::Nanos;

use super::distribution::{self, Distribution};
use super::job::{
    Direction, Engine, Fallocate, Fill, JobSpec, Mode, Pace, Rate, Service, Sizes, Sync, Thinking, Unified,
    Zones,
};
use super::limits::{Limits, Target};
use super::log::{self, Log};
use super::parse::{Problem, Section, Setting, Settings};
use super::source::Kind;
use super::steady::{self, Steady};
use super::value::{self, Amount, Base, Parsed, Piece};
use super::verify::{self, Verify};

/// The engines by name.
const ENGINES: [(&str, Engine); 10] = [
    ("sync", Engine::Sync),
    ("psync", Engine::Positioned("psync")),
    ("vsync", Engine::Positioned("vsync")),
    ("pvsync", Engine::Positioned("pvsync")),
    ("pvsync2", Engine::Positioned("pvsync2")),
    ("mmap", Engine::Mapped),
    ("libaio", Engine::Tasks { name: "libaio", spread: false }),
    ("io_uring", Engine::Tasks { name: "io_uring", spread: false }),
    ("posixaio", Engine::Tasks { name: "posixaio", spread: true }),
    ("solarisaio", Engine::Tasks { name: "solarisaio", spread: true }),
];

/// Takes settings by name.
struct Reader<'a> {
    settings: &'a Settings,
    base: Base,
    line: usize,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    fn line_of(&self, name: &str) -> usize {
        self.settings.get(name).map_or(self.line, |setting| setting.line)
    }

    fn has(&self, name: &str) -> bool {
        self.settings.contains_key(name)
    }

    /// What is wrong with option `name`.
    fn wrong(&mut self, name: &str, what: impl std::fmt::Display) {
        let line = self.line_of(name);
        self.problems.push(Problem { line, what: format!("{name}: {what}") });
    }

    fn get<T>(&mut self, name: &str, usual: T, of: impl FnOnce(&str) -> Parsed<T>) -> T {
        let Some(Setting { value, .. }) = self.settings.get(name) else { return usual };
        match of(value) {
            Ok(value) => value,
            Err(what) => {
                self.wrong(name, what);
                usual
            }
        }
    }

    fn flag(&mut self, name: &str, usual: bool) -> bool {
        self.get(name, usual, value::flag)
    }

    fn int(&mut self, name: &str, usual: u64) -> u64 {
        let base = self.base;
        self.get(name, usual, |text| value::int(text, base))
    }

    /// A number that must not be zero.
    fn count(&mut self, name: &str, usual: u64) -> u64 {
        match self.int(name, usual) {
            0 => {
                self.wrong(name, "it must be at least 1");
                usual.max(1)
            }
            count => count,
        }
    }

    fn time(&mut self, name: &str, unit: Nanos) -> Option<Nanos> {
        self.get(name, None, |text| value::time(text, unit).map(Some))
    }

    fn amount(&mut self, name: &str) -> Option<Amount> {
        let base = self.base;
        self.get(name, None, |text| value::amount(text, base).map(Some))
    }

    fn text(&self, name: &str) -> Option<String> {
        self.settings.get(name).map(|setting| setting.value.clone()).filter(|text| !text.is_empty())
    }

    /// Which of two options that set the same thing was given last, and holds. What is set from outside comes after the file.
    fn last_of<'n>(&self, names: [&'n str; 2]) -> Option<&'n str> {
        let place = |name: &str| match self.settings.get(name)?.line {
            0 => Some(usize::MAX),
            line => Some(line),
        };
        names.into_iter().filter(|name| self.has(name)).max_by_key(|name| place(name))
    }

    fn one_of<T: Copy>(&mut self, name: &str, usual: T, choices: &[(&str, T)]) -> T {
        self.get(name, usual, |text| {
            let found = choices.iter().find(|(choice, _)| *choice == text);
            let names: Vec<_> = choices.iter().map(|(choice, _)| *choice).collect();
            found
                .map(|(_, value)| *value)
                .ok_or_else(|| format!("\"{text}\" is none of {}", names.join(", ")))
        })
    }
}

/// The job that a section describes. What is wrong goes into `problems`.
pub(super) fn read(section: &Section, problems: &mut Vec<Problem>) -> JobSpec {
    let known = problems.len();
    let mut reader = Reader { settings: &section.settings, base: Base::Old, line: section.line, problems };
    reader.base = match reader.int("kb_base", 1024) {
        1024 => Base::Old,
        1000 => Base::Iec,
        other => {
            reader.wrong("kb_base", format!("{other} is neither 1024 nor 1000"));
            Base::Old
        }
    };
    let r = &mut reader;
    let name = r.text("name").unwrap_or_else(|| section.name.clone());
    let mut spec = JobSpec { name, line: section.line, ..JobSpec::default() };
    what(r, &mut spec);
    how(r, &mut spec);
    files(r, &mut spec);
    course(r, &mut spec);
    replay(r, &mut spec);
    if r.problems.len() == known && !section.incomplete {
        check(&spec, r);
    }
    spec
}

/// What is done: directions, sizes, places, their randomness.
fn what(r: &mut Reader<'_>, spec: &mut JobSpec) {
    let mode = r.get("rw", READ, mode);
    let sizes = sizes(r);
    let least = [sizes[0].min(), sizes[1].min(), sizes[2].min()];
    let base = r.base;
    let distribution =
        r.get("random_distribution", Default::default(), |text| distribution::parse(text, base));
    let uniform = distribution.iter().all(|one| *one == Distribution::Uniform);
    spec.align = align(r, least);
    spec.map = mode.random && uniform && !r.flag("norandommap", false);
    spec.zones = zones(r);
    if spec.zones.is_some() && mode.modifier != 0 && !mode.random {
        r.wrong("rw", "a skip and zonemode=strided both decide where the next I/O is: give one of the two");
    }
    spec.mode = mode;
    spec.sizes = sizes;
    spec.distribution = distribution;
    spec.identical = r.one_of("rw_sequencer", false, &[("sequential", false), ("identical", true)]);
    spec.reads_percent = reads_percent(r);
    spec.unaligned = r.flag("bs_unaligned", false);
    spec.sequential_or_random = r.flag("bs_is_seq_rand", false);
    spec.random_percent =
        r.get("percentage_random", [100; 3], |text| value::three(text, &100, value::percent));
    spec.number_ios = Some(r.int("number_ios", 0)).filter(|count| *count > 0);
    spec.rand_repeat = r.flag("randrepeat", true);
    spec.all_rand_repeat = r.flag("allrandrepeat", false);
    spec.rand_seed = r.get("randseed", None, |text| value::int(text, Base::Old).map(Some));
}

/// How it is done: calls, durability, rates, contents.
fn how(r: &mut Reader<'_>, spec: &mut JobSpec) {
    let least =
        if spec.sequential_or_random { spec.min_size() } else { spec.sizes[Direction::Write as usize].min() };
    let (fill, verify) = (fill(r), verify(r, least));
    spec.engine = engine(r);
    spec.depth = r.count("iodepth", 1);
    spec.serialize = r.flag("serialize_overlap", false);
    let (direct, buffered) = (r.flag("direct", false), r.flag("buffered", true));
    spec.direct = if r.last_of(["direct", "buffered"]) == Some("buffered") { !buffered } else { direct };
    spec.sync = r.one_of(
        "sync",
        Sync::None,
        &[
            ("none", Sync::None),
            ("0", Sync::None),
            ("sync", Sync::All),
            ("1", Sync::All),
            ("", Sync::All),
            ("dsync", Sync::Data),
        ],
    );
    spec.fsync = r.int("fsync", 0);
    spec.fdatasync = r.int("fdatasync", 0);
    spec.end_fsync = r.flag("end_fsync", false);
    spec.fsync_on_close = r.flag("fsync_on_close", false);
    spec.pace = pace(r);
    spec.limits = limits(r, &spec.pace);
    spec.target = target(r);
    spec.steady = steady(r);
    spec.thinking = thinking(r);
    spec.fill = fill;
    spec.verify = verify;
    spec.keeps_cache = !r.flag("invalidate", true) || r.flag("pre_read", false);
}

/// On which files.
fn files(r: &mut Reader<'_>, spec: &mut JobSpec) {
    spec.directory = path(r, "directory").unwrap_or_default();
    spec.names = names(r);
    spec.format = path(r, "filename_format").unwrap_or_else(|| "$jobname.$jobnum.$filenum".to_owned());
    spec.files = r.count("nrfiles", 1);
    spec.service = r.get("file_service_type", Service::RoundRobin(1), service);
    spec.size = r.amount("size");
    spec.io_size = r.amount("io_size");
    spec.file_size = file_size(r);
    spec.offset = r.amount("offset").unwrap_or(Amount::Bytes(0));
    spec.offset_increment = r.amount("offset_increment").unwrap_or(Amount::Bytes(0));
    spec.offset_align = r.int("offset_align", 0);
    spec.fallocate = fallocate(r);
    spec.create_on_open = r.flag("create_on_open", false);
    spec.create_fsync = r.flag("create_fsync", true);
    spec.pre_read = r.flag("pre_read", false);
    spec.unlink = r.flag("unlink", false);
    spec.unlink_each_loop = r.flag("unlink_each_loop", false);
    spec.overwrite = r.flag("overwrite", false);
}

/// How long, how often, beside whom; and how it is told.
fn course(r: &mut Reader<'_>, spec: &mut JobSpec) {
    spec.loops = r.count("loops", 1);
    spec.jobs = r.count("numjobs", 1);
    spec.runtime = r.time("runtime", SECOND).filter(|time| *time > Nanos::ZERO);
    spec.time_based = r.flag("time_based", false);
    spec.delay = r.get("startdelay", (Nanos::ZERO, Nanos::ZERO), |text| {
        value::range(text, &|t| value::time(t, SECOND))
    });
    spec.ramp = r.time("ramp_time", SECOND).unwrap_or(Nanos::ZERO);
    spec.stonewall = r.flag("stonewall", false);
    spec.wait_for = r.text("wait_for");
    spec.grouped = r.flag("group_reporting", false);
    spec.new_group = r.flag("new_group", false);
    spec.exit_all = r.flag("exitall", false);
    spec.shares_process = r.flag("thread", false);
    spec.cores = r.get("cpus_allowed", Vec::new(), cores);
    spec.unified = unified(r);
    spec.percentiles = r.get("percentile_list", Vec::new(), percentiles);
}

const SECOND: Nanos = Nanos::from_secs(1);
const READ: Mode = Mode { random: false, reads: true, writes: false, trims: false, modifier: 0 };

fn mode(text: &str) -> Parsed<Mode> {
    let (name, modifier) = match text.split_once(':') {
        Some((name, modifier)) => (name, signed(modifier)?),
        None => (text, 0),
    };
    if modifier < 0 && name.starts_with("rand") {
        return Err(format!("{text}: the number of I/Os for each random offset cannot be negative"));
    }
    let (random, rest) = match name.strip_prefix("rand") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let (reads, writes, trims) = match rest {
        "read" => (true, false, false),
        "write" => (false, true, false),
        "trim" => (false, false, true),
        "rw" => (true, true, false),
        "readwrite" if !random => (true, true, false),
        "trimwrite" => (false, true, true),
        _ => {
            return Err(format!(
                "there is no mode \"{name}\": read, write, trim, randread, randwrite, randtrim, rw, readwrite, randrw, \
                 trimwrite, randtrimwrite"
            ));
        }
    };
    Ok(Mode { random, reads, writes, trims, modifier })
}

/// A number of bytes that may be negative.
fn signed(text: &str) -> Parsed<i64> {
    let (digits, sign) = text.trim().strip_prefix('-').map_or((text, 1), |digits| (digits, -1));
    let number = i64::try_from(value::int(digits, Base::Old)?);
    number.map(|number| sign * number).map_err(|_| format!("{text} is too large"))
}

/// `zonemode` and its options.
fn zones(r: &mut Reader<'_>) -> Option<Zones> {
    let strided = r.get("zonemode", false, |text| match text {
        "none" => Ok(false),
        "strided" => Ok(true),
        "zbd" => Err("a file has no write pointers, and no block device here takes zone appends: the zoned presets are \
                      simulated by weir sim flash alone"
            .to_owned()),
        other => Err(format!("\"{other}\" is neither none nor strided")),
    });
    let (size, range, skip) = (r.int("zonesize", 0), r.int("zonerange", 0), r.int("zoneskip", 0));
    if !strided {
        let given = [("zonesize", size), ("zonerange", range), ("zoneskip", skip)];
        if let Some((name, _)) = given.into_iter().find(|(_, bytes)| *bytes > 0) {
            r.wrong(name, "it needs zonemode=strided");
        }
        return None;
    }
    if size == 0 {
        r.wrong("zonemode", "strided needs zonesize=…");
        return None;
    }
    Some(Zones { size, range: if range == 0 { size } else { range }, skip })
}

fn sizes(r: &mut Reader<'_>) -> [Sizes; 3] {
    let base = r.base;
    let int = |text: &str| match value::int(text, base)? {
        0 => Err("an I/O of no bytes does nothing".to_owned()),
        // Each task has a buffer of that size.
        size if size > 1 << 30 => Err(format!("{text} is more than 1 GiB, the largest I/O here")),
        size => Ok(size),
    };
    let usual = Sizes::Fixed(4096);
    let fixed = |text: &str| int(text).map(Sizes::Fixed);
    let mut sizes =
        r.get("bs", [usual.clone(), usual.clone(), usual.clone()], |text| value::three(text, &usual, fixed));
    // A direction that they leave out keeps its `bs`.
    let kept = sizes.clone();
    sizes = r.get("bsrange", sizes, |text| {
        let range = |part: &str| value::range(part, &int).map(|(low, high)| Sizes::Range(low, high));
        // Ranges may also have a slash between them.
        value::three_in(&text.replace('/', ","), kept, range)
    });
    let kept = sizes.clone();
    let split = |text: &str| value::split(text, &int).map(Sizes::Split);
    r.get("bssplit", sizes, |text| value::three_in(text, kept, split))
}

fn align(r: &mut Reader<'_>, least: [u64; 3]) -> [u64; 3] {
    let base = r.base;
    let given = r.get("ba", [0; 3], |text| value::three(text, &0, |part| value::int(part, base)));
    [0, 1, 2].map(|at| if given[at] == 0 { least[at] } else { given[at] })
}

fn reads_percent(r: &mut Reader<'_>) -> u32 {
    let reads = r.get("rwmixread", 50, value::percent);
    let writes = r.get("rwmixwrite", 50, value::percent);
    if r.last_of(["rwmixread", "rwmixwrite"]) == Some("rwmixwrite") { 100 - writes } else { reads }
}

fn engine(r: &mut Reader<'_>) -> Engine {
    r.get("ioengine", Engine::Positioned("psync"), |text| {
        let found = ENGINES.iter().find(|(name, _)| *name == text);
        let names: Vec<_> = ENGINES.iter().map(|(name, _)| *name).collect();
        found.map(|(_, engine)| *engine).ok_or_else(|| {
            format!(
                "the engine \"{text}\" is not one of reads and writes of files here: {}",
                names.join(", ")
            )
        })
    })
}

fn pace(r: &mut Reader<'_>) -> Pace {
    let base = r.base;
    let numbers = |text: &str| value::three(text, &0, |part| value::int(part, base));
    let (bytes, ios) = (r.get("rate", [0; 3], numbers), r.get("rate_iops", [0; 3], numbers));
    let given = |of: [u64; 3]| of.iter().any(|rate| *rate > 0);
    if given(bytes) && given(ios) {
        r.wrong("rate_iops", "there is a rate in bytes as well: give one of the two");
    }
    let rate = |at: usize| match (bytes[at], ios[at]) {
        (0, 0) => None,
        (0, ios) => Some(Rate::Ios(ios)),
        (bytes, _) => Some(Rate::Bytes(bytes)),
    };
    Pace {
        rates: [rate(0), rate(1), rate(2)],
        poisson: r.one_of("rate_process", false, &[("linear", false), ("poisson", true)]),
        ignores_thinking: r.flag("rate_ignore_thinktime", false),
    }
}

fn limits(r: &mut Reader<'_>, pace: &Pace) -> Limits {
    let base = r.base;
    let numbers = |text: &str| value::three(text, &0, |part| value::int(part, base));
    let (bytes, ios) = (r.get("rate_min", [0; 3], numbers), r.get("rate_iops_min", [0; 3], numbers));
    let latency = r.get("max_latency", [Nanos::ZERO; 3], |text| {
        value::three(text, &Nanos::ZERO, |part| value::time(part, Nanos::from_micros(1)))
    });
    let above = |least: &[u64; 3], of: fn(Rate) -> Option<u64>| {
        let rate = |at: usize| pace.rates[at].and_then(of);
        (0..3).any(|at| rate(at).is_some_and(|rate| least[at] > rate))
    };
    if above(&bytes, |rate| if let Rate::Bytes(rate) = rate { Some(rate) } else { None }) {
        r.wrong("rate_min", "it is more than rate=…, which a job never exceeds");
    }
    if above(&ios, |rate| if let Rate::Ios(rate) = rate { Some(rate) } else { None }) {
        r.wrong("rate_iops_min", "it is more than rate_iops=…, which a job never exceeds");
    }
    let cycle = r.time("rate_cycle", Nanos::from_millis(1)).unwrap_or(SECOND);
    Limits { bytes, ios, cycle, latency }
}

fn target(r: &mut Reader<'_>) -> Option<Target> {
    let micro = Nanos::from_micros(1);
    let latency = r.time("latency_target", micro).unwrap_or(Nanos::ZERO);
    let window = r.time("latency_window", micro).unwrap_or(Nanos::ZERO);
    let percentile = r.get("latency_percentile", 100.0, |text| {
        let number = text.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
        number.ok_or_else(|| format!("\"{text}\" is no number above 0 up to 100"))
    });
    let runs_on = r.flag("latency_run", false);
    if latency > Nanos::ZERO && window == Nanos::ZERO {
        r.wrong("latency_target", "it needs latency_window=…, the time over which latencies are judged");
    }
    (latency > Nanos::ZERO).then_some(Target { latency, window, percentile, runs_on })
}

/// `steadystate`; nothing is judged without a duration, as at fio.
fn steady(r: &mut Reader<'_>) -> Option<Steady> {
    let criterion = r.get("steadystate", None, |text| steady::criterion(text).map(Some));
    let duration = r.time("steadystate_duration", SECOND).unwrap_or(Nanos::ZERO);
    let ramp = r.time("steadystate_ramp_time", SECOND).unwrap_or(Nanos::ZERO);
    let interval = r.time("steadystate_check_interval", Nanos::from_millis(1)).unwrap_or(SECOND);
    let criterion = criterion?;
    if interval == Nanos::ZERO || (duration > Nanos::ZERO && duration < interval * 2) {
        r.wrong(
            "steadystate_duration",
            "it has to hold two intervals of steadystate_check_interval at least",
        );
        return None;
    }
    let intervals = (duration.0 / interval.0) as usize;
    (intervals > 0).then_some(Steady { criterion, intervals, interval, ramp })
}

fn thinking(r: &mut Reader<'_>) -> Option<Thinking> {
    let micro = Nanos::from_micros(1);
    let time = r.time("thinktime", micro).unwrap_or(Nanos::ZERO);
    let spin = r.time("thinktime_spin", micro).unwrap_or(Nanos::ZERO);
    if spin > time {
        r.wrong("thinktime_spin", "it is a part of thinktime, and longer than it");
    }
    let after = r.time("thinktime_iotime", SECOND);
    r.one_of("thinktime_blocks_type", (), &[("complete", ()), ("issue", ())]);
    let blocks = r.count("thinktime_blocks", if after.is_some() { u64::MAX } else { 1 });
    (time > Nanos::ZERO).then_some(Thinking { time, blocks, after })
}

/// `read_iolog` and its options: the log says what is done, and on which files.
fn replay(r: &mut Reader<'_>, spec: &mut JobSpec) {
    let how = log::How {
        no_stall: r.flag("replay_no_stall", false),
        redirect: path(r, "replay_redirect"),
        speed: r.count("replay_time_scale", 100),
        scale: r.int("replay_scale", 0),
        align: r.int("replay_align", 0),
    };
    if how.align > 0 && !how.align.is_power_of_two() {
        r.wrong("replay_align", format!("{} is not a power of 2", how.align));
    }
    let Some(file) = r.text("read_iolog") else { return };
    let name = |name: &str| {
        let path = checked_path(name)?;
        if path.is_empty() { Err(format!("\"{name}\" is no name of a file")) } else { Ok(path) }
    };
    let Some(log) = r.get("read_iolog", None, |_| Log::read(file.as_ref(), &how, &name).map(Some)) else {
        return;
    };
    if spec.verify.is_some() {
        r.wrong("verify", "what a log writes is not verified: leave verify or read_iolog out");
    }
    let longest = log.longest().max(1);
    spec.mode = Mode {
        // A log of syncs alone opens its files, too.
        reads: log.has(Kind::Read) || !(log.has(Kind::Write) || log.has(Kind::Trim)),
        writes: log.has(Kind::Write),
        trims: log.has(Kind::Trim),
        ..Mode::default()
    };
    spec.sizes = [const { Sizes::Fixed(1) }; 3].map(|_| Sizes::Fixed(longest));
    (spec.map, spec.zones, spec.names, spec.time_based) = (false, None, log.files.clone(), false);
    (spec.loops, spec.number_ios) = (1, None);
    spec.log = Some(Arc::new(log));
}

/// A path in the file system under test: it must not lead out of it.
fn path(r: &mut Reader<'_>, name: &str) -> Option<String> {
    let text = r.text(name)?;
    r.get(name, None, |_| checked_path(&text).map(Some))
}

fn checked_path(text: &str) -> Parsed<String> {
    if text.split('/').any(|part| part == "..") {
        return Err(format!("\"{text}\" leads up: names are those of the file system under test (--fs)"));
    }
    let parts: Vec<_> = text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    Ok(parts.join("/"))
}

/// `a:b\:c`: names with colons between them.
fn names(r: &mut Reader<'_>) -> Vec<String> {
    let Some(text) = r.text("filename") else { return Vec::new() };
    let (mut names, mut name, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '\\' if !escaped => escaped = true,
            ':' if !escaped => names.push(std::mem::take(&mut name)),
            c => {
                name.push(c);
                escaped = false;
            }
        }
    }
    names.push(name);
    let mut checked = Vec::new();
    for name in names {
        let device = name.starts_with("/dev/") || name == "-";
        let found = if device {
            Err(format!(
                "{name} is not a file of the file system under test (--fs): leave filename out, or name a file"
            ))
        } else {
            checked_path(&name)
                .and_then(|name| if name.is_empty() { Err("a name is empty".to_owned()) } else { Ok(name) })
        };
        match found {
            Ok(name) => checked.push(name),
            Err(what) => r.wrong("filename", what),
        }
    }
    checked
}

fn service(text: &str) -> Parsed<Service> {
    let (name, count) = text.split_once(':').unwrap_or((text, ""));
    let count = if count.is_empty() { 1 } else { value::int(count, Base::Old)?.max(1) };
    match name {
        "roundrobin" => Ok(Service::RoundRobin(count)),
        "random" => Ok(Service::Random(count)),
        "sequential" => Ok(Service::Sequential(count)),
        _ => Err(format!("files are chosen by roundrobin, random or sequential, not by {name}")),
    }
}

fn file_size(r: &mut Reader<'_>) -> Option<(u64, u64)> {
    let base = r.base;
    r.get("filesize", None, |text| value::range(text, &|part| value::int(part, base)).map(Some))
}

fn fallocate(r: &mut Reader<'_>) -> Fallocate {
    r.one_of(
        "fallocate",
        Fallocate::Native,
        &[
            ("none", Fallocate::None),
            ("0", Fallocate::None),
            ("native", Fallocate::Native),
            ("posix", Fallocate::Posix),
            ("1", Fallocate::Posix),
            ("keep", Fallocate::Keep),
            ("truncate", Fallocate::Truncate),
        ],
    )
}

fn unified(r: &mut Reader<'_>) -> Unified {
    r.one_of(
        "unified_rw_reporting",
        Unified::None,
        &[
            ("none", Unified::None),
            ("0", Unified::None),
            ("mixed", Unified::Mixed),
            ("1", Unified::Mixed),
            ("", Unified::Mixed),
            ("both", Unified::Both),
            ("2", Unified::Both),
        ],
    )
}

fn fill(r: &mut Reader<'_>) -> Fill {
    let (zero, refill) = (r.flag("zero_buffers", false), r.flag("refill_buffers", false));
    let scramble = r.flag("scramble_buffers", true);
    let pattern = r.get("buffer_pattern", None, |text| value::pattern(text).map(Some));
    match pattern {
        Some(pattern) if pattern.contains(&Piece::Offset) => {
            r.wrong("buffer_pattern", "%o belongs to verify_pattern");
            Fill::Zero
        }
        Some(pattern) => Fill::Pattern(pattern),
        None if zero => Fill::Zero,
        None => Fill::Random { refill, scramble },
    }
}

fn verify(r: &mut Reader<'_>, least: u64) -> Option<Verify> {
    let kind = r.get("verify", None, verify::kind);
    let pattern = r.get("verify_pattern", None, |text| value::pattern(text).map(Some));
    let (interval, backlog) = (r.int("verify_interval", 0), r.int("verify_backlog", 0));
    let (reads_back, fatal) = (r.flag("do_verify", true), r.flag("verify_fatal", false));
    let kind = kind?;
    if kind == verify::Kind::Pattern && pattern.is_none() {
        r.wrong("verify", "pattern needs verify_pattern=…");
    }
    let interval = if interval == 0 { least } else { interval };
    Some(Verify { kind, pattern, interval, backlog, reads_back, fatal })
}

/// `0,2-3`.
fn cores(text: &str) -> Parsed<Vec<u16>> {
    let number = |text: &str| {
        text.trim().parse::<u16>().map_err(|_| format!("\"{text}\" is not the number of a core"))
    };
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (low, high) = match part.split_once('-') {
            Some((low, high)) => (number(low)?, number(high)?),
            None => (number(part)?, number(part)?),
        };
        cores.extend(low..=high);
    }
    Ok(cores)
}

fn percentiles(text: &str) -> Parsed<Vec<f64>> {
    let number =
        |part: &str| part.trim().parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 100.0);
    let numbers: Option<Vec<f64>> = text.split(':').map(number).collect();
    let mut numbers = numbers
        .ok_or_else(|| format!("\"{text}\" is no list of numbers above 0 up to 100, such as 50:99:99.9"))?;
    if numbers.len() > 20 {
        return Err(format!("{} percentiles are more than 20", numbers.len()));
    }
    numbers.sort_by(f64::total_cmp);
    Ok(numbers)
}

/// What options say only together.
fn check(spec: &JobSpec, r: &mut Reader<'_>) {
    if spec.log.is_none() && spec.size.is_none() && spec.file_size.is_none() {
        let what = "no size is given: each run lays out its own files, so give size=… or filesize=…";
        r.problems.push(Problem { line: spec.line, what: what.to_owned() });
    }
    if matches!(spec.size, Some(Amount::Percent(_))) && spec.file_size.is_none() {
        r.wrong("size", "a percentage needs filesize=…, because the run creates its files; or give bytes");
    }
    if spec.time_based && spec.runtime.is_none() {
        r.wrong("time_based", "it needs runtime=…");
    }
    let files = spec.names.len().max(spec.files as usize) as u64;
    if r.has("openfiles") && r.int("openfiles", files) < files {
        r.wrong("openfiles", format!("the job has {files} files, and all stay open: leave it out"));
    }
    if spec.direct && !spec.min_size().is_multiple_of(512) {
        r.wrong(
            "direct",
            format!("O_DIRECT takes multiples of 512 bytes, and an I/O has {}", spec.min_size()),
        );
    }
    if spec.direct && spec.unaligned {
        r.wrong("bs_unaligned", "O_DIRECT takes multiples of 512 bytes: give direct=0");
    }
    for direction in Direction::ALL.into_iter().filter(|direction| spec.does(*direction)) {
        let (align, sizes) = (spec.align[direction as usize], &spec.sizes[direction as usize]);
        if spec.map && align != sizes.min() {
            r.wrong(
                "ba",
                format!(
                    "with a map of visited blocks it must be the smallest bs, {}: give norandommap",
                    sizes.min()
                ),
            );
        }
    }
    if let (Some(verify), true) = (&spec.verify, spec.mode.writes || spec.mode.reads) {
        check_verify(spec, verify, r);
    }
    if spec.depth > 1024 || spec.jobs > 1024 {
        let name = if spec.depth > 1024 { "iodepth" } else { "numjobs" };
        r.wrong(name, "at most 1024: each is a task");
    }
}

fn check_verify(spec: &JobSpec, verify: &Verify, r: &mut Reader<'_>) {
    let header = verify.header_bytes();
    if verify.interval < header {
        r.wrong(
            "verify",
            format!("a block of {} bytes has no room for its header of {header}", verify.interval),
        );
    }
    let each = |sizes: &Sizes| match sizes {
        Sizes::Fixed(size) => vec![*size],
        Sizes::Range(low, high) => vec![*low, *high],
        Sizes::Split(sizes) => sizes.iter().map(|(size, _)| *size).collect(),
    };
    let direction = if spec.mode.writes { Direction::Write } else { Direction::Read };
    let sizes = [false, spec.mode.random].map(|random| each(spec.sizes_of(direction, random))).concat();
    if let Some(size) = sizes.into_iter().find(|size| !size.is_multiple_of(verify.interval.max(1))) {
        let what =
            format!("an I/O of {size} bytes is no multiple of {}; set verify_interval", verify.interval);
        r.wrong("verify_interval", what);
    }
    if spec.unaligned {
        r.wrong("bs_unaligned", "sizes must be multiples of verify_interval");
    }
}

#[cfg(test)]
mod tests;
