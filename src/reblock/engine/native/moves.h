/* Moves: the engine's inner loops, without the interpreter.
 *
 *   scatter.c   reblock_scatter   elements in memory → the write boxes that they belong to
 *   reading.c   reblock_read      raw pieces of files → write boxes; several reads in one call by together.h
 *   units.c     reblock_fetch     stored bytes of an encoded unit → memory
 *               reblock_decode    encoded units of files → a codec's decoder (decoder.h) → write boxes
 *   planes.c    reblock_regroup   planes of bytes → elements
 *   looking.c   reblock_look      size and times of the files of a source, added up
 *   writing.c   reblock_write     complete write boxes → files
 *               reblock_settle    size and times of files that are durable
 *   digest.c    reblock_digest    digest sums of elements in memory
 *
 * The loops know addresses, strides, lengths and file names; `native/structs.py` says what the structures mean.
 * Every entry point checks its arguments (guard.c): a null pointer, too many axes, or sizes that are negative,
 * overflow, or exceed the memory they describe give an error, not a crash. The Python code in `engine/pipeline`
 * does the same work if this library is missing, and tests compare the two.
 */
#ifndef REBLOCK_MOVES_H
#define REBLOCK_MOVES_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* O_DIRECT, fallocate, preadv2 */
#endif
#if defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE /* st_mtimespec */
#endif
#ifndef _FILE_OFFSET_BITS
#define _FILE_OFFSET_BITS 64
#endif
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* Raised by every change of an exported function or of a structure below; `native/loading.py` has the same number. */
#define REBLOCK_ABI 2

#ifndef O_DIRECT
#define O_DIRECT 0
#endif
#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif
/* The time of the last write of a file's bytes, and of the last change of anything about it. */
#ifdef __APPLE__
#define WRITTEN(status) (&(status)->st_mtimespec)
#define CHANGED_AT(status) (&(status)->st_ctimespec)
#else
#define WRITTEN(status) (&(status)->st_mtim)
#define CHANGED_AT(status) (&(status)->st_ctim)
#endif

#define MAX_AXES 32
#define MAX_ITEM_BYTES (INT64_C(1) << 31)
#define PAGE 4096
#define HIDDEN __attribute__((visibility("hidden")))

/* A write box that is being filled. */
typedef struct {
    char *memory;
    int64_t missing; /* elements that have not arrived yet */
    uint64_t sums[2];
} Record;

/* What is the same for a whole pass. */
typedef struct {
    int64_t ndim, itemsize;
    int64_t component;           /* bytes of a scalar that digests swap, 0 = none */
    int64_t digest;              /* whether to take digests */
    int64_t direct;              /* single runs of at least this length bypass the page cache */
    int64_t fills;               /* whether a file that does not exist is fill */
    int64_t flags;               /* more flags for opening a source file */
    int64_t share, exact;        /* objects that share a stamp; whether stamps tell more than presence */
    int64_t stamp_count;         /* stamps in the table */
    const uint16_t *stamps;      /* what the files of the source looked like at the start; NULL = not checked */
    const int64_t *shape;        /* of the target */
    const int64_t *target_order; /* axes as they lie in a write box's memory, outermost first */
    const int64_t *source_order; /* axes as they lie in a source object */
    const char *fill;            /* one element */
} Pass;

/* The write boxes that a read box meets. */
typedef struct {
    const int64_t *counts, *cuts, *lengths; /* per axis: number of boxes, their bounds, the lengths of their memory */
    Record *const *table;                   /* in C order; NULL = not wanted */
} Window;

/* Elements in memory: those of the box [start, stop) of a block whose first element is `origin`. */
typedef struct {
    const char *from;
    const int64_t *strides, *origin, *start, *stop;
} Block;

/* One unit to read: its file, its bytes there, and per axis the bounds of the unit as it is stored, of the part that
 * is read, and of the part of that which is wanted. */
typedef struct {
    int64_t fd, path, base, size, exact, whole, object;
    int64_t axes[][6];
} Row;
#define ROW_HEAD 7

/* The rows of one call, and the memory that it may use. */
typedef struct {
    int64_t count;          /* rows */
    const int64_t *rows;    /* one after the other */
    int64_t path_bytes;     /* of the names of all files, the last zero included */
    const char *paths;      /* names, each ended by a zero */
    int64_t staging_bytes;
    char *staging;          /* for bytes as they are stored */
    int64_t completed_count;
    int64_t *completed;     /* room for the numbers of the write boxes that are completed */
} Batch;

enum { OK, OPENING, MISSING, READING, WRONG_SIZE, SHORT, CHANGED, WRITING, FOLDER, CLOSING, REFUSED };

/* The result of a call: where it stopped and why, and what it did until then. */
typedef struct {
    int64_t row, problem, error;   /* the row that failed, what was being done, errno */
    int64_t offset, length, found; /* the byte range, and the bytes that were found */
    int64_t opens, runs, seeks, bytes, elements, missing, completed;
    int64_t io_ns, decode_ns, scatter_ns; /* the first by the clock, the others by the processor */
} Result;

/* guard.c */
HIDDEN int pass_is_sound(const Pass *pass);
HIDDEN int window_is_sound(const Pass *pass, const Window *window, int64_t completed_count);
HIDDEN int batch_is_sound(const Pass *pass, const Batch *batch, const Result *result);
HIDDEN int path_is_sound(const Batch *batch, int64_t path);
HIDDEN int row_head_is_sound(const Pass *pass, const Batch *batch, const Row *row);
HIDDEN int row_is_sound(const Pass *pass, const Batch *batch, const Row *row);
HIDDEN int refuse(Result *result);
/* a *= b, or 0 if that overflows or a factor is negative */
static inline int multiply(int64_t *a, int64_t b) {
    return *a >= 0 && b >= 0 && !__builtin_mul_overflow(*a, b, a);
}

/* scatter.c: copy a block into every write box that it meets, and list those that are complete now. Returns their
 * number, or -1 if sizes do not fit. */
HIDDEN int64_t scatter(const Pass *pass, const Window *window, const Block *block, int64_t *completed);
/* Scatter the elements of a row, one after the other, or the fill for all of them; nonzero if sizes do not fit. */
HIDDEN int deliver(const Pass *pass, const Window *window, const Row *row, const char *from, Result *result,
                   int64_t *completed);
/* planes.c: the same for elements whose bytes come in planes. */
HIDDEN int deliver_planes(const Pass *pass, const Window *window, const Row *row, const char *planes, Result *result,
                          int64_t *completed);

/* files.c */
HIDDEN int open_source(const Pass *pass, const char *path, int64_t longest, int *direct);
HIDDEN int64_t read_all(int fd, char *to, int64_t length, int64_t offset, int direct, int once);

/* Decoded bytes of the part of a sound row that is read. */
static inline int64_t bytes_of(const Pass *pass, const Row *row) {
    int64_t size = pass->itemsize;
    for (int64_t a = 0; a < pass->ndim; a++) size *= row->axes[a][3] - row->axes[a][2];
    return size;
}

static inline const Row *row_of(const Pass *pass, const Batch *batch, int64_t number) {
    return (const Row *)(batch->rows + (ROW_HEAD + 6 * pass->ndim) * number);
}

static inline int64_t nanoseconds(const struct timespec *time) {
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

static inline int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return nanoseconds(&t);
}

/* What this thread has worked: the time of a processor, without that of threads which shared it. */
static inline int64_t worked_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
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
