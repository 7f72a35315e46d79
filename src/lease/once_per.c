/* once_per.c: work that is to be done once a period: whether it was, and whether the table will
 * remember it for as long as it must.
 *
 * A lease that was asked for with a period is a promise: once it is completed, it stays in the
 * table until the period, counted from its grant, is over. A table keeps a bounded number of
 * promises, and refuses one that it could not keep before the work begins. */
#include "base/parse.h"
#include "base/rule.h"
#include "lease/table_inside.h"

/* ---- When it was ---------------------------------------------------------------------- */

/* Completions that were written before grants were stamped count from their end, as do those of
 * locks that were acquired without a period. */
static bool counts_from_grant(const struct lease *lease)
{
    return lease->once_per.us > 0 || lease->granted.clock != 0;
}

/* Whether the clock that it was stamped with is the one that we know the time of. */
static bool is_readable(const struct lease *lease, const struct evidence *evidence)
{
    if (lease->granted.clock != 0)
        return stamp_is_readable(lease->granted, evidence);
    return evidence->time_known && lease->clock.size > 0 &&
           view_equal(lease->clock, evidence->clock);
}

/* How long ago it was, at least. By the store's clock; a boot of a machine that is over has left
 * nothing but the calendar. */
static int64_t age_us(const struct lease *lease, const struct evidence *evidence)
{
    if (is_readable(lease, evidence) && RULE(ONCE_PER_BY_STORE_TIME))
        return evidence->earliest.us -
               (lease->granted.clock != 0 ? lease->granted.us : lease->ended.us);
    return wall_since(evidence->wall,
                      counts_from_grant(lease) ? lease->acquired_at : lease->expires_at)
        .us;
}

struct span once_per_age(const struct lease *lease, const struct evidence *evidence)
{
    int64_t ago_us = age_us(lease, evidence);
    return SPAN_US(ago_us > 0 ? ago_us : 0);
}

bool time_is_yet_unknown(const struct evidence *evidence)
{
    return !evidence->time_known && evidence->clock.size > 0 && RULE(ONCE_PER_KNOWS_THE_TIME);
}

/* A read may have come out of a cache; the answer to a write tells the time. */
enum hf_status ask_for_time(struct table_op *op)
{
    op->needs_time = true;
    op->changed = true;
    return error_set(&op->error, HF_UNAVAILABLE, "the store's time is not known yet");
}

/* ---- Whether it was done -------------------------------------------------------------- */

/* A calendar that says that it is yet to come is wrong, now or then, and may be by years. The
 * period begins anew, once, on a clock that can be read. */
static enum hf_status restamp(struct lease_table *table, struct lease *lease,
                              const struct evidence *evidence, struct table_op *op)
{
    struct lease fields = *lease;
    fields.granted = stamp_now(evidence);
    fields.acquired_at = fields.expires_at = evidence->wall; /* where there is no other clock */
    return table_replace_lease(table, lease, &fields, op);
}

static enum hf_status already(struct table_op *op, const struct lease *lease, int64_t ago_us,
                              struct span period)
{
    char ago[AGO_TEXT_MAX], left[SPAN_TEXT_MAX];
    int64_t left_us = period.us - (ago_us > 0 ? ago_us : 0);
    return error_set(&op->error, HF_ALREADY,
                     "already run %s by %.*s; the next run is allowed in %s",
                     ago_text(SPAN_US(ago_us), ago), VIEW_ARGS(view_first(lease->holder, 60)),
                     span_text(SPAN_S((left_us + 999999) / 1000000), left));
}

/* In doubt it was done: what must not run twice may run late. Work on a part, or on more, is other
 * work. */
enum hf_status once_per_check(struct lease_table *table, struct table_op *op,
                              const struct lease *wanted, const struct evidence *evidence)
{
    struct span period = SPAN_US(op->once_per.us - op->once_slack.us);
    for (size_t i = table->lease_count; op->once_per.us > 0 && i-- > 0;) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_COMPLETED || !leases_same_scopes(lease, wanted))
            continue;
        bool stamped = lease->granted.clock != 0 || lease->clock.size > 0;
        if (stamped && time_is_yet_unknown(evidence))
            return ask_for_time(op);
        int64_t ago_us = age_us(lease, evidence);
        if (ago_us >= period.us)
            continue;
        if (ago_us < 0 && !is_readable(lease, evidence) &&
            restamp(table, lease, evidence, op) != HF_OK)
            return op->error.status;
        return already(op, table->leases[i], ago_us, period);
    }
    return HF_OK;
}

/* ---- Whether it is remembered --------------------------------------------------------- */

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
        if (leases_same_scopes(lease, granted))
            continue; /* the later one takes its place */
        count++;
        bytes += lease->entry.size;
    }
    if (count < TABLE_PROMISES_MAX && bytes <= TABLE_PROMISES_BYTES)
        return HF_OK;
    char period[SPAN_TEXT_MAX];
    return error_set(&op->error, HF_UNSUPPORTED,
                     "the table must remember %zu completions already, and cannot promise to "
                     "remember this one for %s; use a name, which has a table of its own",
                     count, span_text(granted->once_per, period));
}

void once_per_complete(const struct lease_table *table, struct lease *fields,
                       const struct evidence *evidence)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *before = table->leases[i];
        if (before->once_per.us > fields->once_per.us &&
            once_per_is_promised(before, evidence) && leases_same_scopes(before, fields))
            fields->once_per = before->once_per;
    }
    if (fields->once_per.us > 0 && fields->granted.clock == 0)
        fields->granted = stamp_now(evidence);
}
