//! What a figure shows, and every way in which it refuses to show something misleading.

use crate::sample;
use report::figure::{OneOrMany, PublishedMark};
use report::{Figure, FigureError, FigureSpec, Kind, Metric, Report, Section, compare, compare_all, explain};
use results::ResultFile;
use std::collections::BTreeMap;

fn bars() -> FigureSpec {
    FigureSpec::new("1", "t", Kind::Bars)
}

fn only(axis: &str, value: &str) -> BTreeMap<String, OneOrMany> {
    BTreeMap::from([(axis.to_owned(), OneOrMany::One(value.to_owned()))])
}

fn over_threads() -> ResultFile {
    sample::lines().remove(0)
}

fn value(figure: &Figure, x: &str, series: &str) -> f64 {
    let panel = &figure.panels[0];
    let x = panel.xs.iter().position(|value| value.label == x).expect("the x is there");
    let series = figure.series.iter().position(|name| name == series).expect("the series is there");
    panel.point(x, series).expect("it was measured").y.value
}

#[test]
fn a_value_is_the_median_of_the_repeats() {
    let figure = Figure::build(&bars(), &sample::bars()).unwrap();
    let got = value(&figure, "fileserver", "pmfs");
    assert!((got - 21_000.0).abs() < 1.0, "{got}");
}

#[test]
fn a_relative_figure_divides_by_the_reference_in_the_same_place() {
    let spec = FigureSpec { relative_to: Some("pmfs".into()), ..bars() };
    let figure = Figure::build(&spec, &sample::bars()).unwrap();
    assert!((value(&figure, "fileserver", "hinfs") - 2.7).abs() < 0.01);
    assert!((value(&figure, "varmail", "pmfs") - 1.0).abs() < 1e-12);
}

#[test]
fn cells_are_never_averaged_over_a_forgotten_axis() {
    let spec = FigureSpec { x: "workload".into(), ..bars() };
    let error = Figure::build(&spec, &over_threads()).unwrap_err();
    assert!(matches!(&error, FigureError::Mixed { axis, .. } if axis == "threads"), "{error}");
    assert!(error.to_string().contains("only.threads"));
    let fixed = FigureSpec { only: only("threads", "8"), ..spec };
    assert!(Figure::build(&fixed, &over_threads()).is_ok());
}

#[test]
fn what_is_missing_is_named() {
    let file = sample::bars();
    let error = |spec: FigureSpec| Figure::build(&spec, &file).unwrap_err().to_string();
    assert!(error(FigureSpec { x: "colour".into(), ..bars() }).contains("fs, medium, threads, workload"));
    assert!(error(FigureSpec { relative_to: Some("nova".into()), ..bars() }).contains("\"nova\""));
    assert!(error(FigureSpec { only: only("fs", "nova"), ..bars() }).contains("no sample"));
    let unwired = Metric::Counter("stores".into());
    assert!(error(FigureSpec { metric: unwired, ..bars() }).contains("counter.stores"));
}

#[test]
fn a_published_ratio_is_not_drawn_on_an_absolute_axis() {
    let mark = PublishedMark {
        claim: "sample.gain".into(),
        x: "filebench/fileserver".into(),
        series: "hinfs".into(),
        panel: None,
    };
    let absolute = FigureSpec { published: vec![mark], ..bars() };
    let error = Figure::build(&absolute, &sample::bars()).unwrap_err();
    assert_eq!(error, FigureError::NotARatio { claim: "sample.gain".into() });
    let relative = FigureSpec { relative_to: Some("pmfs".into()), ..absolute };
    let figure = Figure::build(&relative, &sample::bars()).unwrap();
    assert_eq!(figure.panels[0].published.len(), 1);
    assert!(figure.table().rows[0].last().unwrap().contains("2.41 to 3.27"));
}

#[test]
fn numbers_on_the_x_axis_are_sorted_and_names_are_not() {
    let spec = FigureSpec {
        kind: Kind::Lines,
        x: "iosize".into(),
        only: only("workload", "filebench/varmail"),
        ..bars()
    };
    let figure = Figure::build(&spec, &sample::lines()[1]).unwrap();
    let labels: Vec<&str> = figure.panels[0].xs.iter().map(|x| x.label.as_str()).collect();
    assert_eq!(labels, ["64", "256", "1 KiB", "4 KiB", "16 KiB", "64 KiB", "1 MiB"]);
    assert!(figure.x_log, "sizes over four orders are logarithmic");
    assert_eq!(figure.series, ["pmfs", "hinfs", "ext4-dax", "ext2", "ext4"]);
}

#[test]
fn lines_over_names_become_bars() {
    let figure = Figure::build(&FigureSpec { kind: Kind::Lines, ..bars() }, &sample::bars()).unwrap();
    assert_eq!(figure.kind, Kind::Bars);
}

