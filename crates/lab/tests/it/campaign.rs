//! Campaigns: any split of a plan, in any order, with any shard twice, merges to the bytes of one machine; what is lost, torn,
//! foreign or different is refused by name. Each refusal is of a folder that was right before one thing was changed in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use lab::campaign::gather::{Gathered, gather};
use lab::campaign::manifest::{self, Estimate, Manifest, PlanRecord, Shard};
use lab::campaign::{Campaign, Error, FaultKind, State};
use lab::cells::{self, Cost, Head, Kept, ShardHead};
use lab::runner::CellToRun;
use lab::{Plan, Runner, Settings, Silent};
use rand::RngExt as _;
use results::{ResultFile, Sample};
use sim::Seed;

const PLAN: &str = r#"
[plan]
name = "small"
why = "is it the same everywhere?"
stop = "5ms"
seed = 7
repeats = 2
machine = "hinfs-server"
[[axis]]
fs = ["pmfs", "hinfs"]
[[axis]]
threads = [1, 3]
[fs]
buffer = "8MiB"
[[workload]]
name = "filebench/varmail"
vars = { nfiles = 60 }
[expect]
cost = "pmfs/varmail > 0.1 * hinfs/varmail"
"#;

const BUILD: &str = "this build";

fn plan() -> Plan {
    Plan::parse("small.toml", PLAN, false).unwrap()
}

fn one_job() -> Settings {
    Settings { jobs: 1, ..Settings::default() }
}

/// A campaign whose cells are in these shards.
fn campaign(folder: &Path, plan: &Plan, shards: Vec<Shard>) -> Campaign {
    let manifest = Manifest {
        schema: manifest::SCHEMA.into(),
        name: plan.name.clone(),
        weir_version: "1".into(),
        build: BUILD.into(),
        target: "here".into(),
        plans: vec![PlanRecord { plan: plan.to_json(), inputs: Vec::new() }],
        command: None,
        estimate: Estimate::default(),
        shards,
    };
    let program = folder.join("program");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    Campaign::create(folder, manifest, &program).unwrap()
}

/// The same, cut into so many.
fn cut(folder: &Path, count: usize) -> (Campaign, Vec<CellToRun>) {
    let cells = Runner::cells(&[plan()]).unwrap();
    (campaign(folder, &plan(), manifest::pack(&cells, &BTreeMap::new(), count)), cells)
}

fn run(of: &Campaign, shard: usize, attempt: &str) -> usize {
    let ran = of.run(shard, attempt, &[plan()], one_job(), &Silent).unwrap_or_else(|error| panic!("{error}"));
    assert!(ran.whole);
    ran.cells
}

/// A whole campaign of so many shards.
fn whole(folder: &Path, count: usize) -> (Campaign, Vec<CellToRun>) {
    let (of, cells) = cut(folder, count);
    (0..count).for_each(|shard| _ = run(&of, shard, "first"));
    (of, cells)
}

fn file(of: &Campaign, shard: usize, attempt: &str, ending: &str) -> PathBuf {
    of.folder.join(format!("out/{shard:05}.{attempt}.{ending}"))
}

/// What must be the bytes of one machine.
fn bytes(result: &ResultFile) -> String {
    let parts =
        (&result.samples, &result.lines, &result.hypotheses, &result.notes, &result.plan, result.partial);
    serde_json::to_string_pretty(&parts).unwrap()
}

fn alone() -> ResultFile {
    Runner::new(one_job(), &Silent).run(&plan()).unwrap()
}

fn merged(of: &Campaign, cells: &[CellToRun]) -> ResultFile {
    gather(of, cells, false)
        .and_then(|all| all.results(&[plan()]))
        .unwrap_or_else(|error| panic!("{error}"))
        .remove(0)
}

/// The worst kind of what is refused, and all that is said.
fn refused(gathered: Result<Gathered, Error>) -> (FaultKind, String) {
    match gathered {
        Err(Error::Refused(faults)) => {
            (faults.iter().map(|fault| fault.kind).max().unwrap(), Error::Refused(faults).to_string())
        }
        other => panic!("not refused: {:?}", other.map(|all| all.found.len())),
    }
}

