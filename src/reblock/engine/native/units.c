/* Units: encoded ones, read from their files, decoded by their codec and scattered. */
#include "look.h"

#include "decoder.h"

/* Round up to whole pages. */
static int64_t pages(int64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* Read the stored bytes of a unit, at most `most`: row->size of them, or all up to the end of the file if that is
 * negative; a negative row->base counts from the end. Returns their number, and their start in the staging memory.
 * Anything unusual is -1: a missing file, a link, a wrong size. Python then tries again, and has the error messages. */
static int64_t fetch(const Pass *pass, const Batch *batch, const Row *row, int64_t most, int direct, int64_t *start) {
    if (!row_head_is_sound(pass, batch, row)) return -1;
    int fd = open_source(pass, batch->paths + row->path, direct ? pass->direct : 0, &direct);
    if (fd < 0) return -1;
    struct stat status;
    int64_t length = -1, base = row->base;
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && is_as_seen(pass, row->object, &status)) {
        int64_t size = (int64_t)status.st_size;
        if (base < 0) base += size;
        length = row->size < 0 ? size - base : row->size;
        if (base < 0 || length < 0 || length > most || base > size - length) length = -1;
        if (length > batch->staging_bytes) length = -1;
    }
    if (length >= 0) {
        int64_t before = direct ? base % PAGE : 0, span = before + length;
        if (direct) span = pages(span);
        *start = before;
        if (span > batch->staging_bytes ||
            read_all(fd, batch->staging, span, base - before, direct, (int)row->exact) < before + length)
            length = -1;
    }
    close(fd);
    return length;
}

/* Read part number row->base of an object, and put in front what its decoder wants there. The object's table goes
 * into `room` first, which is for a decoded part. Returns the number of bytes and their start as `fetch` does. */
static int64_t fetch_part(const Pass *pass, const Batch *batch, const Decoder *decoder, const Row *row, int64_t most,
                          int direct, char *room, int64_t *begin) {
    if (!row_head_is_sound(pass, batch, row)) return -1;
    int buffered, fd = open_source(pass, batch->paths + row->path, 0, &buffered);
    if (fd < 0) return -1;
    struct stat status;
    char lead[MAX_LEAD_BYTES];
    int64_t start, length, result = -1;
#ifdef POSIX_FADV_RANDOM
    if (direct) posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* keep only the table, for the next part */
#endif
    if (!fstat(fd, &status) && S_ISREG(status.st_mode) && is_as_seen(pass, row->object, &status) &&
        read_all(fd, room, decoder->table_bytes, 0, 0, 0) == decoder->table_bytes &&
        !decoder->find(decoder->context, room, (int64_t)status.st_size, row->base, &start, &length, lead) &&
        start >= 0 && length >= 0 && length <= most - PAGE && length <= batch->staging_bytes &&
        start <= (int64_t)status.st_size - length) {
        direct = direct && O_DIRECT && !fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_DIRECT);
        int64_t before = direct ? start % PAGE : 0, span = before + length;
        if (direct) span = pages(span);
        if (PAGE + span <= batch->staging_bytes &&
            read_all(fd, batch->staging + PAGE, span, start - before, direct, 0) >= before + length) {
            *begin = PAGE + before - decoder->lead_bytes;
            memcpy(batch->staging + *begin, lead, (size_t)decoder->lead_bytes);
            result = decoder->lead_bytes + length;
        }
    }
    close(fd);
    return result;
}

/* The stored bytes of one unit, as `fetch` gives them, for a decoder in Python. */
int64_t reblock_fetch(const Pass *pass, const Batch *batch, int64_t most, int direct, int64_t *start) {
    Result none = {0};
    if (!pass_is_sound(pass) || !batch_is_sound(pass, batch, &none) || batch->count != 1 || most < 0 || !start)
        return -1;
    return fetch(pass, batch, (const Row *)batch->rows, most, direct, start);
}

static int decoder_is_sound(const Decoder *decoder, int64_t decoded_bytes, int64_t itemsize) {
    if (!decoder || !decoder->decode || !decoder->context) return 0;
    if (decoder->planes && (decoder->planes != itemsize || itemsize > MAX_PLANES)) return 0;
    if (!decoder->find) return 1;
    return decoder->table_bytes > 0 && decoder->table_bytes <= decoded_bytes && decoder->lead_bytes >= 0 &&
           decoder->lead_bytes <= MAX_LEAD_BYTES;
}

/* Read, decode and scatter units. Unusual ones are listed in `odd`, for Python to try again; returns how many there
 * are, or -1 if the arguments are wrong. */
int64_t reblock_decode(const Pass *pass, const Window *window, const Batch *batch, int64_t most, int direct,
                       const Decoder *decoder, char *decoded, int64_t decoded_bytes, Result *result, int64_t *odd) {
    if (!result) return -1;
    if (!pass_is_sound(pass) || !batch_is_sound(pass, batch, result) || !decoded || !odd || most < 0 ||
        !window_is_sound(pass, window, batch->completed_count) || !decoder_is_sound(decoder, decoded_bytes, pass->itemsize))
        return refuse(result);
    int64_t found = 0;
    for (; result->row < batch->count; result->row++) {
        const Row *row = row_of(pass, batch, result->row);
        if (!row_is_sound(pass, batch, row) || bytes_of(pass, row) > decoded_bytes) return refuse(result);
        int64_t size = bytes_of(pass, row), began = now_ns(), start = 0, length;
        if (decoder->find) length = fetch_part(pass, batch, decoder, row, most, direct, decoded, &start);
        else length = fetch(pass, batch, row, most, direct, &start);
        result->io_ns += now_ns() - began;
        began = worked_ns();
        int done = length >= 0 && !decoder->decode(decoder->context, batch->staging + start, length, decoded, size);
        result->decode_ns += worked_ns() - began;
        result->bytes += size;
        if (!done) {
            odd[found++] = result->row;
            continue;
        }
        int wrong = decoder->planes ? deliver_planes(pass, window, row, decoded, result, batch->completed)
                                    : deliver(pass, window, row, decoded, result, batch->completed);
        if (wrong) return refuse(result);
    }
    return found;
}
