/* SPDX-License-Identifier: Apache-2.0 */
/* step.c: changes a document, or several documents together, in one step of a store that has a lock
 * of its own (sqlite). It guards against results that were computed from a version that the store
 * no longer has, and against a write that is decided twice.
 *
 * No other process can write between the load and the write. But while the store's lock is held,
 * all other processes wait. So the operations are applied to the known version before, and applied
 * again under the lock only if the store has another version. */
#include "doc/doc_inside.h"

#include "base/check.h"
#include "base/mutant.h"
#include "base/rule.h"

#include <stdlib.h>

struct step {
    struct doc *doc;
    struct batch *batch;
    struct change_call *change;
    struct attempt attempt;
    struct mono_time deadline;
    bool creates; /* a missing object is created in the step */
    bool early;   /* the operations have been applied to the version change->known */
    bool decided; /* the store has asked for a decision */
    bool absent;
    bool loaded;  /* the body was decoded from new bytes */
    bool applied; /* the operations have changed the body */
    bool given_up;
};

/* Whether the body can be prepared without another request. Inside a step the store holds its
 * lock, so no request may be made. */
static bool can_prepare(const struct doc *doc)
{
    return !doc->type->prepare || (doc->type->is_whole && doc->type->is_whole(doc->body));
}

static bool is_prepared(const struct doc *doc)
{
    return doc->prepared || !doc->type->prepare;
}

/* What the last application of the batch has changed will not be written. */
static void forget_application(const struct step *step)
{
    for (size_t i = 0; i < step->batch->count; i++)
        if (step->batch->ops[i]->unsent)
            step->batch->ops[i]->unsent(step->batch->ops[i]);
}

/* The object does not exist. False: it cannot be created in the step. */
static bool ensure_first_body(struct step *step)
{
    struct doc *doc = step->doc;
    if (!step->creates)
        return false;
    if (doc->body && !doc->stale && doc->etag.size == 0) /* it was expected to be absent */
        return true;
    void *body = doc->type->birth(doc->context);
    if (body)
        doc_set_body(doc, body, &(struct etag){ 0 });
    return body != NULL;
}

/* Ensures that the body is the one in the store now. False: a step is not enough. */
static bool ensure_current_body(struct step *step, const struct etag *now, struct view bytes)
{
    struct doc *doc = step->doc;
    const struct doc_type *type = doc->type;
    struct hf_error error;
    void *body;
    step->absent = now->size == 0;
    /* decide_step may be called again for the same step. The body has been changed by then, so it
     * cannot be used for another try. */
    if (step->applied && !step->early)
        return false;
    if (step->absent)
        return ensure_first_body(step);
    /* Without bytes, the object still has the ETag that we know. */
    if (!bytes.data)
        return etag_equal(now, &doc->etag) && is_prepared(doc) && !step->applied;
    doc->stale = true; /* our body is outdated, even if these bytes cannot be used */
    /* Damage is handled outside the step, because it needs further requests. */
    if (bytes.size > type->bytes_max ||
        type->decode(bytes, env_now(doc->store->env), doc->body, &body, &error) != HF_OK)
        return false;
    doc_set_body(doc, body, now);
    step->loaded = true;
    return can_prepare(doc) && doc_prepare_body(doc, step->deadline, &error) == HF_OK;
}

static bool batch_is_refused(const struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        if (batch->ops[i]->error.status != HF_OK)
            return true;
    return false;
}

/* Applies the batch to the body. The bytes to write are in doc->text if step->attempt.any_write.
 * False: out of memory. */
static bool apply_step(struct step *step)
{
    struct doc *doc = step->doc;
    doc_begin_attempt(doc, &step->attempt);
    doc_apply_batch(doc, step->batch, &step->attempt);
    step->applied = true;
    step->change->refused = RULE(ONE_REFUSES_ALL) && batch_is_refused(step->batch);
    if (!step->attempt.any_write)
        return true;
    step->change->quiet = batch_is_quiet(step->batch);
    buffer_clear(&doc->text);
    return doc->type->encode(doc->body, view_of(step->attempt.nonce), &doc->text);
}

static struct view decide_step(void *argument, const struct etag *now, struct view bytes)
{
    struct step *step = argument;
    const struct view nothing = { NULL, 0 };
    bool is_other = RULE(STEP_DECIDES_ANEW) && !etag_equal(now, &step->change->known);
    step->decided = true;
    if (!step->early || is_other) {
        if (step->applied)
            forget_application(step);
        step->given_up = !ensure_current_body(step, now, bytes) || !apply_step(step);
        step->early = false;
    }
    if (step->given_up)
        step->change->refused = true;
    bool writes = !step->given_up && step->attempt.any_write;
    return writes ? buffer_view(&step->doc->text) : nothing;
}

/* Applies the batch to the known version, before the store is asked. Its results count only if the
 * store still has that version when the step takes place. */
