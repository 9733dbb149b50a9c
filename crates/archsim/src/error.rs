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
    /// A preset that does not follow the format.
    #[error(transparent)]
    Preset(#[from] document::Problem),
    /// A file that cannot be read: its name, and what the operating system said.
    #[error("cannot read the machine {0}: {1}")]
    Unreadable(String, String),
    /// A trace that cannot be replayed.
    #[error("trace: {0}")]
    Trace(String),
    /// A program that does not fit the machine.
    #[error("{0}")]
    Misfit(String),
}

/// An unknown name, with the nearest known one.
pub(crate) fn unknown<'a>(what: &'static str, name: &str, known: impl Iterator<Item = &'a str>) -> Error {
    let advice = document::nearest(name, known);
    Error::Unknown { what, name: name.to_owned(), advice }
}
