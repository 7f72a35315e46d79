/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.c: lists objects, examines those that are new, and adds them to catalogs. It uses the
 * batches of ingest: only the step that puts a file is another one. The owner of an object may
 * rewrite or delete it at any time, so nothing is concluded from its key alone. */
#include "compact/work/adopt.h"

#include "base/check.h"
#include "compact/catalog/chunk_object.h"
#include "compact/catalog/prefixes.h"
#include "compact/work/ingest_inside.h"
#include "compact/work/merger_scratch.h"
#include "merge/survey.h"
#include "store/bucket.h"
#include "store/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define READ_TRIES 5
#define LIST_TRIES 5
#define RETRY_WAIT SPAN_MS(100)

/* How many paths are registered in one swap. */
#define PATHS_MAX 1024

struct adopt {
    struct ingest ingest;
    struct ingest_options options; /* for ingest */
    const struct adopt_options *asked;
    struct adopt_report *report;
    struct scratch scratch;
    struct arena arena; /* for the keys and ETags of a batch */
    struct ingest_file *files;
    bool own;              /* of the path whose objects are being added */
    size_t objects_done;   /* in earlier batches */
    struct hf_error first; /* the first error */
};

static void keep_adopt_error(struct adopt *adopt, const struct hf_error *error)
{
    if (adopt->first.status == HF_OK)
        adopt->first = *error;
}

static bool adopt_goes_on(void *argument, size_t files_done, uint64_t bytes_done)
{
    const struct adopt *adopt = argument;
    const struct adopt_options *asked = adopt->asked;
    (void)files_done; /* ingest counts across batches */
    return !asked->go_on || asked->go_on(asked->argument, files_done, bytes_done);
}

/* ---- Reading one object -------------------------------------------------------------- */

static struct adopt *adopt_of(struct ingest *ingest)
{
    return (struct adopt *)(void *)((char *)ingest - offsetof(struct adopt, ingest));
}

static bool read_goes_on(void *argument, uint64_t done, uint64_t total)
{
    (void)total;
    return ingest_goes_on(argument, done);
}

/* The object is gone, or is another version than the one that was listed. The next listing shows
 * what there is now. */
static enum hf_status changed_meanwhile(struct hf_error *error)
{
    return error_set(error, HF_CONFLICT,
                     "the object was rewritten or deleted while it was being adopted; adopt it "
                     "again");
}

static enum hf_status get_version(struct adopt *adopt, struct ingest_item *item, int fd,
                                  struct hf_error *error)
{
    struct env *env = adopt->ingest.tree->env;
    const struct progress progress = { read_goes_on, &adopt->ingest };
    enum hf_status status = HF_OK;
    for (int i = 0; i < READ_TRIES; i++) {
        struct get_call call = chunk_get_call(&item->chunk);
        if (ftruncate(fd, 0) != 0)
            return error_from_errno(error, errno, "empty a scratch file");
        item->drawn = env_now(env);
        status = store_get_file(adopt->ingest.tree->store, &call, fd, &progress);
        *error = call.error;
        if ((status != HF_UNAVAILABLE && status != HF_TIMEOUT) || adopt->ingest.stopped)
            break;
        env_sleep(env, env_jitter(env, SPAN_US(RETRY_WAIT.us << i)));
    }
    return status == HF_CONFLICT || status == HF_NOT_FOUND ? changed_meanwhile(error) : status;
}

/* Reads the object into a scratch file and examines it. */
static enum hf_status read_object_version(struct adopt *adopt, struct ingest_item *item,
                                          struct hf_error *error)
{
    char path[PATH_MAX];
    struct survey survey;
    int size = snprintf(path, sizeof path, "%s/adopt%.*s", adopt->scratch.path,
                        VIEW_ARGS(scratch_name_end(item->chunk.object)));
    if (size < 0 || (size_t)size >= sizeof path)
        return error_set(error, HF_INVALID, "the path of the scratch folder is too long");
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return error_from_errno(error, errno, "create a scratch file");
    enum hf_status status = get_version(adopt, item, fd, error);
    close(fd);
    if (status == HF_OK)
        status = ingest_inspect(&adopt->ingest, path, &survey, error);
    if (status == HF_OK) {
        ingest_describe(&adopt->ingest, item, &survey);
        ingest_follow_schema(&adopt->ingest, path);
    } else
        scratch_rename(error, path, item->chunk.object);
    unlink(path);
    return status;
}

