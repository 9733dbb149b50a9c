//! From a plan to its cells, with every check that can be made before anything runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use archsim::Config;
use archsim::crash::mutant::Mutant;
use design::{Design, Options};
use media::Medium;
use media::block::BlockModel;
use media::medium::MediumError;
use sim::{Bytes, Clock, Nanos};
use workload::suite::Settings;

use super::free::NOTHING;
use super::{Axis, AxisValue, Plan, Stop, Target, WarmUp, Workload, identity};
use crate::cell::{LIVE, SHARE, files_in};
use crate::error::{Error, rounded_up};
use crate::flash::stream::Stream;
use crate::kernel_fs::KernelFs;
use crate::machine::MachinePreset;
use crate::named;
use crate::prices::{Prices, is_model};
use document::nearest;

/// One point of the matrix: everything that is needed to run it.
#[derive(Clone, Debug)]
pub struct CellSpec {
    /// The cell's name: axis to value.
    pub axes: BTreeMap<String, String>,
    /// What is measured.
    pub subject: Subject,
    /// The medium with all its parameters; of a cell on a block device, the memory beside it.
    pub medium: Medium,
    /// The block device, if there is one.
    pub block: Option<BlockModel>,
    /// What is done.
    pub workload: Arc<dyn workload::Workload>,
    /// What that is, for [`CellSpec::identity`].
    pub(super) work: serde_json::Value,
    /// Classes of locks and lines that take no time (see `sim::Setup::free`): of those that the plan names, what the cell can have.
    pub free: Option<String>,
    /// How long it runs before it is measured.
    pub warm_up: Nanos,
    /// When it has run enough.
    pub stop: Stop,
    /// Size of the region, if the plan says one.
    pub region: Option<Bytes>,
    /// The bytes that files that come and go store to the medium before the workload.
    pub churn: Option<Bytes>,
    /// The prices of what a design's code does; none where nothing has a price.
    pub prices: Option<Prices>,
}

/// What is measured: that to which the calls of a workload go, or a simulator with what it runs.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A design in this process, on the cell's medium.
    Design {
        /// The design.
        design: &'static dyn Design,
        /// Its options.
        options: BTreeMap<String, String>,
    },
    /// A directory of the host, of whichever file system is mounted there: the kernel's own or one that `weir mount` serves.
    Host(PathBuf),
    /// A file system of the host's kernel, made anew for each cell.
    Kernel(KernelFs),
    /// The cell's medium as a block device, without a file system.
    Device,
    /// The cell's medium as an SSD by itself, which takes a stream of requests (`requests/NAME`) at its queues.
    Ssd(Stream),
    /// A simulated processor that runs a program (`archsim/NAME`) under a logging scheme.
    Processor {
        /// The processor, scheme and program.
        config: Box<Config>,
        /// The transaction that is recorded span by span, instead of measuring many.
        timeline: Option<u64>,
    },
    /// Crashes of a simulated processor (`archsim/crash`), perhaps with a bug that is seeded in the scheme.
    Crashes(Box<Config>, Option<Mutant>),
}

/// The name of [`Subject::Device`] on the axis of designs.
pub const DEVICE: &str = "device";
/// The axis of sets of prices, where a plan has several.
pub(crate) const PRICES: &str = results::prices::AXIS;
/// The name of [`Subject::Ssd`] there.
pub const SSD: &str = "ssd";

/// What a cell is while its axes are put in, one after the other.
#[derive(Clone, Default)]
pub(super) struct Draft {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) design: Option<AxisValue>,
    medium: Option<String>,
    /// That of the plan.
    usual: String,
    medium_keys: Vec<(String, String)>,
    options: BTreeMap<String, String>,
    pub(super) threads: Option<String>,
    free: Option<String>,
    pub(super) vars: BTreeMap<String, String>,
    pub(super) scheme: Option<String>,
    pub(super) mutant: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) processor: Vec<(String, String)>,
    prices: Option<Prices>,
}

impl CellSpec {
    /// The name in messages and on progress lines: `fileserver hinfs threads 8`.
    pub fn title(&self) -> String {
        crate::cell::title(&self.axes)
    }
}

