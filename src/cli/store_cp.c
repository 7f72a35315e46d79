/* store_cp.c: `store cp`: objects from one store to another, or within one. */
#include "base/parse.h"
#include "cli/connect.h"
#include "cli/json_add.h"
#include "cli/progress.h"
#include "cli/store.h"

#include <inttypes.h>

struct copy {
    struct cli *cli;
    struct hf_store *from;
    struct hf_store *to; /* may be the same as `from` */
    struct view source;
    struct view target;
    struct hf_store_copy_report report;
};

/* ---- What is told -------------------------------------------------------------------- */

/* Whoever reads along sees it at once; when nobody does any more, it is over. */
static bool tell_object(void *argument, const struct hf_store_copied *copied)
{
    struct cli *cli = argument;
    json_t *line = json_object();
    if (!cli->json)
        return true;
    json_add_count(&line, "size_bytes", copied->size);
    json_add_crc32c(&line, "crc32c", copied->crc32c);
    json_add_bool(&line, "copied", copied->copied);
    json_add_key(&line, "from", (struct view){ copied->source, copied->source_size });
    json_add_key(&line, "to", (struct view){ copied->target, copied->target_size });
    output_json(&cli->out, line);
    output_flush(&cli->out, /* error */ NULL);
    return !output_is_closed(&cli->out);
}

static void tell_counts(struct cli *cli, const struct hf_store_copy_report *report)
{
    char size[SIZE_TEXT_MAX];
    if (cli->json)
        output_json(&cli->out, json_pack("{s:I, s:I, s:I, s:I}", "objects_copied",
                                         (json_int_t)report->copied, "copied_bytes",
                                         (json_int_t)report->copied_bytes, "objects_equal",
                                         (json_int_t)report->equal, "objects_vanished",
                                         (json_int_t)report->vanished));
    else if (!cli->quiet)
        output_print(&cli->out,
                     "copied %" PRIu64 " (%s), already there %" PRIu64
                     ", vanished meanwhile %" PRIu64 "\n",
                     report->copied, size_text(report->copied_bytes, size), report->equal,
                     report->vanished);
}

/* ---- The command --------------------------------------------------------------------- */

static struct view url_of(struct cli *cli, const char *option)
{
    const struct option_value *value = cli_option(cli, option);
    if (!value)
        value = cli_option(cli, "store");
    return value ? value->text : (struct view){ NULL, 0 };
}

/* Both sides open once when they are the same store: mem: has no second door. */
static enum hf_status open_both(struct copy *copy)
{
    struct cli *cli = copy->cli;
    struct view from = url_of(cli, "from"), to = url_of(cli, "to");
    bool same = (!from.data && !to.data) || (from.data && to.data && view_equal(from, to));
    if (same && view_equal(copy->source, copy->target))
        return error_set(&cli->error, HF_INVALID,
                         "source and target are the same; name a TARGET, --from or --to");
    if (same && cli_given(cli, "recursive") && view_starts_with(copy->target, copy->source))
        return error_set(&cli->error, HF_INVALID,
                         "TARGET starts with SOURCE, so the copies would be copied again");
    enum hf_status status = cli_find_store(cli, &from);
    if (status == HF_OK)
        status = cli_open_url(cli, from, /* coordinates */ false, /* must_exist */ true,
                              &copy->from);
    copy->to = copy->from;
    if (status != HF_OK || same)
        return status;
    copy->to = NULL;
    status = cli_find_store(cli, &to);
    if (status == HF_OK)
        status =
            cli_open_url(cli, to, /* coordinates */ false, /* must_exist */ false, &copy->to);
    return status;
}

static enum hf_status read_names(struct copy *copy)
{
    struct cli *cli = copy->cli;
    enum hf_status status = cli_key(cli, 0, &copy->source);
    if (status == HF_OK)
        status = cli_key(cli, 1, &copy->target);
    if (status != HF_OK)
        return status;
    if (!copy->source.data)
        copy->source = VIEW("");
    if (!copy->target.data)
        copy->target = copy->source;
    if (cli_given(cli, "recursive"))
        return HF_OK;
    if (copy->source.size == 0 || copy->target.size == 0)
        return error_set(&cli->error, HF_INVALID,
                         "name the SOURCE; everything is copied only with --recursive");
    return hf_store_check_key(copy->target.data, copy->target.size, cli_given(cli, "force"),
                              &cli->error);
}

static enum hf_status copy_objects(struct copy *copy)
{
    struct cli *cli = copy->cli;
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct gauge gauge;
    gauge_start(&gauge, cli, VIEW("store cp"));
    options.source_size = copy->source.size;
    options.target_size = copy->target.size;
    options.if_absent = cli_given(cli, "if-absent");
    options.force = cli_given(cli, "force");
    options.count_first = gauge.visible; /* only a bar that is seen needs to know the whole */
    options.each = tell_object;
    options.each_argument = cli;
    options.progress = gauge_watch;
    options.progress_argument = &gauge;
    enum hf_status status = (cli_given(cli, "recursive") ? hf_store_copy_all : hf_store_copy)(
        copy->from, copy->source.data, copy->to, copy->target.data, &options, &copy->report,
        &cli->error);
    gauge_clear(&gauge);
    if (status == HF_OK && output_is_closed(&cli->out))
        status = output_flush(&cli->out, &cli->error);
    return status;
}

enum hf_status run_store_cp(struct cli *cli)
{
    struct copy copy = { .cli = cli, .report = HF_STORE_COPY_REPORT };
    enum hf_status status = read_names(&copy);
    if (status == HF_OK)
        status = open_both(&copy);
    if (status == HF_OK)
        status = copy_objects(&copy);
    if (status == HF_OK)
        tell_counts(cli, &copy.report);
    if (copy.to != copy.from)
        hf_store_close(copy.to);
    hf_store_close(copy.from);
    return status;
}
