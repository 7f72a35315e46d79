/* SPDX-License-Identifier: Apache-2.0 */
/* transition.c: the operations on a lease table. Each operation checks its conditions before it
 * changes anything of its own. A refused operation only does cleanup that is safe for any client
 * to do: it marks leases that are proven to have ended, drops waiters that missed their turn,
 * trims finished leases, and adds missing ends and timestamps. */
#include "base/check.h"
#include "base/json.h"
#include "base/mutant.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "lease/table_inside.h"

#include <inttypes.h>
#include <stdio.h>

static size_t lease_index(const struct lease_table *table, const struct lease *lease)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i] == lease)
            return i;
    check_unreachable();
}

enum hf_status table_replace_lease(struct lease_table *table, struct lease *old,
                                   const struct lease *fields, struct table_op *op)
{
    struct lease *lease = NULL;
    enum hf_status status = lease_new(fields, &lease, &op->error);
    if (status != HF_OK)
        return status;
    table->leases[lease_index(table, old)] = lease;
    table->bytes += lease->entry.size;
    table->bytes -= old->entry.size;
    lease_free(old);
    op->changed = true;
    return HF_OK;
}

/* ---- Ending -------------------------------------------------------------------------- */

/* Whether a later lease completed the same work. */
static bool is_superseded(const struct lease_table *table, size_t index)
{
    for (size_t i = index + 1; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_COMPLETED &&
            wishes_same_scopes(&table->leases[i]->wish, &table->leases[index]->wish))
            return true;
    return false;
}

static bool is_of_chunks(const struct lease *lease)
{
    return lease->wish.scope_count > 0 && lease->wish.scopes[0].kind == SCOPE_CHUNK;
}

/* Whether compaction still has to determine if the lease's output was committed. If the lease was
 * completed, this is known. Only locks on chunks can name an output. Older tables may contain
 * other leases with outputs, but nothing will ever settle them, so they do not count. */
static bool awaits_settling(const struct lease *lease)
{
    enum scope_kind kind =
        lease->wish.scope_count > 0 ? lease->wish.scopes[0].kind : SCOPE_CHUNK;
    return lease->output.size > 0 && lease->status != LEASE_COMPLETED &&
           (kind == SCOPE_CHUNK || kind == SCOPE_PIN);
}

/* Whether the lease has ended and nothing depends on it. */
static bool is_finished(const struct lease *lease)
{
    return lease->status != LEASE_ACTIVE && !awaits_settling(lease);
}

/* When a lease ended, on the clock of the evidence. Ends on other clocks cannot be compared with
 * it, and count as earlier. */
static int64_t ended_us(const struct lease *lease, const struct evidence *evidence)
{
    return view_equal(lease->clock, evidence->clock) ? lease->ended.us : 0;
}

/* Whether this attempt ended the lease. Without the store time, a lease that another attempt ended
 * in the same millisecond counts too. */
static bool ended_now(const struct lease *lease, const struct evidence *evidence)
{
    if (evidence->time_known)
        return ended_us(lease, evidence) == evidence->latest.us;
    return lease->ended.us == 0 && wall_since(evidence->wall, lease->expires_at).us / 1000 == 0;
}

/* Of the two, the lease that ended first; never one that this attempt ended. `other` was granted
 * later, or is lease_count: none. If it is not certain, because stamps are from two clients, the
 * order of the grants decides. */
static size_t first_ended(const struct lease_table *table, size_t index, size_t other,
                          const struct evidence *evidence)
{
    const struct lease *lease = table->leases[index];
    bool later = other < table->lease_count &&
                 ended_us(lease, evidence) > ended_us(table->leases[other], evidence) +
                                                 table->settings.skew_tolerance.us;
    return later || ended_now(lease, evidence) ? other : index;
}

/* The next finished lease that does not stay; lease_count: there is none. Promised completions
 * stay, and leases whose output is not settled, and leases that this attempt ended: if it gets no
 * reply, the next one must find its effect. Of the other ended leases, those that ended last stay,
 * for display and for holders that have yet to learn of the end. The newest completion of a scope
 * is needed for `once_per`, so it has a separate, larger limit. Completions of chunks do not,
 * because chunks are merged once and never requested again. */
