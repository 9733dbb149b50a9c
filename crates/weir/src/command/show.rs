//! `weir show`: everything about one thing.

use std::fmt::Write as _;
use std::path::Path;

use archsim::Machine;
use archsim::machine::KEYS;
use clap::Args;
use design::{Design, OptionKind};
use lab::claims::Paper;
use lab::flash::stream::STREAMS;
use lab::memory_model;
use lab::plan::Plan;
use lab::plan::matrix::DEVICE;
use lab::presets::{MACHINES, PAPERS, PLANS, Preset};
use lab::{Error, MachinePreset};
use media::Medium;
use media::block::BlockModel;
use media::flash::SsdModel;
use media::flash::model::PRESETS;
use media::medium::Param;
use report::table::{Table, wrapped};
use results::Input;
use serde_json::{Map, Value, json};
use sim::{Bytes, Count};
use workload::suite::{self, Entry, LoadError, Settings, Suite};

use super::list::OF_DEVICE;
use crate::failure::Failure;
use crate::output::Output;

/// Show everything about a design, medium, workload, plan, paper, machine or processor.
#[derive(Args, Debug)]
#[command(
    override_usage = "weir show [OPTIONS] [KIND] <NAME>",
    after_help = "Examples: weir show pmfs · weir show plan quick · weir show mine.toml · weir show spr-server --toml > my.toml"
)]
pub(crate) struct Show {
    /// A name (`weir list`) or a file; before it, if several kinds have that name, the kind: fs, medium, suite, workload,
    /// plan, paper, machine, processor
    #[arg(required = true, num_args = 1..=2, value_name = "NAME")]
    name: Vec<String>,
    /// Print a machine or a medium as the file that --machine or --medium takes, to change values in
    #[arg(long)]
    toml: bool,
}

/// What is shown of one thing.
#[derive(Default)]
struct Shown {
    /// For people.
    text: String,
    /// The same for programs: tables as lists of rows.
    fields: Map<String, Value>,
}

/// A kind of thing: its prefix, and how to show the one of that name, if there is one.
type Shower = fn(&str) -> Option<Result<Shown, Failure>>;

const KINDS: [(&str, Shower); 8] = [
    ("fs", design),
    ("medium", medium),
    ("suite", suite),
    ("workload", workload),
    ("plan", plan),
    ("paper", paper),
    ("machine", machine),
    ("processor", processor),
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
        if self.toml {
            let text = as_file(prefix, name)?;
            if output.is_json() {
                output.document(&json!({ "schema": "weir.show/1", "name": name, "toml": text }));
            } else {
                output.data(&text);
            }
            return Ok(());
        }
        let wanted = KINDS.iter().filter(|(kind, _)| prefix.is_none_or(|prefix| prefix == *kind));
        let found = wanted.filter_map(|(kind, show)| Some((*kind, show(name)?)));
        let found = found.map(|(kind, shown)| Ok((kind, shown?))).collect::<Result<Vec<_>, Failure>>()?;
        if found.is_empty() {
            return Err(unknown(prefix, name));
        }
        if output.is_json() {
            let things = found.into_iter().map(|(kind, shown)| shown.document(kind)).collect::<Vec<_>>();
            output.document(&json!({ "schema": "weir.show/1", "name": name, "things": things }));
        } else {
            output.data(&found.into_iter().map(|(_, shown)| shown.text).collect::<Vec<_>>().join("\n"));
        }
        Ok(())
    }
}

impl Shown {
    fn of(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// A table, whose rows programs find under `name`.
    fn of_table(table: &Table, name: &str) -> Self {
        Self::of(table.to_text()).with(name, rows(table))
    }

    fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.fields.insert(name.to_owned(), value.into());
        self
    }

    fn and(mut self, text: &str) -> Self {
        self.text += text;
        self
    }

    fn document(self, kind: &str) -> Value {
        let own = [("kind".to_owned(), kind.into()), ("text".to_owned(), self.text.into())];
        Value::Object(own.into_iter().chain(self.fields).collect())
    }
}

/// The rows of a table, each with its cells by the name of their column.
fn rows(table: &Table) -> Vec<Value> {
    let key = |name: &str| name.replace(' ', "_");
    let row = |row: &Vec<String>| {
        let cells =
            table.columns.iter().zip(row).map(|(column, cell)| (key(&column.name), cell.as_str().into()));
        Value::Object(cells.collect())
    };
    table.rows.iter().map(row).collect()
}

