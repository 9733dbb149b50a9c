//! db_bench of RocksDB 7: `overwrite`, then `verifychecksum`, which reads every block of every table.
//!
//! ```text
//! overwrite    :     173.816 micros/op 11485 ops/sec 2.176 seconds 24998 operations;   89.9 MB/s
//! verifychecksum :  221824.000 micros/op 7 ops/sec 0.128 seconds 1 operations;
//! ```
//!
//! The options are those of the study (FxMark's vbench, rocksdb), in the names of version 7.

use results::OperationRecord;
use sim::Nanos;

use super::process::located;
use super::{Counted, OneProcess, Real, Started};
use crate::app::variables::{MAX_CLIENTS, Reader};
use crate::suite::LoadError;

pub(super) const PROGRAM: Real = Real {
    name: "rocksdb",
    find: || located("db_bench", "rocksdb-tools"),
    clients: "clients",
    is_timed: true,
    read,
};

/// Bytes of a key (`--key_size`).
const KEY: u64 = 16;

struct Rocksdb {
    clients: u64,
    num: u64,
    value: u64,
    buffer: u64,
    jobs: u64,
}

fn read(reader: &mut Reader) -> Result<Box<dyn Started>, LoadError> {
    let clients = reader.count("clients", 2, 1..=MAX_CLIENTS)?;
    let num = reader.count("num", 1_000_000, 1..=1_000_000_000)?;
    let value = reader.bytes("value", 8 << 10, 1..=1 << 20)?;
    let buffer = reader.bytes("buffer", 64 << 20, 64 << 10..=1 << 40)?;
    // Of the application these are two numbers, 0 for as many as there are clients.
    let [flushes, merges] = ["flushes", "merges"].map(|name| reader.count(name, 1, 0..=MAX_CLIENTS));
    let or_clients = |count: u64| if count == 0 { clients } else { count };
    let jobs = or_clients(flushes?) + or_clients(merges?);
    Ok(Box::new(Rocksdb { clients, num, value, buffer, jobs }))
}

impl OneProcess for Rocksdb {
    fn arguments(&self, seconds: u64) -> Vec<String> {
        let Self { clients, num, value, buffer, jobs } = self;
        vec![
            "--benchmarks=overwrite,verifychecksum".to_owned(),
            "--db=database".to_owned(),
            format!("--duration={seconds}"),
            format!("--threads={clients}"),
            format!("--num={num}"),
            format!("--key_size={KEY}"),
            format!("--value_size={value}"),
            format!("--write_buffer_size={buffer}"),
            format!("--max_background_jobs={jobs}"),
            "--compression_type=none".to_owned(),
        ]
    }

    fn measured(&self, printed: &str, _seconds: u64) -> Result<Counted, String> {
        let line = |name: &str| {
            let named = |line: &&str| line.split_once(':').is_some_and(|(word, _)| word.trim() == name);
            printed.lines().find(named).and_then(|line| line.split_once(':')).map(|(_, rest)| rest)
        };
        let overwrite = line("overwrite").ok_or("it printed no rate")?;
        line("verifychecksum").ok_or("it did not come to the check of its tables")?;
        let before = |unit: &str| {
            let words: Vec<&str> = overwrite.split_whitespace().collect();
            let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
            words.get(at.checked_sub(1)?)?.parse::<f64>().ok()
        };
        let (seconds, ops) =
            before("seconds").zip(before("operations")).ok_or("its rate has another form")?;
        let mut write = OperationRecord::new("overwrite");
        (write.count, write.total_ns) = (ops as u64, (seconds * 1e9 * self.clients as f64) as u64);
        Ok(Counted {
            elapsed: Some(Nanos((seconds * 1e9) as u64)),
            ops: ops as u64,
            written_bytes: ops as u64 * (KEY + self.value),
            operations: vec![write],
            ..Counted::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_db_bench_prints_is_read_and_a_missing_check_is_named() {
        let rocksdb = Rocksdb { clients: 2, num: 100, value: 8192, buffer: 64 << 20, jobs: 2 };
        let rate = "overwrite    :     173.816 micros/op 11485 ops/sec 2.176 seconds 24998 operations;   89.9 MB/s\n";
        let check = "verifychecksum :  221824.000 micros/op 7 ops/sec 0.128 seconds 1 operations;\n";
        let counted = rocksdb.measured(&format!("... finished 100 ops\n{rate}{check}"), 2).unwrap();
        assert_eq!((counted.ops, counted.elapsed), (24_998, Some(Nanos(2_176_000_000))));
        assert_eq!(counted.written_bytes, 24_998 * 8_208);
        assert!(rocksdb.measured(rate, 2).unwrap_err().contains("check of its tables"));
        assert!(rocksdb.measured(check, 2).unwrap_err().contains("no rate"));
    }
}
