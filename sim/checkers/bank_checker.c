/* SPDX-License-Identifier: Apache-2.0 */
/* bank_checker.c: checks balances at each write, the results that readers and writers get,
 * and what is left at the end. bank_checker.h lists the reasons to fail a run. */
#include "sim/checkers/bank_checker.h"

#include "base/check.h"
#include "base/layout.h"
#include "sim/checkers/bank_inside.h"
#include "sim/checkers/checker_inside.h"

#include <inttypes.h>
#include <stdlib.h>

#define META_PREFIX  LAYOUT_NAMESPACE_DEFAULT LAYOUT_META_FOLDER
#define META_SUFFIX  ".json"
#define STATE_PREFIX LAYOUT_NAMESPACE_DEFAULT LAYOUT_STATE_FOLDER

/* ---- What the checker knows ------------------------------------------------------------ */

void *banked_new(struct bank_checker *checker, size_t size)
{
    struct heap *before = heap_enter(NULL);
    void *space = arena_take(&checker->arena, size);
    heap_enter(before);
    check(space);
    return memset(space, 0, size);
}

struct banked_operation *banked_operation_of(const struct bank_checker *checker,
                                             uint64_t number)
{
    return number >= 1 && number <= checker->operation_count ? checker->operations[number - 1]
                                                             : NULL;
}

/* Finds an operation that a node has reported; it must exist. */
static struct banked_operation *known_operation(const struct bank_checker *checker,
                                                uint64_t number)
{
    struct banked_operation *operation = banked_operation_of(checker, number);
    check(operation);
    return operation;
}

struct banked_txn *banked_txn_of(struct bank_checker *checker, struct view id)
{
    struct banked_txn *txn = map_get(&checker->txns, id);
    if (txn)
        return txn;
    void *old;
    txn = banked_new(checker, sizeof *txn);
    check(id.size <= BANKED_ID_SIZE);
    memcpy(txn->id, id.data, id.size);
    txn->next = checker->first_txn;
    checker->first_txn = txn;
    struct heap *before = heap_enter(NULL);
    check(map_put(&checker->txns, view_of(txn->id), txn, &old));
    heap_enter(before);
    return txn;
}

const struct banked_version *banked_worth(struct bank_checker *checker,
                                          const struct banked_key *key)
{
    const struct banked_stage *stage = &key->state.stage;
    bool commits = stage->changes && stage->txn[0] != '\0' &&
                   banked_txn_of(checker, view_of(stage->txn))->record == RECORD_COMMITS;
    return commits ? &stage->next : &key->state.now;
}

/* ---- What the store applied ------------------------------------------------------------ */

static void note_worth(struct bank_checker *checker, struct banked_key *key)
{
    const struct banked_version *worth = banked_worth(checker, key);
    size_t count = key->moment_count;
    if (count > 0 && strcmp(key->moments[count - 1].version.etag, worth->etag) == 0)
        return;
    key->moments = checker_grow(key->moments, count, sizeof *key->moments);
    key->moments[key->moment_count++] =
        (struct banked_moment){ .since = checker->changes, .version = *worth };
}

static void checker_balances(struct bank_checker *checker)
{
    int64_t sum = 0, pair = 0;
    for (size_t i = 0; i < checker->options.key_count; i++) {
        const struct banked_version *worth = banked_worth(checker, &checker->keys[i]);
        int64_t balance = worth->operation > 0 ? worth->balance : 0;
        sum += balance;
        pair = i % 2 == 0 ? balance : pair + balance;
        if (i % 2 == 1 && i / 2 < checker->options.pairs && pair < 0)
            BANK_FAIL(checker, "%s and %s are overdrawn: %" PRId64, checker->keys[i - 1].name,
                      checker->keys[i].name, pair);
    }
    if (sum != 0)
        BANK_FAIL(checker, "all balances come to %" PRId64, sum);
}

static struct banked_key *key_of(struct bank_checker *checker, struct view object)
{
    struct view name = view_from(object, strlen(META_PREFIX));
    for (size_t i = 0; i < checker->options.key_count; i++) {
        size_t size = strlen(checker->keys[i].name);
        if (name.size == size + strlen(META_SUFFIX) &&
            memcmp(name.data, checker->keys[i].name, size) == 0)
            return &checker->keys[i];
    }
    return NULL;
}