/// Whether a run that is measured so long comes to the end of the virtual clock, whatever it takes to prepare.
fn passes_the_end(warm_up: Nanos, time: Nanos) -> bool {
    warm_up.0.saturating_add(time.0) >= sim::LONGEST_RUN.0
}

impl Plan {
    /// Every cell, after every check. The first axis varies slowest, workloads slower still.
    pub fn cells(&self) -> Result<Vec<CellSpec>, Error> {
        let designs = self.check_parts()?;
        let (mut cells, mut wrong) = (Vec::new(), self.check_whole(designs).err());
        for workload in &self.workload {
            let drafts = self.cells_of(workload).unwrap_or_else(|error| vec![Err(error)]);
            for cell in drafts {
                match cell {
                    Err(error) => wrong = Error::together(wrong.into_iter().chain([error])),
                    // The host's directory is one cell for all media.
                    Ok(cell) if cells.iter().any(|other: &CellSpec| other.axes == cell.axes) => {}
                    Ok(cell) => cells.push(cell),
                }
            }
        }
        wrong.map_or(Ok(cells), Err)
    }

    /// What this host lacks of what its workloads read, with what to install; none where nothing is missing.
    pub fn lacks(&self) -> Option<String> {
        self.workload.iter().find_map(|workload| {
            let settings = Settings { vars: workload.vars.clone(), ..Settings::default() };
            match named::load(&workload.name, &settings) {
                Err(Error::Host(lacks)) => Some(lacks),
                _ => None,
            }
        })
    }

    /// The cells of a workload, some of which may be wrong.
    fn cells_of(&self, workload: &Workload) -> Result<Vec<Result<CellSpec, Error>>, Error> {
        // What is wrong with the sets of prices hides nothing of what is wrong with the cells.
        let (sets, wrong) = match self.price_sets() {
            Ok(sets) => (sets, None),
            Err(error) => (Vec::new(), Some(Err(error))),
        };
        let draft = |prices| Draft {
            vars: workload.vars.clone(),
            usual: self.usual_medium().to_owned(),
            prices,
            ..Draft::default()
        };
        let mut drafts: Vec<Draft> = sets.iter().map(|prices| draft(Some(*prices))).collect();
        match &mut drafts[..] {
            [] => drafts.push(draft(None)),
            [_] => {}
            several => several.iter_mut().zip(&sets).for_each(|(draft, prices)| {
                draft.labels.insert(PRICES.to_owned(), prices.to_string());
            }),
        }
        for axis in &self.axis {
            drafts = extend(&drafts, axis)?;
        }
        Ok(drafts.iter().map(|draft| self.cell(workload, draft)).chain(wrong).collect())
    }

    /// A plan has workloads, and an axis of designs, which is returned.
    fn check_parts(&self) -> Result<&Axis, Error> {
        let says = |message: &str| Error::Setting(format!("plan {}: {message}", self.name));
        let works = match self.workload.is_empty() {
            true => Err(says("there is no [[workload]]; `weir list workloads` prints all names")),
            false => Ok(()),
        };
        let subjects = [Target::Design, Target::Scheme, Target::Mutant];
        let designs = self.axis.iter().find(|axis| subjects.iter().any(|target| axis.sets.contains(target)));
        let missing = || says("there is no [[axis]] with fs = [...]; `weir list fs` prints all names");
        match (works, designs.ok_or_else(missing)) {
            (Ok(()), Ok(designs)) => Ok(designs),
            (works, designs) => {
                let wrong = works.err().into_iter().chain(designs.err());
                Err(Error::together(wrong).expect("one of them is wrong"))
            }
        }
    }

