//! Extended attributes (xattr(7)), which POSIX does not have.

use vfs::{Errno, FileKind, OpenFlags, RenameFlags, Syscalls, XattrMode};

use super::world::{ALICE, BOB, Ground, MAKE, ROOT, attr, done, fails, fails_with, make, mode, owner};
use super::{Check, Rule, same};

pub(crate) const RULES: &[Rule] = &[
    ("[Linux] an attribute keeps its value until it is replaced or removed", kept),
    ("[Linux] XATTR_CREATE wants none of the name, XATTR_REPLACE one", modes),
    ("[Linux] names and values have limits", limits),
    ("[Linux] attributes of users are of regular files and directories only", kinds),
    ("[Linux] the permission bits decide about attributes of users", bits),
    ("[Linux] in a sticky directory only its owner has attributes for the directory", sticky),
    ("[Linux] trusted attributes are root's alone, and hidden from others", trusted),
    ("[Linux] security attributes are read by all and written by root", security),
    ("[Linux] attributes belong to the file, not to its name", follow),
    ("[Linux] what lists and times say of a file does not move its attributes", unmoved),
];

fn set(calls: &dyn Syscalls, path: &str, name: &str, value: &[u8]) -> Result<(), Errno> {
    calls.setxattr(path.as_bytes(), name.as_bytes(), value, XattrMode::Set)
}

fn get(calls: &dyn Syscalls, path: &str, name: &str) -> Result<Vec<u8>, Errno> {
    calls.getxattr(path.as_bytes(), name.as_bytes())
}

fn remove(calls: &dyn Syscalls, path: &str, name: &str) -> Result<(), Errno> {
    calls.removexattr(path.as_bytes(), name.as_bytes())
}

/// Names in order; those that a host gives on its own left out.
fn list(calls: &dyn Syscalls, path: &str) -> Result<Vec<String>, Errno> {
    let names = calls.listxattr(path.as_bytes())?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut names: Vec<_> = names.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    names.retain(|name| name != "security.selinux");
    names.sort();
    Ok(names)
}

fn lists(calls: &dyn Syscalls, path: &str, expected: &[&str]) -> Check {
    let found = list(calls, path).map_err(|errno| format!("list of {path}: {}", errno.name()))?;
    same(&format!("list of {path}"), found, expected.iter().map(|name| (*name).to_owned()).collect())
}

fn kept(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "f", 0o644)?;
        done("mkdir", calls.mkdir(b"d", 0o755))?;
        for path in ["f", "d"] {
            lists(calls, path, &[])?;
            fails("get none", get(calls, path, "user.a"), Errno::ENODATA)?;
            fails("remove none", remove(calls, path, "user.a"), Errno::ENODATA)?;
            done("set", set(calls, path, "user.a", b"\0one\xFF"))?;
            done("set empty", set(calls, path, "user.empty", b""))?;
            same("get", get(calls, path, "user.a"), Ok(b"\0one\xFF".to_vec()))?;
            same("get empty", get(calls, path, "user.empty"), Ok(vec![]))?;
            done("set longer", set(calls, path, "user.a", &[7; 1000]))?;
            same("get longer", get(calls, path, "user.a"), Ok(vec![7; 1000]))?;
            lists(calls, path, &["user.a", "user.empty"])?;
            done("remove", remove(calls, path, "user.a"))?;
            lists(calls, path, &["user.empty"])?;
        }
        Ok(())
    })
}

fn modes(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "f", 0o644)?;
        let set = |value: &[u8], mode| calls.setxattr(b"f", b"user.a", value, mode);
        fails("replace none", set(b"x", XattrMode::Replace), Errno::ENODATA)?;
        done("create", set(b"one", XattrMode::Create))?;
        fails("create again", set(b"x", XattrMode::Create), Errno::EEXIST)?;
        same("unchanged", get(calls, "f", "user.a"), Ok(b"one".to_vec()))?;
        done("replace", set(b"two", XattrMode::Replace))?;
        same("replaced", get(calls, "f", "user.a"), Ok(b"two".to_vec()))
    })
}

fn limits(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o644)?;
        let name = |len: usize| format!("user.{}", "n".repeat(len - 5));
        done("the longest name", set(calls, "f", &name(255), b"x"))?;
        same("its value", get(calls, "f", &name(255)), Ok(b"x".to_vec()))?;
        fails("a longer name", set(calls, "f", &name(256), b"x"), Errno::ERANGE)?;
        fails("no name", set(calls, "f", "", b"x"), Errno::ERANGE)?;
        fails("a value of over 64 KiB", set(calls, "f", "user.a", &vec![1; (1 << 16) + 1]), Errno::E2BIG)?;
        fails("no namespace", set(calls, "f", "nowhere.x", b"x"), Errno::EOPNOTSUPP)?;
        fails("no name in the namespace", set(calls, "f", "user.", b"x"), Errno::EINVAL)?;
        let lists = get(calls, "f", "system.posix_acl_access");
        fails_with("an access-control list", lists, &[Errno::EOPNOTSUPP, Errno::ENODATA])
    })
}

