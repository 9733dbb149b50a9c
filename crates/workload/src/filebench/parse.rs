//! From tokens to the tree.
//!
//! Recursive descent by hand, over the tokens of `lexer.rs`: the grammar is small, and each of its mistakes
//! deserves its own sentence. After a mistake the parser goes on at the next line that starts with a
//! statement's keyword, so one pass reports the mistakes of all statements. What older Filebench versions
//! understood is accepted with a warning where that is harmless, and refused with the modern spelling where
//! it is not.
//!
//! ```text
//! script     statement*
//! statement  set $v = value | set mode … | define … | create files | eventgen list | run [value] | …
//! list       attribute (, attribute)*
//! attribute  name [= value] | $parameter [= value]
//! value      number | true | false | word | string | $variable | { {value, value, value}, … }
//! ```

use std::collections::BTreeSet;

use super::ast::{
    Attribute, AttributeName, FlowopCall, Listing, Mode, Name, Operand, Row, Script, SetValue, Statement,
    Text, Thread,
};
use super::lexer::{Token, TokenKind, tokens};
use super::problem::Problem;
use super::span::{Span, Spanned};

/// The words that start a statement.
pub(crate) const STATEMENTS: &[&str] = &[
    "create",
    "debug",
    "define",
    "domultisync",
    "echo",
    "enable",
    "eventgen",
    "exit",
    "list",
    "psrun",
    "quit",
    "run",
    "set",
    "sleep",
    "system",
    "version",
];

/// What older versions understood, as (word, what Weir does).
const OLD_STATEMENTS: &[(&str, Old)] = &[
    ("usage", Old::Ignored("comments explain a script: # …")),
    ("vars", Old::Ignored("list the variables with: weir show filebench/NAME")),
    ("help", Old::Ignored("see: weir show filebench/NAME")),
    ("shutdown", Old::Ignored("the run ends its processes itself")),
    ("log", Old::Ignored("use echo")),
    ("stats", Old::Ignored("run and psrun print the statistics themselves")),
    ("load", Old::Refused("a script is one file since 1.5", "name the script on the command line")),
    ("foreach", Old::Refused("the language has no loops since 1.5", "sweep the variable from a plan")),
    ("fscheck", Old::Refused("it ran a tool of the host", "use: weir fsck")),
    ("fsflush", Old::Refused("it ran a tool of the host", "leave it out: Weir does not drop caches")),
    ("warmup", Old::Refused("it is not part of the language", "use the plan's warm-up time")),
    ("enable_osprof", Old::Refused("it needs a special kernel", "see: weir explain")),
    ("disable_osprof", Old::Refused("it needs a special kernel", "see: weir explain")),
];

#[derive(Clone, Copy)]
enum Old {
    Ignored(&'static str),
    Refused(&'static str, &'static str),
}

type Parse<T> = Result<T, Box<Problem>>;

/// The tree of `source`, without the statements that could not be understood, and all problems found.
pub fn parse(source: &str) -> (Script, Vec<Problem>) {
    let (tokens, unreadable) = tokens(source);
    let mut parser = Parser { tokens, next: 0, problems: Vec::new() };
    let statements = parser.script();
    let line = |problem: &Problem| problem.at().map(|at| document::position(source, at.start).0);
    let explained: BTreeSet<_> = unreadable.iter().map(line).collect();
    let mut problems = parser.problems;
    problems.retain(|problem| !explained.contains(&line(problem)));
    problems.extend(unreadable);
    (Script { statements }, problems)
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    problems: Vec<Problem>,
}

impl Parser {
    fn script(&mut self) -> Vec<Spanned<Statement>> {
        let mut statements = Vec::new();
        while *self.peek() != TokenKind::End {
            let (first, start) = (self.next, self.span());
            match self.statement() {
                Ok(Some(statement)) => statements.push(Spanned::new(statement, start.to(self.last_span()))),
                Ok(None) => {}
                Err(problem) => {
                    self.problems.push(*problem);
                    self.resume(first);
                }
            }
        }
        statements
    }

    /// Goes to the next line that starts with a statement's keyword, past the token `failed` in any case.
    fn resume(&mut self, failed: usize) {
        while *self.peek() != TokenKind::End {
            if self.next > failed && self.tokens[self.next].first_on_line && self.at_statement() {
                return;
            }
            self.advance();
        }
    }

