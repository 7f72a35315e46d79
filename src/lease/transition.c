/* transition.c: the moves of a lease table. Each looks before it changes anything; all that
 * a refusal leaves behind is that what was over is marked so, and what had no end has one. */
#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/utf8.h"
#include "lease/table_inside.h"

#include <inttypes.h>
#include <stdio.h>

static size_t index_of(const struct lease_table *table, const struct lease *lease)
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
    table->leases[index_of(table, old)] = lease;
    table->bytes += lease->entry.size;
    table->bytes -= old->entry.size;
    lease_free(old);
    op->changed = true;
    return HF_OK;
}

/* ---- Ending -------------------------------------------------------------------------- */

/* Whether the same was completed by somebody who was granted it later. */
static bool is_superseded(const struct lease_table *table, size_t index)
{
    for (size_t i = index + 1; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_COMPLETED &&
            leases_same_scopes(table->leases[i], table->leases[index]))
            return true;
    return false;
}

static bool is_of_chunks(const struct lease *lease)
{
    return lease->scope_count > 0 && lease->scopes[0].kind == SCOPE_CHUNK;
}

/* Whether compaction has yet to find out what became of its output; who completes it has. Outputs
 * of other locks are refused today, but may stand in a table: nobody will ever settle those. */
static bool awaits_settling(const struct lease *lease)
{
    enum scope_kind kind = lease->scope_count > 0 ? lease->scopes[0].kind : SCOPE_CHUNK;
    return lease->output.size > 0 && lease->status != LEASE_COMPLETED &&
           (kind == SCOPE_CHUNK || kind == SCOPE_PIN);
}

/* Whether it is over and nothing depends on it. */
static bool is_finished(const struct lease *lease)
{
    return lease->status != LEASE_ACTIVE && !awaits_settling(lease);
}

/* When the next lease of the table ends: see RULE(COMPLETION_IS_REMEMBERED). */
static bool is_forgotten(const struct lease_table *table, size_t index)
{
    return table->leases[index]->once_per.us > 0 && index + 1 < table->lease_count &&
           !RULE(COMPLETION_IS_REMEMBERED);
}

/* Keeps what is promised or yet to be settled, and of the rest the newest, for people to look at.
 * The newest completion of a scope answers `once_per`, so it outlives the bound on finished ones;
 * not of chunks, which are merged once and are gone then: nobody will ask. */
static void trim_finished(struct lease_table *table, const struct evidence *evidence)
{
    size_t finished = 0, completed = 0, bytes = 0;
    if (!table->ended)
        return;
    table->ended = false;
    for (size_t i = table->lease_count; i-- > 0;) {
        const struct lease *lease = table->leases[i];
        bool may_answer = lease->once_per.us > 0 || !is_of_chunks(lease);
        bool answers =
            lease->status == LEASE_COMPLETED && may_answer && !is_superseded(table, i);
        bool promised =
            answers && once_per_is_promised(lease, evidence) && RULE(COMPLETION_IS_REMEMBERED);
        if (!is_finished(lease) || promised)
            continue;
        bool is_last = answers && !is_of_chunks(lease);
        bytes += is_last ? 0 : lease->entry.size;
        bool keep = is_last ? ++completed <= TABLE_COMPLETED_MAX
                            : ++finished <= TABLE_FINISHED_MAX && bytes <= TABLE_FINISHED_BYTES;
        if (!keep || is_forgotten(table, i))
            table_remove_lease(table, i);
    }
}

/* Makes room in a table that an earlier version has filled with leases whose outputs nobody ever
 * settles. */
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

static enum hf_status end_lease(struct lease_table *table, struct lease *lease,
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

/* Counts one that is cleared, and notes whose the first one was. */
static void note_cleared(struct table_op *op, uint64_t token, const char *holder)
{
    if (op->cleared++ > 0)
        return;
    op->cleared_token = token;
    memcpy(op->cleared_holder, holder, sizeof op->cleared_holder);
}

/* What is provably over is marked so, and waiters that missed their turn go. */
static enum hf_status clear_over(struct lease_table *table, const struct evidence *evidence,
                                 struct table_op *op)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE ||
            lease_judge(&table->settings, lease, evidence) == PROOF_NONE)
            continue;
        char holder[HOLDER_BYTES_MAX + 1] = "";
        uint64_t token = lease->token;
        struct view label = view_first(lease->holder, HOLDER_BYTES_MAX);
        if (label.size > 0)
            memcpy(holder, label.data, label.size);
        enum hf_status status = end_lease(table, lease, LEASE_EXPIRED, VIEW(""), evidence, op);
        if (status != HF_OK)
            return status;
        note_cleared(op, token, holder);
    }
    if (queue_drop_missed(table, evidence->now))
        op->changed = true;
    return HF_OK;
}

