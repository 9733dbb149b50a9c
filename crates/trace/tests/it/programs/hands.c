/* Two control blocks of one io_submit, and a file that a child gets through a socket, appends to, and closes before its parent goes on. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char data[4096];

static int submits(void) {
    aio_context_t queue = 0;
    struct iocb blocks[2], *list[] = {&blocks[0], &blocks[1]};
    struct io_event done[2];
    int fd = open("submitted", O_RDWR | O_CREAT, 0644);
    if (syscall(SYS_io_setup, 2, &queue)) return 77;
    memset(blocks, 0, sizeof blocks);
    for (int at = 0; at < 2; at++) {
        blocks[at].aio_fildes = fd, blocks[at].aio_lio_opcode = IOCB_CMD_PWRITE;
        blocks[at].aio_buf = (unsigned long)data, blocks[at].aio_nbytes = 1000, blocks[at].aio_offset = 1000 * at;
    }
    if (syscall(SYS_io_submit, queue, 2, list) != 2) return 1;
    syscall(SYS_io_getevents, queue, 2, 2, done, 0);
    return close(fd);
}

static int hands(void) {
    int pair[2], fd = -1;
    char room[CMSG_SPACE(sizeof fd)] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair)) return 1;
    if (fork() == 0) {
        if (recvmsg(pair[1], &message, 0) != 1) _exit(1);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        _exit(write(fd, data, 300) != 300 || close(fd));
    }
    fd = open("handed", O_WRONLY | O_CREAT, 0644);
    if (write(fd, data, 20) != 20) return 1;
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    if (sendmsg(pair[0], &message, 0) != 1) return 1;
    wait(0);
    return write(fd, data, 4) != 4;
}

int main(void) {
    int refused = submits();
    return refused ? refused : hands();
}
