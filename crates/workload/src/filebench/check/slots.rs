//! The state of a thread's descriptor slots, followed around its loop.
//!
//! Filebench finds out in the middle of a run that a step opens a slot which is still open, or closes one
//! which is not. The loop and the slots are known beforehand, so the checker walks it twice (what the first
//! turn leaves is what the second starts with) and points at both steps. Slots that are chosen at run time
//! (`opennext`) are not followed.

use std::collections::BTreeMap;

use crate::filebench::problem::Problem;
use crate::filebench::program::{Action, Amount, Flowop, Operation, Thread};
use crate::filebench::span::Span;
use crate::filebench::vocabulary::Op;

use super::Checker;

/// What is known of a slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    open: bool,
    /// The fileset of the file that is or was last open here.
    fileset: Option<usize>,
    /// The step that left it so.
    since: Option<Span>,
}

type Slots = BTreeMap<u8, Slot>;

impl Checker<'_> {
    /// Follows the slots of one thread.
    pub(super) fn slots(&mut self, thread: &Thread) {
        let mut slots = Slots::new();
        for _ in 0..2 {
            self.walk(&thread.flowops, &mut slots);
        }
    }

    fn walk(&mut self, flowops: &[Flowop], slots: &mut Slots) {
        for flowop in flowops {
            let times = match flowop.iterations {
                Amount::Fixed(times) => times.min(2),
                Amount::Drawn(_) => 1,
            };
            for _ in 0..times {
                match &flowop.action {
                    Action::Operation(operation) if !operation.opennext => {
                        self.step(flowop, operation, slots);
                    }
                    Action::Operation(_) => {}
                    Action::Composite(body) => self.walk(body, slots),
                }
            }
        }
    }

    fn step(&mut self, flowop: &Flowop, operation: &Operation, slots: &mut Slots) {
        let slot = slots.entry(operation.fd).or_default();
        match operation.op {
            Op::OpenFile | Op::CreateFile => {
                if slot.open {
                    let message = format!("slot {} is still open here", operation.fd);
                    self.slot(
                        message,
                        "close it first with closefile, or use another fd=",
                        flowop,
                        slot,
                        "opened here",
                    );
                }
                *slot = Slot { open: true, fileset: operation.fileset, since: Some(flowop.span) };
            }
            Op::CloseFile | Op::Fsync => {
                if !slot.open {
                    let message = format!("slot {} is not open here", operation.fd);
                    self.slot(
                        message,
                        "open it first with openfile, or use another fd=",
                        flowop,
                        slot,
                        "closed here",
                    );
                }
                *slot =
                    Slot { open: operation.op == Op::Fsync && slot.open, since: Some(flowop.span), ..*slot };
            }
            Op::DeleteFile | Op::StatFile => {
                let remembered = slot.fileset.is_some() && (slot.open || operation.fd > 0);
                if operation.fileset.is_none() && !remembered {
                    self.needs_file(flowop, operation, slot);
                }
            }
            _ if operation.op.info().attributes.contains(&"iosize") => {
                self.implicit_open(flowop, operation, slot);
            }
            _ => {}
        }
    }

    /// Reads and writes open a file of their fileset when the slot is empty.
    fn implicit_open(&mut self, flowop: &Flowop, operation: &Operation, slot: &mut Slot) {
        if !slot.open {
            if operation.fileset.is_none() {
                self.needs_file(flowop, operation, slot);
            }
            *slot = Slot { open: true, fileset: operation.fileset, since: Some(flowop.span) };
        } else if let (Some(wanted), Some(held)) = (operation.fileset, slot.fileset)
            && wanted != held
            && operation.fd > 0
        {
            let names =
                [wanted, held].map(|index| self.filesets.get(index).map_or("", |fileset| &fileset.name));
            let message =
                format!("slot {} holds a file of \"{}\", not of \"{}\"", operation.fd, names[1], names[0]);
            self.slot(message, "use another fd=, or leave filename= out", flowop, slot, "opened here");
        }
    }

    fn needs_file(&mut self, flowop: &Flowop, operation: &Operation, slot: &Slot) {
        let message =
            format!("slot {} is empty and flowop {} names no fileset", operation.fd, operation.op.name());
        self.slot(
            message,
            "name one: filename=some_fileset, or open the slot before",
            flowop,
            slot,
            "closed here",
        );
    }

    fn slot(&mut self, message: String, help: &str, flowop: &Flowop, slot: &Slot, says: &str) {
        let earlier = slot.since.filter(|since| *since != flowop.span);
        let (help, earlier_says, at) = (help.to_owned(), says.to_owned(), flowop.span);
        self.problems.push(Problem::Slot { message, help, earlier, earlier_says, at });
    }
}
