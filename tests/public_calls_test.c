/* SPDX-License-Identifier: Apache-2.0 */
/* public_calls_test.c: mistakes of a C caller give INVALID and a sentence: a NULL for each
 * pointer of each call of holdfast.h, and invalid store URLs. */
#include "holdfast.h"

#include "public_calls_kit.h"
#include "test.h"

#include <string.h>

/* What is good in every call but one that is left out. */
struct good {
    struct hf_client *client;
    struct hf_lock *lock; /* held */
    struct hf_key *key;
    struct hf_txn *txn;
    char lease[HF_LEASE_TEXT_MAX];
};

static const char *const names[] = { "a", "b" };
static const char *const with_null[] = { "a", NULL };

static int client_open(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_client *client = FILLED(hf_client);
    (void)good;
    if (argument > 1)
        return -1;
    int status = (int)hf_client_open(LEFT_OUT(0, "mem:"), NULL, LEFT_OUT(1, &client), error);
    assert_true(argument != 0 || client == NULL);
    return status;
}

static int lock_new(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_lock *lock = FILLED(hf_lock);
    if (argument > 2)
        return -1;
    int status = (int)hf_lock_new(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), NULL,
                                  LEFT_OUT(2, &lock), error);
    assert_true(argument == 2 || lock == NULL);
    return status;
}

static int lock_new_many(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_lock *lock = FILLED(hf_lock);
    if (argument > 3)
        return -1;
    int status = (int)hf_lock_new_many(LEFT_OUT(0, good->client),
                                       LEFT_OUT(1, argument == 3 ? with_null : names), 2, NULL,
                                       LEFT_OUT(2, &lock), error);
    assert_true(argument == 2 || lock == NULL);
    return status;
}

#define CALL_OF_LOCK(name, ...)                                                            \
    static int lock_##name(const struct good *good, int argument, struct hf_error *error)  \
    {                                                                                      \
        return argument == 0 ? (int)hf_lock_##name(__VA_ARGS__, error) : ((void)good, -1); \
    }
CALL_OF_LOCK(acquire, NULL, 0)
CALL_OF_LOCK(begin, NULL)
CALL_OF_LOCK(poll, NULL)
CALL_OF_LOCK(cancel, NULL)
CALL_OF_LOCK(check, NULL)
CALL_OF_LOCK(renew, NULL)
CALL_OF_LOCK(release, NULL)
CALL_OF_LOCK(complete, NULL, NULL)
CALL_OF_LOCK(fail, NULL, NULL)

static int lock_text(const struct good *good, int argument, struct hf_error *error)
{
    char text[HF_LEASE_TEXT_MAX];
    return argument > 1 ? -1
                        : (int)hf_lock_text(LEFT_OUT(0, good->lock), LEFT_OUT(1, text), error);
}

static int lock_adopt(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_lock *lock = FILLED(hf_lock);
    if (argument > 2)
        return -1;
    int status = (int)hf_lock_adopt(LEFT_OUT(0, good->client), LEFT_OUT(1, good->lease), NULL,
                                    LEFT_OUT(2, &lock), error);
    assert_true(argument == 2 || lock == NULL);
    return status;
}

static int break_lease(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_break(LEFT_OUT(0, good->client), LEFT_OUT(1, good->lease), NULL, NULL,
                         error);
}

static int chunks_unleased(const struct good *good, int argument, struct hf_error *error)
{
    bool is_free[2];
    if (argument > 3)
        return -1;
    return (int)hf_chunks_unleased(LEFT_OUT(0, good->client),
                                   LEFT_OUT(1, argument == 3 ? with_null : names), 2,
                                   LEFT_OUT(2, is_free), error);
}

static int fenced_put(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_fenced_put(LEFT_OUT(0, good->lock), LEFT_OUT(1, "f"), LEFT_OUT(2, "data"), 4,
                              error);
}

static int fenced_put_file(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_fenced_put_file(LEFT_OUT(0, good->lock), LEFT_OUT(1, "f"), 0, error);
}

static int fenced_delete(const struct good *good, int argument, struct hf_error *error)
{
    return argument > 1
               ? -1
               : (int)hf_fenced_delete(LEFT_OUT(0, good->lock), LEFT_OUT(1, "f"), error);
}

static int fenced_get(const struct good *good, int argument, struct hf_error *error)
{
    void *data;
    size_t size;
    if (argument > 3)
        return -1;
    return (int)hf_fenced_get(LEFT_OUT(0, good->client), LEFT_OUT(1, "f"), 100,
                              LEFT_OUT(2, &data), LEFT_OUT(3, &size), NULL, error);
}

