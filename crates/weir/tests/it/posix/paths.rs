//! What every path may be: the errors that all calls with paths share (POSIX, Base Definitions 4.16, and the ERRORS of each call).

use vfs::{Errno, FileKind, LeftOut, OpenFlags, RenameFlags, SetAttr, SetTime, Syscalls};

use super::world::{ALICE, Ground, MAKE, READ, ROOT, done, fails, make, mode, owner};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("ENOTDIR: a component of the prefix is not a directory", prefix_is_a_file),
    ("ENOENT: a component of the prefix does not exist", prefix_is_missing),
    ("ENOENT: the empty path", empty_path),
    ("ENAMETOOLONG: a component is longer than NAME_MAX, 255 bytes of most designs, which work", long_names),
    ("ENAMETOOLONG: the path is longer than 4095 bytes, and 4095 work", long_paths),
    ("ELOOP: symbolic links lead in circles", circles),
    ("EACCES: a directory of the prefix may not be searched", unsearchable),
    ("a name may have any bytes but zero and the slash", any_bytes),
    ("a trailing slash demands a directory", trailing_slash),
];

type Call = (&'static str, fn(&dyn Syscalls, &[u8]) -> Result<(), Errno>);

/// Every call that takes a path of something that exists.
const EXISTING: &[Call] = &[
    ("open", |calls, path| calls.open(path, READ, 0).and_then(|fd| calls.close(fd))),
    ("stat", |calls, path| calls.stat(path).map(drop)),
    ("lstat", |calls, path| calls.lstat(path).map(drop)),
    ("chmod", |calls, path| calls.setattr(path, &mode(0o644))),
    ("chown", |calls, path| calls.setattr(path, &owner(ROOT))),
    ("utimens", |calls, path| {
        let now = Some(SetTime::Now);
        calls.setattr(path, &SetAttr { atime: now, mtime: now, ..SetAttr::default() })
    }),
    ("truncate", |calls, path| calls.truncate(path, 10)),
    ("unlink", |calls, path| calls.unlink(path)),
    ("rmdir", |calls, path| calls.rmdir(path)),
    ("readlink", |calls, path| calls.readlink(path).map(drop)),
    ("chdir", |calls, path| calls.chdir(path)),
    ("link from", |calls, path| calls.link(path, b"linked")),
    ("rename from", |calls, path| calls.rename(path, b"renamed", RenameFlags::empty())),
];

/// Every call that makes a name.
const NEW: &[Call] = &[
    ("open O_CREAT", |calls, path| calls.open(path, MAKE, 0o644).and_then(|fd| calls.close(fd))),
    ("mkdir", |calls, path| calls.mkdir(path, 0o755)),
    ("mkfifo", |calls, path| calls.mknod(path, FileKind::Fifo, 0o644, 0)),
    ("symlink", |calls, path| calls.symlink(b"target", path)),
    ("link to", |calls, path| calls.link(b"source", path)),
    ("rename to", |calls, path| calls.rename(b"source", path, RenameFlags::empty())),
];

fn all() -> impl Iterator<Item = &'static Call> {
    EXISTING.iter().chain(NEW)
}

fn prefix_is_a_file(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        make(calls, "file", 0o644)?;
        all().try_for_each(|(name, call)| fails(name, call(calls, b"file/name"), Errno::ENOTDIR))
    })
}

fn prefix_is_missing(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        all().try_for_each(|(name, call)| fails(name, call(calls, b"missing/name"), Errno::ENOENT))?;
        EXISTING.iter().try_for_each(|(name, call)| fails(name, call(calls, b"missing"), Errno::ENOENT))
    })
}

fn empty_path(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        all().try_for_each(|(name, call)| fails(name, call(calls, b""), Errno::ENOENT))
    })
}

