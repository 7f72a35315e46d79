/* SPDX-License-Identifier: Apache-2.0 */
/* doc.c: one attempt to change a document: load, apply, write if the ETag is unchanged. It guards
 * against lost updates, against a write that lands after its caller gave up on it, and against
 * results computed from a body that never reached the store. */
#include "doc/doc_inside.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/no_space.h"
#include "base/rule.h"

#include <stdlib.h>

/* A request gets this fraction of the time left before the earliest deadline of its batch, within
 * these bounds. If its reply is lost, there is time for a retry. */
#define REQUEST_TIME_PART 3
#define REQUEST_TIME_MIN  SPAN_MS(500)
#define REQUEST_TIME_MAX  SPAN_S(10)

/* A body may take many requests to prepare. This much time is left for the rest, but no more than a
 * quarter. */
#define AFTER_PREPARE      SPAN_S(1)
#define AFTER_PREPARE_PART 4

/* The pauses before retries are multiples of the round trip, so it must not become 0. */
#define ROUND_TRIP_MIN SPAN_US(100)

/* A reply that was late once says little about the next one. So one that took longer than both of
 * these counts as the larger of them. */
#define ROUND_TRIP_TIMES 4
#define ROUND_TRIP_USUAL SPAN_MS(200)

/* One such put may have met another one that failed, or a read may have been late. */
#define IN_VAIN_MIN 2

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
    /* A task that is busy owns the body and the ETag, and may be changing them. */
    bool known = !doc->shared.busy && doc->body && !doc->stale && doc->etag.size > 0;
    if (known)
        *ret_etag = doc->etag;
    env_mutex_unlock(&doc->shared.mutex);
    return known;
}

bool doc_peek(struct doc *doc, void (*look)(void *argument, const void *body), void *argument)
{
    env_mutex_lock(&doc->shared.mutex);
    bool known = !doc->shared.busy && doc->body && !doc->stale && doc->etag.size > 0;
    if (known)
        look(argument, doc->body);
    env_mutex_unlock(&doc->shared.mutex);
    return known;
}

bool doc_recall(struct doc *doc, struct span age_max,
                void (*look)(void *argument, const void *body, const struct evidence *evidence),
                void *argument)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(doc->clock, &evidence);
    env_mutex_lock(&doc->shared.mutex);
    bool known = !doc->shared.busy && doc->body && !doc->stale && doc->etag.size > 0 &&
                 mono_since(evidence.now, doc->current).us <= age_max.us;
    if (known)
        look(argument, doc->body, &evidence);
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

static void report_body(struct doc *doc, const struct evidence *evidence)
{
    if (doc->seen)
        doc->seen(doc->seen_argument, doc->body, evidence);
}

/* Reports the body that was just written. */
void doc_report_written(struct doc *doc, const struct evidence *evidence)
{
    if (doc->type->written)
        doc->type->written(doc->body, env_now(doc->store->env));
    report_body(doc, evidence);
}

/* ---- Attempts ------------------------------------------------------------------------ */

/* The first attempt keeps slot 0: a result whose nonce we no longer remember gets the t0 of the
 * first attempt, which is the earliest possible. */
static void note_attempt(struct doc_op *op, const struct evidence *evidence)
{
    size_t n = op->attempt_count++;
    size_t slot = n < DOC_ATTEMPTS_MAX ? n : 1 + (n - 1) % (DOC_ATTEMPTS_MAX - 1);
    struct doc_attempt *attempt = &op->attempts[slot];
    memcpy(attempt->nonce, evidence->nonce.data, NONCE_SIZE);
    attempt->nonce[NONCE_SIZE] = '\0';
    attempt->t0 = evidence->now;
    attempt->latest = evidence->latest;
    attempt->time_known = evidence->time_known;
}

/* The nonce in the document shows which attempt landed. If a lease were counted from a later
 * attempt, its holder would consider it valid for too long. */
const struct doc_attempt *doc_attempt_of(const struct doc_op *op, struct view nonce)
{
    size_t kept = op->attempt_count < DOC_ATTEMPTS_MAX ? op->attempt_count : DOC_ATTEMPTS_MAX;
    const struct doc_attempt *found = &op->attempts[0];
    for (size_t i = 0; i < kept; i++)
        if (view_equal(view_of(op->attempts[i].nonce), nonce))
            found = &op->attempts[i];
    MUTANT(mutant_counts_from_last_attempt(op, kept, &found));
    return found;
}

