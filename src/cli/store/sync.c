/* SPDX-License-Identifier: Apache-2.0 */
/* sync.c: `store sync`: makes the objects of one place equal to those of another. A place is a
 * store, or the objects of a store whose keys start with a prefix: STORE#PREFIX. */
#include "cli/output/progress.h"
#include "cli/output/record.h"
#include "cli/store/store.h"

struct synced_object {
    struct view from, to;
    uint64_t size;
    const char *action;
    bool done;
};

struct synced_all {
    struct hf_store_copy_report report;
    bool done;
};

const struct field synced_object_record[] = SYNCED_OBJECT_RECORD;
const struct field synced_all_record[] = SYNCED_ALL_RECORD;

/* ---- Places -------------------------------------------------------------------------- */

static enum hf_status read_sync_place(struct cli *cli, size_t index,
                                      struct store_place *ret_place)
{
    struct view text = cli_argument(cli, index);
    size_t end = view_find(text, '#');
    struct view prefix = end < text.size ? view_from(text, end + 1) : VIEW("");
    if (prefix.size > KEY_BYTES_MAX)
        return cli_invalid(cli, "the prefix after '#' has more than %d bytes", KEY_BYTES_MAX);
    struct view url = arena_copy(&cli->arena, view_first(text, end)); /* adds a NUL */
    if (!url.data)
        return error_no_memory(&cli->error);
    enum hf_status status = cli_find_store(cli, &url);
    if (status == HF_OK)
        *ret_place = (struct store_place){ url, prefix };
    return status;
}

static enum hf_status refuse_overlap(struct cli *cli, const struct store_place *from,
                                     const struct store_place *to)
{
    struct overlap overlap;
    enum hf_status status = places_overlap(cli, from, to, &overlap);
    if (status == HF_OK && (overlap.to_in_from || overlap.from_in_to))
        status = cli_invalid(cli, "FROM and TO overlap: one of them contains the objects of "
                                  "the other");
    return status;
}

static bool sync_deletes(struct cli *cli)
{
    return cli_given(cli, "delete") && !cli_given(cli, "dry-run");
}

/* A trial creates no store: a local store that does not exist yet counts as empty. */
static enum hf_status open_target(struct cli *cli, struct view url, struct hf_store **ret_store)
{
    if (cli_given(cli, "dry-run") &&
        hf_store_check_present(url.data, &cli->error) == HF_NOT_FOUND)
        url = VIEW("mem:");
    return store_end_open(cli, url, sync_deletes(cli), /* must_exist */ false, ret_store);
}

static enum hf_status open_places(struct cli *cli, struct store_ends *ends)
{
    struct store_place from, to;
    enum hf_status status = HF_OK;
    if (cli_given(cli, "store"))
        return cli_invalid(cli, "the stores are the arguments FROM and TO, not --store");
    status = read_sync_place(cli, 0, &from);
    if (status == HF_OK)
        status = read_sync_place(cli, 1, &to);
    if (status == HF_OK)
        status = refuse_overlap(cli, &from, &to);
    if (status != HF_OK)
        return status;
    ends->source = from.prefix;
    ends->target = to.prefix;
    bool same = view_equal(from.url, to.url); /* a mem: store is opened only once */
    status = store_end_open(cli, from.url, same && sync_deletes(cli), /* must_exist */ true,
                            &ends->from);
    if (status == HF_OK && same)
        ends->to = ends->from;
    else if (status == HF_OK)
        status = open_target(cli, to.url, &ends->to);
    return status;
}

/* ---- The command --------------------------------------------------------------------- */

/* Shows what is done or, with --dry-run, would be done; equal objects only count. */
static bool tell_synced(void *argument, const struct hf_store_copied *copied)
{
    struct cli *cli = argument;
    bool dry = cli_given(cli, "dry-run");
    if ((!copied->copied && !copied->deleted) || (!cli->json && !dry))
        return true;
    struct synced_object object = {
        .from = { copied->source, copied->source_size },
        .to = { copied->target, copied->target_size },
        .size = copied->size,
        .action = copied->deleted ? "delete" : "copy",
        .done = !dry,
    };
    record_show(cli, synced_object_record, &object, SYNCED_OBJECT_TEXT);
    output_flush(&cli->out, /* error */ NULL);
    return !output_is_closed(&cli->out);
}

enum hf_status run_store_sync(struct cli *cli)
{
    struct store_ends ends = { .from = NULL };
    struct synced_all all = { .report = HF_STORE_COPY_REPORT,
                              .done = !cli_given(cli, "dry-run") };
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    struct gauge gauge;
    enum hf_status status = open_places(cli, &ends);
    if (status == HF_OK) {
        gauge_start(&gauge, cli, VIEW("store sync"));
        options.source_size = ends.source.size;
        options.target_size = ends.target.size;
        options.sync = true;
        options.delete_extra = cli_given(cli, "delete");
        options.dry_run = !all.done;
        options.force = cli_given(cli, "force");
        options.count_first = gauge.visible; /* only a visible bar needs the total */
        options.choose = filters_choose_key;
        options.choose_argument = cli;
        options.each = tell_synced;
        options.each_argument = cli;
        options.progress = gauge_watch;
        options.progress_argument = &gauge;
        status = hf_store_copy_all(ends.from, ends.source.data, ends.to, ends.target.data,
                                   &options, &all.report, &cli->error);
        gauge_clear(&gauge);
    }
    if (status == HF_OK && output_is_closed(&cli->out))
        status = output_flush(&cli->out, &cli->error);
    if (status == HF_OK)
        record_tell(cli, synced_all_record, &all, SYNCED_ALL_TEXT);
    store_ends_close(&ends);
    return status;
}
