//! What can be wrong with a script, and how it is said.
//!
//! A [`Problem`] is an error or a warning with the place it points at and a hint what to do. Lexer, parser
//! and checks collect them instead of stopping at the first, so that one run shows all that is wrong; a
//! [`Report`] holds them with the script and tells each in one line, which editors understand:
//! `web.f:12:3: unknown attribute "entires" of fileset; did you mean "entries"?`

use std::fmt;
use std::sync::Arc;

use document::position;
use thiserror::Error;

use super::span::Span;

/// One thing that is wrong with a script, or that its author should know.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A character that no token starts with.
    #[error("unexpected character {found:?}")]
    Character {
        /// The character.
        found: char,
        /// Its place.
        at: Span,
    },
    /// A quoted string that does not end on its line.
    #[error("this string has no closing quote")]
    UnclosedString {
        /// From the opening quote to the end of the line.
        at: Span,
    },
    /// Digits that do not form a number of the language.
    #[error("{text:?} is not a number")]
    Number {
        /// What is written.
        text: String,
        /// How to write it.
        help: String,
        /// Its place.
        at: Span,
    },
    /// A `$` without a usable name after it.
    #[error("no variable name after \"$\"")]
    VariableName {
        /// Its place.
        at: Span,
    },
    /// An operator: the language has had no expressions since 1.5.
    #[error("the language has no arithmetic")]
    Arithmetic {
        /// The operator.
        at: Span,
    },
    /// Something else than the grammar wants here.
    #[error("expected {wanted}, found {found}")]
    Expected {
        /// What would have been right.
        wanted: String,
        /// What is written.
        found: String,
        /// What to do.
        help: Option<String>,
        /// Its place.
        at: Span,
    },
    /// A block that is never closed.
    #[error("this block of {what} has no closing brace")]
    UnclosedBlock {
        /// Whose block.
        what: String,
        /// The opening brace.
        at: Span,
    },
    /// A name that means nothing here.
    #[error("unknown {what} \"{name}\"")]
    Unknown {
        /// What kind of name was expected, e.g. `attribute of fileset`.
        what: String,
        /// What is written.
        name: String,
        /// The nearest legal names, or all of them when few.
        help: Option<String>,
        /// Its place; none for a variable that was set from outside.
        at: Option<Span>,
    },
    /// A construct that Weir understands and does not do.
    #[error("{what} is refused: {why}")]
    Refused {
        /// The construct.
        what: String,
        /// The reason.
        why: String,
        /// What to do instead.
        instead: String,
        /// Its place.
        at: Span,
    },
    /// A name or an attribute that is given twice.
    #[error("{what} \"{name}\" is given twice")]
    Repeated {
        /// What kind of thing.
        what: String,
        /// Its name.
        name: String,
        /// The first one.
        first: Span,
        /// The second one.
        at: Span,
    },
    /// Something that must be there and is not.
    #[error("{of} has no {what}")]
    Missing {
        /// What is missing.
        what: String,
        /// From what.
        of: String,
        /// What to write.
        help: String,
        /// Where it belongs.
        at: Span,
    },
    /// A value of a type that its place does not take.
    #[error("{what} needs {wanted}, not {found}")]
    WrongType {
        /// The attribute or statement.
        what: String,
        /// What it takes.
        wanted: String,
        /// What it was given.
        found: String,
        /// What to do.
        help: Option<String>,
        /// Its place.
        at: Span,
    },
    /// A value outside of what its place takes.
    #[error("{what} is {value}; it must be {range}")]
    OutOfRange {
        /// The attribute or statement.
        what: String,
        /// The value.
        value: String,
        /// What is allowed.
        range: String,
        /// What to do, or why.
        help: Option<String>,
        /// Its place.
        at: Span,
    },
    /// A composite flowop that runs itself.
    #[error("composite flowops run each other in a circle: {chain}")]
    Recursion {
        /// The names, joined by arrows.
        chain: String,
        /// The flowop that closes the circle.
        at: Span,
    },
    /// A table of probabilities that does not add up.
    #[error("the percentages of this table sum to {sum}, not 100")]
    Percentages {
        /// Their sum.
        sum: u64,
        /// The table.
        at: Span,
    },
    /// Values that are fine alone and impossible together.
    #[error("{message}")]
    Impossible {
        /// What cannot work.
        message: String,
        /// What to change.
        help: String,
        /// Its place.
        at: Span,
    },
    /// A step that finds its descriptor slot in the wrong state.
    #[error("{message}")]
    Slot {
        /// What goes wrong.
        message: String,
        /// What to change.
        help: String,
        /// The step that left the slot in this state.
        earlier: Option<Span>,
        /// What that step did, e.g. `opened here`.
        earlier_says: String,
        /// The step.
        at: Span,
    },
    /// Syntax of an older Filebench that is still understood.
    #[error("{what} is from an older Filebench")]
    Obsolete {
        /// The construct.
        what: String,
        /// How Weir takes it.
        help: String,
        /// Its place.
        at: Span,
    },
    /// An attribute that its flowop does not look at.
    #[error("{attribute} has no effect on {of}")]
    NoEffect {
        /// The attribute.
        attribute: String,
        /// The flowop type or statement.
        of: String,
        /// Why, or what to do.
        help: Option<String>,
        /// Its place.
        at: Span,
    },
    /// A definition that nothing refers to.
    #[error("{what} \"{name}\" is never used")]
    Unused {
        /// What kind of thing.
        what: String,
        /// Its name.
        name: String,
        /// The nearest name that is used and not defined, or none.
        help: Option<String>,
        /// Its place.
        at: Span,
    },
    /// A statement after the run, which ends the program.
    #[error("this is never reached")]
    Unreachable {
        /// Its place.
        at: Span,
    },
    /// More than Filebench itself could do; Weir goes on.
    #[error("{value} {what}: Filebench itself stops at {limit}")]
    BeyondFilebench {
        /// What is counted.
        what: String,
        /// How many.
        value: u64,
        /// Filebench's limit.
        limit: u64,
        /// Its place.
        at: Span,
    },
    /// A script that defines and never runs. Filebench then only checks it.
    #[error("there is no run statement: the script runs as if it ended with one")]
    NoRun,
}