static size_t find_excess(const struct lease_table *table, const struct evidence *evidence)
{
    size_t count = table->lease_count, finished = 0, completed = 0, bytes = 0;
    size_t first_finished = count, first_completed = count;
    for (size_t i = count; i-- > 0;) {
        const struct lease *lease = table->leases[i];
        bool may_answer = lease->once_per.us > 0 || !is_of_chunks(lease);
        bool answers =
            lease->status == LEASE_COMPLETED && may_answer && !is_superseded(table, i);
        if (!is_finished(lease) || (answers && once_per_is_promised(lease, evidence)))
            continue;
        if (answers && !is_of_chunks(lease)) {
            completed++;
            first_completed = first_ended(table, i, first_completed, evidence);
        } else {
            finished++;
            bytes += lease->entry.size;
            first_finished = first_ended(table, i, first_finished, evidence);
        }
    }
    if (completed > TABLE_COMPLETED_MAX && first_completed < count)
        return first_completed;
    return finished > TABLE_FINISHED_MAX || bytes > TABLE_FINISHED_BYTES ? first_finished
                                                                         : count;
}

static void trim_finished(struct lease_table *table, const struct evidence *evidence)
{
    while (table->ended) {
        size_t excess = find_excess(table, evidence);
        MUTANT(mutant_forgets_completion(table, &excess));
        table->ended = excess < table->lease_count;
        if (table->ended)
            table_remove_lease(table, excess);
    }
}

/* Makes room in a table that an earlier version filled with leases whose outputs were never
 * settled. */
static void trim_crowded(struct lease_table *table, struct table_op *op,
                         const struct evidence *evidence)
{
    size_t before = table->lease_count, left = 0;
    if (before <= TABLE_FINISHED_MAX + TABLE_COMPLETED_MAX)
        return;
    for (size_t i = 0; i < before; i++) {
        const struct lease *lease = table->leases[i];
        bool ended = lease->status != LEASE_ACTIVE && lease->status != LEASE_COMPLETED;
        left += ended && lease->output.size > 0 && !awaits_settling(lease);
    }
    if (left <= TABLE_FINISHED_MAX)
        return;
    table->ended = true;
    trim_finished(table, evidence);
    op->changed = op->changed || table->lease_count < before;
}

static enum hf_status end_active_lease(struct lease_table *table, struct lease *lease,
                                       enum lease_status status, struct view note,
                                       const struct evidence *evidence, struct table_op *op)
{
    check(lease->status == LEASE_ACTIVE);
    struct lease fields = *lease;
    fields.status = status;
    fields.expires_at = evidence->wall;
    fields.clock = evidence->time_known ? evidence->clock : VIEW("");
    fields.ended.us = evidence->time_known ? evidence->latest.us : 0;
    if (note.size > 0)
        fields.note = note;
    if (status == LEASE_COMPLETED)
        once_per_complete(table, &fields, evidence);
    table->ended = true;
    return table_replace_lease(table, lease, &fields, op);
}

/* Marks leases that are proven to have ended as expired, and drops waiters that missed their
 * turn or are gone. */
static enum hf_status clear_over(struct lease_table *table, const struct evidence *evidence,
                                 struct table_op *op)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE ||
            lease_judge(&table->settings, lease, evidence) == PROOF_NONE)
            continue;
        if (op->cleared == 0) {
            op->cleared_token = lease->token;
            snprintf(op->cleared_holder, sizeof op->cleared_holder, "%.*s",
                     VIEW_ARGS(lease->holder));
        }
        enum hf_status status =
            end_active_lease(table, lease, LEASE_EXPIRED, VIEW(""), evidence, op);
        if (status != HF_OK)
            return status;
        op->cleared++;
    }
    bool missed = queue_drop_missed(table, evidence->now);
    bool gone = queue_drop_gone(table, op);
    op->changed = op->changed || missed || gone;
    return HF_OK;
}

