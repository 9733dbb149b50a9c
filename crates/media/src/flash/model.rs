//! Devices by name: kinds with parameters, and presets that set them.
//!
//! | written | means |
//! |---|---|
//! | `fast24` | the preset of this name |
//! | `fast24,allocation=on,capacity=8GiB` | the same with other values |
//!
//! A preset is a file under `presets/flash/` and a line in [`PRESETS`]; it names a kind of [`KINDS`] and gives values with
//! their sources, in the format of presets of media.

use std::fmt;

use sim::{Bytes, Nanos, Rate};

use super::FlashError;
use super::config::{Allocation, Config, Defects, Gc, Kind, Timing, Units, Victim, Zones};
use crate::medium::{MediumError, Param, ParamKind, ParamSpec, Params, file_stem, read_file, unknown};
use crate::preset;

macro_rules! presets {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../shipped/flash/", $name, ".toml")))),*]
    };
}

/// Every preset: its name and its text.
pub static PRESETS: &[(&str, &str)] = presets![
    "fast24",
    "nvmevirt.970pro",
    "nvmevirt.zns",
    "nvmevirt.zn540",
    "nvmevirt.units",
    "nvme-a",
    "nvme-b",
    "sata-2015",
];

/// Every kind of device, by the word in presets.
pub const KINDS: [(&str, Kind); 3] =
    [("conventional", Kind::Conventional), ("zoned", Kind::Zoned), ("units", Kind::Units)];

const YES_NO: ParamKind = ParamKind::Choice(&["yes", "no"]);
const NONE_YET: &str = "no device has it unless its preset says so";
const CODE: &str = "as the published code of NVMeVirt does";

const fn param(
    name: &'static str,
    kind: ParamKind,
    default: &'static str,
    help: &'static str,
    source: &'static str,
) -> ParamSpec {
    ParamSpec { name, kind, default, help, source }
}

use ParamKind::{Choice, Count, Size, Time};

/// What can be set. A device looks at those of its kind.
pub(crate) static PARAMETERS: &[ParamSpec] = &[
    param("capacity", Size, "60GiB", "bytes of flash; hosts see less by over_provisioning", NONE_YET),
    param("channels", Count, "1", "channels", NONE_YET),
    param("dies", Count, "1", "dies on each channel", NONE_YET),
    param("planes", Count, "1", "planes of a die", CODE),
    param("plane_reads", YES_NO, "no", "whether planes sense by themselves", CODE),
    param("partitions", Count, "1", "independent translation layers", NONE_YET),
    param("flash_page", Size, "32KiB", "what is sensed at once", NONE_YET),
    param("oneshot_page", Size, "32KiB", "what is programmed at once", NONE_YET),
    param(
        "blocks",
        Count,
        "8192",
        "blocks of a plane at most; their size follows from the capacity",
        NONE_YET,
    ),
    param("cells", Count, "1", "kinds of cells that alternate from flash page to flash page", NONE_YET),
    param("read_4k_lsb", Time, "0ns", "sensing for 4 KiB, least significant bit", NONE_YET),
    param("read_4k_msb", Time, "0ns", "sensing for 4 KiB, most significant bit", NONE_YET),
    param("read_4k_csb", Time, "0ns", "sensing for 4 KiB, central bit", NONE_YET),
    param("read_lsb", Time, "0ns", "sensing for other sizes, least significant bit", NONE_YET),
    param("read_msb", Time, "0ns", "sensing for other sizes, most significant bit", NONE_YET),
    param("read_csb", Time, "0ns", "sensing for other sizes, central bit", NONE_YET),
    param("program", Time, "0ns", "one-shot program", NONE_YET),
    param("erase", Time, "0ns", "erasing a block", CODE),
    param("channel", ParamKind::Rate, "800MiB/s", "bandwidth of a channel", NONE_YET),
    param("pcie", ParamKind::Rate, "3360MiB/s", "bandwidth of the link to the host", NONE_YET),
    param("burst", Size, "16KiB", "the largest burst on a channel", NONE_YET),
    param("fw_transfer", Time, "0ns", "firmware, for each 4 KiB that moves on a channel", CODE),
    param("fw_read_4k", Time, "0ns", "firmware, for a read of at most 4 KiB a partition", NONE_YET),
    param("fw_read", Time, "0ns", "firmware, for a larger read", NONE_YET),
    param("fw_write", Time, "0ns", "firmware, for a write", NONE_YET),
    param("fw_write_4k", Time, "0ns", "firmware, for each 4 KiB of a write", NONE_YET),
    param("over_provisioning", Count, "7", "per cent of what hosts see", NONE_YET),
    param("buffer", Size, "1MiB", "write buffer", NONE_YET),
    param("max_transfer", Size, "256KiB", "the largest transfer of a command", NONE_YET),
    param("early_completion", YES_NO, "yes", "whether a write completes in the buffer", NONE_YET),
    param("capacitor", YES_NO, "yes", "whether the buffer survives a power loss", CODE),
    param("trim", YES_NO, "no", "whether TRIM unmaps", CODE),
    param("allocation", Choice(&["off", "on"]), "off", "where a write goes: by arrival, by hints", CODE),
    param("gc", Choice(&["greedy", "cost-benefit", "fifo"]), "greedy", "which line is collected", CODE),
    param("gc_threshold", Count, "2", "collects when no more lines are free", CODE),
    param("append_skips", YES_NO, "yes", "defect: an append leaves an open flash page of its file", CODE),
    param("early_release", YES_NO, "yes", "defect: by hints, pages leave the buffer unprogrammed", CODE),
    param("free_unmapped_reads", YES_NO, "yes", "defect: reads of nothing take no time", CODE),
    param(
        "single_collection",
        YES_NO,
        "no",
        "defect: one collection, whatever came of it",
        "the published code says yes, and runs out of lines",
    ),
    param("zone", Size, "0", "zoned: bytes of a zone", NONE_YET),
    param("zone_dies", Count, "1", "zoned: dies of a zone", NONE_YET),
    param("zone_buffer", YES_NO, "no", "zoned: whether each zone has a buffer of its own", NONE_YET),
    param("write_unit", Size, "512", "zoned: what a write must be a multiple of", NONE_YET),
    param("units", Count, "8", "units: how many serve at once", NONE_YET),
    param("unit", Size, "4KiB", "units: bytes of a piece", NONE_YET),
    param("read_delay", Time, "1ns", "units: before the first piece of a read", NONE_YET),
    param("read_time", Time, "1ns", "units: each piece of a read", NONE_YET),
    param("write_delay", Time, "1ns", "units: before the first piece of a write", NONE_YET),
    param("write_time", Time, "1ns", "units: each piece of a write", NONE_YET),
    param("trailing", Time, "0ns", "units: how long a unit rests", NONE_YET),
];

