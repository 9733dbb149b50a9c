//! Crashes of a mount that follows a crash: what the first one left of an unfinished change must not count when the second one
//! leaves a part of the next change at the same place.
//!
//! 1. A crash, so that the next mount begins with a journal that a recovery has left.
//! 2. A change, of which a crash leaves some lines.
//! 3. A write, durable on return or synced, to a file that the change may be about.
//! 4. The change again, of which a crash leaves some lines: what was written in between must be there.

use std::collections::BTreeSet;
use std::sync::Arc;

use check::Configured;
use check::configured::{fsck, region};
use check::crash::Subject;
use media::fault::{Fault, Target};
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Image, Mode, Plan, Scratch, Trace};
use sim::Seed;
use vfs::{Errno, FileKind, FileSystem, Ino, IoFlags, LeftOut, RenameFlags, SetAttr, XattrMode};

use super::SEED;
use crate::shared::harness::{subject, subjects, virtually};

/// Sizes of the file that is written before the first change and before the second.
const BEFORE: u64 = 100;
const BETWEEN: u64 = 300;

fn plan() -> Plan {
    Plan { exhaustive_max: 8, pair_units_max: 4, draws: 4, seed: Seed(SEED) }
}

type Outcome<T> = Result<T, String>;

fn name_of(errno: Errno) -> String {
    errno.name().to_owned()
}

fn walk(fs: &dyn FileSystem, path: &[&[u8]]) -> Outcome<Ino> {
    path.iter().try_fold(fs.root(), |dir, name| Ok(fs.lookup(dir, name).map_err(name_of)?.ino))
}

/// `one/moved`, and a file with the names `two/replaced` and `other`.
fn prepare(fs: &dyn FileSystem) -> Outcome<()> {
    let root = fs.root();
    let dirs = [b"one", b"two"].map(|name| fs.mkdir(root, name, &check::NEW));
    let [one, two] = dirs.map(|made| made.map_err(name_of));
    let (one, two) = (one?.ino, two?.ino);
    fs.create(one, b"moved", &check::NEW).map_err(name_of)?;
    let file = fs.create(two, b"replaced", &check::NEW).map_err(name_of)?.ino;
    fs.link(file, root, b"other").map_err(name_of)?;
    let spare = fs.create(root, b"spare", &check::NEW).map_err(name_of)?.ino;
    fs.write(spare, 0, &[3; 9000], IoFlags::empty()).map_err(name_of)?;
    write(fs, BEFORE)
}

/// Writes the file up to `size`, durably.
fn write(fs: &dyn FileSystem, size: u64) -> Outcome<()> {
    let file = walk(fs, &[b"other"])?;
    fs.open(file, vfs::OpenFlags::empty()).map_err(name_of)?;
    let from = fs.getattr(file).map_err(name_of)?.size;
    fs.write(file, from, &vec![7; (size - from) as usize], IoFlags::empty()).map_err(name_of)?;
    fs.fsync(file, false).map_err(name_of)?;
    fs.release(file);
    fs.sync().map_err(name_of)
}

/// Changes of several inodes or words, none of which takes anything from the contents of the file that is written in between. One
/// that was done already changes nothing.
const CHANGES: [&str; 8] =
    ["rename", "unlink", "mkdir", "symlink", "attribute", "truncate", "append", "link"];

/// Carries out a change, durably.
fn change(fs: &dyn FileSystem, which: &str) -> Outcome<()> {
    let root = fs.root();
    let dirs = (walk(fs, &[b"one"])?, walk(fs, &[b"two"])?);
    let done = match which {
        "rename" => fs.rename((dirs.0, b"moved"), (dirs.1, b"replaced"), RenameFlags::empty().into()),
        "unlink" => fs.unlink(dirs.1, b"replaced"),
        "mkdir" => fs.mkdir(dirs.0, b"new", &check::NEW).map(drop),
        "symlink" => fs.symlink(dirs.0, b"symlink", b"target", &check::NEW).map(drop),
        "attribute" => fs.setxattr(walk(fs, &[b"other"])?, b"user.a", &[1; 100], XattrMode::Set),
        "truncate" => {
            fs.setattr(walk(fs, &[b"spare"])?, &SetAttr { size: Some(10), ..SetAttr::default() }).map(drop)
        }
        "append" => fs.write(walk(fs, &[b"spare"])?, 20_000, &[1; 5000], IoFlags::empty()).map(drop),
        _ => fs.link(walk(fs, &[b"other"])?, root, b"more").map(drop),
    };
    match done {
        Ok(()) | Err(Errno::ENOENT | Errno::EEXIST) => fs.sync().map_err(name_of),
        Err(other) => Err(name_of(other)),
    }
}

