//! The kernel as an oracle of crashes: what a power loss leaves of ext4, its own journal recovery and ours make the same tree of.
//! What a repair of ours makes of ext2, e2fsck finds clean. As root, where loop devices are.
//!
//! `WEIR_KERNEL_CRASHES=n` takes that many images instead of 40; `WEIR_CRASH_SEED=n` others.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use check::configured::virtually;
use check::crash::programs;
use check::{Configured, Op, Runner, observe};
use media::nvmm::Region;
use media::nvmm::null::Null;
use media::recorder::{Mode, Plan, Trace};
use rand::RngExt;
use sim::{Bytes, Nanos, Seed};
use vfs::FileKind;

use crate::ext4::kernel_mounts::in_kernel;
use crate::ext4::tools::{e2fsck, has_e2fsck, save};
use crate::shared::harness::with_options;

const SEED: u64 = 20_261_123;
/// What a design does in the background, it does within a minute.
const IDLE: Nanos = Nanos::from_secs(60);
const SMALL: [(&str, &str); 3] = [("cache", "256k"), ("block_size", "1k"), ("lost_found", "false")];

/// A number that the environment gives.
pub(crate) fn wanted(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}

/// What a name shows: kind, permission, owner, links, and the bytes of a file or the target of a link.
pub(crate) type Shown = (FileKind, u32, (u32, u32), u64, Vec<u8>);

/// What the kernel shows of everything below a folder.
pub(crate) fn by_kernel(root: &Path, folder: &Path, into: &mut BTreeMap<String, Shown>) {
    for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
        let path = entry.path();
        let meta = std::fs::symlink_metadata(&path).expect("an inode");
        let kind = FileKind::from_mode(meta.mode()).expect("a kind");
        let content = match kind {
            FileKind::Regular => std::fs::read(&path).expect("a file"),
            FileKind::Symlink => {
                std::fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
            }
            _ => Vec::new(),
        };
        let name = path.strip_prefix(root).expect("below").display().to_string();
        into.insert(name, (kind, meta.mode() & 0o7777, (meta.uid(), meta.gid()), meta.nlink(), content));
        if kind == FileKind::Directory {
            by_kernel(root, &path, into);
        }
    }
}

/// What a mount here shows.
pub(crate) fn by_us(
    design: &Arc<Configured>,
    region: &Arc<Region>,
) -> Result<BTreeMap<String, Shown>, String> {
    let (design, region) = (Arc::clone(design), Arc::clone(region));
    let tree = virtually(1, move || {
        let fs = design.mount(&region)?;
        let tree = observe(&*fs)?;
        fs.unmount().map_err(|errno| errno.name().to_owned())?;
        Ok::<_, String>(tree)
    })?;
    let shown = tree.into_iter().filter(|(path, _)| !path.is_empty()).map(|(path, entry)| {
        (path, (entry.kind, entry.perm, entry.owner, u64::from(entry.nlink), entry.content.to_vec()))
    });
    Ok(shown.collect())
}

/// Runs a random program on a new image, crashes it at some point, and returns what a random choice leaves.
fn crashed(design: &Arc<Configured>, number: u64, seed: u64) -> Arc<Region> {
    let recorded = Arc::clone(design);
    let trace = virtually(seed, move || {
        let region = check::configured::region(Bytes::mib(2));
        recorded.mkfs(&region).expect("mkfs");
        let mut runner = Runner::new(recorded.mount(&region).expect("mount"));
        let program = programs::random(seed, number as usize);
        for op in &program.setup {
            let _ = runner.run(op);
        }
        runner.fs.sync().expect("sync");
        let trace = Trace::attach(&region).expect("a trace");
        for op in program.core.iter().filter(|op| !matches!(op, Op::Remount)) {
            // A call may fail: so it does in the image as well.
            let _ = runner.run(op);
        }
        sim::sleep(IDLE);
        runner.close_all();
        let _ = runner.fs.unmount();
        region.detach(&trace);
        trace
    });
    let mut rng = Seed(seed).derive("kernel_crashes", number).rng();
    let mut replay = trace.replay(Mode::Adr);
    let mut in_flight = vec![replay.state().sectors_in_flight().count()];
    while replay.next_point(|_, _| ()).is_some() {
        in_flight.push(replay.state().sectors_in_flight().count());
    }
    // Every other image is crashed where most is in flight.
    let most = (0..in_flight.len()).max_by_key(|point| in_flight[*point]).unwrap_or(0);
    let wanted = if number.is_multiple_of(2) { most } else { rng.random_range(0..in_flight.len()) };
    let mut replay = trace.replay(Mode::Adr);
    for _ in 0..wanted {
        replay.next_point(|_, _| ());
    }
    let point = replay.state().crash_point();
    let choices = point.choices(&Plan { seed: Seed(seed ^ number), ..Plan::default() });
    let choice = &choices[rng.random_range(0..choices.len())];
    point.image(choice).region(Box::new(Null)).expect("memory")
}

