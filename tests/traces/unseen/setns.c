#include "said.h"
int main(void) {
    int space = open("/proc/self/ns/mnt", O_RDONLY);
    char here[4096];
    if (!getcwd(here, sizeof here) || setns(space, CLONE_NEWNS)) absent("setns");
    if (chdir(here)) absent("chdir");
    put(make("entered"), 900);
    say();
}
