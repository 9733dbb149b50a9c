//! Variables, and attributes read as what their statement wants.

use std::collections::{BTreeMap, BTreeSet};

use crate::filebench::ast::{
    Attribute, AttributeName, FlowopCall, Name, Operand, Piece, Script, SetValue, Statement, Thread,
};
use crate::filebench::lexer::UNREADABLE;
use crate::filebench::problem::Problem;
use crate::filebench::program::{Amount, Value};
use crate::filebench::span::{Span, Spanned};
use crate::filebench::vocabulary::{OLD_ATTRIBUTES, OldAttribute};

use super::{Checker, Overrides};

/// The variables of a script while it is walked.
pub(super) struct Variables<'a> {
    values: BTreeMap<String, Value>,
    /// The random ones, as written: their parameters are read again at the run.
    random: BTreeMap<String, &'a SetValue>,
    overridden: BTreeSet<String>,
    /// Where each is set for the first time.
    pub(super) set: BTreeMap<String, Span>,
    /// Those that are read anywhere.
    pub(super) used: BTreeSet<String>,
    /// The parameters of the composite flowops that are being read, innermost last.
    pub(super) scopes: Vec<BTreeMap<String, Value>>,
}

impl<'a> Variables<'a> {
    /// The variables of `script`, none set yet but the overridden ones.
    pub(super) fn new(script: &'a Script, overrides: &Overrides, problems: &mut Vec<Problem>) -> Self {
        let (mut set, mut used) = (BTreeMap::new(), BTreeSet::new());
        for statement in &script.statements {
            if let Statement::Set { variable, .. } = &statement.node {
                set.entry(variable.node.clone()).or_insert(variable.span);
            }
            mentioned(&statement.node, &mut used);
        }
        let mut values = overrides.clone();
        for (variable, number) in numbers(script) {
            if let Some(Value::Text(text)) = overrides.get(&variable.node) {
                // What reads it goes on with the script's own value, so that this is the one problem of it.
                values.insert(variable.node.clone(), Value::Int(number));
                problems.push(Problem::Expected {
                    wanted: format!("a number for ${}", variable.node),
                    found: format!("\"{text}\" (-D {}={text}; in a plan: vars)", variable.node),
                    help: Some(format!("a number such as {number} or 4k, or a random variable, cvar(…)")),
                    at: variable.span,
                });
            }
        }
        for name in overrides.keys().filter(|name| !set.contains_key(*name) && !used.contains(*name)) {
            let known: Vec<_> = set.keys().chain(&used).map(String::as_str).collect();
            let help = Some(match known[..] {
                [] => "the script has no such variable, so nothing would change".to_owned(),
                _ => document::nearest(name, known),
            });
            let (what, name) = ("variable".to_owned(), name.clone());
            problems.push(Problem::Unknown { what, name, help, at: None });
        }
        Self {
            values,
            random: BTreeMap::new(),
            overridden: overrides.keys().cloned().collect(),
            set,
            used,
            scopes: Vec::new(),
        }
    }

    /// All variables and their values, by name.
    pub(super) fn snapshot(&self) -> Vec<(String, Value)> {
        self.values.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.scopes.last().and_then(|scope| scope.get(name)).or_else(|| self.values.get(name))
    }
}

/// The variables that the script sets to a number, with the number.
fn numbers(script: &Script) -> impl Iterator<Item = (&Name, u64)> {
    script.statements.iter().filter_map(|statement| match &statement.node {
        Statement::Set { variable, value: SetValue::Plain(value) } => match value.node {
            Operand::Int(number) => Some((variable, number)),
            _ => None,
        },
        _ => None,
    })
}