static void apply_early(struct step *step)
{
    struct doc *doc = step->doc;
    struct hf_error error;
    if (doc->body && !doc->stale && !is_prepared(doc) && can_prepare(doc))
        (void)doc_prepare_body(doc, step->deadline, &error); /* without a request */
    if (!doc->body || doc->stale)
        return;
    step->change->known = doc->etag;
    step->change->creates = doc->etag.size == 0;
    if (doc->etag.size == 0 || !is_prepared(doc))
        return;
    step->early = apply_step(step);
    if (step->early && step->attempt.any_write && !step->change->refused)
        step->change->ready = buffer_view(&doc->text);
    if (!step->early) { /* there was no memory for the bytes: begin again in the step */
        doc->stale = true;
        step->applied = false;
        step->change->known = (struct etag){ 0 };
    }
}

/* Prepares a step for this batch. The struct must not move from now on. */
static void begin_step(struct step *step, struct doc *doc, struct batch *batch,
                       struct change_call *change)
{
    *step = (struct step){
        .doc = doc, .batch = batch, .change = change, .deadline = batch_deadline(doc, batch)
    };
    *change = (struct change_call){
        .key = doc->key, .decide = decide_step, .argument = step, .deadline = step->deadline
    };
    apply_early(step);
}

/* The store has done, or confirmed, what the step decided. */
static void finish_step(struct step *step)
{
    struct doc *doc = step->doc;
    doc->etag = step->change->etag;
    doc->current = env_now(doc->store->env);
    doc->doubted = false;
    if (step->change->wrote)
        doc_report_written(doc, &step->attempt.evidence);
    else if (step->loaded)
        doc_report_loaded(doc);
    doc_after_success(doc, step->batch);
}

static void fail_step(struct step *step)
{
    enum hf_status status = step->change->error.status;
    if (step->applied && status != HF_UNSURE)
        forget_application(step);
    if (step->applied)
        doc_after_failed_write(step->doc, step->batch, status, &step->change->error);
    else
        doc_after_failure(step->doc, step->batch, status, &step->change->error);
}

/* Nothing was written. A body that the operations have changed is of no use any more. */
static void abandon_step(struct step *step)
{
    if (step->applied)
        forget_application(step);
    step->doc->stale = step->doc->stale || step->applied;
}

/* ---- One document -------------------------------------------------------------------- */

/* The store refused a document of refused_size. The next try waits until the document is less than
 * half as large, so a document that shrinks slowly does not fail again each time. */
static bool may_fit_a_step(const struct doc *doc)
{
    return doc->store->ops->change &&
           (doc->refused_size == 0 || doc->text.size < doc->refused_size / 2);
}

static bool may_step(const struct doc *doc)
{
    bool expected_absent = doc->body && !doc->stale && doc->etag.size == 0;
    return may_fit_a_step(doc) && !expected_absent;
}

/* The store has answered. */
static enum step_end end_step(struct step *step, struct mono_time sent)
{
    struct doc *doc = step->doc;
    enum hf_status status = step->change->error.status;
    clock_learn(doc->clock, &step->change->stamp);
    if (status != HF_UNSUPPORTED) /* UNSUPPORTED: a get and a put follow */
        doc_note_round_trip(doc, sent);
    if (status == HF_UNSUPPORTED || (status == HF_OK && step->given_up)) {
        abandon_step(step);
        if (status == HF_UNSUPPORTED)
            return STEP_TOO_LARGE;
        return step->absent ? STEP_ABSENT : STEP_TOO_MUCH;
    }
    if (status == HF_OK)
        finish_step(step);
    else
        fail_step(step);
    return STEP_DONE;
}

enum step_end doc_try_step(struct doc *doc, struct batch *batch)
{
    struct step step;
    struct change_call change;
    if (!may_step(doc))
        return STEP_TOO_MUCH;
    begin_step(&step, doc, batch, &change);
    struct mono_time sent = env_now(doc->store->env);
    store_change(doc->store, &change);
    return end_step(&step, sent);
}

/* ---- Several documents together ------------------------------------------------------ */

struct together {
    struct step steps[TOGETHER_MAX];
    struct batch batches[TOGETHER_MAX];
    struct change_call changes[TOGETHER_MAX];
    size_t count;
};

/* The document because of which nothing was written. Its decision was based on the version in the
 * store; those of the documents after it were not. */
static const struct step *find_refused_step(const struct together *together)
{
    for (size_t i = 0; i < together->count; i++)
        if (together->steps[i].decided && together->changes[i].refused)
            return &together->steps[i];
    return NULL;
}

static enum hf_status refuse_together(struct together *together, const struct step *because,
                                      struct hf_error *error)
{
    for (size_t i = 0; i < together->count; i++)
        abandon_step(&together->steps[i]);
    if (because->given_up)
        return error_set(error, HF_NOT_FOUND,
                         "a document must be created or loaded before it can be changed");
    because->batch->ops[0]->answer = DOC_KNOWN;
    *error = because->batch->ops[0]->error;
    return error->status;
}

