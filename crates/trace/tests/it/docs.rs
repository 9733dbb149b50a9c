//! The tables of `docs/traces.md` are those of the code. `WEIR_WRITE_TABLES=1` writes them.

use std::path::Path;

use trace::call::{Field, Op};
use trace::words::Table;

const TABLES: [Table; 10] = [
    Table::Open,
    Table::Descriptor,
    Table::Whence,
    Table::SyncRange,
    Table::Fallocate,
    Table::Rename,
    Table::Xattr,
    Table::Lock,
    Table::Map,
    Table::Msync,
];

fn argument(field: Field) -> String {
    match field {
        Field::Fd => "descriptor",
        Field::Fd2 => "second descriptor",
        Field::Path => "\"path\"",
        Field::Path2 => "\"second path\"",
        Field::Target => "\"contents\"",
        Field::Attr => "\"attribute\"",
        Field::Len => "length",
        Field::Offset => "offset",
        Field::Offset2 => "second offset",
        Field::Mode => "mode",
        Field::Number => "number",
        Field::Device => "device",
        Field::Uid => "user",
        Field::Gid => "group",
        Field::Atime => "access time",
        Field::Mtime => "modification time",
        Field::Words(table) => return format!("flags ({table:?})"),
    }
    .to_owned()
}

fn calls() -> String {
    let rows = Op::ALL.iter().map(|op| {
        let arguments: Vec<_> = op.fields().iter().map(|field| argument(*field)).collect();
        format!("| `{}` | {} | {} |\n", op.name(), arguments.join(", "), op.about().trim())
    });
    format!("| call | arguments | what it does |\n|---|---|---|\n{}", rows.collect::<String>())
}

fn flags() -> String {
    let rows = TABLES.iter().map(|table| {
        let words: Vec<_> = table.words().iter().map(|(word, _)| format!("`{word}`")).collect();
        let first = if *table == Table::Open { "`rdonly`, `wronly`, `rdwr`, " } else { "" };
        format!("| {table:?} | {first}{} |\n", words.join(", "))
    });
    format!("| flags | words |\n|---|---|\n{}", rows.collect::<String>())
}

/// Puts a table between its marks.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).expect("the page has the mark");
    let (_, after) = rest.split_once(&end).expect("the page has the mark of its end");
    format!("{before}{begin}{table}{end}{after}")
}

#[test]
fn the_page_has_every_call_and_flag() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traces.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let wanted = replaced(&replaced(&page, "calls", &calls()), "flags", &flags());
    if std::env::var_os("WEIR_WRITE_TABLES").is_some() {
        std::fs::write(&path, &wanted).unwrap();
        return;
    }
    assert!(page == wanted, "docs/traces.md is not up to date: run this test with WEIR_WRITE_TABLES=1");
}

#[test]
fn the_example_of_the_page_is_a_trace() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traces.md")).unwrap();
    let start = page.find("```\n#weir-trace 1").expect("the page has an example") + 4;
    let example = page[start..].split("```").next().unwrap().to_owned();
    let reader = trace::Reader::new(std::io::Cursor::new(example.into_bytes()), "docs/traces.md").unwrap();
    let mut reader = reader;
    while reader.next().unwrap().is_some() {}
    assert_eq!((reader.ending(), reader.lost()), (trace::Ending::Whole, 0));
}
