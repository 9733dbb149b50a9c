//! The walks in `ARCHITECTURE.md` are held to the source: every file of their tables is there and defines the function, and some
//! file of the walk calls it.

use std::path::Path;

/// A row of a table: file and function.
type Step = (String, String);

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The tables of the section with this heading, each a list of steps.
fn walks(text: &str, heading: &str) -> Vec<Vec<Step>> {
    let section = text.split(heading).nth(1).and_then(|rest| rest.split("\n## ").next());
    let section = section.expect("ARCHITECTURE.md has the section");
    let tables = section.split("\n\n").filter(|part| part.trim_start().starts_with("| step |"));
    tables.map(|table| table.lines().filter_map(step).collect()).collect()
}

/// `| 1 front end | `file` | `function` | what happens |`
fn step(row: &str) -> Option<Step> {
    let mut cells = row.split('|').map(str::trim).skip(2);
    let code = |cell: &str| Some(cell.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    Some((code(cells.next()?)?, code(cells.next()?)?))
}

/// Steps that nothing before them calls: what other tasks do later, and a page, which the table of formats calls.
fn is_called(function: &str) -> bool {
    !["write_back_block", "page_claim"].contains(&function)
}

fn breaks(steps: &[Step]) -> Vec<String> {
    let mut breaks = Vec::new();
    for (at, (file, function)) in steps.iter().enumerate() {
        if !read(file).contains(&format!("fn {function}")) {
            breaks.push(format!("{file} defines no {function}"));
        }
        let mentions = |file: &str| read(file).matches(function.as_str()).count();
        // A function in between, in the same file, may make the call.
        let called = steps[..at].iter().any(|(caller, _)| mentions(caller) > 0) || mentions(file) > 1;
        if at > 0 && is_called(function) && !called {
            breaks.push(format!("no step before mentions {function} of {file}"));
        }
    }
    breaks
}

#[test]
fn the_walk_of_a_write_is_in_the_source() {
    let walks = walks(&read("ARCHITECTURE.md"), "## The walk of a write");
    assert!(walks.len() >= 2, "one table for each design");
    for steps in walks {
        assert!(steps.len() >= 4, "{steps:?}");
        assert_eq!(breaks(&steps), Vec::<String>::new());
    }
}

#[test]
fn the_walk_of_a_plan_to_a_claim_is_in_the_source() {
    let walks = walks(&read("ARCHITECTURE.md"), "## The walk of a plan to a claim");
    let [steps] = &walks[..] else { panic!("one table") };
    assert!(steps.len() >= 10, "{steps:?}");
    assert_eq!(breaks(steps), Vec::<String>::new());
}

#[test]
fn a_walk_that_lies_is_found() {
    let lie = vec![("crates/sim/src/lib.rs".to_owned(), "no_such_function".to_owned())];
    assert_eq!(breaks(&lie).len(), 1);
}
