/* SPDX-License-Identifier: Apache-2.0 */
/* bank_txn.c: the transactions of workload `bank`. Each moves money from one key to others. A
 * transaction takes no more from a pair than the sum of its two balances, so it must read both. An
 * outdated read therefore shows up as an overdrawn pair. */
#include "base/check.h"
#include "sim/workloads/bank_work.h"

#include <stdlib.h>

#define DEAL_KEYS_MAX      TELLER_WRITES_MAX
#define AMOUNT_MAX         20
#define WAIT_MS_MAX        8000
#define END_TRIES          3
#define JOIN_STEPS         20
#define JOIN_STEP          SPAN_MS(500)
#define LEND_EVERY         8
#define LEND_EVERY_OF_OPEN 2
#define BORROW_WRITES      6

/* The id, without writing the record early, as hf_txn_id does. */
static const char *own_id(const struct hf_txn *txn)
{
    return txn->id;
}

/* The plan of a transaction: its keys, and by how much each balance changes (0: the key is only
 * read). */
struct deal {
    size_t keys[DEAL_KEYS_MAX];
    int64_t change[DEAL_KEYS_MAX];
    size_t count;
    bool of_pair;      /* the first two keys are a pair, ... */
    int64_t out_of_it; /* ... and lose this much together */
    bool idle;         /* keys that would only be read are also written */
};

static void add(struct deal *deal, size_t key, int64_t change)
{
    for (size_t i = 0; i < deal->count; i++)
        if (deal->keys[i] == key) {
            deal->change[i] += change;
            return;
        }
    deal->keys[deal->count] = key;
    deal->change[deal->count++] = change;
}

/* Moves money out of a pair into another key, or out of a key that may be overdrawn. */
static struct deal draw_deal(const struct teller *teller)
{
    struct deal deal = { .count = 0 };
    int64_t amount = 1 + (int64_t)teller_below(teller, AMOUNT_MAX);
    size_t other = teller_draw_other(teller);
    if (teller_one_in(teller, 2)) {
        size_t pair = 2 * (size_t)teller_below(teller, teller->work->plan.pairs);
        size_t loser = (size_t)teller_below(teller, 2);
        deal.of_pair = true;
        deal.out_of_it = amount;
        add(&deal, pair, loser == 0 ? -amount : 0);
        add(&deal, pair + 1, loser == 1 ? -amount : 0);
        add(&deal, other, amount);
        return deal;
    }
    add(&deal, other, -amount);
    size_t first = teller_draw_key(teller);
    add(&deal, first, amount);
    if (teller_one_in(teller, 2)) {
        size_t second = teller_draw_key(teller);
        add(&deal, other, -1);
        add(&deal, second, 1);
    }
    if (teller_one_in(teller, 3))
        add(&deal, teller_draw_key(teller), 0);
    return deal;
}

/* Moves no money: writes the current values of the keys again. */
static struct deal draw_idle_deal(const struct teller *teller)
{
    struct deal deal = { .idle = true };
    add(&deal, teller_draw_key(teller), 0);
    if (teller_one_in(teller, 2))
        add(&deal, teller_draw_key(teller), 0);
    return deal;
}

/* ---- Deciding -------------------------------------------------------------------------- */

static bool is_not_done(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT;
}

static enum hf_status end_once(struct teller *teller, struct hf_txn *txn,
                               enum hf_decision asked)
{
    struct bank_checker *checker = teller->work->checker;
    enum hf_decision decision = asked;
    struct hf_error error = { 0 };
    teller_maybe_be_cut(teller);
    enum hf_status status = asked == HF_COMMIT ? hf_txn_commit(txn, &decision, &error)
                                               : hf_txn_rollback(txn, &decision, &error);
    TELLER_TRACE(teller, "is to %s %s: %s, %s", asked == HF_COMMIT ? "commit" : "roll back",
                 own_id(txn), hf_status_name(status),
                 decision == HF_COMMIT ? "committed" : "rolled back");
    bank_checker_told_end(checker, view_of(own_id(txn)), asked, status, decision);
    if (asked == HF_COMMIT && !txn->joined && is_not_done(status))
        bank_checker_told_not_committed(checker, view_of(own_id(txn)));
    return status;
}

/* Commits or rolls back as planned; a node that does not learn the decision retries, or abandons
 * the transaction. */
static void end(struct teller *teller, struct hf_txn *txn, enum hf_decision asked)
{
    enum hf_status status = HF_UNSURE;
    for (int i = 0; i < END_TRIES && (status == HF_UNSURE || is_not_done(status)); i++) {
        status = end_once(teller, txn, asked);
        if (teller_one_in(teller, 4))
            break;
    }
    hf_txn_free(txn);
}

