//! The pair of calls that a finding names, how little must be lost, and that faults do not hide behind one message.

use super::super::alike::Promise;
use super::super::cause::{Kept, shown};
use super::super::operations::Operations;
use super::super::run::{Finding, Outcome};
use super::super::story::Story;
use super::{Recorded, Rule, View, judged};

const MODELS: [&str; 5] = ["posix", "ext4", "xfs", "btrfs", "f2fs"];

/// The first lost call and the one that was kept.
fn pair(story: &Story, finding: &Finding) -> (String, String) {
    let operations = Operations::of(story);
    let call = |number: u32| shown(story, operations.all[number as usize].call);
    let kept = match finding.cause.kept {
        Kept::Operation(number) => call(number),
        Kept::Ack(_) => "the answer".to_owned(),
        Kept::Nothing => String::new(),
    };
    (finding.cause.lost.first().map_or_else(String::new, |first| call(*first)), kept)
}

fn found(make: &dyn Fn(&mut Recorded), models: &[&str], rule: &Rule) -> (Story, Outcome) {
    let mut program = Recorded::new();
    make(&mut program);
    let story = program.end();
    let outcome = judged(&story, models, rule);
    assert!(outcome.faults.is_empty(), "{:?}", outcome.faults);
    (story, outcome)
}

/// The version of a file whose bytes are all alike.
fn version(bytes: Option<Vec<u8>>, length: usize) -> Option<u8> {
    let bytes = bytes.filter(|bytes| bytes.len() == length)?;
    bytes.iter().all(|byte| *byte == bytes[0]).then_some(bytes[0])
}

fn last_told(view: &View<'_>) -> u8 {
    view.told().trim_end().bytes().last().unwrap_or(b'1')
}

#[test]
fn a_checker_that_says_the_same_of_all_hides_no_fault() {
    let rule = |view: &View<'_>| match version(view.file("c"), 6000) {
        Some(version) if version >= last_told(view) => Ok(()),
        _ => Err("verification failed".to_owned()),
    };
    let make = |program: &mut Recorded| {
        program.had("c", &[b'1'; 6000]);
        for version in [b'2', b'3'] {
            program.save("c.tmp", &[version; 6000]);
            program.rename("c.tmp", "c").told(&format!("done {}", version as char));
        }
    };
    let (_, outcome) = found(&make, &MODELS, &rule);
    let broken: Vec<String> = MODELS.iter().map(|model| outcome.broken(model)).collect();
    assert_eq!(broken, ["AD"; 5]);
}

#[test]
fn two_files_with_the_same_fault_and_message_are_two_findings() {
    let rule = |view: &View<'_>| {
        let is_whole = ["a", "b"].iter().all(|path| version(view.file(path), 6000).is_some());
        if is_whole { Ok(()) } else { Err("verification failed".to_owned()) }
    };
    let make = |program: &mut Recorded| {
        for name in ["a", "b"] {
            program.had(name, &[b'1'; 6000]).save(&format!("{name}.tmp"), &[b'2'; 6000]);
            program.rename(&format!("{name}.tmp"), name);
        }
    };
    let (story, outcome) = found(&make, &MODELS, &rule);
    let pairs: Vec<_> = outcome.findings.iter().map(|finding| pair(&story, finding)).collect();
    for name in ["a", "b"] {
        let of = (format!("write {name}.tmp 0..6000"), format!("rename {name}.tmp → {name}"));
        assert!(pairs.contains(&of), "{pairs:?}");
    }
}

/// Segments, and a manifest of two places that says which is the newest.
fn segments(program: &mut Recorded, synced: bool) {
    program.had("seg.1", &[b'1'; 6000]).had("m0", &[b'0'; 512]).had("m1", &[b'1'; 512]);
    for version in [b'2', b'3'] {
        let segment = program.save(&format!("seg.{}", version as char), &[version; 6000]);
        if synced {
            program.fsync(segment);
        }
        program.fsync_folder("");
        let manifest = program.open(&format!("m{}", version % 2), "wronly");
        program.pwrite(manifest, 0, &[version; 512]).call(&format!("fdatasync {manifest}"));
        program.told(&format!("done {}", version as char));
    }
}

