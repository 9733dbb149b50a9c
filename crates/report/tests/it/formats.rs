//! What every format promises: complete, parseable, the same bytes for the same results.

use crate::sample;
use report::{FORMATS, Figure, Report, by_name};
use results::{FailureKind, OperationRecord, ResultFile, Sample, SampleFailure, SeriesRecord};
use std::collections::{BTreeMap, BTreeSet};

fn all() -> Report {
    let mut results = vec![sample::bars()];
    results.extend(sample::lines());
    Report::new(results).expect("the sample's figures are right")
}

fn render(format: &str, report: &Report) -> String {
    by_name(format).expect("the format exists").render(report).expect("it renders")
}

fn one(file: ResultFile) -> Report {
    Report::new(vec![file]).expect("its figures are right")
}

/// Results with unusual values.
fn awkward() -> Vec<(&'static str, ResultFile)> {
    let no_samples = sample::empty("nothing", "What if nothing ran?");
    let mut partial = sample::bars();
    partial.partial = true;
    partial.samples.truncate(7);
    let mut zeros = sample::empty("zeros", "");
    zeros.plan = serde_json::Value::Null;
    zeros.samples = vec![Sample::new(BTreeMap::new(), 0, 1), Sample::new(BTreeMap::new(), 1, 2)];
    let mut hostile = sample::bars();
    hostile.name = "</title><script>alert(1)</script>|\n".into();
    vec![("no samples", no_samples), ("partial", partial), ("zeros", zeros), ("hostile", hostile)]
}

#[test]
fn the_same_results_give_the_same_bytes() {
    for format in writable() {
        let [first, second] = [all(), all()].map(|report| format.render(&report).expect("it renders"));
        assert!(first == second, "{}", format.name());
    }
}

/// The formats that this build can write, and that take any result: fio's is for results of job files, Prometheus' for mounts.
fn writable() -> impl Iterator<Item = &'static dyn report::Format> {
    let some = ["fio-json", "prometheus"];
    FORMATS
        .iter()
        .copied()
        .filter(move |format| format.left_out().is_none() && !some.contains(&format.name()))
}

/// A build without Parquet knows the format and says how to get it.
#[test]
#[cfg(not(feature = "parquet"))]
fn a_format_that_was_left_out_says_how_to_get_it() {
    let told = by_name("parquet").unwrap().bytes(&all()).unwrap_err().to_string();
    assert!(told.contains("without Parquet") && told.contains("--features parquet"), "{told}");
}

/// Parquet has the rows and columns of the CSV; numbers are numbers.
#[test]
#[cfg(feature = "parquet")]
fn parquet_holds_what_the_csv_holds() {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let report = all();
    let bytes = by_name("parquet").unwrap().bytes(&report).unwrap();
    let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("it is Parquet");
    let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
    let text = render("csv", &report);
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let heads = csv.headers().unwrap().clone();
    let mut compared = 0;
    for (line, row) in csv.records().zip(&rows) {
        for ((head, cell), (name, field)) in heads.iter().zip(line.unwrap().iter()).zip(row.get_column_iter())
        {
            assert_eq!(head, name);
            let same = match field {
                Field::Null => cell.is_empty(),
                Field::Str(text) => text == cell,
                Field::ULong(number) => number.to_string() == cell,
                Field::Double(number) => number.to_string() == cell,
                Field::Bool(flag) => flag.to_string() == cell,
                other => panic!("{head}: {other:?}"),
            };
            assert!(same, "{head}: {field:?} and {cell:?}");
            compared += 1;
        }
    }
    assert!(compared > 500 && rows.len() == text.lines().count() - 1, "{compared} cells");
}

#[test]
fn formats_have_names_of_their_own() {
    let names: BTreeSet<_> = FORMATS.iter().map(|format| format.name()).collect();
    assert_eq!(names.len(), FORMATS.len());
    assert!(FORMATS.iter().all(|format| !format.summary().is_empty() && !format.extension().is_empty()));
}

