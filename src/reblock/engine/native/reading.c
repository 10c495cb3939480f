/* Reading: pieces of files, past the page cache where they are large, to the write boxes that they belong to. */
#include "look.h"
#include "together.h"

#include <sys/uio.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

/* Like pread; what is read `once` does not stay in the page cache, where the system knows how to do that. */
static ssize_t read_some(int fd, char *to, int64_t length, int64_t offset, int once) {
#ifdef __linux__
    static volatile int unknown; /* Linux 6.14 and later, some file systems */
    if (once && !unknown) {
        struct iovec part = {to, (size_t)length};
        ssize_t count = preadv2(fd, &part, 1, (off_t)offset, RWF_DONTCACHE);
        if (count >= 0 || (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)) return count;
        unknown = 1;
    }
#endif
    (void)once;
    return pread(fd, to, (size_t)length, (off_t)offset);
}

/* Read until there is no more; returns how many bytes there were, or -1. */
static int64_t read_all(int fd, char *to, int64_t length, int64_t offset, int direct, int once) {
    int64_t done = 0;
    while (done < length) {
        ssize_t count = read_some(fd, to + done, length - done, offset + done, once);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        done += count;
        if (count == 0 || (direct && count % PAGE)) break;
    }
    return done;
}

/* A raw piece, as `native.py` lays it out: the head, then per axis the bounds of the object as it is stored, of what
 * is read of it, and of what of that is wanted. */
typedef struct {
    int64_t fd, path, base, size, exact, whole, object;
    int64_t axes[][6];
} Row;

static int open_source(const Pass *pass, const char *path, int64_t longest, int *direct) {
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (int)pass->flags; /* a pipe must not keep us */
    *direct = O_DIRECT && longest >= pass->direct;
    int fd = open(path, flags | (*direct ? O_DIRECT : 0));
    if (fd < 0 && errno == EINVAL && *direct) {
        *direct = 0;
        fd = open(path, flags);
    }
    return fd;
}

/* The runs of a piece: how many, how long, and from axis to axis how far apart. */
typedef struct {
    int64_t length, count, first;
    int outer;                                     /* axes outside the runs */
    int64_t extent[MOST_AXES], stride[MOST_AXES];  /* of those, outermost first */
} Runs;

static Runs runs_of(const Pass *pass, const Row *row) {
    Runs runs = {pass->itemsize, 1, 0, 0, {0}, {0}};
    int64_t stride = pass->itemsize, place = pass->ndim, whole = 1;
    int64_t strides[MOST_AXES];
    while (place-- > 0) {
        const int64_t *axis = row->axes[pass->source_order[place]];
        strides[place] = stride;
        runs.first += (axis[2] - axis[0]) * stride;
        if (whole) {
            runs.length *= axis[3] - axis[2];
            whole = axis[3] - axis[2] == axis[1] - axis[0];
            if (!whole) runs.outer = (int)place;
        }
        stride *= axis[1] - axis[0];
    }
    for (int k = 0; k < runs.outer; k++) {
        const int64_t *axis = row->axes[pass->source_order[k]];
        runs.extent[k] = axis[3] - axis[2];
        runs.stride[k] = strides[k];
        runs.count *= runs.extent[k];
    }
    return runs;
}

static int check_source(const Pass *pass, const Row *row, int fd, Result *result) {
    struct stat status;
    if (fstat(fd, &status)) return fail(result, OPENING, errno, row->base, row->size, 0);
    int64_t found = (int64_t)status.st_size - row->base;
    if (found < row->size || (row->exact && found > row->size))
        return fail(result, WRONG_SIZE, 0, row->base, row->size, found);
    return is_as_seen(pass, row->object, &status) ? 0 : fail(result, CHANGED, 0, row->base, row->size, found);
}

/* A raw piece on its way: its file, and where its elements are once they have been read. */
typedef struct {
    const Row *row;
    Runs runs;
    int fd, direct;
    char *room;
    const char *from;
} Piece;

/* The pages of a file that a single run lies in; returns how much of them comes before it. */
static int64_t pages_of(const Piece *piece, int64_t *offset, int64_t *span) {
    int64_t start = piece->row->base + piece->runs.first, before = start % PAGE;
    *offset = start - before;
    *span = (before + piece->runs.length + PAGE - 1) / PAGE * PAGE;
    return before;
}

