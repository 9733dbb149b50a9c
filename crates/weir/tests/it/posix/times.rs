//! Which calls mark which times (POSIX, Base Definitions 4.12, and each call's DESCRIPTION).

use vfs::{
    Attr, Errno, FallocateMode, FileKind, LeftOut, OpenFlags, RenameFlags, SetAttr, SetTime, Syscalls,
    Timestamp, XattrMode,
};

use super::contents::reserve_or_zero;
use super::world::{
    ALICE, BOB, Ground, MAKE, READ, ROOT, WRITE, attr, contents, done, fails, make, mode, owner, with, write,
};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("making a name marks the new inode, and the directory's contents and attributes", making_marks),
    ("opening what exists marks nothing, with O_CREAT either", open_marks_nothing),
    ("removing marks the directory, and the attributes of a file that has other names", removing_marks),
    ("rename marks both directories", rename_marks),
    ("link marks the attributes of the file and its directory", link_marks),
    ("write marks contents and attributes; a write of nothing does not", write_marks),
    ("truncate marks contents and attributes", truncate_marks),
    ("chmod and chown mark the attributes only", attributes_mark),
    ("utimens sets times, and marks the attributes", utimens_marks),
    ("reading marks the access time", reading_marks),
    ("a call that fails marks nothing", failure_marks_nothing),
    ("O_TRUNC marks a file that it empties", truncating_open_marks),
    ("fallocate that extends marks contents and attributes", fallocate_marks),
    ("utimensat keeps nanoseconds, before 1970 and beyond 2106", nanoseconds_stay),
    ("utimensat leaves the time that UTIME_OMIT names, and takes the present for UTIME_NOW", omit_and_now),
    ("setting and removing an attribute marks the attributes only", xattrs_mark),
];

/// Which of an inode's times (access, contents, attributes) are later than they were.
fn moved(calls: &dyn Syscalls, path: &str, before: &Attr) -> Result<[bool; 3], String> {
    let after = attr(calls, path)?;
    Ok([after.atime > before.atime, after.mtime > before.mtime, after.ctime > before.ctime])
}

/// What `deed` marks of `path`, beginning a while after everything before.
fn marks(
    ground: &Ground<'_>,
    path: &str,
    expected: [bool; 2],
    deed: fn(&dyn Syscalls) -> Result<(), Errno>,
) -> Check {
    let mut before = None;
    ground.by(ROOT, |calls| {
        before = Some(attr(calls, path)?);
        Ok(())
    })?;
    ground.wait();
    ground.by(ROOT, |calls| done("the call", deed(calls)))?;
    ground.by(ROOT, |calls| {
        let before = before.as_ref().ok_or("no time")?;
        let [_, contents, attributes] = moved(calls, path, before)?;
        same(&format!("{path}: contents, attributes"), [contents, attributes], expected)
    })
}

const BOTH: [bool; 2] = [true, true];
const ATTRIBUTES: [bool; 2] = [false, true];
const NEITHER: [bool; 2] = [false, false];

fn making_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| make(calls, "source", 0o644))?;
    marks(ground, ".", BOTH, |calls| calls.open(b"f", MAKE, 0o644).and_then(|fd| calls.close(fd)))?;
    marks(ground, ".", BOTH, |calls| calls.mkdir(b"d", 0o755))?;
    if !ground.lacks(LeftOut::NODES) {
        marks(ground, ".", BOTH, |calls| calls.mknod(b"p", FileKind::Fifo, 0o644, 0))?;
    }
    marks(ground, ".", BOTH, |calls| calls.symlink(b"t", b"s"))?;
    ground.by(ROOT, |calls| {
        let (older, new) = (attr(calls, "d")?, attr(calls, "s")?);
        same("the new one is newer", new.ctime > older.ctime && new.mtime > older.mtime, true)
    })
}

