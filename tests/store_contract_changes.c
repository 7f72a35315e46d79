/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract_changes.c: one object changed in one step. A store without a lock of its own
 * returns UNSUPPORTED and changes nothing. A store with a lock may do the same for a large
 * object. */
#include "store_contract.h"

#include <stdio.h>
#include <stdlib.h>

/* What is wanted, and what was shown. */
struct wish {
    struct change_call call;
    struct contract_key key;
    struct view write;
    unsigned decided;
    struct etag now;
    bool given;
    char body[32];
    size_t size;
};

static struct view decide(void *argument, const struct etag *now, struct view body)
{
    struct wish *wish = argument;
    wish->decided++;
    wish->now = *now;
    wish->given = body.data != NULL;
    wish->size = body.size;
    for (size_t i = 0; i < body.size && i < sizeof wish->body; i++)
        wish->body[i] = body.data[i];
    return wish->write;
}

static enum hf_status change(struct contract *c, struct wish *wish, struct view name)
{
    wish->call.key = contract_key(c, name, &wish->key);
    wish->call.decide = decide;
    wish->call.argument = wish;
    wish->decided = 0;
    return store_change(c->store, &wish->call);
}

static bool is_refused(const struct wish *wish)
{
    return wish->call.error.status == HF_UNSUPPORTED && !wish->call.wrote &&
           wish->call.etag.size == 0;
}

static void a_change_or_nothing(struct contract *c)
{
    struct etag first;
    struct wish wish = { .write = VIEW("two") };
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("one"), &first));
    change(c, &wish, VIEW("a"));
    if (is_refused(&wish)) {
        EXPECT(c, wish.decided == 0);
        EXPECT(c, contract_holds(c, VIEW("a"), VIEW("one")));
        return;
    }
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.decided == 1 && etag_equal(&wish.now, &first));
    EXPECT(c, wish.given && view_equal((struct view){ wish.body, wish.size }, VIEW("one")));
    EXPECT(c, wish.call.wrote && !etag_equal(&wish.call.etag, &first));
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("two")));
    struct put_call late = { .key = wish.call.key,
                             .body = VIEW("x"),
                             .condition = if_match(&first) };
    EXPECT_STATUS(c, HF_CONFLICT, store_put(c->store, &late), late.error);
    struct put_call next = { .key = wish.call.key,
                             .body = VIEW("three"),
                             .condition = if_match(&wish.call.etag) };
    EXPECT_STATUS(c, HF_OK, store_put(c->store, &next), next.error);
}

static void known_bytes_are_not_shown(struct contract *c)
{
    struct wish wish = { .write = VIEW("two") };
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("one"), &wish.call.known));
    change(c, &wish, VIEW("a"));
    if (is_refused(&wish))
        return;
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.decided == 1 && !wish.given && etag_equal(&wish.now, &wish.call.known));
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("two")));
    change(c, &wish, VIEW("a"));
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.given && view_equal((struct view){ wish.body, wish.size }, VIEW("two")));
}

static void what_is_ready_is_for_the_known_version(struct contract *c)
{
    struct wish wish = { .write = VIEW("two") };
    wish.call.ready = wish.write;
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("one"), &wish.call.known));
    struct etag first = wish.call.known;
    change(c, &wish, VIEW("a"));
    if (is_refused(&wish)) {
        EXPECT(c, contract_holds(c, VIEW("a"), VIEW("one")));
        return;
    }
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.call.wrote && !etag_equal(&wish.call.etag, &first));
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("two")));
    /* The known version is gone: what is ready for it is not written. */
    wish.write = VIEW("three");
    change(c, &wish, VIEW("a"));
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.decided == 1 && wish.call.wrote);
    EXPECT(c, view_equal((struct view){ wish.body, wish.size }, VIEW("two")));
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("three")));
    change(c, &wish, VIEW("none"));
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.decided == 1 && wish.now.size == 0);
    EXPECT(c, contract_holds(c, VIEW("none"), VIEW("three")));
}

/* ---- Together -------------------------------------------------------------------------- */

#define TOGETHER 3

struct set {
    struct wish wishes[TOGETHER];
    struct change_call calls[TOGETHER];
    size_t refuses; /* the one that refuses; TOGETHER: none */
};