/// A device with all its values.
#[derive(Clone, Debug)]
pub struct SsdModel {
    name: String,
    summary: String,
    date: String,
    fitted_on: Vec<String>,
    kind: Kind,
    params: Params,
}

impl SsdModel {
    /// The device that people write as `NAME[,parameter=value…]`.
    pub fn parse(text: &str) -> Result<Self, MediumError> {
        let mut parts = text.split(',').map(str::trim);
        let mut model = Self::named(parts.next().unwrap_or(""))?;
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| MediumError::NotAnAssignment {
                medium: model.name.clone(),
                text: part.to_owned(),
            })?;
            model.set(name.trim(), value.trim(), "given")?;
        }
        Ok(model)
    }

    /// Whether `name` is a file (`.toml`) with the preset of an SSD, right or wrong.
    pub fn is_file(name: &str) -> bool {
        let model = file_stem(name).and_then(|_| preset::model_of(name, &read_file(name).ok()?));
        model.is_some_and(|model| KINDS.iter().any(|(word, _)| *word == model))
    }

    /// The preset of this name, or that in the file of this name (`.toml`).
    pub fn named(name: &str) -> Result<Self, MediumError> {
        if file_stem(name).is_some() {
            return Self::from_preset(name, &read_file(name)?);
        }
        let found = PRESETS.iter().find(|(preset, _)| *preset == name);
        let known = PRESETS.iter().map(|(name, _)| *name);
        let (preset, text) = found.ok_or_else(|| unknown("medium", name, known))?;
        Self::from_preset(&format!("presets/flash/{preset}.toml"), text)
    }

    /// The device of a preset's text; `origin` is its file, which gives it its name.
    ///
    /// # Errors
    /// [`MediumError::Preset`] with all that is wrong, each at its line and column.
    pub fn from_preset(origin: &str, text: &str) -> Result<Self, MediumError> {
        let begin = |head: preset::Head, model: &str| {
            let kind = KINDS.iter().find(|(word, _)| *word == model).map(|(_, kind)| *kind);
            let known = KINDS.iter().map(|(word, _)| *word);
            let kind = kind.ok_or_else(|| unknown("model of an SSD", model, known))?;
            let params = Params::defaults(PARAMETERS);
            let preset::Head { name, summary, date, fitted_on, .. } = head;
            Ok(Self { name, summary, date, fitted_on, kind, params })
        };
        preset::read(origin, text, begin, Self::set)
    }

    /// Gives a parameter another value.
    pub fn set(&mut self, name: &str, value: &str, source: &str) -> Result<(), MediumError> {
        self.params.set(&self.name, PARAMETERS, name, value, source)
    }

    /// The preset's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what it is.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// The claims that a value was fitted on: they do not count as reproduced on this device.
    pub fn fitted_on(&self) -> &[String] {
        &self.fitted_on
    }

    /// The device as a preset file, with the source of each value.
    pub fn to_toml(&self) -> String {
        let head = preset::Head {
            name: self.name.clone(),
            summary: self.summary.clone(),
            date: self.date.clone(),
            fitted_on: self.fitted_on.clone(),
            errors: String::new(),
        };
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(word, _)| word);
        preset::write(kind, &head, self.params.all())
    }

    /// Every parameter with its value and source.
    pub fn parameters(&self) -> &[Param] {
        self.params.all()
    }

    /// What the device is made of, checked.
    pub fn config(&self) -> Result<Config, FlashError> {
        let p = &self.params;
        let config = Config {
            kind: self.kind,
            capacity: p.size("capacity").0,
            partitions: count(p, "partitions")?,
            channels: count(p, "channels")?,
            dies_per_channel: count(p, "dies")?,
            planes: count(p, "planes")?,
            plane_reads: yes(p, "plane_reads"),
            flash_page: p.size("flash_page").0,
            oneshot_page: p.size("oneshot_page").0,
            blocks: count(p, "blocks")?,
            over_provisioning: count(p, "over_provisioning")?,
            buffer: p.size("buffer").0,
            max_transfer: p.size("max_transfer").0,
            early_completion: yes(p, "early_completion"),
            capacitor: yes(p, "capacitor"),
            trim: yes(p, "trim"),
            allocation: if p.choice("allocation") == "on" { Allocation::On } else { Allocation::Off },
            gc: gc(p)?,
            timing: timing(p)?,
            defects: defects(p),
            zones: zones(p)?,
            units: units(p)?,
        };
        config.check()?;
        Ok(config)
    }
}

