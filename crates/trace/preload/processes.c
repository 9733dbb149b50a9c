/* What begins and ends processes, threads and programs.
 *
 * `making` stands before a call that makes a process or thread, `made` behind it, with the number of the child: a child may show
 * itself between. `exec` stands before a program is tried; where its image does not show itself, it is one that cannot be seen. What a
 * program starts gets our two variables, whatever environment it is given. */
#define _GNU_SOURCE
#include "ring.h"

#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wrap.h"

extern char **environ;

/* The kinds of `making`. */
enum { FORK, VFORK, THREAD, INSIDE };

static void made(uint64_t begin_ns, int kind, int64_t result) { call_ends(begin_ns, "made:n", result, ARGS(kind)); }

static uint64_t making(int kind) {
    uint64_t begin_ns = call_begins();
    event("making:n", ARGS(kind));
    return begin_ns;
}

/* ---- processes ---- */

pid_t fork(void) {
    __typeof__(&fork) real = REAL(fork);
    uint64_t begin_ns = making(FORK);
    pid_t child = real();
    if (child != 0) made(begin_ns, FORK, child);
    return child;
}
ALIAS(__fork, fork);

#ifdef __x86_64__
/* The child returns from vfork in its parent's memory and on its stack: what is on the stack is gone when the parent comes back. So
 * the return address is in a register during the call, which the kernel keeps for each (as glibc does). */
static __thread uint64_t vfork_began_ns;
static __thread uint32_t vfork_tid, vfork_pid;

HIDDEN __attribute__((used)) void vfork_begins(void) {
    vfork_tid = self.tid, vfork_pid = self.pid;
    vfork_began_ns = making(VFORK);
    /* The number is given when the first record is written. */
    vfork_tid = self.tid, vfork_pid = self.pid;
}

HIDDEN __attribute__((used)) long vfork_ends(long child) {
    if (child == 0) {
        self.tid = self.pid = (uint32_t)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
        return 0;
    }
    self.tid = vfork_tid, self.pid = vfork_pid, self.busy = 0;
    if (child < 0) errno = (int)-child, child = -1;
    made(vfork_began_ns, VFORK, child);
    return child;
}

__asm__(".text\n.globl vfork\n.type vfork,@function\n"
        "vfork:\n"
        "subq $8, %rsp\n"
        "call vfork_begins\n"
        "addq $8, %rsp\n"
        "popq %rdi\n"
        "movl $58, %eax\n" /* SYS_vfork */
        "syscall\n"
        "pushq %rdi\n"
        "subq $8, %rsp\n"
        "movq %rax, %rdi\n"
        "call vfork_ends\n"
        "addq $8, %rsp\n"
        "ret\n"
        ".size vfork, .-vfork\n.globl __vfork\n.type __vfork,@function\n.set __vfork, vfork");
#else
/* A child with memory of its own: POSIX lets vfork be fork. */
pid_t vfork(void) { return fork(); }
#endif

int daemon(int keep_directory, int keep_streams) {
    __typeof__(&daemon) real = REAL(daemon);
    uint64_t begin_ns = making(INSIDE);
    int result = real(keep_directory, keep_streams);
    /* The one that returns without an error is the child. */
    if (result < 0) made(begin_ns, INSIDE, result);
    return result;
}

int system(const char *line) {
    __typeof__(&system) real = REAL(system);
    uint64_t begin_ns = making(INSIDE);
    int result = real(line);
    made(begin_ns, INSIDE, 0);
    return result;
}

FILE *popen(const char *line, const char *mode) {
    __typeof__(&popen) real = REAL(popen);
    uint64_t begin_ns = making(INSIDE);
    FILE *result = real(line, mode);
    made(begin_ns, INSIDE, 0);
    return result;
}

int clone(int (*run)(void *), void *stack, int flags, void *arg, ...) {
    va_list rest;
    va_start(rest, arg);
    void *one = va_arg(rest, void *), *two = va_arg(rest, void *), *three = va_arg(rest, void *);
    va_end(rest);
    event("unseen:ss", ARGS(P("clone"), P("")));
    return REAL(clone)(run, stack, flags, arg, one, two, three);
}

