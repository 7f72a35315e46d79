/* SPDX-License-Identifier: Apache-2.0 */
/* doc.h: one document, changed by compare-and-swap. Everything that clients must agree on is
 * changed this way.
 *
 * A change is an operation: a pure function of the document's body and of evidence about time. It
 * is applied to the cached body, and the result is written if the ETag is still the one that was
 * loaded. After a conflict or a lost reply it is applied again to a fresh body. So an operation
 * must recognise its own effect: applied to a document that it has already changed, it reports this
 * and succeeds. See docs/design.md section 4. The invariants are in src/doc/README.md.
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

    /* Decodes bytes that arrived at this time into a body. `previous` is the body that the new one
     * replaces, or NULL; it is freed after the call. */
    enum hf_status (*decode)(struct view bytes, struct mono_time arrived, const void *previous,
                             void **ret_body, struct hf_error *error);

    /* May be NULL. Returns true if `prepare` needs no request to the store for this body. */
    bool (*is_whole)(const void *body);

    /* May be NULL. Completes a body that cannot be used as it was read, by reading the missing part
     * from the store. CONFLICT: the object has changed and must be read again. */
    enum hf_status (*prepare)(void *context, struct view key, void *body,
                              struct mono_time deadline, struct hf_error *error);

    /* The first body of an object that does not exist; NULL if out of memory. An incomplete body is
     * written as it is, and only then prepared (README.md, rule 8). */
    void *(*birth)(void *context);

    /* May be NULL; operations on a damaged object then fail with CORRUPT. Saves a copy of the
     * damaged bytes, or of part of them, if they are worth keeping, and creates a body that
     * replaces them. That body is written and prepared like the first body of a new object. */
    enum hf_status (*rescue)(void *context, struct view key, struct view bytes,
                             struct mono_time deadline, void **ret_body,
                             struct hf_error *error);

    bool (*encode)(const void *body, struct view nonce, struct buffer *text);

    /* May be NULL. Called when the changed body is known to be in the store. It has been there
     * since `now` at the latest. */
    void (*written)(void *body, struct mono_time now);
    void (*free)(void *body);
};

/* One attempt to write. If it landed, its nonce is in the document. The ttl of a lease that it
 * granted is counted from its t0. */
struct doc_attempt {
    char nonce[NONCE_SIZE + 1];
    struct mono_time t0;
    struct store_time latest;
    bool time_known;
};

/* How many attempts an operation remembers: the first one and the most recent ones. */
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

/* Whether one of the operation's writes may have landed, or may still land, without our knowledge.
 * The columns are the events that change the state:
 *
 *        one of its writes  a body shows that none of      the result
 *        may have landed    its writes can still land      is known
 *   NONE      OPEN               NONE                           NONE
 *   OPEN      OPEN               OVER                           OVER
 *   OVER      OPEN               OVER                           OVER */
enum doc_doubt { DOC_DOUBT_NONE, DOC_DOUBT_OPEN, DOC_DOUBT_OVER };

/* Zero-initialised, except for the fields of the request. An operation may be submitted again,
 * after UNSURE or for another reason. It still remembers its earlier attempts, including one that
 * may still land. */
struct doc_op {
    /* The request. Pure. Returns OK, or a refusal with its reason in `error`, and sets `changed` if
     * the body must be written; otherwise the body must be left as it was. Called once per attempt,
     * so possibly many times. Sets `found` if it finds the effect of an earlier attempt of its own
     * and still has more to do. */
    enum hf_status (*apply)(struct doc_op *op, void *body, const struct evidence *evidence);
    /* Called, perhaps twice, if what the last call of `apply` has changed was certainly not
     * written. NULL: the operation remembers nothing from one attempt to the next. */
    void (*unsent)(struct doc_op *op);
    struct mono_time deadline;
    bool quiet;   /* may be set by apply: this write need not wake other processes */
    bool settle;  /* write even if unchanged, so that no earlier write can still land */
    bool urgent;  /* it pauses only briefly, and does not wait for the budget of the store */
    bool soon;    /* may be set by apply: after a conflict, it pauses only briefly, ... */
    size_t ahead; /* ... and longer if so many others must come first anyway */

    /* The result. */
    bool changed;
    bool found;
    enum doc_answer answer;
    enum doc_doubt doubt; /* not NONE: an effect that it found may be its own */
    unsigned conflicts;   /* how many times another client's write made ours fail */
    struct hf_error error;
    struct doc_attempt attempts[DOC_ATTEMPTS_MAX]; /* the first, then the most recent */
    size_t attempt_count;