/* Bring the runs of a piece into memory. */
static int load(Piece *piece, Result *result) {
    const Runs *runs = &piece->runs;
    int64_t offset = piece->row->base + runs->first;
    if (piece->direct && runs->count == 1) {
        int64_t first, span, before = pages_of(piece, &first, &span);
        int64_t got = read_all(piece->fd, piece->room, span, first, 1, 0);
        if (got < 0) return fail(result, READING, errno, offset, runs->length, 0);
        if (got - before < runs->length) return fail(result, SHORT, 0, offset, runs->length, got - before);
        piece->from = piece->room + before;
        return 0;
    }
    int64_t index[MOST_AXES] = {0};
    char *to = piece->room;
    for (int64_t number = 0; number < runs->count; number++, to += runs->length) {
        int64_t got = read_all(piece->fd, to, runs->length, offset, 0, (int)piece->row->whole);
        if (got < 0) return fail(result, READING, errno, offset, runs->length, 0);
        if (got < runs->length) return fail(result, SHORT, 0, offset, runs->length, got);
        for (int k = runs->outer - 1; k >= 0; k--) {
            offset += runs->stride[k];
            if (++index[k] < runs->extent[k]) break;
            offset -= runs->extent[k] * runs->stride[k];
            index[k] = 0;
        }
    }
    piece->from = piece->room;
    return 0;
}

/* The same for the direct ones of several pieces, in one call. Whatever is out of the ordinary stays for `load`. */
static void load_together(Piece *pieces, int count) {
    Wanted wanted[MOST_PIECES];
    int64_t before[MOST_PIECES];
    int owner[MOST_PIECES], some = 0;
    for (int k = 0; k < count; k++) {
        Piece *piece = &pieces[k];
        if (piece->from || !piece->direct || piece->runs.count != 1) continue;
        Wanted *one = &wanted[some];
        owner[some] = k;
        before[some++] = pages_of(piece, &one->offset, &one->length);
        one->fd = piece->fd;
        one->to = piece->room;
    }
    if (some < 2) return;
    read_together(wanted, some);
    for (int k = 0; k < some; k++) {
        Piece *piece = &pieces[owner[k]];
        if (wanted[k].got - before[k] >= piece->runs.length) piece->from = piece->room + before[k];
    }
}

/* Hand what was read of a row to the write boxes: elements one behind the other, or the fill for all of them. */
static void deliver(const Pass *pass, const Window *window, const Row *row, const char *from, Result *result,
                    int64_t *completed) {
    int64_t strides[MOST_AXES], origin[MOST_AXES], start[MOST_AXES], stop[MOST_AXES];
    int64_t stride = from == pass->fill ? 0 : pass->itemsize, wanted = 1, began = now_ns();
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
    result->completed += scatter(pass, window, &block, completed + result->completed);
    result->elements += wanted;
    result->scatter_ns += now_ns() - began;
}

/* Bytes of what is read of a row, decoded. */
static int64_t bytes_of(const Pass *pass, const Row *row) {
    int64_t size = pass->itemsize;
    for (int64_t a = 0; a < pass->ndim; a++) size *= row->axes[a][3] - row->axes[a][2];
    return size;
}

static void close_piece(const Piece *piece) {
    if (piece->fd >= 0 && piece->row->fd < 0) close(piece->fd);
}

/* Open the file of a piece, unless it is open already. One that is not there is fill, where that is allowed. */
static int open_piece(const Pass *pass, Piece *piece, const char *paths, Result *result) {
    const Row *row = piece->row;
    piece->runs = runs_of(pass, row);
    piece->direct = 0;
    piece->from = NULL;
    piece->fd = (int)row->fd;
    if (piece->fd < 0) {
        int64_t longest = piece->runs.count == 1 ? piece->runs.length : 0;
        piece->fd = open_source(pass, paths + row->path, longest, &piece->direct);
    }
    if (piece->fd >= 0) {
        if (!check_source(pass, row, piece->fd, result)) return 0;
        close_piece(piece);
        return -1;
    }
    if (errno != ENOENT) return fail(result, OPENING, errno, row->base, row->size, 0);
    if (paths[row->path] && !is_as_seen(pass, row->object, NULL)) return fail(result, CHANGED, errno, row->base, row->size, 0);
    if (!pass->fills) return fail(result, MISSING, errno, row->base, row->size, 0);
    piece->from = pass->fill;
    return 0;
}