void exit(int code) {
    remember_code(code);
    REAL(exit)(code);
    __builtin_unreachable();
}

void _exit(int code) {
    process_ends(code);
    for (;;) system_call(SYS_exit_group, code, 0, 0, 0, 0, 0);
}
ALIAS(_Exit, _exit);

/* ---- waiting ---- */

WRAP(pid_t, wait4, (pid_t pid, int *status, int options, struct rusage *use), (pid, status ? status : &(int){0}, options, use),
     "wait4:nn", 0, status ? *status : 0)
pid_t waitpid(pid_t pid, int *status, int options) {
    int own = 0;
    __typeof__(&waitpid) real = REAL(waitpid);
    uint64_t begin_ns = call_begins();
    pid_t result = real(pid, &own, options);
    call_ends(begin_ns, "wait4:nn", result, ARGS(0, own));
    if (status && result > 0) *status = own;
    return result;
}
pid_t wait(int *status) { return waitpid(-1, status, 0); }
pid_t wait3(int *status, int options, struct rusage *use) { return wait4(-1, status, options, use); }
int waitid(idtype_t kind, id_t id, siginfo_t *about, int options) {
    siginfo_t own;
    __typeof__(&waitid) real = REAL(waitid);
    uint64_t begin_ns = call_begins();
    memset(&own, 0, sizeof own);
    int result = real(kind, id, &own, options);
    int ended = result == 0 && (options & WEXITED) && own.si_code != CLD_STOPPED && own.si_code != CLD_CONTINUED;
    int status = own.si_code == CLD_EXITED ? own.si_status << 8 : own.si_status;
    call_ends(begin_ns, "wait4:nn", result < 0 ? result : ended && !(options & WNOWAIT) ? own.si_pid : 0, ARGS(0, status));
    if (about) *about = own;
    return result;
}

/* ---- threads ---- */

struct start {
    void *(*run)(void *);
    void *arg;
    uint32_t tid;
};

static void *runs(void *given) {
    struct start start = *(struct start *)given;
    free(given);
    thread_begins(start.tid);
    return start.run(start.arg);
}

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attributes, void *(*run)(void *), void *restrict arg) {
    __typeof__(&pthread_create) real = REAL(pthread_create);
    struct start *start = is_recording() ? malloc(sizeof *start) : 0;
    if (!start) return real(thread, attributes, run, arg);
    uint32_t tid = new_tid();
    *start = (struct start){run, arg, tid};
    uint64_t begin_ns = making(THREAD);
    int error = real(thread, attributes, runs, start);
    made(begin_ns, THREAD, error ? -error : (int64_t)tid);
    if (error) free(start);
    return error;
}

/* ---- programs ---- */

static char *const *with_recorder(char *const given[], size_t count, char **room, char *preload, size_t bytes) {
    const char *own = environment(1) + strlen("LD_PRELOAD=");
    size_t at = 0;
    room[at++] = (char *)environment(0);
    room[at++] = (char *)environment(1);
    for (size_t one = 0; one < count; one++) {
        if (strncmp(given[one], "WEIR_RECORD=", 12) == 0) continue;
        if (strncmp(given[one], "LD_PRELOAD=", 11) == 0) {
            const char *theirs = given[one] + 11;
            if (*theirs && !strstr(theirs, own) && strlen(own) + strlen(theirs) + 13 < bytes) {
                strcat(strcat(strcat(strcpy(preload, "LD_PRELOAD="), own), ":"), theirs);
                room[1] = preload;
            } else if (strstr(theirs, own)) {
                room[1] = given[one];
            }
            continue;
        }
        room[at++] = given[one];
    }
    room[at] = 0;
    return room;
}