/// Adds the variables that `statement` reads.
fn mentioned(statement: &Statement, used: &mut BTreeSet<String>) {
    match statement {
        Statement::Set { value: SetValue::Randvar(attributes) | SetValue::Cvar(attributes), .. } => {
            in_attributes(&attributes.node, used);
        }
        Statement::DefineFile(attributes)
        | Statement::DefineFileset(attributes)
        | Statement::Eventgen(attributes)
        | Statement::EnableMulti(attributes)
        | Statement::DoMultiSync(attributes) => in_attributes(attributes, used),
        Statement::DefineProcess { attributes, threads } => {
            in_attributes(attributes, used);
            for thread in threads {
                in_thread(&thread.node, used);
            }
        }
        Statement::DefineFlowop { attributes, body } => {
            let mut inner = BTreeSet::new();
            for call in body {
                in_call(&call.node, &mut inner);
            }
            let parameters: BTreeSet<&str> = attributes.iter().filter_map(parameter).collect();
            used.extend(inner.into_iter().filter(|name| !parameters.contains(name.as_str())));
            in_attributes(attributes, used);
        }
        Statement::Set { value: SetValue::Plain(operand), .. }
        | Statement::Run(Some(operand))
        | Statement::Sleep(operand) => in_operand(operand, used),
        Statement::PsRun { period, seconds } => {
            [period, seconds].into_iter().flatten().for_each(|operand| in_operand(operand, used));
        }
        Statement::Echo(text) | Statement::System(text) => in_pieces(&text.node.pieces, used),
        _ => {}
    }
}

fn parameter(attribute: &Attribute) -> Option<&str> {
    match &attribute.name.node {
        AttributeName::Parameter(name) => Some(name),
        AttributeName::Word(_) => None,
    }
}

fn in_thread(thread: &Thread, used: &mut BTreeSet<String>) {
    in_attributes(&thread.attributes, used);
    for call in &thread.flowops {
        in_call(&call.node, used);
    }
}

fn in_call(call: &FlowopCall, used: &mut BTreeSet<String>) {
    in_attributes(&call.attributes, used);
}

fn in_attributes(attributes: &[Attribute], used: &mut BTreeSet<String>) {
    attributes
        .iter()
        .filter_map(|attribute| attribute.value.as_ref())
        .for_each(|value| in_operand(value, used));
}

fn in_operand(operand: &Spanned<Operand>, used: &mut BTreeSet<String>) {
    match &operand.node {
        Operand::Variable(name) => {
            used.insert(name.clone());
        }
        Operand::Text(text) => in_pieces(&text.pieces, used),
        Operand::Table(rows) => {
            let cells = rows.iter().flat_map(|row| [&row.percent, &row.low, &row.high]);
            cells.for_each(|cell| in_operand(cell, used));
        }
        Operand::Int(_) | Operand::Negative(_) | Operand::Bool(_) | Operand::Word(_) => {}
    }
}

fn in_pieces(pieces: &[Piece], used: &mut BTreeSet<String>) {
    used.extend(pieces.iter().filter_map(|piece| match piece {
        Piece::Variable(name) => Some(name.clone()),
        Piece::Literal(_) => None,
    }));
}

/// The attributes of one statement, each known and given once.
pub(super) struct Attributes<'a> {
    /// The statement in words, e.g. `fileset`.
    pub(super) of: String,
    /// The statement's place.
    pub(super) at: Span,
    words: BTreeMap<&'a str, &'a Attribute>,
    /// The `$parameter`s, in order.
    pub(super) parameters: Vec<(&'a str, &'a Attribute)>,
}

impl<'a> Attributes<'a> {
    /// The attribute `name`.
    pub(super) fn get(&self, name: &str) -> Option<&'a Attribute> {
        self.words.get(name).copied()
    }

    /// Whether `name` is given.
    pub(super) fn has(&self, name: &str) -> bool {
        self.words.contains_key(name)
    }

    /// The place of `name`, or of the whole statement when it is not given.
    pub(super) fn place(&self, name: &str) -> Span {
        self.get(name).map_or(self.at, |attribute| {
            attribute.value.as_ref().map_or(attribute.name.span, |value| attribute.name.span.to(value.span))
        })
    }

    /// The words that are given.
    pub(super) fn words(&self) -> impl Iterator<Item = &'a str> {
        self.words.keys().copied()
    }
}

impl<'a> Checker<'a> {
    /// Sorts the attributes of a statement and reports those that it does not take.
    pub(super) fn attributes(
        &mut self,
        of: &str,
        at: Span,
        list: &'a [Attribute],
        legal: &[&'static str],
    ) -> Attributes<'a> {
        let mut sorted = Attributes { of: of.to_owned(), at, words: BTreeMap::new(), parameters: Vec::new() };
        for attribute in list {
            match &attribute.name.node {
                AttributeName::Parameter(name) => sorted.parameters.push((name, attribute)),
                AttributeName::Word(word) => {
                    if let Some(word) = self.known_attribute(of, word, legal, attribute.name.span) {
                        self.add_attribute(&mut sorted, word, attribute);
                    }
                }
            }
        }
        sorted
    }

