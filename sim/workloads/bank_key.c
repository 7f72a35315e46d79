/* SPDX-License-Identifier: Apache-2.0 */
/* bank_key.c: the operations of workload `bank` on single keys. A write outside a transaction
 * writes the balance that was just read. If it overwrites the work of another node, money
 * appears or disappears, and the checker notices. */
#include "base/check.h"
#include "sim/checkers/bank_inside.h"
#include "sim/workloads/bank_work.h"

#include <stdlib.h>

#define STATE_BYTES_MAX 6000
#define MOVED_BYTES     64
#define INLINE_MAX      4096
#define SMALL_MAX       200
#define SMALL_MIN       64
#define WAIT_MS_MAX     8000
#define TRIES           2

size_t teller_draw_other(const struct teller *teller)
{
    return BANK_KEYS - 1 - (size_t)teller_below(teller, teller->work->plan.others);
}

size_t teller_draw_key(const struct teller *teller)
{
    if (teller_one_in(teller, 3))
        return teller_draw_other(teller);
    return (size_t)teller_below(teller, 2 * teller->work->plan.pairs);
}

struct hf_key_options teller_key_options(const struct teller *teller)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    options.ttl_ms = teller->work->plan.ttl_ms;
    options.no_renewal = teller_one_in(teller, teller->work->plan.slow_hands ? 2 : 6);
    options.poll_ms = 100 + (int64_t)teller_below(teller, 400);
    return options;
}

void teller_think(const struct teller *teller)
{
    const struct bank_plan *plan = &teller->work->plan;
    if (plan->fast_hands)
        return;
    if (teller_one_in(teller, plan->slow_hands ? 3 : 10))
        teller_rest(teller, SPAN_MS(2 * plan->ttl_ms));
    else if (teller_one_in(teller, 2))
        teller_rest(teller, SPAN_MS(200));
}

bool teller_read(struct teller *teller, size_t key, int64_t *ret_balance,
                 struct hf_key_info *ret_info)
{
    struct bank_checker *checker = teller->work->checker;
    struct hf_error error;
    void *data = NULL;
    size_t size = 0;
    uint64_t operation = 0, began = bank_checker_now(checker);
    *ret_balance = 0;
    enum hf_status status = hf_key_get(teller->client, bank_keys[key], STATE_BYTES_MAX, &data,
                                       &size, ret_info, &error);
    struct view bytes = { data, status == HF_OK ? size : 0 };
    if (status == HF_OK)
        banked_text_read(bytes, &operation, ret_balance);
    TELLER_TRACE(teller, "reads %s: %s, operation %" PRIu64 ", balance %" PRId64,
                 bank_keys[key], hf_status_name(status), operation, *ret_balance);
    bank_checker_told_get(checker, began, key, status, bytes, ret_info);
    if (status == HF_OK)
        free(data);
    return status == HF_OK || status == HF_NOT_FOUND;
}

static size_t draw_size(const struct teller *teller)
{
    bool fat = teller_one_in(teller, teller->work->plan.fat ? 2 : 8);
    if (fat || teller->work->plan.litters)
        return INLINE_MAX + 1 + (size_t)teller_below(teller, STATE_BYTES_MAX - INLINE_MAX);
    return SMALL_MIN + (size_t)teller_below(teller, SMALL_MAX);
}

static enum hf_status ask_write(struct teller *teller, struct teller_write *write,
                                int64_t balance)
{
    struct bank_checker *checker = teller->work->checker;
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    char text[STATE_BYTES_MAX];
    if (balance == 0 && teller_one_in(teller, 2)) {
        write->operation = bank_checker_removes(checker, write->number, write->txn);
        return hf_key_remove(write->key, write->when, &info, &error);
    }
    size_t size = draw_size(teller);
    write->operation = bank_checker_writes(checker, write->number, write->txn, balance);
    bank_checker_text(write->operation, balance, size, text);
    return hf_key_update(write->key, text, size, write->when, &info, &error);
}

enum hf_status teller_write(struct teller *teller, struct teller_write *write, int64_t balance)
{
    struct bank_checker *checker = teller->work->checker;
    enum hf_status status = HF_UNSURE;
    write->doubt = false;
    for (int i = 0; i < TRIES && status == HF_UNSURE; i++) {
        teller_maybe_be_cut(teller);
        status = ask_write(teller, write, balance);
        TELLER_TRACE(teller, "writes %" PRId64 " to %s as operation %" PRIu64 ": %s", balance,
                     bank_keys[write->number], write->operation, hf_status_name(status));
        if (write->impossible)
            bank_checker_told_impossible(checker, write->operation, status);
        else
            bank_checker_told_write(checker, write->operation, write->staged, status);
        write->doubt = status != HF_OK && (write->doubt || status == HF_UNSURE);
        if (status == HF_UNSURE && teller_one_in(teller, 2))
            break;
    }
    return status;
}