/* An environment with our two variables, on the caller's stack. */
#define WITH_RECORDER(name, given) \
    size_t name##_count = 0; \
    char *const *name##_given = (given) ? (char *const *)(given) : (char *const[]){0}; \
    while (name##_given[name##_count]) name##_count++; \
    char *name##_room[name##_count + 3], name##_preload[4096]; \
    char *const *name = is_recording() \
        ? with_recorder(name##_given, name##_count, name##_room, name##_preload, sizeof name##_preload) : name##_given

int execve(const char *path, char *const args[], char *const variables[]) {
    __typeof__(&execve) real = REAL(execve);
    WITH_RECORDER(all, variables);
    process_replaced();
    uint64_t begin_ns = call_begins();
    event("exec:s", ARGS(P(path)));
    int result = real(path, args, all);
    call_ends(begin_ns, "execve:s", result, ARGS(P(path)));
    return result;
}

int fexecve(int fd, char *const args[], char *const variables[]) {
    __typeof__(&fexecve) real = REAL(fexecve);
    WITH_RECORDER(all, variables);
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    process_replaced();
    uint64_t begin_ns = call_begins();
    event("exec:s", ARGS(P(path)));
    int result = real(fd, args, all);
    call_ends(begin_ns, "execve:s", result, ARGS(P(path)));
    return result;
}

int execv(const char *path, char *const args[]) { return execve(path, args, environ); }

/* Tries a path; a file that is no program is a script for the shell (exec(3)). */
static void try(const char *path, char *const args[], char *const variables[]) {
    execve(path, args, variables);
    if (errno != ENOEXEC) return;
    size_t count = 0;
    while (args[count]) count++;
    const char *script[count + 3];
    script[0] = "/bin/sh", script[1] = path;
    for (size_t at = 1; at <= count; at++) script[at + 1] = args[at];
    if (count == 0) script[2] = 0;
    execve("/bin/sh", (char *const *)script, variables);
}

int execvpe(const char *file, char *const args[], char *const variables[]) {
    if (*file == 0) return errno = ENOENT, -1;
    if (strchr(file, '/')) return try(file, args, variables), -1;
    const char *folders = getenv("PATH");
    int is_denied = 0;
    char path[4096];
    for (const char *at = folders ? folders : "/bin:/usr/bin"; at;) {
        const char *end = strchrnul(at, ':');
        size_t length = (size_t)(end - at);
        if (length + strlen(file) + 2 <= sizeof path) {
            memcpy(path, at, length);
            path[length] = '/';
            strcpy(path + length + (length > 0), file);
            try(path, args, variables);
            if (errno == EACCES) is_denied = 1;
            else if (errno != ENOENT && errno != ENOTDIR && errno != ESTALE && errno != ENODEV && errno != ETIMEDOUT) return -1;
        }
        at = *end ? end + 1 : 0;
    }
    if (is_denied) errno = EACCES;
    return -1;
}

int execvp(const char *file, char *const args[]) { return execvpe(file, args, environ); }

/* The arguments of a variadic exec, on the caller's stack; `rest` stands behind their end. */
#define LIST(args, first) \
    va_list rest, counting; \
    va_start(rest, first); \
    va_copy(counting, rest); \
    size_t count = 1; \
    while (first && va_arg(counting, char *)) count++; \
    va_end(counting); \
    char *args[count + 1]; \
    args[0] = (char *)first; \
    for (size_t at = 1; at <= count; at++) args[at] = va_arg(rest, char *)

int execl(const char *path, const char *first, ...) {
    LIST(args, first);
    va_end(rest);
    return execve(path, args, environ);
}
int execlp(const char *file, const char *first, ...) {
    LIST(args, first);
    va_end(rest);
    return execvpe(file, args, environ);
}
int execle(const char *path, const char *first, ...) {
    LIST(args, first);
    char *const *variables = va_arg(rest, char *const *);
    va_end(rest);
    return execve(path, args, variables);
}

#define SPAWN(name) \
    int name(pid_t *restrict pid, const char *restrict path, const posix_spawn_file_actions_t *actions, \
             const posix_spawnattr_t *restrict attributes, char *const args[restrict], char *const variables[restrict]) { \
        __typeof__(&name) real = REAL(name); \
        WITH_RECORDER(all, variables); \
        pid_t own = 0; \
        uint64_t begin_ns = making(VFORK); \
        event("exec:s", ARGS(P(path))); \
        int error = real(&own, path, actions, attributes, args, all); \
        made(begin_ns, VFORK, error ? -error : own); \
        if (pid && error == 0) *pid = own; \
        return error; \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)