static void note_change(struct bank_checker *checker, const struct bucket_change *change)
{
    struct view key = change->key;
    if (view_starts_with(key, VIEW(META_PREFIX)) && key_of(checker, key))
        checker_document_changed(checker, key_of(checker, key), change);
    else if (view_starts_with(key, VIEW(LAYOUT_TXN_FOLDER)))
        checker_record_changed(checker, view_from(key, strlen(LAYOUT_TXN_FOLDER)), change);
    else if (view_starts_with(key, VIEW(STATE_PREFIX)))
        checker_body_changed(checker, view_from(key, strlen(STATE_PREFIX)), change);
    else
        return;
    checker->changes++;
    for (size_t i = 0; i < checker->options.key_count; i++)
        note_worth(checker, &checker->keys[i]);
    if (change->more)
        return;
    checker_step_ended(checker);
    checker_balances(checker);
}

static void changed(void *argument, const struct bucket_change *change)
{
    struct heap *before = heap_enter(NULL);
    note_change(argument, change);
    heap_enter(before);
}

/* ---- Operations and results of nodes --------------------------------------------------- */

uint64_t bank_checker_writes(struct bank_checker *checker, size_t key, struct view txn,
                             int64_t balance)
{
    struct heap *before = heap_enter(NULL);
    struct banked_operation *operation = banked_new(checker, sizeof *operation);
    checker->operations = checker_grow(checker->operations, checker->operation_count,
                                       sizeof *checker->operations);
    checker->operations[checker->operation_count++] = operation;
    *operation = (struct banked_operation){ .number = checker->operation_count,
                                            .key = key,
                                            .balance = balance,
                                            .staged_since = checker->changes };
    if (txn.size > 0)
        operation->txn = banked_txn_of(checker, txn);
    heap_enter(before);
    return operation->number;
}

uint64_t bank_checker_removes(struct bank_checker *checker, size_t key, struct view txn)
{
    uint64_t number = bank_checker_writes(checker, key, txn, 0);
    known_operation(checker, number)->removes = true;
    return number;
}

void bank_checker_text(uint64_t operation, int64_t balance, size_t size, char *text)
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

/* A stage that has since been discarded was never visible. */
static bool is_there(const struct bank_checker *checker,
                     const struct banked_operation *operation)
{
    const struct banked_stage *stage = &checker->keys[operation->key].state.stage;
    return operation->published ||
           (stage->changes && stage->next.operation == operation->number);
}

/* Whether a node may keep a change until it commits: on a store with steps, and unless the record,
 * which is pending, names the key, because several processes then share the transaction. A change
 * that removes a value does not show in a document which operation it is. */
static bool may_be_kept(const struct bank_checker *checker,
                        const struct banked_operation *operation)
{
    const struct banked_stage *stage = &checker->keys[operation->key].state.stage;
    bool removed = operation->removes && stage->changes && stage->next.removed;
    return operation->txn && !operation->staged && !removed &&
           !operation->txn->names[operation->key] &&
           bucket_steps(net_bucket(checker->run->net));
}

/* Of several simultaneous writers, the last is the one whose write took effect last. */
static void note_staged(const struct bank_checker *checker,
                        const struct banked_operation *operation)
{
    uint64_t *since = &operation->txn->staged_since[operation->key];
    operation->txn->told_staged[operation->key] = true;
    operation->txn->told_kept[operation->key] =
        may_be_kept(checker, operation) ? operation->number : 0;
    if (operation->staged_since > *since)
        *since = operation->staged_since;
}

void bank_checker_told_write(struct bank_checker *checker, uint64_t number, bool staged,
                             enum hf_status status)
{
    struct banked_operation *operation = known_operation(checker, number);
    const char *name = checker->keys[operation->key].name;
    bool seen = staged ? operation->staged : operation->published;
    if (status == HF_OK) {
        operation->done = true;
        bool kept =
            staged && may_be_kept(checker, operation); /* checked when it is committed */
        if (!seen && !operation->removes && !kept)
            BANK_FAIL(checker, "operation %" PRIu64 " on %s is told as done, and is not there",
                      number, name);
        if (operation->txn && staged)
            note_staged(checker, operation);
    } else if (!is_in_doubt(status)) {
        operation->refused = true;
        if (is_there(checker, operation))
            BANK_FAIL(checker, "operation %" PRIu64 " on %s is told %s, and is there", number,
                      name, hf_status_name(status));
    }
}

