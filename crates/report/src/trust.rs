//! How far modelled times can be believed, as the page about the validation says it.

use results::{Clock, ResultFile};

use crate::grains::{self, Value};
use crate::table::{Align, Column, Table};

const PAGE: &str = include_str!("../shipped/validation.md");
const HEADING: &str = "## What may be believed\n";

/// The table of that page: part of the model, how far to believe it, and why.
pub fn table() -> Table {
    let part = PAGE.split_once(HEADING).map_or("", |(_, rest)| rest);
    let lines =
        part.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut rows = lines.map(cells);
    let heads = rows.next().unwrap_or_default();
    let mut table = Table::new("What may be believed of modelled times");
    table.columns = heads.into_iter().map(|name| Column { name, align: Align::Left }).collect();
    // The line below the heads separates them from the rows.
    table.rows = rows.skip(1).collect();
    table
}

/// The cells of a line of a table, without the marks of code.
fn cells(line: &str) -> Vec<String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect()
}

/// The values of machine and media, with their sources; none under the real clock, which they do not price, and where the result
/// does not hold their texts.
pub fn sources(results: &ResultFile) -> Option<Table> {
    if results.clock == Clock::Real {
        return None;
    }
    let mut table = Table::new("Values of machine and media, with their sources");
    let column = |name: &str, align| Column { name: name.to_owned(), align };
    table.columns = vec![
        column("of", Align::Left),
        column("value", Align::Left),
        column("is", Align::Right),
        column("source", Align::Left),
    ];
    let text = |value: &Value| if let Value::Text(text) = value { text.clone() } else { String::new() };
    for row in grains::of_presets(results) {
        let [_, owner, parameter, value, _, unit, source] = &row[..] else { continue };
        if *source == Value::Empty {
            continue;
        }
        let is = [text(value), text(unit).replace("gb_per_s", "GB/s").replace("mib", "MiB")].join(" ");
        table.rows.push(vec![text(owner), text(parameter), is.trim().to_owned(), text(source)]);
    }
    (!table.rows.is_empty()).then_some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_about_the_validation_has_its_table() {
        let table = table();
        assert!(table.columns.len() >= 3, "{table:?}");
        assert!(table.rows.len() > 4, "{table:?}");
        assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{table:?}");
    }
}
