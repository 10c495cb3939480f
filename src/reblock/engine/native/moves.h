/* Moves: what the engine does for every unit and every write box, without the interpreter.
 *
 *   scatter.c   reblock_scatter   elements in memory             → the write boxes that they belong to
 *   reading.c   reblock_read      many raw pieces: open, pread   → the same; several in one call by together.h
 *               reblock_decode    many encoded units: the same with a library's decoder in between
 *               reblock_fetch     an encoded unit: open, pread   → memory
 *   looking.c   reblock_look      the files of a source          → what they look like, added up
 *   writing.c   reblock_write     many complete raw boxes        → their files
 *               reblock_settle    many files that are durable    → what they look like
 *
 * They know addresses, strides, lengths and file names; `native.py` says what they mean. The Python path
 * (`reading.py`, `encoded.py`, `writing.py`) does the same where this was not built, and is what tests hold it against.
 */
#ifndef REBLOCK_MOVES_H
#define REBLOCK_MOVES_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef O_DIRECT
#define O_DIRECT 0
#endif
#define MOST_AXES 32
#define PAGE 4096

/* A write box on its way to completion. */
typedef struct {
    char *memory;
    int64_t missing; /* elements that have not arrived yet */
    uint64_t sums[2];
} Record;

/* What is the same for a whole pass. */
typedef struct {
    int64_t ndim, itemsize;
    int64_t component;          /* bytes of a scalar that digests swap, 0 = none */
    int64_t digest;             /* whether to take digests */
    int64_t direct;             /* single runs from this length on go past the page cache */
    int64_t fills;              /* whether a file that is not there is fill */
    int64_t flags;              /* more flags for opening a source file */
    int64_t share, exact;       /* objects that share a stamp; whether stamps tell more than what is there */
    const uint16_t *stamps;     /* what the files of the source looked like at the start; NULL = it does not matter */
    const int64_t *shape;       /* of the target */
    const int64_t *target_order; /* axes as they lie in a write box's memory, outermost first */
    const int64_t *source_order; /* axes as they lie in a source object */
    const char *fill;           /* one element */
} Pass;

/* The write boxes that a read box meets. */
typedef struct {
    const int64_t *counts, *cuts, *lengths; /* per axis: how many, their bounds, the lengths of their memory */
    Record *const *table;                   /* in C order; NULL = not wanted */
} Window;

/* Elements in memory: those of the box [start, stop) of a block whose first element is `origin`. */
typedef struct {
    const char *from;
    const int64_t *strides, *origin, *start, *stop;
} Block;

/* Copy a block into every write box that it meets; those now complete are listed. Returns how many are. */
__attribute__((visibility("hidden"))) int64_t scatter(const Pass *pass, const Window *window, const Block *block, int64_t *completed);

enum { OK, OPENING, MISSING, READING, WRONG_SIZE, SHORT, CHANGED, WRITING, FOLDER, CLOSING };

/* What became of a call: where it stopped and why, and what it did until then. */
typedef struct {
    int64_t row, problem, error;    /* the row that failed, what was being done, errno */
    int64_t offset, length, found;  /* the byte range, and how many bytes there were */
    int64_t opens, runs, seeks, bytes, elements, missing, completed;
    int64_t io_ns, decode_ns, scatter_ns;
} Result;

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int fail(Result *result, int problem, int error, int64_t offset, int64_t length, int64_t found) {
    result->problem = problem;
    result->error = error;
    result->offset = offset;
    result->length = length;
    result->found = found;
    return -1;
}

#endif
