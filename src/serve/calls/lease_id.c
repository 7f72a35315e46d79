/* SPDX-License-Identifier: Apache-2.0 */
/* lease_id.c: computes the ids of leases, and finds the lease of an id. It guards against guessing:
 * ids are compared in constant time, and the cache is looked up by a keyed hash of the id, so that
 * the time of an answer tells nothing about ids that exist. */
#include "serve/calls/lease_id.h"

#include "base/check.h"
#include "base/hash.h"
#include "base/hmac.h"
#include "base/parse.h"
#include "base/rule.h"
#include "base/siphash.h"
#include "base/spare.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_KEY_BYTES 8

#define SLOTS_MIN 64

#define SPARE_BLOCKS_MAX 64

/* There may be 100,000 of them, so that each byte counts. */
struct cached_lease {
    struct cached_lease *next; /* in the order in which they were added */
    unsigned char key[CACHE_KEY_BYTES];
    unsigned char check[CACHE_KEY_BYTES]; /* of the id and its scope */
    bool dropped;                         /* no longer in the table */
    char lease[];
};

struct lease_ids {
    struct hash_hmac_key secret;
    unsigned char cache_secret[SIPHASH_KEY_BYTES];
    size_t cached_max;
    struct env_mutex mutex; /* guards the members below */
    /* A hash table: an entry is in the first free slot from that of its key on. At most three
     * quarters of the slots are used. */
    struct cached_lease **slots;
    size_t slot_count, used;
    struct cached_lease *first, *last;
    size_t count;        /* in the list, those that were dropped included */
    struct spare blocks; /* not guarded: only the thread that runs the loop uses it */
};

struct lease_ids *lease_ids_new(struct env *env, const unsigned char secret[LEASE_SECRET_BYTES],
                                size_t cached_max)
{
    struct lease_ids *ids = calloc(1, sizeof *ids);
    if (!ids)
        return NULL;
    hash_hmac_key_init(&ids->secret, (struct view){ (const char *)secret, LEASE_SECRET_BYTES });
    unsigned char digest[SHA256_BYTES];
    hash_hmac_with(&ids->secret, VIEW("the cache of leases"), digest);
    memcpy(ids->cache_secret, digest, sizeof ids->cache_secret);
    ids->cached_max = cached_max;
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
    free(ids->slots);
    spare_release(&ids->blocks);
    env_mutex_release(&ids->mutex);
    memset(&ids->secret, 0, sizeof ids->secret);
    memset(&ids->cache_secret, 0, sizeof ids->cache_secret);
    free(ids);
}

void *lease_ids_take_block(struct lease_ids *ids, size_t size)
{
    return spare_take(&ids->blocks, size);
}

void lease_ids_give_block(struct lease_ids *ids, void *block)
{
    spare_give(&ids->blocks, block, SPARE_BLOCKS_MAX);
}

/* ---- Ids ----------------------------------------------------------------------------- */

static void compute_id(const struct lease_ids *ids, const char *scope, const char *lease,
                       char ret_id[CORE_LEASE_ID_SIZE + 1])
{
    unsigned char digest[SHA256_BYTES];
    char text[HF_SCOPE_TEXT_MAX + 1 + HF_LEASE_TEXT_MAX];
    size_t scope_size = strlen(scope), lease_size = strlen(lease);
    check(scope_size + 1 + lease_size < sizeof text);
    memcpy(text, scope, scope_size);
    text[scope_size] = ' '; /* neither contains a space */
    memcpy(text + scope_size + 1, lease, lease_size);
    hash_hmac_with(&ids->secret, (struct view){ text, scope_size + 1 + lease_size }, digest);
    hex_encode(digest, CORE_LEASE_ID_SIZE / 2, ret_id);
}

static bool same_id(const char *a, const char *b)
{
    return strlen(b) == CORE_LEASE_ID_SIZE && hash_is_same_secret(a, b, CORE_LEASE_ID_SIZE);
}

/* ---- The cache ----------------------------------------------------------------------- */

/* The hash of an id tells an attacker who measures the lookup nothing about the id. */
static void cache_key(const struct lease_ids *ids, const char *id,
                      unsigned char ret_key[CACHE_KEY_BYTES])
{
    uint64_t hash = hash_siphash(ids->cache_secret, view_of(id));
    memcpy(ret_key, &hash, CACHE_KEY_BYTES);
}

/* A second hash of the id, with the scope to which it belongs. With the key, these are 128 bits
 * that nobody can predict without the secret. So a lease with both has this id and this scope, as
 * surely as if the id were computed again, which takes far longer. */
static void cache_check(const struct lease_ids *ids, const char *scope, const char *id,
                        unsigned char ret_check[CACHE_KEY_BYTES])
{
    char text[CORE_LEASE_ID_SIZE + HF_SCOPE_TEXT_MAX];
    size_t id_size = strlen(id), scope_size = strlen(scope);
    check(id_size + scope_size <= sizeof text);
    memcpy(text, id, id_size);
    memcpy(text + id_size, scope, scope_size);
    uint64_t hash =
        hash_siphash(ids->cache_secret, (struct view){ text, id_size + scope_size });
    memcpy(ret_check, &hash, CACHE_KEY_BYTES);
}

/* The slot where a search for the key begins. The key is a hash already. */
static size_t home_slot(const struct lease_ids *ids, const unsigned char *key)
{
    uint64_t hash;
    memcpy(&hash, key, sizeof hash);
    return (size_t)hash & (ids->slot_count - 1);
}

/* The slot that has the key, or the free one where it would be. */
static size_t find_slot_locked(const struct lease_ids *ids, const unsigned char *key)
{
    size_t at = home_slot(ids, key);
    while (ids->slots[at] && memcmp(ids->slots[at]->key, key, CACHE_KEY_BYTES) != 0)
        at = (at + 1) & (ids->slot_count - 1);
    return at;
}

