#include "said.h"
int main(void) {
    int from = make("from"), to = make("to");
    put(from, 6000);
    off_t at = 1000;
    ssize_t done = sendfile(to, from, &at, 5000);
    if (done > 0) has_read += done, has_written += done;
    say();
}
