//! The shipped JSON Schemas are what is really written: a file in which everything is present breaks no
//! rule of its schema, and uses every key that the schema knows.
//!
//! [`Checker`] supports the keywords of JSON Schema that these schemas use and panics at any other.

use results::claim::Claim;
use results::validation::{
    Control, Inversion, LeftOut, Limit, Ranks, Row, Summary, VALIDATION_SCHEMA, ValidationFile,
};
use results::{
    ClaimsFile, Clock, CostRecord, Environment, ErrorRecord, EventCounts, EventRecord, EventWindows,
    FailureKind, HostFacts, HostRecord, HypothesisOutcome, InputKind, InputRecord, JobRecord, KernelLock,
    KernelLocks, NeighbourRecord, OperationRecord, PartRecord, PlacementRecord, PricesRecord, ReadingOutcome,
    ResultFile, ResultsFile, Sample, SampleFailure, SeriesRecord, SpanRecord, StepRecord, WorkRecord,
    WorkerRecord,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const RESULT: &str = include_str!("../../schema/weir.result-1.schema.json");
const RESULTS: &str = include_str!("../../schema/weir.results-1.schema.json");
const VALIDATION: &str = include_str!("../../schema/weir.validation-1.schema.json");
const CLAIMS: &str = include_str!("../../schema/weir.claims-1.schema.json");

struct Checker {
    schemas: BTreeMap<&'static str, Value>,
    used: BTreeSet<String>,
    faults: Vec<String>,
}

impl Checker {
    fn new() -> Self {
        let parse = |text| serde_json::from_str(text).expect("the schema is JSON");
        let schemas = BTreeMap::from([
            ("weir.result-1.schema.json", parse(RESULT)),
            ("weir.results-1.schema.json", parse(RESULTS)),
            ("weir.claims-1.schema.json", parse(CLAIMS)),
            ("weir.validation-1.schema.json", parse(VALIDATION)),
        ]);
        Self { schemas, used: BTreeSet::new(), faults: Vec::new() }
    }

    fn run(&mut self, file: &str, document: &Value) {
        let schema = self.schemas[file].clone();
        self.check(file, &schema, document, "");
    }

    fn check(&mut self, file: &str, schema: &Value, value: &Value, at: &str) {
        for (word, rule) in schema.as_object().expect("a schema is an object") {
            let good = match word.as_str() {
                "$ref" => {
                    self.follow(file, rule.as_str().expect("text"), value, at);
                    true
                }
                "type" => one_or_many(rule).any(|name| has_type(value, name)),
                "const" => value == rule,
                "enum" => rule.as_array().expect("list").contains(value),
                "required" => one_or_many(rule).all(|key| value.get(key).is_some()),
                "items" => {
                    let items = value.as_array().into_iter().flatten();
                    items.for_each(|item| self.check(file, rule, item, &format!("{at}[]")));
                    true
                }
                "properties"
                | "additionalProperties"
                | "$schema"
                | "$id"
                | "$defs"
                | "title"
                | "description" => true,
                other => panic!("the checker does not know {other}"),
            };
            if !good {
                self.faults.push(format!("{at}: {word} {rule} broken by {value}"));
            }
        }
        self.keys(file, schema, value, at);
    }

    fn keys(&mut self, file: &str, schema: &Value, value: &Value, at: &str) {
        for (key, inner) in value.as_object().into_iter().flatten() {
            let place = format!("{at}.{key}");
            if let Some(rule) = schema.get("properties").and_then(|p| p.get(key)) {
                self.used.insert(place.clone());
                self.check(file, rule, inner, &place);
            } else if let Some(rule @ Value::Object(_)) = schema.get("additionalProperties") {
                self.check(file, rule, inner, &place);
            } else if schema.get("additionalProperties") == Some(&Value::Bool(false)) {
                self.faults.push(format!("{place} is not in the schema"));
            }
        }
        for key in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if value.get(key.0).is_none() && !self.used.contains(&format!("{at}.{}", key.0)) {
                self.faults.push(format!("{at}.{} is in the schema and was not written", key.0));
            }
        }
    }

    fn follow(&mut self, file: &str, reference: &str, value: &Value, at: &str) {
        let (other, pointer) = reference.split_once('#').unwrap_or((reference, ""));
        let other = if other.is_empty() { file } else { other };
        let schema = self.schemas[other].pointer(pointer).expect("the reference leads somewhere").clone();
        self.check(other, &schema, value, at);
    }
}

