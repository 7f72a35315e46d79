#include "doc/doc_inside.h"

#include "base/check.h"
#include "base/rule.h"

#include <stdlib.h>

/* A request is given this part of the time that is left to the first of its operations, within
 * these: when its answer is lost there is time to ask again. */
#define REQUEST_TIME_PART 3
#define REQUEST_TIME_MIN  SPAN_MS(500)
#define REQUEST_TIME_MAX  SPAN_S(10)

#define ROUND_TRIP_MIN SPAN_US(100)

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
    env_cond_init(store->env, &doc->shared.idle);
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
    env_cond_release(&doc->shared.idle);
    env_mutex_release(&doc->shared.mutex);
    free(doc);
}

struct view doc_key(const struct doc *doc)
{
    return doc->key;
}

bool doc_etag(struct doc *doc, struct etag *ret_etag)
{
    env_mutex_lock(&doc->shared.mutex);
    bool known = !doc->shared.busy && doc->body && !doc->stale && doc->etag.size > 0;
    if (known)
        *ret_etag = doc->etag;
    env_mutex_unlock(&doc->shared.mutex);
    return known;
}

struct span doc_round_trip(const struct doc *doc)
{
    return doc->round_trip;
}

void doc_observe(struct doc *doc,
                 void (*seen)(void *argument, const void *body,
                              const struct evidence *evidence),
                 void *argument)
{
    doc->seen = seen;
    doc->seen_argument = argument;
}

static void show(struct doc *doc, const struct evidence *evidence)
{
    if (doc->seen)
        doc->seen(doc->seen_argument, doc->body, evidence);
}

/* Shows the body as it has just been written. */
static void show_written(struct doc *doc, const struct evidence *evidence)
{
    if (doc->type->written)
        doc->type->written(doc->body, env_now(doc->store->env));
    show(doc, evidence);
}

/* ---- Attempts ------------------------------------------------------------------------ */

/* Where the n-th attempt is remembered, from 0. */
static size_t attempt_slot(size_t n)
{
    return n < DOC_ATTEMPTS_MAX ? n : 1 + (n - 1) % (DOC_ATTEMPTS_MAX - 1);
}

static void note_attempt(struct doc_op *op, const struct evidence *evidence)
{
    struct doc_attempt *attempt = &op->attempts[attempt_slot(op->attempt_count)];
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
    for (size_t i = 0; RULE(VALID_FROM_THAT_ATTEMPT) && i < kept; i++)
        if (view_equal(view_of(op->attempts[i].nonce), nonce))
            return &op->attempts[i];
    bool first = RULE(VALID_FROM_THAT_ATTEMPT) || op->attempt_count == 0;
    return &op->attempts[first ? 0 : attempt_slot(op->attempt_count - 1)];
}

/* ---- Loading ------------------------------------------------------------------------- */

static void learn_time_taken(struct doc *doc, struct mono_time sent)
{
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
    doc->doubted = false;
    doc->prepared = false;
    doc->unwritten = false;
}

/* Shows the body, which has just been seen in the store. */
static void show_now(struct doc *doc)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(doc->clock, &evidence);
    show(doc, &evidence);
}

static enum hf_status be_born(struct doc *doc, struct mono_time deadline,
                              struct hf_error *error)
{
    void *body;
    struct etag etag = { 0 };
    enum hf_status status =
        doc->type->birth(doc->context, doc->key, deadline, &body, &etag, error);
    if (status != HF_OK)
        return status;
    set_body(doc, body, &etag);
    doc->prepared = true;
    if (etag.size > 0)
        show_now(doc);
    return HF_OK;
}

enum hf_status doc_load(struct doc *doc, struct mono_time deadline, struct hf_error *error)
{
    struct mono_time sent = env_now(doc->store->env);
    buffer_clear(&doc->text);
    doc->unreadable = false;
    struct get_call get = { .key = doc->key, .deadline = deadline, .body = &doc->text };
    if (doc->body && !doc->stale)
        get.none_match = doc->etag;
    enum hf_status status = store_get(doc->store, &get);
    clock_learn(doc->clock, &get.stamp);
    learn_time_taken(doc, sent);
    if (status == HF_NOT_MODIFIED) {
        doc->doubted = false;
        return HF_OK;
    }
    doc->unreadable = status == HF_INVALID && get.info.size > doc->type->bytes_max;
    if (doc->unreadable)
        return error_set(error, HF_CORRUPT, "%s", get.error.why);
    if (status != HF_OK) {
        *error = get.error;
        return status;
    }
    void *body;
    struct mono_time arrived = RULE(WATCH_SINCE_ARRIVAL) ? env_now(doc->store->env) : sent;
    status = doc->type->decode(buffer_view(&doc->text), arrived, doc->body, &body, error);
    doc->unreadable = status == HF_CORRUPT;
    if (status == HF_OK)
        set_body(doc, body, &get.info.etag);
    if (status == HF_OK)
        show_now(doc);
    return status;
}

