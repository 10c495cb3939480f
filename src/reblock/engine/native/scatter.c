/* Scatter: elements in memory go to the write boxes that they belong to. */
#include "moves.h"

#include "digest.h"

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

/* The two innermost axes run against each other (a transpose): small squares stay in the first cache. */
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

static void digest_part(const Pass *pass, const char *from, const int64_t *strides, const int64_t *low,
                        const int64_t *high, uint64_t sums[2]) {
    int64_t lengths[MAX_AXES];
    uint64_t steps[MAX_AXES], position = 0, step = (uint64_t)((pass->itemsize + 3) / 4);
    for (int a = (int)pass->ndim - 1; a >= 0; a--) {
        lengths[a] = high[a] - low[a];
        steps[a] = step;
        position += step * (uint64_t)low[a];
        step *= (uint64_t)pass->shape[a];
    }
    digest_box(from, (int)pass->ndim, lengths, strides, steps, position, pass->itemsize, pass->component, sums);
}

/* Copy the elements that one write box gets; returns their number, or -1 if its memory is too small for them. */
static int64_t fill_box(const Pass *pass, const Block *block, Record *record, const int64_t *begin,
                        const int64_t *end, const int64_t *length) {
    Axis axes[MAX_AXES];
    int64_t low[MAX_AXES], high[MAX_AXES], elements = 1, stride = pass->itemsize, reach;
    const char *from = block->from;
    char *to = record->memory;
    if (!to) return -1;
    for (int64_t place = pass->ndim - 1; place >= 0; place--) {
        int64_t a = pass->target_order[place];
        low[a] = block->start[a] > begin[a] ? block->start[a] : begin[a];
        high[a] = block->stop[a] < end[a] ? block->stop[a] : end[a];
        if (high[a] <= low[a]) return 0;
        if (__builtin_sub_overflow(high[a], begin[a], &reach) || reach > length[a]) return -1;
        elements *= high[a] - low[a];
        from += (low[a] - block->origin[a]) * block->strides[a];
        to += (low[a] - begin[a]) * stride;
        axes[place] = (Axis){high[a] - low[a], block->strides[a], stride};
        if (!multiply(&stride, length[a])) return -1;
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

int64_t scatter(const Pass *pass, const Window *window, const Block *block, int64_t *completed) {
    int64_t first[MAX_AXES], last[MAX_AXES], index[MAX_AXES], begin[MAX_AXES], end[MAX_AXES], length[MAX_AXES];
    const int64_t *cuts[MAX_AXES], *lengths[MAX_AXES], *cut = window->cuts, *len = window->lengths;
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
            if (elements < 0) return -1;
            if (elements && __atomic_sub_fetch(&record->missing, elements, __ATOMIC_ACQ_REL) == 0)
                completed[found++] = number;
        }
        int a = ndim - 1;
        while (a >= 0 && ++index[a] > last[a]) index[a] = first[a], a--;
        if (a < 0) return found;
    }
}

int deliver(const Pass *pass, const Window *window, const Row *row, const char *from, Result *result,
            int64_t *completed) {
    int64_t strides[MAX_AXES], origin[MAX_AXES], start[MAX_AXES], stop[MAX_AXES];
    int64_t stride = from == pass->fill ? 0 : pass->itemsize, wanted = 1, began = worked_ns();
    for (int64_t place = pass->ndim - 1; place >= 0; place--) {
        int64_t a = pass->source_order[place];
        const int64_t *axis = row->axes[a];
        strides[a] = stride;
        stride *= axis[3] - axis[2];
        origin[a] = axis[2];
        start[a] = axis[4];
        stop[a] = axis[5];
        wanted *= stop[a] - start[a];
    }
    Block block = {from, strides, origin, start, stop};
    int64_t found = scatter(pass, window, &block, completed + result->completed);
    if (found < 0) return -1;
    result->completed += found;
    result->elements += wanted;
    result->scatter_ns += worked_ns() - began;
    return 0;
}

/* place: strides, origin, start and stop of a block, one after the other. Returns the number of write boxes that are
 * complete now, or -1 if the arguments are wrong. */
int64_t reblock_scatter(const Pass *pass, const Window *window, const char *from, const int64_t *place,
                        int64_t *completed, int64_t completed_count) {
    if (!pass_is_sound(pass) || !from || !place || !completed || !window_is_sound(pass, window, completed_count))
        return -1;
    int64_t n = pass->ndim;
    Block block = {from, place, place + n, place + 2 * n, place + 3 * n};
    for (int64_t a = 0; a < n; a++)
        if (block.origin[a] > block.start[a]) return -1;
    return scatter(pass, window, &block, completed);
}
