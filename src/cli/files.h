/* SPDX-License-Identifier: Apache-2.0 */
/* files.h: local files as the source or target of a transfer: unnamed temporary files, and new
 * files that appear under their name only when they are complete. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cli/output/progress.h"
#include "file/new_file.h"

/* Whether a path stands for stdin or stdout: NULL, "-", /dev/stdin or /dev/stdout. */
bool is_stdin(const char *path);
bool is_stdout(const char *path);

/* Opens a file for reading from its start: the file itself, or a temporary copy of the bytes from a
 * pipe or from stdin (`path` is NULL or "-"). `label` is for the progress line. The caller closes
 * the descriptor. */
enum hf_status source_take(struct cli *cli, const char *path, struct view label, int *ret_fd);

/* Whether bytes for this path must be written in order, because it is a device or a pipe. INVALID
 * if it is a folder. */
enum hf_status target_is_stream(struct cli *cli, struct view path, bool *ret_stream);

/* Opens such a device or pipe for writing; the caller closes it. DENIED if another user created it,
 * or a link on the path, in a world-writable folder. */
enum hf_status target_open_stream(struct cli *cli, const char *path, int *ret_fd);

/* Creates a file under a temporary name (file/new_file.h). A second signal removes the file, and
 * new_file_release discards it. */
enum hf_status target_create(struct cli *cli, struct view path, struct new_file *ret_file);

/* Syncs the file to disk and renames it to its final name. The file is always closed; on failure,
 * it is also removed. */
enum hf_status target_keep(struct cli *cli, struct new_file *file);

/* Fills an empty file. */
typedef enum hf_status fetch_fn(void *argument, int fd, struct hf_error *error);

/* Calls `fetch` and, only if it succeeds, writes the bytes to `path`: stdout (NULL or "-"), a
 * device, or a file, which is replaced atomically. *ret_file is true for a file. */
enum hf_status target_fetch(struct cli *cli, const char *path, fetch_fn *fetch, void *argument,
                            bool *ret_file);

#endif
