/*
 * A plugin of qemu's user mode that counts what caches and TLBs of a simulated processor would do under a program.
 *
 * It is loaded by qemu-ARCH with sizes as arguments (`lab::counters::simulated`), and writes a line for each count at the end of
 * the program. Counts are of the time between two marks: the program marks by setting the position of a file to a reserved one,
 * which the plugin sees as a system call. Caches and TLBs are filled before the first mark, too, so that the counted time finds
 * them warm.
 * Without `seek`, the number of that call, all of the program is counted.
 *
 * Each thread has its own first and second caches and TLBs; all share the last cache. Replacement is by least recent use, stores
 * allocate, and there is no prefetching and no coherence. The program's addresses take the place of physical ones.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The interface of plugins, version 1 (qemu 5.0 and later), as far as it is used: qemu's documentation, "TCG Plugins". */
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;
enum { NO_REGISTERS = 0 };
enum { LOADS_AND_STORES = 3 };

typedef void (*at_translation)(qemu_plugin_id_t, struct qemu_plugin_tb *);
typedef void (*at_block)(unsigned int, void *);
typedef void (*at_access)(unsigned int, qemu_plugin_meminfo_t, uint64_t, void *);
typedef void (*at_call)(qemu_plugin_id_t, unsigned int, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t);
typedef void (*at_end)(qemu_plugin_id_t, void *);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t, at_translation);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, at_block, int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, at_access, int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t, at_call);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, at_end, void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1;

enum { LINE = 6, PAGE = 12, LARGE_PAGE = 21, MOST_WAYS = 32, MOST_THREADS = 4096 };

/* Sets of tags, in each set the most recently used one first; the tag 0 is none. */
struct cache {
    uint64_t sets;
    unsigned ways;
    uint64_t *tags;
};

enum {
    INSTRUCTIONS,
    LOADS,
    STORES,
    FETCHES,
    L1D_LOAD_MISSES,
    L1D_STORE_MISSES,
    L1I_MISSES,
    LLC_LOADS,
    LLC_STORES,
    LLC_FETCHES,
    LLC_LOAD_MISSES,
    LLC_STORE_MISSES,
    LLC_FETCH_MISSES,
    DTLB_MISSES,
    ITLB_MISSES,
    STLB_MISSES,
    DTLB_MISSES_2M,
    ITLB_MISSES_2M,
    STLB_MISSES_2M,
    FIRST_TOUCHES,
    COUNTS
};

static const char *const names[COUNTS] = {
    "instructions",     "loads",           "stores",          "fetches",     "l1d_load_misses", "l1d_store_misses", "l1i_misses",
    "llc_loads",        "llc_stores",      "llc_fetches",     "llc_load_misses", "llc_store_misses", "llc_fetch_misses",
    "dtlb_misses",      "itlb_misses",     "stlb_misses",     "dtlb_misses_2m", "itlb_misses_2m", "stlb_misses_2m", "first_touches",
};

/* Who asks the last cache, in the order of its counts. */
enum who { LOAD, STORE, FETCH };

struct thread {
    struct cache l1d, l1i, l2, dtlb, itlb, stlb, dtlb_2m, itlb_2m, stlb_2m;
    uint64_t counts[COUNTS];
};

/* What a block of the program executes: its instructions, and the lines that they lie in. */
struct block {
    unsigned instructions, lines;
    uint64_t line[];
};

struct size {
    uint64_t entries;
    unsigned ways;
};

/* The sizes of the caches of each thread in lines or pages; those of the last one; 0: there is none. */
static struct size l1d_size, l1i_size, l2_size, llc_size, dtlb_size, itlb_size, stlb_size, dtlb_2m_size, itlb_2m_size;
static struct thread *threads[MOST_THREADS];
static struct cache llc;
static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static volatile bool counted;
static int64_t seek_number = -1;
static uint64_t mark_begins, mark_ends;
static char output[4096];

/* Pages that were touched, as a growing hash table of their numbers. */
static uint64_t *touched, touched_room, touched_count;

static void fail(const char *what)
{
    fprintf(stderr, "weir's plugin: %s\n", what);
    exit(2);
}

static void *room(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        fail("no memory");
    return memory;
}

static struct cache cache_of(struct size size)
{
    struct cache cache = { 0, size.ways, NULL };
    if (size.entries) {
        cache.sets = size.entries / size.ways;
        cache.tags = room(size.entries, sizeof *cache.tags);
    }
    return cache;
}

