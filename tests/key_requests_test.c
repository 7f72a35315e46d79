/* SPDX-License-Identifier: Apache-2.0 */
/* key_requests_test.c KIND: how many requests keys and transactions take, and to which objects.
 * These counts are asserted to keep them low. KIND is mem or sqlite.
 *
 * Writes of a transaction over k warm keys, which the last tests assert and print:
 *
 *   entry      1       lets the sweeper find the record in any case
 *   record     3       begun; decided, with the names of all keys; all of them settled
 *   documents  3k      each taken with its lease; staged; settled and released
 *   states     0 or k  bodies of states above 4 KiB
 *
 * That makes 3k + 4 and 4k + 4 requests. Old bodies are deleted together, as many at once as the
 * store accepts. */
#include "key_kit.h"
#include "store/observe.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

/* ---- A store that counts ------------------------------------------------------------- */

enum where { ENTRY, RECORD, DOCUMENT_, STATE, ELSEWHERE, WHERES };

static const char *const where_names[WHERES] = { "entry", "record", "documents", "states",
                                                 "elsewhere" };

/* `looks` are gets that were answered by "not modified"; `deletes` are batches of them. */
struct requests {
    unsigned gets, looks, puts, deletes, lists;
};

struct ledger {
    struct env_mutex mutex;
    struct requests at[WHERES];
};

static bool has(struct view key, const char *part)
{
    for (size_t i = 0; i + strlen(part) <= key.size; i++)
        if (memcmp(key.data + i, part, strlen(part)) == 0)
            return true;
    return false;
}

static enum where where_is(struct view key)
{
    if (has(key, ".txn-decisions/e/"))
        return ENTRY;
    if (has(key, ".txn-decisions/m/"))
        return RECORD;
    if (has(key, "/meta/"))
        return DOCUMENT_;
    return has(key, "/state/") ? STATE : ELSEWHERE;
}

/* Where a change is one step, one that finds what we had is told as a get without bytes. */
static bool is_look(const struct observation *seen)
{
    enum hf_status status = seen->error->status;
    return status == HF_NOT_MODIFIED || (status == HF_OK && seen->bytes_received == 0);
}

static void saw(void *argument, const struct observation *seen)
{
    struct ledger *ledger = argument;
    struct requests *at = &ledger->at[where_is(seen->key)];
    env_mutex_lock(&ledger->mutex);
    switch (seen->kind) {
    case CALL_GET:
    case CALL_GET_FILE:
        at->gets += !is_look(seen);
        at->looks += is_look(seen);
        break;
    case CALL_PUT:
    case CALL_PUT_FILE: at->puts++; break;
    case CALL_DELETE: at->deletes += seen->first_of_batch; break;
    case CALL_LIST: at->lists++; break;
    case CALL_KIND_COUNT: break;
    }
    env_mutex_unlock(&ledger->mutex);
}

static void ledger_take(struct ledger *ledger, struct requests ret_at[WHERES])
{
    env_mutex_lock(&ledger->mutex);
    memcpy(ret_at, ledger->at, sizeof ledger->at);
    memset(ledger->at, 0, sizeof ledger->at);
    env_mutex_unlock(&ledger->mutex);
}

/* ---- Scenes -------------------------------------------------------------------------- */

#define KEYS_MAX 10

/* Two clients of one store; what the first asks for is counted. */
struct scene {
    struct world world;
    struct ledger ledger;
    struct store *counted;
    struct peer one; /* without its way */
    struct hf_client *two;
    struct hf_key *key;
    char *bytes;
};

#define LARGE 5000

/* The store changes several objects in one step: a transaction then has no write of its own for its
 * record once all keys are settled, and none to stage a small change. */
static bool in_steps;

static void scene_open(struct scene *scene)
{
    struct store *inner;
    *scene = (struct scene){ .key = NULL };
    world_open(&scene->world);
    in_steps = scene->world.truth->ops->change != NULL;
    env_mutex_init(env_real(), &scene->ledger.mutex);
    MUST(store_open(env_real(), view_of(scene->world.url), &inner, &error));
    MUST(store_observe(inner, (struct observer){ saw, &scene->ledger }, &scene->counted,
                       &error));
    MUST(client_new(scene->counted, NULL, &scene->one.client, &error));
    MUST(client_new(inner, NULL, &scene->two, &error));
    scene->bytes = bytes_of(LARGE, 1);
}

