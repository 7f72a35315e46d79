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

enum hf_status hf_store_scrub(struct hf_store *store,
                              const struct hf_store_scrub_options *options,
                              struct hf_store_scrub_report *ret_report, struct hf_error *error)
{
    struct scrubbing scrubbing = { .options = HF_STORE_SCRUB_OPTIONS };
    const struct hf_store_scrub_options *given = &scrubbing.options;
    struct hf_store_scrub_report report;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store) != HF_OK ||
        READ_OPTIONS(HF_STORE_SCRUB_OPTIONS, options, &scrubbing.options, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_SCRUB_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    struct scrub_position position = { .after = "" };
    if (given->remember && (given->after || given->prefix))
        error_set(&why, HF_INVALID, "remember cannot be used with after or prefix");
    else if (given->remember)
        scrub_position_read(store->store, &position, &why);
    if (given->remember && why.status != HF_OK)
        return error_tell(error, why.status, &why);
    struct view after = given->remember
                            ? view_of(position.after)
                            : caller_view(given->after ? given->after : "", given->after_size);
    bool sealed = false; /* also if the format document cannot be read, which is a finding */
    (void)bucket_has_feature(store->store, BUCKET_CHECKSUMS, &sealed, &why);
    const struct scrub_options used = {
        .prefix = caller_view(given->prefix ? given->prefix : "", given->prefix_size),
        .after = after,
        .documents = given->documents,
        .sealed = sealed,
        .rate_max = given->rate_max,
        .bytes_max = given->bytes_max,
        .tell = tell_scrub_finding,
        .go_on = tell_scrub_progress,
        .argument = &scrubbing,
    };
    enum hf_status status = scrub_run(store->store, &used, &report, &why);
    /* What was read before it was stopped need not be read again. */
    if (given->remember && (status == HF_OK || status == HF_CANCELLED) &&
        (report.complete || report.position_size > 0)) {
        struct hf_error unkept;
        enum hf_status kept = scrub_position_write(
            store->store, (struct view){ report.position, report.position_size }, &unkept);
        if (kept != HF_OK && status == HF_OK) {
            why = unkept;
            status = kept;
        }
    }
    write_caller_report(ret_report, &report, sizeof report);
    return error_tell(error, status, &why);
}
