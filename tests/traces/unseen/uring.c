/* One write through a ring, without liburing. */
#include "said.h"
#include <linux/io_uring.h>
int main(void) {
    struct io_uring_params how;
    memset(&how, 0, sizeof how);
    int ring = syscall(SYS_io_uring_setup, 4, &how);
    if (ring < 0) absent("io_uring_setup");
    int fd = make("uring");
    char *queue = mmap(0, how.sq_off.array + how.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *asked = mmap(0, how.sq_entries * sizeof *asked, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQES);
    memset(asked, 0, sizeof *asked);
    asked->opcode = IORING_OP_WRITE, asked->fd = fd, asked->addr = (uintptr_t)data, asked->len = 5000;
    ((unsigned *)(queue + how.sq_off.array))[0] = 0;
    __atomic_store_n((unsigned *)(queue + how.sq_off.tail), 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0) == 1) has_written += 5000;
    close(ring);
    say();
}
