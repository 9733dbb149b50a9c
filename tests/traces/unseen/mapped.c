#include "said.h"
int main(void) {
    int fd = make("mapped");
    if (ftruncate(fd, 8192)) absent("ftruncate");
    char *map = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    memset(map, 7, 8192);
    has_written += 8192;
    say();
}