static void scene_close(struct scene *scene)
{
    hf_key_free(scene->key);
    hf_client_close(scene->one.client);
    hf_client_close(scene->two);
    store_close(scene->counted);
    env_mutex_release(&scene->ledger.mutex);
    world_close(&scene->world);
    free(scene->bytes);
}

static void write_bytes(struct scene *scene, struct hf_key *key, size_t size)
{
    MUST(hf_key_update(key, scene->bytes, size, NULL, NULL, &error));
}

/* ---- What was there before ----------------------------------------------------------- */

static void warm_of(struct scene *scene, size_t size, bool staged)
{
    scene->key = key_with(&scene->one, "k", 60000, staged);
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    write_bytes(scene, scene->key, size);
    MUST(hf_key_release(scene->key, HF_COMMIT, &error));
}

static void warm(struct scene *scene)
{
    warm_of(scene, 10, false);
}

static void warm_large(struct scene *scene)
{
    warm_of(scene, LARGE, false);
}

static void warm_staged(struct scene *scene)
{
    warm_of(scene, 10, true);
}

static void warm_staged_large(struct scene *scene)
{
    warm_of(scene, LARGE, true);
}

static void held(struct scene *scene)
{
    warm(scene);
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
}

static void held_large(struct scene *scene)
{
    warm_large(scene);
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
}

/* By another client, so that the first has never looked. */
static void written_by_other(struct scene *scene, size_t size)
{
    struct peer other = { .client = scene->two };
    struct hf_key *key = key_held(&other, "k");
    write_bytes(scene, key, size);
    done(key);
}

static void of_others(struct scene *scene)
{
    written_by_other(scene, 10);
}

static void large_of_others(struct scene *scene)
{
    written_by_other(scene, LARGE);
}

static void get(struct scene *scene)
{
    void *data;
    size_t size;
    MUST(hf_key_get(scene->one.client, "k", LARGE, &data, &size, NULL, &error));
    hf_free(data);
}

static void seen_before(struct scene *scene)
{
    of_others(scene);
    get(scene);
}

static void seen_large(struct scene *scene)
{
    large_of_others(scene);
    get(scene);
}

static void never_written(struct scene *scene)
{
    (void)scene;
}

/* ---- What is counted ----------------------------------------------------------------- */

static void whole_life_of(struct scene *scene, size_t size)
{
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    write_bytes(scene, scene->key, size);
    MUST(hf_key_release(scene->key, HF_COMMIT, &error));
}

static void whole_life(struct scene *scene)
{
    whole_life_of(scene, STATE_INLINE_MAX);
}

static void whole_life_large(struct scene *scene)
{
    whole_life_of(scene, STATE_INLINE_MAX + 1);
}

static void small_again(struct scene *scene)
{
    whole_life_of(scene, 10);
}

static void five_large(struct scene *scene)
{
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    for (size_t i = 0; i < 5; i++)
        write_bytes(scene, scene->key, LARGE);
    MUST(hf_key_release(scene->key, HF_COMMIT, &error));
}

static void only_held(struct scene *scene)
{
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    MUST(hf_key_release(scene->key, HF_COMMIT, &error));
}

static void rolled_back(struct scene *scene)
{
    MUST(hf_key_acquire(scene->key, 0, NULL, &error));
    write_bytes(scene, scene->key, LARGE);
    MUST(hf_key_release(scene->key, HF_ROLLBACK, &error));
}

static void keepalive(struct scene *scene)
{
    MUST(hf_key_keepalive(scene->key, &error));
}

static void remove_it(struct scene *scene)
{
    MUST(hf_key_remove(scene->key, NULL, NULL, &error));
}

static void change_at_once(struct scene *scene)
{
    MUST(hf_key_change(scene->one.client, "k", scene->bytes, STATE_INLINE_MAX, NULL, NULL,
                       &error));
}

static void change_at_once_large(struct scene *scene)
{
    MUST(hf_key_change(scene->one.client, "k", scene->bytes, LARGE, NULL, NULL, &error));
}

static void update_without_lease(struct scene *scene)
{
    refuses(scene->key, NULL, HF_KEY_LEASE_REQUIRED, HF_DENIED);
}