#[test]
fn any_split_in_any_order_with_any_shard_twice_merges_to_the_bytes_of_one_machine() {
    let seed: u64 = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("seed {seed} (WEIR_SEED)");
    let (mut rng, expected) = (Seed(seed).rng(), bytes(&alone()));
    let cells = Runner::cells(&[plan()]).unwrap();
    assert_eq!(cells.len(), 8);
    for _ in 0..3 {
        let mut shards = vec![Shard::default(); rng.random_range(1..=8)];
        for cell in &cells {
            let at = rng.random_range(0..shards.len());
            shards[at].cells.push(cell.key.clone());
        }
        shards.retain(|shard| !shard.cells.is_empty());
        let (count, twice) = (shards.len(), rng.random_range(0..shards.len()));
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (of, other) =
            (campaign(one.path(), &plan(), shards.clone()), campaign(two.path(), &plan(), shards));
        assert_eq!(of.digest, other.digest, "a campaign does not depend on its folder");
        let mut order: Vec<usize> = (0..count).collect();
        for at in (1..count).rev() {
            order.swap(at, rng.random_range(0..=at));
        }
        for shard in &order {
            run(&of, *shard, "first");
        }
        // Measured again elsewhere, and brought here.
        assert!(run(&other, twice, "again") > 0);
        std::fs::copy(file(&other, twice, "again", "jsonl"), file(&of, twice, "again", "jsonl")).unwrap();
        let result = merged(&of, &cells);
        assert_eq!(bytes(&result), expected, "{count} shards in the order {order:?}, {twice} twice");
        assert!(gather(&of, &cells, false).unwrap().repeated > 0);
        let costs = &result.costs;
        assert!(
            costs.len() == 8
                && costs.iter().all(|cost| cost.cpu_ns > 0 && cost.host == 0)
                && result.hosts.len() == 1
        );
    }
}

#[test]
fn a_shard_that_is_run_again_runs_nothing_and_one_that_was_killed_runs_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = cut(folder.path(), 2);
    assert_eq!(of.states().unwrap(), [State::Missing, State::Missing]);
    assert_eq!((run(&of, 0, "first"), run(&of, 0, "second")), (4, 0));
    assert_eq!(of.states().unwrap(), [State::Done, State::Missing]);
    // As a kill within the third line leaves it.
    run(&of, 1, "first");
    let text = std::fs::read_to_string(file(&of, 1, "first", "jsonl")).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at).collect();
    std::fs::remove_file(file(&of, 1, "first", "jsonl")).unwrap();
    std::fs::write(file(&of, 1, "killed", "left"), &text[..ends[2] + 100]).unwrap();
    assert_eq!(of.states().unwrap(), [State::Done, State::Failed]);
    assert_eq!(run(&of, 1, "third"), 2, "two of four cells were whole");
    assert_eq!(of.states().unwrap(), [State::Done, State::Done]);
    assert_eq!(bytes(&merged(&of, &cells)), bytes(&alone()));
}

/// A copy that broke off, a full disk, an engine that brought half a file: under the name of a whole one.
#[test]
fn a_file_that_lacks_cells_is_failed_and_its_shard_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = cut(folder.path(), 2);
    run(&of, 0, "first");
    run(&of, 1, "first");
    let (whole, left) = (file(&of, 1, "first", "jsonl"), |kind: &str| file(&of, 1, "first", kind));
    let text = std::fs::read_to_string(&whole).unwrap();
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    // Cells that the run has to make: without the last line, cut within it, within the head, empty, and with one byte changed.
    let changed = text[..ends[3]].replacen("\"sample\":{", "\"sample\": {", 1) + &text[ends[3]..];
    let cuts: [(&str, usize); 5] =
        [(&text[..ends[3]], 1), (&text[..text.len() - 9], 1), (&text[..20], 4), ("", 4), (&changed, 4)];
    for (bytes_left, cells_to_run) in cuts {
        std::fs::write(left("jsonl"), bytes_left).unwrap();
        assert_eq!(of.states().unwrap(), [State::Done, State::Failed], "{} bytes", bytes_left.len());
        assert!(gather(&of, &cells, false).is_err(), "{} bytes", bytes_left.len());
        assert_eq!(run(&of, 1, "again"), cells_to_run, "{} bytes", bytes_left.len());
        assert_eq!(of.states().unwrap(), [State::Done, State::Done]);
        assert_eq!(bytes(&merged(&of, &cells)), bytes(&alone()));
        for entry in std::fs::read_dir(whole.parent().unwrap()).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with("00001.") {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
    }
}

