/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: converts operations on tables to operations on documents, and computes how long a
 * grant is valid. Validity is never counted from a reply: it always starts at the t0 of the attempt
 * that granted the lease. */
#include "lock/client_inside.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"
#include "lock/epoch.h"

/* How many times a request is repeated after a missing limit or epoch has been supplied. */
#define ASK_TURNS_MAX 12

/* ---- Applying ------------------------------------------------------------------------ */

/* Notes which of the wanted scopes would be refused if requested alone, with this many waiters
 * ahead. */
static void note_blocked(struct request *request, const struct lease_table *table, size_t ahead)
{
    struct lease_wish one = request->table.wanted->wish;
    one.scope_count = 1;
    for (size_t i = 0; i < request->table.wanted->wish.scope_count; i++) {
        one.scopes = &request->table.wanted->wish.scopes[i];
        request->blocked[i] = false;
        for (size_t j = 0; j < table->lease_count; j++)
            if (table->leases[j]->status == LEASE_ACTIVE &&
                wishes_conflict(&table->leases[j]->wish, &one))
                request->blocked[i] = true;
        for (size_t j = 0; j < ahead; j++)
            if (wishes_conflict(&table->waiters[j].wanted->asked.wish, &one))
                request->blocked[i] = true;
    }
}

/* Copies the grant, because the table may be freed. */
static void copy_grant(struct request *request, const struct lease_table *table)
{
    struct table_op *op = &request->table;
    struct view id = op->kind == TABLE_ACQUIRE ? op->wanted->id : op->id;
    struct view nonce = view_first(op->granted_by, NONCE_SIZE);
    memcpy(request->granted_by, nonce.data, nonce.size);
    request->granted_by[nonce.size] = '\0';
    op->granted_by = view_of(request->granted_by);
    request->ttl = table_find(table, id)->wish.ttl;
}

bool client_waiter_gone(void *argument, const struct lease_request *waiter)
{
    struct hf_client *client = argument;
    if (view_equal(waiter->session, view_of(client->session)))
        return false;
    store_session_find(&client->presence);
    struct view place = store_session_place(&client->presence);
    /* A session is not locked in a file that it has not joined, however alive it is. */
    if (RULE(SESSIONS_OF_ONE_PLACE) && (place.size == 0 || !view_equal(waiter->place, place)))
        return false;
    return store_session_gone(&client->presence, waiter->session);
}

/* Notes which waiters in other processes this write gives their turn, because they must be
 * notified. A turn that began with this attempt is recognised by its time. Returns true if one of
 * them has no bell of its own, so that the write must notify everybody. */
static bool note_turns_elsewhere(struct request *request, const struct lease_table *table,
                                 const struct evidence *evidence)
{
    struct view session = view_of(request->ref->client->session);
    bool everybody = false, can_ring = store_session_can_ring(&request->ref->client->presence);
    request->bells = (struct session_bells){ { 0 } };
    if (!request->table.changed)
        return false;
    for (size_t i = 0; i < table->waiter_count; i++) {
        const struct lease_request *asked = &table->waiters[i].wanted->asked;
        if (!table->waiters[i].reserved ||
            table->waiters[i].reserved_seen.us != evidence->now.us ||
            view_equal(asked->session, session))
            continue;
        bool rung = asked->place.size > 0 && can_ring &&
                    session_bells_add(&request->bells, asked->session);
        everybody = everybody || !rung;
    }
    return everybody;
}

/* Whether the lease that was to be released had already been broken or marked as expired. */
static bool was_taken(const struct request *request, const struct lease_table *table)
{
    const struct lease *lease = table_find(table, request->table.id);
    return lease && (lease->status == LEASE_BROKEN || lease->status == LEASE_EXPIRED);
}

static bool has_active_lease(const struct lease_table *table)
{
    for (size_t i = 0; i < table->lease_count; i++)
        if (table->leases[i]->status == LEASE_ACTIVE)
            return true;
    return false;
}

