//! `weir man`: the man pages, made from the same text as the help.

use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Write the man pages into a folder.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir man ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// The folder; it is made when it is missing
    folder: PathBuf,
}

/// The reference of plans, which is the page `weir.toml(5)`.
const PLANS: &str = include_str!("../../../../docs/plans.md");

/// A page of Markdown as a page of section 5: headings, paragraphs, blocks of code, and tables as lists of terms.
fn roff(name: &str, markdown: &str) -> String {
    let mut page = format!(".TH {name} 5\n");
    let (mut code, mut table) = (false, 0);
    for line in markdown.lines() {
        let plain = |text: &str| text.replace('\\', "\\e").replace('`', "");
        if line.starts_with("```") {
            page += if code { ".fi\n" } else { ".nf\n" };
            code = !code;
            continue;
        }
        if let Some(row) = line.strip_prefix("| ").filter(|_| !code) {
            table += 1;
            if table > 1 {
                let cells: Vec<&str> = row.trim_end_matches('|').split(" | ").map(str::trim).collect();
                let rest = cells[1..].join(". Default: ");
                page += &format!(".TP\n.B {}\n{}\n", plain(cells[0]), plain(&rest));
            }
            continue;
        }
        if line.starts_with("|--") {
            continue;
        }
        if table > 0 && !line.starts_with('|') {
            table = 0;
        }
        page += &match line.split_once(' ') {
            Some(("#" | "##", heading)) if !code => format!(".SH {}\n", plain(heading).to_uppercase()),
            _ if line.is_empty() && !code => ".PP\n".to_owned(),
            _ if line.starts_with(['.', '\'']) => format!("\\&{}\n", plain(line)),
            _ => plain(line) + "\n",
        };
    }
    page
}

impl Man {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))?;
        clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| Failure::io("write into", folder, &error))?;
        results::file::write_atomic(&folder.join("weir.toml.5"), &roff("WEIR.TOML", PLANS))?;
        output.note(&format!("man pages  {}", folder.display()));
        Ok(())
    }
}
