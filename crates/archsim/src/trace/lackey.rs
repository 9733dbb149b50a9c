//! The text of `valgrind --tool=lackey --trace-mem=yes`.
//!
//! ```text
//! I  04001000,3      an instruction
//!  L 1ffeffe7e0,8    a load
//!  S 1ffeffe7e8,8    a store
//!  M 0421c7cc,4      a load and a store
//! ==1234== …         of valgrind itself; left out
//! ```
//!
//! Lackey knows no transactions. With `stores = 0` an operation is a thousand accesses, outside of any transaction; else a
//! transaction begins with a store and is committed after so many.

use std::collections::BTreeMap;

use super::{BEGIN, COMMIT, DONE, LOAD, Trace, Writer};
use crate::error::Error;

const PAGE: u64 = 4096;
/// Accesses of an operation without a transaction.
const OPERATION: u64 = 1000;

/// A trace of one thread, from lackey's text.
///
/// # Errors
/// [`Error::Trace`] names the first line that is not lackey's.
pub fn import(text: &str, stores: u64) -> Result<Trace, Error> {
    let mut import = Import { stores, ..Import::default() };
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("==") || line.starts_with("--") || line.trim().is_empty() {
            continue;
        }
        let access = parse(line).ok_or_else(|| {
            let told = "is no line of valgrind --tool=lackey --trace-mem=yes";
            Error::Trace(format!("line {}: \"{line}\" {told}", number + 1))
        })?;
        import.take(access);
    }
    import.end()
}

/// Kind, address, bytes.
fn parse(line: &str) -> Option<(char, u64, u64)> {
    let mut parts = line.split_whitespace();
    let (kind, place) = (parts.next()?, parts.next()?);
    let (addr, size) = place.split_once(',')?;
    let kind = kind.chars().next().filter(|_| kind.len() == 1)?;
    let (addr, size) = (u64::from_str_radix(addr, 16).ok()?, size.parse().ok()?);
    let legal = "ILSM".contains(kind) && (1..=4096).contains(&size) && parts.next().is_none();
    legal.then_some((kind, addr, size))
}

#[derive(Default)]
struct Import {
    writer: Writer,
    pages: BTreeMap<u64, u64>,
    stores: u64,
    /// Of the operation under way.
    accesses: u64,
    stored: u64,
    open: bool,
}

impl Import {
    fn take(&mut self, (kind, addr, size): (char, u64, u64)) {
        if kind == 'I' {
            // An access counts as an instruction of its own.
            self.writer.gap += 1;
            return;
        }
        for word in addr / 8..(addr + size).div_ceil(8) {
            let place = self.place(word * 8);
            self.writer.gap = self.writer.gap.saturating_sub(1);
            if kind != 'S' {
                self.writer.access(LOAD, place);
            }
            if kind != 'L' {
                self.store(place);
            }
            self.accesses += 1;
        }
        if self.stores == 0 && self.accesses >= OPERATION {
            self.accesses = 0;
            self.writer.mark(DONE);
        }
    }

    fn store(&mut self, place: u64) {
        if self.stores > 0 && !self.open {
            self.open = true;
            self.writer.mark(BEGIN);
        }
        self.stored += 1;
        // The text has no values: every store changes its word.
        self.writer.store(place, self.stored);
        if self.open && self.stored.is_multiple_of(self.stores) {
            self.open = false;
            self.writer.mark(COMMIT);
        }
    }

    /// Pages get numbers in the order of their first use.
    fn place(&mut self, addr: u64) -> u64 {
        let next = self.pages.len() as u64;
        *self.pages.entry(addr / PAGE).or_insert(next) * PAGE + addr % PAGE
    }

    fn end(mut self) -> Result<Trace, Error> {
        if self.pages.is_empty() {
            return Err(Error::Trace("there is no load and no store in it".into()));
        }
        self.writer.mark(if self.open { COMMIT } else { DONE });
        let share = self.pages.len() as u64 * PAGE;
        let trace = Trace { threads: vec![self.writer.trace], share, config_hash: 0 };
        trace.check()?;
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::run::Config;

    const TEXT: &str = "==7== Lackey, an example Valgrind tool\nI  04001000,3\n L 1ffeffe7e0,8\nI  04001003,5\n \
                        S 1ffeffe7e8,8\n M 0421c7cc,8\nI  04001008,1\n==7==\n";

    #[test]
    fn an_imported_program_runs_under_schemes() {
        let trace = Arc::new(import(TEXT, 2).unwrap());
        // Two pages; the modified word lies across two: three loads, three stores, and the rest is an operation of its own.
        assert_eq!((trace.share, trace.operations()), (2 * PAGE, 2));
        for scheme in ["non-pers", "undo-clwb", "fwb"] {
            let mut config = Config { scheme: scheme.into(), workload: "trace".into(), ..Config::default() };
            (config.machine.warmup, config.trace) = (0, Some(Arc::clone(&trace)));
            let outcome = crate::run(&config).unwrap();
            assert_eq!((outcome.executed.stores, outcome.transactions), (3, 2), "{scheme}");
        }
    }

    #[test]
    fn what_is_not_lackeys_is_refused_with_its_line() {
        let told = |text: &str| import(text, 0).unwrap_err().to_string();
        assert!(told("I  04001000,3\n Q 10,8\n").contains("line 2: \" Q 10,8\""));
        assert!(told(" L zz,8\n").contains("line 1"));
        assert!(told("I  04001000,3\n").contains("no load and no store"));
    }
}
