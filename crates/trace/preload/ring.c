/* The rings: each thread writes its records into a file of its own that is mapped, so that whatever ends the program leaves them.
 *
 * A ring is a row of segments RING.0, RING.1, … in a folder. A thread that has filled one makes the next; the reader removes what
 * it has read. A thread that is BACKLOG segments ahead of the reader waits: nothing is dropped. What cannot be written, because
 * memory is full or the reader is gone, is counted in the page that all processes share, as is the number that orders all records.
 *
 * A record is whole when its first word says so, which is written last. No thread writes into another's ring. After fork the child
 * finds its page of state wiped (MADV_WIPEONFORK) and begins anew, however it was made; between vfork and exec a child writes into
 * its parent's ring, which waits meanwhile. Nothing here takes a lock, allocates, or holds a descriptor. */
#define _GNU_SOURCE
#include "ring.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

/* The page that all processes of a recording share: the file `shared` in the folder. */
struct shared {
    uint64_t next;      /* the number of the next record */
    uint64_t rings;     /* rings so far */
    uint64_t tids;      /* numbers given to threads */
    uint64_t lost;      /* records that could not be written */
    uint64_t heartbeat; /* the reader changes it as long as it lives */
};

/* A record: then `args` words, then the strings, each with its length in front, padded to 8 bytes. */
struct record {
    uint32_t size; /* bytes, and their complement in the upper half: 0 until the record is whole */
    uint32_t tid, pid;
    uint32_t reserved;
    uint64_t number;
    uint64_t begin_ns, duration_ns, other_ns;
    int64_t result;
    char what[24];
};

/* The state of a process; all 0 in a child after fork. */
struct process {
    int ready;
    uint32_t pid;
};

enum {
    FIRST_BYTES = 1 << 16, /* many processes make few calls */
    SEGMENT_BYTES = 1 << 20,
    BACKLOG = 32,
    STRING_MAX = 4096,
    RECORD_MAX = 3 * (STRING_MAX + 16) + 256,
    /* Gaps and calls from here on are worth a reading of the thread's CPU clock, which is a system call. */
    LONG_NS = 20000,
    HEARTBEAT_SECONDS = 20,
    DESTRUCTOR_ROUNDS = 3,
};

/* No number yet: that of the end. */
#define AT_END UINT64_MAX

__thread struct thread self;
static struct process *process;
static struct shared *shared;
static char folder[256], folder_variable[300], preload_variable[1024];
static int is_off = 1;
static uint64_t base_reads, base_writes;
static pthread_key_t at_end;
static int has_key;
extern char **environ;
extern void *dlsym(void *, const char *) __attribute__((weak));

#if defined(__x86_64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
long system_call(long number, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "weir's preloaded recorder is written for x86-64 and AArch64"
#endif

#define SYS(number, a, b, c, d, e) system_call(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)

void *next(const char *name) {
    return dlsym ? dlsym((void *)-1l /* RTLD_NEXT */, name) : 0;
}

static uint64_t now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void put_number(char **to, uint64_t number) {
    char digits[20];
    int count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    while (count > 0) *(*to)++ = digits[--count];
}

/* RING.SEGMENT in the folder. */
static void segment_name(char *to, uint64_t ring, uint32_t segment) {
    size_t length = strlen(folder);
    memcpy(to, folder, length);
    to += length;
    *to++ = '/';
    put_number(&to, ring);
    *to++ = '.';
    put_number(&to, segment);
    *to = 0;
}

/* Waits until the reader is less than BACKLOG segments behind. 0: it is gone. */
static int has_room(const struct thread *thread) {
    if (thread->segments < BACKLOG) return 1;
    char name[320];
    segment_name(name, thread->ring, thread->segments - BACKLOG);
    uint64_t seen = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED), since = now(CLOCK_MONOTONIC);
    while (SYS(SYS_faccessat, AT_FDCWD, name, F_OK, 0, 0) == 0) {
        struct timespec pause = {0, 1000000};
        SYS(SYS_nanosleep, &pause, 0, 0, 0, 0);
        uint64_t beat = __atomic_load_n(&shared->heartbeat, __ATOMIC_RELAXED);
        if (beat != seen) {
            seen = beat;
            since = now(CLOCK_MONOTONIC);
        } else if (now(CLOCK_MONOTONIC) - since > HEARTBEAT_SECONDS * 1000000000ull) {
            return 0;
        }
    }
    return 1;
}

