/* SPDX-License-Identifier: Apache-2.0 */
/* serve_teller.c: the tellers of workload `serve`: clients that move money between keys in
 * transactions, through servers. A teller begins a transaction, acquires its keys one by one, reads
 * them, stages changes, and commits, rolls back or disappears; each request may go to another
 * server. Requests and replies are lost, and are repeated with the same request id at the same
 * server or at another one. After the end, an old request may arrive once more. Some tellers write
 * the balance of one key again, under a lease without a transaction, and repeat that only at the
 * server that knows the request id. */
#include "base/check.h"
#include "base/parse.h"
#include "sim/workloads/serve_work.h"

#include <string.h>

#define AMOUNT_MAX 20
#define WRONG      1000 /* added to a balance that nobody must see */
#define TTL_MS_MIN 3000
#define END_TRIES  3

static size_t money_key(size_t key)
{
    return key - SERVE_LEASE_KEYS;
}

/* ---- Deals --------------------------------------------------------------------------- */

static void add_change(struct serve_deal *deal, size_t key, int64_t change)
{
    for (size_t i = 0; i < deal->count; i++)
        if (deal->keys[i] == SERVE_LEASE_KEYS + key) {
            deal->change[i] += change;
            return;
        }
    deal->keys[deal->count] = SERVE_LEASE_KEYS + key;
    deal->change[deal->count++] = change;
}

static void draw_deal(struct serve_client *client)
{
    struct serve_deal *deal = &client->deal;
    int64_t amount = 1 + (int64_t)serve_below(client, AMOUNT_MAX);
    size_t other = 2 + (size_t)serve_below(client, 2);
    *deal = (struct serve_deal){ .commits = true };
    uint64_t kind = serve_below(client, 8);
    if (kind == 0) {
        deal->plain = true;
        deal->step = DEAL_TAKE;
        add_change(deal, (size_t)serve_below(client, SERVE_MONEY_KEYS), 0);
    } else if (kind < 4) { /* out of the pair, of which both must be read */
        size_t loser = (size_t)serve_below(client, 2);
        deal->of_pair = true;
        deal->out_of_it = amount;
        add_change(deal, 0, loser == 0 ? -amount : 0);
        add_change(deal, 1, loser == 1 ? -amount : 0);
        add_change(deal, other, amount);
    } else {
        size_t to = (size_t)serve_below(client, SERVE_MONEY_KEYS);
        add_change(deal, other, -amount);
        add_change(deal, to, amount);
    }
}

static void end_deal(struct serve_client *client)
{
    client->state = CLIENT_IDLE;
}

static void set_step(struct serve_deal *deal, enum deal_step step)
{
    deal->step = step;
    deal->at = 0;
    deal->operation = 0;
    deal->lost = false;
}

/* The transaction cannot be committed: rolls it back, or disappears. */
static void fail_deal(struct serve_client *client)
{
    struct serve_deal *deal = &client->deal;
    bool disappears = serve_one_in(client, 4);
    deal->commits = false;
    set_step(deal, DEAL_END);
    if (disappears || (deal->plain && deal->lease_ids[0][0] == '\0'))
        end_deal(client);
}

void serve_teller_start(struct serve_client *client)
{
    draw_deal(client);
    client->state = CLIENT_DEALING;
    run_count_operation(client->work->run);
    serve_teller_go_on(client);
}

/* ---- Requests ------------------------------------------------------------------------ */

static struct exchange *new_step(struct serve_client *client, enum exchange_kind kind)
{
    const struct serve_deal *deal = &client->deal;
    client->key = deal->at < deal->count ? deal->keys[deal->at] : deal->keys[0];
    struct exchange *exchange = serve_new_exchange(client, kind);
    if (!deal->plain)
        memcpy(exchange->txn, deal->txn, sizeof exchange->txn);
    return exchange;
}

static void add_request_id(struct serve_client *client, struct exchange *exchange)
{
    if (!serve_one_in(client, 4))
        exchange->id = ++client->work->ids;
}

static void take_key(struct serve_client *client)
{
    struct exchange *exchange = new_step(client, EXCHANGE_ACQUIRE);
    exchange->waits = !serve_one_in(client, 3);
    exchange->ttl_ms = TTL_MS_MIN + (int64_t)serve_below(client, 8000);
    int64_t limit = 200000 + (int64_t)serve_below(client, 6000000);
    exchange->limit_us = exchange->waits ? limit : 0;
    add_request_id(client, exchange);
    if (serve_one_in(client, 3))
        client->deal.sent = exchange;
    serve_send(exchange);
}

static void read_key(struct serve_client *client)
{
    client->deal.began = bank_checker_now(client->work->bank);
    serve_send(new_step(client, EXCHANGE_GET));
}

