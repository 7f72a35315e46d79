#include "sim/judge_bank.h"

#include "base/check.h"
#include "base/layout.h"
#include "sim/bank_judge.h"
#include "sim/judge_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define META_PREFIX  LAYOUT_NAMESPACE_DEFAULT LAYOUT_META_FOLDER
#define META_SUFFIX  ".json"
#define STATE_PREFIX LAYOUT_NAMESPACE_DEFAULT LAYOUT_STATE_FOLDER

/* ---- What is known --------------------------------------------------------------------- */

void *banked_new(struct judge_bank *judge, size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *space = arena_take(&judge->arena, size);
    heap_enter(before);
    check(space);
    return memset(space, 0, size);
}

struct banked_operation *banked_operation_of(const struct judge_bank *judge, uint64_t number)
{
    return number >= 1 && number <= judge->operation_count ? judge->operations[number - 1]
                                                           : NULL;
}

/* One that was asked for. */
static struct banked_operation *known_operation(const struct judge_bank *judge, uint64_t number)
{
    struct banked_operation *operation = banked_operation_of(judge, number);
    check(operation);
    return operation;
}

struct banked_txn *banked_txn_of(struct judge_bank *judge, struct view id)
{
    struct banked_txn *txn = map_get(&judge->txns, id);
    if (txn)
        return txn;
    void *old;
    txn = banked_new(judge, sizeof *txn);
    check(id.size <= BANKED_ID_SIZE);
    memcpy(txn->id, id.data, id.size);
    txn->next = judge->first_txn;
    judge->first_txn = txn;
    struct heap *before = heap_enter(NULL);
    check(map_put(&judge->txns, view_of(txn->id), txn, &old));
    heap_enter(before);
    return txn;
}

const struct banked_version *banked_worth(struct judge_bank *judge,
                                          const struct banked_key *key)
{
    const struct banked_stage *stage = &key->state.stage;
    bool commits = stage->changes && stage->txn[0] != '\0' &&
                   banked_txn_of(judge, view_of(stage->txn))->record == RECORD_COMMITS;
    return commits ? &stage->next : &key->state.now;
}

/* ---- What the store applied ------------------------------------------------------------ */

static void note_worth(struct judge_bank *judge, struct banked_key *key)
{
    const struct banked_version *worth = banked_worth(judge, key);
    size_t count = key->moment_count;
    if (count > 0 && strcmp(key->moments[count - 1].version.etag, worth->etag) == 0)
        return;
    key->moments = judge_grow(key->moments, count, sizeof *key->moments);
    key->moments[key->moment_count++] =
        (struct banked_moment){ .since = judge->changes, .version = *worth };
}

static void judge_balances(struct judge_bank *judge)
{
    int64_t sum = 0, pair = 0;
    for (size_t i = 0; i < judge->options.key_count; i++) {
        const struct banked_version *worth = banked_worth(judge, &judge->keys[i]);
        int64_t balance = worth->operation > 0 ? worth->balance : 0;
        sum += balance;
        pair = i % 2 == 0 ? balance : pair + balance;
        if (i % 2 == 1 && i / 2 < judge->options.pairs && pair < 0)
            BANK_FAIL(judge, "%s and %s are overdrawn: %" PRId64, judge->keys[i - 1].name,
                      judge->keys[i].name, pair);
    }
    if (sum != 0)
        BANK_FAIL(judge, "all balances come to %" PRId64, sum);
}

static struct banked_key *key_of(struct judge_bank *judge, struct view object)
{
    struct view name = view_from(object, strlen(META_PREFIX));
    for (size_t i = 0; i < judge->options.key_count; i++) {
        size_t size = strlen(judge->keys[i].name);
        if (name.size == size + strlen(META_SUFFIX) &&
            memcmp(name.data, judge->keys[i].name, size) == 0)
            return &judge->keys[i];
    }
    return NULL;
}

static void note_change(struct judge_bank *judge, const struct bucket_change *change)
{
    struct view key = change->key;
    if (view_starts_with(key, VIEW(META_PREFIX)) && key_of(judge, key))
        judge_document_changed(judge, key_of(judge, key), change);
    else if (view_starts_with(key, VIEW(LAYOUT_TXN_FOLDER)))
        judge_record_changed(judge, view_from(key, strlen(LAYOUT_TXN_FOLDER)), change);
    else if (view_starts_with(key, VIEW(STATE_PREFIX)))
        judge_body_changed(judge, view_from(key, strlen(STATE_PREFIX)), change);
    else
        return;
    judge->changes++;
    for (size_t i = 0; i < judge->options.key_count; i++)
        note_worth(judge, &judge->keys[i]);
    judge_balances(judge);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct heap *before = heap_enter(NULL);
    note_change(argument, change);
    heap_enter(before);
}

