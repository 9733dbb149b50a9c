//! The server of a mount is killed, is told to end, or loses its pool: what was promised is there afterwards.
//!
//! It takes root and `/dev/fuse`; without them the tests say that they are skipped.

use crate::shared::evidence;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use media::nvmm::Access;
use media::nvmm::null::Null;
use vfs::{Durability, LeftOut};

use crate::shared::place::{
    DESIGNS, Place, can_mount, designs, pattern, promises, run, stderr, wanted, weir,
};

/// What a worker knows to be durable.
#[derive(Default)]
struct Promised {
    /// Bytes of its log that a sync has covered.
    synced: usize,
    /// Directories that were made and not removed.
    made: Vec<PathBuf>,
    /// So many of them were made before the last sync.
    made_synced: usize,
}

impl Promised {
    fn sync(&mut self, written: usize) {
        (self.synced, self.made_synced) = (written, self.made.len());
    }

    fn remove_last(&mut self) -> Option<PathBuf> {
        let gone = self.made.pop();
        self.made_synced = self.made_synced.min(self.made.len());
        gone
    }

    /// The directories that must be there: a design may keep a change of names for the next sync.
    fn kept(&self, design: &str) -> &[PathBuf] {
        match promises(design).metadata {
            Durability::OnSync => &self.made[..self.made_synced],
            Durability::OnReturn => &self.made,
        }
    }
}

/// The bytes of a worker's log, each of which tells where it belongs.
fn log_bytes(worker: u64, from: usize, len: usize) -> Vec<u8> {
    (from as u64..(from + len) as u64)
        .map(|at| (1 + (at * 131 + at / 251 + worker * 17) % 255) as u8)
        .collect()
}

/// Appends to a log and syncs it now and then, and changes names beside it, until the server is gone.
fn load(dir: &Path, worker: u64, seed: sim::Seed, promised: &Mutex<Promised>) -> std::io::Result<()> {
    let path = dir.join(format!("log {worker}"));
    let mut log = OpenOptions::new().append(true).create(true).open(&path)?;
    let mut written = log.metadata()?.len() as usize;
    for step in 0.. {
        let dice = seed.derive("step", step).0;
        let piece = log_bytes(worker, written, 1 + (dice % 9000) as usize);
        log.write_all(&piece)?;
        written += piece.len();
        match dice >> 32 & 7 {
            0 | 1 => {
                log.sync_data()?;
                promised.lock().unwrap().sync(written);
            }
            2 => {
                let made = dir.join(format!("made {worker} {:x}", dice >> 40));
                if fs::create_dir(&made).is_ok() {
                    promised.lock().unwrap().made.push(made);
                }
            }
            3 => {
                let gone = promised.lock().unwrap().remove_last();
                gone.map_or(Ok(()), fs::remove_dir)?;
            }
            4 => {
                let (new, old) = (dir.join(format!("new {worker}")), dir.join(format!("old {worker}")));
                fs::write(&new, &piece)?;
                fs::rename(&new, &old)?;
            }
            _ => {}
        }
        if written > 4 << 20 {
            log.set_len(0)?;
            (written, promised.lock().unwrap().synced) = (0, 0);
        }
    }
    Ok(())
}

/// Every byte that is there is one that was written, and those that were synced are all there. Without a journal a name may be lost
/// when others of its directory change: ext2 promises only that the mount repairs the pool.
fn check_promises(dir: &Path, worker: u64, promised: &mut Promised, design: &str, told: &str) {
    if promises(design).repaired {
        return *promised = Promised::default();
    }
    let log = fs::read(dir.join(format!("log {worker}"))).unwrap_or_default();
    assert!(log.len() >= promised.synced, "{told}: {} of {} synced bytes", log.len(), promised.synced);
    assert!(log == log_bytes(worker, 0, log.len()), "{told}: log {worker} has bytes that were never written");
    for made in promised.kept(design) {
        assert!(made.is_dir(), "{told}: {} has gone", made.display());
    }
    promised.made.retain(|made| made.is_dir());
    promised.made_synced = promised.made.len();
}

