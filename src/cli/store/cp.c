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

enum hf_status store_end_open(struct cli *cli, struct view url, bool deletes, bool must_exist,
                              struct hf_store **ret_store)
{
    return deletes ? cli_open_for_deletes(cli, url, must_exist, ret_store)
                   : cli_open_url(cli, url, /* coordinates */ false, must_exist, ret_store);
}

static enum hf_status read_end_keys(struct cli *cli, struct store_ends *copy)
{
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
    return recursive
               ? HF_OK
               : hf_store_check_key(copy->target.data, copy->target.size,
                                    cli_has_option(cli, "force") && cli_given(cli, "force"),
                                    &cli->error);
}

/* The URL of the store that this option names or, without it, --store. */
static enum hf_status find_end_url(struct cli *cli, const char *option, struct view *ret_url)
{
    const char *text = option_text(cli, cli_given(cli, option) ? option : "store");
    *ret_url = (struct view){ text, text ? strlen(text) : 0 };
    return cli_find_store(cli, ret_url);
}

static enum hf_status refuse_same(struct cli *cli, const struct store_place *from,
                                  const struct store_place *to, struct view *ret_source_there)
{
    struct overlap overlap;
    enum hf_status status = places_overlap(cli, from, to, &overlap);
    if (status != HF_OK)
        return status;
    if (overlap.to_in_from && overlap.from_in_to)
        return cli_invalid(cli,
                           "source and target are the same; name a TARGET, --from or --to");
    if (overlap.to_in_from && cli_given(cli, "recursive"))
        return cli_invalid(cli,
                           "TARGET starts with SOURCE, so the copies would be copied again");
    *ret_source_there = overlap.from_there;
    return HF_OK;
}

/* If source and target are the same store, it is opened only once, because a mem: store cannot be
 * opened twice. */
enum hf_status store_ends_open(struct cli *cli, struct store_ends *copy, bool deletes)
{
    enum hf_status status = read_end_keys(cli, copy);
    struct store_place from = { .prefix = copy->source }, to = { .prefix = copy->target };
    if (status == HF_OK)
        status = find_end_url(cli, "from", &from.url);
    if (status == HF_OK)
        status = find_end_url(cli, "to", &to.url);
    if (status == HF_OK)
        status = refuse_same(cli, &from, &to, &copy->source_there);
    if (status == HF_OK)
        status = store_end_open(cli, from.url, deletes, /* must_exist */ true, &copy->from);
    if (status == HF_OK && view_equal(from.url, to.url))
        copy->to = copy->from;
    else if (status == HF_OK)
        status =
            store_end_open(cli, to.url, /* deletes */ false, /* must_exist */ false, &copy->to);
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
        options.source_in_target = recursive ? copy.source_there.data : NULL;
        options.source_in_target_size = copy.source_there.size;
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