/* Locks of other programs have no clock, and a process that does not live as long as they last
 * cannot watch them to their end. So whoever asks for the lock of a shard writes down when they
 * have been watched by the store's clock; once, and counted from now, after they were read. */
static enum hf_status note_ends(struct lease_table *table, const struct evidence *evidence,
                                struct table_op *op)
{
    enum hf_status status = HF_OK;
    bool can = table->of_shard && evidence->time_known;
    for (size_t i = 0; can && status == HF_OK && i < table->lease_count; i++) {
        struct lease *lease = table->leases[i];
        if (lease->status != LEASE_ACTIVE || lease->clock.size > 0)
            continue;
        struct lease fields = *lease;
        fields.clock = evidence->clock;
        fields.expires.us = evidence->latest.us + lease_watch_span(&table->settings, lease).us;
        status = table_replace_lease(table, lease, &fields, op);
    }
    return status;
}

/* ---- Granting ------------------------------------------------------------------------ */

/* The times and the nonce that a grant and a renewal have in common. */
static void stamp(struct lease *fields, const struct evidence *evidence)
{
    fields->nonce = evidence->nonce;
    fields->clock = evidence->time_known ? evidence->clock : VIEW("");
    fields->expires.us = evidence->time_known ? evidence->latest.us + fields->ttl.us : 0;
    fields->expires_at = wall_add(evidence->wall, fields->ttl);
    fields->seen = evidence->now;
}

static void note_granted(struct table_op *op, const struct lease *lease)
{
    op->outcome = TABLE_GRANTED;
    op->granted = lease->token;
    op->granted_by = lease->nonce;
    op->expires = lease->expires;
}

static enum hf_status full(const struct lease_table *table, struct table_op *op)
{
    return error_set(&op->error, HF_UNAVAILABLE, "the table is full: %zu leases, %zu waiters",
                     table->lease_count, table->waiter_count);
}

/* The bound in bytes holds for what is new; who waited already has a right to its lease. */
static bool has_bytes_for(const struct lease_table *table, const struct lease *lease)
{
    size_t more = lease->entry.size + (lease->like ? 2 * lease->like->bytes.size : 0);
    return table->bytes + table->bytes_to_come + more + KIB_OF_HEADER < TABLE_BYTES_MAX;
}

static enum hf_status grant(struct lease_table *table, const struct lease *wanted,
                            const struct evidence *evidence, struct table_op *op)
{
    enum hf_status status = permit_ttl(table, wanted->ttl, evidence, op);
    if (status == HF_OK)
        status = permit_token(table, op);
    if (status != HF_OK)
        return status;
    if (op->once_per.us > 0 && time_is_yet_unknown(evidence))
        return ask_for_time(op);
    struct lease fields = *wanted;
    fields.token = table->next_token;
    fields.status = LEASE_ACTIVE;
    fields.renewals = 0;
    fields.poll = SPAN_US(0);
    fields.acquired_at = evidence->wall;
    fields.ended.us = 0;
    fields.once_per = op->once_per;
    fields.granted = op->once_per.us > 0 ? stamp_now(evidence) : (struct stamp){ 0, 0 };
    stamp(&fields, evidence);
    struct lease *lease = NULL;
    status = lease_new(&fields, &lease, &op->error);
    if (status == HF_OK)
        status = once_per_promise(table, lease, evidence, op);
    if (status != HF_OK) {
        lease_free(lease);
        return status;
    }
    if (op->kind == TABLE_ACQUIRE && wanted == op->wanted && !has_bytes_for(table, lease)) {
        lease_free(lease);
        return full(table, op);
    }
    if (!table_add_lease(table, lease)) {
        lease_free(lease);
        return error_no_memory(&op->error);
    }
    if (RULE(TOKENS_RISE) || op->kind != TABLE_CLAIM)
        table->next_token++;
    op->changed = true;
    note_granted(op, lease);
    return HF_OK;
}