/* Uses what the caller knows about the object. The listing has shown that this version exists. */
static enum hf_status take_facts(struct ingest_item *item, const struct adopt_facts *facts,
                                 uint64_t size, struct hf_error *error)
{
    if (!view_equal(facts->etag, item->chunk.etag))
        return error_set(error, HF_CONFLICT,
                         "the object is not the version that the manifest describes: its ETag "
                         "is %.*s",
                         VIEW_ARGS(item->chunk.etag));
    if (facts->size != size)
        return error_set(error, HF_CONFLICT,
                         "the object has %llu bytes, but the manifest says %llu",
                         (unsigned long long)size, (unsigned long long)facts->size);
    item->chunk.size = item->file->size = facts->size;
    item->chunk.rows_known = facts->rows_known;
    item->chunk.rows = item->file->rows = facts->rows;
    item->chunk.min_ms = facts->min_ms;
    item->chunk.max_ms = facts->max_ms;
    item->chunk.crc32c = facts->crc32c;
    return HF_OK;
}

static enum hf_merge_coding coding_of_name(struct view key)
{
    return view_ends_with(key, VIEW(".gz"))    ? HF_MERGE_GZIP
           : view_ends_with(key, VIEW(".zst")) ? HF_MERGE_ZSTD
                                               : HF_MERGE_PLAIN;
}

/* The step that puts a file, for an object that is there already: examines it and generates the
 * name of its chunk. The age of the name is counted from the moment at which the object was last
 * known to exist. */
static enum hf_status put_nothing(struct ingest *ingest, struct ingest_item *item,
                                  bool *ret_maybe, struct hf_error *error)
{
    struct adopt *adopt = adopt_of(ingest);
    struct adopt_facts facts;
    struct mono_time generated;
    enum hf_status status = HF_OK;
    *ret_maybe = false;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    if (!item->examined) {
        const struct adopt_options *asked = adopt->asked;
        item->coding = coding_of_name(item->chunk.object);
        if (asked->describe && asked->describe(asked->argument, item->chunk.object, &facts))
            status = take_facts(item, &facts, item->chunk.size, error);
        else
            status = read_object_version(adopt, item, error);
        item->examined = status == HF_OK;
    }
    if (status != HF_OK)
        return status;
    struct compact_settings settings = ingest->settings;
    settings.coding = item->coding;
    struct chunk_key_parts parts = { .partition = view_of(item->home),
                                     .ms = item->chunk.min_ms,
                                     .settings = &settings };
    status = chunk_key_draw(ingest->tree->env, &parts, item->file->key, &generated, error);
    item->chunk.key = view_of(item->file->key);
    return status;
}

/* ---- A batch ------------------------------------------------------------------------- */

/* Adds the objects of the batch, and reports each. */
static void adopt_batch(struct adopt *adopt)
{
    struct ingest *ingest = &adopt->ingest;
    const struct adopt_options *asked = adopt->asked;
    size_t count = ingest->count;
    ingest_take_items(ingest);
    for (size_t i = 0; i < count; i++) {
        const struct ingest_file *file = &adopt->files[i];
        adopt->report->already += file->already;
        adopt->report->failed += file->error.status != HF_OK;
        adopt->report->added += file->error.status == HF_OK && !file->already;
        if (file->error.status != HF_OK)
            keep_adopt_error(adopt, &file->error);
        if (asked->each)
            asked->each(asked->argument, file, ingest->items[i].chunk.etag);
    }
    arena_release(&adopt->arena);
    adopt->arena = ARENA_INIT;
}

