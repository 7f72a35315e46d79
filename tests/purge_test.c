/* SPDX-License-Identifier: Apache-2.0 */
/* purge_test.c KIND: purging unused tables: which may be deleted, and how. KIND is mem, sqlite,
 * or url. */
#include "lock/epoch.h"
#include "lock/purge.h"
#include "lock_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define TABLE "default/meta/deploy.json"

/* ---- What is a stub ------------------------------------------------------------------ */

/* Whether a table, as it stands in the store, is one. */
static bool is_stub_at(struct world *world, const char *key, bool state_empty)
{
    struct lease_table *table;
    struct hf_error error;
    char *text = world_text(world, key);
    assert_non_null(text);
    MUST(table_decode(view_of(text), now(), NULL, &table, &error));
    bool is = table_is_stub(table, state_empty);
    table_free(table);
    free(text);
    return is;
}

static bool is_stub(struct world *world, bool state_empty)
{
    return is_stub_at(world, TABLE, state_empty);
}

static void a_table_of_what_was_released_is_a_stub(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    ASSERT(!is_stub(&pair->world, true));
    IS(HF_OK, hf_lock_release(lock, NULL));
    ASSERT(is_stub(&pair->world, true));
    ASSERT(!is_stub(&pair->world, false));
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    IS(HF_OK, hf_lock_fail(lock, NULL, NULL));
    ASSERT(is_stub(&pair->world, true));
    hf_lock_free(lock);
}

static void what_answers_once_per_is_none(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    IS(HF_OK, hf_lock_complete(lock, NULL, NULL));
    ASSERT(!is_stub(&pair->world, true));
    hf_lock_free(lock);
}

static void what_names_an_output_is_none(void **state)
{
    struct pair *pair = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.output = "data/out";
    struct hf_lock *lock = lock_with(&pair->one, "chunk:data/in", &options);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    IS(HF_OK, hf_lock_fail(lock, NULL, NULL));
    ASSERT(!is_stub_at(&pair->world, "metadata/compaction-leases.json", true));
    hf_lock_free(lock);
}

/* Nobody settles what becomes of other outputs, so they would stay for ever. */
static void only_chunks_have_an_output(void **state)
{
    struct pair *pair = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    static const char *const bad[] = { "deploy",  "path:/a",    "tree:/a",   "inode:7",
                                       "pin:a/b", "range:7:0-", "shard:x/a3" };
    const char *both[] = { "pin:data/a", "chunk:data/b" };
    struct hf_lock *lock = NULL;
    struct hf_error error;
    options.output = "data/out";
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        IS(HF_INVALID, hf_lock_new(pair->one.client, bad[i], &options, &lock, &error));
        ASSERT(strstr(error.why, "output") && !lock);
    }
    MUST(hf_lock_new_many(pair->one.client, both, 2, &options, &lock, &error));
    hf_lock_free(lock);
    options.output = "";
    hf_lock_free(lock_with(&pair->one, "deploy", &options));
}

static void where_somebody_waits_is_none(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *lock = lock_held(&pair->one, "deploy", 60000);
    struct hf_lock *other = lock_of(&pair->two, "deploy", 60000);
    IS(HF_HELD, hf_lock_begin(other, NULL));
    IS(HF_OK, hf_lock_release(lock, NULL));
    ASSERT(!is_stub(&pair->world, true));
    IS(HF_OK, hf_lock_cancel(other, NULL));
    ASSERT(is_stub(&pair->world, true));
    hf_lock_free(lock);
    hf_lock_free(other);
}

static void what_others_have_written_is_none(void **state)
{
    struct pair *pair = *state;
    world_write(&pair->world, TABLE,
                VIEW("{\"format\":\"" TABLE_FORMAT "\",\"next_token\":1,\"leases\":{}}"));
    ASSERT(is_stub(&pair->world, true));
    world_write(&pair->world, TABLE,
                VIEW("{\"format\":\"" TABLE_FORMAT
                     "\",\"next_token\":1,\"leases\":{},\"later\":1}"));
    ASSERT(!is_stub(&pair->world, true));
    world_write(&pair->world, TABLE, VIEW("{\"leases\":{}}")); /* of another program */
    ASSERT(!is_stub(&pair->world, true));
}

/* ---- Purging ------------------------------------------------------------------------- */

static struct etag etag_now(struct world *world)
{
    struct buffer text = BUFFER_INIT(MIB);
    struct get_call get = { .key = VIEW(TABLE), .body = &text };
    must(store_get(world->truth, &get), &get.error, "get", __LINE__);
    buffer_release(&text);
    return get.info.etag;
}

static bool is_there(struct world *world)
{
    char *text = world_text(world, TABLE);
    free(text);
    return text != NULL;
}

static uint64_t use(struct hf_lock *lock)
{
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    uint64_t token = hf_lock_token(lock);
    IS(HF_OK, hf_lock_release(lock, NULL));
    return token;
}