#[test]
fn no_format_prints_a_number_that_is_none() {
    for (what, file) in awkward() {
        for format in writable() {
            let text = format.render(&one(file.clone())).expect("it renders");
            let words = text.split(|c: char| !c.is_alphanumeric());
            let bad: Vec<_> = words.filter(|word| ["NaN", "inf", "Infinity"].contains(word)).collect();
            assert_eq!(bad, [""; 0], "{what} as {}", format.name());
            assert!(!text.contains("not a number"), "{what} as {}", format.name());
        }
    }
}

#[test]
fn an_empty_result_says_so_in_words() {
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(sample::empty("nothing", "")));
        assert!(text.contains("Nothing was measured"), "{format}");
    }
}

#[test]
fn a_partial_result_says_so_in_words() {
    let mut partial = sample::bars();
    partial.partial = true;
    partial.samples[0].partial = true;
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(partial.clone()));
        assert!(text.contains("results are partial") && text.contains("1 of 120 samples were cut short"));
    }
}

#[test]
fn json_is_the_result_itself_and_comes_back_equal() {
    let text = render("json", &one(sample::bars()));
    assert_eq!(serde_json::from_str::<ResultFile>(&text).expect("JSON"), sample::bars());
    let several: serde_json::Value = serde_json::from_str(&render("json", &all())).expect("JSON");
    assert_eq!(several["results"].as_array().map(Vec::len), Some(4));
}

#[test]
fn claims_that_were_missed_or_not_measured_are_shown() {
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(sample::bars()));
        for word in [
            "missed",
            "not measured",
            "fitted",
            "by construction",
            "needs ext4, which is not built",
            "2.41 to 3.27",
        ] {
            assert!(text.contains(word), "{format}: {word}");
        }
    }
}

#[test]
fn the_page_needs_nothing_from_outside_and_no_script() {
    let page = render("html", &all());
    for foreign in ["http:", "https:", "//", "<script", "@import", "<link rel=\"stylesheet\"", "<img"] {
        let comments_apart = page.replace("/*", "").replace("*/", "");
        assert!(!comments_apart.contains(foreign), "{foreign}");
    }
}

#[test]
fn text_from_results_cannot_break_out_of_the_page() {
    for (_, file) in awkward() {
        assert!(!render("html", &one(file)).contains("<script"));
    }
}

#[test]
fn every_chart_has_a_name_and_every_figure_its_table() {
    let page = render("html", &all());
    let figures: Vec<&str> = page.split("<figure>").skip(1).collect();
    assert!(figures.len() > 10);
    for figure in figures {
        let figure = figure.split("</figure>").next().expect("it ends");
        assert!(figure.contains("<tbody>") && figure.contains("class=\"legend\""));
        for chart in figure.split("role=\"img\" aria-label=\"").skip(1) {
            assert!(chart.split('"').next().is_some_and(|name| name.len() > 30));
        }
    }
}

#[test]
fn a_figure_that_cannot_be_drawn_says_why_and_the_page_goes_on() {
    let page = render("html", &one(sample::bars()));
    assert!(page.contains("could not be drawn: there is no axis &#34;colour&#34;"));
    assert!(page.contains("Run it again"));
}

#[test]
fn every_colour_is_defined_in_light_and_in_dark() {
    let style = include_str!("../../templates/style.css");
    let dark = style.split("prefers-color-scheme: dark").nth(1).expect("a dark theme");
    let dark = &dark[..dark.find("\n}\n").expect("it ends")];
    let light = &style[..style.find("@media").expect("the light theme comes first")];
    let used: BTreeSet<&str> =
        style.split("var(").skip(1).map(|rest| &rest[..rest.find(')').expect("it closes")]).collect();
    assert!(used.len() > 20);
    for name in used.into_iter().filter(|name| *name != "--c") {
        assert!(light.contains(&format!("{name}:")), "{name} in light");
        assert!(dark.contains(&format!("{name}:")), "{name} in dark");
    }
}

