/* SPDX-License-Identifier: Apache-2.0 */
/* serve_txn_checker.c: checks the transactions of servers. What is in the store, and what tellers
 * are told, is checked by bank_checker.h: no transaction is half applied, the decision that a
 * client was told stands, and no change is made twice. Besides, a run fails if:
 *
 *   - a transaction is rolled back although nobody has asked for that, and its client relies on the
 *     leases of all its keys;
 *   - a server forgets a result: a retry is refused although the request was answered OK shortly
 *     before, at the same server;
 *   - when nothing of the faults is left, a key is still held for a transaction two seconds after a
 *     server has answered what was decided. (If somebody else rolls it back, because a lease has
 *     ended, its other keys are left to the next clients.) */
#include "base/check.h"
#include "base/layout.h"
#include "sim/checkers/bank_inside.h"
#include "sim/workloads/serve_work.h"

#include <inttypes.h>
#include <string.h>

#define TXNS_MAX  4096
#define FREED_MAX SPAN_S(2)

struct serve_txn *serve_txn_find(struct serve_work *work, const char *id)
{
    for (size_t i = work->txn_count; i > 0; i--)
        if (strcmp(work->txns[i - 1].id, id) == 0)
            return &work->txns[i - 1];
    return NULL;
}

/* Whether its client relies on all keys that it was told of, and has asked for no other. */
static bool is_relied_on(const struct serve_txn *txn, int64_t now)
{
    const struct serve_client *client = txn->client;
    if (!client || txn->doubtful || strcmp(client->deal.txn, txn->id) != 0 ||
        client->state != CLIENT_DEALING)
        return false;
    if (client->current && client->current->kind == EXCHANGE_ACQUIRE)
        return false;
    for (size_t i = 0; i < SERVE_MONEY_KEYS; i++)
        if (txn->until_us[i] > 0 && txn->until_us[i] <= now)
            return false;
    return true;
}

void serve_txn_record_changed(struct serve_work *work, const struct bucket_change *change)
{
    struct banked_record_text text;
    char id[HF_TXN_ID_SIZE + 1] = "";
    if (!view_starts_with(change->key, VIEW(LAYOUT_TXN_FOLDER)) || !change->body.data ||
        banked_record_read(change->body, &text) || text.id.size != HF_TXN_ID_SIZE)
        return;
    memcpy(id, text.id.data, text.id.size);
    int64_t now = serve_now(work);
    struct serve_txn *txn = serve_txn_find(work, id);
    if (!txn) {
        check(work->txn_count < TXNS_MAX);
        txn = &work->txns[work->txn_count++];
        memcpy(txn->id, id, sizeof id);
    }
    if (text.record == RECORD_IS_PENDING || txn->decided_us > 0)
        return;
    txn->decided_us = now;
    if (text.record == RECORD_ROLLS_BACK && !txn->asked_rollback && is_relied_on(txn, now))
        world_fail(work->run->world,
                   "%s is rolled back, and its client relies on it and has not asked for it",
                   txn->id);
}

void serve_txn_answers(struct serve_work *work, const struct exchange *exchange)
{
    struct serve_txn *txn = exchange->txn[0] ? serve_txn_find(work, exchange->txn) : NULL;
    bool ends = exchange->kind == EXCHANGE_DECIDE || exchange->kind == EXCHANGE_RELEASE;
    bool known = exchange->result.status == HF_OK || exchange->result.status == HF_MISMATCH;
    if (txn && ends && known && txn->answered_us == 0)
        txn->answered_us = serve_now(work);
}

void serve_txn_look(struct serve_work *work)
{
    int64_t now = serve_now(work);
    for (size_t key = SERVE_LEASE_KEYS; key < SERVE_KEYS; key++) {
        char name[64];
        struct banked_state state;
        snprintf(name, sizeof name, "default/meta/%s.json", serve_keys[key]);
        struct view body = bucket_peek(net_bucket(work->run->net), view_of(name));
        if (!body.data || banked_state_read(body, &state) || !state.stage.there ||
            !state.stage.txn[0])
            continue;
        const struct serve_txn *txn = serve_txn_find(work, state.stage.txn);
        if (txn && txn->answered_us >= work->run->calm_us + SERVE_SETTLE_US &&
            now - txn->answered_us > FREED_MAX.us)
            world_fail(work->run->world, "%s is held for %s, whose client was told its end",
                       serve_keys[key], txn->id);
    }
}
