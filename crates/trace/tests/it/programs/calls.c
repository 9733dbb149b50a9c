/* Calls of every kind without stdio, in a working directory of its own: two recorders must say the same of it. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

static void names(void) {
    char text[100];
    mkdir("d", 0755);
    mkdirat(AT_FDCWD, "d/e", 0700);
    close(creat("d/a \"\n", 0644));
    link("d/a \"\n", "d/b");
    symlink("b", "d/l");
    readlink("d/l", text, sizeof text);
    mkfifo("d/fifo", 0600);
    rename("d/b", "d/c");
    renameat2(AT_FDCWD, "d/c", AT_FDCWD, "d/a \"\n", RENAME_NOREPLACE);
    int dir = open("d", O_RDONLY | O_DIRECTORY);
    int file = openat(dir, "f", O_RDWR | O_CREAT | O_EXCL, 0640);
    linkat(dir, "f", dir, "g", 0);
    symlinkat("none", dir, "dangling");
    fstatat(dir, "dangling", &(struct stat){0}, AT_SYMLINK_NOFOLLOW);
    fstatat(dir, "dangling", &(struct stat){0}, 0);
    faccessat(dir, "f", R_OK | W_OK, 0);
    unlinkat(dir, "g", 0);
    unlinkat(dir, "e", AT_REMOVEDIR);
    close(file);
    rename("d", "moved");
    /* The descriptor has moved with it. */
    close(openat(dir, "again", O_WRONLY | O_CREAT, 0600));
    fchdir(dir);
    close(open("below", O_WRONLY | O_CREAT, 0600));
    chdir("..");
    close(dir);
    remove("moved/again");
    close(mkstemp(strcpy(text, "tempXXXXXX")) + 0);
    unlink(text);
    rmdir(mkdtemp(strcpy(text, "folderXXXXXX")));
    unlink("no such file");
    open("no such folder/file", O_RDONLY);
    open("moved/f", O_RDONLY | O_DIRECTORY);
    DIR *list = opendir("moved");
    while (readdir(list)) {}
    rewinddir(list);
    readdir(list);
    closedir(list);
}

static void contents(void) {
    char data[4096];
    memset(data, 7, sizeof data);
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0644), other = open("other", O_RDWR | O_CREAT, 0644);
    struct iovec parts[2] = {{data, 100}, {data, 1000}};
    write(file, data, sizeof data);
    writev(file, parts, 2);
    pwrite(file, data, 10, 20000);
    pwritev(file, parts, 1, 30000);
    lseek(file, -96, SEEK_END);
    read(file, data, sizeof data);
    readv(file, parts, 2);
    pread(file, data, 50, 19990);
    preadv(file, parts, 2, 0);
    lseek(file, 0, SEEK_SET);
    copy_file_range(file, 0, other, 0, 1500, 0);
    off_t at = 10;
    sendfile(other, file, &at, 500);
    ftruncate(file, 10000);
    truncate("other", 1000);
    fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 65536);
    posix_fallocate(other, 0, 8192);
    posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
    fsync(file), fdatasync(other), syncfs(file);
    sync_file_range(file, 0, 4096, SYNC_FILE_RANGE_WRITE);
    char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    map[5000] = 1;
    msync(map + 4096, 4096, MS_SYNC);
    munmap(map, 8192);
    int same = dup(file), high = fcntl(file, F_DUPFD_CLOEXEC, 20);
    dup2(file, 15), dup3(file, 16, O_CLOEXEC);
    fcntl(same, F_SETFD, FD_CLOEXEC), fcntl(same, F_SETFL, O_APPEND);
    write(same, data, 1);
    flock(file, LOCK_EX | LOCK_NB), flock(file, LOCK_UN);
    struct flock lock = {.l_type = F_WRLCK, .l_start = 5, .l_len = 10};
    fcntl(file, F_SETLK, &lock), fcntl(file, F_GETLK, &lock);
    close(same), close(high), close(15), close(16), close(99);
    close_range((unsigned)other, (unsigned)other, 0);
    close(file);
}

static void attributes(void) {
    struct stat about;
    struct statfs space;
    struct statvfs more;
    struct statx all;
    char text[64];
    int file = open("attributes", O_RDWR | O_CREAT, 0600);
    stat("attributes", &about), lstat("attributes", &about), fstat(file, &about), stat("none", &about);
    statx(AT_FDCWD, "attributes", AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &all);
    access("attributes", W_OK), access("none", F_OK);
    statfs(".", &space), fstatfs(file, &space), statvfs(".", &more);
    chmod("attributes", 0640), fchmod(file, 0600), fchmodat(AT_FDCWD, "attributes", 0644, 0);
    chown("attributes", getuid(), -1), fchown(file, -1, getgid()), lchown("attributes", -1, -1);
    struct timespec times[2] = {{5, 6}, {0, UTIME_OMIT}};
    struct timeval old[2] = {{1, 2}, {3, 4}};
    utimensat(AT_FDCWD, "attributes", times, 0), futimens(file, 0), utimes("attributes", old);
    setxattr("attributes", "user.a", "xy", 2, XATTR_CREATE), fsetxattr(file, "user.b", "z", 1, 0);
    getxattr("attributes", "user.a", text, sizeof text), fgetxattr(file, "user.none", text, sizeof text);
    listxattr("attributes", text, sizeof text), removexattr("attributes", "user.a"), lgetxattr("none", "user.a", text, 1);
    umask(umask(077));
    close(file);
}

static void *thread(void *name) {
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    write(file, "thread", 6);
    close(file);
    return 0;
}

static void processes(char *self) {
    pthread_t threads[2];
    /* One after the other, so that numbers are equal in every run. */
    for (int at = 0; at < 2; at++) pthread_create(&threads[at], 0, thread, at ? "t1" : "t0"), pthread_join(threads[at], 0);
    int pipes[2], shared = open("shared", O_RDWR | O_CREAT, 0600);
    pipe(pipes);
    write(pipes[1], "x", 1), read(pipes[0], &(char){0}, 1);
    pid_t child = fork();
    if (child == 0) {
        write(shared, "child", 5);
        close(open("by child", O_WRONLY | O_CREAT, 0600));
        _exit(3);
    }
    waitpid(child, 0, 0);
    write(shared, "parent", 6);
    child = vfork();
    if (child == 0) {
        dup2(shared, 30);
        execl(self, self, "vfork", (char *)0);
        _exit(4);
    }
    waitpid(child, 0, 0);
    child = vfork();
    if (child == 0) {
        execl("no such program", "none", (char *)0);
        close(open("after exec has failed", O_WRONLY | O_CREAT, 0600));
        _exit(5);
    }
    waitpid(child, 0, 0);
    char *args[] = {self, "spawn", 0}, *empty[] = {0};
    posix_spawn(&child, self, 0, 0, args, environ);
    waitpid(child, 0, 0);
    child = fork();
    /* Without an environment it is recorded all the same. */
    if (child == 0) execve(self, (char *[]){self, "execve", 0}, empty), _exit(6);
    siginfo_t about;
    waitid(P_PID, (id_t)child, &about, WEXITED);
    close(shared);
}

int main(int count, char **args) {
    if (count > 1) {
        int file = open(args[1], O_WRONLY | O_CREAT | O_APPEND, 0600);
        write(file, args[1], strlen(args[1]));
        if (args[1][0] == 'v') write(30, "inherited", 9);
        close(file);
        return 7;
    }
    names(), contents(), attributes(), processes(args[0]);
    return 2;
}