static int fenced_get_file(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_fenced_get_file(LEFT_OUT(0, good->client), LEFT_OUT(1, "f"), 0, NULL, error);
}

static int key_new(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key *key = FILLED(hf_key);
    if (argument > 2)
        return -1;
    int status = (int)hf_key_new(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), NULL,
                                 LEFT_OUT(2, &key), error);
    assert_true(argument == 2 || key == NULL);
    return status;
}

static int key_acquire(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key_info info = { .struct_size = sizeof info, .version = 7 };
    (void)good;
    if (argument > 0)
        return -1;
    int status = (int)hf_key_acquire(NULL, 0, &info, error);
    assert_true(info.outcome == HF_KEY_NONE && info.version == 0);
    return status;
}

static int key_begin(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_begin(NULL, NULL, error);
}

static int key_poll(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_poll(NULL, NULL, error);
}

static int key_cancel(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_cancel(NULL, error);
}

static int key_keepalive(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_keepalive(NULL, error);
}

static int key_update(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_key_update(LEFT_OUT(0, good->key), LEFT_OUT(1, "data"), 4, NULL, NULL,
                              error);
}

static int key_update_file(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_update_file(NULL, 0, NULL, NULL, error);
}

static int key_remove(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_remove(NULL, NULL, NULL, error);
}

static int key_change(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_key_change(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), LEFT_OUT(2, "data"),
                              4, NULL, NULL, error);
}

static int key_change_many(const struct good *good, int argument, struct hf_error *error)
{
    static const struct hf_key_write write = { .name = "k", .data = "data", .size = 4 };
    if (argument > 1)
        return -1;
    return (int)hf_key_change_many(LEFT_OUT(0, good->client), LEFT_OUT(1, &write), 1, 0, NULL,
                                   error);
}

static int try_many(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_try one = { .kind = HF_TRY_ACQUIRE };
    (void)good;
    if (argument > 0)
        return -1;
    return (int)hf_try_many(LEFT_OUT(0, &one), 1, error);
}

static int key_release(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_key_release(NULL, HF_COMMIT, error);
}

static int key_adopt(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key *key = FILLED(hf_key);
    if (argument > 2)
        return -1;
    int status = (int)hf_key_adopt(LEFT_OUT(0, good->client), LEFT_OUT(1, good->lease), NULL,
                                   LEFT_OUT(2, &key), error);
    assert_true(argument == 2 || key == NULL);
    return status;
}

static int key_get(const struct good *good, int argument, struct hf_error *error)
{
    void *data;
    size_t size;
    if (argument > 3)
        return -1;
    return (int)hf_key_get(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), 100, LEFT_OUT(2, &data),
                           LEFT_OUT(3, &size), NULL, error);
}

static int key_get_file(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_key_get_file(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), 0, NULL, error);
}

static int txn_begin(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_txn *txn = FILLED(hf_txn);
    if (argument > 1)
        return -1;
    int status = (int)hf_txn_begin(LEFT_OUT(0, good->client), NULL, LEFT_OUT(1, &txn), error);
    assert_true(argument == 1 || txn == NULL);
    return status;
}

static int txn_acquire(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key *keys[] = { FILLED(hf_key), FILLED(hf_key) };
    if (argument > 3)
        return -1;
    int status = (int)hf_txn_acquire(LEFT_OUT(0, good->txn),
                                     LEFT_OUT(1, argument == 3 ? with_null : names), 2, NULL, 0,
                                     LEFT_OUT(2, keys), error);
    assert_true(argument == 2 || (keys[0] == NULL && keys[1] == NULL));
    return status;
}

static int txn_update(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_txn_change change = { .data = "data", .size = 4 };
    if (argument > 1)
        return -1;
    return (int)hf_txn_update(LEFT_OUT(0, good->txn), LEFT_OUT(1, &change), 1, error);
}

static int txn_commit(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_txn_commit(NULL, NULL, error);
}

static int txn_rollback(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_txn_rollback(NULL, NULL, error);
}

/* ---- observe.h, and what came with it ------------------------------------------------ */

static bool each_lease(void *argument, const struct hf_lease_info *lease)
{
    (void)argument, (void)lease;
    return true;
}