/* ---- Working --------------------------------------------------------------------------- */

/* Acquires some of the keys of a deal, from `first` on. */
static enum hf_status acquire_some(struct teller *teller, struct hf_txn *txn,
                                   const struct deal *deal, size_t first, size_t count,
                                   struct hf_key **keys)
{
    struct hf_key_options options = teller_key_options(teller);
    const char *names[DEAL_KEYS_MAX];
    char note[HF_TXN_ID_SIZE + 3];
    struct hf_error error;
    int64_t wait_ms = teller_one_in(teller, 3) ? 0 : (int64_t)teller_below(teller, WAIT_MS_MAX);
    /* For the checker. In other transactions, several handles of a node may take keys. */
    bool alone = !txn->joined && !teller->work->plan.both_hands;
    snprintf(note, sizeof note, "\"%s\"", own_id(txn));
    options.note = alone ? note : NULL;
    for (size_t i = 0; i < count; i++)
        names[i] = bank_keys[deal->keys[first + i]];
    enum hf_status status =
        hf_txn_acquire(txn, names, count, &options, wait_ms, keys + first, &error);
    TELLER_TRACE(teller, "takes %zu keys from %s on for %s: %s", count, names[0], own_id(txn),
                 hf_status_name(status));
    for (size_t i = 0; status == HF_OK && i < count; i++)
        bank_checker_told_taken(teller->work->checker, view_of(own_id(txn)),
                                deal->keys[first + i]);
    for (size_t i = 0; alone && status == HF_HELD && i < count; i++)
        bank_checker_told_refused(teller->work->checker, view_of(own_id(txn)),
                                  deal->keys[first + i], node_number(teller->node));
    return status;
}

/* Acquires all keys: together, or in two steps, the second of which may be out of order. */
static enum hf_status acquire(struct teller *teller, struct hf_txn *txn,
                              const struct deal *deal, struct hf_key **keys)
{
    size_t first = deal->count;
    if (deal->count > 1 && teller_one_in(teller, 4))
        first = 1 + (size_t)teller_below(teller, deal->count - 1);
    enum hf_status status = acquire_some(teller, txn, deal, 0, first, keys);
    if (status == HF_OK && first < deal->count)
        status = acquire_some(teller, txn, deal, first, deal->count - first, keys);
    return status;
}

static bool read_all(struct teller *teller, const struct deal *deal, int64_t *balances)
{
    struct hf_key_info info = HF_KEY_INFO;
    for (size_t i = 0; i < deal->count; i++) {
        if (!teller_read(teller, deal->keys[i], &balances[i], &info))
            return false;
        if (teller_one_in(teller, 4))
            teller_think(teller);
    }
    return !deal->of_pair || balances[0] + balances[1] >= deal->out_of_it;
}

/* Stages all changes of a deal with one call. */
static enum hf_status stage_together(struct teller *teller, struct hf_txn *txn,
                                     const struct deal *deal, struct hf_key **keys,
                                     const int64_t *balances)
{
    struct teller_write writes[DEAL_KEYS_MAX];
    int64_t wanted[DEAL_KEYS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < deal->count; i++) {
        if (deal->change[i] == 0 && !deal->idle)
            continue;
        wanted[count] = balances[i] + deal->change[i];
        writes[count++] = (struct teller_write){
            .key = keys[i], .number = deal->keys[i], .txn = view_of(own_id(txn)), .staged = true
        };
    }
    return count > 0 ? teller_write_many(teller, txn, writes, count, wanted) : HF_OK;
}

/* Stages all changes of a deal. A change that got no reply may or may not be staged. */
static enum hf_status stage_all(struct teller *teller, struct hf_txn *txn,
                                const struct deal *deal, struct hf_key **keys,
                                const int64_t *balances)
{
    if (!teller->work->plan.crowds && teller_one_in(teller, 2))
        return stage_together(teller, txn, deal, keys, balances);
    for (size_t i = 0; i < deal->count; i++) {
        struct teller_write write = {
            .key = keys[i], .number = deal->keys[i], .txn = view_of(own_id(txn)), .staged = true
        };
        enum hf_status status = HF_OK;
        if (deal->change[i] == 0 && !deal->idle)
            continue;
        bool twice = teller_one_in(teller, teller->work->plan.fast_hands ? 2 : 6);
        if (!deal->idle && (twice || teller->work->plan.crowds)) /* must never be visible */
            status = teller_write(teller, &write, balances[i] + 1000);
        if (teller->work->plan.crowds) /* gives readers time to see it */
            teller_rest(teller, SPAN_MS(100));
        if (status == HF_OK)
            status = teller_write(teller, &write, balances[i] + deal->change[i]);
        if (status != HF_OK)
            return status;
        if (teller_one_in(teller, 4))
            teller_think(teller);
    }
    return HF_OK;
}

