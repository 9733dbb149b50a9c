//! RCache in the table of designs: NOVA's format, and options of its own for what the paper leaves open.

use std::sync::Arc;

use design::{
    Checking, Design, Format, FsError, Given, Mutant, OptionError, OptionKind, OptionSpec, Options, Phase,
};
use media::Storage;
use sim::{Bytes, Count, LockClass, Nanos, PAGE_BYTES};
use vfs::{FileSystem, Promises};

use super::cache::{COUNTS, Cache, Settings};
use super::mutant;
use crate::nova::design as nova;
use crate::nova::format::NovaFormat;
use crate::nova::vfs::Mounted;
use crate::nova::{COUNTS as NOVA_COUNTS, MakeCache, PageCache, Volume};

/// RCache.
pub(crate) struct RcacheDesign;

const NAME: &str = "rcache";

static FORMAT: NovaFormat = NovaFormat { design: NAME };

const OWN_OPTIONS: [OptionSpec; 5] = [
    OptionSpec {
        name: "cache",
        kind: OptionKind::Cache,
        default: "0",
        when: Phase::Mount,
        help: "DRAM for cached pages; 0: a quarter of the host's memory (the paper gives no size)",
    },
    OptionSpec {
        name: "threshold",
        kind: OptionKind::Count,
        default: "1",
        when: Phase::Mount,
        help: "a page that is read more often than this within a window is cached (unpublished)",
    },
    OptionSpec {
        name: "window",
        kind: OptionKind::Time,
        default: "1s",
        when: Phase::Mount,
        help: "length of the window in which reads are counted (unpublished)",
    },
    OptionSpec {
        name: "requests",
        kind: OptionKind::Count,
        default: "4096",
        when: Phase::Mount,
        help: "length of the queue of the copying task; a page that finds it full is cached later",
    },
    OptionSpec {
        name: "poll",
        kind: OptionKind::Time,
        default: "100us",
        when: Phase::Mount,
        help: "how long the copying task sleeps at first when no page waits; later up to 4ms",
    },
];

static OPTIONS: [OptionSpec; nova::OPTIONS.len() + OWN_OPTIONS.len()] = {
    let mut all = [OWN_OPTIONS[0]; nova::OPTIONS.len() + OWN_OPTIONS.len()];
    let mut place = 0;
    while place < all.len() {
        all[place] = match place < nova::OPTIONS.len() {
            true => nova::OPTIONS[place],
            false => OWN_OPTIONS[place - nova::OPTIONS.len()],
        };
        place += 1;
    }
    all
};

/// Those of the cache, and of NOVA below it.
static ALL_COUNTS: [&Count; 7] = {
    let ([hits, misses, copied, invalidated, evicted], [fast, thorough]) = (COUNTS, NOVA_COUNTS);
    [hits, misses, copied, invalidated, evicted, fast, thorough]
};

/// Two shards, short logs, three frames, every read inserts, and the copier hardly sleeps.
const SMALL: Given = &[
    ("shards", "2"),
    ("log_page", "512"),
    ("cache", "12k"),
    ("threshold", "0"),
    ("requests", "2"),
    ("poll", "1us"),
];

/// The part of the host's memory that the cache takes when nothing is said.
const USUAL_PART: u64 = 4;

/// The memory of this host in bytes, as the kernel says.
fn host_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024))
}

fn settings(options: &Options) -> Result<Settings, OptionError> {
    let wrong = |name: &str, expected: &str| OptionError::Value {
        name: name.to_owned(),
        value: options.choice(name).to_owned(),
        expected: expected.to_owned(),
    };
    let cache = options.size("cache").0;
    if cache > 0 && cache < PAGE_BYTES as u64 {
        return Err(wrong("cache", "4k or more, or 0"));
    }
    let memory = host_memory().unwrap_or(u64::MAX);
    if cache > memory {
        let most = format!("at most {}, the memory of this host, or 0 for a quarter of it", Bytes(memory));
        return Err(wrong("cache", &most));
    }
    let cache = if cache == 0 { memory / USUAL_PART } else { cache };
    let time = |name: &str| match options.time(name) {
        Nanos(0) => Err(wrong(name, "a time of at least 1ns")),
        time => Ok(time),
    };
    let queue =
        usize::try_from(options.number("requests")).ok().filter(|queue| (1..=1 << 20).contains(queue));
    Ok(Settings {
        threshold: u32::try_from(options.number("threshold"))
            .map_err(|_| wrong("threshold", "a number below 2^32"))?,
        window: time("window")?,
        poll: time("poll")?,
        frames: cache / PAGE_BYTES as u64,
        queue: queue.ok_or_else(|| wrong("requests", "a number from 1 to 1048576"))?,
        mutant: options.mutant(),
    })
}

impl Design for RcacheDesign {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "NOVA with a read cache in DRAM for hot pages (ZTE Communications 2023)"
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &FORMAT
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        [crate::nova::CLASSES, super::CLASSES].concat()
    }

    fn promises(&self, _: &Options) -> Promises {
        crate::nova::vfs::PROMISES
    }

    fn checking(&self) -> Checking {
        // NOVA's tests cover the format.
        Checking { small: SMALL, tiny: SMALL, crash_every: 16, fail_every: 8, ..Checking::default() }
    }

    fn counts(&self) -> &'static [&'static Count] {
        &ALL_COUNTS
    }

    fn mutants(&self) -> &'static [Mutant] {
        &mutant::ALL
    }

    fn dram(&self, options: &Options, _: Bytes) -> Bytes {
        options.size("cache")
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        let settings = settings(options)?;
        let make: MakeCache<'_> =
            &|region, blocks| Ok(Box::new(Cache::start(region, blocks, settings)?) as Box<dyn PageCache>);
        let (volume, _) = Volume::mount(storage.memory()?, nova::settings(options), Some(make))?;
        Ok(Arc::new(Mounted(volume)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(cache: &str) -> Result<Settings, OptionError> {
        let given = [("cache".to_owned(), cache.to_owned())].into();
        settings(&Options::resolve(NAME, &OPTIONS, &given).expect("options of the design"))
    }

    #[test]
    fn a_cache_larger_than_memory_is_refused_with_what_there_is_and_the_usual_one_takes_a_quarter() {
        let memory = host_memory().expect("Linux says how much there is");
        let told = with("1000000GiB").expect_err("no host has as much").to_string();
        assert!(told.contains("cache") && told.contains("the memory of this host"), "{told}");
        assert_eq!(with("0").expect("the usual").frames, memory / 4 / PAGE_BYTES as u64);
        assert_eq!(with("12k").expect("three pages").frames, 3);
    }
}