/* Read a piece that is open, if it was not read yet, and hand it to the write boxes. */
static int finish_piece(const Pass *pass, const Window *window, Piece *piece, Result *result, int64_t *completed) {
    int64_t began = now_ns();
    int failed = !piece->from && load(piece, result);
    close_piece(piece);
    result->io_ns += now_ns() - began;
    if (failed) return -1;
    deliver(pass, window, piece->row, piece->from, result, completed);
    result->opens++;
    result->missing += piece->fd < 0;
    result->runs += piece->runs.count;
    result->seeks += piece->row->whole ? 1 : 1 + piece->runs.count;
    result->bytes += bytes_of(pass, piece->row);
    return 0;
}

/* Read rows from result->row on, until one fails: `group` of them together, each into `room` bytes of the staging
 * memory. Those before a row that fails are read, and none behind it. */
int reblock_read(const Pass *pass, const Window *window, int64_t count, const int64_t *rows, const char *paths,
                 char *staging, int64_t room, int64_t group, Result *result, int64_t *completed) {
    int64_t width = 7 + 6 * pass->ndim;
    Piece pieces[MOST_PIECES];
    int failed = 0;
    if (group > MOST_PIECES) group = MOST_PIECES;
    while (!failed && result->row < count) {
        int64_t began = now_ns();
        int opened = 0;
        for (; opened < group && result->row + opened < count; opened++) {
            Piece *piece = &pieces[opened];
            piece->row = (const Row *)(rows + width * (result->row + opened));
            piece->room = staging + room * opened;
            if ((failed = open_piece(pass, piece, paths, result))) break;
        }
        load_together(pieces, opened);
        result->io_ns += now_ns() - began;
        for (int k = 0; k < opened; k++) {
            if (finish_piece(pass, window, &pieces[k], result, completed)) {
                while (++k < opened) close_piece(&pieces[k]);
                return -1;
            }
            result->row++;
        }
    }
    return failed;
}

/* Read the stored bytes of an encoded unit or of an index, of which there may be `most`: those of row->size, or all to
 * the end of the file where that is negative; a negative row->base counts from there. Returns how many there are, and
 * where in the staging memory they start. Anything out of the ordinary is -1: a missing file, a link, a wrong size.
 * Python then tries again, and knows what to say. */
int64_t reblock_fetch(const Pass *pass, const Row *row, const char *paths, int64_t most, int direct, char *staging,
                      int64_t *start) {
    int fd = open_source(pass, paths + row->path, direct ? pass->direct : 0, &direct);
    if (fd < 0) return -1;
    struct stat status;
    int64_t length = -1, base = row->base;
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && is_as_seen(pass, row->object, &status)) {
        int64_t size = (int64_t)status.st_size;
        if (base < 0) base += size;
        length = row->size < 0 ? size - base : row->size;
        if (base < 0 || length < 0 || length > most || base > size - length) length = -1;
    }
    if (length >= 0) {
        int64_t before = direct ? base % PAGE : 0, span = before + length;
        if (direct) span = (span + PAGE - 1) / PAGE * PAGE;
        int64_t got = read_all(fd, staging, span, base - before, direct, (int)row->exact);
        *start = before;
        if (got < before + length) length = -1;
    }
    close(fd);
    return length;
}

/* How units are decoded: by functions of a library that others built. */
typedef struct {
    int64_t kind;
    void *decode, *measure;
    int64_t blocks, block; /* of an object whose units are its blocks: how many, and bytes of each */
} Decoder;

enum { BLOSC, ZSTD, BLOSC_BLOCKS };
typedef int (*BloscDecode)(const void *from, void *to, size_t size, int threads);
typedef size_t (*ZstdDecode)(void *to, size_t size, const void *from, size_t length);
typedef unsigned long long (*ZstdMeasure)(const void *from, size_t length);

static int64_t little32(const unsigned char *at) {
    return (int64_t)at[0] | (int64_t)at[1] << 8 | (int64_t)at[2] << 16 | (int64_t)at[3] << 24;
}

/* Blosc trusts its header, and crashes the process when it lies. */
static int has_blosc_header(const unsigned char *head, int64_t length, int64_t size) {
    if (length < 16 || head[0] != 2 || head[3] < 1) return 0;
    int64_t nbytes = little32(head + 4), block = little32(head + 8), stored = little32(head + 12);
    return nbytes == size && stored == length && block >= 1 && block <= size;
}

/* A block of Blosc with a head of its own in front is a frame. */
#define HEAD 16
#define OWN (HEAD + 4)

static void put32(unsigned char *at, int64_t value) {
    for (int k = 0; k < 4; k++) at[k] = (unsigned char)(value >> 8 * k);
}

