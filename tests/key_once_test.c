/* SPDX-License-Identifier: Apache-2.0 */
/* key_once_test.c KIND: changing keys that the client does not hold, in one write if they are free.
 * KIND is mem, sqlite, dir, or url ($HOLDFAST_TEST_URL). */
#include "key_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

static enum hf_status change_with(struct peer *peer, const char *text,
                                  const struct hf_key_change_options *options,
                                  struct hf_key_info *ret_info)
{
    *ret_info = HF_KEY_INFO;
    return hf_key_change(peer->client, "k", text, text ? strlen(text) : 0, options, ret_info,
                         &error);
}

static struct hf_key_info change(struct peer *peer, const char *text)
{
    struct hf_key_info info;
    MUST(change_with(peer, text, NULL, &info));
    return info;
}

static struct hf_key_info change_if(struct peer *peer, const char *text, uint64_t version,
                                    enum hf_status status)
{
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_info info;
    when.version_set = true;
    when.version = version;
    options.when = &when;
    IS(status, change_with(peer, text, &options, &info));
    return info;
}

/* ---- Free keys ------------------------------------------------------------------------- */

static void the_first_and_the_next(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info first = change(&pair->one, "a");
    ASSERT(first.version == 1 && first.token > 0 && first.outcome == HF_KEY_NONE);
    reads(&pair->two, "k", "a");
    struct hf_key_info next = change(&pair->one, "b");
    ASSERT(next.version == 2 && next.token > first.token);
    struct hf_key_info other = change(&pair->two, "");
    ASSERT(other.version == 3 && other.token > next.token && other.size == 0);
    reads(&pair->one, "k", "");
}

static void warm_is_one_put(void **state)
{
    struct pair *pair = *state;
    change(&pair->one, "a");
    script_counts(&pair->one.way); /* from zero on */
    change(&pair->one, "b");
    struct counts counts = script_counts(&pair->one.way);
    ASSERT(counts.puts == 1 && counts.gets + counts.looks == 0 && counts.others == 0);
}

static void conditions(void **state)
{
    struct pair *pair = *state;
    change_if(&pair->one, "a", 0, HF_OK);
    struct hf_key_info info = change_if(&pair->two, "b", 0, HF_CONFLICT);
    ASSERT(info.outcome == HF_KEY_VERSION_CONFLICT && info.version == 1);
    change_if(&pair->two, "b", 1, HF_OK);
    change_if(&pair->one, "c", 1, HF_CONFLICT); /* although it knows only version 1 */
    reads(&pair->one, "k", "b");
}

static void removed(void **state)
{
    struct pair *pair = *state;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_info info;
    options.removes = true;
    change(&pair->one, "a");
    MUST(change_with(&pair->two, NULL, &options, &info));
    ASSERT(info.removed && info.version == 2);
    reads(&pair->one, "k", NULL);
    change_if(&pair->one, "c", 0, HF_OK);
    IS(HF_INVALID, change_with(&pair->two, "x", &options, &info));
}

static void large(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(STATE_INLINE_MAX + 1, 3);
    MUST(hf_key_change(pair->one.client, "k", bytes, STATE_INLINE_MAX + 1, NULL, NULL, &error));
    ASSERT(bodies(&pair->world, "k") == 1);
    MUST(hf_key_change(pair->one.client, "k", bytes, STATE_INLINE_MAX, NULL, NULL, &error));
    ASSERT(bodies(&pair->world, "k") == 0);
    free(bytes);
}

static uint64_t next_token(struct pair *pair)
{
    struct hf_key *key = key_held(&pair->one, "k");
    uint64_t token = hf_lock_token(hf_key_lock(key));
    done(key);
    return token + 1;
}

/* The body carries the token that the change takes, and the sweeper uses up the token of a body
 * that nobody has named before it deletes the body. */