/* Other programs' locks have no clock, and a short-lived process cannot watch them until they
 * end. So the first request for a shard's lock records an end on the store's clock. The end is
 * counted from now, after the lease was read, so it is never too early. */
static enum hf_status set_missing_ends(struct lease_table *table,
                                       const struct evidence *evidence, struct table_op *op)
{
    if (!table->of_shard || !evidence->time_known)
        return HF_OK;
    for (size_t i = 0; i < table->lease_count; i++) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE || lease->clock.size > 0)
            continue;
        struct lease fields = *lease;
        fields.clock = evidence->clock;
        fields.expires.us = evidence->latest.us + lease_watch_span(&table->settings, lease).us;
        enum hf_status status = table_replace_lease(table, lease, &fields, op);
        if (status != HF_OK)
            return status;
    }
    return HF_OK;
}

/* ---- Granting ------------------------------------------------------------------------ */

/* Sets the times and the nonce, for a grant or a renewal. The end is counted from the latest
 * possible store time at t0: a contender must not have proof while the holder may use the lease. */
static void renew_times(struct lease *fields, const struct evidence *evidence)
{
    fields->nonce = evidence->nonce;
    fields->clock = evidence->time_known ? evidence->clock : VIEW("");
    fields->expires.us = evidence->time_known ? evidence->latest.us + fields->wish.ttl.us : 0;
    fields->expires_at = wall_add(evidence->wall, fields->wish.ttl);
    fields->seen = evidence->now;
}

static void report_grant(struct table_op *op, const struct lease *lease)
{
    op->outcome = TABLE_GRANTED;
    op->granted = lease->token;
    op->granted_by = lease->nonce;
    op->expires = lease->expires;
}

static bool wants_path(const struct lease_request *wanted)
{
    return wanted && wanted->wish.scope_count > 0 &&
           (wanted->wish.scopes[0].kind == SCOPE_PATH ||
            wanted->wish.scopes[0].kind == SCOPE_TREE);
}

/* Only paths can be spread over several tables. */
static enum hf_status refuse_full(const struct lease_table *table, struct table_op *op)
{
    const char *advice = wants_path(op->wanted) ? "; hf_namespace_create creates a namespace "
                                                  "with more tables for its paths"
                                                : "";
    return error_set(&op->error, HF_UNAVAILABLE, "the table is full: %zu leases, %zu waiters%s",
                     table->lease_count, table->waiter_count, advice);
}

/* The size limit applies only to new requests. A waiter's future lease was counted when the waiter
 * joined the queue, so its claim is never refused for lack of space. */
static bool has_bytes_for(const struct lease_table *table, size_t more)
{
    return table->bytes + table->bytes_to_come + more + KIB_OF_HEADER < TABLE_BYTES_MAX;
}

static enum hf_status grant(struct lease_table *table, const struct lease_request *wanted,
                            const struct evidence *evidence, struct table_op *op)
{
    /* Both may refuse, to make the client record a limit or raise the epoch first. Therefore no
     * lease is added to the table before both have agreed. */
    enum hf_status status = permit_ttl(table, wanted->wish.ttl, evidence, op);
    if (status == HF_OK)
        status = permit_token(table, op);
    if (status != HF_OK)
        return status;
    if (op->once_per.us > 0 && time_is_yet_unknown(evidence))
        return ask_for_time(op);
    struct lease fields = lease_asked(wanted);
    fields.wish.poll = SPAN_US(0);
    fields.token = table->next_token;
    fields.acquired_at = evidence->wall;
    fields.once_per = op->once_per;
    fields.granted = op->once_per.us > 0 ? stamp_now(evidence) : (struct stamp){ 0, 0 };
    renew_times(&fields, evidence);
    struct lease *lease = NULL;
    status = lease_new(&fields, &lease, &op->error);
    if (status == HF_OK)
        status = once_per_promise(table, lease, evidence, op);
    if (status != HF_OK) {
        lease_free(lease);
        return status;
    }
    /* An acquire that finds itself in the queue claims its turn: then `wanted` is the waiter's. */
    if (op->kind == TABLE_ACQUIRE && wanted == op->wanted &&
        !has_bytes_for(table, lease->entry.size)) {
        lease_free(lease);
        return refuse_full(table, op);
    }
    if (!table_add_lease(table, lease)) {
        lease_free(lease);
        return error_no_memory(&op->error);
    }
    if (RULE(TOKENS_RISE))
        table->next_token++;
    op->changed = true;
    report_grant(op, lease);
    return HF_OK;
}

