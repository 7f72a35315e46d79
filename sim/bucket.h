/* bucket.h: the objects of the simulated store, and its clock. What stands here is at the
 * store's side: it knows of no node, no network and no fault; net.h brings the calls. */
#ifndef SIM_BUCKET_H
#define SIM_BUCKET_H

#include "sim/world.h"
#include "store/store.h"

struct bucket_options {
    bool etag_by_content; /* equal bytes, equal ETag, as on S3; else each write has a new one */
    bool delete_conditional; /* a delete obeys if-match; else such a delete is refused */
    bool
        missing_is_conflict; /* a write if-match of a missing object: CONFLICT, not NOT_FOUND */
    bool ignore_conditions;  /* accepts conditions and does not obey them: judges must notice */
    bool steps; /* has a lock of its own: an object can be read and written in one step */
    enum store_clock clock; /* DATE: replies are stamped; BOOT: a store on the nodes' machine */
};

#define BUCKET_OPTIONS \
    ((struct bucket_options){ .delete_conditional = true, .clock = STORE_CLOCK_DATE })

struct bucket;

struct bucket *bucket_new(struct world *world, const struct bucket_options *options);
void bucket_free(struct bucket *bucket);

struct store_traits bucket_traits(const struct bucket *bucket);

/* Each does one call at this moment of true time and fills in what came of it, except the
 * stamp. */
void bucket_get(struct bucket *bucket, struct get_call *call);
void bucket_put(struct bucket *bucket, struct put_call *call);
void bucket_delete(struct bucket *bucket, struct delete_call *call);

/* call->entries must have room for call->max. */
void bucket_list(struct bucket *bucket, struct list_call *call);

/* ---- Its clock ----------------------------------------------------------------------- */

/* The store's date now, whole seconds, at a front end whose clock is off by `skew`. */
struct wall_time bucket_date(const struct bucket *bucket, struct span skew);

/* The store's clock jumps, at all front ends. */
void bucket_step_clock(struct bucket *bucket, struct span by);

/* ---- For judges ---------------------------------------------------------------------- */

/* The body of an object, until the next change; data is NULL when it is not there. */
struct view bucket_peek(const struct bucket *bucket, struct view key);

/* Its ETag; empty when it is not there. */
struct etag bucket_etag(const struct bucket *bucket, struct view key);

bool bucket_steps(const struct bucket *bucket);

/* Told of each write that took effect, in the order in which they did. */
struct bucket_change {
    struct view key;
    struct view body; /* data is NULL: deleted */
    struct etag etag;
    const struct condition *condition;
};

/* Whether a write went only over the version that its writer has seen, by its condition; `last` is
 * the version before, empty at first, and becomes this one. */
bool bucket_change_in_order(const struct bucket_change *change, struct etag *last);

struct bucket_watch {
    void (*changed)(void *argument, const struct bucket_change *change);
    void *argument;
    struct bucket_watch *next;
};
void bucket_add_watch(struct bucket *bucket, struct bucket_watch *watch);

#endif
