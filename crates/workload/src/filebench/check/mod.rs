//! From the tree to a checked [`Program`].
//!
//! The checker walks the statements like Filebench's interpreter: `set` changes variables, definitions are
//! kept as they are written, and at `create files` (filesets) and `run` (everything) the definitions are
//! read with the values that the variables have then. It never stops at a problem; a definition that cannot
//! be read is left out of the program, which is handed out only when no error was found.
//!
//! | module | checks |
//! |---|---|
//! | `values` | variables, types and ranges of attributes |
//! | `random` | `randvar` and `cvar` |
//! | `filesets` | `define file`, `define fileset` |
//! | `processes` | processes, threads, composite flowops |
//! | `operations` | the attributes of one flowop |
//! | `slots` | the state of the descriptor slots around a thread's loop |
//! | `whole` | what needs the whole program: targets, limits, unused names |

mod filesets;
mod operations;
mod processes;
pub(crate) mod random;
mod slots;
mod values;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::{Attribute, FlowopCall, Listing, Mode, Operand, Piece, Script, Statement, Text, Thread};
use super::problem::{Problem, Report};
use super::program::{Amount, EndPolicy, Fileset, Process, Program, Run, Snapshots, Step, Value};
use super::span::{Span, Spanned};
use super::vocabulary::EVENTGEN_ATTRIBUTES;
use values::Variables;

/// Values of variables that win over the script's own `set`.
pub type Overrides = BTreeMap<String, Value>;

/// Checks `script` and reads it with these overrides.
///
/// `problems` are those of the parser; they are part of the report.
pub fn check(
    name: &str,
    source: &str,
    script: &Script,
    overrides: &Overrides,
    problems: Vec<Problem>,
) -> Result<Program, Report> {
    let mut checker = Checker::new(script, overrides, problems);
    checker.statements(script);
    checker.whole_program(script);
    let report = Report::new(name, Arc::from(source), checker.problems);
    if report.has_errors() {
        return Err(report);
    }
    Ok(Program {
        name: name.to_owned(),
        filesets: checker.filesets,
        processes: checker.processes,
        steps: checker.steps,
        end: checker.end,
        run: checker.run,
        event_rate: checker.event_rate,
        latency_histograms: checker.latency_histograms,
        cpu_statistics: checker.cpu_statistics,
        variables: checker.variables.snapshot(),
        warnings: report,
    })
}

/// Every attribute anywhere in `script`, in no particular order.
#[cfg(test)]
pub(crate) fn every_attribute(script: &Script) -> Vec<&Attribute> {
    use super::ast::SetValue;
    let mut found = Vec::new();
    fn calls(calls: &[Spanned<FlowopCall>]) -> impl Iterator<Item = &Attribute> {
        calls.iter().flat_map(|call| &call.node.attributes)
    }
    for statement in &script.statements {
        match &statement.node {
            Statement::DefineFile(attributes) | Statement::DefineFileset(attributes) => {
                found.extend(attributes);
            }
            Statement::Set { value: SetValue::Randvar(list) | SetValue::Cvar(list), .. } => {
                found.extend(&list.node);
            }
            Statement::DefineProcess { attributes, threads } => {
                found.extend(attributes);
                for thread in threads {
                    found.extend(&thread.node.attributes);
                    found.extend(calls(&thread.node.flowops));
                }
            }
            Statement::DefineFlowop { attributes, body } => {
                found.extend(attributes);
                found.extend(calls(body));
            }
            _ => {}
        }
    }
    found
}

/// A composite flowop as it was defined.
struct Composite<'a> {
    attributes: &'a [Attribute],
    body: &'a [Spanned<FlowopCall>],
    span: Span,
    used: bool,
}

/// A fileset as it was defined, to be read later.
struct FilesetDefinition<'a> {
    attributes: &'a [Attribute],
    single: bool,
    span: Span,
}

/// A process as it was defined, to be read at the run.
struct ProcessDefinition<'a> {
    attributes: &'a [Attribute],
    threads: &'a [Spanned<Thread>],
    span: Span,
}

struct Checker<'a> {
    problems: Vec<Problem>,
    variables: Variables<'a>,
    composites: BTreeMap<String, Composite<'a>>,
    fileset_definitions: Vec<FilesetDefinition<'a>>,
    process_definitions: Vec<ProcessDefinition<'a>>,
    eventgen: Option<Spanned<&'a [Attribute]>>,
    filesets: Vec<Fileset>,
    processes: Vec<Process>,
    steps: Vec<Step>,
    end: EndPolicy,
    run: Option<Run>,
    event_rate: Option<Amount>,
    latency_histograms: bool,
    cpu_statistics: bool,
}

