/* It does not want to be looked at: its memory is closed, and it traces itself. */
#include "said.h"
int main(void) {
    prctl(PR_SET_DUMPABLE, 0);
    int is_free = ptrace(PTRACE_TRACEME, 0, 0, 0) == 0;
    put(make("untraced"), is_free ? 500 : 600);
    say();
}
