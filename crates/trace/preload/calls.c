/* Wrappers of libc's functions that make the calls which a trace stores. Each calls the next definition of its symbol, so that what
 * libc does besides (cancellation, errno) stays, and hands the call to the ring. The text of a record is the call as strace(1) names
 * it, with a letter for each argument:
 *
 *   s string   d descriptor   n number   o octal mode   O flags of open   a mode of access   w whence   A AT_ flags
 *   v length of a vector   P offset in memory, -1 for none   D device   m, z mode and size of a stat   t, u two times
 *   M flags of mmap   V advice   C flags of close_range   R flags of unlinkat   p descriptor that was made
 *   L flags of clone   K flags of mount
 *
 * streams.c has directories, stdio and what else stays inside libc; processes.c what begins and ends processes and threads. */
#define _GNU_SOURCE
#include "ring.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/aio_abi.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <utime.h>

#include "wrap.h"

/* ---- opening and closing ---- */

#define OPENS(flags) (((flags) & O_CREAT) || ((flags) & __O_TMPFILE) == __O_TMPFILE)
#define MODE(mode, flags) \
    mode_t mode = 0; \
    if (OPENS(flags)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) {
    MODE(mode, flags)
    CALL(open, int, (path, flags, mode), "open:sOo", P(path), flags, mode)
}
ALIAS(open64, open);

int openat(int at, const char *path, int flags, ...) {
    MODE(mode, flags)
    CALL(openat, int, (at, path, flags, mode), "openat:dsOo", at, P(path), flags, mode)
}
ALIAS(openat64, openat);

/* What the headers make of open without a mode when _FORTIFY_SOURCE is set. */
int __open_2(const char *path, int flags) { return open(path, flags); }
int __openat_2(int at, const char *path, int flags) { return openat(at, path, flags); }
ALIAS(__open64_2, __open_2);
ALIAS(__openat64_2, __openat_2);

WRAP(int, creat, (const char *path, mode_t mode), (path, mode), "creat:so", P(path), mode)
ALIAS(creat64, creat);
WRAP_FREEING(int, close, (int fd), (fd), "close:d", fd)
WRAP(int, dup, (int fd), (fd), "dup:d", fd)
WRAP(int, dup2, (int fd, int to), (fd, to), "dup2:dn", fd, to)
WRAP(int, dup3, (int fd, int to, int flags), (fd, to, flags), "dup3:dnO", fd, to, flags)
WRAP_FREEING(int, close_range, (unsigned first, unsigned last, int flags), (first, last, flags), "close_range:nnC", first, last,
             flags)
void closefrom(int low) { close_range((unsigned)low, ~0u, 0); }

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    long arg = va_arg(rest, long);
    va_end(rest);
    struct flock lock = {0};
    int locks = command == F_SETLK || command == F_SETLKW || command == F_GETLK || command == F_OFD_SETLK ||
                command == F_OFD_SETLKW || command == F_OFD_GETLK;
    if (locks && arg) lock = *(struct flock *)arg;
    __typeof__(&fcntl) real = REAL(fcntl);
    uint64_t begin_ns = call_begins();
    int result = real(fd, command, arg);
    /* As strace shows it: what was asked, or of a question the answer. */
    if ((command == F_GETLK || command == F_OFD_GETLK) && result == 0) lock = *(struct flock *)arg;
    call_ends(begin_ns, "fcntl:dnnnnn", result, ARGS(fd, command, arg, lock.l_type, lock.l_start, lock.l_len));
    return result;
}
ALIAS(fcntl64, fcntl);

int lockf(int fd, int command, off_t length) {
    int is_test = command == F_TEST, is_free = command == F_ULOCK;
    int as = is_test ? F_GETLK : command == F_LOCK ? F_SETLKW : F_SETLK;
    CALL(lockf, int, (fd, command, length), "fcntl:dnnnnn", fd, as, 0, is_free ? F_UNLCK : F_WRLCK, 0, length)
}
ALIAS(lockf64, lockf);
WRAP(int, flock, (int fd, int how), (fd, how), "flock:dn", fd, how)

