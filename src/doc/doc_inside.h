/* doc_inside.h: the inside of a document, for the files of this folder: doc.c loads, applies and
 * writes; turns.c says who does that when. */
#ifndef DOC_DOC_INSIDE_H
#define DOC_DOC_INSIDE_H

#include "doc/doc.h"

/* Operations that one put may carry. */
#define BATCH_OPS_MAX 256

struct doc {
    struct store *store;
    struct doc_clock *clock;
    const struct doc_type *type;
    void *context;
    void (*seen)(void *argument, const void *body, const struct evidence *evidence);
    void *seen_argument;
    struct view key;
    struct {
        struct env_mutex mutex; /* guards what stands beside it, and the state of queued ops */
        struct env_cond idle;   /* for those who look; operations wait on their callers' own */
        struct doc_op *first, *last;
        bool busy; /* somebody makes an attempt, and owns the rest of the document */
        struct hf_error trouble; /* why the last attempt is to be made again; OK: it is not */
    } shared;

    void *body;       /* as we know it, or NULL */
    struct etag etag; /* of the body; empty: the object does not exist yet */
    bool stale;       /* the body is kept for its sightings only */
    bool unreadable;  /* the object, when it was last loaded */
    bool doubted;   /* nothing may be told of the body before it was compared with the store */
    bool prepared;  /* it can be used */
    bool unwritten; /* preparing it has changed it */
    unsigned failures_in_row;
    bool conflicted; /* the last failure was a conflict */
    struct span round_trip;
    struct buffer text;
    size_t refused_size; /* not 0: the store does not change one of this size in a step */
};

/* The operations of one attempt. */
struct batch {
    struct doc_op *ops[BATCH_OPS_MAX];
    size_t count;
};

/* Both are for the one who is busy.
 *
 * Applies a batch once. Operations that are not finished afterwards are to be tried again. */
void doc_try(struct doc *doc, struct batch *batch);

/* Reads the object, unless it still is what we have. */
enum hf_status doc_load(struct doc *doc, struct mono_time deadline, struct hf_error *error);

#endif
