/* A log of pages that is written through a mapping: mapped [right | early | once].
 *
 * right: each page is synced before the head that counts it, and the head before it is told.
 * early: it is told before the head is synced. once: page and head with one msync. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096

int main(int count, char **given) {
    const char *how = count > 1 ? given[1] : "right";
    int file = open("log", O_RDWR);
    char *log = mmap(0, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (log == MAP_FAILED)
        return 2;
    for (int at = 1; at <= 3; at++) {
        memset(log + at * PAGE, '0' + at, PAGE);
        if (strcmp(how, "once") && msync(log + at * PAGE, PAGE, MS_SYNC))
            return 2;
        log[0] = '0' + at;
        if (!strcmp(how, "early"))
            dprintf(1, "page %d\n", at);
        if (msync(log, strcmp(how, "once") ? PAGE : 4 * PAGE, MS_SYNC))
            return 2;
        if (strcmp(how, "early"))
            dprintf(1, "page %d\n", at);
    }
    return 0;
}
