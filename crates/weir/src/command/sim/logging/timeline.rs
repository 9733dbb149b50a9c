//! `weir sim logging --timeline`: one transaction under each scheme, span by span.

use archsim::Machine;
use archsim::timeline::{Timeline, timeline};
use report::table::Table;
use serde_json::json;

use super::Logging;
use crate::failure::Failure;
use crate::output::Output;

impl Logging {
    pub(super) fn timeline(&self, machine: &Machine, number: u64, output: &Output) -> Result<(), Failure> {
        let workload = self.workloads()[0].clone();
        let mut of = Vec::new();
        for scheme in self.schemes() {
            let config = self.config(machine, scheme.clone(), workload.clone());
            let timeline = timeline(&config, number)?;
            of.push((scheme, timeline.sample(&config), timeline));
        }
        let table = table(&format!("transaction {number} of {workload}, ns since the one before"), &of);
        if output.is_json() {
            let rows = &table.rows;
            output.document(&json!({ "schema": "weir.sim.timeline/2", "transaction": number, "rows": rows }));
        } else {
            output.data(&table.to_text());
        }
        let caption = format!(
            "Transaction {number} of {workload}, one thread, from the acknowledgement of the one before."
        );
        let figure = json!([{
            "id": "1", "title": "One transaction", "kind": "timeline", "series": "scheme", "caption": caption,
        }]);
        self.write(&figure, of.into_iter().map(|(_, sample, _)| sample).collect(), output)
    }
}

fn table(title: &str, of: &[(String, results::Sample, Timeline)]) -> Table {
    let mut table = Table::new(title);
    for name in ["scheme", "where", "what"] {
        table.words(name);
    }
    for name in ["begins", "ends"] {
        table.numbers(name);
    }
    for (scheme, sample, timeline) in of {
        for span in &sample.spans {
            let times = [span.start_ps, span.end_ps].map(|ps| format!("{:.1}", ps as f64 / 1e3));
            let words = [scheme.clone(), span.lane.clone(), span.what.clone()];
            table.rows.push(words.into_iter().chain(times).collect());
        }
        let end = format!("{:.1}", (timeline.end - timeline.start) as f64 / 1e3);
        table.rows.push([scheme.as_str(), "core", "acknowledged", &end, ""].map(str::to_owned).into());
    }
    table
}
