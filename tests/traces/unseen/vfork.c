#include "said.h"
int main(void) {
    int status = 0;
    pid_t child = vfork();
    if (child == 0) {
        execl("/bin/dd", "dd", "if=/dev/zero", "of=by-child", "bs=1000", "count=3", "status=none", (char *)0);
        _exit(127);
    }
    waitpid(child, &status, 0);
    if (status == 0) has_written += 3000;
    say();
}
