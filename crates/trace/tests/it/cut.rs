//! A part of a trace is a trace: what it needs from before is in it.

use trace::compile::{Options, Program};
use trace::cut::{Part, cut};
use trace::record::Record;

use crate::shared::{reader, text};

const TRACE: &str = "\
S d 0755 0 \"d\"
S f 0644 5000 \"d/old\"
T 1 10 10 \"p\"
1 100 10 mkdir \"new\" 0755 = 0
1 100 10 open \"new/f\" rdwr,creat 0600 = 3
1 100 10 write 3 300 = 300
1 100 10 open \"d/old\" rdonly 0 = 4
1 100 10 read 4 1000 = 1000
T 2 20 20 \"q\"
F 1 2 5 -
2 100 10 write 3 50 = 50
1 100 10 read 4 1000 = 1000
1 100 10 stat \"new/f\" = 0
1 100 10 close 4 = 0
2 100 10 rename \"new\" \"moved\" - = 0
2 100 10 unlink \"moved/f\" = 0
X 1 5 exit 0
X 2 5 exit 0
E at=0 calls=11 dropped=0 level=0
";

fn part(part: Part) -> String {
    let mut records = Vec::new();
    let end = cut(reader(TRACE), &part, &mut |record| {
        records.push(record.clone());
        Ok(())
    });
    records.push(Record::End(end.unwrap()));
    text(&records)
}

/// Compiles it: a part that lacks something that it needs is refused, or contradicts itself.
fn check(text: &str) -> Program {
    let text = text
        .lines()
        .filter(|line| !line.starts_with("E "))
        .map(|line| format!("{line}\n"))
        .collect::<String>();
    let program =
        Program::compile(reader(&text), Options::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(program.summary.contradictions, 0, "{text}");
    program
}

#[test]
fn the_rest_gets_files_descriptors_and_positions_of_what_was_left_out() {
    let text = part(Part { first_call: Some(6), ..Part::default() });
    assert!(text.contains("S f 0600 300 \"new/f\""), "{text}");
    assert!(text.contains("D 2 3 \"new/f\" rdwr 300"), "{text}");
    assert!(text.contains("D 1 4 \"d/old\" rdonly 1000"), "{text}");
    assert!(text.contains("S f 0644 5000 \"d/old\""), "{text}");
    assert!(!text.contains("mkdir"), "{text}");
    let program = check(&text);
    assert_eq!(program.summary.calls, 6);
    assert_eq!(program.initial.len(), 4);
}

#[test]
fn a_part_by_time_has_the_calls_that_begin_in_it() {
    let text = part(Part { from_ns: Some(200), until_ns: Some(430), ..Part::default() });
    let calls: Vec<_> = text.lines().filter(|line| line.starts_with(['1', '2'])).collect();
    assert_eq!(calls.len(), 2, "{text}");
    assert!(calls[0].starts_with("1 10 10 open \"new/f\"") && calls[1].contains("write 3 300"), "{text}");
    check(&text);
}

#[test]
fn a_part_by_process_has_what_the_others_made() {
    let text = part(Part { processes: vec![20], ..Part::default() });
    assert!(!text.contains("\n1 "), "{text}");
    assert!(text.contains("D 2 3 \"new/f\" rdwr 300"), "{text}");
    assert!(text.contains("S d 0755 0 \"new\""), "{text}");
    assert_eq!(check(&text).summary.calls, 3);
}

#[test]
fn the_first_calls_are_as_they_were() {
    let text = part(Part { last_call: Some(4), ..Part::default() });
    assert_eq!(check(&text).summary.calls, 4);
    assert!(text.contains("1 100 10 mkdir \"new\" 0755 = 0"), "{text}");
    assert!(!text.contains("S d 0755 0 \"new\""), "{text}");
}