/* ---- reading and writing ---- */

static int64_t vector_bytes(const struct iovec *vector, int count) {
    int64_t sum = 0;
    for (int at = 0; vector && at < count && at < IOV_MAX; at++) sum += (int64_t)vector[at].iov_len;
    return sum;
}

WRAP(ssize_t, read, (int fd, void *to, size_t bytes), (fd, to, bytes), "read:dnn", fd, 0, (int64_t)bytes)
WRAP(ssize_t, write, (int fd, const void *from, size_t bytes), (fd, from, bytes), "write:dnn", fd, 0, (int64_t)bytes)
WRAP(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at), (fd, to, bytes, at), "pread64:dnnn", fd, 0, (int64_t)bytes, at)
ALIAS(pread64, pread);
WRAP(ssize_t, pwrite, (int fd, const void *from, size_t bytes, off_t at), (fd, from, bytes, at), "pwrite64:dnnn", fd, 0,
     (int64_t)bytes, at)
ALIAS(pwrite64, pwrite);
WRAP(ssize_t, readv, (int fd, const struct iovec *to, int count), (fd, to, count), "readv:dvn", fd, vector_bytes(to, count), count)
WRAP(ssize_t, writev, (int fd, const struct iovec *from, int count), (fd, from, count), "writev:dvn", fd,
     vector_bytes(from, count), count)
WRAP(ssize_t, preadv, (int fd, const struct iovec *to, int count, off_t at), (fd, to, count, at), "preadv:dvnn", fd,
     vector_bytes(to, count), count, at)
ALIAS(preadv64, preadv);
WRAP(ssize_t, pwritev, (int fd, const struct iovec *from, int count, off_t at), (fd, from, count, at), "pwritev:dvnn", fd,
     vector_bytes(from, count), count, at)
ALIAS(pwritev64, pwritev);
WRAP(ssize_t, preadv2, (int fd, const struct iovec *to, int count, off_t at, int flags), (fd, to, count, at, flags),
     "preadv2:dvnnn", fd, vector_bytes(to, count), count, at, flags)
ALIAS(preadv64v2, preadv2);
WRAP(ssize_t, pwritev2, (int fd, const struct iovec *from, int count, off_t at, int flags), (fd, from, count, at, flags),
     "pwritev2:dvnnn", fd, vector_bytes(from, count), count, at, flags)
ALIAS(pwritev64v2, pwritev2);
ssize_t __read_chk(int fd, void *to, size_t bytes, size_t room) {
    return bytes > room ? (abort(), -1) : read(fd, to, bytes);
}
ssize_t __pread_chk(int fd, void *to, size_t bytes, off_t at, size_t room) {
    return bytes > room ? (abort(), -1) : pread(fd, to, bytes, at);
}
ALIAS(__pread64_chk, __pread_chk);
WRAP(off_t, lseek, (int fd, off_t by, int whence), (fd, by, whence), "lseek:dnw", fd, by, whence)
ALIAS(lseek64, lseek);
WRAP(ssize_t, getdents64, (int fd, void *to, size_t bytes), (fd, to, bytes), "getdents64:dnn", fd, 0, (int64_t)bytes)

static int64_t pointed(const off_t *at) { return at ? *at : -1; }

ssize_t copy_file_range(int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags) {
    int64_t one = pointed(from_at), two = pointed(to_at);
    CALL(copy_file_range, ssize_t, (from, from_at, to, to_at, bytes, flags), "copy_file_range:dPdPnn", from, one, to, two,
         (int64_t)bytes, flags)
}
ssize_t splice(int from, off_t *from_at, int to, off_t *to_at, size_t bytes, unsigned flags) {
    int64_t one = pointed(from_at), two = pointed(to_at);
    CALL(splice, ssize_t, (from, from_at, to, to_at, bytes, flags), "splice:dPdPnn", from, one, to, two, (int64_t)bytes, flags)
}
ssize_t sendfile(int to, int from, off_t *at, size_t bytes) {
    int64_t one = pointed(at);
    CALL(sendfile, ssize_t, (to, from, at, bytes), "sendfile:ddPn", to, from, one, (int64_t)bytes)
}
ALIAS(sendfile64, sendfile);