/* ---- What nodes do and are told -------------------------------------------------------- */

uint64_t judge_bank_writes(struct judge_bank *judge, size_t key, struct view txn,
                           int64_t balance)
{
    struct heap *before = heap_enter(NULL);
    struct banked_operation *operation = banked_new(judge, sizeof *operation);
    judge->operations =
        judge_grow(judge->operations, judge->operation_count, sizeof *judge->operations);
    judge->operations[judge->operation_count++] = operation;
    *operation = (struct banked_operation){ .number = judge->operation_count,
                                            .key = key,
                                            .balance = balance,
                                            .staged_since = judge->changes };
    if (txn.size > 0)
        operation->txn = banked_txn_of(judge, txn);
    heap_enter(before);
    return operation->number;
}

uint64_t judge_bank_removes(struct judge_bank *judge, size_t key, struct view txn)
{
    uint64_t number = judge_bank_writes(judge, key, txn, 0);
    known_operation(judge, number)->removes = true;
    return number;
}

void judge_bank_text(uint64_t operation, int64_t balance, size_t size, char *text)
{
    char head[64];
    int length = snprintf(head, sizeof head, "%" PRIu64 " %" PRId64 " ", operation, balance);
    memset(text, '.', size);
    check((size_t)length <= size);
    memcpy(text, head, (size_t)length);
}

static bool is_in_doubt(enum hf_status status)
{
    return status == HF_UNSURE || status == HF_TIMEOUT;
}

/* What was staged and is dropped since was never seen. */
static bool is_there(const struct judge_bank *judge, const struct banked_operation *operation)
{
    const struct banked_stage *stage = &judge->keys[operation->key].state.stage;
    return operation->published ||
           (stage->changes && stage->next.operation == operation->number);
}

/* Of several that write at a time the last is the one that landed last. */
static void note_staged(const struct banked_operation *operation)
{
    uint64_t *since = &operation->txn->staged_since[operation->key];
    operation->txn->told_staged[operation->key] = true;
    if (operation->staged_since > *since)
        *since = operation->staged_since;
}

void judge_bank_told_write(struct judge_bank *judge, uint64_t number, bool staged,
                           enum hf_status status)
{
    struct banked_operation *operation = known_operation(judge, number);
    const char *name = judge->keys[operation->key].name;
    bool seen = staged ? operation->staged : operation->published;
    if (status == HF_OK) {
        if (!seen && !operation->removes)
            BANK_FAIL(judge, "operation %" PRIu64 " on %s is told as done, and is not there",
                      number, name);
        if (operation->txn && staged)
            note_staged(operation);
    } else if (!is_in_doubt(status)) {
        operation->refused = true;
        if (is_there(judge, operation))
            BANK_FAIL(judge, "operation %" PRIu64 " on %s is told %s, and is there", number,
                      name, hf_status_name(status));
    }
}

void judge_bank_told_impossible(struct judge_bank *judge, uint64_t number,
                                enum hf_status status)
{
    if (status == HF_OK)
        BANK_FAIL(judge, "operation %" PRIu64 " is told as done, against its condition",
                  number);
    judge_bank_told_write(judge, number, /* staged */ false, status);
}

void judge_bank_told_taken(struct judge_bank *judge, struct view txn, size_t key)
{
    banked_txn_of(judge, txn)->told_taken[key] = true;
}

void judge_bank_told_published(struct judge_bank *judge, uint64_t number)
{
    const struct banked_operation *operation = known_operation(judge, number);
    if (!operation->published && !operation->removes)
        BANK_FAIL(judge, "operation %" PRIu64 " is told as published, and is not", number);
}

void judge_bank_told_dropped(struct judge_bank *judge, uint64_t number)
{
    struct banked_operation *operation = known_operation(judge, number);
    operation->dropped = true;
    if (operation->published)
        BANK_FAIL(judge, "operation %" PRIu64 " is told as dropped, and is published", number);
}

static void told_rolled_back(struct judge_bank *judge, struct banked_txn *txn)
{
    txn->told_rollback = true;
    if (txn->was_commit)
        BANK_FAIL(judge, "%s is told as rolled back, and is committed", txn->id);
}

