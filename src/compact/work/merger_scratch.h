/* SPDX-License-Identifier: Apache-2.0 */
/* merger_scratch.h: a private folder on a local disk for temporary files. Files that a killed
 * process left behind are removed by the next process of the same user. Files that belong to other
 * users are never touched. */
#ifndef COMPACT_WORK_MERGER_SCRATCH_H
#define COMPACT_WORK_MERGER_SCRATCH_H

#include "base/view.h"
#include "env/env.h"

#include <limits.h>
#include <stdint.h>

#define SCRATCH_NAME   "holdfast-scratch-"
#define SCRATCH_DIGITS 16

struct scratch {
    char path[PATH_MAX];
    char name[sizeof SCRATCH_NAME + SCRATCH_DIGITS]; /* in the folder above */
    int above, folder;                               /* both open */
    int lock; /* held while we run; a folder whose lock is free belongs to a dead process */
};

/* Creates holdfast-scratch-<random>, with mode 0700, in `parent`, and removes unlocked folders of
 * this kind that belong to our user. DENIED: other users could replace the folder there. */
enum hf_status scratch_open(struct scratch *scratch, struct env *env, const char *parent,
                            struct hf_error *error);
void scratch_close(struct scratch *scratch);

/* The space on the disk that contains a folder; zeros if unknown. */
struct scratch_room {
    uint64_t free;  /* available to us now */
    uint64_t total; /* size of the file system */
};
struct scratch_room scratch_room(const char *path);

/* Creates a folder in it for one job. False, with errno set, if that fails. */
bool scratch_make(const struct scratch *scratch, const char *name);

/* Removes such a folder with its contents; best effort. */
void scratch_remove(const struct scratch *scratch, const char *name);

/* The extension of a key, from the first dot of its last part, if it is safe in a file name:
 * ".usv.gz". */
struct view scratch_name_end(struct view key);

/* If the error contains the path of a scratch file, replaces the path with the object's key. */
void scratch_rename(struct hf_error *error, const char *path, struct view key);

#endif