/* ---- Loading ------------------------------------------------------------------------- */

void doc_note_round_trip(struct doc *doc, struct mono_time sent)
{
    struct span most =
        span_larger(SPAN_US(ROUND_TRIP_TIMES * doc->round_trip.us), ROUND_TRIP_USUAL);
    struct span took = span_smaller(mono_since(env_now(doc->store->env), sent), most);
    doc->round_trip.us = (7 * doc->round_trip.us + took.us) / 8;
    if (doc->round_trip.us < ROUND_TRIP_MIN.us)
        doc->round_trip = ROUND_TRIP_MIN;
}

/* Replaces the body. decode has already copied the sightings of the old one. */
void doc_set_body(struct doc *doc, void *body, const struct etag *etag)
{
    if (doc->body)
        doc->type->free(doc->body);
    doc->body = body;
    doc->etag = *etag;
    doc->current = env_now(doc->store->env);
    doc->stale = false;
    doc->doubted = false;
    doc->prepared = false;
    doc->unwritten = false;
}

void doc_expect_absent(struct doc *doc)
{
    check(!doc->body && !doc->type->prepare);
    void *body = doc->type->birth(doc->context);
    if (body)
        doc_set_body(doc, body, &(struct etag){ 0 });
}

void doc_read_first(struct doc *doc)
{
    doc->crowd.reads_first = true;
}

bool doc_conflicts_in_vain(const struct doc *doc)
{
    return doc->in_vain >= IN_VAIN_MIN;
}

static void note_put(struct doc *doc, const struct put_call *put)
{
    enum hf_status status = put->error.status;
    doc->refused = status == HF_CONFLICT || status == HF_NOT_FOUND;
    doc->refused_etag = put->condition.etag;
    if (status == HF_OK)
        doc->in_vain = 0;
}

/* Compares the object with what the last put required, if that put was refused. `etag` is empty if
 * there is no object. Some stores decide conditions otherwise once their settings have changed, so
 * the store is asked about them: after 2, 4, 8 ... such puts, because it may not answer. */
static void check_refusal(struct doc *doc, const struct etag *etag, struct mono_time deadline)
{
    if (!doc->refused)
        return;
    doc->refused = false;
    doc->in_vain = etag_equal(etag, &doc->refused_etag) ? doc->in_vain + 1 : 0;
    if (doc->in_vain >= IN_VAIN_MIN && (doc->in_vain & (doc->in_vain - 1)) == 0)
        store_doubt(doc->store, deadline);
}

/* Reports the body that was just seen in the store. */
void doc_report_loaded(struct doc *doc)
{
    struct evidence evidence = { .nonce = VIEW("") };
    clock_evidence(doc->clock, &evidence);
    report_body(doc, &evidence);
}

/* Reads the document. What the reply says of an earlier refusal is checked afterwards, because a
 * question to the store would come between the arrival of the reply and the times taken here. */
static enum hf_status load_body(struct doc *doc, struct get_call *get, struct hf_error *error)
{
    struct mono_time sent = env_now(doc->store->env);
    buffer_clear(&doc->text);
    doc->unreadable = false;
    /* A stale body may contain changes that were never written, under the ETag of the version
     * without them. "Not modified" would make these changes look as if they were stored, also
     * where nobody asked for it. */
    bool compared = doc->body && !doc->stale;
    if (compared)
        get->none_match = doc->etag;
    enum hf_status status = store_get(doc->store, get);
    clock_learn(doc->clock, &get->stamp);
    doc_note_round_trip(doc, sent);
    bool too_large = status == HF_INVALID && get->info.size > doc->type->bytes_max;
    if (compared && (status == HF_OK || status == HF_NOT_MODIFIED))
        crowd_note_read(&doc->crowd, mono_since(sent, doc->current), status == HF_OK,
                        env_now(doc->store->env));
    if (status == HF_NOT_MODIFIED && !compared)
        return error_set(error, HF_UNAVAILABLE,
                         "the store compared the document with no version that was named");
    if (status == HF_NOT_MODIFIED) {
        doc->current = env_now(doc->store->env);
        doc->doubted = false;
        return HF_OK;
    }
    /* An object that is too large to be a document is damage too. If it were only INVALID, nobody
     * could ever replace it. */
    doc->unreadable = too_large;
    if (doc->unreadable)
        return error_set(error, HF_CORRUPT, "%s", get->error.why);
    if (status != HF_OK) {
        *error = get->error;
        return status;
    }
    void *body;
    /* Sightings are counted from the arrival of the reply. If they were counted from the sending of
     * the request, a slow reply would make a lease appear to have ended too early. */
    struct mono_time arrived = env_now(doc->store->env);
    MUTANT(mutant_watches_since_sent(sent, &arrived));
    status = doc->type->decode(buffer_view(&doc->text), arrived, doc->body, &body, error);
    doc->unreadable = status == HF_CORRUPT;
    if (status == HF_OK)
        doc_set_body(doc, body, &get->info.etag);
    if (status == HF_OK)
        doc_report_loaded(doc);
    return status;
}