/* Whether an operation that conflicts is tried again soon, judged by the table that it found:
 *
 *   A lock is released for which others wait, or that had a single holder: who else writes to the
 *   table of a name then is about to wait for it.
 *
 *   The line is joined. The holders have cached tables and are faster, and would have the lock
 *   again and again while this client pauses. But it has time until those in line have had the
 *   lock, and others may join at the same time. */
static bool is_awaited(const struct request *request, const struct lease_table *table)
{
    const struct table_op *op = &request->table;
    bool of_name = request->ref->kind == TABLES_OF_NAMES;
    if (op->kind == TABLE_RELEASE)
        return table->waiter_count > 0 || (of_name && !has_active_lease(table));
    if (op->kind != TABLE_ACQUIRE || !op->wait)
        return false;
    if (op->outcome == TABLE_QUEUED)
        return of_name || op->position == 0;
    return of_name && op->outcome == TABLE_GRANTED && table->waiter_count == 0 &&
           op->wanted->wish.mode == LEASE_EXCLUSIVE;
}

/* Applies the operation, with the hook before and after it. */
static enum hf_status apply_with_hook(struct request *request, struct lease_table *table,
                                      const struct evidence *evidence, bool *changed)
{
    struct table_hook *hook = request->hook;
    enum hf_status status = HF_OK;
    if (hook && hook->before)
        status = hook->before(hook, table, evidence, changed, &request->table.error);
    if (status != HF_OK) { /* clears the results of an earlier attempt */
        request->table.outcome = TABLE_NOTHING;
        request->table.changed = request->table.already = request->table.in_line = false;
        request->table.needs_time = request->table.needs_epoch = false;
        request->table.needs_limit = false;
        request->table.cleared = 0;
        return status;
    }
    status = table_apply(table, &request->table, evidence);
    if (status == HF_OK && hook && hook->after)
        hook->after(hook, table, &request->table, changed);
    return status;
}

static enum hf_status apply_request(struct doc_op *op, void *body,
                                    const struct evidence *evidence)
{
    struct request *request = (struct request *)(void *)op;
    struct lease_table *table = body;
    struct view mine[DOC_ATTEMPTS_MAX]; /* the nonces by which it recognises its own effect */
    size_t tried = op->attempt_count < DOC_ATTEMPTS_MAX ? op->attempt_count : DOC_ATTEMPTS_MAX;
    for (size_t i = 0; i < tried; i++)
        mine[i] = view_of(op->attempts[i].nonce);
    request->table.mine = mine;
    request->table.mine_count = tried;
    bool of_hook = false;
    enum hf_status status = apply_with_hook(request, table, evidence, &of_hook);
    request->table.mine = NULL;
    request->table.mine_count = 0;
    request->settings = table->settings;
    if (status == HF_OK && request->table.outcome == TABLE_GRANTED)
        copy_grant(request, table);
    /* Returned as a refusal, because src/doc checks a refusal against a fresh body. The body may
     * be cached, and it may be our turn by now. */
    if (status == HF_OK && request->table.kind == TABLE_CLAIM &&
        request->table.outcome == TABLE_QUEUED)
        status = error_set(&request->table.error, HF_HELD, "in the queue, with %zu ahead",
                           request->table.position);
    request->taken = request->table.kind == TABLE_RELEASE && was_taken(request, table);
    if (request->blocked)
        memset(request->blocked, 0, request->table.wanted->wish.scope_count * sizeof(bool));
    if (status == HF_HELD && request->blocked)
        note_blocked(request, table, table->waiter_count);
    else if (status == HF_OK && request->table.outcome == TABLE_QUEUED && request->blocked)
        note_blocked(request, table, request->table.position);
    op->changed = request->table.changed || of_hook;
    op->found = request->table.already || request->table.in_line;
    op->quiet = !note_turns_elsewhere(request, table, evidence);
    op->soon = RULE(AWAITED_IS_TRIED_SOON) && is_awaited(request, table);
    op->ahead = request->table.outcome == TABLE_QUEUED ? request->table.position : 0;
    op->error = request->table.error;
    return status;
}

static void forget_hook_attempt(struct doc_op *op)
{
    struct table_hook *hook = ((struct request *)(void *)op)->hook;
    if (hook && hook->unsent)
        hook->unsent(hook);
}

