//! The model beside published measurements: what is computed from rows, and which rows are left out.

use lab::medium::{Access, Loop, Pattern, WINDOW};
use lab::validation::controls::{NullModel, alone, controls, least_squares};
use lab::validation::judge::{percentile, ranks, summaries, summary};
use lab::validation::limits::limits;
use lab::validation::memory::Unloaded;
use lab::validation::{Rows, Settings, Task, judge, measure};
use lab::{MachinePreset, Plan, Silent};
use media::Medium;
use results::validation::{Better, Compared, LeftOut, Limit, Row, State};
use sim::Bytes;

/// A row that counts, of a rate.
fn row(id: &str, published: f64, measured: f64) -> Row {
    let mut row = Row {
        id: id.to_owned(),
        class: "data".to_owned(),
        group: id.to_owned(),
        unit: "MiB/s".to_owned(),
        threads: 1,
        better: Better::High,
        compared: Compared::Yes,
        published,
        ..Row::default()
    };
    row.measure(measured);
    row
}

/// A row of a design in a group.
fn of(group: &str, design: &str, published: f64, measured: f64) -> Row {
    let design_of = Some(design.to_owned());
    Row {
        group: group.to_owned(),
        design: design_of,
        ..row(&format!("{group}.{design}"), published, measured)
    }
}

fn close(found: Option<f64>, wanted: f64) {
    assert!(found.is_some_and(|found| (found - wanted).abs() < 1e-9), "{found:?} for {wanted}");
}

fn limit<'l>(limits: &'l [Limit], number: u32, scope: &str) -> &'l Limit {
    limits.iter().find(|limit| limit.number == number && limit.scope == scope).unwrap()
}

#[test]
fn errors_are_what_one_computes_by_hand() {
    // A rate that is doubled, a time that is halved (faster, too), a rate that is right, one at three quarters.
    let mut time = row("t", 10.0, 5.0);
    time.better = Better::Low;
    time.measure(5.0);
    let rows = [row("a", 100.0, 200.0), time, row("b", 100.0, 100.0), row("c", 100.0, 75.0)];
    let all = summary("all", "all", &rows.iter().collect::<Vec<_>>());
    assert_eq!((all.rows, all.compared), (4, 4));
    close(all.bias, sim::math::powf(2.0 * 2.0 * 1.0 * 0.75, 0.25));
    close(all.median_error, f64::midpoint(0.25, 0.5)); // of 0, 0.25, 0.5, 1
    close(all.median_factor, f64::midpoint(4.0 / 3.0, 2.0)); // of 1, 4/3, 2, 2
    close(all.p90_factor, 2.0);
    close(all.within_20, 0.25);
}

#[test]
fn a_percentile_is_the_least_value_that_the_part_does_not_exceed() {
    let ten: Vec<f64> = (1..=10).map(f64::from).collect();
    assert_eq!(percentile(&ten, 0.9), Some(9.0));
    assert_eq!(percentile(&ten[..9], 0.9), Some(9.0));
    assert_eq!(percentile(&[], 0.9), None);
}

#[test]
fn rows_that_do_not_count_are_in_no_error() {
    let mut band = row("band", 1.0, 9.0);
    band.compared = Compared::Band;
    let mut without = row("without", 1.0, 1.0);
    (without.measured, without.speed, without.error, without.factor) = (None, None, None, None);
    let rows = [row("a", 1.0, 1.1), band, without];
    let all = summaries(&rows);
    assert_eq!((all[0].rows, all[0].compared), (3, 1));
    close(all[0].bias, 1.1);
    let of_band = all.iter().find(|one| one.by == "band").unwrap();
    assert_eq!((&*of_band.name, of_band.compared), ("data", 1));
    close(of_band.bias, 9.0);
}

/// The canary: of two designs in the wrong order the check must say so.
#[test]
fn a_planted_inversion_is_found_and_named() {
    let rows = [of("g", "fast", 200.0, 90.0), of("g", "slow", 100.0, 110.0)];
    let all = &ranks(&rows)[0];
    assert_eq!((all.concordant, all.inverted, all.tied), (0, 1, 0));
    let pair = &all.inversions[0];
    assert_eq!((&*pair.better, &*pair.worse, pair.matching), ("g.fast", "g.slow", true));
    close(all.tau, -1.0);
    let limits = limits(&rows);
    let five = limit(&limits, 5, "all");
    assert_eq!((five.state, &five.missed[..]), (State::Miss, &["g.fast < g.slow".to_owned()][..]));
}