static enum hf_status refuse_held(struct table_op *op, struct view blocker, const char *why)
{
    struct view shown = view_first(blocker, sizeof op->blocker - 1);
    memcpy(op->blocker, shown.data, shown.size);
    op->blocker[shown.size] = '\0';
    return error_set(&op->error, HF_HELD, "%s", why);
}

/* A waiter that a request would have to overtake. */
static struct view waiter_in_way(const struct lease_table *table,
                                 const struct lease_wish *wanted)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (wishes_conflict(&table->waiters[i].wanted->asked.wish, wanted))
            return table->waiters[i].wanted->asked.id;
    return VIEW("");
}

static bool is_shared_wish(const struct lease_table *table, const struct lease_wish *wish)
{
    const struct lease_wish *wanted = table->wanted ? &table->wanted->wish : NULL;
    return wanted && wishes_alike(wanted, wish) && wanted->level == wish->level &&
           wanted->ttl.us == wish->ttl.us && wanted->poll.us == wish->poll.us;
}

/* Whether any waiter uses the table's shared terms. */
static bool is_shared_wish_used(const struct lease_table *table)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (table->waiters[i].wanted->like)
            return true;
    return false;
}

/* Makes a waiter whose JSON is as short as possible. *ret_wanted is the terms that it shares, which
 * the caller frees. The table's shared terms are replaced only if no waiter uses them. */
static enum hf_status make_waiter(const struct lease_table *table, struct table_op *op,
                                  struct waiter_entry **ret_waiter, struct wanted **ret_wanted)
{
    enum hf_status status = HF_OK;
    *ret_wanted = NULL;
    if (is_shared_wish(table, &op->wanted->wish))
        *ret_wanted = wanted_share(table->wanted);
    else if (!is_shared_wish_used(table))
        status = wanted_new(&op->wanted->wish, ret_wanted, &op->error);
    if (status == HF_OK)
        status = waiter_new(op->wanted, *ret_wanted, ret_waiter, &op->error);
    return status;
}

static enum hf_status enqueue(struct lease_table *table, struct table_op *op)
{
    struct waiter_entry *waiter = NULL;
    struct wanted *wanted;
    check(op->wanted->wish.poll.us > 0);
    enum hf_status status = make_waiter(table, op, &waiter, &wanted);
    if (status == HF_OK &&
        !has_bytes_for(table, waiter->entry.size + (wanted ? 2 * wanted->bytes.size : 0)))
        status = refuse_full(table, op);
    if (status == HF_OK && !table_add_waiter(table, waiter))
        status = error_no_memory(&op->error);
    if (status != HF_OK) {
        waiter_free(waiter);
        wanted_free(wanted);
        return status;
    }
    if (wanted)
        table_set_wanted(table, wanted);
    op->changed = true;
    op->outcome = TABLE_QUEUED;
    op->position = table->waiter_count - 1;
    return HF_OK;
}