fn one_or_many(rule: &Value) -> impl Iterator<Item = &str> {
    let list = rule.as_array().map_or(std::slice::from_ref(rule), Vec::as_slice);
    list.iter().map(|item| item.as_str().expect("a name"))
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("the checker does not know the type {other}"),
    }
}

fn faults(file: &str, document: &str) -> Vec<String> {
    let mut checker = Checker::new();
    checker.run(file, &serde_json::from_str(document).expect("what we write is JSON"));
    checker.faults
}

fn map<T: Clone>(entries: &[(&str, T)]) -> BTreeMap<String, T> {
    entries.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect()
}

fn claims() -> Vec<results::ClaimOutcome> {
    let claim = Claim {
        id: "p.1.gain".into(),
        paper: "P, 2016".into(),
        figure: "1".into(),
        says: "X gains".into(),
        published: Some(2.0),
        low: 1.7,
        high: f64::INFINITY,
        fitted: false,
        origin: results::claim::Origin::Construction,
        input: results::claim::Input::Generated,
    };
    let reading =
        |value, holds| ReadingOutcome { name: "default".into(), choice: "default".into(), value, holds };
    let missed = claim.measured(0.1, 7, Clock::Virtual).under(vec![reading(Some(0.1), false)]);
    vec![
        results::ClaimOutcome {
            reason: Some("known".into()),
            contradicted: Some("the sentence is false".into()),
            by_seed: vec![0.1, 0.2],
            ..missed
        },
        claim.not_measured("needs ext4", 7, Clock::Virtual).under(vec![reading(None, false)]),
        claim.measured(2.1, 7, Clock::Virtual).under(vec![reading(Some(2.1), true)]),
        claim.measured(0.1, 7, Clock::Real),
    ]
}

fn full_environment() -> Environment {
    let text = Some("x".to_owned());
    Environment {
        weir_version: "0.1.0".into(),
        commit: text.clone(),
        compiler: text.clone(),
        profile: text.clone(),
        cpu_model: text.clone(),
        architecture: text.clone(),
        cores: Some(2),
        numa_nodes: Some(1),
        memory_bytes: Some(1 << 30),
        kernel: text.clone(),
        governor: text.clone(),
        turbo: Some(true),
        huge_pages: text.clone(),
        mitigations: text.clone(),
        container: text.clone(),
        started_utc: text,
        load_percent: Some(120),
        timer_overhead_ns: Some(20),
    }
}

