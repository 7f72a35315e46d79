#include "doc/doc.h"

#include "base/check.h"

#include <stdlib.h>

/* Operations that one put may carry. */
#define BATCH_OPS_MAX 256

/* A put is given at least this long, however near the deadline of one of its operations is. */
#define PUT_TIME_MIN SPAN_MS(500)

/* After n conflicts in a row the next attempt waits up to 2^n round trips, within these. */
#define BACKOFF_DOUBLINGS_MAX 8
#define BACKOFF_MAX           SPAN_S(2)
#define ROUND_TRIP_MIN        SPAN_US(100)

struct doc {
    struct store *store;
    struct doc_clock *clock;
    const struct doc_type *type;
    void *context;
    struct view key;
    struct {
        struct env_mutex mutex; /* guards what stands beside it, and the state of queued ops */
        struct env_cond changed;
        struct doc_op *first, *last;
        bool busy; /* somebody makes an attempt, and owns the rest of the document */
    } shared;

    void *body;       /* as we know it, or NULL */
    struct etag etag; /* of the body; empty: the object does not exist yet */
    bool stale;       /* the body is kept for its sightings only */
    unsigned failures_in_row;
    struct span round_trip;
    struct buffer text;
};

/* The operations of one attempt. */
struct batch {
    struct doc_op *ops[BATCH_OPS_MAX];
    size_t count;
};

enum hf_status doc_new(struct store *store, struct doc_clock *clock, struct view key,
                       const struct doc_type *type, void *context, struct doc **ret_doc,
                       struct hf_error *error)
{
    struct doc *doc = malloc(sizeof *doc + key.size);
    if (!doc)
        return error_no_memory(error);
    char *copy = (char *)(doc + 1);
    memcpy(copy, key.data, key.size);
    *doc = (struct doc){ .store = store,
                         .clock = clock,
                         .type = type,
                         .context = context,
                         .key = { copy, key.size },
                         .round_trip = ROUND_TRIP_MIN,
                         .text = BUFFER_INIT(type->bytes_max) };
    env_mutex_init(store->env, &doc->shared.mutex);
    env_cond_init(store->env, &doc->shared.changed);
    *ret_doc = doc;
    return HF_OK;
}

void doc_free(struct doc *doc)
{
    if (!doc)
        return;
    check(!doc->shared.busy && !doc->shared.first);
    if (doc->body)
        doc->type->free(doc->body);
    buffer_release(&doc->text);
    env_cond_release(&doc->shared.changed);
    env_mutex_release(&doc->shared.mutex);
    free(doc);
}

struct view doc_key(const struct doc *doc)
{
    return doc->key;
}

/* ---- Attempts ------------------------------------------------------------------------ */

static void note_attempt(struct doc_op *op, const struct evidence *evidence)
{
    size_t slot = op->attempt_count < DOC_ATTEMPTS_MAX
                      ? op->attempt_count
                      : 1 + (op->attempt_count - 1) % (DOC_ATTEMPTS_MAX - 1);
    struct doc_attempt *attempt = &op->attempts[slot];
    op->attempt_count++;
    memcpy(attempt->nonce, evidence->nonce.data, NONCE_SIZE);
    attempt->nonce[NONCE_SIZE] = '\0';
    attempt->t0 = evidence->now;
    attempt->latest = evidence->latest;
    attempt->time_known = evidence->time_known;
}

const struct doc_attempt *doc_attempt_of(const struct doc_op *op, struct view nonce)
{
    size_t kept = op->attempt_count < DOC_ATTEMPTS_MAX ? op->attempt_count : DOC_ATTEMPTS_MAX;
    for (size_t i = 0; i < kept; i++)
        if (view_equal(view_of(op->attempts[i].nonce), nonce))
            return &op->attempts[i];
    return &op->attempts[0];
}

/* ---- Loading ------------------------------------------------------------------------- */

static void learn(struct doc *doc, const struct store_stamp *stamp, struct mono_time sent)
{
    clock_learn(doc->clock, stamp);
    struct span took = mono_since(env_now(doc->store->env), sent);
    doc->round_trip.us = (7 * doc->round_trip.us + took.us) / 8;
    if (doc->round_trip.us < ROUND_TRIP_MIN.us)
        doc->round_trip = ROUND_TRIP_MIN;
}

