/* SPDX-License-Identifier: Apache-2.0 */
/* txn_kit.c: short calls for tests of transactions, which fail the test on any error. */
#include "txn_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

struct hf_txn *begin(struct peer *peer)
{
    struct hf_txn *txn;
    MUST(hf_txn_begin(peer->client, NULL, &txn, &error));
    return txn;
}

struct hf_txn *join(struct peer *peer, const char *id)
{
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct hf_txn *txn;
    options.id = id;
    MUST(hf_txn_begin(peer->client, &options, &txn, &error));
    return txn;
}

void take_two(struct hf_txn *txn, const char *first, const char *second, int64_t ttl_ms,
              struct hf_key *ret_keys[2])
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.ttl_ms = ttl_ms;
    MUST(hf_txn_acquire(txn, (const char *[]){ first, second }, 2, &options, 0, ret_keys,
                        &error));
}

struct hf_key *take_one(struct hf_txn *txn, const char *name)
{
    struct hf_key *key;
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    return key;
}

struct transfer transfer_staged(struct peer *peer, const char *a, const char *b)
{
    struct transfer transfer = { .txn = begin(peer) };
    snprintf(transfer.id, sizeof transfer.id, "%s", hf_txn_id(transfer.txn));
    take_two(transfer.txn, "a", "b", 60000, transfer.keys);
    update(transfer.keys[0], a);
    update(transfer.keys[1], b);
    for (size_t i = 0; i < 2; i++)
        MUST(hf_lock_text(hf_key_lock(transfer.keys[i]), transfer.leases[i], &error));
    return transfer;
}

void transfer_dies(struct transfer *transfer, struct peer *peer, struct peer *other)
{
    way_die(&peer->way, 0, REFUSE(HF_DENIED));
    hf_txn_free(transfer->txn);
    for (size_t i = 0; i < 2; i++)
        MUST(hf_break(other->client, transfer->leases[i], "test", "it is dead", &error));
}

void commit(struct hf_txn *txn)
{
    enum hf_decision decision = HF_ROLLBACK;
    MUST(hf_txn_commit(txn, &decision, &error));
    ASSERT(decision == HF_COMMIT);
}

void roll_back(struct hf_txn *txn)
{
    enum hf_decision decision = HF_COMMIT;
    MUST(hf_txn_rollback(txn, &decision, &error));
    ASSERT(decision == HF_ROLLBACK);
}

void both_read(struct peer *peer, const char *a, const char *b)
{
    reads(peer, "a", a);
    reads(peer, "b", b);
}

enum txn_state recorded(struct peer *peer, const char *id)
{
    struct txn_record record;
    enum hf_status status = txn_look(peer->client, view_of(id), &record, &error);
    if (status == HF_NOT_FOUND)
        return TXN_ABSENT;
    must(status, &error, "txn_look", __LINE__);
    enum txn_state state = record.state;
    record_release(&record);
    return state;
}

bool record_says(struct world *world, const char *id, const char *piece)
{
    char key[KEY_BYTES_MAX + 1];
    record_key(view_of(id), key);
    return world_times(world, key, piece) > 0;
}

bool is_staged(struct world *world, const char *name)
{
    char key[KEY_BYTES_MAX + 1];
    MUST(key_document(VIEW("default"), view_of(name), key, &error));
    return world_times(world, key, "\"stage\":") > 0;
}

size_t objects_below(struct world *world, const char *prefix)
{
    struct list_call list = { .prefix = view_of(prefix) };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    size_t count = list.count;
    list_release(&list);
    return count;
}

void set_late_bound(struct peer *peer, struct span span)
{
    peer->client->space.settings.late_bound = span;
    peer->client->space.settings.skew_tolerance = SPAN_US(0);
}

enum purge_result purge(struct peer *peer, const char *id)
{
    enum purge_result result = PURGE_GONE;
    MUST(txn_purge(peer->client, view_of(id), &result, &error));
    return result;
}

void make_remote(struct peer *peer)
{
    client_store(peer->client)->traits.clock = STORE_CLOCK_NONE;
}

static bool is_settled(void *argument)
{
    struct background *background = &((struct hf_client *)argument)->background;
    env_mutex_lock(&background->mutex);
    bool idle = background->running == 0 && background->waiting == 0;
    env_mutex_unlock(&background->mutex);
    return idle;
}

void await_settled(struct peer *peer)
{
    ASSERT(comes_true(is_settled, peer->client, 60000));
}
