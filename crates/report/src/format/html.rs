//! One self-contained HTML page: opens offline, needs no script, follows the reader's light or dark theme.
//!
//! The page is `templates/page.html` with `templates/style.css` inside it, filled from [`Page`]. Charts are
//! inline SVG; every one has a text alternative and its numbers in a table under it. Wide tables scroll in
//! their own box, which the keyboard reaches, so the page itself never scrolls sideways.

use super::{Format, RenderError};
use crate::chart::{self, Curves, Palette};
use crate::claims::{self, Standing};
use crate::figure::{Figure, Kind, Panel};
use crate::spread::{self, Charts, ON_PAGE, Origin};
use crate::table::Table;
use crate::why::Why;
use crate::{
    Report, Section, answer, characterize, dies, jobs, prices, readings, replay, robust, scaling, standing,
    summary, trust,
};
use askama::Template;
use results::{Clock, ResultFile};
use std::collections::BTreeMap;

pub(super) struct Html;

impl Format for Html {
    fn name(&self) -> &'static str {
        "html"
    }

    fn extension(&self) -> &'static str {
        "html"
    }

    fn summary(&self) -> &'static str {
        "one page with charts, readable offline and without script"
    }

    fn bytes(&self, report: &Report) -> Result<Vec<u8>, RenderError> {
        Ok(Page::new(report).render()?.into_bytes())
    }
}

/// What the template shows.
#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    title: String,
    patterns: String,
    sections: Vec<PageSection>,
    /// Whether the page needs a table of contents.
    many: bool,
    /// How far to believe modelled times; none where no clock was modelled.
    trust: Option<Table>,
}

/// One result on the page.
struct PageSection {
    id: String,
    heading: String,
    why: String,
    answer: String,
    /// Why the winner of each workload is faster.
    because: Vec<String>,
    fixed: String,
    notes: Vec<String>,
    figures: Vec<PageFigure>,
    tables: Vec<Table>,
    origins: Vec<Origin>,
    /// The file with the result, beside the page.
    file: String,
    hypotheses: Option<Table>,
    claims: Vec<PageClaim>,
    /// The specification curve and its tables.
    readings: Option<PageReadings>,
    facts: Vec<(String, String)>,
    command: String,
    /// Values of machine and media, with their sources.
    sources: Option<Table>,
    plan: String,
}

/// One figure on the page, or the reason why it is missing.
#[derive(Default)]
pub(crate) struct PageFigure {
    pub(crate) id: String,
    pub(crate) title: String,
    /// What may be concluded from it, in sentences.
    pub(crate) says: Vec<String>,
    pub(crate) caption: String,
    pub(crate) legend: Vec<(String, String)>,
    pub(crate) panels: Vec<PagePanel>,
    /// Whether panels stand below one another.
    pub(crate) stacked: bool,
    /// Many more, which are folded up.
    pub(crate) behind: Vec<PagePanel>,
    pub(crate) table: Table,
    pub(crate) error: String,
}

pub(crate) struct PagePanel {
    pub(crate) title: String,
    pub(crate) drawings: Vec<String>,
    /// What holds its lines back; may be empty.
    pub(crate) limits: String,
}

struct PageReadings {
    legend: Vec<(String, String)>,
    drawings: Vec<String>,
    curve: Table,
    classes: Table,
    values: Table,
}

struct PageClaim {
    id: String,
    figure: String,
    paper: String,
    /// What it says, and who said it where that is not the paper.
    kind: String,
    says: String,
    published: String,
    band: String,
    measured: String,
    verdict: String,
    key: &'static str,
    reason: String,
}

impl Page {
    fn new(report: &Report) -> Self {
        let mut palette = Palette::default();
        let built: Vec<Vec<_>> = report.sections.iter().map(|section| build(section, &mut palette)).collect();
        let sections = report.sections.iter().zip(built).enumerate();
        let section = |(at, (section, figures)): (usize, (&Section, _))| {
            page_section(at, section, figures, (&palette, report.file_of(&section.results)))
        };
        let sections: Vec<PageSection> = sections.map(section).collect();
        let names: Vec<&str> = report.sections.iter().map(|s| s.results.name.as_str()).collect();
        let modelled = report.sections.iter().any(|section| section.results.clock == Clock::Virtual);
        Self {
            title: names.join(", "),
            patterns: chart::patterns(),
            many: sections.len() > 1,
            trust: modelled.then(trust::table),
            sections,
        }
    }
}

