//! The kernel mounts what was written here, and we read what the kernel wrote. As root, where loop devices are.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use check::configured::virtually;
use check::observe;
use media::nvmm::Region;
use sim::Bytes;

use crate::ext4::judged;
use crate::ext4::kernel_images::{FEATURES, fill, made_by_mkfs, shown};
use crate::ext4::tools::{Scratch, e2fsck, has_e2fsck, run, save};

/// Contents of the files below a directory by path; of a symbolic link its target.
fn files(root: &Path, folder: &Path, into: &mut BTreeMap<String, Vec<u8>>) {
    for entry in std::fs::read_dir(folder).expect("a directory").flatten() {
        let path = entry.path();
        let kind = entry.file_type().expect("a kind");
        let name = path.strip_prefix(root).expect("below").display().to_string();
        if kind.is_dir() {
            files(root, &path, into);
        } else if kind.is_symlink() {
            let target = std::fs::read_link(&path).expect("a link");
            into.insert(name, target.display().to_string().into_bytes());
        } else {
            into.insert(name, std::fs::read(&path).expect("a file"));
        }
    }
}

/// The same of a tree that was observed here.
fn files_of(tree: &check::Tree) -> BTreeMap<String, Vec<u8>> {
    let file =
        |entry: &check::tree::Entry| matches!(entry.kind, vfs::FileKind::Regular | vfs::FileKind::Symlink);
    tree.iter()
        .filter(|(_, entry)| file(entry))
        .map(|(path, entry)| (path.clone(), entry.content.to_vec()))
        .collect()
}

/// Mounts an image in the kernel while `work` looks at it; none where the kernel mounts no image at all.
pub(crate) fn in_kernel<T>(image: &Scratch, options: &str, work: impl FnOnce(&Path) -> T) -> Option<T> {
    static WORKS: OnceLock<bool> = OnceLock::new();
    let works = *WORKS.get_or_init(|| {
        let sound = save(&made_by_mkfs(&["-t", "ext4"], 4));
        let mounted = try_in_kernel(&sound, "ro", |_| ());
        mounted.inspect_err(|said| eprintln!("SKIPPED: no loop mount here: {said}")).is_ok()
    });
    works.then(|| try_in_kernel(image, options, work).unwrap_or_else(|said| panic!("the kernel: {said}")))
}

fn try_in_kernel<T>(image: &Scratch, options: &str, work: impl FnOnce(&Path) -> T) -> Result<T, String> {
    let folder = format!("{}.mount", image.0);
    std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
    let mounted = run("mount", &["-t", "ext4", "-o", &format!("loop,{options}"), &image.0, &folder]);
    let done = if mounted.status.success() {
        let done = work(Path::new(&folder));
        // A child of another test's has what is open here, until it runs its program.
        let unmounts = |_| {
            let gone = run("umount", &[&folder]).status.success();
            gone || {
                std::thread::sleep(Duration::from_millis(100));
                false
            }
        };
        assert!((0..3000).any(unmounts), "umount {folder}");
        Ok(done)
    } else {
        Err(String::from_utf8_lossy(&mounted.stderr).into_owned())
    };
    let _ = std::fs::remove_dir(&folder);
    done
}

#[test]
fn the_kernel_shows_our_files_and_we_show_those_of_the_kernel() {
    if !has_e2fsck() {
        return;
    }
    for features in FEATURES {
        let region = made_by_mkfs(features, 48);
        let design = judged("ext4", &[]);
        let ours = {
            let region = Arc::clone(&region);
            virtually(5, move || {
                let fs = design.mount(&region)?;
                fill(&*fs);
                let tree = observe(&*fs)?;
                fs.unmount().map_err(|errno| errno.name().to_owned())?;
                Ok::<_, String>(tree)
            })
        }
        .unwrap_or_else(|what| panic!("{features:?}: {what}"));
        let image = save(&region);
        let look = |root: &Path| {
            let mut found = BTreeMap::new();
            files(root, root, &mut found);
            // Then the kernel changes it: a directory that needs an index, holes, a removal.
            std::fs::create_dir(root.join("kernel")).expect("mkdir");
            for number in 0..500_usize {
                let name = root.join("kernel").join(format!("made by the kernel, number {number}"));
                std::fs::write(name, vec![number as u8; number * 3]).expect("write");
            }
            std::fs::remove_file(root.join("large")).expect("unlink");
            let mut after = BTreeMap::new();
            files(root, root, &mut after);
            (found, after)
        };
        let Some((seen, after)) = in_kernel(&image, "rw", look) else { return };
        assert!(seen == files_of(&ours), "{features:?}: the kernel shows other files than were written");
        let changed: Arc<Region> = check::configured::region(Bytes(region.len()));
        changed.store(0, &std::fs::read(&image.0).expect("the image")).expect("it fits");
        assert!(files_of(&shown(&changed)) == after, "{features:?}: other files than the kernel wrote");
        e2fsck(&changed).unwrap_or_else(|said| panic!("{features:?}: {said}"));
    }
}