    fn at_statement(&self) -> bool {
        matches!(self.peek(), TokenKind::Word(word) if is_statement(word))
    }

    /// One statement; none when it was ignored.
    fn statement(&mut self) -> Parse<Option<Statement>> {
        let keyword = self.word("a statement")?;
        let statement = match keyword.node.as_str() {
            "set" => self.set()?,
            "define" => return self.define(),
            "create" => return self.create(&keyword),
            "eventgen" => Statement::Eventgen(self.attributes()?),
            "run" => Statement::Run(self.optional_seconds()),
            "psrun" => Statement::PsRun { period: self.optional_seconds(), seconds: self.optional_seconds() },
            "sleep" => Statement::Sleep(self.operand()?),
            "echo" => Statement::Echo(self.text()?),
            "system" => Statement::System(self.text()?),
            "list" => self.list()?,
            "debug" => Statement::Debug(self.level()?),
            "version" => Statement::Version,
            "quit" | "exit" => Statement::Quit,
            "enable" => self.enable()?,
            "domultisync" => Statement::DoMultiSync(self.attributes()?),
            _ => return self.other(&keyword).map(|()| None),
        };
        Ok(Some(statement))
    }

    /// A word that starts no statement: old, misplaced or unknown.
    fn other(&mut self, keyword: &Name) -> Parse<()> {
        let what = keyword.node.clone();
        match OLD_STATEMENTS.iter().find(|(word, _)| *word == what) {
            Some((_, Old::Ignored(help))) => {
                self.problems.push(Problem::Obsolete {
                    what,
                    help: format!("ignored; {help}"),
                    at: keyword.span,
                });
                self.skip_rest();
                Ok(())
            }
            Some((_, Old::Refused(why, instead))) => {
                let problem = refused(&what, why, instead, keyword.span);
                self.skip_rest();
                Err(Box::new(problem))
            }
            None if matches!(what.as_str(), "thread" | "flowop") => {
                let home = if what == "thread" { "a process" } else { "a thread or a composite flowop" };
                let wanted = format!("a statement ({what} stands inside {home})");
                Err(Box::new(Problem::Expected {
                    wanted,
                    found: format!("\"{what}\""),
                    help: None,
                    at: keyword.span,
                }))
            }
            None if !self.tokens[self.next.saturating_sub(1)].first_on_line => {
                let (wanted, found) = ("the end of the statement".to_owned(), format!("\"{what}\""));
                Err(Box::new(Problem::Expected { wanted, found, help: None, at: keyword.span }))
            }
            None => Err(Box::new(unknown("statement", &what, STATEMENTS, keyword.span))),
        }
    }

    /// Skips what belongs to a statement that is not understood: to the end of its line, or of its block.
    fn skip_rest(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.peek() {
                TokenKind::End => return,
                _ if depth == 0
                    && self.tokens[self.next].first_on_line
                    && *self.peek() != TokenKind::OpenBrace =>
                {
                    return;
                }
                TokenKind::OpenBrace => depth += 1,
                TokenKind::CloseBrace => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.advance();
        }
    }

    fn set(&mut self) -> Parse<Statement> {
        if let TokenKind::Word(word) = self.peek()
            && word == "mode"
        {
            self.advance();
            return self.mode().map(Statement::SetMode);
        }
        let variable = self.variable()?;
        self.expect(&TokenKind::Equals)?;
        let value = match (self.peek(), self.peek_second()) {
            (TokenKind::Word(word), TokenKind::OpenParen) => {
                let word = word.clone();
                self.random(&word)?
            }
            _ => SetValue::Plain(self.operand()?),
        };
        Ok(Statement::Set { variable, value })
    }

    /// `randvar(…)` or `cvar(…)`.
    fn random(&mut self, kind: &str) -> Parse<SetValue> {
        let start = self.span();
        if !matches!(kind, "randvar" | "cvar") {
            return Err(Box::new(unknown("kind of random variable", kind, &["randvar", "cvar"], start)));
        }
        self.advance();
        self.expect(&TokenKind::OpenParen)?;
        let attributes = self.attributes()?;
        self.expect(&TokenKind::CloseParen)?;
        let attributes = Spanned::new(attributes, start.to(self.last_span()));
        Ok(if kind == "cvar" { SetValue::Cvar(attributes) } else { SetValue::Randvar(attributes) })
    }