fn kinds(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        done("mkfifo", calls.mknod(b"fifo", FileKind::Fifo, 0o666, 0))?;
        done("socket", calls.mknod(b"socket", FileKind::Socket, 0o666, 0))?;
        for path in ["fifo", "socket"] {
            fails("set", set(calls, path, "user.a", b"x"), Errno::EPERM)?;
            fails("get", get(calls, path, "user.a"), Errno::ENODATA)?;
            done("trusted", set(calls, path, "trusted.a", b"x"))?;
            same("its value", get(calls, path, "trusted.a"), Ok(b"x".to_vec()))?;
        }
        make(calls, "f", 0o644)?;
        done("symlink", calls.symlink(b"f", b"s"))?;
        done("set through a link", set(calls, "s", "user.a", b"x"))?;
        lists(calls, "f", &["user.a"])
    })
}

fn bits(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "open", 0o644)?;
        make(calls, "closed", 0o600)?;
        done("set", set(calls, "open", "user.a", b"x").and_then(|()| set(calls, "closed", "user.a", b"x")))
    })?;
    ground.by(BOB, |calls| {
        same("get", get(calls, "open", "user.a"), Ok(b"x".to_vec()))?;
        fails("set", set(calls, "open", "user.a", b"y"), Errno::EACCES)?;
        fails("remove", remove(calls, "open", "user.a"), Errno::EACCES)?;
        fails("get what is closed", get(calls, "closed", "user.a"), Errno::EACCES)
    })
}

fn sticky(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        done("mkdir", calls.mkdir(b"d", 0o777))?;
        done("sticky", calls.setattr(b"d", &mode(0o1777)))?;
        done("set by its owner", set(calls, "d", "user.a", b"x"))
    })?;
    ground.by(BOB, |calls| {
        fails("set by another", set(calls, "d", "user.b", b"x"), Errno::EPERM)?;
        same("get", get(calls, "d", "user.a"), Ok(b"x".to_vec()))
    })
}

fn trusted(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o666)?;
        done("give away", calls.setattr(b"f", &owner(ALICE)))?;
        done("set", set(calls, "f", "trusted.a", b"x").and_then(|()| set(calls, "f", "user.a", b"y")))?;
        lists(calls, "f", &["trusted.a", "user.a"])
    })?;
    ground.by(ALICE, |calls| {
        fails("set", set(calls, "f", "trusted.a", b"z"), Errno::EPERM)?;
        fails("get", get(calls, "f", "trusted.a"), Errno::ENODATA)?;
        lists(calls, "f", &["user.a"])
    })
}

fn security(ground: &Ground<'_>) -> Check {
    ground.by(ROOT, |calls| {
        make(calls, "f", 0o666)?;
        done("set", set(calls, "f", "security.weir", b"x"))
    })?;
    ground.by(BOB, |calls| {
        same("get", get(calls, "f", "security.weir"), Ok(b"x".to_vec()))?;
        fails("set", set(calls, "f", "security.weir", b"y"), Errno::EPERM)
    })
}

fn follow(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "f", 0o644)?;
        done("set", set(calls, "f", "user.a", b"x"))?;
        done("link", calls.link(b"f", b"g"))?;
        done("rename", calls.rename(b"f", b"h", RenameFlags::empty()))?;
        done("set by the other name", set(calls, "g", "user.b", b"y"))?;
        lists(calls, "h", &["user.a", "user.b"])?;
        make(calls, "f", 0o644)?;
        lists(calls, "f", &[])?;
        done("replace", calls.rename(b"f", b"h", RenameFlags::empty()))?;
        lists(calls, "h", &[])?;
        lists(calls, "g", &["user.a", "user.b"])
    })
}

fn unmoved(ground: &Ground<'_>) -> Check {
    ground.by(ALICE, |calls| {
        make(calls, "f", 0o644)?;
        done("set", set(calls, "f", "user.a", b"x"))?;
        let before = attr(calls, "f")?;
        done("get", get(calls, "f", "user.a"))?;
        done("list", list(calls, "f"))?;
        same("reading marks nothing", attr(calls, "f")?, before)?;
        let fd = calls.open(b"f", MAKE - OpenFlags::CREATE - OpenFlags::EXCLUSIVE, 0);
        let fd = fd.map_err(|errno| errno.name().to_owned())?;
        done("write", calls.write(fd, b"contents").and_then(|_| calls.ftruncate(fd, 3)))?;
        done("close", calls.close(fd))?;
        done("chmod", calls.setattr(b"f", &mode(0o600)))?;
        same("its attribute", get(calls, "f", "user.a"), Ok(b"x".to_vec()))
    })
}