/// A machine or a medium as a file of its own.
fn as_file(kind: Option<&str>, name: &str) -> Result<String, Failure> {
    let is = |other: &str| kind.is_none_or(|kind| kind == other);
    if is("machine")
        && let Some(shown) = machine(name)
    {
        shown?;
        return Ok(MachinePreset::load(name)?.to_toml());
    }
    if is("medium")
        && let Ok(ssd) = SsdModel::parse(name)
    {
        return Ok(ssd.to_toml());
    }
    match Medium::parse(name) {
        Ok(medium) if is("medium") => Ok(medium.to_toml()),
        _ if kind.map_or_else(|| knows(name), |kind| names(kind).contains(&name)) => {
            Err(Failure::usage(format!(
                "--toml: {name} is no machine, no memory and no SSD, which alone are files that --machine and --medium take"
            )))
        }
        _ => Err(unknown(kind, name)),
    }
}

/// Whether a design, medium, suite, workload, plan, paper, machine or processor is called so.
pub(crate) fn knows(name: &str) -> bool {
    KINDS.iter().any(|(kind, _)| names(kind).contains(&name))
}

fn unknown_kind(kind: &str) -> Failure {
    let advice = document::nearest(kind, KINDS.iter().map(|(known, _)| *known));
    Error::Unknown { what: "kind", name: kind.to_owned(), advice }.into()
}

fn unknown(prefix: Option<&str>, name: &str) -> Failure {
    if let Some((kind, _)) = KINDS.iter().find(|(kind, _)| *kind == name) {
        return Failure::usage(format!("weir show {kind}: give a name as well; `weir list` prints all"));
    }
    let kind = KINDS.iter().find(|(kind, _)| Some(*kind) == prefix).map(|(kind, _)| *kind);
    let known = KINDS.iter().filter(|(other, _)| kind.is_none_or(|kind| kind == *other));
    let advice = match document::nearest(name, known.flat_map(|(kind, _)| names(kind))) {
        near if near.starts_with("did") => near,
        _ => "`weir list` prints all names".to_owned(),
    };
    let what = kind.unwrap_or("design, medium, workload, plan, paper, machine or processor");
    Error::Unknown { what, name: name.to_owned(), advice }.into()
}

/// The names of a kind.
fn names(kind: &str) -> Vec<&'static str> {
    let of = |presets: &[Preset]| presets.iter().map(|preset| preset.name).collect();
    match kind {
        "fs" => fs::all().map(design::Design::name).collect(),
        "medium" => {
            let ssds = PRESETS.iter().map(|(name, _)| *name).chain(BlockModel::names());
            media::medium::names().into_iter().chain(ssds).collect()
        }
        "suite" => workload::SUITES.iter().map(|suite| suite.name()).collect(),
        "workload" => suite::all().map(|(_, entry)| entry.name).collect(),
        "plan" => of(PLANS),
        "paper" => of(PAPERS),
        "processor" => archsim::machine::list().into_iter().map(|(name, _)| name).collect(),
        _ => of(MACHINES),
    }
}

fn design(name: &str) -> Option<Result<Shown, Failure>> {
    if name == DEVICE {
        let (needs, promises, summary) = OF_DEVICE;
        let text = format!("{DEVICE}: {summary}\n    needs: {needs}\n    promises: {promises}\n");
        let shown = Shown::of(text).with("summary", summary).with("options", Vec::<Value>::new());
        return Some(Ok(shown.with("needs", needs).with("promises", promises)));
    }
    let design = fs::by_name(name)?;
    let mut table = Table::new(format!("{} (design): {}", design.name(), design.summary()));
    for column in ["option", "takes", "default", "what it does"] {
        table.words(column);
    }
    for option in design.options() {
        let does = format!("{}: {}", option.when, option.help);
        table.rows.push([option.name, &takes(option.kind), option.default, &does].map(str::to_owned).into());
    }
    let mut shown = Shown::of_table(&table, "options");
    if table.rows.is_empty() {
        shown.text = format!("{} (design): {}\n  it has no options\n", design.name(), design.summary());
    }
    let shown = with_defaults(shown.with("summary", design.summary()), design);
    let shown = named_lines(shown, ("counts in results", "counts"), &counts(design));
    Some(Ok(named_lines(shown, ("parts for weir dump", "parts"), &parts(design))))
}