/* Takes a new body over; the one before has served for its sightings. */
static void set_body(struct doc *doc, void *body, const struct etag *etag)
{
    if (doc->body)
        doc->type->free(doc->body);
    doc->body = body;
    doc->etag = *etag;
    doc->stale = false;
}

static enum hf_status be_born(struct doc *doc, struct mono_time deadline,
                              struct hf_error *error)
{
    void *body;
    struct etag etag = { 0 };
    enum hf_status status =
        doc->type->birth(doc->context, doc->key, deadline, &body, &etag, error);
    if (status == HF_OK)
        set_body(doc, body, &etag);
    return status;
}

/* Reads the object, unless it still is what we have. */
static enum hf_status load(struct doc *doc, struct mono_time deadline, bool conditional,
                           struct hf_error *error)
{
    struct mono_time sent = env_now(doc->store->env);
    buffer_clear(&doc->text);
    struct get_call get = { .key = doc->key, .deadline = deadline, .body = &doc->text };
    if (conditional && doc->body && !doc->stale)
        get.none_match = doc->etag;
    enum hf_status status = store_get(doc->store, &get);
    learn(doc, &get.stamp, sent);
    if (status == HF_NOT_MODIFIED)
        return HF_OK;
    if (status != HF_OK) {
        *error = get.error;
        return status;
    }
    void *body;
    struct mono_time arrived = env_now(doc->store->env);
    status = doc->type->decode(buffer_view(&doc->text), arrived, doc->body, &body, error);
    if (status == HF_OK)
        set_body(doc, body, &get.info.etag);
    if (status == HF_OK && doc->type->prepare) {
        status = doc->type->prepare(doc->context, doc->body, deadline, error);
        doc->stale = status != HF_OK;
    }
    return status;
}

/* Makes sure that there is a body; *ret_fresh when it was loaded just now. */
static enum hf_status have_body(struct doc *doc, struct mono_time deadline, bool *ret_fresh,
                                struct hf_error *error)
{
    *ret_fresh = !doc->body || doc->stale;
    if (!*ret_fresh)
        return HF_OK;
    enum hf_status status = load(doc, deadline, /* conditional */ false, error);
    return status == HF_NOT_FOUND ? be_born(doc, deadline, error) : status;
}

/* ---- One attempt --------------------------------------------------------------------- */

static bool still_unsure(const struct doc *doc, const struct doc_op *op)
{
    return op->unsure && etag_equal(&op->unsure_base, &doc->etag);
}

/* An attempt without an answer can no longer land once the document has another ETag: every
 * write is conditional and every write's bytes are new. */
static void settle_by_etag(struct doc *doc, struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->ops[i]->unsure = still_unsure(doc, batch->ops[i]);
}

struct attempt {
    struct evidence evidence;
    char nonce[NONCE_SIZE + 1];
    bool any_write;
    bool any_refusal;
};

static void begin_attempt(struct doc *doc, struct attempt *attempt)
{
    env_random_hex(doc->store->env, NONCE_SIZE, attempt->nonce);
    attempt->evidence = (struct evidence){ .nonce = view_of(attempt->nonce) };
    clock_evidence(doc->clock, &attempt->evidence);
    attempt->any_write = false;
    attempt->any_refusal = false;
}

static void apply_all(struct doc *doc, struct batch *batch, struct attempt *attempt)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->changed = false;
        note_attempt(op, &attempt->evidence);
        enum hf_status status = op->apply(op, doc->body, &attempt->evidence);
        check(status == HF_OK || op->error.status == status);
        if (status == HF_OK)
            error_clear(&op->error);
        attempt->any_refusal = attempt->any_refusal || status != HF_OK;
        attempt->any_write =
            attempt->any_write || op->changed || op->settle || still_unsure(doc, op);
    }
}

static struct mono_time put_deadline(struct doc *doc, const struct batch *batch)
{
    struct mono_time earliest = batch->ops[0]->deadline;
    for (size_t i = 1; i < batch->count; i++)
        earliest = mono_earlier(earliest, batch->ops[i]->deadline);
    struct mono_time least = mono_add(env_now(doc->store->env), PUT_TIME_MIN);
    return mono_before(earliest, least) ? least : earliest;
}

