/* SPDX-License-Identifier: Apache-2.0 */
/* compact_fsck.c: checks that the objects in a bucket match its catalogs, and repairs differences
 * on request. */
#include "base/arena.h"
#include "base/layout.h"
#include "base/options.h"
#include "compact/fsck/fsck.h"
#include "file/new_file.h"

#include <stdlib.h>

struct checking {
    const struct hf_fsck_options *options;
    bool stopped;   /* the caller's `finding` returned false */
    bool no_memory; /* a finding could not be reported */
};

static void report_finding(void *argument, const struct fsck_finding *finding)
{
    struct checking *checking = argument;
    struct arena arena = ARENA_INIT;
    if (checking->stopped || checking->no_memory)
        return;
    const struct hf_fsck_finding told = {
        .struct_size = sizeof told,
        .kind = finding->kind,
        .key = arena_copy(&arena, finding->key).data,
        .partition = arena_copy(&arena, finding->partition).data,
        .why = finding->why ? finding->why : "",
        .repaired = finding->repaired,
        .repair = finding->repair ? finding->repair : "",
    };
    checking->no_memory = !told.key || !told.partition;
    if (!checking->no_memory && checking->options->finding)
        checking->stopped = !checking->options->finding(checking->options->argument, &told);
    arena_release(&arena);
}

static bool report_fsck_progress(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                                 uint64_t bytes_done)
{
    struct checking *checking = argument;
    const struct hf_fsck_options *options = checking->options;
    if (checking->stopped || checking->no_memory)
        return false;
    return !options->progress ||
           options->progress(options->argument, chunks_done, chunks_total, bytes_done);
}

enum hf_status hf_compact_fsck(struct hf_client *client, const char *partition,
                               const struct hf_fsck_options *options,
                               struct hf_fsck_report *report, struct hf_error *error)
{
    struct hf_fsck_options given = HF_FSCK_OPTIONS;
    struct checking checking = { .options = &given };
    struct hf_fsck_report found;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, client) != HF_OK ||
        READ_OPTIONS(HF_FSCK_OPTIONS, options, &given, &why) != HF_OK ||
        CHECK_REPORT(HF_FSCK_REPORT, report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (partition && !layout_partition_valid(view_of(partition)))
        return error_set(error, HF_INVALID, "'%.80s' is not a partition name", partition);
    struct fsck_options used = {
        .repair = given.repair,
        .shallow = given.shallow,
        /* 0 means the default, so a negative age becomes the shortest possible age. */
        .age = given.age_ms < 0 ? SPAN_US(1) : span_of_ms(given.age_ms),
        .scratch = scratch_or_usual(given.scratch_folder),
        .tell = report_finding,
        .go_on = report_fsck_progress,
        .argument = &checking,
    };
    client_active(client);
    enum hf_status status = fsck_run(client_store(client), client,
                                     view_of(partition ? partition : ""), &used, &found, &why);
    if (status == HF_CANCELLED && checking.stopped)
        status = HF_OK;
    if (checking.no_memory)
        status = error_no_memory(&why);
    if (status == HF_OK)
        write_caller_report(report, &found, sizeof found);
    return error_tell(error, status, &why);
}
