/* fenced.h: fenced objects inside the library: what a client keeps of them, and the calls of
 * holdfast.h with views and buffers. */
#ifndef LOCK_FENCED_H
#define LOCK_FENCED_H

#include "base/map.h"
#include "doc/doc.h"
#include "lock/fence.h"

struct hf_client;
struct hf_lock;
struct warm_fence;

/* The fences that a client writes, by key. Those that nobody writes just now are kept warm, a
 * bounded number of them, so that the next write is one put. */
struct fence_shelf {
    struct env_mutex mutex; /* guards what stands beside it */
    struct map fences;
    struct warm_fence *idle; /* the longest unused first */
    size_t idle_count;
};

void fence_shelf_init(struct fence_shelf *shelf, struct env *env);

/* No write may be under way. */
void fence_shelf_release(struct fence_shelf *shelf);

/* As hf_fenced_put. */
enum hf_status fenced_write(struct hf_lock *lock, struct view key, struct view bytes,
                            struct hf_error *error);

/* As hf_fenced_get: appends to the body, whose bound is the most that is read. */
enum hf_status fenced_read(struct hf_client *client, struct view key, struct buffer *body,
                           uint64_t *ret_token, struct hf_error *error);

#endif
