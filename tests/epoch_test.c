/* SPDX-License-Identifier: Apache-2.0 */
/* epoch_test.c KIND: the epoch of a namespace: its document, its copy, the loss of either or
 * both, and the range of tokens. KIND is mem, sqlite, or url. */
#include "lock/epoch.h"

#include "base/layout.h"
#include "lock/restore.h"
#include "lock_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define DOCUMENT LAYOUT_EPOCH_FOLDER "default.json"
#define COPY     LAYOUT_EPOCH_COPY_FOLDER "default.json"

static struct mono_time soon(void)
{
    return mono_add(now(), SPAN_S(10));
}

static uint64_t raise_by(struct pair *pair, uint64_t by)
{
    struct hf_client *client = pair->two.client;
    struct hf_error error;
    uint64_t epoch;
    struct epoch_ref ref = epoch_of_tables(&client->space, soon());
    MUST(epoch_raise(&ref, by, &epoch, &error));
    return epoch;
}

static uint64_t epoch_of(struct pair *pair)
{
    struct hf_error error;
    uint64_t epoch;
    MUST(epoch_read(pair->world.truth, VIEW("default"), soon(), &epoch, &error));
    return epoch;
}

static void remove_object(struct pair *pair, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    must(store_delete(pair->world.truth, &call), &call.error, "delete", __LINE__);
}

/* What one of the objects says; UINT64_MAX when it is not there or says nothing. */
static uint64_t said_by(struct pair *pair, const char *key)
{
    char *text = world_text(&pair->world, key);
    const char *at = text ? strstr(text, "\"epoch\": ") : NULL;
    uint64_t epoch = at ? strtoull(at + strlen("\"epoch\": "), NULL, 10) : UINT64_MAX;
    free(text);
    return epoch;
}

/* The token that the first grant of a new name has. */
static uint64_t token_of_new(struct pair *pair, const char *name)
{
    struct hf_lock *lock = lock_held(&pair->one, name, 60000);
    uint64_t token = hf_lock_token(lock);
    IS(HF_OK, hf_lock_release(lock, NULL));
    hf_lock_free(lock);
    return token;
}

#define FIRST_OF(epoch) ((uint64_t)(epoch) << 32 | 1)

/* ---- One of the two is lost ---------------------------------------------------------- */

static const struct {
    const char *what;
    const char *text; /* NULL: it is deleted */
} losses[] = {
    { "deleted", NULL },
    { "emptied", "" },
    { "cut", "{ \"format\": \"holdfast.epoch/1\", \"epo" },
    { "another's", "{ \"format\": \"somebody/1\", \"epoch\": 0 }" },
    { "beyond all", "{ \"format\": \"holdfast.epoch/1\", \"epoch\": 2097152 }" },
    { "blank", "{ \"format\": \"holdfast.epoch/1\", \"blank\": \"00\" }" },
};
#define LOSSES (sizeof losses / sizeof *losses)

static void lose(struct pair *pair, const char *key, size_t how)
{
    if (losses[how].text)
        world_write(&pair->world, key, view_of(losses[how].text));
    else
        remove_object(pair, key);
}

static void a_lost_document_gives_way_to_its_copy(void **state)
{
    struct pair *pair = *state;
    char name[16];
    ASSERT(token_of_new(pair, "first") == FIRST_OF(0));
    uint64_t epoch = raise_by(pair, 7);
    ASSERT(epoch == 7 && said_by(pair, DOCUMENT) == 7 && said_by(pair, COPY) == 7);
    for (size_t i = 0; i < LOSSES; i++) {
        snprintf(name, sizeof name, "n%zu", i);
        lose(pair, DOCUMENT, i);
        ASSERT(epoch_of(pair) == epoch);
        if (token_of_new(pair, name) != FIRST_OF(epoch))
            FAIL("%s", losses[i].what);
        ASSERT(said_by(pair, DOCUMENT) == epoch); /* written anew */
        lose(pair, DOCUMENT, i);
        ASSERT(raise_by(pair, 1) == ++epoch);
        ASSERT(said_by(pair, DOCUMENT) == epoch && said_by(pair, COPY) == epoch);
    }
}

