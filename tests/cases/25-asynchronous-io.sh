#!/bin/bash
# io_submit is stored as the writes that it makes, by strace and by preload; io_uring is lost by its name, and the replay is refused.
#   tests/cases/25-asynchronous-io.sh WEIR
case=25-asynchronous-io
. "$(dirname "$0")/traces.sh"
needs cc
needs_strace
cat >queue.c <<'C'
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char page[4096];
int main(void) {
    aio_context_t queue = 0;
    struct iocb blocks[2], *list[] = {&blocks[0], &blocks[1]};
    struct io_event done[2];
    int file = open("pages", O_RDWR | O_CREAT, 0644);
    if (syscall(SYS_io_setup, 8, &queue)) return 77;
    for (int at = 0; at < 20; at += 2) {
        memset(blocks, 0, sizeof blocks);
        for (int one = 0; one < 2; one++) {
            blocks[one].aio_data = at + one, blocks[one].aio_fildes = file, blocks[one].aio_lio_opcode = IOCB_CMD_PWRITE;
            blocks[one].aio_buf = (unsigned long)page, blocks[one].aio_nbytes = sizeof page;
            blocks[one].aio_offset = (at + one) * 4096L;
        }
        if (syscall(SYS_io_submit, queue, 2, list) != 2) return 1;
        syscall(SYS_io_getevents, queue, 2, 2, done, 0);
    }
    return fsync(file) || close(file);
}
C
cat >ring.c <<'C'
#include <linux/io_uring.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct io_uring_params how;
    memset(&how, 0, sizeof how);
    return syscall(SYS_io_uring_setup, 4, &how) < 0 ? 77 : 0;
}
C
cc -w -o queue queue.c 2>/dev/null || skip "the headers of the kernel are missing"
(mkdir try && cd try && ../queue) || skip "the kernel has no asynchronous calls"
for how in strace preload; do
    rm -f d/pages
    records "$work/$how.wtrace" --how $how -- ../queue
    equal "$work/$how.wtrace" pages "20 writes by io_submit, $how"
    [ "$("$weir" trace show "$work/$how.wtrace" | grep -c ' pwrite ')" = 20 ] || differs "$how: the writes are not those that were submitted"
done
"$weir" bench trace:strace.wtrace --fs nova --medium dram --check --quiet >bench.log 2>&1 || differs "the replay: $(tail -n 1 bench.log)"
cc -w -o ring ring.c 2>/dev/null && ./ring || ok
for how in strace preload; do
    records "$work/ring-$how.wtrace" --how $how -- ../ring
    lost "$work/ring-$how.wtrace" | grep -q io_uring_setup || differs "$how: io_uring is not among what is lost: $(lost "$work/ring-$how.wtrace")"
    "$weir" bench "trace:ring-$how.wtrace" --fs nova --medium dram >bench.log 2>&1 && differs "$how: a trace without the program's I/O is replayed"
    grep -q io_uring_setup bench.log || differs "$how: the refusal does not say what is missing: $(tail -n 1 bench.log)"
done
ok