fn open_marks_nothing(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"x"))?;
    let open: fn(&dyn Syscalls) -> Result<(), Errno> =
        |calls| with(calls, "f", WRITE | OpenFlags::CREATE, |_| Ok(()));
    marks(ground, "f", NEITHER, open)?;
    marks(ground, ".", NEITHER, open)
}

fn removing_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        done("link", calls.link(b"f", b"other"))?;
        make(calls, "g", 0o644)?;
        done("mkdir", calls.mkdir(b"d", 0o755))
    })?;
    marks(ground, "other", ATTRIBUTES, |calls| calls.unlink(b"f"))?;
    marks(ground, ".", BOTH, |calls| calls.unlink(b"g"))?;
    marks(ground, ".", BOTH, |calls| calls.rmdir(b"d"))
}

fn rename_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkdir", calls.mkdir(b"a", 0o755))?;
        done("mkdir", calls.mkdir(b"b", 0o755))?;
        make(calls, "a/f", 0o644)?;
        make(calls, "a/g", 0o644)
    })?;
    marks(ground, "a", BOTH, |calls| calls.rename(b"a/f", b"b/f", RenameFlags::empty()))?;
    marks(ground, "b", BOTH, |calls| calls.rename(b"a/g", b"b/g", RenameFlags::empty()))
}

fn link_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| make(calls, "f", 0o644))?;
    marks(ground, "f", ATTRIBUTES, |calls| calls.link(b"f", b"g"))?;
    marks(ground, ".", BOTH, |calls| calls.link(b"f", b"h"))
}

fn write_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", BOTH, |calls| with(calls, "f", WRITE, |fd| calls.write(fd, b"x").map(drop)))?;
    marks(ground, "f", BOTH, |calls| with(calls, "f", WRITE, |fd| calls.pwrite(fd, b"x", 9999).map(drop)))?;
    marks(ground, "f", NEITHER, |calls| with(calls, "f", WRITE, |fd| calls.write(fd, b"").map(drop)))
}

fn truncate_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", BOTH, |calls| calls.truncate(b"f", 4))?;
    marks(ground, "f", BOTH, |calls| calls.truncate(b"f", 10_000))?;
    marks(ground, "f", BOTH, |calls| with(calls, "f", WRITE, |fd| calls.ftruncate(fd, 5)))
}

fn attributes_mark(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", ATTRIBUTES, |calls| calls.setattr(b"f", &mode(0o611)))?;
    marks(ground, "f", ATTRIBUTES, |calls| calls.setattr(b"f", &owner(ALICE)))
}

fn utimens_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", ATTRIBUTES, |calls| {
        let time = Some(SetTime::To(Timestamp { secs: 1_234_567, nanos: 0 }));
        calls.setattr(b"f", &SetAttr { atime: time, ..SetAttr::default() })
    })?;
    ground.by(ROOT, |calls| same("access time", attr(calls, "f")?.atime.secs, 1_234_567))
}

fn reading_marks(ground: &Ground<'_>) -> Check {
    let mut before = Vec::new();
    let paths = ["f", "d", "s"];
    ground.by(ROOT, |calls| {
        write(calls, "f", b"contents")?;
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        done("symlink", calls.symlink(b"f", b"s"))?;
        before = paths.iter().map(|path| attr(calls, path)).collect::<Result<_, _>>()?;
        Ok(())
    })?;
    ground.wait();
    ground.by(ROOT, |calls| {
        done("read", contents(calls, "f"))?;
        done("readlink", calls.readlink(b"s"))?;
        done("list", with(calls, "d", READ | OpenFlags::DIRECTORY, |fd| calls.getdents(fd, &mut |_| true)))?;
        for (path, before) in paths.iter().zip(&before) {
            same(path, moved(calls, path, before)?, [true, false, false])?;
        }
        Ok(())
    })
}

