/* Threads that fill their rings faster than they are read; the main thread then kills the process, or ends it. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { THREADS = 2, CALLS = 150000 }; /* 17 MiB of records each */
static int file;

static void *reads(void *none) {
    char byte;
    for (int call = 0; call < CALLS; call++) pread(file, &byte, 1, call);
    return none;
}

int main(int count, char **args) {
    pthread_t threads[THREADS];
    (void)args;
    file = open("file", O_RDWR | O_CREAT, 0600);
    for (int at = 0; at < THREADS; at++) pthread_create(&threads[at], 0, reads, 0);
    for (int at = 0; at < THREADS; at++) pthread_join(threads[at], 0);
    write(file, "last", 4);
    if (count > 1) kill(getpid(), SIGKILL);
    return 0;
}
