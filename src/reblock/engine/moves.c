/* Moves: what the engine does for every unit and every write box, without the interpreter.
 *
 *   reblock_scatter   elements in memory            → the write boxes that they belong to
 *   reblock_read      many raw pieces: open, pread  → the same
 *   reblock_fetch     an encoded unit: open, pread  → memory, to be decoded
 *   reblock_write     many complete raw boxes       → their files
 *   reblock_settle    many files that are durable   → what they look like
 *
 * It knows addresses, strides, lengths and file names; `native.py` says what they mean. The Python path
 * (`reading.py`, `writing.py`) does the same where this was not built, and is what tests hold it against.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "digest.h"

#ifndef O_DIRECT
#define O_DIRECT 0
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif
#define MOST_AXES 32
#define PAGE 4096
#define FUTURE 60 /* a file dated later than so many seconds from now was not written just now: its date is wrong */

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
    int64_t not_after;          /* a file changed later than this (ns) has changed under our hands */
    int64_t flags;              /* more flags for opening a source file */
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

typedef struct {
    int64_t length, source, target; /* elements along the axis, bytes from one to the next on both sides */
} Axis;

static void copy_item(char *to, const char *from, int64_t itemsize) {
    switch (itemsize) {
    case 1: *to = *from; break;
    case 2: memcpy(to, from, 2); break;
    case 4: memcpy(to, from, 4); break;
    case 8: memcpy(to, from, 8); break;
    case 16: memcpy(to, from, 16); break;
    default: memcpy(to, from, (size_t)itemsize);
    }
}

#define STRIDED(bytes)                                                                                             \
    for (int64_t i = 0; i < n; i++, to += dt, from += df) memcpy(to, from, bytes)

static void copy_line(char *to, const char *from, int64_t n, int64_t dt, int64_t df, int64_t itemsize) {
    switch (itemsize) {
    case 1: STRIDED(1); break;
    case 2: STRIDED(2); break;
    case 4: STRIDED(4); break;
    case 8: STRIDED(8); break;
    case 16: STRIDED(16); break;
    default:
        for (int64_t i = 0; i < n; i++, to += dt, from += df) copy_item(to, from, itemsize);
    }
}

/* The two innermost axes run against each other (a transpose): small squares stay in the nearest cache. */
static void copy_tiles(char *to, const char *from, const Axis *a, const Axis *b, int64_t itemsize) {
    const int64_t tile = 32;
    for (int64_t i = 0; i < a->length; i += tile) {
        int64_t ni = a->length - i < tile ? a->length - i : tile;
        for (int64_t j = 0; j < b->length; j += tile) {
            int64_t nj = b->length - j < tile ? b->length - j : tile;
            for (int64_t k = 0; k < ni; k++)
                copy_line(to + (i + k) * a->target + j * b->target, from + (i + k) * a->source + j * b->source, nj,
                          b->target, b->source, itemsize);
        }
    }
}

#define RUNS(bytes)                                                                                                \
    for (int64_t i = 0; i < a->length; i++, to += a->target, from += a->source) memcpy(to, from, bytes)

/* Runs of the same length: a short one of a usual length costs less than a call. */
static void copy_runs(char *to, const char *from, const Axis *a, size_t length) {
    switch (length) {
    case 16: RUNS(16); break;
    case 32: RUNS(32); break;
    case 64: RUNS(64); break;
    case 128: RUNS(128); break;
    default: RUNS(length);
    }
}

static void copy_box(char *to, const char *from, const Axis *axes, int n, int64_t itemsize) {
    if (n == 0) {
        copy_item(to, from, itemsize);
        return;
    }
    const Axis *last = &axes[n - 1];
    if (n == 1) {
        if (last->source == itemsize && last->target == itemsize)
            memcpy(to, from, (size_t)(last->length * itemsize));
        else
            copy_line(to, from, last->length, last->target, last->source, itemsize);
        return;
    }
    if (n == 2 && last->source != itemsize) {
        copy_tiles(to, from, &axes[0], last, itemsize);
        return;
    }
    if (n == 2 && last->target == itemsize) {
        copy_runs(to, from, &axes[0], (size_t)(last->length * itemsize));
        return;
    }
    for (int64_t i = 0; i < axes->length; i++)
        copy_box(to + i * axes->target, from + i * axes->source, axes + 1, n - 1, itemsize);
}