/* Where a block lies in its file, by the head and the table of the frame; false where they are out of the ordinary. */
static int find_block(const Decoder *decoder, const unsigned char *head, int64_t number, int64_t size, int64_t *start,
                      int64_t *length) {
    if (!has_blosc_header(head, size, decoder->blocks * decoder->block) || little32(head + 8) != decoder->block) return 0;
    if (head[2] & 2) return 0; /* blocks as they are, which are rare */
    int64_t stop = size, least = HEAD + 4 * decoder->blocks;
    *start = little32(head + HEAD + 4 * number);
    for (int64_t k = 0; k < decoder->blocks; k++) {
        int64_t other = little32(head + HEAD + 4 * k);
        if (other > *start && other < stop) stop = other;
    }
    *length = stop - *start;
    return *start >= least && *length > 0;
}

/* Read a block of an encoded object, row->base being its number, and put a head in front; returns the length of that
 * frame, and where in the staging memory it starts, or -1 as `reblock_fetch` does. `room` is for a block. */
static int64_t fetch_block(const Pass *pass, const Decoder *decoder, const Row *row, const char *paths, int64_t most,
                           int direct, char *staging, char *room, const char **frame) {
    int buffered, fd = open_source(pass, paths + row->path, 0, &buffered);
    if (fd < 0) return -1;
    struct stat status;
    unsigned char *head = (unsigned char *)room;
    int64_t table = HEAD + 4 * decoder->blocks, start, length, result = -1;
#ifdef POSIX_FADV_RANDOM
    if (direct) posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* the table stays for the next block, alone */
#endif
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && is_as_seen(pass, row->object, &status) &&
        read_all(fd, room, table, 0, 0, 0) == table &&
        find_block(decoder, head, row->base, (int64_t)status.st_size, &start, &length) && length <= most - PAGE) {
        direct = direct && O_DIRECT && !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
        int64_t before = direct ? start % PAGE : 0, span = before + length;
        if (direct) span = (span + PAGE - 1) / PAGE * PAGE;
        unsigned char *own = (unsigned char *)staging + PAGE + before - OWN;
        if (read_all(fd, staging + PAGE, span, start - before, direct, 0) >= before + length) {
            memcpy(own, head, 4);
            put32(own + 4, decoder->block);
            put32(own + 8, decoder->block);
            put32(own + 12, OWN + length);
            put32(own + HEAD, OWN);
            *frame = (const char *)own;
            result = OWN + length;
        }
    }
    close(fd);
    return result;
}

/* Whether bytes could be decoded to exactly so many. */
static int decode(const Decoder *decoder, const char *from, int64_t length, char *to, int64_t size) {
    switch (decoder->kind) {
    case BLOSC:
    case BLOSC_BLOCKS:
        return has_blosc_header((const unsigned char *)from, length, size) &&
               ((BloscDecode)decoder->decode)(from, to, (size_t)size, 1) == size;
    case ZSTD:
        return ((ZstdMeasure)decoder->measure)(from, (size_t)length) == (unsigned long long)size &&
               ((ZstdDecode)decoder->decode)(to, (size_t)size, from, (size_t)length) == (size_t)size;
    }
    return 0;
}

/* Read, decode and scatter encoded units. Whatever is out of the ordinary is listed, for Python to try again and to
 * know what to say; returns how many those are. */
int64_t reblock_decode(const Pass *pass, const Window *window, int64_t count, const int64_t *rows, const char *paths,
                       int64_t most, int direct, const Decoder *decoder, char *staging, char *decoded, Result *result,
                       int64_t *completed, int64_t *odd) {
    int64_t width = 7 + 6 * pass->ndim, found = 0, start = 0;
    for (; result->row < count; result->row++) {
        const Row *row = (const Row *)(rows + width * result->row);
        const char *from = staging;
        int64_t size = bytes_of(pass, row), began = now_ns(), length;
        if (decoder->kind == BLOSC_BLOCKS)
            length = fetch_block(pass, decoder, row, paths, most, direct, staging, decoded, &from);
        else {
            length = reblock_fetch(pass, row, paths, most, direct, staging, &start);
            from += start;
        }
        int64_t read = now_ns();
        int done = length >= 0 && decode(decoder, from, length, decoded, size);
        result->io_ns += read - began;
        result->decode_ns += now_ns() - read;
        result->bytes += size;
        if (done) deliver(pass, window, row, decoded, result, completed);
        else odd[found++] = result->row;
    }
    return found;
}
