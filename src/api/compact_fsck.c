/* compact_fsck.c: whether a bucket is what its catalogs say. */
#include "base/arena.h"
#include "base/layout.h"
#include "base/options.h"
#include "compact/fsck.h"

#include <assert.h>
#include <stdlib.h>

#define SAME_KIND(name, word, about) \
    static_assert((int)HF_FSCK_##name == (int)FSCK_##name, "the tables are in one order");
HF_FSCK_KIND_TABLE(SAME_KIND)
static_assert((int)HF_FSCK_KIND_COUNT == (int)FSCK_KIND_COUNT, "and equally long");

const char *hf_fsck_kind_name(enum hf_fsck_kind kind)
{
    return (unsigned)kind < HF_FSCK_KIND_COUNT ? fsck_kind_name((enum fsck_kind)kind) : "";
}

const char *hf_fsck_kind_text(enum hf_fsck_kind kind)
{
    return (unsigned)kind < HF_FSCK_KIND_COUNT ? fsck_kind_about((enum fsck_kind)kind) : "";
}

struct checking {
    const struct hf_fsck_options *options;
    bool stopped;   /* by `finding`: enough was seen */
    bool no_memory; /* to tell one */
};

static void tell_finding(void *argument, const struct fsck_finding *finding)
{
    struct checking *checking = argument;
    struct arena arena = ARENA_INIT;
    if (checking->stopped || checking->no_memory)
        return;
    const struct hf_fsck_finding told = {
        .struct_size = sizeof told,
        .kind = (enum hf_fsck_kind)finding->kind,
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

static bool ask_progress(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                         uint64_t bytes_done)
{
    struct checking *checking = argument;
    const struct hf_fsck_options *options = checking->options;
    if (checking->stopped || checking->no_memory)
        return false;
    return !options->progress ||
           options->progress(options->argument, chunks_done, chunks_total, bytes_done);
}

static struct hf_fsck_report report_of(const struct fsck_report *report)
{
    struct hf_fsck_report told = HF_FSCK_REPORT;
    told.catalogs = report->catalogs;
    told.chunks = report->chunks;
    told.tombstones = report->tombstones;
    told.deleting = report->deleting;
    told.objects = report->objects;
    told.bytes_read = report->bytes_read;
    told.rows = report->rows;
    told.found = report->found;
    told.repaired = report->repaired;
    told.young = report->young;
    return told;
}

/* An age of zero means the usual one down there. */
static struct span age_of(int64_t age_ms)
{
    return age_ms < 0 ? SPAN_US(1) : SPAN_MS(age_ms);
}

enum hf_status hf_compact_fsck(struct hf_client *client, const char *partition,
                               const struct hf_fsck_options *options,
                               struct hf_fsck_report *report, struct hf_error *error)
{
    struct hf_fsck_options given = HF_FSCK_OPTIONS;
    struct checking checking = { .options = &given };
    struct fsck_report found = { 0 };
    struct hf_error why;
    if (ERROR_IF_NULL(error, client) != HF_OK)
        return HF_INVALID;
    enum hf_status status =
        read_caller_options("HF_FSCK_OPTIONS", options, &given, sizeof given, error);
    if (status == HF_OK)
        status = check_caller_report("HF_FSCK_REPORT", report, error);
    if (status != HF_OK)
        return status;
    if (partition && !layout_partition_valid(view_of(partition)))
        return error_set(error, HF_INVALID, "'%.80s' is not the name of a partition",
                         partition);
    const char *temporary = getenv("TMPDIR");
    struct fsck_options used = {
        .repair = given.repair,
        .shallow = given.shallow,
        .age = age_of(given.age_ms),
        .scratch = given.scratch_folder                ? given.scratch_folder
                   : temporary && temporary[0] != '\0' ? temporary
                                                       : "/tmp",
        .tell = tell_finding,
        .go_on = ask_progress,
        .argument = &checking,
    };
    client_active(client);
    status = fsck_run(client->store, client, view_of(partition ? partition : ""), &used, &found,
                      &why);
    if (status == HF_CANCELLED && checking.stopped)
        status = HF_OK;
    if (checking.no_memory)
        status = error_no_memory(&why);
    struct hf_fsck_report told = report_of(&found);
    if (status == HF_OK)
        write_caller_report(report, &told, sizeof told);
    return error_tell(error, status, &why);
}
