//! `weir list`: what there is.

use clap::{Args, ValueEnum};
use lab::claims::Paper;
use lab::flash::stream::STREAMS;
use lab::machine::{MachinePreset, THIS_HOST, this_host_path};
use lab::plan::Plan;
use lab::plan::matrix::DEVICE;
use lab::plan::usual::DEFAULT_MEDIUM;
use lab::presets::{MACHINES, PAPERS, PLANS};
use media::block::BlockModel;
use media::flash::SsdModel;
use media::flash::model::PRESETS;
use results::claim::{Claim, Input, Origin};
use sim::Count;
use workload::{SUITES, suite};

use crate::failure::Failure;
use crate::output::{Output, columns};

/// List designs, media, workloads, plans, papers, machines, counts.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir list workloads · `weir show NAME` has the whole of each: what it needs, promises, its options"
)]
pub(crate) struct List {
    /// What to list [default: everything]
    #[arg(value_enum)]
    kind: Option<Kind>,
    /// List the media and machines of papers, too, that can no longer be bought
    #[arg(long)]
    all: bool,
}

/// Media and machines of papers: emulators of memory that was to come, and servers of ten years ago.
const HISTORY: [&str; 12] = [
    "classic",
    "fxmark-server",
    "hinfs",
    "hinfs-server",
    "hinfs-server-threads",
    "nova.pcm",
    "nova.sttram",
    "pmep",
    "rcache-server-3-channels",
    "rcache-server-36",
    "revised",
    "sata-2015",
];

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Fs,
    Media,
    Suites,
    Workloads,
    Plans,
    Papers,
    Machines,
    Formats,
    Counts,
}

/// One thing in a list.
#[derive(Default)]
pub(crate) struct Row {
    name: String,
    summary: String,
    /// What it is made on or for, where that differs.
    needs: Option<String>,
    /// What survives a crash.
    promises: Option<String>,
    /// What its number is a number of.
    unit: Option<String>,
}

type Rows = Vec<Row>;

impl Row {
    fn new(name: impl Into<String>, summary: impl Into<String>) -> Self {
        Self { name: name.into(), summary: summary.into(), ..Self::default() }
    }

    /// Its name and what it is.
    pub(crate) fn named(self) -> (String, String) {
        (self.name, self.summary)
    }

    fn line(&self) -> (String, String) {
        let unit = self.unit.as_ref().map(|unit| format!("{unit}: "));
        (self.name.clone(), unit.into_iter().chain([self.summary.clone()]).collect())
    }

    fn document(&self) -> serde_json::Value {
        let Self { name, summary, needs, promises, unit } = self;
        serde_json::json!({ "name": name, "summary": summary, "needs": needs, "promises": promises, "unit": unit })
    }
}

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
            let (past, today): (Vec<&Row>, Vec<_>) = rows.iter().partition(|row| kind.is_of_history(row));
            let past_shown = past.iter().copied().filter(|_| self.all);
            let lines = today.into_iter().chain(past_shown).map(Row::line);
            let left = past.len() * usize::from(!self.all);
            let more = if left > 0 {
                format!("and {left} of papers: weir list {} --all\n", kind.name())
            } else {
                String::new()
            };
            title + &short(&columns(&lines.collect::<Vec<_>>())) + &more
        });
        output.data(&text.collect::<Vec<_>>().join("\n"));
        Ok(())
    }
}

/// Columns of a terminal.
const WIDTH: usize = 80;

/// Lines that fit a terminal: what is longer ends with an ellipsis after a whole word.
fn short(text: &str) -> String {
    let fit = |line: &str| {
        if line.chars().count() <= WIDTH {
            return line.to_owned() + "\n";
        }
        let cut: String = line.chars().take(WIDTH - 2).collect();
        let end = cut.rfind(' ').unwrap_or(cut.len());
        format!("{} …\n", cut[..end].trim_end_matches([',', ';', ':']))
    };
    text.lines().map(fit).collect()
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
            Self::Counts => "counts in results",
        }
    }

    /// Whether a row is listed with `--all` only.
    fn is_of_history(self, row: &Row) -> bool {
        matches!(self, Self::Media | Self::Machines) && HISTORY.contains(&row.name.as_str())
    }

    fn name(self) -> String {
        self.to_possible_value().expect("no kind is skipped").get_name().to_owned()
    }

    pub(crate) fn rows(self) -> Result<Rows, Failure> {
        Ok(match self {
            Self::Fs => designs(),
            Self::Media => media(),
            Self::Suites => suites(),
            Self::Workloads => workloads(),
            Self::Plans => plans()?,
            Self::Papers => papers()?,
            Self::Machines => machines()?,
            Self::Formats => formats(),
            Self::Counts => counts(),
        })
    }
}