#[test]
fn every_class_of_the_charts_has_a_style() {
    let style = include_str!("../../templates/style.css");
    let page = render("html", &all());
    let charts =
        page.split("<svg class=\"chart").skip(1).map(|rest| rest.split("</svg>").next().unwrap_or(""));
    let classes: BTreeSet<String> = charts
        .flat_map(|chart| chart.split("class=\"").skip(1))
        .flat_map(|rest| rest.split('"').next().unwrap_or("").split(' ').map(str::to_owned))
        .collect();
    assert!(classes.len() > 15);
    // `d0` and `h0` are the solid line and the plain area: nothing to add.
    for class in classes.iter().filter(|class| !["d0", "h0"].contains(&class.as_str())) {
        assert!(style.contains(&format!(".{class} ")), "{class}");
    }
}

/// What is drawn is what is in the table: every point of every figure appears in it.
#[test]
fn every_point_of_a_figure_is_in_its_table() {
    for section in all().sections {
        for spec in &section.figures {
            let Ok(figure) = Figure::build(spec, &section.results) else { continue };
            let cells: BTreeSet<String> = figure.table().rows.into_iter().flatten().collect();
            assert!(figure.points().count() > 0);
            assert!(figure.points().all(|point| cells.contains(&figure.human(&point.y))), "{}", figure.title);
        }
    }
}

#[test]
fn the_first_paragraph_names_winners_only_where_there_is_a_difference() {
    let sentences = report::answer::sentences(&sample::bars()).join(" ");
    let wins = "On fileserver, hinfs is fastest: 2.70x pmfs (95 % interval 2.70 to 2.70, seed by seed)";
    assert!(sentences.contains(wins), "{sentences}");
    let tie = "On webserver, no difference of 2 % or more between hinfs and pmfs is detectable: 1.01x (95 % interval ";
    assert!(sentences.contains(tie), "{sentences}");
    assert!(sentences.contains("hold with 95 % for all 4 comparisons together (Holm)"), "{sentences}");
    assert!(
        sentences
            .contains("2 of 5 published claims hold (1 of 3 printed numbers, 1 of 2 statements of order)"),
        "{sentences}"
    );
    let scaling = report::answer::sentences(&sample::lines()[0]).join(" ");
    assert!(scaling.contains("hinfs is fastest at all 6 points: 2.70x to 5.62x pmfs"), "{scaling}");
}

/// A design that is still filling its buffer is slower at first: a longer run reverses the order.
#[test]
fn a_rate_that_is_not_steady_names_no_winner_and_says_how_long_to_run() {
    let mut file = sample::bars();
    for sample in file.samples.iter_mut().filter(|sample| sample.axis("fs") == Some("hinfs")) {
        let ops = (0..100).map(|part| if part < 55 { 940 } else { 1350 }).collect();
        sample.series = Some(SeriesRecord { step_ns: 200_000, ops });
    }
    let sentences = report::answer::sentences(&file).join(" ");
    let none = "On fileserver, no winner is named, because hinfs is still starting, its later rate ";
    assert!(sentences.contains(none) && !sentences.contains("hinfs is fastest"), "{sentences}");
    assert!(
        sentences.contains("take a run 10 times as long (hinfs had 2.70x the throughput of pmfs)"),
        "{sentences}"
    );
}

#[test]
fn a_workload_without_randomness_has_one_value_and_no_interval() {
    let mut file = sample::bars();
    for sample in &mut file.samples {
        sample.throughput_ops_per_s = if sample.axis("fs") == Some("hinfs") { 2000.0 } else { 1000.0 };
    }
    let sentences = report::answer::sentences(&file).join(" ");
    assert!(sentences.contains("hinfs is fastest: 2.00x pmfs (deterministic: one value)"), "{sentences}");
    assert!(!sentences.contains("interval"), "{sentences}");
}

