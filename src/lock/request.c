/* request.c: operations on tables as operations on documents, and how long a grant counts. */
#include "lock/client.h"

#include "base/check.h"
#include "base/rule.h"
#include "lock/epoch.h"

/* A damaged table is replaced so often in one request; then something damages it again. Others may
 * be at it too: each finds the mark of another, and begins anew. */
#define REPLACE_TRIES_MAX 8

/* And so often it is asked again with what it lacked, or of a table that was replaced. */
#define ASK_TURNS_MAX 12

/* ---- Applying ------------------------------------------------------------------------ */

/* Notes which of the wanted scopes alone would be refused, with so many ahead in line. */
static void note_blocked(struct request *request, const struct lease_table *table, size_t ahead)
{
    struct lease one = *request->table.wanted;
    one.scope_count = 1;
    for (size_t i = 0; i < request->table.wanted->scope_count; i++) {
        one.scopes = &request->table.wanted->scopes[i];
        bool blocked = false;
        for (size_t j = 0; j < table->lease_count && !blocked; j++)
            blocked = table->leases[j]->status == LEASE_ACTIVE &&
                      leases_conflict(table->leases[j], &one);
        for (size_t j = 0; j < ahead && !blocked; j++)
            blocked = leases_conflict(table->waiters[j].wanted, &one);
        request->blocked[i] = blocked;
    }
}

/* The nonces of the attempts of this operation, by which it knows its own effect. */
static size_t own_nonces(const struct doc_op *op, struct view nonces[DOC_ATTEMPTS_MAX])
{
    size_t count = op->attempt_count < DOC_ATTEMPTS_MAX ? op->attempt_count : DOC_ATTEMPTS_MAX;
    for (size_t i = 0; i < count; i++)
        nonces[i] = view_of(op->attempts[i].nonce);
    return count;
}

/* What was granted, copied: the table is not ours to keep. */
static void note_granted(struct request *request, const struct lease_table *table)
{
    struct table_op *op = &request->table;
    struct view id = op->kind == TABLE_ACQUIRE ? op->wanted->id : op->id;
    struct view nonce = view_first(op->granted_by, NONCE_SIZE);
    memcpy(request->granted_by, nonce.data, nonce.size);
    request->granted_by[nonce.size] = '\0';
    op->granted_by = view_of(request->granted_by);
    request->ttl = table_find(table, id)->ttl;
}

/* Whether it has become the turn of somebody in another process. */
static bool calls_somebody(const struct request *request, const struct lease_table *table,
                           const struct evidence *evidence)
{
    struct view session = view_of(request->place->client->session);
    for (size_t i = 0; request->table.changed && i < table->waiter_count; i++)
        if (table->waiters[i].reserved &&
            table->waiters[i].reserved_seen.us == evidence->now.us &&
            !view_equal(table->waiters[i].wanted->session, session))
            return true;
    return false;
}

/* Whether a lease that was to be released had been broken, or was taken for over. */
static bool was_taken(const struct request *request, const struct lease_table *table)
{
    const struct lease *lease = table_find(table, request->table.id);
    return lease && (lease->status == LEASE_BROKEN || lease->status == LEASE_EXPIRED);
}

/* The move, and what the guest does before and after it. */
static enum hf_status apply_with_guest(struct request *request, struct lease_table *table,
                                       const struct evidence *evidence, bool *changed)
{
    struct table_guest *guest = request->guest;
    enum hf_status status = HF_OK;
    if (guest && guest->before)
        status = guest->before(guest, table, evidence, changed, &request->table.error);
    if (status != HF_OK) { /* what an earlier attempt had come to says nothing of this one */
        request->table.outcome = TABLE_NOTHING;
        request->table.changed = request->table.already = request->table.in_line = false;
        request->table.needs_time = request->table.needs_epoch = false;
        request->table.needs_limit = false;
        request->table.cleared = 0;
        return status;
    }
    status = table_apply(table, &request->table, evidence);
    if (status == HF_OK && guest && guest->after)
        guest->after(guest, table, &request->table, changed);
    return status;
}