impl<'a> Checker<'a> {
    fn new(script: &'a Script, overrides: &Overrides, mut problems: Vec<Problem>) -> Self {
        let variables = Variables::new(script, overrides, &mut problems);
        Self {
            problems,
            variables,
            composites: BTreeMap::new(),
            fileset_definitions: Vec::new(),
            process_definitions: Vec::new(),
            eventgen: None,
            filesets: Vec::new(),
            processes: Vec::new(),
            steps: Vec::new(),
            end: EndPolicy::default(),
            run: None,
            event_rate: None,
            latency_histograms: false,
            cpu_statistics: true,
        }
    }

    /// Walks to the first run, quit or the end.
    fn statements(&mut self, script: &'a Script) {
        for (index, statement) in script.statements.iter().enumerate() {
            if self.statement(statement) {
                if let Some(next) = script.statements.get(index + 1) {
                    self.problems.push(Problem::Unreachable { at: next.span });
                }
                break;
            }
        }
        self.read_definitions();
        if self.run.is_none() && !script.statements.is_empty() {
            self.problems.push(Problem::NoRun);
        }
    }

    /// One statement; true when it ends the program.
    fn statement(&mut self, statement: &'a Spanned<Statement>) -> bool {
        let at = statement.span;
        match &statement.node {
            Statement::Set { variable, value } => self.set(variable, value),
            Statement::SetMode(mode) => self.set_mode(*mode),
            Statement::DefineFile(attributes) => {
                self.fileset_definitions.push(FilesetDefinition { attributes, single: true, span: at });
            }
            Statement::DefineFileset(attributes) => {
                self.fileset_definitions.push(FilesetDefinition { attributes, single: false, span: at });
            }
            Statement::DefineProcess { attributes, threads } => {
                self.process_definitions.push(ProcessDefinition { attributes, threads, span: at });
            }
            Statement::DefineFlowop { attributes, body } => self.define_composite(attributes, body, at),
            Statement::CreateFiles => {
                self.read_filesets();
                self.steps.push(Step::CreateFiles);
            }
            Statement::Eventgen(attributes) => self.eventgen = Some(Spanned::new(attributes.as_slice(), at)),
            Statement::Run(seconds) => self.run = Some(self.run_for(seconds.as_ref(), None)),
            Statement::PsRun { period, seconds } => self.psrun(period.as_ref(), seconds.as_ref()),
            Statement::Sleep(seconds) => {
                let seconds = self.seconds("sleep", seconds);
                self.steps.push(Step::Sleep(seconds));
            }
            Statement::Echo(text) => self.echo(text),
            Statement::List(Listing::Filesets) => self.steps.push(Step::ListFilesets),
            Statement::List(Listing::Flowops) => self.steps.push(Step::ListFlowops),
            Statement::Debug(level) => self.debug(level),
            Statement::Version => self.steps.push(Step::Version),
            Statement::EnableLathist => self.latency_histograms = true,
            Statement::System(_) | Statement::EnableMulti(_) | Statement::DoMultiSync(_) => {
                self.refuse(&statement.node, at);
            }
            Statement::Quit => {}
        }
        matches!(statement.node, Statement::Run(_) | Statement::PsRun { .. } | Statement::Quit)
    }

    fn set_mode(&mut self, mode: Mode) {
        match mode {
            Mode::QuitTimeout => self.end = EndPolicy::Timeout,
            Mode::QuitAllDone => self.end = EndPolicy::AllDone,
            Mode::QuitFirstDone => self.end = EndPolicy::FirstDone,
            Mode::NoUseStats => self.cpu_statistics = false,
        }
    }

    fn refuse(&mut self, statement: &Statement, at: Span) {
        let (what, why, instead) = match statement {
            Statement::System(_) => (
                "system",
                "a workload runs inside Weir and cannot start programs of the host",
                "run the command before or after weir; Weir does not drop caches between preparation and work",
            ),
            Statement::EnableMulti(_) => (
                "enable multi",
                "Weir has no clients on other machines",
                "give the process instances=N, or run several threads",
            ),
            _ => (
                "domultisync",
                "Weir has no clients on other machines",
                "remove it; all threads of a run start together",
            ),
        };
        let (what, why, instead) = (what.to_owned(), why.to_owned(), instead.to_owned());
        self.problems.push(Problem::Refused { what, why, instead, at });
    }

