//! Does `ARCHITECTURE.md` still tell the truth about the walk of a write?

use std::fs;
use std::path::PathBuf;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of a walk: the file and the function that it names.
#[derive(Debug)]
struct Step {
    file: String,
    function: String,
}

/// The walks of the document: one for each table with the columns step, file and function.
fn walks() -> Vec<Vec<Step>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let mut walks = Vec::new();
    let mut in_walk = false;
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        match cells.get(1..4) {
            Some(["step", "file", "function"]) => {
                walks.push(Vec::new());
                in_walk = true;
            }
            Some([_, file, function]) if in_walk && file.starts_with('`') => {
                let step = Step { file: file.replace('`', ""), function: function.replace('`', "") };
                walks.last_mut().expect("in a walk").push(step);
            }
            _ if !line.starts_with('|') => in_walk = false,
            _ => {}
        }
    }
    walks
}

fn source(step: &Step) -> String {
    fs::read_to_string(root().join(&step.file)).unwrap_or_else(|error| panic!("{}: {error}", step.file))
}

#[test]
fn every_step_of_a_write_is_where_the_document_says() {
    let walks = walks();
    assert_eq!(walks.len(), 2, "one walk for each design");
    for step in walks.iter().flatten() {
        let text = source(step);
        let defined = text.contains(&format!("fn {}(", step.function))
            || text.contains(&format!("fn {}<", step.function));
        assert!(defined, "{} does not define {}", step.file, step.function);
    }
}

#[test]
fn every_step_of_a_write_calls_the_next() {
    let walks = walks();
    for pair in walks[0].windows(2) {
        let text = source(&pair[0]);
        let calls = text.contains(&format!("{}(", pair[1].function));
        assert!(calls, "{} in {} does not call {}", pair[0].function, pair[0].file, pair[1].function);
    }
    let branches = source(&walks[1][2]);
    for step in &walks[1][3..5] {
        assert!(branches.contains(&format!("self.{}(", step.function)), "{} is not called", step.function);
    }
}

#[test]
fn every_file_that_the_documents_name_is_there() {
    for document in ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md", "SEMANTICS.md"] {
        let text = fs::read_to_string(root().join(document)).expect(document);
        let quoted = text.split('`').skip(1).step_by(2);
        for name in quoted.filter(|name| {
            name.starts_with("crates/") || name.starts_with("presets/") || name.starts_with("docs/")
        }) {
            assert!(root().join(name).exists(), "{document} names {name}, which is not there");
        }
    }
}
