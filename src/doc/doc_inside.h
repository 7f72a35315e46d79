/* SPDX-License-Identifier: Apache-2.0 */
/* doc_inside.h: the private structs of a document. doc.c loads, applies and writes; turns.c decides
 * which task does this, and when. */
#ifndef DOC_DOC_INSIDE_H
#define DOC_DOC_INSIDE_H

#include "doc/crowd.h"
#include "doc/doc.h"

/* The maximum number of operations in one put. */
#define BATCH_OPS_MAX DOC_PART_OPS_MAX

struct doc {
    struct store *store;
    struct doc_clock *clock;
    const struct doc_type *type;
    void *context;
    void (*seen)(void *argument, const void *body, const struct evidence *evidence);
    void *seen_argument;
    struct view key;
    struct {
        struct env_mutex mutex; /* guards this struct, and the state of queued operations */
        struct env_cond idle;   /* for doc_look; operations wait on their callers' conditions */
        struct doc_op *first, *last;
        bool busy; /* a task is making an attempt, and owns the rest of the document */
        struct hf_error trouble; /* why the last attempt is being repeated; OK: it is not */
    } shared;

    void *body;               /* the last known body, or NULL */
    struct mono_time current; /* when the body was last known to be the one in the store */
    struct etag etag;         /* of the body; empty: the object does not exist yet */
    bool stale;               /* the body is kept for its sightings only */
    bool unreadable;          /* the object could not be decoded when it was last loaded */
    bool doubted;             /* compare the body with the store before publishing a result */
    bool prepared;            /* the body is ready for operations */
    struct mono_time prepare_by; /* it must be, in this attempt */
    bool unwritten;              /* `prepare` has changed the body: it must be written */
    unsigned failures_in_row;
    struct mono_time failing; /* since the first of these failures */
    bool conflicted;          /* the last failure was a conflict */
    bool refused;             /* the last put was, because of its condition on this ETag: */
    struct etag refused_etag; /* empty: that the object is absent */
    unsigned in_vain;         /* such puts in a row whose condition held, by the next load */
    bool hurried;             /* the attempt was too urgent for the whole pause */
    bool paid; /* the next attempt has taken a token from the budget of the store */
    struct crowd crowd;
    struct span round_trip;
    struct buffer text;
    size_t refused_size; /* not 0: the store refused to change this size in one step */
};

/* The operations of one attempt. */
struct batch {
    struct doc_op *ops[BATCH_OPS_MAX];
    size_t count;
};

/* One attempt: its nonce and its t0, and whether its result must be written. */
struct attempt {
    struct evidence evidence;
    char nonce[NONCE_SIZE + 1];
    bool any_write;
};

/* Whether conflicts show a fault of the store, and no other clients: again and again, the object is
 * still the one that the put required. */
bool doc_conflicts_in_vain(const struct doc *doc);

/* ---- Parts of an attempt (doc.c) ------------------------------------------------------- */

void doc_begin_attempt(struct doc *doc, struct attempt *attempt);
void doc_apply_batch(struct doc *doc, struct batch *batch, struct attempt *attempt);

/* The time limit of the next request for a batch. */
struct mono_time batch_deadline(struct doc *doc, const struct batch *batch);
bool batch_is_quiet(const struct batch *batch);

void doc_set_body(struct doc *doc, void *body, const struct etag *etag);
enum hf_status doc_prepare_body(struct doc *doc, struct mono_time deadline,
                                struct hf_error *error);
void doc_note_round_trip(struct doc *doc, struct mono_time sent);

/* Report the body to the observer: after it was seen in the store, or was written. */
void doc_report_loaded(struct doc *doc);
void doc_report_written(struct doc *doc, const struct evidence *evidence);

/* Publish the results of an attempt, or note why it is repeated. */
void doc_after_success(struct doc *doc, struct batch *batch);
void doc_after_failure(struct doc *doc, struct batch *batch, enum hf_status status,
                       const struct hf_error *error);
void doc_after_failed_write(struct doc *doc, struct batch *batch, enum hf_status status,
                            const struct hf_error *error);

/* ---- In one step (step.c) -------------------------------------------------------------- */

enum step_end {
    STEP_DONE,
    STEP_ABSENT,    /* the object does not exist */
    STEP_TOO_MUCH,  /* use a get and a put instead */
    STEP_TOO_LARGE, /* the same, because of the size of the object */
};
enum step_end doc_try_step(struct doc *doc, struct batch *batch);

/* ---- Turns (turns.c) ------------------------------------------------------------------- */

/* Waits until no task is busy, and becomes busy without leading. TIMEOUT at the deadline. */
enum hf_status doc_take_turn(struct doc *doc, struct mono_time deadline,
                             struct hf_error *error);
void doc_leave_turn(struct doc *doc);

/* The same without waiting. False: another task is busy. */
bool doc_try_turn(struct doc *doc);

/* ---- Attempts -------------------------------------------------------------------------- */

/* doc_try and doc_load may be called only by the task that set `busy`.
 *
 * Applies a batch once. Operations that have no result afterwards must be tried again. */
void doc_try(struct doc *doc, struct batch *batch);

/* Reads the object, unless the cached body is still current. */
enum hf_status doc_load(struct doc *doc, struct mono_time deadline, struct hf_error *error);

#endif
