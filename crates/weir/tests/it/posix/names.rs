//! Making, linking, renaming and removing names.

use vfs::{Errno, FileKind, LeftOut, OpenFlags, RenameFlags};

use super::world::{
    ALICE, Ground, MAKE, READ, READ_WRITE, ROOT, attr, contents, done, fails, fails_with, make, mode,
    one_of_each, owner, with, write,
};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("mkdir makes a directory with . and .., and a link to its parent", mkdir_makes_links),
    ("EEXIST: what makes a name does not replace one, of whatever kind", making_does_not_replace),
    ("new inodes get the mode without the umask, and their maker as owner", mode_and_owner_of_the_new),
    ("mknod keeps kind and device number [Linux]", nodes),
    ("a directory of names is listed whole, each name once", listing),
    ("rmdir removes an empty directory and the link to its parent", rmdir_removes),
    ("rmdir: ENOTEMPTY, ENOTDIR, EINVAL for .", rmdir_refuses),
    ("link adds a name for the same inode, also of a symbolic link [Linux]", link_adds),
    ("link: EPERM for a directory", link_refuses_directories),
    ("unlink removes one name, and the file with its last", unlink_removes),
    ("unlink: EISDIR for a directory [Linux]", unlink_refuses_directories),
    ("an open file without a name can be read, written and cut", nameless),
    ("a removed directory that is open takes no names", removed_directory),
    ("symlink keeps its target, whatever it is", symlinks),
    ("readlink: EINVAL for what is no link", readlink_refuses),
    ("rename keeps the inode, of every kind", rename_keeps),
    ("rename replaces a file, and frees it when that was its last name", rename_replaces_files),
    ("rename replaces an empty directory only", rename_replaces_directories),
    ("rename: EISDIR, ENOTDIR between files and directories", rename_of_different_kinds),
    ("rename: EINVAL for a directory into itself", rename_into_itself),
    ("rename of two names of one file does nothing", rename_of_the_same),
    ("rename moves the link of a directory to its new parent", rename_moves_the_parent_link),
    ("rename: EINVAL or EBUSY for . and ..", rename_of_dots),
    ("RENAME_NOREPLACE: EEXIST, or a rename [Linux]", rename_noreplace),
    ("RENAME_EXCHANGE exchanges, whatever the kinds [Linux]", rename_exchange),
    ("RENAME_WHITEOUT leaves a device 0:0 without permissions, of any user [Linux]", rename_whiteout),
    ("rename of a directory over a deep tree keeps every path", rename_of_a_tree),
    ("open O_EXCL: EEXIST, also for a symbolic link that leads nowhere", exclusive),
    ("open O_CREAT through a symbolic link makes its target", create_through_a_link),
    ("open: ELOOP with O_NOFOLLOW, ENOTDIR with O_DIRECTORY, EISDIR for writing", open_refuses),
];

const NONE: RenameFlags = RenameFlags::empty();

fn mkdir_makes_links(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        let before = attr(calls, ".")?.nlink;
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        same("links of the new one", attr(calls, "d")?.nlink, 2)?;
        same("links of the parent", attr(calls, ".")?.nlink, before + 1)?;
        same(". is itself", attr(calls, "d/.")?.ino, attr(calls, "d")?.ino)?;
        same(".. is the parent", attr(calls, "d/..")?.ino, attr(calls, ".")?.ino)
    })
}

fn making_does_not_replace(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "source", 0o644)?;
        for (name, kind) in one_of_each(ground, calls)? {
            let path = name.as_bytes();
            fails("mkdir", calls.mkdir(path, 0o755), Errno::EEXIST)?;
            if !ground.lacks(LeftOut::NODES) {
                fails("mkfifo", calls.mknod(path, FileKind::Fifo, 0o644, 0), Errno::EEXIST)?;
            }
            fails("symlink", calls.symlink(b"x", path), Errno::EEXIST)?;
            fails("link", calls.link(b"source", path), Errno::EEXIST)?;
            fails("O_EXCL", calls.open(path, MAKE, 0o644), Errno::EEXIST)?;
            same("its kind", attr(calls, name)?.kind, kind)?;
        }
        Ok(())
    })
}