/* Grants what nothing may stand in the way of. */
static enum hf_status grant_free(struct lease_table *table, const struct lease *wanted,
                                 const struct evidence *evidence, struct table_op *op)
{
    struct view blocker;
    check(!queue_active_blocks(table, wanted, &blocker));
    return grant(table, wanted, evidence, op);
}

static enum hf_status held(struct table_op *op, struct view blocker, const char *why)
{
    struct view shown = view_first(blocker, sizeof op->blocker - 1);
    memcpy(op->blocker, shown.data, shown.size);
    op->blocker[shown.size] = '\0';
    return error_set(&op->error, HF_HELD, "%s", why);
}

/* Some waiter that a request would have to overtake. */
static struct view waiter_in_way(const struct lease_table *table, const struct lease *wanted)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (leases_conflict(table->waiters[i].wanted, wanted))
            return table->waiters[i].wanted->id;
    return VIEW("");
}

static bool is_wanted(const struct lease_table *table, const struct lease *lease)
{
    const struct lease *wanted = table->wanted;
    return wanted && leases_same_wish(wanted, lease) && wanted->level == lease->level &&
           wanted->ttl.us == lease->ttl.us && wanted->poll.us == lease->poll.us;
}

/* Whether what the table says to be wanted is wanted by anybody who does not say. */
static bool is_wanted_in_use(const struct lease_table *table)
{
    for (size_t i = 0; i < table->waiter_count; i++)
        if (table->waiters[i].wanted->like)
            return true;
    return false;
}

/* One who waits, as brief as can be; what it does not say is *ret_wanted, to be freed. */
static enum hf_status make_waiter(const struct lease_table *table, struct table_op *op,
                                  struct lease **ret_waiter, struct lease **ret_wanted)
{
    struct lease fields = *op->wanted;
    enum hf_status status = HF_OK;
    fields.like = NULL;
    *ret_wanted = NULL;
    if (is_wanted(table, op->wanted))
        *ret_wanted = lease_share(table->wanted);
    else if (!is_wanted_in_use(table))
        status = wanted_new(&fields, ret_wanted, &op->error);
    fields.like = *ret_wanted;
    if (status == HF_OK)
        status = lease_new(&fields, ret_waiter, &op->error);
    return status;
}

static enum hf_status enqueue(struct lease_table *table, struct table_op *op)
{
    struct lease *waiter = NULL, *wanted;
    check(op->wanted->poll.us > 0);
    enum hf_status status = make_waiter(table, op, &waiter, &wanted);
    if (status == HF_OK && !has_bytes_for(table, waiter))
        status = full(table, op);
    if (status == HF_OK && !table_add_waiter(table, waiter))
        status = error_no_memory(&op->error);
    if (status != HF_OK) {
        lease_free(waiter);
        lease_free(wanted);
        return status;
    }
    if (wanted)
        table_set_wanted(table, wanted);
    op->changed = true;
    op->outcome = TABLE_QUEUED;
    op->position = table->waiter_count - 1;
    return HF_OK;
}

/* A semaphore has one number of slots while anybody holds or waits. */
static enum hf_status check_slots(const struct lease_table *table, struct table_op *op)
{
    const struct lease *wanted = op->wanted;
    size_t count = table->lease_count + table->waiter_count;
    for (size_t i = 0; wanted->mode == LEASE_SLOTS && i < count; i++) {
        const struct lease *other = i < table->lease_count
                                        ? table->leases[i]
                                        : table->waiters[i - table->lease_count].wanted;
        if (other->status == LEASE_ACTIVE && other->mode == LEASE_SLOTS &&
            other->slots != wanted->slots && leases_conflict(other, wanted))
            return error_set(&op->error, HF_MISMATCH,
                             "others use it with %" PRIu64 " slots, not %" PRIu64, other->slots,
                             wanted->slots);
    }
    return HF_OK;
}

/* Its turn may come to nothing: done meanwhile by the one before. */
static enum hf_status claim(struct lease_table *table, struct waiter *waiter,
                            const struct evidence *evidence, struct table_op *op)
{
    size_t index = (size_t)(waiter - table->waiters);
    op->position = index;
    op->outcome = TABLE_QUEUED;
    struct view blocker;
    if (!waiter->reserved &&
        (RULE(CLAIM_IN_TURN) || queue_active_blocks(table, waiter->wanted, &blocker)))
        return HF_OK;
    enum hf_status status = once_per_check(table, op, waiter->wanted, evidence);
    if (status == HF_OK)
        status = grant_free(table, waiter->wanted, evidence, op);
    if (status != HF_OK && status != HF_ALREADY)
        return status;
    lease_free(table_take_waiter(table, index));
    table->missed = 0;
    op->changed = true;
    return status;
}

