/* SPDX-License-Identifier: Apache-2.0 */
/* crash_trace.h: a child process under ptrace, stopped at each entry to and exit from a system
 * call, and a recorder of what these calls change in a folder. Whatever way the child takes to
 * the kernel (libc, a library, a bare system call) it is seen; only what is written through a
 * memory map is not. */
#ifndef TESTS_CRASH_TRACE_H
#define TESTS_CRASH_TRACE_H

#include "crash_model.h"

struct trace_stop {
    pid_t pid;
    bool entry; /* about to be done; else done, with `result` */
    uint64_t call;
    uint64_t arguments[6];
    int64_t result;
};

struct tracer {
    void (*child)(void *argument);
    /* False: kill the child here, before it does anything else. */
    bool (*stop)(void *argument, const struct trace_stop *stop);
    void *argument;
};

/* Runs the child to its end, or to where it is killed. True when it exited with 0. */
bool trace_run(const struct tracer *tracer);

/* Called by the child to tell the tracer how far it is; does nothing else. */
void trace_mark(int value);
bool trace_is_mark(const struct trace_stop *stop, int *ret_value);

/* Adds what the call changed, if it is at its exit and did. */
void trace_record(struct record *record, const struct trace_stop *stop);

#endif