fn mode_and_owner_of_the_new(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        for perm in [0o755, 0o151, 0o070, 0o3000, 0o4755, 0o1777] {
            make(calls, "f", perm)?;
            done("unlink", calls.unlink(b"f"))?;
            done("open", calls.open(b"f", MAKE, perm & 0o777).and_then(|fd| calls.close(fd)))?;
            done("mkdir", calls.mkdir(b"d", perm & 0o1777))?;
            done("symlink", calls.symlink(b"t", b"s"))?;
            let mut made = vec![("f", perm & 0o777), ("d", perm & 0o1777), ("s", 0o777)];
            if !ground.lacks(LeftOut::NODES) {
                done("mkfifo", calls.mknod(b"p", FileKind::Fifo, perm & 0o777, 0))?;
                made.push(("p", perm & 0o777));
            }
            for (name, expected) in &made {
                let found = attr(calls, name)?;
                same(
                    name,
                    (found.perm, found.owner.uid, found.owner.gid),
                    (*expected, ALICE.uid, ALICE.gid),
                )?;
            }
            for (name, _) in made.iter().filter(|(name, _)| *name != "d") {
                done("unlink", calls.unlink(name.as_bytes()))?;
            }
            done("rmdir", calls.rmdir(b"d"))?;
        }
        Ok(())
    })
}

fn nodes(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::NODES) {
        return Ok(());
    }
    ground.by(ROOT, |calls| {
        for (name, kind) in [("c", FileKind::CharDevice), ("b", FileKind::BlockDevice)] {
            done("mknod", calls.mknod(name.as_bytes(), kind, 0o600, 0x0102))?;
            let found = attr(calls, name)?;
            same(name, (found.kind, found.rdev, found.nlink), (kind, 0x0102, 1))?;
        }
        done("mknod of a file", calls.mknod(b"f", FileKind::Regular, 0o600, 0))?;
        same("a file", attr(calls, "f")?.kind, FileKind::Regular)
    })?;
    ground.by(ALICE, |calls| {
        fails("mknod by a user", calls.mknod(b"u", FileKind::CharDevice, 0o600, 0x0102), Errno::EPERM)
    })
}

fn listing(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        let mut expected: Vec<Vec<u8>> = vec![b".".to_vec(), b"..".to_vec()];
        for n in 0..300 {
            let name = format!("name {n} {}", "x".repeat(n % (ground.name_max() - 50)));
            done("make", calls.open(name.as_bytes(), MAKE, 0o644).and_then(|fd| calls.close(fd)))?;
            expected.push(name.into_bytes());
        }
        let mut found = Vec::new();
        let fd = calls.open(b".", READ.union(OpenFlags::DIRECTORY), 0).map_err(|errno| errno.to_string())?;
        loop {
            let before = found.len();
            let listed = calls.getdents(fd, &mut |entry| {
                found.push(entry.name.to_vec());
                found.len() % 7 != 0
            });
            done("getdents", listed)?;
            if found.len() == before {
                break;
            }
        }
        done("close", calls.close(fd))?;
        found.sort();
        expected.sort();
        same("the names", found == expected, true)
    })
}

fn rmdir_removes(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        let before = attr(calls, ".")?.nlink;
        done("rmdir", calls.rmdir(b"d"))?;
        same("links of the parent", attr(calls, ".")?.nlink, before - 1)?;
        fails("stat", calls.stat(b"d"), Errno::ENOENT)
    })
}

fn rmdir_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in one_of_each(ground, calls)? {
            if kind != FileKind::Directory {
                fails(name, calls.rmdir(name.as_bytes()), Errno::ENOTDIR)?;
            }
        }
        make(calls, "directory/file", 0o644)?;
        fails_with("not empty", calls.rmdir(b"directory"), &[Errno::ENOTEMPTY, Errno::EEXIST])?;
        done("unlink", calls.unlink(b"directory/file"))?;
        fails("dot", calls.rmdir(b"directory/."), Errno::EINVAL)?;
        fails_with("dots", calls.rmdir(b"directory/.."), &[Errno::ENOTEMPTY, Errno::EEXIST])?;
        done("empty", calls.rmdir(b"directory"))
    })
}