/// What it needs and promises when no option is given, and what it takes of the host's memory.
fn with_defaults(shown: Shown, design: &dyn Design) -> Shown {
    let options = design::Options::defaults(design.options());
    if let Some(why) = design.without_image() {
        let (needs, promises) = ("the virtual clock", "nothing: it has no image");
        let text = format!("    needs: {needs}\n    promises: {promises}\n  {why}\n");
        return shown
            .and(&text)
            .with("needs", needs)
            .with("promises", promises)
            .with("dram", "what its files take");
    }
    let (needs, promises) = (design.format().needs(&options), design.promises(&options));
    let (small, large) = (Bytes::gib(1), Bytes::gib(2));
    let (dram, grown) = (design.dram(&options, small), design.dram(&options, large));
    let dram =
        if dram == grown { dram.to_string() } else { format!("{dram} of each {small} of its storage") };
    shown
        .and(&format!(
            "  with default options\n    needs: {needs}\n    promises: {promises}\n    DRAM for data: {dram}\n"
        ))
        .with("needs", needs.to_string())
        .with("promises", promises.to_string())
        .with("dram", dram)
}

fn parts(design: &dyn Design) -> Vec<(String, String)> {
    design
        .format()
        .dump_parts()
        .iter()
        .map(|(part, shows)| ((*part).to_owned(), (*shows).to_owned()))
        .collect()
}

fn counts(design: &dyn Design) -> Vec<(String, String)> {
    let unit =
        |count: &Count| if count.unit().is_empty() { String::new() } else { format!("{}: ", count.unit()) };
    let line = |count: &&Count| (count.name().to_owned(), unit(count) + count.meaning());
    design.counts().iter().map(line).collect()
}

