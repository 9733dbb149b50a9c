//! Long programs on images that mkfs.ext4 made, with the kernel's mount as the last judge; and the way back, what the kernel
//! filled.
//! As root, where loop devices are.
//!
//! `WEIR_EXT4_OPS=100000` does so many operations on each image instead of 1,000; `WEIR_EXT4_NAMES=300000` fills a directory with
//! so many names instead of 3,000. `tests/ext4/run.sh` does both.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use check::configured::virtually;
use check::configured::{Altered, Sound};
use check::lockstep::{Round, run as in_lockstep};
use check::{NEW, Op};
use media::nvmm::Region;
use sim::Bytes;
use vfs::{FallocateMode, FileSystem, IoFlags};

use crate::ext4::kernel_crashes::{Shown, by_kernel, by_us, wanted};
use crate::ext4::kernel_images::made_by_mkfs;
use crate::ext4::kernel_mounts::in_kernel;
use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save};
use crate::ext4::{Judged, judged};

/// Feature sets: block sizes, with and without journal, checksums, index, attributes in the inode.
const FEATURES: [&[&str]; 8] = [
    &["-t", "ext4", "-b", "1024"],
    &["-t", "ext4", "-b", "4096"],
    &["-t", "ext4", "-b", "1024", "-O", "^has_journal"],
    &["-t", "ext4", "-b", "4096", "-O", "^metadata_csum,uninit_bg"],
    &["-t", "ext4", "-b", "1024", "-O", "^dir_index"],
    &["-t", "ext4", "-b", "1024", "-O", "^has_journal,^metadata_csum", "-I", "128"],
    &["-t", "ext4", "-b", "4096", "-I", "1024"],
    &["-t", "ext2", "-b", "1024"],
];
const MIB: u64 = 24;

/// Images by mkfs.ext4 as a design; the last one is kept.
struct Made {
    judged: Judged,
    features: &'static [&'static str],
    last: Mutex<Option<Arc<Region>>>,
}

/// [`Made`] in place of the design's own steps.
struct ByMkfs(Arc<Made>);

impl Altered for ByMkfs {
    fn mkfs(&self, sound: &Sound, region: &Arc<Region>) -> Result<(), String> {
        let mut bytes = vec![0; region.len() as usize];
        made_by_mkfs(self.0.features, MIB).peek(0, &mut bytes).expect("the whole image");
        region.store(0, &bytes).expect("it fits");
        // The reference begins with an empty root.
        let fs = self.mount(sound, region)?;
        fs.rmdir(fs.root(), b"lost+found").map_err(|errno| errno.to_string())?;
        fs.unmount().map_err(|errno| errno.to_string())?;
        *self.0.last.lock().expect("no thread panics with it") = Some(Arc::clone(region));
        Ok(())
    }

    fn mount(&self, _: &Sound, region: &Arc<Region>) -> Result<Arc<dyn FileSystem>, String> {
        self.0.judged.mount(region)
    }

    fn recover(&self, _: &Sound, region: &Arc<Region>) -> Result<(), String> {
        self.0.judged.recover(region)
    }

    fn fsck(&self, _: &Sound, region: &Arc<Region>) -> Vec<String> {
        self.0.judged.fsck(region)
    }
}

fn tree(root: &Path) -> BTreeMap<String, Shown> {
    let mut found = BTreeMap::new();
    by_kernel(root, root, &mut found);
    found
}

/// The same tree, or where it differs.
fn same(kernel: &BTreeMap<String, Shown>, weir: &BTreeMap<String, Shown>) -> Result<(), String> {
    let differs = |path: &&String| kernel.get(*path) != weir.get(*path);
    match kernel.keys().chain(weir.keys()).find(differs) {
        None => Ok(()),
        Some(path) => {
            let shown =
                |tree: &BTreeMap<String, Shown>| tree.get(path).map(|shown| (shown.0, shown.1, shown.3));
            Err(format!("\"{path}\": the kernel shows {:?}, weir {:?}", shown(kernel), shown(weir)))
        }
    }
}

