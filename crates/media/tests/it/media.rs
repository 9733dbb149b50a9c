//! Media by name: presets, parameters, messages.

use std::collections::BTreeSet;
use std::path::Path;

use media::medium::{self, Value};
use media::{MEDIA, Medium};
use sim::{Nanos, Rate};

#[test]
fn every_name_builds_a_model() {
    for name in medium::names() {
        // A curve is of some machine: it has no usual points.
        let given = if name == "curve" { "curve,points=100%: 1@100 50@150; 50%: 1@100 40@160" } else { name };
        let medium = Medium::parse(given).unwrap_or_else(|e| panic!("{given}: {e}"));
        assert_eq!(medium.build().expect("a model").name(), medium.kind().name());
        assert!(!medium.summary().is_empty());
    }
}

#[test]
fn every_file_in_presets_is_compiled_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../presets/media");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("the folder of presets")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .filter_map(|file| file.strip_suffix(".toml").map(str::to_owned))
        .collect();
    let names: BTreeSet<String> = medium::names().into_iter().map(str::to_owned).collect();
    assert!(files.is_subset(&names), "without a line in preset.rs: {:?}", files.difference(&names));
}

#[test]
fn values_can_be_given_after_the_name() {
    let medium = Medium::parse("hinfs, latency=400ns,bandwidth=2GB/s,round=frac").expect("a medium");
    let values: Vec<Value> = medium.parameters().iter().map(|param| param.value.clone()).collect();
    assert_eq!(
        values,
        [
            Value::Time(Nanos(400)),
            Value::Rate(Rate(2_000_000_000)),
            Value::Choice("frac"),
            Value::Choice("charged")
        ]
    );
    assert_eq!(medium.parameters()[0].source, "given");
}

#[test]
fn a_medium_prints_all_its_values_and_reads_them_back() {
    for name in medium::names() {
        let medium = Medium::named(name).expect("a medium");
        let again = Medium::parse(&medium.to_string()).unwrap_or_else(|e| panic!("{medium}: {e}"));
        assert_eq!(again.to_string(), medium.to_string());
    }
    let odd = Medium::parse("optane,read_bandwidth=1234567891B/s,read_hit=124ns").expect("a medium");
    assert!(odd.to_string().contains("read_bandwidth=1234567891B/s"), "{odd}");
}

#[test]
fn every_value_has_a_source() {
    for name in medium::names() {
        for param in Medium::named(name).expect("a medium").parameters() {
            assert!(!param.source.is_empty(), "{name}: {}", param.name);
        }
    }
}

#[test]
fn every_type_and_parameter_says_what_it_is() {
    for kind in MEDIA {
        assert!(!kind.summary().is_empty());
        for spec in kind.parameters() {
            assert!(!spec.help.is_empty() && !spec.source.is_empty(), "{} {}", kind.name(), spec.name);
        }
    }
}

fn message(text: &str) -> String {
    Medium::parse(text).expect_err("must be refused").to_string()
}

#[test]
fn a_wrong_name_is_answered_with_the_nearest_one() {
    assert!(message("hinf").contains("did you mean \"hinfs\"?"));
    assert!(message("hinfs,latencey=1us").contains("did you mean \"latency\"?"));
    assert!(message("hinfs,colour=1us").contains("there are: latency, bandwidth, round"));
    assert!(message("zzz").contains("there are: dram, hinfs"));
}

#[test]
fn a_wrong_value_is_answered_with_what_is_expected() {
    let wanted = "is not a time such as 200ns, in ns, us, ms or s, at most 1s";
    assert_eq!(message("hinfs,latency=fast"), format!("medium hinfs: latency = \"fast\" {wanted}"));
    assert!(message("hinfs,latency=1000h").ends_with(wanted));
    assert!(message("cxl.asic,extra=1000h").ends_with("in ns, us or ms, at most 1000ms"));
    assert!(message("hinfs,round=up").ends_with("is not one of floor, ceil, frac"));
    assert_eq!(message("hinfs,latency"), "medium hinfs: write \"latency\" as parameter=value");
}

#[test]
fn a_preset_of_ones_own_can_be_read() {
    let text = "model = \"hinfs\"\nsummary = \"mine\"\ndate = \"2020\"\nfitted_on = [\"a.claim\"]\n\
                [parameters]\nlatency = { value = \"1us\", source = \"measured\" }\n";
    let medium = Medium::from_preset("mine", text).expect("a medium");
    assert_eq!(medium.to_string(), "mine,latency=1000ns,bandwidth=1GB/s,round=floor,metadata=charged");
    assert_eq!((medium.summary(), medium.date()), ("mine", "2020"));
    assert_eq!(medium.fitted_on(), ["a.claim"]);
    assert_eq!(medium.parameters()[0].source, "measured");
}

#[test]
fn a_medium_in_a_file_is_taken_wherever_its_name_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let built_in = Medium::named("hinfs").unwrap();
    std::fs::write(&path, built_in.to_toml()).unwrap();
    let read = Medium::parse(path.to_str().unwrap()).unwrap();
    assert_eq!((read.name(), read.parameters()), ("mine", built_in.parameters()));
    let set = Medium::parse(&format!("{},latency=1us", path.display())).unwrap();
    assert!(set.to_string().contains("latency=1000ns"), "{set}");
    let told = message(folder.path().join("lost.toml").to_str().unwrap());
    assert!(told.contains("cannot read the medium file") && told.contains("No such file"), "{told}");
}

#[test]
fn a_preset_is_refused_for_unknown_keys_and_values_without_source() {
    let refused = |text: &str| Medium::from_preset("mine", text).expect_err("must be refused").to_string();
    let head = "model = \"hinfs\"\nsummary = \"s\"\ndate = \"2020\"\n";
    assert!(refused(&format!("{head}sumary = \"s\"")).contains("did you mean \"summary\"?"));
    assert!(refused(&head.replace("hinfs", "hinf")).contains("did you mean \"hinfs\"?"));
    assert!(refused(&head.replace("date", "# date")).contains("date"));
    let with = |param: &str| refused(&format!("{head}[parameters]\n{param}"));
    assert!(with("latency = { value = \"1us\" }").contains("source"));
    assert!(with("latency = { value = \"1us\", source = \" \" }").contains("has no source"));
    assert!(with("latancy = { value = \"1us\", source = \"s\" }").contains("did you mean \"latency\"?"));
    assert!(with("latency = { value = \"1us\", source = \"s\", unit = 1 }").contains("unit"));
}