/* Finishes a body that cannot be used as it was read. Then it must be written, whatever else is to
 * be. */
static enum hf_status prepare(struct doc *doc, struct mono_time deadline,
                              struct hf_error *error)
{
    const struct doc_type *type = doc->type;
    if (!type->prepare || doc->prepared)
        return HF_OK;
    bool whole = !type->is_whole || type->is_whole(doc->body);
    enum hf_status status = type->prepare(doc->context, doc->body, deadline, error);
    doc->stale = status != HF_OK;
    doc->prepared = status == HF_OK;
    doc->unwritten = !whole;
    return status;
}

/* Makes sure that there is a body; *ret_fresh when it was in the store just now. */
static enum hf_status have_body(struct doc *doc, struct mono_time deadline, bool *ret_fresh,
                                struct hf_error *error)
{
    *ret_fresh = !doc->body || doc->stale || doc->doubted;
    enum hf_status status = *ret_fresh ? doc_load(doc, deadline, error) : HF_OK;
    if (status == HF_NOT_FOUND)
        return be_born(doc, deadline, error);
    return status == HF_OK ? prepare(doc, deadline, error) : status;
}

/* ---- One attempt --------------------------------------------------------------------- */

/* Whether an earlier attempt of this operation may still land. Once the document has another
 * ETag it has landed by then or never will: every write is conditional, and every write's bytes
 * are new. */
static bool may_still_land(const struct doc *doc, const struct doc_op *op)
{
    return op->doubt == DOC_DOUBT_OPEN && etag_equal(&op->doubt_base, &doc->etag) &&
           RULE(NOT_DONE_AFTER_A_SWAP);
}

/* What the body shows of earlier attempts, after the operation was applied to it. One that finds
 * itself there is not certain before that is told: a batch-mate may have done what it found. Nor is
 * one that finds a part of itself and does the rest: the rest may come to nothing. */
static void settle_op(const struct doc *doc, struct doc_op *op, enum hf_status status)
{
    bool found = op->found || (status == HF_OK && !op->changed);
    if (op->doubt == DOC_DOUBT_OPEN && !found && !may_still_land(doc, op))
        op->doubt = DOC_DOUBT_OVER;
}

struct attempt {
    struct evidence evidence;
    char nonce[NONCE_SIZE + 1];
    bool any_write;
};

static void begin_attempt(struct doc *doc, struct attempt *attempt)
{
    env_random_hex(doc->store->env, NONCE_SIZE, attempt->nonce);
    if (!RULE(NONCE_IN_EVERY_WRITE))
        memset(attempt->nonce, '0', NONCE_SIZE);
    attempt->evidence = (struct evidence){ .nonce = view_of(attempt->nonce) };
    clock_evidence(doc->clock, &attempt->evidence);
    attempt->any_write = doc->unwritten;
}

static void apply_all(struct doc *doc, struct batch *batch, struct attempt *attempt)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->changed = false;
        op->found = false;
        note_attempt(op, &attempt->evidence);
        enum hf_status status = op->apply(op, doc->body, &attempt->evidence);
        check(status == HF_OK || op->error.status == status);
        if (status == HF_OK)
            error_clear(&op->error);
        settle_op(doc, op, status);
        attempt->any_write = attempt->any_write || op->changed ||
                             (op->settle && RULE(SETTLE_WRITES)) || may_still_land(doc, op);
    }
}

static struct mono_time request_deadline(struct doc *doc, const struct batch *batch)
{
    struct mono_time earliest = batch->ops[0]->deadline;
    for (size_t i = 1; i < batch->count; i++)
        earliest = mono_earlier(earliest, batch->ops[i]->deadline);
    struct mono_time now = env_now(doc->store->env);
    struct span part = SPAN_US(mono_since(earliest, now).us / REQUEST_TIME_PART);
    if (part.us < REQUEST_TIME_MIN.us)
        part = REQUEST_TIME_MIN;
    return mono_add(now, span_smaller(part, REQUEST_TIME_MAX));
}

static bool is_quiet(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!batch->ops[i]->quiet)
            return false;
    return true;
}

