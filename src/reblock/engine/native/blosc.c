/* Blosc: decodes frames, and finds their blocks, which are decoded one by one.
 *
 *   header, 16 bytes │ start of block 0 │ start of block 1 │ … │ block 1 │ block 0 │ …
 *
 * Context: the address of blosc_decompress_ctx; to find blocks also their number in an object, and the bytes of one,
 * decoded. A block behind a header and a table of its own is a frame again.
 */
#include "decoder.h"

#include <stddef.h>
#include <string.h>

#define HEADER 16
#define OWN (HEADER + 4)
#define MEMCPYED 2 /* a flag: the blocks are stored as they are */

typedef int (*Decompress)(const void *from, void *to, size_t size, int threads);

static int64_t little32(const unsigned char *at) {
    return (int64_t)at[0] | (int64_t)at[1] << 8 | (int64_t)at[2] << 16 | (int64_t)at[3] << 24;
}

static void put32(unsigned char *at, int64_t value) {
    for (int k = 0; k < 4; k++) at[k] = (unsigned char)(value >> 8 * k);
}

/* What must hold of a header before a frame is decoded: Blosc trusts it, and crashes the process if it is false. The same
 * rule in Python: `read_header` in storage/codecs/blosc_frame.py. */
static int header_holds(const unsigned char *head, int64_t length, int64_t size) {
    if (length < HEADER || head[0] != 2 || head[3] < 1) return 0;
    int64_t nbytes = little32(head + 4), block = little32(head + 8), stored = little32(head + 12);
    return nbytes == size && stored == length && block >= 1 && block <= size;
}

int reblock_blosc_decode(const int64_t *context, const char *from, int64_t length, char *to, int64_t size) {
    if (!context || !context[0] || !from || !to || length < 0 || size < 0) return -1;
    if (!header_holds((const unsigned char *)from, length, size)) return -1;
    return ((Decompress)(intptr_t)context[0])(from, to, (size_t)size, 1) == size ? 0 : -1;
}

int reblock_blosc_find(const int64_t *context, const char *table, int64_t object_bytes, int64_t number, int64_t *start,
                       int64_t *length, char *lead) {
    if (!context || !table || !start || !length || !lead) return -1;
    int64_t blocks = context[1], block_bytes = context[2], whole;
    if (blocks < 1 || block_bytes < 1 || number < 0 || number >= blocks) return -1;
    if (__builtin_mul_overflow(blocks, block_bytes, &whole)) return -1;
    const unsigned char *head = (const unsigned char *)table;
    if (!header_holds(head, object_bytes, whole) || little32(head + 8) != block_bytes) return -1;
    if (head[2] & MEMCPYED) return -1; /* rare, so left to Python */
    int64_t stop = object_bytes;
    *start = little32(head + HEADER + 4 * number);
    for (int64_t k = 0; k < blocks; k++) {
        int64_t other = little32(head + HEADER + 4 * k);
        if (other > *start && other < stop) stop = other;
    }
    *length = stop - *start;
    if (*start < HEADER + 4 * blocks || *length <= 0) return -1;
    unsigned char *own = (unsigned char *)lead;
    memcpy(own, head, 4);
    put32(own + 4, block_bytes);
    put32(own + 8, block_bytes);
    put32(own + 12, OWN + *length);
    put32(own + HEADER, OWN);
    return 0;
}
