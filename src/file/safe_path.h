/* SPDX-License-Identifier: Apache-2.0 */
/* safe_path.h: files in folders where other users may write, such as /tmp. A path is
 * followed step by step with descriptors, and the final call uses the last descriptor, so nobody
 * can insert a link between a check and its use. */
#ifndef FILE_SAFE_PATH_H
#define FILE_SAFE_PATH_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

struct safe_path {
    int folder;       /* of the last name, for openat and the like; -1: not open */
    char *text;       /* the whole path, with links followed */
    const char *leaf; /* the last name, within `text` */
    bool by_kernel;   /* the last name is a link of /proc, which only the kernel can follow */
};

#define SAFE_PATH_INIT                         \
    (struct safe_path)                         \
    {                                          \
        .folder = -1, .text = NULL, .leaf = "" \
    }

/* Opens the folder of the last name, which need not exist. A link in a sticky,
 * world-writable folder is followed only if we or the owner of the folder made it, as Linux
 * does with fs.protected_symlinks; otherwise DENIED. Close it even after a failure. */
enum hf_status safe_path_open(const char *path, struct safe_path *ret_path,
                              struct hf_error *error);
void safe_path_close(struct safe_path *path);

/* The same for an existing folder: `folder` is the folder itself, `text` its path with a trailing
 * slash, `leaf` empty. */
enum hf_status safe_folder_open(const char *path, struct safe_path *ret_path,
                                struct hf_error *error);

/* Whether a file in this folder is one that another user may have put there to be mistaken for
 * ours: the folder is sticky, others may write to it, and neither we nor its owner own the file. */
bool is_planted(int folder, const struct stat *file);

/* DENIED if a user other than us, root and the folder's group can rename or remove files
 * that we create in this folder. */
enum hf_status folder_check_safe(int folder, struct hf_error *error);

/* Removes the contents of a folder without following links. Files that cannot be removed
 * stay. */
void folder_clear(int folder);

#endif
