//! Models with one clause changed, each of which a small program must notice: a clause that is missing makes a right program look
//! broken, and one too many hides a fault. Every clause of the presets is changed, most of them both ways.

use super::super::model::{FileSync, FolderSync, MODELS, Model, Order, SizeAfter};
use super::super::tree::STALE;
use super::{Recorded, Rule, View, broken};

/// A program that tells models apart.
struct Seed {
    name: &'static str,
    program: fn(&mut Recorded),
    rule: &'static Rule,
}

fn is(found: bool) -> Result<(), String> {
    if found { Ok(()) } else { Err("wrong".to_owned()) }
}

fn told_has(view: &View<'_>, path: &str, bytes: &[u8]) -> Result<(), String> {
    is(view.told().is_empty() || view.holds(path, bytes))
}

fn first_of(view: &View<'_>, at: usize) -> Option<u8> {
    view.file("f").and_then(|file| file.get(at).copied())
}

const SEEDS: [Seed; 21] = [
    Seed {
        name: "two folders, the second needs the first",
        program: |program| {
            program.call("mkdir \"a\" 0755").call("mkdir \"b\" 0755");
        },
        rule: &|view| is(view.folder("a") || !view.folder("b")),
    },
    Seed {
        name: "a new block shows no zeros",
        program: |program| {
            let file = program.had("f", b"").open("f", "wronly");
            program.write(file, &[b'n'; 4096]);
        },
        rule: &|view| is(first_of(view, 0).is_none_or(|byte| byte == b'n' || byte == STALE)),
    },
    Seed {
        name: "a new block shows no old bytes of the disk",
        program: |program| {
            let file = program.had("f", b"").open("f", "wronly");
            program.write(file, &[b'n'; 4096]);
        },
        rule: &|view| is(first_of(view, 0) != Some(STALE)),
    },
    Seed {
        name: "the first of two new blocks is there before the second",
        program: |program| {
            let file = program.had("f", b"").open("f", "wronly");
            program.write(file, &[b'n'; 8192]);
        },
        rule: &|view| is(first_of(view, 4096) != Some(b'n') || first_of(view, 0) == Some(b'n')),
    },
    Seed {
        name: "an overwritten block is there before the file is longer",
        program: |program| {
            let file = program.had("f", &[b'o'; 4096]).open("f", "wronly");
            program.pwrite(file, 0, b"n").pwrite(file, 4096, &[b'n'; 4096]);
        },
        rule: &|view| is(first_of(view, 4096).is_none() || first_of(view, 0) == Some(b'n')),
    },
    Seed {
        name: "a rename over a file leaves an old or a new one",
        program: |program| {
            program.had("f", b"old").save("t", b"new");
            program.rename("t", "f");
        },
        rule: &|view| is(view.holds("f", b"old") || view.holds("f", b"new")),
    },
    Seed {
        name: "a rename is there after a sync of a new file",
        program: |program| {
            let new = program.had("s", b"old").save("t", b"new");
            program.fsync(new).rename("t", "s");
            let other = program.save("g", b"g");
            program.fsync(other).told("saved");
        },
        rule: &|view| told_has(view, "s", b"new"),
    },
    Seed {
        name: "a new file is there after a sync of it",
        program: |program| {
            let file = program.open("f", "wronly,creat");
            program.fsync(file).told("made");
        },
        rule: &|view| told_has(view, "f", b""),
    },
    Seed {
        name: "a rename is there after fdatasync of the file",
        program: |program| {
            let file = program.had("g", b"g").open("g", "wronly");
            program.rename("g", "f").call(&format!("fdatasync {file}")).told("saved");
        },
        rule: &|view| told_has(view, "f", b"g"),
    },
    Seed {
        name: "a rename is there after a sync of another folder that has changed since",
        program: |program| {
            program.had_folder("a").had_folder("b").had("a/t", b"t");
            program.rename("a/t", "a/s").call("mkdir \"b/c\" 0755").fsync_folder("b").told("saved");
        },
        rule: &|view| told_has(view, "a/s", b"t"),
    },
    Seed {
        name: "a rename is there after a sync of another folder",
        program: |program| {
            program.had_folder("a").had_folder("b").had("a/t", b"t");
            program.rename("a/t", "a/s").fsync_folder("b").told("saved");
        },
        rule: &|view| told_has(view, "a/s", b"t"),
    },
    Seed {
        name: "an unnamed file is whole when its folder was synced",
        program: |program| {
            let file = program.open("", "wronly,directory,tmpfile");
            program
                .write(file, b"new")
                .fsync(file)
                .call(&format!("linkfd {file} \"f\""))
                .fsync_folder("")
                .told("saved");
        },
        rule: &|view| told_has(view, "f", b"new"),
    },
    Seed {
        name: "a younger name is there only with an older one",
        program: |program| {
            program.had("a", b"old").had("b", b"old").had("c", b"c");
            let (a, c) = (program.save("a.tmp", b"new"), program.open("c", "rdwr"));
            program.fsync(a).call("sync");
            let b = program.save("b.tmp", b"new");
            program.fsync(b).rename("a.tmp", "a").rename("b.tmp", "b");
            program.pwrite(c, 0, b"d").call(&format!("fdatasync {c}"));
        },
        rule: &|view| is(!view.holds("b", b"new") || view.holds("a", b"new")),
    },
    Seed {
        name: "a later write of a page is there only with an earlier one",
        program: |program| {
            let file = program.had("f", &[b'.'; 300]).open("f", "wronly");
            program.pwrite(file, 0, b"1").pwrite(file, 100, b"2");
        },
        rule: &|view| is(first_of(view, 100) != Some(b'2') || first_of(view, 0) == Some(b'1')),
    },
    Seed {
        name: "a header of 1,000 bytes is whole",
        program: |program| {
            let file = program.had("f", &[b'o'; 4096]).open("f", "wronly");
            program.pwrite(file, 0, &[b'n'; 1000]);
        },
        rule: &|view| is(first_of(view, 0) == first_of(view, 999)),
    },
    Seed {
        name: "a header of 500 bytes is whole",
        program: |program| {
            let file = program.had("f", &[b'o'; 4096]).open("f", "wronly");
            program.pwrite(file, 0, &[b'n'; 500]);
        },
        rule: &|view| is(first_of(view, 0) == first_of(view, 499)),
    },
    Seed {
        name: "what was synced is there",
        program: |program| {
            let file = program.had("f", b"old").open("f", "wronly");
            program.pwrite(file, 0, b"new").fsync(file).told("saved");
        },
        rule: &|view| told_has(view, "f", b"new"),
    },
    Seed {
        name: "a file is made longer after its data",
        program: |program| {
            let file = program.had("f", b"").open("f", "wronly");
            program.write(file, &[b'n'; 4096]).call(&format!("ftruncate {file} 8192"));
        },
        rule: &|view| is(first_of(view, 4096).is_none() || first_of(view, 0) == Some(b'n')),
    },
    Seed {
        name: "a rename is there after a sync of a file with two names",
        program: |program| {
            let new = program.had("s", b"old").had("g", b"g").save("t", b"new");
            program.fsync(new).rename("t", "s").call("link \"g\" \"h\"");
            let file = program.open("g", "wronly");
            program.fsync(file).told("saved");
        },
        rule: &|view| told_has(view, "s", b"new"),
    },
    Seed {
        name: "a rename is there after a sync of a file in a new folder",
        program: |program| {
            let new = program.had("s", b"old").save("t", b"new");
            program.fsync(new).rename("t", "s").call("mkdir \"d\" 0755");
            let file = program.save("d/f", b"f");
            program.fsync(file).told("saved");
        },
        rule: &|view| told_has(view, "s", b"new"),
    },
    Seed {
        name: "a copy within the kernel is the beginning of what it copies",
        program: |program| {
            let from = program.had("g", &[b'n'; 10_000]).had("f", b"").open("g", "rdonly");
            let to = program.open("f", "wronly");
            program.call_for((1000, 100), &format!("copy {from} {to} 10000 -1 -1"), 10_000);
        },
        rule: &|view| is(view.file("f").is_some_and(|file| file.iter().all(|byte| *byte == b'n'))),
    },
];