fn look(root: &Path) -> BTreeMap<String, Shown> {
    let mut found = BTreeMap::new();
    by_kernel(root, root, &mut found);
    found
}

fn copy(of: &Arc<Region>) -> Arc<Region> {
    let copy = check::configured::region(Bytes(of.len()));
    let mut bytes = vec![0; of.len() as usize];
    of.peek(0, &mut bytes).expect("the whole region");
    copy.store(0, &bytes).expect("it fits");
    copy
}

#[test]
fn the_kernel_recovers_a_crashed_image_to_the_same_tree_as_we_do() {
    if !has_e2fsck() {
        return;
    }
    let (count, seed) = (wanted("WEIR_KERNEL_CRASHES", 40), wanted("WEIR_CRASH_SEED", SEED));
    let mut trees = std::collections::BTreeSet::new();
    for number in 0..count {
        let data = ["ordered", "writeback", "journal"][number as usize % 3];
        let design = with_options("ext4", &[&SMALL[..], &[("journal", "1MiB"), ("data", data)]].concat());
        let region = crashed(&design, number, seed);
        let place = format!("seed {seed}, image {number}, data={data}");
        let image = save(&region);
        let Some(kernel) = in_kernel(&image, "rw", look) else { return };
        let ours = copy(&region);
        let weir = by_us(&design, &ours).unwrap_or_else(|what| panic!("{place}: {what}"));
        let differs = weir.iter().find(|(path, shown)| kernel.get(*path) != Some(shown));
        let other = differs.and_then(|(path, _)| kernel.get(path));
        assert!(differs.is_none(), "{place}: weir shows {differs:?}, the kernel {other:?}");
        let more = kernel.keys().find(|path| !weir.contains_key(*path));
        assert!(more.is_none(), "{place}: only the kernel shows {more:?}");
        e2fsck(&ours).unwrap_or_else(|said| panic!("{place}: after our recovery: {said}"));
        trees.insert(weir.into_iter().map(|(path, shown)| (path, shown.3, shown.4)).collect::<Vec<_>>());
    }
    println!(
        "seed {seed}: {count} crashed images of ext4, {} different trees: the kernel shows the same",
        trees.len()
    );
    // There are so many programs, and no more trees.
    assert!(trees.len() as u64 > count.min(1000) / 4, "the images differ");
}

#[test]
fn e2fsck_finds_clean_and_the_kernel_shows_alike_what_we_repair_after_a_crash_of_ext2() {
    if !has_e2fsck() {
        return;
    }
    let (count, seed) = (wanted("WEIR_KERNEL_CRASHES", 40), wanted("WEIR_CRASH_SEED", SEED));
    let design = with_options("ext2", &SMALL);
    let mut repaired = 0;
    for number in 0..count {
        let region = crashed(&design, number, seed);
        repaired += u64::from(e2fsck(&region).is_err());
        let place = format!("seed {seed}, image {number}");
        let weir = by_us(&design, &region).unwrap_or_else(|what| panic!("{place}: {what}"));
        e2fsck(&region).unwrap_or_else(|said| panic!("{place}: after our repair: {said}"));
        let Some(kernel) = in_kernel(&save(&region), "ro", look) else { return };
        assert!(weir == kernel, "{place}: after our repair weir shows {weir:?}, the kernel {kernel:?}");
    }
    println!(
        "seed {seed}: {count} crashed images of ext2, e2fsck complains of {repaired} and of none after our repair, \
         and the kernel shows what weir shows"
    );
    assert!(repaired > 0, "some images need a repair");
}