static struct condition condition_of(const struct doc *doc)
{
    struct condition always = { .kind = CONDITION_ALWAYS };
    if (doc->etag.size > 0)
        return if_match(&doc->etag);
    return RULE(FIRST_WRITE_IF_ABSENT) ? if_absent() : always;
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
                            .condition = condition_of(doc),
                            .quiet = is_quiet(batch),
                            .deadline = request_deadline(doc, batch) };
    enum hf_status status = store_put(doc->store, &put);
    if (status == HF_UNSURE && !RULE(NO_BLIND_RETRY)) {
        put.condition.kind = CONDITION_ALWAYS;
        status = store_put(doc->store, &put);
    }
    learn_time_taken(doc, sent);
    clock_learn_from_write(doc->clock, &put.stamp, /* done */ status == HF_OK);
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
        struct doc_op *op = batch->ops[i];
        op->answer = DOC_KNOWN;
        if (op->doubt == DOC_DOUBT_OPEN)
            op->doubt = DOC_DOUBT_OVER;
    }
}

static void fail_all(const struct doc *doc, struct batch *batch, const struct hf_error *error)
{
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->error = *error;
        op->answer = error->status == HF_CORRUPT && doc->unreadable ? DOC_DAMAGED : DOC_FAILED;
        if (op->doubt == DOC_DOUBT_OPEN)
            op->error.status = HF_UNSURE;
    }
}

/* To be tried again. What was refused may not be refused next time: only the reason why there is a
 * next time is kept, for when there is no time for it. */
static void put_off_all(struct batch *batch, const struct hf_error *error)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->ops[i]->answer == DOC_UNANSWERED)
            batch->ops[i]->error = *error;
}

/* Whether a failed request may go better next time. */
static bool worth_retrying(enum hf_status status)
{
    return status == HF_CONFLICT || status == HF_NOT_FOUND || status == HF_UNSURE ||
           status == HF_UNAVAILABLE || status == HF_TIMEOUT;
}

static void after_failure(struct doc *doc, struct batch *batch, enum hf_status status,
                          const struct hf_error *error)
{
    doc->failures_in_row++;
    doc->conflicted = status == HF_CONFLICT;
    if (worth_retrying(status))
        put_off_all(batch, error);
    else
        fail_all(doc, batch, error);
}

/* Whether a write that was answered so may have landed all the same, or may yet. Something
 * between us and the store may have sent it twice: then the first landed, and the conflict is
 * with ourselves. */
static bool may_have_landed(enum hf_status status)
{
    bool conflict = status == HF_CONFLICT || status == HF_NOT_FOUND;
    return status == HF_UNSURE || (conflict && RULE(CONFLICT_MAY_BE_OURS));
}

static void after_failed_write(struct doc *doc, struct batch *batch, enum hf_status status,
                               const struct hf_error *error)
{
    doc->stale = RULE(RELOAD_AFTER_FAILURE);
    for (size_t i = 0; i < batch->count; i++) /* one without an answer may be who has written */
        batch->ops[i]->conflicts +=
            status == HF_CONFLICT && batch->ops[i]->doubt != DOC_DOUBT_OPEN;
    for (size_t i = 0; may_have_landed(status) && i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        if (op->changed) {
            op->doubt = DOC_DOUBT_OPEN;
            op->doubt_base = doc->etag;
        }
    }
    for (size_t i = 0; !RULE(REFUSED_AFTER_THE_PUT) && i < batch->count; i++)
        batch->ops[i]->answer =
            batch->ops[i]->error.status != HF_OK ? DOC_FAILED : DOC_UNANSWERED;
    after_failure(doc, batch, status, error);
}

/* The results are good: the body was in the store. */
static void after_success(struct doc *doc, struct batch *batch)
{
    doc->unwritten = false;
    doc->failures_in_row = 0;
    finish_all(batch);
}

/* ---- In one step --------------------------------------------------------------------- */

/* Where the store has a lock of its own, a batch is applied while it is held. */
struct step {
    struct doc *doc;
    struct batch *batch;
    struct attempt attempt;
    struct mono_time deadline;
    bool absent;
    bool loaded;  /* the body is a new one */
    bool applied; /* the body is not what it was */
    bool given_up;
    struct change_call change;
};

/* Whether the body can be used without asking the store for more. */
static bool can_prepare(const struct doc *doc)
{
    return !doc->type->prepare || (doc->type->is_whole && doc->type->is_whole(doc->body));
}

