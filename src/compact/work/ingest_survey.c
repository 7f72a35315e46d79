/* SPDX-License-Identifier: Apache-2.0 */
/* ingest_survey.c: surveys a file before it is put: its contents, whether it is acceptable, and its
 * identity. A chunk with which every later merge would fail must not be added to a catalog. */
#include "base/parse.h"
#include "compact/work/ingest_inside.h"
#include "merge/key.h"
#include "merge/survey.h"

#include <inttypes.h>

static bool survey_step(void *context, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ingest_goes_on(context, 0);
}

/* The identity is computed from the bytes or from the owner's id. The id is hashed with a prefix,
 * so that an id equal to the contents of a file does not give the identity of that file. */
static void identify(const struct ingest *ingest, struct ingest_item *item,
                     const struct survey *survey)
{
    unsigned char digest[SHA256_BYTES];
    struct view id = ingest->options->id;
    memcpy(digest, survey->sha256, sizeof digest);
    if (id.size > 0) {
        struct hash_sha256_stream stream;
        hash_sha256_init(&stream);
        hash_sha256_add(&stream, VIEW("the file that is named\0"));
        hash_sha256_add(&stream, id);
        hash_sha256_end(&stream, digest);
    }
    hex_encode(digest, FILE_ID_DIGITS / 2, item->file_id);
}

int64_t ingest_route_of(struct view file_id)
{
    return (int64_t)(hash_xxh3(file_id) >> 12);
}

void ingest_describe(struct ingest *ingest, struct ingest_item *item,
                     const struct survey *survey)
{
    /* Without records, a chunk of timed records is dated as early as possible. If it counted as the
     * newest, the retention would be counted back from it, and would expire the others. */
    bool timed = ingest->settings.time.size > 0;
    int64_t undated_ms = timed ? 0 : env_wall(ingest->tree->env).us / 1000;
    item->coding = survey->coding;
    item->chunk.size = survey->size;
    item->chunk.rows_known = survey->rows_counted;
    item->chunk.rows = survey->rows;
    item->chunk.min_ms = survey->times_known ? survey->min_ms : undated_ms;
    item->chunk.max_ms = survey->times_known ? survey->max_ms : undated_ms;
    item->chunk.crc32c = survey->crc32c;
    item->chunk.key_kinds = survey->key_kinds;
    item->chunk.markers = (struct chunk_markers){
        .known = survey->rows_counted && ingest->settings.deleted.size > 0,
        .count = survey->deletions,
        .ms = survey->deletion_ms,
    };
    item->file->size = survey->size;
    item->file->rows = survey->rows;
    item->file->malformed = survey->malformed;
}

static void fill_in_item(struct ingest *ingest, struct ingest_item *item,
                         const struct survey *survey)
{
    identify(ingest, item, survey);
    item->chunk =
        (struct chunk){ .writer = ingest->options->writer, .file_id = view_of(item->file_id) };
    ingest_describe(ingest, item, survey);
    /* Files are routed by the hour of their data, so chunks that are merged together share a
     * catalog. The route must depend on the identity alone: two clients that ingest the same file
     * must change the same document, whose swap then refuses the second. So if the identity does
     * not determine the hour (no times, or an id that another file may use), it selects one. */
    item->route_ms = survey->times_known && ingest->options->id.size == 0
                         ? item->chunk.min_ms
                         : ingest_route_of(view_of(item->file_id));
}

/* Refuses a file if a merge would keep none of its rows, or would fail because of it. */
static enum hf_status check_malformed(const struct ingest *ingest, const struct survey *survey,
                                      struct hf_error *error)
{
    bool all = survey->malformed == survey->rows;
    if (survey->malformed == 0 || (!all && survey->malformed <= ingest->settings.rejects_max))
        return HF_OK;
    if (all)
        error_set(error, HF_INVALID, "none of the %" PRIu64 " rows can be read", survey->rows);
    else
        error_set(error, HF_INVALID,
                  "%" PRIu64 " of %" PRIu64 " rows cannot be read, more than the %" PRIu64
                  " that may be rejected",
                  survey->malformed, survey->rows, ingest->settings.rejects_max);
    return error_set(error, HF_INVALID, "%s: record %" PRIu64 " %s", error->why,
                     survey->malformed_first, survey->malformed_why);
}

static const char *kind_word(unsigned kind)
{
    return kind == MERGE_KEY_NUMBER ? "a number" : "a string";
}

enum hf_status ingest_check_kinds(const struct compact_settings *settings, unsigned of_chunks,
                                  unsigned of_file, struct hf_error *error)
{
    char space[KEY_TEXT_MAX];
    struct merge_key key;
    if (of_file == 0 ||
        key_parse(settings->key, /* by_name */ true, space, &key, error) != HF_OK)
        return HF_OK;
    for (size_t i = 0; i < key.count; i++) {
        unsigned shift = MERGE_KEY_KIND_BITS * (unsigned)i;
        unsigned before = of_chunks >> shift & MERGE_KEY_BOTH;
        unsigned kind = of_file >> shift & MERGE_KEY_BOTH;
        struct view name = view_first(key.parts[i].field.name, 60);
        if (before == MERGE_KEY_BOTH || (before | kind) != MERGE_KEY_BOTH)
            continue;
        if (kind == MERGE_KEY_BOTH)
            return error_set(
                error, HF_INVALID,
                "the key '%.*s' is a string in some records and a number in others",
                VIEW_ARGS(name));
        return error_set(error, HF_INVALID,
                         "the key '%.*s' is %s, but %s in the partition: convert the file, or "
                         "ingest it into another partition",
                         VIEW_ARGS(name), kind_word(kind), kind_word(before));
    }
    return HF_OK;
}

enum hf_status ingest_inspect(struct ingest *ingest, const char *path,
                              struct survey *ret_survey, struct hf_error *error)
{
    struct merge_options options = compact_chunk_options(&ingest->settings);
    options.progress.step = survey_step;
    options.progress.context = ingest;
    options.columns_like = ingest_schema_path(ingest);
    enum hf_status status = merge_survey(ingest->tree->env, &options, path, ret_survey, error);
    return status == HF_OK ? check_malformed(ingest, ret_survey, error) : status;
}

enum hf_status ingest_survey(struct ingest *ingest, struct ingest_item *item,
                             struct hf_error *error)
{
    struct survey survey;
    const char *path = item->file->path;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    bool is_there = stat(path, &item->seen) == 0;
    if (is_there && S_ISREG(item->seen.st_mode) && item->seen.st_size == 0)
        return error_set(error, HF_INVALID, "it is empty");
    enum hf_status status = ingest_inspect(ingest, path, &survey, error);
    if (status == HF_OK) {
        fill_in_item(ingest, item, &survey);
        ingest_follow_schema(ingest, path);
    }
    return status;
}
