//! `weir man`: the man pages, made from the same text as the help.

use std::path::PathBuf;

use clap::{Args, Command, CommandFactory};

use crate::cli::Cli;
use crate::command::check::PROGRAM;
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

/// The command with the text of every option: pages leave out that of options which the short help does not show.
fn whole(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(whole)
}

/// All commands; the form of `weir check crash` for a user's program, which has a parser of its own, as one more.
fn all() -> Command {
    let program = |program: Command| program.name("crash-trace").hide(false);
    whole(Cli::command()).mut_subcommand("check", |check| check.mut_subcommand(PROGRAM, program))
}

impl Man {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))?;
        clap_mangen::generate_to(all(), folder).map_err(|error| Failure::io("write into", folder, &error))?;
        results::file::write_atomic(&folder.join("weir.toml.5"), roff("WEIR.TOML", PLANS))?;
        output.note(&format!("man pages  {}", folder.display()));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A term of a list is a line of its own after `.TP`; the text follows it.
    #[test]
    fn every_option_of_every_page_has_its_text() {
        let folder = tempfile::tempdir().expect("a folder");
        clap_mangen::generate_to(all(), folder.path()).expect("pages");
        let mut options = 0;
        for entry in std::fs::read_dir(folder.path()).expect("the folder").flatten() {
            let page = std::fs::read_to_string(entry.path()).expect("a page");
            let lines: Vec<&str> = page.lines().collect();
            for at in (0..lines.len()).filter(|at| lines[*at] == ".TP") {
                let (term, text) = (lines[at + 1], lines.get(at + 2).copied().unwrap_or_default());
                assert!(!text.is_empty() && text != ".TP", "{}: {term} has no text", entry.path().display());
                options += 1;
            }
        }
        assert!(options > 200, "{options} options");
    }

    #[test]
    fn the_form_of_check_crash_for_a_users_program_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        clap_mangen::generate_to(all(), folder.path()).expect("pages");
        let page = std::fs::read_to_string(folder.path().join("weir-check-crash-trace.1")).expect("a page");
        for part in ["trace:FILE", "acknowledge", "promise", "root\\-at"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