/// `WEIR_KILL_ROUNDS=200` for a campaign, `WEIR_KILL_SEED` for another one, `WEIR_KILL_DESIGN=nova` for one design.
#[test]
fn a_server_that_was_killed_leaves_what_it_had_promised() {
    let (rounds, seed) = (wanted("WEIR_KILL_ROUNDS", 5), wanted("WEIR_KILL_SEED", 1));
    let only = std::env::var("WEIR_KILL_DESIGN").ok();
    for design in designs().filter(|design| only.as_ref().is_none_or(|only| only == design) && can_mount()) {
        let place = Place::new(design);
        let promised: Arc<[Mutex<Promised>; 3]> = Arc::default();
        for round in 0..rounds {
            let told = format!("{design}, seed {seed}, round {round}");
            let mut server = place.serve("");
            for (worker, promised) in promised.iter().enumerate() {
                check_promises(&place.dir(), worker as u64, &mut promised.lock().unwrap(), design, &told);
            }
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let (dir, promised) = (place.dir(), Arc::clone(&promised));
                    let seed = sim::Seed(seed).derive(design, round * 3 + worker);
                    // The log starts anew: what was not synced may have been lost.
                    let _ = fs::remove_file(dir.join(format!("log {worker}")));
                    promised[worker as usize].lock().unwrap().synced = 0;
                    thread::spawn(move || load(&dir, worker, seed, &promised[worker as usize]))
                })
                .collect();
            let moment = sim::Seed(seed).derive("moment", round).0 % 150;
            thread::sleep(std::time::Duration::from_millis(10 + moment));
            server.kill().unwrap();
            server.wait().unwrap();
            for worker in workers {
                let ended = worker.join().unwrap().expect_err("the server has gone");
                assert!(
                    matches!(ended.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted),
                    "{told}: {ended}"
                );
            }
            let stale = place.command("").output().unwrap();
            assert_eq!(stale.status.code(), Some(2), "{}", stderr(&stale));
            assert!(stderr(&stale).contains("or mount with --replace-stale"), "{}", stderr(&stale));
            // A command that has no such option says how to unmount, and no more.
            let served = weir()
                .args(["serve", "block", "--medium", "ram", "--mount"])
                .arg(place.dir())
                .output()
                .unwrap();
            assert!(
                stderr(&served).contains("weir umount") && !stderr(&served).contains("--replace"),
                "{}",
                stderr(&served)
            );
            place.umount();
        }
        place.mount("");
        for (worker, promised) in promised.iter().enumerate() {
            check_promises(&place.dir(), worker as u64, &mut promised.lock().unwrap(), design, design);
        }
        place.umount();
        place.check();
        println!("{design}: {rounds} times killed, nothing lost that was promised");
        evidence::record("mount/killed", design, (rounds as usize, "kills"), 0, Some(seed));
    }
}

#[test]
fn a_sync_of_the_mount_makes_durable_what_no_file_was_asked_for() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let slow = if design == "hinfs" { "medium_write=1us" } else { "" };
        let mut server = place.serve(slow);
        let (synced, later) = (place.dir().join("synced"), place.dir().join("later"));
        fs::write(&synced, pattern(1, 500_000)).unwrap();
        run(weir().arg("sync").arg(place.dir()));
        fs::write(&later, pattern(2, 500_000)).unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        let stale = weir().arg("sync").arg(place.dir()).output().unwrap();
        assert_eq!(stale.status.code(), Some(4), "{}", stderr(&stale));
        assert!(stderr(&stale).contains("weir umount"), "{}", stderr(&stale));
        place.umount();
        let idle = weir().arg("sync").arg(place.dir()).output().unwrap();
        assert!(stderr(&idle).contains("nothing is mounted"), "{}", stderr(&idle));
        place.mount("");
        assert!(fs::read(&synced).unwrap() == pattern(1, 500_000), "{design}");
        // What the design keeps in DRAM goes with its server: the sync has done something.
        assert_eq!(fs::metadata(&later).unwrap().len() == 0, design == "hinfs", "{design}");
        place.umount();
        place.check();
    }
}