static struct set *deciding;

static struct view decide_in_set(void *argument, const struct etag *now, struct view body)
{
    struct wish *wish = argument;
    size_t index = (size_t)(wish - deciding->wishes);
    deciding->calls[index].refused = index == deciding->refuses;
    return decide(wish, now, body);
}

/* Writes "0", "1" and "2" over the objects a, b and c. */
static enum hf_status change_set(struct contract *c, struct set *set)
{
    static const struct view texts[TOGETHER] = { { "0", 1 }, { "1", 1 }, { "2", 1 } };
    static const struct view names[TOGETHER] = { { "a", 1 }, { "b", 1 }, { "c", 1 } };
    deciding = set;
    for (size_t i = 0; i < TOGETHER; i++) {
        struct wish *wish = &set->wishes[i];
        wish->write = texts[i];
        wish->decided = 0;
        set->calls[i].key = contract_key(c, names[i], &wish->key);
        set->calls[i].decide = decide_in_set;
        set->calls[i].argument = wish;
    }
    return store_change_together(c->store, set->calls, TOGETHER);
}

static void all_or_none(struct contract *c)
{
    struct set set = { .refuses = 1 };
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("old"), NULL));
    EXPECT(c, contract_put(c, VIEW("b"), VIEW("old"), NULL));
    if (change_set(c, &set) == HF_UNSUPPORTED) {
        EXPECT(c, contract_holds(c, VIEW("a"), VIEW("old")) && set.wishes[0].decided == 0);
        return;
    }
    for (; set.refuses < TOGETHER; set.refuses++) { /* b refuses, then c, which is absent */
        EXPECT_STATUS(c, HF_OK, change_set(c, &set), set.calls[0].error);
        for (size_t i = 0; i < TOGETHER; i++)
            EXPECT(c, set.calls[i].error.status == HF_OK && !set.calls[i].wrote);
        EXPECT(c, contract_holds(c, VIEW("a"), VIEW("old")));
        EXPECT(c, contract_holds(c, VIEW("b"), VIEW("old")));
        EXPECT(c, contract_missing(c, VIEW("c")));
    }
    EXPECT_STATUS(c, HF_OK, change_set(c, &set), set.calls[0].error);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("0")));
    EXPECT(c, contract_holds(c, VIEW("b"), VIEW("1")));
    EXPECT(c, contract_holds(c, VIEW("c"), VIEW("2")));
    struct put_call next = { .key = set.calls[1].key,
                             .body = VIEW("x"),
                             .condition = if_match(&set.calls[1].etag) };
    EXPECT_STATUS(c, HF_OK, store_put(c->store, &next), next.error);
}

static void nothing_decided_is_nothing_done(struct contract *c)
{
    struct etag etag;
    struct wish wish = { .write = { NULL, 0 } };
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("one"), &etag));
    change(c, &wish, VIEW("a"));
    if (is_refused(&wish))
        return;
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, !wish.call.wrote && etag_equal(&wish.call.etag, &etag));
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("one")));
    change(c, &wish, VIEW("none"));
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, !wish.call.wrote && wish.call.etag.size == 0 && wish.now.size == 0);
    EXPECT(c, contract_missing(c, VIEW("none")));
}

static void absent_and_empty_differ(struct contract *c)
{
    struct wish wish = { .write = VIEW("") };
    change(c, &wish, VIEW("a"));
    if (is_refused(&wish)) {
        EXPECT(c, contract_missing(c, VIEW("a")));
        return;
    }
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.now.size == 0 && !wish.given && wish.call.wrote);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("")));
    wish.write = VIEW("1");
    change(c, &wish, VIEW("a"));
    EXPECT_STATUS(c, HF_OK, wish.call.error.status, wish.call.error);
    EXPECT(c, wish.now.size > 0 && wish.given && wish.size == 0);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("1")));
}