static enum hf_status apply(struct doc_op *op, void *body, const struct evidence *evidence)
{
    struct request *request = (struct request *)(void *)op;
    struct lease_table *table = body;
    struct view mine[DOC_ATTEMPTS_MAX];
    request->table.mine = mine;
    request->table.mine_count = own_nonces(op, mine);
    bool of_guest = false;
    enum hf_status status = apply_with_guest(request, table, evidence, &of_guest);
    request->table.mine = NULL;
    request->table.mine_count = 0;
    request->settings = table->settings;
    if (status == HF_OK && request->table.outcome == TABLE_GRANTED)
        note_granted(request, table);
    /* Said as a refusal, so that it is not believed of a body that we had: it may be our turn
     * by now. */
    if (status == HF_OK && request->table.kind == TABLE_CLAIM &&
        request->table.outcome == TABLE_QUEUED)
        status = error_set(&request->table.error, HF_HELD, "in line behind %zu",
                           request->table.position);
    request->taken = request->table.kind == TABLE_RELEASE && was_taken(request, table);
    if (request->blocked)
        memset(request->blocked, 0, request->table.wanted->scope_count * sizeof(bool));
    if (status == HF_HELD && request->blocked)
        note_blocked(request, table, table->waiter_count);
    else if (status == HF_OK && request->table.outcome == TABLE_QUEUED && request->blocked)
        note_blocked(request, table, request->table.position);
    op->changed = request->table.changed || of_guest;
    op->found = request->table.already || request->table.in_line;
    op->quiet = !calls_somebody(request, table, evidence);
    op->error = request->table.error;
    return status;
}

void request_init(struct request *request, struct place *place, enum table_op_kind kind,
                  struct mono_time deadline)
{
    *request = (struct request){ .table = { .kind = kind }, .place = place };
    request->op.apply = apply;
    request->table.limited = !place->space->of_shards;
    request->table.limit = table_limit(place->space, place->kind);
    request->table.ttl_unsaid = place->space->settings.ttl_max;
    request->op.deadline =
        deadline.us > 0 ? deadline : mono_add(env_now(place->client->env), REQUEST_TIME);
}

/* True when a good table stands there now; else the requests say why not. */
static bool replace_damaged(struct place *place, struct request *const *requests, size_t count)
{
    struct hf_error error;
    enum hf_status status =
        table_replace(place->space, doc_key(place->doc), requests[0]->op.deadline, &error);
    if (status == HF_OK || status == HF_CONFLICT || status == HF_NOT_FOUND)
        return true;
    error_prefix(&error, "the damaged table cannot be replaced");
    for (size_t i = 0; i < count; i++) {
        requests[i]->op.error = error;
        if (requests[i]->op.doubt == DOC_DOUBT_OPEN)
            requests[i]->op.error.status = HF_UNSURE;
    }
    return false;
}

static bool is_damaged(struct request *const *requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i]->op.answer == DOC_DAMAGED)
            return true;
    return false;
}

static bool needs_time(struct request *const *requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (requests[i]->table.needs_time && requests[i]->op.error.status == HF_UNAVAILABLE)
            return true;
    return false;
}

/* Whether it was refused for want of something that we can supply. */
static bool lacks(const struct request *request, bool what)
{
    return what &&
           (request->op.error.status == HF_UNAVAILABLE || !RULE(LIMIT_BEFORE_THE_GRANT));
}

/* Whether some of them wait for a later epoch, which they are told now. */
static bool supply_epoch(struct place *place, struct request *const *requests, size_t count)
{
    const struct table_space *space = place->space;
    struct hf_error error;
    uint64_t epoch = 0;
    for (size_t i = 0; i < count; i++) {
        if (!lacks(requests[i], requests[i]->table.needs_epoch))
            continue;
        if (epoch == 0 && epoch_raise(space->store, space->clock, view_of(space->ns),
                                      requests[i]->op.deadline, &epoch, &error) != HF_OK) {
            error_prefix(&error, "this epoch's tokens are used up");
            requests[i]->op.error = error;
            return false;
        }
        requests[i]->table.epoch = epoch;
    }
    return epoch > 0;
}

