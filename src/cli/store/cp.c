/* SPDX-License-Identifier: Apache-2.0 */
/* cp.c: `store cp`: copies objects from one store to another, or within one store. */
#include "cli/output/progress.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

const struct field copied_record[] = COPIED_RECORD;
const struct field copy_record[] = COPY_RECORD;

/* Flushes each line, so a reader sees it immediately. Stops the copy if the reader is gone. */
static bool tell_object(void *argument, const struct hf_store_copied *copied)
{
    struct cli *cli = argument;
    if (!cli->json)
        return true;
    record_show(cli, copied_record, copied, NULL);
    output_flush(&cli->out, /* error */ NULL);
    return !output_is_closed(&cli->out);
}

/* If source and target are the same store, it is opened only once, because a mem: store cannot be
 * opened twice. */
enum hf_status store_ends_open(struct cli *cli, struct store_ends *copy, bool deletes)
{
    const char *from_url = option_text(cli, cli_given(cli, "from") ? "from" : "store");
    const char *to_url = option_text(cli, cli_given(cli, "to") ? "to" : "store");
    struct view from = { from_url, from_url ? strlen(from_url) : 0 };
    struct view to = { to_url, to_url ? strlen(to_url) : 0 };
    bool same = from_url && to_url ? strcmp(from_url, to_url) == 0 : from_url == to_url;
    bool recursive = cli_given(cli, "recursive");
    enum hf_status status = cli_key(cli, 0, &copy->source);
    if (status == HF_OK)
        status = cli_key(cli, 1, &copy->target);
    if (status != HF_OK)
        return status;
    if (!copy->source.data)
        copy->source = VIEW("");
    if (!copy->target.data)
        copy->target = copy->source;
    if (!recursive && (copy->source.size == 0 || copy->target.size == 0))
        return cli_invalid(cli, "SOURCE is missing; for all objects, use --recursive");
    if (!recursive)
        status = hf_store_check_key(copy->target.data, copy->target.size,
                                    cli_has_option(cli, "force") && cli_given(cli, "force"),
                                    &cli->error);
    if (status != HF_OK)
        return status;
    if (same && view_equal(copy->source, copy->target))
        return cli_invalid(cli,
                           "source and target are the same; name a TARGET, --from or --to");
    if (same && recursive && view_starts_with(copy->target, copy->source))
        return cli_invalid(cli,
                           "TARGET starts with SOURCE, so the copies would be copied again");
    status = cli_find_store(cli, &from);
    if (status == HF_OK && deletes)
        status = cli_open_for_deletes(cli, from, /* must_exist */ true, &copy->from);
    else if (status == HF_OK)
        status = cli_open_url(cli, from, /* coordinates */ false, /* must_exist */ true,
                              &copy->from);
    if (same)
        copy->to = copy->from;
    if (status == HF_OK && !same)
        status = cli_find_store(cli, &to);
    if (status == HF_OK && !same)
        status =
            cli_open_url(cli, to, /* coordinates */ false, /* must_exist */ false, &copy->to);
    return status;
}

void store_ends_close(struct store_ends *ends)
{
    if (ends->to != ends->from)
        hf_store_close(ends->to);
    hf_store_close(ends->from);
}

enum hf_status run_store_cp(struct cli *cli)
{
    struct store_ends copy = { .from = NULL };
    struct hf_store_copy_report report = HF_STORE_COPY_REPORT;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct gauge gauge;
    bool recursive = cli_given(cli, "recursive");
    enum hf_status status = filters_check(cli);
    if (status == HF_OK)
        status = store_ends_open(cli, &copy, /* deletes */ false);
    if (status == HF_OK) {
        gauge_start(&gauge, cli, VIEW("store cp"));
        options.source_size = copy.source.size;
        options.target_size = copy.target.size;
        options.if_absent = cli_given(cli, "if-absent");
        options.force = cli_given(cli, "force");
        options.count_first = gauge.visible; /* only a visible bar needs the total */
        options.each = tell_object;
        options.each_argument = cli;
        options.progress = gauge_watch;
        options.progress_argument = &gauge;
        options.choose = recursive ? filters_choose_key : NULL;
        options.choose_argument = cli;
        status = (recursive ? hf_store_copy_all
                            : hf_store_copy)(copy.from, copy.source.data, copy.to,
                                             copy.target.data, &options, &report, &cli->error);
        gauge_clear(&gauge);
    }
    if (status == HF_OK && output_is_closed(&cli->out))
        status = output_flush(&cli->out, &cli->error);
    if (status == HF_OK)
        record_tell(cli, copy_record, &report, COPY_TEXT);
    store_ends_close(&copy);
    return status;
}
