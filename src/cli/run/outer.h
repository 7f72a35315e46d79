/* SPDX-License-Identifier: Apache-2.0 */
/* outer.h: the runs around this one. `holdfast run x` inside of `holdfast run x` would wait for
 * itself. It runs its command under the lease of the outer run instead, if that is proven safe:
 *
 *     The environment names a guard (HOLDFAST_GUARD). The environment alone proves nothing, because
 *     it can be copied to another machine, or outlive the run.
 *     That guard is an ancestor of this process. It therefore ends this process and all of its
 *     descendants before another client can be granted the lock.
 *     The guard itself says which lease it guards: it keeps the variables that it gave to its
 *     command in an unnamed file in memory, which we read through /proc.
 *     The store lists this very lease as active, on this very scope, in a mode that covers ours.
 *
 * A user who forges a guard on purpose can also break the lock. */
#ifndef CLI_RUN_OUTER_H
#define CLI_RUN_OUTER_H

#include "cli/run/run.h"

#define OUTER_RUNS_MAX 8

/* A lease that a guard around this process guards, in the store of this command. */
struct outer_lease {
    const char *lease, *token; /* in the arena of the command */
    char table[HF_SCOPE_TEXT_MAX];
    bool active; /* the store lists it */
};

struct outer_runs {
    size_t count;
    struct outer_lease leases[OUTER_RUNS_MAX];
};

/* Finds the guards around this process. Makes no request. What cannot be proven is left out, such
 * as a guard that is no ancestor of this process, or a lease in another store. */
enum hf_status outer_find(struct cli *cli, struct outer_runs *ret_outer);

enum outer_verdict {
    OUTER_NONE,   /* no outer run holds the lock: acquire it */
    OUTER_COVERS, /* run the command under the lease of an outer run */
    OUTER_REFUSES, /* this run would wait for itself, or an outer lease is lost: *error says so */
};

/* Reads the table of the scope, and decides. On COVERS, *ret_lease is the lease. If the table
 * cannot be read, the verdict is OUTER_REFUSES with the reason. */
enum outer_verdict outer_judge(struct cli *cli, struct outer_runs *outer, const char *scope,
                               const struct hf_lock_options *wanted,
                               const struct outer_lease **ret_lease, struct hf_error *error);

/* Becomes the command, with the token and lease of the outer run, and the store, in its
 * environment. Returns only on failure, with the errno of exec. */
int outer_become_command(struct cli *cli, const struct outer_lease *lease);

#endif