static bool each_change(void *argument, enum hf_change change,
                        const struct hf_lease_info *lease)
{
    (void)argument, (void)change, (void)lease;
    return true;
}

static bool each_blocker(void *argument, const char *scope, const struct hf_lease_info *lease)
{
    (void)argument, (void)scope, (void)lease;
    return true;
}

static bool each_key(void *argument, const char *name, const struct hf_key_info *info,
                     const struct hf_key_status *status)
{
    (void)argument, (void)name, (void)info, (void)status;
    return true;
}

static bool each_txn(void *argument, const struct hf_txn_info *txn)
{
    (void)argument, (void)txn;
    return true;
}

static int lock_trouble(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_lock_trouble(NULL, error);
}

static int lock_scope(const struct good *good, int argument, struct hf_error *error)
{
    char text[HF_SCOPE_TEXT_MAX];
    if (argument > 1)
        return -1;
    return (int)hf_lock_scope(LEFT_OUT(0, good->lock), 0, LEFT_OUT(1, text), error);
}

static int lease_parse(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_lease_name name = HF_LEASE_NAME;
    if (argument > 1)
        return -1;
    return (int)hf_lease_parse(LEFT_OUT(0, good->lease), LEFT_OUT(1, &name), error);
}

static int key_seen(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key_info info = HF_KEY_INFO;
    if (argument > 1)
        return -1;
    return (int)hf_key_seen(LEFT_OUT(0, good->key), LEFT_OUT(1, &info), error);
}

static int txn_trouble(const struct good *good, int argument, struct hf_error *error)
{
    (void)good;
    return argument > 0 ? -1 : (int)hf_txn_trouble(NULL, error);
}

static int txn_adopt(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_key *key = FILLED(hf_key);
    if (argument > 2)
        return -1;
    int status = (int)hf_txn_adopt(LEFT_OUT(0, good->txn), LEFT_OUT(1, good->lease), NULL,
                                   LEFT_OUT(2, &key), error);
    assert_true(argument == 2 || key == NULL);
    return status;
}

static int txn_open(const struct good *good, int argument, struct hf_error *error)
{
    char id[HF_TXN_ID_SIZE + 1];
    if (argument > 1)
        return -1;
    return (int)hf_txn_open(LEFT_OUT(0, good->client), LEFT_OUT(1, id), error);
}

static int txn_decide(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_txn_decide(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), HF_COMMIT, NULL,
                              error);
}

static int txn_give_up(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_txn_give_up(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), NULL, error);
}

static int client_stats(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_stats stats = HF_STATS;
    if (argument > 1)
        return -1;
    return (int)hf_client_stats(LEFT_OUT(0, good->client), LEFT_OUT(1, &stats), error);
}

static int client_choose_events(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 0)
        return -1;
    return (int)hf_client_choose_events(LEFT_OUT(0, good->client), HF_EVENTS_ALL, error);
}

static int locks_list(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_locks_list(LEFT_OUT(0, good->client), LEFT_OUT(1, ""), NULL,
                              LEFT_OUT(2, each_lease), NULL, error);
}

static int locks_show(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_locks_show(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), NULL, NULL, NULL,
                              NULL, error);
}

/* A store keeps no timeline, so only its absence can be told. */
static int locks_timeline(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    int status = (int)hf_locks_timeline(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), NULL, NULL,
                                        NULL, error);
    return status == HF_UNSUPPORTED ? HF_OK : status;
}

static int watch_new(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_watch *watch = FILLED(hf_watch);
    if (argument > 2)
        return -1;
    int status = (int)hf_watch_new(LEFT_OUT(0, good->client), LEFT_OUT(1, ""), NULL,
                                   LEFT_OUT(2, &watch), error);
    assert_true(argument == 2 || watch == NULL);
    return status;
}

static int watch_look(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_watch *watch;
    if (argument > 1)
        return -1;
    assert_int_equal(hf_watch_new(good->client, "", NULL, &watch, NULL), HF_OK);
    int status = (int)hf_watch_look(LEFT_OUT(0, watch), LEFT_OUT(1, each_change), NULL, error);
    hf_watch_free(watch);
    return status;
}

static int lock_blocker(const struct good *good, int argument, struct hf_error *error)
{
    struct hf_blocker blocker = HF_BLOCKER;
    if (argument > 1)
        return -1;
    return (int)hf_lock_blocker(LEFT_OUT(0, good->lock), LEFT_OUT(1, &blocker), error);
}

