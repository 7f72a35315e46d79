/* SPDX-License-Identifier: Apache-2.0 */
/* old_libc.c: functions that glibc 2.31 does not have, and that the program or a library in it
 * calls. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

int pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}

int pidfd_send_signal(int fd, int number, siginfo_t *info, unsigned flags)
{
    return (int)syscall(SYS_pidfd_send_signal, fd, number, info, flags);
}

int close_range(unsigned first, unsigned last, int flags)
{
    return (int)syscall(SYS_close_range, first, last, flags);
}

const char *sigdescr_np(int number)
{
    return strsignal(number);
}

/* Of expat, for the seed of its hash table. */
void arc4random_buf(void *bytes, size_t size)
{
    for (char *at = bytes; size > 0;) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0)
            continue; /* a signal */
        at += got;
        size -= (size_t)got;
    }
}