    /// The modern name of an attribute, or none when it is ignored or an error.
    fn known_attribute<'n>(
        &mut self,
        of: &str,
        word: &'n str,
        legal: &[&'static str],
        at: Span,
    ) -> Option<&'n str> {
        if legal.contains(&word) {
            return Some(word);
        }
        let old = OLD_ATTRIBUTES.iter().find(|(statement, old, _)| *statement == of && *old == word);
        let what = format!("attribute \"{word}\"");
        match old {
            Some((_, _, OldAttribute::Ignored(why))) => {
                let help = format!("ignored; {why}");
                self.problems.push(Problem::Obsolete { what, help, at });
                None
            }
            Some((_, _, OldAttribute::Renamed(modern))) => {
                let help = format!("taken as {modern}=");
                self.problems.push(Problem::Obsolete { what, help, at });
                Some(modern)
            }
            Some((_, _, OldAttribute::Refused(instead))) => {
                let (why, instead) = ("it was removed in Filebench 1.5".to_owned(), (*instead).to_owned());
                self.problems.push(Problem::Refused { what, why, instead, at });
                None
            }
            None => {
                self.unknown(&format!("attribute of {of}"), word, legal.iter().copied(), at);
                None
            }
        }
    }

    fn add_attribute(&mut self, sorted: &mut Attributes<'a>, word: &'a str, attribute: &'a Attribute) {
        if let Some(first) = sorted.words.insert(word, attribute) {
            let (what, name) = ("attribute".to_owned(), word.to_owned());
            let (first, at) = (first.name.span, attribute.name.span);
            self.problems.push(Problem::Repeated { what, name, first, at });
        }
    }

    /// Reports parameters where none can be.
    pub(super) fn no_parameters(&mut self, attributes: &Attributes<'_>) {
        for (name, attribute) in &attributes.parameters {
            let help = Some("only composite flowops take $parameters".to_owned());
            let (what, name) = (format!("attribute of {}", attributes.of), format!("${name}"));
            self.problems.push(Problem::Unknown { what, name, help, at: Some(attribute.name.span) });
        }
    }

    /// `set`.
    pub(super) fn set(&mut self, variable: &Name, value: &'a SetValue) {
        if let SetValue::Plain(Spanned { node: Operand::Variable(_), span }) = value {
            let (what, wanted) = (format!("set ${}", variable.node), "a value".to_owned());
            let help =
                Some("Filebench has no assignment from variable to variable; write the value".to_owned());
            self.problems.push(Problem::WrongType {
                what,
                wanted,
                found: "a variable".to_owned(),
                help,
                at: *span,
            });
            return;
        }
        let read = match value {
            SetValue::Plain(operand) => self.value(operand),
            random => self.random(random),
        };
        if self.variables.overridden.contains(&variable.node) {
            return;
        }
        match value {
            SetValue::Plain(_) => self.variables.random.remove(&variable.node),
            random => self.variables.random.insert(variable.node.clone(), random),
        };
        // a value that could not be read is reported once, here, and not again at every use
        self.variables.values.insert(variable.node.clone(), read.unwrap_or(Value::Int(UNREADABLE)));
    }

    /// Reads the parameters of all random variables again: they are taken at the run, not at their `set`.
    pub(super) fn refresh_random(&mut self) {
        for (name, value) in self.variables.random.clone() {
            if let Some(value) = self.random(value) {
                self.variables.values.insert(name, value);
            }
        }
    }

    /// The value of a variable, here and now.
    pub(super) fn lookup(&mut self, name: &str, at: Span) -> Option<Value> {
        if let Some(value) = self.variables.get(name) {
            return Some(value.clone());
        }
        let help = if self.variables.set.contains_key(name) {
            Some("it is set further down; set it before it is used".to_owned())
        } else {
            let scope = self.variables.scopes.last().into_iter().flat_map(BTreeMap::keys);
            Some(document::nearest(name, self.variables.set.keys().chain(scope).map(String::as_str)))
        };
        let (what, name) = ("variable".to_owned(), format!("${name}"));
        self.problems.push(Problem::Unknown { what, name, help, at: Some(at) });
        None
    }

    /// The value of an operand, here and now; none when it has none, which is then reported.
    pub(super) fn value(&mut self, operand: &Spanned<Operand>) -> Option<Value> {
        let at = operand.span;
        match &operand.node {
            Operand::Int(value) => Some(Value::Int(*value)),
            Operand::Bool(value) => Some(Value::Bool(*value)),
            Operand::Word(word) => Some(Value::Text(word.clone())),
            Operand::Variable(name) => self.lookup(name, at),
            Operand::Negative(value) => {
                let help = Some("only the period of psrun may be negative".to_owned());
                self.out_of_range("this number", &format!("-{value}"), "0 or more", help, at);
                None
            }
            Operand::Text(text) => {
                let literal = text.as_literal().map(str::to_owned);
                if literal.is_none() {
                    let help = "variables are substituted in echo only; write path=$v without quotes";
                    self.unusable("a plain string", "a string with variables", help, at);
                }
                literal.map(Value::Text)
            }
            Operand::Table(_) => {
                let help = "tables stand in randvar(type=tabular,randtable={…})";
                self.unusable("one value", "a table", help, at);
                None
            }
        }
    }

    fn unusable(&mut self, wanted: &str, found: &str, help: &str, at: Span) {
        let (what, wanted, found) = ("this place".to_owned(), wanted.to_owned(), found.to_owned());
        self.problems.push(Problem::WrongType { what, wanted, found, help: Some(help.to_owned()), at });
    }

    /// The value of an attribute; a lone name is true.
    pub(super) fn attribute_value(&mut self, attribute: &Attribute) -> Option<Value> {
        match &attribute.value {
            Some(operand) => self.value(operand),
            None => Some(Value::Bool(true)),
        }
    }

    /// An attribute that takes a number or a random variable.
    pub(super) fn amount(&mut self, attributes: &Attributes<'_>, name: &str, default: u64) -> Amount {
        let Some(attribute) = attributes.get(name) else { return Amount::Fixed(default) };
        match self.attribute_value(attribute) {
            Some(Value::Int(value)) => Amount::Fixed(value),
            Some(Value::Random(distribution)) => Amount::Drawn(distribution),
            Some(other) => {
                self.wrong_type(name, "a number or a random variable", &other, attributes.place(name));
                Amount::Fixed(UNREADABLE)
            }
            None => Amount::Fixed(UNREADABLE),
        }
    }

    /// An attribute that takes a fixed number from `low` to `high`.
    pub(super) fn number(
        &mut self,
        attributes: &Attributes<'_>,
        name: &str,
        default: u64,
        (low, high): (u64, u64),
    ) -> u64 {
        let Some(attribute) = attributes.get(name) else { return default };
        let at = attributes.place(name);
        match self.attribute_value(attribute) {
            Some(Value::Int(value)) if (low..=high).contains(&value) => value,
            Some(Value::Int(value)) => {
                self.out_of_range(name, &value, &format!("from {low} to {high}"), None, at);
                default
            }
            Some(other) => {
                self.wrong_type(name, "a fixed number", &other, at);
                default
            }
            None => default,
        }
    }

    /// An attribute that is true or false; 1 and 0 are taken for them.
    pub(super) fn flag(&mut self, attributes: &Attributes<'_>, name: &str) -> bool {
        let Some(attribute) = attributes.get(name) else { return false };
        match self.attribute_value(attribute) {
            Some(Value::Bool(value)) => value,
            Some(Value::Int(value @ 0..=1)) => value == 1,
            Some(other) => {
                self.wrong_type(name, "true or false", &other, attributes.place(name));
                false
            }
            None => false,
        }
    }

    /// An attribute that takes a string.
    pub(super) fn text(&mut self, attributes: &Attributes<'_>, name: &str) -> Option<Spanned<String>> {
        let attribute = attributes.get(name)?;
        let at = attributes.place(name);
        match self.attribute_value(attribute)? {
            Value::Text(text) => Some(Spanned::new(text, at)),
            other => {
                self.wrong_type(name, "a string", &other, at);
                None
            }
        }
    }

    /// The `name` of a statement that must have one.
    pub(super) fn required_name(&mut self, attributes: &Attributes<'_>) -> Option<Spanned<String>> {
        if !attributes.has("name") {
            let of = attributes.of.clone();
            self.missing(
                "name",
                &format!("this {of}"),
                &format!("write: {of} … name=some_name"),
                attributes.at,
            );
            return None;
        }
        let name = self.text(attributes, "name")?;
        if name.node.is_empty() {
            self.missing("letters in its name", &format!("this {}", attributes.of), "name it", name.span);
            return None;
        }
        Some(name)
    }
}