fn long_names(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        let (longest, longer) = (vec![b'n'; ground.name_max()], vec![b'n'; ground.name_max() + 1]);
        all().try_for_each(|(name, call)| fails(name, call(calls, &longer), Errno::ENAMETOOLONG))?;
        let lacks = |name: &str| name == "mkfifo" && ground.lacks(LeftOut::NODES);
        for (name, call) in NEW.iter().filter(|(name, _)| !lacks(name)) {
            done(name, call(calls, &longest))?;
            done("stat", calls.lstat(&longest))?;
            match *name {
                "mkdir" => done("rmdir", calls.rmdir(&longest))?,
                "rename to" => {
                    done("rename back", calls.rename(&longest, b"source", RenameFlags::empty()))?;
                }
                _ => done("unlink", calls.unlink(&longest))?,
            }
        }
        Ok(())
    })
}

fn long_paths(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        // 4095 bytes: "././ … ./f".
        let longest = [b"./".repeat(2047), b"f".to_vec()].concat();
        let longer = [b"./".repeat(2047), b"ff".to_vec()].concat();
        all().try_for_each(|(name, call)| fails(name, call(calls, &longer), Errno::ENAMETOOLONG))?;
        done("mkdir", calls.mkdir(&longest, 0o755))?;
        done("rmdir", calls.rmdir(&longest))
    })
}

fn circles(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        done("symlink", calls.symlink(b"b", b"a"))?;
        done("symlink", calls.symlink(b"a", b"b"))?;
        all().try_for_each(|(name, call)| fails(name, call(calls, b"a/name"), Errno::ELOOP))?;
        for name in ["open", "stat", "chmod", "chown", "utimens", "truncate", "chdir"] {
            let call = EXISTING.iter().find(|(other, _)| *other == name).expect("in the table").1;
            fails(name, call(calls, b"a"), Errno::ELOOP)?;
        }
        Ok(())
    })
}

fn unsearchable(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"closed", 0o755))?;
        done("mkdir", calls.mkdir(b"closed/inner", 0o777))?;
        done("chmod", calls.setattr(b"closed/inner", &mode(0o777)))?;
        make(calls, "closed/file", 0o666)?;
        make(calls, "source", 0o666)?;
        done("chown", calls.setattr(b"source", &owner(ALICE)))?;
        done("chown", calls.setattr(b"closed/file", &owner(ALICE)))?;
        done("chmod", calls.setattr(b"closed", &mode(0o644)))
    })?;
    ground.by(ALICE, |calls| {
        EXISTING
            .iter()
            .try_for_each(|(name, call)| fails(name, call(calls, b"closed/file"), Errno::EACCES))?;
        NEW.iter().try_for_each(|(name, call)| fails(name, call(calls, b"closed/inner/new"), Errno::EACCES))
    })
}

fn any_bytes(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        let bytes: Vec<u8> = (1..=255).filter(|byte| *byte != b'/').collect();
        let names: Vec<Vec<u8>> = bytes.chunks(ground.name_max()).map(<[u8]>::to_vec).collect();
        for name in &names {
            done("make", calls.open(name, MAKE, 0o644).and_then(|fd| calls.close(fd)))?;
        }
        let mut found = Vec::new();
        let listed = calls.open(b".", READ.union(OpenFlags::DIRECTORY), 0).and_then(|fd| {
            calls.getdents(fd, &mut |entry| {
                found.push(entry.name.to_vec());
                true
            })?;
            calls.close(fd)
        });
        done("list", listed)?;
        same("listed", names.iter().all(|name| found.contains(name)), true)?;
        names.iter().try_for_each(|name| done("unlink", calls.unlink(name)))
    })
}

fn trailing_slash(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "file", 0o644)?;
        done("mkdir", calls.mkdir(b"dir/", 0o755))?;
        done("stat", calls.stat(b"dir/"))?;
        for (name, call) in EXISTING.iter().filter(|(name, _)| *name != "rmdir" && *name != "readlink") {
            fails(name, call(calls, b"file/"), Errno::ENOTDIR)?;
        }
        done("rmdir", calls.rmdir(b"dir/"))
    })
}