#[test]
fn the_segments_of_a_breakdown_sum_to_the_mean_time() {
    let spec = FigureSpec { kind: Kind::Breakdown, only: only("workload", "filebench/varmail"), ..bars() };
    let file = sample::bars();
    let figure = Figure::build(&spec, &file).unwrap();
    let panel = figure.panels.iter().find(|panel| panel.title == "write").expect("writes were measured");
    let sum: f64 = panel.at(0).map(|point| point.y.value).sum();
    let matching = |s: &&results::Sample| {
        s.axis("fs") == Some("pmfs") && s.axis("workload") == Some("filebench/varmail")
    };
    let writes: Vec<_> = file.samples.iter().filter(matching).filter_map(|s| s.operation("write")).collect();
    let (ns, count) = writes.iter().fold((0, 0), |(ns, count), op| (ns + op.total_ns, count + op.count));
    assert!((sum / (ns as f64 / count as f64) - 1.0).abs() < 1e-9);
}

#[test]
fn a_plan_without_figures_gets_figures_that_can_be_drawn() {
    for mut file in [sample::bars(), over_threads()] {
        file.plan = serde_json::Value::Null;
        let section = Section::new(file).unwrap();
        assert!(section.figures.len() >= 2);
        for spec in &section.figures {
            Figure::build(spec, &section.results).unwrap_or_else(|error| panic!("{}: {error}", spec.title));
        }
    }
}

/// The title of an axis is the axis's own name, whether a paper has such a figure or not.
#[test]
fn the_title_of_an_axis_comes_from_the_axis() {
    for (at, title) in [(0, "threads"), (1, "I/O size"), (2, "latency")] {
        let mut file = sample::lines().remove(at);
        file.plan = serde_json::Value::Null;
        let section = Section::new(file).unwrap();
        let lines = section.figures.iter().find(|spec| spec.kind == Kind::Lines).unwrap();
        assert_eq!(Figure::build(lines, &section.results).unwrap().x_label, title);
    }
}

/// Four axes that vary, of which the designs are one.
fn four_axes(values: usize) -> ResultFile {
    let mut file = over_threads();
    file.plan = serde_json::Value::Null;
    let media: Vec<String> = (0..values).map(|at| format!("{}ns", 100 << at)).collect();
    let with = |sample: &results::Sample, medium: &String| {
        let mut sample = sample.clone();
        sample.axes.insert("medium".to_owned(), medium.clone());
        sample
    };
    file.samples = file.samples.iter().flat_map(|sample| media.iter().map(|m| with(sample, m))).collect();
    file
}

#[test]
fn every_cell_of_a_plan_of_four_axes_is_drawn_and_what_is_left_out_of_a_page_is_said() {
    let section = Section::new(four_axes(3)).unwrap();
    let drawn = |spec: &FigureSpec| {
        let figure = Figure::build(spec, &section.results).unwrap();
        figure.panels.iter().map(|panel| panel.points.len()).sum::<usize>()
    };
    let lines = section.figures.iter().filter(|spec| spec.kind == Kind::Lines);
    assert_eq!(lines.map(drawn).sum::<usize>(), 5 * 2 * 6 * 3, "designs, workloads, threads, media");
    assert!(section.figures.iter().all(|spec| !spec.caption.contains("left out")));
    let page = |file| report::by_name("html").unwrap().render(&Report::new(vec![file]).unwrap()).unwrap();
    assert!(!page(four_axes(2)).contains("left out"), "24 places have a chart each");
    assert!(page(four_axes(3)).contains("12 more charts are left out; their numbers are in the table."));
}

#[test]
fn explain_accounts_for_all_the_time() {
    let text = explain(&[sample::bars()], &BTreeMap::from([("fs".to_owned(), "hinfs".to_owned())]));
    assert!(text.contains("filebench/varmail") && !text.contains("pmfs"));
    assert!(text.contains("inode 80 %, journal 20 %"), "{text}");
    assert!(text.contains("100 %") && text.contains("(the total)"), "{text}");
    assert!(!text.contains("does not balance"));
    assert_eq!(
        explain(&[sample::bars()], &BTreeMap::from([("fs".to_owned(), "x".to_owned())])),
        "No sample matches.\n"
    );
}

#[test]
fn explain_puts_a_heading_over_each_of_several_results() {
    let results = ["first", "second"].map(|name| ResultFile { name: name.to_owned(), ..sample::bars() });
    let all = explain(&results, &BTreeMap::new());
    let (first, second) = (all.find("first   seed").unwrap(), all.find("second   seed").unwrap());
    assert!(first < second, "{all}");
    assert_eq!(all.matches("filebench/varmail  ").count() % 2, 0, "{all}");
    let mut results = results;
    results[1].samples.retain(|sample| sample.axis("fs") == Some("pmfs"));
    let some = explain(&results, &BTreeMap::from([("fs".to_owned(), "hinfs".to_owned())]));
    assert!(some.contains("first   seed") && !some.contains("second   seed"), "{some}");
}