/* Of any size it is done, or unsupported with nothing changed. */
static void any_size_or_nothing(struct contract *c)
{
    static const size_t sizes[] = { 1, SQLITE_INLINE_MAX, SQLITE_INLINE_MAX + 1, MIB };
    char *bytes = calloc(1, MIB);
    EXPECT(c, bytes);
    struct view last = VIEW("first");
    contract_put(c, VIEW("a"), last, NULL);
    for (size_t i = 0; c->failure[0] == '\0' && i < 4; i++) {
        struct wish wish = { .write = { bytes, sizes[i] } };
        change(c, &wish, VIEW("a"));
        if (wish.call.error.status == HF_OK)
            last = wish.write;
        else if (!is_refused(&wish))
            contract_fail(c, __FILE__, __LINE__, "%zu bytes: %s", sizes[i],
                          wish.call.error.why);
        contract_holds(c, VIEW("a"), last);
    }
    free(bytes);
}

static void bad_keys_are_invalid(struct contract *c)
{
    struct wish wish = { .write = VIEW("x") };
    static char bytes[KEY_BYTES_MAX + 1];
    wish.call.decide = decide;
    wish.call.argument = &wish;
    memset(bytes, 'k', sizeof bytes);
    EXPECT_STATUS(c, HF_INVALID, store_change(c->store, &wish.call), wish.call.error);
    wish.call.key = (struct view){ bytes, sizeof bytes };
    EXPECT_STATUS(c, HF_INVALID, store_change(c->store, &wish.call), wish.call.error);
    EXPECT(c, wish.decided == 0);
}

/* ---- Many at once -------------------------------------------------------------------- */

/* A task that counts up. */
struct counter {
    struct contract *contract;
    char text[24];
    unsigned failed;
};

static struct view count_up(void *argument, const struct etag *now, struct view body)
{
    struct counter *counter = argument;
    unsigned long number = 0;
    (void)now;
    for (size_t i = 0; i < body.size; i++)
        number = number * 10 + (unsigned long)(body.data[i] - '0');
    int size = snprintf(counter->text, sizeof counter->text, "%lu", number + 1);
    return (struct view){ counter->text, (size_t)size };
}

#define ROUNDS 20

static void count_many(void *argument)
{
    struct counter *counter = argument;
    struct contract_key key;
    for (int i = 0; i < ROUNDS; i++) {
        struct change_call call = { .key = contract_key(counter->contract, VIEW("n"), &key),
                                    .decide = count_up,
                                    .argument = counter };
        counter->failed += store_change(counter->contract->store, &call) != HF_OK;
    }
}

#define COUNTERS 8

static void changes_do_not_lose_each_other(struct contract *c)
{
    struct counter counters[COUNTERS];
    struct env_task *tasks[COUNTERS];
    struct hf_error error;
    struct wish wish = { .write = VIEW("0") };
    change(c, &wish, VIEW("n"));
    if (is_refused(&wish))
        return;
    size_t started = 0;
    for (; started < COUNTERS; started++) {
        counters[started] = (struct counter){ .contract = c };
        if (env_task_start(c->env, count_many, &counters[started], &tasks[started], &error) !=
            HF_OK)
            break;
    }
    unsigned failed = 0;
    for (size_t i = 0; i < started; i++) {
        env_task_join(c->env, tasks[i]);
        failed += counters[i].failed;
    }
    EXPECT(c, started == COUNTERS && failed == 0);
    char expected[24];
    snprintf(expected, sizeof expected, "%d", COUNTERS * ROUNDS);
    EXPECT(c, contract_holds(c, VIEW("n"), view_of(expected)));
}

static const struct contract_row rows[] = {
    { "a change shows what is there and writes what is decided, or is unsupported",
      a_change_or_nothing },
    { "a change does not show bytes that the caller has", known_bytes_are_not_shown },
    { "what is ready for the known version is written over no other",
      what_is_ready_is_for_the_known_version },
    { "changes together are all written, or none", all_or_none },
    { "a change that decides on nothing does nothing", nothing_decided_is_nothing_done },
    { "a change tells an absent object from an empty one", absent_and_empty_differ },
    { "a change of any size is done, or unsupported with nothing changed",
      any_size_or_nothing },
    { "a change of a key out of bounds is invalid", bad_keys_are_invalid },
    { "changes of many tasks do not lose each other", changes_do_not_lose_each_other },
};

const struct contract_rows contract_changes = { rows, sizeof rows / sizeof rows[0] };
