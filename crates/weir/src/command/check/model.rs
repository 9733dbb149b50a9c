//! `weir check model`: random operations beside a reference model and, if asked, beside the host's kernel.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use check::Configured;
use check::kernel::HostDir;
use check::lockstep::{Failed, Prepare, Round, Seen, run_many};
use clap::Args;
use media::fault::{Fault, Target};
use report::table::Table;
use report::units::number;
use serde_json::{Value, json};
use sim::{Bytes, KIB};

use super::chosen::{Share, range, within};
use super::ledger::{Entry, Ledger};
use super::{Shared, check_size, refuse_without_maps, subject, written};
use crate::checked::Size;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::progress::Counter;

/// A fresh file system after so many operations: what failed can be repeated from there.
const ROUND_OPS: u64 = 5000;
const ROUND_SIZE: Bytes = Bytes::mib(8);
/// What the small region has beside what the format needs.
const TIGHT: u64 = 256 * KIB;

/// Run random operations on designs and on a reference model, and compare each answer.
#[derive(Args, Debug)]
#[command(
    after_help = "Exit codes: 0 no difference, 1 a difference (printed with the shortest program that shows it)"
)]
pub(super) struct ModelCheck {
    #[command(flatten)]
    shared: Shared,
    /// Operations on each design
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ops: u64,
    /// Run only the rounds A to B-1 of these, 5,000 operations each on a fresh file system, from 0: the share of a host
    #[arg(long, value_name = "A..B", value_parser = range, hide_short_help = true)]
    range: Option<Share>,
    /// Also run the operations on this host's kernel, below this directory (tmpfs is fastest: /dev/shm)
    #[arg(long, value_name = "DIR")]
    host: Option<PathBuf>,
    /// Include mapped files: mmap, loads, stores and msync, which are not run on the host
    #[arg(long)]
    mapped: bool,
    /// Size of the region [default: 8 MiB; in every second round so small that space runs out]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// Canary: the Nth store of each round fails, which must be found
    #[arg(long, value_name = "N", hide = true)]
    fail_store: Option<u64>,
}

/// What came of one design.
struct Compared {
    design: Arc<Configured>,
    seen: Seen,
    failed: Option<Failed>,
    took: Duration,
}

impl ModelCheck {
    pub(super) fn run(self, output: &Output, ledger: &Ledger<'_>) -> Result<(), Failure> {
        let host = match &self.host {
            None => None,
            Some(path) => Some(HostDir::new(path).map_err(|what| Failure::new(Exit::Host, what))?),
        };
        let rounds = within(self.range, self.ops.div_ceil(ROUND_OPS), "rounds of 5,000 operations")?;
        let designs = self.shared.designs(Size::Small)?;
        for design in &designs {
            check_size(design, self.size.unwrap_or(ROUND_SIZE))?;
            if self.mapped {
                refuse_without_maps(design, self.size.unwrap_or(ROUND_SIZE))?;
            }
        }
        let compared =
            designs.into_iter().map(|design| self.compare(design, rounds.clone(), host.as_ref(), output));
        let compared = compared.collect::<Vec<_>>();
        drop(host); // and with it the umask of the comparison
        if output.is_json() {
            output.document(&self.document(&compared));
        } else {
            output.data(&self.text(&compared));
        }
        if self.fail_store.is_none() {
            ledger.record(&compared.iter().flat_map(|one| self.entries(one)).collect::<Vec<_>>());
        }
        let differ = compared.iter().filter(|compared| compared.failed.is_some());
        let names: Vec<_> = differ.map(|compared| compared.design.name()).collect();
        if names.is_empty() {
            return Ok(());
        }
        Err(Failure::new(Exit::Check, format!("{}: not as the model says", names.join(", "))))
    }

    fn compare(
        &self,
        design: Arc<Configured>,
        rounds: Range<u64>,
        host: Option<&HostDir>,
        output: &Output,
    ) -> Compared {
        let (began, count) = (Instant::now(), rounds.end - rounds.start);
        let counter = Counter::new(output, design.name(), count);
        let prepare = self.fail_store.map(|nth| -> Prepare {
            Arc::new(move |region| region.inject(Fault::FailNth { target: Target::Store, nth }))
        });
        let round = |number: usize| self.round(&design, rounds.start + number as u64);
        let (seen, failed) =
            run_many((count as usize, &round), (host, prepare.as_ref()), &self.shared.limits(), &|_| {
                counter.one_more();
            });
        Compared { design, seen, failed, took: began.elapsed() }
    }

