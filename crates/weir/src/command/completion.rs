//! `weir completion`: completions for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::Failure;
use crate::output::Output;

/// Print the completion script of a shell.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir completion bash > ~/.local/share/bash-completion/completions/weir")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    #[allow(clippy::unnecessary_wraps)] // every command has this signature
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "weir", &mut text);
        output.data(&String::from_utf8_lossy(&text));
        Ok(())
    }
}