/* Whether a document has shown a version with this number that holds nothing. */
static bool was_removed_as(const struct banked_key *key, uint64_t number)
{
    for (size_t i = 0; i < key->moment_count; i++)
        if (key->moments[i].version.removed && key->moments[i].version.number == number)
            return true;
    return false;
}

void bank_checker_told_version(struct bank_checker *checker, uint64_t number, uint64_t version)
{
    const struct banked_operation *operation = known_operation(checker, number);
    struct banked_key *key = &checker->keys[operation->key];
    if (!operation->removes) {
        if (operation->version != version)
            BANK_FAIL(checker,
                      "operation %" PRIu64 " on %s is told to be version %" PRIu64
                      ", and is %" PRIu64,
                      number, key->name, version, operation->version);
        return;
    }
    for (size_t i = 0; i < key->unseen_count; i++)
        if (key->unseen[i].number == version && !key->unseen[i].told) {
            key->unseen[i].told = true;
            return;
        }
    if (!was_removed_as(key, version))
        BANK_FAIL(checker,
                  "operation %" PRIu64 " on %s is told to have removed it as version %" PRIu64
                  ", which did not",
                  number, key->name, version);
}

size_t banked_open_removals(const struct bank_checker *checker, const struct banked_key *key)
{
    size_t count = 0;
    for (size_t i = 0; i < checker->operation_count; i++) {
        const struct banked_operation *operation = checker->operations[i];
        count += operation->key == key->number && operation->removes && !operation->txn &&
                 !operation->refused && !operation->done;
    }
    return count;
}

void bank_checker_told_impossible(struct bank_checker *checker, uint64_t number,
                                  enum hf_status status)
{
    if (status == HF_OK)
        BANK_FAIL(checker, "operation %" PRIu64 " is told as done, against its condition",
                  number);
    bank_checker_told_write(checker, number, /* staged */ false, status);
}

void bank_checker_told_taken(struct bank_checker *checker, struct view txn, size_t key)
{
    banked_txn_of(checker, txn)->told_taken[key] = true;
}

void bank_checker_told_refused(struct bank_checker *checker, struct view id, size_t number,
                               unsigned node)
{
    const struct banked_txn *txn = banked_txn_of(checker, id);
    const struct banked_key *key = &checker->keys[number];
    if (!txn->told_taken[number] && key->taker == node && banked_is_held_for(key, id))
        BANK_FAIL(checker, "%s is told that it got no key, and holds %s", txn->id, key->name);
}

void bank_checker_told_published(struct bank_checker *checker, uint64_t number)
{
    const struct banked_operation *operation = known_operation(checker, number);
    if (!operation->published && !operation->removes)
        BANK_FAIL(checker, "operation %" PRIu64 " is told as published, and is not", number);
}

void bank_checker_told_dropped(struct bank_checker *checker, uint64_t number)
{
    struct banked_operation *operation = known_operation(checker, number);
    operation->dropped = true;
    if (operation->published)
        BANK_FAIL(checker, "operation %" PRIu64 " is told as dropped, and is published",
                  number);
}

static void told_rolled_back(struct bank_checker *checker, struct banked_txn *txn)
{
    txn->told_rollback = true;
    if (txn->was_commit)
        BANK_FAIL(checker, "%s is told as rolled back, and is committed", txn->id);
}

void bank_checker_told_end(struct bank_checker *checker, struct view id, enum hf_decision asked,
                           enum hf_status status, enum hf_decision decision)
{
    struct banked_txn *txn = banked_txn_of(checker, id);
    bool commit = asked == HF_COMMIT;
    if (status == HF_MISMATCH && decision == asked)
        BANK_FAIL(checker, "%s is told as decided otherwise, and was not", txn->id);
    if (status == HF_OK || status == HF_MISMATCH) {
        bool committed = status == HF_OK ? commit : decision == HF_COMMIT;
        if (committed && !txn->was_commit)
            BANK_FAIL(checker, "%s is told as committed, and is not", txn->id);
        if (!committed)
            told_rolled_back(checker, txn);
    } else if (commit && (status == HF_EXPIRED || status == HF_LOST)) {
        told_rolled_back(checker, txn);
    } else if (!is_in_doubt(status) && status != HF_UNAVAILABLE) {
        BANK_FAIL(checker, "who ends %s is told %s", txn->id, hf_status_name(status));
    }
}