int ioctl(int fd, unsigned long request, ...) {
    const unsigned long clone = 0x40049409; /* FICLONE */
    va_list rest;
    va_start(rest, request);
    long arg = va_arg(rest, long);
    va_end(rest);
    CALL(ioctl, int, (fd, request, arg), "ioctl:dnd", fd, request == clone, arg)
}

/* ---- durability, sizes ---- */

WRAP(int, fsync, (int fd), (fd), "fsync:d", fd)
WRAP(int, fdatasync, (int fd), (fd), "fdatasync:d", fd)
WRAP(int, syncfs, (int fd), (fd), "syncfs:d", fd)
WRAP(int, sync_file_range, (int fd, off_t at, off_t bytes, unsigned flags), (fd, at, bytes, flags), "sync_file_range:dnnn", fd, at,
     bytes, flags)
void sync(void) {
    __typeof__(&sync) real = REAL(sync);
    uint64_t begin_ns = call_begins();
    real();
    call_ends(begin_ns, "sync:", 0, ARGS(0));
}
WRAP(int, truncate, (const char *path, off_t bytes), (path, bytes), "truncate:sn", P(path), bytes)
ALIAS(truncate64, truncate);
WRAP(int, ftruncate, (int fd, off_t bytes), (fd, bytes), "ftruncate:dn", fd, bytes)
ALIAS(ftruncate64, ftruncate);
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t bytes), (fd, mode, at, bytes), "fallocate:dnnn", fd, mode, at, bytes)
ALIAS(fallocate64, fallocate);
WRAP_ERROR(posix_fallocate, (int fd, off_t at, off_t bytes), (fd, at, bytes), "fallocate:dnnn", fd, 0, at, bytes)
ALIAS(posix_fallocate64, posix_fallocate);
WRAP_ERROR(posix_fadvise, (int fd, off_t at, off_t bytes, int advice), (fd, at, bytes, advice), "fadvise64:dnnV", fd, at, bytes,
           advice)
ALIAS(posix_fadvise64, posix_fadvise);
WRAP(ssize_t, readahead, (int fd, off_t at, size_t bytes), (fd, at, bytes), "readahead:dnn", fd, at, (int64_t)bytes)

/* ---- attributes ---- */

#define MODE_AND_SIZE(about) result == 0 ? (about)->st_mode : 0, result == 0 ? (about)->st_size : 0
WRAP(int, stat, (const char *path, struct stat *about), (path, about), "stat:smz", P(path), MODE_AND_SIZE(about))
ALIAS(stat64, stat);
WRAP(int, lstat, (const char *path, struct stat *about), (path, about), "lstat:smz", P(path), MODE_AND_SIZE(about))
ALIAS(lstat64, lstat);
WRAP(int, fstat, (int fd, struct stat *about), (fd, about), "fstat:dmz", fd, MODE_AND_SIZE(about))
ALIAS(fstat64, fstat);
WRAP(int, fstatat, (int at, const char *path, struct stat *about, int flags), (at, path, about, flags), "newfstatat:dsmzA", at,
     P(path), MODE_AND_SIZE(about), flags)
ALIAS(fstatat64, fstatat);
/* Programs that were built with a glibc before 2.33 call these. */
WRAP(int, __xstat, (int version, const char *path, struct stat *about), (version, path, about), "stat:smz", P(path),
     MODE_AND_SIZE(about))
ALIAS(__xstat64, __xstat);
WRAP(int, __lxstat, (int version, const char *path, struct stat *about), (version, path, about), "lstat:smz", P(path),
     MODE_AND_SIZE(about))
