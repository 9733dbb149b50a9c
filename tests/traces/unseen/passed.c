/* A descriptor goes to a child, which writes where its parent has stopped. */
#include "said.h"
int main(void) {
    int pair[2];
    char room[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) absent("socketpair");
    if (fork() == 0) {
        int fd;
        if (recvmsg(pair[1], &message, 0) < 0) _exit(1);
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
        _exit(write(fd, data, 2000) != 2000);
    }
    int fd = make("passed"), status;
    put(fd, 100);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    sendmsg(pair[0], &message, 0);
    wait(&status);
    if (status == 0) has_written += 2000;
    put(fd, 10);
    say();
}