    /// What concerns the plan as a whole.
    fn check_whole(&self, designs: &Axis) -> Result<(), Error> {
        // The real clock charges no cost of it; a name that is none is wrong all the same.
        let machine = match self.is_of_processors() {
            true => None,
            false => MachinePreset::load(&self.machine).err(),
        };
        let called = |workload: &Workload| workload.label.clone().unwrap_or_else(|| workload.name.clone());
        let is_twice = |(at, workload): &(usize, &Workload)| {
            self.workload[..*at].iter().any(|other| called(other) == called(workload))
        };
        let twice = self.workload.iter().enumerate().filter(is_twice).map(|(_, workload)| {
            let message =
                format!("workload \"{}\" is given twice: give one of them a label", called(workload));
            workload.at.problem(message)
        });
        let mut wrong: Vec<Error> = machine.into_iter().chain(twice).collect();
        wrong.extend(self.check_unaffected(designs));
        wrong.extend(self.check_options(designs));
        wrong.extend(self.check_free().err());
        Error::together(wrong).map_or(Ok(()), Err)
    }

    /// `unaffected` must name designs of the plan.
    fn check_unaffected(&self, designs: &Axis) -> Vec<Error> {
        let known = || designs.values.iter().map(|value| value.label.as_str());
        let wrong = self.axis.iter().flat_map(|axis| {
            let unknown = axis.unaffected.iter().filter(|name| !known().any(|label| label == **name));
            unknown.map(move |name| {
                let advice = nearest(name, known());
                let message = format!("axis \"{}\" is said not to affect \"{name}\"; {advice}", axis.name);
                axis.at.problem(message)
            })
        });
        wrong.collect()
    }

    /// Leaves out the designs that are not called so, and options that none of the others has. At least one must stay, unless the
    /// plan is about a device without a file system.
    pub fn keep_designs(&mut self, names: &[String]) -> Result<(), Error> {
        let is_design = |axis: &&mut Axis| axis.sets.contains(&Target::Design);
        let Some(axis) = self.axis.iter_mut().find(is_design) else { return Ok(()) };
        let before = axis.values.clone();
        let all: Vec<String> = before.iter().map(|value| value.label.clone()).collect();
        axis.values.retain(|value| names.contains(&value.label));
        if all.iter().all(|name| [DEVICE, SSD].contains(&name.as_str())) {
            axis.values = before;
            return Ok(());
        }
        if axis.values.is_empty() {
            let (names, advice) = (names.join(", "), all.join(", "));
            return Err(Error::Setting(format!("plan {} compares {advice}, and none of {names}", self.name)));
        }
        let left = axis.values.clone();
        self.keep_settings_of(&left);
        Ok(())
    }

    /// Removes the settings that concern only designs that are not among these.
    pub(super) fn keep_settings_of(&mut self, left: &[AxisValue]) {
        let stays = |label: &String| left.iter().any(|value| value.label == *label);
        self.axis.iter_mut().for_each(|axis| axis.unaffected.retain(stays));
        let designs: Vec<_> = left.iter().filter_map(|value| fs::by_name(&value.value)).collect();
        self.fs.retain(|name, _| {
            designs.iter().any(|design| option_names(*design).any(|option| option == name))
        });
    }

    /// An option for all designs must be known to at least one of them.
    fn check_options(&self, designs: &Axis) -> Vec<Error> {
        let known: BTreeSet<&str> = designs
            .values
            .iter()
            .filter_map(|value| fs::by_name(&value.value))
            .flat_map(option_names)
            .collect();
        let unknown = self.fs.keys().filter(|name| !known.contains(name.as_str()));
        unknown.map(|name| self.no_option(name, &known, designs)).collect()
    }

    /// Says that none of the designs has an option.
    fn no_option(&self, name: &str, known: &BTreeSet<&str>, designs: &Axis) -> Error {
        let has = |design: &&'static dyn Design| option_names(*design).any(|option| option == name);
        let others: Vec<&str> = fs::all().filter(has).map(Design::name).collect();
        let compared: Vec<&str> = designs.values.iter().map(|value| value.label.as_str()).collect();
        let advice = if others.is_empty() {
            nearest(name, known.iter().copied())
        } else {
            let have = if others.len() == 1 { "has" } else { "have" };
            format!("{} {have} it, and only {} is compared", others.join(", "), compared.join(", "))
        };
        Error::Setting(format!("plan {}: no design has the option \"{name}\"; {advice}", self.name))
    }