/* Axes in the order of the target's strides, neighbours joined where both sides run on. */
static int tidy(Axis *axes, int n) {
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && axes[j].target > axes[j - 1].target; j--) {
            Axis held = axes[j];
            axes[j] = axes[j - 1];
            axes[j - 1] = held;
        }
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (axes[i].length == 1) continue;
        if (kept && axes[kept - 1].source == axes[i].source * axes[i].length &&
            axes[kept - 1].target == axes[i].target * axes[i].length) {
            axes[i].length *= axes[kept - 1].length;
            axes[kept - 1] = axes[i];
        } else
            axes[kept++] = axes[i];
    }
    return kept;
}

/* Elements in memory: those of the box [start, stop) of a block whose first element is `origin`. */
typedef struct {
    const char *from;
    const int64_t *strides, *origin, *start, *stop;
} Block;

static void digest_part(const Pass *pass, const char *from, const int64_t *strides, const int64_t *low,
                        const int64_t *high, uint64_t sums[2]) {
    int64_t lengths[MOST_AXES];
    uint64_t steps[MOST_AXES], position = 0, step = (uint64_t)((pass->itemsize + 3) / 4);
    for (int a = (int)pass->ndim - 1; a >= 0; a--) {
        lengths[a] = high[a] - low[a];
        steps[a] = step;
        position += step * (uint64_t)low[a];
        step *= (uint64_t)pass->shape[a];
    }
    digest_box(from, (int)pass->ndim, lengths, strides, steps, position, pass->itemsize, pass->component, sums);
}

/* Copy what one write box gets; returns how many elements that were. */
static int64_t fill_box(const Pass *pass, const Block *block, Record *record, const int64_t *begin,
                        const int64_t *end, const int64_t *length) {
    Axis axes[MOST_AXES];
    int64_t low[MOST_AXES], high[MOST_AXES], elements = 1, stride = pass->itemsize;
    const char *from = block->from;
    char *to = record->memory;
    for (int64_t place = pass->ndim - 1; place >= 0; place--) {
        int64_t a = pass->target_order[place];
        low[a] = block->start[a] > begin[a] ? block->start[a] : begin[a];
        high[a] = block->stop[a] < end[a] ? block->stop[a] : end[a];
        if (high[a] <= low[a]) return 0;
        elements *= high[a] - low[a];
        from += (low[a] - block->origin[a]) * block->strides[a];
        to += (low[a] - begin[a]) * stride;
        axes[place] = (Axis){high[a] - low[a], block->strides[a], stride};
        stride *= length[a];
    }
    copy_box(to, from, axes, tidy(axes, (int)pass->ndim), pass->itemsize);
    if (pass->digest) {
        uint64_t sums[2] = {0, 0};
        digest_part(pass, from, block->strides, low, high, sums);
        __atomic_fetch_add(&record->sums[0], sums[0], __ATOMIC_RELAXED);
        __atomic_fetch_add(&record->sums[1], sums[1], __ATOMIC_RELAXED);
    }
    return elements;
}

/* The last block that starts at or before x. */
static int64_t block_of(const int64_t *cuts, int64_t count, int64_t x) {
    int64_t low = 0, high = count;
    while (high - low > 1) {
        int64_t middle = (low + high) / 2;
        if (cuts[middle] <= x) low = middle;
        else high = middle;
    }
    return low;
}