fn full_sample() -> Sample {
    let mut sample = Sample::new(map(&[("fs", "pmfs".to_owned())]), 0, 11);
    sample.finish(10, 1_000);
    let mut write = OperationRecord::new("write");
    write.latency_ns.record(100);
    write.time_ns = map(&[("journal", 60), ("lock_wait", 40)]);
    write.lock_wait_ns = map(&[("inode", 40)]);
    write.line_wait_ns = map(&[("references", 20)]);
    write.named_ns = map(&[("journal", 20), ("lock_wait", 40)]);
    write.work = BTreeMap::from([("step".to_owned(), WorkRecord { units: 3, ns: 18 })]);
    write.parts = BTreeMap::from([("nova.append".to_owned(), PartRecord { count: 1, ns: 40 })]);
    sample.served = vec![write.clone()];
    sample.operations = vec![write];
    sample.steps = vec![StepRecord { name: "append".into(), ..StepRecord::default() }];
    sample.workers = vec![WorkerRecord {
        core: Some(3),
        process: Some(7),
        ops: 10,
        cpu_ns: Some(9),
        ..WorkerRecord::default()
    }];
    sample.jobs = vec![JobRecord { name: "log".into(), percentiles: vec![99.9], ..JobRecord::default() }];
    sample.counters = map(&[("nvmm_written_bytes", 4096)]);
    sample.notes = vec!["governor changed".into()];
    sample.failure = Some(SampleFailure { kind: FailureKind::Corrupt, what: "fsck: x".into() });
    sample.placement = Some(PlacementRecord { dies: 8, stripe_pages: 64, runs: vec![(3, 8), (4, 8)] });
    sample.kernel_locks = Some(KernelLocks {
        sources: vec!["profile".into()],
        skipped: vec!["off-CPU stacks: root only".into()],
        locks: vec![KernelLock {
            what: "i_rwsem".into(),
            stack: vec!["down_write".into()],
            ..KernelLock::default()
        }],
        ..KernelLocks::default()
    });
    sample.events = Some(EventCounts {
        of: "user".into(),
        events: vec![EventRecord {
            name: "event.cycles".into(),
            counted_per_mille: Some(500),
            missing: Some("x".into()),
        }],
        windows: Some(EventWindows {
            ends_ns: vec![10],
            calls: vec![3],
            counts: BTreeMap::from([("event.cycles".to_owned(), vec![7])]),
        }),
        simulated: "L1 32 KiB".into(),
    });
    sample.series = Some(SeriesRecord { step_ns: 10, ops: vec![1, 2] });
    let (lane, kind, what) = ("bank 0".to_owned(), "log".to_owned(), "log 0x40".to_owned());
    sample.spans.push(SpanRecord { lane, kind, what, start_ps: 0, end_ps: 36_000 });
    sample.host = Some(HostRecord {
        least_mhz: Some(800),
        most_mhz: Some(3000),
        drift_percent: -2,
        noise: vec!["others took 40 %".into()],
        ..HostRecord::default()
    });
    sample
}

fn full_file() -> ResultFile {
    let mut file = ResultFile::new("p", json!({"seed": 7}), 7, Clock::Virtual);
    file.environment = full_environment();
    file.prices = Some(PricesRecord {
        sets: vec!["ran".into()],
        designs: [("a".into(), "nova".into())].into(),
        unranked: Some("they differ".into()),
        own: [("a".into(), "its cache".into())].into(),
        ported: [("b".into(), vec!["crest.record".into()])].into(),
        errors: vec![ErrorRecord {
            prices: "ran".into(),
            workload: "w".into(),
            medium: "m".into(),
            class: "data".into(),
            factor: Some(1.2),
            null: Some(1.5),
            pairs: 12,
            sources: 2,
            why: Some("borrowed".into()),
        }],
    });
    file.notes = vec!["scaled down".into()];
    file.memory = vec!["memory of m: idle 116 ns".into()];
    file.lines.insert("references".into(), "a reference count".into());
    file.inputs = vec![InputRecord { kind: InputKind::Workload, name: "a.f".into(), text: "run 1\n".into() }];
    file.samples = vec![full_sample()];
    file.claims = claims();
    file.hosts = vec![HostFacts { id: "a1".into(), environment: file.environment.clone() }];
    file.costs = vec![CostRecord { host: 0, cpu_ns: 5, wall_ns: 6 }];
    file.neighbours = vec![NeighbourRecord {
        what: "seed 2".into(),
        places: 1,
        differs: vec!["b is at 1.1x a".into()],
        least: Some(1.1),
        most: Some(1.2),
        reordered: vec!["c, b".into()],
        once: true,
        left_out: true,
    }];
    file.hypotheses = vec![HypothesisOutcome {
        says: "a > b".into(),
        holds: true,
        ratio: Some(1.4),
        low: Some(1.3),
        high: None,
        range: true,
        reason: Some("interval above 1".into()),
    }];
    file
}

#[test]
fn a_full_result_uses_exactly_the_keys_of_its_schema() {
    assert_eq!(faults("weir.result-1.schema.json", &full_file().to_json()), [""; 0]);
}

#[test]
fn several_full_results_use_exactly_the_keys_of_their_schema() {
    let document = ResultsFile::new(vec![full_file(), full_file()]).to_json();
    assert_eq!(faults("weir.results-1.schema.json", &document), [""; 0]);
}

#[test]
fn the_least_result_breaks_no_rule() {
    let least = ResultFile::new("p", Value::Null, 7, Clock::Real).to_json();
    let broken: Vec<_> = faults("weir.result-1.schema.json", &least)
        .into_iter()
        .filter(|fault| !fault.ends_with("was not written"))
        .collect();
    assert_eq!(broken, [""; 0]);
}

