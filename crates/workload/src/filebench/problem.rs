//! What can be wrong with a script, and how it is said.
//!
//! A [`Problem`] is an error or a warning with the place it points at and a hint what to do. Lexer, parser
//! and checks collect them instead of stopping at the first, so that one run shows all that is wrong; a
//! [`Report`] holds them with the script and shows them in two forms:
//!
//! * one line each, for logs and editors:
//!   `web.f:12:3: unknown attribute "entires" of fileset; did you mean "entries"?`
//! * the source line with the place underlined, for people ([`Report::render`]).

use std::fmt;
use std::sync::Arc;

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, NamedSource, Severity};
use thiserror::Error;

use super::span::{Span, position};

/// One thing that is wrong with a script, or that its author should know.
#[derive(Clone, Debug, PartialEq, Error, Diagnostic)]
#[non_exhaustive]
pub enum Problem {
    /// A character that no token starts with.
    #[error("unexpected character {found:?}")]
    #[diagnostic(help(
        "outside quotes only letters, digits and / . _ : ; - form words; quote anything else"
    ))]
    Character {
        /// The character.
        found: char,
        /// Its place.
        #[label("here")]
        at: Span,
    },
    /// A quoted string that does not end on its line.
    #[error("this string has no closing quote")]
    #[diagnostic(help("a string ends on the line it starts on; write \\n for a line break"))]
    UnclosedString {
        /// From the opening quote to the end of the line.
        #[label("opened here")]
        at: Span,
    },
    /// Digits that do not form a number of the language.
    #[error("{text:?} is not a number")]
    Number {
        /// What is written.
        text: String,
        /// How to write it.
        #[help]
        help: String,
        /// Its place.
        #[label("whole numbers, with k, m or g for 2^10, 2^20, 2^30")]
        at: Span,
    },
    /// A `$` without a usable name after it.
    #[error("no variable name after \"$\"")]
    #[diagnostic(help("write $name, $(name) or ${{name}}; write \\$ for a dollar sign inside quotes"))]
    VariableName {
        /// Its place.
        #[label("here")]
        at: Span,
    },
    /// An operator: the language has had no expressions since 1.5.
    #[error("the language has no arithmetic")]
    #[diagnostic(help("write the result, or set it from outside with -D name=value"))]
    Arithmetic {
        /// The operator.
        #[label("operator")]
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
        #[help]
        help: Option<String>,
        /// Its place.
        #[label("here")]
        at: Span,
    },
    /// A block that is never closed.
    #[error("this block of {what} has no closing brace")]
    UnclosedBlock {
        /// Whose block.
        what: String,
        /// The opening brace.
        #[label("opened here")]
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
        #[help]
        help: Option<String>,
        /// Its place; none for a variable that was set from outside.
        #[label("unknown")]
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
        #[help]
        instead: String,
        /// Its place.
        #[label("refused")]
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
        #[label("first here")]
        first: Span,
        /// The second one.
        #[label("again here")]
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
        #[help]
        help: String,
        /// Where it belongs.
        #[label("here")]
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
        #[help]
        help: Option<String>,
        /// Its place.
        #[label("{found}")]
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
        #[help]
        help: Option<String>,
        /// Its place.
        #[label("out of range")]
        at: Span,
    },
    /// A composite flowop that runs itself.
    #[error("composite flowops run each other in a circle: {chain}")]
    #[diagnostic(help(
        "a composite may only use flowops that do not lead back to it; repeat steps with iters="
    ))]
    Recursion {
        /// The names, joined by arrows.
        chain: String,
        /// The flowop that closes the circle.
        #[label("closes the circle")]
        at: Span,
    },
    /// A table of probabilities that does not add up.
    #[error("the percentages of this table sum to {sum}, not 100")]
    Percentages {
        /// Their sum.
        sum: u64,
        /// The table.
        #[label("each row is {{percent, low, high}}")]
        at: Span,
    },
    /// Values that are fine alone and impossible together.
    #[error("{message}")]
    Impossible {
        /// What cannot work.
        message: String,
        /// What to change.
        #[help]
        help: String,
        /// Its place.
        #[label("here")]
        at: Span,
    },
    /// A step that finds its descriptor slot in the wrong state.
    #[error("{message}")]
    Slot {
        /// What goes wrong.
        message: String,
        /// What to change.
        #[help]
        help: String,
        /// The step that left the slot in this state.
        #[label("{earlier_says}")]
        earlier: Option<Span>,
        /// What that step did, e.g. `opened here`.
        earlier_says: String,
        /// The step.
        #[label("fails here")]
        at: Span,
    },
    /// Syntax of an older Filebench that is still understood.
    #[error("{what} is from an older Filebench")]
    #[diagnostic(severity(Warning))]
    Obsolete {
        /// The construct.
        what: String,
        /// How Weir takes it.
        #[help]
        help: String,
        /// Its place.
        #[label("old syntax")]
        at: Span,
    },
    /// An attribute that its flowop does not look at.
    #[error("{attribute} has no effect on {of}")]
    #[diagnostic(severity(Warning))]
    NoEffect {
        /// The attribute.
        attribute: String,
        /// The flowop type or statement.
        of: String,
        /// Why, or what to do.
        #[help]
        help: Option<String>,
        /// Its place.
        #[label("ignored")]
        at: Span,
    },
    /// A definition that nothing refers to.
    #[error("{what} \"{name}\" is never used")]
    #[diagnostic(severity(Warning))]
    Unused {
        /// What kind of thing.
        what: String,
        /// Its name.
        name: String,
        /// The nearest name that is used and not defined, or none.
        #[help]
        help: Option<String>,
        /// Its place.
        #[label("never used")]
        at: Span,
    },
    /// A statement after the run, which ends the program.
    #[error("this is never reached")]
    #[diagnostic(severity(Warning), help("the first run or psrun ends the program"))]
    Unreachable {
        /// Its place.
        #[label("after the run")]
        at: Span,
    },
    /// More than Filebench itself could do; Weir goes on.
    #[error("{value} {what}: Filebench itself stops at {limit}")]
    #[diagnostic(severity(Warning), help("Weir has no such limit; the script will not run on the original"))]
    BeyondFilebench {
        /// What is counted.
        what: String,
        /// How many.
        value: u64,
        /// Filebench's limit.
        limit: u64,
        /// Its place.
        #[label("here")]
        at: Span,
    },
    /// A script that defines and never runs. Filebench then only checks it.
    #[error("there is no run statement: the script runs as if it ended with one")]
    #[diagnostic(severity(Warning), help("end it with: run 60"))]
    NoRun,
}

