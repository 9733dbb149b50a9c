#!/usr/bin/env python3
"""Calls that ordinary programs seldom make, on a mounted directory: file handles, O_TMPFILE, access-control lists, flags of inodes.

    calls.py handles-make DIR FILE | handles-check DIR FILE | tmpfile DIR | lists DIR | flags DIR

handles-make writes the handles of what it makes below DIR into FILE; handles-check opens them, in another run and perhaps after
the server was started again. Root only (open_by_handle_at takes CAP_DAC_READ_SEARCH).
"""
import ctypes, errno, fcntl, json, os, stat, struct, subprocess, sys, time

libc = ctypes.CDLL(None, use_errno=True)
AT_SYMLINK_FOLLOW, AT_FDCWD, HANDLE_MAX = 0x400, -100, 128


def check(truth, what):
    if not truth:
        sys.exit(f"FAILED: {what}")


def raised(wanted, call, *args, **named):
    try:
        call(*args, **named)
    except OSError as error:
        check(error.errno == wanted, f"{call.__name__}: {error}, not {errno.errorcode[wanted]}")
    else:
        check(False, f"{call.__name__} has succeeded, and should answer {errno.errorcode[wanted]}")


def name_it(descriptor, path):
    """linkat(2) of an open file; os.link does not follow the link in /proc."""
    source = f"/proc/self/fd/{descriptor}".encode()
    if libc.linkat(AT_FDCWD, source, AT_FDCWD, path.encode(), AT_SYMLINK_FOLLOW):
        raise OSError(ctypes.get_errno(), "linkat")


def handle_of(path):
    space = ctypes.create_string_buffer(struct.pack("Ii", HANDLE_MAX, 0), 8 + HANDLE_MAX)
    mount = ctypes.c_int()
    if libc.name_to_handle_at(AT_FDCWD, path.encode(), space, ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at")
    size = struct.unpack("Ii", space.raw[:8])[0]
    return space.raw[: 8 + size].hex()


def open_handle(below, handle, flags=os.O_RDONLY):
    space = ctypes.create_string_buffer(bytes.fromhex(handle))
    mount = os.open(below, os.O_RDONLY)
    try:
        descriptor = libc.open_by_handle_at(mount, space, flags)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), "open_by_handle_at")
        return descriptor
    finally:
        os.close(mount)


def handles_make(below, kept):
    os.mkdir(f"{below}/d")
    names = {"file": "d/file", "directory": "d", "link": "d/other"}
    with open(f"{below}/d/file", "w") as file:
        file.write("kept\n")
    os.link(f"{below}/d/file", f"{below}/d/other")
    handles = {what: handle_of(f"{below}/{name}") for what, name in names.items()}
    check(handles["file"] == handles["link"], "two names of a file have two handles")
    with open(f"{below}/d/gone", "w") as file:
        file.write("gone\n")
    handles["gone"] = handle_of(f"{below}/d/gone")
    os.rename(f"{below}/d/file", f"{below}/moved")
    os.unlink(f"{below}/d/gone")
    os.sync()
    with open(kept, "w") as file:
        json.dump(handles, file)


def handles_check(below, kept):
    with open(kept) as file:
        handles = json.load(file)
    # Numbers of files that have gone are given to others: a handle must not lead to those.
    for number in range(64):
        with open(f"{below}/d/new{number}", "w") as file:
            file.write("new\n")
    raised(errno.ESTALE, open_handle, below, handles["gone"])
    descriptor = open_handle(below, handles["file"])
    check(os.read(descriptor, 16) == b"kept\n", "the handle of a renamed file leads elsewhere")
    check(os.fstat(descriptor).st_ino == os.stat(f"{below}/moved").st_ino, "the handle leads to another inode")
    os.close(descriptor)
    descriptor = open_handle(below, handles["directory"], os.O_RDONLY | os.O_DIRECTORY)
    check("other" in os.listdir(descriptor), "the handle of a directory leads elsewhere")
    parent = os.open("..", os.O_RDONLY, dir_fd=descriptor)
    check(os.fstat(parent).st_ino == os.stat(below).st_ino, ".. of a directory that was found by its handle")
    os.close(parent)
    os.close(descriptor)