/* A request that was made before, by an attempt whose answer was lost. */
static enum hf_status already_there(const struct lease *lease, struct table_op *op)
{
    if (lease->status != LEASE_ACTIVE)
        return error_set(&op->error, HF_LOST, "it was granted and is over: %s",
                         lease_status_name(lease->status));
    note_granted(op, lease);
    op->already = true;
    return HF_OK;
}

/* What the same holder id has, which is a label and no name: see RULE(REENTRANCE_BY_SESSION). */
static struct lease *find_of_holder(const struct lease_table *table, const struct lease *wanted)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE &&
            view_equal(table->leases[i]->holder, wanted->holder) &&
            leases_same_wish(table->leases[i], wanted))
            return table->leases[i];
    return NULL;
}

/* What is over and kept for a while takes nobody's room. */
static size_t standing_count(const struct lease_table *table)
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
    if (lease)
        return already_there(lease, op);
    op->in_line = waiter != NULL;
    if (waiter)
        return claim(table, waiter, evidence, op);
    enum hf_status status = wanted_check(table, op);
    if (status == HF_OK)
        status = clear_over(table, evidence, op);
    if (status == HF_OK)
        status = note_ends(table, evidence, op);
    if (status == HF_OK)
        trim_crowded(table, op, evidence);
    struct lease *former =
        RULE(REENTRANCE_BY_SESSION) ? NULL : find_of_holder(table, op->wanted);
    if (status == HF_OK && former)
        status = end_lease(table, former, LEASE_RELEASED, VIEW(""), evidence, op);
    if (status == HF_OK)
        status = check_slots(table, op);
    if (status == HF_OK)
        status = once_per_check(table, op, op->wanted, evidence);
    if (status != HF_OK)
        return status;
    struct view blocker = VIEW("");
    bool free = !queue_active_blocks(table, op->wanted, &blocker);
    bool first = queue_waiters_before(table, op->wanted, table->waiter_count, 1) == 0 ||
                 !RULE(NEWCOMERS_OBEY_ORDER);
    if ((!free || !first) && !op->wait)
        return free ? held(op, waiter_in_way(table, op->wanted), "others wait for it")
                    : held(op, blocker, "it is held");
    if (standing_count(table) >= TABLE_LEASES_MAX || table->waiter_count >= TABLE_WAITERS_MAX)
        return full(table, op);
    return free && first ? grant_free(table, op->wanted, evidence, op) : enqueue(table, op);
}

static enum hf_status apply_claim(struct lease_table *table, struct table_op *op,
                                  const struct evidence *evidence)
{
    struct lease *lease = table_find(table, op->id);
    struct waiter *waiter = table_find_waiter(table, op->id);
    if (lease)
        return already_there(lease, op);
    if (!waiter)
        return error_set(&op->error, HF_LOST, "the place in the queue is gone");
    return claim(table, waiter, evidence, op);
}

/* ---- Holders ------------------------------------------------------------------------- */

/* Whether a holder's operation is about the lease that it names, and no other. */
static bool goes_by_name(const struct table_op *op)
{
    return (op->kind != TABLE_RELEASE || RULE(RELEASE_NAMES_THE_LEASE)) &&
           (op->kind != TABLE_BREAK || RULE(BREAK_NAMES_THE_LEASE));
}

static struct lease *find_named(const struct lease_table *table, const struct table_op *op)
{
    if (goes_by_name(op))
        return table_find(table, op->id);
    return table->lease_count > 0 ? table->leases[table->lease_count - 1] : NULL;
}