#[test]
fn a_part_is_running_while_its_process_lives() {
    let folder = tempfile::tempdir().unwrap();
    let (of, _) = cut(folder.path(), 2);
    let part = |writer: cells::Writer| {
        let shard = ShardHead { campaign: of.digest.clone(), shard: 0, writer, ..ShardHead::default() };
        let path = file(&of, 0, "x", "part");
        let _ = std::fs::remove_file(&path);
        drop(Kept::create(&path, &Head { shard: Some(shard), ..Head::of(BUILD) }).unwrap());
        path
    };
    part(cells::Writer::here());
    assert_eq!(of.states().unwrap()[0], State::Running);
    part(cells::Writer { started: 0, ..cells::Writer::here() });
    assert_eq!(of.states().unwrap()[0], State::Failed, "another process has its number");
    let path = part(cells::Writer { boot: "elsewhere".into(), ..cells::Writer::here() });
    assert_eq!(of.states().unwrap()[0], State::Running, "of another host, and fresh");
    let hour = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    std::fs::File::options().append(true).open(path).unwrap().set_modified(hour).unwrap();
    assert_eq!(of.states().unwrap()[0], State::Failed, "of another host, and silent");
}

#[test]
fn an_interrupted_shard_is_left_and_ends_later() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = cut(folder.path(), 1);
    let settings = one_job();
    settings.interrupt.store(true, Relaxed);
    let ran = of.run(0, "first", &[plan()], settings, &Silent).unwrap();
    assert!(!ran.whole && file(&of, 0, "first", "left").exists());
    run(&of, 0, "second");
    assert_eq!(bytes(&merged(&of, &cells)), bytes(&alone()));
}

#[test]
fn a_lost_shard_and_a_torn_one_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = whole(folder.path(), 4);
    let path = file(&of, 2, "first", "jsonl");
    let text = std::fs::read(&path).unwrap();
    std::fs::write(&path, &text[..text.len() - 10]).unwrap();
    let (kind, says) = refused(gather(&of, &cells, false));
    assert_eq!(kind, FaultKind::Damaged);
    assert!(
        says.contains(&format!("{}:3: is torn", path.display())) && says.contains("run shard 2 again"),
        "{says}"
    );
    assert_eq!(refused(gather(&of, &cells, true)).0, FaultKind::Damaged, "nor is it merged in part");
    let mut changed = text.clone();
    let digit = text.iter().rposition(u8::is_ascii_digit).unwrap();
    changed[digit] = if text[digit] == b'1' { b'2' } else { b'1' };
    std::fs::write(&path, &changed).unwrap();
    let (kind, says) = refused(gather(&of, &cells, false));
    assert!(kind == FaultKind::Damaged && says.contains(&format!("{}:3: ", path.display())), "{says}");
    std::fs::remove_file(&path).unwrap();
    std::fs::remove_file(file(&of, 3, "first", "jsonl")).unwrap();
    let (kind, says) = refused(gather(&of, &cells, false));
    assert!(kind == FaultKind::Missing && says.contains("2 of 4 shards are not done: 2-3"), "{says}");
    let partial = gather(&of, &cells, true).unwrap().results(&[plan()]).unwrap().remove(0);
    assert!(partial.partial && partial.samples.len() == 4 && partial.costs.len() == 4);
    std::fs::write(&path, text).unwrap();
    run(&of, 3, "second");
    assert_eq!(bytes(&merged(&of, &cells)), bytes(&alone()));
}

/// Writes a file of a shard with the samples of another, changed.
fn rewrite(
    of: &Campaign,
    shard: usize,
    attempt: &str,
    head: impl Fn(&mut Head),
    change: impl Fn(&mut Sample),
) -> PathBuf {
    let contents = cells::read_file(&file(of, shard, "first", "jsonl")).unwrap().unwrap();
    let mut other = contents.head.clone();
    head(&mut other);
    let path = file(of, shard, attempt, "jsonl");
    let kept = Kept::create(&path, &other).unwrap();
    for mut cell in contents.cells {
        change(&mut cell.sample);
        kept.add(&cell.key, &cell.sample, cell.cost);
    }
    path
}