/* Maps the thread's next segment. */
static int new_segment(struct thread *thread) {
    if (!has_room(thread)) return 0;
    size_t bytes = thread->segments == 0 ? FIRST_BYTES : SEGMENT_BYTES;
    char name[320];
    segment_name(name, thread->ring, thread->segments);
    long fd = SYS(SYS_openat, AT_FDCWD, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, 0);
    if (fd < 0) return 0;
    /* Reserved, because a store to a page that memory has no room for would kill the program. */
    long made = SYS(SYS_fallocate, fd, 0, 0, bytes, 0);
    long map = made < 0 ? made
                        : system_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    SYS(SYS_close, fd, 0, 0, 0, 0);
    if (map < 0 && map > -4096) {
        SYS(SYS_unlinkat, AT_FDCWD, name, 0, 0, 0);
        return 0;
    }
    thread->segment = thread->at = (char *)map;
    /* Room for the word that says that another follows, or that the ring ends. */
    thread->limit = thread->segment + bytes - 2 * sizeof(struct record);
    thread->segments++;
    return 1;
}

static void whole(struct record *record, size_t bytes) {
    __atomic_store_n(&record->size, (uint32_t)bytes | ~(uint32_t)bytes << 16, __ATOMIC_RELEASE);
}

/* Ends a segment: `what` is `next` or `done`. */
static void end_segment(struct thread *thread, const char *what) {
    struct record *last = (struct record *)thread->at;
    char *segment = thread->segment, *end = thread->limit + 2 * sizeof(struct record);
    strcpy(last->what, what);
    whole(last, sizeof *last);
    thread->segment = thread->at = thread->limit = 0;
    SYS(SYS_munmap, segment, end - segment, 0, 0, 0);
}

static void lose(void) {
    if (shared) __atomic_fetch_add(&shared->lost, 1, __ATOMIC_RELAXED);
}

static void announce(void);

/* What a child of fork has of its parent is not its own. */
static void begin_process(struct thread *thread) {
    if (thread->segment) SYS(SYS_munmap, thread->segment, thread->limit + 2 * sizeof(struct record) - thread->segment, 0, 0, 0);
    memset(thread, 0, sizeof *thread);
    thread->pid = process->pid = (uint32_t)SYS(SYS_getpid, 0, 0, 0, 0, 0);
    thread->tid = (uint32_t)SYS(SYS_gettid, 0, 0, 0, 0, 0);
    base_reads = base_writes = 0;
    thread->last_ns = thread->cpu_at_ns = now(CLOCK_MONOTONIC);
    thread->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
    process->ready = 1;
}

/* Makes room for a record. */
static int make_room(struct thread *thread) {
    int is_new = !process->ready;
    if (is_new) begin_process(thread);
    if (thread->tid == 0) {
        thread->pid = process->pid;
        thread->tid = (uint32_t)SYS(SYS_gettid, 0, 0, 0, 0, 0);
    }
    if (!thread->segment) {
        thread->ring = __atomic_fetch_add(&shared->rings, 1, __ATOMIC_RELAXED);
        thread->segments = 0;
        if (has_key && thread->ending == 0) pthread_setspecific(at_end, &self);
    } else {
        end_segment(thread, "next");
    }
    if (!new_segment(thread)) {
        thread->segment = thread->at = thread->limit = 0;
        return 0;
    }
    if (is_new) event("process:n", ARGS(SYS(SYS_getppid, 0, 0, 0, 0, 0)));
    return 1;
}

/* Copies the strings of a record behind its words; gives its end. */
static char *put_strings(char *at, const char *letters, const int64_t *args, int64_t result) {
    for (int arg = 0; letters[arg]; arg++) {
        if (letters[arg] != 's') continue;
        const char *string = (const char *)(intptr_t)args[arg];
        /* What the kernel could not read, we cannot either. */
        size_t length = string && result != -EFAULT ? strnlen(string, STRING_MAX) : 0;
        uint64_t word = length;
        memcpy(at, &word, 8);
        memcpy(at + 8, string, length);
        at += 8 + ((length + 7) & ~(size_t)7);
    }
    return at;
}