fn designs() -> Rows {
    let about = |design: &dyn design::Design| {
        let options = design::Options::defaults(design.options());
        Row {
            needs: Some(design.format().needs(&options).to_string()),
            promises: Some(design.promises(&options).to_string()),
            ..Row::new(design.name(), design.summary())
        }
    };
    let host = Row {
        needs: Some("the real clock".to_owned()),
        ..Row::new("host:DIR", "a directory of this host's kernel")
    };
    let device = Row {
        needs: Some(OF_DEVICE.0.to_owned()),
        promises: Some(OF_DEVICE.1.to_owned()),
        ..Row::new(DEVICE, OF_DEVICE.2)
    };
    let model = |design: &dyn design::Design| Row {
        needs: Some("the virtual clock".to_owned()),
        promises: Some("nothing: it has no image".to_owned()),
        ..Row::new(design.name(), design.summary())
    };
    let models = fs::MODELS.iter().copied().map(model);
    fs::FILE_SYSTEMS.iter().copied().map(about).chain([device, host]).chain(models).collect()
}

/// Of a device without a file system: what it needs, what it promises, what it is.
pub(super) const OF_DEVICE: (&str, &str, &str) = (
    "block, or memory as a block device",
    "what its medium does (`weir list media`)",
    "no file system: the medium itself, as a block device",
);

/// What memory promises, whatever its model.
const OF_MEMORY: &str = "a word of 8 bytes is atomic, durable after a flush and a fence";

fn media() -> Rows {
    let named = media::medium::names().into_iter().filter_map(|name| media::Medium::named(name).ok());
    let memory = named.map(|medium| Row {
        promises: Some(OF_MEMORY.to_owned()),
        ..Row::new(medium.name(), format!("memory: {}", medium.summary()))
    });
    let blocks = BlockModel::names().filter_map(|name| BlockModel::parse(name).ok()).map(|model| Row {
        promises: Some(model.promises()),
        ..Row::new(model.name(), format!("block device: {}", model.summary()))
    });
    // Zoned ones.
    let others = PRESETS.iter().filter(|(name, _)| !BlockModel::names().any(|block| block == *name));
    let others = others.filter_map(|(name, _)| SsdModel::named(name).ok()).map(|model| Row {
        needs: Some("`weir sim flash`".to_owned()),
        ..Row::new(model.name(), format!("zoned device: {}", model.summary()))
    });
    memory.chain(blocks).chain(others).collect()
}

fn suites() -> Rows {
    let of_files = |ending: &str| format!("; its workloads can also be files .{ending}");
    let needs = |suite: &dyn suite::Suite| {
        format!("a file system (--fs){}", suite.extension().map(of_files).unwrap_or_default())
    };
    let row = |suite: &&dyn suite::Suite| Row {
        needs: Some(needs(*suite)),
        ..Row::new(suite.name(), suite.summary())
    };
    SUITES.iter().map(row).collect()
}

fn workloads() -> Rows {
    let calls = suite::all().map(|(suite, entry)| Row::new(suite::full_name(suite, entry), entry.summary));
    let programs = archsim::workload::WORKLOADS.iter().map(|known| Row {
        needs: Some("a simulated processor: scheme = [\"fwb\"] in a plan".to_owned()),
        ..Row::new(format!("archsim/{}", known.name), known.summary)
    });
    let streams = STREAMS.iter().map(|(name, _, summary)| Row {
        needs: Some("an SSD by itself: fs = [\"ssd\"] in a plan".to_owned()),
        ..Row::new(format!("requests/{name}"), *summary)
    });
    calls.chain(programs).chain(streams).collect()
}

