/* The state of files, mixed into numbers; `source_state.py` does the same without this library. */
#ifndef REBLOCK_LOOK_H
#define REBLOCK_LOOK_H

#include "moves.h"

enum { ABSENT, UNKNOWN, PRESENT }; /* stamps; from PRESENT on they also tell what a file looks like */

static inline uint64_t scramble(uint64_t found, uint64_t value) {
    found = (found ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return found ^ found >> 32;
}

/* Inode, size and time of the last write, but not of the last change: rights and names are not bytes. */
static inline uint64_t look_of(const struct stat *status) {
    uint64_t found = scramble(0, (uint64_t)status->st_ino);
    found = scramble(found, (uint64_t)status->st_size);
    return scramble(found, (uint64_t)nanoseconds(WRITTEN(status)));
}

static inline uint16_t stamp_of(uint64_t look) { return (uint16_t)(PRESENT + look % (65536 - PRESENT)); }

/* Whether the file of an object looks as it did at the start; NULL = it does not exist. */
static inline int is_as_seen(const Pass *pass, int64_t number, const struct stat *status) {
    if (!pass->stamps) return 1;
    uint16_t before = pass->stamps[number / pass->share];
    if (!status) return before < PRESENT;
    return pass->exact ? before == UNKNOWN || before == stamp_of(look_of(status)) : before != ABSENT;
}

#endif
