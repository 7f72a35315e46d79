/* SPDX-License-Identifier: Apache-2.0 */
/* slow_sync.c: a library for LD_PRELOAD that makes every sync of a file take SLOW_SYNC_US
 * microseconds longer, as on a disk that is not as fast as this one. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

int fsync(int fd);
int fdatasync(int fd);

static void wait_longer(void)
{
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