void request_init(struct request *request, struct table_ref *ref, enum table_op_kind kind,
                  struct mono_time deadline)
{
    *request = (struct request){ .table = { .kind = kind }, .ref = ref };
    request->op.apply = apply_request;
    request->op.unsent = forget_hook_attempt;
    /* A lease that is not renewed in time is lost, and a turn that is not claimed in time too.
     * While a release is not written, everybody in line waits for it. */
    request->op.urgent = kind == TABLE_RENEW || kind == TABLE_CLAIM ||
                         (kind == TABLE_RELEASE && atomic_load(&ref->queue.has_line));
    request->table.gone = client_waiter_gone;
    request->table.gone_argument = ref->client;
    request->table.limited = !ref->space->of_shards;
    request->table.limit = table_limit(ref->space, ref->kind);
    request->table.ttl_unsaid = ref->space->settings.ttl_max;
    request->op.deadline = deadline.us > 0 ? deadline : client_deadline(ref->client);
}

/* Whether the request was refused because it lacked something that we can supply. */
static bool lacks(const struct request *request, bool what)
{
    return what && request->op.error.status == HF_UNAVAILABLE;
}

static bool needs_time(struct request *const *requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (lacks(requests[i], requests[i]->table.needs_time))
            return true;
    return false;
}

/* Raises the epoch for requests that need a later one. True if there are any. */
static bool supply_epoch(struct table_ref *ref, struct request *const *requests, size_t count)
{
    struct hf_error error;
    uint64_t epoch = 0;
    for (size_t i = 0; i < count; i++) {
        if (!lacks(requests[i], requests[i]->table.needs_epoch))
            continue;
        struct epoch_ref of_space = epoch_of_tables(ref->space, requests[i]->op.deadline);
        if (epoch == 0 && epoch_raise(&of_space, /* by */ 1, &epoch, &error) != HF_OK) {
            error_prefix(&error,
                         "the tokens of the epoch are exhausted, and it cannot be raised");
            requests[i]->op.error = error;
            return false;
        }
        requests[i]->table.epoch = epoch;
    }
    return epoch > 0;
}

/* Records a limit for requests whose ttl is not covered by one. True if they should be sent
 * again. */
static bool supply_limit(struct table_ref *ref, struct request *const *requests, size_t count)
{
    struct hf_error error;
    const struct table_op *asked = NULL; /* the longest */
    for (size_t i = 0; i < count; i++)
        if (lacks(requests[i], requests[i]->table.needs_limit) &&
            (!asked || requests[i]->table.ttl_needed.us > asked->ttl_needed.us))
            asked = &requests[i]->table;
    if (!asked)
        return false;
    enum hf_status status = HF_OK;
    struct ttl_limit limit = table_limit(ref->space, ref->kind);
    /* If the known limit has changed, another request of this client has recorded one meanwhile. */
    if (limit.ttl.us == asked->limit.ttl.us && limit.until.clock == asked->limit.until.clock &&
        limit.until.us == asked->limit.until.us) {
        status = table_record_limit(ref->space, ref->kind, asked->ttl_needed,
                                    requests[0]->op.deadline, &error);
        limit = table_limit(ref->space, ref->kind);
    }
    for (size_t i = 0; i < count; i++) {
        requests[i]->table.limit = limit;
        if (status != HF_OK && lacks(requests[i], requests[i]->table.needs_limit))
            requests[i]->op.error = error;
    }
    return status == HF_OK;
}

/* Counts cleared leases, but only once the write is known to be done. If the write failed, another
 * client may clear the same leases and count them. */
static void count_cleared(struct table_ref *ref, struct request *const *requests, size_t count)
{
    struct hf_client *client = ref->client;
    for (size_t i = 0; i < count; i++) {
        const struct table_op *op = &requests[i]->table;
        if (op->cleared == 0 || !requests[i]->op.changed || requests[i]->op.answer != DOC_KNOWN)
            continue;
        env_mutex_lock(&client->shared.mutex);
        client->shared.cleared[requests[i]->mode] += op->cleared;
        env_mutex_unlock(&client->shared.mutex);
        bool swept = requests[i]->mode != SWEEP_TRANSPARENT;
        client_event(client,
                     &(struct event){ .kind = swept ? HF_EVENT_SWEPT : HF_EVENT_TAKEN_OVER,
                                      .key = doc_key(ref->doc),
                                      .holder = view_of(op->cleared_holder),
                                      .token = op->cleared_token,
                                      .count = op->cleared });
    }
}