/// Of how many workloads the page draws why their winner is faster; of more it has the sentences.
const MOST_WHYS: usize = 2;

type Built = Result<Figure, String>;

/// The section's figures filled with data; each name gets its look on the page.
fn build(section: &Section, palette: &mut Palette) -> Vec<Built> {
    let build = |spec| Figure::build(spec, &section.results).map_err(|error| error.to_string());
    let figures: Vec<Built> = section.figures.iter().map(build).collect();
    for figure in figures.iter().flatten() {
        figure.series.iter().for_each(|name| palette.add(figure.kind, name));
    }
    for figure in answer::whys(&section.results).iter().map(Why::figure) {
        figure.series.iter().for_each(|name| palette.add(figure.kind, name));
    }
    let charts = [spread::latencies(&section.results, ON_PAGE), spread::over_time(&section.results, ON_PAGE)];
    for (name, _) in charts.into_iter().flat_map(|charts| charts.drawn).flat_map(|curves| curves.lines) {
        palette.add(Kind::Lines, &name);
    }
    for chart in characterize::drawn(&section.results) {
        chart.bars.series.iter().for_each(|name| palette.add(Kind::Bars, name));
        let systems = chart.points.iter().flat_map(|chart| &chart.systems);
        systems.for_each(|(name, _)| palette.add(Kind::Lines, name));
    }
    figures
}

fn page_section(
    at: usize,
    section: &Section,
    figures: Vec<Built>,
    (palette, file): (&Palette, String),
) -> PageSection {
    let results = &section.results;
    let id = format!("r{}", at + 1);
    let figures = section.figures.iter().zip(figures).enumerate();
    let whys = answer::whys(results);
    let shown = if whys.len() <= MOST_WHYS { &whys[..] } else { &[] };
    PageSection {
        heading: heading(results),
        why: results.why.clone(),
        answer: [replay::lacks(results), answer::sentences(results)].concat().join(" "),
        because: whys.iter().map(Why::sentence).chain(replay::best(results, &BTreeMap::new())).collect(),
        fixed: summary::fixed_axes(results).join(" "),
        notes: summary::notes(results),
        figures: shown
            .iter()
            .enumerate()
            .map(|(n, why)| page_figure(format!("{id}-why{}", n + 1), &why.figure(), palette))
            .chain(figures.map(|(n, (spec, built))| match built {
                Ok(figure) => page_figure(format!("{id}-f{}", n + 1), &figure, palette),
                Err(error) => missing(format!("{id}-f{}", n + 1), spec.title.clone(), error),
            }))
            .chain(dies_figure(&id, results))
            .chain(spreads(&id, results, palette))
            .chain(characterized(&id, results, palette))
            .collect(),
        origins: spread::origins(results, &file),
        file,
        tables: standing::tables(results)
            .into_iter()
            .chain(summary::tables(results))
            .chain(scaling::tables(results, &BTreeMap::new()))
            .chain(jobs::tables(results))
            .chain(prices::table(results))
            .chain(robust::table(results))
            .chain(characterize::availability(results))
            .chain(shown.iter().map(|why| why.tables()[1].clone()))
            .collect(),
        hypotheses: (!results.hypotheses.is_empty()).then(|| summary::hypotheses(&results.hypotheses)),
        claims: results.claims.iter().map(page_claim).collect(),
        readings: page_readings(&results.claims),
        facts: summary::environment(results),
        command: results.command.clone(),
        sources: trust::sources(results),
        plan: plan_text(results),
        id,
    }
}

/// The plan's name; a run from the command line, whose plan has none of its own, is called by what it ran.
fn heading(results: &ResultFile) -> String {
    let workloads = results.axis_values("workload");
    match (results.name.as_str(), &workloads[..]) {
        ("bench", [only]) => format!("bench {only}"),
        ("bench", [first, .., last]) => format!("bench {first} to {last}"),
        (name, _) => name.to_owned(),
    }
}

