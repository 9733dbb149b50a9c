/* An offset that a flag makes the end of the file. */
#include "said.h"
int main(void) {
    struct iovec part = {data, 500};
    int fd = make("flagged");
    put(fd, 1000);
    ssize_t done = pwritev2(fd, &part, 1, 0, RWF_APPEND);
    if (done < 0) absent("pwritev2");
    has_written += done;
    say();
}