#[test]
fn designs_are_ordered_by_speed_and_near_ones_not_at_all() {
    let times = |design: &str, published: f64, measured: f64| {
        let mut row = of("t", design, published, measured);
        row.better = Better::Low;
        row
    };
    let rows = [
        of("g", "fast", 200.0, 300.0), // as published
        of("g", "slow", 100.0, 100.0),
        times("fast", 1.0, 10.0), // within 2 % of each other
        times("slow", 2.0, 10.1),
        of("n", "one", 100.0, 10.0), // published within 25 %: says nothing
        of("n", "other", 120.0, 5.0),
        of("s", "only", 100.0, 1.0), // alone in its group
    ];
    let all = &ranks(&rows)[0];
    assert_eq!((all.concordant, all.inverted, all.tied), (1, 0, 1));
    close(all.tau, 0.5);
}

#[test]
fn a_limit_passes_or_misses_and_is_not_computed_of_nothing() {
    let right: Vec<Row> = (0..5).map(|n| row(&format!("r{n}"), 100.0, 105.0)).collect();
    let found = limits(&right);
    for number in [1, 2, 3, 4] {
        assert_eq!(limit(&found, number, "all").state, State::Pass, "{number}");
    }
    for number in [5, 6, 7, 8, 9, 10, 11, 12, 14] {
        assert_eq!(limit(&found, number, "all").state, State::NotComputed, "{number}");
    }
    let wrong: Vec<Row> = right.iter().map(|row| self::row(&row.id, 100.0, 200.0)).collect();
    let found = limits(&wrong);
    for number in [1, 2, 3, 4] {
        assert_eq!(limit(&found, number, "all").state, State::Miss, "{number}");
    }
    assert_eq!(limit(&found, 3, "all").missed, ["data"]);
    // Four rows are no class.
    assert_eq!(limit(&limits(&wrong[..4]), 3, "all").state, State::NotComputed);
}

#[test]
fn rows_by_which_constants_were_chosen_cannot_make_a_limit_hold() {
    let mut rows = vec![row("wrong", 100.0, 200.0)];
    for number in 0..20 {
        let fitted_by = vec!["optane.100".to_owned()];
        rows.push(Row { fitted_by, ..row(&format!("fitted{number}"), 100.0, 100.0) });
    }
    let found = limits(&rows);
    assert_eq!(limit(&found, 1, "all").state, State::Pass);
    assert_eq!(limit(&found, 1, "unfitted").state, State::Miss);
}

#[test]
fn each_point_of_a_curve_must_lie_within_the_published_range() {
    let point = |threads: u64, published: f64, measured: f64, uncertainty: &str| Row {
        group: "opt.thr.optane.100.nt".to_owned(),
        threads,
        uncertainty: uncertainty.to_owned(),
        ..row(&format!("opt.thr.{threads}"), published, measured)
    };
    // The second is within 15 % of the range that the spread of its runs makes, the third outside, and the curve does not decline.
    let rows = [
        point(1, 2.0, 2.2, "one run"),
        point(8, 2.0, 2.7, "7 runs, spread 40 %"),
        point(24, 1.0, 2.7, "one run"),
    ];
    let found = limits(&rows);
    let seven = limit(&found, 7, "all");
    assert_eq!(seven.state, State::Miss);
    assert_eq!(seven.missed, ["opt.thr.24", "opt.thr.optane.100.nt: 24 threads by the peak"]);
    assert!(seven.found.contains("24 threads by the peak 1.00 (published 0.50)"), "{}", seven.found);
}

