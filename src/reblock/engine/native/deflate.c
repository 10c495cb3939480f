/* Deflate: inflates streams of zlib or gzip of a known size, by the functions of libdeflate.
 *
 * Context: the addresses of libdeflate_alloc_decompressor, of libdeflate_zlib_decompress_ex or that of gzip, and of
 * libdeflate_free_decompressor; then whether four bytes after the stream are its fletcher32 checksum, as HDF5 has it.
 */
#include "decoder.h"

#include <stddef.h>

typedef void *(*Allocate)(void);
typedef int (*Decompress)(void *machine, const void *from, size_t length, void *to, size_t size, size_t *taken,
                          size_t *made);
typedef void (*Release)(void *machine);

#define SUM_BYTES 4
#define MAX_WORDS 360 /* whose second sum does not exceed 32 bits */

static uint32_t folded(uint32_t sum) { return (sum & 0xffff) + (sum >> 16); }

/* Words of two bytes, the high one first, and their running sums, both modulo 65535. */
static uint32_t fletcher32(const unsigned char *at, int64_t length) {
    uint32_t first = 0, second = 0;
    for (int64_t words = length / 2; words;) {
        int64_t some = words < MAX_WORDS ? words : MAX_WORDS;
        words -= some;
        for (; some; some--, at += 2) {
            first += (uint32_t)at[0] << 8 | at[1];
            second += first;
        }
        first = folded(first);
        second = folded(second);
    }
    if (length % 2) {
        first += (uint32_t)at[0] << 8;
        second += first;
    }
    first = folded(folded(first));
    second = folded(folded(second));
    return second << 16 | first;
}

static int sum_holds(const unsigned char *from, int64_t length) {
    const unsigned char *end = from + length;
    uint32_t stored = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
    return fletcher32(from, length) == stored;
}

int reblock_deflate_decode(const int64_t *context, const char *from, int64_t length, char *to, int64_t size) {
    if (!context || !context[0] || !context[1] || !context[2] || !from || !to || length < 0 || size < 1) return -1;
    if (context[3]) {
        length -= SUM_BYTES;
        if (length < 0 || !sum_holds((const unsigned char *)from, length)) return -1;
    }
    void *machine = ((Allocate)(intptr_t)context[0])();
    if (!machine) return -1;
    size_t taken = 0, made = 0;
    int wrong = ((Decompress)(intptr_t)context[1])(machine, from, (size_t)length, to, (size_t)size, &taken, &made);
    ((Release)(intptr_t)context[2])(machine);
    return wrong || taken != (size_t)length || made != (size_t)size ? -1 : 0;
}
