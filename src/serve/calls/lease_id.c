/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.c: computes the ids of leases, and finds the lease of an id. It guards against guessing:
 * ids are compared in constant time, and the cache is looked up by a keyed hash of the id, so that
 * the time of an answer tells nothing about ids that exist. */
#include "serve/calls/lease_id.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/parse.h"
#include "base/rule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_KEY_BYTES 16

struct cached_lease {
    struct cached_lease *next; /* in the order in which they were added */
    bool dropped;              /* no longer in the map */
    char key[CACHE_KEY_BYTES];
    char lease[];
};

struct lease_ids {
    unsigned char secret[LEASE_SECRET_BYTES];
    size_t cached_max;
    struct env_mutex mutex; /* guards the members below */
    struct map cache;
    struct cached_lease *first, *last;
    size_t count; /* in the list, those that were dropped included */
};

struct lease_ids *lease_ids_new(struct env *env, const unsigned char secret[LEASE_SECRET_BYTES],
                                size_t cached_max)
{
    struct lease_ids *ids = calloc(1, sizeof *ids);
    if (!ids)
        return NULL;
    memcpy(ids->secret, secret, sizeof ids->secret);
    ids->cached_max = cached_max;
    ids->cache = MAP_INIT;
    env_mutex_init(env, &ids->mutex);
    return ids;
}

void lease_ids_free(struct lease_ids *ids)
{
    if (!ids)
        return;
    while (ids->first) {
        struct cached_lease *next = ids->first->next;
        free(ids->first);
        ids->first = next;
    }
    map_release(&ids->cache);
    env_mutex_release(&ids->mutex);
    memset(ids->secret, 0, sizeof ids->secret);
    free(ids);
}

/* ---- Ids ----------------------------------------------------------------------------- */

static void keyed_hash(const struct lease_ids *ids, struct view text,
                       unsigned char ret_digest[SHA256_BYTES])
{
    struct view secret = { (const char *)ids->secret, sizeof ids->secret };
    hash_hmac_sha256(secret, text, ret_digest);
}

static void compute_id(const struct lease_ids *ids, const char *scope, const char *lease,
                       char ret_id[CORE_LEASE_ID_SIZE + 1])
{
    unsigned char digest[SHA256_BYTES];
    char text[HF_SCOPE_TEXT_MAX + 1 + HF_LEASE_TEXT_MAX];
    int size =
        snprintf(text, sizeof text, "%s %s", scope, lease); /* neither contains a space */
    check(size > 0 && (size_t)size < sizeof text);
    keyed_hash(ids, (struct view){ text, (size_t)size }, digest);
    hex_encode(digest, CORE_LEASE_ID_SIZE / 2, ret_id);
}

static bool same_id(const char *a, const char *b)
{
    unsigned char differs = 0;
    if (strlen(b) != CORE_LEASE_ID_SIZE)
        return false;
    for (size_t i = 0; i < CORE_LEASE_ID_SIZE; i++)
        differs |= (unsigned char)(a[i] ^ b[i]);
    return differs == 0;
}

/* ---- The cache ----------------------------------------------------------------------- */

/* The hash of an id tells an attacker who measures the lookup nothing about the id. */
static void cache_key(const struct lease_ids *ids, const char *id,
                      char ret_key[CACHE_KEY_BYTES])
{
    unsigned char digest[SHA256_BYTES];
    keyed_hash(ids, view_of(id), digest);
    memcpy(ret_key, digest, CACHE_KEY_BYTES);
}

static void drop_first_locked(struct lease_ids *ids)
{
    struct cached_lease *first = ids->first;
    if (!first->dropped)
        check(map_take(&ids->cache, (struct view){ first->key, CACHE_KEY_BYTES }) == first);
    ids->first = first->next;
    if (!ids->first)
        ids->last = NULL;
    ids->count--;
    free(first);
}

