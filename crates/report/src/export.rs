//! Figures as files of their own, for papers: each chart as SVG that needs no style sheet, each figure's numbers as CSV.

use crate::chart;
use crate::figure::Figure;
use crate::{FigureError, Report};

/// A file to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// Its name.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// Every figure of every result. One that cannot be drawn is left out; an error if none can.
pub fn figures(report: &Report) -> Result<Vec<Exported>, FigureError> {
    let (mut files, mut failed) = (Vec::new(), None);
    for section in &report.sections {
        for spec in &section.figures {
            match Figure::build(spec, &section.results) {
                Ok(figure) => export(&section.results.name, &figure, &mut files),
                Err(error) => failed = Some(error),
            }
        }
    }
    if files.is_empty() { Err(failed.unwrap_or(FigureError::Empty)) } else { Ok(files) }
}

fn export(plan: &str, figure: &Figure, files: &mut Vec<Exported>) {
    let stem = plain(&format!("{plan}-{}", figure.id));
    for panel in &figure.panels {
        let name =
            if panel.title.is_empty() { stem.clone() } else { format!("{stem}-{}", plain(&panel.title)) };
        files.push(Exported { name: format!("{name}.svg"), text: chart::alone(figure, panel) });
    }
    files.push(Exported { name: format!("{stem}.csv"), text: csv(figure) });
}

/// A row for each point: the numbers as they are, without units chosen for people.
fn csv(figure: &Figure) -> String {
    let mut writer = ::csv::Writer::from_writer(Vec::new());
    let heads = ["panel", "x", "series", "value", "low", "high", "interval", "repeats", "metric"];
    let mut rows = vec![heads.map(str::to_owned)];
    for panel in &figure.panels {
        for point in &panel.points {
            let interval = point.y.interval;
            let end = |end: Option<f64>| end.map_or_else(String::new, |end| end.to_string());
            let kind = interval.map_or("", |interval| if interval.is_range() { "range" } else { "95 %" });
            rows.push([
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
    for row in rows {
        writer.write_record(&row).expect("a vector takes every byte");
    }
    String::from_utf8_lossy(&writer.into_inner().expect("a vector takes every byte")).into_owned()
}

/// A name for a file: letters, digits and hyphens.
fn plain(text: &str) -> String {
    let text: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    text.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}
