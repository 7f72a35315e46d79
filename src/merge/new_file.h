/* new_file.h: a file that appears under its name only when it is whole. Until then it is written
 * beside it, as NAME.part-RANDOM; one that a command writes, as NAME in a private folder
 * NAME.part-RANDOM. A link that another user made in a folder where everybody may write is not
 * followed (safe_path.h). */
#ifndef MERGE_NEW_FILE_H
#define MERGE_NEW_FILE_H

#include "env/env.h"
#include "merge/safe_path.h"

#include <limits.h>

/* The folder that a path leads to; `folder` has room for it. */
const char *folder_of(const char *path, char folder[PATH_MAX]);

/* Opens a file without a name in the folder, gone when it is closed, whatever happens to us; -1
 * and errno when that cannot be. */
int nameless_file(const char *folder);

/* The same in $TMPDIR, or /tmp, for bytes on their way. Whatever keeps us from it is
 * UNAVAILABLE: it says nothing of where they come from. */
enum hf_status temporary_file(int *ret_fd, struct hf_error *error);

/* Whoever removes unfinished files should the process end by force: it is told the scratch name
 * before there can be a file, and NULL when there is none any more. The folder of a file that
 * somebody else writes is told as FILE_WATCH_FOLDER. */
struct file_watch {
    void (*writes)(void *context, int which, const char *path); /* may be NULL */
    void *context;
    int which;
};
#define FILE_WATCH_FOLDER 2

struct new_file {
    int fd;                  /* -1: not open */
    struct safe_path place;  /* where it will be */
    const char *path;        /* what it will be called, the links of an old file followed */
    char part[NAME_MAX + 1]; /* what it, or its folder, is called meanwhile */
    char *scratch;           /* its path meanwhile */
    int own;                 /* the folder that somebody else writes it in; -1: there is none */
    char *own_path;
    bool kept; /* it has its name */
    struct file_watch watch;
};
#define NEW_FILE_NONE                                \
    (struct new_file)                                \
    {                                                \
        .fd = -1, .place = SAFE_PATH_INIT, .own = -1 \
    }

/* Chooses the names, for a file that somebody else writes, in a private folder beside it. INVALID
 * for a path where something is that is no regular file, or that leads through /dev or /proc, where
 * a name is not a file's own. */
enum hf_status new_file_reserve(struct new_file *file, struct env *env, const char *path,
                                struct file_watch watch, struct hf_error *error);

/* Opens what somebody else has written under the scratch name. */
enum hf_status new_file_take(struct new_file *file, struct hf_error *error);

/* Chooses the names and makes the file, with the mode of the old one if there is one. */
enum hf_status new_file_create(struct new_file *file, struct env *env, const char *path,
                               struct file_watch watch, struct hf_error *error);

/* Gives the file, whose bytes are on disk, its name, and sees that the name is too. When only
 * that last step fails, the file is `kept` all the same. */
enum hf_status new_file_keep(struct new_file *file, struct hf_error *error);

/* Removes a file that was kept, under its name. */
void new_file_take_back(struct new_file *file);

/* Closes it, and removes it unless it was kept. */
void new_file_release(struct new_file *file);

#endif