static void put(uint64_t number, const char *what, uint64_t begin_ns, uint64_t duration_ns, int64_t result, const int64_t *args) {
    struct thread *thread = &self;
    if (thread->at == 0 || !process->ready || thread->limit - thread->at < RECORD_MAX) {
        if (!make_room(thread)) return lose();
    }
    struct record *record = (struct record *)thread->at;
    char *name = record->what;
    while (*what != ':') *name++ = *what++;
    do *name++ = *what;
    while (*what++);
    const char *letters = record->what;
    while (*letters++ != ':') {}
    int64_t *words = (int64_t *)(record + 1);
    for (int arg = 0; letters[arg]; arg++) *words++ = args[arg];
    thread->at = put_strings((char *)words, letters, args, result);
    record->tid = thread->tid;
    record->pid = thread->pid;
    record->begin_ns = begin_ns;
    record->duration_ns = duration_ns;
    record->other_ns = thread->other_ns;
    record->result = result;
    thread->other_ns = 0;
    record->number = number == AT_END ? call_number() : number;
    whole(record, (size_t)(thread->at - (char *)record));
}

/* A long gap: the thread's CPU clock says how much of it was computing. Since the last reading there were short gaps and short calls
 * only, in which the thread is taken to have run. */
static __attribute__((noinline)) void long_gap(struct thread *thread, uint64_t begin_ns) {
    uint64_t cpu_ns = now(CLOCK_THREAD_CPUTIME_ID), gap_ns = begin_ns - thread->last_ns;
    uint64_t before_ns = thread->cpu_ns + (thread->last_ns - thread->cpu_at_ns);
    uint64_t computed_ns = cpu_ns > before_ns ? cpu_ns - before_ns : 0;
    thread->other_ns = computed_ns < gap_ns ? gap_ns - computed_ns : 0;
    thread->cpu_ns = cpu_ns;
    thread->cpu_at_ns = begin_ns;
}

uint64_t call_begins(void) {
    uint64_t begin_ns = now(CLOCK_MONOTONIC);
    struct thread *thread = &self;
    if (!is_off && !thread->busy && begin_ns - thread->last_ns > LONG_NS) {
        if (thread->last_ns == 0) {
            thread->last_ns = thread->cpu_at_ns = begin_ns;
            thread->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
        }
        long_gap(thread, begin_ns);
    }
    return begin_ns;
}

uint64_t call_number(void) { return !is_off ? __atomic_fetch_add(&shared->next, 1, __ATOMIC_ACQ_REL) : 0; }

void call_ends(uint64_t begin_ns, const char *what, int64_t result, const int64_t *args) {
    call_ends_as(AT_END, begin_ns, what, result, args);
}

void call_ends_as(uint64_t number, uint64_t begin_ns, const char *what, int64_t result, const int64_t *args) {
    if (is_off) return;
    int before = errno;
    uint64_t end_ns = now(CLOCK_MONOTONIC);
    struct thread *thread = &self;
    if (thread->busy) return lose();
    thread->busy = 1;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    put(number, what, begin_ns, end_ns - begin_ns, result == -1 ? -before : result, args);
    if (end_ns - begin_ns > LONG_NS) {
        thread->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
        thread->cpu_at_ns = end_ns;
    }
    thread->last_ns = end_ns;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    thread->busy = 0;
    errno = before;
}

void event(const char *what, const int64_t *args) {
    if (is_off) return;
    int before = errno, was_busy = self.busy;
    self.busy = 1;
    put(AT_END, what, now(CLOCK_MONOTONIC), 0, 0, args);
    self.busy = was_busy;
    errno = before;
}

uint32_t new_tid(void) {
    return (1u << 22) + 1 + (shared ? (uint32_t)__atomic_fetch_add(&shared->tids, 1, __ATOMIC_RELAXED) : 0);
}

void thread_begins(uint32_t tid) {
    if (is_off) return;
    memset(&self, 0, sizeof self);
    self.tid = tid;
    self.pid = process->pid;
    self.last_ns = self.cpu_at_ns = now(CLOCK_MONOTONIC);
    self.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
    event("thread:n", ARGS(SYS(SYS_gettid, 0, 0, 0, 0, 0)));
}

