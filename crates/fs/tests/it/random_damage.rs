//! Bytes that are changed at random, from one to two thousand of them: after a repair fsck finds nothing, or the repair says why it
//! cannot; what is lost is named.

use std::collections::BTreeSet;

use design::FsError;
use media::Storage;
use rand::RngExt as _;
use sim::{Bytes, Seed};
use vfs::{Errno, FileKind, FileSystem, Ino, IoFlags, NewInode, Owner, XattrMode};

use crate::shared::harness::{self, bytes_of, region_of, virtually};

/// How many bytes are damaged.
const DAMAGED: [usize; 4] = [1, 20, 200, 2000];
/// Designs whose repair leaves no violation, however much is damaged. Of the others what is left is counted.
const CONVERGE: [&str; 2] = ["nova", "rcache"];
/// A line of memory: damage is put into lines that hold something.
const LINE: usize = 64;

/// Two directories of files, one below the other; files with several pieces, links, attributes of both sizes.
fn fill(fs: &dyn FileSystem) -> Result<(), Errno> {
    let new = NewInode { perm: 0o644, owner: Owner::default() };
    let dir = fs.mkdir(fs.root(), b"dir", &new)?.ino;
    let sub = fs.mkdir(dir, b"sub", &new)?.ino;
    for number in 0..60_u64 {
        for parent in [fs.root(), dir, sub] {
            let file = fs.create(parent, format!("file number {number}").as_bytes(), &new)?.ino;
            fs.write(file, 0, &[number as u8 + 1; 700], IoFlags::empty())?;
            fs.write(file, 9000 * (number % 3), &[number as u8 + 100; 3000], IoFlags::empty())?;
        }
    }
    let large = fs.create(fs.root(), b"large", &new)?.ino;
    for piece in 0..90_u64 {
        fs.write(large, piece % 40 * 5000, &[piece as u8 + 1; 3000], IoFlags::empty())?;
    }
    fs.symlink(fs.root(), b"short", b"dir", &new)?;
    fs.symlink(sub, b"long", &[b'x'; 300], &new)?;
    fs.link(large, dir, b"link")?;
    fs.rename((dir, b"file number 7"), (sub, b"renamed"), vfs::RenameFlags::empty().into())?;
    fs.unlink(sub, b"file number 9")?;
    for (ino, len) in [(large, 40), (dir, 600)] {
        match fs.setxattr(ino, b"user.colour", &vec![7; len], XattrMode::Set) {
            Ok(()) | Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// The bytes of an unmounted pool of a design.
fn pool(name: &'static str) -> Vec<u8> {
    virtually(1, move || {
        let design = harness::small(name);
        let least = design.design().format().min_size(design.options());
        let region = harness::region(Bytes(least.0.max(6 << 20)));
        design.mkfs(&region).expect("mkfs");
        let fs = design.mount(&region).expect("mount");
        fill(&*fs).unwrap_or_else(|errno| panic!("{name}: {}", errno.name()));
        fs.unmount().expect("unmount");
        bytes_of(&region)
    })
}

/// What became of a damaged pool.
enum Fate {
    /// No violation is left.
    Clean,
    /// A mount refuses it before and after the repair: why.
    Refused(String),
    /// So many violations are left, which fsck names: the first.
    Left(String),
}

/// Looks at every name of a mounted file system.
fn walk(fs: &dyn FileSystem, dir: Ino, depth: u32) -> Result<(), Errno> {
    let mut names = Vec::new();
    fs.readdir(dir, 0, &mut |entry| {
        names.push((entry.name.to_vec(), entry.ino));
        true
    })?;
    for (_, ino) in names.into_iter().filter(|(name, _)| name != b"." && name != b"..") {
        if fs.getattr(ino)?.kind == FileKind::Directory && depth < 8 {
            walk(fs, ino, depth + 1)?;
        }
    }
    Ok(())
}

fn fate(name: &str, bytes: &[u8]) -> Result<Fate, String> {
    let (design, region) = (harness::small(name), region_of(bytes));
    let (format, storage) = (design.design().format(), Storage::from(&region));
    let look = || match format.replay(&storage) {
        Ok(_) => Ok(format.fsck(&storage).violations),
        Err(error) => Err(error.to_string()),
    };
    let before = look();
    let replayed = bytes_of(&region);
    let done = match format.repair(&storage) {
        Err(FsError::WouldLose { what }) => {
            if bytes_of(&region) != replayed {
                return Err(format!("a repair that was refused has changed the pool: {what}"));
            }
            format.repair_at_any_loss(&storage)
        }
        done => done,
    };
    let done = match done {
        Ok(done) => done,
        Err(error) => return Ok(Fate::Refused(error.to_string())),
    };
    let left = match look() {
        Ok(left) => left,
        Err(error) => return Ok(Fate::Refused(error)),
    };
    if let Some(first) = left.first() {
        return Ok(Fate::Left(format!("{} violations are left: {first}", left.len())));
    }
    if !matches!(before, Ok(before) if before.is_empty()) && done.is_empty() {
        return Err("something was repaired, and nothing said".to_owned());
    }
    let fs = design.mount(&region)?;
    walk(&*fs, fs.root(), 0).map_err(|errno| format!("after the repair: {}", errno.name()))?;
    fs.unmount().map_err(|errno| errno.name().to_owned())?;
    match look()?.first() {
        Some(first) => Err(format!("after a mount: {first}")),
        None => Ok(Fate::Clean),
    }
}

/// Changes so many bytes, of lines that hold something or of all.
fn damage(bytes: &mut [u8], count: usize, seed: u64) {
    let mut rng = Seed(seed).rng();
    let used: Vec<usize> = (0..bytes.len())
        .step_by(LINE)
        .filter(|at| bytes[*at..][..LINE].iter().any(|byte| *byte != 0))
        .collect();
    for _ in 0..count {
        let at = match seed % 3 {
            0 => rng.random_range(0..bytes.len()),
            _ => used[rng.random_range(0..used.len())] + rng.random_range(0..LINE),
        };
        bytes[at] ^= rng.random_range(1..=255_u8);
    }
}

/// All seeds of a design: what was not repaired.
fn failures(name: &'static str, seeds: u64) -> (Vec<String>, BTreeSet<String>) {
    let (sound, mut failures, mut refusals) = (pool(name), Vec::new(), BTreeSet::new());
    for count in DAMAGED {
        let (mut clean, mut refused, mut left) = (0, 0, 0);
        for seed in 1..=seeds {
            let mut bytes = sound.clone();
            damage(&mut bytes, count, seed);
            match virtually(seed, move || fate(name, &bytes)) {
                Ok(Fate::Clean) => clean += 1,
                Ok(Fate::Left(what)) if CONVERGE.contains(&name) || count == 1 => {
                    failures.push(format!("{count} bytes, seed {seed}: {what}"));
                }
                Ok(Fate::Left(_)) => left += 1,
                Ok(Fate::Refused(why)) => {
                    refused += 1;
                    refusals.insert(why);
                }
                Err(what) => failures.push(format!("{count} bytes, seed {seed}: {what}")),
            }
        }
        println!(
            "{name}: {count} bytes: {clean} of {seeds} clean, {refused} refused, {left} with violations left"
        );
    }
    (failures, refusals)
}

/// Every design in memory. `WEIR_DAMAGE_SEEDS` tries more, `WEIR_DAMAGE_FS=words` only designs whose names contain the words.
#[test]
fn a_repair_of_random_damage_leaves_no_violation() {
    let seeds = std::env::var("WEIR_DAMAGE_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6);
    let wanted = std::env::var("WEIR_DAMAGE_FS").unwrap_or_default();
    let mut wrong = Vec::new();
    for name in harness::names().filter(|name| name.contains(&wanted) && harness::is_in_memory(name)) {
        let (failures, refusals) = failures(name, seeds);
        for why in &refusals {
            println!("{name}: refused: {why}");
        }
        wrong.extend(failures.into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