/// One of six places has a difference that chance makes in one of twenty cases.
#[test]
fn a_difference_that_many_comparisons_find_by_chance_names_no_winner() {
    let mut file = sample::bars();
    let rates = [[100.0, 108.0], [101.0, 112.0], [99.0, 99.5], [100.0, 101.0], [102.0, 103.0], [98.0, 106.0]];
    file.samples.clear();
    let template = sample::bars().samples.remove(0);
    for (place, apart) in [("a", true), ("b", false), ("c", false), ("d", false), ("e", false), ("f", false)]
    {
        for (fs, design) in ["pmfs", "hinfs"].into_iter().enumerate() {
            for (repeat, rate) in rates.iter().enumerate() {
                let mut sample = template.clone();
                sample.axes.insert("fs".to_owned(), design.to_owned());
                sample.axes.insert("workload".to_owned(), place.to_owned());
                (sample.repeat, sample.seed) = (repeat as u32, repeat as u64);
                // Where no difference is, the sides change places from seed to seed.
                let side = if apart { fs } else { (fs + repeat) % 2 };
                sample.throughput_ops_per_s = rate[side];
                file.samples.push(sample);
            }
        }
    }
    let sentences = report::answer::sentences(&file).join(" ");
    assert!(sentences.contains("which chance does in "), "{sentences}");
    assert!(!sentences.contains("fastest"), "{sentences}");
}

#[test]
fn the_first_paragraph_says_when_nothing_is_compared_or_ran_once() {
    let mut file = sample::bars();
    file.samples.retain(|sample| sample.repeat == 0);
    let once = report::answer::sentences(&file).join(" ");
    assert!(once.contains("With one run of each no winner is named") && !once.contains("fastest"), "{once}");
    file.samples.truncate(1);
    assert!(report::answer::sentences(&file).join(" ").contains("Only pmfs was measured"));
}

/// What the host's kernel does with the time of a call is not known.
#[test]
fn what_limits_scaling_is_said_of_designs_and_not_of_a_directory_of_the_host() {
    let mut file = sample::lines().remove(0);
    file.plan = serde_json::Value::Null;
    file.samples.retain(|sample| sample.axis("workload") == Some("filebench/varmail"));
    for sample in &mut file.samples {
        let threads: u64 = sample.axis("threads").and_then(|threads| threads.parse().ok()).expect("a number");
        let times = sample.operations.iter_mut().flat_map(|operation| operation.time_ns.values_mut());
        times.for_each(|ns| *ns *= threads);
        if sample.axis("fs") == Some("hinfs") {
            sample.axes.insert("fs".into(), "host:/tmp".into());
        }
    }
    let page = render("html", &one(file));
    let said = page.split("What limits scaling, by its share").nth(1).expect("a sentence below the chart");
    let said = said.split('.').next().unwrap_or_default();
    assert!(said.contains("pmfs") && !said.contains("host:/tmp"), "{said}");
}

/// The axes of a cell and the rate of each repeat.
type Rates<'a> = (&'a [(&'a str, &'a str)], &'a [f64]);