enum hf_status doc_load(struct doc *doc, struct mono_time deadline, struct hf_error *error)
{
    struct get_call get = { .key = doc->key, .deadline = deadline, .body = &doc->text };
    enum hf_status status = load_body(doc, &get, error);
    if (get.error.status == HF_NOT_FOUND)
        check_refusal(doc, &(struct etag){ 0 }, deadline);
    else if (get.error.status == HF_OK || doc->unreadable)
        check_refusal(doc, &get.info.etag, deadline);
    return status;
}

/* Completes a body that cannot be used as it was read. It must then be written even if no
 * operation changes it. */
enum hf_status doc_prepare_body(struct doc *doc, struct mono_time deadline,
                                struct hf_error *error)
{
    const struct doc_type *type = doc->type;
    if (!type->prepare || doc->prepared)
        return HF_OK;
    bool whole = !type->is_whole || type->is_whole(doc->body);
    enum hf_status status = type->prepare(doc->context, doc->key, doc->body, deadline, error);
    doc->stale = status != HF_OK;
    doc->prepared = status == HF_OK;
    doc->unwritten = !whole;
    return status;
}

/* ---- A new body ---------------------------------------------------------------------- */

/* The condition of a write: this ETag still matches, or, without one, the object is absent. */
static struct condition write_condition(const struct etag *etag)
{
    struct condition condition = etag->size > 0 ? if_match(etag) : if_absent();
    MUTANT(mutant_overwrites_first_write(&condition));
    return condition;
}

/* Replaces the object that has this ETag with an incomplete body, and stores the new ETag in *etag.
 * After this write, no write that was based on the old object can land, so what `prepare` reads
 * from now on (such as the epoch) stays true for the new body. */
static enum hf_status write_placeholder(struct doc *doc, void *body, struct etag *etag,
                                        struct mono_time deadline, struct hf_error *error)
{
    char nonce[NONCE_SIZE + 1];
    env_random_hex(doc->store->env, NONCE_SIZE, nonce);
    buffer_clear(&doc->text);
    if (!doc->type->encode(body, view_of(nonce), &doc->text))
        return error_no_memory(error);
    MUTANT(mutant_prepares_early(doc, body, etag, deadline));
    struct put_call put = { .key = doc->key,
                            .body = buffer_view(&doc->text),
                            .condition = write_condition(etag),
                            .deadline = deadline };
    enum hf_status status = store_put(doc->store, &put);
    clock_learn(doc->clock, &put.stamp);
    note_put(doc, &put);
    if (status == HF_OK)
        *etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* Continues with a body that is not in the store yet. It will replace the object with this ETag or,
 * if the ETag is empty, create the object. An incomplete body is written as a placeholder before it
 * is prepared (README.md, rule 8). */
static enum hf_status begin_with(struct doc *doc, void *body, struct etag etag,
                                 struct mono_time deadline, struct hf_error *error)
{
    bool rescued = etag.size > 0;
    bool whole = !doc->type->is_whole || doc->type->is_whole(body);
    bool placeholder = !whole;
    MUTANT(mutant_skips_placeholder(doc, &etag, &placeholder));
    enum hf_status status = HF_OK;
    if (placeholder)
        status = write_placeholder(doc, body, &etag, deadline, error);
    if (status != HF_OK) {
        doc->type->free(body);
        return status;
    }
    doc_set_body(doc, body, &etag);
    doc->prepared = whole;
    status = doc_prepare_body(doc, doc->prepare_by, error);
    /* A body that replaces damage is written even if no operation changes it. Otherwise the damage,
     * or the mark that was put over it, would stay in the store. */
    doc->unwritten = rescued;
    if (status == HF_OK && !whole && etag.size > 0)
        doc_report_loaded(doc);
    return status;
}

static enum hf_status create_document(struct doc *doc, struct mono_time deadline,
                                      struct hf_error *error)
{
    void *body = doc->type->birth(doc->context);
    return body ? begin_with(doc, body, (struct etag){ 0 }, deadline, error)
                : error_no_memory(error);
}

/* Reads a damaged object again, because the bytes may have been damaged only in transit. Returns
 * CONFLICT if the object can be decoded now. An object that is too large for memory was never a
 * document of this kind. Only its beginning is read, because copying all of it would take longer
 * than a caller waits. */
static enum hf_status read_damaged(struct doc *doc, struct get_call *get,
                                   struct hf_error *error)
{
    void *body;
    enum hf_status status = store_get(doc->store, get);
    bool too_large = status == HF_INVALID && get->info.size > BODY_BYTES_MAX;
    if (too_large) {
        /* Only this version may be replaced later, so the copy must be made of this version. */
        get->match = get->info.etag;
        get->length = doc->type->bytes_max;
        buffer_clear(get->body);
        status = store_get(doc->store, get);
    }
    *error = get->error;
    if (status != HF_OK || too_large || get->body->size > doc->type->bytes_max)
        return status;
    status = doc->type->decode(buffer_view(get->body), get->stamp.received, NULL, &body, error);
    if (status != HF_OK)
        return status == HF_CORRUPT ? HF_OK : status;
    doc->type->free(body);
    return error_set(error, HF_CONFLICT, "the document is no longer damaged");
}

static enum hf_status replace_damaged(struct doc *doc, struct mono_time deadline,
                                      struct hf_error *error)
{
    void *body;
    struct buffer bytes = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = doc->key, .body = &bytes, .deadline = deadline };
    enum hf_status status = read_damaged(doc, &get, error);
    if (status == HF_OK)
        status = doc->type->rescue(doc->context, doc->key, buffer_view(&bytes), deadline, &body,
                                   error);
    buffer_release(&bytes);
    return status == HF_OK ? begin_with(doc, body, get.info.etag, deadline, error) : status;
}