    fn define_composite(&mut self, attributes: &'a [Attribute], body: &'a [Spanned<FlowopCall>], at: Span) {
        let Some(name) = self.composite_name(attributes, at) else { return };
        if let Some(first) = self.composites.get(&name.node) {
            let (what, first) = ("composite flowop".to_owned(), first.span);
            self.problems.push(Problem::Repeated { what, name: name.node, first, at: name.span });
            return;
        }
        self.composites.insert(name.node, Composite { attributes, body, span: name.span, used: false });
    }

    fn psrun(&mut self, period: Option<&Spanned<Operand>>, seconds: Option<&Spanned<Operand>>) {
        let (period_s, reset) = match period {
            None => (10, false),
            Some(Spanned { node: Operand::Negative(seconds), .. }) => (*seconds, true),
            Some(period) => (self.seconds("the period of psrun", period), false),
        };
        let period_s = if period_s == 0 { 10 } else { period_s };
        let run = self.run_for(seconds, Some(Snapshots { period_s, reset }));
        self.run = Some(run);
    }

    fn run_for(&mut self, seconds: Option<&Spanned<Operand>>, snapshots: Option<Snapshots>) -> Run {
        let seconds = seconds.map_or(0, |seconds| self.seconds("the time of the run", seconds));
        let seconds = match (seconds, self.end) {
            (0, EndPolicy::Timeout) => Some(60),
            (0, _) => None,
            (seconds, _) => Some(seconds),
        };
        Run { seconds, snapshots }
    }

    fn seconds(&mut self, what: &str, operand: &Spanned<Operand>) -> u64 {
        match self.value(operand) {
            Some(Value::Int(seconds)) => seconds,
            Some(other) => {
                self.wrong_type(what, "a number of seconds", &other, operand.span);
                0
            }
            None => 0,
        }
    }

    fn echo(&mut self, text: &Spanned<Text>) {
        let mut out = String::new();
        for piece in &text.node.pieces {
            match piece {
                Piece::Literal(letters) => out.push_str(letters),
                Piece::Variable(name) => {
                    let value = self.lookup(name, text.span);
                    out.push_str(&value.map_or_else(String::new, |value| value.to_string()));
                }
            }
        }
        self.steps.push(Step::Echo(out));
    }

    fn debug(&mut self, level: &Spanned<u64>) {
        if level.node > 10 {
            let help = Some("it only makes Filebench talk more; weir has -v".to_owned());
            self.out_of_range("the debug level", &level.node, "0 to 10", help, level.span);
        }
    }

    /// Reads all definitions that were not read yet, as a run does.
    fn read_definitions(&mut self) {
        self.read_filesets();
        self.read_processes();
        if let Some(eventgen) = self.eventgen.take() {
            let attributes = self.attributes("eventgen", eventgen.span, eventgen.node, EVENTGEN_ATTRIBUTES);
            let rate = self.amount(&attributes, "rate", 0);
            self.event_rate = Some(rate).filter(|rate| !rate.is_zero());
        }
    }

    /// How many errors were found so far.
    fn errors(&self) -> usize {
        self.problems.iter().filter(|problem| problem.is_error()).count()
    }

    fn unknown<'n>(&mut self, what: &str, name: &str, legal: impl IntoIterator<Item = &'n str>, at: Span) {
        let help = Some(document::nearest(name, legal));
        self.problems.push(Problem::Unknown {
            what: what.to_owned(),
            name: name.to_owned(),
            help,
            at: Some(at),
        });
    }

    fn missing(&mut self, what: &str, of: &str, help: &str, at: Span) {
        let (what, of, help) = (what.to_owned(), of.to_owned(), help.to_owned());
        self.problems.push(Problem::Missing { what, of, help, at });
    }

    fn impossible(&mut self, message: String, help: String, at: Span) {
        self.problems.push(Problem::Impossible { message, help, at });
    }

    fn wrong_type(&mut self, what: &str, wanted: &str, found: &Value, at: Span) {
        let help = match (found, wanted) {
            (Value::Text(text), _) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Some("write the number without quotes".to_owned())
            }
            (Value::Int(_), "a string") => Some("quote it".to_owned()),
            _ => None,
        };
        let (what, wanted, found) = (what.to_owned(), wanted.to_owned(), found.kind().to_owned());
        self.problems.push(Problem::WrongType { what, wanted, found, help, at });
    }

    fn out_of_range(
        &mut self,
        what: &str,
        value: &dyn std::fmt::Display,
        range: &str,
        help: Option<String>,
        at: Span,
    ) {
        let (what, value, range) = (what.to_owned(), value.to_string(), range.to_owned());
        self.problems.push(Problem::OutOfRange { what, value, range, help, at });
    }
}
