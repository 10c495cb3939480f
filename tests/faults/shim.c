/* Faults at the n-th call, process-wide, and bytes that were really moved.
 *
 * Preloaded before the C library. Only calls on files below one folder count; which kinds of calls do, and what
 * happens at the n-th, is set by `shim_arm` before a fork, in memory that parent and child share. An action is an
 * errno, or -1 to be killed. Bytes read below the source and written below the folder are counted beside it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OPEN = 1, READ = 2, WRITE = 4, SYNC = 8, RENAME = 16, MKDIR = 32, UNLINK = 64, TRUNCATE = 128 };

typedef struct {
    atomic_long armed, mask, when, onwards, action, calls, fired, bytes_read, bytes_written;
    char root[PATH_MAX], source[PATH_MAX];
} Shared;

static Shared *shared;

__attribute__((constructor)) static void start(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

void shim_arm(const char *root, const char *source, long mask, long when, long onwards, long action) {
    strncpy(shared->root, root, PATH_MAX - 1);
    strncpy(shared->source, source, PATH_MAX - 1);
    shared->mask = mask, shared->when = when, shared->onwards = onwards, shared->action = action;
    shared->calls = shared->fired = shared->bytes_read = shared->bytes_written = 0;
    shared->armed = 1;
}

void shim_disarm(void) { shared->armed = 0; }

void shim_result(long *out) {
    out[0] = shared->calls, out[1] = shared->fired, out[2] = shared->bytes_read, out[3] = shared->bytes_written;
}

static int below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return length && !strncmp(path, folder, length) && (path[length] == '/' || !path[length]);
}

static const char *full(const char *path, char *room) {
    char here[PATH_MAX];
    if (*path == '/' || !getcwd(here, sizeof here)) return path;
    snprintf(room, PATH_MAX, "%.2000s/%.2000s", here, path);
    return room;
}

static const char *of(int fd, char *room) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, room, PATH_MAX - 1);
    room[length > 0 ? length : 0] = 0;
    return room;
}

/* Whether the fault happens now; errno is set. */
static int faulty(int kind, const char *path) {
    if (!shared || !shared->armed || !(shared->mask & kind) || !below(path, shared->root)) return 0;
    long call = ++shared->calls;
    if (call != shared->when && !(shared->onwards && call > shared->when)) return 0;
    shared->fired = 1;
    if (shared->action < 0) kill(getpid(), SIGKILL);
    errno = (int)shared->action;
    return 1;
}

static ssize_t count(ssize_t done, const char *path, int kind) {
    if (done > 0 && shared && shared->armed) {
        if (kind == READ && below(path, shared->source)) shared->bytes_read += done;
        if (kind == WRITE && below(path, shared->root)) shared->bytes_written += done;
    }
    return done;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define BY_FD(result, name, kind, parameters, ...)                 \
    result name parameters {                                        \
        char room[PATH_MAX];                                        \
        int before = errno;                                         \
        const char *path = of(fd, room);                            \
        errno = before;                                             \
        if (faulty(kind, path)) return -1;                          \
        return (result)count(REAL(name)(__VA_ARGS__), path, kind);  \
    }
#define BY_PATH(name, kind, parameters, ...)                       \
    int name parameters {                                           \
        char room[PATH_MAX];                                        \
        if (faulty(kind, full(path, room))) return -1;              \
        return REAL(name)(__VA_ARGS__);                             \
    }
#define OPENING(name, parameters, ...)                             \
    int name parameters {                                           \
        va_list rest;                                               \
        va_start(rest, flags);                                      \
        mode_t mode = va_arg(rest, mode_t);                         \
        va_end(rest);                                               \
        char room[PATH_MAX];                                        \
        if (faulty(OPEN, full(path, room))) return -1;              \
        return REAL(name)(__VA_ARGS__, mode);                       \
    }

OPENING(open, (const char *path, int flags, ...), path, flags)
OPENING(open64, (const char *path, int flags, ...), path, flags)
OPENING(openat, (int at, const char *path, int flags, ...), at, path, flags)
OPENING(openat64, (int at, const char *path, int flags, ...), at, path, flags)

BY_FD(ssize_t, read, READ, (int fd, void *data, size_t size), fd, data, size)
BY_FD(ssize_t, pread, READ, (int fd, void *data, size_t size, off_t at), fd, data, size, at)
BY_FD(ssize_t, pread64, READ, (int fd, void *data, size_t size, off64_t at), fd, data, size, at)
BY_FD(ssize_t, preadv, READ, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
BY_FD(ssize_t, preadv64, READ, (int fd, const struct iovec *v, int n, off64_t at), fd, v, n, at)
BY_FD(ssize_t, preadv2, READ, (int fd, const struct iovec *v, int n, off_t at, int f), fd, v, n, at, f)
BY_FD(ssize_t, preadv64v2, READ, (int fd, const struct iovec *v, int n, off64_t at, int f), fd, v, n, at, f)
BY_FD(ssize_t, write, WRITE, (int fd, const void *data, size_t size), fd, data, size)
BY_FD(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t at), fd, data, size, at)
BY_FD(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off64_t at), fd, data, size, at)
BY_FD(ssize_t, pwritev, WRITE, (int fd, const struct iovec *v, int n, off_t at), fd, v, n, at)
BY_FD(ssize_t, pwritev64, WRITE, (int fd, const struct iovec *v, int n, off64_t at), fd, v, n, at)
BY_FD(ssize_t, pwritev2, WRITE, (int fd, const struct iovec *v, int n, off_t at, int f), fd, v, n, at, f)
BY_FD(ssize_t, pwritev64v2, WRITE, (int fd, const struct iovec *v, int n, off64_t at, int f), fd, v, n, at, f)
BY_FD(int, fsync, SYNC, (int fd), fd)
BY_FD(int, fdatasync, SYNC, (int fd), fd)
BY_FD(int, syncfs, SYNC, (int fd), fd)
BY_FD(int, ftruncate, TRUNCATE, (int fd, off_t size), fd, size)
BY_FD(int, ftruncate64, TRUNCATE, (int fd, off64_t size), fd, size)

BY_PATH(rename, RENAME, (const char *path, const char *to), path, to)
BY_PATH(renameat, RENAME, (int at, const char *path, int in, const char *to), at, path, in, to)
BY_PATH(renameat2, RENAME, (int at, const char *path, int in, const char *to, unsigned f), at, path, in, to, f)
BY_PATH(mkdir, MKDIR, (const char *path, mode_t mode), path, mode)
BY_PATH(mkdirat, MKDIR, (int at, const char *path, mode_t mode), at, path, mode)
BY_PATH(unlink, UNLINK, (const char *path), path)
BY_PATH(unlinkat, UNLINK, (int at, const char *path, int flags), at, path, flags)
BY_PATH(rmdir, UNLINK, (const char *path), path)
