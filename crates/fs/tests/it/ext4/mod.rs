//! ext2 and ext4: what the kernel's own tools make of our images, and we of theirs.

mod bad_blocks;
mod damage;
mod direct;
mod edited;
mod features;
mod flushes;
mod hints;
mod kept_blocks;
mod kernel_crashes;
mod kernel_images;
mod kernel_mounts;
mod large;
mod lists;
mod logs;
mod long_runs;
mod maps;
mod new_blocks;
mod old_inodes;
mod orphans;
mod overlaps;
mod placement;
mod punched;
mod races;
mod readings;
mod repairs;
mod scaling;
mod seen;
mod throttling;
mod tools;

use crate::shared::harness;
use std::sync::Arc;

use check::Configured;
use check::Op;
use check::configured::{Altered, Sound};
use check::lockstep::{Difference, Round, run};
use design::{Design, Options};
use media::Storage;
use media::nvmm::Region;
use sim::Bytes;
use tools::{e2fsck, has_e2fsck};
use vfs::FileSystem;

/// A design whose fsck is our own and, where it is installed, e2fsck.
#[derive(Clone)]
pub(crate) struct Judged {
    design: &'static dyn Design,
    options: Options,
    arguments: String,
}

/// The design called `name` with these options.
pub(crate) fn judged(name: &str, given: &[(&str, &str)]) -> Judged {
    let design = fs::by_name(name).expect("a design");
    let arguments: Vec<_> = given.iter().map(|(name, value)| format!("-O {name}={value}")).collect();
    Judged { design, options: harness::options(design, given), arguments: arguments.join(" ") }
}

impl Judged {
    /// The design as the harnesses take it.
    pub(crate) fn configured(&self) -> Arc<Configured> {
        self.as_altered(self.clone())
    }

    /// The same where this is only a part of what is altered.
    pub(crate) fn as_altered(&self, altered: impl Altered + 'static) -> Arc<Configured> {
        let sound = Configured::new(self.design, self.options.clone(), self.arguments.clone());
        Arc::new(sound.altered(altered))
    }

    /// Checks an image by our own fsck alone.
    pub(crate) fn look_at(&self, region: &Arc<Region>) {
        let _ = self.design.format().fsck(&Storage::from(region));
    }

    /// What our own fsck finds.
    pub(crate) fn own_violations(&self, region: &Arc<Region>) -> Vec<String> {
        let report = self.design.format().fsck(&Storage::from(region));
        report.violations.iter().map(ToString::to_string).collect()
    }

    /// Repairs an image, as a person asks for it.
    pub(crate) fn repair(&self, region: &Arc<Region>) -> Result<Vec<String>, String> {
        self.design.format().repair(&Storage::from(region)).map_err(|error| error.to_string())
    }

    /// What our fsck tells beside violations.
    pub(crate) fn notes(&self, region: &Arc<Region>) -> Vec<String> {
        self.design.format().fsck(&Storage::from(region)).notes
    }

    /// Makes an empty file system.
    pub(crate) fn mkfs(&self, region: &Arc<Region>) -> Result<(), String> {
        let made = self.design.format().mkfs(&Storage::from(region), &self.options);
        made.map_err(|error| error.to_string())?;
        // The reference begins with an empty root.
        let fs = self.mount(region)?;
        fs.rmdir(fs.root(), b"lost+found").map_err(|errno| errno.to_string())?;
        fs.unmount().map_err(|errno| errno.to_string())
    }

    /// Mounts.
    pub(crate) fn mount(&self, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.design.mount(&Storage::from(region), &self.options).map_err(|error| error.to_string())
    }

    /// Recovers.
    pub(crate) fn recover(&self, region: &Arc<Region>) -> Result<(), String> {
        self.design.format().recover(&Storage::from(region)).map(drop).map_err(|error| error.to_string())
    }

    /// What both checks find.
    pub(crate) fn fsck(&self, region: &Arc<Region>) -> Vec<String> {
        let report = self.design.format().fsck(&Storage::from(region));
        let mut violations: Vec<_> = report.violations.iter().map(ToString::to_string).collect();
        if violations.is_empty() && report.checked.is_empty() {
            violations.push(format!("nothing could be checked: {:?}", report.notes));
        }
        if has_e2fsck()
            && let Err(said) = e2fsck(region)
        {
            violations.push(format!("e2fsck: {said}"));
        }
        violations
    }
}

