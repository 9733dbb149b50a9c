//! `weir man`: the man pages, made from the same text as the help.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Write the man pages into a folder.
#[derive(Args, Debug)]
#[command(
    after_help = "Example: weir man pages && man pages/weir-bench.1 (weir.toml.5 belongs to section 5, all others to 1)"
)]
pub(crate) struct Man {
    /// The folder, which is created if it does not exist
    folder: PathBuf,
}

/// The reference of plans, which is the page `weir.toml(5)`.
const PLANS: &str = include_str!("../../shipped/plans.md");

/// A page of Markdown as a page of section 5: headings, paragraphs, blocks of code, and tables as lists of terms.
fn roff(name: &str, markdown: &str) -> String {
    let mut page = vec![format!(".TH {name} 5")];
    let (mut code, mut rows) = (false, 0);
    for line in markdown.lines() {
        if line.starts_with("```") {
            code = !code;
            page.push(if code { ".nf" } else { ".fi" }.to_owned());
        } else if let Some(row) = line.strip_prefix("| ").filter(|_| !code) {
            rows += 1;
            // The first is the head.
            if rows > 1 {
                page.push(term(row));
            }
        } else if !line.starts_with("|--") {
            rows = 0;
            page.push(paragraph(line, code));
        }
    }
    page.join("\n") + "\n"
}

/// Text without what Markdown marks it with.
fn plain(text: &str) -> String {
    text.replace('\\', "\\e").replace('`', "")
}

/// A row of a table: its first cell is the term.
fn term(row: &str) -> String {
    let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
    let text = cells[1..].join(". Default: ").replace(". Default: required", ". Required");
    format!(".TP\n.B {}\n{}", plain(cells[0]), plain(&text))
}

fn paragraph(line: &str, code: bool) -> String {
    match line.split_once(' ') {
        Some(("#" | "##", heading)) if !code => format!(".SH {}", plain(heading).to_uppercase()),
        _ if line.is_empty() && !code => ".PP".to_owned(),
        _ if line.starts_with(['.', '\'']) => format!("\\&{}", plain(line)),
        _ => plain(line),
    }
}

impl Man {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))?;
        clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| Failure::io("write into", folder, &error))?;
        results::file::write_atomic(&folder.join("weir.toml.5"), roff("WEIR.TOML", PLANS))?;
        output.note(&format!("man pages  {}", folder.display()));
        Ok(())
    }
}
