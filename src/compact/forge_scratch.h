/* forge_scratch.h: a folder of our own on a local disk, for files that nobody needs any more
 * when we are gone. What a killed process left there is removed by the next that comes. */
#ifndef COMPACT_FORGE_SCRATCH_H
#define COMPACT_FORGE_SCRATCH_H

#include "env/env.h"

#include <limits.h>
#include <stdint.h>

struct scratch {
    char path[PATH_MAX];
    int lock; /* held for as long as we live: a folder whose lock is free is nobody's */
};

/* Makes a folder holdfast-<random> below `parent`, and removes those that nobody has locked. */
enum hf_status scratch_open(struct scratch *scratch, struct env *env, const char *parent,
                            struct hf_error *error);
void scratch_close(struct scratch *scratch);

/* What the disk of a folder has room for; zeros when nobody can tell. */
struct scratch_room {
    uint64_t free;  /* for us, now */
    uint64_t total; /* were it empty */
};
struct scratch_room scratch_room(const char *path);

/* Removes a folder with all that is in it, as well as that works. */
void scratch_remove(const char *path);

#endif