/// Every remount asks e2fsck (`Judged::fsck`); one comes at every thousandth operation, and about ten between these.
#[test]
fn random_operations_on_an_image_of_mkfs_leave_what_e2fsck_finds_clean_and_the_kernel_shows() {
    if !has_e2fsck() {
        return;
    }
    let ops = wanted("WEIR_EXT4_OPS", 1000) as usize;
    for (seed, features) in (7000..).zip(FEATURES) {
        let made = Arc::new(Made { judged: judged("ext4", &[]), features, last: Mutex::default() });
        let design = made.judged.as_altered(ByMkfs(Arc::clone(&made)));
        let size = Bytes::mib(MIB);
        // A few more, because some are left out.
        let drawn = ops + ops / 8;
        let mut program =
            Round { design: Arc::clone(&design), size, seed, ops: drawn, maps: false }.program();
        // A target must fit into a block (ENAMETOOLONG), which the reference does not know.
        let longest = if features.contains(&"1024") { 1023 } else { 4095 };
        program.retain(|op| !matches!(op, Op::Symlink(_, len) if *len > longest));
        // Inodes of 128 bytes have whole seconds until 2038.
        let whole_seconds = features.contains(&"128");
        program.retain(|op| !(whole_seconds && matches!(op, Op::Utimes(..))));
        // Files without extents have no blocks that are only reserved, which the reference for ext4 does not know.
        let has_extents = !features.contains(&"ext2");
        let frees = FallocateMode::PUNCH_HOLE | FallocateMode::ZERO_RANGE;
        program
            .retain(|op| has_extents || !matches!(op, Op::Fallocate(_, mode, ..) if !mode.intersects(frees)));
        assert!(program.len() >= ops, "more than an eighth is left out");
        program.truncate(ops);
        let with_checks = program.chunks(999).flat_map(|some| some.iter().cloned().chain([Op::Remount]));
        let program: Vec<Op> = with_checks.collect();
        let (seen, _) = in_lockstep(&design, size, seed, &program, None)
            .unwrap_or_else(|found| panic!("{features:?}, seed {seed}, {}: {}", found.ops, found.what));
        let region = made.last.lock().expect("no thread panics with it").clone().expect("an image");
        let Some(kernel) = in_kernel(&save(&region), "ro", tree) else { return };
        let weir = by_us(&design, &region).expect("a sound image");
        same(&kernel, &weir).unwrap_or_else(|what| panic!("{features:?}, seed {seed}: {what}"));
        println!(
            "{features:?}, seed {seed}: {} operations, {} times e2fsck, {} names in the kernel's mount",
            seen.ops,
            seen.remounts,
            kernel.len()
        );
    }
}

/// Copies a folder.
fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("mkdir");
    for entry in std::fs::read_dir(from).expect("a directory").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type().expect("a kind").is_dir() {
            copy_all(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("a copy");
        }
    }
}

/// By the kernel: a source tree, a directory of many names, two files in many pieces, one of them with holes.
fn fill_by_kernel(root: &Path, names: u64) {
    copy_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &root.join("source"));
    let many = root.join("many");
    std::fs::create_dir(&many).expect("mkdir");
    for number in 0..names {
        std::fs::File::create(many.join(format!("name number {number}"))).expect("create");
    }
    for number in (0..names).step_by(7) {
        std::fs::remove_file(many.join(format!("name number {number}"))).expect("unlink");
    }
    let open = |name| OpenOptions::new().create(true).append(true).open(root.join(name)).expect("open");
    let (mut first, mut second) = (open("fragmented"), open("beside"));
    for piece in 0..200_u8 {
        for file in [&mut first, &mut second] {
            file.write_all(&[piece | 1; 5000]).expect("write");
            file.sync_all().expect("fsync");
        }
        if piece % 10 == 0 {
            second.set_len(u64::from(piece) * 9000 + 5000).expect("a hole");
        }
    }
}

fn load(image: &Scratch) -> Arc<Region> {
    let bytes = std::fs::read(&image.0).expect("the image");
    let region = check::configured::region(Bytes(bytes.len() as u64));
    region.store(0, &bytes).expect("it fits");
    region
}

