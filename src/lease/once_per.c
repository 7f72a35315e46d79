/* SPDX-License-Identifier: Apache-2.0 */
/* once_per.c: work that runs once per period: whether it was done, and whether the table can
 * remember this for long enough. A lease with a period is a promise: its completion stays in the
 * table until the period, counted from the grant, has passed. A table holds a bounded number of
 * promises. If it could not keep another one, it refuses the grant before the work begins. */
#include "base/owner.h"
#include "base/parse.h"
#include "base/rule.h"
#include "lease/table_inside.h"

#include <stdio.h>

/* ---- Age of a completion ------------------------------------------------------------- */

/* Whether we know the current time on the clock of its timestamp. */
static bool is_stamp_readable(const struct lease *lease, const struct evidence *evidence)
{
    if (lease->granted.clock != 0)
        return stamp_is_readable(lease->granted, evidence);
    return evidence->time_known && lease->clock.size > 0 &&
           view_equal(lease->clock, evidence->clock);
}

/* The minimum age, by the store's clock if its time is known. Times from two boots of a machine
 * can be compared only by the wall clock. */
static int64_t age_us(const struct lease *lease, const struct evidence *evidence)
{
    if (RULE(ONCE_PER_BY_STORE_TIME) && is_stamp_readable(lease, evidence))
        return evidence->earliest.us -
               (lease->granted.clock != 0 ? lease->granted.us : lease->ended.us);
    /* The age is measured from the end of the lease if the completion was written before grants had
     * timestamps, or if its lock had no period. */
    bool from_grant = lease->once_per.us > 0 || lease->granted.clock != 0;
    struct wall_time start = from_grant ? lease->acquired_at : lease->expires_at;
    return wall_since(evidence->wall, start).us;
}

struct span once_per_age(const struct lease *lease, const struct evidence *evidence)
{
    return span_larger(SPAN_US(age_us(lease, evidence)), SPAN_US(0));
}

bool time_is_yet_unknown(const struct evidence *evidence)
{
    return RULE(ONCE_PER_KNOWS_THE_TIME) && !evidence->time_known && evidence->clock.size > 0;
}

/* All replies so far may have come from a cache, whose dates prove nothing. The reply to a write
 * never does, so the table is written although the operation is refused. */
enum hf_status ask_for_time(struct table_op *op)
{
    op->needs_time = true;
    op->changed = true;
    return error_set(&op->error, HF_UNAVAILABLE, "the store time is not known yet; try again");
}

/* ---- Was it done? -------------------------------------------------------------------- */

/* If the wall clock places the completion in the future, it is wrong now or was wrong then,
 * perhaps by years. The completion then gets a new timestamp, once, on a clock that can be read,
 * and its period restarts. Otherwise the work might not run for years. */
static enum hf_status restamp_completion(struct lease_table *table, struct lease *lease,
                                         const struct evidence *evidence, struct table_op *op)
{
    struct lease fields = *lease;
    fields.granted = stamp_now(evidence);
    fields.acquired_at = fields.expires_at = evidence->wall; /* for stores without a clock */
    return table_replace_lease(table, lease, &fields, op);
}

static enum hf_status refuse_repeat(struct table_op *op, const struct lease *lease,
                                    int64_t ago_us, struct span period)
{
    char ago[AGO_TEXT_MAX], left[SPAN_TEXT_MAX], note[NOTE_BYTES_MAX + 1];
    struct view by = lease->holder, owner;
    int64_t left_us = period.us - (ago_us > 0 ? ago_us : 0);
    snprintf(note, sizeof note, "%.*s", VIEW_ARGS(lease->note));
    if (owner_find(note, &owner)) /* the client of a server, which is the holder */
        by = owner;
    return error_set(&op->error, HF_ALREADY,
                     "already run %s by %.*s; the next run is allowed in %s",
                     ago_text(SPAN_US(ago_us), ago), VIEW_ARGS(view_first(by, 60)),
                     span_text(SPAN_S((left_us + 999999) / 1000000), left));
}

/* If in doubt, the work counts as done: it may run late, but never twice. Work on different
 * scopes, even overlapping ones, is different work. */
enum hf_status once_per_check(struct lease_table *table, struct table_op *op,
                              const struct lease_wish *wanted, const struct evidence *evidence)
{
    struct span period = SPAN_US(op->once_per.us - op->once_slack.us);
    if (op->once_per.us == 0)
        return HF_OK;
    for (size_t i = table->lease_count; i-- > 0;) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_COMPLETED || !wishes_same_scopes(&lease->wish, wanted))
            continue;
        bool stamped = lease->granted.clock != 0 || lease->clock.size > 0;
        if (stamped && time_is_yet_unknown(evidence))
            return ask_for_time(op);
        int64_t ago_us = age_us(lease, evidence);
        if (ago_us >= period.us)
            continue;
        if (ago_us < 0 && !is_stamp_readable(lease, evidence) &&
            restamp_completion(table, lease, evidence, op) != HF_OK)
            return op->error.status;
        return refuse_repeat(op, table->leases[i], ago_us, period);
    }
    return HF_OK;
}

/* ---- Promises ------------------------------------------------------------------------ */

bool once_per_is_promised(const struct lease *lease, const struct evidence *evidence)
{
    return lease->status == LEASE_COMPLETED && lease->once_per.us > 0 &&
           (time_is_yet_unknown(evidence) || age_us(lease, evidence) < lease->once_per.us);
}

enum hf_status once_per_promise(const struct lease_table *table, const struct lease *granted,
                                const struct evidence *evidence, struct table_op *op)
{
    size_t count = 0, bytes = granted->entry.size;
    if (granted->once_per.us == 0)
        return HF_OK;
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        bool to_come = lease->status == LEASE_ACTIVE && lease->once_per.us > 0;
        if (!to_come && !once_per_is_promised(lease, evidence))
            continue;
        if (wishes_same_scopes(&lease->wish, &granted->wish))
            continue; /* the new lease's completion will replace it */
        count++;
        bytes += lease->entry.size;
    }
    if (count < TABLE_PROMISES_MAX && bytes <= TABLE_PROMISES_BYTES)
        return HF_OK;
    char period[SPAN_TEXT_MAX];
    return error_set(&op->error, HF_UNSUPPORTED,
                     "the table already remembers %zu completions and cannot promise to "
                     "remember another for %s; use a named lock, which has a table of its own",
                     count, span_text(granted->once_per, period));
}

/* The new completion replaces the earlier one of the same work, so it must be kept for the longer
 * of the two periods. */
void once_per_complete(const struct lease_table *table, struct lease *fields,
                       const struct evidence *evidence)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *before = table->leases[i];
        if (before->once_per.us > fields->once_per.us &&
            once_per_is_promised(before, evidence) &&
            wishes_same_scopes(&before->wish, &fields->wish))
            fields->once_per = before->once_per;
    }
    if (fields->once_per.us > 0 && fields->granted.clock == 0)
        fields->granted = stamp_now(evidence);
}
