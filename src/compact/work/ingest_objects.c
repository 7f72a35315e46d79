/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_objects.c: ingests objects from the bucket: each is fetched into a file, which is ingested
 * like any other file. The objects are not changed. Holdfast's own objects are refused, because the
 * rows of a chunk would be in the partition twice. */
#include "compact/catalog/prefixes.h"
#include "compact/work/ingest.h"
#include "compact/work/merger_scratch.h"
#include "store/retry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The number of objects per batch; all of them are on disk at the same time. */
#define FETCH_MAX   64
#define FETCH_TRIES 5
#define FETCH_WAIT  SPAN_MS(100)

struct fetched {
    struct catalog_tree *tree;
    const struct ingest_options *options;
    struct scratch scratch;
    size_t files_before; /* in finished batches */
    uint64_t bytes_before;
    uint64_t bytes_done; /* of the current batch */
    bool stopped;
    char (*paths)[PATH_MAX]; /* of a batch; empty: it was not fetched */
    struct ingest_file *files;
    struct ingest_file **asked; /* the caller's entry for each of `files` */
    size_t count;
};

static bool batch_goes_on(void *argument, size_t files_done, uint64_t bytes_done)
{
    struct fetched *fetched = argument;
    const struct ingest_options *options = fetched->options;
    fetched->bytes_done = bytes_done;
    if (options->go_on && !fetched->stopped)
        fetched->stopped =
            !options->go_on(options->argument, fetched->files_before + files_done,
                            fetched->bytes_before + bytes_done);
    return !fetched->stopped;
}

static bool fetch_goes_on(void *argument, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return batch_goes_on(argument, 0, 0);
}

static enum hf_status get_with_retries(struct fetched *fetched, struct view key, int fd,
                                       struct hf_error *error)
{
    const struct progress progress = { fetch_goes_on, fetched };
    enum hf_status status = HF_OK;
    struct retry retry = { .store = fetched->tree->store,
                           .pause = FETCH_WAIT,
                           .left = FETCH_TRIES - 1,
                           .progress = &progress };
    do {
        struct get_call call = { .key = key };
        if (ftruncate(fd, 0) != 0)
            return error_from_errno(error, errno, "empty a scratch file");
        status = store_get_file(fetched->tree->store, &call, fd, &progress);
        *error = call.error;
    } while (retry_after(&retry, status));
    return status;
}

/* Fetches one object into the batch, or records why that was not possible. */
static void fetch_into_batch(struct fetched *fetched, struct ingest_file *asked)
{
    struct view key = view_of(asked->path);
    char *path = fetched->paths[fetched->count];
    struct hf_error *error = &asked->error;
    enum hf_status status = HF_OK;
    int fd = -1;
    int size = snprintf(path, PATH_MAX, "%s/batch/%06zu%.*s", fetched->scratch.path,
                        fetched->count, VIEW_ARGS(scratch_name_end(key)));
    if (!batch_goes_on(fetched, 0, 0))
        status = error_set(error, HF_CANCELLED, "stopped before it was ingested");
    else if (prefix_excludes(key))
        status = error_set(error, HF_INVALID, "Holdfast's own objects cannot be ingested");
    else if (size < 0 || size >= PATH_MAX)
        status = error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    else if ((fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) < 0)
        status = error_from_errno(error, errno, "create a scratch file");
    if (status == HF_OK)
        status = get_with_retries(fetched, key, fd, error);
    if (fd >= 0)
        close(fd);
    if (status != HF_OK) {
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(key, ERROR_PATH_MAX)));
        return;
    }
    fetched->asked[fetched->count] = asked;
    fetched->files[fetched->count++] = (struct ingest_file){ .path = path };
}

static void take_batch(struct fetched *fetched, struct ingest_file *files, size_t count)
{
    struct ingest_options options = *fetched->options;
    struct hf_error ignored;
    options.go_on = batch_goes_on;
    options.argument = fetched;
    fetched->count = 0;
    fetched->bytes_done = 0;
    if (!scratch_make(&fetched->scratch, "batch")) {
        error_from_errno(&ignored, errno, "create a scratch folder");
        for (size_t i = 0; i < count; i++)
            files[i].error = ignored;
        return;
    }
    for (size_t i = 0; i < count; i++)
        fetch_into_batch(fetched, &files[i]);
    if (fetched->count > 0)
        ingest_files(fetched->tree, fetched->files, fetched->count, &options, &ignored);
    for (size_t i = 0; i < fetched->count; i++) { /* errors name keys, not scratch paths */
        struct ingest_file *asked = fetched->asked[i];
        const char *key = asked->path;
        *asked = fetched->files[i];
        asked->path = key;
        scratch_rename(&asked->error, fetched->paths[i], view_of(key));
    }
    scratch_remove(&fetched->scratch, "batch");
    fetched->files_before += count;
    fetched->bytes_before += fetched->bytes_done;
}

enum hf_status ingest_objects(struct catalog_tree *tree, struct ingest_file *files,
                              size_t count, const char *scratch,
                              const struct ingest_options *options, struct hf_error *error)
{
    struct fetched fetched = { .tree = tree, .options = options };
    for (size_t i = 0; i < count; i++)
        files[i] = (struct ingest_file){ .path = files[i].path };
    error_clear(error);
    enum hf_status status = HF_OK;
    if (options->id.size > 0 && count != 1)
        status = error_set(error, HF_INVALID, "an id identifies one object, but %zu were given",
                           count);
    fetched.paths = calloc(FETCH_MAX, sizeof *fetched.paths);
    fetched.files = calloc(FETCH_MAX, sizeof *fetched.files);
    fetched.asked = calloc(FETCH_MAX, sizeof(struct ingest_file *));
    if (status == HF_OK && (!fetched.paths || !fetched.files || !fetched.asked))
        status = error_no_memory(error);
    if (status == HF_OK)
        status = scratch_open(&fetched.scratch, tree->env, scratch, error);
    if (status == HF_OK) {
        for (size_t i = 0; i < count; i += FETCH_MAX)
            take_batch(&fetched, &files[i], count - i < FETCH_MAX ? count - i : FETCH_MAX);
        scratch_close(&fetched.scratch);
    }
    for (size_t i = 0; i < count; i++) {
        if (status != HF_OK)
            files[i].error = *error;
        else if (error->status == HF_OK && files[i].error.status != HF_OK)
            *error = files[i].error;
    }
    free(fetched.paths);
    free(fetched.files);
    free(fetched.asked);
    return error->status;
}
