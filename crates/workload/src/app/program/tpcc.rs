//! PostgreSQL under the five transactions of TPC-C, made by pgbench: one warehouse, and terminals that do not think.
//!
//! `tpcc.sql` has the tables, their first rows and the transactions as functions, `conditions.sql` what must hold afterwards.
//! pgbench chooses a transaction for each terminal by the shares of the standard (5.2.3), by chance and not from a deck. What it
//! prints for each script:
//!
//! ```text
//! SQL script 1: new_order.sql
//!  - weight: 45 (targets 45.0% of total)
//!  - 1378 transactions (45.3% of total, tps = 461.136377)
//!  - number of failed transactions: 0 (0.000%)
//!  - latency average = 3.341 ms
//! ```

use results::OperationRecord;
use sim::{MIB, Nanos};

use super::postgres::{self, Server};
use super::{Counted, Place, Real, Started, number_after};
use crate::app::variables::{MAX_CLIENTS, Reader};
use crate::suite::{LoadError, Phase};

pub(super) const PROGRAM: Real =
    Real { name: "tpcc", find: postgres::find, clients: "terminals", is_timed: true, read };

/// The buffers of the layer `postgres`.
const POOL: u64 = 32 * MIB;
const TABLES: &str = include_str!("tpcc.sql");
/// The transactions and their shares in a hundred.
const TRANSACTIONS: [(&str, u32); 5] =
    [("new_order", 45), ("payment", 43), ("order_status", 4), ("delivery", 4), ("stock_level", 4)];

/// The consistency conditions 1 to 4 (3.3.2.1 to 3.3.2.4): a line for each row that breaks one.
const CONDITIONS: &str = include_str!("conditions.sql");

struct Tpcc {
    terminals: u64,
    pool: u64,
}

fn read(reader: &mut Reader) -> Result<Box<dyn Started>, LoadError> {
    let terminals = reader.count("terminals", 8, 1..=MAX_CLIENTS)?;
    reader.count("warehouses", 1, 1..=1)?;
    let pool = reader.bytes("pool", POOL, MIB..=1 << 40)?;
    Ok(Box::new(Tpcc { terminals, pool }))
}

impl Started for Tpcc {
    fn run(&self, place: &Place<'_>, watch: &mut dyn FnMut(Phase)) -> Result<Option<Counted>, String> {
        let Some(mut server) = Server::start(place, self.pool, self.terminals)? else { return Ok(None) };
        if server.sql(TABLES)?.is_none() {
            return Ok(None);
        }
        let arguments = self.arguments(&server, place.seconds)?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        watch(Phase::Begins);
        let printed = server.pgbench(&arguments);
        watch(Phase::Ends);
        let Some(printed) = printed? else { return Ok(None) };
        let Some(broken) = server.sql(CONDITIONS)? else { return Ok(None) };
        server.stop()?;
        holds(&broken)?;
        counted(&printed).map(Some)
    }
}

impl Tpcc {
    /// pgbench's, whose scripts are written for it.
    fn arguments(&self, server: &Server<'_>, seconds: u64) -> Result<Vec<String>, String> {
        let cores = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let jobs = self.terminals.min(cores);
        let mut arguments: Vec<String> =
            ["-n", "-c", &self.terminals.to_string(), "-j", &jobs.to_string(), "-T", &seconds.to_string()]
                .map(str::to_owned)
                .into();
        for (name, share) in TRANSACTIONS {
            let script = server.scratch().join(format!("{name}.sql"));
            let written = std::fs::write(&script, format!("select {name}();\n"));
            written.map_err(|error| format!("{}: {error}", script.display()))?;
            arguments.extend(["-f".to_owned(), format!("{}@{share}", script.display())]);
        }
        Ok(arguments)
    }
}

/// By what the conditions have printed.
fn holds(broken: &str) -> Result<(), String> {
    let Some(first) = broken.lines().find(|line| !line.trim().is_empty()) else { return Ok(()) };
    let (condition, told) = first.split_once('|').unwrap_or(("?", first));
    Err(format!("consistency condition {condition} does not hold: {}", told.replace('|', " ")))
}

/// What pgbench has measured.
fn counted(printed: &str) -> Result<Counted, String> {
    let number = |before| number_after(printed, before);
    let ops =
        number("number of transactions actually processed: ").ok_or("pgbench printed no transactions")?;
    let failed = number("number of failed transactions: ").unwrap_or(0.0);
    if failed > 0.0 {
        return Err(format!("{failed} transactions failed"));
    }
    let rate = number("tps = ").filter(|rate| *rate > 0.0).ok_or("pgbench printed no rate")?;
    let operations: Option<Vec<OperationRecord>> =
        TRANSACTIONS.iter().map(|(name, _)| operation(printed, name)).collect();
    let operations = operations.ok_or("pgbench printed no counts of scripts")?;
    let seconds = ops / rate;
    let new_orders = operations[0].count;
    Ok(Counted {
        elapsed: Some(Nanos((seconds * 1e9) as u64)),
        ops: ops as u64,
        counters: [
            ("tpcc.new_orders".to_owned(), new_orders),
            ("tpcc.tpmc".to_owned(), (new_orders as f64 * 60.0 / seconds) as u64),
        ]
        .into(),
        operations,
        unsaid: Some("pgbench counts transactions and no bytes; no New-Order is rolled back"),
        ..Counted::default()
    })
}