/* Copy a block into every write box that it meets; those now complete are listed. Returns how many are. */
static int64_t scatter(const Pass *pass, const Window *window, const Block *block, int64_t *completed) {
    int64_t first[MOST_AXES], last[MOST_AXES], index[MOST_AXES], begin[MOST_AXES], end[MOST_AXES], length[MOST_AXES];
    const int64_t *cuts[MOST_AXES], *lengths[MOST_AXES], *cut = window->cuts, *len = window->lengths;
    int ndim = (int)pass->ndim;
    for (int a = 0; a < ndim; a++) {
        if (block->stop[a] <= block->start[a]) return 0;
        cuts[a] = cut;
        lengths[a] = len;
        cut += window->counts[a] + 1;
        len += window->counts[a];
        first[a] = index[a] = block_of(cuts[a], window->counts[a], block->start[a]);
        last[a] = block_of(cuts[a], window->counts[a], block->stop[a] - 1);
    }
    int64_t found = 0;
    for (;;) {
        int64_t number = 0;
        for (int a = 0; a < ndim; a++) {
            number = number * window->counts[a] + index[a];
            begin[a] = cuts[a][index[a]];
            end[a] = cuts[a][index[a] + 1];
            length[a] = lengths[a][index[a]];
        }
        Record *record = window->table[number];
        if (record) {
            int64_t elements = fill_box(pass, block, record, begin, end, length);
            if (elements && __atomic_sub_fetch(&record->missing, elements, __ATOMIC_ACQ_REL) == 0)
                completed[found++] = number;
        }
        int a = ndim - 1;
        while (a >= 0 && ++index[a] > last[a]) index[a] = first[a], a--;
        if (a < 0) return found;
    }
}

/* place: strides, origin, start and stop of a block, one behind the other. */
int64_t reblock_scatter(const Pass *pass, const Window *window, const char *from, const int64_t *place,
                        int64_t *completed) {
    int64_t n = pass->ndim;
    Block block = {from, place, place + n, place + 2 * n, place + 3 * n};
    return scatter(pass, window, &block, completed);
}

/* ---------------------------------------------------------------- reading */
/* Most bytes that a thread has on their way to a file: what fills the device's queue keeps reads from it. */
#define PART (1 << 19)

enum { OK, OPENING, MISSING, READING, WRONG_SIZE, SHORT, CHANGED, WRITING, FOLDER, CLOSING };

/* What became of a call: where it stopped and why, and what it did until then. */
typedef struct {
    int64_t row, problem, error;    /* the row that failed, what was being done, errno */
    int64_t offset, length, found;  /* the byte range, and how many bytes there were */
    int64_t opens, runs, seeks, bytes, elements, missing, completed;
    int64_t io_ns, scatter_ns;
} Result;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int fail(Result *result, int problem, int error, int64_t offset, int64_t length, int64_t found) {
    result->problem = problem;
    result->error = error;
    result->offset = offset;
    result->length = length;
    result->found = found;
    return -1;
}

/* Like pread; what is read `once` does not stay in the page cache, where the system knows how to do that. */
static ssize_t read_some(int fd, char *to, int64_t length, int64_t offset, int once) {
#ifdef __linux__
    static volatile int unknown; /* Linux 6.14 and later, some file systems */
    if (once && !unknown) {
        struct iovec part = {to, (size_t)length};
        ssize_t count = preadv2(fd, &part, 1, (off_t)offset, RWF_DONTCACHE);
        if (count >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) return count;
        unknown = 1;
    }
#endif
    (void)once;
    return pread(fd, to, (size_t)length, (off_t)offset);
}

/* Read until there is no more; returns how many bytes there were, or -1. */
static int64_t read_all(int fd, char *to, int64_t length, int64_t offset, int direct, int once) {
    int64_t done = 0;
    while (done < length) {
        ssize_t count = read_some(fd, to + done, length - done, offset + done, once);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        done += count;
        if (count == 0 || (direct && count % PAGE)) break;
    }
    return done;
}

/* A raw piece, as `native.py` lays it out: the head, then per axis the bounds of the object as it is stored, of what
 * is read of it, and of what of that is wanted. */
typedef struct {
    int64_t fd, path, base, size, exact, whole;
    int64_t axes[][6];
} Row;

static int open_source(const Pass *pass, const char *path, int64_t longest, int *direct) {
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (int)pass->flags; /* a pipe must not keep us */
    *direct = O_DIRECT && longest >= pass->direct;
    int fd = open(path, flags | (*direct ? O_DIRECT : 0));
    if (fd < 0 && errno == EINVAL && *direct) {
        *direct = 0;
        fd = open(path, flags);
    }
    return fd;
}

