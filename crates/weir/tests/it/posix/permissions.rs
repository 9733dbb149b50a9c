//! Who may do what; owners and mode bits.

use vfs::{Errno, FileKind, LeftOut, OpenFlags, RenameFlags, SetAttr, SetTime, Syscalls, Timestamp};

use super::world::{
    ALICE, BOB, CAROL, Ground, MAKE, READ, READ_WRITE, ROOT, WRITE, attr, done, fails, make, mode, owner,
    with,
};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("open allows what the bits of the one class say, and no other class counts", open_by_bits),
    ("names change only where the directory may be written and searched", directory_rights),
    ("a directory that may be read but not searched shows names and nothing else", read_without_search),
    ("a sticky directory: only owners remove and rename", sticky),
    ("chmod: only the owner and root; EPERM", chmod_by_owner),
    ("chmod sets every bit of every kind", chmod_sets),
    ("chmod by the owner outside the group clears the set-group-id bit", chmod_clears_setgid),
    ("chown: root gives a file away, its owner only to a group of hers", chown_rights),
    ("chown by a user clears the set-id bits of a program", chown_clears),
    ("chown with nothing to change keeps owner and group", chown_of_nothing),
    ("a write by somebody else clears the set-id bits", write_clears),
    ("new inodes in a set-group-id directory get its group, directories the bit", setgid_directory),
    ("utimens: times by the owner, the present by whoever may write", utimens_rights),
    ("a directory of another's can be moved only by whoever may write it", moving_a_directory),
    ("mknod of FIFOs is everybody's", fifos),
    ("link: not to what one neither owns nor may write [Linux, protected_hardlinks]", hard_links),
];

fn open_by_bits(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0)?;
        done("chown", calls.setattr(b"f", &owner(ALICE)))
    })?;
    for (who, shift) in [(ALICE, 6), (CAROL, 3), (BOB, 0)] {
        for bits in 0..8 {
            // The other classes may do everything that this one may not.
            let perm = (bits << shift) | (0o777 & !(7 << shift) & !(bits * 0o111));
            ground.by(ROOT, |calls| done("chmod", calls.setattr(b"f", &mode(perm))))?;
            ground.by(who, |calls| {
                for (flags, needs) in
                    [(READ, 4), (WRITE, 2), (READ_WRITE, 6), (READ | OpenFlags::TRUNCATE, 6)]
                {
                    let opened = with(calls, "f", flags, |_| Ok(()));
                    let expected = if bits & needs == needs { Ok(()) } else { Err(Errno::EACCES) };
                    same(&format!("mode {perm:o}, flags {flags:?}"), opened, expected)?;
                }
                Ok(())
            })?;
        }
    }
    ground.by(ROOT, |calls| done("root", with(calls, "f", READ_WRITE, |_| Ok(()))))
}

/// Every way to change names in `d`, where there are `d/file`, `d/dir` and, beside it, `source`.
fn changes(calls: &dyn Syscalls, expected: Errno) -> Check {
    let none = RenameFlags::empty();
    fails("create", calls.open(b"d/new", MAKE, 0o644), expected)?;
    fails("mkdir", calls.mkdir(b"d/new", 0o755), expected)?;
    fails("mkfifo", calls.mknod(b"d/new", FileKind::Fifo, 0o644, 0), expected)?;
    fails("symlink", calls.symlink(b"t", b"d/new"), expected)?;
    fails("link", calls.link(b"source", b"d/new"), expected)?;
    fails("unlink", calls.unlink(b"d/file"), expected)?;
    fails("rmdir", calls.rmdir(b"d/dir"), expected)?;
    fails("rename out", calls.rename(b"d/file", b"out", none), expected)?;
    fails("rename in", calls.rename(b"source", b"d/new", none), expected)?;
    fails("rename within", calls.rename(b"d/file", b"d/new", none), expected)
}

/// `d` of root with a file and a directory of Alice in it, and her `source`.
fn stage(calls: &dyn Syscalls) -> Check {
    done("mkdir", calls.mkdir(b"d", 0o755))?;
    make(calls, "d/file", 0o644)?;
    done("mkdir", calls.mkdir(b"d/dir", 0o755))?;
    make(calls, "source", 0o644)?;
    ["d/file", "d/dir", "source"]
        .into_iter()
        .try_for_each(|path| done("chown", calls.setattr(path.as_bytes(), &owner(ALICE))))
}

fn directory_rights(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, stage)?;
    for perm in [0o755, 0o776, 0o774] {
        ground.by(ROOT, |calls| done("chmod", calls.setattr(b"d", &mode(perm))))?;
        ground.by(ALICE, |calls| changes(calls, Errno::EACCES))?;
    }
    ground.by(ROOT, |calls| done("chmod", calls.setattr(b"d", &mode(0o777))))?;
    ground.by(ALICE, |calls| {
        done("unlink", calls.unlink(b"d/file"))?;
        done("rmdir", calls.rmdir(b"d/dir"))?;
        done("rename", calls.rename(b"source", b"d/new", RenameFlags::empty()))
    })
}