#[test]
fn a_claims_document_uses_exactly_the_keys_of_its_schema() {
    assert_eq!(faults("weir.claims-1.schema.json", &ClaimsFile::new(claims()).to_json()), [""; 0]);
}

fn full_validation() -> ValidationFile {
    let text = Some("x".to_owned());
    let mut row = Row {
        id: "a.b".into(),
        design: text.clone(),
        band: Some(0.3),
        note: text.clone(),
        claim: text.clone(),
        published: 2.0,
        before: Some(3.0),
        before_commit: text,
        fitted_by: vec!["optane.100".into()],
        left_out: Some(LeftOut::new("unit", "x")),
        ..Row::default()
    };
    row.measure(1.0);
    let inversion = Inversion { published: 2.0, measured: 0.5, ..Inversion::default() };
    ValidationFile {
        schema: VALIDATION_SCHEMA.into(),
        environment: full_environment(),
        with: vec!["medium.turn=3ns".into()],
        rows: vec![row],
        left_out: vec![LeftOut { rows: Some(1), ..LeftOut::new("unit", "x") }],
        summaries: vec![Summary { by: "class".into(), bias: Some(1.5), ..Summary::default() }],
        ranks: vec![Ranks { tau: Some(-1.0), inversions: vec![inversion], ..Ranks::default() }],
        limits: vec![Limit { scope: "all".into(), missed: vec!["a.b".into()], ..Limit::default() }],
        controls: vec![Control { lines: vec!["x".into()], ..Control::default() }],
        ..ValidationFile::default()
    }
}

#[test]
fn a_validation_uses_exactly_the_keys_of_its_schema_and_comes_back_equal() {
    let document = serde_json::to_string(&full_validation()).expect("JSON");
    assert_eq!(faults("weir.validation-1.schema.json", &document), [""; 0]);
    assert_eq!(serde_json::from_str::<ValidationFile>(&document).expect("it is read"), full_validation());
}

/// Steps had another name once: results of then are read with all that they hold.
#[test]
fn the_steps_of_an_older_result_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.json");
    let older = full_file().to_json().replace("\"steps\"", "\"flowops\"");
    std::fs::write(&path, older).expect("it is written");
    assert_eq!(ResultFile::read(&path).expect("it is read").samples[0].steps[0].name, "append");
}

#[test]
fn a_full_result_comes_back_equal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.json");
    full_file().write(&path).expect("it is written");
    assert_eq!(ResultFile::read(&path).expect("it is read"), full_file());
}

/// The canary: the checker must find an unknown key, a missing key and a wrong type.
#[test]
fn the_checker_notices_what_it_must() {
    let good: Value = serde_json::from_str(&full_file().to_json()).expect("JSON");
    let spoil = |change: &dyn Fn(&mut Value)| {
        let mut bad = good.clone();
        change(&mut bad);
        faults("weir.result-1.schema.json", &bad.to_string())
    };
    assert!(!spoil(&|bad| bad["samples"][0]["speed"] = json!(1)).is_empty());
    assert!(!spoil(&|bad| drop(bad.as_object_mut().expect("object").remove("seed"))).is_empty());
    assert!(!spoil(&|bad| bad["samples"][0]["ops"] = json!("ten")).is_empty());
    assert!(!spoil(&|bad| bad["samples"][0]["operations"][0]["time_ns"]["journal"] = json!(0.5)).is_empty());
}

#[test]
fn a_file_on_one_die_collides_as_often_as_there_are_dies() {
    let placed = |runs: Vec<(u32, u32)>| PlacementRecord { dies: 8, stripe_pages: 64, runs }.collisions();
    assert_eq!(placed(vec![(3, 128)]), [8.0, 8.0]);
    assert_eq!(placed((0..8).map(|die| (die, 8)).collect()), [1.0]);
    assert_eq!(placed(vec![(1, 8), (2, 8), (3, 1)]), [1.0], "a short file goes round as far as it goes");
    assert_eq!(placed(vec![(1, 8), (1, 8)]), [2.0]);
}
