//! The models in the table of designs.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::vfs::{FileSystem, Promises};
use design::{Checking, Design, Format, FsError, Mutant, OptionKind, OptionSpec, Options, Phase};
use media::Storage;
use sim::{Bytes, Clock, LockClass};

use super::component;
use super::format::{NoFormat, REFUSAL};
use super::objects::{Objects, Touches};
use super::preset::{KERNELS, Preset};
use super::vfs::{Model, pages};

/// A model: a file system of the presets of kernels.
pub struct LinuxDesign {
    name: &'static str,
    /// Its table in a preset.
    system: &'static str,
    summary: &'static str,
    format: NoFormat,
}

const fn model(name: &'static str, system: &'static str, summary: &'static str) -> LinuxDesign {
    LinuxDesign { name, system, summary, format: NoFormat(name) }
}

/// tmpfs.
/// tmpfs.
pub static TMPFS: LinuxDesign =
    model("linux/tmpfs", "tmpfs", "a model of Linux's tmpfs: what its cores share, charged; no image");
/// ext4.
/// ext4.
pub static EXT4: LinuxDesign =
    model("linux/ext4", "ext4", "a model of Linux's ext4: what its cores share, charged; no image");
/// ext4 without a journal.
/// ext4 without a journal.
pub static EXT4_NO_JOURNAL: LinuxDesign =
    model("linux/ext4nj", "ext4nj", "the same without a journal (mke2fs -O ^has_journal)");
/// XFS.
/// XFS.
pub static XFS: LinuxDesign =
    model("linux/xfs", "xfs", "a model of Linux's XFS: what its cores share, charged; no image");
/// btrfs.
/// Btrfs.
pub static BTRFS: LinuxDesign =
    model("linux/btrfs", "btrfs", "a model of Linux's btrfs: what its cores share, charged; no image");
/// F2FS.
/// F2FS.
pub static F2FS: LinuxDesign =
    model("linux/f2fs", "f2fs", "a model of Linux's F2FS: what its cores share, charged; no image");

static OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "kernel",
        kind: OptionKind::Choice(KERNELS),
        default: "4.2",
        when: Phase::Mount,
        help: "the version whose shared objects it has (presets/kernels)",
    },
    OptionSpec {
        name: "jitter",
        kind: OptionKind::Fraction,
        default: "15%",
        when: Phase::Mount,
        help: "by how much the private work of an operation varies: without, workers keep the order of their start",
    },
    OptionSpec {
        name: "touches",
        kind: OptionKind::Choice(Touches::WORDS),
        default: "counted",
        when: Phase::Mount,
        help: "lines that move with a lock: as the preset counts them, or half or twice as many, to see what hangs on it",
    },
];

fn preset(options: &Options) -> Result<&'static Preset, FsError> {
    Preset::of(options.choice("kernel")).map_err(|problem| FsError::Unsupported { what: problem.to_string() })
}

impl Design for LinuxDesign {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn format(&self) -> &dyn Format {
        &self.format
    }

    fn without_image(&self) -> Option<&'static str> {
        Some(REFUSAL)
    }

    fn work_jitter(&self, options: &Options) -> f64 {
        options.fraction("jitter")
    }

    fn mount(&self, storage: &Storage, options: &Options) -> Result<Arc<dyn FileSystem>, FsError> {
        if sim::clock() == Clock::Real {
            let what = format!(
                "{}: its objects cost what the machine's preset says, under the virtual clock only; for this host's kernel take \
                 host:DIR",
                self.name
            );
            return Err(FsError::Unsupported { what });
        }
        let preset = preset(options)?;
        let system = preset.system(self.system).ok_or_else(|| FsError::Unsupported {
            what: format!("{}: the preset of this kernel has no such file system", self.name),
        })?;
        let touches = Touches::of(options.choice("touches"));
        let objects = Objects::new(preset, touches, storage.block().ok().map(Arc::clone));
        Ok(Arc::new(Model::new(system, objects, pages(storage.memory()?.len()))))
    }

    /// Contents are in memory in the place of the storage, which nothing is written to.
    fn dram(&self, _: &Options, _: Bytes) -> Bytes {
        Bytes(0)
    }

    fn classes(&self) -> Vec<&'static LockClass> {
        let presets = KERNELS.iter().filter_map(|kernel| Preset::of(kernel).ok());
        let objects = presets.flat_map(|preset| preset.objects.iter().map(|object| object.class));
        // Presets share the class of an object that both have.
        let by_name: BTreeMap<_, _> = objects.map(|class| (class.name(), class)).collect();
        by_name.into_values().chain(component::CLASSES).collect()
    }

    /// It survives no crash, so what is said here is never asked for.
    fn promises(&self, _: &Options) -> Promises {
        Promises::STRICT
    }

    fn checking(&self) -> Checking {
        Checking::default()
    }

    fn mutants(&self) -> &'static [Mutant] {
        &[]
    }
}
