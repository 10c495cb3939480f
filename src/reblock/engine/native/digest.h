/* Digest: two sums over the elements of an array that do not depend on how it is cut, ordered and stored.
 *
 * An element is ceil(itemsize / 4) little-endian words of 32 bits, zero-padded. The words of the whole array are
 * numbered in C order. A word w at position p = high · 2^32 + low adds A to the first sum and B to the second:
 *
 *     r1, r2 = lower and upper half of splitmix64(high)
 *     k1 = low · K1 + r1                                k2 = low · K2 + r2
 *     A = scramble(w ^ k1, k2; 16, A1, A2)              B = scramble(w ^ k2, k1; 15, B1, B2)
 *     scramble(x, k; s, m, n): x ^= x >> s; x *= m; x ^= x >> 15; x += k; x *= n; x ^= x >> 15
 *
 * modulo 2^32 all of it; the sums are modulo 2^64. Every step can be undone, so that another word at the same place
 * always changes both sums. Keys grow by the same amount from word to word along any axis, as long as `high` stays
 * the same: eight lanes need no multiplication but those of the scrambling. docs/reference/digest.md says more.
 */
#ifndef REBLOCK_DIGEST_H
#define REBLOCK_DIGEST_H

#include <stdint.h>
#include <string.h>

#define DIGEST_AXES 66 /* numpy's 64, one for the components of an element and one for the words of those */
#define DIGEST_LANES 8 /* words that are handled together */
#define DIGEST_K1 0x9E3779B1u
#define DIGEST_K2 0x85EBCA77u
#define DIGEST_A1 0x21F0AAADu
#define DIGEST_A2 0xD35A2D97u
#define DIGEST_B1 0xD168AAADu
#define DIGEST_B2 0xAF723597u

#ifndef DIGEST_AVX2 /* whether to have a loop for machines with AVX2 besides the plain one */
#if defined(__x86_64__) || defined(__i386__)
#define DIGEST_AVX2 1
#else
#define DIGEST_AVX2 0
#endif
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define DIGEST_BIG_HOST 1
#else
#define DIGEST_BIG_HOST 0
#endif

typedef struct {
    int64_t length, stride; /* elements, bytes from one to the next */
    uint64_t step;          /* positions from one to the next */
} DigestAxis;

typedef struct {
    uint32_t first, second;
} DigestKeys;

/* Rows of words whose positions share their upper half. */
typedef struct {
    int64_t count, stride;         /* words in a row, bytes from one to the next */
    int64_t rows, row_stride;      /* rows, bytes from one to the next */
    int width, swap;               /* bytes of a word that are stored, whether in the other order */
    DigestKeys advance, last, row; /* from one vector, to a row's last vector, and to the next row */
    uint32_t first[DIGEST_LANES], second[DIGEST_LANES]; /* from the first word to each of the first vector */
    uint32_t kept[DIGEST_LANES];   /* which lanes of a row's last vector count; all ones or zero */
} DigestRows;

static inline uint32_t digest_word(const char *from, const int width) {
    uint8_t bytes[3];
    uint16_t half;
    uint32_t word;
    switch (width) {
    case 1: return (uint8_t)*from;
    case 2: memcpy(&half, from, 2); return half;
    case 3: memcpy(bytes, from, 3); return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
    default: memcpy(&word, from, 4); return word;
    }
}

#define DIGEST_TARGET
#define DIGEST_NAME(name) name##_plain
#define DIGEST_VECTOR 4
#define DIGEST_EACH(f) f(0), f(1), f(2), f(3)
#include "digest_rows.h"
#undef DIGEST_TARGET
#undef DIGEST_NAME
#undef DIGEST_VECTOR
#undef DIGEST_EACH
#if DIGEST_AVX2
#define DIGEST_TARGET __attribute__((target("avx2")))
#define DIGEST_NAME(name) name##_avx2
#define DIGEST_VECTOR 8
#define DIGEST_EACH(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#include "digest_rows.h"
#undef DIGEST_TARGET
#undef DIGEST_NAME
#undef DIGEST_VECTOR
#undef DIGEST_EACH
#endif

static void digest_rows(const DigestRows *rows, const char *from, DigestKeys key, uint64_t sums[2]) {
#if DIGEST_AVX2
    if (__builtin_cpu_supports("avx2")) {
        digest_rows_avx2(rows, from, key, sums);
        return;
    }
#endif
    digest_rows_plain(rows, from, key, sums);
}