ALIAS(__lxstat64, __lxstat);
WRAP(int, __fxstat, (int version, int fd, struct stat *about), (version, fd, about), "fstat:dmz", fd, MODE_AND_SIZE(about))
ALIAS(__fxstat64, __fxstat);
WRAP(int, __fxstatat, (int version, int at, const char *path, struct stat *about, int flags), (version, at, path, about, flags),
     "newfstatat:dsmzA", at, P(path), MODE_AND_SIZE(about), flags)
ALIAS(__fxstatat64, __fxstatat);
WRAP(int, statx, (int at, const char *path, int flags, unsigned mask, struct statx *about), (at, path, flags, mask, about),
     "statx:dsAnmz", at, P(path), flags, mask, result == 0 ? about->stx_mode : 0, result == 0 ? (int64_t)about->stx_size : 0)
WRAP(int, access, (const char *path, int mode), (path, mode), "access:sa", P(path), mode)
WRAP(int, faccessat, (int at, const char *path, int mode, int flags), (at, path, mode, flags), "faccessat:dsaA", at, P(path), mode,
     flags)
WRAP(int, euidaccess, (const char *path, int mode), (path, mode), "access:sa", P(path), mode)
ALIAS(eaccess, euidaccess);
WRAP(int, statfs, (const char *path, struct statfs *about), (path, about), "statfs:s", P(path))
ALIAS(statfs64, statfs);
WRAP(int, fstatfs, (int fd, struct statfs *about), (fd, about), "fstatfs:d", fd)
ALIAS(fstatfs64, fstatfs);
WRAP(int, statvfs, (const char *path, struct statvfs *about), (path, about), "statfs:s", P(path))
ALIAS(statvfs64, statvfs);
WRAP(int, fstatvfs, (int fd, struct statvfs *about), (fd, about), "fstatfs:d", fd)
ALIAS(fstatvfs64, fstatvfs);
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), "chmod:so", P(path), mode)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), "fchmod:do", fd, mode)
WRAP(int, fchmodat, (int at, const char *path, mode_t mode, int flags), (at, path, mode, flags), "fchmodat2:dsoA", at, P(path), mode,
     flags)
WRAP(int, chown, (const char *path, uid_t user, gid_t group), (path, user, group), "chown:snn", P(path), (int)user, (int)group)
WRAP(int, lchown, (const char *path, uid_t user, gid_t group), (path, user, group), "lchown:snn", P(path), (int)user, (int)group)
WRAP(int, fchown, (int fd, uid_t user, gid_t group), (fd, user, group), "fchown:dnn", fd, (int)user, (int)group)
WRAP(int, fchownat, (int at, const char *path, uid_t user, gid_t group, int flags), (at, path, user, group, flags),
     "fchownat:dsnnA", at, P(path), (int)user, (int)group, flags)

/* Times as the trace has them: nanoseconds, or the two largest numbers for "now" and "leave as it is". */
static int64_t nanos(int64_t seconds, int64_t rest) {
    int64_t sum;
    if (rest == UTIME_NOW) return INT64_MAX;
    if (rest == UTIME_OMIT) return INT64_MAX - 1;
    return __builtin_mul_overflow(seconds, 1000000000, &sum) ? 0 : sum + rest;
}
#define SPECS(times) times ? nanos(times[0].tv_sec, times[0].tv_nsec) : INT64_MAX, \
                     times ? nanos(times[1].tv_sec, times[1].tv_nsec) : INT64_MAX
#define VALUES(times) times ? nanos(times[0].tv_sec, times[0].tv_usec * 1000) : INT64_MAX, \
                      times ? nanos(times[1].tv_sec, times[1].tv_usec * 1000) : INT64_MAX
WRAP(int, utimensat, (int at, const char *path, const struct timespec times[2], int flags), (at, path, times, flags),
     "utimensat:dstuA", at, P(path), SPECS(times), flags)
