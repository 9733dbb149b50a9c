//! `weir show`: everything about one thing.

use std::path::Path;

use clap::Args;
use fs::{FsType, OptionKind};
use lab::claims::Paper;
use lab::plan::Plan;
use lab::presets::{MACHINES, PAPERS, PLANS};
use lab::{Error, MachinePreset};
use media::Medium;
use media::block::BlockModel;
use media::flash::SsdModel;
use media::flash::model::PRESETS;
use media::medium::Param;
use report::table::Table;
use sim::Bytes;
use workload::suite::{self, Entry, Settings, Suite};

use crate::failure::Failure;
use crate::output::Output;

/// Show everything about a design, medium, workload, plan, paper or machine.
#[derive(Args, Debug)]
#[command(
    override_usage = "weir show [OPTIONS] [KIND] <NAME>",
    after_help = "Examples: weir show pmfs · weir show filebench/varmail · weir show plan quick · weir show plan mine.toml"
)]
pub(crate) struct Show {
    /// A name (`weir list`) or a file; before it, if several kinds have that name, the kind: fs, medium, suite, workload,
    /// plan, paper, machine
    #[arg(required = true, num_args = 1..=2, value_name = "NAME")]
    name: Vec<String>,
}

/// A kind of thing: its prefix, and how to show the one of that name, if there is one.
type Shower = fn(&str) -> Option<Result<String, Failure>>;

const KINDS: [(&str, Shower); 7] = [
    ("fs", design),
    ("medium", medium),
    ("suite", suite),
    ("workload", workload),
    ("plan", plan),
    ("paper", paper),
    ("machine", machine),
];

