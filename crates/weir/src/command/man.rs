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

impl Man {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder).map_err(|error| Failure::io("make the folder", folder, &error))?;
        clap_mangen::generate_to(Cli::command(), folder)
            .map_err(|error| Failure::io("write into", folder, &error))?;
        output.note(&format!("man pages  {}", folder.display()));
        Ok(())
    }
}