static enum hf_status write_body(struct doc *doc, const struct batch *batch,
                                 const struct attempt *attempt, struct hf_error *error)
{
    buffer_clear(&doc->text);
    if (!doc->type->encode(doc->body, view_of(attempt->nonce), &doc->text))
        return error_no_memory(error);
    struct mono_time sent = env_now(doc->store->env);
    struct put_call put = { .key = doc->key,
                            .body = buffer_view(&doc->text),
                            .condition =
                                doc->etag.size > 0 ? if_match(&doc->etag) : if_absent(),
                            .deadline = put_deadline(doc, batch) };
    enum hf_status status = store_put(doc->store, &put);
    learn(doc, &put.stamp, sent);
    if (status == HF_OK)
        doc->etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* ---- What an attempt leads to -------------------------------------------------------- */

static void finish_all(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        batch->ops[i]->unsure = false;
        batch->ops[i]->state = DOC_OP_DONE;
    }
}

static void fail_all(struct batch *batch, const struct hf_error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->error = *error;
        if (op->unsure)
            op->error.status = HF_UNSURE;
        op->state = DOC_OP_DONE;
    }
}

/* The body was changed and is not in the store: what it shows is not so. */
static void forget_body(struct doc *doc)
{
    doc->stale = true;
    doc->failures_in_row++;
}

/* Whether a failed request may go better next time. */
static bool worth_retrying(enum hf_status status)
{
    return status == HF_CONFLICT || status == HF_NOT_FOUND || status == HF_UNSURE ||
           status == HF_UNAVAILABLE || status == HF_TIMEOUT;
}

static void after_failed_write(struct doc *doc, struct batch *batch, enum hf_status status,
                               const struct hf_error *error)
{
    struct etag base = doc->etag;
    forget_body(doc);
    for (size_t i = 0; status == HF_UNSURE && i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->unsure = op->unsure || op->changed;
        if (op->changed)
            op->unsure_base = base;
    }
    if (!worth_retrying(status))
        fail_all(batch, error);
}

/* Applies a batch once. Operations that are not done afterwards are to be tried again. */
static void make_attempt(struct doc *doc, struct batch *batch)
{
    struct hf_error error;
    bool fresh;
    enum hf_status status = have_body(doc, put_deadline(doc, batch), &fresh, &error);
    if (status != HF_OK) {
        doc->failures_in_row++;
        if (!worth_retrying(status))
            fail_all(batch, &error);
        return;
    }
    settle_by_etag(doc, batch);
    struct attempt attempt;
    begin_attempt(doc, &attempt);
    apply_all(doc, batch, &attempt);
    if (!attempt.any_write && (fresh || !attempt.any_refusal)) {
        finish_all(batch);
        return;
    }
    if (!attempt.any_write) {
        doc->stale =
            true; /* a refusal from a body that we had is checked against a fresh one */
        return;
    }
    status = write_body(doc, batch, &attempt, &error);
    if (status != HF_OK) {
        after_failed_write(doc, batch, status, &error);
        return;
    }
    /* The swap shows that the body was current, so refusals from it are good too. */
    doc->failures_in_row = 0;
    finish_all(batch);
}

/* ---- Taking turns -------------------------------------------------------------------- */

static void push_locked(struct doc *doc, struct doc_op *op)
{
    op->next = NULL;
    if (doc->shared.last)
        doc->shared.last->next = op;
    else
        doc->shared.first = op;
    doc->shared.last = op;
}

static void remove_locked(struct doc *doc, struct doc_op *op)
{
    struct doc_op *before = NULL;
    for (struct doc_op *at = doc->shared.first; at != op; at = at->next)
        before = at;
    if (before)
        before->next = op->next;
    else
        doc->shared.first = op->next;
    if (doc->shared.last == op)
        doc->shared.last = before;
}

static void take_batch_locked(struct doc *doc, struct batch *batch)
{
    batch->count = 0;
    while (doc->shared.first && batch->count < BATCH_OPS_MAX) {
        struct doc_op *op = doc->shared.first;
        remove_locked(doc, op);
        op->state = DOC_OP_TAKEN;
        batch->ops[batch->count++] = op;
    }
}

/* What to say of an operation whose time is over. */
static void time_out(struct doc_op *op)
{
    if (op->unsure)
        error_set(&op->error, HF_UNSURE, "no answer in time; it may still happen");
    else
        error_set(&op->error, HF_TIMEOUT, "not done in time");
    op->state = DOC_OP_DONE;
}

