/* In a mount namespace of its own it writes to a file by another name. */
#include "said.h"
#include <sys/mount.h>
int main(void) {
    char here[4096];
    char other[] = "/tmp/unseen-XXXXXX";
    if (!getcwd(here, sizeof here) || unshare(CLONE_NEWNS)) absent("unshare");
    if (mount("none", "/", 0, MS_REC | MS_PRIVATE, 0) || !mkdtemp(other)) absent("mount");
    if (mount(here, other, 0, MS_BIND, 0) || chdir(other)) absent("mount");
    put(make("bound"), 640);
    if (chdir("/")) return 1;
    umount2(other, MNT_DETACH);
    rmdir(other);
    say();
}