static void update_another_version(struct scene *scene)
{
    refuses(scene->key,
            &(struct hf_key_if){
                .struct_size = sizeof(struct hf_key_if), .version_set = true, .version = 7 },
            HF_KEY_VERSION_CONFLICT, HF_CONFLICT);
}

static void update_another_version_large(struct scene *scene)
{
    struct hf_key_if other = { .struct_size = sizeof other, .version_set = true, .version = 7 };
    IS(HF_CONFLICT, hf_key_update(scene->key, scene->bytes, LARGE, &other, NULL, &error));
}

static void get_nothing(struct scene *scene)
{
    void *data;
    size_t size;
    IS(HF_NOT_FOUND, hf_key_get(scene->one.client, "k", 10, &data, &size, NULL, &error));
}

static void describe(struct scene *scene)
{
    struct key_description seen;
    MUST(key_describe(scene->one.client, "k", &seen, &error));
}

/* ---- One key ------------------------------------------------------------------------- */

struct row {
    const char *sentence;
    void (*prepare)(struct scene *scene);
    void (*act)(struct scene *scene);
    struct requests document, state;
};

static const struct row rows[] = {
    { "acquire, update, release of a warm key: three puts",
      warm,
      whole_life,
      { .puts = 3 },
      { 0 } },
    { "a change without a lease: one put", warm, change_at_once, { .puts = 1 }, { 0 } },
    { "of a key that another client wrote: one get more",
      of_others,
      change_at_once,
      { .gets = 1, .puts = 1 },
      { 0 } },
    { "of a large state: one put more, of its body",
      warm,
      change_at_once_large,
      { .puts = 1 },
      { .puts = 1 } },
    { "above 4 KiB: four, and one delete of the old body",
      warm_large,
      whole_life_large,
      { .puts = 3 },
      { .puts = 1, .deletes = 1 } },
    { "a small state after a large one: three, and one delete",
      warm_large,
      small_again,
      { .puts = 3 },
      { .deletes = 1 } },
    { "five large changes in one lease: two puts each, and one delete of all old bodies",
      warm_large,
      five_large,
      { .puts = 7 },
      { .puts = 5, .deletes = 1 } },
    { "staged and published by the release: three",
      warm_staged,
      whole_life,
      { .puts = 3 },
      { 0 } },
    { "staged above 4 KiB: four, and one delete",
      warm_staged_large,
      whole_life_large,
      { .puts = 3 },
      { .puts = 1, .deletes = 1 } },
    { "staged and rolled back: four, and one delete of what was staged",
      warm_staged_large,
      rolled_back,
      { .puts = 3 },
      { .puts = 1, .deletes = 1 } },
    { "acquire and release without a change: two", warm, only_held, { .puts = 2 }, { 0 } },
    { "keepalive: one put", held, keepalive, { .puts = 1 }, { 0 } },
    { "a removal: one put, of a large state too", held_large, remove_it, { .puts = 1 }, { 0 } },
    { "an update without a lease asks nothing", warm, update_without_lease, { 0 }, { 0 } },
    { "an update refused by its condition: one conditional get",
      held,
      update_another_version,
      { .looks = 1 },
      { 0 } },
    { "a large update refused by its condition: its body comes and goes as well",
      held,
      update_another_version_large,
      { .looks = 1 },
      { .puts = 1, .deletes = 1 } },
    { "to read what somebody published: one get", of_others, get, { .gets = 1 }, { 0 } },
    { "and again: one conditional get", seen_before, get, { .looks = 1 }, { 0 } },
    { "above 4 KiB: one get more", large_of_others, get, { .gets = 1 }, { .gets = 1 } },
    { "and again: one of them conditional", seen_large, get, { .looks = 1 }, { .gets = 1 } },
    { "to read what nobody has written: one get",
      never_written,
      get_nothing,
      { .gets = 1 },
      { 0 } },
    { "to describe a key: one get", of_others, describe, { .gets = 1 }, { 0 } },
    { "and again: one conditional get", seen_before, describe, { .looks = 1 }, { 0 } },
};
#define ROWS (sizeof rows / sizeof *rows)

