/* A thread of its own descriptors and directory: what it closes and where it goes is not the other's. */
#include "said.h"
#include <pthread.h>
static int fd, is_apart, ends[2], back[2];
static void *run(void *arg) {
    char byte = 0;
    (void)arg;
    is_apart = unshare(CLONE_FILES | CLONE_FS) == 0;
    if (write(ends[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1) return 0;
    put(fd, 300);
    return 0;
}
int main(void) {
    char byte = 0;
    pthread_t thread;
    fd = make("apart");
    mkdir("sub", 0755);
    if (pipe(ends) || pipe(back)) absent("pipe");
    pthread_create(&thread, 0, run, 0);
    if (read(ends[0], &byte, 1) != 1) return 1;
    if (is_apart) close(fd);
    if (chdir("sub")) return 1;
    put(make("of-main"), 50);
    if (write(back[1], &byte, 1) != 1) return 1;
    pthread_join(thread, 0);
    say();
}
