/* How a wrapper is written. */
#ifndef WEIR_WRAP_H
#define WEIR_WRAP_H

/* libc's own function. */
#define REAL(name) ({ \
    static __typeof__(&name) real_##name; \
    if (!real_##name) real_##name = (__typeof__(&name))next(#name); \
    real_##name; \
})

/* The body of a wrapper: `result` may stand among what is recorded. */
#define CALL(name, type, call, what, ...) \
    __typeof__(&name) real = REAL(name); \
    uint64_t begin_ns = call_begins(); \
    type result = real call; \
    call_ends(begin_ns, what, (int64_t)(result), ARGS(__VA_ARGS__)); \
    return result;

#define WRAP(type, name, params, call, what, ...) \
    type name params { CALL(name, type, call, what, __VA_ARGS__) }

/* Of a call that frees a number which another thread may be given at once. */
#define WRAP_FREEING(type, name, params, call, what, ...) \
    type name params { \
        __typeof__(&name) real = REAL(name); \
        uint64_t begin_ns = call_begins(), number = call_number(); \
        type result = real call; \
        call_ends_as(number, begin_ns, what, (int64_t)(result), ARGS(__VA_ARGS__)); \
        return result; \
    }

/* Of a function that returns the number of an error. */
#define WRAP_ERROR(name, params, call, what, ...) \
    int name params { \
        __typeof__(&name) real = REAL(name); \
        uint64_t begin_ns = call_begins(); \
        int result = real call; \
        int before = errno; \
        errno = result; \
        call_ends(begin_ns, what, result == 0 ? 0 : -1, ARGS(__VA_ARGS__)); \
        errno = before; \
        return result; \
    }

/* Another symbol for the same function: on 64-bit hosts the functions of large files are the plain ones. */
#define ALIAS(other, name) __asm__(".globl " #other "\n.type " #other ",@function\n.set " #other "," #name)

#endif