/* A semaphore's number of slots is fixed while it has holders or waiters. */
static enum hf_status check_slots(const struct lease_table *table, struct table_op *op)
{
    const struct lease_wish *wanted = &op->wanted->wish;
    size_t leases = table->lease_count, count = leases + table->waiter_count;
    if (wanted->mode != LEASE_SLOTS)
        return HF_OK;
    for (size_t i = 0; i < count; i++) {
        const struct lease_wish *other = i < leases
                                             ? &table->leases[i]->wish
                                             : &table->waiters[i - leases].wanted->asked.wish;
        bool over = i < leases && table->leases[i]->status != LEASE_ACTIVE;
        if (!over && other->mode == LEASE_SLOTS && other->slots != wanted->slots &&
            wishes_conflict(other, wanted))
            return error_set(&op->error, HF_MISMATCH,
                             "other clients use it with %" PRIu64 " slots, not %" PRIu64,
                             other->slots, wanted->slots);
    }
    return HF_OK;
}

/* The turn may end without a grant, because the previous holder may have completed the work. */
static enum hf_status claim_turn(struct lease_table *table, struct waiter *waiter,
                                 const struct evidence *evidence, struct table_op *op)
{
    size_t index = (size_t)(waiter - table->waiters);
    const struct lease_request *asked = &waiter->wanted->asked;
    struct view blocker;
    bool first = queue_waiters_before(table, &asked->wish, index, 1) == 0;
    op->position = index;
    op->outcome = TABLE_QUEUED;
    bool in_turn = waiter->reserved;
    MUTANT(mutant_claims_out_of_turn(table, &asked->wish, &in_turn));
    if (!in_turn)
        return HF_OK;
    /* Only a waiter that no active lease blocks is reserved, so nothing has to be cleared first. */
    check(!queue_active_blocks(table, &asked->wish, &blocker));
    enum hf_status status = once_per_check(table, op, &asked->wish, evidence);
    if (status == HF_OK)
        status = grant(table, asked, evidence, op);
    /* After any other refusal the waiter keeps its place. The client may first have to record a
     * limit or raise the epoch, and then claim again. */
    if (status != HF_OK && status != HF_ALREADY)
        return status;
    waiter_free(table_take_waiter(table, index));
    /* If others are ahead that did not claim, they may be dead. The next turn is then offered to
     * several again, and costs no further claim window. */
    if (first)
        table->missed = 0;
    op->changed = true;
    return status;
}

/* The request was granted before, by an attempt whose reply was lost. This attempt reports so even
 * if the lease has ended: it may have ended in this body only, by another request of the same
 * batch, and then it is active in the store until the batch is written. */
static enum hf_status report_already_granted(const struct lease *lease, struct table_op *op)
{
    op->already = true;
    if (lease->status != LEASE_ACTIVE)
        return error_set(&op->error, HF_LOST, "the lease was granted, but is already %s",
                         lease_status_name(lease->status));
    report_grant(op, lease);
    return HF_OK;
}

/* Finished leases that are kept for a while do not count towards the limit. */
static size_t count_unfinished(const struct lease_table *table)
{
    size_t count = 0;
    for (size_t i = 0; i < table->lease_count; i++)
        count += !is_finished(table->leases[i]);
    return count;
}

static enum hf_status apply_acquire(struct lease_table *table, struct table_op *op,
                                    const struct evidence *evidence)
{
    struct lease *lease = table_find(table, op->wanted->id);
    struct waiter *waiter = table_find_waiter(table, op->wanted->id);
    /* An earlier attempt of this request may have been written although its reply was lost. A
     * second lease or a second place in the queue would have no owner. */
    if (lease)
        return report_already_granted(lease, op);
    op->in_line = waiter != NULL;
    if (waiter)
        return claim_turn(table, waiter, evidence, op);
    enum hf_status status = wanted_check(table, op);
    /* A takeover needs no code of its own: leases that are proven to have ended are marked here,
     * so only leases that may still be held can refuse the request below. */
    if (status == HF_OK)
        status = clear_over(table, evidence, op);
    if (status == HF_OK)
        status = set_missing_ends(table, evidence, op);
    if (status == HF_OK)
        trim_crowded(table, op, evidence);
    MUTANT(mutant_reenters_by_holder(table, op->wanted));
    if (status == HF_OK)
        status = check_slots(table, op);
    if (status == HF_OK)
        status = once_per_check(table, op, &op->wanted->wish, evidence);
    if (status != HF_OK)
        return status;
    struct view blocker = VIEW("");
    bool free = !queue_active_blocks(table, &op->wanted->wish, &blocker);
    bool overtakes = RULE(NEWCOMERS_OBEY_ORDER) &&
                     queue_waiters_before(table, &op->wanted->wish, table->waiter_count, 1) > 0;
    if ((!free || overtakes) && !op->wait)
        return free ? refuse_held(op, waiter_in_way(table, &op->wanted->wish),
                                  "other clients are waiting for the lock")
                    : refuse_held(op, blocker, "the lock is held");
    if (count_unfinished(table) >= TABLE_LEASES_MAX || table->waiter_count >= TABLE_WAITERS_MAX)
        return refuse_full(table, op);
    return free && !overtakes ? grant(table, op->wanted, evidence, op) : enqueue(table, op);
}

