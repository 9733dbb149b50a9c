/* Directory streams, and what stays inside libc.
 *
 * libc lists directories by calls of its own. DIR is opaque, so the functions on it are written here, with the calls that glibc makes
 * (sysdeps/unix/sysv/linux/opendir.c: openat, fstat, getdents64 of at least 32 KiB), and so are recorded.
 *
 * Streams of stdio cannot be: their reads and writes are calls within libc. Opening and closing them is recorded, because it is
 * known which calls these are, and an event `stream` says that what happens between is not seen. Of walks and the like (`unseen`)
 * the reader hears the function and the path. */
#define _GNU_SOURCE
#include "ring.h"

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrap.h"

/* ---- directories ---- */

enum { LIST_BYTES = 32768 };

struct __dirstream {
    int fd;
    int lock;
    int at, end;
    off_t position;
    char entries[LIST_BYTES] __attribute__((aligned(8)));
};

static void lock(DIR *list) {
    while (__atomic_exchange_n(&list->lock, 1, __ATOMIC_ACQUIRE)) system_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}
static void unlock(DIR *list) { __atomic_store_n(&list->lock, 0, __ATOMIC_RELEASE); }

static DIR *stream_of(int fd) {
    DIR *list = malloc(sizeof *list);
    if (list) memset(list, 0, offsetof(DIR, entries)), list->fd = fd;
    return list;
}

DIR *opendir(const char *path) {
    if (*path == 0) return errno = ENOENT, (DIR *)0;
    struct stat about;
    int fd = openat(AT_FDCWD, path, O_RDONLY | O_NONBLOCK | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return 0;
    fstat(fd, &about);
    DIR *list = stream_of(fd);
    if (!list) close(fd);
    return list;
}

DIR *fdopendir(int fd) {
    struct stat about;
    if (fstat(fd, &about) < 0) return 0;
    if (!S_ISDIR(about.st_mode)) return errno = ENOTDIR, (DIR *)0;
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0) return 0;
    if ((flags & O_ACCMODE) == O_WRONLY) return errno = EINVAL, (DIR *)0;
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0) return 0;
    return stream_of(fd);
}

struct dirent *readdir(DIR *list) {
    struct dirent *entry = 0;
    lock(list);
    if (list->at >= list->end) {
        int before = errno;
        ssize_t got = getdents64(list->fd, list->entries, LIST_BYTES);
        /* A directory that was removed has no entries. */
        if (got == 0 || (got < 0 && errno == ENOENT)) errno = before;
        list->at = 0, list->end = got > 0 ? (int)got : 0;
    }
    if (list->at < list->end) {
        entry = (struct dirent *)(list->entries + list->at);
        list->at += entry->d_reclen;
        list->position = entry->d_off;
    }
    unlock(list);
    return entry;
}
ALIAS(readdir64, readdir);

int readdir_r(DIR *restrict list, struct dirent *restrict to, struct dirent **restrict result) {
    int before = errno;
    errno = 0;
    struct dirent *entry = readdir(list);
    int error = errno;
    errno = before;
    if (entry) memcpy(to, entry, entry->d_reclen);
    *result = entry ? to : 0;
    return entry ? 0 : error;
}
ALIAS(readdir64_r, readdir_r);

int closedir(DIR *list) {
    if (!list) return errno = EINVAL, -1;
    int fd = list->fd;
    free(list);
    return close(fd);
}

int dirfd(DIR *list) { return list->fd; }
long telldir(DIR *list) { return list->position; }
void seekdir(DIR *list, long position) {
    lock(list);
    lseek(list->fd, position, SEEK_SET);
    list->at = list->end = 0, list->position = position;
    unlock(list);
}
void rewinddir(DIR *list) { seekdir(list, 0); }

/* ---- stdio ---- */

static void is_stream(FILE *stream, const char *path) {
    if (stream) event("stream:ns", ARGS(fileno_unlocked(stream), P(path)));
}

/* The flags with which fopen opens (fopen(3)). */
static int flags_of(const char *mode) {
    int flags = *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | (*mode == 'a' ? O_APPEND : O_TRUNC);
    for (const char *more = mode + 1; *mode && *more && *more != ','; more++) {
        if (*more == '+') flags = (flags & ~O_ACCMODE) | O_RDWR;
        if (*more == 'x') flags |= O_EXCL;
        if (*more == 'e') flags |= O_CLOEXEC;
    }
    return flags;
}

static FILE *opened(uint64_t begin_ns, FILE *stream, const char *path, int flags) {
    call_ends(begin_ns, "open:sOo", stream ? fileno_unlocked(stream) : -1, ARGS(P(path), flags, flags & O_CREAT ? 0666 : 0));
    is_stream(stream, path);
    return stream;
}

FILE *fopen(const char *restrict path, const char *restrict mode) {
    __typeof__(&fopen) real = REAL(fopen);
    uint64_t begin_ns = call_begins();
    return opened(begin_ns, real(path, mode), path, flags_of(mode));
}
ALIAS(fopen64, fopen);

FILE *freopen(const char *restrict path, const char *restrict mode, FILE *restrict stream) {
    __typeof__(&freopen) real = REAL(freopen);
    int old = stream ? fileno_unlocked(stream) : -1;
    uint64_t begin_ns = call_begins();
    FILE *now = real(path, mode, stream);
    if (now && old >= 0) call_ends(begin_ns, "close:d", 0, ARGS(old));
    return opened(begin_ns, now, path ? path : "", flags_of(mode));
}
ALIAS(freopen64, freopen);