/// Count and time of a transaction; no time where there was none of it.
fn operation(printed: &str, name: &str) -> Option<OperationRecord> {
    let of_script = |line: &str| line.starts_with("SQL script ");
    let heading = |line: &&str| !(of_script(line) && line.ends_with(&format!("{name}.sql")));
    let block: Vec<&str> =
        printed.lines().skip_while(heading).skip(1).take_while(|line| !of_script(line)).collect();
    let counts = block.iter().find(|line| line.contains(" transactions (") && line.contains("tps ="))?;
    let mut record = OperationRecord::new(name);
    record.count = counts.trim_start().strip_prefix("- ")?.split_whitespace().next()?.parse().ok()?;
    let mean = number_after(&block.join("\n"), "- latency average = ").unwrap_or(0.0);
    record.total_ns = (mean * 1e6 * record.count as f64) as u64;
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As pgbench 15.18 of Debian 12 prints it.
    const PRINTED: &str = "\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: multiple scripts
scaling factor: 1
query mode: simple
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 3041
number of failed transactions: 0 (0.000%)
latency average = 3.931 ms
initial connection time = 25.181 ms
tps = 1017.645661 (without initial connection time)
SQL script 1: /tmp/weir-a/new_order.sql
 - weight: 45 (targets 45.0% of total)
 - 1378 transactions (45.3% of total, tps = 461.136377)
 - number of failed transactions: 0 (0.000%)
 - latency average = 3.341 ms
 - latency stddev = 3.943 ms
SQL script 2: /tmp/weir-a/payment.sql
 - weight: 43 (targets 43.0% of total)
 - 1309 transactions (43.0% of total, tps = 438.046094)
 - number of failed transactions: 0 (0.000%)
 - latency average = 4.515 ms
 - latency stddev = 4.902 ms
SQL script 3: /tmp/weir-a/order_status.sql
 - weight: 4 (targets 4.0% of total)
 - 130 transactions (4.3% of total, tps = 43.503432)
 - number of failed transactions: 0 (0.000%)
 - latency average = 3.669 ms
 - latency stddev = 3.766 ms
SQL script 4: /tmp/weir-a/delivery.sql
 - weight: 4 (targets 4.0% of total)
 - 109 transactions (3.6% of total, tps = 36.475954)
 - number of failed transactions: 0 (0.000%)
 - latency average = 3.856 ms
 - latency stddev = 3.881 ms
SQL script 5: /tmp/weir-a/stock_level.sql
 - weight: 4 (targets 4.0% of total)
 - 115 transactions (3.8% of total, tps = 38.483805)
 - number of failed transactions: 0 (0.000%)
 - latency average = 4.385 ms
 - latency stddev = 4.004 ms
";

    #[test]
    fn what_pgbench_prints_is_read_and_what_is_missing_or_failed_is_named() {
        let result = counted(PRINTED).unwrap();
        let counts: Vec<(&str, u64)> =
            result.operations.iter().map(|operation| (operation.kind.as_str(), operation.count)).collect();
        let expected = [
            ("new_order", 1378),
            ("payment", 1309),
            ("order_status", 130),
            ("delivery", 109),
            ("stock_level", 115),
        ];
        assert_eq!(counts, expected);
        assert_eq!(result.ops, 3041);
        // 3041 / 1017.645661 s, and 1378 New-Orders in it.
        let elapsed = result.elapsed.unwrap().0;
        assert!(elapsed.abs_diff(2_988_270_000) < 100_000, "{elapsed}");
        assert_eq!(result.counters["tpcc.tpmc"], 27_668);
        assert_eq!(result.operations[3].total_ns, 420_304_000);
        for (from, to, told) in [
            ("processed: ", "processed ", "no transactions"),
            ("tps = 1017", "tps 1017", "no rate"),
            ("delivery.sql", "other.sql", "no counts of scripts"),
            ("failed transactions: 0", "failed transactions: 3", "3 transactions failed"),
        ] {
            let error = counted(&PRINTED.replacen(from, to, 1)).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn a_condition_that_is_broken_is_named_with_its_row() {
        holds("\n").unwrap();
        let told = holds("3|district 7|has 2 orders that are not delivered between 5 and 7\n").unwrap_err();
        assert_eq!(
            told,
            "consistency condition 3 does not hold: district 7 has 2 orders that are not delivered between 5 and 7"
        );
    }

    #[test]
    fn the_shares_are_those_of_the_standard() {
        assert_eq!(TRANSACTIONS.iter().map(|(_, share)| share).sum::<u32>(), 100);
        assert!(
            TRANSACTIONS.iter().all(|(name, _)| TABLES.contains(&format!("function {name}() returns void")))
        );
    }
}