static enum hf_status apply_claim(struct lease_table *table, struct table_op *op,
                                  const struct evidence *evidence)
{
    struct lease *lease = table_find(table, op->id);
    struct waiter *waiter = table_find_waiter(table, op->id);
    if (lease)
        return report_already_granted(lease, op);
    if (!waiter)
        return error_set(&op->error, HF_LOST, "the place in the queue is gone; acquire again");
    return claim_turn(table, waiter, evidence, op);
}

/* ---- Operations of holders ----------------------------------------------------------- */

/* Finds the lease by its id, because a retried break or release must not end the next holder's
 * lease. */
static struct lease *find_named(const struct lease_table *table, struct table_op *op)
{
    struct lease *lease = table_find(table, op->id);
    MUTANT(mutant_names_no_lease(table, op, &lease));
    return lease;
}

/* The lease that an operation names, if its token matches. Otherwise NULL, and the error is LOST
 * or MISMATCH. */
static struct lease *find_own(const struct lease_table *table, struct table_op *op)
{
    struct lease *lease = find_named(table, op);
    if (!lease) {
        error_set(&op->error, HF_LOST, "no such lease: it expired, was released or was broken");
        return NULL;
    }
    if (lease->token != op->token) {
        error_set(&op->error, HF_MISMATCH, "the lease has a different token, %" PRIu64,
                  lease->token);
        return NULL;
    }
    return lease;
}

static bool is_mine(const struct table_op *op, struct view nonce)
{
    for (size_t i = 0; i < op->mine_count; i++)
        if (view_equal(op->mine[i], nonce))
            return true;
    return false;
}

static enum hf_status apply_renew(struct lease_table *table, struct table_op *op,
                                  const struct evidence *evidence)
{
    struct lease *lease = find_own(table, op);
    enum hf_status status;
    if (!lease)
        return op->error.status;
    /* An earlier attempt was written and its reply was lost. Renewing again would be safe, but it
     * is not needed: the ttl is counted from the t0 of that attempt. A renewal of the same lease
     * that shares this attempt has the same nonce, but not this note. */
    if (lease->status == LEASE_ACTIVE && is_mine(op, lease->nonce) &&
        (op->note.size == 0 || view_equal(op->note, lease->note)))
        return report_already_granted(lease, op);
    /* With this proof any client may take the lease over, so it is marked as expired here too. A
     * renewal never revives a lease. */
    if (lease->status == LEASE_ACTIVE &&
        lease_judge(&table->settings, lease, evidence) != PROOF_NONE) {
        status = end_active_lease(table, lease, LEASE_EXPIRED, VIEW(""), evidence, op);
        if (status != HF_OK)
            return status;
        lease = table_find(table, op->id);
    }
    if (RULE(RENEW_NEVER_REVIVES) && lease->status != LEASE_ACTIVE)
        return error_set(&op->error, HF_LOST, "the lease has ended: %s",
                         lease_status_name(lease->status));
    status = permit_ttl(table, lease->wish.ttl, evidence, op);
    if (status != HF_OK)
        return status;
    struct lease fields = *lease;
    fields.status = LEASE_ACTIVE;
    fields.renewals++;
    if (op->note.size > 0)
        fields.note = op->note;
    renew_times(&fields, evidence);
    status = table_replace_lease(table, lease, &fields, op);
    if (status == HF_OK)
        report_grant(op, table_find(table, op->id));
    return status;
}

