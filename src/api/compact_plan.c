/* compact_plan.c: what a pass would do now, and what it would cost. */
#include "api/compact_inside.h"
#include "compact/plan.h"
#include "compact/worker.h"
#include "lock/chunks.h"

#include <stdio.h>

struct planning {
    struct hf_compact *compact;
    struct chunk_leases leases;
    bool force;
    bool (*each)(void *argument, const struct hf_compact_group *group);
    void *argument;
    struct arena arena; /* of the groups of one catalog */
    struct hf_compact_group *groups;
    size_t count;
    struct hf_compact_plan_report report;
};

static bool copy_group(struct planning *planning, const struct slot *slot,
                       const struct plan_group *group)
{
    const char **sources = arena_take(&planning->arena, (group->count + 1) * sizeof *sources);
    if (!sources)
        return false;
    for (size_t i = 0; i < group->count; i++)
        if (!(sources[i] = text_in(&planning->arena, group->sources[i]->key)))
            return false;
    planning->groups[planning->count++] =
        (struct hf_compact_group){ .struct_size = sizeof(struct hf_compact_group),
                                   .partition = slot->partition,
                                   .level = group->level,
                                   .forced = group->forced,
                                   .bytes = group->bytes,
                                   .rows = group->rows,
                                   .sources = sources,
                                   .source_count = group->count };
    return true;
}

static bool copy_plan(struct planning *planning, const struct slot *slot,
                      const struct plan *plan)
{
    struct hf_compact_plan_report *report = &planning->report;
    arena_release(&planning->arena);
    planning->arena = ARENA_INIT;
    planning->count = 0;
    planning->groups =
        arena_take(&planning->arena, (plan->count + 1) * sizeof *planning->groups);
    report->leased += plan->leased;
    report->quarantined += plan->quarantined;
    if (plan->paused && !report->why[0])
        snprintf(report->why, sizeof report->why, "%s", plan->paused);
    bool good = planning->groups != NULL;
    for (size_t i = 0; i < plan->count && good; i++)
        good = copy_group(planning, slot, &plan->groups[i]);
    return good;
}

/* A command that may not run here keeps nobody else from it. */
static void look_at_command(struct planning *planning, const struct compact_settings *settings)
{
    struct hf_compact_plan_report *report = &planning->report;
    const char *program;
    struct hf_error why;
    if (settings->command.size > 0 && !report->why[0] &&
        allow_exec_find(&planning->compact->allowed, settings->command, &program, &why) !=
            HF_OK)
        snprintf(report->why, sizeof report->why, "%s", why.why);
}

static enum hf_status look_at_plan(void *argument, struct slot *slot,
                                   const struct catalog *catalog,
                                   const struct evidence *evidence)
{
    struct planning *planning = argument;
    struct plan_options options = { .is_leased = chunk_leases_have,
                                    .argument = &planning->leases,
                                    .force = planning->force };
    struct plan plan;
    struct hf_error ignored; /* there was no memory */
    (void)evidence;
    look_at_command(planning, &catalog->settings);
    if (plan_make(catalog, &options, &plan, &ignored) != HF_OK)
        return HF_UNAVAILABLE;
    bool good = copy_plan(planning, slot, &plan);
    plan_release(&plan);
    return good ? HF_OK : HF_UNAVAILABLE;
}

static bool tell_groups(void *argument, struct slot *slot)
{
    struct planning *planning = argument;
    struct hf_compact_plan_report *report = &planning->report;
    (void)slot;
    for (size_t i = 0; i < planning->count; i++) {
        const struct hf_compact_group *group = &planning->groups[i];
        report->groups++;
        report->chunks += group->source_count;
        report->bytes += group->bytes;
        report->rows += group->rows;
        if (planning->each && !planning->each(planning->argument, group))
            return false;
    }
    return true;
}

/* What is leased is looked up before the catalogs are shown: meanwhile nothing may be asked. */
static enum hf_status plan_all(struct planning *planning, struct hf_error *error)
{
    struct hf_compact *compact = planning->compact;
    struct hf_compact_plan_report *report = &planning->report;
    struct compact_walk walk = { look_at_plan, tell_groups, planning };
    struct catalog_list names;
    char why[HF_WHY_MAX] = "";
    enum hf_status status = shelf_is_paused(compact->shelf, &report->paused, why, error);
    if (status != HF_OK)
        return status;
    if (report->paused) {
        snprintf(report->why, sizeof report->why, "%s", why[0] ? why : "nobody said why");
        return HF_OK;
    }
    status = catalog_list_read(compact, &names, error);
    if (status == HF_OK)
        status = chunk_leases_read(compact, &names, &planning->leases, error);
    catalog_list_release(&names);
    if (status != HF_OK)
        return status;
    report->barred = planning->leases.barred.count > 0;
    if (report->barred && planning->leases.damage.status == HF_OK)
        snprintf(report->why, sizeof report->why, "%s", CHUNKS_BARRED);
    status = compact_walk(compact, &walk, error);
    if (status == HF_OK && planning->leases.damage.status != HF_OK) {
        *error = planning->leases.damage;
        status = error->status;
    }
    return status;
}

static enum hf_status plan(struct planning *planning, struct hf_compact_plan_report *report,
                           struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = plan_all(planning, &why);
    planning->report.requests =
        worker_requests(planning->report.groups, planning->report.chunks);
    write_caller_report(report, &planning->report, sizeof planning->report);
    chunk_leases_release(&planning->leases);
    arena_release(&planning->arena);
    return error_tell(error, status, &why);
}

static struct planning planning_of(struct hf_compact *compact)
{
    return (struct planning){ .compact = compact,
                              .leases = CHUNK_LEASES_INIT,
                              .arena = ARENA_INIT,
                              .report = HF_COMPACT_PLAN_REPORT };
}

enum hf_status hf_compact_plan(struct hf_compact *compact, bool force,
                               bool (*each)(void *argument,
                                            const struct hf_compact_group *group),
                               void *argument, struct hf_compact_plan_report *report,
                               struct hf_error *error)
{
    if (ERROR_IF_NULL(error, compact) != HF_OK ||
        check_caller_report("HF_COMPACT_PLAN_REPORT", report, error) != HF_OK)
        return HF_INVALID;
    struct planning planning = planning_of(compact);
    planning.force = force;
    planning.each = each;
    planning.argument = argument;
    return plan(&planning, report, error);
}

enum hf_status hf_compact_should_start(struct hf_compact *compact, bool *ret_start,
                                       struct hf_compact_plan_report *report,
                                       struct hf_error *error)
{
    if (ERROR_IF_NULL(error, compact, ret_start) != HF_OK ||
        check_caller_report("HF_COMPACT_PLAN_REPORT", report, error) != HF_OK)
        return HF_INVALID;
    struct planning planning = planning_of(compact);
    enum hf_status status = plan(&planning, report, error);
    if (status == HF_OK)
        *ret_start = planning.report.groups > 0;
    return status;
}
