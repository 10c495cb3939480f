/* Reading: raw pieces of files, bypassing the page cache if they are large, to the write boxes that they belong to. */
#include "look.h"
#include "together.h"

/* The runs of a piece: their number and length, and per axis the distance between them. */
typedef struct {
    int64_t length, count, first;
    int outer;                                  /* axes outside the runs */
    int64_t extent[MAX_AXES], stride[MAX_AXES]; /* of those, outermost first */
} Runs;

static Runs runs_of(const Pass *pass, const Row *row) {
    Runs runs = {pass->itemsize, 1, 0, 0, {0}, {0}};
    int64_t stride = pass->itemsize, place = pass->ndim, whole = 1;
    int64_t strides[MAX_AXES];
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

/* A raw piece that is being read: its file, and where its elements are once they have been read. */
typedef struct {
    const Row *row;
    Runs runs;
    int fd, direct;
    char *room;
    const char *from;
} Piece;

/* The pages of a file that hold a single run; returns the bytes of them that come before it. */
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
    int64_t index[MAX_AXES] = {0};
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

/* The same for the direct ones of several pieces, in one call. `load` reads the others, and whatever fails. */
static void load_together(Piece *pieces, int count) {
    Wanted wanted[MAX_PIECES];
    int64_t before[MAX_PIECES];
    int owner[MAX_PIECES], some = 0;
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

static void close_piece(const Piece *piece) {
    if (piece->fd >= 0 && piece->row->fd < 0) close(piece->fd);
}

/* Open the file of a piece, unless it is open already. A missing file is fill, if that is allowed. */
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
    if (paths[row->path] && !is_as_seen(pass, row->object, NULL))
        return fail(result, CHANGED, errno, row->base, row->size, 0);
    if (!pass->fills) return fail(result, MISSING, errno, row->base, row->size, 0);
    piece->from = pass->fill;
    return 0;
}

/* Read an open piece, unless that is done, and scatter it. */
static int finish_piece(const Pass *pass, const Window *window, Piece *piece, Result *result, int64_t *completed) {
    int64_t began = now_ns();
    int failed = !piece->from && load(piece, result);
    close_piece(piece);
    result->io_ns += now_ns() - began;
    if (failed) return -1;
    if (deliver(pass, window, piece->row, piece->from, result, completed)) return refuse(result);
    result->opens++;
    result->missing += piece->fd < 0;
    result->runs += piece->runs.count;
    result->seeks += piece->row->whole ? 1 : 1 + piece->runs.count;
    result->bytes += bytes_of(pass, piece->row);
    return 0;
}

/* Whether a row names bytes that can exist (a size of -1 = none are stored), and whether the part that is read fits into
 * `room`, pages included. */
static int fits(const Pass *pass, const Batch *batch, const Row *row, int64_t room) {
    if (!row_is_sound(pass, batch, row) || row->base < 0 || row->size < -1) return 0;
    int64_t stored = pass->itemsize, end;
    for (int64_t a = 0; a < pass->ndim; a++) stored *= row->axes[a][1] - row->axes[a][0];
    if (__builtin_add_overflow(row->base, stored, &end) || end > INT64_MAX - 2 * PAGE) return 0;
    return room >= 2 * PAGE && bytes_of(pass, row) <= room - 2 * PAGE;
}

/* Read rows from result->row on, until one fails: `group` of them together, each into `room` bytes of the staging
 * memory. Rows before one that fails are read, and none behind it. */
int reblock_read(const Pass *pass, const Window *window, const Batch *batch, int64_t room, int64_t group,
                 Result *result) {
    if (!result) return -1;
    int64_t needed = group;
    if (!pass_is_sound(pass) || !batch_is_sound(pass, batch, result) || group < 1 || !multiply(&needed, room) ||
        needed > batch->staging_bytes || !window_is_sound(pass, window, batch->completed_count))
        return refuse(result);
    Piece pieces[MAX_PIECES];
    int failed = 0;
    if (group > MAX_PIECES) group = MAX_PIECES;
    while (!failed && result->row < batch->count) {
        int64_t began = now_ns();
        int opened = 0;
        for (; opened < group && result->row + opened < batch->count; opened++) {
            Piece *piece = &pieces[opened];
            piece->row = row_of(pass, batch, result->row + opened);
            piece->room = batch->staging + room * opened;
            failed = !fits(pass, batch, piece->row, room) ? refuse(result)
                                                          : open_piece(pass, piece, batch->paths, result);
            if (failed) break;
        }
        load_together(pieces, opened);
        result->io_ns += now_ns() - began;
        for (int k = 0; k < opened; k++) {
            if (finish_piece(pass, window, &pieces[k], result, batch->completed)) {
                while (++k < opened) close_piece(&pieces[k]);
                return -1;
            }
            result->row++;
        }
    }
    return failed;
}
