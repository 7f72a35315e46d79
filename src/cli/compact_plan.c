/* compact_plan.c: `compact plan`: what a run would do now, and what it would cost. */
#include "base/parse.h"
#include "cli/compact.h"

#include <inttypes.h>

struct planning {
    struct desk *desk;
    json_t *groups;
    struct hf_compact_plan_report report;
};

static json_t *group_as_json(const struct hf_compact_group *group)
{
    json_t *object = json_object(), *sources = json_array();
    for (size_t i = 0; i < group->source_count; i++)
        json_push(&sources, json_string(group->sources[i]));
    json_add(&object, "partition", json_string(group->partition));
    json_add_count(&object, "level", group->level);
    json_add_bool(&object, "forced", group->forced);
    json_add_count(&object, "input_bytes", group->bytes);
    json_add_count(&object, "rows", group->rows);
    json_add(&object, "sources", sources);
    return object;
}

/* "L1  15 chunks  12.5 KiB  150 rows", and the first of them to find them by. */
static void tell_group(struct output *out, const struct hf_compact_group *group)
{
    char size[SIZE_TEXT_MAX];
    output_print(out, "L%u  %zu chunk%s  %s  %" PRIu64 " row%s  from ", group->level,
                 group->source_count, plural(group->source_count),
                 size_text(group->bytes, size), group->rows, plural(group->rows));
    output_key(out, view_of(group->sources[0]));
    output_text(out, "\n");
}

static bool note_group(void *argument, const struct hf_compact_group *group)
{
    struct planning *planning = argument;
    struct cli *cli = planning->desk->cli;
    if (cli->json)
        json_push(&planning->groups, group_as_json(group));
    else if (!cli->quiet)
        tell_group(&cli->out, group);
    return true;
}

static void tell_sum(struct planning *planning)
{
    const struct hf_compact_plan_report *report = &planning->report;
    struct output *out = &planning->desk->cli->out;
    char size[SIZE_TEXT_MAX];
    if (report->why[0]) {
        output_text(out, "paused: ");
        output_words(out, view_of(report->why));
        output_text(out, "\n");
    }
    output_count(out, report->groups, "group");
    output_print(out, ", %" PRIu64 " chunk%s, %s, %" PRIu64 " row%s, %" PRIu64 " request%s\n",
                 report->chunks, plural(report->chunks), size_text(report->bytes, size),
                 report->rows, plural(report->rows), report->requests,
                 plural(report->requests));
    if (report->leased > 0)
        output_print(out, "left out: %" PRIu64 " chunk%s that %s\n", report->leased,
                     plural(report->leased),
                     report->barred ? "cannot be leased now" : "others are merging");
    if (report->quarantined > 0)
        output_print(out, "left out: %" PRIu64 " chunk%s in quarantine\n", report->quarantined,
                     plural(report->quarantined));
}

static json_t *sum_as_json(struct planning *planning)
{
    const struct hf_compact_plan_report *report = &planning->report;
    json_t *object = json_object();
    json_add_key(&object, "partition", partition_option(planning->desk->cli));
    json_add_words(&object, "paused_why", view_of(report->why));
    json_add_count(&object, "groups", report->groups);
    json_add_count(&object, "chunks", report->chunks);
    json_add_count(&object, "input_bytes", report->bytes);
    json_add_count(&object, "rows", report->rows);
    json_add_count(&object, "requests", report->requests);
    json_add_count(&object, "leased", report->leased);
    json_add_count(&object, "quarantined", report->quarantined);
    json_add(&object, "plan", planning->groups);
    planning->groups = NULL;
    return object;
}

enum hf_status run_compact_plan(struct cli *cli)
{
    struct desk desk = { .cli = cli };
    struct hf_compact_options options = HF_COMPACT_OPTIONS;
    struct planning planning = { .desk = &desk,
                                 .groups = json_array(),
                                 .report = HF_COMPACT_PLAN_REPORT };
    enum hf_status status = take_allow_exec(cli, &options);
    if (status == HF_OK)
        status = desk_open_exec(&desk, cli, &options);
    if (status == HF_OK)
        status =
            desk_end(&desk, hf_compact_plan(desk.compact, cli_given(cli, "force"), note_group,
                                            &planning, &planning.report, &cli->error));
    if (status == HF_OK || cli->reported) {
        if (cli->json)
            output_json(&cli->out, sum_as_json(&planning));
        else
            tell_sum(&planning);
    }
    json_decref(planning.groups);
    desk_close(&desk);
    return status;
}
