#include "said.h"
#include <linux/aio_abi.h>
int main(void) {
    aio_context_t queue = 0;
    struct iocb block, *list[] = {&block};
    struct io_event done;
    int fd = make("aio");
    if (syscall(SYS_io_setup, 4, &queue)) absent("io_setup");
    for (int at = 0; at < 6; at++) {
        memset(&block, 0, sizeof block);
        block.aio_fildes = fd, block.aio_lio_opcode = IOCB_CMD_PWRITE;
        block.aio_buf = (uintptr_t)data, block.aio_nbytes = 4096, block.aio_offset = at * 4096;
        if (syscall(SYS_io_submit, queue, 1, list) == 1) has_written += 4096;
        syscall(SYS_io_getevents, queue, 1, 1, &done, 0);
    }
    say();
}
