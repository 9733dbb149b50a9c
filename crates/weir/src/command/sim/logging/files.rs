//! `weir sim logging --fs`: what would hardware logging save a file system?
//!
//! A few calls run on the design in memory while a tap listens. What it hears becomes two traces. In the first, the design does
//! what it does: its stores, stores past the caches, flushes, fences, its journal among them. In the second, the hardware keeps
//! the promise: each call is a transaction, its journal, flushes and fences are left out, and stores past the caches of whole lines
//! (data) stay, behind one fence before the commit. Only the memory's time is simulated; the design's instructions take none.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use archsim::machine::LINE;
use archsim::trace::Trace;
use archsim::trace::builder::Builder;
use archsim::{Config, Machine, Outcome};
use media::event::{Event, Tap, TaskId};
use media::nvmm::Region;
use report::table::Table;
use serde_json::json;
use sim::{Bytes, MIB, PAGE_BYTES};
use vfs::{FileSystem, IoFlags, NewInode, Owner};

use super::Logging;
use crate::checked::{Size, checked};
use crate::failure::{Exit, Failure};
use crate::output::Output;

const REGION: Bytes = Bytes(64 * MIB);
/// Rounds of calls, the first of which warm the caches.
const ROUNDS: u64 = 240;
/// Calls of a round.
const CALLS: u64 = 5;
const WARM: u64 = 40;
/// Files that exist at a time.
const FILES: u64 = 16;
const NEW: NewInode = NewInode { perm: 0o644, owner: Owner { uid: 0, gid: 0 } };
/// The design's own protocol in tables.
const OWN: &str = "its own";

/// A tap that builds both traces.
struct Listener {
    journal: Vec<Range<u64>>,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    own: Builder,
    hardware: Builder,
    /// Whether stores past the caches are under way in the second trace.
    past: bool,
}

impl Tap for Listener {
    fn event(&self, _: TaskId, event: Event<'_>) {
        let mut heard = self.heard.lock().expect("no listener panics");
        let Heard { own, hardware, past } = &mut *heard;
        let log = |at: u64| self.journal.iter().any(|range| range.contains(&at));
        match event {
            Event::Load { off, len } => {
                own.load(off, len, false);
                if !log(off) {
                    hardware.load(off, len, false);
                }
            }
            Event::Store { off, data, .. } => {
                own.store(off, data.len() as u64);
                if !log(off) {
                    hardware.begin();
                    hardware.store(off, data.len() as u64);
                }
            }
            Event::NtStore { off, data } => {
                let bytes = data.len() as u64;
                own.store_past(off, bytes);
                if log(off) {
                    return;
                }
                hardware.begin();
                if bytes < LINE {
                    hardware.store(off, bytes);
                } else {
                    hardware.store_past(off, bytes);
                    *past = true;
                }
            }
            Event::Flush { off, len } => own.flush(off, len),
            Event::Fence => own.fence(),
            Event::Block(_) | Event::Mark(_) => {}
        }
    }

    fn hears_loads(&self) -> bool {
        true
    }
}

impl Listener {
    /// A call has returned.
    fn end(&self) {
        let mut heard = self.heard.lock().expect("no listener panics");
        heard.own.end();
        if std::mem::take(&mut heard.past) {
            heard.hardware.fence();
        }
        heard.hardware.end();
    }
}

/// The calls of a mail server's store: create, write a page, sync, append, remove the oldest.
fn calls(fs: &dyn FileSystem, listener: &Listener) -> vfs::Result<()> {
    let (page, line) = (vec![0x5a; PAGE_BYTES], vec![0xa5; 256]);
    for round in 0..ROUNDS {
        let name = format!("mail{round}");
        let file = fs.create(fs.root(), name.as_bytes(), &NEW)?.ino;
        listener.end();
        fs.write(file, 0, &page, IoFlags::SYNC)?;
        listener.end();
        fs.write(file, page.len() as u64, &line, IoFlags::SYNC)?;
        listener.end();
        fs.fsync(file, false)?;
        listener.end();
        if let Some(oldest) = round.checked_sub(FILES) {
            fs.unlink(fs.root(), format!("mail{oldest}").as_bytes())?;
        }
        listener.end();
    }
    Ok(())
}

