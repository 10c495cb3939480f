/* Planes: decoded units in which the first bytes of all elements come first, then their second bytes, and so on.
 *
 * A unit is regrouped and scattered in strips that stay in the cache, so no second copy of it is made ::
 *
 *   planes   a0 b0 c0 d0 … │ a1 b1 c1 d1 … │ …      strip   a0 a1 … b0 b1 …   →   write boxes
 */
#include "moves.h"

/* Bytes of a strip: on the stack of the thread. */
#define STRIP (1 << 16)

#define REGROUP(width)                                                                                             \
    for (int64_t i = 0; i < count; i++)                                                                            \
        for (int k = 0; k < width; k++) to[i * width + k] = from[k * apart + i]

/* Elements of `width` bytes, from planes that are `apart` bytes from each other. */
static void regroup(char *restrict to, const char *restrict from, int64_t count, int64_t apart, int64_t width) {
    switch (width) {
    case 2: REGROUP(2); break;
    case 4: REGROUP(4); break;
    case 8: REGROUP(8); break;
    default:
        for (int64_t k = 0; k < width; k++)
            for (int64_t i = 0; i < count; i++) to[i * width + k] = from[k * apart + i];
    }
}

/* A strip: where it begins along the axes, in their order on disk, and its lengths. */
typedef struct {
    int64_t at[MAX_AXES], length[MAX_AXES];
} Strip;

static int64_t scatter_strip(const Pass *pass, const Window *window, const Row *row, const Strip *strip,
                             const char *elements, int64_t *completed) {
    int64_t strides[MAX_AXES], origin[MAX_AXES], start[MAX_AXES], stop[MAX_AXES], stride = pass->itemsize;
    for (int64_t place = pass->ndim - 1; place >= 0; place--) {
        int64_t a = pass->source_order[place], end;
        strides[a] = stride;
        stride *= strip->length[place];
        origin[a] = row->axes[a][2] + strip->at[place];
        end = origin[a] + strip->length[place];
        start[a] = origin[a] > row->axes[a][4] ? origin[a] : row->axes[a][4];
        stop[a] = end < row->axes[a][5] ? end : row->axes[a][5];
    }
    Block block = {elements, strides, origin, start, stop};
    return scatter(pass, window, &block, completed);
}

/* Regroup the elements of a sound row, and scatter them; nonzero if sizes do not fit. */
int deliver_planes(const Pass *pass, const Window *window, const Row *row, const char *planes, Result *result,
                   int64_t *completed) {
    char elements[STRIP];
    int64_t extent[MAX_AXES], all = 1, wanted = 1, began = worked_ns(), inside = 1;
    Strip strip = {{0}, {0}};
    int64_t last = pass->ndim - 1, cut, most = STRIP / pass->itemsize;
    if (most < 1) return -1;
    for (int64_t place = 0; place <= last; place++) {
        const int64_t *axis = row->axes[pass->source_order[place]];
        all *= extent[place] = axis[3] - axis[2];
        wanted *= axis[5] - axis[4];
    }
    if (!wanted) return 0;
    /* Strips are cut along the outermost axis inside which all others fit; outside of it they have the length 1. */
    for (cut = last; cut > 0 && inside * extent[cut] <= most; cut--) inside *= extent[cut];
    for (int64_t place = 0; place <= last; place++) strip.length[place] = place > cut ? extent[place] : 1;
    int64_t step = most / inside, along = last < 0 ? 1 : extent[cut];
    for (int64_t first = 0; first < all;) {
        int64_t at = last < 0 ? 0 : first / inside % along;
        int64_t length = step < along - at ? step : along - at;
        if (last >= 0) {
            int64_t rest = first / inside;
            strip.length[cut] = length;
            for (int64_t place = cut; place >= 0; place--) {
                strip.at[place] = rest % extent[place];
                rest /= extent[place];
            }
        }
        regroup(elements, planes + first, length * inside, all, pass->itemsize);
        int64_t found = scatter_strip(pass, window, row, &strip, elements, completed + result->completed);
        if (found < 0) return -1;
        result->completed += found;
        first += length * inside;
    }
    result->elements += wanted;
    result->scatter_ns += worked_ns() - began;
    return 0;
}

/* The elements of planes that follow each other; for tests, and for measurements of the codecs alone. */
int reblock_regroup(const char *planes, int64_t count, int64_t width, char *to) {
    if (!planes || !to || count < 0 || width < 1) return -1;
    regroup(to, planes, count, count, width);
    return 0;
}