/// A result of cells with these rates.
fn rates(cells: &[Rates<'_>]) -> ResultFile {
    let mut file = sample::empty("rates", "");
    file.plan = serde_json::Value::Null;
    for (axes, rates) in cells {
        for (repeat, rate) in rates.iter().enumerate() {
            let axes = axes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let mut sample = Sample::new(axes, repeat as u32, 1);
            sample.finish(*rate as u64, 1_000_000_000);
            file.samples.push(sample);
        }
    }
    file
}

const PMFS: &[(&str, &str)] = &[("fs", "pmfs"), ("medium", "hinfs"), ("threads", "1"), ("workload", "w")];
const NOVA: &[(&str, &str)] = &[("fs", "nova"), ("medium", "hinfs"), ("threads", "1"), ("workload", "w")];
const HOST: &[(&str, &str)] = &[("fs", "host:/tmp"), ("threads", "1"), ("workload", "w")];
const PMFS_8: &[(&str, &str)] = &[("fs", "pmfs"), ("medium", "hinfs"), ("threads", "8"), ("workload", "w")];
const NOVA_8: &[(&str, &str)] = &[("fs", "nova"), ("medium", "hinfs"), ("threads", "8"), ("workload", "w")];

#[test]
fn a_scaling_run_names_what_limits_each_line_on_the_page_and_in_the_text_and_what_a_cache_line_is() {
    let axes =
        |fs, threads| [("fs", fs), ("medium", "dram"), ("threads", threads), ("workload", "fxmark/MRPH")];
    let cells = ["pmfs", "nova"].map(|fs| [axes(fs, "1"), axes(fs, "40")]).concat();
    let mut file = rates(&cells.iter().map(|axes| (&axes[..], &[1_000.0][..])).collect::<Vec<_>>());
    for sample in &mut file.samples {
        let waited = if sample.axis("threads") == Some("40") { 900_000 } else { 0 };
        let mut stat = OperationRecord::new("stat");
        (stat.count, stat.total_ns) = (1_000, 100_000 + waited);
        stat.time_ns.insert("software".to_owned(), stat.total_ns);
        stat.line_wait_ns.insert("vfs.references".to_owned(), waited);
        stat.named_ns.insert("software".to_owned(), waited);
        sample.operations = vec![stat];
    }
    file.lines.insert("vfs.references".to_owned(), "a reference count".to_owned());
    let text = report::explain(std::slice::from_ref(&file), &BTreeMap::new());
    for part in ["line vfs.references 90 %", "--free vfs.references", "cache lines", "(vfs.references 100 %)"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = by_name("html").unwrap().render(&Report::new(vec![file]).unwrap()).unwrap();
    for part in
        ["most threads: pmfs, nova: line vfs.references 90 %.", "a reference count", "Shown at threads 40."]
    {
        assert!(page.contains(part), "{part}");
    }
}

fn answer(cells: &[Rates<'_>]) -> String {
    report::answer::sentences(&rates(cells)).join(" ")
}

#[test]
fn what_is_free_is_compared_at_the_same_number_of_threads_and_a_failed_run_has_no_limit() {
    let axes = |free, threads| {
        [("free", free), ("fs", "pmfs"), ("medium", "dram"), ("threads", threads), ("workload", "w")]
    };
    let cells = [("nothing", "1"), ("nothing", "8"), ("pmfs.inode", "1"), ("pmfs.inode", "8")];
    let cells = cells.map(|(free, threads)| axes(free, threads));
    let each: [&[f64]; 4] = [&[100.0; 2], &[200.0; 2], &[100.0; 2], &[500.0; 2]];
    let mut file = rates(&cells.iter().map(|axes| &axes[..]).zip(each).collect::<Vec<_>>());
    for sample in &mut file.samples {
        let waited = if sample.axis("threads") == Some("8") { 900_000 } else { 0 };
        let mut write = OperationRecord::new("write");
        (write.count, write.total_ns) = (1_000, 100_000 + waited);
        write.time_ns = BTreeMap::from([("software".into(), 100_000), ("lock_wait".into(), waited)]);
        write.lock_wait_ns.insert("pmfs.inode".to_owned(), waited);
        sample.operations = vec![write];
    }
    let told = |file: &ResultFile| report::explain(std::slice::from_ref(file), &BTreeMap::new());
    let failed = |file: &mut ResultFile, at: usize| {
        let failure = SampleFailure { kind: FailureKind::Run, what: "full".into() };
        let axes = file.samples[at].axes.clone();
        file.samples[at] = Sample::failed(axes, file.samples[at].repeat, 1, failure);
    };
    assert!(told(&file).contains("2.50x"), "{}", told(&file));
    failed(&mut file, 2);
    let text = told(&file);
    assert!(text.contains("lock pmfs.inode") && text.contains("2.50x"), "a run is left: {text}");
    failed(&mut file, 6);
    failed(&mut file, 7);
    let text = told(&file);
    assert!(text.contains("lock pmfs.inode") && !text.contains("0.50x"), "{text}");
}

/// A cell that has lost a run says so wherever its number stands.
#[test]
fn a_cell_that_lost_a_run_says_so_in_its_figure_and_in_the_headline() {
    let mut file = rates(&[(PMFS, &[100.0, 101.0]), (NOVA, &[200.0, 202.0])]);
    let lost = file.samples.len() - 1;
    let failure = SampleFailure { kind: FailureKind::Run, what: "full".into() };
    file.samples[lost] = Sample::failed(file.samples[lost].axes.clone(), 1, 1, failure);
    let headline = report::answer::sentences(&file).join(" ");
    assert!(headline.contains("in 1 to 2 runs of each, which names no winner"), "{headline}");
    let page = render("html", &one(file));
    assert!(page.contains("op/s; 1 of 2 runs failed"), "the table of the figure");
}

#[test]
fn a_headline_names_none_of_designs_that_are_exactly_equal() {
    let once = |pmfs: f64, nova: f64| {
        let (one, eight): (&[f64], &[f64]) = (&[pmfs], &[nova]);
        answer(&[(PMFS, one), (NOVA, eight), (PMFS_8, one), (NOVA_8, eight)])
    };
    let equal = once(100.0, 100.0);
    assert!(
        equal.contains("the two highest are equal at both points") && !equal.contains("measured highest")
    );
    assert!(once(100.0, 120.0).contains("nova measured highest at both points"));
    let single = answer(&[(PMFS, &[100.0]), (NOVA, &[100.0])]);
    assert!(single.contains("pmfs and nova had the same throughput in one run of each"), "{single}");
}

#[test]
fn a_headline_of_several_workloads_says_once_that_one_run_of_each_names_no_winner() {
    let of = |fs: &'static str, workload: &'static str| {
        [("fs", fs), ("medium", "hinfs"), ("threads", "1"), ("workload", workload)]
    };
    let (pmfs, nova) = (of("pmfs", "v"), of("nova", "v"));
    let cells: [Rates<'_>; 4] = [(PMFS, &[100.0]), (NOVA, &[150.0]), (&pmfs, &[80.0]), (&nova, &[80.0])];
    let text = answer(&cells);
    assert!(
        text.starts_with("With one run of each no winner is named: take --repeats 6. On w, nova had"),
        "{text}"
    );
    assert!(text.contains("nova had 1.50x the throughput of pmfs. On v,"), "{text}");
    assert!(text.contains("had the same throughput.") && text.matches("one run").count() == 1, "{text}");
    let more = answer(&[cells[0], cells[1], (&pmfs, &[80.0, 81.0]), (&nova, &[80.0, 79.0])]);
    assert!(more.contains("in one run of each, which names no winner"), "{more}");
}

#[test]
fn a_headline_names_no_winner_where_intervals_overlap() {
    let (near, far) = ([100.0, 180.0, 60.0, 140.0, 90.0, 110.0], [101.0, 190.0, 70.0, 150.0, 95.0, 120.0]);
    let text = answer(&[(PMFS, &near), (NOVA, &far), (PMFS_8, &near), (NOVA_8, &far)]);
    assert!(
        text.contains("% or more between the two highest is detectable at both points (95 % intervals"),
        "{text}"
    );
    assert!(!text.contains("fastest"), "{text}");
    let clear = far.map(|rate| rate * 9.0);
    let text = answer(&[(PMFS, &near), (NOVA, &far), (PMFS_8, &near), (NOVA_8, &clear)]);
    assert!(
        text.contains("nova is fastest at 1 of 2 points") && text.contains("detectable at 1 of 2"),
        "{text}"
    );
}

#[test]
fn fewer_than_six_repeats_give_a_range_and_never_a_confidence_interval() {
    let file = rates(&[(PMFS, &[100.0, 101.0, 102.0]), (NOVA, &[200.0, 201.0, 202.0])]);
    let text = report::answer::sentences(&file).join(" ");
    assert!(
        text.contains("range of the runs") && text.contains("with 3 runs of each, chance alone"),
        "{text}"
    );
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(file.clone()));
        assert!(text.contains("range") && !text.contains("95 %"), "{format}");
    }
    let four = rates(&[(PMFS, &[100.0, 101.0, 102.0, 103.0]), (NOVA, &[200.0, 201.0, 202.0, 203.0])]);
    assert!(
        report::answer::sentences(&four).join(" ").contains("nova is fastest: 1.99x pmfs (range of the runs")
    );
}

#[test]
fn designs_their_medium_and_the_host_are_said_apart_and_the_ratio_carries_a_note() {
    let file = rates(&[(PMFS, &[100.0]), (NOVA, &[150.0]), (HOST, &[90.0])]);
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(file.clone())).replace("&#39;", "'");
        let everywhere = text.split("Everywhere: ").nth(1).and_then(|rest| rest.split('.').next());
        assert_eq!(everywhere, Some("threads 1"), "{format}");
        assert!(text.contains("Designs run on medium hinfs."), "{format}");
        let mut by_default = file.clone();
        by_default.plan["medium"] = serde_json::json!({ "name": "hinfs", "machine": "m" });
        let said = render(format, &one(by_default));
        assert!(said.contains("hinfs, the default of machine m (--medium chooses another)."), "{format}");
        assert!(text.contains("host:/tmp is on the host's own storage."), "{format}");
        assert!(text.contains("A ratio between the two compares both at once."), "{format}");
    }
    let alone = render("terminal", &one(rates(&[(PMFS, &[100.0]), (NOVA, &[150.0])])));
    assert!(!alone.contains("compares both at once"), "{alone}");
}

