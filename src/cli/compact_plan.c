/* compact_plan.c: `compact plan`: what a run would do now, and what it would cost. */
#include "compact/plan.h"

#include "base/parse.h"
#include "cli/compact.h"
#include "compact/worker.h"
#include "lock/chunks.h"

#include <inttypes.h>
#include <stdio.h>

struct planning {
    struct desk *desk;
    struct leased_chunks leased;
    struct allow_exec allowed;
    json_t *groups;
    uint64_t group_count, source_count, bytes, rows;
    uint64_t leased_count, quarantined;
    char paused[HF_WHY_MAX]; /* empty: it is not */
};

static json_t *group_as_json(const struct slot *slot, const struct plan_group *group)
{
    json_t *object = json_object(), *sources = json_array();
    for (size_t i = 0; i < group->count; i++)
        json_push(&sources,
                  json_stringn(group->sources[i]->key.data, group->sources[i]->key.size));
    json_add(&object, "partition", json_string(slot->partition));
    json_add_count(&object, "level", group->level);
    json_add_bool(&object, "forced", group->forced);
    json_add_count(&object, "input_bytes", group->bytes);
    json_add_count(&object, "rows", group->rows);
    json_add(&object, "sources", sources);
    return object;
}

/* "L1  15 chunks  12.5 KiB  150 rows", and the first of them to find them by. */
static void tell_group(struct output *out, const struct plan_group *group)
{
    char size[SIZE_TEXT_MAX];
    output_print(out, "L%u  %zu chunk%s  %s  %" PRIu64 " row%s  from ", group->level,
                 group->count, plural(group->count), size_text(group->bytes, size), group->rows,
                 plural(group->rows));
    output_key(out, group->sources[0]->key);
    output_text(out, "\n");
}

static void note_plan(struct planning *planning, const struct slot *slot,
                      const struct plan *plan)
{
    struct cli *cli = planning->desk->cli;
    planning->leased_count += plan->leased;
    planning->quarantined += plan->quarantined;
    if (plan->paused && !planning->paused[0])
        snprintf(planning->paused, sizeof planning->paused, "%s", plan->paused);
    for (size_t i = 0; i < plan->count; i++) {
        const struct plan_group *group = &plan->groups[i];
        planning->group_count++;
        planning->source_count += group->count;
        planning->bytes += group->bytes;
        planning->rows += group->rows;
        if (cli->json)
            json_push(&planning->groups, group_as_json(slot, group));
        else if (!cli->quiet)
            tell_group(&cli->out, group);
    }
}

static enum hf_status plan_catalog(void *argument, struct slot *slot,
                                   const struct catalog *catalog,
                                   const struct evidence *evidence)
{
    struct planning *planning = argument;
    struct cli *cli = planning->desk->cli;
    struct plan plan;
    const char *program;
    struct plan_options options = { .is_leased = chunk_is_leased,
                                    .argument = &planning->leased,
                                    .force = cli_given(cli, "force") };
    (void)evidence;
    struct hf_error why;
    if (catalog->settings.command.size > 0 && !planning->paused[0] &&
        allow_exec_find(&planning->allowed, catalog->settings.command, &program, &why) != HF_OK)
        snprintf(planning->paused, sizeof planning->paused, "%s", why.why);
    enum hf_status status = plan_make(catalog, &options, &plan, &cli->error);
    if (status != HF_OK)
        return status;
    note_plan(planning, slot, &plan);
    plan_release(&plan);
    return HF_OK;
}

static void tell_sum(struct planning *planning)
{
    struct output *out = &planning->desk->cli->out;
    char size[SIZE_TEXT_MAX];
    if (planning->paused[0]) {
        output_text(out, "paused: ");
        output_words(out, view_of(planning->paused));
        output_text(out, "\n");
    }
    output_count(out, planning->group_count, "group");
    uint64_t requests = worker_requests(planning->group_count, planning->source_count);
    output_print(out, ", %" PRIu64 " chunk%s, %s, %" PRIu64 " row%s, %" PRIu64 " request%s\n",
                 planning->source_count, plural(planning->source_count),
                 size_text(planning->bytes, size), planning->rows, plural(planning->rows),
                 requests, plural(requests));
    if (planning->leased_count > 0)
        output_print(out, "left out: %" PRIu64 " chunk%s that %s\n", planning->leased_count,
                     plural(planning->leased_count),
                     planning->leased.barred.count > 0 ? "cannot be leased now"
                                                       : "others are merging");
    if (planning->quarantined > 0)
        output_print(out, "left out: %" PRIu64 " chunk%s in quarantine\n",
                     planning->quarantined, plural(planning->quarantined));
}

static json_t *sum_as_json(struct planning *planning)
{
    json_t *object = json_object();
    json_add_key(&object, "partition", partition_option(planning->desk->cli));
    json_add_words(&object, "paused_why", view_of(planning->paused));
    json_add_count(&object, "groups", planning->group_count);
    json_add_count(&object, "chunks", planning->source_count);
    json_add_count(&object, "input_bytes", planning->bytes);
    json_add_count(&object, "rows", planning->rows);
    json_add_count(&object, "requests",
                   worker_requests(planning->group_count, planning->source_count));
    json_add_count(&object, "leased", planning->leased_count);
    json_add_count(&object, "quarantined", planning->quarantined);
    json_add(&object, "plan", planning->groups);
    planning->groups = NULL;
    return object;
}

/* What is leased is looked up before the catalogs are shown: meanwhile nothing may be asked. */
static enum hf_status plan_all(struct planning *planning)
{
    struct desk *desk = planning->desk;
    struct catalog_names names;
    bool paused = false;
    enum hf_status status =
        shelf_is_paused(desk->shelf, &paused, planning->paused, &desk->cli->error);
    if (status != HF_OK || paused) {
        if (paused && !planning->paused[0])
            snprintf(planning->paused, sizeof planning->paused, "nobody said why");
        return status;
    }
    planning->paused[0] = '\0';
    status = catalog_names_read(desk, &names);
    if (status == HF_OK)
        status = leased_chunks_read(desk, &names, &planning->leased);
    catalog_names_release(&names);
    if (status != HF_OK)
        return status;
    if (planning->leased.barred.count > 0 && planning->leased.damage.status == HF_OK)
        snprintf(planning->paused, sizeof planning->paused, "%s", CHUNKS_BARRED);
    status = desk_walk(desk, plan_catalog, planning);
    return leased_chunks_judge(desk->cli, &planning->leased, status);
}

enum hf_status run_compact_plan(struct cli *cli)
{
    struct desk desk;
    struct planning planning = { .desk = &desk,
                                 .leased = LEASED_CHUNKS_INIT,
                                 .groups = json_array() };
    enum hf_status status = desk_open(&desk, cli);
    if (status == HF_OK)
        status = take_allow_exec(cli, &planning.allowed);
    if (status == HF_OK)
        status = plan_all(&planning);
    if (status == HF_OK || cli->reported) {
        if (cli->json)
            output_json(&cli->out, sum_as_json(&planning));
        else
            tell_sum(&planning);
    }
    json_decref(planning.groups);
    leased_chunks_release(&planning.leased);
    desk_close(&desk);
    return status;
}