/* The runs of a piece: how many, how long, and from axis to axis how far apart. */
typedef struct {
    int64_t length, count, first;
    int outer;                                     /* axes outside the runs */
    int64_t extent[MOST_AXES], stride[MOST_AXES];  /* of those, outermost first */
} Runs;

static Runs runs_of(const Pass *pass, const Row *row) {
    Runs runs = {pass->itemsize, 1, 0, 0, {0}, {0}};
    int64_t stride = pass->itemsize, place = pass->ndim, whole = 1;
    int64_t strides[MOST_AXES];
    while (place-- > 0) {
        const int64_t *axis = row->axes[pass->source_order[place]];
        strides[place] = stride;
        runs.first += (axis[2] - axis[0]) * stride;
        if (whole) {
            runs.length *= axis[3] - axis[2];
            whole = axis[3] - axis[2] == axis[1] - axis[0];
            if (!whole) runs.outer = (int)place;
        }
        stride *= axis[1] - axis[0];
    }
    for (int k = 0; k < runs.outer; k++) {
        const int64_t *axis = row->axes[pass->source_order[k]];
        runs.extent[k] = axis[3] - axis[2];
        runs.stride[k] = strides[k];
        runs.count *= runs.extent[k];
    }
    return runs;
}

static int has_changed(const Pass *pass, const struct stat *status) {
    int64_t changed = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec;
    return changed > pass->not_after && changed < (int64_t)(time(NULL) + FUTURE) * 1000000000;
}

static int check_source(const Pass *pass, const Row *row, int fd, Result *result) {
    struct stat status;
    if (fstat(fd, &status)) return fail(result, OPENING, errno, row->base, row->size, 0);
    int64_t found = (int64_t)status.st_size - row->base;
    if (found < row->size || (row->exact && found > row->size))
        return fail(result, WRONG_SIZE, 0, row->base, row->size, found);
    return has_changed(pass, &status) ? fail(result, CHANGED, 0, row->base, row->size, found) : 0;
}

/* Bring the runs of a piece into memory; returns where they start, NULL on failure. */
static const char *load(const Pass *pass, const Row *row, const Runs *runs, int fd, int direct, char *staging,
                        Result *result) {
    (void)pass;
    int64_t offset = row->base + runs->first;
    if (direct && runs->count == 1) {
        int64_t before = offset % PAGE, span = (before + runs->length + PAGE - 1) / PAGE * PAGE;
        int64_t got = read_all(fd, staging, span, offset - before, 1, 0);
        if (got < 0) return fail(result, READING, errno, offset, runs->length, 0), NULL;
        if (got - before < runs->length) return fail(result, SHORT, 0, offset, runs->length, got - before), NULL;
        return staging + before;
    }
    int64_t index[MOST_AXES] = {0};
    char *to = staging;
    for (int64_t number = 0; number < runs->count; number++, to += runs->length) {
        int64_t got = read_all(fd, to, runs->length, offset, 0, (int)row->whole);
        if (got < 0) return fail(result, READING, errno, offset, runs->length, 0), NULL;
        if (got < runs->length) return fail(result, SHORT, 0, offset, runs->length, got), NULL;
        for (int k = runs->outer - 1; k >= 0; k--) {
            offset += runs->stride[k];
            if (++index[k] < runs->extent[k]) break;
            offset -= runs->extent[k] * runs->stride[k];
            index[k] = 0;
        }
    }
    return staging;
}

