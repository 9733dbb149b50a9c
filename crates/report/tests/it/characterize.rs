//! Which events go with throughput, in words: what is concluded, and what is not.

use report::characterize::{document, has_events, sentences, tables, uncounted};
use results::{Clock, EventCounts, EventRecord, ResultFile, Sample};

/// Two systems, each with its own slope of throughput over misses, and an event that is missing.
fn result(slopes: [f64; 2]) -> ResultFile {
    let mut file = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Real);
    for (system, slope) in slopes.into_iter().enumerate() {
        for at in 0..40_u64 {
            let axes = [("workload", "filebench/varmail".to_owned()), ("fs", format!("s{system}"))];
            let axes = axes.map(|(axis, value)| (axis.to_owned(), value));
            let mut sample = Sample::new(axes.into(), at as u32, at);
            let misses = 100 + at + system as u64 * 100;
            let noise = [0.0, 1.5, -1.0, 0.5, -1.5][at as usize % 5];
            let rate = 10_000.0 - 40.0 * (system as f64 * 100.0) + slope * at as f64 + noise;
            (sample.ops, sample.elapsed_ns, sample.throughput_ops_per_s) = (1, 1, rate);
            sample.counters =
                [("sim_dtlb_misses", misses), ("sim_instructions", 1000), ("sim_itlb_misses", 3)]
                    .map(|(name, count)| (name.to_owned(), count))
                    .into();
            let missing = EventRecord {
                name: "event.cycles".to_owned(),
                missing: Some("ENOENT: none".to_owned()),
                ..EventRecord::default()
            };
            sample.events = Some(EventCounts { events: vec![missing], ..EventCounts::default() });
            file.samples.push(sample);
        }
    }
    file
}

fn told(file: &ResultFile) -> String {
    tables(file).iter().map(report::table::Table::to_text).collect::<String>() + &sentences(file).join("\n")
}

#[test]
fn what_all_systems_show_alike_is_concluded() {
    let file = result([-40.0, -40.0]);
    let text = told(&file);
    assert!(
        text.contains("highly correlated") && text.contains("higher throughput goes with fewer dTLB misses"),
        "{text}"
    );
    assert!(text.contains("does not say that one causes the other"), "{text}");
    assert!(text.contains("a column never changes") && text.contains("n/a"), "misses of the iTLB: {text}");
}

#[test]
fn what_only_pooling_shows_is_told_and_not_concluded() {
    let file = result([40.0, 40.0]);
    let text = told(&file);
    assert!(text.contains("reversed by pooling: s0, s1 has the other sign"), "{text}");
    assert!(text.contains("no event goes with throughput"), "{text}");
}

#[test]
fn an_event_without_a_count_has_its_reason_in_every_form() {
    let file = result([1.0, 2.0]);
    assert!(has_events(&file) && told(&file).contains("ENOENT: none"));
    assert_eq!(uncounted(&file).as_deref(), Some("not counted: event.cycles (ENOENT: none)"));
    let document = document(&file);
    let relations = document["relations"].as_array().unwrap();
    assert!(
        relations.iter().any(|one| one["correlation"].is_null() && one["remark"] == "a column never changes")
    );
    let empty = ResultFile::new("t", serde_json::Value::Null, 1, Clock::Real);
    assert!(!has_events(&empty) && uncounted(&empty).is_none() && tables(&empty).is_empty());
    assert!(sentences(&empty).is_empty());
}

/// Bars with the whole width of the page, the sentence above them, the points behind them.
#[test]
fn the_page_says_what_may_be_concluded_and_has_the_points_behind_each_bar() {
    let page = |slopes| {
        let report = report::Report::new(vec![result(slopes)]).unwrap();
        report::by_name("html").unwrap().render(&report).unwrap()
    };
    let alike = page([-40.0, -40.0]);
    let at = |text: &str| alike.find(text).unwrap_or_else(|| panic!("the page does not have: {text}"));
    let conclusion = at("filebench/varmail: higher throughput goes with fewer dTLB misses (r -");
    let bars = at("Bar chart of coefficients");
    let points = at("The points behind each (");
    assert!(conclusion < bars && bars < points, "{conclusion}, {bars}, {points}");
    assert!(alike.contains("does not say that one causes the other"));
    assert!(alike.contains("ENOENT: none"), "the table of events, with why one has no count");
    assert!(page([40.0, 40.0]).contains("no event goes with throughput so closely, in all systems alike"));
}
