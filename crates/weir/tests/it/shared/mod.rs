//! Running the command in a test.

pub(crate) mod evidence;
pub(crate) mod place;

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

/// The command in a folder that is its home.
pub(crate) fn weir(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.current_dir(home);
    command.env("XDG_DATA_HOME", home.join("data")).env("XDG_CONFIG_HOME", home.join("config"));
    command
}

/// What it said on the standard error.
pub(crate) fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The one document on the standard output.
pub(crate) fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", told(output)))
}