impl Show {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let (prefix, name) = match &self.name[..] {
            [kind, name] => (Some(kind.as_str()), name.as_str()),
            [one] => one.split_once(':').map_or((None, one.as_str()), |(kind, name)| (Some(kind), name)),
            _ => unreachable!("one or two words, as declared"),
        };
        if let Some(kind) = prefix.filter(|prefix| KINDS.iter().all(|(kind, _)| kind != prefix)) {
            return Err(unknown_kind(kind));
        }
        let wanted = KINDS.iter().filter(|(kind, _)| prefix.is_none_or(|prefix| prefix == *kind));
        let found = wanted.filter_map(|(kind, show)| Some((*kind, show(name)?)));
        let found = found.map(|(kind, text)| Ok((kind, text?))).collect::<Result<Vec<_>, Failure>>()?;
        if found.is_empty() {
            return Err(unknown(name));
        }
        if output.is_json() {
            let things = found.iter().map(|(kind, text)| serde_json::json!({ "kind": kind, "text": text }));
            let things: Vec<_> = things.collect();
            output.document(&serde_json::json!({ "schema": "weir.show/1", "name": name, "things": things }));
        } else {
            output.data(&found.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }
}

fn unknown_kind(kind: &str) -> Failure {
    let advice = lab::error::nearest(kind, KINDS.iter().map(|(known, _)| *known));
    Error::Unknown { what: "kind", name: kind.to_owned(), advice }.into()
}

fn unknown(name: &str) -> Failure {
    if let Some((kind, _)) = KINDS.iter().find(|(kind, _)| *kind == name) {
        return Failure::usage(format!("weir show {kind}: give a name as well; `weir list` prints all"));
    }
    let designs = fs::FILE_SYSTEMS.iter().copied().map(fs::FsType::name);
    let presets = PLANS.iter().chain(PAPERS).chain(MACHINES).map(|preset| preset.name);
    let suites = workload::SUITES.iter().map(|suite| suite.name());
    let workloads = suite::all().map(|(_, entry)| entry.name).chain(suites);
    let ssds = PRESETS.iter().map(|(name, _)| *name).chain(BlockModel::names());
    let known = designs.chain(media::medium::names()).chain(ssds).chain(presets).chain(workloads);
    let advice = match lab::error::nearest(name, known) {
        near if near.starts_with("did") => near,
        _ => "`weir list` prints all names".to_owned(),
    };
    Error::Unknown { what: "design, medium, workload, plan, paper or machine", name: name.to_owned(), advice }
        .into()
}

fn design(name: &str) -> Option<Result<String, Failure>> {
    let design = fs::by_name(name)?;
    let mut table = Table::new(format!("{} (design): {}", design.name(), design.summary()));
    for column in ["option", "takes", "default", "what it does"] {
        table.words(column);
    }
    for option in design.options() {
        let row = [option.name, &takes(option.kind), option.default, option.help].map(str::to_owned);
        table.rows.push(row.into());
    }
    let options = if table.rows.is_empty() {
        format!("{} (design): {}\n  it has no options\n", design.name(), design.summary())
    } else {
        table.to_text()
    };
    Some(Ok(options + &with_defaults(design) + &parts(design)))
}

/// What it needs and promises when no option is given, and what it takes of the host's memory.
fn with_defaults(design: &dyn FsType) -> String {
    let options = fs::Options::defaults(design.options());
    let (needs, promises) = (design.needs(&options), design.promises(&options));
    let (small, large) = (Bytes::gib(1), Bytes::gib(2));
    let (dram, grown) = (design.dram(&options, small), design.dram(&options, large));
    let dram =
        if dram == grown { dram.to_string() } else { format!("{dram} of each {small} of its storage") };
    format!(
        "  with default options\n    needs: {needs}\n    promises: {promises}\n    DRAM for data: {dram}\n"
    )
}

fn parts(design: &dyn FsType) -> String {
    let parts: Vec<_> =
        design.dump_parts().iter().map(|(part, shows)| format!("    {part}: {shows}\n")).collect();
    if parts.is_empty() { String::new() } else { format!("  parts for weir dump\n{}", parts.concat()) }
}

fn takes(kind: OptionKind) -> String {
    match kind {
        OptionKind::Size | OptionKind::Cache => "size".to_owned(),
        OptionKind::SizeOrAuto => "auto, size".to_owned(),
        OptionKind::Time => "time".to_owned(),
        OptionKind::Count => "number".to_owned(),
        OptionKind::Fraction => "fraction".to_owned(),
        OptionKind::Flag => "true, false".to_owned(),
        OptionKind::Choice(words) => words.join(", "),
    }
}

fn medium(name: &str) -> Option<Result<String, Failure>> {
    let Ok(medium) = Medium::parse(name) else { return block_device(name).map(Ok) };
    let mut table = Table::new(format!("{} (medium): {}", medium.name(), medium.summary()));
    for column in ["parameter", "value", "source"] {
        table.words(column);
    }
    for parameter in medium.parameters() {
        let row = vec![parameter.name.to_owned(), parameter.value.to_string(), parameter.source.clone()];
        table.rows.push(row);
    }
    Some(Ok(table.to_text()))
}

/// A block device: an SSD with its parameters, or the RAM disk.
fn block_device(name: &str) -> Option<String> {
    let Ok(model) = SsdModel::parse(name) else {
        let model = BlockModel::parse(name).ok()?;
        return Some(format!("{} (block device): {}\n", model.name(), model.summary()));
    };
    let mut table = Table::new(format!("{} (block device, an SSD): {}", model.name(), model.summary()));
    for column in ["parameter", "value", "source"] {
        table.words(column);
    }
    let row = |param: &Param| vec![param.name.to_owned(), param.value.to_string(), param.source.clone()];
    table.rows = model.parameters().iter().map(row).collect();
    Some(table.to_text())
}

fn suite(name: &str) -> Option<Result<String, Failure>> {
    let suite = suite::by_name(name)?;
    let mut workloads = Table::new(format!("{name} (suite): {}", suite.summary()));
    for column in ["workload", "what it does"] {
        workloads.words(column);
    }
    workloads.rows =
        suite.entries().iter().map(|entry| vec![entry.name.into(), entry.summary.into()]).collect();
    Some(Ok(format!("{}\n{}", workloads.to_text(), switches(suite))))
}

fn switches(suite: &dyn Suite) -> String {
    let mut table = Table::new("switches that reproduce behaviour of the original");
    for column in ["switch", "default", "when it is on"] {
        table.words(column);
    }
    for switch in suite.switches() {
        let default = if switch.default { "on" } else { "off" };
        table.rows.push([switch.name, default, switch.help].map(str::to_owned).into());
    }
    table.to_text()
}

fn workload(name: &str) -> Option<Result<String, Failure>> {
    suite::find(name).map(|(suite, entry)| workload_text(suite, entry))
}

fn workload_text(suite: &dyn Suite, entry: Entry) -> Result<String, Failure> {
    let workload = suite.load(entry.name, &Settings::default());
    let workload = workload.map_err(|error| Failure::usage(error.to_string()))?;
    let name = suite::full_name(suite, entry);
    let mut table = Table::new(format!("{name} (workload): {}", entry.summary));
    for column in ["variable (-D)", "value"] {
        table.words(column);
    }
    table.rows = workload.variables().into_iter().map(|(name, value)| vec![name, value]).collect();
    Ok(format!("{}\n{}", table.to_text(), suite.describe(entry.name).unwrap_or_default()))
}

fn plan(name: &str) -> Option<Result<String, Failure>> {
    let file = Path::new(name).extension().is_some_and(|extension| extension == "toml");
    let text = match PLANS.iter().find(|preset| preset.name == name) {
        Some(preset) => preset.text.to_owned(),
        // A machine and a medium may be in such a file as well: only one of them is a plan.
        None if file => std::fs::read_to_string(name).ok().filter(|text| text.contains("[plan]"))?,
        None => return None,
    };
    Some(Plan::load(name, false).map_err(Failure::from).and_then(|plan| plan_text(name, &plan, &text)))
}

/// Every value in force with the place where it is said, then the plan's text.
fn plan_text(name: &str, plan: &Plan, text: &str) -> Result<String, Failure> {
    let mut table = Table::new(format!("{name} (plan): {}", plan.why));
    for column in ["value", "is", "said in"] {
        table.words(column);
    }
    let said: toml::Table = text.parse().unwrap_or_default();
    let in_plan = |key: &str| said.get("plan").and_then(|plan| plan.get(key)).is_some();
    let document = plan.to_json();
    let values = document.as_object().into_iter().flatten();
    let simple = values.filter(|(key, value)| *key != "why" && !value.is_array() && !value.is_object());
    for (key, value) in simple {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let place = if in_plan(key) { "[plan]" } else { "default" };
        table.rows.push(vec![key.clone(), value, place.to_owned()]);
    }
    let row = |what: String, is: String, place: &str| vec![what, is, place.to_owned()];
    for axis in &plan.axis {
        let values: Vec<_> = axis.values.iter().map(|value| value.label.as_str()).collect();
        let sets: Vec<_> = axis.sets.iter().map(ToString::to_string).collect();
        let name =
            if sets == [axis.name.as_str()] { String::new() } else { format!(" (sets {})", sets.join(", ")) };
        table.rows.push(row(format!("axis {}{name}", axis.name), values.join(", "), "[[axis]]"));
    }
    for workload in &plan.workload {
        let vars: Vec<_> = workload.vars.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let vars = if vars.is_empty() { "its own values".to_owned() } else { vars.join(", ") };
        table.rows.push(row(format!("workload {}", workload.name), vars, "[[workload]]"));
    }
    let options = plan.fs.iter().map(|(key, value)| row(format!("option {key}"), value.clone(), "[fs]"));
    table.rows.extend(options);
    let expected = plan.expect.iter().map(|one| row("expected".to_owned(), one.to_string(), "[expect]"));
    table.rows.extend(expected);
    let cells = plan.cells()?.len();
    table.rows.push(row("cells".to_owned(), format!("{cells}, {} runs of each", plan.repeats), "worked out"));
    Ok(format!("{}\n{text}", table.to_text()))
}

fn paper(name: &str) -> Option<Result<String, Failure>> {
    PAPERS.iter().find(|preset| preset.name == name)?;
    Some(Paper::load(name).map(|paper| paper_text(&paper)).map_err(Failure::from))
}

fn paper_text(paper: &Paper) -> String {
    let mut table = Table::new(format!("{} (paper): {}", paper.name, paper.paper));
    for column in ["claim", "published", "band", "says"] {
        table.words(column);
    }
    for claim in &paper.claims {
        let published = claim.claim.published.map_or_else(String::new, |value| value.to_string());
        let band = format!("{} to {}", claim.claim.low, claim.claim.high);
        let says = if claim.needs.is_empty() {
            claim.claim.says.clone()
        } else {
            format!("{} (needs {})", claim.claim.says, claim.needs.join(", "))
        };
        table.rows.push(vec![claim.claim.id.clone(), published, band, says]);
    }
    table.to_text()
}

fn machine(name: &str) -> Option<Result<String, Failure>> {
    let known = MACHINES.iter().any(|preset| preset.name == name) || name == lab::machine::THIS_HOST;
    // A medium and a plan may be in such a file as well: only a machine has a shape.
    let text = || std::fs::read_to_string(name).unwrap_or_default();
    let is_file = Path::new(name).extension().is_some_and(|ending| ending == "toml");
    if !(known || is_file && text().contains("[shape]")) {
        return None;
    }
    Some(MachinePreset::load(name).map(|preset| machine_text(&preset)).map_err(Failure::from))
}

fn machine_text(preset: &MachinePreset) -> String {
    let mut table = Table::new(format!("{} (machine): {}", preset.machine.name, preset.summary));
    for column in ["key", "value", "source"] {
        table.words(column);
    }
    for value in &preset.values {
        table.rows.push(vec![value.key.to_owned(), value.value.clone(), value.source.clone()]);
    }
    table.to_text()
}