void bank_checker_told_not_committed(struct bank_checker *checker, struct view id)
{
    const struct banked_txn *txn = banked_txn_of(checker, id);
    if (txn->was_commit)
        BANK_FAIL(checker, "the commit of %s is told as not done, and was made", txn->id);
}

uint64_t bank_checker_now(const struct bank_checker *checker)
{
    return checker->changes;
}

/* Whether the key had this value at some instant since the read began. */
static bool was_worth(const struct banked_key *key, uint64_t began, uint64_t operation,
                      const struct hf_key_info *info)
{
    for (size_t i = key->moment_count; i-- > 0;) {
        const struct banked_moment *moment = &key->moments[i];
        if (moment->version.operation == operation &&
            strcmp(moment->version.etag, info->etag) == 0)
            return true;
        if (moment->since <= began) /* the version when the read began */
            return false;
    }
    return operation == 0 && info->version == 0; /* nothing was ever written */
}

void bank_checker_told_get(struct bank_checker *checker, uint64_t began, size_t number,
                           enum hf_status status, struct view bytes,
                           const struct hf_key_info *info)
{
    const struct banked_key *key = &checker->keys[number];
    uint64_t operation = 0;
    int64_t balance;
    if (status == HF_UNAVAILABLE || status == HF_TIMEOUT)
        return;
    if (status != HF_OK && status != HF_NOT_FOUND) {
        BANK_FAIL(checker, "a reader of %s is told %s", key->name, hf_status_name(status));
        return;
    }
    if (status == HF_OK && !banked_text_read(bytes, &operation, &balance)) {
        BANK_FAIL(checker, "a reader of %s is shown what nobody writes", key->name);
        return;
    }
    if (!was_worth(key, began, operation, info))
        BANK_FAIL(checker,
                  "a reader of %s is shown operation %" PRIu64
                  ", which it did not hold since it began to read",
                  key->name, operation);
}

/* ---- Start and end --------------------------------------------------------------------- */

struct bank_checker *bank_checker_new(struct run *run,
                                      const struct bank_checker_options *options)
{
    struct bank_checker *checker = calloc(1, sizeof *checker);
    check(checker && options->key_count <= BANK_KEYS_MAX);
    checker->run = run;
    checker->options = *options;
    for (size_t i = 0; i < options->key_count; i++) {
        checker->keys[i].name = options->keys[i];
        checker->keys[i].number = i;
    }
    checker->watch = (struct bucket_watch){ .changed = changed, .argument = checker };
    bucket_add_watch(net_bucket(run->net), &checker->watch);
    return checker;
}

void bank_checker_free(struct bank_checker *checker)
{
    for (size_t i = 0; i < checker->options.key_count; i++) {
        checked_version_free(checker->keys[i].table);
        free(checker->keys[i].moments);
        free(checker->keys[i].unseen);
    }
    map_release(&checker->sessions);
    map_release(&checker->txns);
    map_release(&checker->bodies);
    free(checker->operations);
    arena_release(&checker->arena);
    free(checker);
}

static void checker_key_at_rest(struct bank_checker *checker, const struct banked_key *key)
{
    if (key->state.stage.there)
        BANK_FAIL(checker, "in the end %s is taken for '%s'", key->name, key->state.stage.txn);
    for (size_t i = 0; key->table && i < key->table->lease_count; i++)
        if (key->table->leases[i].active)
            BANK_FAIL(checker, "in the end %s is leased under token %" PRIu64, key->name,
                      key->table->leases[i].token);
}

static bool is_named(const struct bank_checker *checker, const struct banked_body *body)
{
    for (size_t i = 0; i < checker->options.key_count; i++)
        if (banked_names(&checker->keys[i], body->name))
            return true;
    return false;
}

void bank_checker_end(struct bank_checker *checker)
{
    for (size_t i = 0; i < checker->options.key_count; i++)
        checker_key_at_rest(checker, &checker->keys[i]);
    for (const struct banked_txn *txn = checker->first_txn; txn; txn = txn->next)
        if (txn->record != RECORD_IS_ABSENT)
            BANK_FAIL(checker, "in the end the record of %s is left", txn->id);
    for (const struct banked_body *body = checker->first_body; body; body = body->next)
        if (body->there && !is_named(checker, body))
            BANK_FAIL(checker, "in the end the body %.*s is left, which nothing names",
                      VIEW_ARGS(body->name));
}