static enum hf_status run_together(struct together *together, struct hf_error *error)
{
    struct doc *first = together->steps[0].doc;
    enum hf_status status =
        store_change_together(first->store, together->changes, together->count);
    clock_learn(first->clock, &together->changes[0].stamp);
    const struct step *because = status == HF_OK ? find_refused_step(together) : NULL;
    if (because)
        return refuse_together(together, because, error);
    *error = together->changes[0].error;
    for (size_t i = 0; i < together->count; i++) {
        if (status == HF_OK)
            finish_step(&together->steps[i]);
        else if (status == HF_UNSUPPORTED)
            abandon_step(&together->steps[i]);
        else
            fail_step(&together->steps[i]);
        together->steps[i].doc->failures_in_row = 0; /* there is no retry that must wait */
    }
    return status;
}

static void begin_together(struct together *together, struct doc *const *docs,
                           struct doc_op *const *ops, size_t count)
{
    together->count = count;
    for (size_t i = 0; i < count; i++) {
        ops[i]->answer = DOC_UNANSWERED;
        error_clear(&ops[i]->error);
        together->batches[i].ops[0] = ops[i];
        together->batches[i].count = 1;
        begin_step(&together->steps[i], docs[i], &together->batches[i], &together->changes[i]);
        together->steps[i].creates = !docs[i]->type->prepare;
    }
}

enum hf_status doc_update_together(struct doc *const *docs, struct doc_op *const *ops,
                                   size_t count, struct hf_error *error)
{
    check(count > 0 && count <= TOGETHER_MAX);
    if (!docs[0]->store->ops->change)
        return error_set(error, HF_UNSUPPORTED, "the store has no lock of its own");
    struct together *together = malloc(sizeof *together);
    if (!together)
        return error_no_memory(error);
    enum hf_status status = HF_OK;
    size_t taken = 0;
    while (taken < count && status == HF_OK) {
        status = doc_take_turn(docs[taken], ops[0]->deadline, error);
        taken += status == HF_OK;
    }
    if (status == HF_OK) {
        begin_together(together, docs, ops, count);
        status = run_together(together, error);
    }
    while (taken > 0)
        doc_leave_turn(docs[--taken]);
    free(together);
    return status;
}

/* ---- Several documents, each by itself ------------------------------------------------- */

/* The documents of one round: those whose turn this task has. */
struct each {
    struct step steps[EACH_MAX];
    struct batch batches[EACH_MAX];
    struct change_call changes[EACH_MAX];
    size_t count;
};

static void begin_each(struct each *each, const struct doc_part *part)
{
    struct batch *batch = &each->batches[each->count];
    batch->count = part->count;
    memcpy(batch->ops, part->ops, part->count * sizeof(struct doc_op *));
    begin_step(&each->steps[each->count], part->doc, batch, &each->changes[each->count]);
    each->count++;
}

static void run_each(struct each *each)
{
    if (each->count == 0)
        return;
    struct store *store = each->steps[0].doc->store;
    struct mono_time sent = env_now(store->env);
    store_change_each(store, each->changes, each->count);
    for (size_t i = 0; i < each->count; i++) {
        MUTANT(mutant_takes_first_result(each->changes, i));
        end_step(&each->steps[i], sent);
        each->steps[i].doc->failures_in_row = 0; /* there is no retry that must wait */
    }
}

/* Takes the turns of as many documents as possible, and of one at least. A task waits for a turn
 * only while it has none, so two calls never wait for each other. Returns how many parts were
 * moved to the front, because they belong to this round. */
static size_t take_turns(struct doc_part *parts, size_t count)
{
    struct hf_error error;
    size_t taken = 0;
    if (doc_take_turn(parts[0].doc, parts[0].ops[0]->deadline, &error) != HF_OK)
        return 0;
    for (size_t i = ++taken; i < count; i++)
        if (doc_try_turn(parts[i].doc)) {
            struct doc_part part = parts[i];
            parts[i] = parts[taken];
            parts[taken++] = part;
        }
    return taken;
}

void doc_update_each(const struct doc_part *parts, size_t count)
{
    struct doc_part left[EACH_MAX];
    struct doc_part *at = left;
    check(count > 0 && count <= EACH_MAX);
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < parts[i].count; j++) {
            parts[i].ops[j]->answer = DOC_UNANSWERED;
            error_clear(&parts[i].ops[j]->error);
        }
    memcpy(left, parts, count * sizeof left[0]);
    struct each *each = parts[0].doc->store->ops->change ? malloc(sizeof *each) : NULL;
    while (each && count > 0) {
        size_t taken = take_turns(at, count);
        each->count = 0;
        for (size_t i = 0; i < taken; i++)
            if (may_step(at[i].doc))
                begin_each(each, &at[i]);
        run_each(each);
        for (size_t i = 0; i < taken; i++)
            doc_leave_turn(at[i].doc);
        size_t passed = taken > 0 ? taken : 1; /* a document that was busy for too long */
        at += passed;
        count -= passed;
    }
    free(each);
}
