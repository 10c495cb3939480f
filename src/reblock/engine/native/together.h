/* Several reads in one call: the system hands them to the device together, and the thread sleeps once instead of once
 * for each. That is Linux's own interface, io_submit, which only direct reads gain from. Where there is none, or none
 * left, nothing is read, and the caller reads one by one. */
#ifndef REBLOCK_TOGETHER_H
#define REBLOCK_TOGETHER_H

#include "moves.h"

#ifdef __linux__
#include <sys/syscall.h>
#endif

#define MAX_PIECES 64

/* Bytes wanted, and how many came: negative if it was not tried, or failed. */
typedef struct {
    int fd;
    char *to;
    int64_t length, offset, got;
} Wanted;

#if defined(__linux__) && defined(SYS_io_submit) && defined(SYS_io_getevents)
#include <linux/aio_abi.h>

/* Idle queues. They cost a millisecond to end, so they live as long as the process. */
#define SPARE 64
static aio_context_t spare[SPARE];

static aio_context_t take_queue(void) {
    aio_context_t found = 0;
    for (int k = 0; k < SPARE; k++)
        if ((found = __atomic_exchange_n(&spare[k], 0, __ATOMIC_ACQ_REL))) return found;
    return syscall(SYS_io_setup, MAX_PIECES, &found) ? 0 : found;
}

static void give_queue(aio_context_t queue) {
    for (int k = 0; k < SPARE; k++) {
        aio_context_t none = 0;
        if (__atomic_compare_exchange_n(&spare[k], &none, queue, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) return;
    }
    syscall(SYS_io_destroy, queue);
}

static void read_together(Wanted *wanted, int count) {
    struct iocb requests[MAX_PIECES], *list[MAX_PIECES];
    struct io_event done[MAX_PIECES];
    memset(requests, 0, sizeof requests[0] * (size_t)count);
    for (int k = 0; k < count; k++) {
        wanted[k].got = -1;
        requests[k].aio_data = (uint64_t)k;
        requests[k].aio_lio_opcode = IOCB_CMD_PREAD;
        requests[k].aio_fildes = (uint32_t)wanted[k].fd;
        requests[k].aio_buf = (uint64_t)(uintptr_t)wanted[k].to;
        requests[k].aio_nbytes = (uint64_t)wanted[k].length;
        requests[k].aio_offset = wanted[k].offset;
        list[k] = &requests[k];
    }
    aio_context_t queue = take_queue();
    if (!queue) return;
    long asked = syscall(SYS_io_submit, queue, (long)count, list), back = 0;
    while (back < asked) {
        long some = syscall(SYS_io_getevents, queue, asked - back, asked - back, done, NULL);
        if (some < 0 && errno == EINTR) continue;
        if (some < 0) break;
        for (long k = 0; k < some; k++) wanted[done[k].data].got = done[k].res;
        back += some;
    }
    /* A queue of the process that forked this one is none; ending one waits for its requests. */
    if (asked < 0 || back < asked) syscall(SYS_io_destroy, queue);
    else give_queue(queue);
}
#else
static void read_together(Wanted *wanted, int count) {
    for (int k = 0; k < count; k++) wanted[k].got = -1;
}
#endif

#endif
