//! What can be wrong with a request: a name, a value, a machine, a trace.

/// Why a simulation does not start, or ends without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A name that is in no table.
    #[error("there is no {what} \"{name}\"; {advice}")]
    Unknown {
        /// What was looked for: "scheme", "workload", "key of a machine".
        what: &'static str,
        /// The name.
        name: String,
        /// The nearest name, or all.
        advice: String,
    },
    /// A value outside of what the key may have.
    #[error("{key} = {value}: {range}")]
    Value {
        /// The key of the machine.
        key: String,
        /// The value as given.
        value: String,
        /// What is legal.
        range: String,
    },
    /// A preset that is no preset.
    #[error("presets/archsim/{preset}.toml: {message}")]
    Preset {
        /// Its name.
        preset: String,
        /// What is wrong.
        message: String,
    },
    /// A trace that cannot be replayed.
    #[error("trace: {0}")]
    Trace(String),
    /// A program that does not fit the machine.
    #[error("{0}")]
    Misfit(String),
}

/// An unknown name, with the nearest known one.
pub(crate) fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.collect();
    let near = known.iter().map(|other| (strsim::damerau_levenshtein(name, other), *other)).min();
    let advice = match near {
        Some((distance, other)) if distance <= 1 + name.chars().count() / 3 => {
            format!("did you mean \"{other}\"?")
        }
        _ => format!("there are: {}", known.join(", ")),
    };
    Error::Unknown { what, name: name.to_owned(), advice }
}

#[cfg(test)]
mod tests {
    use super::unknown;

    #[test]
    fn a_near_name_is_offered_and_a_far_one_lists_all() {
        let told = |name| unknown("scheme", name, ["fwb", "hwl"].into_iter()).to_string();
        assert!(told("fwd").contains("did you mean \"fwb\"?"), "{}", told("fwd"));
        assert!(told("nothing").contains("there are: fwb, hwl"));
    }
}
