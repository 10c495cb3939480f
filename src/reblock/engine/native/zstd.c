/* zstd: decodes a frame that declares its size. Context: addresses of ZSTD_decompress and ZSTD_getFrameContentSize. */
#include "decoder.h"

#include <stddef.h>

typedef size_t (*Decompress)(void *to, size_t size, const void *from, size_t length);
typedef unsigned long long (*Measure)(const void *from, size_t length);

int reblock_zstd_decode(const int64_t *context, const char *from, int64_t length, char *to, int64_t size) {
    if (!context || !context[0] || !context[1] || !from || !to || length < 0 || size < 0) return -1;
    Decompress decompress = (Decompress)(intptr_t)context[0];
    Measure measure = (Measure)(intptr_t)context[1];
    if (measure(from, (size_t)length) != (unsigned long long)size) return -1;
    return decompress(to, (size_t)size, from, (size_t)length) == (size_t)size ? 0 : -1;
}
