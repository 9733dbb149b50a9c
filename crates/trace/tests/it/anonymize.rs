//! Anonymous traces have other names, and nothing else is different.

use trace::anonymize::Anonymizer;
use trace::compile::{Options, Program};
use trace::record::Head;

use crate::shared::{all, reader, text};

const TRACE: &str = "\
S d 0755 0 \"\"
S d 0755 0 \"mail\"
S f 0644 12 \"mail/secret.txt\"
S l 0777 0 \"l\" \"mail/secret.txt\"
T 1 10 10 \"mutt\"
1 1 2 open \"mail/secret.txt\" rdonly 0 = 3
1 1 2 read 3 100 = 12
1 1 2 fsetxattr 3 \"user.secret\" 4 - = 0
1 1 2 fgetxattr 3 \"system.posix_acl_access\" 4 = -ENODATA
1 1 2 open \"mail/../mail/new.txt\" wronly,creat 0600 = 4
1 1 2 rename \"mail/new.txt\" \"mail/secret.txt\" - = 0
1 1 2 stat \"/etc/secret\" = -ENOENT
";

fn hidden(key: &[u8], extensions: bool) -> String {
    let mut anonymizer = Anonymizer::new(key, extensions);
    let records = all(reader(TRACE)).unwrap();
    text(&records.into_iter().map(|record| anonymizer.record(record)).collect::<Vec<_>>())
}

#[test]
fn no_name_is_left_and_extensions_only_if_asked() {
    let text = hidden(b"key", false);
    for word in ["mail", "secret", "new", "txt", "mutt", "etc"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    let text = hidden(b"key", true);
    assert_eq!(text.matches(".txt\"").count(), 6, "{text}");
    assert!(!text.contains("secret"));
}

#[test]
fn equal_names_stay_equal_under_a_key_and_differ_under_another() {
    assert_eq!(hidden(b"key", true), hidden(b"key", true));
    assert_ne!(hidden(b"key", true), hidden(b"other", true));
}

#[test]
fn an_anonymous_trace_is_the_same_program() {
    let shape = |records: &str| {
        let program = Program::compile(reader(records), Options::default()).unwrap();
        let steps: Vec<_> = program.steps().to_vec();
        let initial: Vec<_> = program.initial.iter().map(|entry| (entry.kind, entry.size)).collect();
        (steps, initial, program.summary)
    };
    assert_eq!(shape(&hidden(b"k", false)), shape(TRACE));
}

#[test]
fn attributes_of_the_system_and_namespaces_stay() {
    let text = hidden(b"key", false);
    assert!(text.contains("\"system.posix_acl_access\""), "{text}");
    assert!(text.contains("\"user."), "{text}");
}

#[test]
fn the_head_loses_what_names_persons_and_hosts() {
    let mut head = Head::new("weir record", b"/home/alice");
    head.set("command", b"mutt");
    head.set("host", b"alice-laptop");
    let head = Anonymizer::new(b"k", false).head(&head);
    assert_eq!(head.get("recorder"), Some(&b"weir record"[..]));
    assert_eq!((head.get("command"), head.get("host"), head.get("root")), (None, None, Some(&b"/"[..])));
}

#[test]
fn results_that_are_lengths_of_names_are_those_of_the_new_names() {
    let trace = "\
S d 0755 0 \"d\"
S f 0644 0 \"d/one\"
S f 0644 0 \"d/a-rather-long-name\"
S l 0777 0 \"l\" \"d/a-rather-long-name\"
T 1 10 10 \"ls\"
1 0 0 readlink \"l\" 100 = 20
1 0 0 readlink \"l\" 5 = 5
1 0 0 open \"d\" rdonly,directory 00 = 3
1 0 0 getdents 3 32768 = 112
1 0 0 listxattr \"d\" 100 = 31
1 0 0 listxattr \"l\" 100 = 0
";
    let mut anonymizer = Anonymizer::new(b"k", false);
    let records: Vec<_> =
        all(reader(trace)).unwrap().into_iter().map(|record| anonymizer.record(record)).collect();
    let results: Vec<i64> = records
        .iter()
        .filter_map(|record| match record {
            trace::record::Record::Call(timed) => Some(timed.result),
            _ => None,
        })
        .collect();
    // A name has 16 digits: an entry of a listing 40 bytes, those of `.` and `..` 24.
    assert_eq!(results, [33, 5, 3, 128, 22, 0]);
}

#[test]
fn programs_in_texts_of_counts_and_losses_are_renamed_and_calls_are_not() {
    let trace = "\
T 1 10 10 \"merger\"
C 2 \"merger: streams of stdio\"
C 3 \"getcwd: not a call of files that a trace stores\"
C 4 \"calls on pipes\"
L calls 5 \"write\" \"made inside libc\" \"merger\"
";
    let text = hidden_of(trace);
    assert!(!text.contains("merger"), "{text}");
    let same = text.lines().next().unwrap().split('"').nth(1).unwrap().to_owned();
    assert!(text.contains(&format!("C 2 \"{same}: streams of stdio\"")), "{text}");
    assert!(text.contains("C 3 \"getcwd: not") && text.contains("C 4 \"calls on pipes\""), "{text}");
    assert!(text.contains(&format!("L calls 5 \"write\" \"made inside libc\" \"{same}\"")), "{text}");
}

fn hidden_of(trace: &str) -> String {
    let mut anonymizer = Anonymizer::new(b"k", false);
    let records = all(reader(trace)).unwrap();
    text(&records.into_iter().map(|record| anonymizer.record(record)).collect::<Vec<_>>())
}
