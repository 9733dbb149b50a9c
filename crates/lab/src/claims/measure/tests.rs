//! What a measure makes of cells.

use super::*;
use results::Clock;

/// hinfs 20, 24, 12 and pmfs 10, 20, 10 operations a second at 1, 2 and 8 threads.
fn results() -> ResultFile {
    let mut file = ResultFile::new("p", serde_json::Value::Null, 1, Clock::Virtual);
    for (fs, rates) in [("hinfs", [20.0, 24.0, 12.0]), ("pmfs", [10.0, 20.0, 10.0])] {
        for (threads, rate) in ["1", "2", "8"].into_iter().zip(rates) {
            let axes = [("fs", fs), ("threads", threads), ("workload", "suite/varmail")];
            let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned()));
            let mut sample = Sample::new(axes.into(), 0, 1);
            sample.throughput_ops_per_s = rate;
            sample.counters.insert("lines".to_owned(), rate as u64 * 2);
            file.samples.push(sample);
        }
    }
    file
}

fn value(measure: &str) -> Result<f64, String> {
    let text = format!("measure = {{ plan = \"p\", {measure} }}");
    let measure = document::read("t", &text, |root| root.need("measure", "")?.read(Measure::read)).unwrap();
    measure.value(&results(), &Measures::new())
}

const GAIN: &str = "top = { fs = \"hinfs\" }, bottom = { fs = \"pmfs\" }";

fn close(measure: &str, want: f64) {
    let got = value(measure).unwrap();
    assert!((got - want).abs() < 1e-9, "{measure}: {got}");
}

#[test]
fn a_ratio_of_two_cells() {
    close(&format!("{GAIN}, over = {{ threads = 8 }}"), 1.2);
    close("top = { fs = \"hinfs\", threads = 8 }, bottom = { fs = \"hinfs\", threads = 2 }", 0.5);
    close(&format!("{GAIN}, over = {{ threads = 8, workload = \"varmail\" }}"), 1.2);
}

#[test]
fn a_divisor_is_one_number_or_one_for_each_place() {
    close(&format!("{GAIN}, over = {{ threads = 8 }}, per = 8"), 0.15);
    let by = "over = { threads = [1, 8] }, per = { 1 = 10, 8 = 4 }, fold = \"max\"";
    close(&format!("top = {{ fs = \"hinfs\" }}, {by}"), 3.0);
    assert!(
        value(&format!("{GAIN}, over = {{ threads = 8 }}, per = {{ 1 = 10 }}"))
            .unwrap_err()
            .contains("threads 8")
    );
}

#[test]
fn folds_over_an_axis() {
    close(&format!("{GAIN}, over = {{ threads = \"*\" }}, fold = \"min\""), 1.2);
    close(&format!("{GAIN}, over = {{ threads = [1, 2] }}, fold = \"max\""), 2.0);
    close(&format!("{GAIN}, over = {{ threads = \"*\" }}, fold = \"furthest\""), 2.0);
    close(&format!("{GAIN}, over = {{ threads = [1, 8] }}, fold = \"mean\""), 1.6);
}

#[test]
fn neighbours_compare_next_by_previous() {
    close("top = { fs = \"hinfs\" }, neighbours = \"threads\", fold = \"min\"", 0.5);
    close(&format!("{GAIN}, neighbours = \"threads\", fold = \"max\""), 1.0);
}

#[test]
fn the_better_or_worse_of_several_cells() {
    let best = "bottom = { fs = [\"pmfs\", \"hinfs\"], pick = \"max\" }";
    close(&format!("top = {{ fs = \"pmfs\" }}, {best}, over = {{ threads = 1 }}"), 0.5);
}

#[test]
fn several_ratios_are_folded_together_over_values_from_a_number_on() {
    // hinfs by pmfs 1.2 and 1.2, pmfs by hinfs 1 / 1.2.
    let both = "ratios = [{ top = { fs = \"hinfs\" }, bottom = { fs = \"pmfs\" } }, \
                { top = { fs = \"pmfs\" }, bottom = { fs = \"hinfs\" } }], over = { threads = { from = 2 } }";
    close(&format!("{both}, fold = \"min\""), 1.0 / 1.2);
    close(&format!("{both}, fold = \"max\""), 1.2);
}

#[test]
fn times_beyond_that_of_a_cell_are_compared() {
    // 1/10 and 1/12 beyond 1/20.
    let measure = "top = { fs = \"hinfs\", threads = 8 }, bottom = { fs = \"pmfs\", threads = 8 }, \
                   beyond = { fs = \"hinfs\", threads = 1 }";
    close(measure, (1.0 / 12.0 - 1.0 / 20.0) / (1.0 / 10.0 - 1.0 / 20.0));
}

/// hinfs by pmfs is 1.0, 1.2, 1.2 by threads; the first of the largest counts.
#[test]
fn a_number_is_taken_where_that_of_another_claim_is_largest() {
    let read =
        |text: &str| document::read("t", text, |root| root.need("measure", "")?.read(Measure::read)).unwrap();
    let other = format!(
        "measure = {{ plan = \"p\", {}, over = {{ threads = \"*\" }}, fold = \"max\" }}",
        GAIN.replace("hinfs", "x").replace("pmfs", "hinfs").replace("\"x\"", "\"pmfs\"")
    );
    let other = read(&other);
    let mine = read(
        "measure = { plan = \"p\", top = { fs = \"pmfs\" }, over = { threads = { peak = \"a.gain\" } } }",
    );
    // pmfs by hinfs is 0.5, 0.83, 0.83: at two threads pmfs does 20.
    let others: Measures<'_> = [("a.gain", &other)].into();
    assert_eq!(mine.value(&results(), &others), Ok(20.0));
    assert!(mine.value(&results(), &Measures::new()).unwrap_err().contains("a.gain"));
}

#[test]
fn latencies_count_as_means_of_operations() {
    let mut file = results();
    for sample in &mut file.samples {
        let mut write = results::OperationRecord::new("write");
        write.latency_ns.record(if sample.axis("fs") == Some("hinfs") { 100 } else { 300 });
        sample.operations.push(write);
    }
    let text =
        format!("measure = {{ plan = \"p\", {GAIN}, over = {{ threads = 8 }}, metric = \"latency\" }}");
    let measure = document::read("t", &text, |root| root.need("measure", "")?.read(Measure::read)).unwrap();
    let value = measure.value(&file, &Measures::new()).unwrap();
    assert!((value - 1.0 / 3.0).abs() < 0.01, "{value}");
}

#[test]
fn counters_count_as_well() {
    close(&format!("{GAIN}, over = {{ threads = 1 }}, metric = \"lines\""), 2.0);
}

#[test]
fn what_was_not_measured_is_named() {
    assert!(value(&format!("{GAIN}, over = {{ threads = 4 }}")).unwrap_err().contains("threads 4"));
    assert!(value(GAIN).unwrap_err().contains("more than one cell"));
    assert!(value(&format!("{GAIN}, over = {{ threads = [1, 2] }}")).unwrap_err().contains("no fold"));
}
