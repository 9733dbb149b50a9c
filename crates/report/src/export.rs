//! Figures as files of their own, for papers: each chart as SVG that needs no style sheet and as PDF with its fonts embedded, each
//! figure's numbers as CSV.

use std::collections::BTreeSet;

use crate::chart::{self, Curves};
use crate::figure::Figure;
use crate::table::Table;
use crate::{FigureError, Report, dies, pdf, readings, spread};
use results::ResultFile;
use results::statistics::Coverage;

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// What was exported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    /// The files.
    pub files: Vec<Exported>,
    /// Why there is no PDF among them.
    pub without_pdf: Option<String>,
}

/// Every chart of every result, also those for which a page has no room. One that cannot be drawn is left out; an error if none
/// can. Results of equal names have files of different names.
pub fn figures(report: &Report) -> Result<Export, FigureError> {
    let (mut files, mut failed) = (Vec::new(), None);
    for section in &report.sections {
        let results = &section.results;
        for spec in &section.figures {
            match Figure::build(spec, results) {
                Ok(figure) => export(&results.name, &figure, &mut files),
                Err(error) => failed = Some(error),
            }
        }
        let (latency, rates) =
            (spread::latencies(results, usize::MAX), spread::over_time(results, usize::MAX));
        export_curves(&format!("{}-latency", results.name), &latency.drawn, &mut files);
        export_curves(&format!("{}-over-time", results.name), &rates.drawn, &mut files);
        export_dies(results, &mut files);
        export_readings(results, &mut files);
    }
    if files.is_empty() {
        return Err(failed.unwrap_or(FigureError::Empty));
    }
    name_apart(&mut files);
    let without_pdf = pdf::add(&mut files).err();
    Ok(Export { files, without_pdf })
}

fn export(plan: &str, figure: &Figure, files: &mut Vec<Exported>) {
    let stem = plain(&format!("{plan}-{}", figure.id));
    for panel in &figure.panels {
        let name =
            if panel.title.is_empty() { stem.clone() } else { format!("{stem}-{}", plain(&panel.title)) };
        files.push(Exported { name: format!("{name}.svg"), bytes: chart::alone(figure, panel).into_bytes() });
    }
    files.push(Exported { name: format!("{stem}.csv"), bytes: csv(figure).into_bytes() });
}

/// Charts of curves, a file each, and their points in one.
fn export_curves(stem: &str, charts: &[Curves], files: &mut Vec<Exported>) {
    let mut names: Vec<String> = Vec::new();
    for (name, _) in charts.iter().flat_map(|chart| &chart.lines) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for chart in charts {
        let name = plain(&format!("{stem}-{}", chart.title));
        let bytes = chart::alone_curves(chart, &names).into_bytes();
        files.push(Exported { name: format!("{name}.svg"), bytes });
    }
    let Some(first) = charts.first() else { return };
    // Times in nanoseconds, and rates in calls a second.
    let heads = ["chart".to_owned(), "series".to_owned(), format!("{} (ns)", first.x.0), first.y.0.clone()];
    let points = charts.iter().flat_map(|chart| {
        let points =
            chart.lines.iter().flat_map(|(name, points)| points.iter().map(move |point| (name, point)));
        points.map(|(name, (x, y))| [chart.title.clone(), name.clone(), x.to_string(), y.to_string()])
    });
    let bytes = rows([heads].into_iter().chain(points)).into_bytes();
    files.push(Exported { name: format!("{}.csv", plain(stem)), bytes });
}

/// Which page lies on which die: a file for each picture, and their numbers in one.
fn export_dies(results: &ResultFile, files: &mut Vec<Exported>) {
    let (stem, pictures) = (plain(&format!("{}-dies", results.name)), dies::pictures(results, usize::MAX));
    for picture in &pictures {
        let name = plain(&format!("{stem}-{}", picture.title));
        let bytes = chart::alone_drawing(&chart::dies::draw(picture), &chart::dies::legend()).into_bytes();
        files.push(Exported { name: format!("{name}.svg"), bytes });
    }
    if !pictures.is_empty() {
        files.push(Exported { name: format!("{stem}.csv"), bytes: table_csv(&dies::table(&pictures)) });
    }
}

/// The claims that hold under each reading.
fn export_readings(results: &ResultFile, files: &mut Vec<Exported>) {
    let points = readings::curve(&results.claims);
    let Some(widest) = (!points.is_empty()).then(|| chart::curve::draw(&points).swap_remove(0)) else {
        return;
    };
    let stem = plain(&format!("{}-readings", results.name));
    let bytes = chart::alone_drawing(&widest, &chart::curve::legend()).into_bytes();
    files.push(Exported { name: format!("{stem}.svg"), bytes });
    files.push(Exported {
        name: format!("{stem}.csv"),
        bytes: table_csv(&readings::curve_table(&results.claims)),
    });
}

/// Gives a number to the names that were given before, so that no file is written over another.
fn name_apart(files: &mut [Exported]) {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for file in files {
        let (stem, end) = file.name.rsplit_once('.').unwrap_or((&file.name, ""));
        let numbered = (2..).map(|number| format!("{stem}-{number}.{end}"));
        let free = std::iter::once(file.name.clone()).chain(numbered).find(|name| !taken.contains(name));
        file.name = free.expect("numbers do not end");
        taken.insert(file.name.clone());
    }
}

/// A table as it stands on the page.
fn table_csv(table: &Table) -> Vec<u8> {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let heads: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    writer.write_record(heads).expect("a vector takes every byte");
    for row in &table.rows {
        writer.write_record(row).expect("a vector takes every byte");
    }
    writer.into_inner().expect("a vector takes every byte")
}

/// Records as CSV.
fn rows<const N: usize>(records: impl Iterator<Item = [String; N]>) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    records.for_each(|record| writer.write_record(&record).expect("a vector takes every byte"));
    String::from_utf8_lossy(&writer.into_inner().expect("a vector takes every byte")).into_owned()
}

/// A row for each point: the numbers as they are, without units chosen for people.
fn csv(figure: &Figure) -> String {
    let heads = ["panel", "x", "series", "value", "low", "high", "interval", "repeats", "metric"];
    let mut records = vec![heads.map(str::to_owned)];
    for panel in &figure.panels {
        for point in &panel.points {
            let interval = point.y.interval;
            let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
            let kind = interval.map_or("", |interval| match interval.coverage {
                Coverage::Confidence | Coverage::Pairs => "95 %",
                Coverage::Range => "range",
                Coverage::Exact => "exact",
            });
            records.push([
                panel.title.clone(),
                panel.xs[point.x].label.clone(),
                figure.series[point.series].clone(),
                point.y.value.to_string(),
                end(interval.map(|i| i.low)),
                end(interval.map(|i| i.high)),
                kind.to_owned(),
                point.y.repeats.to_string(),
                figure.y_label.clone(),
            ]);
        }
    }
    rows(records.into_iter())
}

/// A name for a file: letters, digits and hyphens.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