#[test]
fn a_line_through_points_has_their_fixed_cost_and_slope() {
    let (fixed, slope) = least_squares(&[(1.0, 130.0), (2.0, 160.0), (4.0, 220.0)]).unwrap();
    assert!((fixed - 100.0).abs() < 1e-9 && (slope - 30.0).abs() < 1e-9, "{fixed} {slope}");
    assert_eq!(least_squares(&[(1.0, 1.0), (2.0, 2.0)]), None);
    assert_eq!(least_squares(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
}

#[test]
fn the_null_model_does_not_know_the_row_that_it_predicts() {
    let known = |size: &str, published: f64, before: f64| Row {
        before: Some(before),
        what: "write".to_owned(),
        calibration: true,
        ..of(&format!("w.write.{size}"), "nova", published, published)
    };
    // Factors 2, 8 and 4: geometric means 4 without a row of 4, and √(2 × 4) without that of 8.
    let rows = [known("4k", 20.0, 10.0), known("8k", 80.0, 10.0), known("16k", 40.0, 10.0)];
    let null = NullModel::fit(&rows);
    close(null.predict(&rows[2]), 40.0);
    close(null.predict(&rows[1]), 10.0 * 8.0_f64.sqrt());
    // Another row of the design has the factor of all three; another design that of the operation; another operation none.
    let held = Row { calibration: false, ..known("32k", 1.0, 10.0) };
    close(null.predict(&held), 40.0);
    close(null.predict(&Row { design: Some("pmfs".to_owned()), ..held.clone() }), 40.0);
    assert_eq!(null.predict(&Row { what: "read".to_owned(), ..held }), None);
    // Our rows are exact, so ours is the smaller error by far.
    let all = controls(&rows, &rows);
    assert_eq!((all[1].name.as_str(), all[1].state), ("N2", State::Pass), "{}", all[1].found);
}

#[test]
fn what_cannot_be_computed_before_there_are_constants_says_so() {
    let all = controls(&[row("a", 1.0, 1.0)], &[]);
    for name in ["N1", "N2", "N3", "N6"] {
        let one = all.iter().find(|control| control.name == name).unwrap();
        assert_eq!(one.state, State::NotComputed, "{name}: {}", one.found);
        assert!(!one.found.is_empty());
    }
    // Constants of a design's own are there, whatever was measured.
    let five = all.iter().find(|control| control.name == "N5").unwrap();
    assert!(
        five.state == State::Pass && five.lines.iter().any(|line| line.starts_with("nova.append: ")),
        "{five:?}"
    );
}

#[test]
fn a_change_alone_is_told_by_class_and_must_not_harm_another() {
    let of_class = |class: &str, measured: f64| {
        let rows =
            (0..3).map(|n| Row { class: class.to_owned(), ..row(&format!("{class}{n}"), 100.0, measured) });
        rows.collect::<Vec<_>>()
    };
    let file = |data: f64, app: f64| judge([of_class("data", data), of_class("app", app)].concat(), &[]);
    assert_eq!(alone(&file(200.0, 110.0), &file(120.0, 112.0)).state, State::Pass);
    let harmed = alone(&file(200.0, 110.0), &file(120.0, 130.0));
    assert_eq!(harmed.state, State::Miss);
    assert!(harmed.lines.iter().any(|line| line.starts_with("app") && line.ends_with("worse")), "{harmed:?}");
}

// ---- files of rows ----

const GOOD: &str = "id = \"a\"\nclass = \"media\"\npublished = 169.4\nunit = \"ns\"\nbetter = \"low\"\ncompare = \"yes\"\n\
                    command = \"lattester optane.100 seq read 64 1 0\"\n";

fn rows_of(text: &str) -> Rows {
    let mut rows = Rows::default();
    rows.add("rows.toml", text).unwrap();
    rows
}

#[test]
fn what_is_wrong_with_a_row_leaves_it_out_with_the_reason() {
    let with =
        |from: &str, to: &str| rows_of(&format!("[[row]]\n{}", GOOD.replace(from, to))).rows[0].clone();
    assert_eq!(with("", "").left_out, None);
    let cases = [
        ("169.4", "0", "published", "the published value is 0"),
        ("169.4", "-3.0", "published", "needs one above 0"),
        ("169.4", "\"fast\"", "row", "rows.toml:4:"),
        ("better = \"low\"\n", "", "row", "needs \"better\""),
        ("\"low\"", "\"lower\"", "row", "did you mean \"low\"?"),
        ("\"yes\"", "\"maybe\"", "row", "none of yes, band"),
        ("\"yes\"", "\"band wide\"", "row", "a band has a width"),
    ];
    for (from, to, kind, why) in cases {
        let LeftOut { kind: found, why: told, .. } = with(from, to).left_out.expect(to);
        assert!(found == kind && told.contains(why), "{to}: {found}: {told}");
    }
}

#[test]
fn a_row_without_an_id_and_text_that_is_no_toml_are_errors_with_their_places() {
    let error = |text: &str| Rows::default().add("rows.toml", text).unwrap_err().to_string();
    assert_eq!(error("[[row]]\nclass = \"a\"\n"), "rows.toml:1:1: [row] needs \"id\": a name of its own");
    assert!(error("[[row\n").starts_with("rows.toml:1:"));
}

#[test]
fn two_rows_of_one_id_are_told_and_unknown_keys_ignored() {
    let rows = rows_of(&format!("[[row]]\n{GOOD}colour = 1\n[[row]]\n{GOOD}"));
    assert_eq!(rows.rows[0].left_out, None);
    assert!(rows.rows[1].left_out.as_ref().unwrap().why.contains("second row of this id"));
    assert!(rows.notes[0].contains("colour"), "{:?}", rows.notes);
    assert!(rows_of("name = \"m\"\n[shape]\ncores = 3\n").notes[0].contains("no rows"));
}

#[test]
fn what_a_model_gave_before_is_read_with_its_commit() {
    let rows = rows_of(&format!(
        "[before]\ncommit = \"abc\"\n[[row]]\n{GOOD}before = 2.5\n[[row]]\n{}weir_0123 = 7\n",
        GOOD.replace("\"a\"", "\"b\"")
    ));
    let before = |at: usize| (rows.rows[at].before, rows.rows[at].before_commit.as_deref());
    assert_eq!((before(0), before(1)), ((Some(2.5), Some("abc")), (Some(7.0), Some("0123"))));
}

#[test]
fn a_curve_is_a_row_for_each_number_of_threads_that_has_no_error_and_counts_nowhere() {
    let curve = "[[curve]]\nid = \"six.nt\"\nunit = \"GiB/s\"\nclass = \"media\"\nthreads = [1, 24]\n\
                 command = \"lattester optane.100x6 seq nt 256 THREADS 1\"\n";
    let mut rows = rows_of(curve).rows;
    assert_eq!(rows[1].id, "six.nt.24");
    assert_eq!(rows[1].command, "lattester optane.100x6 seq nt 256 24 1");
    for row in &mut rows {
        row.measure(2.0);
    }
    assert!(
        rows.iter().all(|row| row.left_out.is_none() && row.error.is_none() && row.measured == Some(2.0))
    );
    let found = lab::validation::judge(rows, &[]);
    assert!(found.summaries.iter().all(|one| one.compared == 0));
    let wrong = Rows::default().add("here.toml", &curve.replace("THREADS", "4").replace("threads", "thread"));
    assert!(wrong.unwrap_err().to_string().contains("threads"));
}

#[test]
fn every_row_that_comes_with_weir_can_be_read() {
    let rows = Rows::calibration().unwrap();
    let (predicted, published): (Vec<_>, Vec<_>) =
        rows.rows.iter().partition(|row| row.compared == Compared::Predicted);
    assert_eq!((published.len(), predicted.len()), (674, 24));
    let wrong: Vec<_> = rows.rows.iter().filter(|row| row.left_out.is_some()).map(|row| &row.id).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert!(rows.rows.iter().all(|row| row.calibration));
    let yes = rows.rows.iter().filter(|row| row.compared == Compared::Yes).count();
    assert_eq!(yes, 293);
}

// ---- measuring ----

fn a_loop(medium: &str, pattern: Pattern, access: &str, size: u64, threads: u64) -> Loop {
    let (medium, access) = (Medium::parse(medium).unwrap(), access.parse::<Access>().unwrap());
    Loop {
        medium,
        pattern,
        access,
        size: Bytes(size),
        threads,
        fence: true,
        machine: None,
        window: WINDOW,
        seed: 1,
    }
}

#[test]
fn a_loop_shows_the_latency_and_the_bandwidth_that_the_medium_has() {
    let of = |work: Loop| work.run().unwrap();
    // The published idle latencies of Optane, on which its preset rests.
    for (pattern, access, ns) in [(Pattern::Sequential, "read", 169.0), (Pattern::Random, "read", 305.0)] {
        let found = of(a_loop("optane.100", pattern, access, 64, 1)).access_ns.unwrap();
        assert!((found / ns - 1.0).abs() < 0.01, "{access}: {found}");
    }
    // Beyond the streams that do no harm twice as many threads have less by the power of the preset.
    let stores = |threads| {
        of(Loop { fence: false, ..a_loop("optane.100", Pattern::Sequential, "nt", 256, threads) }).bytes_per_s
    };
    let (eight, sixteen) = (stores(8), stores(16));
    assert!((sixteen / eight / sim::math::powf(0.5, 0.54) - 1.0).abs() < 0.02, "{eight} {sixteen}");
    // A run repeats.
    let mix = || of(a_loop("optane.100", Pattern::Random, "mix11", 256, 4));
    assert_eq!(mix(), mix());
}

#[test]
fn a_loop_that_measures_nothing_is_refused() {
    let with = |change: fn(&mut Loop)| {
        let mut work = a_loop("optane.100", Pattern::Sequential, "read", 64, 1);
        change(&mut work);
        work.run().unwrap_err().to_string()
    };
    assert!(with(|work| work.size = Bytes(0)).contains("an access has 1 B"));
    assert!(with(|work| work.size = Bytes(1 << 30)).contains("an access has 1 B"));
    assert!(with(|work| work.threads = 0).contains("1 to 1024 threads"));
    assert!(with(|work| work.window = sim::Nanos::ZERO).contains("measures nothing"));
    // Nothing passes where neither the medium nor the processor costs anything.
    let free = a_loop("dram", Pattern::Sequential, "read", 64, 1);
    assert!(free.run().unwrap_err().to_string().contains("accesses take no time"));
}

/// A plan of one call, as `weir bench creat.f` has it.
fn creat(medium: &str) -> Task {
    let text = format!(
        "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"100 ops\"\nmachine = \"rcache-server,kernel=6.3\"\n[[axis]]\nfs = [\"nova\"]\n\
         [[axis]]\nmedium = [\"{medium}\"]\n[[workload]]\nname = \"validation/creat.f\"\n"
    );
    Task::Cell(Box::new(Plan::parse("t.toml", &text, false).unwrap()))
}

#[test]
fn rows_are_measured_or_left_out_each_for_its_reason() {
    let named = |id: &str, unit: &str| {
        let mut row = row(id, 1.0, 1.0);
        (row.measured, row.unit, row.better) = (None, unit.to_owned(), Better::Low);
        row
    };
    let read = || {
        Ok(Task::Loop {
            work: Box::new(a_loop("optane.100", Pattern::Sequential, "read", 64, 1)),
            plus_ns: 100.0,
        })
    };
    let work = vec![
        (named("latency", "ns"), read()),
        (named("total", "ns total"), read()),
        (named("unit", "furlongs"), read()),
        (named("call", "us"), Ok(creat("optane.100"))),
        (named("preset", "us"), Ok(creat("optane.101"))),
        (named("command", "us"), Err(LeftOut::new("command", "no such command"))),
        (Row { left_out: Some(LeftOut::new("published", "zero")), ..named("zero", "ns") }, read()),
    ];
    let rows = measure(work, &Settings::default(), &Silent).unwrap();
    let kind = |id: &str| {
        let row = rows.iter().find(|row| row.id == id).unwrap();
        (row.measured.is_some(), row.left_out.as_ref().map(|why| why.kind.as_str()))
    };
    for id in ["latency", "total", "call"] {
        assert_eq!(kind(id), (true, None), "{id}");
    }
    for (id, why) in [("unit", "unit"), ("preset", "preset"), ("command", "command"), ("zero", "published")] {
        assert_eq!(kind(id), (false, Some(why)), "{id}");
    }
    let plus = rows[1].measured.unwrap() - rows[0].measured.unwrap();
    assert!((plus - 100.0).abs() < 1e-6, "{plus}");
    let counted: u64 = judge(rows, &[]).left_out.iter().filter_map(|kind| kind.rows).sum();
    assert_eq!(counted, 4);
}

#[test]
fn the_machine_of_a_row_is_found_by_its_short_name() {
    let yang = MachinePreset::load("validation/yang.toml").unwrap();
    assert_eq!((yang.machine.name.as_str(), yang.machine.cores()), ("yang", 24));
    assert!(MachinePreset::load("validation/none.toml").is_err());
}

#[test]
fn memory_under_load_stands_beside_what_knows_nothing_of_load_and_must_be_twice_as_near() {
    let of_curve = |id: &str, command: &str, published: f64, measured: f64| Row {
        unit: "ns".to_owned(),
        group: "m.rd100".to_owned(),
        command: format!("weir sim medium dram {command}"),
        better: Better::Low,
        ..row(id, published, measured)
    };
    let rows = |at_half: f64| {
        vec![
            of_curve("m.idle", "--chase 1GiB", 100.0, 100.0),
            of_curve("m.max", "--max --reads 100", 64.0, 64.0),
            of_curve("m.bw", "--loaded --traffic 32GB/s --reads 100", 150.0, at_half),
        ]
    };
    let all = rows(150.0);
    // Half busy: half a service of 64 B on 8 GB/s is waited for as often as that.
    assert_eq!(Unloaded::of(&all).predict(&all[2]), Some((100.0, 104.0)));
    assert_eq!(Unloaded::of(&all).predict(&all[0]), None);
    let control = |rows| judge(rows, &[]).controls.into_iter().find(|one| one.name == "N7").unwrap();
    let right = control(all);
    assert!(right.state == State::Pass && right.found.contains("an idle latency 33.3 %"), "{right:?}");
    assert_eq!(
        control(rows(120.0)).state,
        State::Miss,
        "a model that is 20 % off beside a queue that is 31 % off"
    );
    assert_eq!(control(vec![row("a", 1.0, 1.0)]).state, State::NotComputed);
}