/// The images that crashes in the change may leave.
fn crashes(trace: &Trace, mode: Mode) -> Vec<Image> {
    let (mut images, mut seen) = (Vec::new(), BTreeSet::new());
    let mut replay = trace.replay(mode);
    loop {
        let point = replay.state().crash_point();
        for choice in point.choices(&plan()) {
            let image = point.image(&choice);
            if seen.insert(image.fingerprint()) {
                images.push(image);
            }
        }
        if replay.next_point(|_, _| ()).is_none() {
            return images;
        }
    }
}

/// Carries out the change after `before`; the images of crashes in it.
fn crashed(
    (design, which): (&Configured, &str),
    region: &Arc<Region>,
    mode: Mode,
    before: impl FnOnce(&dyn FileSystem) -> Outcome<bool>,
) -> Outcome<Vec<Image>> {
    let fs = design.mount(region).map_err(|error| format!("mount: {error}"))?;
    let trace = if before(&*fs)? {
        let trace = Trace::attach(region).map_err(|error| error.to_string())?;
        change(&*fs, which)?;
        region.detach(&trace);
        Some(trace)
    } else {
        None
    };
    fs.unmount().map_err(name_of)?;
    Ok(trace.map_or(Vec::new(), |trace| crashes(&trace, mode)))
}

/// What the last crash has left.
fn judge(design: &Configured, region: &Arc<Region>) -> Outcome<()> {
    design.recover(region)?;
    fsck(design, region)?;
    let fs = design.mount(region).map_err(|error| format!("mount: {error}"))?;
    let attr = fs.getattr(walk(&*fs, &[b"other"])?).map_err(name_of)?;
    fs.unmount().map_err(name_of)?;
    match attr.kind {
        FileKind::Regular if attr.size == BETWEEN => Ok(()),
        kind => {
            Err(format!("the file is {kind:?} and has {} bytes, not the {BETWEEN} of its sync", attr.size))
        }
    }
}

fn load(scratch: &mut Scratch, image: &Image) -> Arc<Region> {
    Arc::clone(scratch.load(image).expect("it fits"))
}

/// Two regions for images of a design, and the images that crashes in its first change leave.
fn prepared(
    Subject { design, size, mode, .. }: &Subject,
    which: &str,
) -> Outcome<([Scratch; 2], Vec<Image>)> {
    let (made, design) = (region(*size), &**design);
    design.mkfs(&made)?;
    let fs = design.mount(&made)?;
    prepare(&*fs)?;
    let left = Trace::attach(&made).map_err(|error| error.to_string())?;
    made.detach(&left);
    let left = left.replay(*mode).state().crash_point();
    let left = left.image(&left.none());
    fs.unmount().map_err(name_of)?;
    let mut scratches = [(); 2].map(|()| Scratch::new(*size, Box::new(Null)).expect("memory"));
    let images = crashed((design, which), &load(&mut scratches[0], &left), *mode, |_| Ok(true))?;
    Ok((scratches, images))
}

/// Whether the change has not happened.
fn is_before(fs: &dyn FileSystem) -> bool {
    walk(fs, &[b"one", b"moved"]).is_ok()
}