/* Makes sure that the body is that of the store now. False: it takes more than this step. */
static bool have_body_now(struct step *step, const struct etag *now, struct view bytes)
{
    struct doc *doc = step->doc;
    const struct doc_type *type = doc->type;
    struct hf_error error;
    void *body;
    step->absent = now->size == 0;
    if (step->applied || step->absent)
        return false;
    if (!bytes.data)
        return etag_equal(now, &doc->etag) && (doc->prepared || !type->prepare);
    doc->stale = true; /* whether these can be used or not */
    if (bytes.size > type->bytes_max ||
        type->decode(bytes, env_now(doc->store->env), doc->body, &body, &error) != HF_OK)
        return false;
    set_body(doc, body, now);
    step->loaded = true;
    return can_prepare(doc) && prepare(doc, step->deadline, &error) == HF_OK;
}

static struct view decide(void *argument, const struct etag *now, struct view bytes)
{
    struct step *step = argument;
    struct doc *doc = step->doc;
    const struct view nothing = { NULL, 0 };
    step->given_up = !have_body_now(step, now, bytes);
    if (step->given_up)
        return nothing;
    begin_attempt(doc, &step->attempt);
    apply_all(doc, step->batch, &step->attempt);
    step->applied = true;
    if (!step->attempt.any_write)
        return nothing;
    step->change.quiet = is_quiet(step->batch);
    buffer_clear(&doc->text);
    step->given_up = !doc->type->encode(doc->body, view_of(step->attempt.nonce), &doc->text);
    return step->given_up ? nothing : buffer_view(&doc->text);
}

enum step_end { STEP_DONE, STEP_ABSENT, STEP_TOO_MUCH, STEP_TOO_LARGE };

/* Half, so that one that shrinks slowly is not tried in vain each time. */
static bool may_fit_a_step(const struct doc *doc)
{
    return doc->store->ops->change &&
           (doc->refused_size == 0 || doc->text.size < doc->refused_size / 2);
}

/* ABSENT: the object does not exist. TOO_MUCH, TOO_LARGE: this takes a get and a put. */
static enum step_end make_step(struct doc *doc, struct batch *batch)
{
    struct step step = { .doc = doc,
                         .batch = batch,
                         .deadline = request_deadline(doc, batch),
                         .change = { .key = doc->key, .decide = decide } };
    if (!may_fit_a_step(doc))
        return STEP_TOO_MUCH;
    step.change.argument = &step;
    step.change.deadline = step.deadline;
    if (doc->body && !doc->stale)
        step.change.known = doc->etag;
    struct mono_time sent = env_now(doc->store->env);
    enum hf_status status = store_change(doc->store, &step.change);
    clock_learn(doc->clock, &step.change.stamp);
    if (status != HF_UNSUPPORTED) /* then no request was made */
        learn_time_taken(doc, sent);
    if (status == HF_UNSUPPORTED || (status == HF_OK && step.given_up)) {
        doc->stale = doc->stale || step.applied;
        if (status == HF_UNSUPPORTED)
            return STEP_TOO_LARGE;
        return step.absent ? STEP_ABSENT : STEP_TOO_MUCH;
    }
    if (status != HF_OK && step.applied) {
        after_failed_write(doc, batch, status, &step.change.error);
    } else if (status != HF_OK) {
        after_failure(doc, batch, status, &step.change.error);
    } else {
        doc->etag = step.change.etag;
        doc->doubted = false;
        if (step.change.wrote)
            show_written(doc, &step.attempt.evidence);
        else if (step.loaded)
            show_now(doc);
        after_success(doc, batch);
    }
    return STEP_DONE;
}

/* ---- Both ways ----------------------------------------------------------------------- */

void doc_try(struct doc *doc, struct batch *batch)
{
    struct hf_error error;
    bool fresh = true;
    struct mono_time deadline = request_deadline(doc, batch);
    enum step_end end = make_step(doc, batch);
    if (end == STEP_DONE)
        return;
    enum hf_status status = end == STEP_ABSENT ? be_born(doc, deadline, &error)
                                               : have_body(doc, deadline, &fresh, &error);
    if (status != HF_OK) {
        after_failure(doc, batch, status, &error);
        return;
    }
    size_t size_before = doc->text.size;
    struct attempt attempt;
    begin_attempt(doc, &attempt);
    apply_all(doc, batch, &attempt);
    if (!attempt.any_write) {
        doc->doubted = !fresh;
        if (fresh || !RULE(REFUSED_BY_FRESH_BODY))
            after_success(doc, batch);
        return;
    }
    status = write_body(doc, batch, &attempt, &error);
    if (end == STEP_TOO_LARGE)
        doc->refused_size = size_before > doc->text.size ? size_before : doc->text.size;
    if (status != HF_OK) {
        after_failed_write(doc, batch, status, &error);
        return;
    }
    /* The swap shows that the body was current, so refusals from it are good too. */
    show_written(doc, &attempt.evidence);
    after_success(doc, batch);
}