static struct cached_lease *find_cached_locked(const struct lease_ids *ids,
                                               const unsigned char *key)
{
    return ids->used > 0 ? ids->slots[find_slot_locked(ids, key)] : NULL;
}

/* Entries behind the one that leaves move up, unless they would then be before their home. */
static void empty_id_slot_locked(struct lease_ids *ids, size_t free_slot)
{
    size_t mask = ids->slot_count - 1;
    for (size_t at = (free_slot + 1) & mask; ids->slots[at]; at = (at + 1) & mask) {
        size_t home = home_slot(ids, ids->slots[at]->key);
        if (((at - home) & mask) < ((at - free_slot) & mask))
            continue;
        ids->slots[free_slot] = ids->slots[at];
        free_slot = at;
    }
    ids->slots[free_slot] = NULL;
    ids->used--;
}

/* False: without memory, there is no room. */
static bool make_room_for_id_locked(struct lease_ids *ids)
{
    if ((ids->used + 1) * 4 <= ids->slot_count * 3)
        return true;
    size_t old_count = ids->slot_count;
    size_t count = old_count > 0 ? 2 * old_count : SLOTS_MIN;
    struct cached_lease **old = ids->slots, **slots = calloc(count, sizeof(*slots));
    if (!slots)
        return false;
    ids->slots = slots;
    ids->slot_count = count;
    for (size_t i = 0; i < old_count; i++)
        if (old[i])
            slots[find_slot_locked(ids, old[i]->key)] = old[i];
    free(old);
    return true;
}

static bool add_cached_locked(struct lease_ids *ids, struct cached_lease *entry)
{
    if (ids->cached_max == 0 || find_cached_locked(ids, entry->key) ||
        !make_room_for_id_locked(ids))
        return false;
    ids->slots[find_slot_locked(ids, entry->key)] = entry;
    ids->used++;
    *(ids->last ? &ids->last->next : &ids->first) = entry;
    ids->last = entry;
    ids->count++;
    return true;
}

static void drop_first_locked(struct lease_ids *ids)
{
    struct cached_lease *first = ids->first;
    if (!first->dropped)
        empty_id_slot_locked(ids, find_slot_locked(ids, first->key));
    ids->first = first->next;
    if (!ids->first)
        ids->last = NULL;
    ids->count--;
    free(first);
}

/* Without memory, the lease is not cached. */
static void cache_add(struct lease_ids *ids, const char *scope, const char *id,
                      const char *lease)
{
    size_t size = strlen(lease) + 1;
    check(size <= HF_LEASE_TEXT_MAX);
    struct cached_lease *entry = malloc(sizeof *entry + size);
    if (!entry)
        return;
    *entry = (struct cached_lease){ .next = NULL };
    cache_key(ids, id, entry->key);
    cache_check(ids, scope, id, entry->check);
    memcpy(entry->lease, lease, size);
    env_mutex_lock(&ids->mutex);
    bool added = add_cached_locked(ids, entry);
    while (ids->count > ids->cached_max)
        drop_first_locked(ids);
    env_mutex_unlock(&ids->mutex);
    if (!added)
        free(entry);
}

/* *ret_belongs: the id belongs to this scope. */
static bool cache_get(struct lease_ids *ids, const char *scope, const char *id,
                      char ret_lease[HF_LEASE_TEXT_MAX], bool *ret_belongs)
{
    unsigned char key[CACHE_KEY_BYTES], wanted[CACHE_KEY_BYTES];
    if (strlen(id) != CORE_LEASE_ID_SIZE || strlen(scope) >= HF_SCOPE_TEXT_MAX)
        return false; /* no lease has these */
    cache_key(ids, id, key);
    cache_check(ids, scope, id, wanted);
    env_mutex_lock(&ids->mutex);
    const struct cached_lease *entry = find_cached_locked(ids, key);
    if (entry) {
        memcpy(ret_lease, entry->lease, strlen(entry->lease) + 1);
        *ret_belongs = hash_is_same_secret(entry->check, wanted, CACHE_KEY_BYTES);
    }
    env_mutex_unlock(&ids->mutex);
    return entry != NULL;
}

void lease_id_forget(struct lease_ids *ids, const char *id)
{
    unsigned char key[CACHE_KEY_BYTES];
    cache_key(ids, id, key);
    env_mutex_lock(&ids->mutex);
    struct cached_lease *entry = find_cached_locked(ids, key);
    if (entry) {
        empty_id_slot_locked(ids, find_slot_locked(ids, key));
        entry->dropped = true;
    }
    while (ids->first && ids->first->dropped)
        drop_first_locked(ids);
    env_mutex_unlock(&ids->mutex);
}

void lease_id_of(struct lease_ids *ids, const char *scope, const char *lease,
                 char ret_id[CORE_LEASE_ID_SIZE + 1])
{
    compute_id(ids, scope, lease, ret_id);
    cache_add(ids, scope, ret_id, lease);
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
    bool belongs;
    if (cache_get(ids, scope, id, ret_lease, &belongs))
        return belongs
                   ? error_clear(error)
                   : error_set(error, HF_NOT_FOUND, "this is the id of another lock's lease");
    if (!client)
        return error_set(error, HF_UNSUPPORTED, "the lease is not in the cache");
    enum hf_status status =
        hf_locks_show(client, scope, NULL, compare_lease, NULL, &search, error);
    if (status != HF_OK)
        return status;
    if (!search.found)
        return error_set(error, HF_NOT_FOUND, "there is no lease with this id");
    cache_add(ids, scope, id, ret_lease);
    return error_clear(error);
}
