/* SPDX-License-Identifier: Apache-2.0 */
/* slow_sync.c: a library for LD_PRELOAD that makes every sync of a file take SLOW_SYNC_US
 * microseconds longer, as on a disk that is not as fast as this one. Counts them in the first eight
 * bytes of the file SLOW_SYNC_COUNT, if there is one. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The build hides symbols by default, and a hidden one replaces nothing. */
#define REPLACES __attribute__((visibility("default")))
REPLACES int fsync(int fd);
REPLACES int fdatasync(int fd);

static _Atomic(uint64_t) *syncs; /* NULL: they are not counted */

__attribute__((constructor)) static void map_count(void)
{
    const char *path = getenv("SLOW_SYNC_COUNT");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *syncs, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syncs = map == MAP_FAILED ? NULL : map;
    close(fd);
}

static void wait_longer(void)
{
    if (syncs)
        atomic_fetch_add(syncs, 1);
    const char *us = getenv("SLOW_SYNC_US");
    usleep(us ? (useconds_t)strtoul(us, NULL, 10) : 0);
}

static int call_next(const char *name, int fd)
{
    int (*next)(int fd);
    *(void **)&next = dlsym(RTLD_NEXT, name);
    wait_longer();
    return next(fd);
}

int fsync(int fd)
{
    return call_next("fsync", fd);
}

int fdatasync(int fd)
{
    return call_next("fdatasync", fd);
}
