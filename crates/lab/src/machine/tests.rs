//! Tests of presets of machines.

use super::*;

const SERVER: &str = include_str!("../../shipped/machines/hinfs-server.toml");

fn parse(text: &str) -> Result<MachinePreset, Problem> {
    MachinePreset::parse("m.toml", text)
}

#[test]
fn every_embedded_machine_parses_and_every_value_has_a_source() {
    for preset in MachinePreset::embedded().unwrap() {
        let scheduling = if preset.machine.scheduling.is_some() { SCHEDULING.len() } else { 0 };
        let optional = |caches: Caches| usize::from(caches.flush_evicts) + usize::from(caches.ways.is_some());
        let caches = preset.machine.caches.map_or(0, |caches| CACHES.len() - 2 + optional(caches));
        let of_path = |value: &&Value| vfs::charges::PATH.iter().any(|work| work.key() == value.key);
        let path = preset.values.iter().filter(of_path).count();
        assert!(path == 0 || path == vfs::charges::PATH.len(), "{}", preset.machine.name);
        let kernel =
            usize::from(preset.kernel.is_some()) + path + usize::from(!preset.machine.parts.is_empty());
        let threads = usize::from(preset.machine.two_threads_per_mille.is_some());
        let of_model = |value: &&Value| memory_model::KEYS.contains(&value.key);
        let model = preset.values.iter().filter(of_model).count();
        assert_eq!(model > 0, preset.machine.memory.is_some(), "{}", preset.machine.name);
        assert_eq!(
            preset.values.len(),
            works().count() + 5 + threads + caches + scheduling + kernel + model,
            "{}",
            preset.machine.name
        );
    }
}

#[test]
fn no_two_kinds_of_work_and_no_two_activities_share_an_index_or_a_name() {
    fn assert_distinct(of: &[(usize, &str)]) {
        for (at, (index, name)) in of.iter().enumerate() {
            let taken = of[..at].iter().find(|(other, known)| other == index || known == name);
            assert_eq!(taken, None, "{index} {name}");
        }
    }
    let kinds = works().chain(vfs::charges::PATH.iter().copied()).chain(Work::RAN.iter().copied());
    assert_distinct(&kinds.map(|work| (work.index(), work.key())).collect::<Vec<_>>());
    assert_distinct(&activities().map(|one| (one.index(), one.name())).collect::<Vec<_>>());
}

#[test]
fn prices_of_what_runs_are_off_until_they_are_given_and_survive_being_written() {
    let plain = parse(SERVER).unwrap();
    assert!(Work::RAN.iter().all(|work| plain.machine.work_ps[work.index()] == 0));
    let text = format!("{SERVER}\n[ran]\nnode = {{ ns = 7, source = \"a test\" }}\n");
    assert_eq!(parse(&text).unwrap().machine.work_ps[Work::NODE.index()], 7_000);
    let bare = || plain.clone().with("path=none").unwrap();
    let priced = bare().with("node=7ns").unwrap().with("alloc=20ns").unwrap();
    assert_eq!(priced.machine.work_ps[Work::NODE.index()], 7_000);
    let read = parse(&priced.to_toml()).unwrap();
    assert_eq!(read.machine.work_ps, priced.machine.work_ps);
    assert_eq!(priced.with("ran=none").unwrap().machine.work_ps, bare().machine.work_ps);
    assert!(bare().with("nodes=7ns").unwrap_err().to_string().contains("node"), "the nearest is named");
}

#[test]
fn values_arrive_in_picoseconds() {
    let machine = parse(SERVER).unwrap().machine;
    assert_eq!(machine.work_ps[Work::SYSCALL.index()], 67_000);
    assert_eq!((machine.copy_ps_per_byte, machine.dram_ps_per_byte), (169, 125));
    assert_eq!(machine.cores(), 12);
}

#[test]
fn a_preset_written_out_reads_back_the_same() {
    let preset = parse(SERVER).unwrap();
    assert_eq!(parse(&preset.to_toml()).unwrap(), preset);
}

#[test]
fn a_value_without_source_is_refused() {
    let text = SERVER.replace("sockets = { count = 2, source = ", "sockets = { count = 2, sauce = ");
    let told = parse(&text).unwrap_err().to_string();
    assert!(told.contains("unknown key \"sauce\" in [sockets]; did you mean \"source\"?"), "{told}");
    let (before, after) = SERVER.split_once("sockets = { count = 2, source = ").unwrap();
    let text = format!("{before}sockets = {{ count = 2 }}\n{}", after.split_once('\n').unwrap().1);
    let told = parse(&text).unwrap_err().to_string();
    assert!(told.contains("needs \"source\": where the number comes from"), "{told}");
}

#[test]
fn a_file_that_another_version_calibrated_says_what_to_do() {
    let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
    let old: Vec<&str> = SERVER.lines().filter(|line| !line.starts_with("futex")).collect();
    std::fs::write(&file, old.join("\n")).unwrap();
    let told = MachinePreset::load(file.path().to_str().unwrap()).unwrap_err().to_string();
    assert!(told.contains("needs \"futex\"") && told.contains("run `weir calibrate` again"), "{told}");
}

#[test]
fn tables_that_may_be_left_out_leave_out_their_part_of_the_model() {
    let (without, _) = SERVER.split_once("[caches]").unwrap();
    let machine = parse(without).unwrap().machine;
    assert_eq!((machine.caches, machine.scheduling), (None, None));
    let scheduling = parse(SERVER).unwrap().machine.scheduling.unwrap();
    assert_eq!(scheduling.latency, Nanos::from_millis(24));
}

