//! The tree of a script: exactly what is written, with places, before anything is looked up.
//!
//! Names of attributes and flowops are kept as words; whether they mean something is the question of `check`.
//! [`std::fmt::Display`] writes the tree as a script that parses to an equal tree (`print.rs`).

use super::span::Spanned;

/// A name and where it stands.
pub type Name = Spanned<String>;

/// A whole script.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Its statements, in order.
    pub statements: Vec<Spanned<Statement>>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `set $v=value`.
    Set {
        /// The variable, without `$`.
        variable: Name,
        /// Its new value.
        value: SetValue,
    },
    /// `set mode …`.
    SetMode(Mode),
    /// `define file …`.
    DefineFile(Vec<Attribute>),
    /// `define fileset …`.
    DefineFileset(Vec<Attribute>),
    /// `define process … { thread … }`.
    DefineProcess {
        /// Its attributes.
        attributes: Vec<Attribute>,
        /// Its threads.
        threads: Vec<Spanned<Thread>>,
    },
    /// `define flowop … { flowop … }`: a composite.
    DefineFlowop {
        /// Its attributes and parameters.
        attributes: Vec<Attribute>,
        /// Its steps.
        body: Vec<Spanned<FlowopCall>>,
    },
    /// `create files` (also `file`, `fileset`, `filesets`).
    CreateFiles,
    /// `eventgen rate=N`.
    Eventgen(Vec<Attribute>),
    /// `run [seconds]`.
    Run(Option<Spanned<Operand>>),
    /// `psrun [period [seconds]]`.
    PsRun {
        /// Seconds between snapshots; negative also resets the statistics at each.
        period: Option<Spanned<Operand>>,
        /// Seconds to run.
        seconds: Option<Spanned<Operand>>,
    },
    /// `sleep seconds`.
    Sleep(Spanned<Operand>),
    /// `echo "text"`.
    Echo(Spanned<Text>),
    /// `system "command"`.
    System(Spanned<Text>),
    /// `list fileset` or `list flowop`.
    List(Listing),
    /// `debug level`.
    Debug(Spanned<u64>),
    /// `version`.
    Version,
    /// `quit`.
    Quit,
    /// `enable lathist`.
    EnableLathist,
    /// `enable multi …`.
    EnableMulti(Vec<Attribute>),
    /// `domultisync value=N`.
    DoMultiSync(Vec<Attribute>),
}

/// What `set mode` chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `quit timeout`: run for the given time.
    QuitTimeout,
    /// `quit alldone`: run until every thread has nothing left to do.
    QuitAllDone,
    /// `quit firstdone`: run until one thread has nothing left to do.
    QuitFirstDone,
    /// `nousestats`: no statistics of processor use.
    NoUseStats,
}

/// What `list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// The filesets.
    Filesets,
    /// The flowops.
    Flowops,
}

/// The right side of `set`.
#[derive(Clone, Debug, PartialEq)]
pub enum SetValue {
    /// A plain value.
    Plain(Spanned<Operand>),
    /// `randvar(…)`: a random variable of the built-in kinds.
    Randvar(Spanned<Vec<Attribute>>),
    /// `cvar(…)`: a random variable of a named custom kind.
    Cvar(Spanned<Vec<Attribute>>),
}

/// `thread … { flowop … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// Its loop.
    pub flowops: Vec<Spanned<FlowopCall>>,
}

/// `flowop TYPE …`.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowopCall {
    /// A built-in type or the name of a composite.
    pub kind: Name,
    /// Its attributes, with arguments for the parameters of a composite.
    pub attributes: Vec<Attribute>,
}

/// `name`, `name=value`, `$parameter` or `$parameter=value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// What is given.
    pub name: Spanned<AttributeName>,
    /// Its value; a lone name means true.
    pub value: Option<Spanned<Operand>>,
}

/// The left side of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeName {
    /// A word of the language.
    Word(String),
    /// A parameter of a composite flowop, without `$`.
    Parameter(String),
}

/// A value as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A number; suffixes are multiplied in.
    Int(u64),
    /// A negative number (only the period of `psrun` may be one).
    Negative(u64),
    /// `true` or `false`.
    Bool(bool),
    /// A bare word.
    Word(String),
    /// A quoted string.
    Text(Text),
    /// `$name`, to be read when it is used.
    Variable(String),
    /// `{{percent, low, high}, …}`.
    Table(Vec<Row>),
}

/// A row of a table of probabilities.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Percent of all draws that fall into this row.
    pub percent: Spanned<Operand>,
    /// Lowest value.
    pub low: Spanned<Operand>,
    /// Highest value.
    pub high: Spanned<Operand>,
}

/// A quoted string; neighbouring literal pieces are one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// Its pieces.
    pub pieces: Vec<Piece>,
}

/// A piece of a quoted string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Characters, escapes resolved.
    Literal(String),
    /// `$name`, substituted by `echo`.
    Variable(String),
}

impl Text {
    /// Appends literal characters.
    pub(crate) fn push_str(&mut self, text: &str) {
        match self.pieces.last_mut() {
            _ if text.is_empty() => {}
            Some(Piece::Literal(last)) => last.push_str(text),
            _ => self.pieces.push(Piece::Literal(text.to_owned())),
        }
    }

    /// The characters, or none when it holds variables.
    pub(crate) fn as_literal(&self) -> Option<&str> {
        match self.pieces.as_slice() {
            [] => Some(""),
            [Piece::Literal(text)] => Some(text),
            _ => None,
        }
    }
}