static int read_row(const Pass *pass, const Window *window, const Row *row, const char *paths, char *staging,
                    Result *result, int64_t *completed) {
    int64_t strides[MOST_AXES], origin[MOST_AXES], start[MOST_AXES], stop[MOST_AXES], stride = pass->itemsize;
    for (int64_t place = pass->ndim - 1; place >= 0; place--) {
        int64_t a = pass->source_order[place];
        const int64_t *axis = row->axes[a];
        strides[a] = stride;
        stride *= axis[3] - axis[2];
        origin[a] = axis[2];
        start[a] = axis[4];
        stop[a] = axis[5];
    }
    Runs runs = runs_of(pass, row);
    int64_t began = now_ns();
    int direct = 0, fd = (int)row->fd;
    if (fd < 0) fd = open_source(pass, paths + row->path, runs.count == 1 ? runs.length : 0, &direct);
    const char *from = NULL;
    if (fd >= 0) {
        if (!check_source(pass, row, fd, result)) from = load(pass, row, &runs, fd, direct, staging, result);
        if (row->fd < 0) close(fd);
        if (!from) return -1;
    } else if (errno != ENOENT)
        return fail(result, OPENING, errno, row->base, row->size, 0);
    else if (!pass->fills)
        return fail(result, MISSING, errno, row->base, row->size, 0);
    else {
        from = pass->fill;
        memset(strides, 0, sizeof strides);
        result->missing++;
    }
    int64_t read = now_ns();
    result->io_ns += read - began;
    Block block = {from, strides, origin, start, stop};
    result->completed += scatter(pass, window, &block, completed + result->completed);
    result->scatter_ns += now_ns() - read;
    int64_t wanted = 1;
    for (int64_t a = 0; a < pass->ndim; a++) wanted *= stop[a] - start[a];
    result->elements += wanted;
    result->opens++;
    result->runs += runs.count;
    result->seeks += row->whole ? 1 : 1 + runs.count;
    result->bytes += stride;
    return 0;
}

/* Read rows from result->row on, until one fails. A row's file is opened by its path, unless it is open already. */
int reblock_read(const Pass *pass, const Window *window, int64_t count, const int64_t *rows, const char *paths,
                 char *staging, Result *result, int64_t *completed) {
    int64_t width = 6 + 6 * pass->ndim;
    for (; result->row < count; result->row++)
        if (read_row(pass, window, (const Row *)(rows + width * result->row), paths, staging, result, completed))
            return -1;
    return 0;
}

/* Read the stored bytes of an encoded unit or of an index, of which there may be `most`: those of row->size, or all to
 * the end of the file where that is negative; a negative row->base counts from there. Returns how many there are, and
 * where in the staging memory they start. Anything out of the ordinary is -1: a missing file, a link, a wrong size.
 * Python then tries again, and knows what to say. */
int64_t reblock_fetch(const Pass *pass, const Row *row, const char *paths, int64_t most, int direct, char *staging,
                      int64_t *start) {
    int fd = open_source(pass, paths + row->path, direct ? pass->direct : 0, &direct);
    if (fd < 0) return -1;
    struct stat status;
    int64_t length = -1, base = row->base;
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && !has_changed(pass, &status)) {
        int64_t size = (int64_t)status.st_size;
        if (base < 0) base += size;
        length = row->size < 0 ? size - base : row->size;
        if (base < 0 || length < 0 || length > most || base > size - length) length = -1;
    }
    if (length >= 0) {
        int64_t before = direct ? base % PAGE : 0, span = before + length;
        if (direct) span = (span + PAGE - 1) / PAGE * PAGE;
        int64_t got = read_all(fd, staging, span, base - before, direct, (int)row->exact);
        *start = before;
        if (got < before + length) length = -1;
    }
    close(fd);
    return length;
}

/* ---------------------------------------------------------------- writing */
/* A complete box that is one contiguous run of a file. */
typedef struct {
    const char *memory, *before;
    int64_t path, offset, size, head, direct; /* head: bytes of `before`; they go in front of the offset */
    int64_t exact;                            /* whether the file ends there, whatever it was before */
    int64_t whole;                            /* size that the file will have, 0 = no other piece goes there */
} Out;

