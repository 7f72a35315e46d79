/* SPDX-License-Identifier: Apache-2.0 */
/* compact_adopt.c: adopts objects that are in the bucket, and reports each of them; lists and
 * releases the paths that are registered for that. */
#include "api/compact_inside.h"
#include "compact/care/release.h"
#include "compact/catalog/prefixes.h"
#include "compact/work/adopt_manifest.h"

#include <stdlib.h>

struct adopting {
    struct hf_compact_adopt_options options;
    struct hf_compact_adopt_report report;
    struct adopt_manifest *manifest;
    bool stopped; /* by `each` */
};

static bool adopting_goes_on(void *argument, size_t objects_done, uint64_t bytes_done)
{
    const struct adopting *adopting = argument;
    const struct hf_compact_adopt_options *options = &adopting->options;
    if (adopting->stopped)
        return false;
    return !options->progress || options->progress(options->argument, objects_done, bytes_done);
}

static bool describe_object(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    const struct adopting *adopting = argument;
    return adopt_manifest_describe(adopting->manifest, key, ret_facts);
}

/* Every object is wanted; the manifest learns that it is there. */
static bool note_in_manifest(void *argument, struct view key, const struct etag *etag)
{
    const struct adopting *adopting = argument;
    (void)etag;
    if (adopting->manifest)
        adopt_manifest_listed(adopting->manifest, key);
    return true;
}

static void report_adopted(void *argument, const struct ingest_file *file, struct view etag)
{
    struct adopting *adopting = argument;
    struct hf_compact_adopt_report *report = &adopting->report;
    const struct hf_compact_adopt_options *options = &adopting->options;
    bool added = file->error.status == HF_OK && !file->already;
    (void)etag;
    const struct hf_compact_ingested told = ingested_of(file);
    report->bytes += added ? file->size : 0;
    report->rows += added ? file->rows : 0;
    report->malformed += added ? file->malformed : 0;
    if (options->each && !adopting->stopped)
        adopting->stopped = !options->each(options->argument, &told);
}

/* An object of the manifest that was not listed is not adopted, which must not go unnoticed. */
static enum hf_status check_all_used(struct adopting *adopting, struct hf_error *error)
{
    struct view first = VIEW("");
    uint64_t count = adopting->manifest && !adopting->stopped
                         ? adopt_manifest_unlisted(adopting->manifest, &first)
                         : 0;
    adopting->report.failed += count;
    if (count == 0)
        return HF_OK;
    return error_set(error, HF_NOT_FOUND,
                     "the manifest describes %.*s%s, but there is no such object under these "
                     "paths",
                     VIEW_ARGS(view_first(first, ERROR_PATH_MAX)),
                     count > 1 ? " and others" : "");
}

static enum hf_status adopt_objects(struct hf_compact *compact, struct adopting *adopting,
                                    const struct view *paths, size_t count,
                                    struct hf_error *error)
{
    const struct hf_compact_adopt_options *given = &adopting->options;
    struct env *env = client_env(compact->client);
    const char *writer = given->writer ? given->writer : client_holder(compact->client);
    struct adopt_report report;
    struct adopt_options options = {
        .own = given->own,
        .writer = view_first(view_of(writer), given->writer ? SIZE_MAX : WRITER_BYTES_MAX),
        .until = mono_add(env_now(env), span_of_ms(given->wait_ms)),
        .patience = span_of_ms(given->patience_ms),
        .scratch = compact->scratch,
        .describe = adopting->manifest ? describe_object : NULL,
        .wants = note_in_manifest,
        .each = report_adopted,
        .go_on = adopting_goes_on,
        .argument = adopting,
    };
    enum hf_status status = adopt_paths(compact->tree, paths, count, &options, &report, error);
    adopting->report.added = report.added;
    adopting->report.already = report.already;
    adopting->report.failed = report.failed;
    adopting->report.skipped = report.skipped;
    return status == HF_OK ? check_all_used(adopting, error) : status;
}