#[test]
fn files_of_another_build_campaign_or_shard_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = whole(folder.path(), 2);
    let same = rewrite(&of, 1, "same", |_| (), |_| ());
    assert_eq!(bytes(&merged(&of, &cells)), bytes(&alone()), "what is the same is taken");
    std::fs::remove_file(same).unwrap();
    let shard = |head: &mut Head, change: fn(&mut ShardHead)| head.shard.iter_mut().for_each(change);
    type Change<'c> = &'c dyn Fn(&mut Head);
    let heads: [(FaultKind, &str, Change<'_>); 4] = [
        (FaultKind::Foreign, "is of build other", &|head| head.build = "other".into()),
        (FaultKind::Foreign, "is of another campaign", &|head| shard(head, |of| of.campaign = "x".into())),
        (FaultKind::Foreign, "is of no campaign", &|head| head.shard = None),
        (FaultKind::Damaged, "holds shard 0", &|head| shard(head, |of| of.shard = 0)),
    ];
    for (kind, part, head) in heads {
        let path = rewrite(&of, 1, "other", head, |_| ());
        let (found, says) = refused(gather(&of, &cells, false));
        assert!(
            found == kind && says.contains(part) && says.contains(&path.display().to_string()),
            "{part}: {says}"
        );
        std::fs::remove_file(path).unwrap();
    }
    let told = of.check_build("another").unwrap_err().to_string();
    assert!(
        told.contains("this is build another") && told.contains("use ") && told.contains("bin/weir"),
        "{told}"
    );
    of.check_build(BUILD).unwrap();
}

#[test]
fn two_results_of_one_cell_that_differ_are_refused_and_both_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = whole(folder.path(), 2);
    let path = rewrite(&of, 0, "other", |_| (), |sample| sample.ops += 1);
    let (kind, says) = refused(gather(&of, &cells, false));
    let first = file(&of, 0, "first", "jsonl");
    assert_eq!(kind, FaultKind::Damaged);
    for part in [format!("{}:2", first.display()), format!("{}:2", path.display()), "(at ops: ".to_owned()] {
        assert!(says.contains(&part), "{part}: {says}");
    }
    // The right one is found by running cells again.
    std::fs::remove_file(first).unwrap();
    let wrong = gather(&of, &cells, false).unwrap();
    let mut runner = Runner::new(one_job(), &Silent);
    let found = wrong.verify((&of, &[plan()]), &cells, 8, &mut runner).unwrap_err().to_string();
    assert!(
        found.contains(&path.display().to_string()) && found.contains("than a run here (at ops: "),
        "{found}"
    );
    std::fs::remove_file(path).unwrap();
    run(&of, 0, "third");
    let right = gather(&of, &cells, false).unwrap();
    let mut runner = Runner::new(one_job(), &Silent);
    assert_eq!(right.verify((&of, &[plan()]), &cells, 3, &mut runner).unwrap().len(), 3);
}

#[test]
fn a_sample_of_another_seed_or_cell_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = whole(folder.path(), 2);
    let first = file(&of, 0, "first", "jsonl");
    let path = rewrite(&of, 0, "other", |_| (), |sample| sample.seed += 1);
    std::fs::rename(&first, folder.path().join("aside")).unwrap();
    let (kind, says) = refused(gather(&of, &cells, false));
    assert!(
        kind == FaultKind::Damaged
            && says.contains(&format!("{}:2: ", path.display()))
            && says.contains("with seed"),
        "{says}"
    );
    std::fs::remove_file(&path).unwrap();
    std::fs::rename(folder.path().join("aside"), &first).unwrap();
    let contents = cells::read_file(&first).unwrap().unwrap();
    let kept = Kept::create(&path, &contents.head).unwrap();
    kept.add(&"0".repeat(64), &contents.cells[0].sample, Cost::default());
    let (kind, says) = refused(gather(&of, &cells, false));
    assert!(kind == FaultKind::Damaged && says.contains("is not one of this shard"), "{says}");
    std::fs::write(&path, "not cells\n").unwrap();
    assert!(refused(gather(&of, &cells, false)).1.contains("is no file of cells"));
    std::fs::rename(&path, of.folder.join("out/notes.txt")).unwrap();
    assert!(refused(gather(&of, &cells, false)).1.contains("notes.txt: is no file of a shard"));
}