static int write_all(int fd, const char *from, int64_t length, int64_t offset) {
    for (int64_t done = 0; done < length;) {
        int64_t part = length - done < PART ? length - done : PART;
        ssize_t count = pwrite(fd, from + done, (size_t)part, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        done += count;
    }
    return 0;
}

static int write_body(int fd, const Out *out, int direct) {
    if (!direct) return write_all(fd, out->memory, out->size, out->offset);
    int64_t padded = (out->size + PAGE - 1) / PAGE * PAGE;
    if (write_all(fd, out->memory, padded, out->offset)) {
        if (errno != EINVAL) return -1;
        /* A file system may refuse single transfers, such as an odd rest. */
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT);
        return write_all(fd, out->memory, out->size, out->offset);
    }
    return padded == out->size ? 0 : ftruncate(fd, (off_t)(out->offset + out->size));
}

/* Room for a file that is written in pieces, so that they need not wait for each other; where there is no such call
 * the pieces make their own. */
static int reserve(int fd, int64_t whole) {
    struct stat status;
    if (fstat(fd, &status)) return -1;
    if ((int64_t)status.st_size >= whole) return 0;
#ifdef __linux__
    if (fallocate(fd, 0, 0, (off_t)whole) && errno == ENOSPC) return -1;
#endif
    return 0;
}

/* Make the folder of a file, and those above it that are not there. */
static int make_folder(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!length || length >= sizeof folder) {
        errno = length ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    memcpy(folder, path, length);
    folder[length] = 0;
    if (!mkdir(folder, 0777) || errno == EEXIST) return 0;
    if (errno != ENOENT || make_folder(folder)) return -1;
    return mkdir(folder, 0777) && errno != EEXIST ? -1 : 0;
}

static int open_target(const char *path, int *direct) {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    int fd = open(path, flags | (*direct ? O_DIRECT : 0), 0666);
    if (fd < 0 && errno == EINVAL && *direct) {
        *direct = 0;
        fd = open(path, flags, 0666);
    }
    return fd;
}

static int write_out(const Out *out, const char *path, Result *result) {
    int direct = O_DIRECT && out->direct, fd = open_target(path, &direct);
    if (fd < 0 && errno == ENOENT) {
        if (make_folder(path)) return fail(result, FOLDER, errno, out->offset, out->size, 0);
        fd = open_target(path, &direct);
    }
    if (fd < 0) return fail(result, OPENING, errno, out->offset, out->size, 0);
    if ((out->whole && reserve(fd, out->whole)) ||
        (out->head && write_all(fd, out->before, out->head, out->offset - out->head)) || write_body(fd, out, direct) ||
        (out->exact && ftruncate(fd, (off_t)(out->offset + out->size)))) {
        int error = errno;
        close(fd);
        return fail(result, WRITING, error, out->offset, out->size, 0);
    }
    if (close(fd)) return fail(result, CLOSING, errno, out->offset, out->size, 0);
    result->opens++;
    result->bytes += out->size;
    return 0;
}

/* Write rows from result->row on, until one fails. */
int reblock_write(int64_t count, const int64_t *rows, const char *paths, Result *result) {
    int64_t began = now_ns();
    const Out *outs = (const Out *)rows;
    for (; result->row < count; result->row++)
        if (write_out(&outs[result->row], paths + outs[result->row].path, result)) break;
    result->io_ns += now_ns() - began;
    return result->row < count ? -1 : 0;
}

/* Look at files that are durable and that nobody goes on writing, and let the page cache forget them: inode, size and
 * the times of their last changes, or zeros where there is none. Returns how many it came to; where that is not all,
 * the next row begins with an errno. */
int64_t reblock_settle(int64_t count, const char *path, int64_t (*seen)[4]) {
    for (int64_t i = 0; i < count; i++, path += strlen(path) + 1) {
        struct stat status;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        int failed = fd < 0 ? stat(path, &status) : fstat(fd, &status);
        if (failed && errno != ENOENT) {
            seen[i][0] = errno;
            if (fd >= 0) close(fd);
            return i;
        }
        if (failed) memset(seen[i], 0, sizeof seen[i]);
        else {
            seen[i][0] = (int64_t)status.st_ino;
            seen[i][1] = (int64_t)status.st_size;
            seen[i][2] = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
            seen[i][3] = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
        }
        if (fd < 0) continue;
#ifdef POSIX_FADV_DONTNEED
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
        close(fd);
    }
    return count;
}