    fn cell(&self, workload: &Workload, draft: &Draft) -> Result<CellSpec, Error> {
        if let Some(cell) = self.simulated(workload, draft) {
            let cell = cell?;
            self.check_churn(&cell, workload)?;
            return Ok(cell);
        }
        let mut axes = draft.labels.clone();
        let called = workload.label.as_ref().unwrap_or(&workload.name);
        axes.insert("workload".to_owned(), called.clone());
        let (vars, threads) = (draft.vars.clone(), draft.threads.clone());
        let settings = Settings { vars, threads, switches: workload.switches.clone() };
        let loaded = named::load(&workload.name, &settings).map_err(|error| {
            if matches!(error, Error::Setting(_) | Error::Host(_)) {
                error
            } else {
                workload.at.problem(error.to_string())
            }
        });
        let (loaded, subject, (medium, block)) = match (loaded, self.subject(draft), medium(draft)) {
            (Ok(loaded), Ok(subject), Ok(medium)) => (loaded, subject, medium),
            (loaded, subject, medium) => {
                let wrong = [loaded.err(), subject.err(), medium.err()].into_iter().flatten();
                return Err(Error::together(wrong).expect("one of them is wrong"));
            }
        };
        if matches!(subject, Subject::Device) && !loaded.works_on_a_device() {
            let message = format!(
                "\"{}\" works on files, and {DEVICE} is the medium without a file system: take a fio job file, or a design",
                workload.name
            );
            return Err(workload.at.problem(message));
        }
        let free = match (&draft.free, &subject) {
            (Some(name), _) if self.clock == Clock::Real => {
                return Err(Error::Setting(format!("{name} can be free under the virtual clock only")));
            }
            (Some(names), Subject::Design { design, .. }) => self.free_of(*design, workload, names)?,
            _ => None,
        };
        if matches!(subject, Subject::Host(_) | Subject::Kernel(_)) {
            // A directory of the host has no medium of ours, and a file system of its kernel names its own.
            axes.remove("medium");
        } else {
            let name = block.as_ref().map_or(medium.name(), BlockModel::name);
            axes.entry("medium".to_owned()).or_insert_with(|| name.to_owned());
        }
        let (warm_up, stop) = self.times(workload, loaded.ends())?;
        let region = workload.region.or(self.region);
        let work = identity::of_workload(&workload.name, &settings, &*loaded)?;
        self.check_storage(&subject, &medium, block.as_ref())?;
        self.check_region(&subject, region)?;
        let prices = draft.prices;
        let cell = CellSpec {
            axes,
            subject,
            medium,
            block,
            workload: loaded,
            work,
            free,
            warm_up,
            stop,
            region,
            churn: self.churn.zip(region).map(|(times, region)| Bytes(region.0.saturating_mul(times.into()))),
            prices,
        };
        self.check_churn(&cell, workload)?;
        Ok(cell)
    }

    /// How long a workload runs unmeasured, and when it stops. `ends`: it ends by itself.
    fn times(&self, workload: &Workload, ends: bool) -> Result<(Nanos, Stop), Error> {
        let stop = workload.stop.unwrap_or(self.stop);
        let whole = stop == Stop::After(Nanos::MAX);
        let warm_up = match self.warm_up {
            WarmUp::Auto if !named::warms_up(&workload.name) => Nanos::ZERO,
            warm_up => warm_up.before(stop),
        };
        let wrong = match (whole, stop) {
            (true, _) if !ends => "does not end by itself: give it a time or a count",
            (true, _) if warm_up > Nanos::ZERO => {
                "runs to its own end, all of which is measured: give it no warm-up"
            }
            (false, Stop::After(time)) if self.clock == Clock::Virtual && passes_the_end(warm_up, time) => {
                "would go on behind the end of the virtual clock, which is after 26 days: give it less time, or a count"
            }
            _ => return Ok((warm_up, stop)),
        };
        Err(workload.at.problem(format!("\"{}\" {wrong}", workload.name)))
    }