impl Altered for Judged {
    fn mkfs(&self, _: &Sound, region: &Arc<Region>) -> Result<(), String> {
        self.mkfs(region)
    }

    fn mount(&self, _: &Sound, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.mount(region)
    }

    fn recover(&self, _: &Sound, region: &Arc<Region>) -> Result<(), String> {
        self.recover(region)
    }

    fn fsck(&self, _: &Sound, region: &Arc<Region>) -> Vec<String> {
        self.fsck(region)
    }
}

fn configurations() -> Vec<(Arc<Configured>, Bytes)> {
    let judged = |name, options| judged(name, options).configured();
    vec![
        (judged("ext2", &[("block_size", "1k"), ("cache", "256k")]), Bytes::mib(8)),
        (judged("ext2", &[("block_size", "4k")]), Bytes::mib(16)),
        (judged("ext2", &[("block_size", "1k"), ("dir_index", "false")]), Bytes::kib(600)),
        (judged("ext4", &[("block_size", "1k"), ("journal", "0")]), Bytes::mib(8)),
        (judged("ext4", &[("block_size", "4k"), ("journal", "0")]), Bytes::mib(16)),
        (judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("cache", "256k")]), Bytes::mib(8)),
        (judged("ext4", &[("block_size", "4k"), ("journal", "4MiB")]), Bytes::mib(24)),
        (
            judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("metadata_csum", "false")]),
            Bytes::mib(3),
        ),
        (judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("data", "journal")]), Bytes::mib(8)),
        (judged("ext4", &[("block_size", "1k"), ("journal", "1MiB"), ("data", "writeback")]), Bytes::mib(8)),
    ]
}

#[test]
fn a_new_image_is_clean_to_e2fsck_at_every_size_and_block_size() {
    for name in ["ext2", "ext4"] {
        for block_size in ["1k", "2k", "4k"] {
            for mib in [3, 9, 40, 150] {
                let design = judged(name, &[("block_size", block_size)]);
                let region = check::configured::region(Bytes::mib(mib));
                if Bytes::mib(mib) < design.configured().min_size() {
                    continue;
                }
                design.mkfs(&region).expect("room");
                assert_eq!(design.fsck(&region), Vec::<String>::new(), "{name}, {block_size}, {mib} MiB");
            }
        }
    }
}

#[test]
fn random_operations_answer_as_the_reference_and_leave_images_that_e2fsck_finds_clean() {
    let ops: usize = std::env::var("WEIR_MODEL_OPS").ok().and_then(|n| n.parse().ok()).unwrap_or(2000);
    let only = std::env::var("WEIR_EXT4_ONLY").ok().and_then(|n| n.parse::<usize>().ok());
    for (index, (design, size)) in configurations().into_iter().enumerate() {
        if only.is_some_and(|only| only != index) {
            continue;
        }
        let shown = format!("{} {} on {size}", design.name(), design.arguments());
        // A target must fit into a block (ENAMETOOLONG), which the reference does not know.
        let longest = if design.arguments().contains("block_size=1k") { 1023 } else { 4095 };
        let fits = |op: &Op| !matches!(op, Op::Symlink(_, len) if *len > longest);
        let seed = 1000 * index as u64;
        let mut program = Round { design: Arc::clone(&design), size, seed, ops, maps: false }.program();
        program.retain(fits);
        let fails = |ops: &[Op]| run(&design, size, seed, ops, None).err();
        match fails(&program) {
            None => println!("{shown}, seed {seed}: {} operations agree", program.len()),
            Some(found) => panic!("{shown}, seed {seed}: {}", shortest(program, found, &fails)),
        }
    }
}

/// Leaves out operations while the program still fails: in halves, then quarters, down to one at a time.
fn shortest(
    mut program: Vec<Op>,
    mut found: Difference,
    fails: &dyn Fn(&[Op]) -> Option<Difference>,
) -> String {
    program.truncate(found.ops);
    let mut step = program.len().div_ceil(2);
    while step > 0 {
        let mut at = 0;
        while at < program.len() {
            let end = (at + step).min(program.len());
            let shorter = [&program[..at], &program[end..]].concat();
            match fails(&shorter) {
                Some(again) => (program, found) = (shorter, again),
                None => at = end,
            }
        }
        step /= 2;
    }
    let shown: Vec<_> = program.iter().map(|op| format!("{op:?}")).collect();
    format!("{}\n  {}", found.what, shown.join("\n  "))
}
