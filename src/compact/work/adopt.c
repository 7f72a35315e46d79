/* SPDX-License-Identifier: Apache-2.0 */
/* adopt.c: lists objects, examines those that are new, and adds them to catalogs. It uses the
 * batches of ingest: only the step that puts a file is another one. The owner of an object may
 * rewrite or delete it at any time, so nothing is concluded from its key alone. */
#include "compact/work/adopt.h"

#include "base/check.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "compact/catalog/chunk_object.h"
#include "compact/catalog/prefixes.h"
#include "compact/work/ingest_inside.h"
#include "compact/work/merger_scratch.h"
#include "compact/work/object_reader.h"
#include "merge/survey.h"
#include "store/bucket.h"
#include "store/pages.h"
#include "store/retry.h"

#include <stdlib.h>

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
    struct object_read *reads;
    struct prefix *claims; /* the paths */
    size_t claim_count;
    struct mono_time registered_at; /* when they were seen registered last; zero: never */
    bool own;                       /* of the path whose objects are being added */
    struct hf_error first;          /* the first error */
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

/* ---- Registering --------------------------------------------------------------------- */

/* Registers all paths, again if they were seen registered too long ago: they may have been released
 * since. Sets claims[i].own to what is registered for each. */
static enum hf_status register_paths(struct adopt *adopt, struct hf_error *error)
{
    struct catalog_tree *tree = adopt->ingest.tree;
    struct mono_time before = env_now(tree->env);
    bool is_old = RULE(PATH_SEEN_LATELY) &&
                  mono_since(before, adopt->registered_at).us > ingest_spare(&adopt->ingest).us;
    if (adopt->registered_at.us > 0 && !is_old)
        return HF_OK;
    enum hf_status status = prefixes_claim(tree, adopt->claims, adopt->claim_count, error);
    if (status == HF_OK)
        adopt->registered_at = adopt->report->registered_at = before;
    return status;
}

/* ---- Examining objects --------------------------------------------------------------- */

static struct adopt *adopt_of(struct ingest *ingest)
{
    return (struct adopt *)(void *)((char *)ingest - offsetof(struct adopt, ingest));
}

/* Uses what the caller knows about the object. The listing has shown that this version exists. */
static enum hf_status take_facts(struct ingest_item *item, const struct adopt_facts *facts,
                                 struct hf_error *error)
{
    if (!view_equal(facts->etag, item->chunk.etag))
        return error_set(error, HF_CONFLICT,
                         "the object is not the version that the manifest describes: its ETag "
                         "is %.*s",
                         VIEW_ARGS(item->chunk.etag));
    if (facts->size != item->chunk.size)
        return error_set(error, HF_CONFLICT,
                         "the object has %llu bytes, but the manifest says %llu",
                         (unsigned long long)item->chunk.size, (unsigned long long)facts->size);
    item->file->size = facts->size;
    item->chunk.rows_known = facts->rows_known;
    item->chunk.rows = item->file->rows = facts->rows;
    item->chunk.min_ms = facts->min_ms;
    item->chunk.max_ms = facts->max_ms;
    item->chunk.crc32c = facts->crc32c;
    item->examined = true;
    return HF_OK;
}

static enum hf_merge_coding coding_of_name(struct view key)
{
    return view_ends_with(key, VIEW(".gz"))    ? HF_MERGE_GZIP
           : view_ends_with(key, VIEW(".zst")) ? HF_MERGE_ZSTD
                                               : HF_MERGE_PLAIN;
}

/* Whether something that was seen then may have changed so much since that an add, which must be
 * made within D/2, would come too late. */
static bool is_stale(const struct adopt *adopt, struct mono_time seen)
{
    const struct ingest *ingest = &adopt->ingest;
    return mono_since(env_now(ingest->tree->env), seen).us > ingest_spare(ingest).us;
}

/* Reads one byte to see that the version still exists. */
static enum hf_status see_again(struct adopt *adopt, struct ingest_item *item,
                                struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(1);
    struct get_call call = chunk_get_call(&item->chunk);
    struct mono_time before = env_now(adopt->ingest.tree->env);
    call.length = 1;
    call.body = &body;
    enum hf_status status = store_get(adopt->ingest.tree->store, &call);
    buffer_release(&body);
    *error = call.error;
    if (status == HF_OK)
        item->drawn = before;
    return status;
}

/* Describes an object without reading it, if the caller can, and looks at it again if it was seen
 * too long ago. An object that is left unexamined must be read. */
static enum hf_status describe_item(struct adopt *adopt, struct ingest_item *item,
                                    struct hf_error *error)
{
    const struct adopt_options *asked = adopt->asked;
    struct adopt_facts facts;
    enum hf_status status = HF_OK;
    if (!ingest_goes_on(&adopt->ingest, 0))
        return ingest_stopped(error);
    if (!utf8_is_text(item->chunk.object))
        return error_set(error, HF_INVALID,
                         "a catalog cannot list it, because its key is not UTF-8 text");
    item->coding = item->examined ? item->coding : coding_of_name(item->chunk.object);
    if (!item->examined && asked->describe &&
        asked->describe(asked->argument, item->chunk.object, &facts))
        status = take_facts(item, &facts, error);
    if (status == HF_OK && item->examined && is_stale(adopt, item->drawn))
        status = see_again(adopt, item, error);
    return status;
}