static void a_large_one_takes_its_token(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(STATE_INLINE_MAX + 1, 3), name[200];
    struct hf_sweep_options options = HF_SWEEP_OPTIONS;
    change(&pair->one, "a");
    uint64_t token = next_token(pair);
    struct hf_key_info info = HF_KEY_INFO;
    MUST(
        hf_key_change(pair->one.client, "k", bytes, STATE_INLINE_MAX + 1, NULL, &info, &error));
    ASSERT(info.token == token && bodies(&pair->world, "k") == 1);
    token = next_token(pair);
    snprintf(name, sizeof name, "default/state/k/%llu-%032d", (unsigned long long)token, 7);
    struct put_call put = { .key = view_of(name), .body = VIEW("left behind") };
    MUST(store_put(pair->world.truth, &put));
    options.full = true;
    options.op_delay_ms = 0;
    MUST(hf_sweep(pair->two.client, &options, NULL, &error));
    ASSERT(bodies(&pair->world, "k") == 1); /* that of the state */
    ASSERT(next_token(pair) == token + 2);
    free(bytes);
}

/* ---- Keys that are not free ------------------------------------------------------------ */

static void held(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info;
    struct hf_key *key = key_held(&pair->one, "k");
    update(key, "held");
    IS(HF_HELD, change_with(&pair->two, "at once", NULL, &info));
    reads(&pair->two, "k", "held");
    update(key, "still"); /* it lost nothing */
    done(key);
    change(&pair->two, "at once");
    reads(&pair->one, "k", "at once");
}

/* The caller acquires the key in its own way, so nobody asks for it twice. */
static void free_only(void **state)
{
    struct pair *pair = *state;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_info info;
    options.free_only = true;
    options.wait_ms = 60000; /* which is not waited for */
    change(&pair->two, "a");
    MUST(change_with(&pair->two, "b", &options, &info));
    struct hf_key *key = key_held(&pair->one, "k");
    reads(&pair->two, "k", "b");
    script_counts(&pair->two.way); /* from zero on */
    IS(HF_HELD, change_with(&pair->two, "c", &options, &info));
    struct counts counts = script_counts(&pair->two.way);
    ASSERT(counts.puts == 0 && counts.gets + counts.looks <= 1);
    done(key);
    reads(&pair->one, "k", "b");
}

static void held_by_own_client(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info;
    struct hf_key *key = key_held(&pair->one, "k");
    IS(HF_HELD, change_with(&pair->one, "at once", NULL, &info));
    done(key);
    reads(&pair->one, "k", NULL);
}

static void shared_by_readers(void **state)
{
    struct pair *pair = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_key_info info;
    change(&pair->one, "a");
    options.mode = HF_SHARED;
    struct hf_lock *lock = lock_with(&pair->one, "named:k", &options);
    MUST(hf_lock_acquire(lock, 0, &error));
    IS(HF_HELD, change_with(&pair->two, "b", NULL, &info));
    MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
    reads(&pair->two, "k", "a");
}

static void staged_by_a_transaction(void **state)
{
    struct pair *pair = *state;
    const char *const name = "k";
    struct hf_key_info info;
    struct hf_txn *txn;
    struct hf_key *key;
    change(&pair->two, "a");
    MUST(hf_txn_begin(pair->one.client, NULL, &txn, &error));
    MUST(hf_txn_acquire(txn, &name, 1, NULL, 0, &key, &error));
    update(key, "b");
    IS(HF_HELD, change_with(&pair->two, "c", NULL, &info));
    MUST(hf_txn_commit(txn, NULL, &error));
    hf_txn_free(txn);
    reads(&pair->two, "k", "b");
}

/* The lease of a holder that died is taken over, as by an acquire. */
static void after_a_dead_holder(void **state)
{
    struct pair *pair = *state;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_info info;
    struct hf_key *key = key_with(&pair->one, "k", 1000, false);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    uint64_t token = hf_lock_token(hf_key_lock(key));
    hf_key_detach(key);
    options.wait_ms = 60000;
    MUST(change_with(&pair->two, "b", &options, &info));
    ASSERT(info.token > token);
    reads(&pair->one, "k", "b");
}

