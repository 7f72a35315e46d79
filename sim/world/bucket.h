/* SPDX-License-Identifier: Apache-2.0 */
/* bucket.h: the objects of the simulated store, and its clock. This is the server side only: it
 * knows nothing of nodes, the network or faults. net.h delivers the calls. */
#ifndef SIM_WORLD_BUCKET_H
#define SIM_WORLD_BUCKET_H

#include "sim/world/world.h"
#include "store/store.h"

struct bucket_options {
    bool etag_by_content;     /* equal bytes have equal ETags, as on S3; otherwise always new */
    bool delete_conditional;  /* a delete honours if-match; otherwise it is refused */
    bool missing_is_conflict; /* if-match on a missing object: CONFLICT, not NOT_FOUND */
    bool ignore_conditions;   /* accepts conditions but ignores them; checkers must notice */
    bool steps;    /* has its own lock: an object can be read and written in one step */
    bool sessions; /* all nodes are on its machine, and can see which are alive */
    enum store_clock clock; /* DATE: replies have dates; BOOT: it is on the nodes' machine */
};

#define BUCKET_OPTIONS \
    ((struct bucket_options){ .delete_conditional = true, .clock = STORE_CLOCK_DATE })

struct bucket;

struct bucket *bucket_new(struct world *world, const struct bucket_options *options);
void bucket_free(struct bucket *bucket);

struct store_traits bucket_traits(const struct bucket *bucket);

/* Each performs one call at the current true time and fills in its results, except the stamp. */
void bucket_get(struct bucket *bucket, struct get_call *call);
void bucket_put(struct bucket *bucket, struct put_call *call);

/* Puts several objects at the same instant. Their conditions hold, as the caller knows. */
void bucket_put_together(struct bucket *bucket, struct put_call *call, struct put_call *others,
                         size_t count);
void bucket_delete(struct bucket *bucket, struct delete_call *call);

/* call->entries must have room for call->max. */
void bucket_list(struct bucket *bucket, struct list_call *call);

/* ---- The store's clock --------------------------------------------------------------- */

/* The store's current date, in whole seconds, at a front end whose clock is off by `skew`. */
struct wall_time bucket_date(const struct bucket *bucket, struct span skew);

/* Steps the store's clock, at all front ends. */
void bucket_step_clock(struct bucket *bucket, struct span by);

/* ---- For checkers ---------------------------------------------------------------------- */

/* The body of an object, valid until the next change; data is NULL if the object does not
 * exist. */
struct view bucket_peek(const struct bucket *bucket, struct view key);

/* The ETag of an object; empty if the object does not exist. */
struct etag bucket_etag(const struct bucket *bucket, struct view key);

bool bucket_steps(const struct bucket *bucket);
bool bucket_has_sessions(const struct bucket *bucket);

/* Passed to each watch for every write that takes effect, in that order. */
struct bucket_change {
    struct view key;
    struct view body; /* data is NULL: deleted */
    struct etag etag;
    const struct condition *condition;
    bool more; /* another object changes at the same instant, and is told next */
};

/* Whether the condition of a write ensured that it replaced only the version that its writer had
 * seen. `last` is the previous version (empty at first), and is set to the new one. */
bool bucket_change_in_order(const struct bucket_change *change, struct etag *last);

struct bucket_watch {
    void (*changed)(void *argument, const struct bucket_change *change);
    void *argument;
    struct bucket_watch *next;
};
void bucket_add_watch(struct bucket *bucket, struct bucket_watch *watch);

#endif