/// Both traces of a design.
fn record(name: &str) -> Result<(Trace, Trace), Failure> {
    let called = name.to_owned();
    let told = move |what: String| Failure::new(Exit::Run, format!("{called}: {what}"));
    let refused = format!("--fs {name}");
    let design = checked(name, &BTreeMap::new(), Size::Small)?;
    let kind = lab::plan::matrix::stored(name)?;
    if kind.format().needs(&design::Options::defaults(kind.options())) != design::Needs::Memory {
        return Err(Failure::usage(format!(
            "--fs {name}: this design is not only in memory; give pmfs, hinfs, nova or rcache"
        )));
    }
    let region: Arc<Region> = check::configured::region(REGION.max(design.min_size()));
    let failed = told.clone();
    let body = move || {
        design.mkfs(&region).map_err(&failed)?;
        let journal = kind.format().journal(&media::Storage::from(&region));
        let journal = journal.map_err(|error| Failure::usage(format!("{refused}: {error}")))?;
        let fs = design.mount(&region).map_err(&failed)?;
        let listener = Arc::new(Listener { journal, heard: Mutex::default() });
        region.attach(Arc::clone(&listener) as Arc<dyn Tap>);
        let done = calls(&*fs, &listener);
        region.detach(&listener);
        done.and_then(|()| fs.unmount()).map_err(|errno| failed(errno.name().to_owned()))?;
        Ok::<Heard, Failure>(std::mem::take(&mut *listener.heard.lock().expect("no listener panics")))
    };
    let heard = check::configured::try_virtually(1, body).map_err(told)??;
    Ok((heard.own.finish()?, heard.hardware.finish()?))
}

impl Logging {
    pub(super) fn files(&self, machine: &Machine, output: &Output) -> Result<(), Failure> {
        let mut ran = Vec::new();
        for name in &self.fs {
            let (own, hardware) = record(name)?;
            let (own, hardware) = (Arc::new(own), Arc::new(hardware));
            ran.push((OWN, self.replayed(machine, name, "non-pers", &own)?));
            for scheme in ["hwl", "fwb", "morlog-like"] {
                ran.push((scheme, self.replayed(machine, name, scheme, &hardware)?));
            }
            ran.push(("nothing", self.replayed(machine, name, "non-pers", &hardware)?));
        }
        let samples = ran.iter().map(|(protocol, (config, outcome))| {
            let mut sample = outcome.sample(config);
            sample.axes.insert("fs".to_owned(), config.workload.clone());
            sample.axes.insert("protocol".to_owned(), (*protocol).to_owned());
            sample.axes.remove("scheme");
            sample.axes.insert("workload".to_owned(), "archsim/mail".to_owned());
            sample
        });
        let samples: Vec<_> = samples.collect();
        if output.is_json() {
            output.document(&json!({ "schema": "weir.sim.files/1", "samples": samples }));
        } else {
            output.data(&table(machine, &ran).to_text());
        }
        let figure = |id: &str, title: &str, metric: &str, caption: &str| {
            json!({
                "id": id, "title": title, "kind": "bars", "x": "fs", "series": "protocol", "metric": metric,
                "relative_to": OWN, "caption": caption,
            })
        };
        let memory =
            "Time of memory only: the file system's instructions take none. \"nothing\" keeps no promise.";
        let figures = json!([
            figure("1", "Calls a second", "throughput", memory),
            figure(
                "2",
                "Memory traffic a call",
                "per_op.nvram_bytes",
                "Bytes read and written; less is better."
            ),
        ]);
        self.write(&figures, samples, output)
    }

    /// A trace under a scheme; its name stands for the workload.
    fn replayed(
        &self,
        machine: &Machine,
        name: &str,
        scheme: &str,
        trace: &Arc<Trace>,
    ) -> Result<(Config, Outcome), Failure> {
        let mut config = self.config(machine, scheme.to_owned(), name.to_owned());
        config.machine.footprint = trace.share;
        config.machine.warmup = WARM * CALLS;
        config.machine.check()?;
        (config.threads, config.ops) = (1, (ROUNDS - WARM) * CALLS);
        config.trace = Some(Arc::clone(trace));
        let outcome = archsim::run(&config)?;
        Ok((config, outcome))
    }
}

fn table(machine: &Machine, ran: &[(&str, (Config, Outcome))]) -> Table {
    let mut table =
        Table::new(format!("a call of a mail server's store, memory's time only, machine {}", machine.name));
    for name in ["file system", "protocol"] {
        table.words(name);
    }
    for name in ["ns", "fences", "flushes", "records", "bytes written", "bytes read", "energy nJ"] {
        table.numbers(name);
    }
    for (protocol, (config, outcome)) in ran {
        let calls = outcome.transactions.max(1) as f64;
        let of = |count: u64| format!("{:.1}", count as f64 / calls);
        table.rows.push(vec![
            config.workload.clone(),
            (*protocol).to_owned(),
            format!("{:.0}", outcome.time as f64 / 1e3 / calls),
            of(outcome.executed.fences),
            of(outcome.executed.write_backs),
            of(outcome.counter("hw_records")),
            format!("{:.0}", outcome.written()),
            format!("{:.0}", outcome.traffic() - outcome.written()),
            format!("{:.1}", outcome.energy_nj()),
        ]);
    }
    table
}