WRAP(int, futimens, (int fd, const struct timespec times[2]), (fd, times), "utimensat:dstuA", fd, 0, SPECS(times), 0)
WRAP(int, utimes, (const char *path, const struct timeval times[2]), (path, times), "utimensat:dstuA", AT_FDCWD, P(path),
     VALUES(times), 0)
WRAP(int, lutimes, (const char *path, const struct timeval times[2]), (path, times), "utimensat:dstuA", AT_FDCWD, P(path),
     VALUES(times), AT_SYMLINK_NOFOLLOW)
WRAP(int, futimes, (int fd, const struct timeval times[2]), (fd, times), "utimensat:dstuA", fd, 0, VALUES(times), 0)
WRAP(int, futimesat, (int at, const char *path, const struct timeval times[2]), (at, path, times), "utimensat:dstuA", at, P(path),
     VALUES(times), 0)
WRAP(int, utime, (const char *path, const struct utimbuf *times), (path, times), "utimensat:dstuA", AT_FDCWD, P(path),
     times ? nanos(times->actime, 0) : INT64_MAX, times ? nanos(times->modtime, 0) : INT64_MAX, 0)

#define XATTRS(prefix, type, first, letters, ...) \
    WRAP(ssize_t, prefix##getxattr, (type, const char *name, void *to, size_t bytes), (first, name, to, bytes), \
         #prefix "getxattr:" letters "snn", __VA_ARGS__, P(name), 0, (int64_t)bytes) \
    WRAP(int, prefix##setxattr, (type, const char *name, const void *from, size_t bytes, int flags), \
         (first, name, from, bytes, flags), #prefix "setxattr:" letters "snnn", __VA_ARGS__, P(name), 0, (int64_t)bytes, flags) \
    WRAP(ssize_t, prefix##listxattr, (type, char *to, size_t bytes), (first, to, bytes), #prefix "listxattr:" letters "nn", \
         __VA_ARGS__, 0, (int64_t)bytes) \
    WRAP(int, prefix##removexattr, (type, const char *name), (first, name), #prefix "removexattr:" letters "s", __VA_ARGS__, P(name))
XATTRS(, const char *path, path, "s", P(path))
XATTRS(l, const char *path, path, "s", P(path))
XATTRS(f, int fd, fd, "d", fd)

/* ---- names ---- */

WRAP(int, mkdir, (const char *path, mode_t mode), (path, mode), "mkdir:so", P(path), mode)
WRAP(int, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode), "mkdirat:dso", at, P(path), mode)
WRAP(int, rmdir, (const char *path), (path), "rmdir:s", P(path))
WRAP(int, unlink, (const char *path), (path), "unlink:s", P(path))
WRAP(int, unlinkat, (int at, const char *path, int flags), (at, path, flags), "unlinkat:dsR", at, P(path), flags)
int remove(const char *path) { return unlink(path) == 0 || (errno == EISDIR && rmdir(path) == 0) ? 0 : -1; }
WRAP(int, rename, (const char *from, const char *to), (from, to), "rename:ss", P(from), P(to))
WRAP(int, renameat, (int from_at, const char *from, int to_at, const char *to), (from_at, from, to_at, to), "renameat:dsds", from_at,
     P(from), to_at, P(to))
WRAP(int, renameat2, (int from_at, const char *from, int to_at, const char *to, unsigned flags), (from_at, from, to_at, to, flags),
     "renameat2:dsdsn", from_at, P(from), to_at, P(to), flags)
WRAP(int, link, (const char *from, const char *to), (from, to), "link:ss", P(from), P(to))
WRAP(int, linkat, (int from_at, const char *from, int to_at, const char *to, int flags), (from_at, from, to_at, to, flags),
     "linkat:dsdsA", from_at, P(from), to_at, P(to), flags)
WRAP(int, symlink, (const char *target, const char *path), (target, path), "symlink:ss", P(target), P(path))
WRAP(int, symlinkat, (const char *target, int at, const char *path), (target, at, path), "symlinkat:sds", P(target), at, P(path))
WRAP(ssize_t, readlink, (const char *path, char *to, size_t bytes), (path, to, bytes), "readlink:snn", P(path), 0, (int64_t)bytes)
WRAP(ssize_t, readlinkat, (int at, const char *path, char *to, size_t bytes), (at, path, to, bytes), "readlinkat:dsnn", at, P(path),
     0, (int64_t)bytes)
ssize_t __readlink_chk(const char *path, char *to, size_t bytes, size_t room) {
    return bytes > room ? (abort(), -1) : readlink(path, to, bytes);
}
ssize_t __readlinkat_chk(int at, const char *path, char *to, size_t bytes, size_t room) {
    return bytes > room ? (abort(), -1) : readlinkat(at, path, to, bytes);
}
WRAP(int, mknod, (const char *path, mode_t mode, dev_t device), (path, mode, device), "mknod:soD", P(path), mode, (int64_t)device)
WRAP(int, mknodat, (int at, const char *path, mode_t mode, dev_t device), (at, path, mode, device), "mknodat:dsoD", at, P(path),
     mode, (int64_t)device)
WRAP(int, mkfifo, (const char *path, mode_t mode), (path, mode), "mknod:soD", P(path), mode | S_IFIFO, 0)
WRAP(int, mkfifoat, (int at, const char *path, mode_t mode), (at, path, mode), "mknodat:dsoD", at, P(path), mode | S_IFIFO, 0)
WRAP(int, chdir, (const char *path), (path), "chdir:s", P(path))
WRAP(int, fchdir, (int fd), (fd), "fchdir:d", fd)
WRAP(mode_t, umask, (mode_t mode), (mode), "umask:o", mode)

/* libc makes up the name; of several tries the last is recorded. */
#define TEMPORARY(name, params, call, flags) \
    WRAP(int, name, params, call, "open:sOo", P(path), O_RDWR | O_CREAT | O_EXCL | (flags), 0600)
TEMPORARY(mkstemp, (char *path), (path), 0)
TEMPORARY(mkostemp, (char *path, int flags), (path, flags), flags)
TEMPORARY(mkstemps, (char *path, int behind), (path, behind), 0)
TEMPORARY(mkostemps, (char *path, int behind, int flags), (path, behind, flags), flags)
ALIAS(mkstemp64, mkstemp);
ALIAS(mkostemp64, mkostemp);
ALIAS(mkstemps64, mkstemps);
ALIAS(mkostemps64, mkostemps);
char *mkdtemp(char *path) {
    __typeof__(&mkdtemp) real = REAL(mkdtemp);
    uint64_t begin_ns = call_begins();
    char *result = real(path);
    call_ends(begin_ns, "mkdir:so", result ? 0 : -1, ARGS(P(path), 0700));
    return result;
}

/* ---- mappings ---- */

void *mmap(void *where, size_t bytes, int protection, int flags, int fd, off_t at) {
    __typeof__(&mmap) real = REAL(mmap);
    if (flags & MAP_ANONYMOUS) return real(where, bytes, protection, flags, fd, at);
    uint64_t begin_ns = call_begins();
    void *result = real(where, bytes, protection, flags, fd, at);
    call_ends(begin_ns, "mmap:nnnMdn", P(result), ARGS(0, (int64_t)bytes, protection, flags, fd, at));
    return result;
}
ALIAS(mmap64, mmap);
WRAP_FREEING(int, munmap, (void *where, size_t bytes), (where, bytes), "munmap:nn", P(where), (int64_t)bytes)
WRAP(int, msync, (void *where, size_t bytes, int flags), (where, bytes, flags), "msync:nnn", P(where), (int64_t)bytes, flags)

/* ---- roots, mounts and namespaces ---- */

WRAP(int, chroot, (const char *path), (path), "chroot:s", P(path))
WRAP(int, unshare, (int flags), (flags), "unshare:L", flags)
WRAP(int, setns, (int fd, int kind), (fd, kind), "setns:dL", fd, kind)
WRAP(int, mount, (const char *from, const char *to, const char *type, unsigned long flags, const void *data),
     (from, to, type, flags, data), "mount:sssK", P(from), P(to), P(type), (int64_t)flags)
WRAP(int, umount2, (const char *path, int flags), (path, flags), "umount2:sn", P(path), flags)
WRAP(int, umount, (const char *path), (path), "umount2:sn", P(path), 0)

/* ---- descriptors in messages: a record for each ---- */

/* The descriptors of a message. */
static size_t rights(const struct msghdr *message, int *to, size_t room) {
    size_t found = 0;
    for (struct cmsghdr *part = message->msg_controllen >= sizeof *part ? CMSG_FIRSTHDR(message) : 0; part;
         part = CMSG_NXTHDR((struct msghdr *)message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS || part->cmsg_len < CMSG_LEN(0)) continue;
        size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t at = 0; at < count && found < room; at++) memcpy(&to[found++], CMSG_DATA(part) + at * sizeof(int), sizeof(int));
    }
    return found;
}

/* The kernel takes no more in one message (SCM_MAX_FD of net/scm.h). */
enum { RIGHTS_MAX = 253 };

/* A message may be received before the call that sends it returns: it has its place among the records when it begins. */
static void numbers(uint64_t *to, size_t count) {
    for (size_t at = 0; at < count; at++) to[at] = call_number();
}
static void are_sent(const uint64_t *numbers, size_t count, uint64_t begin_ns, int socket, const int *fds, int64_t result) {
    for (size_t at = 0; at < count; at++) call_ends_as(numbers[at], begin_ns, "sendmsg:ddn", result, ARGS(socket, fds[at], 0));
}
static void are_received(const struct msghdr *message, uint64_t begin_ns, int socket, int flags) {
    int fds[RIGHTS_MAX];
    size_t count = rights(message, fds, RIGHTS_MAX);
    for (size_t at = 0; at < count; at++) {
        char name[40] = "/proc/self/fd/", path[4096], digits[12];
        int length = 0;
        for (unsigned left = (unsigned)fds[at]; length == 0 || left; left /= 10) digits[length++] = (char)('0' + left % 10);
        for (char *to = name + strlen(name); length > 0;) *to++ = digits[--length], *to = 0;
        long got = system_call(SYS_readlinkat, AT_FDCWD, (long)name, (long)path, sizeof path - 1, 0, 0);
        path[got > 0 ? got : 0] = 0;
        call_ends(begin_ns, "recvmsg:ddns", 0, ARGS(socket, fds[at], flags & MSG_CMSG_CLOEXEC, P(path)));
    }
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags) {
    __typeof__(&sendmsg) real = REAL(sendmsg);
    int fds[RIGHTS_MAX];
    size_t count = message && message->msg_controllen && is_recording() ? rights(message, fds, RIGHTS_MAX) : 0;
    if (count == 0) return real(socket, message, flags);
    uint64_t begin_ns = call_begins(), places[RIGHTS_MAX];
    numbers(places, count);
    ssize_t result = real(socket, message, flags);
    are_sent(places, count, begin_ns, socket, fds, result);
    return result;
}
int sendmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags) {
    __typeof__(&sendmmsg) real = REAL(sendmmsg);
    int fds[RIGHTS_MAX];
    size_t all = 0;
    for (unsigned at = 0; messages && is_recording() && at < count; at++) {
        if (messages[at].msg_hdr.msg_controllen) all += rights(&messages[at].msg_hdr, fds + all, RIGHTS_MAX - all);
    }
    if (all == 0) return real(socket, messages, count, flags);
    uint64_t begin_ns = call_begins(), places[RIGHTS_MAX];
    numbers(places, all);
    int result = real(socket, messages, count, flags);
    are_sent(places, all, begin_ns, socket, fds, result);
    return result;
}
ssize_t recvmsg(int socket, struct msghdr *message, int flags) {
    __typeof__(&recvmsg) real = REAL(recvmsg);
    uint64_t begin_ns = message && message->msg_controllen ? call_begins() : 0;
    ssize_t result = real(socket, message, flags);
    int before = errno;
    if (begin_ns && result >= 0 && is_recording()) are_received(message, begin_ns, socket, flags);
    errno = before;
    return result;
}
int recvmmsg(int socket, struct mmsghdr *messages, unsigned count, int flags, struct timespec *until) {
    __typeof__(&recvmmsg) real = REAL(recvmmsg);
    uint64_t begin_ns = call_begins();
    int result = real(socket, messages, count, flags, until), before = errno;
    for (int at = 0; at < result && is_recording(); at++) are_received(&messages[at].msg_hdr, begin_ns, socket, flags);
    errno = before;
    return result;
}