fn plans() -> Result<Rows, Failure> {
    let row = |preset: &lab::presets::Preset| {
        let plan = Plan::load(preset.name, false)?;
        Ok(Row { needs: plan.lacks(), ..Row::new(preset.name, plan.why) })
    };
    PLANS.iter().map(row).collect()
}

fn papers() -> Result<Rows, Failure> {
    let row = |preset: &lab::presets::Preset| {
        let paper = Paper::load(preset.name)?;
        let mut figures: Vec<_> = paper.figures.iter().map(|(figure, _)| figure.as_str()).collect();
        figures.dedup();
        let figures =
            if figures.is_empty() { String::new() } else { format!("figures {}, ", figures.join(" ")) };
        let marked =
            |mark: fn(&Claim) -> bool| paper.claims.iter().filter(|claim| mark(&claim.claim)).count();
        let marks = [
            (marked(|claim| claim.origin == Origin::Construction), "by construction"),
            (marked(|claim| claim.fitted), "fitted"),
            (marked(|claim| claim.input == Input::Generated), "on generated input"),
        ];
        let marks = marks
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!(", {count} of them {word}"));
        let about =
            format!("{}: {figures}{} claims{}", paper.paper, paper.claims.len(), marks.collect::<String>());
        Ok(Row::new(paper.name, about))
    };
    PAPERS.iter().map(row).collect()
}

fn machines() -> Result<Rows, Failure> {
    let of = |preset: MachinePreset| {
        let medium = preset.medium.map_or(DEFAULT_MEDIUM.to_owned(), |medium| medium.value);
        let processors = preset.machine.processors();
        let needs =
            format!("the virtual clock, which has {processors} processors then; default medium {medium}");
        Row { needs: Some(needs), ..Row::new(preset.machine.name, preset.summary) }
    };
    let presets = MACHINES.iter().map(|preset| Ok(of(MachinePreset::load(preset.name)?)));
    let mut rows = presets.collect::<Result<Rows, Failure>>()?;
    let measured = this_host_path().is_ok_and(|path| path.exists());
    let about =
        if measured { "measured by `weir calibrate`" } else { "not yet measured: run `weir calibrate`" };
    rows.push(Row::new(THIS_HOST, format!("this host, {about}")));
    rows.extend(archsim::machine::list().into_iter().map(|(name, summary)| Row {
        needs: Some("`weir sim logging`, or scheme = [\"fwb\"] in a plan".to_owned()),
        ..Row::new(name, format!("processor: {summary}"))
    }));
    Ok(rows)
}

fn formats() -> Rows {
    let row = |format: &&dyn report::Format| Row::new(format!(".{}", format.extension()), format.summary());
    report::FORMATS.iter().map(row).collect()
}

/// Of every medium, and of the designs.
fn counts() -> Rows {
    let of_designs = fs::FILE_SYSTEMS.iter().flat_map(|design| design.counts());
    let mut rows: Rows = Vec::new();
    for count in media::charges::COUNTS.iter().chain(of_designs) {
        if rows.iter().all(|row| row.name != count.name()) {
            rows.push(count_row(count));
        }
    }
    rows
}

/// An event has no unit.
fn count_row(count: &Count) -> Row {
    let unit = Some(count.unit()).filter(|unit| !unit.is_empty()).map(str::to_owned);
    Row { unit, ..Row::new(count.name(), count.meaning()) }
}

fn document(lists: &[(Kind, Rows)]) -> serde_json::Value {
    let mut document = serde_json::Map::from_iter([("schema".to_owned(), "weir.list/1".into())]);
    for (kind, rows) in lists {
        document.insert(kind.name(), rows.iter().map(Row::document).collect::<Vec<_>>().into());
    }
    document.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_history_is_that_of_a_medium_or_a_machine() {
        let rows = [Kind::Media, Kind::Machines].map(|kind| kind.rows().unwrap());
        for name in HISTORY {
            assert!(rows.iter().flatten().any(|row| row.name == name), "{name}");
        }
    }
}
