/* safe_path.h: files in folders where other users may write, such as /tmp. A path is walked step by
 * step, and what is done at its end is done in the folder that the walk came to: nobody can put a
 * link in the way between a look and what follows it. */
#ifndef MERGE_SAFE_PATH_H
#define MERGE_SAFE_PATH_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

struct safe_path {
    int folder;       /* of the last name, for openat and the like; -1: not open */
    char *text;       /* the whole path, with links followed */
    const char *leaf; /* the last name: a part of `text` */
    bool by_kernel;   /* the last name is a link of /proc, which only the kernel can follow */
};

#define SAFE_PATH_INIT                         \
    (struct safe_path)                         \
    {                                          \
        .folder = -1, .text = NULL, .leaf = "" \
    }

/* Walks to the folder of the last name, which need not exist. A link in a sticky folder that others
 * may write to is followed only if we or the owner of the folder made it, as Linux does where
 * fs.protected_symlinks is set; else DENIED. To be closed, on failure too. */
enum hf_status safe_path_open(const char *path, struct safe_path *ret_path,
                              struct hf_error *error);
void safe_path_close(struct safe_path *path);

/* The same for a folder that is there: `folder` is the folder itself, `text` its path with a slash
 * behind it, `leaf` empty. */
enum hf_status safe_folder_open(const char *path, struct safe_path *ret_path,
                                struct hf_error *error);

/* Whether a file in this folder is one that another user may have put there to be mistaken for
 * ours: the folder is sticky, others may write to it, and neither we nor its owner own the file. */
bool is_planted(int folder, const struct stat *file);

/* DENIED unless nobody but we, root and the folder's group can rename or remove what we make in
 * this folder. */
enum hf_status folder_check_safe(int folder, struct hf_error *error);

/* Removes all that is in a folder and never leaves it: no link is followed. What cannot be removed
 * stays. */
void folder_clear(int folder);

#endif