#[test]
fn what_the_kernel_fills_reads_here_as_the_kernel_has_written_it() {
    if !has_e2fsck() {
        return;
    }
    let names = wanted("WEIR_EXT4_NAMES", 3000);
    let (mib, inodes) = (48 + names / 1000, (names + 3000).to_string());
    let small: [&[&str]; 3] = [
        &["-t", "ext4", "-b", "1024", "-N", &inodes],
        &["-t", "ext4", "-b", "4096", "-N", &inodes],
        &["-t", "ext2", "-b", "4096", "-N", &inodes],
    ];
    for features in small {
        let image = save(&made_by_mkfs(features, mib));
        // Two levels of an index of blocks of 1 KiB hold no more (without large_dir).
        let names = if features.contains(&"1024") { names.min(100_000) } else { names };
        let fill = |root: &Path| {
            fill_by_kernel(root, names);
            tree(root)
        };
        let Some(kernel) = in_kernel(&image, "rw", fill) else { return };
        let region = load(&image);
        let design = judged("ext4", &[]).configured();
        let weir = by_us(&design, &region).expect("a sound image");
        same(&kernel, &weir).unwrap_or_else(|what| panic!("{features:?}: {what}"));
        e2fsck(&region).unwrap_or_else(|said| panic!("{features:?}: {said}"));
        println!("{features:?}: {} names and their contents are as the kernel wrote them", weir.len());
    }
}

/// Changes a tree here: new files in the kernel's directories, a removal, a rename.
fn change(region: &Arc<Region>, round: &str) {
    let (design, region, round) = (judged("ext4", &[]), Arc::clone(region), round.to_owned());
    virtually(9, move || {
        let fs = design.mount(&region).expect("mount");
        let many = fs.lookup(fs.root(), b"many").expect("the kernel's directory").ino;
        for number in 0..300 {
            let file = fs.create(many, format!("{round} {number}").as_bytes(), &NEW).expect("create").ino;
            fs.write(file, 0, &vec![number as u8; number * 11], IoFlags::empty()).expect("write");
        }
        let from = format!("{round} 5");
        let to = format!("moved by {round}");
        fs.rename((many, from.as_bytes()), (fs.root(), to.as_bytes()), vfs::RenameFlags::empty().into())
            .expect("rename");
        fs.unlink(many, format!("{round} 7").as_bytes()).expect("unlink");
        fs.unmount().expect("unmount");
    });
}

#[test]
fn an_image_goes_back_and_forth_and_is_resized_between() {
    if !has_e2fsck() {
        return;
    }
    let design = judged("ext4", &[]).configured();
    for features in [&["-t", "ext4", "-b", "1024"][..], &["-t", "ext4", "-b", "4096", "-O", "^64bit"]] {
        let image = save(&made_by_mkfs(features, 40));
        let fill = |root: &Path| fill_by_kernel(root, 1000);
        if in_kernel(&image, "rw", fill).is_none() {
            return;
        }
        for (round, mib) in [("first", 40), ("second", 90)] {
            let region = load(&image);
            change(&region, round);
            e2fsck(&region).unwrap_or_else(|said| panic!("{features:?}, {round}: {said}"));
            let (weir, larger) = (by_us(&design, &region).expect("a sound image"), save(&region));
            std::fs::copy(&larger.0, &image.0).expect("room");
            let kernel = in_kernel(&image, "ro", tree).expect("it was mounted before");
            same(&kernel, &weir).unwrap_or_else(|what| panic!("{features:?}, {round}: {what}"));
            if mib < 90 {
                let file = OpenOptions::new().write(true).open(&image.0).expect("the image");
                file.set_len(90 << 20).expect("room");
                for (tool, flags) in [("e2fsck", &["-fy"][..]), ("resize2fs", &[])] {
                    let arguments: Vec<_> = flags.iter().copied().chain([&*image.0]).collect();
                    let output = run(tool, &arguments);
                    let said = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.code().is_some_and(|code| code <= 1), "{tool}: {said}");
                }
            }
        }
        println!("{features:?}: filled by the kernel, changed here, resized, changed here again");
    }
}