static int lock_blockers(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_lock_blockers(LEFT_OUT(0, good->lock), LEFT_OUT(1, each_blocker), NULL,
                                 error);
}

static int key_describe(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_key_describe(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), NULL, NULL, error);
}

static int key_txn(const struct good *good, int argument, struct hf_error *error)
{
    char txn[HF_TXN_ID_SIZE + 1];
    if (argument > 2)
        return -1;
    return (int)hf_key_txn(LEFT_OUT(0, good->client), LEFT_OUT(1, "k"), LEFT_OUT(2, txn),
                           error);
}

static int keys_list(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 2)
        return -1;
    return (int)hf_keys_list(LEFT_OUT(0, good->client), LEFT_OUT(1, ""), NULL,
                             LEFT_OUT(2, each_key), NULL, error);
}

static int txn_show(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_txn_show(LEFT_OUT(0, good->client), LEFT_OUT(1, "x"), NULL, NULL, error);
}

static int txns_list(const struct good *good, int argument, struct hf_error *error)
{
    if (argument > 1)
        return -1;
    return (int)hf_txns_list(LEFT_OUT(0, good->client), HF_TXN_ABSENT, NULL,
                             LEFT_OUT(1, each_txn), NULL, error);
}

static const struct public_call_row calls[] = {
    { "hf_client_open", client_open },
    { "hf_lock_new", lock_new },
    { "hf_lock_new_many", lock_new_many },
    { "hf_lock_acquire", lock_acquire },
    { "hf_lock_begin", lock_begin },
    { "hf_lock_poll", lock_poll },
    { "hf_lock_cancel", lock_cancel },
    { "hf_lock_check", lock_check },
    { "hf_lock_renew", lock_renew },
    { "hf_lock_release", lock_release },
    { "hf_lock_complete", lock_complete },
    { "hf_lock_fail", lock_fail },
    { "hf_lock_text", lock_text },
    { "hf_lock_adopt", lock_adopt },
    { "hf_break", break_lease },
    { "hf_chunks_unleased", chunks_unleased },
    { "hf_fenced_put", fenced_put },
    { "hf_fenced_put_file", fenced_put_file },
    { "hf_fenced_delete", fenced_delete },
    { "hf_fenced_get", fenced_get },
    { "hf_fenced_get_file", fenced_get_file },
    { "hf_key_new", key_new },
    { "hf_key_acquire", key_acquire },
    { "hf_key_begin", key_begin },
    { "hf_key_poll", key_poll },
    { "hf_key_cancel", key_cancel },
    { "hf_key_keepalive", key_keepalive },
    { "hf_key_update", key_update },
    { "hf_key_update_file", key_update_file },
    { "hf_key_remove", key_remove },
    { "hf_key_change", key_change },
    { "hf_key_change_many", key_change_many },
    { "hf_try_many", try_many },
    { "hf_key_release", key_release },
    { "hf_key_adopt", key_adopt },
    { "hf_key_get", key_get },
    { "hf_key_get_file", key_get_file },
    { "hf_txn_begin", txn_begin },
    { "hf_txn_acquire", txn_acquire },
    { "hf_txn_update", txn_update },
    { "hf_txn_commit", txn_commit },
    { "hf_txn_rollback", txn_rollback },
    { "hf_lock_trouble", lock_trouble },
    { "hf_lock_scope", lock_scope },
    { "hf_lease_parse", lease_parse },
    { "hf_key_seen", key_seen },
    { "hf_txn_trouble", txn_trouble },
    { "hf_txn_adopt", txn_adopt },
    { "hf_txn_open", txn_open },
    { "hf_txn_decide", txn_decide },
    { "hf_txn_give_up", txn_give_up },
    { "hf_client_stats", client_stats },
    { "hf_client_choose_events", client_choose_events },
    { "hf_locks_list", locks_list },
    { "hf_locks_show", locks_show },
    { "hf_locks_timeline", locks_timeline },
    { "hf_watch_new", watch_new },
    { "hf_watch_look", watch_look },
    { "hf_lock_blocker", lock_blocker },
    { "hf_lock_blockers", lock_blockers },
    { "hf_key_describe", key_describe },
    { "hf_key_txn", key_txn },
    { "hf_keys_list", keys_list },
    { "hf_txn_show", txn_show },
    { "hf_txns_list", txns_list },
};

