/* compact_fsck.c: `compact fsck`: whether the bucket is what its catalogs say. */
#include "base/parse.h"
#include "cli/compact.h"
#include "cli/connect.h"
#include "cli/lock.h"
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>

struct checking {
    struct cli *cli;
    struct gauge gauge;
    struct hf_fsck_report report;
    uint64_t findings[HF_FSCK_KIND_COUNT];
};

static json_t *finding_as_json(const struct hf_fsck_finding *finding)
{
    json_t *object = json_object();
    json_add(&object, "kind", json_string(hf_fsck_kind_name(finding->kind)));
    json_add_key(&object, "key", view_of(finding->key));
    json_add_key(&object, "partition", view_of(finding->partition));
    json_add_words(&object, "why", view_of(finding->why));
    json_add_bool(&object, "repaired", finding->repaired);
    json_add_words(&object, "repair", view_of(finding->repair));
    return object;
}

/* "missing-object  data/...: the reason; can be quarantined" */
static bool tell_finding(void *argument, const struct hf_fsck_finding *finding)
{
    struct checking *checking = argument;
    struct output *out = &checking->cli->out;
    checking->findings[finding->kind]++;
    gauge_clear(&checking->gauge);
    if (checking->cli->json) {
        output_json(out, finding_as_json(finding));
        return true;
    }
    output_print(out, "%-17s ", hf_fsck_kind_name(finding->kind));
    output_key(out, view_of(finding->key));
    output_text(out, ": ");
    output_words(out,
                 view_of(finding->why[0] ? finding->why : hf_fsck_kind_text(finding->kind)));
    if (finding->repair[0]) {
        output_text(out, "; ");
        output_words(out, view_of(finding->repair));
    }
    output_text(out, "\n");
    return true;
}

/* Shown by chunks, since how many bytes there are to come is not known. */
static bool go_on(void *argument, uint64_t chunks_done, uint64_t chunks_total,
                  uint64_t bytes_done)
{
    struct checking *checking = argument;
    (void)chunks_done;
    (void)chunks_total;
    return gauge_step(&checking->gauge, bytes_done, /* total */ 0);
}

static json_t *report_as_json(const struct checking *checking)
{
    const struct hf_fsck_report *report = &checking->report;
    json_t *object = json_object(), *findings = json_object();
    json_add_count(&object, "catalogs", report->catalogs);
    json_add_count(&object, "chunks", report->chunks);
    json_add_count(&object, "tombstones", report->tombstones);
    json_add_count(&object, "deleting", report->deleting);
    json_add_count(&object, "objects", report->objects);
    json_add_count(&object, "read_bytes", report->bytes_read);
    json_add_count(&object, "rows", report->rows);
    json_add_count(&object, "found_count", report->found);
    json_add_count(&object, "repaired_count", report->repaired);
    json_add_count(&object, "young", report->young);
    for (unsigned i = 0; i < HF_FSCK_KIND_COUNT; i++)
        json_add_count(&findings, hf_fsck_kind_name((enum hf_fsck_kind)i),
                       checking->findings[i]);
    json_add(&object, "findings", findings);
    return object;
}

static void tell_report(struct checking *checking)
{
    struct cli *cli = checking->cli;
    const struct hf_fsck_report *report = &checking->report;
    char size[SIZE_TEXT_MAX];
    if (cli->json) {
        output_json(&cli->out, report_as_json(checking));
        return;
    }
    if (cli->quiet)
        return;
    output_count(&cli->out, report->catalogs, "catalog");
    output_print(&cli->out,
                 ", %" PRIu64 " chunks, %" PRIu64 " tombstones, %" PRIu64 " deleting, %" PRIu64
                 " objects, %s read: %" PRIu64 " found, %" PRIu64 " repaired\n",
                 report->chunks, report->tombstones, report->deleting, report->objects,
                 size_text(report->bytes_read, size), report->found, report->repaired);
    if (report->young > 0)
        output_print(&cli->out,
                     "%" PRIu64 " objects that no catalog knows are too young to be told\n",
                     report->young);
}

/* What stands as it was found is for somebody to look at. */
static enum hf_status judge(struct checking *checking)
{
    struct cli *cli = checking->cli;
    uint64_t left = checking->report.found - checking->report.repaired;
    if (left == 0)
        return HF_OK;
    return error_set(&cli->error, HF_CORRUPT,
                     "%" PRIu64 " of %" PRIu64 " findings %s as it was found%s", left,
                     checking->report.found, left == 1 ? "stands" : "stand",
                     cli_given(cli, "repair") ? "" : "; --repair puts right what can be");
}

/* An age of zero, when it is asked for, must not be taken for the usual one. */
static int64_t age_option(struct cli *cli)
{
    const struct option_value *age = cli_option(cli, "older-than");
    if (!age)
        return 0;
    return age->span.us >= 1000 ? age->span.us / 1000 : -1;
}

enum hf_status run_compact_fsck(struct cli *cli)
{
    struct hf_client *client = NULL;
    struct checking checking = { .cli = cli, .report = HF_FSCK_REPORT };
    struct hf_fsck_options options = HF_FSCK_OPTIONS;
    options.repair = cli_given(cli, "repair");
    options.shallow = cli_given(cli, "shallow");
    options.age_ms = age_option(cli);
    options.scratch_folder = scratch_folder(cli);
    options.finding = tell_finding;
    options.progress = go_on;
    options.argument = &checking;
    enum hf_status status = cli_connect(cli, HF_CLIENT_OPTIONS, &client);
    if (status == HF_OK) {
        gauge_start(&checking.gauge, cli, VIEW("fsck"));
        status = hf_compact_fsck(client, option_text(cli, "partition"), &options,
                                 &checking.report, &cli->error);
        gauge_clear(&checking.gauge);
    }
    if (status == HF_OK) {
        tell_report(&checking);
        status = judge(&checking);
    }
    hf_client_close(client);
    return status;
}
