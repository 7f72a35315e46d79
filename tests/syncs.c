/* SPDX-License-Identifier: Apache-2.0 */
/* syncs.c: a library to preload, with which a test counts how often a process and those that it
 * starts wait for the disk. $HOLDFAST_TEST_SYNCS names a file, which gets one byte for each
 * sync. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPLACES_LIBC __attribute__((visibility("default")))

static int count_and_sync(long call, int fd)
{
    const char *path = getenv("HOLDFAST_TEST_SYNCS");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file < 0 || write(file, ".", 1) != 1)
        abort();
    close(file);
    return (int)syscall(call, fd);
}

REPLACES_LIBC int fsync(int fd)
{
    return count_and_sync(SYS_fsync, fd);
}

REPLACES_LIBC int fdatasync(int fd)
{
    return count_and_sync(SYS_fdatasync, fd);
}

REPLACES_LIBC int syncfs(int fd)
{
    return count_and_sync(SYS_syncfs, fd);
}
