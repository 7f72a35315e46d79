/* SPDX-License-Identifier: Apache-2.0 */
/* spool.h: inputs that can be read only once and only in order: pipes, sockets, terminals and other
 * devices. A merge may read an input several times, so each of these is first copied to an unnamed
 * scratch file. Only the disk limits the size of the copies, of which a part stays free
 * (temporary_room).
 *
 * All of them are read at the same time, each as soon as it has data, so one program may write to
 * several of them in any order. */
#ifndef MERGE_SPOOL_H
#define MERGE_SPOOL_H

#include "merge/merge.h"

struct spool {
    int from;     /* -1: closed, all of it was copied */
    bool is_ours; /* `from` was opened here */
    int copy;     /* the scratch file */
    const char *name;
};

struct spools {
    struct spool *list; /* room for all inputs */
    size_t count;
    uint64_t bytes; /* copied so far */
};

/* Adds an input if it must be copied: a path or, if that is NULL, a descriptor. *ret_copy is the
 * scratch file, still empty, or -1 if the input can be read as it is. A file that does not exist,
 * and a folder, are left to the merge, which reports them. */
enum hf_status spools_add(struct spools *spools, const struct hf_merge_file *input,
                          const char *name, const char *folder, int *ret_copy,
                          struct hf_error *error);

/* Copies everything. Calls `progress` with the number of bytes, and a total of 0. */
enum hf_status spools_fill(struct spools *spools, const struct merge_progress *progress,
                           struct hf_error *error);

/* Closes what was opened, but not `list`. */
void spools_release(struct spools *spools);

#endif
