/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: merges from and to descriptors. If the output is a descriptor, it is first written to a
 * scratch folder, so nothing is written to the descriptor if the merge fails. */
#include "merge/files.h"

#include "base/arena.h"
#include "file/new_file.h"
#include "merge/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REJECTS_END     ".rejects"
#define COPY_BYTES      (256 * KIB)
#define FD_PATH_MAX     48
#define THREADS_USUAL   4
#define SCRATCH_PATTERN "holdfast-merge-XXXXXX"

size_t merge_threads_usual(void)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (processors < 1)
        return 1;
    return processors < THREADS_USUAL ? (size_t)processors : THREADS_USUAL;
}

/* ---- Inputs -------------------------------------------------------------------------- */

/* A command has its own descriptors, so it gets the path of our descriptor in /proc. */
static const char *path_of_fd(const struct merge_options *options, int fd, struct arena *arena)
{
    char *path = arena_take(arena, FD_PATH_MAX);
    if (path && options->format == HF_MERGE_EXEC)
        snprintf(path, FD_PATH_MAX, "/proc/%ld/fd/%d", (long)getpid(), fd);
    else if (path)
        snprintf(path, FD_PATH_MAX, "/proc/self/fd/%d", fd);
    return path;
}

static enum hf_status name_inputs(const struct merge_options *options,
                                  const struct merge_handles *files, struct arena *arena,
                                  const char *const **ret_paths, struct hf_error *error)
{
    const struct hf_merge_file *inputs = files->inputs;
    const char **paths = arena_take(arena, (files->input_count + 1) * sizeof *paths);
    if (!paths)
        return error_no_memory(error);
    for (size_t i = 0; i < files->input_count; i++) {
        if (!inputs[i].path && (inputs[i].fd < 0 || fcntl(inputs[i].fd, F_GETFL) < 0))
            return error_set(error, HF_INVALID, "input %zu has no path and no open descriptor",
                             i + 1);
        paths[i] = inputs[i].path ? inputs[i].path : path_of_fd(options, inputs[i].fd, arena);
        if (!paths[i])
            return error_no_memory(error);
    }
    *ret_paths = paths;
    return HF_OK;
}

/* ---- Output to a descriptor ---------------------------------------------------------- */

/* A private folder for the merge. */
struct private_folder {
    char path[PATH_MAX];
    char output[PATH_MAX + sizeof "/output"];
    char rejects[PATH_MAX + sizeof "/rejects"];
};

static enum hf_status make_private_folder(const char *parent, struct private_folder *folder,
                                          struct hf_error *error)
{
    int size = snprintf(folder->path, sizeof folder->path, "%s/%s", scratch_or_usual(parent),
                        SCRATCH_PATTERN);
    if (size < 0 || size >= (int)sizeof folder->path)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    if (!mkdtemp(folder->path))
        return error_from_errno(error, errno, "create a scratch folder");
    snprintf(folder->output, sizeof folder->output, "%s/output", folder->path);
    snprintf(folder->rejects, sizeof folder->rejects, "%s/rejects", folder->path);
    return HF_OK;
}

static enum hf_status write_to_fd(int to, const char *bytes, size_t size,
                                  struct hf_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(to, bytes + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EPIPE)
            return error_set(error, HF_CANCELLED, "the reader of the output is gone");
        if (wrote < 0)
            return error_from_errno(error, errno, "write the output");
        done += (size_t)wrote;
    }
    return HF_OK;
}

static enum hf_status copy_to(const char *path, int to, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    ssize_t got = 1;
    int from = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    char *bytes = malloc(COPY_BYTES);
    if (from < 0 || !bytes)
        status = from < 0 ? error_from_errno(error, errno, "open the merged file")
                          : error_no_memory(error);
    while (status == HF_OK && got > 0) {
        got = read(from, bytes, COPY_BYTES);
        if (got < 0)
            status = error_from_errno(error, errno, "read the merged file");
        else
            status = write_to_fd(to, bytes, (size_t)got, error);
    }
    free(bytes);
    if (from >= 0)
        close(from);
    return status;
}

/* With a reject_path the merge is not intermediate: the caller keeps the reject file, so the merge
 * must sync it. */
static enum hf_status merge_to_fd(struct env *env, struct merge_options *options,
                                  struct merge_paths *paths, int output,
                                  struct merge_result *result, struct hf_error *error)
{
    struct private_folder folder;
    int flags = fcntl(output, F_GETFL);
    if (output < 0 || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return error_set(error, HF_INVALID,
                         "the output has no path and no descriptor that can be written to");
    if (merge_has_records(options->format) && options->rejects_max > 0 && !options->reject_path)
        return error_set(
            error, HF_INVALID,
            "an output without a name needs a reject_path if rows may be rejected");
    enum hf_status status = make_private_folder(options->scratch_folder, &folder, error);
    if (status != HF_OK)
        return status;
    options->intermediate = !options->reject_path;
    if (!options->reject_path)
        options->reject_path = folder.rejects;
    paths->output = folder.output;
    status = merge_files(env, options, paths, result, error);
    if (status == HF_OK)
        status = copy_to(folder.output, output, error);
    unlink(folder.output);
    unlink(folder.rejects);
    rmdir(folder.path);
    return status;
}

/* ---- Entry points -------------------------------------------------------------------- */

enum hf_status merge_any_files(struct env *env, const struct merge_options *options,
                               const struct merge_handles *files,
                               struct merge_result *ret_result, struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct merge_options used = *options;
    const char *output = files->output->path;
    struct merge_paths paths = { .input_count = files->input_count, .output = output };
    *ret_result = (struct merge_result){ 0 };
    if (files->input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, files->input_count);
    enum hf_status status = name_inputs(&used, files, &arena, &paths.inputs, error);
    if (status == HF_OK && output && !used.reject_path) {
        size_t size = strlen(output) + sizeof REJECTS_END;
        char *path = arena_take(&arena, size);
        if (path)
            snprintf(path, size, "%s" REJECTS_END, output);
        else
            status = error_no_memory(error);
        used.reject_path = path;
    }
    if (status == HF_OK && output)
        status = merge_files(env, &used, &paths, ret_result, error);
    else if (status == HF_OK)
        status = merge_to_fd(env, &used, &paths, files->output->fd, ret_result, error);
    arena_release(&arena);
    return status;
}