void judge_bank_told_end(struct judge_bank *judge, struct view id, enum hf_decision asked,
                         enum hf_status status, enum hf_decision decision)
{
    struct banked_txn *txn = banked_txn_of(judge, id);
    bool commit = asked == HF_COMMIT;
    if (status == HF_MISMATCH && decision == asked)
        BANK_FAIL(judge, "%s is told as decided otherwise, and was not", txn->id);
    if (status == HF_OK || status == HF_MISMATCH) {
        bool committed = status == HF_OK ? commit : decision == HF_COMMIT;
        if (committed && !txn->was_commit)
            BANK_FAIL(judge, "%s is told as committed, and is not", txn->id);
        if (!committed)
            told_rolled_back(judge, txn);
    } else if (commit && (status == HF_EXPIRED || status == HF_LOST)) {
        told_rolled_back(judge, txn);
    } else if (!is_in_doubt(status) && status != HF_UNAVAILABLE) {
        BANK_FAIL(judge, "who ends %s is told %s", txn->id, hf_status_name(status));
    }
}

uint64_t judge_bank_now(const struct judge_bank *judge)
{
    return judge->changes;
}

/* Whether the key was worth this at a moment since then. */
static bool was_worth(const struct banked_key *key, uint64_t began, uint64_t operation,
                      const struct hf_key_info *info)
{
    for (size_t i = key->moment_count; i-- > 0;) {
        const struct banked_moment *moment = &key->moments[i];
        if (moment->version.operation == operation &&
            strcmp(moment->version.etag, info->etag) == 0)
            return true;
        if (moment->since <= began) /* the one that stood when it began */
            return false;
    }
    return operation == 0 && info->version == 0; /* nothing was ever written */
}

void judge_bank_told_get(struct judge_bank *judge, uint64_t began, size_t number,
                         enum hf_status status, struct view bytes,
                         const struct hf_key_info *info)
{
    const struct banked_key *key = &judge->keys[number];
    uint64_t operation = 0;
    int64_t balance;
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT)
        return;
    if (status != HF_OK && status != HF_NOT_FOUND) {
        BANK_FAIL(judge, "a reader of %s is told %s", key->name, hf_status_name(status));
        return;
    }
    if (status == HF_OK && !banked_text_read(bytes, &operation, &balance)) {
        BANK_FAIL(judge, "a reader of %s is shown what nobody writes", key->name);
        return;
    }
    if (!was_worth(key, began, operation, info))
        BANK_FAIL(judge,
                  "a reader of %s is shown operation %" PRIu64
                  ", which it did not hold since it began to read",
                  key->name, operation);
}

/* ---- Beginning and end ----------------------------------------------------------------- */

struct judge_bank *judge_bank_new(struct run *run, const struct judge_bank_options *options)
{
    struct judge_bank *judge = calloc(1, sizeof *judge);
    check(judge && options->key_count <= BANK_KEYS_MAX);
    judge->run = run;
    judge->options = *options;
    for (size_t i = 0; i < options->key_count; i++) {
        judge->keys[i].name = options->keys[i];
        judge->keys[i].number = i;
    }
    judge->watch = (struct bucket_watch){ .changed = changed, .argument = judge };
    bucket_add_watch(net_bucket(run->net), &judge->watch);
    return judge;
}

void judge_bank_free(struct judge_bank *judge)
{
    for (size_t i = 0; i < judge->options.key_count; i++) {
        judged_version_free(judge->keys[i].table);
        free(judge->keys[i].moments);
    }
    map_release(&judge->txns);
    map_release(&judge->bodies);
    free(judge->operations);
    arena_release(&judge->arena);
    free(judge);
}

static void judge_key_at_rest(struct judge_bank *judge, const struct banked_key *key)
{
    if (key->state.stage.there)
        BANK_FAIL(judge, "in the end %s is taken for '%s'", key->name, key->state.stage.txn);
    for (size_t i = 0; key->table && i < key->table->lease_count; i++)
        if (key->table->leases[i].active)
            BANK_FAIL(judge, "in the end %s is leased under token %" PRIu64, key->name,
                      key->table->leases[i].token);
}

static bool is_named(const struct judge_bank *judge, const struct banked_body *body)
{
    for (size_t i = 0; i < judge->options.key_count; i++)
        if (banked_names(&judge->keys[i], body->name))
            return true;
    return false;
}

void judge_bank_end(struct judge_bank *judge)
{
    for (size_t i = 0; i < judge->options.key_count; i++)
        judge_key_at_rest(judge, &judge->keys[i]);
    for (const struct banked_txn *txn = judge->first_txn; txn; txn = txn->next)
        if (txn->record != RECORD_IS_ABSENT)
            BANK_FAIL(judge, "in the end the record of %s is left", txn->id);
    for (const struct banked_body *body = judge->first_body; body; body = body->next)
        if (body->there && !is_named(judge, body))
            BANK_FAIL(judge, "in the end the body %.*s is left, which nothing names",
                      VIEW_ARGS(body->name));
}
