//! A recorded program's time: its calls by what they ask for, and what it does between them.
//!
//! The classes are those of figure 12 of HiNFS (EuroSys 2016), read, write, unlink, fsync and others, with the others told apart.

/// The operation under which a replay books what the program does between its calls.
pub const OPERATION: &str = "program";
/// Its activity of waiting for other threads of the program.
pub const ORDER: &str = "trace_order";
/// The place in [`CLASSES`] of computing.
pub const COMPUTES: usize = 8;
/// The place of waiting for other threads of the program.
pub const OWN_ORDER: usize = 9;
/// The number of classes.
pub const COUNT: usize = CLASSES.len();

/// The classes, in the order of charts.
pub const CLASSES: [&str; 10] = [
    "reads",
    "writes",
    "syncs",
    "unlinks",
    "opens, closes",
    "look-ups",
    "other names",
    "other calls",
    "computes",
    "own order",
];

/// The class in [`CLASSES`] of a kind of call, by its name in a result or in a trace.
pub fn class_of(call: &str) -> usize {
    match call {
        "read" | "pread" | "sendfile" | "load" => 0,
        "write" | "pwrite" | "copy" | "receivefile" | "store" => 1,
        "fsync" | "fdatasync" | "syncrange" | "syncfs" | "sync" | "msync" => 2,
        "unlink" => 3,
        "open" | "create" | "close" => 4,
        "stat" | "lstat" | "fstat" | "access" | "readlink" | "readdir" | "getdents" => 5,
        "mkdir" | "rmdir" | "rename" | "link" | "linkfd" | "symlink" | "mknod" => 6,
        _ => 7,
    }
}

/// The place of a class in [`CLASSES`]; none of other names.
pub fn place(class: &str) -> Option<usize> {
    CLASSES.iter().position(|known| *known == class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_kind_are_of_one_class_in_results_and_traces() {
        for (in_result, in_trace) in
            [("read", "pread"), ("fsync", "fdatasync"), ("create", "open"), ("readdir", "getdents")]
        {
            assert_eq!(class_of(in_result), class_of(in_trace), "{in_result}");
        }
        assert_eq!(CLASSES[class_of("seek")], "other calls");
        assert_eq!((place("computes"), place("own order")), (Some(COMPUTES), Some(OWN_ORDER)));
    }
}
