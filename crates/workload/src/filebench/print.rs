//! Writes a tree as a script that parses to an equal tree.
//!
//! Layout: one statement a line, blocks indented by two blanks, numbers with the largest suffix that
//! divides them.

use std::fmt::{self, Display, Formatter};

use super::ast::{
    Attribute, AttributeName, FlowopCall, Listing, Mode, Operand, Piece, Row, Script, SetValue, Statement,
    Text, Thread,
};
use super::span::Spanned;

impl Display for Script {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.statements.iter().try_for_each(|statement| writeln!(f, "{}", statement.node))
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { variable, value } => write!(f, "set {}={value}", Variable(&variable.node)),
            Self::SetMode(mode) => write!(f, "set mode {mode}"),
            Self::DefineFile(attributes) => write!(f, "define file {}", List(attributes)),
            Self::DefineFileset(attributes) => write!(f, "define fileset {}", List(attributes)),
            Self::DefineProcess { attributes, threads } => {
                write!(f, "define process {} {{", List(attributes))?;
                threads.iter().try_for_each(|thread| write!(f, "\n  {}", thread.node))?;
                f.write_str("\n}")
            }
            Self::DefineFlowop { attributes, body } => {
                write!(f, "define flowop {} {{", List(attributes))?;
                flowops(f, body, "  ")?;
                f.write_str("\n}")
            }
            Self::Eventgen(attributes) => write!(f, "eventgen {}", List(attributes)),
            Self::EnableMulti(attributes) => write!(f, "enable multi {}", List(attributes)),
            Self::DoMultiSync(attributes) => write!(f, "domultisync {}", List(attributes)),
            Self::Run(seconds) => write!(f, "run{}", After(seconds.as_ref())),
            Self::PsRun { period, seconds } => {
                write!(f, "psrun{}{}", After(period.as_ref()), After(seconds.as_ref()))
            }
            Self::Sleep(seconds) => write!(f, "sleep {}", seconds.node),
            Self::Echo(text) => write!(f, "echo {}", text.node),
            Self::System(text) => write!(f, "system {}", text.node),
            Self::List(Listing::Filesets) => f.write_str("list fileset"),
            Self::List(Listing::Flowops) => f.write_str("list flowop"),
            Self::Debug(level) => write!(f, "debug {}", level.node),
            Self::CreateFiles => f.write_str("create files"),
            Self::Version => f.write_str("version"),
            Self::Quit => f.write_str("quit"),
            Self::EnableLathist => f.write_str("enable lathist"),
        }
    }
}

impl Display for Mode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QuitTimeout => "quit timeout",
            Self::QuitAllDone => "quit alldone",
            Self::QuitFirstDone => "quit firstdone",
            Self::NoUseStats => "nousestats",
        })
    }
}

impl Display for SetValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(operand) => operand.node.fmt(f),
            Self::Randvar(attributes) => write!(f, "randvar({})", List(&attributes.node)),
            Self::Cvar(attributes) => write!(f, "cvar({})", List(&attributes.node)),
        }
    }
}

impl Display for Thread {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "thread {} {{", List(&self.attributes))?;
        flowops(f, &self.flowops, "    ")?;
        f.write_str("\n  }")
    }
}

fn flowops(f: &mut Formatter<'_>, calls: &[Spanned<FlowopCall>], indent: &str) -> fmt::Result {
    calls.iter().try_for_each(|call| write!(f, "\n{indent}{}", call.node))
}

impl Display for FlowopCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "flowop {} {}", self.kind.node, List(&self.attributes))
    }
}

impl Display for Attribute {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.name.node {
            AttributeName::Word(word) => f.write_str(word)?,
            AttributeName::Parameter(name) => Variable(name).fmt(f)?,
        }
        self.value.as_ref().map_or(Ok(()), |value| write!(f, "={}", value.node))
    }
}

impl Display for Operand {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => Number(*value).fmt(f),
            Self::Negative(value) => write!(f, "-{value}"),
            Self::Bool(value) => value.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => text.fmt(f),
            Self::Variable(name) => Variable(name).fmt(f),
            Self::Table(rows) => write!(f, "{{{}}}", List(rows)),
        }
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}, {}, {}}}", self.percent.node, self.low.node, self.high.node)
    }
}

impl Display for Text {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for piece in &self.pieces {
            match piece {
                Piece::Literal(text) => text.chars().try_for_each(|letter| escape(f, letter))?,
                Piece::Variable(name) => write!(f, "${{{name}}}")?,
            }
        }
        f.write_str("\"")
    }
}

fn escape(f: &mut Formatter<'_>, letter: char) -> fmt::Result {
    match letter {
        '\n' => f.write_str("\\n"),
        '"' | '\\' | '$' => write!(f, "\\{letter}"),
        _ => write!(f, "{letter}"),
    }
}

/// A variable in the shortest form that Filebench takes.
pub(crate) struct Variable<'a>(pub(crate) &'a str);

impl Display for Variable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.len() < 2 { write!(f, "$({})", self.0) } else { write!(f, "${}", self.0) }
    }
}

/// A number with the largest of the suffixes g, m, k that divides it.
pub(crate) struct Number(pub(crate) u64);

impl Display for Number {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let suffix = [(30, "g"), (20, "m"), (10, "k")]
            .into_iter()
            .find(|&(shift, _)| self.0 != 0 && self.0.trailing_zeros() >= shift);
        match suffix {
            Some((shift, name)) => write!(f, "{}{name}", self.0 >> shift),
            None => write!(f, "{}", self.0),
        }
    }
}

struct List<'a, T>(&'a [T]);

impl<T: Display> Display for List<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            write!(f, "{}{item}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

struct After<'a>(Option<&'a Spanned<Operand>>);

impl Display for After<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |operand| write!(f, " {}", operand.node))
    }
}
