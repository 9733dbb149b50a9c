//! Readings against a made-up paper whose answers are known: one claim that no reading can change, one that one reading breaks,
//! one that holds under none; and what is refused.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use lab::cells::Kept;
use lab::claims::Paper;
use lab::plan::Scale;
use lab::presets::PAPERS;
use lab::readings::{Variation, kept_of, run};
use lab::{Plan, Progress, Runner, Settings, Silent};
use results::{ClaimOutcome, Class, Sample};

const PLAN: &str = r#"
[plan]
name = "small"
why = "does it class?"
stop = "10ms"
machine = "hinfs-server"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
threads = [1, 2]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/fileserver"
vars = { nfiles = 60, meandirwidth = 20 }
"#;

/// With a millisecond for each operation of the generator a thread does no more than a thousand operations a second.
const PAPER: &str = r#"
paper = "made up"
spec = "nowhere"
[[figure]]
id = "1"
plan = "small"
[[claim]]
id = "robust"
figure = "1"
says = "hinfs and pmfs differ by less than a factor of a thousand"
value = "hinfs/pmfs"
low = 0.001
high = 1000
measure = { plan = "small", top = { fs = "hinfs" }, bottom = { fs = "pmfs" }, over = { threads = 1 } }
[[claim]]
id = "sensitive"
figure = "1"
says = "pmfs does five thousand operations a second"
value = "pmfs"
low = 5000
high = inf
measure = { plan = "small", top = { fs = "pmfs" }, over = { threads = 1 } }
[[claim]]
id = "missed"
figure = "1"
says = "pmfs does a million million operations a second"
value = "pmfs"
low = 1e12
high = inf
known = "nothing is as fast"
known_on = "2026-11-25"
measure = { plan = "small", top = { fs = "pmfs" }, over = { threads = 1 } }
[[reading]]
name = "generator"
question = "How long does the generator take?"
default = { name = "usual", why = "as the machine says" }
[[reading.alternative]]
name = "slow"
why = "made up"
[[reading.alternative.change]]
machine = "hinfs-server,generator=1ms"
[[reading]]
name = "threads"
question = "How many threads?"
default = { name = "two", why = "made up" }
[[reading.alternative]]
name = "three"
why = "made up"
[[reading.alternative.change]]
axis = [{ threads = [1, 3] }]
[[reading]]
name = "buffer"
question = "How large is the buffer?"
default = { name = "eight", why = "made up" }
[[reading.alternative]]
name = "four"
why = "made up"
[[reading.alternative.change]]
design = ["hinfs"]
fs = { buffer = "4MiB" }
[[pair]]
choices = ["generator=slow", "threads=three"]
why = "made up"
"#;

fn paper(text: &str) -> Result<Paper, String> {
    Paper::parse("paper.toml", "made-up", text).map_err(|problem| problem.to_string())
}

fn plans() -> Vec<Plan> {
    vec![Plan::parse("small.toml", PLAN, false).unwrap()]
}

fn variations(text: &str) -> Result<Vec<Variation>, String> {
    paper(text)?.variations(&plans(), true).map_err(|error| error.to_string())
}

fn class(claims: &[ClaimOutcome], id: &str) -> (Option<Class>, Vec<String>) {
    let claim = claims.iter().find(|claim| claim.id == id).unwrap();
    let default = claim.readings[0].holds;
    let other = claim.readings.iter().filter(|reading| reading.holds != default);
    (claim.class, other.map(results::ReadingOutcome::title).collect())
}

#[test]
fn claims_are_robust_sensitive_or_missed_and_shared_cells_run_once() {
    let variations = variations(PAPER).unwrap();
    let names: Vec<_> = variations.iter().map(|one| format!("{}={}", one.name, one.choice)).collect();
    let pair = "generator+threads=slow+three";
    assert_eq!(names, ["default=default", "generator=slow", "threads=three", "buffer=four", pair]);
    let mut runner = Runner::new(Settings::default(), &Silent);
    let outcome = run::run(&variations, &mut runner).unwrap().unwrap();
    // Five times four cells; the third shares two with the first, the fourth two, the fifth two with the second.
    assert_eq!((outcome.size.asked, outcome.size.cells, outcome.size.known), (20, 14, 0));
    assert_eq!(class(&outcome.claims, "robust"), (Some(Class::Robust), vec![]));
    let slow = vec!["generator=slow".to_owned(), pair.to_owned()];
    assert_eq!(class(&outcome.claims, "sensitive"), (Some(Class::Sensitive), slow));
    assert_eq!(class(&outcome.claims, "missed"), (Some(Class::Missed), vec![]));
    let missed = outcome.claims.iter().find(|claim| claim.id == "missed").unwrap();
    assert_eq!(missed.reason.as_deref(), Some("written 2026-11-25: nothing is as fast"));
}