/* Ensures that there is a body. *ret_fresh: it was loaded just now. */
static enum hf_status ensure_body(struct doc *doc, struct mono_time deadline, bool *ret_fresh,
                                  struct hf_error *error)
{
    *ret_fresh = !doc->body || doc->stale || doc->doubted;
    enum hf_status status = *ret_fresh ? doc_load(doc, deadline, error) : HF_OK;
    if (status == HF_NOT_FOUND)
        return create_document(doc, deadline, error);
    if (status == HF_CORRUPT && doc->unreadable && doc->type->rescue)
        return replace_damaged(doc, deadline, error);
    return status == HF_OK ? doc_prepare_body(doc, doc->prepare_by, error) : status;
}

/* ---- One attempt --------------------------------------------------------------------- */

/* Whether an earlier attempt of this operation may still land. Once the document has another
 * ETag, that attempt has already landed or never will, because every write is conditional and the
 * bytes of every write are new. */
static bool may_still_land(const struct doc *doc, const struct doc_op *op)
{
    return RULE(NOT_DONE_AFTER_A_SWAP) && op->doubt == DOC_DOUBT_OPEN &&
           etag_equal(&op->doubt_base, &doc->etag);
}

/* Begins an attempt with a new nonce and a new t0. The nonce makes the bytes of every write unique,
 * so that an ETag names one write even on a store whose ETags are content hashes. t0 is read before
 * the operations are applied, so that a slow write never makes a lease longer. */
void doc_begin_attempt(struct doc *doc, struct attempt *attempt)
{
    env_random_hex(doc->store->env, NONCE_SIZE, attempt->nonce);
    MUTANT(mutant_repeats_nonce(attempt->nonce));
    attempt->evidence = (struct evidence){ .nonce = view_of(attempt->nonce) };
    clock_evidence(doc->clock, &attempt->evidence);
    attempt->any_write = doc->unwritten;
}

void doc_apply_batch(struct doc *doc, struct batch *batch, struct attempt *attempt)
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
        /* An operation that finds its own effect remains in doubt until its result is published.
         * The batch may still need a put for another operation. If that put fails until the
         * deadline, this operation must not be reported as not done. The same applies to an
         * operation that finds part of its effect and adds the rest. */
        bool found = op->found || (status == HF_OK && !op->changed);
        if (op->doubt == DOC_DOUBT_OPEN && !found && !may_still_land(doc, op))
            op->doubt = DOC_DOUBT_OVER;
        /* A write that changes nothing still gives the document a new ETag. An earlier attempt
         * without a reply can then no longer land. */
        attempt->any_write = attempt->any_write || op->changed ||
                             (RULE(SETTLE_WRITES) && op->settle) || may_still_land(doc, op);
    }
}

