//! Traces as text for tests.

use std::io::Cursor;

use trace::compile::{Options, Program};
use trace::record::{Head, Record};
use trace::{Reader, Result, Writer};

/// A reader of a trace with these records.
pub(crate) fn reader(records: &str) -> Reader {
    Reader::new(Cursor::new(format!("#weir-trace 1\n#root /r\n{records}").into_bytes()), "t").unwrap()
}

/// All records of a trace.
pub(crate) fn all(reader: Reader) -> Result<Vec<Record>> {
    reader.collect()
}

/// Records as lines of text, without the head.
pub(crate) fn text(records: &[Record]) -> String {
    let mut out = Vec::new();
    let mut writer = Writer::new(&mut out, &Head::default(), false).unwrap();
    records.iter().for_each(|record| writer.write(record).unwrap());
    writer.flush().unwrap();
    String::from_utf8(out).unwrap().split_once('\n').unwrap().1.to_owned()
}

/// A compiled trace.
pub(crate) fn compiled(records: &str) -> Program {
    Program::compile(reader(records), Options::default()).unwrap()
}

/// The steps of a compiled trace that a line of the test's text became; the text begins at line 3 of the file.
pub(crate) fn steps_of(program: &Program, line: usize) -> Vec<u32> {
    (0..program.steps().len() as u32).filter(|step| program.get(*step).line == line as u64 + 2).collect()
}