    /// The medium must be one that the design can be made on.
    fn check_storage(
        &self,
        subject: &Subject,
        medium: &Medium,
        block: Option<&BlockModel>,
    ) -> Result<(), Error> {
        let Subject::Design { design, options } = subject else { return Ok(()) };
        if is_model(design.name()) && block.is_none() && medium.name() != PAGE_CACHE {
            return Err(Error::Setting(format!(
                "plan {}: {} is a model of what a kernel's code and its page cache take in the memory of machine {}: \
                 medium {} would change nothing of it; take --medium {PAGE_CACHE}, or a block device ({})",
                self.name,
                design.name(),
                self.machine,
                medium.name(),
                BlockModel::names().collect::<Vec<_>>().join(", ")
            )));
        }
        let needs = design.format().needs(&resolve(*design, options)?);
        if needs.fit(block.is_some()) {
            return Ok(());
        }
        let (medium, is, others) = match block {
            Some(block) => (block.name(), "a block device", media::medium::names().join(", ")),
            None => (medium.name(), "memory alone", BlockModel::names().collect::<Vec<_>>().join(", ")),
        };
        let fits = |design: &&&dyn Design| {
            design.format().needs(&Options::defaults(design.options())).fit(block.is_some())
        };
        let designs: Vec<_> = fs::FILE_SYSTEMS.iter().filter(fits).map(|design| design.name()).collect();
        let given: Vec<_> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let with = if given.is_empty() { String::new() } else { format!(" with {}", given.join(" ")) };
        let (plan, design, designs) = (&self.name, design.name(), designs.join(", "));
        Err(Error::Setting(format!(
            "plan {plan}: {design}{with} needs {needs}, and {medium} is {is}: take another medium ({others}) or design ({designs})"
        )))
    }

    /// A region that the plan says must hold the design's format.
    fn check_region(&self, subject: &Subject, region: Option<Bytes>) -> Result<(), Error> {
        let (Subject::Design { design, options }, Some(region)) = (subject, region) else { return Ok(()) };
        let options = resolve(*design, options)?;
        let needed = design.format().min_size(&options);
        if region >= needed {
            return Ok(());
        }
        let (plan, design, enough) = (&self.name, design.name(), rounded_up(needed));
        Err(Error::Setting(format!(
            "plan {plan}: {design} needs at least {needed}; the region has {region}: \
             give it --region {enough} or more (in a plan: region = \"{enough}\")"
        )))
    }

    fn subject(&self, draft: &Draft) -> Result<Subject, Error> {
        let value = draft.design.as_ref().expect("check_parts found the axis");
        if let Some(path) = value.value.strip_prefix("host:") {
            return self.host(path);
        }
        if let Some(name) = value.value.strip_prefix(KernelFs::PREFIX) {
            return self.kernel(name);
        }
        if value.value == DEVICE {
            return Ok(Subject::Device);
        }
        let design = design(&value.value)?;
        let names: Vec<_> = option_names(design).collect();
        let shared = self.fs.iter().filter(|(name, _)| names.contains(&name.as_str()));
        let mut options: BTreeMap<String, String> = shared.map(|(k, v)| (k.clone(), v.clone())).collect();
        options.extend(draft.options.clone());
        options.extend(value.options.clone());
        resolve(design, &options).map_err(|error| Error::Setting(format!("plan {}: {error}", self.name)))?;
        Ok(Subject::Design { design, options })
    }

    fn kernel(&self, name: &str) -> Result<Subject, Error> {
        let kernel = name.parse().map_err(Error::Setting)?;
        if self.clock == Clock::Virtual {
            return Err(Error::Setting(format!(
                "{}{name} is the real kernel, which takes real time: use --clock real (in a plan: clock = \"real\")",
                KernelFs::PREFIX
            )));
        }
        Ok(Subject::Kernel(kernel))
    }

    fn host(&self, path: &str) -> Result<Subject, Error> {
        if self.clock == Clock::Virtual {
            return Err(Error::Setting(format!(
                "host:{path} is the real kernel, which takes real time: use --clock real (in a plan: clock = \"real\")"
            )));
        }
        if !std::path::Path::new(path).is_dir() {
            return Err(Error::Setting(format!("host:{path}: there is no such directory; make it first")));
        }
        Ok(Subject::Host(path.into()))
    }
}