#[test]
fn the_pair_is_the_lost_write_and_the_write_that_leads_to_it() {
    let rule = |view: &View<'_>| {
        let newest = ["m0", "m1"].iter().filter_map(|path| version(view.file(path), 512)).max();
        let newest = newest.unwrap_or(b'1');
        match version(view.file(&format!("seg.{}", newest as char)), 6000) {
            Some(version) if version == newest && newest >= last_told(view) => Ok(()),
            _ => Err("the segment is damaged".to_owned()),
        }
    };
    for model in MODELS {
        let (story, outcome) = found(&|program| segments(program, false), &[model], &rule);
        let [one] = &outcome.findings[..] else { panic!("{model}: {:#?}", outcome.findings) };
        assert_eq!(one.cause.lost.len(), 1, "{model}");
        let (lost, kept) = pair(&story, one);
        assert!(lost.starts_with("write seg.") && kept.starts_with("pwrite m"), "{model}: {lost}, {kept}");
        let fix = &one.fix.as_ref().unwrap_or_else(|| panic!("{model}: no fix")).what;
        assert!(fix.starts_with("fsync of seg.") && fix.contains("before the pwrite m"), "{model}: {fix}");
        let (_, mended) = found(&|program| segments(program, true), &[model], &rule);
        assert!(mended.findings.is_empty(), "{model}");
    }
}

#[test]
fn one_lost_piece_is_told_as_one_though_later_calls_were_synced() {
    let rule = |view: &View<'_>| {
        let file = view.file("f").unwrap_or_default();
        let is_there = |record: u8| file.get(4096 * usize::from(record - b'0')) == Some(&record);
        let head = file.first().copied().unwrap_or(b'9');
        if (b'1'..=head).all(is_there) { Ok(()) } else { Err("a record is missing".to_owned()) }
    };
    let make = |program: &mut Recorded| {
        let pages = program.had("f", &[b'.'; 16_384]).open("f", "wronly");
        let heads = program.open("f", "wronly,dsync");
        for version in [b'1', b'2', b'3'] {
            program.pwrite(pages, 4096 * u64::from(version - b'0'), &[version; 4096]);
            program.pwrite(heads, 0, &[version]).told("done");
        }
    };
    let (_, outcome) = found(&make, &MODELS, &rule);
    let [one] = &outcome.findings[..] else { panic!("{:#?}", outcome.findings) };
    assert_eq!((one.cause.promise, one.cause.lost.len()), (Promise::Atomicity, 1));
    assert_eq!(one.models, MODELS);
}

#[test]
fn a_backup_is_synced_before_the_rename_and_not_before_some_write() {
    let rule = |view: &View<'_>| {
        let (now, kept) = (version(view.file("db"), 6000), version(view.file("db.bak"), 6000));
        match (now, kept) {
            (Some(b'1'), _) => Ok(()),
            (Some(now), Some(kept)) if kept == now || kept + 1 == now => Ok(()),
            _ => Err("db was changed and there is no backup".to_owned()),
        }
    };
    let make = |program: &mut Recorded| {
        program.had("db", &[b'1'; 6000]);
        for version in [b'2', b'3'] {
            if version == b'3' {
                program.call("unlink \"db.bak\"");
            }
            program.call("link \"db\" \"db.bak\"");
            let new = program.save("db.tmp", &[version; 6000]);
            program.fsync(new).rename("db.tmp", "db").fsync_folder("").told("done");
        }
    };
    let (story, outcome) = found(&make, &["posix"], &rule);
    let pairs: Vec<_> = outcome.findings.iter().map(|finding| pair(&story, finding)).collect();
    assert!(pairs.contains(&("link db → db.bak".to_owned(), "rename db.tmp → db".to_owned())), "{pairs:?}");
    let fixes: Vec<_> = outcome.findings.iter().filter_map(|finding| finding.fix.as_ref()).collect();
    assert!(fixes.iter().all(|fix| fix.what.ends_with("before the rename db.tmp → db")), "{fixes:?}");
    // Between the removal of one backup and the next link there is none, whatever is synced.
    assert!(outcome.findings.iter().any(|finding| finding.cause.lost.is_empty()), "{pairs:?}");
}
