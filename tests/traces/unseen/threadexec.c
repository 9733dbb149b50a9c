/* A thread that is not the first calls exec, which ends the others. */
#include "said.h"
#include <pthread.h>
static void *run(void *arg) {
    execv("/proc/self/exe", arg);
    return 0;
}
int main(int count, char **args) {
    pthread_t thread;
    if (count > 1) {
        put(open("of-thread", O_WRONLY | O_APPEND), 40);
        has_written += 60;
        say();
        return 0;
    }
    put(make("of-thread"), 60);
    char *more[] = {args[0], "again", 0};
    pthread_create(&thread, 0, run, more);
    pause();
}