/* The time until the earliest deadline in the batch. */
static struct span time_left(const struct batch *batch, struct mono_time now)
{
    struct mono_time earliest = batch->ops[0]->deadline;
    for (size_t i = 1; i < batch->count; i++)
        earliest = mono_earlier(earliest, batch->ops[i]->deadline);
    return mono_since(earliest, now);
}

struct mono_time batch_deadline(struct doc *doc, const struct batch *batch)
{
    struct mono_time now = env_now(doc->store->env);
    struct span part = SPAN_US(time_left(batch, now).us / REQUEST_TIME_PART);
    if (part.us < REQUEST_TIME_MIN.us)
        part = REQUEST_TIME_MIN;
    return mono_add(now, span_smaller(part, REQUEST_TIME_MAX));
}

bool batch_is_quiet(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (!batch->ops[i]->quiet)
            return false;
    return true;
}

/* Whether the attempt before this one failed, and this one came after a pause. An attempt that was
 * too urgent for the whole pause shows nothing about how long a pause must be. */
static bool failed_after_pause(const struct doc *doc)
{
    return doc->failures_in_row > 0 && !doc->hurried;
}

static void learn_from_put(struct doc *doc, struct mono_time sent, enum hf_status status)
{
    struct mono_time now = env_now(doc->store->env);
    struct span age = mono_since(sent, doc->current);
    if (status == HF_CONFLICT && !doc_conflicts_in_vain(doc))
        crowd_note_conflict(&doc->crowd, age, failed_after_pause(doc), doc->round_trip, now);
    if (status != HF_OK)
        return;
    crowd_note_written(&doc->crowd, age, now);
    doc->current = now;
}

static enum hf_status put_doc_body(struct doc *doc, const struct batch *batch,
                                   const struct attempt *attempt, struct hf_error *error)
{
    buffer_clear(&doc->text);
    if (!doc->type->encode(doc->body, view_of(attempt->nonce), &doc->text))
        return error_no_memory(error);
    struct mono_time sent = env_now(doc->store->env);
    struct put_call put = { .key = doc->key,
                            .body = buffer_view(&doc->text),
                            .condition = write_condition(&doc->etag),
                            .quiet = batch_is_quiet(batch),
                            .deadline = batch_deadline(doc, batch) };
    enum hf_status status = store_put(doc->store, &put);
    MUTANT(mutant_retries_blindly(doc->store, &put, &status));
    doc_note_round_trip(doc, sent);
    clock_learn_from_write(doc->clock, &put.stamp, /* done */ status == HF_OK);
    note_put(doc, &put);
    learn_from_put(doc, sent, status);
    if (status == HF_OK)
        doc->etag = put.etag;
    else
        *error = put.error;
    return status;
}

/* ---- Results of an attempt ----------------------------------------------------------- */

/* A retry that the store has answered, even by a conflict, gets its token back. */
static void settle_budget(struct doc *doc, enum hf_status status)
{
    if (doc->paid && retry_is_answered(status))
        retry_budget_refund(store_budget(doc->store));
    doc->paid = false;
}

/* A batch whose request may succeed next time is tried again. An operation that was refused may be
 * accepted then, so only the reason for the retry is kept, in case the deadline passes first. */
void doc_after_failure(struct doc *doc, struct batch *batch, enum hf_status status,
                       const struct hf_error *error)
{
    bool retry = status == HF_CONFLICT || status == HF_NOT_FOUND || status == HF_UNSURE ||
                 (status == HF_UNAVAILABLE && !error_is_no_space(error)) ||
                 status == HF_TIMEOUT;
    bool damaged = error->status == HF_CORRUPT && doc->unreadable;
    if (doc->failures_in_row++ == 0)
        doc->failing = env_now(doc->store->env);
    doc->conflicted = status == HF_CONFLICT;
    settle_budget(doc, status);
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        if (!retry || op->answer == DOC_UNANSWERED)
            op->error = *error;
        if (retry)
            continue;
        op->answer = damaged ? DOC_DAMAGED : DOC_FAILED;
        /* This failure does not show what became of an earlier attempt. */
        if (op->doubt == DOC_DOUBT_OPEN)
            op->error.status = HF_UNSURE;
    }
}

