#include "said.h"
int main(void) {
    int fd = make("vmspliced"), ends[2];
    struct iovec part = {data, 4096};
    if (pipe(ends)) absent("pipe");
    if (vmsplice(ends[1], &part, 1, 0) < 0) absent("vmsplice");
    ssize_t done = splice(ends[0], 0, fd, 0, 4096, 0);
    if (done > 0) has_written += done;
    say();
}
