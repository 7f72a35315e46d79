/* SPDX-License-Identifier: Apache-2.0 */
/* descendants.h: finds all descendants of this process in /proc, no matter how they were forked:
 * children, their children, orphans, and processes in their own sessions.
 *
 * This process must be a child subreaper. A descendant that loses its parent then becomes our
 * child, so a process without children has no descendants. This proves that no descendant is left;
 * a walk of /proc alone may miss a process that is being forked.
 *
 * We may not be allowed to signal a process that runs as another user (sudo). Such a process is
 * reported to the caller. */
#ifndef CLI_RUN_DESCENDANTS_H
#define CLI_RUN_DESCENDANTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The maximum number of processes that one walk finds; the next walk finds the others. */
#define DESCENDANTS_MAX 4096

struct descendants_found {
    size_t count;
    pid_t example; /* one that we may not signal, otherwise any; 0 if count is 0 */
};

#define SPARED_MAX 256

/* Children that are not ours to end: a shell had started them before it became this program. A walk
 * finds neither them nor their descendants. */
struct spared {
    size_t count;
    pid_t children[SPARED_MAX];
};

/* Spares the children that this process has now. More than SPARED_MAX of them are not spared. */
void descendants_spare(struct spared *spared);

/* Sends the signal to every process that one walk finds, parents before children. `spared` may be
 * NULL. */
struct descendants_found descendants_signal(int number, const struct spared *spared);

/* Like descendants_signal, but reads all of /proc, for kernels that do not list the children of a
 * process. The more processes the machine runs, the longer it takes. */
struct descendants_found descendants_signal_by_scan(int number, const struct spared *spared);

/* Whether this process descends from that one. */
bool descendants_is_ancestor(pid_t pid);

/* The process id of a child that has ended and can be reaped. 0: no child has ended; -1: this
 * process has no children. */
pid_t descendants_dead(void);

/* Reaps one child that has ended, and returns its process id. 0: no child has ended; -1: this
 * process has no children. */
pid_t descendants_bury(int *ret_wait_status);

/* Reaps every child that has ended, and returns what the last descendants_bury returned. A reaped
 * child is no longer spared, because its process id may be reused. */
pid_t descendants_bury_all(struct spared *spared);

#endif
