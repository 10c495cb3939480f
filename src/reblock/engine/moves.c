/* Moves: copies the elements of one block of memory into the write boxes that it meets.
 *
 * One call handles all write boxes of one piece, so that small boxes do not pay for the interpreter. It knows only
 * addresses, strides and lengths; `native.py` says what they mean, and numpy does the same where this was not built.
 */
#include <stdint.h>
#include <string.h>

#define MOST_AXES 32

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

/* Copy [start, stop) into every write box of a window that it meets.
 *
 * source, strides, origin   the elements in memory: address and coordinates of the first, bytes from one to the next
 * counts, cuts, lengths     per axis the number of write blocks, their bounds, and the lengths of their buffers
 * order                     the axes as they lie in a buffer, outermost first
 * table                     addresses of the buffers, in C order
 * copied                    receives the number of elements that each buffer got
 */
int reblock_scatter(int ndim, int64_t itemsize, const char *source, const int64_t *strides, const int64_t *origin,
                    const int64_t *start, const int64_t *stop, const int64_t *counts, const int64_t *cuts,
                    const int64_t *lengths, const int64_t *order, char *const *table, int64_t *copied) {
    if (ndim > MOST_AXES) return -1;
    int64_t index[MOST_AXES] = {0}, boxes = 1;
    const int64_t *cut[MOST_AXES], *length[MOST_AXES];
    for (int a = 0; a < ndim; a++) {
        cut[a] = cuts;
        length[a] = lengths;
        cuts += counts[a] + 1;
        lengths += counts[a];
        boxes *= counts[a];
    }
    for (int64_t box = 0; box < boxes; box++) {
        Axis axes[MOST_AXES];
        int64_t elements = 1, stride = itemsize;
        const char *from = source;
        char *to = table[box];
        for (int place = ndim - 1; place >= 0; place--) {
            int a = (int)order[place];
            int64_t begin = cut[a][index[a]], end = cut[a][index[a] + 1];
            int64_t low = start[a] > begin ? start[a] : begin, high = stop[a] < end ? stop[a] : end;
            elements *= high > low ? high - low : 0;
            from += (low - origin[a]) * strides[a];
            to += (low - begin) * stride;
            axes[place] = (Axis){high - low, strides[a], stride};
            stride *= length[a][index[a]];
        }
        copied[box] = elements;
        if (elements) copy_box(to, from, axes, tidy(axes, ndim), itemsize);
        for (int a = ndim - 1; a >= 0 && ++index[a] == counts[a]; a--) index[a] = 0;
    }
    return 0;
}