enum hf_status teller_write_many(struct teller *teller, struct hf_txn *txn,
                                 struct teller_write *writes, size_t count,
                                 const int64_t *balances)
{
    struct bank_checker *checker = teller->work->checker;
    struct hf_txn_change changes[TELLER_WRITES_MAX];
    char texts[TELLER_WRITES_MAX][STATE_BYTES_MAX];
    struct hf_error error;
    check(count <= TELLER_WRITES_MAX);
    for (size_t i = 0; i < count; i++) {
        struct teller_write *write = &writes[i];
        changes[i] = (struct hf_txn_change){ .key = write->key, .data = texts[i] };
        changes[i].removes = balances[i] == 0 && teller_one_in(teller, 2);
        if (changes[i].removes) {
            write->operation = bank_checker_removes(checker, write->number, write->txn);
            continue;
        }
        changes[i].size = draw_size(teller);
        write->operation = bank_checker_writes(checker, write->number, write->txn, balances[i]);
        bank_checker_text(write->operation, balances[i], changes[i].size, texts[i]);
    }
    teller_maybe_be_cut(teller);
    enum hf_status status = hf_txn_update(txn, changes, count, &error);
    for (size_t i = 0; i < count; i++) {
        TELLER_TRACE(teller, "writes %" PRId64 " to %s as operation %" PRIu64 ": %s",
                     balances[i], bank_keys[writes[i].number], writes[i].operation,
                     hf_status_name(changes[i].status));
        bank_checker_told_write(checker, writes[i].operation, /* staged */ true,
                                changes[i].status);
    }
    return status;
}

/* ---- Outside transactions -------------------------------------------------------------- */

/* Draws a condition that is true, one that is false, or none. */
static void draw_condition(const struct teller *teller, struct teller_write *write,
                           struct hf_key_if *when, const struct hf_key_info *info)
{
    bool holds_nothing = info->version == 0 || info->removed;
    *when = HF_KEY_IF;
    switch (teller_below(teller, 5)) {
    case 0:
        when->version_set = true;
        when->version = holds_nothing ? 0 : info->version;
        break;
    case 1: when->etag = holds_nothing ? NULL : info->etag; break;
    case 2:
        when->version_set = true;
        when->version = info->version + 70;
        write->impossible = true;
        break;
    default: return;
    }
    write->when = when;
}

static enum hf_status release_once(struct teller *teller, struct hf_key *key,
                                   const struct teller_write *last)
{
    struct bank_checker *checker = teller->work->checker;
    enum hf_decision decision = teller_one_in(teller, 4) ? HF_ROLLBACK : HF_COMMIT;
    struct hf_error error;
    enum hf_status status = hf_key_release(key, decision, &error);
    TELLER_TRACE(teller, "releases %s, to %s: %s", bank_keys[last->number],
                 decision == HF_COMMIT ? "commit" : "roll back", hf_status_name(status));
    bool dropped = status == HF_LOST || (status == HF_OK && decision == HF_ROLLBACK);
    bool published = status == HF_MISMATCH || (status == HF_OK && !last->contested);
    if (last->waiting > 0 && dropped)
        bank_checker_told_dropped(checker, last->waiting);
    else if (last->waiting > 0 && published)
        bank_checker_told_published(checker, last->waiting);
    return status;
}

/* Ends the use of a key. A node that gets no reply retries the release. */
static void end_key(struct teller *teller, struct hf_key *key, const struct teller_write *last)
{
    bool staged = last->waiting > 0;
    if (teller_one_in(teller, 8)) { /* hf_key_free releases it, unless another node has */
        hf_key_free(key);
        if (staged && !last->shared)
            bank_checker_told_dropped(teller->work->checker, last->waiting);
        return;
    }
    for (int i = 0; i < TRIES && release_once(teller, key, last) == HF_UNSURE; i++)
        teller_think(teller);
    hf_key_free(key);
}