/* Whether the cache has `item`, which is the most recently used one of its set from then on. */
static inline bool has(struct cache *cache, uint64_t item)
{
    uint64_t *set = cache->tags + item % cache->sets * cache->ways, tag = item + 1;
    unsigned at = 0;
    if (set[0] == tag)
        return true;
    while (at + 1 < cache->ways && set[at] != tag)
        at++;
    bool found = set[at] == tag;
    memmove(set + 1, set, at * sizeof *set);
    set[0] = tag;
    return found;
}

static struct thread *thread_of(unsigned index)
{
    if (index >= MOST_THREADS)
        fail("too many threads");
    struct thread *thread = threads[index];
    if (!thread) {
        thread = room(1, sizeof *thread);
        thread->l1d = cache_of(l1d_size);
        thread->l1i = cache_of(l1i_size);
        thread->l2 = cache_of(l2_size);
        thread->dtlb = cache_of(dtlb_size);
        thread->itlb = cache_of(itlb_size);
        thread->stlb = cache_of(stlb_size);
        thread->dtlb_2m = cache_of(dtlb_2m_size);
        thread->itlb_2m = cache_of(itlb_2m_size);
        thread->stlb_2m = cache_of(stlb_size);
        threads[index] = thread;
    }
    return thread;
}

static inline void count(struct thread *thread, int what, uint64_t many)
{
    if (counted)
        thread->counts[what] += many;
}

static void put_touched(uint64_t tag)
{
    uint64_t at = tag * 0x9e3779b97f4a7c15u % touched_room;
    while (touched[at])
        at = (at + 1) % touched_room;
    touched[at] = tag;
}

/* Whether no access has been to this page before; called with the lock held. */
static bool is_new(uint64_t page)
{
    uint64_t tag = page + 1;
    if (touched_count * 2 >= touched_room) {
        uint64_t *old = touched, old_room = touched_room;
        touched_room = old_room ? old_room * 2 : 1 << 16;
        touched = room(touched_room, sizeof *touched);
        for (uint64_t at = 0; at < old_room; at++)
            if (old[at])
                put_touched(old[at]);
        free(old);
    }
    for (uint64_t at = tag * 0x9e3779b97f4a7c15u % touched_room; touched[at]; at = (at + 1) % touched_room)
        if (touched[at] == tag)
            return false;
    put_touched(tag);
    touched_count++;
    return true;
}

/* A line that the first cache does not have. */
static void beyond(struct thread *thread, uint64_t line, enum who who)
{
    if (thread->l2.sets && has(&thread->l2, line))
        return;
    pthread_mutex_lock(&shared);
    bool found = has(&llc, line);
    pthread_mutex_unlock(&shared);
    count(thread, LLC_LOADS + who, 1);
    if (!found)
        count(thread, LLC_LOAD_MISSES + who, 1);
}

static void translate(struct thread *thread, uint64_t address, bool fetch)
{
    uint64_t page = address >> PAGE, large = address >> LARGE_PAGE;
    if (!has(fetch ? &thread->itlb : &thread->dtlb, page)) {
        count(thread, fetch ? ITLB_MISSES : DTLB_MISSES, 1);
        if (!has(&thread->stlb, page)) {
            count(thread, STLB_MISSES, 1);
            if (!fetch) {
                pthread_mutex_lock(&shared);
                bool first = is_new(page);
                pthread_mutex_unlock(&shared);
                if (first)
                    count(thread, FIRST_TOUCHES, 1);
            }
        }
    }
    if (!has(fetch ? &thread->itlb_2m : &thread->dtlb_2m, large)) {
        count(thread, fetch ? ITLB_MISSES_2M : DTLB_MISSES_2M, 1);
        if (!has(&thread->stlb_2m, large))
            count(thread, STLB_MISSES_2M, 1);
    }
}

static void access_data(unsigned index, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
    (void)unused;
    struct thread *thread = thread_of(index);
    bool store = qemu_plugin_mem_is_store(info);
    uint64_t last = address + (1u << qemu_plugin_mem_size_shift(info)) - 1;
    count(thread, store ? STORES : LOADS, 1);
    translate(thread, address, false);
    if (last >> PAGE != address >> PAGE)
        translate(thread, last, false);
    /* An access to two lines is one access, and misses once. */
    bool missed = false;
    for (uint64_t line = address >> LINE; line <= last >> LINE; line++)
        if (!has(&thread->l1d, line)) {
            missed = true;
            beyond(thread, line, store ? STORE : LOAD);
        }
    if (missed)
        count(thread, store ? L1D_STORE_MISSES : L1D_LOAD_MISSES, 1);
}