/// The design called `name`. What stands beside designs in comparisons alone is refused as what it is.
pub fn design(name: &str) -> Result<&'static dyn Design, Error> {
    if let Some(design) = fs::by_name(name) {
        return Ok(design);
    }
    let kind = match name {
        DEVICE | SSD => "a device without a file system",
        _ if name.starts_with("host:") => "a directory of this host",
        _ if name.starts_with(KernelFs::PREFIX) => "a file system of this host's kernel",
        _ => {
            let advice = nearest(name, fs::all().map(Design::name).chain([DEVICE, SSD]));
            return Err(Error::Unknown { what: "file system", name: name.to_owned(), advice });
        }
    };
    Err(Error::Setting(format!(
        "\"{name}\" is {kind}, and this needs a design of Weir: `weir list fs` names them"
    )))
}

/// The design called `name`, for what needs an image: a model of the kernel's file system has none.
pub fn stored(name: &str) -> Result<&'static dyn Design, Error> {
    let design = design(name)?;
    match design.without_image() {
        Some(why) => Err(Error::Setting(format!("{name} cannot be used here: {why}"))),
        None => Ok(design),
    }
}

/// A design's options with these values.
pub fn resolve(design: &'static dyn Design, options: &BTreeMap<String, String>) -> Result<Options, Error> {
    let resolved = Options::resolve(design.name(), design.options(), options);
    resolved.map_err(|error| Error::Setting(error.to_string()))
}