static void stage_key(struct serve_client *client)
{
    struct serve_work *work = client->work;
    struct serve_deal *deal = &client->deal;
    while (deal->at < deal->count && deal->change[deal->at] == 0 && !deal->plain)
        deal->at++;
    if (deal->at == deal->count) {
        deal->commits = !serve_one_in(client, 6);
        set_step(deal, DEAL_END);
        serve_turn_after(client, 1000 + (int64_t)serve_below(client, 500000));
        return;
    }
    struct exchange *exchange = new_step(client, EXCHANGE_UPDATE);
    memcpy(exchange->lease_id, deal->lease_ids[deal->at], sizeof exchange->lease_id);
    deal->twice = !deal->plain && !deal->twice && serve_one_in(client, 5);
    exchange->balance =
        deal->balances[deal->at] + deal->change[deal->at] + (deal->twice ? WRONG : 0);
    exchange->operation = bank_checker_writes(work->bank, money_key(exchange->key),
                                              view_of(exchange->txn), exchange->balance);
    deal->operation = exchange->operation;
    deal->lost = false;
    add_request_id(client, exchange);
    if (!deal->plain && serve_one_in(client, 2))
        deal->sent = exchange;
    serve_send(exchange);
}

/* Commits or rolls back, by the id of the transaction or with the release of a key. */
static void send_decision(struct serve_client *client)
{
    struct serve_deal *deal = &client->deal;
    bool releases = deal->plain || (deal->lease_ids[0][0] && serve_one_in(client, 3));
    struct exchange *exchange = new_step(client, releases ? EXCHANGE_RELEASE : EXCHANGE_DECIDE);
    exchange->key = deal->keys[0];
    memcpy(exchange->lease_id, deal->lease_ids[0], sizeof exchange->lease_id);
    exchange->rolls_back = !deal->commits;
    if (releases)
        add_request_id(client, exchange);
    struct serve_txn *txn = serve_txn_find(client->work, deal->txn);
    if (txn && !deal->commits)
        txn->asked_rollback = true;
    serve_send(exchange);
}

/* The deal is over: asks what was decided, or an old request arrives again. */
static void send_afterwards(struct serve_client *client)
{
    struct serve_deal *deal = &client->deal;
    uint64_t what = serve_below(client, 3);
    if (what == 0 && !deal->plain) {
        serve_send(new_step(client, EXCHANGE_REPLAY));
    } else if (what == 1 && deal->sent) {
        deal->sent->waits = false;
        serve_retry(client, deal->sent);
    } else {
        end_deal(client);
        serve_turn_after(client, 1000 + (int64_t)serve_below(client, 500000));
    }
}

void serve_teller_go_on(struct serve_client *client)
{
    switch (client->deal.step) {
    case DEAL_BEGIN: serve_send(new_step(client, EXCHANGE_BEGIN)); break;
    case DEAL_TAKE: take_key(client); break;
    case DEAL_READ: read_key(client); break;
    case DEAL_STAGE:
        /* Now and then somebody asks for the transaction while it is under way. */
        if (!client->deal.plain && serve_one_in(client, 12))
            serve_send(new_step(client, EXCHANGE_REPLAY));
        else
            stage_key(client);
        break;
    case DEAL_END: send_decision(client); break;
    case DEAL_AFTER: send_afterwards(client); break;
    default: check_unreachable();
    }
}

/* ---- Results ------------------------------------------------------------------------- */

static void told_begun(struct serve_client *client, const struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    struct serve_txn *txn = serve_txn_find(client->work, exchange->txn);
    if (exchange->result.status != HF_OK) {
        end_deal(client);
        return;
    }
    memcpy(deal->txn, exchange->txn, sizeof deal->txn);
    if (txn)
        txn->client = client;
    else
        world_fail(client->work->run->world,
                   "request %u has begun a transaction without a record",
                   (unsigned)exchange->number);
    set_step(deal, DEAL_TAKE);
}

static void told_taken(struct serve_client *client, const struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    struct serve_txn *txn = serve_txn_find(client->work, deal->txn);
    if (exchange->result.status != HF_OK) {
        if (txn)
            txn->doubtful = true;
        fail_deal(client);
        return;
    }
    memcpy(deal->lease_ids[deal->at], exchange->result.lease_id, sizeof deal->lease_ids[0]);
    if (txn) {
        txn->until_us[money_key(exchange->key)] = serve_relied_until(exchange);
        bank_checker_told_taken(client->work->bank, view_of(deal->txn),
                                money_key(exchange->key));
    }
    if (++deal->at == deal->count)
        set_step(deal, DEAL_READ);
}

static void told_balance(struct serve_client *client, const struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    enum hf_status status = exchange->result.status;
    struct view text = { exchange->text, exchange->text_size };
    struct view rest = text;
    bank_checker_told_get(client->work->bank, deal->began, money_key(exchange->key), status,
                          text, &exchange->info);
    if (status != HF_OK && status != HF_NOT_FOUND) {
        fail_deal(client);
        return;
    }
    deal->balances[deal->at] = 0;
    if (status == HF_OK) {
        uint64_t amount = 0;
        view_cut(&rest, ' '); /* the operation */
        struct view balance = view_cut(&rest, ' ');
        bool negative = view_starts_with(balance, VIEW("-"));
        check(parse_u64(view_from(balance, negative), INT64_MAX, &amount, NULL) == HF_OK);
        deal->balances[deal->at] = negative ? -(int64_t)amount : (int64_t)amount;
    }
    if (++deal->at < deal->count)
        return;
    if (deal->of_pair && deal->balances[0] + deal->balances[1] < deal->out_of_it)
        fail_deal(client);
    else
        set_step(deal, DEAL_STAGE);
}

