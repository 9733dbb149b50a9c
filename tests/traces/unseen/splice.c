#include "said.h"
int main(void) {
    int fd = make("spliced"), ends[2];
    if (pipe(ends)) absent("pipe");
    if (write(ends[1], data, 3000) < 0) absent("write");
    ssize_t done = splice(ends[0], 0, fd, 0, 3000, 0);
    if (done > 0) has_written += done;
    say();
}
