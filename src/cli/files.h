/* files.h: the local files at the other end of a transfer: nameless ones to hold bytes on their
 * way, and new ones that appear under their name only when they are whole. */
#ifndef CLI_FILES_H
#define CLI_FILES_H

#include "cli/progress.h"
#include "merge/new_file.h"

/* A file without a name in $TMPDIR, gone when it is closed, whatever happens to us. */
enum hf_status spool_open(struct cli *cli, int *ret_fd);

/* Appends all that `from` (a pipe, a terminal) gives until its end. */
enum hf_status spool_fill(struct cli *cli, struct gauge *gauge, int from, int spool);

/* Whether a path stands for stdin or stdout: NULL, "-", /dev/stdin or /dev/stdout. */
bool is_stdin(const char *path);
bool is_stdout(const char *path);

/* Writes the whole spool to where bytes only go in order. Binary data goes to a terminal only with
 * --force, which the command must have. */
enum hf_status spool_send(struct cli *cli, int spool, int to);

/* Opens a file to be read; OK with *ret_fd a regular file, or one that must be spooled. */
enum hf_status source_open(struct cli *cli, struct view path, int *ret_fd, bool *ret_regular);

/* The bytes of a file that can be read from its start: FILE itself, or a spool of what a pipe, or
 * stdin (`path` is NULL or "-"), gives. `label` is for the progress. To be closed. */
enum hf_status source_take(struct cli *cli, const char *path, struct view label, int *ret_fd);

/* Whether bytes for this path must be sent in order: it exists and is a device or a pipe. A
 * folder is INVALID. */
enum hf_status target_is_stream(struct cli *cli, struct view path, bool *ret_stream);

/* Opens such a device or pipe to write to it; DENIED when another user made it, or a link on the
 * way, in a folder where everybody may write. */
enum hf_status target_open_stream(struct cli *cli, const char *path, int *ret_fd);

/* A file that is written under another name first (merge/new_file.h); a second signal removes it,
 * and new_file_release drops it. */
enum hf_status target_create(struct cli *cli, struct view path, struct new_file *ret_file);

/* Makes the file whole on disk and gives it its name. It is closed, on failure too, and then no
 * trace of it is left. */
enum hf_status target_keep(struct cli *cli, struct new_file *file);

/* Fills an empty file. */
typedef enum hf_status fetch_fn(void *argument, int fd, struct hf_error *error);

/* Has something fetched, and then, when it has come whole, given to `path`: stdout (NULL or "-"), a
 * device, or a file, which is replaced; *ret_file says that it was that. */
enum hf_status target_fetch(struct cli *cli, const char *path, fetch_fn *fetch, void *argument,
                            bool *ret_file);

#endif