impl Problem {
    /// Whether the script cannot be run because of it; the others are warnings.
    pub fn is_error(&self) -> bool {
        !matches!(
            self,
            Self::Obsolete { .. }
                | Self::NoEffect { .. }
                | Self::Unused { .. }
                | Self::Unreachable { .. }
                | Self::BeyondFilebench { .. }
                | Self::NoRun
        )
    }

    /// The place that it points at, or none when it concerns no place in the script.
    pub fn at(&self) -> Option<Span> {
        match self {
            Self::Unknown { at, .. } => *at,
            Self::NoRun => None,
            Self::Character { at, .. }
            | Self::UnclosedString { at }
            | Self::Number { at, .. }
            | Self::VariableName { at }
            | Self::Arithmetic { at }
            | Self::Expected { at, .. }
            | Self::UnclosedBlock { at, .. }
            | Self::Refused { at, .. }
            | Self::Repeated { at, .. }
            | Self::Missing { at, .. }
            | Self::WrongType { at, .. }
            | Self::OutOfRange { at, .. }
            | Self::Recursion { at, .. }
            | Self::Percentages { at, .. }
            | Self::Impossible { at, .. }
            | Self::Slot { at, .. }
            | Self::Obsolete { at, .. }
            | Self::NoEffect { at, .. }
            | Self::Unused { at, .. }
            | Self::Unreachable { at }
            | Self::BeyondFilebench { at, .. } => Some(*at),
        }
    }