/// Every value spelled out, so that equal texts mean equal devices: what a result records.
impl fmt::Display for SsdModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.params.all().iter().try_for_each(|param| write!(f, ",{}={}", param.name, param.value))
    }
}

fn yes(params: &Params, name: &str) -> bool {
    params.choice(name) == "yes"
}

fn count(params: &Params, name: &str) -> Result<u32, FlashError> {
    let value = params.count(name);
    u32::try_from(value)
        .map_err(|_| FlashError::Impossible { what: format!("{name} = {value} is too large") })
}

fn gc(p: &Params) -> Result<Gc, FlashError> {
    let victim = match p.choice("gc") {
        "cost-benefit" => Victim::CostBenefit,
        "fifo" => Victim::Fifo,
        _ => Victim::Greedy,
    };
    Ok(Gc { victim, threshold: count(p, "gc_threshold")? })
}

fn timing(p: &Params) -> Result<Timing, FlashError> {
    let ns = |name: &str| -> u64 {
        let Nanos(ns) = p.time(name);
        ns
    };
    let rate = |name: &str| -> u64 {
        let Rate(rate) = p.rate(name);
        rate
    };
    // Cells alternate in this order: two kinds are the least and the most significant bit.
    Ok(Timing {
        read_4k_ns: [ns("read_4k_lsb"), ns("read_4k_msb"), ns("read_4k_csb")],
        read_ns: [ns("read_lsb"), ns("read_msb"), ns("read_csb")],
        cells: count(p, "cells")?,
        program_ns: ns("program"),
        erase_ns: ns("erase"),
        channel_bytes_per_s: rate("channel"),
        pcie_bytes_per_s: rate("pcie"),
        burst_bytes: p.size("burst").0,
        transfer_ns_per_4k: ns("fw_transfer"),
        fw_read_4k_ns: ns("fw_read_4k"),
        fw_read_ns: ns("fw_read"),
        fw_write_ns: ns("fw_write"),
        fw_write_4k_ns: ns("fw_write_4k"),
    })
}

fn defects(p: &Params) -> Defects {
    Defects {
        append_skips: yes(p, "append_skips"),
        early_release: yes(p, "early_release"),
        free_unmapped_reads: yes(p, "free_unmapped_reads"),
        single_collection: yes(p, "single_collection"),
    }
}

fn zones(p: &Params) -> Result<Zones, FlashError> {
    let Bytes(size) = p.size("zone");
    let (dies, write_unit) = (count(p, "zone_dies")?, p.size("write_unit").0);
    Ok(Zones { size, dies, own_buffer: yes(p, "zone_buffer"), write_unit })
}

fn units(p: &Params) -> Result<Units, FlashError> {
    Ok(Units {
        count: count(p, "units")?,
        size: p.size("unit").0,
        read_ns: (p.time("read_delay").0, p.time("read_time").0),
        write_ns: (p.time("write_delay").0, p.time("write_time").0),
        trailing_ns: p.time("trailing").0,
    })
}