static void purge(struct pair *pair)
{
    struct hf_client *client = pair->two.client;
    struct epoch_ref ref = epoch_of_tables(&client->space, mono_add(now(), SPAN_S(10)));
    struct hf_error error;
    uint64_t epoch;
    struct etag etag = etag_now(&pair->world);
    MUST(epoch_raise(&ref, /* by */ 1, &epoch, &error));
    MUST(table_purge(client, VIEW(TABLE), &etag, &error));
}

static void tokens_rise_over_a_purge(void **state)
{
    struct pair *pair = *state;
    struct hf_lock *warm = lock_of(&pair->one, "deploy", 60000);
    struct hf_lock *fresh = lock_of(&pair->two, "deploy", 60000);
    uint64_t before = use(warm);
    purge(pair);
    ASSERT(!is_there(&pair->world));
    uint64_t after = use(fresh); /* born anew */
    ASSERT(after > before);
    purge(pair);
    ASSERT(use(warm) > after); /* by one who believes that it is still there */
    hf_lock_free(warm);
    hf_lock_free(fresh);
}

static void a_table_that_was_used_stays(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    use(lock);
    struct etag seen = etag_now(&pair->world);
    use(lock);
    IS(HF_CONFLICT, table_purge(pair->two.client, VIEW(TABLE), &seen, &error));
    ASSERT(error.why[0]);
    ASSERT(is_there(&pair->world));
    hf_lock_free(lock);
}

static void a_table_that_is_gone_is_not_purged_again(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    use(lock);
    struct etag seen = etag_now(&pair->world);
    MUST(table_purge(pair->two.client, VIEW(TABLE), &seen, &error));
    enum hf_status status = table_purge(pair->two.client, VIEW(TABLE), &seen, &error);
    ASSERT(status == HF_NOT_FOUND || status == HF_CONFLICT);
    hf_lock_free(lock);
}

/* As it is purged for the second time it may be there, or be gone, or be another by now. */
static void a_purge_without_an_answer_is_asked_for_again(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    const struct fate fates[] = { LOSE, LOSE_REPLY };
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        bool done = fates[i].kind == FATE_LOSE_REPLY;
        use(lock);
        struct etag seen = etag_now(&pair->world);
        way_shut(&pair->two.way, "", fates[i]);
        IS(HF_UNSURE, table_purge(pair->two.client, VIEW(TABLE), &seen, &error));
        way_open(&pair->two.way);
        assert_int_equal(is_there(&pair->world), !done);
        enum hf_status status = table_purge(pair->two.client, VIEW(TABLE), &seen, &error);
        ASSERT(done ? status != HF_OK : status == HF_OK);
        ASSERT(!is_there(&pair->world));
        use(lock);
        ASSERT(table_purge(pair->two.client, VIEW(TABLE), &seen, &error) != HF_OK);
        ASSERT(is_there(&pair->world));
    }
    hf_lock_free(lock);
}

static void a_lock_that_was_taken_meanwhile_is_kept(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    use(lock);
    struct etag seen = etag_now(&pair->world);
    IS(HF_OK, hf_lock_acquire(lock, 0, NULL));
    IS(HF_CONFLICT, table_purge(pair->two.client, VIEW(TABLE), &seen, &error));
    IS(HF_OK, hf_lock_renew(lock, NULL));
    hf_lock_free(lock);
}

static void where_nothing_can_be_deleted_on_a_condition_it_stays(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_of(&pair->one, "deploy", 60000);
    use(lock);
    struct etag seen = etag_now(&pair->world);
    pair->two.way.base.traits.delete_conditional = false;
    IS(HF_UNSUPPORTED, table_purge(pair->two.client, VIEW(TABLE), &seen, &error));
    ASSERT(is_there(&pair->world));
    assert_int_equal(script_counts(&pair->two.way).others, 0);
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("a table of what was released or failed is a stub, unless it has a state",
             a_table_of_what_was_released_is_a_stub),
        PAIR("one that answers once_per is none", what_answers_once_per_is_none),
        PAIR("one that names an output is none", what_names_an_output_is_none),
        PAIR("only a lock of chunks can name an output", only_chunks_have_an_output),
        PAIR("one where somebody waits is none", where_somebody_waits_is_none),
        PAIR("one with something that we do not know is none",
             what_others_have_written_is_none),
        PAIR("tokens rise over a purge", tokens_rise_over_a_purge),
        PAIR("a table that was used since it was looked at stays", a_table_that_was_used_stays),
        PAIR("a table that is gone is told so", a_table_that_is_gone_is_not_purged_again),
        PAIR("a purge without an answer can be asked for again, and never hits another table",
             a_purge_without_an_answer_is_asked_for_again),
        PAIR("a lock that was taken since stays held", a_lock_that_was_taken_meanwhile_is_kept),
        PAIR("where the store cannot delete on a condition nothing is purged",
             where_nothing_can_be_deleted_on_a_condition_it_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