/* Those that give no status, or take no pointer. */
static const char *const others[] = {
    "hf_status_name",      "hf_status_text",   "hf_status_exit_code",  "hf_version",
    "hf_version_number",   "hf_client_close",  "hf_lock_free",         "hf_lock_detach",
    "hf_lock_blocked",     "hf_lock_token",    "hf_lock_remaining_ms", "hf_free",
    "hf_key_outcome_name", "hf_key_free",      "hf_key_detach",        "hf_key_lock",
    "hf_txn_free",         "hf_txn_id",        "hf_lock_interrupt",    "hf_lock_ttl_ms",
    "hf_key_name",         "hf_txn_interrupt", "hf_event_name",        "hf_lease_state_name",
    "hf_mode_name",        "hf_proof_name",    "hf_change_name",       "hf_txn_state_name",
    "hf_watch_free",
};

static struct good good_new(void)
{
    struct good good;
    struct hf_error error;
    assert_int_equal(hf_client_open("mem:", NULL, &good.client, &error), HF_OK);
    assert_int_equal(hf_lock_new(good.client, "held", NULL, &good.lock, &error), HF_OK);
    assert_int_equal(hf_lock_acquire(good.lock, 0, &error), HF_OK);
    assert_int_equal(hf_lock_text(good.lock, good.lease, &error), HF_OK);
    assert_int_equal(hf_key_new(good.client, "k", NULL, &good.key, &error), HF_OK);
    assert_int_equal(hf_txn_begin(good.client, NULL, &good.txn, &error), HF_OK);
    return good;
}

static void good_free(struct good *good)
{
    hf_txn_free(good->txn);
    hf_key_free(good->key);
    hf_lock_free(good->lock);
    hf_client_close(good->client);
}

static void null_for_any_pointer_of_any_call_is_invalid_and_says_which(void **state)
{
    (void)state;
    struct good good = good_new();
    assert_null_is_invalid(calls, sizeof calls / sizeof *calls, &good);
    assert_int_equal(hf_lock_check(good.lock, NULL), HF_OK);
    good_free(&good);
}

static void calls_without_a_status_take_null(void **state)
{
    (void)state;
    hf_client_close(NULL);
    hf_lock_free(NULL);
    hf_lock_detach(NULL);
    hf_key_free(NULL);
    hf_key_detach(NULL);
    hf_txn_free(NULL);
    hf_free(NULL);
    assert_false(hf_lock_blocked(NULL, 0));
    assert_int_equal(hf_lock_token(NULL), 0);
    assert_int_equal(hf_lock_remaining_ms(NULL), 0);
    hf_lock_interrupt(NULL);
    hf_txn_interrupt(NULL);
    hf_watch_free(NULL);
    assert_int_equal(hf_lock_ttl_ms(NULL), 0);
    assert_string_equal(hf_key_name(NULL), "");
    assert_null(hf_key_lock(NULL));
    assert_string_equal(hf_txn_id(NULL), "");
}

static void a_wrong_option_is_invalid_without_an_error_too(void **state)
{
    (void)state;
    struct good good = good_new();
    struct hf_client_options client_options = HF_CLIENT_OPTIONS;
    struct hf_lock_options lock_options = HF_LOCK_OPTIONS;
    struct hf_key_options key_options = HF_KEY_OPTIONS;
    struct hf_client *client = FILLED(hf_client);
    struct hf_lock *lock = FILLED(hf_lock);
    struct hf_key *key = FILLED(hf_key);
    client_options.ttl_max_ms = lock_options.ttl_ms = key_options.ttl_ms = -1;
    assert_int_equal(hf_client_open("mem:", &client_options, &client, NULL), HF_INVALID);
    assert_int_equal(hf_lock_new(good.client, "x", &lock_options, &lock, NULL), HF_INVALID);
    assert_int_equal(hf_key_new(good.client, "x", &key_options, &key, NULL), HF_INVALID);
    assert_int_equal(hf_txn_acquire(good.txn, names, 1, &key_options, 0, &key, NULL),
                     HF_INVALID);
    assert_true(!client && !lock && !key);
    good_free(&good);
}

