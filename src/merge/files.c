/* SPDX-License-Identifier: Apache-2.0 */
/* files.c: merges from and to descriptors. Inputs that are not regular files are copied first. If
 * the output is a descriptor, it is first written to a scratch folder, so nothing is written to the
 * descriptor if the merge fails. */
#include "merge/files.h"

#include "base/arena.h"
#include "file/new_file.h"
#include "merge/job.h"
#include "merge/spool.h"

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

/* A command and Parquet's helper have their own descriptors, so they get the path of our
 * descriptor in /proc. */
static const char *path_of_fd(const struct merge_options *options, int fd, struct arena *arena)
{
    char *path = arena_take(arena, FD_PATH_MAX);
    bool by_others = options->format == HF_MERGE_EXEC || options->format == HF_MERGE_PARQUET;
    if (path && by_others)
        snprintf(path, FD_PATH_MAX, "/proc/%ld/fd/%d", (long)getpid(), fd);
    else if (path)
        snprintf(path, FD_PATH_MAX, "/proc/self/fd/%d", fd);
    return path;
}

/* The inputs as the merge sees them. */
struct named_inputs {
    const char **paths;
    const char **names; /* for messages */
    struct spools spools;
};

/* Where the copies of pipes go: where the merge sorts. */
static const char *spool_folder(const struct merge_options *options, const char *output,
                                char folder[PATH_MAX])
{
    if (options->scratch_folder || !output)
        return scratch_or_usual(options->scratch_folder);
    return folder_of(output, folder);
}

/* Finds the path and the name of an input. An input that must be copied becomes the path of its
 * copy, which is still empty. */
static enum hf_status name_input(const struct merge_options *options,
                                 const struct merge_handles *files, size_t i,
                                 const char *folder, struct arena *arena,
                                 struct named_inputs *inputs, struct hf_error *error)
{
    const struct hf_merge_file *input = &files->inputs[i];
    int copy;
    if (!input->path && (input->fd < 0 || fcntl(input->fd, F_GETFL) < 0))
        return error_set(error, HF_INVALID, "input %zu has no path and no open descriptor",
                         i + 1);
    const char *path = input->path ? input->path : path_of_fd(options, input->fd, arena);
    if (!path)
        return error_no_memory(error);
    bool is_named = files->input_names && files->input_names[i];
    inputs->names[i] = is_named ? files->input_names[i] : path;
    enum hf_status status =
        spools_add(&inputs->spools, input, inputs->names[i], folder, &copy, error);
    if (status == HF_OK && copy >= 0)
        path = path_of_fd(options, copy, arena);
    inputs->paths[i] = path;
    return status == HF_OK && !path ? error_no_memory(error) : status;
}

static enum hf_status name_inputs(const struct merge_options *options,
                                  const struct merge_handles *files, struct arena *arena,
                                  struct named_inputs *inputs, struct hf_error *error)
{
    char space[PATH_MAX];
    const char *folder = spool_folder(options, files->output->path, space);
    size_t room = files->input_count + 1;
    inputs->paths = arena_take(arena, room * sizeof *inputs->paths);
    inputs->names = arena_take(arena, room * sizeof *inputs->names);
    inputs->spools.list = arena_take(arena, room * sizeof *inputs->spools.list);
    if (!inputs->paths || !inputs->names || !inputs->spools.list)
        return error_no_memory(error);
    for (size_t i = 0; i < files->input_count; i++)
        if (name_input(options, files, i, folder, arena, inputs, error) != HF_OK)
            return error->status;
    return spools_fill(&inputs->spools, &options->progress, error);
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

/* What the caller is told while the output is being copied: everything was read. */
struct copy_caller {
    const struct merge_progress *progress;
    uint64_t bytes_in;
};

static bool caller_goes_on(const struct copy_caller *caller)
{
    const struct merge_progress *progress = caller->progress;
    uint64_t total = caller->bytes_in + progress->done_before;
    return !progress->step || progress->step(progress->context, total, total);
}

/* Removes the folder and everything in it. */
static void remove_private_folder(const struct private_folder *folder)
{
    unlink(folder->output);
    unlink(folder->rejects);
    rmdir(folder->path);
}

/* A signal ends a write to a full pipe early, so that the caller can stop the merge there. */
static enum hf_status write_to_fd(const struct copy_caller *caller, int to, const char *bytes,
                                  size_t size, struct hf_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(to, bytes + done, size - done);
        if (wrote < 0 && errno == EPIPE)
            return error_set(error, HF_CANCELLED, "the reader of the output is gone");
        if (wrote < 0 && errno != EINTR)
            return error_from_errno(error, errno, "write the output");
        done += wrote > 0 ? (size_t)wrote : 0;
        if (done < size && !caller_goes_on(caller))
            return error_set(error, HF_CANCELLED, "stopped while the output was being written");
    }
    return HF_OK;
}