/* ---- asynchronous calls: a record for each control block that was taken ---- */

void submitted(uint64_t begin_ns, long taken, struct iocb *const *list) {
    for (long at = 0; at < taken && is_recording(); at++) {
        const struct iocb *block = list[at];
        int is_vector = block->aio_lio_opcode == IOCB_CMD_PREADV || block->aio_lio_opcode == IOCB_CMD_PWRITEV;
        const struct iovec *vector = (const struct iovec *)(uintptr_t)block->aio_buf;
        int64_t bytes = is_vector ? vector_bytes(vector, (int)block->aio_nbytes) : (int64_t)block->aio_nbytes;
        call_ends(begin_ns, "io_submit:nnnnn", 1, ARGS((int64_t)block->aio_data, block->aio_lio_opcode, (int)block->aio_fildes, bytes,
                                                       (int64_t)block->aio_offset));
    }
}

/* libaio's, which gives -errno. */
int io_submit(void *queue, long count, struct iocb **list);
int io_submit(void *queue, long count, struct iocb **list) {
    __typeof__(&io_submit) real = REAL(io_submit);
    uint64_t begin_ns = call_begins();
    int result = real(queue, count, list);
    submitted(begin_ns, result, list);
    return result;
}

/* liburing's beginnings of a ring. */
#define RINGS(name, ...) \
    int name(unsigned entries, void *ring, __VA_ARGS__ more); \
    int name(unsigned entries, void *ring, __VA_ARGS__ more) { \
        event("ring:", ARGS(0)); \
        return REAL(name)(entries, ring, more); \
    }