/* Each count is the one expected, at each place. */
static void compare(const struct requests at[WHERES], const struct requests expected[WHERES])
{
    for (size_t i = 0; i < WHERES; i++) {
        const struct requests *is = &at[i], *be = &expected[i];
        if (memcmp(is, be, sizeof *is) != 0)
            FAIL("%s: %u gets, %u conditional ones, %u puts, %u deletes, %u lists; expected "
                 "%u, %u, %u, %u, %u",
                 where_names[i], is->gets, is->looks, is->puts, is->deletes, is->lists,
                 be->gets, be->looks, be->puts, be->deletes, be->lists);
    }
}

static void run_row(void **state)
{
    const struct row *row = *state;
    struct scene scene;
    struct requests at[WHERES],
        expected[WHERES] = { [DOCUMENT_] = row->document, [STATE] = row->state };
    scene_open(&scene);
    row->prepare(&scene);
    ledger_take(&scene.ledger, at);
    row->act(&scene);
    ledger_take(&scene.ledger, at);
    compare(at, expected);
    scene_close(&scene);
}

/* ---- Transactions -------------------------------------------------------------------- */

static const char *const key_names[KEYS_MAX] = { "a/0", "a/1", "a/2", "a/3", "a/4",
                                                 "a/5", "a/6", "a/7", "a/8", "a/9" };

/* Keys that this client knows, each with a state of this size. */
static void warm_keys(struct scene *scene, size_t count, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        struct hf_key *key = key_held(&scene->one, key_names[i]);
        write_bytes(scene, key, size);
        done(key);
    }
}

static struct hf_txn *transaction(struct scene *scene, size_t count, size_t size)
{
    struct hf_txn *txn;
    struct hf_key *keys[KEYS_MAX];
    MUST(hf_txn_begin(scene->one.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, key_names, count, NULL, 0, keys, &error));
    for (size_t i = 0; i < count && size > 0; i++)
        write_bytes(scene, keys[i], size);
    return txn;
}

static unsigned puts_of(const struct requests at[WHERES])
{
    unsigned puts = 0;
    for (size_t i = 0; i < WHERES; i++)
        puts += at[i].puts;
    return puts;
}

static void print_row(size_t count, const char *what, const struct requests at[WHERES],
                      size_t bound)
{
    print_message("# %2zu keys %-6s | entry %u, record %u, documents %2u, states %2u: %2u "
                  "writes, at most %2zu | gets %u | deletes %u\n",
                  count, what, at[ENTRY].puts, at[RECORD].puts, at[DOCUMENT_].puts,
                  at[STATE].puts, puts_of(at), bound, at[RECORD].gets, at[STATE].deletes);
}

static void commit_over(size_t count, size_t size, struct requests at[WHERES])
{
    struct scene scene;
    scene_open(&scene);
    warm_keys(&scene, count, size);
    ledger_take(&scene.ledger, at);
    struct hf_txn *txn = transaction(&scene, count, size);
    MUST(hf_txn_commit(txn, NULL, &error));
    hf_txn_free(txn);
    ledger_take(&scene.ledger, at);
    scene_close(&scene);
}

static const size_t key_counts[] = { 1, 2, 5, KEYS_MAX };
#define COUNTS (sizeof key_counts / sizeof *key_counts)

static void small_transactions(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        unsigned k = (unsigned)key_counts[i];
        struct requests at[WHERES];
        commit_over(k, STATE_INLINE_MAX, at);
        /* A change looks at its document only if what is known of it is older than a moment. */
        unsigned looks =
            in_steps && at[DOCUMENT_].looks < k ? at[DOCUMENT_].looks : in_steps * k;
        const struct requests expected[WHERES] = {
            [ENTRY] = { .puts = 1 },
            [RECORD] = { .puts = in_steps ? 2 : 3 },
            [DOCUMENT_] = { .looks = looks, .puts = in_steps ? 2 * k : 3 * k },
        };
        print_row(k, "inline", at, 3 * k + 5);
        compare(at, expected);
        ASSERT(puts_of(at) <= 3 * k + 5);
    }
}