fn option_names(design: &'static dyn Design) -> impl Iterator<Item = &'static str> {
    design.options().iter().map(|option| option.name)
}

/// Each draft with each value of `axis`.
fn extend(drafts: &[Draft], axis: &Axis) -> Result<Vec<Draft>, Error> {
    let pairs = drafts.iter().flat_map(|draft| axis.values.iter().map(move |value| (draft, value)));
    pairs.map(|(draft, value)| draft.with(axis, value)).collect()
}

impl Draft {
    fn with(&self, axis: &Axis, value: &AxisValue) -> Result<Self, Error> {
        let mut draft = self.clone();
        draft.labels.insert(axis.name.clone(), value.label.clone());
        if self.is_unaffected_by(axis)? {
            return Ok(draft);
        }
        for target in &axis.sets {
            draft.set(target, axis, value)?;
        }
        draft.vars.extend(value.vars.clone());
        Ok(draft)
    }

    /// Whether the design in force is one that the axis does not change.
    fn is_unaffected_by(&self, axis: &Axis) -> Result<bool, Error> {
        match (&axis.unaffected[..], &self.design) {
            ([], _) => Ok(false),
            (names, Some(design)) => Ok(names.contains(&design.label)),
            (_, None) => Err(axis.at.problem(format!(
                "axis \"{}\" has unaffected = [...] and must come after the axis \"fs\"",
                axis.name
            ))),
        }
    }

    fn set(&mut self, target: &Target, axis: &Axis, value: &AxisValue) -> Result<(), Error> {
        match target {
            Target::Design => self.design = Some(value.clone()),
            Target::Medium => self.medium = Some(value.value.clone()),
            Target::MediumKey(key) => self.medium_keys.push((key.clone(), value.value.clone())),
            Target::Free => self.free = Some(value.value.clone()).filter(|name| name != NOTHING),
            Target::Threads => self.threads = Some(value.value.clone()),
            Target::Scheme => self.scheme = Some(value.value.clone()),
            Target::Mutant => self.mutant = Some(value.value.clone()),
            Target::Machine => self.machine = Some(value.value.clone()),
            Target::Processor(key) => self.processor.push((key.clone(), value.value.clone())),
            Target::Variable(name) => self.set_variable(name, value),
            Target::Option(name) => self.set_option(name, axis, value)?,
        }
        Ok(())
    }

    fn set_variable(&mut self, name: &str, value: &AxisValue) {
        self.vars.insert(name.to_owned(), value.value.clone());
    }

    /// An option of the design in force; the axis of designs must come first. Of several options that an axis sets, a design takes
    /// those that it has.
    fn set_option(&mut self, option: &str, axis: &Axis, value: &AxisValue) -> Result<(), Error> {
        let Some(design_value) = &self.design else {
            let message =
                format!("axis \"{}\" sets fs.{option} and must come after the axis \"fs\"", axis.name);
            return Err(axis.at.problem(message));
        };
        let design = fs::by_name(&design_value.value);
        let has = |option: &str| design.is_none_or(|design| option_names(design).any(|name| name == option));
        if !has(option) {
            if axis.sets.iter().any(|target| matches!(target, Target::Option(other) if has(other))) {
                return Ok(());
            }
            return Err(axis.at.problem(format!(
                "axis \"{}\" sets fs.{option}, which {} does not have; \
                 name it in unaffected = [\"{}\"] or leave it out",
                axis.name, design_value.value, design_value.label
            )));
        }
        self.options.insert(option.to_owned(), value.value.clone());
        Ok(())
    }
}

/// The medium of models of a kernel's file systems: their page cache.
const PAGE_CACHE: &str = "dram";
/// What stands beside a block device: memory without a model, where a journal may be.
pub(super) const BESIDE: &str = "dram";

/// The medium with the parameters that axes have set; a block device has memory beside it.
pub(super) fn medium(draft: &Draft) -> Result<(Medium, Option<BlockModel>), Error> {
    let model = draft.design.as_ref().is_some_and(|design| is_model(&design.value));
    let usual = if model { PAGE_CACHE } else { &draft.usual };
    let name = draft.medium.clone().unwrap_or_else(|| usual.to_owned());
    let keys = draft.medium_keys.iter().map(|(key, value)| format!(",{key}={value}"));
    let text = name + &keys.collect::<String>();
    let wrong = |error: MediumError| Error::Setting(error.to_string());
    if BlockModel::knows(&text) {
        let block = BlockModel::parse(&text).map_err(wrong)?;
        return Ok((Medium::named(BESIDE).map_err(wrong)?, Some(block)));
    }
    Ok((Medium::parse(&text).map_err(wrong)?, None))
}

impl Plan {
    /// Refuses a cell of this workload that cannot have the churn of the plan: only a design in this process can, on a region whose
    /// size the plan says, with room for the files of the churn and of the workload.
    fn check_churn(&self, cell: &CellSpec, workload: &Workload) -> Result<(), Error> {
        if self.churn.is_none() {
            return Ok(());
        }
        let says = |message: String| Err(Error::Setting(format!("plan {}: a churn {message}", self.name)));
        let Subject::Design { design, options } = &cell.subject else {
            let title = cell.title();
            return says(format!(
                "changes files of a design in this process, which {title} has not: leave it out"
            ));
        };
        let name = design.name();
        if let Some(why) = design.without_image() {
            return says(format!("needs storage that can wear: {why}; leave out {name}"));
        }
        if let Some(block) = &cell.block {
            return says(format!(
                "is counted in bytes that are stored to memory, and {} is a block device: leave out {name}",
                block.name()
            ));
        }
        let Some(region) = cell.region else {
            return says(
                "stores a multiple of the region's size: give --region SIZE (in a plan: region = \"64MiB\")"
                    .to_owned(),
            );
        };
        let options = resolve(*design, options)?;
        let files = |region: u64| Bytes(cell.workload.data_bytes().saturating_add(region / LIVE));
        let per_inode = design.format().bytes_per_inode(&options);
        let fits = |region: u64| {
            let inodes = cell.workload.small_files().saturating_add(files_in(region));
            region >= SHARE
                && design.format().size_for(files(region), &options).0 <= region
                && inodes.saturating_mul(per_inode) <= region
        };
        if fits(region.0) {
            return Ok(());
        }
        let enough =
            std::iter::successors(Some(region.0), |size| size.checked_mul(2)).find(|size| fits(*size));
        let enough = enough.map_or_else(
            || "it fits no region".to_owned(),
            |size| format!("give it --region {0} (in a plan: region = \"{0}\")", rounded_up(Bytes(size))),
        );
        let message = format!(
            "leaves files in a quarter of the region; with those of \"{}\", {}, {name} does not have them in {region}: {enough}",
            workload.name,
            Bytes(cell.workload.data_bytes()),
        );
        Err(workload.at.problem(message))
    }
}