static void is_fenced(void **state)
{
    struct pair *pair = *state;
    struct hf_key *key = key_held(&pair->one, "k");
    update(key, "a");
    take_away(&pair->two, key);
    change(&pair->two, "b");
    IS(HF_EXPIRED, hf_key_update(key, "c", 1, NULL, NULL, &error));
    hf_key_free(key);
    reads(&pair->two, "k", "b");
}

/* ---- Replies that are lost ------------------------------------------------------------- */

static void known_again(void **state)
{
    struct pair *pair = *state;
    change(&pair->one, "a");
    way_fail(&pair->one.way, 0, LOSE_REPLY);
    struct hf_key_info info = change(&pair->one, "b");
    ASSERT(way_has_failed(&pair->one.way));
    ASSERT(info.version == 2);
    ASSERT(reads(&pair->two, "k", "b").version == 2);
}

/* Another client changes the key this many times. */
struct passing {
    struct peer *peer;
    unsigned times;
};

static void change_often(void *argument)
{
    const struct passing *passing = argument;
    for (unsigned i = 0; i < passing->times; i++)
        change(passing->peer, "theirs");
}

static bool has_steps(const struct pair *pair)
{
    return pair->world.truth->ops->change != NULL;
}

/* Before or after the next write of this client. */
static void passed_by(struct pair *pair, struct passing *passing, struct fate fate, bool after)
{
    passing->peer = &pair->two;
    script_rule(&pair->one.way, .name = "pass", .on = ON_PUT | ON_CHANGE, .key = DOCUMENT,
                .times = 1, .fate = fate, .before = after ? NULL : change_often,
                .after = after ? change_often : NULL, .argument = passing);
}

/* A conflict is not a lost reply, however many others were faster. */
static void passed_by_others(void **state)
{
    struct pair *pair = *state;
    static const unsigned times[] = { 1, 2, 3, 10, STATE_RECENT_MAX };
    uint64_t version = change(&pair->one, "a").version;
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        struct passing passing = { .times = times[i] };
        passed_by(pair, &passing, PASS, /* after */ false);
        struct hf_key_info info = change(&pair->one, "ours");
        ASSERT(script_met(&pair->one.way, "pass") == 1);
        ASSERT(info.version == version + times[i] + 1);
        version = reads(&pair->two, "k", "ours").version;
        passed_by(pair, &passing, PASS, /* after */ false);
        info = change_if(&pair->one, "if", version, HF_CONFLICT);
        ASSERT(info.outcome == HF_KEY_VERSION_CONFLICT);
        reads(&pair->two, "k", "theirs");
        version = change(&pair->one, "b").version;
    }
}

/* With more others than the document remembers, or if ours is among the versions. */
static void passed_by_too_many(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info;
    struct passing many = { .times = STATE_RECENT_MAX + 2 }, few = { .times = 3 };
    change(&pair->one, "a");
    passed_by(pair, &many, PASS, /* after */ false);
    IS(has_steps(pair) ? HF_OK : HF_UNSURE, change_with(&pair->one, "ours", NULL, &info));
    change(&pair->one, "b");
    passed_by(pair, &few, LOSE_REPLY, /* after */ true);
    IS(HF_UNSURE, change_with(&pair->one, "ours", NULL, &info));
    reads(&pair->two, "k", "theirs"); /* it was made once, and not again */
}

/* Where nobody sends a put twice, the document need not remember anything. */
static void passed_by_any_number(void **state)
{
    struct pair *pair = *state;
    struct passing many = { .times = STATE_RECENT_MAX + 2 };
    change(&pair->one, "a");
    pair->one.way.base.traits.conflict_final = true;
    passed_by(pair, &many, PASS, /* after */ false);
    uint64_t version = change(&pair->one, "ours").version;
    reads(&pair->two, "k", "ours");
    passed_by(pair, &many, PASS, /* after */ false);
    change_if(&pair->one, "if", version, HF_CONFLICT);
    ASSERT(script_met(&pair->one.way, "pass") == 1);
}

