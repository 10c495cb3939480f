/* Digest sums of a block of memory, for elements that do not pass through `scatter.c`. */
#include "digest.h"

/* Add the elements of a box of an array to two sums; nonzero if the arguments are wrong.
 *
 * from, shape, strides   the box in memory: address of its first element, elements and bytes along each axis
 * origin, whole          coordinates of its first element, and the shape of the array
 */
int reblock_digest(int64_t ndim, int64_t itemsize, int64_t component, const char *from, const int64_t *shape,
                   const int64_t *strides, const int64_t *origin, const int64_t *whole, uint64_t *sums) {
    if (ndim < 0 || ndim > DIGEST_AXES - 2 || itemsize < 1 || component < 0 || component > itemsize) return -1;
    if (!from || !shape || !strides || !origin || !whole || !sums) return -1;
    uint64_t steps[DIGEST_AXES], position = 0, step = (uint64_t)((itemsize + 3) / 4);
    for (int64_t a = ndim - 1; a >= 0; a--) {
        steps[a] = step;
        position += step * (uint64_t)origin[a];
        step *= (uint64_t)whole[a];
    }
    digest_box(from, (int)ndim, shape, strides, steps, position, itemsize, component, sums);
    return 0;
}
