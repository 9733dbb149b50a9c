#include "said.h"
int main(void) {
    if (fork()) _exit(0);
    setsid();
    if (fork()) _exit(0);
    usleep(300000);
    put(make("late"), 1234);
    say();
}
