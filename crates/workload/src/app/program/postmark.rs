//! PostMark 1.5, by the commands that it reads. It has one client, and ends by itself; its clock counts whole seconds, so that the
//! time of a run is that of the process.
//!
//! ```text
//!         468 created (468 per second)
//!         236 read (236 per second)
//!         1.46 megabytes read (1.46 megabytes per second)
//! ```

use results::OperationRecord;

use super::process::located;
use super::{Counted, OneProcess, Real, Started};
use crate::app::variables::Reader;
use crate::suite::LoadError;

pub(super) const PROGRAM: Real = Real {
    name: "postmark",
    find: || located("postmark", "postmark"),
    clients: "clients",
    is_timed: false,
    read,
};

const MOST: u64 = 1 << 31;

struct Postmark {
    commands: String,
}

fn read(reader: &mut Reader) -> Result<Box<dyn Started>, LoadError> {
    reader.count("clients", 1, 1..=1)?;
    let number = reader.count("number", 500, 1..=MOST)?;
    let transactions = reader.count("transactions", 500, 1..=MOST)?;
    let subdirectories = reader.count("subdirectories", 0, 0..=1_000_000)?;
    let smallest = reader.bytes("smallest", 500, 1..=MOST)?;
    let largest = reader.bytes("largest", 10_000, 1..=MOST)?;
    let commands = format!(
        "set location .\nset number {number}\nset transactions {transactions}\nset subdirectories {subdirectories}\n\
         set size {smallest} {largest}\nrun\nquit\n"
    );
    Ok(Box::new(Postmark { commands }))
}

impl OneProcess for Postmark {
    fn arguments(&self, _seconds: u64) -> Vec<String> {
        Vec::new()
    }

    fn input(&self) -> String {
        self.commands.clone()
    }

    fn measured(&self, printed: &str, _seconds: u64) -> Result<Counted, String> {
        let [created, read, appended, deleted] =
            ["created", "read", "appended", "deleted"].map(|what| count(printed, what));
        let (created, deleted) = created.zip(deleted).ok_or("it printed no counts of files")?;
        let (read, appended) = read.zip(appended).ok_or("it printed no counts of transactions")?;
        if created != deleted {
            return Err(format!("it made {created} files and removed {deleted}"));
        }
        let operation = |(kind, count): (&str, u64)| OperationRecord { count, ..OperationRecord::new(kind) };
        let kinds = [("create", created), ("read", read), ("append", appended), ("delete", deleted)];
        Ok(Counted {
            ops: created + read + appended + deleted,
            read_bytes: bytes(printed, "read").unwrap_or_default(),
            written_bytes: bytes(printed, "written").unwrap_or_default(),
            operations: kinds.map(operation).into(),
            ..Counted::default()
        })
    }
}

/// The number of `468 created`.
fn count(printed: &str, what: &str) -> Option<u64> {
    printed.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        (words.next()? == what).then_some(number)
    })
}

/// The bytes of `1.46 megabytes read`; its megabytes are 2^20 bytes (postmark.c, scalef).
fn bytes(printed: &str, what: &str) -> Option<u64> {
    printed.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let number: f64 = words.next()?.parse().ok()?;
        let unit = match words.next()? {
            "bytes" => 1.0,
            "kilobytes" => 1024.0,
            "megabytes" => 1024.0 * 1024.0,
            "gigabytes" => 1024.0 * 1024.0 * 1024.0,
            _ => return None,
        };
        (words.next()? == what).then_some((number * unit) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As postmark 1.51 of Debian 12 prints it.
    const PRINTED: &str = "\
Time:
\t1 seconds total
\t1 seconds of transactions (500 per second)

Files:
\t468 created (468 per second)
\t\tCreation alone: 200 files (200 per second)
\t236 read (236 per second)
\t263 appended (263 per second)
\t468 deleted (468 per second)

Data:
\t1.46 megabytes read (1.46 megabytes per second)
\t512.50 kilobytes written (512.50 kilobytes per second)
";

    #[test]
    fn what_postmark_prints_is_read_and_files_that_are_left_are_an_error() {
        let postmark = Postmark { commands: String::new() };
        let counted = postmark.measured(PRINTED, 0).unwrap();
        assert_eq!((counted.ops, counted.elapsed), (468 + 236 + 263 + 468, None));
        assert_eq!((counted.read_bytes, counted.written_bytes), (1_530_920, 524_800));
        let left = postmark.measured(&PRINTED.replace("468 deleted", "467 deleted"), 0).unwrap_err();
        assert_eq!(left, "it made 468 files and removed 467");
        assert!(postmark.measured("pm>", 0).is_err());
    }
}