    fn mode(&mut self) -> Parse<Mode> {
        let first = self.word("\"quit\" or \"nousestats\"")?;
        match first.node.as_str() {
            "nousestats" => return Ok(Mode::NoUseStats),
            "quit" => {}
            other => return Err(Box::new(unknown("mode", other, &["quit", "nousestats"], first.span))),
        }
        let policy = self.word("\"timeout\", \"alldone\" or \"firstdone\"")?;
        match policy.node.as_str() {
            "timeout" => Ok(Mode::QuitTimeout),
            "alldone" => Ok(Mode::QuitAllDone),
            "firstdone" => Ok(Mode::QuitFirstDone),
            other => {
                Err(Box::new(unknown("end policy", other, &["timeout", "alldone", "firstdone"], policy.span)))
            }
        }
    }

    fn define(&mut self) -> Parse<Option<Statement>> {
        const KINDS: &[&str] = &["file", "fileset", "process", "flowop"];
        let kind = self.word("what to define")?;
        let statement = match kind.node.as_str() {
            "file" | "files" => Statement::DefineFile(self.attributes()?),
            "fileset" | "filesets" => Statement::DefineFileset(self.attributes()?),
            "process" | "processes" => {
                let attributes = self.attributes()?;
                let threads = self.block("process", "thread", Self::thread)?;
                Statement::DefineProcess { attributes, threads }
            }
            "flowop" => {
                let attributes = self.attributes()?;
                let body = self.block("composite flowop", "flowop", Self::flowop)?;
                Statement::DefineFlowop { attributes, body }
            }
            "randvar" => self.old_randvar(&kind)?,
            "posset" => {
                let instead = "use random offsets, or several files";
                return Err(Box::new(refused(
                    "define posset",
                    "sets of positions were removed in 1.5",
                    instead,
                    kind.span,
                )));
            }
            other => return Err(Box::new(unknown("kind of definition", other, KINDS, kind.span))),
        };
        Ok(Some(statement))
    }

    /// `define randvar name=$v,…`, which is now `set $v=randvar(…)`.
    fn old_randvar(&mut self, keyword: &Name) -> Parse<Statement> {
        let mut attributes = self.attributes()?;
        let named = |attribute: &Attribute| attribute.name.node == AttributeName::Word("name".to_owned());
        let position = attributes.iter().position(named);
        let name = position.map(|index| attributes.remove(index)).and_then(|attribute| attribute.value);
        let what = "define randvar".to_owned();
        let Some(Spanned { node: Operand::Variable(name), span }) = name else {
            let (of, what) = (what, "name=$variable".to_owned());
            let help = "write: set $v=randvar(type=…)".to_owned();
            return Err(Box::new(Problem::Missing { what, of, help, at: keyword.span }));
        };
        let variable = Spanned::new(name, span);
        let help = format!("taken as: set ${}=randvar(…)", variable.node);
        self.problems.push(Problem::Obsolete { what, help, at: keyword.span });
        let span = keyword.span.to(self.last_span());
        Ok(Statement::Set { variable, value: SetValue::Randvar(Spanned::new(attributes, span)) })
    }

    fn create(&mut self, keyword: &Name) -> Parse<Option<Statement>> {
        let what = self.word("\"files\"")?;
        match what.node.as_str() {
            "file" | "files" | "fileset" | "filesets" => Ok(Some(Statement::CreateFiles)),
            "process" | "processes" => {
                let help = "ignored; run starts the processes".to_owned();
                let what = "create processes".to_owned();
                self.problems.push(Problem::Obsolete { what, help, at: keyword.span });
                Ok(None)
            }
            other => Err(Box::new(unknown("thing to create", other, &["files"], what.span))),
        }
    }

    fn list(&mut self) -> Parse<Statement> {
        let what = self.word("\"fileset\" or \"flowop\"")?;
        match what.node.as_str() {
            "file" | "files" | "fileset" | "filesets" => Ok(Statement::List(Listing::Filesets)),
            "flowop" | "flowops" => Ok(Statement::List(Listing::Flowops)),
            other => Err(Box::new(unknown("thing to list", other, &["fileset", "flowop"], what.span))),
        }
    }

    fn enable(&mut self) -> Parse<Statement> {
        let what = self.word("\"lathist\" or \"multi\"")?;
        match what.node.as_str() {
            "lathist" => Ok(Statement::EnableLathist),
            "multi" => Ok(Statement::EnableMulti(self.attributes()?)),
            other => Err(Box::new(unknown("thing to enable", other, &["lathist", "multi"], what.span))),
        }
    }

