//! `ddr`, `curve`, `cxl` and `remote`: memory whose latency depends on its traffic (`docs/models/nvmm.md`, [`sim::memory`]).
//!
//! | type | law | link |
//! |---|---|---|
//! | `ddr` | the formula, from a data sheet; two greatest bandwidths of the own machine sharpen it | none |
//! | `curve` | points of a measured curve | none |
//! | `cxl` | the formula for the card's memory, its peak by what the card serves | PCI Express, a direction each |
//! | `remote` | the formula of the other socket's memory | that between sockets |
//!
//! The latencies are those that a core sees: the whole of a load, not what it has beyond DRAM.

use std::sync::Arc;

use sim::memory::{Core, Ddr, Law, Link, MemoryModel, Tail};
use sim::{LINE_BYTES, Memory, Nanos};

use super::curve;
use crate::cost::{CostModel, Figure};
use crate::medium::{MediumError, MediumType, ParamKind, ParamSpec, Params};

/// A medium that is a memory.
#[derive(Debug)]
pub struct OfMemory {
    name: &'static str,
    memory: Arc<Memory>,
}

impl OfMemory {
    /// The medium of this type's name.
    ///
    /// # Errors
    /// What no memory can be.
    pub fn build(name: &'static str, model: MemoryModel) -> Result<Box<dyn CostModel>, MediumError> {
        model.check().map_err(|what| impossible(name, what))?;
        Ok(Box::new(Self { name, memory: Arc::new(Memory::new(model)) }))
    }
}

fn impossible(name: &str, what: String) -> MediumError {
    MediumError::Impossible { medium: name.to_owned(), what }
}

impl CostModel for OfMemory {
    fn name(&self) -> &'static str {
        self.name
    }

    /// Metadata: data goes by the copy.
    fn load(&self, _: u64, bytes: u64) {
        self.memory.touch(bytes.div_ceil(LINE_BYTES as u64));
    }

    fn loads_whole(&self) -> bool {
        true
    }

    fn write(&self, _: u64, lines: u64) {
        self.memory.post(lines);
    }

    fn fence(&self) {
        sim::memory::fence();
    }

    fn memory(&self) -> Option<&Arc<Memory>> {
        Some(&self.memory)
    }

    fn line_time(&self) -> Nanos {
        let model = self.memory.model();
        Nanos(self.memory.idle_ps() * model.accept_per_mille / model.core.credits / 1_000_000)
    }

    fn figures(&self) -> Vec<Figure> {
        let model = self.memory.model();
        vec![
            ("idle_ns", self.memory.idle_ps() as f64 / 1e3),
            ("read_bytes_per_s", model.cap(0.0) * 1e9),
            ("mixed_bytes_per_s", model.cap(0.5) * 1e9),
            ("write_bytes_per_s", model.cap(1.0) * 1e9),
        ]
    }
}

const fn spec(
    name: &'static str,
    kind: ParamKind,
    default: &'static str,
    help: &'static str,
    source: &'static str,
) -> ParamSpec {
    ParamSpec { name, kind, default, help, source }
}

const CORE: &str = "Golden Cove (crates/sim/src/memory/model.rs)";
const ISSUE: ParamSpec = spec(
    "issue",
    ParamKind::Span,
    "1.733ns",
    "time of a core for a line of a stream, beside the latency",
    CORE,
);
const DEPTH: ParamSpec =
    spec("depth", ParamKind::Count, "319", "lines of a stream for which one latency is exposed", CORE);
const OUTSTANDING: ParamSpec =
    spec("outstanding", ParamKind::Count, "48", "lines of a traffic generator under way in a core", CORE);
const CREDITS: ParamSpec = spec(
    "credits",
    ParamKind::Count,
    "16",
    "stores past the caches and write-backs under way in a core",
    CORE,
);
const ACCEPTED: ParamSpec = spec(
    "accept",
    ParamKind::Number,
    "0.67",
    "part of the latency after which such a store is accepted, for which a fence waits",
    "[D] memo: 223 and 360 ns by 253 and 512 ns, each less the loop (data of CXL-DMSim, arXiv 2411.02282)",
);

fn core(params: &Params) -> Core {
    Core {
        issue_ps: params.span_ps("issue"),
        depth: params.count("depth"),
        outstanding: params.count("outstanding"),
        credits: params.count("credits"),
    }
}

fn accept(params: &Params) -> u64 {
    (params.number("accept") * 1_000.0 + 0.5) as u64
}

fn ns(params: &Params, name: &str) -> f64 {
    params.span_ps(name) as f64 / 1e3
}

/// The line of `ddr` in the table of media.
pub(crate) struct DdrType;

const SHAPE: &str = "[D] fitted to Xeon 8480+ and Gold 5218 (Mess, shares of reads 100 to 50); AMD's is another: give max_reads";