void thread_ends(void) {
    if (is_off || !self.segment) return;
    event("gone:", ARGS(0));
    self.busy = 1;
    end_segment(&self, "done");
    self.busy = 0;
}

/* Other destructors may make calls: the thread's last round is the end. */
static void destructor(void *thread) {
    if (++self.ending < DESTRUCTOR_ROUNDS) pthread_setspecific(at_end, thread);
    else thread_ends();
}

/* The number behind a word of /proc/self/io. */
static uint64_t counter(const char *text, const char *word) {
    const char *at = strstr(text, word);
    uint64_t number = 0;
    for (at = at ? at + strlen(word) : ""; *at >= '0' && *at <= '9'; at++) number = number * 10 + (uint64_t)(*at - '0');
    return number;
}

/* System calls that have read and written. 0: the kernel does not count. */
static int counters(uint64_t *reads, uint64_t *writes) {
    char text[512];
    long fd = SYS(SYS_openat, AT_FDCWD, "/proc/self/io", O_RDONLY | O_CLOEXEC, 0, 0);
    long got = fd < 0 ? fd : SYS(SYS_read, fd, text, sizeof text - 1, 0, 0);
    if (fd >= 0) SYS(SYS_close, fd, 0, 0, 0, 0);
    if (got <= 0) return 0;
    text[got] = 0;
    *reads = counter(text, "syscr: ");
    *writes = counter(text, "syscw: ");
    return 1;
}

static void tell_counts(const char *what, int code) {
    uint64_t reads = 0, writes = 0;
    int is_counted = counters(&reads, &writes);
    /* A child between vfork and exec is another process than the one whose memory it has. */
    int is_own = self.pid == process->pid;
    if (is_own) reads -= base_reads, writes -= base_writes;
    event(what, ARGS(code, is_counted, (int64_t)reads, (int64_t)writes));
    /* The reading itself is the next that the kernel counts. */
    base_reads += is_own;
}

void process_replaced(void) {
    if (!is_off && process && process->ready) tell_counts("counts:nnnn", 0);
}