static enum hf_status send_requests(struct table_ref *ref, struct doc_op *const *ops,
                                    struct request *const *requests, size_t count)
{
    enum hf_status status = doc_update_many(ref->doc, ops, count);
    for (size_t i = 0; i < count; i++) {
        client_note_conflicts(ref->client, doc_key(ref->doc), ops[i]->conflicts);
        ops[i]->conflicts = 0;
    }
    count_cleared(ref, requests, count);
    for (size_t i = 0; i < count; i++) /* even if the outcome is unknown: it may be done */
        store_session_ring(&ref->client->presence, &requests[i]->bells);
    return status;
}

/* Sends only the requests again that were refused because they lacked something. The others have
 * their results, and would find them in the table as if another client had been faster. */
static enum hf_status send_again(struct table_ref *ref, struct request *const *requests,
                                 size_t count)
{
    struct doc_op *ops[RENEW_BATCH_MAX];
    struct request *lacking[RENEW_BATCH_MAX];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct table_op *op = &requests[i]->table;
        if (!lacks(requests[i], op->needs_time || op->needs_epoch || op->needs_limit))
            continue;
        ops[kept] = &requests[i]->op;
        lacking[kept++] = requests[i];
    }
    return kept > 0 ? send_requests(ref, ops, lacking, kept) : HF_OK;
}

/* The first status that is not OK, as that of doc_update_many. */
static enum hf_status ask_server(struct table_ref *ref, struct request *const *requests,
                                 size_t count)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < count; i++) {
        ref->client->server->ask(ref, requests[i]);
        if (status == HF_OK)
            status = requests[i]->op.error.status;
    }
    return status;
}

enum hf_status table_ref_ask(struct table_ref *ref, struct request *const *requests,
                             size_t count)
{
    struct doc_op *ops[RENEW_BATCH_MAX] = { NULL };
    check(count > 0 && count <= RENEW_BATCH_MAX);
    if (ref->client->server)
        return ask_server(ref, requests, count);
    for (size_t i = 0; i < count; i++)
        ops[i] = &requests[i]->op;
    enum hf_status status = send_requests(ref, ops, requests, count);
    /* The reply to the write contained the store time. If it did not, the store sends none. */
    if (needs_time(requests, count))
        status = send_again(ref, requests, count);
    MUTANT(mutant_records_limit_late(ref, requests, count));
    for (int turns = 0; turns < ASK_TURNS_MAX; turns++) {
        if (!supply_limit(ref, requests, count) && !supply_epoch(ref, requests, count))
            break;
        status = send_again(ref, requests, count);
    }
    return status;
}

enum hf_status table_refs_ask_together(const struct beside_tables *beside,
                                       struct request *const *requests, size_t count,
                                       struct hf_error *error)
{
    struct doc *docs[TOGETHER_MAX];
    struct doc_op *ops[TOGETHER_MAX];
    size_t first = beside ? beside->count : 0;
    check(count > 0 && first + count <= TOGETHER_MAX);
    for (size_t i = 0; i < first; i++) {
        docs[i] = beside->docs[i];
        ops[i] = beside->ops[i];
    }
    for (size_t i = 0; i < count; i++) {
        docs[first + i] = requests[i]->ref->doc;
        ops[first + i] = &requests[i]->op;
    }
    enum hf_status status = doc_update_together(docs, ops, first + count, error);
    for (size_t i = 0; i < count; i++) {
        count_cleared(requests[i]->ref, &requests[i], 1);
        store_session_ring(&requests[i]->ref->client->presence, &requests[i]->bells);
    }
    return status;
}

/* ---- Many tables --------------------------------------------------------------------- */

/* The key decides, and not the address, so that a history can be repeated. */
static bool table_is_after(const struct table_ref *one, const struct table_ref *other)
{
    return one != other && view_compare(doc_key(one->doc), doc_key(other->doc)) > 0;
}

