/* What the programs beside it share: each tells on its standard output how many bytes it has read from and written to files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static long has_read, has_written;
static char data[8192];

/* The kernel or its settings do not let it. */
static inline void absent(const char *what) {
    dprintf(3, "absent %s: %s\n", what, strerror(errno));
    _exit(0);
}
static inline void say(void) { dprintf(3, "read %ld written %ld\n", has_read, has_written); }
static inline int make(const char *name) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) absent(name);
    return fd;
}
static inline void put(int fd, size_t bytes) {
    ssize_t done = write(fd, data, bytes);
    if (done > 0) has_written += done;
}