static enum hf_status copy_to(const struct copy_caller *caller, int from, int to,
                              struct hf_error *error)
{
    enum hf_status status = HF_OK;
    ssize_t got = 1;
    char *bytes = malloc(COPY_BYTES);
    if (!bytes)
        return error_no_memory(error);
    while (status == HF_OK && got > 0) {
        got = read(from, bytes, COPY_BYTES);
        if (got < 0)
            status = error_from_errno(error, errno, "read the merged file");
        else
            status = write_to_fd(caller, to, bytes, (size_t)got, error);
    }
    free(bytes);
    return status;
}

static enum hf_status check_output_fd(const struct merge_options *options, int output,
                                      struct hf_error *error)
{
    int flags = fcntl(output, F_GETFL);
    if (output < 0 || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return error_set(error, HF_INVALID,
                         "the output has no path and no descriptor that can be written to");
    if (merge_has_records(options->format) && options->rejects_max > 0 && !options->reject_path)
        return error_set(
            error, HF_INVALID,
            "an output without a name needs a reject_path if rows may be rejected");
    return HF_OK;
}

/* The folder of a command or of Parquet's helper has the same slot, and is watched instead. */
static void watch_folder(const struct merge_options *options, const char *path)
{
    const struct merge_progress *progress = &options->progress;
    bool by_others = options->format == HF_MERGE_EXEC || options->format == HF_MERGE_PARQUET;
    if (progress->writes && !by_others)
        progress->writes(progress->context, FILE_WATCH_FOLDER, path);
}

/* With a reject_path the merge is not intermediate: the caller keeps the reject file, so the merge
 * must sync it. The merged file loses its name before it is copied, because a pipe may block for
 * any time. */
static enum hf_status merge_to_fd(struct env *env, struct merge_options *options,
                                  struct merge_paths *paths, int output,
                                  struct merge_result *result, struct hf_error *error)
{
    struct private_folder folder;
    enum hf_status status = make_private_folder(options->scratch_folder, &folder, error);
    if (status != HF_OK)
        return status;
    watch_folder(options, folder.path);
    options->intermediate = !options->reject_path;
    if (!options->reject_path)
        options->reject_path = folder.rejects;
    paths->output = folder.output;
    status = merge_files(env, options, paths, result, error);
    int from = status == HF_OK ? open(folder.output, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (status == HF_OK && from < 0)
        status = error_from_errno(error, errno, "open the merged file");
    remove_private_folder(&folder);
    watch_folder(options, NULL);
    const struct copy_caller caller = { &options->progress, result->bytes_in };
    if (status == HF_OK)
        status = copy_to(&caller, from, output, error);
    if (from >= 0)
        close(from);
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
    struct named_inputs inputs = { 0 };
    *ret_result = (struct merge_result){ 0 };
    if (files->input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, files->input_count);
    enum hf_status status = job_check(&used, error);
    if (status == HF_OK && !output)
        status = check_output_fd(&used, files->output->fd, error);
    if (status == HF_OK)
        status = name_inputs(&used, files, &arena, &inputs, error);
    used.progress.done_before = inputs.spools.bytes;
    paths.inputs = inputs.paths;
    used.input_names = inputs.names;
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
    spools_release(&inputs.spools);
    arena_release(&arena);
    return status;
}