impl Problem {
    /// Whether the script cannot be run because of it; the others are warnings.
    pub fn is_error(&self) -> bool {
        self.severity().unwrap_or(Severity::Error) == Severity::Error
    }

    /// The byte that it points at, or none when it concerns no place in the script.
    ///
    /// The last label is the culprit; earlier ones explain.
    pub fn offset(&self) -> Option<usize> {
        self.labels().and_then(|labels| labels.last().map(|label| label.offset()))
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
        problems.sort_by_key(|problem| (!problem.is_error(), problem.offset()));
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
        let place = match problem.offset() {
            Some(offset) => {
                let (line, column) = position(&self.source, offset);
                format!("{}:{line}:{column}", self.name)
            }
            None => self.name.clone(),
        };
        let warning = if problem.is_error() { "" } else { "warning: " };
        match problem.help() {
            Some(help) => format!("{place}: {warning}{problem}; {help}"),
            None => format!("{place}: {warning}{problem}"),
        }
    }

    /// Each problem with its source line, the place underlined, in at most `width` columns.
    ///
    /// `colour` adds terminal colours; the text is the same without them.
    pub fn render(&self, width: usize, colour: bool) -> String {
        let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(width).with_links(false);
        let source = NamedSource::new(&self.name, self.source.clone());
        let mut out = String::new();
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                out.push('\n');
            }
            let located = Located { problem, source: &source };
            if handler.render_report(&mut out, &located).is_err() {
                out.push_str(&self.line(problem));
                out.push('\n');
            }
        }
        out
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

