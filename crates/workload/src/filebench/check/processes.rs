//! Processes, threads and composite flowops.

use std::collections::BTreeMap;

use crate::filebench::ast::{Attribute, FlowopCall, Thread as WrittenThread};
use crate::filebench::print::Number;
use crate::filebench::problem::Problem;
use crate::filebench::program::{Action, Flowop, Process, Thread, Value};
use crate::filebench::span::{Span, Spanned};
use crate::filebench::vocabulary::{
    CALL_ATTRIBUTES, COMPOSITE_ATTRIBUTES, OPS, PROCESS_ATTRIBUTES, THREAD_ATTRIBUTES,
};

use super::values::Attributes;
use super::{Checker, ProcessDefinition};

const INSTANCES: (u64, u64) = (1, 1 << 20);

impl<'a> Checker<'a> {
    /// Reads all processes.
    pub(super) fn read_processes(&mut self) {
        self.refresh_random();
        for definition in std::mem::take(&mut self.process_definitions) {
            if let Some(process) = self.process(&definition) {
                self.processes.push(process);
            }
        }
    }

    fn process(&mut self, definition: &ProcessDefinition<'a>) -> Option<Process> {
        let attributes =
            self.attributes("process", definition.span, definition.attributes, PROCESS_ATTRIBUTES);
        self.no_parameters(&attributes);
        self.no_priority(&attributes, "nice");
        let instances = self.number(&attributes, "instances", 1, INSTANCES) as u32;
        let name = self.required_name(&attributes);
        if let Some(name) = &name
            && let Some(first) = self.processes.iter().find(|other| other.name == name.node)
        {
            self.repeated("process", name, first.span);
        }
        if definition.threads.is_empty() {
            self.missing("thread", "this process", "write: thread name=… { flowop … }", definition.span);
        }
        let mut threads: Vec<Thread> = Vec::new();
        for written in definition.threads {
            let Some(thread) = self.thread(written) else { continue };
            if let Some(first) = threads.iter().find(|other| other.name == thread.name) {
                self.repeated("thread", &Spanned::new(thread.name.clone(), thread.span), first.span);
            }
            threads.push(thread);
        }
        let name = name?;
        Some(Process { name: name.node, instances, threads, span: name.span })
    }

    fn thread(&mut self, written: &'a Spanned<WrittenThread>) -> Option<Thread> {
        let attributes = self.attributes("thread", written.span, &written.node.attributes, THREAD_ATTRIBUTES);
        self.no_parameters(&attributes);
        self.no_priority(&attributes, "ioprio");
        let name = self.required_name(&attributes);
        let instances = self.number(&attributes, "instances", 1, INSTANCES) as u32;
        let memsize = self.number(&attributes, "memsize", 0, (0, 1 << 40));
        let useism = self.flag(&attributes, "useism");
        if written.node.flowops.is_empty() {
            self.missing("flowop", "this thread", "write: flowop read name=…", written.span);
        }
        let errors_before = self.errors();
        let flowops = self.flowops(&written.node.flowops, "", &mut Vec::new());
        let complete = self.errors() == errors_before;
        let name = name?;
        let thread = Thread { name: name.node, instances, memsize, useism, flowops, span: name.span };
        self.memory(&thread);
        if complete {
            // a step that could not be read leaves its slot in a state of its own
            self.slots(&thread);
        }
        Some(thread)
    }

    fn no_priority(&mut self, attributes: &Attributes<'_>, name: &str) {
        if attributes.has(name) {
            let help = Some("threads of the virtual clock have no priorities".to_owned());
            let (attribute, of, at) =
                (name.to_owned(), format!("a {}", attributes.of), attributes.place(name));
            self.problems.push(Problem::NoEffect { attribute, of, help, at });
        }
    }

    fn repeated(&mut self, what: &str, name: &Spanned<String>, first: Span) {
        let (what, name, at) = (what.to_owned(), name.node.clone(), name.span);
        self.problems.push(Problem::Repeated { what, name, first, at });
    }

    /// The steps of a thread or composite; `prefix` stands before their names, `inside` are the composites
    /// around.
    fn flowops(
        &mut self,
        calls: &'a [Spanned<FlowopCall>],
        prefix: &str,
        inside: &mut Vec<String>,
    ) -> Vec<Flowop> {
        calls.iter().filter_map(|call| self.flowop(call, prefix, inside)).collect()
    }

