/* SPDX-License-Identifier: Apache-2.0 */
/* compact_plan.c: computes what a pass would do now and what it would cost. It changes nothing. */
#include "api/compact_inside.h"
#include "compact/plan/plan.h"
#include "compact/work/worker.h"
#include "lock/chunks.h"

#include <stdio.h>

struct planning {
    struct hf_compact *compact;
    struct chunk_leases leases;
    bool force;
    bool (*each)(void *argument, const struct hf_compact_group *group);
    void *argument;
    struct arena arena; /* for the groups of one catalog */
    struct hf_compact_group *groups;
    size_t count;
    struct hf_compact_plan_report report;
};

static bool copy_group(struct planning *planning, const struct catalog_ref *ref,
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
                                   .partition = ref->partition,
                                   .level = group->level,
                                   .forced = group->forced,
                                   .bytes = group->bytes,
                                   .rows = group->rows,
                                   .sources = sources,
                                   .source_count = group->count,
                                   .test = group->test,
                                   .range = group->merge ? (unsigned)group->range + 1 : 0,
                                   .ranges =
                                       group->merge ? (unsigned)group->merge->range_count : 0,
                                   .drops = group->drops };
    return true;
}

static bool copy_plan(struct planning *planning, const struct catalog_ref *ref,
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
    if (!planning->groups)
        return false;
    for (size_t i = 0; i < plan->count; i++)
        if (!copy_group(planning, ref, &plan->groups[i]))
            return false;
    return true;
}

static enum hf_status add_catalog_plan(void *argument, struct catalog_ref *ref,
                                       const struct catalog *catalog,
                                       const struct evidence *evidence)
{
    struct planning *planning = argument;
    struct plan_options options = { .is_leased = chunk_leases_have,
                                    .argument = &planning->leases,
                                    .force = planning->force,
                                    .evidence = evidence };
    struct hf_compact_plan_report *report = &planning->report;
    struct plan plan;
    struct hf_error why, ignored; /* ignored: only memory can run out */
    /* A command that may not run here is only noted, because another machine may be allowed to run
     * it. */
    if (!report->why[0] && !command_may_run(planning->compact, &catalog->settings, &why))
        snprintf(report->why, sizeof report->why, "%s", why.why);
    if (plan_make(catalog, &options, &plan, &ignored) != HF_OK)
        return HF_UNAVAILABLE;
    bool good = copy_plan(planning, ref, &plan);
    plan_release(&plan);
    return good ? HF_OK : HF_UNAVAILABLE;
}

static bool report_groups(void *argument)
{
    struct planning *planning = argument;
    struct hf_compact_plan_report *report = &planning->report;
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

/* Reads the leases before it visits the catalogs, because no request may be made while a catalog is
 * being visited. */
static enum hf_status plan_partition(struct planning *planning, struct hf_error *error)
{
    struct hf_compact *compact = planning->compact;
    struct hf_compact_plan_report *report = &planning->report;
    struct compact_walk walk = { .look = add_catalog_plan,
                                 .told = report_groups,
                                 .argument = planning };
    char why[HF_WHY_MAX] = "";
    enum hf_status status = catalog_tree_is_paused(compact->tree, &report->paused, why, error);
    if (status != HF_OK)
        return status;
    if (report->paused) {
        snprintf(report->why, sizeof report->why, "%s", why[0] ? why : "no reason was given");
        return HF_OK;
    }
    status = chunk_leases_read(compact, &planning->leases, error);
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

static enum hf_status make_report(struct planning *planning,
                                  struct hf_compact_plan_report *report, struct hf_error *error)
{
    struct hf_error why;
    if (CHECK_REPORT(HF_COMPACT_PLAN_REPORT, report, error) != HF_OK)
        return HF_INVALID;
    planning->leases = CHUNK_LEASES_INIT;
    planning->arena = ARENA_INIT;
    planning->report = HF_COMPACT_PLAN_REPORT;
    enum hf_status status = plan_partition(planning, &why);
    planning->report.requests =
        worker_requests(planning->report.groups, planning->report.chunks);
    write_caller_report(report, &planning->report, sizeof planning->report);
    chunk_leases_release(&planning->leases);
    arena_release(&planning->arena);
    return error_tell(error, status, &why);
}

enum hf_status hf_compact_plan(struct hf_compact *compact, bool force,
                               bool (*each)(void *argument,
                                            const struct hf_compact_group *group),
                               void *argument, struct hf_compact_plan_report *report,
                               struct hf_error *error)
{
    struct planning planning = {
        .compact = compact, .force = force, .each = each, .argument = argument
    };
    if (ERROR_IF_NULL(error, compact) != HF_OK)
        return HF_INVALID;
    return make_report(&planning, report, error);
}

enum hf_status hf_compact_should_start(struct hf_compact *compact, bool *ret_start,
                                       struct hf_compact_plan_report *report,
                                       struct hf_error *error)
{
    struct planning planning = { .compact = compact };
    if (ERROR_IF_NULL(error, compact, ret_start) != HF_OK)
        return HF_INVALID;
    enum hf_status status = make_report(&planning, report, error);
    if (status == HF_OK)
        *ret_start = planning.report.groups > 0;
    return status;
}