#[test]
fn explain_says_when_the_ledger_does_not_balance() {
    let mut file = sample::bars();
    file.samples.truncate(1);
    file.samples[0].operations[1].total_ns *= 2;
    assert!(explain(&[file], &BTreeMap::new()).contains("the ledger does not balance"));
}

#[test]
fn a_result_compared_with_itself_shows_no_difference() {
    let file = sample::bars();
    let compared = compare(("old", &file), ("new", &file), None);
    assert_eq!(compared.cells.len(), 20);
    assert_eq!(
        compare_all(("old", std::slice::from_ref(&file)), ("new", std::slice::from_ref(&file)), None)
            .gate(0.0)
            .slower,
        0
    );
    assert!(compared.to_text().lines().filter(|line| line.contains("or more is detectable")).count() == 20);
}

#[test]
fn a_slower_result_is_named_slower_with_its_interval() {
    let (old, mut new) = (sample::bars(), sample::bars());
    for sample in &mut new.samples {
        sample.throughput_ops_per_s /= 1.4;
    }
    let compared = compare(("old", &old), ("new", &new), None);
    let text = compared.to_text();
    assert!(text.contains("new is slower than old: 0.71x (95 % interval 0."), "{text}");
    let all = compare_all(("old", &[old]), ("new", &[new]), None);
    assert_eq!((all.gate(0.05).slower, all.gate(0.5).slower), (20, 0));
    let json: serde_json::Value = serde_json::from_str(&compared.to_json()).unwrap();
    assert_eq!(json["cells"][0]["verdict"], "slower");
}

#[test]
fn several_results_are_compared_plan_by_plan_and_what_has_no_twin_is_named() {
    let named = |name: &str| ResultFile { name: name.to_owned(), ..sample::bars() };
    let (old, new) = ([named("a"), named("b")], [named("c"), named("b")]);
    let compared = compare_all(("old", &old), ("new", &new), None);
    let names: Vec<_> = compared.results.iter().map(|result| result.name.as_str()).collect();
    assert_eq!((names, compared.cells().count()), (vec!["b"], 20));
    assert_eq!(
        (&compared.only_in_baseline[..], &compared.only_in_new[..]),
        (&["a".into()][..], &["c".into()][..])
    );
    assert!(compared.to_text().starts_with("b\n") && compared.single().is_none());
    let alone = compare_all(("old", &old[..1]), ("new", &new[..1]), None);
    assert_eq!(alone.single().unwrap().cells.len(), 20, "one of each is compared whatever its name");
    let strangers = compare_all(("old", &old[..1]), ("new", &[named("d"), named("e")]), None);
    assert!(strangers.to_text().contains("no plan in common"));
}

#[test]
fn what_only_one_side_has_is_counted() {
    let (old, mut new) = (sample::bars(), sample::bars());
    new.samples.retain(|sample| sample.axis("fs") == Some("pmfs"));
    let compared = compare(("old", &old), ("new", &new), None);
    assert_eq!((compared.only_in_baseline, compared.only_in_new), (16, 0));
    assert!(compared.to_text().contains("16 cells are only in old"));
}

#[test]
fn one_run_of_each_names_no_winner() {
    let (mut old, mut new) = (sample::bars(), over_threads());
    old.samples.truncate(1);
    new.samples = old.samples.clone();
    new.samples[0].throughput_ops_per_s *= 2.0;
    let text = compare(("old", &old), ("new", &new), None).to_text();
    assert!(text.contains("one run of each; repeat both to judge") && !text.contains("faster"), "{text}");
}

#[test]
fn noise_that_would_hide_a_regression_is_counted_and_is_no_regression() {
    let (mut old, mut new) = (sample::bars(), sample::bars());
    // Noise that is not of the seed: each side has its own.
    for (side, shift) in [(&mut old, 0), (&mut new, 3)] {
        for (at, sample) in side.samples.iter_mut().enumerate() {
            sample.throughput_ops_per_s *= 1.0 + ((at / 20 + shift) % 6) as f64 * 0.2;
        }
    }
    new.samples.iter_mut().for_each(|sample| sample.throughput_ops_per_s *= 0.98);
    let gate = compare_all(("old", &[old]), ("new", &[new]), None).gate(0.05);
    assert_eq!((gate.slower, gate.failed), (0, 0));
    assert!(gate.blind > 0, "{gate:?}");
}