static bool same_limit(const struct ttl_limit *a, const struct ttl_limit *b)
{
    return a->ttl.us == b->ttl.us && a->until.clock == b->until.clock &&
           a->until.us == b->until.us;
}

/* Whether some of them wait until it is recorded how long their leases can be, which it is now. */
static bool supply_limit(struct place *place, struct request *const *requests, size_t count)
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
    struct ttl_limit limit = table_limit(place->space, place->kind);
    if (same_limit(&limit, &asked->limit)) { /* else we have seen one meanwhile */
        status = table_record_limit(place->space, place->kind, asked->ttl_needed,
                                    requests[0]->op.deadline, &error);
        limit = table_limit(place->space, place->kind);
    }
    for (size_t i = 0; i < count; i++) {
        requests[i]->table.limit = limit;
        if (status != HF_OK && requests[i]->table.needs_limit &&
            requests[i]->op.error.status == HF_UNAVAILABLE)
            requests[i]->op.error = error;
    }
    return status == HF_OK && RULE(LIMIT_BEFORE_THE_GRANT);
}

/* Counts what was cleared, of what is known to be written. */
static void count_cleared(struct place *place, struct request *const *requests, size_t count)
{
    struct hf_client *client = place->client;
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
                                      .key = doc_key(place->doc),
                                      .holder = view_of(op->cleared_holder),
                                      .token = op->cleared_token,
                                      .count = op->cleared });
    }
}

static enum hf_status update(struct place *place, struct doc_op *const *ops,
                             struct request *const *requests, size_t count)
{
    enum hf_status status = doc_update_many(place->doc, ops, count);
    for (size_t i = 0; i < count; i++) {
        client_note_conflicts(place->client, doc_key(place->doc), ops[i]->conflicts);
        ops[i]->conflicts = 0;
    }
    count_cleared(place, requests, count);
    return status;
}

enum hf_status place_ask(struct place *place, struct request *const *requests, size_t count)
{
    struct doc_op *ops[RENEW_BATCH_MAX];
    check(count > 0 && count <= RENEW_BATCH_MAX);
    for (size_t i = 0; i < count; i++)
        ops[i] = &requests[i]->op;
    enum hf_status status = update(place, ops, requests, count);
    if (needs_time(requests, count)) /* we have it now, or know that there is none */
        status = update(place, ops, requests, count);
    int replaced = 0;
    for (int turns = 0; turns < ASK_TURNS_MAX; turns++) {
        bool damaged = is_damaged(requests, count);
        if (damaged && replaced++ == REPLACE_TRIES_MAX)
            break;
        if (damaged && !replace_damaged(place, requests, count))
            return requests[0]->op.error.status;
        if (!damaged && !supply_limit(place, requests, count) &&
            !supply_epoch(place, requests, count))
            break;
        status = update(place, ops, requests, count);
    }
    return status;
}

/* ---- How long it counts -------------------------------------------------------------- */

struct validity request_validity(const struct request *request)
{
    const struct doc_attempt *attempt =
        doc_attempt_of(&request->op, view_of(request->granted_by));
    struct evidence then = { .now = attempt->t0 };
    if (!RULE(VALID_FROM_T0))
        then.now = env_now(request->place->client->env);
    return (struct validity){
        .t0 = attempt->t0,
        .until = lease_valid_until(&request->settings, request->ttl, &then),
        .by_store = attempt->time_known && !request->settings.watch_only,
        .expires = request->table.expires,
        .grace =
            span_smaller(CLOCK_DATE_GRAIN, SPAN_US(request->settings.skew_tolerance.us / 2)),
    };
}

/* A store tells its time in whole seconds, so a later sample of the same clock may allow a time
 * that is up to one later, and a short lease would be over for no reason. Nobody takes over by
 * the store's clock before it is past the end by the tolerance, half of which allows for the
 * front ends; so the other half is ours. */
struct mono_time validity_end(const struct validity *validity, const struct evidence *evidence)
{
    if (!validity->by_store || !evidence->time_known)
        return validity->until;
    struct span left = SPAN_US(validity->expires.us + validity->grace.us - evidence->latest.us);
    return mono_earlier(validity->until, mono_add(evidence->now, left));
}
