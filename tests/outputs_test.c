/* SPDX-License-Identifier: Apache-2.0 */
/* outputs_test.c: a promise of the header for every call: outputs are set only on success, and
 * `error`, which may be NULL, always. Each call with outputs is made to fail by its arguments,
 * by the state of the store, and by a store that refuses everything. */
#include "key_kit.h"

#include <stdio.h>
#include <unistd.h>

#define UNTOUCHED ((void *)(uintptr_t)0x5a5a)
#define NUMBER    UINT64_C(0x5a5a5a5a)

/* All outputs there are, as a caller may have them. */
struct outputs {
    struct hf_client *client;
    struct hf_lock *lock;
    struct hf_key *key, *keys[2];
    struct hf_txn *txn;
    void *data;
    size_t size;
    uint64_t token;
    bool free[2];
    enum hf_decision decision;
    struct hf_error error;
};

static struct outputs untouched(void)
{
    return (struct outputs){ .client = UNTOUCHED,
                             .lock = UNTOUCHED,
                             .key = UNTOUCHED,
                             .keys = { UNTOUCHED, UNTOUCHED },
                             .txn = UNTOUCHED,
                             .data = UNTOUCHED,
                             .size = NUMBER,
                             .token = NUMBER,
                             .free = { true, false },
                             .decision = (enum hf_decision)7,
                             .error = { (enum hf_status)99, "untouched" } };
}

/* A handle that the call was to make is NULL after a failure; others are as they were. */
static bool handle_is_right(const void *handle, const char *call, const char *argument)
{
    return handle == (strstr(call, argument) ? NULL : UNTOUCHED);
}

static void check_failed(const struct outputs *out, enum hf_status status, const char *call)
{
    if (status == HF_OK)
        FAIL("%s: OK", call);
    if (!handle_is_right(out->client, call, "&out.client") ||
        !handle_is_right(out->lock, call, "&out.lock") ||
        !handle_is_right(out->key, call, "&out.key,") ||
        !handle_is_right(out->keys[0], call, "out.keys") ||
        !handle_is_right(out->keys[1], call, "out.keys") ||
        !handle_is_right(out->txn, call, "&out.txn") || out->data != UNTOUCHED ||
        out->size != NUMBER || out->token != NUMBER || !out->free[0] || out->free[1] ||
        out->decision != (enum hf_decision)7)
        FAIL("%s: %s, and an output was set", call, hf_status_name(status));
    if (out->error.status != status || out->error.why[0] == '\0')
        FAIL("%s: %s, and the error says %d: %s", call, hf_status_name(status),
             (int)out->error.status, out->error.why);
}

