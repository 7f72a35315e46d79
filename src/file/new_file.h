/* SPDX-License-Identifier: Apache-2.0 */
/* new_file.h: a file that appears under its name only when it is complete. Until then it is
 * NAME.part-RANDOM in the same folder; a file that is written by a command is NAME in a private
 * folder, NAME.part-RANDOM. A link that another user has created in a world-writable folder is not
 * followed (safe_path.h). */
#ifndef FILE_NEW_FILE_H
#define FILE_NEW_FILE_H

#include "env/env.h"
#include "file/safe_path.h"

#include <limits.h>

/* The folder part of a path, or ".". `folder` is space for the result. */
const char *folder_of(const char *path, char folder[PATH_MAX]);

/* Opens an unnamed file in the folder. The file disappears when it is closed, even after a crash.
 * On failure, returns -1 and sets errno. */
int nameless_file(const char *folder);

/* The folder for temporary files: `folder` or, if that is NULL, $TMPDIR or /tmp. */
const char *scratch_or_usual(const char *folder);

/* Creates an unnamed file there for temporary data. Every failure is UNAVAILABLE, because it is not
 * the fault of the source of the data. */
enum hf_status temporary_file(int *ret_fd, struct hf_error *error);

/* Before `bytes` of an input whose size is unknown are written to a temporary file: UNAVAILABLE if
 * less than a 32nd of its disk (at most 1 GiB) would remain free. Otherwise an input without an
 * end, such as /dev/zero, would fill the disk, and stop other programs. */
enum hf_status temporary_room(int fd, size_t bytes, struct hf_error *error);

/* For a caller that removes unfinished files when the process is terminated. `writes` is called
 * with the temporary name before the file exists, and with NULL once the file is gone. A command's
 * private folder is reported as FILE_WATCH_FOLDER. */
struct file_watch {
    void (*writes)(void *context, int which, const char *path); /* may be NULL */
    void *context;
    int which;
};
#define FILE_WATCH_FOLDER 2

struct new_file {
    int fd;                  /* -1: not open */
    struct safe_path place;  /* its final location */
    const char *path;        /* its final path, with links followed */
    char part[NAME_MAX + 1]; /* the temporary name of the file or its folder */
    char *scratch;           /* its temporary path */
    int own;                 /* the private folder of a command; -1: none */
    char *own_path;
    bool kept; /* it has its final name */
    struct file_watch watch;
};
#define NEW_FILE_NONE                                \
    (struct new_file)                                \
    {                                                \
        .fd = -1, .place = SAFE_PATH_INIT, .own = -1 \
    }

/* Chooses the names for a file that a command writes into a private folder. INVALID: the path is
 * not a regular file, or leads through /dev or /proc, where a name may refer to a different
 * file. */
enum hf_status new_file_reserve(struct new_file *file, struct env *env, const char *path,
                                struct file_watch watch, struct hf_error *error);

/* Opens the file that the command has written under the temporary name. */
enum hf_status new_file_take(struct new_file *file, struct hf_error *error);

/* Chooses the names and creates the file, with the mode and the group of the old file if there is
 * one. If the file cannot be given to that group, no group has any rights. At no time can anyone
 * open it who may not open the old file. */
enum hf_status new_file_create(struct new_file *file, struct env *env, const char *path,
                               struct file_watch watch, struct hf_error *error);

/* The same for a file with secrets: its mode is 0600, whatever that of the old file. */
enum hf_status new_file_create_private(struct new_file *file, struct env *env, const char *path,
                                       struct hf_error *error);

/* Renames the file, whose bytes are on disk, to its final name, and syncs the folder. If only the
 * sync fails, the file is still `kept`. */
enum hf_status new_file_keep(struct new_file *file, struct hf_error *error);

/* Removes a kept file by its final name. */
void new_file_take_back(struct new_file *file);

/* Closes the file, and removes it unless it was kept. */
void new_file_release(struct new_file *file);

#endif
