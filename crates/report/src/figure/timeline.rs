//! From the spans of a sample to rows of bars: what each part of a simulated machine did when, or in which calls a program was.

use super::build::{only_one, values_of};
use super::{Figure, FigureError, FigureSpec, Kind, Panel, Span, XValue};
use crate::cell::Cell;
use crate::table::Table;
use crate::units::Unit;

const PS: f64 = 1000.0;
/// Timelines that end earlier, in nanoseconds, are those of a processor.
const EXACT: f64 = 10_000.0;

pub(super) fn build(spec: &FigureSpec, cells: &[Cell<'_>]) -> Result<Figure, FigureError> {
    let mut kinds = Vec::new();
    let mut panels = Vec::new();
    for name in values_of(cells, &spec.series)? {
        let here: Vec<_> = cells.iter().filter(|cell| cell.axis(&spec.series) == Some(name)).collect();
        let Some(cell) = only_one(&here)? else { continue };
        panels.extend(cell.measured().next().map(|sample| panel(name, &sample.spans, &mut kinds)));
    }
    panels.retain(|panel| !panel.spans.is_empty());
    if panels.is_empty() {
        return Err(FigureError::Empty);
    }
    Ok(Figure {
        id: spec.id.clone(),
        title: spec.title.clone(),
        caption: spec.caption.clone(),
        kind: Kind::Timeline,
        x_label: "where".to_owned(),
        x_log: false,
        y_label: "time".to_owned(),
        unit: Unit::Nanos,
        series: kinds,
        panels,
    })
}

fn panel(title: &str, records: &[results::SpanRecord], kinds: &mut Vec<String>) -> Panel {
    let mut panel = Panel { title: title.to_owned(), ..Panel::default() };
    for record in records {
        let x = index(
            &mut panel.xs,
            |x| x.label == record.lane,
            || XValue { label: record.lane.clone(), number: None },
        );
        let series = index(kinds, |kind| *kind == record.kind, || record.kind.clone());
        let (start, end) = (record.start_ps as f64 / PS, record.end_ps as f64 / PS);
        panel.spans.push(Span { x, series, start, end, what: record.what.clone() });
    }
    panel
}

/// The place of the one that `is` it, which `new` makes if there is none.
fn index<T>(all: &mut Vec<T>, is: impl Fn(&T) -> bool, new: impl FnOnce() -> T) -> usize {
    all.iter().position(is).unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    })
}

/// A moment of a timeline that ends at `most`, in nanoseconds: to a tenth of one where it ends within ten microseconds.
pub(crate) fn time(at: f64, most: f64) -> String {
    if most < EXACT { format!("{at:.1} ns") } else { Unit::Nanos.human(at) }
}

/// Every bar in a row of its own.
pub(super) fn table(figure: &Figure) -> Table {
    let mut table = Table::new(format!("{}: times from its start", figure.title));
    for name in ["", "where", "what"] {
        table.words(name);
    }
    for name in ["begins", "ends"] {
        table.numbers(name);
    }
    for panel in &figure.panels {
        let most = panel.spans.iter().map(|span| span.end).fold(0.0, f64::max);
        let row = |span: &Span| {
            let lane = panel.xs[span.x].label.clone();
            let times = [span.start, span.end].map(|at| time(at, most));
            [panel.title.clone(), lane, span.what.clone()].into_iter().chain(times).collect()
        };
        table.rows.extend(panel.spans.iter().map(row));
    }
    table
}
