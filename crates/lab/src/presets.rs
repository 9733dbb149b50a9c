//! The presets that are part of the program: every TOML file under `presets/`, found by name.

use crate::error::Error;
use document::nearest;

/// A preset file inside the program.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The file's name without its extension.
    pub name: &'static str,
    /// The file's text.
    pub text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/presets.rs"));

/// Finds `name` in a table. `what` says what the table holds ("plan").
pub fn find(table: &'static [Preset], what: &'static str, name: &str) -> Result<&'static Preset, Error> {
    table.iter().find(|preset| preset.name == name).ok_or_else(|| Error::Unknown {
        what,
        name: name.to_owned(),
        advice: nearest(name, table.iter().map(|preset| preset.name)),
    })
}

/// What stands before the name of a file in `presets/validation`, where a workload or a machine is named: `validation/creat.f`.
const IN_VALIDATION: &str = "validation/";

/// The file of `presets/validation` that `name` means, with the folder before its name.
pub(crate) fn of_validation(name: &str) -> Option<&'static Preset> {
    let file = name.strip_prefix(IN_VALIDATION)?;
    VALIDATION.iter().find(|preset| preset.name == file)
}

/// Puts the folder before a name that rows use for a file of `presets/validation`; a machine may have settings after it.
pub fn embedded(name: &mut String) {
    let file = name.split(',').next().unwrap_or_default();
    if VALIDATION.iter().any(|preset| preset.name == file) {
        name.insert_str(0, IN_VALIDATION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_preset_names_the_nearest_one() {
        let error = find(MACHINES, "machine", "hinfs-sever").unwrap_err();
        assert!(error.to_string().contains("did you mean \"hinfs-server\"?"), "{error}");
    }
}