/// Ends the run after two cells.
#[derive(Default)]
struct Stops {
    interrupt: Arc<AtomicBool>,
    after: usize,
    ran: AtomicUsize,
    titles: Mutex<Vec<String>>,
}

impl Progress for Stops {
    fn finished(&self, title: &str, _: &Sample) {
        self.titles.lock().unwrap().push(title.to_owned());
        if self.ran.fetch_add(1, Relaxed) + 1 == self.after {
            self.interrupt.store(true, Relaxed);
        }
    }
}

#[test]
fn an_interrupted_run_goes_on_with_the_cells_that_are_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cells.jsonl");
    let variations = variations(PAPER).unwrap();
    let attempt = |after: usize| {
        let stops = Stops { after, ..Stops::default() };
        let settings = Settings { jobs: 1, interrupt: Arc::clone(&stops.interrupt), ..Settings::default() };
        let mut runner = Runner::new(settings, &stops);
        runner.keep_in(Kept::open(&path, "this build").unwrap());
        let outcome = run::run(&variations, &mut runner).unwrap();
        (outcome, stops.ran.load(Relaxed))
    };
    let (none, ran) = attempt(5);
    assert!(none.is_none(), "nothing is classed before everything has run");
    assert_eq!(ran, 5);
    let (outcome, ran) = attempt(usize::MAX);
    let outcome = outcome.unwrap();
    assert_eq!((ran, outcome.size.known), (9, 5));
    let (again, ran) = attempt(usize::MAX);
    assert_eq!((ran, again.unwrap().claims), (0, outcome.claims));
}

#[test]
fn what_a_reading_changes_in_every_medium_or_machine_it_changes_for_a_bare_ssd() {
    let paper = Paper::load("fragmentation").unwrap();
    let names = paper.plans(&[]).unwrap();
    let plans: Vec<Plan> = names.iter().map(|name| Scale::Tenth.load(name).unwrap()).collect();
    let under = |name: &str, choice: &str| {
        let variations = paper.variations(&plans, false).unwrap();
        let found = variations.into_iter().find(|one| one.name == name && one.choice == choice).unwrap();
        let plan = found.plans.into_iter().find(|plan| plan.name == "fragmentation-7").unwrap();
        let medium = plan.axis.iter().find(|axis| axis.name == "medium").unwrap();
        (medium.values[0].value.clone(), plan.machine)
    };
    assert_eq!(under("default", "default"), ("fast24".into(), "fast24-server".into()));
    assert_eq!(under("phase", "one").0, "fast24,phase=1");
    assert_eq!(under("policy", "as_described").0, "fast24,append_skips=no,early_release=no");
    assert!(under("host_cost", "fitted").1.starts_with("fast24-server,syscall="));
    assert_eq!(under("appends", "eight"), under("default", "default"));
}

/// The canary: a reading that changes nothing would make every claim look robust.
#[test]
fn a_reading_that_changes_nothing_is_refused() {
    let same = PAPER.replace("axis = [{ threads = [1, 3] }]", "axis = [{ threads = [1, 2] }]");
    let told = variations(&same).unwrap_err();
    assert!(told.contains("reading \"threads\", alternative \"three\" changes nothing"), "{told}");
    let empty = PAPER.replace("design = [\"hinfs\"]\nfs = { buffer = \"4MiB\" }", "");
    assert!(variations(&empty).unwrap_err().contains("changes nothing"), "{empty}");
}

#[test]
fn answers_are_chosen_together_and_one_reading_has_one_answer() {
    let choose = |choices: &[&str]| {
        let choices: Vec<String> = choices.iter().map(|&choice| choice.to_owned()).collect();
        paper(PAPER).unwrap().choose(&plans(), &choices).map_err(|error| error.to_string())
    };
    let all = choose(&["generator=slow", "threads=three", "buffer=four"]).unwrap();
    assert_eq!(all.choice, "slow+three+four");
    let pair = &variations(PAPER).unwrap()[4];
    assert_eq!(choose(&["generator=slow", "threads=three"]).unwrap().plans, pair.plans);
    assert!(choose(&["threads=three", "threads=three"]).unwrap_err().contains("has two answers"));
    assert!(choose(&["threads=tree"]).unwrap_err().contains("did you mean \"three\"?"));
}