/* Lets other nodes adopt one of the staged keys while this transaction continues. This is refused
 * if only the process that began the transaction may change its keys. */
static void lend(struct teller *teller, struct hf_txn *txn, const struct deal *deal,
                 struct hf_key **keys, const int64_t *balances)
{
    size_t i = (size_t)teller_below(teller, deal->count);
    struct bank_lent lent = { .key = deal->keys[i],
                              .balance = balances[i] + deal->change[i],
                              .node = node_number(teller->node) };
    struct hf_error error;
    snprintf(lent.id, sizeof lent.id, "%s", hf_txn_id(txn));
    if (hf_lock_text(hf_key_lock(keys[i]), lent.text, &error) != HF_OK)
        return;
    teller->work->lent = lent;
    TELLER_TRACE(teller, "lends %s of %s", bank_keys[lent.key], lent.id);
    teller_rest(teller, SPAN_S(2));
}

/* Acquires the keys of a deal and stages its changes. UNSURE: they may be staged. */
static enum hf_status work_on(struct teller *teller, struct hf_txn *txn,
                              const struct deal *deal)
{
    struct hf_key *keys[DEAL_KEYS_MAX] = { NULL };
    int64_t balances[DEAL_KEYS_MAX];
    enum hf_status status = acquire(teller, txn, deal, keys);
    if (status != HF_OK)
        return status;
    teller_think(teller);
    if (!read_all(teller, deal, balances))
        return HF_CANCELLED;
    status = stage_all(teller, txn, deal, keys, balances);
    if (status == HF_OK && teller_one_in(teller, txn->open ? LEND_EVERY_OF_OPEN : LEND_EVERY))
        lend(teller, txn, deal, keys, balances);
    return status;
}

void teller_transact(struct teller *teller)
{
    struct deal deal = draw_deal(teller);
    struct hf_txn *txn;
    struct hf_error error;
    enum hf_status status = hf_txn_begin(teller->client, NULL, &txn, &error);
    TELLER_TRACE(teller, "begins %s: %s", status == HF_OK ? own_id(txn) : "nothing",
                 hf_status_name(status));
    if (status != HF_OK)
        return;
    if (teller_one_in(teller, 8)) /* writes the record now */
        (void)hf_txn_id(txn);
    status = work_on(teller, txn, &deal);
    if (status == HF_OK || status == HF_UNSURE)
        teller_think(teller);
    bool commit = status == HF_OK ? !teller_one_in(teller, 8)
                                  : status == HF_UNSURE && teller_one_in(teller, 2);
    if (!commit && teller_one_in(teller, 3))
        hf_txn_free(txn);
    else
        end(teller, txn, commit ? HF_COMMIT : HF_ROLLBACK);
}

/* ---- Several processes in one transaction ---------------------------------------------- */

static bool is_offered(const struct bank_work *work, const char *id)
{
    return strcmp(work->offer.id, id) == 0;
}

/* Waits for a node that has joined. Returns whether it has staged its part, or no node has
 * joined. */
static bool await_joined(struct teller *teller, const char *id)
{
    struct bank_work *work = teller->work;
    for (int i = 0; i < JOIN_STEPS && is_offered(work, id) && !work->offer.done; i++)
        env_sleep(teller->env, JOIN_STEP);
    if (!is_offered(work, id)) /* replaced by another offer, so its joiner is unknown */
        return false;
    bool done = work->offer.done || !work->offer.taken;
    work->offer.id[0] = '\0';
    return done;
}

/* Offers a transaction to other nodes; returns whether to wait for them. */
static bool offer(struct teller *teller, const char *id, bool open)
{
    struct bank_work *work = teller->work;
    work->offer = (struct bank_offer){ .open = open, .careless = teller_one_in(teller, 3) };
    snprintf(work->offer.id, sizeof work->offer.id, "%s", id);
    TELLER_TRACE(teller, "shares %s%s", id,
                 work->offer.careless ? ", and waits for nobody" : "");
    return !work->offer.careless;
}

static void decide_by_id(struct teller *teller, const char *id, enum hf_decision asked)
{
    struct hf_error error = { 0 };
    enum txn_state recorded = TXN_ABSENT;
    enum hf_status status = txn_decide(teller->client, view_of(id), asked, &recorded, &error);
    TELLER_TRACE(teller, "is to %s %s by its id: %s, %s",
                 asked == HF_COMMIT ? "commit" : "roll back", id, hf_status_name(status),
                 txn_state_name(recorded));
    if (status == HF_NOT_FOUND)
        return;
    bool as_asked = (recorded == TXN_COMMIT) == (asked == HF_COMMIT);
    if (status == HF_OK && !as_asked)
        status = HF_MISMATCH;
    bank_checker_told_end(teller->work->checker, view_of(id), asked, status,
                          recorded == TXN_COMMIT ? HF_COMMIT : HF_ROLLBACK);
}

