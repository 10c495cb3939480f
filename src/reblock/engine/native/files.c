/* Files: opening and reading the files of a source, bypassing the page cache where that pays. */
#include "moves.h"

#include <sys/uio.h>

#if defined(__linux__) && defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 26)
#define HAS_PREADV2
#endif
#endif
#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

/* Like pread; bytes read `once` do not stay in the page cache, if the system supports that. */
static ssize_t read_some(int fd, char *to, int64_t length, int64_t offset, int once) {
#ifdef HAS_PREADV2
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

/* Read until there is no more; returns the number of bytes read, or -1. */
int64_t read_all(int fd, char *to, int64_t length, int64_t offset, int direct, int once) {
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

/* Open a file, bypassing the page cache if its `longest` run is worth it; `direct` says whether that is so. */
int open_source(const Pass *pass, const char *path, int64_t longest, int *direct) {
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | (int)pass->flags; /* opening a pipe must not block */
    *direct = O_DIRECT && longest >= pass->direct;
    int fd = open(path, flags | (*direct ? O_DIRECT : 0));
    if (fd < 0 && errno == EINVAL && *direct) {
        *direct = 0;
        fd = open(path, flags);
    }
    return fd;
}
