//! A table as data, and its two plain-text forms.

use std::fmt::Write as _;

/// How a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// The head of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, with the unit where the cells carry none.
    pub name: String,
    /// How its cells are aligned.
    pub align: Align,
}

/// A titled table of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// What the table shows.
    pub title: String,
    /// The heads.
    pub columns: Vec<Column>,
    /// The rows; each has a cell for every column.
    pub rows: Vec<Vec<String>>,
    /// For each row the numbers of the cells whose samples are behind its entries, 0 for an entry that no cell is behind; may
    /// be shorter than the rows.
    pub origins: Vec<Vec<usize>>,
}

impl Column {
    /// Whether its cells are numbers, which line up on the right.
    pub fn is_number(&self) -> bool {
        self.align == Align::Right
    }
}

impl Table {
    /// An empty table with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// Each row: its entries, and the number of the cell whose samples are behind each.
    pub fn rows_with_origins(&self) -> Vec<Vec<(Option<usize>, &String)>> {
        let number = |row: usize, column: usize| {
            self.origins
                .get(row)
                .and_then(|numbers| numbers.get(column))
                .copied()
                .filter(|number| *number > 0)
        };
        let mut rows = Vec::with_capacity(self.rows.len());
        for (at, row) in self.rows.iter().enumerate() {
            let entries = row
                .iter()
                .enumerate()
                .map(|(column, text)| (number(at, column).filter(|_| !text.is_empty()), text));
            rows.push(entries.collect());
        }
        rows
    }

    /// Adds a row whose entries all come from cell number `origin`.
    pub(crate) fn row_of(&mut self, origin: usize, row: Vec<String>) {
        self.origins.resize(self.rows.len(), Vec::new());
        self.origins.push(vec![origin; row.len()]);
        self.rows.push(row);
    }

    /// Adds a column of words.
    pub fn words(&mut self, name: impl Into<String>) {
        self.columns.push(Column { name: name.into(), align: Align::Left });
    }

    /// Adds a column of numbers.
    pub fn numbers(&mut self, name: impl Into<String>) {
        self.columns.push(Column { name: name.into(), align: Align::Right });
    }

    /// The table for a terminal, indented by two.
    pub fn to_text(&self) -> String {
        let widths: Vec<usize> = (0..self.columns.len()).map(|at| self.width(at)).collect();
        let heads: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let mut text = format!("{}\n", self.title);
        self.text_line(&mut text, &heads, &widths);
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            self.text_line(&mut text, &cells, &widths);
        }
        text
    }

    fn width(&self, at: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(at));
        cells.chain([&self.columns[at].name]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    fn text_line(&self, text: &mut String, cells: &[&str], widths: &[usize]) {
        let mut line = String::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            line.push_str("  ");
            match column.align {
                Align::Left => write!(line, "{cell:<width$}"),
                Align::Right => write!(line, "{cell:>width$}"),
            }
            .expect("a string takes every byte");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }

    /// The table in GitHub's Markdown, its title as a paragraph before it.
    pub fn to_markdown(&self) -> String {
        let mut text = format!("**{}**\n\n|", escape(&self.title));
        for column in &self.columns {
            text += &format!(" {} |", escape(&column.name));
        }
        text.push_str("\n|");
        for column in &self.columns {
            text.push_str(if column.align == Align::Left { "---|" } else { "---:|" });
        }
        for row in &self.rows {
            text.push_str("\n|");
            for cell in row {
                text += &format!(" {} |", escape(cell));
            }
        }
        text.push_str("\n\n");
        text
    }
}

fn escape(cell: &str) -> String {
    cell.replace('|', "\\|").replace('\n', " ")
}

/// A sentence in lines that a terminal of usual width shows whole.
pub fn wrapped(sentence: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(word.to_owned());
        } else {
            *last += if last.is_empty() { "" } else { " " };
            *last += word;
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new("speeds");
        table.words("fs");
        table.numbers("p50");
        table.rows = vec![vec!["pmfs".into(), "390 ns".into()], vec!["a|b".into(), "1.10 µs".into()]];
        table
    }

    #[test]
    fn numbers_line_up_on_the_right_and_lines_carry_no_trailing_space() {
        assert_eq!(table().to_text(), "speeds\n  fs        p50\n  pmfs   390 ns\n  a|b   1.10 µs\n");
    }

    #[test]
    fn a_bar_in_a_cell_does_not_break_markdown() {
        let text = table().to_markdown();
        assert!(text.contains("| a\\|b | 1.10 µs |"), "{text}");
        assert!(text.contains("|---|---:|"));
    }
}