static bool read_goes_on(void *argument, uint64_t done, uint64_t total)
{
    (void)total;
    return ingest_goes_on(argument, done);
}

/* Examines the next object that the reader has read. */
static enum hf_status examine_read(struct adopt *adopt, struct object_reader *reader,
                                   struct ingest_item *item, struct hf_error *error)
{
    struct ingest *ingest = &adopt->ingest;
    const struct progress progress = { read_goes_on, ingest };
    const struct object_read *read = &reader->reads[reader->shared.taken];
    char path[PATH_MAX];
    struct survey survey;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    enum hf_status status = object_reader_take(reader, &progress, path, error);
    if (status != HF_CANCELLED) /* otherwise it may still be being read */
        ingest_note_answer(ingest, status, read->begun);
    if (status != HF_OK)
        return status;
    item->drawn = read->begun;
    status = ingest_inspect(ingest, path, &survey, error);
    if (status != HF_OK) {
        scratch_rename(error, path, item->chunk.object);
        return status;
    }
    ingest_describe(ingest, item, &survey);
    ingest_follow_schema(ingest, path);
    ingest->bytes_done += survey.size;
    item->examined = true;
    return HF_OK;
}

/* Keeps only the chosen objects that are described or left to be read. Returns how many must be
 * read. */
static size_t describe_chosen(struct adopt *adopt)
{
    struct ingest *ingest = &adopt->ingest;
    size_t kept = 0, unread = 0;
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        struct hf_error error;
        if (describe_item(adopt, item, &error) != HF_OK) {
            ingest_fail(ingest, item, &error);
            continue;
        }
        if (!item->examined)
            adopt->reads[unread++] = (struct object_read){ .chunk = &item->chunk };
        ingest->chosen[kept++] = item;
    }
    ingest->chosen_count = kept;
    return unread;
}

/* Reads the chosen objects that were not described. If the first one gets too old meanwhile, the
 * remaining ones are chosen again later. */
static void read_chosen(struct adopt *adopt, size_t unread)
{
    struct ingest *ingest = &adopt->ingest;
    struct object_reader reader;
    size_t kept = 0;
    check(adopt->asked->scratch); /* without it, the caller describes every object */
    object_reader_start(&reader, ingest->tree->env, ingest->tree->store, adopt->scratch.path,
                        adopt->reads, unread);
    for (size_t i = 0; i < ingest->chosen_count; i++) {
        struct ingest_item *item = ingest->chosen[i];
        struct hf_error error;
        if (kept > 0 && is_stale(adopt, ingest->chosen[0]->drawn))
            item->rounds--;
        else if (item->examined)
            ingest->chosen[kept++] = item;
        else if (!ingest_is_given_up(ingest, &error) &&
                 examine_read(adopt, &reader, item, &error) == HF_OK)
            ingest->chosen[kept++] = item;
        else
            ingest_fail(ingest, item, &error);
    }
    object_reader_end(&reader);
    ingest->chosen_count = kept;
}

/* This may take long, so the paths are looked at afterwards. */
static void examine_chosen(struct ingest *ingest)
{
    struct adopt *adopt = adopt_of(ingest);
    struct hf_error error;
    size_t unread = describe_chosen(adopt);
    if (unread > 0)
        read_chosen(adopt, unread);
    if (ingest->chosen_count > 0 && register_paths(adopt, &error) != HF_OK)
        ingest_fail_chosen(ingest, &error);
}

/* The step that puts a file, for an object that is there already: generates the name of its chunk,
 * and checks that a catalog can list it. The owner of an object may use any key.
 * The age of the name is counted from the moment at which the object was last known to exist, or
 * its path to be registered. */