static void execute(unsigned index, void *data)
{
    struct thread *thread = thread_of(index);
    const struct block *block = data;
    count(thread, INSTRUCTIONS, block->instructions);
    count(thread, FETCHES, block->lines);
    for (unsigned at = 0; at < block->lines; at++) {
        uint64_t line = block->line[at];
        translate(thread, line << LINE, true);
        if (!has(&thread->l1i, line)) {
            count(thread, L1I_MISSES, 1);
            beyond(thread, line, FETCH);
        }
    }
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    size_t instructions = qemu_plugin_tb_n_insns(tb);
    /* No instruction lies in more than two lines. */
    struct block *block = room(1, sizeof *block + 2 * instructions * sizeof block->line[0]);
    block->instructions = instructions;
    for (size_t at = 0; at < instructions; at++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, at);
        uint64_t address = qemu_plugin_insn_vaddr(insn), last = address + qemu_plugin_insn_size(insn) - 1;
        for (uint64_t line = address >> LINE; line <= last >> LINE; line++)
            if (!block->lines || block->line[block->lines - 1] != line)
                block->line[block->lines++] = line;
        qemu_plugin_register_vcpu_mem_cb(insn, access_data, NO_REGISTERS, LOADS_AND_STORES, NULL);
    }
    qemu_plugin_register_vcpu_tb_exec_cb(tb, execute, NO_REGISTERS, block);
}

static void called(qemu_plugin_id_t id, unsigned index, int64_t number, uint64_t file, uint64_t position, uint64_t a3, uint64_t a4,
                   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)index, (void)file, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (number != seek_number)
        return;
    if (position == mark_begins)
        counted = true;
    else if (position == mark_ends)
        counted = false;
}

static void ended(qemu_plugin_id_t id, void *unused)
{
    (void)id, (void)unused;
    FILE *file = fopen(output, "w");
    if (!file)
        fail("the file of the counts cannot be written");
    for (int what = 0; what < COUNTS; what++) {
        uint64_t sum = 0;
        for (unsigned index = 0; index < MOST_THREADS; index++)
            if (threads[index])
                sum += threads[index]->counts[what];
        fprintf(file, "%s %llu\n", names[what], (unsigned long long)sum);
    }
    if (fclose(file))
        fail("the file of the counts cannot be written");
}

/* ENTRIES/WAYS */
static struct size size_of(const char *text)
{
    struct size size = { 0, 0 };
    char *rest;
    size.entries = strtoull(text, &rest, 10);
    if (*rest == '/')
        size.ways = strtoul(rest + 1, &rest, 10);
    if (*rest || size.ways > MOST_WAYS || (size.entries && (!size.ways || size.entries % size.ways)))
        fail("a size must be ENTRIES/WAYS");
    return size;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc, char **argv)
{
    (void)info;
    const struct {
        const char *name;
        struct size *size;
    } sizes[] = {
        { "l1d", &l1d_size },     { "l1i", &l1i_size },         { "l2", &l2_size },
        { "llc", &llc_size },     { "dtlb", &dtlb_size },       { "itlb", &itlb_size },
        { "stlb", &stlb_size },   { "dtlb_2m", &dtlb_2m_size }, { "itlb_2m", &itlb_2m_size },
    };
    for (int at = 0; at < argc; at++) {
        char *value = strchr(argv[at], '=');
        if (!value)
            fail("an argument must be NAME=VALUE");
        *value++ = 0;
        for (size_t one = 0; one < sizeof sizes / sizeof sizes[0]; one++)
            if (!strcmp(argv[at], sizes[one].name))
                *sizes[one].size = size_of(value);
        if (!strcmp(argv[at], "out"))
            snprintf(output, sizeof output, "%s", value);
        else if (!strcmp(argv[at], "seek"))
            seek_number = strtoll(value, NULL, 10);
        else if (!strcmp(argv[at], "begins"))
            mark_begins = strtoull(value, NULL, 10);
        else if (!strcmp(argv[at], "ends"))
            mark_ends = strtoull(value, NULL, 10);
    }
    for (size_t one = 0; one < sizeof sizes / sizeof sizes[0]; one++)
        if (!sizes[one].size->entries && sizes[one].size != &l2_size)
            fail("each cache but the second needs a size");
    llc = cache_of(llc_size);
    counted = seek_number < 0;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
