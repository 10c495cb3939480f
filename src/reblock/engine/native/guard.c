/* Guard: whether the arguments of a call describe memory that can exist. Entry points ask before they touch it. */
#include "moves.h"

int64_t reblock_abi(void) { return REBLOCK_ABI; }

static int is_permutation(const int64_t *order, int64_t n) {
    uint64_t seen = 0;
    for (int64_t k = 0; k < n; k++) {
        if (order[k] < 0 || order[k] >= n || seen >> order[k] & 1) return 0;
        seen |= UINT64_C(1) << order[k];
    }
    return 1;
}

int pass_is_sound(const Pass *pass) {
    if (!pass || pass->ndim < 0 || pass->ndim > MAX_AXES) return 0;
    if (pass->itemsize < 1 || pass->itemsize > MAX_ITEM_BYTES) return 0;
    if (pass->component < 0 || pass->component > pass->itemsize || pass->share < 1 || pass->stamp_count < 0) return 0;
    if (!pass->shape || !pass->target_order || !pass->source_order || !pass->fill) return 0;
    int64_t size = pass->itemsize;
    for (int64_t a = 0; a < pass->ndim; a++)
        if (!multiply(&size, pass->shape[a])) return 0;
    return is_permutation(pass->target_order, pass->ndim) && is_permutation(pass->source_order, pass->ndim);
}

/* The bounds and lengths of single boxes are checked when a block meets them. */
int window_is_sound(const Pass *pass, const Window *window, int64_t completed_count) {
    if (!window || !window->counts || !window->cuts || !window->lengths || !window->table) return 0;
    int64_t boxes = 1;
    for (int64_t a = 0; a < pass->ndim; a++)
        if (window->counts[a] < 1 || !multiply(&boxes, window->counts[a])) return 0;
    return completed_count >= boxes;
}

int batch_is_sound(const Pass *pass, const Batch *batch, const Result *result) {
    if (!batch || !result || !batch->rows || !batch->paths || !batch->staging || !batch->completed) return 0;
    int64_t numbers = ROW_HEAD + 6 * pass->ndim, bytes = sizeof(int64_t);
    if (batch->count < 0 || !multiply(&numbers, batch->count) || !multiply(&bytes, numbers)) return 0;
    if (result->row < 0 || result->completed < 0 || batch->staging_bytes < 0 || batch->staging_bytes > INT64_MAX / 2)
        return 0;
    return batch->path_bytes > 0 && !batch->paths[batch->path_bytes - 1];
}

int path_is_sound(const Batch *batch, int64_t path) { return path >= 0 && path < batch->path_bytes; }

int row_head_is_sound(const Pass *pass, const Batch *batch, const Row *row) {
    if (row->fd < -1 || row->fd > INT32_MAX || !path_is_sound(batch, row->path)) return 0;
    return !pass->stamps || (row->object >= 0 && row->object / pass->share < pass->stamp_count);
}

int row_is_sound(const Pass *pass, const Batch *batch, const Row *row) {
    if (!row_head_is_sound(pass, batch, row)) return 0;
    int64_t stored = pass->itemsize, length;
    for (int64_t a = 0; a < pass->ndim; a++) {
        const int64_t *axis = row->axes[a];
        if (axis[0] > axis[2] || axis[2] > axis[4] || axis[4] > axis[5] || axis[5] > axis[3] || axis[3] > axis[1])
            return 0;
        if (__builtin_sub_overflow(axis[1], axis[0], &length) || !multiply(&stored, length ? length : 1)) return 0;
    }
    return 1;
}

int refuse(Result *result) { return fail(result, REFUSED, EINVAL, 0, 0, 0); }