/* Those that are not done go back to the front, in order, or have run out of time. */
static void give_back_locked(struct doc *doc, struct batch *batch)
{
    struct mono_time now = env_now(doc->store->env);
    for (size_t i = batch->count; i-- > 0;) {
        struct doc_op *op = batch->ops[i];
        if (op->state == DOC_OP_DONE)
            continue;
        if (!mono_before(now, op->deadline)) {
            time_out(op);
            continue;
        }
        op->state = DOC_OP_QUEUED;
        op->next = doc->shared.first;
        doc->shared.first = op;
        if (!doc->shared.last)
            doc->shared.last = op;
    }
}

/* Full jitter, growing with the failures in a row, and never past the first deadline. */
static void back_off(struct doc *doc, struct mono_time deadline)
{
    if (doc->failures_in_row == 0)
        return;
    unsigned doublings = doc->failures_in_row < BACKOFF_DOUBLINGS_MAX ? doc->failures_in_row
                                                                      : BACKOFF_DOUBLINGS_MAX;
    struct span limit = span_smaller(SPAN_US(doc->round_trip.us << doublings), BACKOFF_MAX);
    struct env *env = doc->store->env;
    struct mono_time wake = mono_add(env_now(env), env_jitter(env, limit));
    env_sleep_until(env, mono_earlier(wake, deadline));
}

/* Leads one attempt, for all who wait; with the mutex held, which is let go meanwhile. */
static void lead_locked(struct doc *doc, struct mono_time deadline)
{
    struct batch batch;
    doc->shared.busy = true;
    env_mutex_unlock(&doc->shared.mutex);
    back_off(doc, deadline);
    env_mutex_lock(&doc->shared.mutex);
    take_batch_locked(doc, &batch);
    env_mutex_unlock(&doc->shared.mutex);
    if (batch.count > 0)
        make_attempt(doc, &batch);
    env_mutex_lock(&doc->shared.mutex);
    give_back_locked(doc, &batch);
    doc->shared.busy = false;
    env_cond_broadcast(&doc->shared.changed);
}

/* Waits for one's turn or for somebody else to be done with it. */
static void wait_locked(struct doc *doc, struct doc_op *op)
{
    bool in_time = true;
    if (op->state == DOC_OP_QUEUED)
        in_time = env_cond_wait_until(&doc->shared.changed, &doc->shared.mutex, op->deadline);
    else
        env_cond_wait(&doc->shared.changed, &doc->shared.mutex);
    if (!in_time && op->state == DOC_OP_QUEUED) {
        remove_locked(doc, op);
        time_out(op);
    }
}

enum hf_status doc_update_many(struct doc *doc, struct doc_op *const *ops, size_t count)
{
    enum hf_status first = HF_OK;
    env_mutex_lock(&doc->shared.mutex);
    for (size_t i = 0; i < count; i++) {
        check(ops[i]->deadline.us > 0);
        ops[i]->state = DOC_OP_QUEUED;
        push_locked(doc, ops[i]);
    }
    for (size_t i = 0; i < count; i++) {
        while (ops[i]->state != DOC_OP_DONE) {
            if (doc->shared.busy)
                wait_locked(doc, ops[i]);
            else
                lead_locked(doc, ops[i]->deadline);
        }
        if (first == HF_OK)
            first = ops[i]->error.status;
    }
    env_mutex_unlock(&doc->shared.mutex);
    return first;
}

enum hf_status doc_update(struct doc *doc, struct doc_op *op)
{
    return doc_update_many(doc, &op, 1);
}

enum hf_status doc_look(struct doc *doc, struct mono_time deadline,
                        void (*look)(void *argument, const void *body,
                                     const struct evidence *evidence),
                        void *argument, struct hf_error *error)
{
    env_mutex_lock(&doc->shared.mutex);
    while (doc->shared.busy)
        if (!env_cond_wait_until(&doc->shared.changed, &doc->shared.mutex, deadline)) {
            env_mutex_unlock(&doc->shared.mutex);
            return error_set(error, HF_TIMEOUT, "the document is busy");
        }
    doc->shared.busy = true;
    env_mutex_unlock(&doc->shared.mutex);
    enum hf_status status = load(doc, deadline, /* conditional */ true, error);
    if (status == HF_OK) {
        struct evidence evidence = { .nonce = VIEW("") };
        clock_evidence(doc->clock, &evidence);
        look(argument, doc->body, &evidence);
    }
    env_mutex_lock(&doc->shared.mutex);
    doc->shared.busy = false;
    env_cond_broadcast(&doc->shared.changed);
    env_mutex_unlock(&doc->shared.mutex);
    return status;
}