/// The kernel keeps them back for a while, as it may.
#[test]
fn a_sync_of_the_mount_covers_stores_through_a_shared_map() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let mut server = place.serve("");
        let path = place.dir().join("file");
        File::create(&path).unwrap().set_len(100_000).unwrap();
        let map = media::Region::file(&path, None, Access::ReadWrite, Box::new(Null)).unwrap();
        map.store(0, &pattern(3, 100_000)).unwrap();
        run(weir().arg("sync").arg(place.dir()));
        server.kill().unwrap();
        server.wait().unwrap();
        drop(map);
        place.umount();
        place.mount("");
        assert!(fs::read(&path).unwrap() == pattern(3, 100_000), "{design}");
        place.umount();
        place.check();
    }
}

/// Makes kinds of what has a name, and makes every call that changes one. `nodes`: the format has room for FIFOs.
fn change_names(dir: &Path, nodes: bool) {
    let at = |name: &str| dir.join(name);
    fs::create_dir(at("dir")).unwrap();
    fs::create_dir(at("dir/gone")).unwrap();
    fs::remove_dir(at("dir/gone")).unwrap();
    File::create(at("file")).unwrap();
    fs::rename(at("file"), at("dir/moved")).unwrap();
    fs::hard_link(at("dir/moved"), at("hard")).unwrap();
    std::os::unix::fs::symlink("dir/moved", at("soft")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    let made = rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), fifo, 0o600.into(), 0);
    if nodes {
        made.unwrap();
    } else {
        assert_eq!(made, Err(rustix::io::Errno::OPNOTSUPP));
        File::create(at("pipe")).unwrap();
    }
    File::create(at("gone")).unwrap();
    fs::remove_file(at("gone")).unwrap();
    for name in ["old", "new"] {
        fs::write(at(name), name).unwrap();
        File::open(at(name)).unwrap().sync_all().unwrap();
    }
    fs::rename(at("new"), at("old")).unwrap();
}

#[test]
fn with_dirsync_and_sync_changes_of_names_are_durable_when_they_return() {
    for design in designs().filter(|_| can_mount()) {
        for (first, later) in [("dirsync", None), ("sync", None), ("", Some("remount,dirsync"))] {
            let told = format!("{design}, {first}, {later:?}");
            let place = Place::new(design);
            let mut server = place.serve(first);
            if let Some(words) = later {
                run(weir().args(["mount", design, "-o", words]).args([place.pool(), place.dir()]));
            }
            change_names(&place.dir(), !promises(design).left_out.contains(LeftOut::NODES));
            server.kill().unwrap();
            server.wait().unwrap();
            place.umount();
            place.mount("");
            let names = |dir: PathBuf| {
                let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
                let mut names: Vec<_> = names.filter(|name| name != "lost+found").collect();
                names.sort();
                names
            };
            assert_eq!(names(place.dir()), ["dir", "hard", "old", "pipe", "soft"], "{told}");
            assert_eq!(names(place.dir().join("dir")), ["moved"], "{told}");
            assert_eq!(fs::read_to_string(place.dir().join("old")).unwrap(), "new", "{told}");
            assert_eq!(fs::metadata(place.dir().join("hard")).unwrap().nlink(), 2, "{told}");
            place.umount();
            place.check();
        }
    }
}

