/* allow_exec.h: which programs the commands of a bucket may run here. Whoever can write to a bucket
 * writes its settings, and with them the command that merges; which of those run on a machine, and
 * within which limits, is said on that machine alone. */
#ifndef COMPACT_ALLOW_EXEC_H
#define COMPACT_ALLOW_EXEC_H

#include "base/error.h"
#include "base/moment.h"
#include "base/view.h"

#include <stdint.h>

struct allow_exec {
    const char *const *programs; /* absolute paths; borrowed */
    size_t count;                /* 0: no command runs */
    /* Limits of each process of a command; 0: as ours. */
    uint64_t memory_bytes_max;
    uint64_t file_bytes_max;
    struct span cpu_limit;
};

/* The program that a command runs: the allowed one whose path is its first word, or whose last name
 * is. DENIED when there is none, and then `why` begins with "needs --allow-exec"; INVALID when it
 * is no command. The arguments are as the bucket says. */
enum hf_status allow_exec_find(const struct allow_exec *allowed, struct view command,
                               const char **ret_program, struct hf_error *error);

#endif
