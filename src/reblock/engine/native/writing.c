/* Writing: complete boxes go to their files. */
#include "moves.h"

#include <limits.h>

/* Most bytes that a thread has on their way to a file: what fills the device's queue keeps reads from it. */
#define PART (1 << 20)

/* A complete box that is one contiguous run of a file. */
typedef struct {
    const char *memory, *before;
    int64_t path, offset, size, head, direct; /* head: bytes of `before`; they go in front of the offset */
    int64_t exact;                            /* whether the file ends there, whatever it was before */
    int64_t whole;                            /* size that the file will have, 0 = no other piece goes there */
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

/* Room for a file that is written in pieces, so that they need not wait for each other; where there is no such call
 * the pieces make their own. */
static int reserve(int fd, int64_t whole) {
    struct stat status;
    if (fstat(fd, &status)) return -1;
    if ((int64_t)status.st_size >= whole) return 0;
#ifdef __linux__
    if (fallocate(fd, 0, 0, (off_t)whole) && errno == ENOSPC) return -1;
#endif
    return 0;
}

/* Make the folder of a file, and those above it that are not there. */
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

/* Write rows from result->row on, until one fails. */
int reblock_write(int64_t count, const int64_t *rows, const char *paths, Result *result) {
    int64_t began = now_ns();
    const Out *outs = (const Out *)rows;
    for (; result->row < count; result->row++)
        if (write_out(&outs[result->row], paths + outs[result->row].path, result)) break;
    result->io_ns += now_ns() - began;
    return result->row < count ? -1 : 0;
}

/* Look at files that are durable and that nobody goes on writing, and let the page cache forget them: inode, size and
 * the times of their last changes, or zeros where there is none. Returns how many it came to; where that is not all,
 * the next row begins with an errno. */
int64_t reblock_settle(int64_t count, const char *path, int64_t (*seen)[4]) {
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
            seen[i][2] = (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec;
            seen[i][3] = (int64_t)status.st_ctim.tv_sec * 1000000000 + status.st_ctim.tv_nsec;
        }
        if (fd < 0) continue;
#ifdef POSIX_FADV_DONTNEED
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
#endif
        close(fd);
    }
    return count;
}