static void a_lost_copy_is_written_anew(void **state)
{
    struct pair *pair = *state;
    token_of_new(pair, "first");
    uint64_t epoch = raise_by(pair, 7);
    for (size_t i = 0; i < LOSSES; i++) {
        lose(pair, COPY, i);
        ASSERT(raise_by(pair, 1) == ++epoch);
        ASSERT(said_by(pair, DOCUMENT) == epoch && said_by(pair, COPY) == epoch);
    }
}

/* As older versions left it. */
static void a_document_without_a_copy_is_read_and_gets_one(void **state)
{
    struct pair *pair = *state;
    world_write(
        &pair->world, DOCUMENT,
        VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 41, \"write\": \"9c\" }\n"));
    ASSERT(token_of_new(pair, "first") == FIRST_OF(41));
    ASSERT(raise_by(pair, 1) == 42);
    ASSERT(said_by(pair, DOCUMENT) == 42 && said_by(pair, COPY) == 42);
}

static void a_copy_that_is_behind_never_lowers_it(void **state)
{
    struct pair *pair = *state;
    token_of_new(pair, "first");
    raise_by(pair, 2);
    world_write(
        &pair->world, DOCUMENT,
        VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 90, \"write\": \"9c\" }\n"));
    ASSERT(raise_by(pair, 1) == 91);
    ASSERT(said_by(pair, DOCUMENT) == 91 && said_by(pair, COPY) == 91);
}

static void unknown_members_are_kept(void **state)
{
    struct pair *pair = *state;
    token_of_new(pair, "first");
    world_write(&pair->world, DOCUMENT,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"later\": { \"a\": [1, \"x\"] }, "
                     "\"epoch\": 3, \"write\": \"9c\", \"than\": 7 }\n"));
    remove_object(pair, COPY);
    raise_by(pair, 1);
    const char *const keys[] = { DOCUMENT, COPY };
    for (size_t i = 0; i < 2; i++) {
        ASSERT(said_by(pair, keys[i]) == 4);
        ASSERT(world_times(&pair->world, keys[i], "\"later\":{ \"a\": [1, \"x\"] }") == 1);
        ASSERT(world_times(&pair->world, keys[i], "\"than\":7") == 1);
    }
}

static void a_later_format_is_left_alone(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    const char later[] = "{ \"format\": \"holdfast.epoch/2\", \"epochs\": [3] }";
    token_of_new(pair, "first");
    world_write(&pair->world, DOCUMENT, view_of(later));
    struct hf_lock *lock = lock_of(&pair->one, "new", 60000);
    IS(HF_UNSUPPORTED, hf_lock_acquire(lock, 0, &error));
    ASSERT(strstr(error.why, "holdfast.epoch/2"));
    ASSERT(world_times(&pair->world, DOCUMENT, later) == 1);
    hf_lock_free(lock);
}

/* ---- Both are lost ------------------------------------------------------------------- */

static void lose_both(struct pair *pair)
{
    lose(pair, DOCUMENT, 0);
    lose(pair, COPY, 0);
}

static void new_names_are_refused(struct pair *pair)
{
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->two, "one-more", 60000);
    IS(HF_CORRUPT, hf_lock_acquire(lock, 0, &error));
    ASSERT(strstr(error.why, "store repair epoch"));
    hf_lock_free(lock);
}

static uint64_t repair(struct pair *pair, struct epoch_findings *ret_sight)
{
    struct hf_error error;
    uint64_t epoch;
    MUST(restore_repair(pair->two.client, ret_sight, &epoch, &error));
    ASSERT(said_by(pair, DOCUMENT) == epoch && said_by(pair, COPY) == epoch);
    return epoch;
}