    /// An earlier place that explains it, with what stands there.
    pub fn earlier(&self) -> Option<(&str, Span)> {
        match self {
            Self::Repeated { first, .. } => Some(("first given", *first)),
            Self::Slot { earlier, earlier_says, .. } => earlier.map(|at| (earlier_says.as_str(), at)),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn help(&self) -> Option<&str> {
        match self {
            Self::Character { .. } => {
                Some("outside quotes only letters, digits and / . _ : ; - form words; quote anything else")
            }
            Self::UnclosedString { .. } => {
                Some("a string ends on the line it starts on; write \\n for a line break")
            }
            Self::VariableName { .. } => {
                Some("write $name, $(name) or ${name}; write \\$ for a dollar sign inside quotes")
            }
            Self::Arithmetic { .. } => Some("write the result, or set it from outside with -D name=value"),
            Self::Recursion { .. } => {
                Some("a composite may only use flowops that do not lead back to it; repeat steps with iters=")
            }
            Self::Unreachable { .. } => Some("the first run or psrun ends the program"),
            Self::BeyondFilebench { .. } => {
                Some("Weir has no such limit; the script will not run on the original")
            }
            Self::NoRun => Some("end it with: run 60"),
            Self::UnclosedBlock { .. } | Self::Repeated { .. } | Self::Percentages { .. } => None,
            Self::Number { help, .. }
            | Self::Missing { help, .. }
            | Self::Impossible { help, .. }
            | Self::Slot { help, .. }
            | Self::Obsolete { help, .. }
            | Self::Refused { instead: help, .. } => Some(help),
            Self::Expected { help, .. }
            | Self::Unknown { help, .. }
            | Self::WrongType { help, .. }
            | Self::OutOfRange { help, .. }
            | Self::NoEffect { help, .. }
            | Self::Unused { help, .. } => help.as_deref(),
        }
    }
}

/// The problems of one script, in the order of their places.
#[derive(Clone, Debug)]
pub struct Report {
    name: String,
    source: Arc<str>,
    problems: Vec<Problem>,
}

impl Report {
    /// The `problems` of the script `source`, which is called `name` in messages.
    ///
    /// A problem that was found twice is told once.
    pub fn new(name: &str, source: Arc<str>, found: Vec<Problem>) -> Self {
        let mut problems: Vec<Problem> = Vec::with_capacity(found.len());
        for problem in found {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems.sort_by_key(|problem| (!problem.is_error(), problem.at().map(|at| at.start)));
        Self { name: name.to_owned(), source, problems }
    }

    /// The problems: errors first, each kind from top to bottom.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// Whether any problem is an error.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(Problem::is_error)
    }

    /// Each problem on a line of its own: `name:line:column: message; hint`.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.problems.iter().map(|problem| self.line(problem))
    }

    fn line(&self, problem: &Problem) -> String {
        let at = |span: Span| {
            let (line, column) = position(&self.source, span.start);
            format!("{}:{line}:{column}", self.name)
        };
        let place = problem.at().map_or(self.name.clone(), at);
        let warning = if problem.is_error() { "" } else { "warning: " };
        let earlier = problem.earlier().map(|(says, earlier)| format!(" ({says} at {})", at(earlier)));
        let help = problem.help().map(|help| format!("; {help}"));
        format!("{place}: {warning}{problem}{}{}", earlier.unwrap_or_default(), help.unwrap_or_default())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&line)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let source: Arc<str> = "set $a=1\ndefine fileset entires=3\n".into();
        let at = Span::new(source.find("entires").unwrap(), source.find("=3").unwrap());
        let unknown = Problem::Unknown {
            what: "attribute of fileset".into(),
            name: "entires".into(),
            help: document::did_you_mean("entires", ["entries", "size", "path"]),
            at: Some(at),
        };
        Report::new("web.f", source, vec![Problem::NoRun, unknown])
    }

    #[test]
    fn one_line_form_names_file_line_column_message_and_suggestion() {
        let lines: Vec<String> = report().lines().collect();
        assert_eq!(
            lines[0],
            "web.f:2:16: unknown attribute of fileset \"entires\"; did you mean \"entries\"?"
        );
        assert_eq!(
            lines[1],
            "web.f: warning: there is no run statement: the script runs as if it ended with one; end it with: run 60"
        );
    }
}