/* Without memory, the lease is not cached. */
static void cache_add(struct lease_ids *ids, const char *id, const char *lease)
{
    void *old = NULL;
    size_t size = strlen(lease) + 1;
    struct cached_lease *entry = malloc(sizeof *entry + size);
    if (!entry)
        return;
    *entry = (struct cached_lease){ .next = NULL };
    cache_key(ids, id, entry->key);
    memcpy(entry->lease, lease, size);
    struct view key = { entry->key, CACHE_KEY_BYTES };
    env_mutex_lock(&ids->mutex);
    bool added = ids->cached_max > 0 && !map_get(&ids->cache, key) &&
                 map_put(&ids->cache, key, entry, &old);
    if (added) {
        if (ids->last)
            ids->last->next = entry;
        else
            ids->first = entry;
        ids->last = entry;
        ids->count++;
        while (ids->count > ids->cached_max)
            drop_first_locked(ids);
    }
    env_mutex_unlock(&ids->mutex);
    if (!added)
        free(entry);
}

static bool cache_get(struct lease_ids *ids, const char *id, char ret_lease[HF_LEASE_TEXT_MAX])
{
    char key[CACHE_KEY_BYTES];
    cache_key(ids, id, key);
    env_mutex_lock(&ids->mutex);
    const struct cached_lease *entry =
        map_get(&ids->cache, (struct view){ key, CACHE_KEY_BYTES });
    if (entry)
        snprintf(ret_lease, HF_LEASE_TEXT_MAX, "%s", entry->lease);
    env_mutex_unlock(&ids->mutex);
    return entry != NULL;
}

bool lease_id_is_cached(struct lease_ids *ids, const char *id)
{
    char key[CACHE_KEY_BYTES];
    cache_key(ids, id, key);
    env_mutex_lock(&ids->mutex);
    bool cached = map_get(&ids->cache, (struct view){ key, CACHE_KEY_BYTES }) != NULL;
    env_mutex_unlock(&ids->mutex);
    return cached;
}

void lease_id_forget(struct lease_ids *ids, const char *id)
{
    char key[CACHE_KEY_BYTES];
    cache_key(ids, id, key);
    env_mutex_lock(&ids->mutex);
    struct cached_lease *entry = map_take(&ids->cache, (struct view){ key, CACHE_KEY_BYTES });
    if (entry)
        entry->dropped = true;
    while (ids->first && ids->first->dropped)
        drop_first_locked(ids);
    env_mutex_unlock(&ids->mutex);
}

void lease_id_of(struct lease_ids *ids, const char *scope, const char *lease,
                 char ret_id[CORE_LEASE_ID_SIZE + 1])
{
    compute_id(ids, scope, lease, ret_id);
    cache_add(ids, ret_id, lease);
}

/* ---- Finding ------------------------------------------------------------------------- */

struct search {
    const struct lease_ids *ids;
    const char *scope, *id;
    char *lease;
    bool found;
};

static bool compare_lease(void *argument, const struct hf_lease_info *info)
{
    struct search *search = argument;
    char id[CORE_LEASE_ID_SIZE + 1];
    if (info->lease[0] == '\0' || info->barrier)
        return true;
    compute_id(search->ids, search->scope, info->lease, id);
    if (RULE(LEASE_HAS_ITS_ID) && !same_id(id, search->id))
        return true;
    snprintf(search->lease, HF_LEASE_TEXT_MAX, "%s", info->lease);
    search->found = true;
    return false;
}

enum hf_status lease_id_find(struct lease_ids *ids, struct hf_client *client, const char *scope,
                             const char *id, char ret_lease[HF_LEASE_TEXT_MAX],
                             struct hf_error *error)
{
    struct search search = { ids, scope, id, ret_lease, false };
    char known[CORE_LEASE_ID_SIZE + 1];
    if (cache_get(ids, id, ret_lease)) {
        compute_id(ids, scope, ret_lease, known);
        return same_id(known, id)
                   ? error_clear(error)
                   : error_set(error, HF_NOT_FOUND, "this is the id of another lock's lease");
    }
    enum hf_status status =
        hf_locks_show(client, scope, NULL, compare_lease, NULL, &search, error);
    if (status != HF_OK)
        return status;
    if (!search.found)
        return error_set(error, HF_NOT_FOUND, "there is no lease with this id");
    cache_add(ids, id, ret_lease);
    return error_clear(error);
}