#[test]
fn what_is_misspelt_is_told_with_its_place_and_the_nearest_name() {
    let cases = [
        ("machine = \"hinfs-server,gen", "machin = \"hinfs-server,gen", "did you mean \"machine\"?"),
        ("hinfs-server,generator=1ms", "hinfs-server,generater=1ms", "did you mean \"generator\"?"),
        ("hinfs-server,generator=1ms", "hinfs-sever", "did you mean \"hinfs-server\"?"),
        ("fs = { buffer", "fs = { bufer", "bufer"),
        ("design = [\"hinfs\"]", "design = [\"hinf\"]", "did you mean \"hinfs\"?"),
        ("axis = [{ threads", "plan = \"smal\"\naxis = [{ threads", "did you mean \"small\"?"),
        (
            "axis = [{ threads = [1, 3] }]",
            "workload = \"fileserve\"\nstop = \"1ms\"",
            "did you mean \"fileserver\"?",
        ),
        (
            "axis = [{ threads = [1, 3] }]",
            "axis = [{ iosize = [1, 3], sets = \"var.iosize\" }]",
            "no axis \"iosize\"",
        ),
        ("\"generator=slow\"", "\"generator=slo\"", "did you mean \"slow\"?"),
        ("[[pair]]", "[[pairs]]", "did you mean \"pair\"?"),
        (
            "question = \"How many threads?\"\n",
            "",
            "[reading] needs \"question\": what the paper leaves open",
        ),
    ];
    for (right, wrong, advice) in cases {
        assert!(PAPER.contains(right), "{right}");
        let told = variations(&PAPER.replace(right, wrong)).unwrap_err();
        assert!(told.contains(advice), "{wrong}: {told}");
    }
}

#[test]
fn every_reading_of_every_paper_is_argued_and_changes_something_at_each_scale() {
    for preset in PAPERS {
        let paper = Paper::load(preset.name).unwrap();
        for reading in &paper.readings.list {
            assert!(reading.question.ends_with('?'), "{}: {}", preset.name, reading.question);
            let choices = reading.alternatives.iter().map(|one| &one.choice).chain([&reading.default]);
            choices.for_each(|choice| assert!(choice.why.len() > 20, "{}: {choice:?}", preset.name));
        }
        for quick in [true, false] {
            let plans = paper.plans(&[]).unwrap();
            let plans: Vec<_> = plans.iter().map(|name| Plan::load(name, quick).unwrap()).collect();
            let all = match paper.variations(&plans, true) {
                // A machine without dbench has no such file.
                Err(error) if error.to_string().contains("there is no load file") => {
                    println!("skipped: {}: {error}", preset.name);
                    continue;
                }
                all => all.unwrap_or_else(|error| panic!("{}: {error}", preset.name)),
            };
            let alternatives = paper.readings.list.iter().flat_map(|one| &one.alternatives);
            let alternatives = alternatives.filter(|one| !(quick && one.long)).count();
            assert_eq!(all.len(), 1 + alternatives + paper.readings.pairs.len(), "{}", preset.name);
        }
    }
}

#[test]
fn of_one_figure_or_of_some_designs_those_variations_are_left_that_differ_there() {
    let paper = Paper::load("hinfs").unwrap();
    let load = |name: &String| Plan::load(name, true).unwrap();
    let whole: Vec<Plan> = paper.plans(&[]).unwrap().iter().map(load).collect();
    let left = |figures: &[&str], designs: &[&str]| {
        let figures: Vec<String> = figures.iter().map(ToString::to_string).collect();
        let designs: Vec<String> = designs.iter().map(ToString::to_string).collect();
        let all = paper.variations(&whole, true).unwrap();
        let kept = kept_of(all, &paper.plans(&figures).unwrap(), &designs).unwrap();
        assert_eq!(kept[0].choice, "default");
        kept.into_iter().map(|one| format!("{}={}", one.name, one.choice)).collect::<Vec<_>>()
    };
    let all = left(&[], &[]);
    let has = |left: &[String], wanted: &str| left.iter().any(|one| one == wanted);
    assert!(has(&all, "data_set=small_webproxy") && has(&all, "write_back_tasks=one"), "{all:?}");
    let of_fileserver = left(&["9"], &[]);
    assert!(!has(&of_fileserver, "data_set=small_webproxy"), "figure 9 has no webproxy");
    assert!(has(&of_fileserver, "data_set+io_size=small_webproxy+appends"), "{of_fileserver:?}");
    let of_pmfs = left(&[], &["pmfs"]);
    assert!(!has(&of_pmfs, "write_back_tasks=one"), "PMFS has no tasks that write back");
    assert!(has(&of_pmfs, "machine=one_socket"), "{of_pmfs:?}");
}

#[test]
fn a_claim_for_whose_result_a_default_was_chosen_does_not_count() {
    let usual = "default = { name = \"usual\", ";
    let text = PAPER.replace(usual, &format!("{usual}fitted_on = [\"robust\"], "));
    let default = &variations(&text).unwrap()[..1];
    let outcome = run::run(default, &mut Runner::new(Settings::default(), &Silent)).unwrap().unwrap();
    let fitted: Vec<_> = outcome.claims.iter().filter(|claim| claim.fitted).map(|claim| &claim.id).collect();
    assert_eq!(fitted, ["robust"]);
}
