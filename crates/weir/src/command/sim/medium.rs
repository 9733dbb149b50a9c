//! `weir sim medium`: a medium by itself, measured by loads and stores.

use clap::Args;
use lab::MachinePreset;
use lab::medium::{Access, Loop, Measured, Pattern};
use lab::medium_load::Probe;
use media::Medium;
use report::table::Table;
use serde_json::{Value, json};
use sim::{Bytes, Nanos};

use super::medium_load::{LoadForms, Shared};
use crate::experiment;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use crate::progress::Counter;

/// Measure a medium by loads and stores: latency and bandwidth by pattern, size and threads.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples: weir sim medium optane.100 --op read,nt,clwb --threads 1,2,4,8,16,24 --full \
                  · weir sim medium cxl.fast --pattern rand --size 64 \
                  · weir sim medium dram --loaded --traffic 50GB/s,200GB/s --reads 100,67 --threads 55"
)]
pub(crate) struct MediumLoops {
    /// The medium (`weir list media`), with parameters
    #[arg(value_name = "NAME[,KEY=VALUE]")]
    medium: String,
    /// The order of places: seq or rand [default: seq, and rand of --chase]
    #[arg(long, value_name = "seq|rand")]
    pattern: Option<Pattern>,
    /// Accesses: read, nt (store past the caches), clwb (store and write back), store, or mixRW: of R + W accesses R loads and
    /// W stores past the caches
    #[arg(long = "op", value_delimiter = ',', default_value = "read", value_name = "OP,…")]
    accesses: Vec<Access>,
    /// Bytes of an access
    #[arg(long = "size", value_delimiter = ',', default_value = "256", value_name = "SIZE,…")]
    sizes: Vec<Bytes>,
    /// Threads, each on a core and a stretch of 8 MiB of its own
    #[arg(long, value_delimiter = ',', default_value = "1", value_name = "N,…")]
    threads: Vec<u64>,
    /// Let stores go on without waiting until they are durable
    #[arg(long)]
    no_fence: bool,
    /// Charge the processor's part of each access, too, at the machine's prices
    #[arg(long, conflicts_with = "form")]
    full: bool,
    /// The machine that --full takes the prices of, or whose memory dram is (`weir list machines`) [default: rcache-server, and
    /// spr-server of memory under load]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
    /// Virtual time that is measured
    #[arg(long, default_value = "4ms", value_name = "TIME", hide_short_help = true)]
    time: Nanos,
    /// Seed of random places
    #[arg(long, default_value_t = 1, value_name = "N", hide_short_help = true)]
    seed: u64,
    #[command(flatten)]
    load: LoadForms,
}

/// What --full takes the prices of where no machine is named.
const MACHINE: &str = "rcache-server";

impl MediumLoops {
    /// Every measurement of a memory under load that is asked for; none where loops are. `with` as in [`MediumLoops::loops`].
    pub(crate) fn probes(&self, with: (&str, &str)) -> Result<Vec<Probe>, Failure> {
        if self.load.is_asked() { self.load.probes(&self.shared(with)?) } else { Ok(Vec::new()) }
    }

    fn shared<'c>(&'c self, with: (&str, &'c str)) -> Result<Shared<'c>, Failure> {
        Ok(Shared {
            medium: Medium::parse(&format!("{}{}", self.medium, with.0))?,
            machine: self.machine.as_deref(),
            machine_with: with.1,
            pattern: self.pattern.unwrap_or(Pattern::Random),
            threads: &self.threads,
            window: self.time,
            seed: self.seed,
        })
    }

    fn pattern(&self) -> Pattern {
        self.pattern.unwrap_or(Pattern::Sequential)
    }

    fn machine(&self) -> &str {
        self.machine.as_deref().unwrap_or(MACHINE)
    }

    /// Every loop that is asked for. `with` are settings to add to the medium and the machine, as `,KEY=VALUE`.
    pub(crate) fn loops(&self, with: (&str, &str)) -> Result<Vec<Loop>, Failure> {
        let medium = Medium::parse(&format!("{}{}", self.medium, with.0))?;
        let mut name = self.machine().to_owned();
        lab::presets::embedded(&mut name);
        let machine = MachinePreset::load(&(name + with.1))?;
        let machine = self.full.then_some(machine);
        let mut loops = Vec::new();
        for access in &self.accesses {
            for size in &self.sizes {
                for threads in &self.threads {
                    let work = Loop {
                        medium: medium.clone(),
                        pattern: self.pattern(),
                        access: *access,
                        size: *size,
                        threads: *threads,
                        fence: !self.no_fence,
                        machine: machine.clone(),
                        window: self.time,
                        seed: self.seed,
                    };
                    work.check()?;
                    loops.push(work);
                }
            }
        }
        Ok(loops)
    }

    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        if self.load.is_asked() {
            return self.load.run(&self.shared(("", ""))?, output);
        }
        let loops = self.loops(("", ""))?;
        let counter = Counter::new(output, "loops", loops.len() as u64);
        let all: Vec<&Loop> = loops.iter().collect();
        let found = lab::medium::side_by_side(&all, 0, &|| !interrupt::happened(), &|| counter.one_more());
        let measured = found.into_iter().flatten().collect::<Result<Vec<_>, _>>()?;
        drop(counter);
        if output.is_json() {
            output.document(&self.document(&loops, &measured));
        } else {
            output.data(&self.table(&loops, &measured).to_text());
        }
        Ok(())
    }

    fn table(&self, loops: &[Loop], measured: &[Measured]) -> Table {
        let fence = if self.no_fence { ", stores without fences" } else { "" };
        let prices = if self.full { format!(", prices of {}", self.machine()) } else { String::new() };
        let loads = if is_whole(loops) {
            "a load is all of it"
        } else {
            "a load is what it takes beyond one of DRAM"
        };
        let mut table = Table::new(format!("{}, {}{fence}{prices}; {loads}", self.medium, self.pattern()));
        table.words("access");
        let time = if is_whole(loops) { "ns in all" } else { "ns over local" };
        for name in ["size", "threads", "GB/s", "GiB/s", time] {
            table.numbers(name);
        }
        for (one, found) in loops.iter().zip(measured) {
            let bandwidth = [1e9, 1_073_741_824.0].map(|unit| format!("{:.3}", found.bytes_per_s / unit));
            let time = found.access_ns.map_or_else(|| "–".to_owned(), |ns| format!("{ns:.1}"));
            let head = [one.access.to_string(), one.size.to_string(), one.threads.to_string()];
            table.rows.push(head.into_iter().chain(bandwidth).chain([time]).collect());
        }
        table
    }

    fn document(&self, loops: &[Loop], measured: &[Measured]) -> Value {
        let one = |(one, found): (&Loop, &Measured)| {
            json!({
                "access": one.access.to_string(), "size_bytes": one.size.0, "threads": one.threads,
                "accesses": found.accesses, "bytes_per_s": found.bytes_per_s, "access_ns": found.access_ns,
            })
        };
        json!({
            "schema": "weir.medium/1",
            "command": experiment::command(),
            "medium": self.medium, "pattern": self.pattern().to_string(), "fence": !self.no_fence,
            "loads_whole": is_whole(loops),
            "machine": self.full.then(|| self.machine()), "time_ns": self.time.0, "seed": self.seed,
            "loops": loops.iter().zip(measured).map(one).collect::<Vec<_>>(),
        })
    }
}

/// Whether the time of a load is the whole of it, and not what it takes longer than one from DRAM.
fn is_whole(loops: &[Loop]) -> bool {
    loops.first().and_then(|one| one.medium.build().ok()).is_some_and(|model| model.loads_whole())
}
