/* SPDX-License-Identifier: Apache-2.0 */
/* allow_exec.h: which programs the merge command of a partition may run on this machine. Every
 * client that can write to the bucket can change that command, so the list of programs and their
 * limits come only from the configuration of this machine. */
#ifndef COMPACT_WORK_ALLOW_EXEC_H
#define COMPACT_WORK_ALLOW_EXEC_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

struct allow_exec {
    const char *const *programs; /* absolute paths; borrowed */
    size_t count;                /* 0: no command may run */
    /* Limits for each process of a command; 0: the limits of the worker process apply. */
    uint64_t memory_bytes_max;
    uint64_t file_bytes_max;
    struct span cpu_limit;
};

/* Finds the allowed program whose path or file name is the first word of the command. DENIED: the
 * program is not allowed, and `why` begins with "needs allow_exec". INVALID: the command cannot be
 * parsed. The arguments still come from the bucket. */
enum hf_status allow_exec_find(const struct allow_exec *allowed, struct view command,
                               const char **ret_program, struct hf_error *error);

#endif