fn link_adds(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in one_of_each(ground, calls)? {
            if kind == FileKind::Directory {
                continue;
            }
            let other = format!("{name} again");
            done(name, calls.link(name.as_bytes(), other.as_bytes()))?;
            let (a, b) = (attr(calls, name)?, attr(calls, &other)?);
            same(name, (a.ino, a.nlink, a.kind), (b.ino, 2, kind))?;
            done("unlink", calls.unlink(name.as_bytes()))?;
            same("what is left", attr(calls, &other)?.nlink, 1)?;
        }
        write(calls, "f", b"contents")?;
        done("link", calls.link(b"f", b"g"))?;
        done("unlink", calls.unlink(b"f"))?;
        same("contents", contents(calls, "g"), Ok(b"contents".to_vec()))
    })
}

fn link_refuses_directories(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        fails("link", calls.link(b"d", b"e"), Errno::EPERM)
    })
}

fn unlink_removes(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in one_of_each(ground, calls)? {
            if kind != FileKind::Directory {
                done(name, calls.unlink(name.as_bytes()))?;
                fails(name, calls.lstat(name.as_bytes()), Errno::ENOENT)?;
            }
        }
        done("symlink", calls.symlink(b"directory", b"to"))?;
        done("unlink of a link to a directory", calls.unlink(b"to"))?;
        same("the directory", attr(calls, "directory")?.kind, FileKind::Directory)
    })
}

fn unlink_refuses_directories(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        fails_with("unlink", calls.unlink(b"d"), &[Errno::EISDIR, Errno::EPERM])
    })
}

fn nameless(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "f", b"before")?;
        let outcome = with(calls, "f", READ_WRITE, |fd| {
            calls.unlink(b"f")?;
            let links = calls.fstat(fd)?.nlink;
            calls.pwrite(fd, b"after", 6)?;
            calls.ftruncate(fd, 9)?;
            let mut bytes = [0; 20];
            let read = calls.pread(fd, &mut bytes, 0)?;
            Ok((links, bytes[..read].to_vec()))
        });
        same("links and contents", outcome, Ok((0, b"beforeaft".to_vec())))?;
        fails("its name", calls.stat(b"f"), Errno::ENOENT)
    })
}

fn removed_directory(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        done("chdir", calls.chdir(b"d"))?;
        done("rmdir", calls.rmdir(b"../d"))?;
        fails("mkdir", calls.mkdir(b"e", 0o755), Errno::ENOENT)?;
        fails("open", calls.open(b"f", MAKE, 0o644), Errno::ENOENT)?;
        done("back", calls.chdir(b"/"))
    })
}

fn symlinks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for target in
            ["x".to_owned(), "/absolute/and/missing".to_owned(), "../..".to_owned(), "t".repeat(4095)]
        {
            done("symlink", calls.symlink(target.as_bytes(), b"s"))?;
            same("target", calls.readlink(b"s"), Ok(target.clone().into_bytes()))?;
            same("size", attr(calls, "s")?.size, target.len() as u64)?;
            done("unlink", calls.unlink(b"s"))?;
        }
        fails("longer", calls.symlink("t".repeat(4096).as_bytes(), b"s"), Errno::ENAMETOOLONG)
    })
}

fn readlink_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in one_of_each(ground, calls)? {
            if kind != FileKind::Symlink {
                fails(name, calls.readlink(name.as_bytes()), Errno::EINVAL)?;
            }
        }
        Ok(())
    })
}

fn rename_keeps(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"other", 0o755))?;
        for (name, kind) in one_of_each(ground, calls)? {
            let before = attr(calls, name)?;
            for to in ["renamed", "other/moved"] {
                done(name, calls.rename(name.as_bytes(), to.as_bytes(), NONE))?;
                let after = attr(calls, to)?;
                same(name, (after.ino, after.kind, after.nlink), (before.ino, kind, before.nlink))?;
                fails("the old name", calls.lstat(name.as_bytes()), Errno::ENOENT)?;
                done("back", calls.rename(to.as_bytes(), name.as_bytes(), NONE))?;
            }
        }
        Ok(())
    })
}

