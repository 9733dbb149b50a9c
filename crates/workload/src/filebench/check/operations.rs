//! The attributes of one flowop.

use crate::filebench::ast::FlowopCall;
use crate::filebench::problem::Problem;
use crate::filebench::program::{Action, Amount, Fileset, Flowop, Operation, Value};
use crate::filebench::span::Spanned;
use crate::filebench::vocabulary::{Direction, FLOWOP_ATTRIBUTES, Op, OpInfo, limits};

use super::Checker;
use super::values::Attributes;

const SLOT_NUMBERS: (u64, u64) = (0, limits::SLOTS - 1);

impl<'a> Checker<'a> {
    /// A flowop of a built-in type.
    pub(super) fn operation(
        &mut self,
        info: &'static OpInfo,
        call: &'a Spanned<FlowopCall>,
        prefix: &str,
    ) -> Option<Flowop> {
        let attributes = self.attributes("flowop", call.span, &call.node.attributes, FLOWOP_ATTRIBUTES);
        self.no_parameters(&attributes);
        self.warn_ignored(info, &attributes);
        let name = self.required_name(&attributes);
        let iterations = self.amount(&attributes, "iters", 1);
        let operation = self.read_operation(info.op, &attributes);
        self.needs(&operation, &attributes);
        self.fits_fileset(&operation, &attributes);
        let name = format!("{prefix}{}", name?.node);
        Some(Flowop { name, iterations, action: Action::Operation(Box::new(operation)), span: call.span })
    }

    fn read_operation(&mut self, op: Op, attributes: &Attributes<'_>) -> Operation {
        let (value, text) = self.value_or_text(op, attributes);
        Operation {
            op,
            fileset: self.named_fileset(attributes),
            fd: self.number(attributes, "fd", 0, SLOT_NUMBERS) as u8,
            srcfd: self.number(attributes, "srcfd", 0, SLOT_NUMBERS) as u8,
            iosize: self.amount(attributes, "iosize", 0),
            workingset: self.amount(attributes, "workingset", 0),
            indexed: attributes.has("indexed").then(|| self.amount(attributes, "indexed", 0)),
            value,
            text,
            target: self.text(attributes, "target").map(|target| target.node),
            highwater: self.number(attributes, "highwater", 1, (0, i64::MAX as u64)),
            random: self.flag(attributes, "random"),
            dsync: self.flag(attributes, "dsync"),
            directio: self.flag(attributes, "directio"),
            blocking: self.flag(attributes, "blocking"),
            opennext: self.flag(attributes, "opennext"),
            noreadahead: self.flag(attributes, "noreadahead"),
        }
    }

    /// `value` is a number, except for `print`.
    fn value_or_text(&mut self, op: Op, attributes: &Attributes<'_>) -> (Amount, String) {
        if op != Op::Print {
            return (self.amount(attributes, "value", 0), String::new());
        }
        let value = attributes.get("value").and_then(|attribute| self.attribute_value(attribute));
        (Amount::Fixed(0), value.map_or_else(String::new, |value: Value| value.to_string()))
    }

    /// The index of the fileset that `filename` names; one beyond all when there is none, which is then
    /// reported.
    fn named_fileset(&mut self, attributes: &Attributes<'_>) -> Option<usize> {
        let name = self.text(attributes, "filename")?;
        let found = self.filesets.iter().position(|fileset| fileset.name == name.node);
        if found.is_none() {
            let names: Vec<String> = self.filesets.iter().map(|fileset| fileset.name.clone()).collect();
            self.unknown("fileset", &name.node, names.iter().map(String::as_str), name.span);
        }
        found.or(Some(usize::MAX))
    }

    fn warn_ignored(&mut self, info: &OpInfo, attributes: &Attributes<'_>) {
        let used = |word: &str| matches!(word, "name" | "iters") || info.attributes.contains(&word);
        for word in attributes.words().filter(|word| !used(word)) {
            let (attribute, of, at) = (word.to_owned(), info.name.to_owned(), attributes.place(word));
            self.problems.push(Problem::NoEffect { attribute, of, help: None, at });
        }
    }