/// What a page shows of every result besides the figures of its plan.
fn spreads(id: &str, results: &ResultFile, palette: &Palette) -> Vec<PageFigure> {
    let latencies = "Part of the operations that took at most the time on the x axis, up to the 99.99th percentile, for the \
                     kinds that take the most time. Latency is from call to return.";
    let rates = "Calls that ended in each hundredth of the measured time, in the first run of each cell.";
    [
        curves(
            (format!("{id}-latency"), "Latency of each kind of operation", latencies),
            &spread::latencies(results, ON_PAGE),
            spread::percentiles(results),
            palette,
        ),
        curves(
            (format!("{id}-time"), "Calls over time", rates),
            &spread::over_time(results, ON_PAGE),
            spread::over_time_table(results),
            palette,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Which events go with throughput, and the points behind each coefficient; none where no events were counted.
fn characterized(id: &str, results: &ResultFile, palette: &Palette) -> Vec<PageFigure> {
    let drawn = characterize::drawn(results);
    drawn
        .into_iter()
        .enumerate()
        .map(|(at, drawn)| correlation(format!("{id}-events{}", at + 1), drawn, palette))
        .collect()
}

fn correlation(id: String, drawn: characterize::Drawn, palette: &Palette) -> PageFigure {
    let key = |kind, name: &String| (chart::legend_key(kind, palette.look(kind, name)), name.clone());
    let mut systems: Vec<&String> = Vec::new();
    for (name, _) in drawn.points.iter().flat_map(|chart| &chart.systems) {
        if !systems.contains(&name) {
            systems.push(name);
        }
    }
    let bars = drawn.bars.series.iter().map(|name| key(Kind::Bars, name));
    let legend = bars.chain(systems.into_iter().map(|name| key(Kind::Lines, name))).collect();
    let panel =
        |title: &str, drawings| PagePanel { title: title.to_owned(), drawings, limits: String::new() };
    let points = drawn.points.iter().map(|chart| panel(&chart.title, chart::scatter(chart, palette)));
    PageFigure {
        id,
        title: drawn.title,
        says: drawn.says,
        caption: "Bars: the coefficient of a rate of events and throughput over all samples of a workload, with its standard \
                  error. Where the points behind one lie in a cluster for each system, it says how systems differ, not what a \
                  system does."
            .to_owned(),
        legend,
        behind: points.collect(),
        panels: vec![panel("", chart::coefficient_bars(&drawn.bars, palette))],
        table: drawn.table,
        ..PageFigure::default()
    }
}

/// Which page lies on which die; none where no cell says so.
fn dies_figure(id: &str, results: &ResultFile) -> Option<PageFigure> {
    let pictures = dies::pictures(results, ON_PAGE);
    let panel = |picture: &dies::Picture<'_>| PagePanel {
        title: picture.title.clone(),
        drawings: vec![chart::dies::draw(picture)],
        limits: String::new(),
    };
    (!pictures.is_empty()).then(|| PageFigure {
        id: format!("{id}-dies"),
        title: "Which page of the file lies on which die".to_owned(),
        caption: "The beginning of the file, four stripes of it. Pages that go round the dies are read at once; pages on one die \
                  are read one after the other."
            .to_owned(),
        legend: chart::dies::legend(),
        panels: pictures.iter().map(panel).collect(),
        table: dies::table(&pictures),
        ..PageFigure::default()
    })
}

/// A figure of curves; none where nothing was recorded for it.
fn curves(
    (id, title, caption): (String, &str, &str),
    Charts { drawn: charts, left_out }: &Charts,
    table: Table,
    palette: &Palette,
) -> Option<PageFigure> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in charts.iter().flat_map(|chart| &chart.lines) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let key =
        |name: &&String| (chart::legend_key(Kind::Lines, palette.look(Kind::Lines, name)), (*name).clone());
    let panel = |curves: &Curves| PagePanel {
        title: curves.title.clone(),
        drawings: chart::draw_curves(curves, palette, charts.len() == 1),
        limits: String::new(),
    };
    let more = match left_out {
        0 => String::new(),
        more => format!(" {more} more charts are left out; their numbers are in the table."),
    };
    (!charts.is_empty()).then(|| PageFigure {
        id,
        title: title.to_owned(),
        caption: format!("{caption}{more}"),
        legend: names.iter().map(key).collect(),
        panels: charts.iter().map(panel).collect(),
        table,
        ..PageFigure::default()
    })
}

/// A figure with its drawings.
pub(crate) fn page_figure(id: String, figure: &Figure, palette: &Palette) -> PageFigure {
    let panel = |panel: &Panel| PagePanel {
        title: panel.title.clone(),
        drawings: chart::draw(figure, panel, palette),
        limits: limits(figure, panel),
    };
    PageFigure {
        id,
        title: figure.title.clone(),
        caption: caption(figure),
        legend: legend(figure, palette),
        panels: figure.panels.iter().map(panel).collect(),
        stacked: chart::is_stacked(figure),
        table: figure.table(),
        ..PageFigure::default()
    }
}

/// What limits the scaling of the lines of a panel, in a sentence; lines with the same limit together.
fn limits(figure: &Figure, panel: &Panel) -> String {
    let mut each: Vec<(&String, Vec<&str>)> = Vec::new();
    for (series, limit) in &panel.limits {
        let series = figure.series[*series].as_str();
        match each.iter_mut().find(|(other, _)| *other == limit) {
            Some((_, lines)) => lines.push(series),
            None => each.push((limit, vec![series])),
        }
    }
    let each = each.iter().map(|(limit, lines)| format!("{}: {limit}", lines.join(", ")));
    let each = each.collect::<Vec<_>>().join("; ");
    if each.is_empty() {
        return each;
    }
    format!("What limits scaling, by its share of the time with the most threads: {each}.")
}

fn caption(figure: &Figure) -> String {
    let scales = figure.panels.len() > 1 && !matches!(figure.kind, Kind::Bars | Kind::Classes);
    let note = if scales { "Each chart has its own scale." } else { "" };
    [figure.caption.as_str(), note].join(" ").trim().to_owned()
}

fn legend(figure: &Figure, palette: &Palette) -> Vec<(String, String)> {
    let key = |name: &String| (chart::legend_key(figure.kind, palette.look(figure.kind, name)), name.clone());
    let named = !matches!(figure.kind, Kind::Heat | Kind::Classes);
    let mut legend: Vec<_> = figure.series.iter().filter(|_| named).map(key).collect();
    if figure.has_published() {
        legend.push((chart::published_key(), "published value and band".to_owned()));
    }
    legend
}

fn missing(id: String, title: String, error: String) -> PageFigure {
    PageFigure { id, title, error, ..PageFigure::default() }
}

fn page_readings(claims: &[results::ClaimOutcome]) -> Option<PageReadings> {
    let points = readings::curve(claims);
    (!points.is_empty()).then(|| PageReadings {
        legend: chart::curve::legend(),
        drawings: chart::curve::draw(&points),
        curve: readings::curve_table(claims),
        classes: readings::classes(claims),
        values: readings::values(claims),
    })
}

fn page_claim(claim: &results::ClaimOutcome) -> PageClaim {
    let standing = Standing::of(claim);
    PageClaim {
        id: claim.id.clone(),
        figure: claim.figure.clone(),
        paper: claim.paper.clone(),
        kind: claims::kind(claim),
        says: claim.says.replace(" %", "\u{a0}%"),
        published: claims::published(claim),
        band: claims::band(claim),
        measured: claims::measured(claim),
        verdict: claims::verdict(claim),
        key: standing.key(),
        reason: claim.reason.iter().chain(&claim.contradicted).cloned().collect::<Vec<_>>().join("; "),
    }
}

/// The resolved plan as people write plans; as JSON if it cannot be said in TOML.
fn plan_text(results: &ResultFile) -> String {
    toml::to_string_pretty(&results.plan).unwrap_or_else(|_| {
        serde_json::to_string_pretty(&results.plan).expect("a JSON value has string keys only")
    })
}