#[test]
fn a_manifest_that_was_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (of, cells) = whole(folder.path(), 2);
    manifest::cells(&of.manifest, &[plan()]).unwrap();
    let other = Plan { seed: 8, ..plan() };
    let told = manifest::cells(&of.manifest, &[other]).unwrap_err().to_string();
    assert!(told.contains("has another key here") && told.contains("was changed after"), "{told}");
    let path = folder.path().join("campaign.json");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("is it the same", "is it the sane")).unwrap();
    let changed = Campaign::open(folder.path()).unwrap();
    assert_eq!(refused(gather(&changed, &cells, false)).0, FaultKind::Foreign);
    for (text, part) in
        [("{", "is no campaign of this version"), (r#"{"schema":"weir.campaign/9"}"#, "weir.campaign/9")]
    {
        std::fs::write(&path, text).unwrap();
        let told = Campaign::open(folder.path()).unwrap_err().to_string();
        assert!(told.contains(part), "{told}");
    }
    let nowhere = Campaign::open(&folder.path().join("nowhere")).unwrap_err().to_string();
    assert!(nowhere.contains("weir campaign new"), "{nowhere}");
}

#[test]
fn a_failed_cell_is_a_sample_that_is_kept_and_not_run_again() {
    let text = PLAN
        .replace("[[axis]]\nfs", "region = \"9MiB\"\n[[axis]]\nfs")
        .replace("nfiles = 60", "nfiles = 4000");
    let plan = Plan::parse("small.toml", &text, false).unwrap();
    let cells = Runner::cells(std::slice::from_ref(&plan)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let of = campaign(folder.path(), &plan, manifest::pack(&cells, &BTreeMap::new(), 1));
    let run = |attempt| of.run(0, attempt, std::slice::from_ref(&plan), one_job(), &Silent).unwrap().cells;
    assert_eq!((run("first"), run("second")), (8, 0));
    let result = gather(&of, &cells, false).unwrap().results(std::slice::from_ref(&plan)).unwrap().remove(0);
    assert!(result.samples.len() == 8 && result.samples.iter().any(|sample| sample.failure.is_some()));
}

#[test]
fn plans_of_the_real_clock_are_refused() {
    let real = Plan { clock: sim::Clock::Real, ..plan() };
    let told = manifest::admit(&[plan(), real]).unwrap_err().to_string();
    assert!(told.contains("real-clock cells are not shared among hosts yet"), "{told}");
    manifest::admit(&[plan()]).unwrap();
}

/// The same script and medium under other names, in other folders, are the same cell; another text is another cell.
#[test]
fn keys_have_the_text_of_a_file_and_not_its_name() {
    let script = |size: &str| {
        format!(
            "define fileset name=f,path=/tmp,size={size},entries=10,dirwidth=20,prealloc\n\
             define process name=p,instances=1 {{ thread name=t,memsize=1m,instances=1 {{\n\
             flowop openfile name=o,filename=f,fd=1\nflowop closefile name=c,fd=1\n}} }}\nrun 1\n"
        )
    };
    let keys = |name: &str, text: &str| {
        let folder = tempfile::tempdir().unwrap();
        let (file, medium) =
            (folder.path().join(format!("{name}.f")), folder.path().join(format!("{name}.toml")));
        std::fs::write(&file, text).unwrap();
        std::fs::write(&medium, media::Medium::named("hinfs").unwrap().to_toml()).unwrap();
        let plan = format!(
            "[plan]\nname = \"t\"\nwhy = \"w\"\nstop = \"1ms\"\n[[axis]]\nfs = [\"pmfs\"]\n[[axis]]\nmedium = [\"{}\"]\n\
             [[workload]]\nname = \"{}\"\n",
            medium.display(),
            file.display()
        );
        let cells = Runner::cells(&[Plan::parse("t.toml", &plan, false).unwrap()]).unwrap();
        cells.into_iter().map(|cell| cell.key).collect::<Vec<_>>()
    };
    assert_eq!(keys("one", &script("1k")), keys("two", &script("1k")));
    assert_ne!(keys("one", &script("1k")), keys("one", &script("2k")));
}

/// A random variable's parameters, which the list of variables does not have, are in the key.
#[test]
fn keys_tell_variables_apart_that_are_drawn_at_random() {
    let keys = |gamma: &str| {
        let text = PLAN.replace(
            "nfiles = 60 }",
            &format!("nfiles = 60, meanappendsize = \"cvar(type=cvar-gamma,parameters=mean:16384;gamma:{gamma})\" }}"),
        );
        let cells = Runner::cells(&[Plan::parse("small.toml", &text, false).unwrap()]).unwrap();
        cells.into_iter().map(|cell| cell.key).collect::<Vec<_>>()
    };
    assert_eq!(keys("1.5"), keys("1.5"));
    assert_ne!(keys("1.5"), keys("2.5"));
}