    /// What the operation cannot do without.
    fn needs(&mut self, operation: &Operation, attributes: &Attributes<'_>) {
        let of = format!("flowop {}", operation.op.name());
        let required: &[(&str, &str)] = match operation.op {
            Op::OpenFile | Op::CreateFile | Op::MakeDir | Op::RemoveDir | Op::ListDir | Op::FsyncSet => {
                &[("filename", "write: filename=some_fileset")]
            }
            Op::Read | Op::Write | Op::AppendFile | Op::AppendFileRand => {
                &[("iosize", "write: iosize=4k; I/O of 0 bytes is an error")]
            }
            Op::AioWrite => &[
                ("iosize", "write: iosize=4k; I/O of 0 bytes is an error"),
                ("random", "asynchronous writes go to random offsets only; write: random"),
            ],
            Op::Wakeup | Op::SemPost => &[("target", "write: target=name_of_the_waiting_flowop")],
            Op::FinishOnCount | Op::FinishOnBytes => &[("value", "write: value=1000")],
            Op::TestRandVar => &[("value", "write: value=$random_variable")],
            _ => &[],
        };
        for (name, help) in required {
            if !attributes.has(name) {
                self.missing(name, &of, help, attributes.at);
            }
        }
        if attributes.has("iosize")
            && operation.iosize.is_zero()
            && required.iter().any(|(name, _)| *name == "iosize")
        {
            self.out_of_range("iosize", &0, "1 or more", None, attributes.place("iosize"));
        }
        if operation.opennext && operation.fileset.is_none() && !attributes.has("filename") {
            self.missing(
                "filename",
                "opennext",
                "it takes a slot for each file of a set",
                attributes.place("opennext"),
            );
        }
    }

    /// What the operation asks of its fileset.
    fn fits_fileset(&mut self, operation: &Operation, attributes: &Attributes<'_>) {
        let Some(fileset) = operation.fileset.and_then(|index| self.filesets.get(index)).cloned() else {
            return;
        };
        let direction = operation.op.info().direction;
        if (fileset.readonly && direction == Direction::Write)
            || (fileset.writeonly && direction == Direction::Read)
        {
            let mode = if fileset.readonly { "readonly" } else { "writeonly" };
            let message =
                format!("flowop {} on the {mode} fileset \"{}\"", operation.op.name(), fileset.name);
            let help = format!("remove {mode} from the fileset: its files are opened in that mode");
            self.impossible(message, help, attributes.place("filename"));
        }
        if operation.opennext && fileset.entries.mean() > (limits::SLOTS / 2) as f64 {
            let help = Some(format!("opennext takes a slot for each file; a thread has {}", limits::SLOTS));
            let (what, range) = (format!("entries of \"{}\"", fileset.name), "at most 64 with opennext");
            self.out_of_range(&what, &fileset.entries, range, help, attributes.place("opennext"));
        }
        self.fits_file(operation, &fileset, attributes);
    }

    /// A random I/O must fit into the range that its offsets are taken from.
    fn fits_file(&mut self, operation: &Operation, fileset: &Fileset, attributes: &Attributes<'_>) {
        if !operation.random || !matches!(operation.op, Op::Read | Op::Write | Op::AioWrite) {
            return;
        }
        let range = if operation.workingset.is_zero() { &fileset.size } else { &operation.workingset };
        if let (Some(iosize), Some(range)) = (operation.iosize.fixed(), range.fixed())
            && iosize > range
        {
            let name = &fileset.name;
            let message = format!("random I/O of {iosize} bytes within {range} bytes of \"{name}\"");
            let help = "lower iosize, or raise the size of the files or the workingset".to_owned();
            self.impossible(message, help, attributes.place("iosize"));
        }
    }
}