/* A ring of io_uring that is open: what was made without libc is seen by nothing else. */
static void tell_rings(void) {
    long list = SYS(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (list < 0) return;
    char entries[2048] __attribute__((aligned(8))), path[64];
    for (long got; (got = SYS(SYS_getdents64, list, entries, sizeof entries, 0, 0)) > 0;) {
        for (long at = 0; at < got; at += *(uint16_t *)(entries + at + 16)) {
            long length = SYS(SYS_readlinkat, list, entries + at + 19, path, sizeof path - 1, 0);
            if (length < 0) continue;
            path[length] = 0;
            if (strcmp(path, "anon_inode:[io_uring]") == 0) event("ring:", ARGS(0));
        }
    }
    SYS(SYS_close, list, 0, 0, 0, 0);
}

void process_ends(int code) {
    if (is_off || (process && !process->ready)) return;
    tell_rings();
    tell_counts("end:nnnn", code);
}

/* Tells of each descriptor that is open: its number, flags, position and path. */
static void tell_descriptors(void) {
    long list = SYS(SYS_openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);
    if (list < 0) return;
    char entries[4096] __attribute__((aligned(8))), path[STRING_MAX];
    for (long got; (got = SYS(SYS_getdents64, list, entries, sizeof entries, 0, 0)) > 0;) {
        for (long at = 0; at < got; at += *(uint16_t *)(entries + at + 16)) {
            const char *name = entries + at + 19;
            long fd = 0;
            if (*name < '0' || *name > '9') continue;
            for (const char *digit = name; *digit; digit++) fd = fd * 10 + (*digit - '0');
            long length = SYS(SYS_readlinkat, list, name, path, sizeof path - 1, 0);
            if (fd == list || length < 0) continue;
            path[length] = 0;
            event("fd:nnnns", ARGS(fd, SYS(SYS_fcntl, fd, F_GETFL, 0, 0, 0), SYS(SYS_fcntl, fd, F_GETFD, 0, 0, 0),
                                   SYS(SYS_lseek, fd, 0, SEEK_CUR, 0, 0), P(path)));
        }
    }
    SYS(SYS_close, list, 0, 0, 0, 0);
}

/* A program begins. */
static void announce(void) {
    char directory[STRING_MAX] = "";
    SYS(SYS_getcwd, directory, sizeof directory, 0, 0, 0);
    event("image:nss", ARGS(SYS(SYS_getppid, 0, 0, 0, 0, 0), P(getauxval(AT_EXECFN)), P(directory)));
    tell_descriptors();
    event("ready:", ARGS(0));
}

static const char *value(char **variables, const char *name) {
    size_t length = strlen(name);
    for (; variables && *variables; variables++) {
        if (strncmp(*variables, name, length) == 0 && (*variables)[length] == '=') return *variables + length + 1;
    }
    return 0;
}

static void *map_file(const char *name, size_t bytes) {
    long fd = SYS(SYS_openat, AT_FDCWD, name, O_RDWR | O_CLOEXEC, 0, 0);
    if (fd < 0) return 0;
    long map = system_call(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SYS(SYS_close, fd, 0, 0, 0, 0);
    return map < 0 && map > -4096 ? 0 : (void *)map;
}

static void copy(char *to, size_t room, const char *first, const char *second) {
    to[0] = 0;
    if (strlen(first) + strlen(second) < room) strcat(strcat(to, first), second);
}

/* What a record costs its thread outside of the call: of several rounds the least. */
static uint64_t cost_of_a_record(void) {
    enum { ROUNDS = 8, CALLS = 8 };
    uint64_t least_ns = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin_ns = now(CLOCK_MONOTONIC), inside_ns = 0;
        for (int call = 0; call < CALLS; call++) {
            uint64_t call_ns = call_begins();
            call_ends(call_ns, "nothing:nnn", 0, ARGS(0, 0, 0));
            inside_ns += self.last_ns - call_ns;
        }
        uint64_t each_ns = (now(CLOCK_MONOTONIC) - begin_ns - inside_ns) / CALLS;
        if (each_ns < least_ns) least_ns = each_ns;
    }
    return least_ns;
}

int is_recording(void) { return !is_off; }

const char *environment(int which) { return which == 0 ? folder_variable : preload_variable; }

/* glibc passes the arguments of main; musl passes none, and has set environ. libc itself may not have begun. */
__attribute__((constructor)) static void start(int argc, char **argv, char **variables) {
    char **all = environ ? environ : variables;
    const char *where = value(all, "WEIR_RECORD"), *preload = value(all, "LD_PRELOAD");
    char name[300];
    (void)argc, (void)argv;
    if (!where || !dlsym || strlen(where) >= sizeof folder) return;
    copy(folder, sizeof folder, where, "");
    copy(folder_variable, sizeof folder_variable, "WEIR_RECORD=", where);
    copy(preload_variable, sizeof preload_variable, "LD_PRELOAD=", preload ? preload : "");
    copy(name, sizeof name, folder, "/shared");
    shared = map_file(name, 4096);
    long map = system_call(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!shared || (map < 0 && map > -4096)) return;
    process = (struct process *)map;
    if (SYS(SYS_madvise, process, 4096, MADV_WIPEONFORK, 0, 0) < 0) return;
    has_key = pthread_key_create(&at_end, destructor) == 0;
    self.pid = process->pid = (uint32_t)SYS(SYS_getpid, 0, 0, 0, 0, 0);
    self.tid = self.pid;
    process->ready = 1;
    is_off = 0;
    int is_first = __atomic_load_n(&shared->next, __ATOMIC_RELAXED) == 0;
    announce();
    if (is_first) event("level:n", ARGS((int64_t)cost_of_a_record()));
    counters(&base_reads, &base_writes);
    /* The reading itself is the next that the kernel counts. */
    base_reads++;
    self.last_ns = self.cpu_at_ns = now(CLOCK_MONOTONIC);
    self.cpu_ns = now(CLOCK_THREAD_CPUTIME_ID);
}

static int exit_code;

/* exit(3) runs it after the program's own handlers. */
__attribute__((destructor)) static void stop(void) { process_ends(exit_code); }

HIDDEN void remember_code(int code) { exit_code = code; }