def tmpfile(below):
    descriptor = os.open(below, os.O_TMPFILE | os.O_RDWR, 0o640)
    check(os.fstat(descriptor).st_nlink == 0, "a file without a name has one")
    before = os.listdir(below)
    os.write(descriptor, b"written before it had a name\n")
    name_it(descriptor, f"{below}/named")
    known = os.stat(f"{below}/named")
    check((known.st_nlink, stat.S_IMODE(known.st_mode)) == (1, 0o640), f"links or mode of what got a name: {known}")
    with open(f"{below}/named", "rb") as file:
        check(file.read() == b"written before it had a name\n", "contents of what got a name")
    os.close(descriptor)
    check(sorted(os.listdir(below)) == sorted(before + ["named"]), "names that nobody gave")
    free = os.statvfs(below).f_bfree
    descriptor = os.open(below, os.O_TMPFILE | os.O_RDWR | os.O_EXCL, 0o600)
    os.write(descriptor, bytes(1 << 20))
    raised(errno.ENOENT, name_it, descriptor, f"{below}/never")
    os.close(descriptor)
    # The kernel tells of the close, and that it has forgotten the file, when it likes.
    until = time.monotonic() + 60
    while os.statvfs(below).f_bfree < free - 8:
        check(time.monotonic() < until, "the blocks of a file that never had a name are lost")
        time.sleep(0.01)
    # One that was unlinked gets no name again.
    descriptor = os.open(f"{below}/named", os.O_RDWR)
    os.unlink(f"{below}/named")
    raised(errno.ENOENT, name_it, descriptor, f"{below}/again")
    os.close(descriptor)


ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
USER_OBJ, USER, GROUP_OBJ, GROUP, MASK, OTHER, NONE = 1, 2, 4, 8, 16, 32, 0xFFFFFFFF