static enum hf_status name_object(struct ingest *ingest, struct ingest_item *item,
                                  bool *ret_maybe, struct hf_error *error)
{
    struct compact_settings settings = ingest->settings;
    struct mono_time generated;
    settings.coding = item->coding;
    struct chunk_key_parts parts = { .partition = view_of(item->home),
                                     .ms = item->chunk.min_ms,
                                     .settings = &settings };
    *ret_maybe = false;
    enum hf_status status =
        chunk_key_draw(ingest->tree->env, &parts, item->file->key, &generated, error);
    item->chunk.key = view_of(item->file->key);
    if (RULE(PATH_SEEN_LATELY))
        item->drawn = mono_earlier(item->drawn, adopt_of(ingest)->registered_at);
    /* Otherwise the swap that adds it would be refused, and with it all other objects. */
    if (status == HF_OK)
        status = catalog_check_chunk(&item->chunk, error);
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
    struct catalog_tree *tree = adopt->ingest.tree;
    struct retry retry = { .store = tree->store, .pause = RETRY_WAIT, .left = LIST_TRIES - 1 };
    bool again;
    do {
        *listed = env_now(tree->env);
        if (pages_next(pages, tree->store))
            return true;
        again = retry_after(&retry, pages->list.error.status);
        pages->begun = pages->begun && !again; /* the same page again */
    } while (again);
    return false;
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
    struct pages pages = { .list = { .prefix = key, .max = 1 } };
    struct mono_time listed;
    enum hf_status status = HF_OK;
    bool found = next_adopt_page(adopt, &pages, &listed) && pages.list.count > 0 &&
                 view_equal(pages.list.entries[0].key, key);
    const struct list_entry *entry = found ? &pages.list.entries[0] : NULL;
    if (!entry && pages.list.error.status == HF_OK)
        status = error_set(error, HF_NOT_FOUND,
                           "there is no such object; to adopt everything below it, end the "
                           "prefix with a slash");
    else if (entry && entry->info.size == 0)
        status = error_set(error, HF_INVALID, "it is empty");
    else if (entry && !is_wanted(adopt, entry))
        adopt->report->skipped++;
    else if (entry)
        status = add_object(adopt, entry, listed, error);
    status = pages_end(&pages, status, error);
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(view_first(key, ERROR_PATH_MAX)));
    return status;
}

static void adopt_all(struct adopt *adopt)
{
    adopt->report->listed = true;
    for (size_t i = 0; i < adopt->claim_count; i++) {
        const struct prefix *claim = &adopt->claims[i];
        struct hf_error error;
        struct view path = claim->path;
        bool is_prefix = path.data[path.size - 1] == '/';
        if (i > 0 && claim->own != adopt->own)
            adopt_batch(adopt);
        adopt->own = claim->own;
        if ((is_prefix ? adopt_prefix(adopt, path, &error) : adopt_key(adopt, path, &error)) ==
            HF_OK)
            continue;
        keep_adopt_error(adopt, &error);
        adopt->report->listed = false;
        if (error.status == HF_CANCELLED)
            break;
        adopt->report->failed += !is_prefix;
    }
    adopt_batch(adopt);
}

static enum hf_status take_paths(struct adopt *adopt, const struct view *paths, size_t count,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (count == 0 || count > PATHS_MAX)
        return error_set(error, HF_INVALID, "1 to %d prefixes or keys can be adopted at once",
                         PATHS_MAX);
    adopt->claims = calloc(count, sizeof *adopt->claims);
    adopt->files = calloc(INGEST_BATCH_MAX, sizeof *adopt->files);
    adopt->reads = calloc(INGEST_BATCH_MAX, sizeof *adopt->reads);
    if (!adopt->claims || !adopt->files || !adopt->reads)
        return error_no_memory(error);
    for (size_t i = 0; i < count && status == HF_OK; i++) {
        adopt->claims[i] = (struct prefix){ .path = paths[i], .own = adopt->asked->own };
        status = prefix_check(paths[i], error);
    }
    adopt->claim_count = count;
    return status;
}

static enum hf_status register_and_adopt(struct adopt *adopt, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    if (adopt->registered_at.us == 0)
        status = bucket_use_feature(adopt->ingest.tree->store, BUCKET_ADOPTED_OBJECTS, error);
    if (status == HF_OK)
        status = register_paths(adopt, error);
    if (status != HF_OK)
        return status;
    adopt_all(adopt);
    *error = adopt->first;
    return error->status;
}

/* A folder that cannot be used is found before anything is registered. */
static enum hf_status adopt_with_scratch(struct adopt *adopt, struct hf_error *error)
{
    const char *folder = adopt->asked->scratch;
    enum hf_status status =
        folder ? scratch_open(&adopt->scratch, adopt->ingest.tree->env, folder, error) : HF_OK;
    if (status != HF_OK)
        return status;
    status = register_and_adopt(adopt, error);
    ingest_release_schema(&adopt->ingest);
    if (folder)
        scratch_close(&adopt->scratch);
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
                           .registered_at = options->registered_at,
                           .arena = ARENA_INIT };
    adopt.options.argument = &adopt;
    adopt.ingest =
        (struct ingest){ .examine = examine_chosen,
                         .put = name_object,
                         .adopts = true,
                         .tree = tree,
                         .options = &adopt.options,
                         .patience = options->patience.us > 0 ? options->patience
                                                              : CATALOG_TREE_PATIENCE,
                         .arena = ARENA_INIT,
                         .schema = { .fd = -1 } };
    *ret_report = (struct adopt_report){ .registered_at = options->registered_at };
    error_clear(error);
    client_active(tree->client);
    enum hf_status status = take_paths(&adopt, paths, count, error);
    if (status == HF_OK)
        status = ingest_prepare(&adopt.ingest, error);
    if (status == HF_OK)
        status = adopt_with_scratch(&adopt, error);
    arena_release(&adopt.ingest.arena);
    arena_release(&adopt.arena);
    free(adopt.reads);
    free(adopt.files);
    free(adopt.claims);
    return status;
}