/* Begins a transaction without a handle: the nodes that join do all the work. */
static void share_open(struct teller *teller)
{
    struct hf_error error;
    char id[TXN_ID_SIZE + 1];
    if (txn_open(teller->client, id, &error) != HF_OK)
        return;
    bool waits = offer(teller, id, /* open */ true);
    teller_rest(teller, SPAN_S(5));
    bool joined = !waits || await_joined(teller, id);
    decide_by_id(teller, id, joined && !teller_one_in(teller, 6) ? HF_COMMIT : HF_ROLLBACK);
}

/* Does its own part, then waits for the other node's part. */
static void share_own(struct teller *teller)
{
    struct deal deal = draw_deal(teller);
    struct hf_txn *txn;
    struct hf_error error;
    if (hf_txn_begin(teller->client, NULL, &txn, &error) != HF_OK)
        return;
    bool waits = offer(teller, hf_txn_id(txn), /* open */ false);
    enum hf_status status = work_on(teller, txn, &deal);
    bool joined = !waits || await_joined(teller, hf_txn_id(txn));
    bool commit = status == HF_OK && joined;
    end(teller, txn, commit ? HF_COMMIT : HF_ROLLBACK);
}

void teller_share(struct teller *teller)
{
    if (teller->work->offer.id[0] != '\0' && !teller_one_in(teller, 4))
        return;
    if (teller_one_in(teller, 2))
        share_open(teller);
    else
        share_own(teller);
}

void teller_join(struct teller *teller)
{
    struct bank_work *work = teller->work;
    struct hf_txn_options options = HF_TXN_OPTIONS;
    struct deal deal = work->offer.careless ? draw_idle_deal(teller) : draw_deal(teller);
    struct hf_txn *txn;
    struct hf_error error;
    char id[HF_TXN_ID_SIZE + 1];
    const struct bank_offer joined = work->offer;
    if (joined.id[0] == '\0' || joined.taken)
        return;
    memcpy(id, joined.id, sizeof id);
    work->offer.taken = !joined.careless; /* if careless, more nodes may join */
    options.id = id;
    enum hf_status status = hf_txn_begin(teller->client, &options, &txn, &error);
    TELLER_TRACE(teller, "joins %s: %s", id, hf_status_name(status));
    if (status != HF_OK)
        return;
    status = work_on(teller, txn, &deal);
    if (status == HF_OK && is_offered(work, id))
        work->offer.done = true;
    bool commits = joined.open && status == HF_OK && teller_one_in(teller, 2);
    if (commits && teller_one_in(teller, 2)) {
        end(teller, txn, HF_COMMIT);
        return;
    }
    TELLER_TRACE(teller, "leaves %s: %s", id, hf_status_name(status));
    hf_txn_free(txn);
    if (commits)
        decide_by_id(teller, id, HF_COMMIT);
}

/* ---- One transaction key in two processes ---------------------------------------------- */

/* Stages the staged value again, which moves no money, even if another node commits or rolls back
 * in the meantime. */
static void stage_again(struct teller *teller, const struct bank_lent *lent, struct hf_txn *txn)
{
    struct hf_key_options options = teller_key_options(teller);
    struct teller_write write = { .number = lent->key,
                                  .txn = view_of(lent->id),
                                  .staged = true };
    struct hf_error error;
    enum hf_status status =
        key_adopt_for(teller->client, lent->text, &options, txn, &write.key, &error);
    TELLER_TRACE(teller, "adopts %s of %s: %s", bank_keys[lent->key], lent->id,
                 hf_status_name(status));
    if (status != HF_OK)
        return;
    for (uint64_t i = teller_below(teller, BORROW_WRITES) + 1; i > 0 && status == HF_OK; i--)
        status = teller_write(teller, &write, lent->balance);
    hf_key_detach(write.key);
}

void teller_borrow(struct teller *teller)
{
    const struct bank_lent lent = teller->work->lent;
    struct hf_txn_options options = { .struct_size = sizeof options, .id = lent.id };
    struct hf_txn *txn;
    struct hf_error error;
    if (lent.node == node_number(teller->node))
        return;
    /* Clearing the text keeps other nodes from adopting the key too. Two handles in one process
     * must not adopt it. */
    if (teller->work->plan.both_hands || teller_one_in(teller, 2))
        teller->work->lent.text[0] = '\0';
    if (hf_txn_begin(teller->client, &options, &txn, &error) != HF_OK)
        return;
    stage_again(teller, &lent, txn);
    hf_txn_free(txn);
}