/* The requests to one table must follow each other. Their order among themselves is kept. They are
 * all of one client, which has one reference to each table. */
static void sort_by_table(struct request **requests, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct request *moved = requests[i];
        size_t at = i;
        for (; at > 0 && table_is_after(requests[at - 1]->ref, moved->ref); at--)
            requests[at] = requests[at - 1];
        requests[at] = moved;
    }
}

bool request_is_undecided(const struct request *request)
{
    const struct table_op *op = &request->table;
    bool in_doubt = RULE(DOUBT_IS_NOT_UNDECIDED) && request->op.doubt == DOC_DOUBT_OPEN;
    bool unanswered = request->op.answer == DOC_UNANSWERED && !in_doubt;
    return unanswered || lacks(request, op->needs_time || op->needs_epoch || op->needs_limit);
}

/* Only a later write of the same document shows what has become of these requests. */
static void ask_those_in_doubt(struct request *const *requests, size_t count)
{
    struct request *again[EACH_MAX];
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct doc_op *op = &requests[i]->op;
        bool last_of_table = i + 1 == count || requests[i + 1]->ref != requests[i]->ref;
        if (op->answer == DOC_UNANSWERED && !request_is_undecided(requests[i]))
            again[kept++] = requests[i];
        if (last_of_table && kept > 0)
            table_ref_ask(requests[i]->ref, again, kept);
        if (last_of_table)
            kept = 0;
    }
}

void table_refs_ask_each(struct request **requests, size_t count)
{
    struct doc_op *ops[EACH_MAX];
    struct doc_part parts[EACH_MAX];
    size_t tables = 0;
    check(count > 0 && count <= EACH_MAX);
    sort_by_table(requests, count);
    for (size_t i = 0; i < count; i++) {
        ops[i] = &requests[i]->op;
        if (i == 0 || requests[i]->ref != requests[i - 1]->ref)
            parts[tables++] = (struct doc_part){ requests[i]->ref->doc, &ops[i], 0 };
        parts[tables - 1].count++;
    }
    doc_update_each(parts, tables);
    for (size_t i = 0; i < count; i++) {
        struct table_ref *ref = requests[i]->ref;
        client_note_conflicts(ref->client, doc_key(ref->doc), requests[i]->op.conflicts);
        requests[i]->op.conflicts = 0;
        count_cleared(ref, &requests[i], 1);
        store_session_ring(&ref->client->presence, &requests[i]->bells);
    }
    ask_those_in_doubt(requests, count);
}

/* ---- Validity ------------------------------------------------------------------------ */

struct validity request_validity(const struct request *request)
{
    if (request->served.t0.us > 0)
        return (struct validity){ .t0 = request->served.t0, .until = request->served.until };
    const struct doc_attempt *attempt =
        doc_attempt_of(&request->op, view_of(request->granted_by));
    struct evidence then = { .now = attempt->t0 };
    MUTANT(mutant_counts_from_reply(client_env(request->ref->client), &then.now));
    return (struct validity){
        .t0 = attempt->t0,
        .until = lease_valid_until(&request->settings, request->ttl, &then),
        .by_store = attempt->time_known && !request->settings.watch_only,
        .expires = request->table.expires,
        .grace =
            span_smaller(CLOCK_DATE_GRAIN, SPAN_US(request->settings.skew_tolerance.us / 2)),
    };
}

/* A store reports its time in whole seconds. So a later sample of the same clock may raise the
 * latest possible store time by up to one second, which would end a short lease too early. This
 * second is therefore added as grace. It is safe: a contender takes over by the store's clock only
 * when the clock is past the end by the whole tolerance. Half of the tolerance covers the
 * differences between front ends, and the grace uses at most the other half. */
struct mono_time validity_end(const struct validity *validity, const struct evidence *evidence)
{
    if (!validity->by_store || !evidence->time_known)
        return validity->until;
    struct span left = SPAN_US(validity->expires.us + validity->grace.us - evidence->latest.us);
    return mono_earlier(validity->until, mono_add(evidence->now, left));
}