#[test]
fn a_setting_after_the_name_leaves_out_a_table_or_takes_another_kernel() {
    let load = |name: &str| MachinePreset::load(name).unwrap();
    assert_eq!(load("hinfs-server").kernel, Some(Linux { major: 3, minor: 11 }));
    let bare = load("hinfs-server,kernel=none,caches=none,scheduling=none");
    assert_eq!((bare.kernel, bare.machine.caches, bare.machine.scheduling), (None, None, None));
    assert_eq!(parse(&bare.to_toml()).unwrap(), bare);
    assert_eq!(load("hinfs-server,kernel=5.15").kernel, Some(Linux { major: 5, minor: 15 }));
    let refused = |name: &str| MachinePreset::load(name).unwrap_err().to_string();
    assert!(refused("hinfs-server,kernel=new").contains("as \"3.11\", or none"));
    assert!(refused("rcache-server,scheduling=none").contains("need [scheduling]"));
}

#[test]
fn hardware_threads_need_the_scheduler_that_shares_them_out() {
    let shape = "cores_per_socket = {";
    let text =
        SERVER.replace(shape, &format!("two_threads = {{ times = 1.22, source = \"made up\" }}\n{shape}"));
    let preset = parse(&text).unwrap();
    assert_eq!((preset.machine.two_threads_per_mille, preset.machine.processors()), (Some(1_220), 24));
    assert_eq!(parse(&preset.to_toml()).unwrap(), preset);
    let told = parse(text.split_once("[scheduling]").unwrap().0).unwrap_err().to_string();
    assert!(told.contains("needs [scheduling]"), "{told}");
}

const MODEL: &str = "[memory.model]\nchannels = { count = 8, source = \"s\" }\nrate = { mt_per_s = 4800, source = \"s\" }\n\
    width = { bits = 64, source = \"s\" }\nidle = { ns = 115.7, source = \"s\" }\na = { ns = 13, source = \"s\" }\n\
    b = { ns = 12.1, source = \"s\" }\nb1 = { times = 4.8, source = \"s\" }\nc0 = { times = 0.86, source = \"s\" }\n\
    c1 = { times = 0.23, source = \"s\" }\nc2 = { times = 0.29, source = \"s\" }\nk = { times = 0.875, source = \"s\" }\n\
    l3_hit = { ns = 47.5, source = \"s\" }\nerrors = { text = \"mean 1 %\", source = \"s\" }\n\n[work]";

#[test]
fn memory_under_load_may_be_there_changes_the_cache_hit_and_is_left_out_by_a_setting() {
    let plain = parse(SERVER).unwrap();
    let with = parse(&SERVER.replace("\n[work]", &format!("\n{MODEL}"))).unwrap();
    let model = with.machine.memory.as_ref().expect("a model");
    assert!((model.cap(0.0) - 0.875 * 0.86 * 307.2).abs() < 0.1);
    let hit = |preset: &MachinePreset| preset.machine.caches.expect("caches").socket_hit_ps;
    assert_eq!(hit(&with), 47_500);
    assert_eq!(parse(&with.to_toml()).unwrap(), with);
    let without = with.clone().with("memory=none").unwrap();
    assert_eq!((without.machine.memory.is_none(), hit(&without)), (true, hit(&plain)));
    assert_eq!((without.values, without.machine), (plain.values, plain.machine));
    assert!(with.with("memory=8").unwrap_err().to_string().contains("memory=none"));
}

#[test]
fn memory_that_cannot_be_is_refused_at_its_table() {
    for (from, to, word) in [
        ("bits = 64", "bits = 6400000", "peak"),
        ("ns = 115.7", "ns = 0.1", "idle latency"),
        ("c1 = { times = 0.23", "c1 = { times = 1.5", "nothing of the peak"),
        ("rate = {", "rates = {", "rate"),
    ] {
        let told = parse(&SERVER.replace("\n[work]", &format!("\n{}", MODEL.replace(from, to))))
            .unwrap_err()
            .to_string();
        assert!(told.contains(word), "{to}: {told}");
    }
    let points = "[memory.model]\npoints = { text = \"100%: 0@100 50@110; 50%: 0@100 40@90\", source = \"s\" }\n\n[work]";
    let told = parse(&SERVER.replace("\n[work]", &format!("\n{points}"))).unwrap_err().to_string();
    assert!(told.contains("does not fall"), "{told}");
}

#[test]
fn memory_may_be_that_of_each_socket() {
    assert!(!parse(SERVER).unwrap().machine.dram_per_socket);
    let preset = parse(&SERVER.replace("\ndram =", "\ndram_per_socket =")).unwrap();
    assert!(preset.machine.dram_per_socket);
    assert_eq!(parse(&preset.to_toml()).unwrap(), preset);
}

#[test]
fn a_cost_may_be_set_by_hand_and_the_machine_is_then_another() {
    let preset = MachinePreset::load("hinfs-server,generator=6us,random=2us").unwrap();
    let cost = |work: Work| preset.machine.work_ps[work.index()];
    assert_eq!(
        (cost(workload::charges::GENERATOR), cost(workload::charges::RANDOM), cost(Work::CALL)),
        (6_000_000, 2_000_000, 106_000)
    );
    assert_eq!(preset.machine.name, "hinfs-server,generator=6us,random=2us");
    let told = MachinePreset::load("hinfs-server,generater=6us").unwrap_err().to_string();
    assert!(told.contains("did you mean \"generator\"?"), "{told}");
}

#[test]
fn a_misspelt_kind_of_work_is_told_by_its_place() {
    let told = parse(&SERVER.replace("\nfence =", "\nfences =")).unwrap_err().to_string();
    assert!(told.contains("unknown key \"fences\" in [work]; did you mean \"fence\"?"), "{told}");
}
