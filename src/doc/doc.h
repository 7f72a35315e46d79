/* SPDX-License-Identifier: Apache-2.0 */
/* doc.h: one document, changed by compare-and-swap. Everything that clients must agree on is
 * changed this way.
 *
 * A change is an operation: a pure function of the document's body and of evidence about time. It
 * is applied to the cached body, and the result is written if the ETag is still the one that was
 * loaded. After a conflict or a lost reply it is applied again to a fresh body. So an operation
 * must recognise its own effect: applied to a document that it has already changed, it reports
 * this and succeeds. docs/design.md section 4; src/doc/README.md has the invariants.
 *
 * Operations in one process that are waiting for the same document are applied together and
 * written in one put. Results, including refusals, are published only when that put is known to
 * be done. A result that needs no put is published only if its body was in the store after the
 * call began. */
#ifndef DOC_DOC_H
#define DOC_DOC_H

#include "doc/clock.h"
#include "store/store.h"

/* The functions of one kind of document. A body is changed in place; if its write fails, it is
 * discarded. */
struct doc_type {
    size_t bytes_max; /* the size limit for reading */

    /* Decodes bytes that arrived at this time into a body. `previous` is the body before it, or
     * NULL; it is freed after the call. */
    enum hf_status (*decode)(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error);

    /* May be NULL. Whether `prepare` needs no request to the store. */
    bool (*is_whole)(const void *body);

    /* May be NULL. Completes a body that cannot be used as it was read, by reading the missing
     * part from the store. CONFLICT: the object has changed, read it again. */
    enum hf_status (*prepare)(void *context, struct view key, void *body,
                              struct mono_time deadline, struct hf_error *error);

    /* The first body of an object that does not exist; NULL if out of memory. An incomplete one
     * is written as it is, and only then prepared (README.md, rule 8). */
    void *(*birth)(void *context);

    /* May be NULL: then operations on a damaged object fail with CORRUPT. Keeps a copy of the
     * damaged bytes, or of a reasonable part, if they are worth keeping, and makes a body to
     * replace them. That body is written and prepared like a first one. */
    enum hf_status (*rescue)(void *context, struct view key, struct view bytes,
                             struct mono_time deadline, void **ret_body,
                             struct hf_error *error);

    bool (*encode)(const void *body, struct view nonce, struct buffer *text);

    /* May be NULL. Called when the changed body is known to be in the store, since now at the
     * latest. */
    void (*written)(void *body, struct mono_time now);
    void (*free)(void *body);
};

/* One attempt to write. If it landed, its nonce is in the document. A lease that it granted
 * counts from its t0. */
struct doc_attempt {
    char nonce[NONCE_SIZE + 1];
    struct mono_time t0;
    struct store_time latest;
    bool time_known;
};

/* An operation remembers its first attempt and the last few. */
#define DOC_ATTEMPTS_MAX 8

/* The owner of an operation: the queue, a leader, or its caller again. */
enum doc_op_state { DOC_OP_QUEUED, DOC_OP_TAKEN, DOC_OP_DONE };

/* The kind of result. */
enum doc_answer {
    DOC_UNANSWERED,
    DOC_KNOWN,   /* the result comes from a body that was in the store */
    DOC_FAILED,  /* the store failed, or the deadline passed */
    DOC_DAMAGED, /* the document cannot be read: CORRUPT, or the reason for UNSURE */
};

/* Whether an unconfirmed write of the operation may have landed. Columns are the events that
 * change the state:
 *
 *        a write of it      a body shows that no write     the result
 *        has no reply       of it can land any more        is known
 *   NONE      OPEN               NONE                           NONE
 *   OPEN      OPEN               OVER                           OVER
 *   OVER      OPEN               OVER                           OVER */
enum doc_doubt { DOC_DOUBT_NONE, DOC_DOUBT_OPEN, DOC_DOUBT_OVER };

/* Zero-initialised, except for the fields of the request. An operation that is submitted again,
 * after UNSURE or for another reason, continues: it remembers its attempts, and the one that may
 * still land. */
struct doc_op {
    /* The request. Pure. Returns OK, or a refusal with its reason in `error`, and sets
     * `changed` if the body must be written; otherwise the body must be left as it was. Called
     * once per attempt, so possibly many times. Sets `found` if it finds an earlier attempt of
     * its own and still has more to do. */
    enum hf_status (*apply)(struct doc_op *op, void *body, const struct evidence *evidence);
    struct mono_time deadline;
    bool quiet;  /* may be set by apply: this write need not wake other processes */
    bool settle; /* write even if unchanged, so that no earlier write can still land */

    /* The result. */
    bool changed;
    bool found;
    enum doc_answer answer;
    enum doc_doubt doubt; /* not NONE: what it found may be its own effect */
    unsigned conflicts;   /* how many times another client's write made ours fail */
    struct hf_error error;
    struct doc_attempt attempts[DOC_ATTEMPTS_MAX]; /* the first one, then the last ones */
    size_t attempt_count;

    /* Private to the document. */
    enum doc_op_state state;
    struct env_cond *wake; /* the caller's */
    /* A write in doubt may land only while the document has this ETag (empty: is absent). */
    struct etag doubt_base;
    struct doc_op *next;
};

struct doc;

enum hf_status doc_new(struct store *store, struct doc_clock *clock, struct view key,
                       const struct doc_type *type, void *context, struct doc **ret_doc,
                       struct hf_error *error);

/* No operation may be under way. NULL is allowed. */
void doc_free(struct doc *doc);

struct view doc_key(const struct doc *doc);

/* Why the last attempt failed and will be repeated; false if there was no failure other than
 * conflicts. For progress messages. */
bool doc_trouble(struct doc *doc, struct hf_error *ret_why);

/* The ETag of the body as we know it. False: unknown, or an attempt is under way. */
bool doc_etag(struct doc *doc, struct etag *ret_etag);

/* The smoothed duration of a request. Call it only from a callback of the document. */
struct span doc_round_trip(const struct doc *doc);

/* Must be called before the first use. `seen` is called with each body that is known to be in the
 * store: after a load, and after a put, with the body as written and the evidence of that
 * attempt. It runs in the leading task, before results are published, and must not use the
 * document. */
void doc_observe(struct doc *doc,
                 void (*seen)(void *argument, const void *body,
                              const struct evidence *evidence),
                 void *argument);

/* Applies an operation until it is done, refused, or its deadline has passed:
 *
 *   OK         done
 *   UNSURE     an attempt may have landed or may still land, and the deadline passed or the
 *              store failed
 *   TIMEOUT    the deadline passed, and nothing was or will be changed
 *   others     the refusal of the operation, or the failure of the store
 *
 * No attempt starts after the deadline; one that is under way is finished. Each request gets at
 * least half a second, however near the deadline is, and at most a third of the time left: if a
 * reply is lost, there is time for a retry. */
enum hf_status doc_update(struct doc *doc, struct doc_op *op);

/* Applies several operations together, each with its own result. Returns the first status that is
 * not OK. */
enum hf_status doc_update_many(struct doc *doc, struct doc_op *const *ops, size_t count);

/* Passes the current body to `look`. The body is loaded unless the cached one is still current
 * (one conditional get, without retries). NOT_FOUND if there is no object. `look` must not use
 * the document. */
enum hf_status doc_look(struct doc *doc, struct mono_time deadline,
                        void (*look)(void *argument, const void *body,
                                     const struct evidence *evidence),
                        void *argument, struct hf_error *error);

/* The attempt with this nonce; the first attempt if none that we remember has it. */
const struct doc_attempt *doc_attempt_of(const struct doc_op *op, struct view nonce);

#endif