FILE *fdopen(int fd, const char *mode) {
    FILE *stream = REAL(fdopen)(fd, mode);
    is_stream(stream, "");
    return stream;
}

int fclose(FILE *stream) {
    __typeof__(&fclose) real = REAL(fclose);
    int fd = stream ? fileno_unlocked(stream) : -1;
    if (fd < 0) return real(stream);
    uint64_t begin_ns = call_begins(), number = call_number();
    int result = real(stream);
    call_ends_as(number, begin_ns, "close:d", result, ARGS(fd));
    return result;
}

/* ---- what else libc does by itself ---- */

#define UNSEEN(type, name, params, call, path) \
    type name params { \
        event("unseen:ss", ARGS(P(#name), P(path))); \
        return REAL(name) call; \
    }

UNSEEN(FILE *, tmpfile, (void), (), "")
ALIAS(tmpfile64, tmpfile);
UNSEEN(char *, realpath, (const char *restrict path, char *restrict to), (path, to), path)
UNSEEN(char *, canonicalize_file_name, (const char *path), (path), path)
char *__realpath_chk(const char *path, char *to, size_t room) { return (void)room, realpath(path, to); }
UNSEEN(int, glob, (const char *restrict path, int flags, int (*error)(const char *, int), glob_t *restrict to),
       (path, flags, error, to), path)
ALIAS(glob64, glob);
UNSEEN(int, ftw, (const char *path, __ftw_func_t each, int fds), (path, each, fds), path)
ALIAS(ftw64, ftw);
UNSEEN(int, nftw, (const char *path, __nftw_func_t each, int fds, int flags), (path, each, fds, flags), path)
ALIAS(nftw64, nftw);
UNSEEN(int, scandir, (const char *restrict path, struct dirent ***restrict to, int (*is_wanted)(const struct dirent *),
       int (*order)(const struct dirent **, const struct dirent **)), (path, to, is_wanted, order), path)
ALIAS(scandir64, scandir);
UNSEEN(FTS *, fts_open, (char *const *paths, int flags, int (*order)(const FTSENT **, const FTSENT **)), (paths, flags, order),
       paths[0] ? paths[0] : "")
ALIAS(fts64_open, fts_open);
UNSEEN(int, aio_read, (struct aiocb *block), (block), "")
ALIAS(aio_read64, aio_read);
UNSEEN(int, aio_write, (struct aiocb *block), (block), "")
ALIAS(aio_write64, aio_write);
UNSEEN(int, lio_listio, (int mode, struct aiocb *const blocks[restrict], int count, struct sigevent *restrict after),
       (mode, blocks, count, after), "")
ALIAS(lio_listio64, lio_listio);

/* Calls of files by their number are named, not recorded. */
static const char *of_files(long number) {
#define OF(call) {SYS_##call, #call}
    static const struct { short number; const char *name; } calls[] = {
        OF(openat), OF(close), OF(read), OF(write), OF(pread64), OF(pwrite64), OF(readv), OF(writev), OF(preadv), OF(pwritev),
        OF(preadv2), OF(pwritev2), OF(lseek), OF(getdents64), OF(fsync), OF(fdatasync), OF(ftruncate), OF(truncate), OF(fallocate),
        OF(mkdirat), OF(unlinkat), OF(renameat2), OF(linkat), OF(symlinkat), OF(mknodat), OF(fchmodat), OF(fchownat),
        OF(utimensat), OF(copy_file_range), OF(sendfile), OF(splice), OF(openat2), OF(close_range), OF(dup), OF(dup3),
        OF(execve), OF(execveat), OF(io_uring_setup), OF(pivot_root), OF(chroot), OF(unshare), OF(setns), OF(mount), OF(move_mount),
        OF(pidfd_getfd), OF(open_by_handle_at), OF(recvmsg), OF(sendmsg), OF(clone), OF(clone3), OF(mmap), OF(fchdir), OF(chdir),
#ifdef SYS_open
        OF(open), OF(creat), OF(rename), OF(unlink), OF(mkdir), OF(rmdir), OF(link), OF(symlink), OF(dup2), OF(fork), OF(vfork),
#endif
    };
    for (unsigned at = 0; at < sizeof calls / sizeof *calls; at++) {
        if (calls[at].number == number) return calls[at].name;
    }
    return 0;
}

long syscall(long number, ...) {
    long args[6];
    va_list rest;
    va_start(rest, number);
    for (int at = 0; at < 6; at++) args[at] = va_arg(rest, long);
    va_end(rest);
    const char *name = number == SYS_mmap && (args[3] & MAP_ANONYMOUS) ? 0 : of_files(number);
    /* Of one that makes a process or program only this side can tell. */
    int is_told_before = name && (strstr(name, "exec") || strstr(name, "clone") || strstr(name, "fork"));
    if (is_told_before) event("raw:s", ARGS(P(name)));
    uint64_t begin_ns = call_begins();
    long result = REAL(syscall)(number, args[0], args[1], args[2], args[3], args[4], args[5]);
    int before = errno;
    /* A call that failed has changed nothing. */
    if (name && !is_told_before && result >= 0) event("raw:s", ARGS(P(name)));
    if (number == SYS_io_submit) submitted(begin_ns, result, (struct iocb *const *)(uintptr_t)args[2]);
    errno = before;
    return result;
}
