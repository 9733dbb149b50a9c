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

use super::Trace;
use super::builder::Unmarked;
use crate::error::Error;

/// A trace of one thread, from lackey's text.
///
/// # Errors
/// [`Error::Trace`] names the first line that is not lackey's.
pub fn import(text: &str, stores: u64) -> Result<Trace, Error> {
    let mut to = Unmarked::new(stores);
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("==") || line.starts_with("--") || line.trim().is_empty() {
            continue;
        }
        let (kind, addr, size) = parse(line).ok_or_else(|| {
            let told = "is no line of valgrind --tool=lackey --trace-mem=yes";
            Error::Trace(format!("line {}: \"{line}\" {told}", number + 1))
        })?;
        if kind == 'I' {
            to.builder.instructions(1);
            continue;
        }
        // An access counts as an instruction of its own.
        to.builder.instructions_less(1);
        for word in addr / 8..(addr + size).div_ceil(8) {
            if kind != 'S' {
                to.load(8 * word, 8, false);
            }
            if kind != 'L' {
                to.store(8 * word, 8);
            }
        }
    }
    to.finish()
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::run::Config;

    const PAGE: u64 = 4096;

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