def packed(*entries):
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def as_user(user, call, *args):
    """Whether `call` succeeds for another user."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        try:
            call(*args)
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def reads(path):
    os.close(os.open(path, os.O_RDONLY))


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def lists(below):
    os.umask(0o022)
    path = f"{below}/file"
    with open(path, "w") as file:
        file.write("secret\n")
    os.chmod(path, 0o600)
    check(not as_user(1234, reads, path), "the mode alone lets another user read")
    os.setxattr(path, ACCESS, packed((USER_OBJ, 6, NONE), (USER, 4, 1234), (GROUP_OBJ, 0, NONE), (MASK, 4, NONE), (OTHER, 0, NONE)))
    check(mode(path) == 0o640, f"the mode does not follow the list: {mode(path):o}")
    check(as_user(1234, reads, path), "the list does not let its user read")
    check(not as_user(1235, reads, path), "the list lets another user read")
    os.chmod(path, 0o600)
    check(not as_user(1234, reads, path), "the mask does not follow chmod")
    os.chmod(path, 0o640)
    check(as_user(1234, reads, path), "the list was lost by chmod")
    os.setxattr(path, ACCESS, packed((USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE), (OTHER, 4, NONE)))
    check(mode(path) == 0o644 and ACCESS not in os.listxattr(path), "a list that says no more than a mode was kept")
    raised(errno.EINVAL, os.setxattr, path, ACCESS, packed((USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE)))
    raised(errno.EACCES, os.setxattr, path, DEFAULT, packed((USER_OBJ, 6, NONE), (GROUP_OBJ, 4, NONE), (OTHER, 4, NONE)))
    os.mkdir(f"{below}/shared")
    os.chmod(below, 0o755)
    inherited = packed((USER_OBJ, 7, NONE), (USER, 7, 1234), (GROUP_OBJ, 5, NONE), (MASK, 7, NONE), (OTHER, 0, NONE))
    os.setxattr(f"{below}/shared", DEFAULT, inherited)
    os.close(os.open(f"{below}/shared/made", os.O_CREAT | os.O_WRONLY, 0o666))
    check(mode(f"{below}/shared/made") == 0o660, f"a default list and the umask: {mode(f'{below}/shared/made'):o}")
    check(as_user(1234, reads, f"{below}/shared/made"), "a new file does not inherit the list")
    check(not as_user(1235, reads, f"{below}/shared/made"), "a new file lets others read")
    os.mkdir(f"{below}/shared/sub")
    check(os.getxattr(f"{below}/shared/sub", DEFAULT) == inherited, "a new directory does not hand the list down")
    os.removexattr(f"{below}/shared", DEFAULT)
    os.close(os.open(f"{below}/shared/plain", os.O_CREAT | os.O_WRONLY, 0o666))
    check(mode(f"{below}/shared/plain") == 0o644, "the umask, without a default list")


GET_FLAGS, SET_FLAGS, GET_VERSION = 0x80086601, 0x40086602, 0x80087601
SYNCHRONOUS, IMMUTABLE, APPEND, NODUMP, NOATIME = 0x8, 0x10, 0x20, 0x40, 0x80


def flags_of(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return struct.unpack("q", fcntl.ioctl(descriptor, GET_FLAGS, bytes(8)))[0]
    finally:
        os.close(descriptor)


def set_flags(path, flags):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, SET_FLAGS, struct.pack("q", flags))
    finally:
        os.close(descriptor)


def flags(below):
    """What chattr(1), lsattr(1) and stat(1) ask for: of a design that keeps flags, and of one that keeps none."""
    path = f"{below}/file"
    began = time.time()
    with open(path, "w") as file:
        file.write("contents\n")
        # Four bytes come back, as lsattr(1) expects, whatever the number of the call says.
        room = fcntl.ioctl(file, GET_VERSION, b"\xa5" * 8)
        check(room[4:] == b"\xa5" * 4, f"a generation of more than four bytes: {room}")
    old = flags_of(path)
    raised(errno.EOPNOTSUPP, set_flags, path, old | SYNCHRONOUS)
    raised(errno.EOPNOTSUPP, set_flags, path, old ^ 0x80000)
    set_flags(path, old)
    born = int(subprocess.run(["stat", "-c", "%W", path], check=True, capture_output=True).stdout)
    check(born == 0 or began - 2 <= born <= time.time(), f"born at {born}")
    try:
        set_flags(path, old | NODUMP)
    except OSError as error:
        check((error.errno, old) == (errno.EOPNOTSUPP, 0), f"flags that are shown and cannot be set: {old:x}, {error}")
        return
    check(born != 0, "a design that keeps flags says when a file was made")
    changed = os.stat(path).st_ctime_ns
    time.sleep(0.02)
    set_flags(path, old | NODUMP | IMMUTABLE)
    check(flags_of(path) == old | NODUMP | IMMUTABLE, f"flags that were set: {flags_of(path):x}")
    check(os.stat(path).st_ctime_ns > changed, "the kernel shows the time of change from before the flag was set")
    for call, *args in [(open, path, "w"), (os.unlink, path), (os.rename, path, path + "2"), (os.chmod, path, 0o600)]:
        raised(errno.EPERM, call, *args)
    raised(errno.EPERM, os.link, path, path + "2")
    set_flags(path, old | APPEND)
    raised(errno.EPERM, open, path, "w")
    raised(errno.EPERM, os.unlink, path)
    with open(path, "a") as file:
        file.write("more\n")
    set_flags(path, old | NOATIME)
    os.utime(path, (1, 1))
    with open(path) as file:
        check(file.read() == "contents\nmore\n", "contents")
    check(os.stat(path).st_atime == 1, "reading a file with A has set its access time")
    set_flags(path, old)
    set_flags(below, flags_of(below) | IMMUTABLE)
    raised(errno.EPERM, open, f"{below}/new", "w")
    set_flags(below, flags_of(below) & ~IMMUTABLE)
    os.unlink(path)


if __name__ == "__main__":
    calls = {"handles-make": handles_make, "handles-check": handles_check, "tmpfile": tmpfile, "lists": lists, "flags": flags}
    calls[sys.argv[1]](*sys.argv[2:])