    /* Private to the document. */
    enum doc_op_state state;
    struct env_cond *wake; /* the caller's */
    /* A write in doubt can land only while the document has this ETag (empty: while it is
     * absent). */
    struct etag doubt_base;
    struct doc_op *next;
};

struct doc;

enum hf_status doc_new(struct store *store, struct doc_clock *clock, struct view key,
                       const struct doc_type *type, void *context, struct doc **ret_doc,
                       struct hf_error *error);

/* Must be called before the first use, of a type without `prepare`. The caller expects that there
 * is no object, because its key is new. So the first operation is tried without a get. If there is
 * an object after all, the write is refused, and the object is loaded as usual. */
void doc_expect_absent(struct doc *doc);

/* Must be called before the first use. Others tend to change the document at the same time: once
 * one of them has, it is compared with the store before each put (doc/crowd.h). */
void doc_read_first(struct doc *doc);

/* No operation may be in progress. NULL is allowed. */
void doc_free(struct doc *doc);

struct view doc_key(const struct doc *doc);

/* Sets *ret_why to the reason why the last attempt failed and will be repeated. Returns false if it
 * did not fail, or failed only because of a conflict with another client. For progress messages. */
bool doc_trouble(struct doc *doc, struct hf_error *ret_why);

/* The ETag of the last known body. Returns false if it is unknown, or if an attempt is in
 * progress. */
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
 * No attempt starts after the deadline, but one that is in progress is finished. Each request
 * gets a third of the time left, but at most ten seconds, so that there is time for a retry if a
 * reply is lost. It gets at least half a second, however near the deadline is. */
enum hf_status doc_update(struct doc *doc, struct doc_op *op);

/* Applies several operations together, each with its own result. Returns the first status that is
 * not OK. */
enum hf_status doc_update_many(struct doc *doc, struct doc_op *const *ops, size_t count);

/* Applies one operation to each of several documents of one store, in one step: all are written, or
 * none. The documents are different, at most TOGETHER_MAX, and in an order that all callers agree
 * on, so that two such calls never wait for each other. There is one attempt:
 *
 *   OK           all are done
 *   UNSURE       all may be done, or none
 *   UNSUPPORTED  the store cannot do this; nothing was changed
 *   NOT_FOUND    a document must be prepared, or is missing and its type has `prepare`: update it
 *                by itself first
 *   TIMEOUT      a document was busy until the deadline of the first operation
 *   others       the refusal of one operation, whose `answer` is then DOC_KNOWN, or the failure of
 *                the store; nothing was changed */
enum hf_status doc_update_together(struct doc *const *docs, struct doc_op *const *ops,
                                   size_t count, struct hf_error *error);

/* The operations on one of several documents. */
struct doc_part {
    struct doc *doc;
    struct doc_op **ops;
    size_t count; /* 1 to DOC_PART_OPS_MAX */
};
#define DOC_PART_OPS_MAX 256

/* Applies operations to 1 to EACH_MAX different documents of one store. Each document is changed by
 * itself, and each operation has its own result, but all are written in as few steps of the store
 * as it can (store_change_each). There is one attempt for each document. An operation without an
 * answer afterwards (DOC_UNANSWERED) has changed nothing or, if its doubt is DOC_DOUBT_OPEN, may
 * have: pass it to doc_update_many. On a store without a lock of its own, no operation gets an
 * answer. */
void doc_update_each(const struct doc_part *parts, size_t count);

/* Passes the last known body to `look`, without a request. Returns false if none is known, or if an
 * attempt is in progress. Another client may have changed the document. `look` must be quick, and
 * must not use the document. */
bool doc_peek(struct doc *doc, void (*look)(void *argument, const void *body), void *argument);

/* The same for a body that was known to be current at most this long ago. */
bool doc_recall(struct doc *doc, struct span age_max,
                void (*look)(void *argument, const void *body, const struct evidence *evidence),
                void *argument);

/* Passes the current body to `look`. One conditional get, without retries, loads the body unless
 * the cached one is still current. NOT_FOUND if there is no object. `look` must not use the
 * document. */
enum hf_status doc_look(struct doc *doc, struct mono_time deadline,
                        void (*look)(void *argument, const void *body,
                                     const struct evidence *evidence),
                        void *argument, struct hf_error *error);

/* The attempt with this nonce; the first attempt if no remembered attempt has it. */
const struct doc_attempt *doc_attempt_of(const struct doc_op *op, struct view nonce);

#endif
