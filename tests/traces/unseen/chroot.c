#include "said.h"
int main(void) {
    mkdir("jail", 0755);
    if (chroot("jail")) absent("chroot");
    int fd = make("/in-jail");
    put(fd, 700);
    say();
}