static enum hf_status apply_release(struct lease_table *table, struct table_op *op,
                                    const struct evidence *evidence)
{
    struct lease *lease = find_named(table, op);
    op->outcome = TABLE_ENDED;
    if (!lease || lease->status != LEASE_ACTIVE) {
        op->already = true; /* it was released or ended in another way, so it is not held */
        return HF_OK;
    }
    lease = find_own(table, op);
    if (!lease)
        return op->error.status;
    if (lease->output.size > 0)
        return end_active_lease(table, lease, LEASE_RELEASED, VIEW(""), evidence, op);
    table_remove_lease(table, lease_index(table, lease));
    op->changed = true;
    return HF_OK;
}

static enum hf_status end_own(struct lease_table *table, struct table_op *op,
                              enum lease_status end, const struct evidence *evidence)
{
    struct lease *lease = find_own(table, op);
    if (!lease)
        return op->error.status;
    op->outcome = TABLE_ENDED;
    op->already = lease->status == end;
    if (op->already)
        return HF_OK;
    if (lease->status != LEASE_ACTIVE)
        return error_set(&op->error, HF_LOST, "the lease has ended: %s",
                         lease_status_name(lease->status));
    /* The store time of the completion decides when the work may run again. */
    if (end == LEASE_COMPLETED && time_is_yet_unknown(evidence))
        return ask_for_time(op);
    if (!table_takes_note(op->note))
        return error_set(&op->error, HF_INVALID, "a note must be JSON of at most %d bytes",
                         NOTE_BYTES_MAX);
    return end_active_lease(table, lease, end, op->note, evidence, op);
}

static enum hf_status apply_cancel(struct lease_table *table, struct table_op *op,
                                   const struct evidence *evidence)
{
    struct waiter *waiter = table_find_waiter(table, op->id);
    struct lease *lease = table_find(table, op->id);
    op->outcome = TABLE_ENDED;
    if (waiter) {
        waiter_free(table_take_waiter(table, (size_t)(waiter - table->waiters)));
        op->changed = true;
        return HF_OK;
    }
    op->already = !lease;
    /* The request may have been granted by a write that took effect after the client gave up.
     * Without the release, the lock would be held by no client until the ttl has passed. */
    if (RULE(CANCEL_GIVES_BACK) && lease) {
        op->token = lease->token;
        return apply_release(table, op, evidence);
    }
    return HF_OK;
}

/* ---- Operations of others ------------------------------------------------------------ */

static enum hf_status write_audit(struct lease_table *table, const struct lease *lease,
                                  struct table_op *op, const struct evidence *evidence)
{
    struct buffer entry = BUFFER_INIT(8 * KIB_OF_HEADER);
    char at[TIME_TEXT_MAX];
    buffer_print(&entry,
                 "{\"at\":\"%s\",\"what\":\"broken\",\"by\":", time_text(evidence->wall, at));
    json_write_string(&entry, op->by);
    buffer_append(&entry, VIEW(",\"why\":"));
    json_write_string(&entry, op->note);
    buffer_append(&entry, VIEW(",\"lease_id\":"));
    json_write_string(&entry, lease->id);
    buffer_append(&entry, VIEW(",\"holder_id\":"));
    json_write_string(&entry, lease->holder);
    buffer_print(&entry, ",\"token\":%" PRIu64 "}", lease->token);
    bool good = !entry.failed && table_add_audit(table, buffer_view(&entry));
    buffer_release(&entry);
    return good ? HF_OK : error_no_memory(&op->error);
}