RINGS(io_uring_queue_init, unsigned)
RINGS(io_uring_queue_init_params, void *)

/* ---- descriptors of what are no files: the reader must know that they are none ---- */

#define PAIR(fds) result == 0 ? (fds)[0] : -1, result == 0 ? (fds)[1] : -1
WRAP(int, pipe, (int fds[2]), (fds), "pipe2:pp", PAIR(fds))
WRAP(int, pipe2, (int fds[2], int flags), (fds, flags), "pipe2:ppn", PAIR(fds), flags & O_CLOEXEC)
WRAP(int, socketpair, (int domain, int type, int protocol, int fds[2]), (domain, type, protocol, fds), "pipe2:ppn", PAIR(fds),
     type & SOCK_CLOEXEC)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), "socket:", 0)
WRAP(int, accept, (int fd, struct sockaddr *address, socklen_t *bytes), (fd, address, bytes), "accept:", 0)
WRAP(int, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags), (fd, address, bytes, flags), "accept:", 0)
WRAP(int, eventfd, (unsigned first, int flags), (first, flags), "eventfd2:", 0)
WRAP(int, epoll_create, (int size), (size), "epoll_create1:", 0)
WRAP(int, epoll_create1, (int flags), (flags), "epoll_create1:", 0)
WRAP(int, memfd_create, (const char *name, unsigned flags), (name, flags), "memfd_create:", 0)
WRAP(int, timerfd_create, (clockid_t clock, int flags), (clock, flags), "timerfd_create:", 0)