/// Names with a line about each, under a heading; none of it where there are none.
fn named_lines(shown: Shown, (heading, field): (&str, &str), lines: &[(String, String)]) -> Shown {
    if lines.is_empty() {
        return shown.with(field, Vec::<Value>::new());
    }
    let text: Vec<_> = lines.iter().map(|(name, about)| format!("    {name}: {about}\n")).collect();
    let document = lines.iter().map(|(name, about)| json!({ "name": name, "about": about }));
    shown.and(&format!("  {heading}\n{}", text.concat())).with(field, document.collect::<Vec<_>>())
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

fn medium(name: &str) -> Option<Result<Shown, Failure>> {
    let Ok(medium) = Medium::parse(name) else { return block_device(name).map(Ok) };
    let mut table = Table::new(format!("{} (medium): {}", medium.name(), medium.summary()));
    for column in ["parameter", "value", "source"] {
        table.words(column);
    }
    for parameter in medium.parameters() {
        let row = vec![parameter.name.to_owned(), parameter.value.to_string(), parameter.source.clone()];
        table.rows.push(row);
    }
    let shown = Shown::of_table(&table, "parameters").with("summary", medium.summary());
    match medium.build() {
        Ok(_) => Some(Ok(with_memory(shown, memory_model::sentence_of_medium(&medium)))),
        // The name alone asks what there is to give.
        Err(error) if name == medium.name() => {
            Some(Ok(shown.and(&format!("without parameters it cannot be used: {error}\n"))))
        }
        Err(error) => Some(Err(Failure::usage(error.to_string()))),
    }
}

/// A block device: an SSD with its parameters, or the RAM disk.
fn block_device(name: &str) -> Option<Shown> {
    let Ok(model) = SsdModel::parse(name) else {
        let model = BlockModel::parse(name).ok()?;
        let shown = Shown::of(format!("{} (block device): {}\n", model.name(), model.summary()));
        return Some(shown.with("summary", model.summary()));
    };
    let mut table = Table::new(format!("{} (block device, an SSD): {}", model.name(), model.summary()));
    for column in ["parameter", "value", "source"] {
        table.words(column);
    }
    let row = |param: &Param| vec![param.name.to_owned(), param.value.to_string(), param.source.clone()];
    table.rows = model.parameters().iter().map(row).collect();
    let shown = Shown::of_table(&table, "parameters").with("summary", model.summary());
    let simulated = model.config().map_or_else(|error| Some(error.to_string()), |config| config.geometry());
    Some(match simulated {
        Some(simulated) => shown.and(&format!("  {simulated}\n")).with("simulated", simulated),
        None => shown,
    })
}

fn suite(name: &str) -> Option<Result<Shown, Failure>> {
    let suite = suite::by_name(name)?;
    let mut workloads = Table::new(format!("{name} (suite): {}", suite.summary()));
    for column in ["workload", "what it does"] {
        workloads.words(column);
    }
    workloads.rows =
        suite.entries().iter().map(|entry| vec![entry.name.into(), entry.summary.into()]).collect();
    let shown = Shown::of_table(&workloads, "workloads").with("summary", suite.summary());
    let switches = switches(suite);
    if switches.rows.is_empty() {
        return Some(Ok(shown.with("switches", rows(&switches))));
    }
    Some(Ok(shown.and(&format!("\n{}", switches.to_text())).with("switches", rows(&switches))))
}

fn switches(suite: &dyn Suite) -> Table {
    let mut table = Table::new("switches that reproduce behaviour of the original");
    for column in ["switch", "default", "when it is on"] {
        table.words(column);
    }
    for switch in suite.switches() {
        let default = if switch.default { "on" } else { "off" };
        table.rows.push([switch.name, default, switch.help].map(str::to_owned).into());
    }
    table
}

fn workload(name: &str) -> Option<Result<Shown, Failure>> {
    match suite::find(name) {
        Some((suite, entry)) => Some(workload_text(suite, entry)),
        None => of_simulator(name).map(Ok),
    }
}

/// A program of the processor simulator, or a stream of requests to an SSD.
fn of_simulator(name: &str) -> Option<Shown> {
    let program = archsim::workload::WORKLOADS.iter().find(|known| format!("archsim/{}", known.name) == name);
    let stream = STREAMS.iter().find(|(known, ..)| format!("requests/{known}") == name);
    let (summary, variables): (&str, &[&str]) = match (program, stream) {
        (Some(program), _) => (program.summary, &["timeline"]),
        (_, Some((_, variables, summary))) => (summary, variables),
        (None, None) => return None,
    };
    let needs = if program.is_some() { "scheme = [\"fwb\"]" } else { "fs = [\"ssd\"]" };
    let text = format!(
        "{name} (workload): {summary}\n  in a plan with [[axis]] {needs}\n  variables: {}\n",
        variables.join(", ")
    );
    Some(Shown::of(text).with("summary", summary).with("variables", variables.to_vec()))
}

fn workload_text(suite: &dyn Suite, entry: Entry) -> Result<Shown, Failure> {
    let name = suite::full_name(suite, entry);
    let title = format!("{name} (workload): {}", entry.summary);
    let source = suite.describe(entry.name).unwrap_or_default();
    let shown = match suite.load(entry.name, &Settings::default()) {
        Ok(workload) => {
            let mut table = Table::new(title);
            for column in ["variable (-D)", "value"] {
                table.words(column);
            }
            table.rows = workload.variables().into_iter().map(|(name, value)| vec![name, value]).collect();
            Shown::of_table(&table, "variables")
        }
        Err(LoadError::Host(lacks)) => Shown::of(format!("{title}\n  lacks: {lacks}\n")).with("lacks", lacks),
        Err(error) => return Err(Failure::usage(error.to_string())),
    };
    Ok(shown.with("summary", entry.summary).and(&format!("\n{source}")).with("source", source))
}

fn plan(name: &str) -> Option<Result<Shown, Failure>> {
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
fn plan_text(name: &str, plan: &Plan, text: &str) -> Result<Shown, Failure> {
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
    let keys = plan
        .processor
        .iter()
        .map(|(key, value)| row(format!("processor {key}"), value.clone(), "[processor]"));
    table.rows.extend(keys);
    let expected = plan.expect.iter().map(|one| row("expected".to_owned(), one.to_string(), "[expect]"));
    table.rows.extend(expected);
    let cells = match plan.cells() {
        Ok(cells) => format!("{}, {} runs of each", cells.len(), plan.repeats),
        Err(Error::Host(lacks)) => format!("not known: {lacks}"),
        Err(error) => return Err(error.into()),
    };
    table.rows.push(row("cells".to_owned(), cells, "worked out"));
    let shown = Shown::of_table(&table, "values").with("plan", document);
    Ok(shown.and(&format!("\n{text}")).with("source", text))
}

fn paper(name: &str) -> Option<Result<Shown, Failure>> {
    PAPERS.iter().find(|preset| preset.name == name)?;
    Some(Paper::load(name).map(|paper| paper_text(&paper)).map_err(Failure::from))
}

fn paper_text(paper: &Paper) -> Shown {
    let mut table = Table::new(format!("{} (paper): {}", paper.name, paper.paper));
    for column in ["claim", "origin", "published", "band", "says"] {
        table.words(column);
    }
    for claim in &paper.claims {
        let published = claim.claim.published.map_or_else(String::new, |value| value.to_string());
        let band = format!("{} to {}", claim.claim.low, claim.claim.high);
        let mut says = claim.claim.says.clone();
        if !claim.needs.is_empty() {
            let _ = write!(says, " (needs {})", claim.needs.join(", "));
        }
        if !claim.uncounted.is_empty() {
            let mark = if claim.claim.fitted { "fitted" } else { "a constant" };
            let _ = write!(says, " ({mark}: {})", claim.uncounted);
        }
        if claim.claim.input == Input::Generated {
            says += " (on generated input)";
        }
        if !claim.unbuilt.is_empty() {
            let _ = write!(says, " (not measured: {})", claim.unbuilt);
        }
        let origin = claim.claim.origin.word().to_owned();
        table.rows.push(vec![claim.claim.id.clone(), origin, published, band, says]);
    }
    Shown::of_table(&table, "claims").with("paper", paper.paper.clone())
}

fn machine(name: &str) -> Option<Result<Shown, Failure>> {
    // Costs may be set after the name.
    let base = name.split(',').next().unwrap_or(name);
    let known = MACHINES.iter().any(|preset| preset.name == base) || base == lab::machine::THIS_HOST;
    // A medium and a plan may be in such a file as well: only a machine has a shape.
    let text = || std::fs::read_to_string(base).unwrap_or_default();
    let is_file = Path::new(base).extension().is_some_and(|ending| ending == "toml");
    if !(known || is_file && text().contains("[shape]")) {
        return None;
    }
    Some(MachinePreset::load(name).map(|preset| machine_text(&preset)).map_err(Failure::from))
}

/// A simulated processor.
fn processor(name: &str) -> Option<Result<Shown, Failure>> {
    let known = archsim::machine::list().iter().any(|(known, _)| *known == name);
    // A medium, plan or machine may be in such a file as well: only a processor's parameters are keys of processors.
    let is_file = Path::new(name).extension().is_some_and(|ending| ending == "toml");
    match Machine::load(name) {
        Err(_) if !(known || is_file && lacks_other_kinds(name)) => None,
        machine => Some(machine.map(|machine| processor_text(&machine)).map_err(Failure::from)),
    }
}

/// Whether a file is neither a plan, nor a machine, nor the preset of a medium.
fn lacks_other_kinds(name: &str) -> bool {
    let text = std::fs::read_to_string(name).unwrap_or_default();
    !text.is_empty() && ["[plan]", "[shape]", "model ="].iter().all(|mark| !text.contains(mark))
}

fn processor_text(machine: &Machine) -> Shown {
    let mut table = Table::new(format!("{} (processor): {}", machine.name, machine.summary));
    for column in ["key", "value", "what it is", "source"] {
        table.words(column);
    }
    for (key, (name, value)) in KEYS.iter().zip(machine.entries()) {
        let source = machine.sources.get(name).cloned().unwrap_or_default();
        table.rows.push(vec![name.to_owned(), value, key.summary.to_owned(), source]);
    }
    Shown::of_table(&table, "values").with("summary", machine.summary.clone())
}

/// With what pages say of a memory under load.
fn with_memory(shown: Shown, sentence: Option<String>) -> Shown {
    match sentence {
        Some(sentence) => shown.and(&wrapped(&sentence)).with("memory", sentence),
        None => shown,
    }
}

fn machine_text(preset: &MachinePreset) -> Shown {
    let mut table = Table::new(format!("{} (machine): {}", preset.machine.name, preset.summary));
    for column in ["key", "value", "source"] {
        table.words(column);
    }
    for value in preset.medium.iter().chain(&preset.values) {
        table.rows.push(vec![value.key.to_owned(), value.value.clone(), value.source.clone()]);
    }
    let shown = Shown::of_table(&table, "values").with("summary", preset.summary.clone());
    with_memory(shown, memory_model::sentence_of_machine(preset))
}