impl MediumType for DdrType {
    fn name(&self) -> &'static str {
        "ddr"
    }

    fn summary(&self) -> &'static str {
        "memory of a socket under load, from its data sheet or two measured bandwidths"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const SHEET: &str = "the data sheet of the machine; the default is a Xeon Platinum 8480+'s";
        const OWN: &str = "measured on the machine";
        const {
            &[
                spec("channels", ParamKind::Count, "8", "channels of memory", SHEET),
                spec("rate", ParamKind::Count, "4800", "transfers of a channel, in millions a second", SHEET),
                spec("width", ParamKind::Count, "64", "bits of a channel", SHEET),
                spec("idle", ParamKind::Span, "115.7ns", "latency of a load without traffic", SHEET),
                spec(
                    "max_reads",
                    ParamKind::Known,
                    "none",
                    "greatest bandwidth at a share of reads, as 240.6GB/s@100",
                    OWN,
                ),
                spec("max_mixed", ParamKind::Known, "none", "the same at another share: both or none", OWN),
                spec("a", ParamKind::Span, "31.5ns", "latency at the peak by banks", SHAPE),
                spec("b", ParamKind::Span, "6.7ns", "waits, by how near the bus is to its limit", SHAPE),
                spec("b1", ParamKind::Number, "1.85", "by how much writes lengthen waits", SHAPE),
                spec("c0", ParamKind::Number, "0.825", "part of the peak for reads alone", SHAPE),
                spec("c1", ParamKind::Number, "0.1976", "part that turnarounds cost at most", SHAPE),
                spec(
                    "c2",
                    ParamKind::Number,
                    "0.162",
                    "share of writes at which they cost half of it",
                    SHAPE,
                ),
                spec("k", ParamKind::Number, "0.931", "part of this that all cores reach", SHAPE),
                ISSUE,
                DEPTH,
                OUTSTANDING,
                CREDITS,
                ACCEPTED,
            ]
        }
    }

    fn fitted_on(&self) -> &'static [&'static str] {
        &["mess.clx5218.", "mess.sprhbm."]
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let known = match (params.known("max_reads"), params.known("max_mixed")) {
            (Some(reads), Some(mixed)) => Some([reads, mixed]),
            (None, None) => None,
            _ => return Err(impossible("ddr", "max_reads and max_mixed go together".to_owned())),
        };
        let bits = params.count("channels") as f64 * params.count("width") as f64;
        let law = Law::Ddr(Ddr {
            peak: bits * params.count("rate") as f64 / 8_000.0,
            idle: ns(params, "idle"),
            a: ns(params, "a"),
            b: ns(params, "b"),
            b1: params.number("b1"),
            c0: params.number("c0"),
            c1: params.number("c1"),
            c2: params.number("c2"),
            k: params.number("k"),
            known,
        });
        let model =
            MemoryModel { core: core(params), accept_per_mille: accept(params), ..MemoryModel::local(law) };
        OfMemory::build("ddr", model)
    }
}

/// The line of `curve` in the table of media.
pub(crate) struct CurveType;

impl MediumType for CurveType {
    fn name(&self) -> &'static str {
        "curve"
    }

    fn summary(&self) -> &'static str {
        "memory of a socket under load, from a measured curve (Mess CSV, or points)"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const OWN: &str = "measured on the machine";
        const {
            &[
                spec("file", ParamKind::Text, "", "memory_curves.csv of the Mess benchmark", OWN),
                spec(
                    "points",
                    ParamKind::Text,
                    "",
                    "READS%: GB/s@ns GB/s@ns …; READS%: …, as `weir calibrate --from` writes",
                    OWN,
                ),
                ISSUE,
                DEPTH,
                OUTSTANDING,
                CREDITS,
                ACCEPTED,
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let wrong = |what: String| impossible("curve", what);
        let shares = match (params.text("file"), params.text("points")) {
            (file, points) if file.is_empty() && !points.is_empty() => {
                curve::of_points(&points).map_err(wrong)?
            }
            (file, points) if !file.is_empty() && points.is_empty() => {
                let text = std::fs::read_to_string(&file).map_err(|error| MediumError::Unreadable {
                    path: file.clone(),
                    what: error.to_string(),
                })?;
                let read = curve::of_mess(&text).map_err(|what| wrong(format!("{file}: {what}")))?;
                read.usable().map_err(|what| wrong(format!("{file}: {what}")))?
            }
            _ => return Err(wrong("give either file=CURVES.csv or points=…".to_owned())),
        };
        let law = Law::Curve(sim::memory::Curve::new(shares).map_err(wrong)?);
        let model =
            MemoryModel { core: core(params), accept_per_mille: accept(params), ..MemoryModel::local(law) };
        OfMemory::build("curve", model)
    }
}

/// The line of `cxl` in the table of media.
pub(crate) struct CxlType;