/* The lease that an operation names, if it is still the one; else NULL, and LOST or MISMATCH. */
static struct lease *find_own(const struct lease_table *table, struct table_op *op)
{
    struct lease *lease = find_named(table, op);
    if (!lease) {
        error_set(&op->error, HF_LOST, "no such lease: it expired, was released or was broken");
        return NULL;
    }
    if (lease->token != op->token && goes_by_name(op)) {
        error_set(&op->error, HF_MISMATCH, "the lease has another token: %" PRIu64,
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
    if (lease->status == LEASE_ACTIVE && is_mine(op, lease->nonce))
        return already_there(lease, op);
    if (lease->status == LEASE_ACTIVE &&
        lease_judge(&table->settings, lease, evidence) != PROOF_NONE) {
        status = end_lease(table, lease, LEASE_EXPIRED, VIEW(""), evidence, op);
        if (status != HF_OK)
            return status;
        lease = table_find(table, op->id);
    }
    if (lease->status != LEASE_ACTIVE && RULE(RENEW_NEVER_REVIVES))
        return error_set(&op->error, HF_LOST, "the lease is over: %s",
                         lease_status_name(lease->status));
    status = permit_ttl(table, lease->ttl, evidence, op);
    if (status != HF_OK)
        return status;
    struct lease fields = *lease;
    fields.status = LEASE_ACTIVE;
    fields.renewals++;
    stamp(&fields, evidence);
    status = table_replace_lease(table, lease, &fields, op);
    if (status == HF_OK)
        note_granted(op, table_find(table, op->id));
    return status;
}

static enum hf_status apply_release(struct lease_table *table, struct table_op *op,
                                    const struct evidence *evidence)
{
    struct lease *lease = find_named(table, op);
    op->outcome = TABLE_ENDED;
    if (!lease || lease->status != LEASE_ACTIVE) {
        op->already = true; /* released, or over in another way: it is not held */
        return HF_OK;
    }
    lease = find_own(table, op);
    if (!lease)
        return op->error.status;
    if (lease->output.size > 0)
        return end_lease(table, lease, LEASE_RELEASED, VIEW(""), evidence, op);
    table_remove_lease(table, index_of(table, lease));
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
        return error_set(&op->error, HF_LOST, "the lease is over: %s",
                         lease_status_name(lease->status));
    /* When it was done decides when it may be done again, by the store's time. */
    if (end == LEASE_COMPLETED && time_is_yet_unknown(evidence))
        return ask_for_time(op);
    if (!table_takes_note(op->note))
        return error_set(&op->error, HF_INVALID, "a note is JSON of at most %d bytes",
                         NOTE_BYTES_MAX);
    return end_lease(table, lease, end, op->note, evidence, op);
}

static enum hf_status apply_complete(struct lease_table *table, struct table_op *op,
                                     const struct evidence *evidence)
{
    return end_own(table, op, LEASE_COMPLETED, evidence);
}

static enum hf_status apply_fail(struct lease_table *table, struct table_op *op,
                                 const struct evidence *evidence)
{
    return end_own(table, op, LEASE_FAILED, evidence);
}

static enum hf_status apply_cancel(struct lease_table *table, struct table_op *op,
                                   const struct evidence *evidence)
{
    struct waiter *waiter = table_find_waiter(table, op->id);
    struct lease *lease = table_find(table, op->id);
    op->outcome = TABLE_ENDED;
    if (waiter) {
        lease_free(table_take_waiter(table, (size_t)(waiter - table->waiters)));
        op->changed = true;
        return HF_OK;
    }
    if (lease)
        op->token = lease->token;
    if (lease && !RULE(CANCEL_GIVES_BACK))
        return HF_OK;
    return apply_release(table, op, evidence);
}

/* ---- Others -------------------------------------------------------------------------- */

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
                         "a reason has at most %d bytes, the name of who breaks %d",
                         NOTE_BYTES_MAX, HOLDER_BYTES_MAX);
    enum hf_status status = HF_OK;
    struct lease *lease = find_own(table, op);
    if (!lease)
        return op->error.status;
    bool active = lease->status == LEASE_ACTIVE;
    if (active)
        status = write_audit(table, lease, op, evidence);
    if (status != HF_OK)
        return status;
    struct view reason = op->note;
    op->note = VIEW(""); /* the reason goes into the audit; the lease keeps its own note */
    status = end_own(table, op, LEASE_BROKEN, evidence);
    op->note = reason;
    if (active && status != HF_OK)
        table_drop_audit(table);
    return status;
}

static enum hf_status apply_scavenge(struct lease_table *table, struct table_op *op,
                                     const struct evidence *evidence)
{
    return clear_over(table, evidence, op);
}

static enum hf_status apply_keep(struct lease_table *table, struct table_op *op,
                                 const struct evidence *evidence)
{
    (void)table;
    (void)op;
    (void)evidence;
    return HF_OK;
}