void doc_after_failed_write(struct doc *doc, struct batch *batch, enum hf_status status,
                            const struct hf_error *error)
{
    /* The write may have landed anyway, or may still land. A proxy may have sent it twice: then the
     * first copy landed, and the second conflicted with the first. */
    bool conflict = status == HF_CONFLICT || status == HF_NOT_FOUND;
    bool final = conflict && doc->store->traits.conflict_final;
    bool may_have_landed =
        status == HF_UNSURE || (RULE(CONFLICT_MAY_BE_OURS) && conflict && !final);
    /* The body contains the changes of this attempt, which may not be in the store. */
    if (RULE(RELOAD_AFTER_FAILURE))
        doc->stale = true;
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        /* An operation in doubt may have caused the conflict itself, so the conflict is not
         * counted. */
        op->conflicts += status == HF_CONFLICT && op->doubt != DOC_DOUBT_OPEN;
        if (op->changed && may_have_landed) {
            op->doubt = DOC_DOUBT_OPEN;
            op->doubt_base = doc->etag;
        }
        if (op->changed && final && op->unsent)
            op->unsent(op);
    }
    MUTANT(mutant_refuses_before_the_put(batch));
    doc_after_failure(doc, batch, status, error);
}

/* The results are valid: the body is, or was, in the store. */
void doc_after_success(struct doc *doc, struct batch *batch)
{
    doc->unwritten = false;
    crowd_note_success(&doc->crowd, failed_after_pause(doc));
    settle_budget(doc, HF_OK);
    doc->failures_in_row = 0;
    for (size_t i = 0; i < batch->count; i++) {
        struct doc_op *op = batch->ops[i];
        op->answer = DOC_KNOWN;
        /* OVER and not NONE: what the operation found may be the effect of its own earlier
         * attempt. */
        if (op->doubt == DOC_DOUBT_OPEN)
            op->doubt = DOC_DOUBT_OVER;
    }
}

/* ---- One attempt, either way --------------------------------------------------------- */

/* Whether a put of the cached body would most likely conflict, so that a get saves it. */
static bool is_probably_outdated(const struct doc *doc)
{
    struct mono_time now = env_now(doc->store->env);
    struct span age = mono_since(now, doc->current);
    return doc->body && !doc->stale && crowd_doubts(&doc->crowd, age, doc->round_trip, now);
}

void doc_try(struct doc *doc, struct batch *batch)
{
    struct hf_error error;
    bool fresh = true;
    struct mono_time deadline = batch_deadline(doc, batch), now = env_now(doc->store->env);
    struct span left = time_left(batch, now);
    struct span rest = span_smaller(SPAN_US(left.us / AFTER_PREPARE_PART), AFTER_PREPARE);
    struct span most = span_smaller(SPAN_US(left.us - rest.us), REQUEST_TIME_MAX);
    doc->prepare_by = mono_add(now, span_larger(most, mono_since(deadline, now)));
    enum step_end end = doc_try_step(doc, batch);
    if (end == STEP_DONE)
        return;
    if (is_probably_outdated(doc))
        doc->doubted = true;
    enum hf_status status = end == STEP_ABSENT ? create_document(doc, deadline, &error)
                                               : ensure_body(doc, deadline, &fresh, &error);
    if (status != HF_OK) {
        doc_after_failure(doc, batch, status, &error);
        return;
    }
    size_t size_before = doc->text.size;
    struct attempt attempt;
    doc_begin_attempt(doc, &attempt);
    doc_apply_batch(doc, batch, &attempt);
    if (!attempt.any_write) {
        /* If a refusal, or a success that needs no write, was computed from a cached body, it is
         * not reported yet. The next attempt first compares the body with the store. */
        doc->doubted = RULE(REFUSED_BY_FRESH_BODY) && !fresh;
        if (!doc->doubted)
            doc_after_success(doc, batch);
        return;
    }
    status = put_doc_body(doc, batch, &attempt, &error);
    if (end == STEP_TOO_LARGE)
        doc->refused_size = size_before > doc->text.size ? size_before : doc->text.size;
    if (status != HF_OK) {
        doc_after_failed_write(doc, batch, status, &error);
        return;
    }
    /* The swap proves that the body was current, so refusals computed from it are valid too. */
    doc_report_written(doc, &attempt.evidence);
    doc_after_success(doc, batch);
}