/// Reads alone get this part of what the card serves (the share of the formula of data sheets).
const CARD_PART: f64 = 0.768;

impl MediumType for CxlType {
    fn name(&self) -> &'static str {
        "cxl"
    }

    fn summary(&self) -> &'static str {
        "memory of a CXL card under load: a link of two directions, and a card that serves both"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const FLIT: &str = "[R] flits of CXL 1.1 and 2.0: 68 B of four slots of 16 B; a line takes four slots, its header one";
        const {
            &[
                spec(
                    "extra",
                    ParamKind::Span,
                    "138.6ns",
                    "idle latency beyond that of local memory",
                    "CXL-ASIC, see cxl.asic",
                ),
                spec("local", ParamKind::Span, "115.7ns", "that of local memory", "Xeon 8480+ (Mess)"),
                spec("idle", ParamKind::Span, "0ns", "idle latency in all, instead of the two", "not given"),
                spec(
                    "link",
                    ParamKind::Link,
                    "x8",
                    "what a direction of the link carries",
                    "[R] PCI Express 5.0: 128 of 130 bits",
                ),
                spec(
                    "header",
                    ParamKind::Size,
                    "21",
                    "bytes beside the 64 of a line that carries data",
                    FLIT,
                ),
                spec("request", ParamKind::Size, "17", "bytes of a request to read a line", FLIT),
                spec(
                    "card",
                    ParamKind::Rate,
                    "33GB/s",
                    "what the card serves of reads and writes together",
                    "[I] 1.4 of reads alone: a maker's model has 1.48 (Mess, MICRO 2024), STREAM of one thread moves 25.4 GB/s",
                ),
                spec(
                    "tail",
                    ParamKind::Choice(&["card", "none"]),
                    "card",
                    "whether single loads differ from the mean",
                    "Montage card",
                ),
                ISSUE,
                DEPTH,
                OUTSTANDING,
                CREDITS,
                ACCEPTED,
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let (extra, idle) = match params.span_ps("idle") {
            0 => (params.span_ps("extra"), ns(params, "extra") + ns(params, "local")),
            idle => (idle.saturating_sub(params.span_ps("local")), ns(params, "idle")),
        };
        let link = link(params, params.rate("card").0 as f64 / 1e9);
        let law = Ddr {
            known: Some([(0.0, link.card), (0.5, link.card)]),
            ..Ddr::of_data_sheet(link.card / CARD_PART, idle)
        };
        let tail = if params.choice("tail") == "none" { Tail::None } else { Tail::Card };
        let model = MemoryModel {
            link: Some(link),
            extra_ps: extra,
            core: core(params),
            accept_per_mille: accept(params),
            tail,
            ..MemoryModel::local(Law::Ddr(law))
        };
        OfMemory::build("cxl", model)
    }
}

fn link(params: &Params, card: f64) -> Link {
    Link {
        rate: params.rate("link").0 as f64 / 1e9,
        header: params.size("header").0 as f64,
        request: params.size("request").0 as f64,
        card,
    }
}

/// The line of `remote` in the table of media.
pub(crate) struct RemoteType;

impl MediumType for RemoteType {
    fn name(&self) -> &'static str {
        "remote"
    }

    fn summary(&self) -> &'static str {
        "memory of the other socket under load: that of a Xeon 8480+ behind the link between sockets"
    }

    fn parameters(&self) -> &'static [ParamSpec] {
        const {
            &[
                spec(
                    "extra",
                    ParamKind::Span,
                    "80ns",
                    "idle latency beyond that of local memory",
                    "[R] Memory Latency Checker on this generation",
                ),
                spec("local", ParamKind::Span, "115.7ns", "that of local memory", "Xeon 8480+ (Mess)"),
                spec(
                    "link",
                    ParamKind::Link,
                    "144GB/s",
                    "what a direction between the sockets carries",
                    "[R] three of UPI 2.0: 24 lanes of 16 GT/s",
                ),
                spec(
                    "header",
                    ParamKind::Size,
                    "21",
                    "bytes beside the 64 of a line that carries data",
                    "[I] as CXL's",
                ),
                spec("request", ParamKind::Size, "17", "bytes of a request to read a line", "[I] as CXL's"),
                ISSUE,
                DEPTH,
                OUTSTANDING,
                CREDITS,
                ACCEPTED,
            ]
        }
    }

    fn build(&self, params: &Params) -> Result<Box<dyn CostModel>, MediumError> {
        let law = Ddr { idle: ns(params, "extra") + ns(params, "local"), ..Ddr::XEON_8480 };
        let model = MemoryModel {
            link: Some(link(params, law.peak)),
            extra_ps: params.span_ps("extra"),
            core: core(params),
            accept_per_mille: accept(params),
            ..MemoryModel::local(Law::Ddr(law))
        };
        OfMemory::build("remote", model)
    }
}