/* Puts an object into the batch. UNAVAILABLE: out of memory. */
static enum hf_status add_object(struct adopt *adopt, const struct list_entry *entry,
                                 struct mono_time listed, struct hf_error *error)
{
    struct ingest *ingest = &adopt->ingest;
    struct view key = arena_copy(&adopt->arena, entry->key);
    struct view etag = arena_copy(&adopt->arena, etag_view(&entry->info.etag));
    if (!key.data || !etag.data)
        return error_no_memory(error);
    struct ingest_file *file = &adopt->files[ingest->count];
    struct ingest_item *item = &ingest->items[ingest->count++];
    *file = (struct ingest_file){ .path = key.data };
    *item = (struct ingest_item){ .file = file, .drawn = listed };
    object_identity(key, etag, item->file_id);
    item->route_ms = ingest_route_of(view_of(item->file_id));
    item->chunk = (struct chunk){ .writer = ingest->options->writer,
                                  .file_id = view_of(item->file_id),
                                  .size = entry->info.size,
                                  .object = key,
                                  .etag = etag,
                                  .own = adopt->own };
    adopt->report->seen++;
    if (ingest->count == INGEST_BATCH_MAX)
        adopt_batch(adopt);
    return HF_OK;
}

/* ---- Paths --------------------------------------------------------------------------- */

static bool is_wanted(const struct adopt *adopt, const struct list_entry *entry)
{
    const struct adopt_options *asked = adopt->asked;
    return entry->info.size > 0 && entry->info.etag.size > 0 && !prefix_excludes(entry->key) &&
           (!asked->wants || asked->wants(asked->argument, entry->key, &entry->info.etag));
}

/* The next page. After a failure, the same page is requested again. */
static bool next_adopt_page(struct adopt *adopt, struct pages *pages, struct mono_time *listed)
{
    struct env *env = adopt->ingest.tree->env;
    for (int i = 0;; i++) {
        *listed = env_now(env);
        if (pages_next(pages, adopt->ingest.tree->store))
            return true;
        enum hf_status status = pages->list.error.status;
        if ((status != HF_UNAVAILABLE && status != HF_TIMEOUT) || i + 1 == LIST_TRIES)
            return false;
        pages->begun = false; /* the same page again */
        env_sleep(env, env_jitter(env, SPAN_US(RETRY_WAIT.us << i)));
    }
}

static enum hf_status adopt_prefix(struct adopt *adopt, struct view prefix,
                                   struct hf_error *error)
{
    struct pages pages = { .list = { .prefix = prefix } };
    struct mono_time listed;
    enum hf_status status = HF_OK;
    while (status == HF_OK && next_adopt_page(adopt, &pages, &listed)) {
        for (size_t i = 0; i < pages.list.count && status == HF_OK; i++) {
            const struct list_entry *entry = &pages.list.entries[i];
            if (!is_wanted(adopt, entry))
                adopt->report->skipped++;
            else if (!ingest_goes_on(&adopt->ingest, 0))
                status = ingest_stopped(error);
            else
                status = add_object(adopt, entry, listed, error);
        }
        /* The batch ends with the page, whose listing would otherwise grow old. */
        adopt_batch(adopt);
    }
    return pages_end(&pages, status, error);
}

/* Finds a single object by a listing, which also gives its ETag. */
static enum hf_status adopt_key(struct adopt *adopt, struct view key, struct hf_error *error)
{
    struct list_call list = { .prefix = key, .max = 1 };
    struct mono_time listed = env_now(adopt->ingest.tree->env);
    enum hf_status status = store_list(adopt->ingest.tree->store, &list);
    *error = list.error;
    bool there = status == HF_OK && list.count > 0 && view_equal(list.entries[0].key, key);
    if (status == HF_OK && !there)
        status = error_set(error, HF_NOT_FOUND,
                           "there is no such object; to adopt everything below it, end the "
                           "prefix with a slash");
    else if (status == HF_OK && list.entries[0].info.size == 0)
        status = error_set(error, HF_INVALID, "it is empty");
    if (status == HF_OK && !is_wanted(adopt, &list.entries[0]))
        adopt->report->skipped++;
    else if (status == HF_OK)
        status = add_object(adopt, &list.entries[0], listed, error);
    else
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(key, ERROR_PATH_MAX)));
    list_release(&list);
    return status;
}

