/* It opens again what it has open, by two names of it, and a file that has lost its name. */
#include "said.h"
int main(void) {
    char name[64];
    int fd = make("again");
    put(fd, 100);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    put(open(name, O_WRONLY | O_APPEND), 50);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    int other = open(name, O_RDONLY);
    ssize_t got = read(other, data, 4000);
    if (got > 0) has_read += got;
    say();
}