fn rename_replaces_files(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        write(calls, "old", b"old")?;
        write(calls, "new", b"new")?;
        done("link", calls.link(b"new", b"other name"))?;
        let ino = attr(calls, "old")?.ino;
        done("rename", calls.rename(b"old", b"new", NONE))?;
        same("what has the name", attr(calls, "new")?.ino, ino)?;
        same("contents", contents(calls, "new"), Ok(b"old".to_vec()))?;
        same("links of what was replaced", attr(calls, "other name")?.nlink, 1)?;
        done("a link over a file", calls.symlink(b"t", b"s"))?;
        done("rename", calls.rename(b"s", b"new", NONE))?;
        same("its kind", attr(calls, "new")?.kind, FileKind::Symlink)
    })
}

fn rename_replaces_directories(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for name in ["a", "b", "full"] {
            done("mkdir", calls.mkdir(name.as_bytes(), 0o755))?;
        }
        make(calls, "full/file", 0o644)?;
        let (ino, links) = (attr(calls, "a")?.ino, attr(calls, ".")?.nlink);
        done("over an empty one", calls.rename(b"a", b"b", NONE))?;
        same("what has the name", attr(calls, "b")?.ino, ino)?;
        same("links of the parent", attr(calls, ".")?.nlink, links - 1)?;
        let full = calls.rename(b"b", b"full", NONE);
        fails_with("over a full one", full, &[Errno::ENOTEMPTY, Errno::EEXIST])?;
        done("a full one over an empty one", calls.rename(b"full", b"b", NONE))?;
        done("what was in it", calls.stat(b"b/file"))
    })
}

fn rename_of_different_kinds(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for (name, kind) in one_of_each(ground, calls)? {
            if kind != FileKind::Directory {
                let path = name.as_bytes();
                fails(name, calls.rename(path, b"directory", NONE), Errno::EISDIR)?;
                fails(name, calls.rename(b"directory", path, NONE), Errno::ENOTDIR)?;
            }
        }
        Ok(())
    })
}

fn rename_into_itself(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"a", 0o755))?;
        done("mkdir", calls.mkdir(b"a/b", 0o755))?;
        fails("into itself", calls.rename(b"a", b"a/c", NONE), Errno::EINVAL)?;
        fails("deeper", calls.rename(b"a", b"a/b/c", NONE), Errno::EINVAL)?;
        fails_with(
            "over its own parent",
            calls.rename(b"a/b", b"a", NONE),
            &[Errno::ENOTEMPTY, Errno::EEXIST],
        )?;
        done("to itself", calls.rename(b"a", b"a", NONE))
    })
}

fn rename_of_the_same(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "a", 0o644)?;
        done("link", calls.link(b"a", b"b"))?;
        done("rename", calls.rename(b"a", b"b", NONE))?;
        same("both names", (attr(calls, "a")?.nlink, attr(calls, "b")?.nlink), (2, 2))
    })
}

fn rename_moves_the_parent_link(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        for name in ["a", "b", "a/d"] {
            done("mkdir", calls.mkdir(name.as_bytes(), 0o755))?;
        }
        done("rename", calls.rename(b"a/d", b"b/d", NONE))?;
        same("links", (attr(calls, "a")?.nlink, attr(calls, "b")?.nlink), (2, 3))?;
        same("..", attr(calls, "b/d/..")?.ino, attr(calls, "b")?.ino)
    })
}

fn rename_of_dots(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"a", 0o755))?;
        let refused = [Errno::EINVAL, Errno::EBUSY];
        for path in ["a/.", "a/.."] {
            fails_with(path, calls.rename(path.as_bytes(), b"b", NONE), &refused)?;
            let onto = calls.rename(b"a", path.as_bytes(), NONE);
            fails_with(path, onto, &[refused[0], refused[1], Errno::EEXIST, Errno::ENOTEMPTY])?;
        }
        Ok(())
    })
}

fn rename_noreplace(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "a", 0o644)?;
        make(calls, "b", 0o644)?;
        fails("over a file", calls.rename(b"a", b"b", RenameFlags::NOREPLACE), Errno::EEXIST)?;
        done("to a new name", calls.rename(b"a", b"c", RenameFlags::NOREPLACE))?;
        done("stat", calls.stat(b"c"))
    })
}

