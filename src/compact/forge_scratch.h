/* forge_scratch.h: a folder of our own on a local disk, for files that nobody needs any more
 * when we are gone. What a killed process of the same user left there is removed by the next that
 * comes; what other users left is never touched. */
#ifndef COMPACT_FORGE_SCRATCH_H
#define COMPACT_FORGE_SCRATCH_H

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
    int lock; /* held for as long as we live: a folder whose lock is free is nobody's */
};

/* Makes a folder holdfast-scratch-<random>, mode 0700, below `parent`, and removes those of our
 * user that nobody has locked. DENIED where other users could replace what we make there. */
enum hf_status scratch_open(struct scratch *scratch, struct env *env, const char *parent,
                            struct hf_error *error);
void scratch_close(struct scratch *scratch);

/* What the disk of a folder has room for; zeros when nobody can tell. */
struct scratch_room {
    uint64_t free;  /* for us, now */
    uint64_t total; /* were it empty */
};
struct scratch_room scratch_room(const char *path);

/* Makes a folder in it, for one job; false and errno when that cannot be. */
bool scratch_make(const struct scratch *scratch, const char *name);

/* Removes such a folder with all that is in it, as well as that works. */
void scratch_remove(const struct scratch *scratch, const char *name);

/* The end of a key's last name, from its first dot, if a file may be called so: ".usv.gz". */
struct view scratch_name_end(struct view key);

/* People know an object by its key, not by the file that it is read from: replaces the path. */
void scratch_rename(struct hf_error *error, const char *path, struct view key);

#endif
