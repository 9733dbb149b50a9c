//! What can be judged only when everything is read: targets, limits, names that nothing uses.

use std::collections::{BTreeMap, BTreeSet};

use crate::filebench::ast::{Script, SetValue, Statement};
use crate::filebench::problem::Problem;
use crate::filebench::program::{Flowop, Operation, Thread};
use crate::filebench::span::Span;
use crate::filebench::vocabulary::{Op, limits};

use super::Checker;

impl Checker<'_> {
    /// The checks of the whole program.
    pub(super) fn whole_program(&mut self, script: &Script) {
        self.targets();
        if self.errors() == 0 {
            self.unused();
        }
        self.limits(script);
        if self.run.is_some() && self.processes.is_empty() && self.errors() == 0 {
            let at = script.statements.last().map_or_else(Span::default, |last| last.span);
            self.missing("process", "this script", "write: define process name=… { thread … }", at);
        }
    }

    /// Every `target` names a flowop of the type that it is for.
    fn targets(&mut self) {
        let threads: Vec<Thread> =
            self.processes.iter().flat_map(|process| process.threads.iter().cloned()).collect();
        let mut everywhere: BTreeMap<&str, Op> = BTreeMap::new();
        for (flowop, operation) in threads.iter().flat_map(Thread::operations) {
            everywhere.insert(&flowop.name, operation.op);
        }
        for thread in &threads {
            let own: BTreeMap<&str, Op> = thread
                .operations()
                .into_iter()
                .map(|(flowop, operation)| (flowop.name.as_str(), operation.op))
                .collect();
            for (flowop, operation) in thread.operations() {
                self.target(flowop, operation, &own, &everywhere);
            }
        }
    }

    fn target(
        &mut self,
        flowop: &Flowop,
        operation: &Operation,
        own: &BTreeMap<&str, Op>,
        everywhere: &BTreeMap<&str, Op>,
    ) {
        let Some(target) = &operation.target else { return };
        let (wanted, scope, within) = match operation.op {
            Op::Wakeup => (Some(Op::Block), everywhere, ""),
            Op::SemPost => (Some(Op::SemBlock), everywhere, ""),
            Op::IopsLimit | Op::OpsLimit | Op::BwLimit | Op::FinishOnCount | Op::FinishOnBytes => {
                (None, own, " of this thread")
            }
            _ => return,
        };
        let fits = |op: Op| wanted.is_none_or(|wanted| wanted == op);
        let known = || scope.iter().filter(|(_, op)| fits(**op)).map(|(name, _)| *name);
        let help = || Some(document::nearest(target, known()));
        match scope.get(target.as_str()) {
            None => {
                let (what, name, at) = (format!("flowop{within}"), target.clone(), Some(flowop.span));
                self.problems.push(Problem::Unknown { what, name, help: help(), at });
            }
            Some(op) if !fits(*op) => {
                let what = format!("the target of {}", operation.op.name());
                let wanted = format!("a {}", wanted.map_or("flowop", Op::name));
                let found = format!("the {} \"{target}\"", op.name());
                let help = help();
                self.problems.push(Problem::WrongType { what, wanted, found, help, at: flowop.span });
            }
            Some(_) => {}
        }
    }

    fn unused(&mut self) {
        let variables = &self.variables;
        let unset: Vec<&str> = variables.used.iter().map(String::as_str).collect();
        let unused: Vec<(String, Span)> = variables
            .set
            .iter()
            .filter(|(name, _)| !variables.used.contains(*name))
            .map(|(name, span)| (name.clone(), *span))
            .collect();
        let mut found: Vec<Problem> = unused
            .into_iter()
            .map(|(name, at)| {
                let near = unset.iter().copied().filter(|used| !variables.set.contains_key(*used));
                let help = document::did_you_mean(&name, near);
                Problem::Unused { what: "variable".to_owned(), name: format!("${name}"), help, at }
            })
            .collect();
        for (name, composite) in self.composites.iter().filter(|(_, composite)| !composite.used) {
            let (what, name) = ("composite flowop".to_owned(), name.clone());
            found.push(Problem::Unused { what, name, help: None, at: composite.span });
        }
        let touched: BTreeSet<usize> = self
            .processes
            .iter()
            .flat_map(|process| &process.threads)
            .flat_map(Thread::operations)
            .filter_map(|(_, operation)| operation.fileset)
            .collect();
        for (_, fileset) in self.filesets.iter().enumerate().filter(|(index, _)| !touched.contains(index)) {
            let (what, name) = ("fileset".to_owned(), fileset.name.clone());
            found.push(Problem::Unused { what, name, help: None, at: fileset.span });
        }
        self.problems.extend(found);
    }

    /// Warns where Filebench's fixed tables would overflow.
    fn limits(&mut self, script: &Script) {
        let count = |wanted: fn(&Statement) -> bool| {
            script.statements.iter().filter(|statement| wanted(&statement.node)).count() as u64
        };
        let cvars = count(|statement| matches!(statement, Statement::Set { value: SetValue::Cvar(_), .. }));
        let randvars =
            count(|statement| matches!(statement, Statement::Set { value: SetValue::Randvar(_), .. }));
        let entries: f64 =
            self.filesets.iter().map(|fileset| fileset.entries.mean() + fileset.leafdirs.mean()).sum();
        let processes: u64 = self.processes.iter().map(|process| u64::from(process.instances) + 1).sum();
        let threads: u64 = self
            .processes
            .iter()
            .flat_map(|process| process.threads.iter().map(move |thread| (process, thread)))
            .map(|(process, thread)| u64::from(process.instances) * u64::from(thread.instances) + 1)
            .sum();
        let first = |spans: Vec<Span>| spans.first().copied().unwrap_or_default();
        let at_fileset = first(self.filesets.iter().map(|fileset| fileset.span).collect());
        let at_process = first(self.processes.iter().map(|process| process.span).collect());
        let at_variable = first(self.variables.set.values().copied().collect());
        let counted = [
            ("filesets", self.filesets.len() as u64, limits::FILESETS, at_fileset),
            ("files and directories", entries as u64, limits::ENTRIES, at_fileset),
            ("processes", processes, limits::PROCESSES, at_process),
            ("threads", threads, limits::THREADS, at_process),
            ("variables", self.variables.set.len() as u64, limits::VARIABLES, at_variable),
            ("custom variables", cvars, limits::CVARS, at_variable),
            ("random variables", randvars, limits::RANDVARS, at_variable),
        ];
        for (what, value, limit, at) in counted.into_iter().filter(|(_, value, limit, _)| value > limit) {
            self.problems.push(Problem::BeyondFilebench { what: what.to_owned(), value, limit, at });
        }
    }
}