static void told_staged(struct serve_client *client, struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    enum hf_status status = exchange->result.status;
    /* The server knows the request, and must not make the change a second time. */
    if (status == HF_UNSURE && deal->plain && !deal->lost &&
        serve_teller_may_retry(client, exchange)) {
        serve_retry(client, exchange);
        return;
    }
    if (status == HF_OK || !deal->lost) /* otherwise an earlier try may have been made */
        bank_checker_told_write(client->work->bank, exchange->operation,
                                /* staged */ !deal->plain, status);
    bool goes_on = status == HF_OK && !(deal->twice && deal->lost);
    deal->operation = 0;
    if (!goes_on) {
        fail_deal(client);
        return;
    }
    if (!deal->twice)
        deal->at++;
}

static void told_decided(struct serve_client *client, const struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    enum hf_status status = exchange->result.status;
    enum hf_decision asked = exchange->rolls_back ? HF_ROLLBACK : HF_COMMIT;
    enum hf_decision other = exchange->rolls_back ? HF_COMMIT : HF_ROLLBACK;
    if (deal->plain) {
        end_deal(client);
        return;
    }
    /* The key is no longer held, or another client has used the request id. The transaction may
     * have been decided by an earlier try. */
    if (exchange->kind == EXCHANGE_RELEASE && (status == HF_LOST || status == HF_INVALID))
        status = HF_UNSURE;
    bank_checker_told_end(client->work->bank, view_of(deal->txn), asked, status,
                          status == HF_MISMATCH ? other : asked);
    deal->decided = status == HF_OK || status == HF_MISMATCH;
    deal->committed = (status == HF_OK) == (asked == HF_COMMIT);
    if (deal->decided)
        set_step(deal, DEAL_AFTER);
    else if (++deal->at == END_TRIES)
        end_deal(client);
}

/* A replay of a transaction that its client has not decided leaves it pending, unless others have
 * rolled it back. */
static void told_replayed(struct serve_client *client, const struct exchange *exchange)
{
    const struct serve_deal *deal = &client->deal;
    enum hf_txn_state state = exchange->state_told;
    bool ok = exchange->result.status == HF_OK;
    enum hf_txn_state stands = deal->committed ? HF_TXN_COMMIT : HF_TXN_ROLLBACK;
    if (ok && (deal->decided ? state != stands : state == HF_TXN_COMMIT))
        world_fail(client->work->run->world, "request %u finds its transaction decided as %s",
                   (unsigned)exchange->number, hf_txn_state_name(state));
    if (deal->step == DEAL_AFTER)
        end_deal(client);
}

void serve_teller_told(struct serve_client *client, struct exchange *exchange)
{
    enum deal_step step = client->deal.step;
    if (exchange->kind == EXCHANGE_REPLAY)
        told_replayed(client, exchange);
    else if (step == DEAL_BEGIN)
        told_begun(client, exchange);
    else if (step == DEAL_TAKE)
        told_taken(client, exchange);
    else if (step == DEAL_READ)
        told_balance(client, exchange);
    else if (step == DEAL_STAGE)
        told_staged(client, exchange);
    else if (step == DEAL_END)
        told_decided(client, exchange);
    else
        end_deal(client);
    if (!client->current) /* it has sent nothing */
        serve_turn_after(client, 1000 + (int64_t)serve_below(client, 300000));
}

/* ---- Requests without a reply -------------------------------------------------------- */

bool serve_teller_may_retry(const struct serve_client *client, const struct exchange *exchange)
{
    struct serve_work *work = client->work;
    struct serve_deal *deal = &work->clients[client->number - 1].deal;
    struct serve_txn *txn = serve_txn_find(work, deal->txn);
    deal->lost = true;
    if (exchange->kind == EXCHANGE_ACQUIRE && txn)
        txn->doubtful = true;
    if (exchange->kind != EXCHANGE_UPDATE || exchange->txn[0])
        return true;
    /* Without a transaction, a change must not be made twice, and only this server knows it. */
    unsigned instance = work->nodes[exchange->node].instance;
    work->exchanges[exchange->number - 1].only = exchange->instance;
    return exchange->id > 0 && exchange->instance > 0 && instance == exchange->instance;
}

void serve_teller_gives_up(struct serve_client *client, struct exchange *exchange)
{
    struct serve_deal *deal = &client->deal;
    if (exchange->kind == EXCHANGE_UPDATE && deal->step == DEAL_STAGE)
        bank_checker_told_write(client->work->bank, exchange->operation, !deal->plain,
                                HF_UNSURE);
    if (deal->step == DEAL_BEGIN || deal->step >= DEAL_END)
        end_deal(client);
    else
        fail_deal(client);
}