    fn flowop(
        &mut self,
        call: &'a Spanned<FlowopCall>,
        prefix: &str,
        inside: &mut Vec<String>,
    ) -> Option<Flowop> {
        let kind = &call.node.kind;
        if let Some(info) = OPS.iter().find(|info| info.name == kind.node) {
            return self.operation(info, call, prefix);
        }
        if self.composites.contains_key(&kind.node) {
            return self.composite(call, prefix, inside);
        }
        let composites: Vec<String> = self.composites.keys().cloned().collect();
        let legal = OPS.iter().map(|info| info.name).chain(composites.iter().map(String::as_str));
        self.unknown("type of flowop", &kind.node, legal, kind.span);
        None
    }

    fn composite(
        &mut self,
        call: &'a Spanned<FlowopCall>,
        prefix: &str,
        inside: &mut Vec<String>,
    ) -> Option<Flowop> {
        let kind = &call.node.kind;
        if inside.contains(&kind.node) {
            let chain = inside.iter().chain([&kind.node]).cloned().collect::<Vec<_>>().join(" -> ");
            self.problems.push(Problem::Recursion { chain, at: kind.span });
            return None;
        }
        let attributes =
            self.attributes("composite flowop", call.span, &call.node.attributes, CALL_ATTRIBUTES);
        let name = self.required_name(&attributes)?;
        let iterations = self.amount(&attributes, "iters", 1);
        let scope = self.arguments(&kind.node, &attributes)?;
        let composite = self.composites.get_mut(&kind.node)?;
        composite.used = true;
        let body = composite.body;
        let name = format!("{prefix}{}", name.node);
        self.variables.scopes.push(scope);
        inside.push(kind.node.clone());
        let steps = self.flowops(body, &format!("{name}."), inside);
        inside.pop();
        self.variables.scopes.pop();
        Some(Flowop { name, iterations, action: Action::Composite(steps), span: call.span })
    }

    /// The values of the parameters of `composite`: defaults of the definition, then arguments of the call.
    fn arguments(&mut self, composite: &str, call: &Attributes<'a>) -> Option<BTreeMap<String, Value>> {
        let definition = self.composites.get(composite)?;
        let (declared, at) = (definition.attributes, definition.span);
        let declared = self.attributes("composite flowop", at, declared, COMPOSITE_ATTRIBUTES);
        let mut scope = BTreeMap::new();
        let outer = self.variables.scopes.pop();
        for (name, attribute) in &declared.parameters {
            if attribute.value.is_some()
                && let Some(value) = self.attribute_value(attribute)
            {
                scope.insert((*name).to_owned(), value);
            }
        }
        self.variables.scopes.extend(outer);
        let mut complete = true;
        for (name, attribute) in &call.parameters {
            if !declared.parameters.iter().any(|(known, _)| known == name) {
                let known = declared.parameters.iter().map(|(known, _)| *known);
                let help = Some(document::nearest(name, known));
                let (what, at) = (format!("parameter of {composite}"), Some(attribute.name.span));
                self.problems.push(Problem::Unknown { what, name: format!("${name}"), help, at });
                complete = false;
            } else if let Some(value) = self.attribute_value(attribute) {
                scope.insert((*name).to_owned(), value);
            }
        }
        let unset =
            |(name, _): &&(&str, _)| !scope.contains_key(*name) && !self.variables.set.contains_key(*name);
        if complete && let Some((name, _)) = declared.parameters.iter().find(unset) {
            let of = format!("this call of {composite}");
            self.missing(&format!("${name}"), &of, &format!("write: ${name}=value"), call.at);
            complete = false;
        }
        complete.then_some(scope)
    }

    /// The name of a `define flowop`.
    pub(super) fn composite_name(
        &mut self,
        attributes: &'a [Attribute],
        at: Span,
    ) -> Option<Spanned<String>> {
        let attributes = self.attributes("composite flowop", at, attributes, COMPOSITE_ATTRIBUTES);
        let name = self.required_name(&attributes)?;
        if OPS.iter().any(|info| info.name == name.node) {
            let message = format!("\"{}\" is a built-in type of flowop", name.node);
            self.impossible(message, "choose another name".to_owned(), name.span);
            return None;
        }
        Some(name)
    }

    /// I/O goes through the thread's memory, when it has some: an I/O must fit into it.
    fn memory(&mut self, thread: &Thread) {
        if thread.memsize == 0 {
            return;
        }
        for (flowop, operation) in thread.operations() {
            let Some(iosize) = operation.iosize.fixed() else { continue };
            let needed = iosize + if operation.directio { 512 } else { 0 };
            if needed > thread.memsize {
                let message = format!(
                    "flowop \"{}\" moves {} at once, the memory of thread \"{}\" has {}",
                    flowop.name,
                    operation.iosize,
                    thread.name,
                    Number(thread.memsize)
                );
                let help = format!("set the thread's memsize to {} or more, or to 0", Number(needed));
                self.impossible(message, help, flowop.span);
            }
        }
    }
}