static enum hf_status apply_break(struct lease_table *table, struct table_op *op,
                                  const struct evidence *evidence)
{
    if (op->note.size > NOTE_BYTES_MAX || op->by.size > HOLDER_BYTES_MAX)
        return error_set(&op->error, HF_INVALID,
                         "a reason can have at most %d bytes, and the person's name at most %d",
                         NOTE_BYTES_MAX, HOLDER_BYTES_MAX);
    enum hf_status status = HF_OK;
    struct lease *lease = find_own(table, op);
    if (!lease)
        return op->error.status;
    bool active = lease->status == LEASE_ACTIVE;
    /* The audit entry is written first, because ending the lease frees the fields that it quotes.
     * It is dropped again if the lease cannot be ended. */
    if (active)
        status = write_audit(table, lease, op, evidence);
    if (status != HF_OK)
        return status;
    struct view reason = op->note;
    op->note = VIEW(""); /* the reason is in the audit entry; the lease keeps its own note */
    status = end_own(table, op, LEASE_BROKEN, evidence);
    op->note = reason;
    if (active && status != HF_OK)
        table_drop_audit(table);
    return status;
}

static enum hf_status apply_forget(struct lease_table *table, struct table_op *op)
{
    struct lease *lease = table_find(table, op->id);
    if (!lease)
        return HF_OK;
    if (lease->status == LEASE_ACTIVE)
        return error_set(&op->error, HF_HELD, "the lease is active");
    table_remove_lease(table, lease_index(table, lease));
    op->changed = true;
    return HF_OK;
}

static enum hf_status apply_barrier(struct lease_table *table, struct table_op *op,
                                    const struct evidence *evidence)
{
    struct lease *lease = table_find(table, op->wanted->id);
    if (lease)
        return report_already_granted(lease, op);
    if (op->epoch > TOKEN_EPOCH_MAX)
        return error_set(&op->error, HF_INVALID,
                         "epoch %" PRIu64 " is beyond the last possible epoch", op->epoch);
    uint64_t first = op->epoch << 32 | 1;
    if (table->next_token < first)
        table->next_token = first;
    check(op->wanted->wish.scope_count == 0);
    return grant(table, op->wanted, evidence, op);
}

/* ---- All operations ------------------------------------------------------------------ */

static enum hf_status apply_op(struct lease_table *table, struct table_op *op,
                               const struct evidence *evidence)
{
    switch (op->kind) {
    case TABLE_ACQUIRE: return apply_acquire(table, op, evidence);
    case TABLE_CLAIM: return apply_claim(table, op, evidence);
    case TABLE_CANCEL: return apply_cancel(table, op, evidence);
    case TABLE_RENEW: return apply_renew(table, op, evidence);
    case TABLE_RELEASE: return apply_release(table, op, evidence);
    case TABLE_COMPLETE: return end_own(table, op, LEASE_COMPLETED, evidence);
    case TABLE_FAIL: return end_own(table, op, LEASE_FAILED, evidence);
    case TABLE_BREAK: return apply_break(table, op, evidence);
    case TABLE_SCAVENGE: return clear_over(table, evidence, op);
    case TABLE_FORGET: return apply_forget(table, op);
    case TABLE_BARRIER: return apply_barrier(table, op, evidence);
    case TABLE_KEEP: return HF_OK;
    }
    check_unreachable();
}

enum hf_status table_apply(struct lease_table *table, struct table_op *op,
                           const struct evidence *evidence)
{
    op->outcome = TABLE_NOTHING;
    op->changed = false;
    op->cleared = 0;
    op->already = false;
    op->in_line = false;
    op->needs_time = false;
    op->needs_epoch = false;
    op->needs_limit = false;
    op->blocker[0] = '\0';
    error_clear(&op->error);
    enum hf_status status = apply_op(table, op, evidence);
    /* The write that frees a lock also records whose turn it is. Without the record no waiter may
     * claim and no newcomer may overtake, so the lock would stay idle until the next write. */
    if (op->changed) {
        trim_finished(table, evidence);
        /* Nobody would claim a turn that is given to a waiter that is gone. */
        do
            queue_settle(table, evidence->now);
        while (queue_drop_gone(table, op));
        MUTANT(mutant_hands_over(table, evidence));
    }
    return status;
}
