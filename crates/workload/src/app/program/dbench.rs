//! dbench 4.00: what it prints at its end.
//!
//! ```text
//!  Operation      Count    AvgLat    MaxLat
//!  ReadX          51957     0.009    20.045
//! Throughput 542.015 MB/sec  2 clients  2 procs  max_latency=24.062 ms
//! ```
//!
//! Megabytes are 1,000,000 bytes (of 51,496 writes of 64 KiB in 3 s it prints 1109.26) and latencies milliseconds. Throughput
//! counts bytes that were read and written, which it does not tell apart.

use results::OperationRecord;
use sim::Nanos;

use super::process::located;
use super::{Counted, OneProcess, Real, Started, number_after};
use crate::app::variables::{MAX_CLIENTS, Reader};
use crate::suite::LoadError;

pub(super) const PROGRAM: Real =
    Real { name: "dbench", find: || located("dbench", "dbench"), clients: "clients", is_timed: true, read };

struct Dbench {
    load: Option<String>,
    clients: u64,
}

fn read(reader: &mut Reader) -> Result<Box<dyn Started>, LoadError> {
    let load = reader.text("load");
    let clients = reader.count("clients", 1, 1..=MAX_CLIENTS)?;
    Ok(Box::new(Dbench { load, clients }))
}

impl OneProcess for Dbench {
    fn arguments(&self, seconds: u64) -> Vec<String> {
        let load = self.load.iter().map(|file| format!("--loadfile={file}"));
        load.chain([format!("--timelimit={seconds}"), self.clients.to_string()]).collect()
    }

    fn measured(&self, printed: &str, seconds: u64) -> Result<Counted, String> {
        let rate = number_after(printed, "Throughput ").ok_or("it printed no throughput")?;
        if rate <= 0.0 {
            return Err("it moved no bytes".to_owned());
        }
        let heading = |line: &&str| !line.trim_start().starts_with("Operation ");
        let rows = printed.lines().skip_while(heading).skip(2);
        let operations: Vec<OperationRecord> = rows.map_while(operation).collect();
        if operations.is_empty() {
            return Err("it printed no operations".to_owned());
        }
        Ok(Counted {
            elapsed: Some(Nanos::from_secs(seconds)),
            ops: operations.iter().map(|operation| operation.count).sum(),
            read_bytes: (rate * 1e6 * seconds as f64) as u64,
            operations,
            unsaid: Some("dbench counts bytes read and written together: all of them stand as read"),
            ..Counted::default()
        })
    }
}

/// `ReadX 51957 0.009 20.045`: the operation, its count, its mean and largest latency in milliseconds.
fn operation(line: &str) -> Option<OperationRecord> {
    let mut words = line.split_whitespace();
    let mut record = OperationRecord::new(words.next()?);
    record.count = words.next()?.parse().ok()?;
    let mean: f64 = words.next()?.parse().ok()?;
    record.total_ns = (mean * 1e6 * record.count as f64) as u64;
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As dbench 4.00 of Debian 12 prints it.
    const PRINTED: &str = "\
Running for 2 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
   2     47212   542.01 MB/sec  execute   1 sec  latency 24.062 ms
   2  cleanup   2 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      33042     0.028    24.057
 ReadX          51957     0.009    20.045
 Flush           2322     0.007    16.063

Throughput 542.015 MB/sec  2 clients  2 procs  max_latency=24.062 ms
";

    #[test]
    fn what_dbench_prints_is_read_and_what_is_missing_is_named() {
        let dbench = Dbench { load: None, clients: 2 };
        let counted = dbench.measured(PRINTED, 2).unwrap();
        assert_eq!((counted.ops, counted.read_bytes), (33_042 + 51_957 + 2_322, 1_084_030_000));
        assert_eq!(
            (counted.operations[1].kind.as_str(), counted.operations[1].total_ns),
            ("ReadX", 467_613_000)
        );
        for (without, told) in [("Throughput 542", "no throughput"), (" Operation", "no operations")] {
            let error = dbench.measured(&PRINTED.replace(without, "-"), 2).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
        assert!(dbench.measured(&PRINTED.replace("542.015", "0.000"), 2).unwrap_err().contains("no bytes"));
    }
}
