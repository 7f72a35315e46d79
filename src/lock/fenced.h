/* SPDX-License-Identifier: Apache-2.0 */
/* fenced.h: fenced objects inside the library: a client's cache of fences, and the public
 * functions in a form that uses views and buffers. */
#ifndef LOCK_FENCED_H
#define LOCK_FENCED_H

#include "base/map.h"
#include "doc/doc.h"
#include "lock/fence.h"

struct hf_client;
struct hf_lock;
struct warm_fence;

/* The fences that a client writes, by key. A bounded number of unused fences is cached, so that
 * the next write to the same object takes only one put. */
struct fence_cache {
    struct env_mutex mutex; /* guards the members below */
    struct map fences;
    struct warm_fence *idle; /* least recently used first */
    size_t idle_count;
};

void fence_cache_init(struct fence_cache *cache, struct env *env);

/* No write may be in progress. */
void fence_cache_release(struct fence_cache *cache);

/* Whether `name` is the name of a body of the object `key`. A fence that was copied to another key
 * names a body of the original object, which must be neither read nor deleted through the copy. */
bool fenced_is_body_of(struct view key, struct view name);
enum hf_status fenced_strange_body(struct hf_error *error);

/* Like hf_fenced_put. */
enum hf_status fenced_write(struct hf_lock *lock, struct view key, struct view bytes,
                            struct hf_error *error);

/* Like hf_fenced_get. Appends to `body`, up to the buffer's limit. */
enum hf_status fenced_read(struct hf_client *client, struct view key, struct buffer *body,
                           uint64_t *ret_token, struct hf_error *error);

/* The current fence. Also returns NOT_FOUND if the fence says that there is no object. */
enum hf_status fenced_read_fence(struct hf_client *client, struct view key, struct fence *fence,
                                 struct hf_error *error);

#endif