fn read_without_search(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        stage(calls)?;
        done("chmod", calls.setattr(b"d", &mode(0o744)))
    })?;
    ground.by(ALICE, |calls| {
        let mut names = 0;
        let listed = with(calls, "d", READ | OpenFlags::DIRECTORY, |fd| {
            calls.getdents(fd, &mut |_| {
                names += 1;
                true
            })
        });
        done("list", listed)?;
        same("names", names, 4)?;
        fails("stat", calls.stat(b"d/file"), Errno::EACCES)
    })
}

fn sticky(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        stage(calls)?;
        make(calls, "d/other", 0o644)?;
        done("chown", calls.setattr(b"d/other", &owner(BOB)))?;
        done("chmod", calls.setattr(b"d", &mode(0o1777)))
    })?;
    let none = RenameFlags::empty();
    ground.by(BOB, |calls| {
        fails("unlink", calls.unlink(b"d/file"), Errno::EPERM)?;
        fails("rmdir", calls.rmdir(b"d/dir"), Errno::EPERM)?;
        fails("rename", calls.rename(b"d/file", b"d/new", none), Errno::EPERM)?;
        fails("rename over", calls.rename(b"d/other", b"d/file", none), Errno::EPERM)?;
        done("one's own", calls.rename(b"d/other", b"d/mine", none))
    })?;
    ground.by(ALICE, |calls| {
        done("one's own", calls.unlink(b"d/file"))?;
        done("one's own directory", calls.rmdir(b"d/dir"))
    })?;
    // The owner of the directory removes what is not hers.
    ground.by(ROOT, |calls| done("chown", calls.setattr(b"d", &owner(CAROL))))?;
    ground.by(CAROL, |calls| done("in one's own directory", calls.unlink(b"d/mine")))
}

fn chmod_by_owner(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, stage)?;
    ground.by(BOB, |calls| {
        fails("chmod", calls.setattr(b"source", &mode(0o777)), Errno::EPERM)?;
        fails("of root's", calls.setattr(b"d", &mode(0o777)), Errno::EPERM)
    })?;
    ground.by(ALICE, |calls| done("one's own", calls.setattr(b"source", &mode(0o640))))?;
    ground.by(ROOT, |calls| same("mode", attr(calls, "source")?.perm, 0o640))
}

fn chmod_sets(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in super::world::one_of_each(ground, calls)? {
            if kind == FileKind::Symlink {
                continue;
            }
            for perm in [0, 0o7777, 0o1000, 0o2000, 0o4000, 0o111, 0o644] {
                done(name, calls.setattr(name.as_bytes(), &mode(perm)))?;
                same(name, attr(calls, name)?.perm, perm)?;
            }
        }
        make(calls, "target", 0o600)?;
        done("symlink", calls.symlink(b"target", b"to"))?;
        done("chmod through a link", calls.setattr(b"to", &mode(0o611)))?;
        same("its target", attr(calls, "target")?.perm, 0o611)
    })
}

fn chmod_clears_setgid(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o755)?;
        let foreign = SetAttr { uid: Some(ALICE.uid), gid: Some(BOB.gid), ..SetAttr::default() };
        done("chown", calls.setattr(b"f", &foreign))
    })?;
    ground.by(ALICE, |calls| {
        done("chmod", calls.setattr(b"f", &mode(0o2755)))?;
        same("mode", attr(calls, "f")?.perm, 0o755)
    })
}

fn chown_rights(ground: &Ground<'_>) -> Check {
    let to = |uid: Option<u32>, gid: Option<u32>| SetAttr { uid, gid, ..SetAttr::default() };
    ground.by(ROOT, |calls| {
        stage(calls)?;
        same("given", attr(calls, "source")?.owner.uid, ALICE.uid)
    })?;
    ground.by(ALICE, |calls| {
        fails("to another", calls.setattr(b"source", &to(Some(BOB.uid), None)), Errno::EPERM)?;
        fails("a foreign group", calls.setattr(b"source", &to(None, Some(BOB.gid))), Errno::EPERM)?;
        done("a group of hers", calls.setattr(b"source", &to(None, ALICE.also)))?;
        same("group", Some(attr(calls, "source")?.owner.gid), ALICE.also)?;
        done("to herself", calls.setattr(b"source", &to(Some(ALICE.uid), Some(ALICE.gid))))
    })?;
    ground.by(BOB, |calls| {
        fails("not one's own", calls.setattr(b"source", &to(None, Some(BOB.gid))), Errno::EPERM)
    })
}

fn chown_clears(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o755)?;
        done("chown", calls.setattr(b"f", &owner(ALICE)))?;
        done("chmod", calls.setattr(b"f", &mode(0o6755)))
    })?;
    ground.by(ALICE, |calls| {
        let gid = SetAttr { gid: ALICE.also, ..SetAttr::default() };
        done("chown", calls.setattr(b"f", &gid))?;
        same("mode", attr(calls, "f")?.perm, 0o755)
    })
}