/* Passes the lease on to another node, together with its stage. */
static void make_known(struct teller *teller, struct hf_key *key,
                       const struct teller_write *last)
{
    struct bank_passed passed = { .key = last->number,
                                  .staged = last->staged,
                                  .operation = last->waiting,
                                  .shared = last->shared,
                                  .node = node_number(teller->node) };
    struct hf_error error;
    if (hf_lock_text(hf_key_lock(key), passed.text, &error) != HF_OK)
        return;
    teller->work->passed = passed;
    TELLER_TRACE(teller, "passes on %s", bank_keys[last->number]);
}

/* Records the stage that the release will publish. A state that is published without a stage
 * supersedes it. */
static void note_waiting(struct teller *teller, struct teller_write *write,
                         enum hf_status status)
{
    if (status == HF_OK && write->staged) {
        write->waiting = write->operation;
    } else if (status == HF_OK) {
        if (write->waiting > 0)
            bank_checker_told_dropped(teller->work->checker, write->waiting);
        write->waiting = 0;
    } else if (write->doubt) { /* it may replace an earlier stage */
        write->waiting = 0;
    }
}

/* Writes the key's current value again, up to this many times. */
static void write_times(struct teller *teller, struct teller_write *write, uint64_t times)
{
    struct hf_key_if when;
    struct hf_key_info info = HF_KEY_INFO;
    int64_t balance;
    for (uint64_t i = times; i > 0; i--) {
        if (!teller_read(teller, write->number, &balance, &info))
            break;
        teller_think(teller);
        write->when = NULL;
        write->impossible = false;
        if (!write->staged) /* a read does not return the stage */
            draw_condition(teller, write, &when, &info);
        note_waiting(teller, write, teller_write(teller, write, balance));
    }
}

/* Writes on its own, hands the lease to another node, or shares one lease with another node while
 * both write. */
static void use_key(struct teller *teller, struct hf_key *key, size_t number, bool staged)
{
    struct teller_write write = { .key = key, .number = number, .staged = staged };
    bool passed = teller_one_in(teller, 5), leaves = teller_one_in(teller, 2);
    bool late = staged && leaves; /* passes it on with the stage */
    write.shared = passed && !leaves;
    write.contested = write.shared && staged;
    if (passed && !late)
        make_known(teller, key, &write);
    if (write.shared)
        teller_rest(teller, SPAN_MS(teller->work->plan.ttl_ms));
    if (!passed || staged || !leaves)
        write_times(teller, &write, 1 + teller_below(teller, 2));
    if (passed && late)
        make_known(teller, key, &write);
    if (passed && leaves) {
        hf_key_detach(key);
        return;
    }
    if (teller_one_in(teller, 2))
        teller_think(teller);
    end_key(teller, key, &write);
}

void teller_rewrite(struct teller *teller)
{
    struct hf_key_options options = teller_key_options(teller);
    size_t number = teller_draw_key(teller);
    struct hf_key *key;
    struct hf_error error;
    struct hf_key_info info = HF_KEY_INFO;
    options.staged = teller_one_in(teller, 3);
    int64_t wait_ms = (int64_t)teller_below(teller, WAIT_MS_MAX);
    check(hf_key_new(teller->client, bank_keys[number], &options, &key, &error) == HF_OK);
    enum hf_status status = hf_key_acquire(key, wait_ms, &info, &error);
    TELLER_TRACE(teller, "takes %s%s: %s", bank_keys[number],
                 options.staged ? ", to be staged" : "", hf_status_name(status));
    if (status != HF_OK)
        hf_key_free(key);
    else
        use_key(teller, key, number, options.staged);
}

/* Changes a key without a handle. Only a condition makes sure that the balance is still the one
 * that was read. */