/* A sanitizer sees it when they are reckoned with all the same. */
static void what_says_what_to_ask_for_is_not_used_by_adopting(void **state)
{
    (void)state;
    static const int64_t times_ms[] = { INT64_MAX, INT64_MIN, 0 };
    struct good good = good_new();
    struct hf_error error;
    for (size_t i = 0; i < sizeof times_ms / sizeof *times_ms; i++) {
        struct hf_lock_options options = HF_LOCK_OPTIONS;
        struct hf_lock *lock;
        options.ttl_ms = options.poll_ms = options.once_per_ms = times_ms[i];
        assert_int_equal(hf_lock_adopt(good.client, good.lease, &options, &lock, &error),
                         HF_OK);
        assert_int_equal(hf_lock_check(lock, &error), HF_OK);
        assert_in_range(hf_lock_remaining_ms(lock), 1, 30000);
        hf_lock_detach(lock);
    }
    good_free(&good);
}

/* As a newer library may give them to a program that passes them on to an older one. */
static void a_value_that_no_table_has_is_unknown(void **state)
{
    (void)state;
    static const int values[] = { HF_STATUS_COUNT, 255, -1 };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        enum hf_status status = (enum hf_status)values[i];
        assert_string_equal(hf_status_name(status), "unknown");
        assert_string_equal(hf_status_text(status), "unknown status");
        assert_int_equal(hf_status_exit_code(status), 1);
        assert_string_equal(hf_key_outcome_name((enum hf_key_outcome)values[i]), "unknown");
        assert_string_equal(hf_store_call_name((enum hf_store_call)values[i]), "unknown");
        assert_string_equal(hf_store_clock_name((enum hf_store_clock)values[i]), "unknown");
        assert_string_equal(hf_finding_name((enum hf_finding)values[i]), "unknown");
    }
}

static void no_bytes_may_be_at_null(void **state)
{
    (void)state;
    struct good good = good_new();
    struct hf_error error;
    assert_int_equal(hf_fenced_put(good.lock, "f", NULL, 0, &error), HF_OK);
    assert_int_equal(hf_key_acquire(good.key, 0, NULL, &error), HF_OK);
    assert_int_equal(hf_key_update(good.key, NULL, 0, NULL, NULL, &error), HF_OK);
    good_free(&good);
}

static void a_url_that_names_no_store_is_invalid(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",        "nonsense",        ":",           "://",
        "s3:",     "s3://",           "s3:///x",     "http://host/x",
        "dir:",    "dir:%zz",         "mem:?a=1",    "s3://b?endpoint=x",
        "mem:?=1", "mem:x",           "s3://b?no=1", "dir:x?sync=1",
        "/tmp/x",  "sqlite:x?sync=1",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct hf_client *client = FILLED(hf_client);
        struct hf_error error = { .status = HF_OK, .why = "" };
        enum hf_status status = hf_client_open(urls[i], NULL, &client, &error);
        if (status != HF_INVALID || error.status != status || error.why[0] == '\0')
            fail_msg("'%s': %s: %s", urls[i], hf_status_name(status), error.why);
        assert_null(client);
        assert_int_equal(hf_client_open(urls[i], NULL, &client, NULL), HF_INVALID);
    }
}

/* README's lines, typed without a look at any status. */
static void calls_that_follow_a_failed_one_fail_too(void **state)
{
    (void)state;
    struct hf_client *client = FILLED(hf_client);
    struct hf_lock *lock = FILLED(hf_lock);
    struct hf_error error;
    hf_client_open("s3:", NULL, &client, &error);
    hf_lock_new(client, "deploy", NULL, &lock, &error);
    assert_int_equal(hf_lock_acquire(lock, 60000, &error), HF_INVALID);
    assert_int_equal(hf_fenced_put(lock, "state.json", "x", 1, &error), HF_INVALID);
    assert_int_equal(hf_lock_release(lock, &error), HF_INVALID);
    hf_lock_free(lock);
    hf_client_close(client);
}

static void no_call_of_the_headers_is_left_out_here(void **state)
{
    (void)state;
    assert_calls_listed(/* header */ NULL, calls, sizeof calls / sizeof *calls, others,
                        sizeof others / sizeof *others);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(null_for_any_pointer_of_any_call_is_invalid_and_says_which),
        cmocka_unit_test(calls_without_a_status_take_null),
        cmocka_unit_test(a_wrong_option_is_invalid_without_an_error_too),
        cmocka_unit_test(what_says_what_to_ask_for_is_not_used_by_adopting),
        cmocka_unit_test(a_value_that_no_table_has_is_unknown),
        cmocka_unit_test(no_bytes_may_be_at_null),
        cmocka_unit_test(a_url_that_names_no_store_is_invalid),
        cmocka_unit_test(calls_that_follow_a_failed_one_fail_too),
        cmocka_unit_test(no_call_of_the_headers_is_left_out_here),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
