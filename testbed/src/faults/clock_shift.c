/*
 * Shifts the wall clock of the program it is preloaded into, by a number of microseconds that may change at any time.
 *
 * The number is a 64-bit integer in the file named by STANCHION_CLOCK_SHIFT, mapped into memory. The system calls are
 * made directly: looking up libc's own functions allocates, and an allocator may ask for the time before it works.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const int64_t none = 0;
static const int64_t *shift = &none;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("STANCHION_CLOCK_SHIFT");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror("the clock's shift cannot be mapped");
        _exit(127);
    }
    close(file);
    shift = page;
}

static int shifted(clockid_t clock, struct timespec *now) {
    if (syscall(SYS_clock_gettime, clock, now) != 0) {
        return -1;
    }
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        int64_t micros = __atomic_load_n(shift, __ATOMIC_RELAXED);
        int64_t nanos = now->tv_nsec + micros % 1000000 * 1000;
        now->tv_sec += micros / 1000000;
        if (nanos < 0) {
            nanos += SECOND;
            now->tv_sec -= 1;
        } else if (nanos >= SECOND) {
            nanos -= SECOND;
            now->tv_sec += 1;
        }
        now->tv_nsec = nanos;
    }
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    return shifted(clock, now);
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec precise;
    (void)zone;
    if (shifted(CLOCK_REALTIME, &precise) != 0) {
        return -1;
    }
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec precise;
    if (shifted(CLOCK_REALTIME, &precise) != 0) {
        return (time_t)-1;
    }
    if (now) {
        *now = precise.tv_sec;
    }
    return precise.tv_sec;
}