/// A problem together with its script, which is what miette renders.
#[derive(Debug)]
struct Located<'a> {
    problem: &'a Problem,
    source: &'a NamedSource<Arc<str>>,
}

impl fmt::Display for Located<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl std::error::Error for Located<'_> {}

impl Diagnostic for Located<'_> {
    fn severity(&self) -> Option<Severity> {
        self.problem.severity()
    }

    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.problem.help()
    }

    fn source_code(&self) -> Option<&dyn miette::SourceCode> {
        Some(self.source)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = miette::LabeledSpan> + '_>> {
        self.problem.labels()
    }
}

/// A hint at the legal names nearest to `name`: the likely one as a question, or all when there are few.
pub fn did_you_mean<'a>(name: &str, legal: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut legal: Vec<&str> = legal.into_iter().collect();
    legal.sort_unstable();
    legal.dedup();
    let mut near: Vec<(usize, &str)> =
        legal.iter().map(|&candidate| (distance(name, candidate), candidate)).collect();
    near.sort_unstable();
    let limit = (name.chars().count() / 3).max(2);
    let close: Vec<&str> =
        near.iter().filter(|(far, _)| *far <= limit).take(3).map(|&(_, candidate)| candidate).collect();
    match (close.as_slice(), legal.len()) {
        ([one], _) => Some(format!("did you mean \"{one}\"?")),
        ([first, rest @ ..], _) => Some(format!("did you mean \"{first}\" or {}?", quoted(rest, " or "))),
        ([], 0) => Some("none is defined".to_owned()),
        ([], 1..=16) => Some(format!("known: {}", quoted(&legal, ", "))),
        ([], _) => None,
    }
}

fn distance(name: &str, candidate: &str) -> usize {
    let (name, candidate) = (name.to_ascii_lowercase(), candidate.to_ascii_lowercase());
    if candidate.starts_with(&name) && name.len() >= 3 {
        return 1;
    }
    if name.starts_with(&candidate) && candidate.len() >= 3 {
        return 2;
    }
    strsim::damerau_levenshtein(&name, &candidate)
}

fn quoted(names: &[&str], separator: &str) -> String {
    names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let source: Arc<str> = "set $a=1\ndefine fileset entires=3\n".into();
        let at = Span::new(source.find("entires").unwrap(), source.find("=3").unwrap());
        let unknown = Problem::Unknown {
            what: "attribute of fileset".into(),
            name: "entires".into(),
            help: did_you_mean("entires", ["entries", "size", "path"]),
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

    #[test]
    fn rendered_form_shows_the_source_line_and_underlines_the_place() {
        let text = report().render(80, false);
        assert!(text.contains("define fileset entires=3"), "{text}");
        assert!(text.contains("did you mean \"entries\"?"), "{text}");
        assert!(text.contains("web.f:2:16"), "{text}");
        assert!(!text.contains('\u{1b}'), "no colour was asked for: {text}");
    }

    #[test]
    fn suggestions_are_near_names_or_the_whole_short_list() {
        assert_eq!(did_you_mean("nfile", ["nfiles", "dir"]).unwrap(), "did you mean \"nfiles\"?");
        assert_eq!(
            did_you_mean("readfile", ["read", "statfile", "deletefile"]).unwrap(),
            "did you mean \"read\"?"
        );
        assert_eq!(did_you_mean("xyzzy", ["one", "two"]).unwrap(), "known: \"one\", \"two\"");
        assert_eq!(did_you_mean("xyzzy", ["one", "two", "one"]).unwrap(), "known: \"one\", \"two\"");
        let many: Vec<String> = (0..40).map(|n| format!("name number {n}")).collect();
        assert_eq!(did_you_mean("xyzzy", many.iter().map(String::as_str)), None);
    }
}