static void a_lost_epoch_is_rebuilt_above_every_token(void **state)
{
    struct pair *pair = *state;
    struct epoch_findings sight;
    struct hf_error error;
    token_of_new(pair, "first");
    raise_by(pair, 4096);
    struct hf_lock *old = lock_held(&pair->one, "deploy", 60000);
    uint64_t token = hf_lock_token(old);
    for (size_t how = 0; how < LOSSES; how++) {
        lose(pair, DOCUMENT, how);
        lose(pair, COPY, LOSSES - 1 - how);
        new_names_are_refused(pair);
        IS(HF_OK, hf_lock_renew(old, &error)); /* what is there goes on */
        uint64_t epoch = repair(pair, &sight);
        ASSERT(sight.lost && !sight.known && sight.shown >= token);
        ASSERT(epoch > token >> 32);
        char name[16];
        snprintf(name, sizeof name, "n%zu", how);
        ASSERT(token_of_new(pair, name) == FIRST_OF(epoch));
    }
    hf_lock_free(old);
}

/* A damaged table cannot be replaced either, until then. */
static void a_damaged_table_waits_for_its_epoch(void **state)
{
    struct pair *pair = *state;
    struct epoch_findings sight;
    struct hf_error error;
    token_of_new(pair, "deploy");
    lose_both(pair);
    world_write(&pair->world, "default/meta/deploy.json", VIEW("broken"));
    struct hf_lock *lock = lock_of(&pair->two, "deploy", 60000);
    IS(HF_CORRUPT, hf_lock_acquire(lock, 0, &error));
    ASSERT(strstr(error.why, "epoch"));
    repair(pair, &sight);
    IS(HF_HELD, hf_lock_acquire(lock, 0, &error)); /* by the barrier */
    hf_lock_free(lock);
}

static const struct {
    const char *what, *key, *text;
    uint64_t token; /* that it shows; 0: only that there were some */
    bool free;      /* new names are made all the same */
} traces[] = {
    { "a table", "default/meta/a.json",
      "{\"format\":\"holdfast.leases/1\",\"next_token\":30064771073,\"leases\":{}}",
      30064771072 },
    { "a table of chunks", "metadata/logs/compaction-leases.json",
      "{\"format\":\"holdfast.leases/1\",\"next_token\":30064771073,\"leases\":{}}",
      30064771072 },
    { "a damaged table", "default/inode/7.json", "?", 0 },
    { "a state", "default/state/k/30064771072-0123456789abcdef0123456789abcdef", "x",
      30064771072 },
    { "a shard", "indexes/domains/shards/a3.usv",
      "{\"format\":\"holdfast.shard/1\",\"nonce\":\"0\",\"token\":30064771072}\n", 30064771072,
      true },
    { "that it was swept", LAYOUT_SWEEP_FOLDER "default.json", "{}", 0 },
};

static void a_namespace_with_traces_has_no_epoch_0(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        void *space = NULL;
        struct epoch_findings sight;
        pair_set_up(&space);
        struct pair *pair = space;
        world_write(&pair->world, traces[i].key, view_of(traces[i].text));
        if (!traces[i].free)
            new_names_are_refused(pair);
        uint64_t epoch = repair(pair, &sight);
        if (sight.shown != traces[i].token || epoch <= traces[i].token >> 32)
            FAIL("%s: token %" PRIu64 ", epoch %" PRIu64, traces[i].what, sight.shown, epoch);
        pair_tear_down(&space);
    }
}

#define STUBS     40
#define STUB_TEXT "{\"format\":\"holdfast.leases/1\",\"next_token\":0,\"leases\":{}}"

/* A client writes a stub before it looks for the epoch. So if many use a new namespace at the same
 * time, there are many stubs and no epoch, and perhaps a blank of a client that has died. */
static void write_stubs(struct pair *pair, const char *last)
{
    char key[64];
    for (unsigned i = 0; i < STUBS; i++) {
        snprintf(key, sizeof key, "default/meta/stub-%02u.json", i);
        world_write(&pair->world, key, view_of(i + 1 < STUBS ? STUB_TEXT : last));
    }
    lose(pair, COPY, LOSSES - 1);
}

