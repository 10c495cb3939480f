/* Digest rows: the loop over the words of a box.
 *
 * `digest.h` includes this once per kind of machine, with the words of its vectors (DIGEST_VECTOR, DIGEST_EACH), the
 * compiler's target and a name: vectors that a machine does not have are taken apart before functions are inlined,
 * so one body inlined into several functions would not do. Vectors never cross a real call.
 */
#define WORDS DIGEST_NAME(DigestWords)
#define LONGS DIGEST_NAME(DigestLongs)
#define TOTALS DIGEST_NAME(DigestTotals)
#define PARTS (DIGEST_LANES / DIGEST_VECTOR)
#define INLINE static inline __attribute__((always_inline)) DIGEST_TARGET

typedef uint32_t WORDS __attribute__((vector_size(4 * DIGEST_VECTOR)));
typedef uint64_t LONGS __attribute__((vector_size(4 * DIGEST_VECTOR)));

/* Two words of 32 bits lie in each lane of 64 bits: `all` counts the upper one times 2^32, `upper` by itself. */
typedef struct {
    LONGS all_a, upper_a, all_b, upper_b;
} TOTALS;

/* Words from number `first` on. */
INLINE void DIGEST_NAME(digest_load)(WORDS *words, const char *from, int64_t stride, int64_t first, const int width,
                                     const int packed) {
#define AT(i) digest_word(from + (first + (i)) * stride, width)
    if (packed && width == 4)
        memcpy(words, from + first * width, sizeof *words);
    else
        *words = (WORDS){DIGEST_EACH(AT)};
#undef AT
}

/* The same of a row that is shorter; words behind its last are the last again. */
INLINE void DIGEST_NAME(digest_load_short)(WORDS *words, const char *from, int64_t stride, int64_t first,
                                           int64_t last, const int width) {
#define AT(i) digest_word(from + (first + (i) < last ? first + (i) : last) * stride, width)
    *words = (WORDS){DIGEST_EACH(AT)};
#undef AT
}

INLINE void DIGEST_NAME(digest_swap)(WORDS *words, const int width) {
    WORDS w = *words;
    if (width == 4) *words = w >> 24 | (w >> 8 & 0xFF00) | (w << 8 & 0xFF0000) | w << 24;
    if (width == 2) *words = w >> 8 | (w << 8 & 0xFF00);
}

INLINE void DIGEST_NAME(digest_add)(TOTALS *totals, const WORDS *words, const WORDS *k1, const WORDS *k2,
                                    const WORDS *kept) {
    WORDS a = *words ^ *k1, b = *words ^ *k2;
    a ^= a >> 16, a *= DIGEST_A1, a ^= a >> 15;
    b ^= b >> 15, b *= DIGEST_B1, b ^= b >> 15;
    a += *k2, a *= DIGEST_A2, a ^= a >> 15;
    b += *k1, b *= DIGEST_B2, b ^= b >> 15;
    if (kept) a &= *kept, b &= *kept;
    totals->all_a += (LONGS)a, totals->upper_a += (LONGS)a >> 32;
    totals->all_b += (LONGS)b, totals->upper_b += (LONGS)b >> 32;
}

INLINE void DIGEST_NAME(digest_sweep)(const DigestRows *rows, const char *from, DigestKeys key, uint64_t sums[2],
                                      const int width, const int packed, const int swap) {
    const int64_t count = rows->count, stride = packed ? width : rows->stride, step = DIGEST_LANES * stride;
    const int64_t full = count / DIGEST_LANES, rest = count % DIGEST_LANES;
    WORDS lanes1[PARTS], lanes2[PARTS], kept[PARTS], k1[PARTS], k2[PARTS], words;
    TOTALS totals = {{0}, {0}, {0}, {0}};
    memcpy(lanes1, rows->first, sizeof lanes1);
    memcpy(lanes2, rows->second, sizeof lanes2);
    memcpy(kept, rows->kept, sizeof kept);
    for (int64_t row = 0; row < rows->rows; row++, from += rows->row_stride) {
        const char *at = from;
        for (int part = 0; part < PARTS; part++) {
            k1[part] = lanes1[part] + key.first;
            k2[part] = lanes2[part] + key.second;
        }
        for (int64_t i = 0; i < full; i++, at += step)
            for (int part = 0; part < PARTS; part++) {
                DIGEST_NAME(digest_load)(&words, at, stride, part * DIGEST_VECTOR, width, packed);
                if (swap) DIGEST_NAME(digest_swap)(&words, width);
                DIGEST_NAME(digest_add)(&totals, &words, &k1[part], &k2[part], NULL);
                k1[part] += rows->advance.first;
                k2[part] += rows->advance.second;
            }
        for (int part = 0; rest && part < PARTS; part++) {
            /* What is left is loaded with words before it; those were counted already, and are left out. */
            if (full)
                DIGEST_NAME(digest_load)(&words, at - (DIGEST_LANES - rest) * stride, stride, part * DIGEST_VECTOR,
                                         width, packed);
            else
                DIGEST_NAME(digest_load_short)(&words, at, stride, part * DIGEST_VECTOR, count - 1, width);
            if (swap) DIGEST_NAME(digest_swap)(&words, width);
            k1[part] = lanes1[part] + (key.first + rows->last.first);
            k2[part] = lanes2[part] + (key.second + rows->last.second);
            DIGEST_NAME(digest_add)(&totals, &words, &k1[part], &k2[part], &kept[part]);
        }
        key.first += rows->row.first;
        key.second += rows->row.second;
    }
    for (int i = 0; i < DIGEST_VECTOR / 2; i++) {
        sums[0] += totals.all_a[i] + totals.upper_a[i] - (totals.upper_a[i] << 32);
        sums[1] += totals.all_b[i] + totals.upper_b[i] - (totals.upper_b[i] << 32);
    }
}

static DIGEST_TARGET void DIGEST_NAME(digest_rows)(const DigestRows *rows, const char *from, DigestKeys key,
                                                   uint64_t sums[2]) {
#define KIND(width, packed, swap) ((width)*4 + (packed)*2 + (swap))
#define CASE(...) case KIND(__VA_ARGS__): DIGEST_NAME(digest_sweep)(rows, from, key, sums, __VA_ARGS__); break
    switch (KIND(rows->width, rows->stride == rows->width, rows->swap)) {
        CASE(4, 1, 0);
        CASE(4, 1, 1);
        CASE(4, 0, 0);
        CASE(4, 0, 1);
        CASE(2, 1, 0);
        CASE(2, 1, 1);
        CASE(2, 0, 0);
        CASE(2, 0, 1);
        CASE(1, 1, 0);
        CASE(1, 0, 0);
    default: DIGEST_NAME(digest_sweep)(rows, from, key, sums, 3, 0, 0);
    }
#undef CASE
#undef KIND
}

#undef WORDS
#undef LONGS
#undef TOTALS
#undef PARTS
#undef INLINE
