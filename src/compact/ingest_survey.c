/* ingest_survey.c: a file is looked through before it is put: what is in it, whether it may come
 * in, and its identity. */
#include "base/parse.h"
#include "compact/ingest_inside.h"
#include "merge/survey.h"

#include <inttypes.h>

static bool survey_step(void *context, uint64_t done, uint64_t total)
{
    (void)done;
    (void)total;
    return ingest_goes_on(context, 0);
}

static struct merge_options survey_options(struct ingest *ingest)
{
    const struct compact_settings *settings = &ingest->settings;
    struct merge_options options = MERGE_OPTIONS;
    options.format = settings->format;
    bool has_fields = options.format != MERGE_EXEC && options.format != MERGE_CONCAT;
    if (has_fields && settings->key.size)
        options.key = settings->key;
    if (has_fields && settings->time.size)
        options.time = settings->time;
    options.headless = settings->headless;
    options.record_bytes_max = CHUNK_RECORD_MAX;
    options.record_max_is_fixed = true;
    options.progress.step = survey_step;
    options.progress.context = ingest;
    return options;
}

/* By its bytes; or by the name that its owner gave it, behind a text with which no file begins by
 * accident. */
static void identify(const struct ingest *ingest, struct item *item,
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

/* The hour of its data, so that what is merged together is in one catalog. Where that is not the
 * file's own (there is no time in it, or the same name may be given to another file), any hour that
 * its identity decides. */
static int64_t choose_route(const struct ingest *ingest, const struct item *item,
                            bool times_known)
{
    if (times_known && ingest->options->id.size == 0)
        return item->chunk.min_ms;
    return (int64_t)(hash_xxh3(view_of(item->file_id)) >> 12);
}

static void fill_in(struct ingest *ingest, struct item *item, const struct survey *survey)
{
    int64_t now_ms = env_wall(ingest->shelf->env).us / 1000;
    item->coding = survey->coding;
    identify(ingest, item, survey);
    item->chunk = (struct chunk){
        .size = survey->size,
        .rows_known = survey->rows_counted,
        .rows = survey->rows,
        .min_ms = survey->times_known ? survey->min_ms : now_ms,
        .max_ms = survey->times_known ? survey->max_ms : now_ms,
        .writer = ingest->options->writer,
        .file_id = view_of(item->file_id),
        .crc32c = survey->crc32c,
    };
    item->route_ms = choose_route(ingest, item, survey->times_known);
    item->file->size = survey->size;
    item->file->rows = survey->rows;
    item->file->malformed = survey->malformed;
}

/* A chunk of which a merge would keep nothing, or at which it would fail, is not let in. */
static enum hf_status check_malformed(const struct ingest *ingest, const struct survey *survey,
                                      struct hf_error *error)
{
    bool all = survey->malformed == survey->rows;
    if (survey->malformed == 0 || (!all && survey->malformed <= ingest->settings.rejects_max))
        return HF_OK;
    if (all)
        error_set(error, HF_INVALID, "all %" PRIu64 " rows cannot be read", survey->rows);
    else
        error_set(error, HF_INVALID,
                  "%" PRIu64 " of %" PRIu64 " rows cannot be read, more than the %" PRIu64
                  " that may be rejected",
                  survey->malformed, survey->rows, ingest->settings.rejects_max);
    return error_set(error, HF_INVALID, "%s: record %" PRIu64 " %s", error->why,
                     survey->malformed_first, survey->malformed_why);
}

enum hf_status ingest_survey(struct ingest *ingest, struct item *item, struct hf_error *error)
{
    struct merge_options options = survey_options(ingest);
    struct survey survey;
    const char *path = item->file->path;
    if (!ingest_goes_on(ingest, 0))
        return ingest_stopped(error);
    bool is_there = stat(path, &item->seen) == 0;
    if (is_there && S_ISREG(item->seen.st_mode) && item->seen.st_size == 0)
        return error_set(error, HF_INVALID, "it is empty");
    enum hf_status status = merge_survey(ingest->shelf->env, &options, path, &survey, error);
    if (status == HF_OK)
        status = check_malformed(ingest, &survey, error);
    if (status == HF_OK)
        fill_in(ingest, item, &survey);
    return status;
}
