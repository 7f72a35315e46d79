/* descendants.h: all the processes that came of this one, found in /proc, however they were
 * forked: children, their children, those whose parents are gone, those in sessions of their
 * own. Needs this process to be a child subreaper: then whoever loses its parent becomes our
 * child, and a process without children has no descendants either. That is the proof that
 * nothing is left; a walk alone may miss somebody who is being born.
 *
 * A process that runs as somebody else (sudo) may not be ours to end; then that is told. */
#ifndef CLI_DESCENDANTS_H
#define CLI_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/* So many are looked at in one walk; when there are more, the next walk finds them. */
#define DESCENDANTS_MAX 4096

struct descendants_found {
    size_t count;
    pid_t example; /* one of them that may not be signalled, else any; 0: there is none */
};

/* Sends the signal to all that one walk finds, parents before their children. */
struct descendants_found descendants_signal(int number);

/* The same by reading all of /proc, which is what is left where the kernel does not list the
 * children of a process: slower the more strangers there are. */
struct descendants_found descendants_signal_by_scan(int number);

/* Buries one child that has ended. 0: none has; -1: there is no child at all. */
pid_t descendants_bury(int *ret_wait_status);

#endif