/* It did not arrive, and others came. */
static void lost_and_passed_by(void **state)
{
    struct pair *pair = *state;
    struct hf_key_info info;
    struct passing few = { .times = 3 };
    change(&pair->one, "a");
    passed_by(pair, &few, LOSE, /* after */ true);
    IS(has_steps(pair) ? HF_UNSURE : HF_OK, change_with(&pair->one, "ours", NULL, &info));
    reads(&pair->two, "k", has_steps(pair) ? "theirs" : "ours");
}

/* Neither where the change is made nor where it is refused. */
static void without_an_error(void **state)
{
    struct pair *pair = *state;
    char *bytes = bytes_of(STATE_INLINE_MAX + 1, 3);
    struct hf_client *client = pair->one.client;
    ASSERT(hf_key_change(client, "k", "a", 1, NULL, NULL, NULL) == HF_OK);
    ASSERT(hf_key_change(client, "k", bytes, STATE_INLINE_MAX + 1, NULL, NULL, NULL) == HF_OK);
    struct hf_key *key = key_held(&pair->two, "k");
    ASSERT(hf_key_change(client, "k", bytes, STATE_INLINE_MAX + 1, NULL, NULL, NULL) ==
           HF_HELD);
    ASSERT(hf_key_change(client, "../k", "a", 1, NULL, NULL, NULL) == HF_INVALID);
    done(key);
    free(bytes);
}

static void bad_arguments(void **state)
{
    struct pair *pair = *state;
    struct hf_key_if when = HF_KEY_IF;
    struct hf_key_change_options options = HF_KEY_CHANGE_OPTIONS;
    struct hf_key_info info;
    IS(HF_INVALID, hf_key_change(NULL, "k", "a", 1, NULL, NULL, &error));
    IS(HF_INVALID, hf_key_change(pair->one.client, NULL, "a", 1, NULL, NULL, &error));
    IS(HF_INVALID, hf_key_change(pair->one.client, "k", NULL, 1, NULL, NULL, &error));
    IS(HF_INVALID, hf_key_change(pair->one.client, "../k", "a", 1, NULL, NULL, &error));
    when.etag = "";
    options.when = &when;
    IS(HF_INVALID, change_with(&pair->one, "a", &options, &info));
    options = HF_KEY_CHANGE_OPTIONS;
    options.wait_ms = -1;
    IS(HF_INVALID, change_with(&pair->one, "a", &options, &info));
    options = HF_KEY_CHANGE_OPTIONS;
    options.struct_size = 1;
    IS(HF_INVALID, change_with(&pair->one, "a", &options, &info));
    reads(&pair->two, "k", NULL);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("the first change and the next take a version and a token each",
             the_first_and_the_next),
        PAIR("a change of a free key is one put when it is warm", warm_is_one_put),
        PAIR("conditions are checked in the same write", conditions),
        PAIR("a value is removed in the same way", removed),
        PAIR("a state above 4 KiB has a body, which goes with it", large),
        PAIR("a body has the token of its change, and the sweeper uses up the token of an old "
             "one",
             a_large_one_takes_its_token),
        PAIR("a key that is held is not changed", held),
        PAIR("nor is it acquired, if only a free key is to be changed", free_only),
        PAIR("nor one that its own client holds", held_by_own_client),
        PAIR("nor one that is held in shared mode", shared_by_readers),
        PAIR("nor one that a transaction has staged", staged_by_a_transaction),
        PAIR("the lease of a dead holder is taken over first", after_a_dead_holder),
        PAIR("a holder that was paused is fenced by it", is_fenced),
        PAIR("a change whose reply is lost is known again, and made once", known_again),
        PAIR("a change that others were faster than is made after them, or refused",
             passed_by_others),
        PAIR("if they are too many, or ours is among them, it is unsure and not made again",
             passed_by_too_many),
        PAIR("on a store that sends nothing twice, it is never unsure because of others",
             passed_by_any_number),
        PAIR("a change that did not arrive is made after those of others", lost_and_passed_by),
        PAIR("a caller need not ask for the reason of a refusal", without_an_error),
        PAIR("bad arguments change nothing", bad_arguments),
    };
    return cmocka_run_group_tests_name("key_once", tests, NULL, NULL);
}
