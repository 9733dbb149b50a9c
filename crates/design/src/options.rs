//! Options of mkfs and mount: declared as data, checked as a whole.

use std::collections::BTreeMap;
use std::fmt;

use document::nearest;
use sim::{Bytes, Nanos};

use crate::mutant::Mutant;

/// One option of a design.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// Its name.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// The value when it is not given.
    pub default: &'static str,
    /// The command that reads it.
    pub when: Phase,
    /// What it does, with the paper's section or the reason for the default.
    pub help: &'static str,
}

/// The command that reads an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Making a file system: the image has the value from then on.
    Mkfs,
    /// Each mount.
    Mount,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mkfs => "mkfs",
            Self::Mount => "mount",
        })
    }
}

/// What an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionKind {
    /// A size: `4k`, `2GiB`.
    Size,
    /// A size, or `auto`.
    SizeOrAuto,
    /// A size of memory that holds data: an experiment at a part of the published scale takes that part of it.
    Cache,
    /// A time: `200ns`, `5s`.
    Time,
    /// A whole number.
    Count,
    /// A number between 0 and 1, or a percentage: `0.05`, `5%`.
    Fraction,
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Choice(&'static [&'static str]),
}

impl OptionKind {
    fn expects(self) -> String {
        match self {
            Self::Size | Self::Cache => "a size such as 64k or 2GiB".to_owned(),
            Self::SizeOrAuto => "auto, or a size such as 64k or 2GiB".to_owned(),
            Self::Time => "a time such as 200ns or 5s".to_owned(),
            Self::Count => "a whole number".to_owned(),
            Self::Fraction => "a fraction such as 0.05 or 5%".to_owned(),
            Self::Flag => "true or false".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
        }
    }

    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Size | Self::Cache => value.parse::<Bytes>().is_ok(),
            Self::SizeOrAuto => value == "auto" || value.parse::<Bytes>().is_ok(),
            Self::Time => value.parse::<Nanos>().is_ok(),
            Self::Count => value.parse::<u64>().is_ok(),
            Self::Fraction => fraction(value).is_some(),
            Self::Flag => value.parse::<bool>().is_ok(),
            Self::Choice(words) => words.contains(&value),
        }
    }
}

fn fraction(text: &str) -> Option<f64> {
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// Why options were refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// No such option.
    #[error("unknown option \"{name}\" of {design}: {advice}")]
    Unknown {
        /// As given.
        name: String,
        /// The design.
        design: String,
        /// The option that was meant, or the options it has.
        advice: String,
    },
    /// A value that the option does not take.
    #[error("option {name}={value}: expected {expected}")]
    Value {
        /// The option.
        name: String,
        /// As given.
        value: String,
        /// What it takes.
        expected: String,
    },
}

/// Checked options: every option of the design has a value of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    values: BTreeMap<&'static str, String>,
    mutant: Option<Mutant>,
    discards: bool,
}

impl Options {
    /// The defaults.
    pub fn defaults(specs: &'static [OptionSpec]) -> Self {
        let values = specs.iter().map(|spec| (spec.name, spec.default.to_owned())).collect();
        Self { values, mutant: None, discards: false }
    }

    /// Checks `given` against the options of `design`; the others get their defaults.
    pub fn resolve(
        design: &str,
        specs: &'static [OptionSpec],
        given: &BTreeMap<String, String>,
    ) -> Result<Self, OptionError> {
        let Self { mut values, .. } = Self::defaults(specs);
        for (name, value) in given {
            let spec =
                specs.iter().find(|spec| spec.name == name).ok_or_else(|| unknown(design, specs, name))?;
            if !spec.kind.accepts(value) {
                return Err(OptionError::Value {
                    name: name.clone(),
                    value: value.clone(),
                    expected: spec.kind.expects(),
                });
            }
            values.insert(spec.name, value.clone());
        }
        Ok(Self { values, mutant: None, discards: false })
    }

    /// The same with a seeded bug, for checks that must find it. No text that people give leads here.
    #[must_use]
    pub fn with_mutant(self, mutant: Mutant) -> Self {
        Self { mutant: Some(mutant), ..self }
    }

    /// The same for a mount that is for reading, on a private copy: what is written there is lost.
    #[must_use]
    pub fn discarding(self) -> Self {
        Self { discards: true, ..self }
    }

    /// Whether what is written is lost.
    pub fn discards(&self) -> bool {
        self.discards
    }

    /// The bug that is seeded.
    pub fn mutant(&self) -> Option<Mutant> {
        self.mutant
    }

    /// Every option with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The word given for a choice.
    pub fn choice(&self, name: &str) -> &str {
        self.values.get(name).expect("a design reads only options that it declares")
    }

    /// A size option.
    pub fn size(&self, name: &str) -> Bytes {
        self.choice(name).parse().expect("checked by resolve")
    }

    /// The size that a size option names; none where it says `auto`.
    pub fn size_or_auto(&self, name: &str) -> Option<Bytes> {
        self.choice(name).parse().ok()
    }

    /// A time option.
    pub fn time(&self, name: &str) -> Nanos {
        self.choice(name).parse().expect("checked by resolve")
    }

    /// A number option.
    pub fn number(&self, name: &str) -> u64 {
        self.choice(name).parse().expect("checked by resolve")
    }

    /// A fraction option, 0 to 1.
    pub fn fraction(&self, name: &str) -> f64 {
        fraction(self.choice(name)).expect("checked by resolve")
    }

    /// A flag option.
    pub fn flag(&self, name: &str) -> bool {
        self.choice(name).parse().expect("checked by resolve")
    }
}

fn unknown(design: &str, specs: &[OptionSpec], name: &str) -> OptionError {
    let known = specs.iter().map(|spec| spec.name);
    OptionError::Unknown { name: name.to_owned(), design: design.to_owned(), advice: nearest(name, known) }
}
