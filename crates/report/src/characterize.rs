//! Which events of processors go with throughput: tables, sentences and drawings for results whose samples have counted events.
//!
//! What a point is and which are pooled says `results::relation`. Points of one run, where it was long enough, are in a table of
//! their own: they follow each other in time.

use results::correlation::{self, Correlation, Disagreement, correlate_in_time};
use results::event_rates::{EventKind, KINDS, Per, Source};
use results::relation::{Relation, relations};
use results::{EventCounts, ResultFile, Sample};
use serde_json::{Value, json};

use crate::chart::{Coefficients, Scatter};
use crate::table::Table;

const WORKLOAD: &str = "workload";
/// A coefficient whose corrected chance is larger is one that chance may have made.
const CHANCE: f64 = 0.05;

/// Whether samples of the result have counted events.
pub fn has_events(results: &ResultFile) -> bool {
    results.samples.iter().any(|sample| sample.events.is_some())
}

/// All tables: what was counted, which events go with throughput, and how they go within one run.
pub fn tables(results: &ResultFile) -> Vec<Table> {
    let relations = relations(results);
    let of = |source, per| table(&relations, source, per);
    let pairs = Source::ALL.into_iter().flat_map(|source| Per::ALL.map(|per| (source, per)));
    availability(results)
        .into_iter()
        .chain(pairs.filter_map(|(source, per)| of(source, per)))
        .chain(within(results))
        .collect()
}

/// The events that were asked for: on how many samples each was counted, or why not; those that are alike together.
pub(crate) fn availability(results: &ResultFile) -> Option<Table> {
    let mut events: Vec<(&str, usize, &str)> = Vec::new();
    for sample in &results.samples {
        for event in sample.events.iter().flat_map(|events| &events.events) {
            let counted = usize::from(sample.counters.contains_key(&event.name));
            let why = event.missing.as_deref().unwrap_or_default();
            match events.iter_mut().find(|known| (known.0, known.2) == (event.name.as_str(), why)) {
                Some(known) => known.1 += counted,
                None => events.push((&event.name, counted, why)),
            }
        }
    }
    let mut rows: Vec<(Vec<&str>, usize, &str)> = Vec::new();
    for (name, counted, why) in events {
        match rows.iter_mut().find(|row| (row.1, row.2) == (counted, why)) {
            Some(row) => row.0.push(name),
            None => rows.push((vec![name], counted, why)),
        }
    }
    let first = results.samples.iter().find_map(|sample| sample.events.as_ref())?;
    let mut table = Table::new(format!("Events{}", of_what(first)));
    table.numbers("samples");
    table.words("why not");
    table.words("events");
    let row = |(names, counted, why): (Vec<&str>, usize, &str)| {
        vec![counted.to_string(), why.to_owned(), names.join(", ")]
    };
    table.rows = rows.into_iter().map(row).collect();
    Some(table)
}

/// In words, what of the events that were asked for has no count, by reason; none where all have, or none were asked for.
pub fn uncounted(results: &ResultFile) -> Option<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for event in
        results.samples.iter().filter_map(|sample| sample.events.as_ref()).flat_map(|events| &events.events)
    {
        let Some(why) = event.missing.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) if names.contains(&event.name.as_str()) => {}
            Some((_, names)) => names.push(&event.name),
            None => reasons.push((why, vec![&event.name])),
        }
    }
    let told: Vec<String> =
        reasons.iter().map(|(why, names)| format!("{} ({why})", names.join(", "))).collect();
    (!told.is_empty()).then(|| format!("not counted: {}", told.join("; ")))
}

fn of_what(events: &EventCounts) -> String {
    let of =
        if events.of.is_empty() { String::new() } else { format!(" of the host's processor: {}", events.of) };
    let and = if of.is_empty() || events.simulated.is_empty() { "" } else { ";" };
    let simulated =
        if events.simulated.is_empty() { String::new() } else { format!(" simulated: {}", events.simulated) };
    format!("{of}{and}{simulated}")
}

fn called(source: Source) -> &'static str {
    match source {
        Source::Real => "counted by this host",
        Source::Simulated => "counted by a simulated processor",
    }
}

fn per_words(per: Per) -> &'static str {
    match per {
        Per::Access => "by access",
        Per::Instructions => "by 1,000 instructions",
        Per::Operation => "by operation",
    }
}

