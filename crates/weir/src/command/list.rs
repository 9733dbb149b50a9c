//! `weir list`: what there is.

use std::collections::BTreeMap;

use clap::{Args, ValueEnum};
use lab::claims::Paper;
use lab::machine::{MachinePreset, THIS_HOST, this_host_path};
use lab::plan::Plan;
use lab::presets::{MACHINES, PAPERS, PLANS};
use media::flash::SsdModel;
use media::flash::model::PRESETS;
use workload::{SUITES, suite};

use crate::failure::Failure;
use crate::output::{Output, columns};

/// List designs, media, workloads, plans, papers, machines.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir list workloads")]
pub(crate) struct List {
    /// What to list [default: everything]
    #[arg(value_enum)]
    kind: Option<Kind>,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Fs,
    Media,
    Suites,
    Workloads,
    Plans,
    Papers,
    Machines,
    Formats,
}

/// Names with one line each.
type Rows = Vec<(String, String)>;

impl List {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let kinds = self.kind.map_or_else(|| Kind::value_variants().to_vec(), |kind| vec![kind]);
        let lists =
            kinds.iter().map(|kind| Ok((*kind, kind.rows()?))).collect::<Result<Vec<_>, Failure>>()?;
        if output.is_json() {
            output.document(&document(&lists));
            return Ok(());
        }
        let alone = lists.len() == 1;
        let text = lists.iter().map(|(kind, rows)| {
            let title = if alone { String::new() } else { format!("{}\n", kind.title()) };
            title + &columns(rows)
        });
        output.data(&text.collect::<Vec<_>>().join("\n"));
        Ok(())
    }
}

impl Kind {
    fn title(self) -> &'static str {
        match self {
            Self::Fs => "designs (--fs)",
            Self::Media => "media (--medium)",
            Self::Suites => "suites of workloads",
            Self::Workloads => "workloads (weir bench)",
            Self::Plans => "plans (weir run)",
            Self::Papers => "papers (weir reproduce)",
            Self::Machines => "machines (--machine)",
            Self::Formats => "report formats (-o FILE)",
        }
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no kind is skipped").get_name().to_owned()
    }

    pub(super) fn rows(self) -> Result<Rows, Failure> {
        Ok(match self {
            Self::Fs => designs(),
            Self::Media => media(),
            Self::Suites => suites(),
            Self::Workloads => workloads(),
            Self::Plans => plans()?,
            Self::Papers => papers()?,
            Self::Machines => machines()?,
            Self::Formats => formats(),
        })
    }
}

fn designs() -> Rows {
    let about = |design: &dyn fs::FsType| {
        let defaults = fs::Options::resolve(design.name(), design.options(), &BTreeMap::new());
        let promises = defaults.map_or(String::new(), |options| design.promises(&options).to_string());
        format!("{}; needs {}; {promises}", design.summary(), design.needs())
    };
    let ours = fs::FILE_SYSTEMS.iter().copied().map(|design| (design.name().to_owned(), about(design)));
    ours.chain([("host:DIR".to_owned(), "a directory of this host's kernel (real clock)".to_owned())])
        .collect()
}

fn media() -> Rows {
    let named = media::medium::names().into_iter().filter_map(|name| media::Medium::named(name).ok());
    let memory = named.map(|medium| (medium.name().to_owned(), medium.summary().to_owned()));
    let ssds = PRESETS.iter().filter_map(|(name, _)| SsdModel::named(name).ok());
    let blocks = ssds.map(|model| (model.name().to_owned(), format!("block device: {}", model.summary())));
    let ram =
        "block device: a RAM disk behind a loop device, one worker and no dies: nr_requests=128, size=2GiB";
    memory.chain(blocks).chain([("loop".to_owned(), ram.to_owned())]).collect()
}

fn suites() -> Rows {
    SUITES.iter().map(|suite| (suite.name().to_owned(), suite.summary().to_owned())).collect()
}

fn workloads() -> Rows {
    suite::all().map(|(suite, entry)| (suite::full_name(suite, entry), entry.summary.to_owned())).collect()
}

fn plans() -> Result<Rows, Failure> {
    PLANS.iter().map(|preset| Ok((preset.name.to_owned(), Plan::load(preset.name, false)?.why))).collect()
}

fn papers() -> Result<Rows, Failure> {
    let row = |preset: &lab::presets::Preset| {
        let paper = Paper::load(preset.name)?;
        let mut figures: Vec<_> = paper.figures.iter().map(|(figure, _)| figure.as_str()).collect();
        figures.dedup();
        let figures =
            if figures.is_empty() { String::new() } else { format!("figures {}, ", figures.join(" ")) };
        let about = format!("{}: {figures}{} claims", paper.paper, paper.claims.len());
        Ok((paper.name, about))
    };
    PAPERS.iter().map(row).collect()
}

fn machines() -> Result<Rows, Failure> {
    let mut rows: Rows = Vec::new();
    for preset in MACHINES {
        rows.push((preset.name.to_owned(), MachinePreset::load(preset.name)?.summary));
    }
    let measured = this_host_path().is_ok_and(|path| path.exists());
    let about =
        if measured { "measured by `weir calibrate`" } else { "not yet measured: run `weir calibrate`" };
    rows.push((THIS_HOST.to_owned(), format!("this host, {about}")));
    Ok(rows)
}

fn formats() -> Rows {
    let row =
        |format: &&dyn report::Format| (format!(".{}", format.extension()), format.summary().to_owned());
    report::FORMATS.iter().map(row).collect()
}

fn document(lists: &[(Kind, Rows)]) -> serde_json::Value {
    let mut document = serde_json::Map::from_iter([("schema".to_owned(), "weir.list/1".into())]);
    for (kind, rows) in lists {
        let rows = rows.iter().map(|(name, about)| serde_json::json!({ "name": name, "summary": about }));
        document.insert(kind.name(), rows.collect::<Vec<_>>().into());
    }
    document.into()
}