/// A clause, the model that it is changed in, how, and which program notices: what the model breaks of it, and what the changed
/// one breaks.
struct Mutation {
    clause: &'static str,
    model: &'static str,
    change: fn(&mut Model),
    seed: &'static str,
    broken: [&'static str; 2],
}

const fn mutation(
    (clause, model): (&'static str, &'static str),
    change: fn(&mut Model),
    seed: &'static str,
    broken: [&'static str; 2],
) -> Mutation {
    Mutation { clause, model, change, seed, broken }
}

const KIND: &str = "ext4:zeros=no,replace=yes";
const HIDES_A: [&str; 2] = ["A", ""];
const FALSE_A: [&str; 2] = ["", "A"];
const HIDES_D: [&str; 2] = ["D", ""];
const FALSE_D: [&str; 2] = ["", "D"];

const MUTATIONS: [Mutation; 40] = [
    mutation(("names", "ext4"), |m| m.names = Order::Any, SEEDS[0].name, FALSE_A),
    mutation(("names", "posix"), |m| m.names = Order::One, SEEDS[0].name, HIDES_A),
    mutation(("size_after", "ext4"), |m| m.size_after = SizeAfter::Last, SEEDS[1].name, HIDES_A),
    mutation(("size_after", "xfs"), |m| m.size_after = SizeAfter::Nothing, SEEDS[1].name, FALSE_A),
    mutation(("size_after", "ext4:zeros=no"), |m| m.size_after = SizeAfter::Nothing, SEEDS[1].name, FALSE_A),
    mutation(("size_after", "xfs"), |m| m.size_after = SizeAfter::All, SEEDS[3].name, HIDES_A),
    mutation(("size_after", "xfs:holes=no"), |m| m.size_after = SizeAfter::Last, SEEDS[3].name, FALSE_A),
    mutation(("size_after", "ext4:zeros=no"), |m| m.size_after = SizeAfter::All, SEEDS[4].name, HIDES_A),
    mutation(("size_after", "xfs:holes=no"), |m| m.size_after = SizeAfter::Allocated, SEEDS[4].name, FALSE_A),
    mutation(("replace_waits", "ext4"), |m| m.replace_waits = true, SEEDS[5].name, HIDES_A),
    mutation(("replace_waits", KIND), |m| m.replace_waits = false, SEEDS[5].name, FALSE_A),
    mutation(("file_sync", "ext4"), |m| m.file_sync = FileSync::Own, SEEDS[6].name, FALSE_D),
    mutation(("file_sync", "btrfs"), |m| m.file_sync = FileSync::Journal, SEEDS[6].name, HIDES_D),
    mutation(("file_sync", "posix"), |m| m.file_sync = FileSync::Own, SEEDS[7].name, HIDES_D),
    mutation(("file_sync", "xfs"), |m| m.file_sync = FileSync::Nothing, SEEDS[7].name, FALSE_D),
    mutation(("file_sync", "f2fs"), |m| m.file_sync = FileSync::Nothing, SEEDS[7].name, FALSE_D),
    mutation(("datasync_counts_names", "ext4"), |m| m.datasync_counts_names = true, SEEDS[8].name, HIDES_D),
    mutation(("datasync_counts_names", "xfs"), |m| m.datasync_counts_names = false, SEEDS[8].name, FALSE_D),
    mutation(("datasync_counts_names", "f2fs"), |m| m.datasync_counts_names = false, SEEDS[8].name, FALSE_D),
    mutation(("folder_sync", "xfs"), |m| m.folder_sync = FolderSync::Entries, SEEDS[9].name, FALSE_D),
    mutation(("folder_sync", "btrfs"), |m| m.folder_sync = FolderSync::Journal, SEEDS[9].name, HIDES_D),
    mutation(("folder_sync", "ext4"), |m| m.folder_sync = FolderSync::Journal, SEEDS[10].name, FALSE_D),
    mutation(("folder_sync", "xfs"), |m| m.folder_sync = FolderSync::All, SEEDS[10].name, HIDES_D),
    mutation(("folder_sync", "posix"), |m| m.folder_sync = FolderSync::All, SEEDS[10].name, HIDES_D),
    mutation(("syncs_unnamed", "btrfs"), |m| m.syncs_unnamed = true, SEEDS[11].name, HIDES_D),
    mutation(("syncs_unnamed", "ext4"), |m| m.syncs_unnamed = false, SEEDS[11].name, FALSE_D),
    mutation(("log_takes_names", "btrfs"), |m| m.log_takes_names = false, SEEDS[12].name, HIDES_A),
    mutation(("log_takes_names", "xfs"), |m| m.log_takes_names = true, SEEDS[12].name, FALSE_A),
    mutation(("stale", "ext4"), |m| m.stale = true, SEEDS[2].name, FALSE_A),
    mutation(("stale", "ext4-writeback"), |m| m.stale = false, SEEDS[2].name, HIDES_A),
    mutation(("pages", "ext4"), |m| m.pages = false, SEEDS[13].name, FALSE_A),
    mutation(("pages", "ext4-dax"), |m| m.pages = true, SEEDS[13].name, HIDES_A),
    mutation(("tear", "ext4"), |m| m.tear = 4096, SEEDS[14].name, HIDES_A),
    mutation(("tear", "ext4"), |m| m.tear = 8, SEEDS[15].name, FALSE_A),
    mutation(("volatile", "posix"), |m| m.volatile = true, SEEDS[16].name, FALSE_D),
    mutation(("grow_waits", "xfs"), |m| m.grow_waits = false, SEEDS[17].name, FALSE_A),
    mutation(("checkpoints", "f2fs"), |m| m.checkpoints = false, SEEDS[18].name, FALSE_D),
    mutation(("checkpoints", "btrfs"), |m| m.checkpoints = true, SEEDS[19].name, HIDES_D),
    mutation(("shares", "btrfs"), |m| m.shares = false, SEEDS[20].name, FALSE_A),
    mutation(("shares", "ext4"), |m| m.shares = true, SEEDS[20].name, HIDES_A),
];

#[test]
fn every_mutation_of_a_model_is_noticed() {
    let mut unnoticed = Vec::new();
    for Mutation { clause, model, change, seed, broken: [own, changed] } in &MUTATIONS {
        let seed = SEEDS.iter().find(|one| one.name == *seed).expect("a seed");
        let mut program = Recorded::new();
        (seed.program)(&mut program);
        let (story, own_model) = (program.end(), Model::named(model).unwrap());
        let mut mutant = own_model.clone();
        change(&mut mutant);
        assert_ne!(own_model, mutant, "{clause} of {model} has not changed");
        let seen = [&own_model, &mutant].map(|model| broken(&story, model, seed.rule));
        if seen != [*own, *changed] {
            unnoticed.push(format!(
                "{clause} of {model}, {}: {seen:?}, expected {:?}",
                seed.name,
                [own, changed]
            ));
        }
    }
    assert!(unnoticed.is_empty(), "{} of {}:\n{}", unnoticed.len(), MUTATIONS.len(), unnoticed.join("\n"));
}

#[test]
fn every_clause_of_the_presets_has_a_mutation() {
    let (_, text) = MODELS[0];
    let clauses = text.split("[clauses]").nth(1).unwrap().split("[sources]").next().unwrap();
    for clause in clauses.lines().filter_map(|line| line.split_once(" = ")).map(|(key, _)| key) {
        assert!(MUTATIONS.iter().any(|one| one.clause == clause), "{clause} has no mutation");
    }
}