fn rename_exchange(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::EXCHANGES) {
        return Ok(());
    }
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"side", 0o755))?;
        done("mkdir", calls.mkdir(b"side/d", 0o755))?;
        make(calls, "f", 0o644)?;
        let (d, f) = (attr(calls, "side/d")?.ino, attr(calls, "f")?.ino);
        done("exchange", calls.rename(b"f", b"side/d", RenameFlags::EXCHANGE))?;
        same("inodes", (attr(calls, "f")?.ino, attr(calls, "side/d")?.ino), (d, f))?;
        same("links", (attr(calls, "side")?.nlink, attr(calls, "f/..")?.ino), (2, attr(calls, ".")?.ino))?;
        fails("with nothing", calls.rename(b"f", b"none", RenameFlags::EXCHANGE), Errno::ENOENT)
    })
}

fn rename_whiteout(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::EXCHANGES) {
        return Ok(());
    }
    ground.by(ALICE, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        make(calls, "a", 0o644)?;
        make(calls, "d/b", 0o644)?;
        let (moved, links) = (attr(calls, "a")?.ino, attr(calls, "d")?.nlink);
        done("over a file", calls.rename(b"a", b"d/b", RenameFlags::WHITEOUT))?;
        same("the moved inode", attr(calls, "d/b")?.ino, moved)?;
        let left = attr(calls, "a")?;
        same("kind and device", (left.kind, left.rdev), (FileKind::CharDevice, 0))?;
        same("permission and links", (left.perm, left.nlink), (0, 1))?;
        same("owner", left.owner.uid, ALICE.uid)?;
        done("of a directory", calls.rename(b"d", b"e", RenameFlags::WHITEOUT))?;
        same("links", (attr(calls, "e")?.nlink, attr(calls, "d")?.kind), (links, FileKind::CharDevice))?;
        let taken = RenameFlags::WHITEOUT | RenameFlags::NOREPLACE;
        fails("with NOREPLACE", calls.rename(b"a", b"d", taken), Errno::EEXIST)?;
        let both = RenameFlags::WHITEOUT | RenameFlags::EXCHANGE;
        fails("with EXCHANGE", calls.rename(b"a", b"d", both), Errno::EINVAL)?;
        done("a whiteout is removed", calls.unlink(b"a"))?;
        done("a name again", calls.mkdir(b"a", 0o755))
    })
}

fn rename_of_a_tree(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        let mut path = "a".to_owned();
        for depth in 0..20 {
            done("mkdir", calls.mkdir(path.as_bytes(), 0o755))?;
            write(calls, &format!("{path}/file"), &[depth; 10])?;
            path.push_str("/d");
        }
        done("rename", calls.rename(b"a", b"renamed", NONE))?;
        let mut path = "renamed".to_owned();
        for depth in 0..20 {
            same("contents", contents(calls, &format!("{path}/file")), Ok(vec![depth; 10]))?;
            path.push_str("/d");
        }
        Ok(())
    })
}

fn exclusive(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("symlink", calls.symlink(b"nowhere", b"s"))?;
        fails("O_EXCL", calls.open(b"s", MAKE, 0o644), Errno::EEXIST)?;
        fails("the target", calls.stat(b"nowhere"), Errno::ENOENT)
    })
}

fn create_through_a_link(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("symlink", calls.symlink(b"target", b"s"))?;
        let flags = READ_WRITE.union(OpenFlags::CREATE);
        done("open", with(calls, "s", flags, |fd| calls.write(fd, b"x")))?;
        same("the target", contents(calls, "target"), Ok(b"x".to_vec()))
    })
}

fn open_refuses(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "file", 0o644)?;
        done("mkdir", calls.mkdir(b"dir", 0o755))?;
        done("symlink", calls.symlink(b"file", b"s"))?;
        let refused = |flags, path: &[u8]| calls.open(path, flags, 0);
        fails("O_NOFOLLOW", refused(READ | OpenFlags::NOFOLLOW, b"s"), Errno::ELOOP)?;
        fails("O_DIRECTORY", refused(READ | OpenFlags::DIRECTORY, b"file"), Errno::ENOTDIR)?;
        fails("writing", refused(READ_WRITE, b"dir"), Errno::EISDIR)?;
        fails("O_TRUNC", refused(OpenFlags::WRITE | OpenFlags::TRUNCATE, b"dir"), Errno::EISDIR)?;
        fails("missing", refused(READ, b"none"), Errno::ENOENT)?;
        done("chmod", calls.setattr(b"dir", &mode(0o700)))?;
        done("chown", calls.setattr(b"dir", &owner(ALICE)))
    })
}