/* Fails, sets no output but a handle to NULL, and sets the error. */
#define FAILS(call)                                       \
    do {                                                  \
        struct outputs out = untouched();                 \
        check_failed(&out, (call), #call); /* uses out */ \
    } while (0)

static const char *const no_scopes[] = { "path:/a", "no scope:" };
static const char *const two_chunks[] = { "data/a", "data/b" };
static const char *const bad_keys[] = { "ann", "NO NAME" };
static const char *const two_keys[] = { "ann", "joe" };

#define LEASE "1:00000000000000000000000000000000-1:default/meta/deploy.json"
#define TXN   "0123456789abcdef0123456789abcdef"

static void wrong_arguments(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    struct hf_lock_options too_long = LOCK_OPTIONS(.ttl_ms = INT64_MAX);
    struct hf_key_options never = { .struct_size = sizeof never, .ttl_ms = INT64_MAX };
    struct hf_txn_options no_id = { .struct_size = sizeof no_id, .id = "x" };
    struct hf_error error;
    struct hf_txn *txn;
    MUST(hf_txn_begin(client, NULL, &txn, &error));
    FAILS(hf_client_open("nothing:", NULL, &out.client, &out.error));
    FAILS(hf_lock_new(client, "no scope:", NULL, &out.lock, &out.error));
    FAILS(hf_lock_new(client, "deploy", &too_long, &out.lock, &out.error));
    FAILS(hf_lock_new_many(client, no_scopes, 2, NULL, &out.lock, &out.error));
    FAILS(hf_lock_new_many(client, no_scopes, 0, NULL, &out.lock, &out.error));
    FAILS(hf_lock_adopt(client, "no lease", NULL, &out.lock, &out.error));
    FAILS(hf_fenced_get(client, "", 10, &out.data, &out.size, &out.token, &out.error));
    FAILS(hf_fenced_get_file(client, "o", -1, &out.token, &out.error));
    FAILS(hf_key_new(client, "NO NAME", NULL, &out.key, &out.error));
    FAILS(hf_key_new(client, "k", &never, &out.key, &out.error));
    FAILS(hf_key_adopt(client, "no lease", NULL, &out.key, &out.error));
    FAILS(hf_key_get(client, "NO NAME", 10, &out.data, &out.size, NULL, &out.error));
    FAILS(hf_txn_begin(client, &no_id, &out.txn, &out.error));
    FAILS(hf_txn_acquire(txn, bad_keys, 2, NULL, 0, out.keys, &out.error));
    hf_txn_free(txn);
}

/* What is not there, too large, held, or over. */
static void wrong_world(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    struct hf_txn_options gone = { .struct_size = sizeof gone, .id = TXN };
    struct hf_error error;
    struct hf_txn *txn;
    publish(&pair->two, "large", "more than ten bytes");
    struct hf_lock *lock = lock_held(&pair->two, "writer", 0);
    MUST(hf_fenced_put(lock, "o", "more than ten bytes", 19, &error));
    struct hf_key *held = key_held(&pair->two, "joe");
    MUST(hf_txn_begin(client, NULL, &txn, &error));
    FAILS(hf_lock_adopt(client, LEASE, NULL, &out.lock, &out.error));
    FAILS(hf_fenced_get(client, "none", 10, &out.data, &out.size, &out.token, &out.error));
    FAILS(hf_fenced_get(client, "o", 10, &out.data, &out.size, &out.token, &out.error));
    FAILS(hf_fenced_get_file(client, "none", STDOUT_FILENO, &out.token, &out.error));
    FAILS(hf_key_adopt(client, LEASE, NULL, &out.key, &out.error));
    FAILS(hf_key_get(client, "none", 10, &out.data, &out.size, NULL, &out.error));
    FAILS(hf_key_get(client, "large", 10, &out.data, &out.size, NULL, &out.error));
    FAILS(hf_txn_begin(client, &gone, &out.txn, &out.error));
    FAILS(hf_txn_acquire(txn, two_keys, 2, NULL, 0, out.keys, &out.error));
    hf_txn_free(txn);
    hf_key_free(held);
    hf_lock_free(lock);
}

static void wrong_store(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    struct hf_error error;
    struct hf_txn *txn, *other;
    MUST(hf_txn_begin(client, NULL, &txn, &error));
    MUST(hf_txn_begin(client, NULL, &other, &error));
    publish(&pair->one, "k", "state");
    script_rule(&pair->one.way, .name = "all",
                .on = ON_GET | ON_PUT | ON_DELETE | ON_LIST | ON_GET_FILE | ON_PUT_FILE |
                      ON_CHANGE,
                .fate = REFUSE(HF_DENIED));
    FAILS(hf_lock_adopt(client, LEASE, NULL, &out.lock, &out.error));
    FAILS(hf_chunks_unleased(client, two_chunks, 2, out.free, &out.error));
    FAILS(hf_fenced_get(client, "o", 10, &out.data, &out.size, &out.token, &out.error));
    FAILS(hf_fenced_get_file(client, "o", STDOUT_FILENO, &out.token, &out.error));
    FAILS(hf_key_adopt(client, LEASE, NULL, &out.key, &out.error));
    FAILS(hf_key_get(client, "other", 10, &out.data, &out.size, NULL, &out.error));
    FAILS(hf_txn_begin(client, NULL, &out.txn, &out.error));
    FAILS(hf_txn_acquire(txn, two_keys, 2, NULL, 0, out.keys, &out.error));
    FAILS(hf_txn_commit(txn, &out.decision, &out.error));
    FAILS(hf_txn_rollback(other, &out.decision, &out.error));
    script_drop(&pair->one.way, "all");
    hf_txn_free(txn);
    hf_txn_free(other);
}

/* The same calls on a good store set what they should: so the others could have. */
static void when_all_is_well(void **state)
{
    struct pair *pair = *state;
    struct hf_client *client = pair->one.client;
    struct outputs out = untouched();
    struct hf_txn *txn;
    publish(&pair->one, "k", "state");
    struct hf_lock *lock = lock_held(&pair->one, "writer", 0);
    IS(HF_OK, hf_fenced_put(lock, "o", "bytes", 5, &out.error));
    IS(HF_OK, hf_fenced_get(client, "o", 10, &out.data, &out.size, &out.token, &out.error));
    ASSERT(out.size == 5 && out.token == hf_lock_token(lock));
    hf_free(out.data);
    IS(HF_OK, hf_key_get(client, "k", 10, &out.data, &out.size, NULL, &out.error));
    ASSERT(out.data != UNTOUCHED && out.size == 5);
    hf_free(out.data);
    IS(HF_OK, hf_chunks_unleased(client, two_chunks, 2, out.free, &out.error));
    ASSERT(out.free[0] && out.free[1]);
    IS(HF_OK, hf_txn_begin(client, NULL, &txn, &out.error));
    IS(HF_OK, hf_txn_acquire(txn, two_keys, 2, NULL, 0, out.keys, &out.error));
    ASSERT(out.keys[0] != UNTOUCHED && out.keys[1] != UNTOUCHED);
    IS(HF_OK, hf_txn_commit(txn, &out.decision, &out.error));
    ASSERT(out.error.status == HF_OK && out.decision == HF_COMMIT);
    hf_txn_free(txn);
    hf_lock_free(lock);
}

static void without_an_error(void **state)
{
    struct pair *pair = *state;
    struct outputs out = untouched();
    IS(HF_INVALID, hf_lock_new(pair->one.client, "no scope:", NULL, &out.lock, NULL));
    IS(HF_INVALID, hf_key_new(pair->one.client, "NO NAME", NULL, &out.key, NULL));
    IS(HF_NOT_FOUND,
       hf_key_get(pair->one.client, "none", 10, &out.data, &out.size, NULL, NULL));
    IS(HF_NOT_FOUND,
       hf_fenced_get(pair->one.client, "none", 10, &out.data, &out.size, NULL, NULL));
    ASSERT(out.lock == NULL && out.key == NULL && out.data == UNTOUCHED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAIR("a call that is given what makes no sense sets no output, and the error",
             wrong_arguments),
        PAIR("a call that does not find what it needs sets no output, and the error",
             wrong_world),
        PAIR("a call that the store refuses sets no output, and the error", wrong_store),
        PAIR("a call that succeeds sets its outputs", when_all_is_well),
        PAIR("the error may be NULL", without_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
