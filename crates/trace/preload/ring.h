/* The records of a preloaded program: how the wrappers (calls.c) hand a call to the ring of its thread (ring.c). Its reader is
 * crates/trace/src/import/preload, which has the format of a record. */
#ifndef WEIR_RING_H
#define WEIR_RING_H

#include <errno.h>
#include <stdint.h>
#include <sys/types.h>

/* What a wrapper may record: at most so many arguments. */
#define ARGS_MAX 8

/* The state of a thread. Between vfork and exec parent and child share it. */
struct thread {
    char *at;           /* where the next record goes */
    char *limit;        /* the end of the mapped segment */
    char *segment;      /* the mapped segment */
    uint64_t ring;      /* the number of the ring */
    uint32_t segments;  /* how many segments it has had */
    uint32_t tid, pid;
    volatile int busy;  /* a record is being written: a signal handler's calls cannot be */
    int ending;         /* rounds of the thread's destructors so far */
    uint64_t last_ns;   /* when the previous call ended */
    uint64_t cpu_ns;    /* the thread's CPU time at cpu_at_ns */
    uint64_t cpu_at_ns;
    uint64_t other_ns;  /* of the gap before the call, what the thread did not compute */
};

extern __thread struct thread self __attribute__((tls_model("initial-exec"), visibility("hidden")));

#define HIDDEN __attribute__((visibility("hidden")))

/* Begins a call: the time. */
HIDDEN uint64_t call_begins(void);
/* Ends it. `what` is the call's name, a colon, and a letter for each argument; a result of -1 is errno. Keeps errno. */
HIDDEN void call_ends(uint64_t begin_ns, const char *what, int64_t result, const int64_t *args);
/* The place of a call among all records where that of its end would be wrong: of one that frees a number (of a descriptor, an address)
 * which another thread may be given before this one has written its record. The reader waits for a record of this number. */
HIDDEN uint64_t call_number(void);
HIDDEN void call_ends_as(uint64_t number, uint64_t begin_ns, const char *what, int64_t result, const int64_t *args);
/* A record that is no call. */
HIDDEN void event(const char *what, const int64_t *args);
/* The next definition of a symbol. */
HIDDEN void *next(const char *name);
/* A number that no thread or process has had, above those of the kernel (pid_max is at most 2^22). */
HIDDEN uint32_t new_tid(void);
/* exit(3) was called with it. */
HIDDEN void remember_code(int code);
/* The process ends: what the kernel has counted of it, which the reader compares with its records. */
HIDDEN void process_ends(int code);
/* The process is about to call exec: likewise. */
HIDDEN void process_replaced(void);
/* The thread begins under a number of ours. */
HIDDEN void thread_begins(uint32_t tid);
/* The thread's records end. */
HIDDEN void thread_ends(void);
/* Whether this process is recorded; its environment, so that what it starts is recorded, too. */
HIDDEN int is_recording(void);
HIDDEN const char *environment(int which);
/* A system call without libc: a result, or -errno. */
HIDDEN long system_call(long number, long a, long b, long c, long d, long e, long f);

/* So many control blocks of a list were taken by the kernel (calls.c). */
struct iocb;
HIDDEN void submitted(uint64_t begin_ns, long taken, struct iocb *const *list);

#define ARGS(...) ((const int64_t[ARGS_MAX]){__VA_ARGS__})
#define P(pointer) ((int64_t)(intptr_t)(pointer))

#endif