static void a_blank_among_stubs_is_filled(void **state)
{
    struct pair *pair = *state;
    write_stubs(pair, STUB_TEXT);
    ASSERT(token_of_new(pair, "first") == FIRST_OF(0));
    ASSERT(said_by(pair, DOCUMENT) == 0 && said_by(pair, COPY) == 0);
}

static void a_table_among_stubs_is_found(void **state)
{
    struct pair *pair = *state;
    struct epoch_findings sight;
    write_stubs(pair, traces[0].text);
    new_names_are_refused(pair);
    ASSERT(repair(pair, &sight) > traces[0].token >> 32 && sight.shown == traces[0].token);
}

static void another_fills_the_blank(void *argument)
{
    struct pair *pair = argument;
    world_write(&pair->world, COPY,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 5, \"write\": \"9c\" }"));
    world_write(&pair->world, DOCUMENT,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 5, \"write\": \"9d\" }"));
}

/* The document is read when the epoch is looked for, and then while it is waited for. */
static void the_client_that_wrote_the_blank_is_waited_for(void **state)
{
    struct pair *pair = *state;
    lose(pair, COPY, LOSSES - 1);
    script_rule(&pair->one.way, .name = "filled", .on = ON_GET, .key = DOCUMENT, .skip = 1,
                .times = 1, .before = another_fills_the_blank, .argument = pair);
    script_rule(&pair->one.way, .name = "search", .on = ON_LIST);
    ASSERT(token_of_new(pair, "first") == FIRST_OF(5));
    ASSERT(script_met(&pair->one.way, "filled") == 1);
    ASSERT(script_met(&pair->one.way, "search") == 0);
}

static void fences_count_too(void **state)
{
    struct pair *pair = *state;
    struct epoch_findings sight;
    struct hf_error error;
    token_of_new(pair, "first");
    raise_by(pair, 9);
    struct hf_lock *lock = lock_held(&pair->one, "writer", 60000);
    uint64_t token = hf_lock_token(lock);
    MUST(hf_fenced_put(lock, "reports/state", "x", 1, &error));
    MUST(hf_lock_release(lock, &error)); /* a free alone would release it later */
    hf_lock_free(lock);
    remove_object(pair, "default/meta/writer.json"); /* purged, as far as anybody can tell */
    lose_both(pair);
    repair(pair, &sight);
    ASSERT(sight.lost && sight.shown == token);
}

static void what_is_known_is_never_lowered(void **state)
{
    struct pair *pair = *state;
    struct epoch_findings sight;
    token_of_new(pair, "first");
    raise_by(pair, 500);
    ASSERT(repair(pair, &sight) == 500 && sight.known && !sight.lost);
    lose(pair, DOCUMENT, 0);
    ASSERT(repair(pair, &sight) == 500 && sight.known);
    lose(pair, COPY, 1);
    ASSERT(repair(pair, &sight) == 500 && sight.known);
    world_write(&pair->world, DOCUMENT,
                VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 0 }"));
    world_write(&pair->world, COPY, VIEW("{ \"format\": \"holdfast.epoch/1\", \"epoch\": 0 }"));
    world_write(&pair->world, traces[0].key, view_of(traces[0].text));
    ASSERT(repair(pair, &sight) == 8); /* above what the table shows */
}

static void a_restored_store_is_repaired(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    uint64_t epoch;
    token_of_new(pair, "first");
    raise_by(pair, 4096);
    uint64_t token = token_of_new(pair, "second");
    lose(pair, DOCUMENT, 1);
    lose(pair, COPY, 1);
    MUST(restore_epoch(pair->two.client, &epoch, &error));
    ASSERT(epoch > token >> 32);
    ASSERT(token_of_new(pair, "third") == FIRST_OF(epoch));
}