void teller_change_at_once(struct teller *teller)
{
    struct bank_checker *checker = teller->work->checker;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key_info info = HF_KEY_INFO, seen = HF_KEY_INFO;
    struct hf_error error;
    char text[STATE_BYTES_MAX];
    int64_t balance;
    size_t number = teller_draw_key(teller), size = 0;
    if (!teller_read(teller, number, &balance, &seen))
        return;
    teller_think(teller);
    bool holds_nothing = seen.version == 0 || seen.removed,
         impossible = teller_one_in(teller, 8);
    when.version_set = true;
    when.version = impossible ? seen.version + 70 : holds_nothing ? 0 : seen.version;
    if (!impossible && !holds_nothing && teller_one_in(teller, 3))
        when = (struct hf_key_if){ .struct_size = sizeof when, .etag = seen.etag };
    options.when = &when;
    options.ttl_ms = teller->work->plan.ttl_ms;
    options.wait_ms = teller_one_in(teller, 2) ? 0 : (int64_t)teller_below(teller, WAIT_MS_MAX);
    options.removes = balance == 0 && teller_one_in(teller, 2);
    uint64_t operation = options.removes
                             ? bank_checker_removes(checker, number, VIEW(""))
                             : bank_checker_writes(checker, number, VIEW(""), balance);
    if (!options.removes) {
        size = draw_size(teller);
        bank_checker_text(operation, balance, size, text);
    }
    teller_maybe_be_cut(teller);
    enum hf_status status =
        hf_key_change(teller->client, bank_keys[number], text, size, &options, &info, &error);
    TELLER_TRACE(teller, "changes %s at once, to %" PRId64 " as operation %" PRIu64 ": %s",
                 bank_keys[number], balance, operation, hf_status_name(status));
    if (impossible)
        bank_checker_told_impossible(checker, operation, status);
    else
        bank_checker_told_write(checker, operation, /* staged */ false, status);
    if (status == HF_OK)
        bank_checker_told_version(checker, operation, info.version);
}

/* Both balances were read without a lease, so each write has a condition. Which of the two is named
 * first makes no difference. */
void teller_move_at_once(struct teller *teller)
{
    struct bank_checker *checker = teller->work->checker;
    size_t first = 2 * (size_t)teller_below(teller, teller->work->plan.pairs);
    struct hf_key_if when[2] = { HF_KEY_IF, HF_KEY_IF };
    struct hf_key_info infos[2] = { HF_KEY_INFO, HF_KEY_INFO };
    struct hf_key_write writes[2];
    struct hf_error error;
    char texts[2][STATE_BYTES_MAX];
    uint64_t operations[2];
    int64_t balances[2], amount = (int64_t)teller_below(teller, 9) - 4;
    for (size_t i = 0; i < 2; i++) {
        struct hf_key_info seen = HF_KEY_INFO;
        if (!teller_read(teller, first + i, &balances[i], &seen))
            return;
        when[i].version_set = true;
        when[i].version = seen.removed ? 0 : seen.version;
    }
    teller_think(teller);
    for (size_t i = 0; i < 2; i++) {
        size_t number = first + i;
        int64_t balance = balances[i] + (i == 0 ? amount : -amount);
        operations[i] = bank_checker_writes(checker, number, VIEW(""), balance);
        bank_checker_text(operations[i], balance, MOVED_BYTES, texts[i]);
        writes[i] = (struct hf_key_write){
            .name = bank_keys[number], .data = texts[i], .size = MOVED_BYTES, .when = &when[i]
        };
    }
    int64_t wait_ms = teller_one_in(teller, 2) ? 0 : (int64_t)teller_below(teller, WAIT_MS_MAX);
    teller_maybe_be_cut(teller);
    enum hf_status status =
        hf_key_change_many(teller->client, writes, 2, wait_ms, infos, &error);
    TELLER_TRACE(teller,
                 "moves %" PRId64 " from %s to %s as operations %" PRIu64 " and %" PRIu64
                 ": %s",
                 -amount, bank_keys[first], bank_keys[first + 1], operations[0], operations[1],
                 hf_status_name(status));
    for (size_t i = 0; i < 2; i++) {
        bank_checker_told_write(checker, operations[i], /* staged */ false, status);
        if (status == HF_OK)
            bank_checker_told_version(checker, operations[i], infos[i].version);
    }
}

void teller_adopt(struct teller *teller)
{
    struct bank_passed passed = teller->work->passed;
    struct hf_key_options options = teller_key_options(teller);
    struct hf_error error;
    bool own = passed.shared && passed.node == node_number(teller->node);
    if (passed.text[0] == '\0' || own)
        return;
    teller->work->passed.text[0] = '\0'; /* only one node adopts it */
    options.staged = teller_one_in(teller, 3) ? !passed.staged : passed.staged;
    struct teller_write write = { .number = passed.key,
                                  .staged = options.staged,
                                  .waiting = passed.operation,
                                  .shared = passed.shared,
                                  .contested = passed.shared && passed.staged };
    enum hf_status status =
        hf_key_adopt(teller->client, passed.text, &options, &write.key, &error);
    TELLER_TRACE(teller, "adopts %s%s: %s", bank_keys[passed.key],
                 options.staged ? ", to be staged" : "", hf_status_name(status));
    if (status != HF_OK)
        return;
    teller_think(teller);
    write_times(teller, &write, teller_below(teller, 3));
    end_key(teller, write.key, &write);
}