static DigestKeys digest_keys(uint64_t positions) {
    return (DigestKeys){(uint32_t)positions * DIGEST_K1, (uint32_t)positions * DIGEST_K2};
}

static DigestKeys digest_plus(DigestKeys a, DigestKeys b) {
    return (DigestKeys){a.first + b.first, a.second + b.second};
}

static DigestKeys digest_start(uint64_t position) {
    uint64_t z = ((position >> 32) + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    z ^= z >> 31;
    return digest_plus(digest_keys(position), (DigestKeys){(uint32_t)z, (uint32_t)(z >> 32)});
}

/* Axes of more than one element, nearest neighbours in memory first, joined where they run on. */
static int digest_tidy(DigestAxis *axes, int n) {
    int kept = 0, joined = 0;
    for (int i = 0; i < n; i++) {
        DigestAxis axis = axes[i];
        if (axis.length == 1) continue;
        int j = kept++;
        for (; j > 0; j--) {
            const DigestAxis *other = &axes[j - 1];
            if (other->stride < axis.stride || (other->stride == axis.stride && other->step <= axis.step)) break;
            axes[j] = *other;
        }
        axes[j] = axis;
    }
    for (int i = 0; i < kept; i++) {
        DigestAxis *before = joined ? &axes[joined - 1] : NULL;
        if (before && axes[i].stride == before->stride * before->length &&
            axes[i].step == before->step * (uint64_t)before->length)
            before->length *= axes[i].length;
        else
            axes[joined++] = axes[i];
    }
    return joined;
}

/* How many of the nearest axes together fill a vector, or an even part of it, from packed words: like the two words
 * of each number of 8 bytes. The axis after them is the one that rows run along. Where there is no such axis, or
 * where it is short, rows run along a longer one, which is moved to the front. */
static int digest_fold(DigestAxis *axes, int n, int width) {
    int64_t words = 1;
    int folded = 0, best = 0;
    while (folded < n && axes[folded].stride == words * width &&
           axes[folded].length <= DIGEST_LANES / words && DIGEST_LANES / words % axes[folded].length == 0)
        words *= axes[folded++].length;
    if (folded == n) return n;
    if (axes[folded].stride == words * width && axes[folded].length >= DIGEST_LANES / words) return folded;
    while (best < n && axes[best].length < DIGEST_LANES) best++;
    if (best == n)
        for (int i = best = 0; i < n; i++)
            if (axes[i].length > axes[best].length) best = i;
    DigestAxis axis = axes[best];
    memmove(axes + 1, axes, (size_t)best * sizeof *axes);
    axes[0] = axis;
    return 0;
}

/* Rows along `along`, of blocks of words along the axes that were folded. */
static DigestRows digest_layout(const DigestAxis *folds, int folded, DigestAxis along, int width, int swap) {
    DigestRows rows = {.rows = 1, .width = width, .swap = swap, .stride = folded ? width : along.stride};
    int64_t words = 1;
    for (int i = 0; i < folded; i++) words *= folds[i].length;
    rows.count = words * along.length;
    rows.advance = digest_keys((uint64_t)(DIGEST_LANES / words) * along.step);
    int64_t rest = rows.count % DIGEST_LANES, full = rows.count - rest;
    if (full) rows.last = digest_keys((uint64_t)((rows.count - DIGEST_LANES) / words) * along.step);
    for (int64_t lane = 0; lane < DIGEST_LANES; lane++) {
        int64_t block = lane;
        uint64_t steps = 0;
        for (int i = 0; i < folded; i++) {
            steps += (uint64_t)(block % folds[i].length) * folds[i].step;
            block /= folds[i].length;
        }
        DigestKeys keys = digest_keys(steps + (uint64_t)block * along.step);
        rows.first[lane] = keys.first;
        rows.second[lane] = keys.second;
        rows.kept[lane] = (full ? lane >= DIGEST_LANES - rest : lane < rest) ? UINT32_MAX : 0;
    }
    return rows;
}

/* Add words whose positions share their upper half. */
static void digest_even(const char *from, const DigestAxis *given, int n, uint64_t position, int width, int swap,
                        uint64_t sums[2]) {
    DigestAxis axes[DIGEST_AXES], along = {1, width, 0};
    DigestKeys key = digest_start(position);
    for (int i = 0; i < n; i++) {
        axes[i] = given[i];
        if (axes[i].stride >= 0) continue;
        from += axes[i].stride * (axes[i].length - 1);
        key = digest_plus(key, digest_keys(axes[i].step * (uint64_t)(axes[i].length - 1)));
        axes[i].stride = -axes[i].stride;
        axes[i].step = 0 - axes[i].step;
    }
    n = digest_tidy(axes, n);
    int folded = digest_fold(axes, n, width), outer = folded;
    if (outer < n) along = axes[outer++];
    DigestRows rows = digest_layout(axes, folded, along, width, swap);
    if (outer < n) {
        rows.rows = axes[outer].length;
        rows.row_stride = axes[outer].stride;
        rows.row = digest_keys(axes[outer++].step);
    }
    int64_t index[DIGEST_AXES] = {0};
    for (;;) {
        digest_rows(&rows, from, key, sums);
        int a = outer;
        for (; a < n; a++) {
            from += axes[a].stride;
            key = digest_plus(key, digest_keys(axes[a].step));
            if (++index[a] < axes[a].length) break;
            from -= axes[a].stride * axes[a].length;
            key = digest_plus(key, digest_keys(0 - axes[a].step * (uint64_t)axes[a].length));
            index[a] = 0;
        }
        if (a == n) return;
    }
}

/* Add words, cut where the upper half of their positions changes. */
static void digest_words(const char *from, const DigestAxis *given, int n, uint64_t position, int width, int swap,
                         uint64_t sums[2]) {
    uint64_t reach = 0;
    int widest = 0;
    for (int i = 0; i < n; i++) {
        reach += (uint64_t)(given[i].length - 1) * given[i].step;
        if (given[i].length > 1 && (given[widest].length == 1 || given[i].step > given[widest].step)) widest = i;
    }
    if (position >> 32 == (position + reach) >> 32) {
        digest_even(from, given, n, position, width, swap, sums);
        return;
    }
    DigestAxis axes[DIGEST_AXES], axis = given[widest];
    memcpy(axes, given, (size_t)widest * sizeof *axes);
    memcpy(axes + widest, given + widest + 1, (size_t)(n - widest - 1) * sizeof *axes);
    reach -= (uint64_t)(axis.length - 1) * axis.step;
    int64_t count;
    for (int64_t i = 0; i < axis.length; i += count, from += count * axis.stride) {
        uint64_t room = ~(uint32_t)position, most = (uint64_t)(axis.length - i);
        if (reach > room) {
            count = 1;
            digest_words(from, axes, n - 1, position, width, swap, sums);
        } else {
            uint64_t fit = (room - reach) / axis.step + 1;
            count = (int64_t)(fit < most ? fit : most);
            axes[n - 1] = (DigestAxis){count, axis.stride, axis.step};
            digest_even(from, axes, n, position, width, swap, sums);
        }
        position += (uint64_t)count * axis.step;
    }
}

/* Add the elements of a box to two sums.
 *
 * lengths, strides   per axis the number of elements, and the bytes from one to the next
 * steps, position    positions of words from one element to the next, and that of the first element's first word
 * component          bytes of the numbers that an element consists of where they are big-endian: its own, half of it
 *                    for a complex one, 4 for text; 0 where they are little-endian, or not numbers
 */
static void digest_box(const char *from, int naxes, const int64_t *lengths, const int64_t *strides,
                       const uint64_t *steps, uint64_t position, int64_t itemsize, int64_t component,
                       uint64_t sums[2]) {
    DigestAxis axes[DIGEST_AXES];
    for (int a = 0; a < naxes; a++) {
        if (lengths[a] <= 0) return;
        axes[a] = (DigestAxis){lengths[a], strides[a], steps[a]};
    }
    const int64_t words = itemsize / 4, rest = itemsize % 4, run = component > 4 ? component / 4 : words;
    const int swap = (component > 1) != DIGEST_BIG_HOST;
    if (words) {
        int backward = component > 4;
        axes[naxes] = (DigestAxis){words / run, 4 * run, (uint64_t)run};
        axes[naxes + 1] = (DigestAxis){run, backward ? -4 : 4, 1};
        digest_words(from + (backward ? 4 * (run - 1) : 0), axes, naxes + 2, position, 4, swap, sums);
    }
    if (rest)
        digest_words(from + 4 * words, axes, naxes, position + (uint64_t)words, (int)rest, rest == 2 && swap, sums);
}

#endif