static void large_transactions(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNTS; i++) {
        unsigned k = (unsigned)key_counts[i];
        struct requests at[WHERES];
        commit_over(k, LARGE, at);
        const struct requests expected[WHERES] = { [ENTRY] = { .puts = 1 },
                                                   [RECORD] = { .puts = in_steps ? 2 : 3 },
                                                   [DOCUMENT_] = { .puts = 3 * k },
                                                   [STATE] = { .puts = k, .deletes = 1 } };
        print_row(k, "bodies", at, 4 * k + 5);
        compare(at, expected);
        ASSERT(puts_of(at) <= 4 * k + 5);
    }
}

/* Nobody needs to know of a rollback that all are settled. */
static void rolled_back_transaction(void **state)
{
    (void)state;
    struct scene scene;
    struct requests at[WHERES];
    scene_open(&scene);
    warm_keys(&scene, 5, LARGE);
    ledger_take(&scene.ledger, at);
    struct hf_txn *txn = transaction(&scene, 5, LARGE);
    MUST(hf_txn_rollback(txn, NULL, &error));
    hf_txn_free(txn);
    ledger_take(&scene.ledger, at);
    const struct requests expected[WHERES] = { [ENTRY] = { .puts = 1 },
                                               [RECORD] = { .puts = 2 },
                                               [DOCUMENT_] = { .puts = 15 },
                                               [STATE] = { .puts = 5, .deletes = 1 } };
    compare(at, expected);
    scene_close(&scene);
}

/* Taken, and settled and released: keys that are only read cost no more. */
static void reading_transaction(void **state)
{
    (void)state;
    struct scene scene;
    struct requests at[WHERES];
    scene_open(&scene);
    warm_keys(&scene, 5, 10);
    ledger_take(&scene.ledger, at);
    struct hf_txn *txn = transaction(&scene, 5, 0);
    MUST(hf_txn_commit(txn, NULL, &error));
    hf_txn_free(txn);
    ledger_take(&scene.ledger, at);
    const struct requests expected[WHERES] = { [ENTRY] = { .puts = 1 },
                                               [RECORD] = { .puts = in_steps ? 2 : 3 },
                                               [DOCUMENT_] = { .puts = 10 } };
    compare(at, expected);
    scene_close(&scene);
}

/* Who reads a key that a transaction is about to change asks its record; one that is only taken is
 * read as any other. */
static void read_beside_a_transaction(void **state)
{
    (void)state;
    struct scene scene;
    struct hf_txn *txn;
    struct hf_key *key;
    const char *name = "k";
    struct requests at[WHERES];
    scene_open(&scene);
    seen_before(&scene);
    MUST(hf_txn_begin(scene.two, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    ledger_take(&scene.ledger, at);
    get(&scene);
    ledger_take(&scene.ledger, at);
    compare(at, (const struct requests[WHERES]){ [DOCUMENT_] = { .gets = 1 } });
    write_bytes(&scene, key, LARGE);
    get(&scene);
    ledger_take(&scene.ledger, at);
    compare(at, (const struct requests[WHERES]){
                    [DOCUMENT_] = { .gets = 1 }, [RECORD] = { .gets = 1 } });
    MUST(hf_txn_commit(txn, NULL, &error));
    get(&scene);
    ledger_take(&scene.ledger, at);
    compare(at, (const struct requests[WHERES]){
                    [DOCUMENT_] = { .gets = 1 }, [STATE] = { .gets = 1 } });
    hf_txn_free(txn);
    scene_close(&scene);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    struct CMUnitTest tests[ROWS + 5] = {
        cmocka_unit_test(small_transactions),        cmocka_unit_test(large_transactions),
        cmocka_unit_test(rolled_back_transaction),   cmocka_unit_test(reading_transaction),
        cmocka_unit_test(read_beside_a_transaction),
    };
    tests[0].name = "a transaction over k keys takes 3k + 4 writes";
    tests[1].name = "with states above 4 KiB 4k + 4, and the old bodies go at once";
    tests[2].name = "one that is rolled back takes a write less";
    tests[3].name = "keys that it only reads take two writes each";
    tests[4].name = "who reads beside a transaction asks its record, if that changes the key";
    for (size_t i = 0; i < ROWS; i++)
        tests[5 + i] = (struct CMUnitTest){ .name = rows[i].sentence,
                                            .test_func = run_row,
                                            .initial_state = (void *)(uintptr_t)&rows[i] };
    return cmocka_run_group_tests_name("key_requests", tests, NULL, NULL);
}
