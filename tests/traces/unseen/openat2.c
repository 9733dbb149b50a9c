#include "said.h"
#include <linux/openat2.h>
int main(void) {
    struct open_how how = {.flags = O_RDWR | O_CREAT, .mode = 0644, .resolve = RESOLVE_IN_ROOT};
    mkdir("root", 0755);
    int root = open("root", O_PATH | O_DIRECTORY);
    int fd = syscall(SYS_openat2, root, "/../../in-root", &how, sizeof how);
    if (fd < 0) absent("openat2");
    put(fd, 800);
    say();
}