/// Explores a design; what is wrong, and how many images were judged.
fn explore(subject: &Subject, which: &str) -> Outcome<(Vec<String>, usize)> {
    let ([mut first, mut second], images) = prepared(subject, which)?;
    let (design, mode) = (&*subject.design, subject.mode);
    let (mut wrong, mut judged) = (Vec::new(), 0);
    for (number, image) in images.iter().enumerate() {
        let write_again = |fs: &dyn FileSystem| write(fs, BETWEEN).map(|()| true);
        let region = load(&mut first, image);
        for (again, image) in crashed((design, which), &region, mode, write_again)?.iter().enumerate() {
            judged += 1;
            if let Err(what) = judge(design, &load(&mut second, image)) {
                wrong.push(format!("crash {number}, then crash {again}: {what}"));
            }
        }
    }
    Ok((wrong, judged))
}

/// Writes the file after the recovery of each crash and crashes then; how many images have lost the write. `fault` is in the mount
/// that recovers.
fn lost_after_recovery(subject: &Subject, fault: Option<Fault>) -> Outcome<usize> {
    let ([mut first, mut second], images) = prepared(subject, "rename")?;
    let (design, mut lost) = (&*subject.design, 0);
    for image in &images {
        let region = load(&mut first, image);
        let trace = Trace::attach(&region).map_err(|error| error.to_string())?;
        if let Some(fault) = fault {
            region.inject(fault);
        }
        let fs = design.mount(&region)?;
        let is_written = is_before(&*fs);
        if is_written {
            write(&*fs, BETWEEN)?;
        }
        region.detach(&trace);
        region.clear_faults();
        fs.unmount().map_err(name_of)?;
        let mut replay = trace.replay(subject.mode);
        while replay.next_point(|_, _| ()).is_some() {}
        let point = replay.state().crash_point();
        lost += usize::from(
            is_written && judge(design, &load(&mut second, &point.image(&point.none()))).is_err(),
        );
    }
    Ok(lost)
}

/// The line of a function's first flush.
fn flush_of(file: &str, function: &str) -> u32 {
    let path = format!("{}/../../{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the source");
    let lines: Vec<&str> = text.lines().collect();
    let start =
        lines.iter().position(|line| line.contains(&format!("fn {function}("))).expect("the function");
    let after = lines[start..].iter().position(|line| line.contains("region.flush(")).expect("a flush");
    (start + after + 1) as u32
}

/// A recovery that did not end durably would undo the same change again, and with it what a single store has made durable since.
#[test]
fn the_flush_with_which_a_recovery_ends_is_missed_when_it_is_gone() {
    let cases = [
        ("pmfs", "crates/fs/src/pmfs/recovery.rs", "store_empty"),
        ("nova", "crates/fs/src/nova/journal.rs", "store_committed"),
    ];
    for (name, file, function) in cases {
        let fault = Fault::DropLine { target: Target::Flush, file, line: flush_of(file, function) };
        let lost = |fault: Option<Fault>| {
            let subject = subject(name, &[]);
            virtually(SEED, move || lost_after_recovery(&subject, fault)).expect("the calls succeed")
        };
        assert_eq!(lost(None), 0, "{name}");
        assert!(lost(Some(fault)) > 0, "{name}: {function}");
    }
}

/// Of designs whose names are what they were before a change or after it.
#[test]
fn a_crash_undoes_nothing_of_what_an_earlier_crash_has_left_unfinished() {
    let mut failures = 0;
    for subject in subjects().into_iter().filter(|subject| !subject.promises.repaired) {
        let (mut wrong, mut judged) = (Vec::new(), 0);
        let left_out =
            |which: &&str| *which == "attribute" && subject.promises.left_out.contains(LeftOut::ATTRIBUTES);
        for which in CHANGES.into_iter().filter(|which| !left_out(which)) {
            let explored = subject.clone();
            let found = virtually(SEED, move || explore(&explored, which)).expect("the calls succeed");
            wrong.extend(found.0.iter().map(|what| format!("{which}: {what}")));
            judged += found.1;
        }
        println!("{subject}: {judged} images, {} wrong", wrong.len());
        wrong.iter().take(10).for_each(|what| println!("  {what}"));
        failures += wrong.len();
        assert!(judged > 300, "{subject}: {judged} images");
    }
    assert_eq!(failures, 0, "seed {SEED}");
}