static enum hf_status apply_forget(struct lease_table *table, struct table_op *op,
                                   const struct evidence *evidence)
{
    (void)evidence;
    struct lease *lease = table_find(table, op->id);
    if (!lease)
        return HF_OK;
    if (lease->status == LEASE_ACTIVE)
        return error_set(&op->error, HF_HELD, "the lease is active");
    table_remove_lease(table, index_of(table, lease));
    op->changed = true;
    return HF_OK;
}

static enum hf_status apply_barrier(struct lease_table *table, struct table_op *op,
                                    const struct evidence *evidence)
{
    struct lease *lease = table_find(table, op->wanted->id);
    if (lease)
        return already_there(lease, op);
    if (op->epoch > TOKEN_EPOCH_MAX)
        return error_set(&op->error, HF_INVALID, "epoch %" PRIu64 " is past the last",
                         op->epoch);
    uint64_t first = op->epoch << 32 | 1;
    if (table->next_token < first)
        table->next_token = first;
    check(op->wanted->scope_count == 0);
    return grant(table, op->wanted, evidence, op);
}

/* Grants at once what is only reserved; the one who waits has then no send time of its own. See
 * RULE(CLAIM_BY_OWN_PUT). */
static void hand_over(struct lease_table *table, const struct evidence *evidence)
{
    for (size_t i = table->waiter_count; i-- > 0;) {
        struct table_op op = { .kind = TABLE_CLAIM };
        if (table->waiters[i].reserved)
            claim(table, &table->waiters[i], evidence, &op);
        queue_settle(table, evidence->now);
    }
}

/* ---- All of it ----------------------------------------------------------------------- */

enum hf_status table_apply(struct lease_table *table, struct table_op *op,
                           const struct evidence *evidence)
{
    static enum hf_status (*const moves[])(struct lease_table *, struct table_op *,
                                           const struct evidence *) = {
        [TABLE_ACQUIRE] = apply_acquire,   [TABLE_CLAIM] = apply_claim,
        [TABLE_CANCEL] = apply_cancel,     [TABLE_RENEW] = apply_renew,
        [TABLE_RELEASE] = apply_release,   [TABLE_COMPLETE] = apply_complete,
        [TABLE_FAIL] = apply_fail,         [TABLE_BREAK] = apply_break,
        [TABLE_SCAVENGE] = apply_scavenge, [TABLE_FORGET] = apply_forget,
        [TABLE_BARRIER] = apply_barrier,   [TABLE_KEEP] = apply_keep,
    };
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
    enum hf_status status = moves[op->kind](table, op, evidence);
    if (op->changed) {
        trim_finished(table, evidence);
        queue_settle(table, evidence->now);
        if (!RULE(CLAIM_BY_OWN_PUT))
            hand_over(table, evidence);
    }
    return status;
}

/* No two active leases conflict, except slots up to their number, and what a barrier found. */
static void check_exclusion(const struct lease_table *table, size_t index)
{
    const struct lease *lease = table->leases[index];
    uint64_t sharing = 1;
    for (size_t i = 0; i < index; i++) {
        const struct lease *other = table->leases[i];
        if (other->status != LEASE_ACTIVE || other->scope_count == 0 ||
            !leases_conflict(other, lease))
            continue;
        check(lease->mode == LEASE_SLOTS && other->mode == LEASE_SLOTS);
        check(++sharing <= lease->slots);
    }
}

static void check_waiter(const struct lease_table *table, size_t index)
{
    const struct waiter *waiter = &table->waiters[index];
    size_t named = (size_t)1 << table->missed;
    struct view blocker;
    check(!table_find(table, waiter->wanted->id));
    check(table_find_waiter(table, waiter->wanted->id) == waiter);
    check(waiter->reserved ==
          (!queue_active_blocks(table, waiter->wanted, &blocker) &&
           queue_waiters_before(table, waiter->wanted, index, named) < named));
}

void table_check(const struct lease_table *table)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        check(lease->token < table->next_token || table->adopted);
        check(table_find(table, lease->id) == lease);
        if (lease->status == LEASE_ACTIVE && lease->scope_count > 0)
            check_exclusion(table, i);
    }
    for (size_t i = 0; i < table->waiter_count; i++)
        check_waiter(table, i);
}
