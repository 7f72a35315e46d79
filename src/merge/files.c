#include "merge/files.h"

#include "base/arena.h"
#include "merge/job.h"
#include "merge/new_file.h"

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

/* A command has descriptors of its own: it is told those of this process. */
static const char *path_of_fd(const struct merge_options *options, int fd, struct arena *arena)
{
    char *path = arena_take(arena, FD_PATH_MAX);
    if (path && options->format == MERGE_EXEC)
        snprintf(path, FD_PATH_MAX, "/proc/%ld/fd/%d", (long)getpid(), fd);
    else if (path)
        snprintf(path, FD_PATH_MAX, "/proc/self/fd/%d", fd);
    return path;
}

static enum hf_status name_inputs(const struct merge_options *options,
                                  const struct merge_file *inputs, size_t count,
                                  struct arena *arena, const char ***ret_paths,
                                  struct hf_error *error)
{
    const char **paths = arena_take(arena, (count + 1) * sizeof *paths);
    if (!paths)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++) {
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

/* ---- An output that has no name ------------------------------------------------------ */

/* A private folder in which it is merged. */
struct private_folder {
    char path[PATH_MAX];
    char output[PATH_MAX + sizeof "/output"];
    char rejects[PATH_MAX + sizeof "/rejects"];
};

static enum hf_status make_private_folder(const char *parent, struct private_folder *folder,
                                          struct hf_error *error)
{
    const char *temporary = getenv("TMPDIR");
    if (!parent)
        parent = temporary && temporary[0] ? temporary : "/tmp";
    int size = snprintf(folder->path, sizeof folder->path, "%s/%s", parent, SCRATCH_PATTERN);
    if (size < 0 || size >= (int)sizeof folder->path)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    if (!mkdtemp(folder->path))
        return error_from_errno(error, errno, "make a scratch folder");
    snprintf(folder->output, sizeof folder->output, "%s/output", folder->path);
    snprintf(folder->rejects, sizeof folder->rejects, "%s/rejects", folder->path);
    return HF_OK;
}

static void remove_private_folder(const struct private_folder *folder)
{
    unlink(folder->output);
    unlink(folder->rejects);
    rmdir(folder->path);
}

static enum hf_status write_all(int to, const char *bytes, size_t size, struct hf_error *error)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(to, bytes + done, size - done);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0 && errno == EPIPE)
            return error_set(error, HF_CANCELLED, "nobody reads the output any more");
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
        status = from < 0 ? error_from_errno(error, errno, "open what was merged")
                          : error_no_memory(error);
    while (status == HF_OK && got > 0) {
        got = read(from, bytes, COPY_BYTES);
        if (got < 0)
            status = error_from_errno(error, errno, "read what was merged");
        else
            status = write_all(to, bytes, (size_t)got, error);
    }
    free(bytes);
    if (from >= 0)
        close(from);
    return status;
}

/* Where the reject file is to be kept, it is the caller's, and so is every step of it. */
static enum hf_status merge_to_fd(struct env *env, struct merge_options *options,
                                  const char *const *inputs, size_t count, int output,
                                  struct merge_result *result, struct hf_error *error)
{
    struct private_folder folder;
    int flags = fcntl(output, F_GETFL);
    if (output < 0 || flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
        return error_set(error, HF_INVALID,
                         "the output has no path and no descriptor that can be written to");
    if (job_has_records(options->format) && options->rejects_max > 0 && !options->reject_path)
        return error_set(error, HF_INVALID,
                         "an output without a name needs a reject_path where rows may be "
                         "rejected");
    enum hf_status status = make_private_folder(options->scratch_folder, &folder, error);
    if (status != HF_OK)
        return status;
    options->intermediate = !options->reject_path;
    if (!options->reject_path)
        options->reject_path = folder.rejects;
    status = merge_files(env, options, inputs, count, folder.output, result, error);
    if (status == HF_OK)
        status = copy_to(folder.output, output, error);
    remove_private_folder(&folder);
    return status;
}

/* ---- The door ------------------------------------------------------------------------ */

static enum hf_status merge_to_path(struct env *env, struct merge_options *options,
                                    const char *const *inputs, size_t count, const char *output,
                                    struct arena *arena, struct merge_result *result,
                                    struct hf_error *error)
{
    if (!options->reject_path) {
        size_t size = strlen(output) + sizeof REJECTS_END;
        char *path = arena_take(arena, size);
        if (!path)
            return error_no_memory(error);
        snprintf(path, size, "%s" REJECTS_END, output);
        options->reject_path = path;
    }
    return merge_files(env, options, inputs, count, output, result, error);
}

enum hf_status merge_any_files(struct env *env, const struct merge_options *options,
                               const struct merge_file *inputs, size_t input_count,
                               const struct merge_file *output, struct merge_result *ret_result,
                               struct hf_error *error)
{
    struct arena arena = ARENA_INIT;
    struct merge_options used = *options;
    const char **paths = NULL;
    *ret_result = (struct merge_result){ 0 };
    if (input_count > MERGE_INPUTS_MAX)
        return error_set(error, HF_INVALID, "1 to %d inputs can be merged, not %zu",
                         MERGE_INPUTS_MAX, input_count);
    enum hf_status status = name_inputs(&used, inputs, input_count, &arena, &paths, error);
    if (status == HF_OK && output->path)
        status = merge_to_path(env, &used, paths, input_count, output->path, &arena, ret_result,
                               error);
    else if (status == HF_OK)
        status = merge_to_fd(env, &used, paths, input_count, output->fd, ret_result, error);
    arena_release(&arena);
    return status;
}
