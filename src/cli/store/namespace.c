/* SPDX-License-Identifier: Apache-2.0 */
/* namespace.c: `namespace create` and `namespace show`: the tables in which a namespace keeps its
 * locks on paths. */
#include "cli/lock/lock.h"

#include "base/parse.h"

struct told_namespace {
    const char *ns;
    struct hf_placement placement;
};

const struct field namespace_record[] = NAMESPACE_RECORD;

static void tell_namespace(struct cli *cli, const struct told_namespace *told)
{
    record_tell(cli, namespace_record, told, NAMESPACE_TEXT);
}

/* "pages:1024". */
static enum hf_status read_placement(struct cli *cli, struct hf_placement *placement)
{
    struct view number = view_of(option_text(cli, "placement"));
    struct view kind = view_cut(&number, ':');
    uint64_t pages;
    if (!view_equal(kind, VIEW("pages")) ||
        parse_u64(number, UINT32_MAX, &pages, NULL) != HF_OK)
        return error_set(&cli->error, HF_INVALID,
                         "--placement must be pages:N, for example pages:4096");
    uint64_t segments = option_number(cli, "segments", placement->segments);
    placement->pages = (uint32_t)pages;
    placement->segments = segments < UINT32_MAX ? (uint32_t)segments : UINT32_MAX;
    return HF_OK;
}

enum hf_status run_namespace_create(struct cli *cli)
{
    struct told_namespace told = { .ns = cli->arguments[0], .placement = HF_PLACEMENT };
    enum hf_status status = read_placement(cli, &told.placement);
    if (status == HF_OK)
        status = hf_namespace_create(cli->handle, told.ns, &told.placement, &cli->error);
    if (status == HF_OK)
        tell_namespace(cli, &told);
    return status;
}

enum hf_status run_namespace_show(struct cli *cli)
{
    struct told_namespace told = { .ns = cli->arguments[0], .placement = HF_PLACEMENT };
    enum hf_status status =
        hf_namespace_placement(cli->handle, told.ns, &told.placement, &cli->error);
    if (status == HF_OK)
        tell_namespace(cli, &told);
    return status;
}