/* Registers all paths. Sets claims[i].own to what is registered for each. */
static enum hf_status register_paths(struct adopt *adopt, const struct view *paths,
                                     struct prefix *claims, size_t count,
                                     struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (count == 0 || count > PATHS_MAX)
        return error_set(error, HF_INVALID, "1 to %d prefixes or keys can be adopted at once",
                         PATHS_MAX);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        claims[i] = (struct prefix){ .path = paths[i], .own = adopt->asked->own };
        status = prefix_check(paths[i], error);
    }
    if (status == HF_OK && adopt->asked->registered)
        return HF_OK;
    if (status == HF_OK)
        status = bucket_use_feature(adopt->ingest.tree->store, BUCKET_ADOPTED_OBJECTS, error);
    if (status == HF_OK)
        status = prefixes_claim(adopt->ingest.tree, claims, count, error);
    adopt->report->registered = status == HF_OK;
    return status;
}

static void adopt_all(struct adopt *adopt, const struct prefix *claims, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct hf_error error;
        struct view path = claims[i].path;
        bool is_prefix = path.data[path.size - 1] == '/';
        if (i > 0 && claims[i].own != adopt->own)
            adopt_batch(adopt);
        adopt->own = claims[i].own;
        if ((is_prefix ? adopt_prefix(adopt, path, &error) : adopt_key(adopt, path, &error)) ==
            HF_OK)
            continue;
        keep_adopt_error(adopt, &error);
        if (error.status == HF_CANCELLED)
            break;
        adopt->report->failed += !is_prefix;
    }
    adopt_batch(adopt);
}

static enum hf_status open_adopt(struct adopt *adopt, struct hf_error *error)
{
    adopt->files = calloc(INGEST_BATCH_MAX, sizeof *adopt->files);
    if (!adopt->files)
        return error_no_memory(error);
    enum hf_status status = ingest_prepare(&adopt->ingest, error);
    if (status == HF_OK && adopt->asked->scratch)
        status = scratch_open(&adopt->scratch, adopt->ingest.tree->env, adopt->asked->scratch,
                              error);
    return status;
}

enum hf_status adopt_paths(struct catalog_tree *tree, const struct view *paths, size_t count,
                           const struct adopt_options *options, struct adopt_report *ret_report,
                           struct hf_error *error)
{
    struct adopt adopt = { .options = { .writer = options->writer,
                                        .id = VIEW(""),
                                        .until = options->until,
                                        .go_on = adopt_goes_on },
                           .asked = options,
                           .report = ret_report,
                           .arena = ARENA_INIT };
    struct prefix *claims = calloc(count + 1, sizeof *claims);
    adopt.options.argument = &adopt;
    adopt.ingest =
        (struct ingest){ .put = put_nothing,
                         .adopts = true,
                         .tree = tree,
                         .options = &adopt.options,
                         .patience = options->patience.us > 0 ? options->patience
                                                              : CATALOG_TREE_PATIENCE,
                         .arena = ARENA_INIT,
                         .schema = { .fd = -1 } };
    *ret_report = (struct adopt_report){ 0 };
    error_clear(error);
    client_active(tree->client);
    enum hf_status status = claims ? open_adopt(&adopt, error) : error_no_memory(error);
    bool opened = status == HF_OK && options->scratch;
    if (status == HF_OK)
        status = register_paths(&adopt, paths, claims, count, error);
    if (status == HF_OK) {
        adopt_all(&adopt, claims, count);
        *error = adopt.first;
        status = error->status;
    }
    ingest_release_schema(&adopt.ingest);
    if (opened)
        scratch_close(&adopt.scratch);
    arena_release(&adopt.ingest.arena);
    arena_release(&adopt.arena);
    free(adopt.files);
    free(claims);
    return status;
}
