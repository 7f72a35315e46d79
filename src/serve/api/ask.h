/* SPDX-License-Identifier: Apache-2.0 */
/* ask.h: what a client asks for: the members of a JSON body, the parameters of a query, and
 * headers, checked and in one struct.
 *
 * Each name has one type and one range, whichever route it is sent to. A member or parameter
 * that is not known is ignored, so that a newer client can talk to an older server. One that is
 * known, and is sent twice or has a wrong type, is refused. */
#ifndef SERVE_API_ASK_H
#define SERVE_API_ASK_H

#include "base/arena.h"
#include "base/error.h"
#include "holdfast.h"
#include "serve/http/server.h"

#include <stddef.h>

#define ASK_TEXT_MAX   1024
#define ASK_SCOPES_MAX 64
#define ASK_ROOM       256

/* A text that was not sent is NULL, except that `ns` is "default". It must not move: the arena
 * begins in it. */
struct ask {
    struct arena arena;
    const char *ns, *key, *scope, *mode_name, *owner, *lease_id, *txn_id, *request_id, *reason;
    const char *prefix, *after, *etag, *state, *kinds, *format;
    const char *partition, *chunk, *index, *group, *name, *since, *sort;
    const char *result;       /* of a release: completed or failed */
    struct view record, note; /* the JSON of an object, or of anything; empty: not sent */
    struct view scopes_json;
    const char **scopes; /* of a lock of several scopes; the first one is `scope`, too */
    size_t scope_count;
    int64_t once_per_ms, once_slack_ms;
    uint64_t level, beat_ms;
    int64_t ttl_s, ttl_ms; /* 0: not sent */
    int64_t block_s;       /* -1: does not wait; 0: waits; otherwise for so many seconds */
    int64_t block_ms;      /* > 0: in place of a block_s that waits */
    uint64_t slots, limit; /* 0: not sent */
    uint64_t token, version;
    bool if_not_exists, rollback, is_public, version_sent, force, ended;
    enum hf_mode mode;
    /* Set by the routes that read them, in the arena. */
    struct hf_index_value *values;
    size_t value_count;
    const char **filters;
    size_t filter_count;
    struct txn_wait *txn_waits; /* the last one has no key */
    struct timeline_sight *sight;
    /* The start of the arena: the texts of most requests fit. */
    _Alignas(max_align_t) char room[ASK_ROOM];
};

/* The struct must be released, also after a failure. */
void ask_init(struct ask *ask);
void ask_release(struct ask *ask);

/* Whether a lock of this scope belongs to a namespace. Locks of chunks, pins, shards and snapshots
 * belong to the whole store, whatever the namespace of the request. */
bool scope_has_namespace(struct view scope);

/* Whether the client names such a lock of the whole store. */
bool ask_names_store_lock(const struct ask *ask);

/* INVALID with a sentence for the client, or UNAVAILABLE if memory runs out. */
enum hf_status ask_read_body(struct ask *ask, struct view json, struct hf_error *error);
enum hf_status ask_read_query(struct ask *ask, const struct http_request *request,
                              struct hf_error *error);

#endif
