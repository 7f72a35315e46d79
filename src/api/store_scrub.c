/* SPDX-License-Identifier: Apache-2.0 */
/* store_scrub.c: hf_store_scrub: reads a whole store, and reports objects that are damaged. */
#include "api/store.h"

#include "scrub/position.h"
#include "scrub/scrub.h"
#include "store/bucket.h"

#include <string.h>

struct scrubbing {
    struct hf_store_scrub_options options;
};

static bool tell_scrub_finding(void *argument, enum hf_scrub_kind kind, struct view key,
                               const char *why)
{
    const struct scrubbing *scrubbing = argument;
    char text[HF_KEY_BYTES_MAX + 1];
    if (!scrubbing->options.finding)
        return true;
    memcpy(text, key.data, key.size);
    text[key.size] = '\0';
    const struct hf_scrub_finding finding = {
        .struct_size = sizeof finding,
        .kind = kind,
        .key = text,
        .key_size = key.size,
        .why = why,
    };
    return scrubbing->options.finding(scrubbing->options.argument, &finding);
}

static bool tell_scrub_progress(void *argument, const struct hf_store_scrub_report *so_far)
{
    const struct scrubbing *scrubbing = argument;
    return !scrubbing->options.progress ||
           scrubbing->options.progress(scrubbing->options.argument, so_far);
}

/* ---- The position that is remembered ------------------------------------------------- */

/* Reads the note. If that fails, or the note is still the one that could not be replaced before,
 * the scrub continues where the last one of this handle ended. */
static enum hf_status begin_at_note(struct hf_store *store, struct scrub_position *ret_position,
                                    struct hf_error *error)
{
    enum hf_status status = scrub_position_read(store->store, ret_position, error);
    env_mutex_lock(&store->scrubbed.mutex);
    if (status != HF_OK ||
        (store->scrubbed.is_newer &&
         condition_equal(&store->scrubbed.unchanged, &ret_position->unchanged))) {
        memcpy(ret_position->after, store->scrubbed.after, store->scrubbed.size);
        ret_position->size = store->scrubbed.size;
    }
    env_mutex_unlock(&store->scrubbed.mutex);
    return status;
}

/* Writes the note, unless it could not be read. If another process has written it meanwhile, that
 * position stays. */
static enum hf_status note_scrub_end(struct hf_store *store, const struct scrub_position *read,
                                     enum hf_status was_read,
                                     const struct hf_store_scrub_report *report,
                                     struct hf_error *error)
{
    struct view after = { report->position, report->position_size };
    enum hf_status status = was_read;
    if (was_read == HF_OK)
        status = scrub_position_write(store->store, read, after, error);
    if (status == HF_CONFLICT || status == HF_NOT_FOUND)
        status = error_clear(error);
    env_mutex_lock(&store->scrubbed.mutex);
    if (was_read == HF_OK) {
        store->scrubbed.is_newer = status != HF_OK;
        store->scrubbed.unchanged = read->unchanged;
    }
    memcpy(store->scrubbed.after, after.data, after.size);
    store->scrubbed.size = after.size;
    env_mutex_unlock(&store->scrubbed.mutex);
    return status;
}

/* ---- The call ------------------------------------------------------------------------ */

static enum hf_status check_remember(const struct hf_store_scrub_options *options,
                                     struct hf_error *error)
{
    if (options->remember && (options->after || options->prefix || options->documents))
        return error_set(error, HF_INVALID,
                         "remember cannot be used with after, prefix or documents");
    return HF_OK;
}

enum hf_status hf_store_scrub(struct hf_store *store,
                              const struct hf_store_scrub_options *options,
                              struct hf_store_scrub_report *ret_report, struct hf_error *error)
{
    struct scrubbing scrubbing = { .options = HF_STORE_SCRUB_OPTIONS };
    const struct hf_store_scrub_options *given = &scrubbing.options;
    struct hf_store_scrub_report report;
    struct hf_error why, note_why;
    if (ERROR_IF_NULL(&why, store) != HF_OK ||
        READ_OPTIONS(HF_STORE_SCRUB_OPTIONS, options, &scrubbing.options, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_SCRUB_REPORT, ret_report, &why) != HF_OK ||
        check_remember(given, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct scrub_position position = { .size = 0 };
    enum hf_status noted = HF_OK; /* whether the note could be read, and then written */
    if (given->remember)
        noted = begin_at_note(store, &position, &note_why);
    bool sealed = false; /* also if the format document cannot be read, which is a finding */
    (void)bucket_has_feature(store->store, BUCKET_CHECKSUMS, &sealed, &why);
    const struct scrub_options used = {
        .prefix = caller_view(given->prefix ? given->prefix : "", given->prefix_size),
        .after = given->remember
                     ? (struct view){ position.after, position.size }
                     : caller_view(given->after ? given->after : "", given->after_size),
        .documents = given->documents,
        .sealed = sealed,
        .rate_max = given->rate_max,
        .bytes_max = given->bytes_max,
        .tell = tell_scrub_finding,
        .go_on = tell_scrub_progress,
        .argument = &scrubbing,
    };
    enum hf_status status = scrub_run(store->store, &used, &report, &why);
    /* What was read before it was stopped need not be read again. What could not be read has been
     * reported; from there on, the next scrub gets further. */
    bool counts = status == HF_OK || status == HF_CANCELLED || scrub_is_of_store(status);
    if (given->remember && counts && (report.complete || report.position_size > 0))
        noted = note_scrub_end(store, &position, noted, &report, &note_why);
    scrub_position_release(&position);
    if (status == HF_OK && noted != HF_OK) {
        why = note_why;
        status = noted;
    }
    write_caller_report(ret_report, &report, sizeof report);
    return error_tell(error, status, &why);
}