#[test]
fn a_headline_beside_the_host_names_each_medium_and_compares_on_each() {
    let (slow, fast) = ([100.0; 6], [300.0; 6]);
    let dram = [("fs", "pmfs"), ("medium", "dram"), ("threads", "1"), ("workload", "w")];
    let text = answer(&[(PMFS, &slow), (&dram, &fast), (HOST, &[200.0; 6])]);
    assert!(text.contains("On w on medium hinfs, host:/tmp is fastest: 2.00x pmfs"), "{text}");
    assert!(text.contains("On w on medium dram, pmfs is fastest: 1.50x host:/tmp"), "{text}");
}

#[test]
fn a_headline_names_no_winner_where_a_run_was_cut_short_and_the_table_marks_the_cell() {
    let mut file =
        rates(&[(PMFS, &[100.0; 6]), (NOVA, &[900.0; 6]), (PMFS_8, &[100.0; 6]), (NOVA_8, &[900.0; 6])]);
    let cut = file.samples.iter_mut().find(|sample| sample.axis("threads") == Some("8")).expect("a sample");
    cut.partial = true;
    let text = report::answer::sentences(&file).join(" ");
    assert!(text.contains("nova is fastest at 1 of 2 points: 9.00x pmfs"), "{text}");
    assert!(text.contains("at 1 of 2 points a run was cut short, so no winner is named there"), "{text}");
    let tables = report::summary::tables(&file);
    let rows = tables.iter().flat_map(|table| &table.rows);
    let marked = rows.filter(|row| row.iter().any(|text| text == "cut short"));
    assert_eq!(marked.count(), 1, "{tables:?}");
    file.samples.retain(|sample| sample.axis("threads") == Some("8"));
    let page = render("html", &one(file.clone()));
    assert!(page.contains("; cut short"), "the table of the figure");
    let text = report::answer::sentences(&file).join(" ");
    assert!(text.contains("a run was cut short, so no winner is named"), "{text}");
    assert!(!text.contains("9.00x"), "{text}");
}

