/* SPDX-License-Identifier: Apache-2.0 */
/* compact_drop.c: drops a partition. */
#include "api/compact_inside.h"
#include "compact/care/drop.h"

struct dropping {
    const struct hf_compact_drop_options *options;
    bool stopped;
};

static bool drop_goes_on(void *argument)
{
    struct dropping *dropping = argument;
    const struct hf_compact_drop_options *options = dropping->options;
    if (!dropping->stopped && options->progress)
        dropping->stopped = !options->progress(options->argument);
    return !dropping->stopped;
}

static void tell_report(const struct drop_report *left, struct hf_compact_drop_report *report)
{
    struct hf_compact_drop_report told = HF_COMPACT_DROP_REPORT;
    told.marked = left->marked;
    told.gone = left->gone;
    told.catalogs = left->catalogs;
    told.chunks = left->chunks;
    told.bytes = left->bytes;
    told.tombstones = left->tombstones;
    told.tombstone_bytes = left->tombstone_bytes;
    told.deleting = left->deleting;
    told.deleted = left->deleted;
    told.pinned = left->pinned;
    told.wait_ms = left->wait_ms;
    write_caller_report(report, &told, sizeof told);
}

enum hf_status hf_compact_drop(struct hf_compact *compact,
                               const struct hf_compact_drop_options *options,
                               struct hf_compact_drop_report *report, struct hf_error *error)
{
    struct hf_compact_drop_options given = HF_COMPACT_DROP_OPTIONS;
    struct dropping dropping = { .options = &given };
    struct drop_options step = { .go_on = drop_goes_on, .argument = &dropping };
    struct drop_report left = { .gone = false };
    struct hf_error why;
    if (ERROR_IF_NULL(&why, compact) != HF_OK ||
        READ_OPTIONS(HF_COMPACT_DROP_OPTIONS, options, &given, &why) != HF_OK ||
        CHECK_REPORT(HF_COMPACT_DROP_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = given.dry_run ? drop_count(compact->tree, &left, &why)
                                          : drop_step(compact->tree, &step, &left, &why);
    if (status == HF_OK && dropping.stopped)
        status = error_set(&why, HF_CANCELLED, "stopped before the partition was dropped");
    if (report)
        tell_report(&left, report);
    return error_tell(error, status, &why);
}