    fn thread(&mut self) -> Parse<Thread> {
        let attributes = self.attributes()?;
        let flowops = self.block("thread", "flowop", Self::flowop)?;
        Ok(Thread { attributes, flowops })
    }

    fn flowop(&mut self) -> Parse<FlowopCall> {
        let kind = self.word("a flowop type")?;
        let attributes = match self.peek() {
            TokenKind::CloseBrace | TokenKind::End => Vec::new(),
            TokenKind::Word(word) if word == "flowop" && *self.peek_second() != TokenKind::Equals => {
                Vec::new()
            }
            _ => self.attributes()?,
        };
        Ok(FlowopCall { kind, attributes })
    }

    /// `{ keyword item keyword item … }`.
    fn block<T>(
        &mut self,
        of: &str,
        keyword: &str,
        mut item: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<Spanned<T>>> {
        let open = self.expect(&TokenKind::OpenBrace)?;
        let mut items = Vec::new();
        loop {
            let start = self.span();
            match self.peek() {
                TokenKind::CloseBrace => {
                    self.advance();
                    return Ok(items);
                }
                TokenKind::Word(word) if word == keyword => {
                    self.advance();
                    let node = item(self)?;
                    items.push(Spanned::new(node, start.to(self.last_span())));
                }
                TokenKind::End => {
                    return Err(Box::new(Problem::UnclosedBlock { what: of.to_owned(), at: open }));
                }
                TokenKind::Word(word) if self.tokens[self.next].first_on_line && is_statement(word) => {
                    return Err(Box::new(Problem::UnclosedBlock { what: of.to_owned(), at: open }));
                }
                _ => return Err(Box::new(self.expected(format!("\"{keyword}\" or \"}}\""), None))),
            }
        }
    }

    /// `attribute, attribute, …`: at least one.
    fn attributes(&mut self) -> Parse<Vec<Attribute>> {
        let mut attributes = vec![self.attribute()?];
        loop {
            match (self.peek(), self.peek_second()) {
                (TokenKind::Comma, TokenKind::Word(word))
                    if is_statement(word) && self.tokens[self.next + 1].first_on_line =>
                {
                    self.advance();
                    if self.starts_attribute() {
                        attributes.push(self.attribute()?);
                        continue;
                    }
                    let help = Some("remove the comma before it".to_owned());
                    let problem = self.expected("an attribute".to_owned(), help);
                    self.problems.push(problem);
                    return Ok(attributes);
                }
                (TokenKind::Comma, _) => self.advance(),
                (TokenKind::Word(_) | TokenKind::Variable(_), TokenKind::Equals) => {
                    let help = Some("attributes are separated by commas".to_owned());
                    let problem = self.expected("\",\"".to_owned(), help);
                    self.problems.push(problem);
                }
                _ => return Ok(attributes),
            }
            attributes.push(self.attribute()?);
        }
    }

    fn starts_attribute(&self) -> bool {
        matches!(self.peek_second(), TokenKind::Equals | TokenKind::Comma)
    }

    fn attribute(&mut self) -> Parse<Attribute> {
        let span = self.span();
        let name = match self.peek() {
            TokenKind::Word(word) => AttributeName::Word(word.clone()),
            TokenKind::Variable(name) => AttributeName::Parameter(name.clone()),
            _ => return Err(Box::new(self.expected("an attribute".to_owned(), None))),
        };
        self.advance();
        let value = if *self.peek() == TokenKind::Equals {
            self.advance();
            Some(self.operand()?)
        } else {
            None
        };
        Ok(Attribute { name: Spanned::new(name, span), value })
    }

    fn operand(&mut self) -> Parse<Spanned<Operand>> {
        let start = self.span();
        let operand = match self.peek() {
            TokenKind::Int(value) => Operand::Int(*value),
            TokenKind::Negative(value) => Operand::Negative(*value),
            TokenKind::Word(word) if word == "true" => Operand::Bool(true),
            TokenKind::Word(word) if word == "false" => Operand::Bool(false),
            TokenKind::Word(word) => Operand::Word(word.clone()),
            TokenKind::Text(text) => Operand::Text(text.clone()),
            TokenKind::Variable(name) => Operand::Variable(name.clone()),
            TokenKind::OpenBrace => {
                let rows = self.table()?;
                return Ok(Spanned::new(Operand::Table(rows), start.to(self.last_span())));
            }
            _ => return Err(Box::new(self.expected("a value".to_owned(), None))),
        };
        self.advance();
        Ok(Spanned::new(operand, start))
    }

    /// `{ {percent, low, high}, … }`.
    fn table(&mut self) -> Parse<Vec<Row>> {
        self.expect(&TokenKind::OpenBrace)?;
        let mut rows = vec![self.row()?];
        while *self.peek() == TokenKind::Comma {
            self.advance();
            rows.push(self.row()?);
        }
        self.expect(&TokenKind::CloseBrace)?;
        Ok(rows)
    }

    fn row(&mut self) -> Parse<Row> {
        self.expect(&TokenKind::OpenBrace)?;
        let percent = self.cell()?;
        self.expect(&TokenKind::Comma)?;
        let low = self.cell()?;
        self.expect(&TokenKind::Comma)?;
        let high = self.cell()?;
        self.expect(&TokenKind::CloseBrace)?;
        Ok(Row { percent, low, high })
    }

    fn cell(&mut self) -> Parse<Spanned<Operand>> {
        match self.peek() {
            TokenKind::OpenBrace => Err(Box::new(self.expected("a number".to_owned(), None))),
            _ => self.operand(),
        }
    }

    fn optional_seconds(&mut self) -> Option<Spanned<Operand>> {
        match self.peek() {
            TokenKind::Int(_) | TokenKind::Negative(_) | TokenKind::Variable(_) => self.operand().ok(),
            _ => None,
        }
    }

    fn text(&mut self) -> Parse<Spanned<Text>> {
        let span = self.span();
        let TokenKind::Text(text) = self.peek() else {
            return Err(Box::new(self.expected("a quoted string".to_owned(), None)));
        };
        let text = text.clone();
        self.advance();
        Ok(Spanned::new(text, span))
    }

    fn level(&mut self) -> Parse<Spanned<u64>> {
        let span = self.span();
        let TokenKind::Int(level) = *self.peek() else {
            return Err(Box::new(self.expected("a level from 0 to 10".to_owned(), None)));
        };
        self.advance();
        Ok(Spanned::new(level, span))
    }

    fn word(&mut self, wanted: &str) -> Parse<Name> {
        let span = self.span();
        let TokenKind::Word(word) = self.peek() else {
            return Err(Box::new(self.expected(wanted.to_owned(), None)));
        };
        let word = word.clone();
        self.advance();
        Ok(Spanned::new(word, span))
    }

    fn variable(&mut self) -> Parse<Name> {
        let span = self.span();
        let TokenKind::Variable(name) = self.peek() else {
            return Err(Box::new(self.expected("a variable or \"mode\"".to_owned(), None)));
        };
        let name = name.clone();
        self.advance();
        Ok(Spanned::new(name, span))
    }

    fn expect(&mut self, kind: &TokenKind) -> Parse<Span> {
        if self.peek() != kind {
            return Err(Box::new(self.expected(kind.to_string(), None)));
        }
        self.advance();
        Ok(self.last_span())
    }

    fn expected(&self, wanted: String, help: Option<String>) -> Problem {
        let found = self.peek().to_string();
        Problem::Expected { wanted, found, help, at: self.span() }
    }

    fn peek(&self) -> &TokenKind {
        &self.tokens[self.next].kind
    }

    fn peek_second(&self) -> &TokenKind {
        self.tokens.get(self.next + 1).map_or(&TokenKind::End, |token| &token.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.next].span
    }

    fn last_span(&self) -> Span {
        self.tokens[self.next.saturating_sub(1)].span
    }

    /// Goes to the next token; the end is never passed.
    fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }
}

fn is_statement(word: &str) -> bool {
    STATEMENTS.contains(&word) || OLD_STATEMENTS.iter().any(|(old, _)| *old == word)
}

fn unknown(what: &str, name: &str, legal: &[&'static str], at: Span) -> Problem {
    let help = Some(document::nearest(name, legal.iter().copied()));
    Problem::Unknown { what: what.to_owned(), name: name.to_owned(), help, at: Some(at) }
}

fn refused(what: &str, why: &str, instead: &str, at: Span) -> Problem {
    let (what, why, instead) = (what.to_owned(), why.to_owned(), instead.to_owned());
    Problem::Refused { what, why, instead, at }
}