#[test]
fn a_headline_names_no_winner_where_the_host_was_busy() {
    let mut file =
        rates(&[(PMFS, &[100.0; 6]), (NOVA, &[900.0; 6]), (PMFS_8, &[100.0; 6]), (NOVA_8, &[900.0; 6])]);
    let busy = |file: &mut ResultFile, threads: &str| {
        for sample in file.samples.iter_mut().filter(|sample| sample.axis("threads") == Some(threads)) {
            let noise = vec!["other processes took 50 % of all processor time".to_owned()];
            sample.host = Some(results::HostRecord { noise, ..Default::default() });
        }
    };
    busy(&mut file, "8");
    let text = report::answer::sentences(&file).join(" ");
    assert!(text.contains("nova is fastest at 1 of 2 points: 9.00x pmfs"), "{text}");
    assert!(text.contains("at 1 of 2 points the host was busy, so no winner is named there"), "{text}");
    file.samples.retain(|sample| sample.axis("threads") == Some("8"));
    let text = report::answer::sentences(&file).join(" ");
    assert!(
        text.contains("while the host was busy, which names no winner") && !text.contains("fastest"),
        "{text}"
    );
}

#[test]
fn a_cell_that_failed_is_marked_in_every_format_and_the_others_keep_their_numbers() {
    let mut file = rates(&[(PMFS, &[100.0])]);
    let axes = NOVA.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let failure =
        results::SampleFailure { kind: results::FailureKind::Run, what: "the region is full".into() };
    file.samples.push(Sample::failed(axes, 0, 1, failure));
    for format in writable() {
        let report = one(file.clone());
        let bytes = format.bytes(&report).expect("it renders");
        let text =
            if format.name() == "kept" { unpacked(&bytes) } else { String::from_utf8_lossy(&bytes).into() };
        // Those of other tools have no place for a reason: they leave the cell out, and say so beside.
        let marked = text.contains("the region is full")
            || format.skips(&report).is_some_and(|told| told.contains("1 of 2"));
        // These are of calls, of which the cells here have none.
        let kept = text.contains("pmfs") || format.name() == "folded";
        assert!(marked && kept, "{}", format.name());
    }
    let text = render("terminal", &one(file));
    assert!(text.contains("1 of 2 samples failed") && text.contains("100 op/s"), "{text}");
}

fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes), &mut text).expect("it is gzip");
    text
}

#[test]
fn what_is_kept_in_a_tree_has_every_rate_and_counter_and_no_histogram() {
    let mut file = sample::bars();
    let text = unpacked(&by_name("kept").unwrap().bytes(&one(file.clone())).unwrap());
    let kept: ResultFile = serde_json::from_str(&text).expect("it is a result");
    assert!(file.samples.iter().any(|sample| !sample.operations.is_empty()), "the sample has histograms");
    for sample in &mut file.samples {
        sample.operations.clear();
        sample.steps.clear();
        sample.workers.clear();
        sample.jobs.clear();
        (sample.series, sample.placement) = (None, None);
        sample.spans.clear();
    }
    assert_eq!(kept, file);
}

#[test]
fn a_busy_host_is_said_and_its_cells_are_marked() {
    let mut file = rates(&[(PMFS, &[100.0]), (NOVA, &[150.0])]);
    let noise = vec!["other processes took 40 % of all processor time".to_owned()];
    file.samples[1].host = Some(results::HostRecord { noise, attempts: 2, ..results::HostRecord::default() });
    for format in ["terminal", "markdown", "html"] {
        let text = render(format, &one(file.clone()));
        assert!(
            text.contains("The host was busy during 1 of 1 samples (at worst other processes took 40 %"),
            "{format}"
        );
        assert!(text.contains("1 of them ran again") && text.contains("busy"), "{format}");
    }
}
