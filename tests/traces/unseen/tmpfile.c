/* A file that has no name until its first bytes are in it. */
#include "said.h"
int main(void) {
    char path[40];
    int fd = open(".", O_TMPFILE | O_RDWR, 0644);
    if (fd < 0) absent("O_TMPFILE");
    put(fd, 500);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (linkat(AT_FDCWD, path, AT_FDCWD, "named", AT_SYMLINK_FOLLOW)) absent("linkat of a descriptor");
    put(fd, 23);
    say();
}
