/* SPDX-License-Identifier: Apache-2.0 */
/* safe_path.h: files in folders that other users can write to, such as /tmp. A path is followed one
 * component at a time, with directory descriptors, and the final call uses the last descriptor. So
 * nobody can insert a link between the check of a folder and its use. */
#ifndef FILE_SAFE_PATH_H
#define FILE_SAFE_PATH_H

#include "base/error.h"

#include <stdbool.h>
#include <sys/stat.h>

struct safe_path {
    int folder;       /* of the last name, for openat and similar calls; -1: not open */
    char *text;       /* the whole path, with links followed */
    const char *leaf; /* the last name, within `text` */
    bool by_kernel;   /* the last name is a link in /proc, which only the kernel can follow */
};

#define SAFE_PATH_INIT                         \
    (struct safe_path)                         \
    {                                          \
        .folder = -1, .text = NULL, .leaf = "" \
    }

/* Opens the folder that contains the last name of the path. The last name itself need not exist. A
 * link in a sticky, world-writable folder is followed only if it belongs to us or to the owner of
 * the folder, as in Linux with fs.protected_symlinks. Otherwise the result is DENIED. Close the
 * path even after a failure. */
enum hf_status safe_path_open(const char *path, struct safe_path *ret_path,
                              struct hf_error *error);
void safe_path_close(struct safe_path *path);

/* The same for an existing folder: `folder` is the folder itself, `text` is its path with a
 * trailing slash, and `leaf` is empty. */
enum hf_status safe_folder_open(const char *path, struct safe_path *ret_path,
                                struct hf_error *error);

/* Whether another user may have put this file into the folder so that it is mistaken for one of our
 * own: the folder is sticky, others may write to it, and neither we nor its owner own the file. */
bool is_planted(int folder, const struct stat *file);

/* DENIED if any user can rename or remove files that we create in this folder, except us, root and
 * the folder's group. */
enum hf_status folder_check_safe(int folder, struct hf_error *error);

/* Removes the contents of a folder without following links. Files that cannot be removed are left
 * in place. */
void folder_clear(int folder);

#endif