/* The copy stands in for a document that is lost later, so it must know every limit. */
static void a_copy_that_is_paired_again_gets_the_limits(void **state)
{
    struct pair *pair = *state;
    token_of_new(pair, "first");
    world_write(
        &pair->world, DOCUMENT,
        VIEW("{\"format\":\"holdfast.epoch/1\",\"epoch\":7,\"pair\":\"aaaaaaaaaaaaaaaa\","
             "\"longest\":{\"names\":{\"86400000\":\"9f86d081884c7d65:1763200000000000\"},"
             "\"inodes\":{},\"paths\":{},\"chunks\":{}}}"));
    world_write(
        &pair->world, COPY,
        VIEW("{\"format\":\"holdfast.epoch/1\",\"epoch\":7,\"pair\":\"bbbbbbbbbbbbbbbb\","
             "\"longest\":{\"names\":{},\"inodes\":{},\"paths\":{},\"chunks\":{}}}"));
    uint64_t epoch = raise_by(pair, 1);
    ASSERT(epoch > 7 && said_by(pair, DOCUMENT) == epoch && said_by(pair, COPY) == epoch);
    ASSERT(world_times(&pair->world, DOCUMENT, "86400000") == 1);
    ASSERT(world_times(&pair->world, COPY, "86400000") == 1);
}

/* ---- How far tokens go --------------------------------------------------------------- */

static void after_the_last_token_of_an_epoch(void **state)
{
    struct pair *pair = *state;
    token_of_new(pair, "first");
    raise_by(pair, 3);
    token_of_new(pair, "second");
    world_write(&pair->world, "default/meta/deploy.json",
                VIEW("{\"format\":\"holdfast.leases/1\",\"next_token\":12884901887,"
                     "\"leases\":{}}")); /* 2^32 - 1 of epoch 2 */
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    ASSERT(hf_lock_token(lock) == FIRST_OF(4));
    ASSERT(said_by(pair, DOCUMENT) == 4 && said_by(pair, COPY) == 4);
    IS(HF_OK, hf_lock_release(lock, NULL));
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    ASSERT(hf_lock_token(lock) == FIRST_OF(4) + 1);
    hf_lock_free(lock);
}

static void the_first_name_makes_the_epoch(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_of(&pair->one, "second", 60000);
    ASSERT(token_of_new(pair, "first") == FIRST_OF(0));
    ASSERT(said_by(pair, DOCUMENT) == 0 && said_by(pair, COPY) == 0);
    script_counts(&pair->one.way);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    struct counts counts = script_counts(&pair->one.way);
    ASSERT(counts.gets == 2 && counts.others == 0); /* the table and the document */
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("the first name of a namespace makes its epoch, the next one reads it",
             the_first_name_makes_the_epoch),
        PAIR("a lost document gives way to its copy, and is written anew",
             a_lost_document_gives_way_to_its_copy),
        PAIR("a lost copy is written anew", a_lost_copy_is_written_anew),
        PAIR("a document without a copy, of an older version, is read and gets one",
             a_document_without_a_copy_is_read_and_gets_one),
        PAIR("a copy that is behind never lowers the document",
             a_copy_that_is_behind_never_lowers_it),
        PAIR("unknown members are kept", unknown_members_are_kept),
        PAIR("a document of a later format is left alone", a_later_format_is_left_alone),
        PAIR("a lost epoch is rebuilt above every token",
             a_lost_epoch_is_rebuilt_above_every_token),
        PAIR("while it is lost no damaged table is replaced",
             a_damaged_table_waits_for_its_epoch),
        IT("a namespace with traces of tokens has no epoch 0",
           a_namespace_with_traces_has_no_epoch_0),
        PAIR("a blank among many stubs is filled", a_blank_among_stubs_is_filled),
        PAIR("a table with tokens among many stubs is found", a_table_among_stubs_is_found),
        PAIR("a client that finds another's blank waits for it to be filled",
             the_client_that_wrote_the_blank_is_waited_for),
        PAIR("fences count too", fences_count_too),
        PAIR("what is known is never lowered", what_is_known_is_never_lowered),
        PAIR("a copy that is paired again gets the limits of the document",
             a_copy_that_is_paired_again_gets_the_limits),
        PAIR("a restored store whose epoch is lost is repaired", a_restored_store_is_repaired),
        PAIR("after the last token of an epoch tokens go on in the next",
             after_the_last_token_of_an_epoch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
