/* Writing: complete boxes go to their files. */
#include "moves.h"

#include <limits.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

/* The most bytes of one call: longer ones fill the device's queue, and delay reads. */
#define PART (1 << 20)

/* A complete box that is one contiguous run of a file. */
typedef struct {
    const char *memory, *before;
    int64_t path, offset, size, head, direct; /* head: bytes of `before`, which go in front of the offset */
    int64_t exact;                            /* whether the file ends behind the run, whatever it was before */
    int64_t whole;                            /* final size of a file that is written in pieces, else 0 */
} Out;

static int write_all(int fd, const char *from, int64_t length, int64_t offset) {
    for (int64_t done = 0; done < length;) {
        int64_t part = length - done < PART ? length - done : PART;
        ssize_t count = pwrite(fd, from + done, (size_t)part, (off_t)(offset + done));
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return -1;
        done += count;
    }
    return 0;
}

static int write_body(int fd, const Out *out, int direct) {
    if (!direct) return write_all(fd, out->memory, out->size, out->offset);
    int64_t padded = (out->size + PAGE - 1) / PAGE * PAGE;
    if (write_all(fd, out->memory, padded, out->offset)) {
        if (errno != EINVAL) return -1;
        /* A file system may refuse single transfers, such as an odd rest. */
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_DIRECT);
        return write_all(fd, out->memory, out->size, out->offset);
    }
    return padded == out->size ? 0 : ftruncate(fd, (off_t)(out->offset + out->size));
}

/* Reserve room for a file that is written in pieces, so that they need not wait for each other. */
static int reserve(int fd, int64_t whole) {
    struct stat status;
    if (fstat(fd, &status)) return -1;
    if ((int64_t)status.st_size >= whole) return 0;
#ifdef __linux__
    if (fallocate(fd, 0, 0, (off_t)whole) && errno == ENOSPC) return -1;
#endif
    return 0;
}

/* Make the folder of a file, and missing ones above it. */
static int make_folder(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;
    if (!length || length >= sizeof folder) {
        errno = length ? ENAMETOOLONG : ENOENT;
        return -1;
    }
    memcpy(folder, path, length);
    folder[length] = 0;
    if (!mkdir(folder, 0777) || errno == EEXIST) return 0;
    if (errno != ENOENT || make_folder(folder)) return -1;
    return mkdir(folder, 0777) && errno != EEXIST ? -1 : 0;
}

static int open_target(const char *path, int *direct) {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    int fd = open(path, flags | (*direct ? O_DIRECT : 0), 0666);
    if (fd < 0 && errno == EINVAL && *direct) {
        *direct = 0;
        fd = open(path, flags, 0666);
    }
    return fd;
}

static int write_out(const Out *out, const char *path, Result *result) {
    int direct = O_DIRECT && out->direct, fd = open_target(path, &direct);
    if (fd < 0 && errno == ENOENT) {
        if (make_folder(path)) return fail(result, FOLDER, errno, out->offset, out->size, 0);
        fd = open_target(path, &direct);
    }
    if (fd < 0) return fail(result, OPENING, errno, out->offset, out->size, 0);
    if ((out->whole && reserve(fd, out->whole)) ||
        (out->head && write_all(fd, out->before, out->head, out->offset - out->head)) || write_body(fd, out, direct) ||
        (out->exact && ftruncate(fd, (off_t)(out->offset + out->size)))) {
        int error = errno;
        close(fd);
        return fail(result, WRITING, error, out->offset, out->size, 0);
    }
    if (close(fd)) return fail(result, CLOSING, errno, out->offset, out->size, 0);
    result->opens++;
    result->bytes += out->size;
    return 0;
}

/* Whether a row names bytes that can exist. */
static int out_is_sound(const Out *out, int64_t path_bytes) {
    int64_t end;
    if (out->path < 0 || out->path >= path_bytes || out->size < 0 || out->head < 0 || out->whole < 0) return 0;
    if ((out->size && !out->memory) || (out->head && !out->before) || out->offset < out->head) return 0;
    return !__builtin_add_overflow(out->offset, out->size, &end) && end <= INT64_MAX - PAGE;
}

/* Write rows from result->row on, until one fails. */
int reblock_write(int64_t count, const int64_t *rows, const char *paths, int64_t path_bytes, Result *result) {
    if (!result) return -1;
    if (!rows || !paths || count < 0 || path_bytes < 1 || paths[path_bytes - 1] || result->row < 0)
        return refuse(result);
    int64_t began = now_ns();
    const Out *outs = (const Out *)rows;
    for (; result->row < count; result->row++) {
        const Out *out = &outs[result->row];
        if (out_is_sound(out, path_bytes) ? write_out(out, paths + out->path, result) : refuse(result)) break;
    }
    result->io_ns += now_ns() - began;
    return result->row < count ? -1 : 0;
}

/* Look at files that are durable and complete, and drop them from the page cache: inode, size and the times of their
 * last changes, or zeros if there is no file. Returns the number of files looked at; where that is not all, the next
 * row begins with an errno. -1 = the arguments are wrong. */
int64_t reblock_settle(int64_t count, const char *path, int64_t (*seen)[4]) {
    if (!path || !seen || count < 0) return -1;
    for (int64_t i = 0; i < count; i++, path += strlen(path) + 1) {
        struct stat status;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        int failed = fd < 0 ? stat(path, &status) : fstat(fd, &status);
        if (failed && errno != ENOENT) {
            seen[i][0] = errno;
            if (fd >= 0) close(fd);
            return i;
        }
        if (failed) memset(seen[i], 0, sizeof seen[i]);
        else {
            seen[i][0] = (int64_t)status.st_ino;
            seen[i][1] = (int64_t)status.st_size;
            seen[i][2] = nanoseconds(WRITTEN(&status));
            seen[i][3] = nanoseconds(CHANGED_AT(&status));
        }
        if (fd < 0) continue;
#ifdef POSIX_FADV_DONTNEED
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
        close(fd);
    }
    return count;
}