fn failure_marks_nothing(ground: &Ground<'_>) -> Check {
    let mut before = None;
    ground.by(ROOT, |calls| {
        write(calls, "f", b"contents")?;
        done("close the directory", calls.setattr(b".", &mode(0o755)))?;
        before = Some((attr(calls, "f")?, attr(calls, ".")?));
        Ok(())
    })?;
    ground.wait();
    ground.by(BOB, |calls| {
        fails("chmod", calls.setattr(b"f", &mode(0o777)), Errno::EPERM)?;
        fails("truncate", calls.truncate(b"f", 0), Errno::EACCES)?;
        fails("unlink", calls.unlink(b"f"), Errno::EACCES)?;
        fails("link", calls.link(b"f", b"g"), Errno::EPERM)
            .or_else(|_| fails("link", calls.link(b"f", b"g"), Errno::EACCES))?;
        fails("mkdir", calls.mkdir(b"d", 0o755), Errno::EACCES)?;
        let (file, dir) = before.as_ref().ok_or("no time")?;
        same("the file", moved(calls, "f", file)?[1..].to_vec(), vec![false, false])?;
        same("the directory", moved(calls, ".", dir)?[1..].to_vec(), vec![false, false])
    })
}

fn truncating_open_marks(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", BOTH, |calls| with(calls, "f", WRITE | OpenFlags::TRUNCATE, |_| Ok(())))
}

fn fallocate_marks(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::RANGES) {
        return Ok(());
    }
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", BOTH, |calls| {
        with(calls, "f", WRITE, |fd| reserve_or_zero(calls, fd, FallocateMode::empty(), 8, 10_000))
    })
}

fn utimens(calls: &dyn Syscalls, path: &str, atime: Option<SetTime>, mtime: Option<SetTime>) -> Check {
    let set = SetAttr { atime, mtime, ..SetAttr::default() };
    done("utimensat", calls.setattr(path.as_bytes(), &set))
}

fn nanoseconds_stay(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        let seconds =
            [0, 1, -1, -1_000_000_000, 1_000_000_000, 1 << 31, (1 << 32) - 1, 1 << 32, 8_000_000_000];
        for (path, secs) in seconds.iter().flat_map(|secs| [("f", *secs), ("d", *secs)]) {
            let [atime, mtime] = [1, 999_999_999].map(|nanos| Timestamp { secs, nanos });
            utimens(calls, path, Some(SetTime::To(atime)), Some(SetTime::To(mtime)))?;
            let found = attr(calls, path)?;
            same("times", (found.atime, found.mtime), (atime, mtime))?;
        }
        Ok(())
    })
}

fn omit_and_now(ground: &Ground<'_>) -> Check {
    let time = |nanos| Timestamp { secs: 1_234_567, nanos };
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        utimens(calls, "f", Some(SetTime::To(time(1))), Some(SetTime::To(time(2))))?;
        utimens(calls, "f", None, Some(SetTime::To(time(3))))?;
        let found = attr(calls, "f")?;
        same("atime left out", (found.atime, found.mtime), (time(1), time(3)))?;
        utimens(calls, "f", Some(SetTime::To(time(4))), None)?;
        let found = attr(calls, "f")?;
        same("mtime left out", (found.atime, found.mtime), (time(4), time(3)))?;
        utimens(calls, "f", Some(SetTime::Now), None)?;
        let now = attr(calls, "f")?;
        same("atime is the present", (now.atime, now.mtime), (now.ctime, time(3)))
    })?;
    ground.wait();
    ground.by(ROOT, |calls| {
        let before = attr(calls, "f")?;
        utimens(calls, "f", Some(SetTime::Now), Some(SetTime::Now))?;
        same("all are later", moved(calls, "f", &before)?, [true; 3])
    })
}

fn xattrs_mark(ground: &Ground<'_>) -> Check {
    if ground.lacks(LeftOut::ATTRIBUTES) {
        return Ok(());
    }
    ground.by(ROOT, |calls| write(calls, "f", b"contents"))?;
    marks(ground, "f", ATTRIBUTES, |calls| calls.setxattr(b"f", b"user.a", b"x", XattrMode::Set))?;
    marks(ground, "f", ATTRIBUTES, |calls| calls.removexattr(b"f", b"user.a"))
}
