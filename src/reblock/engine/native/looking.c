/* Looking: what the files of a source look like, added up. */
#include "look.h"

/* The sums so far, and the stamps to keep or to compare; see `source_state.py`. */
typedef struct {
    uint64_t firm, full;
    int64_t present, newest;
    int64_t fresh;         /* whether stamps are made, and not compared */
    int64_t share, exact;  /* as in Pass */
    int64_t stamp_count;
    uint16_t *stamps;
    int64_t since;         /* files changed from this moment on are suspect */
    int64_t suspects;      /* suspects found */
    int64_t list_count;
    int64_t *list;         /* their numbers */
} Look;

static void keep_stamp(const Look *look, uint16_t *slot, int64_t number, uint16_t stamp) {
    uint16_t kind = stamp < PRESENT ? stamp : PRESENT;
    if (look->exact) *slot = stamp;
    else if (number % look->share == 0) *slot = kind;
    else if (*slot != kind) *slot = UNKNOWN;
}

static int look_is_sound(int64_t count, const char *path, int64_t number, const Look *look) {
    int64_t last;
    if (!path || !look || count < 0 || number < 0 || __builtin_add_overflow(number, count, &last)) return 0;
    if (!look->stamps || look->share < 1 || look->suspects < 0) return 0;
    if (count && (last - 1) / look->share >= look->stamp_count) return 0;
    if (look->fresh) return 1;
    return look->list && look->suspects <= look->list_count && count <= look->list_count - look->suspects;
}

/* Look at `count` files, names one after the other, of objects numbered from `number` on; nonzero if the arguments
 * are wrong. */
int reblock_look(int64_t count, const char *path, int64_t number, Look *look) {
    if (!look_is_sound(count, path, number, look)) return -1;
    for (int64_t i = 0; i < count; i++, number++, path += strlen(path) + 1) {
        struct stat status;
        int error = stat(path, &status) ? errno : 0;
        uint64_t firm, full;
        uint16_t stamp;
        int64_t changed = INT64_MIN;
        if (error) {
            stamp = error == ENOENT ? ABSENT : UNKNOWN;
            full = firm = scramble((uint64_t)number, (uint64_t)error);
        } else {
            uint64_t found = look_of(&status);
            changed = nanoseconds(CHANGED_AT(&status));
            stamp = stamp_of(found);
            firm = scramble(scramble((uint64_t)number, found), 1);
            full = scramble(firm, (uint64_t)changed);
            look->present++;
            if (changed > look->newest) look->newest = changed;
        }
        look->firm += firm;
        look->full += scramble(full, 2);
        uint16_t *slot = &look->stamps[number / look->share];
        if (look->fresh) keep_stamp(look, slot, number, stamp);
        else if (changed >= look->since || (look->exact && *slot != stamp)) look->list[look->suspects++] = number;
    }
    return 0;
}
