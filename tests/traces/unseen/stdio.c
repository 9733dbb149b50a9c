/* Its standard output is a file, written through a stream that is closed before the end. */
#include "said.h"
int main(void) {
    if (!freopen("printed", "w", stdout)) absent("freopen");
    for (int at = 0; at < 3000; at++) has_written += printf("line %d\n", at);
    fclose(stdout);
    say();
}