fn chown_of_nothing(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        stage(calls)?;
        let only_gid = SetAttr { gid: Some(BOB.gid), ..SetAttr::default() };
        done("group only", calls.setattr(b"source", &only_gid))?;
        let found = attr(calls, "source")?.owner;
        same("owner", (found.uid, found.gid), (ALICE.uid, BOB.gid))
    })
}

fn write_clears(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o777)?;
        done("chown", calls.setattr(b"f", &owner(ALICE)))?;
        done("chmod", calls.setattr(b"f", &mode(0o6777)))
    })?;
    ground.by(BOB, |calls| {
        done("write", with(calls, "f", WRITE, |fd| calls.write(fd, b"x")))?;
        same("mode", attr(calls, "f")?.perm, 0o777)
    })?;
    ground.by(ROOT, |calls| done("chmod", calls.setattr(b"f", &mode(0o6777))))?;
    ground.by(BOB, |calls| {
        done("truncate", calls.truncate(b"f", 0))?;
        same("mode", attr(calls, "f")?.perm, 0o777)
    })
}

fn setgid_directory(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o777))?;
        let gid = SetAttr { gid: Some(BOB.gid), ..SetAttr::default() };
        done("chown", calls.setattr(b"d", &gid))?;
        done("chmod", calls.setattr(b"d", &mode(0o2777)))
    })?;
    ground.by(ALICE, |calls| {
        done("create", calls.open(b"d/f", MAKE, 0o644).and_then(|fd| calls.close(fd)))?;
        done("mkdir", calls.mkdir(b"d/d", 0o755))?;
        done("symlink", calls.symlink(b"t", b"d/s"))?;
        let mut made = vec![("d/f", 0o644), ("d/d", 0o2755), ("d/s", 0o777)];
        if !ground.lacks(LeftOut::NODES) {
            done("mkfifo", calls.mknod(b"d/p", FileKind::Fifo, 0o644, 0))?;
            made.push(("d/p", 0o644));
        }
        for (path, perm) in made {
            let found = attr(calls, path)?;
            same(path, (found.owner.uid, found.owner.gid, found.perm), (ALICE.uid, BOB.gid, perm))?;
        }
        Ok(())
    })
}

fn utimens_rights(ground: &Ground<'_>) -> Check {
    let now = SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..SetAttr::default() };
    let time = Some(SetTime::To(Timestamp { secs: 1_000_000_000, nanos: 0 }));
    let then = SetAttr { atime: time, mtime: time, ..SetAttr::default() };
    ground.by(ROOT, |calls| {
        stage(calls)?;
        done("chmod", calls.setattr(b"source", &mode(0o666)))
    })?;
    ground.by(BOB, |calls| {
        done("the present", calls.setattr(b"source", &now))?;
        fails("another time", calls.setattr(b"source", &then), Errno::EPERM)?;
        fails("without the right to write", calls.setattr(b"d", &now), Errno::EACCES)
    })?;
    ground.by(ALICE, |calls| {
        done("one's own", calls.setattr(b"source", &then))?;
        let found = attr(calls, "source")?;
        same("times", (found.atime.secs, found.mtime.secs), (1_000_000_000, 1_000_000_000))
    })
}

fn moving_a_directory(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"a", 0o777))?;
        done("mkdir", calls.mkdir(b"b", 0o777))?;
        done("mkdir", calls.mkdir(b"a/d", 0o755))?;
        ["a", "b"]
            .into_iter()
            .try_for_each(|path| done("chmod", calls.setattr(path.as_bytes(), &mode(0o777))))
    })?;
    ground.by(ALICE, |calls| {
        // Its entry `..` would change.
        let none = RenameFlags::empty();
        fails("to another parent", calls.rename(b"a/d", b"b/d", none), Errno::EACCES)?;
        done("within its parent", calls.rename(b"a/d", b"a/e", none))
    })
}

fn fifos(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::NODES) {
        return Ok(());
    }
    ground.by(ALICE, |calls| {
        done("mkfifo", calls.mknod(b"p", FileKind::Fifo, 0o600, 0))?;
        let found = attr(calls, "p")?;
        same("fifo", (found.kind, found.perm, found.owner.uid), (FileKind::Fifo, 0o600, ALICE.uid))
    })
}

fn hard_links(ground: &Ground<'_>) -> Check {
    // The kernel has a switch for this; distributions turn it on.
    let on = std::fs::read_to_string("/proc/sys/fs/protected_hardlinks");
    if on.is_ok_and(|on| on.trim() == "0") {
        return Ok(());
    }
    ground.by(ROOT, |calls| make(calls, "secret", 0o600))?;
    ground.by(ALICE, |calls| fails("link", calls.link(b"secret", b"mine"), Errno::EPERM))?;
    ground.by(BOB, |calls| {
        make(calls, "own", 0o600)?;
        done("one's own", calls.link(b"own", b"again"))
    })
}