static enum hf_status adopt_strings(struct hf_compact *compact, struct adopting *adopting,
                                    const char *const *paths, size_t count,
                                    struct hf_error *error)
{
    const struct hf_compact_adopt_options *options = &adopting->options;
    if (options->wait_ms < 0 || options->patience_ms < 0)
        return error_set(error, HF_INVALID, "%s must not be negative",
                         options->wait_ms < 0 ? "wait_ms" : "patience_ms");
    struct view *views = calloc(count + 1, sizeof *views);
    if (!views)
        return error_no_memory(error);
    for (size_t i = 0; i < count; i++)
        views[i] = view_of(paths[i]);
    enum hf_status status =
        options->manifest ? adopt_manifest_read(options->manifest, &adopting->manifest, error)
                          : HF_OK;
    if (status == HF_OK)
        status = adopt_objects(compact, adopting, views, count, error);
    adopt_manifest_free(adopting->manifest);
    free(views);
    return status;
}

enum hf_status hf_compact_adopt(struct hf_compact *compact, const char *const *paths,
                                size_t count, const struct hf_compact_adopt_options *options,
                                struct hf_compact_adopt_report *report, struct hf_error *error)
{
    struct adopting adopting = { .options = HF_COMPACT_ADOPT_OPTIONS,
                                 .report = HF_COMPACT_ADOPT_REPORT };
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact, paths) != HF_OK ||
        error_if_null_among(error, "paths", paths, count) != HF_OK)
        return HF_INVALID;
    if (READ_OPTIONS(HF_COMPACT_ADOPT_OPTIONS, options, &adopting.options, &why) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_ADOPT_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    error_clear(&why);
    enum hf_status status = adopt_strings(compact, &adopting, paths, count, &why);
    write_caller_report(report, &adopting.report, sizeof adopting.report);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_release(struct hf_compact *compact, const char *path,
                                  struct hf_compact_release_report *report,
                                  struct hf_error *error)
{
    struct hf_compact_release_report told = HF_COMPACT_RELEASE_REPORT;
    struct release_report result;
    struct hf_error why;
    if (ERROR_IF_NULL(error, compact, path) != HF_OK)
        return HF_INVALID;
    if (CHECK_REPORT(HF_COMPACT_RELEASE_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = release_path(compact->tree, view_of(path), &result, &why);
    told.released = result.released;
    told.chunks = result.chunks;
    told.wait_ms = result.wait_ms;
    write_caller_report(report, &told, sizeof told);
    return error_tell(error, status, &why);
}

/* A registered path, kept until the document is no longer in use. */
struct noted_path {
    struct hf_compact_path told;
    struct noted_path *next;
};

struct path_listing {
    struct arena arena;
    struct noted_path *first, **end;
    bool no_memory;
};

static void note_path(void *argument, const struct prefix *prefix,
                      const struct evidence *evidence)
{
    struct path_listing *listing = argument;
    (void)evidence;
    struct noted_path *noted = arena_take(&listing->arena, sizeof *noted);
    const char *path = text_in(&listing->arena, prefix->path);
    if (!noted || !path) {
        listing->no_memory = true;
        return;
    }
    *noted = (struct noted_path){ .told = { .struct_size = sizeof noted->told,
                                            .path = path,
                                            .own = prefix->own,
                                            .releasing = prefix->releasing } };
    *listing->end = noted;
    listing->end = &noted->next;
}

enum hf_status hf_compact_paths(struct hf_compact *compact,
                                bool (*each)(void *argument,
                                             const struct hf_compact_path *path),
                                void *argument, struct hf_error *error)
{
    struct path_listing listing = { .arena = ARENA_INIT };
    struct hf_error why;
    listing.end = &listing.first;
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    if (!each)
        return error_set(error, HF_INVALID, "each must not be NULL");
    enum hf_status status = prefixes_show(compact->tree, note_path, &listing, &why);
    if (status == HF_OK && listing.no_memory)
        status = error_no_memory(&why);
    const struct noted_path *noted = status == HF_OK ? listing.first : NULL;
    while (noted && each(argument, &noted->told))
        noted = noted->next;
    arena_release(&listing.arena);
    return error_tell(error, status, &why);
}