    fn round(&self, design: &Arc<Configured>, number: u64) -> Round {
        let tight = Bytes((design.min_size().0 + TIGHT).next_multiple_of(4 * KIB));
        let size = self.size.unwrap_or(if number.is_multiple_of(2) { ROUND_SIZE } else { tight });
        let ops = ROUND_OPS.min(self.ops - number * ROUND_OPS) as usize;
        Round {
            design: Arc::clone(design),
            size,
            seed: self.shared.seed.wrapping_add(number),
            ops,
            maps: self.mapped,
        }
    }

    /// The command that shows a difference again.
    fn again(&self, compared: &Compared, failed: &Failed) -> String {
        let (name, arguments) = (compared.design.name(), compared.design.arguments());
        let mut command = format!(
            "weir check model --fs {name} --seed {} --ops {} --size {}",
            failed.seed,
            failed.ops.max(1),
            written(failed.size)
        );
        let host = self.host.as_ref().map(|path| format!("--host {}", path.display()));
        let mapped = self.mapped.then(|| "--mapped".to_owned());
        let canary = self.fail_store.map(|nth| format!("--fail-store {nth}"));
        for more in [Some(arguments.to_owned()), host, mapped, canary]
            .into_iter()
            .flatten()
            .filter(|more| !more.is_empty())
        {
            let _ = write!(command, " {more}");
        }
        command
    }

    fn text(&self, compared: &[Compared]) -> String {
        let mut table = Table::new(format!("operations beside the model, seed {}", self.shared.seed));
        table.words("fs");
        for name in ["operations", "remounts", "no space", "on host", "differences", "ops/s"] {
            table.numbers(name);
        }
        let mut failures = String::new();
        for one in compared {
            let Seen { ops, out_of_space, remounts, on_host } = one.seen;
            let on_host = if self.host.is_some() { on_host.to_string() } else { "–".to_owned() };
            let numbers = [ops.to_string(), remounts.to_string(), out_of_space.to_string(), on_host];
            let differences = u32::from(one.failed.is_some()).to_string();
            let rate = number(ops as f64 / one.took.as_secs_f64().max(1e-9));
            let row = [one.design.name().to_owned()].into_iter().chain(numbers).chain([differences, rate]);
            table.rows.push(row.collect());
            if let Some(failed) = &one.failed {
                let (name, again) = (one.design.name(), self.again(one, failed));
                let _ = writeln!(failures, "\n{name}: {failed}\nagain: {again}");
            }
        }
        table.to_text() + &failures
    }

    /// The operations beside the model, and those that the host carried out as well.
    fn entries(&self, compared: &Compared) -> Vec<Entry> {
        let (ops, on_host) = (compared.seen.ops, compared.seen.on_host);
        let seed = self.shared.seed;
        let all = 0..self.ops.div_ceil(ROUND_OPS);
        let rounds = self.range.map_or(all, |share| share.start..share.end);
        let entry = |check: &str, count: usize| Entry {
            check: check.to_owned(),
            subject: subject(&compared.design),
            unit: "operations".to_owned(),
            count: count as u64,
            failures: u64::from(compared.failed.is_some()),
            seeds: Some((seed + rounds.start, seed + rounds.end - 1)),
            asked: self.size.map_or_else(String::new, |size| format!("--size {}", written(size))),
            ..Entry::default()
        };
        let host = self.host.is_some().then(|| entry("model/host", on_host));
        [entry(if self.mapped { "model/mapped" } else { "model" }, ops)].into_iter().chain(host).collect()
    }

    fn document(&self, compared: &[Compared]) -> Value {
        let one = |one: &Compared| {
            let failure = one.failed.as_ref().map(|failed| {
                json!({
                    "seed": failed.seed,
                    "ops": failed.ops,
                    "what": failed.what,
                    "program": failed.program.iter().map(|op| format!("{op:?}")).collect::<Vec<_>>(),
                    "program_what": failed.program_what,
                    "again": self.again(one, failed),
                })
            });
            json!({
                "fs": one.design.name(),
                "options": one.design.arguments(),
                "ops": one.seen.ops,
                "remounts": one.seen.remounts,
                "out_of_space": one.seen.out_of_space,
                "on_host": one.seen.on_host,
                "differences": u32::from(one.failed.is_some()),
                "elapsed_ns": one.took.as_nanos() as u64,
                "failure": failure,
            })
        };
        json!({
            "schema": "weir.check.model/1",
            "seed": self.shared.seed,
            "designs": compared.iter().map(one).collect::<Vec<_>>(),
        })
    }
}