#[test]
fn a_mount_goes_on_when_who_started_it_does_not_hear_that_it_is_ready() {
    let Some(full) = File::options().write(true).open("/dev/full").ok().filter(|_| can_mount()) else {
        return;
    };
    let place = Place::new("pmfs");
    let mut server = place.command("").arg("--tell-ready").stdout(full).spawn().unwrap();
    while !place.is_mounted() {
        assert_eq!(server.try_wait().unwrap(), None, "the server has ended");
        thread::yield_now();
    }
    fs::write(place.dir().join("file"), "x").unwrap();
    place.umount();
    assert!(server.wait().unwrap().success());
    place.check();
}

#[test]
fn an_unmount_says_that_the_server_had_gone() {
    if !can_mount() {
        return;
    }
    let place = Place::new("pmfs");
    let mut server = place.serve("");
    server.kill().unwrap();
    server.wait().unwrap();
    let output = weir().arg("umount").arg(place.dir()).output().unwrap();
    assert!(
        output.status.success() && stderr(&output).contains("the server had gone"),
        "{}",
        stderr(&output)
    );
    // One that is there has nothing to tell.
    let mut server = place.serve("");
    let output = weir().arg("umount").arg(place.dir()).output().unwrap();
    assert!(output.status.success() && !stderr(&output).contains("had gone"), "{}", stderr(&output));
    server.wait().unwrap();
    place.check();
}

#[test]
fn a_mount_whose_server_has_gone_is_replaced_when_that_is_asked_for() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let mut server = place.serve("");
        fs::write(place.dir().join("file"), "synced").unwrap();
        run(weir().arg("sync").arg(place.dir()));
        server.kill().unwrap();
        server.wait().unwrap();
        let refused = place.command("").output().unwrap();
        assert!(stderr(&refused).contains("server has gone"), "{}", stderr(&refused));
        run(place.command("").arg("--replace-stale"));
        assert_eq!(fs::read_to_string(place.dir().join("file")).unwrap(), "synced", "{design}");
        place.umount();
        place.check();
    }
}

/// The pool is cut short under the mount, and made whole again.
#[test]
fn a_server_whose_pool_is_cut_short_ends_with_the_reason_and_keeps_what_was_synced() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let (mut server, told) = place.serve_and_listen("");
        let synced = File::create(place.dir().join("synced")).unwrap();
        (&synced).write_all(&pattern(9, 100_000)).unwrap();
        synced.sync_all().unwrap();
        drop(synced);
        let whole = fs::read(place.pool()).unwrap();
        File::options().write(true).open(place.pool()).unwrap().set_len(1 << 20).unwrap();
        let failed = (0..1000).find_map(|n| fs::write(place.dir().join(format!("f{n}")), [1; 4096]).err());
        assert!(failed.is_some(), "{design}: nothing was missing");
        assert_eq!(server.wait().unwrap().code(), Some(4), "{design}");
        let told = told.collect::<Vec<_>>().join("\n");
        assert!(told.contains("has lost part of its file"), "{design}: {told}");
        assert!(weir().arg("umount").arg(place.dir()).status().unwrap().success());
        let refused = weir().arg("mount").arg(design).args([place.pool(), place.dir()]).output().unwrap();
        assert_eq!(refused.status.code(), Some(5), "{design}: {}", stderr(&refused));
        fs::write(place.pool(), whole).unwrap();
        place.mount("");
        assert!(fs::read(place.dir().join("synced")).unwrap() == pattern(9, 100_000), "{design}");
        place.umount();
        place.check();
    }
}

#[test]
fn a_signal_unmounts_and_leaves_a_clean_pool() {
    for design in DESIGNS.into_iter().filter(|_| can_mount()) {
        let place = Place::new(design);
        let mut server = place.serve("volatile");
        fs::write(place.dir().join("file"), pattern(5, 200_000)).unwrap();
        let pid = rustix::process::Pid::from_child(&server);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(server.wait().unwrap().success());
        assert!(!place.is_mounted());
        place.check();
        place.mount("");
        let mut bytes = Vec::new();
        File::open(place.dir().join("file")).unwrap().read_to_end(&mut bytes).unwrap();
        assert!(bytes == pattern(5, 200_000));
        place.umount();
    }
}