#[test]
fn cells_of_one_result_are_compared_across_an_axis() {
    let file = sample::bars();
    let compared = report::compare_by(&file, "fs", None).expect("designs vary");
    let sides: Vec<_> = compared.results.iter().map(|one| one.compared.new.as_str()).collect();
    assert_eq!(sides, ["hinfs", "ext4-dax", "ext2", "ext4"]);
    assert!(
        compared.results.iter().all(|one| one.compared.baseline == "pmfs" && one.compared.cells.len() == 4)
    );
    assert!(compared.to_text().contains("hinfs is faster than pmfs: 2.70x"), "{}", compared.to_text());
    let error = report::compare_by(&file, "colour", None).expect_err("there is none");
    assert!(error.contains("no axis \"colour\"; they have fs, medium, threads, workload"), "{error}");
    assert!(report::compare_by(&file, "medium", None).expect_err("one value").contains("the same medium"));
}

#[test]
fn a_comparison_is_a_page_that_needs_nothing_from_outside() {
    let file = sample::bars();
    let page = report::format::difference_html(&report::compare_by(&file, "fs", None).expect("it compares"));
    let page = page.expect("it renders");
    for part in ["16 cells compared", "role=\"img\"", "no difference detectable", "faster", "95 %"] {
        assert!(page.contains(part), "{part}");
    }
    for foreign in ["http:", "https:", "<script", "<img"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
}

#[test]
fn results_of_equal_names_are_exported_side_by_side() {
    let names = |results: Vec<ResultFile>| -> Vec<String> {
        let export = report::export::figures(&Report::new(results).unwrap()).unwrap();
        export.files.into_iter().map(|file| file.name).collect()
    };
    let (one, mut two) = (names(vec![sample::bars()]), names(vec![sample::bars(), sample::bars()]));
    assert_eq!(two.len(), 2 * one.len());
    two.sort();
    two.dedup();
    assert_eq!(two.len(), 2 * one.len(), "each has a name of its own");
}

#[test]
fn charts_that_the_page_leaves_out_dies_and_readings_are_exported() {
    let mut file = sample::bars();
    let mut first = file.samples[0].clone();
    first.series = Some(results::SeriesRecord { step_ns: 10, ops: vec![30, 40] });
    first.placement = Some(results::PlacementRecord { dies: 8, stripe_pages: 64, runs: vec![(0, 64)] });
    let at = |threads: u32| {
        let mut sample = first.clone();
        sample.axes.insert("threads".to_owned(), threads.to_string());
        sample
    };
    file.samples = (1..=30).map(at).collect();
    let reading = |name: &str| results::ReadingOutcome {
        name: name.into(),
        choice: name.into(),
        value: Some(1.0),
        holds: true,
    };
    file.claims = sample::bars().claims;
    file.claims[0].readings = vec![reading("default"), reading("other")];
    let export = report::export::figures(&Report::new(vec![file]).unwrap()).unwrap();
    let drawing = ".svg";
    let count = |part: &str| {
        export.files.iter().filter(|f| f.name.contains(part) && f.name.ends_with(drawing)).count()
    };
    assert!(
        count("-over-time-") == 30 && count("-latency-") >= 30,
        "{} {}",
        count("-over-time-"),
        count("-latency-")
    );
    assert_eq!((count("-dies"), count("-readings")), (1, 1), "a picture that all cells share, and a curve");
}

/// For a paper: each chart as SVG and as PDF, each figure's numbers as CSV.
#[test]
fn figures_are_exported_for_papers() {
    let report = Report::new(vec![sample::bars()]).expect("its figures are right");
    let export = report::export::figures(&report).expect("they can be drawn");
    let ending = |ending: &str| export.files.iter().filter(|file| file.name.ends_with(ending)).count();
    assert!(ending(".svg") > 0 && ending(".csv") > 0);
    let of = |stem: &str, ending: &str| {
        let file =
            export.files.iter().find(|file| file.name.starts_with(stem) && file.name.ends_with(ending));
        String::from_utf8(file.expect("it is exported").bytes.clone()).expect("it is text")
    };
    assert!(of("sample-bars-latency-", ".svg").contains(">latency, log scale</text>"));
    assert!(
        of("sample-bars-latency", ".csv")
            .starts_with("chart,series,latency (ns),part of the operations (%)\n")
    );
    if let Some(why) = &export.without_pdf {
        assert!((why.contains("no font") || why.contains("--features pdf")) && ending(".pdf") == 0, "{why}");
        eprintln!("no PDF was looked at: {why}");
        return;
    }
    assert_eq!(ending(".pdf"), ending(".svg"));
    for file in export.files.iter().filter(|file| file.name.rsplit('.').next() == Some("pdf")) {
        assert!(file.bytes.starts_with(b"%PDF-"), "{}", file.name);
        let has = |word: &[u8]| file.bytes.windows(word.len()).any(|window| window == word);
        assert!(has(b"/FontFile"), "{}: its fonts are not embedded", file.name);
    }
}
