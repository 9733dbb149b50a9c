//! `weir completion`: completions for a shell.

use clap::{Args, ValueEnum};
use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use crate::completing::VARIABLE;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Print the completion script of a shell.
///
/// The script asks the command itself, so that names of designs, media, machines, workloads, plans, papers and runs are completed,
/// too.
#[derive(Args, Debug)]
#[command(after_help = "Example: weir completion bash > ~/.local/share/bash-completion/completions/weir")]
pub(crate) struct Completion {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Shell {
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Shell {
    fn of(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Elvish => &Elvish,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
            Self::Zsh => &Zsh,
        }
    }
}

impl Completion {
    pub(crate) fn run(self, output: &Output) -> Result<(), Failure> {
        let mut text = Vec::new();
        let written = self.shell.of().write_registration(VARIABLE, "weir", "weir", "weir", &mut text);
        written.map_err(|error| Failure::new(Exit::Internal, format!("cannot write the script: {error}")))?;
        output.data(&String::from_utf8_lossy(&text));
        Ok(())
    }
}