/// The coefficients of a source and a divisor; none where no sample has such a rate.
fn table(all: &[Relation<'_>], source: Source, per: Per) -> Option<Table> {
    let rows: Vec<&Relation<'_>> = all.iter().filter(|one| one.source == source && one.per == per).collect();
    let mut table =
        Table::new(format!("Which events go with throughput: {}, {}", called(source), per_words(per)));
    for name in ["workload", "event", "a rate is for"] {
        table.words(name);
    }
    for name in ["points", "r", "error", "95 % interval", "rank r", "chance"] {
        table.numbers(name);
    }
    for name in ["each system by itself", "remark"] {
        table.words(name);
    }
    table.rows = rows.iter().map(|one| row(one)).collect();
    (!rows.is_empty()).then_some(table)
}

fn row(one: &Relation<'_>) -> Vec<String> {
    let mut row = vec![one.workload.to_owned(), one.kind.title.to_owned()];
    row.push(one.kind.unit(one.source, one.per).to_owned());
    row.push(one.points().to_string());
    row.extend(numbers(one.pooled.as_ref(), one.chance));
    let each =
        one.coefficients().into_iter().map(|(name, own)| format!("{name} {}", coefficient(own.as_ref())));
    row.push(each.collect::<Vec<_>>().join(", "));
    row.push(remark(one));
    row
}

/// Coefficient, error, interval, ranks and chance; `n/a` where there is none.
fn numbers(of: Option<&Correlation>, chance: f64) -> Vec<String> {
    let Some(of) = of else { return vec!["n/a".to_owned(); 5] };
    vec![
        format!("{:.2}", of.r),
        format!("{:.3}", of.error),
        of.interval.map_or_else(|| "n/a".to_owned(), |(low, high)| format!("{low:.2} to {high:.2}")),
        format!("{:.2}", of.ranks),
        if chance < 0.0001 { "< 0.0001".to_owned() } else { format!("{chance:.4}") },
    ]
}

fn coefficient(of: Option<&Correlation>) -> String {
    of.map_or_else(|| "n/a".to_owned(), |of| format!("{:.2} ± {:.2}", of.r, of.error))
}

/// What must be known before the coefficient is read.
fn remark(one: &Relation<'_>) -> String {
    let mut remarks = Vec::new();
    let Some(pooled) = &one.pooled else {
        let few = one.points() < correlation::LEAST;
        return if few { "fewer than 4 points" } else { "a column never changes" }.to_owned();
    };
    if pooled.is_high() && one.chance <= CHANCE {
        remarks.push("highly correlated".to_owned());
    } else if pooled.error > correlation::SMALL_ERROR {
        remarks.push("error above 0.08".to_owned());
    }
    match correlation::disagreement(pooled, &one.coefficients()) {
        None => {}
        Some(Disagreement::Reversed(names)) => {
            remarks.push(format!("reversed by pooling: {} has the other sign", names.join(", ")));
        }
        Some(Disagreement::Between) => {
            remarks.push("only between systems: no system by itself shows it".to_owned());
        }
        Some(Disagreement::Hidden(names)) => {
            remarks.push(format!("hidden by pooling: {} by itself has a sign", names.join(", ")));
        }
    }
    if one.kind.unit(one.source, one.per).starts_with("a second") {
        remarks.push("a rate by time holds the throughput itself".to_owned());
    }
    remarks.join("; ")
}

/// Cells of which the windows are written out.
const MOST_WITHIN: usize = 24;

/// The coefficients within one run of each cell, where its parts were counted.
fn within(results: &ResultFile) -> Option<Table> {
    let mut table =
        Table::new("Within a run: parts of the first run of each cell, which follow each other in time");
    for name in ["cell", "event"] {
        table.words(name);
    }
    for name in ["parts", "independent", "r", "error", "95 % interval", "rank r", "chance"] {
        table.numbers(name);
    }
    let cells = crate::cell::cells(results);
    let varying = crate::cell::varying_axes(&cells);
    for cell in cells.iter().take(MOST_WITHIN) {
        let Some(sample) = cell.measured().next() else { continue };
        let words: Vec<&str> = varying.keys().filter_map(|name| cell.axis(name)).collect();
        for kind in KINDS {
            let points = in_windows(sample, kind);
            if points.is_empty() {
                continue;
            }
            let found = correlate_in_time(&points);
            let mut row = vec![words.join(" "), kind.title.to_owned(), points.len().to_string()];
            row.push(found.map_or_else(|| "n/a".to_owned(), |found| format!("{:.0}", found.independent)));
            row.extend(numbers(found.as_ref(), found.map_or(1.0, |found| found.chance)));
            table.rows.push(row);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

/// Rate by 1,000 instructions, or by call where instructions were not counted, and calls a second of each part of a run.
fn in_windows(sample: &Sample, kind: &EventKind) -> Vec<(f64, f64)> {
    let Some(windows) = sample.events.as_ref().and_then(|events| events.windows.as_ref()) else {
        return Vec::new();
    };
    let starts = std::iter::once(0).chain(windows.ends_ns.iter().copied());
    let parts = starts.zip(&windows.ends_ns).zip(&windows.calls).enumerate();
    parts
        .filter_map(|(at, ((start, end), calls))| {
            let count = |name: &str| Some(*windows.counts.get(name)?.get(at)? as f64);
            let rate = |per| kind.rate(Source::Real, per, *calls as f64, count);
            let rate = rate(Per::Instructions).or_else(|| rate(Per::Operation))?;
            Some((rate, results::record::throughput(*calls, end.saturating_sub(start))))
        })
        .collect()
}

/// What is said of a host without such counters, and of every coefficient.
const NO_MISSES: &str =
    "This host counts no misses of caches or TLBs, so that its own counters say nothing of them.";
const NOTHING: &str = "no event goes with throughput so closely, in all systems alike, that chance or a difference between \
                       systems is excluded";
const NO_CAUSE: &str = "A coefficient says that two columns go together in these samples; it does not say that one \
                        causes the other.";

/// What may be concluded, in sentences.
pub fn sentences(results: &ResultFile) -> Vec<String> {
    let all = relations(results);
    let mut sentences = Vec::new();
    for source in Source::ALL {
        let own: Vec<&Relation<'_>> = all.iter().filter(|one| one.source == source).collect();
        if own.is_empty() {
            continue;
        }
        for workload in results.axis_values(WORKLOAD) {
            let of_workload = own.iter().filter(|one| one.workload == workload).copied();
            sentences.push(sentence(workload, source, &of_workload.collect::<Vec<_>>()));
        }
    }
    let real = all.iter().any(|one| {
        one.source == Source::Real
            && one.kind.counter(Source::Real).is_some_and(|name| name.ends_with("_misses"))
    });
    if has_events(results) && !real {
        sentences.push(NO_MISSES.to_owned());
    }
    if !sentences.is_empty() {
        sentences.push(NO_CAUSE.to_owned());
    }
    sentences
}

/// What the relations of one source and divisor say: a sentence for each workload that shows something, and one for the others.
fn conclusions(all: &[&Relation<'_>]) -> Vec<String> {
    let mut workloads: Vec<&str> = Vec::new();
    for one in all {
        if !workloads.contains(&one.workload) {
            workloads.push(one.workload);
        }
    }
    let (mut says, mut silent) = (Vec::new(), Vec::new());
    for workload in workloads {
        let own = all.iter().filter(|one| one.workload == workload).copied();
        match &going_with(&own.collect::<Vec<_>>(), |_| String::new())[..] {
            [] => silent.push(workload),
            some => says.push(format!("{workload}: higher throughput goes with {}.", some.join(", "))),
        }
    }
    if !silent.is_empty() {
        says.push(format!("{}: {NOTHING}.", silent.join(", ")));
    }
    says.push(NO_CAUSE.to_owned());
    says
}

/// The events that go with throughput in all systems alike, in words, with what `per` says of their rates.
fn going_with(all: &[&Relation<'_>], per: impl Fn(Per) -> String) -> Vec<String> {
    let high = |one: &&&Relation<'_>| {
        let pooled = one.pooled.as_ref();
        pooled.is_some_and(|pooled| {
            pooled.is_high()
                && one.chance <= CHANCE
                && correlation::disagreement(pooled, &one.coefficients()).is_none()
        })
    };
    all.iter()
        .filter(high)
        .map(|one| {
            let r = one.pooled.as_ref().map_or(0.0, |pooled| pooled.r);
            let way = if r < 0.0 { "fewer" } else { "more" };
            format!("{way} {}{} (r {r:.2})", one.kind.title, per(one.per))
        })
        .collect()
}

/// What the relations of a workload say together.
fn sentence(workload: &str, source: Source, all: &[&Relation<'_>]) -> String {
    let told = going_with(all, |per| format!(" {}", per_words(per)));
    let who = match source {
        Source::Real => "this host's counters",
        Source::Simulated => "the simulated processor",
    };
    match &told[..] {
        [] => format!("{workload}, by {who}: {NOTHING}."),
        some => format!("{workload}, by {who}: higher throughput goes with {}.", some.join(", ")),
    }
}

/// The same as data: a coefficient for each workload, event, source and divisor, with the points behind it.
pub fn document(results: &ResultFile) -> Value {
    let relation = |one: &Relation<'_>| {
        let systems: serde_json::Map<String, Value> = one
            .systems
            .iter()
            .zip(&one.each)
            .map(|((name, points), own)| {
                ((*name).to_owned(), json!({ "points": points, "correlation": as_json(own.as_ref()) }))
            })
            .collect();
        json!({
            "workload": one.workload,
            "event": one.kind.title,
            "counter": one.kind.counter(one.source),
            "per": one.kind.unit(one.source, one.per),
            "correlation": as_json(one.pooled.as_ref()),
            "corrected_chance": one.pooled.map(|_| one.chance),
            "remark": remark(one),
            "systems": systems,
        })
    };
    json!({
        "name": results.name,
        "relations": relations(results).iter().map(relation).collect::<Vec<_>>(),
        "sentences": sentences(results),
    })
}

fn as_json(of: Option<&Correlation>) -> Value {
    of.map_or(Value::Null, |of| {
        json!({
            "points": of.points,
            "r": of.r,
            "error": of.error,
            "interval": of.interval.map(|(low, high)| [low, high]),
            "rank_r": of.ranks,
            "chance": of.chance,
        })
    })
}

/// A chart of coefficients and the points behind each, of one source and divisor.
pub(crate) struct Drawn {
    pub(crate) title: String,
    /// What may be concluded.
    pub(crate) says: Vec<String>,
    pub(crate) bars: Coefficients,
    pub(crate) points: Vec<Scatter>,
    pub(crate) table: Table,
}

/// The charts of a result; none where no events were counted.
pub(crate) fn drawn(results: &ResultFile) -> Vec<Drawn> {
    let all = relations(results);
    let pairs = Source::ALL.into_iter().flat_map(|source| Per::ALL.map(|per| (source, per)));
    pairs
        .filter_map(|(source, per)| {
            let table = table(&all, source, per)?;
            let own: Vec<&Relation<'_>> =
                all.iter().filter(|one| (one.source, one.per) == (source, per)).collect();
            let (bars, points) = (coefficients(&own), own.iter().map(|one| points(one)).collect());
            Some(Drawn {
                title: format!("Events and throughput, {}, {}", called(source), per_words(per)),
                says: conclusions(&own),
                bars,
                points,
                table,
            })
        })
        .collect()
}

fn coefficients(all: &[&Relation<'_>]) -> Coefficients {
    let mut chart = Coefficients::default();
    let mut place = |names: fn(&mut Coefficients) -> &mut Vec<String>, name: &str| {
        let names = names(&mut chart);
        names.iter().position(|known| known == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        })
    };
    let places: Vec<(usize, usize)> = all
        .iter()
        .map(|one| {
            (place(|chart| &mut chart.groups, one.kind.title), place(|chart| &mut chart.series, one.workload))
        })
        .collect();
    let bar =
        |(at, one): ((usize, usize), &&Relation<'_>)| one.pooled.map(|pooled| (at, (pooled.r, pooled.error)));
    chart.bars = places.into_iter().zip(all).filter_map(bar).collect();
    chart
}

fn points(one: &Relation<'_>) -> Scatter {
    Scatter {
        title: format!("{}, {}", one.workload, one.kind.title),
        x: format!("{} for {}", one.kind.title, one.kind.unit(one.source, one.per)),
        y: "throughput".to_owned(),
        systems: one.systems.iter().map(|(name, points)| ((*name).to_owned(), points.clone())).collect(),
    }
}
