/* SPDX-License-Identifier: Apache-2.0 */
/* shard_lock_test.c KIND: the lock of a shard: a normal lease, in a file that programs read and
 * write that know only worker_id, created_at and expires_at. KIND is mem or sqlite. */
#include "base/layout.h"
#include "base/parse.h"
#include "lock/table_reader.h"
#include "lock/tables.h"
#include "lock_kit.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define SCOPE "shard:domains/a3"
#define LOCK  "indexes/domains/shards/a3.lock"
#define SHARD "indexes/domains/shards/a3.usv"

/* ---- What others see ----------------------------------------------------------------- */

struct face {
    char worker_id[256];
    struct wall_time created_at, expires_at;
};

static json_t *tree_of(struct world *world, const char *key)
{
    json_error_t error;
    char *text = world_text(world, key);
    if (!text)
        FAIL("there is no %s", key);
    json_t *tree = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!tree)
        FAIL("%s in %s", error.text, text);
    free(text);
    return tree;
}

static struct face face_of(struct world *world)
{
    struct face face;
    const char *worker, *created, *expires;
    json_t *tree = tree_of(world, LOCK);
    ASSERT(json_unpack(tree, "{s:s, s:s, s:s}", "worker_id", &worker, "created_at", &created,
                       "expires_at", &expires) == 0);
    snprintf(face.worker_id, sizeof face.worker_id, "%s", worker);
    ASSERT(parse_time(view_of(created), &face.created_at, NULL) == HF_OK);
    ASSERT(parse_time(view_of(expires), &face.expires_at, NULL) == HF_OK);
    json_decref(tree);
    return face;
}

static int64_t ms_of(struct face face)
{
    return wall_since(face.expires_at, face.created_at).us / 1000;
}

static void others_see_who_holds_it(void **state)
{
    struct pair *pair = *state;
    struct peer peer;
    struct hf_error error;
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.holder = "worker \"7\"";
    peer_open(&peer, &pair->world, &options);
    struct hf_lock *lock = lock_held(&peer, SCOPE, 60000);
    struct face held = face_of(&pair->world);
    ASSERT(strcmp(held.worker_id, "worker \"7\"") == 0);
    ASSERT(ms_of(held) == 60000);
    int64_t off = wall_since(env_wall(env_real()), held.created_at).us;
    ASSERT(off > -1000000 && off < 10000000);
    MUST(hf_lock_renew(lock, &error));
    ASSERT(ms_of(face_of(&pair->world)) >= 60000);
    MUST(hf_lock_release(lock, &error));
    struct face over = face_of(&pair->world);
    ASSERT(strcmp(over.worker_id, "worker \"7\"") == 0);
    ASSERT(ms_of(over) == 0);
    ASSERT(over.created_at.us == held.created_at.us);
    hf_lock_free(lock);
    peer_close(&peer);
}

/* ---- A lease like any other ---------------------------------------------------------- */

static void one_holds_at_a_time(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    uint64_t last = 0;
    struct hf_lock *one = lock_of(&pair->one, SCOPE, 60000);
    struct hf_lock *two = lock_of(&pair->two, SCOPE, 60000);
    struct hf_lock *beside = lock_held(&pair->two, "shard:domains/a4", 60000);
    struct hf_lock *elsewhere = lock_held(&pair->two, "shard:emails/a3", 60000);
    for (int i = 0; i < 5; i++) {
        MUST(hf_lock_acquire(one, 0, &error));
        IS(HF_HELD, hf_lock_acquire(two, 0, &error));
        ASSERT(hf_lock_token(one) > last);
        MUST(hf_lock_release(one, &error));
        MUST(hf_lock_acquire(two, 0, &error));
        IS(HF_HELD, hf_lock_acquire(one, 0, &error));
        ASSERT(hf_lock_token(two) > hf_lock_token(one));
        last = hf_lock_token(two);
        MUST(hf_lock_release(two, &error));
        ASSERT(world_times(&pair->world, LOCK, "\"worker_id\"") == 1);
    }
    hf_lock_free(one);
    hf_lock_free(two);
    hf_lock_free(beside);
    hf_lock_free(elsewhere);
}

/* Warm, it is one put to take and one to give back. */
static void it_costs_one_put(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, SCOPE, 60000);
    MUST(hf_lock_release(lock, &error));
    script_counts(&pair->one.way);
    MUST(hf_lock_acquire(lock, 0, &error));
    MUST(hf_lock_release(lock, &error));
    struct counts counts = script_counts(&pair->one.way);
    ASSERT(counts.puts == 2);
    ASSERT(counts.gets + counts.looks + counts.others == 0);
    hf_lock_free(lock);
}

static void it_is_taken_over_with_a_proof(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = 400;
    options.no_renewal = true;
    struct hf_lock *one = lock_with(&pair->one, SCOPE, &options);
    struct hf_lock *two = lock_of(&pair->two, SCOPE, 60000);
    MUST(hf_lock_acquire(one, 0, &error));
    struct mono_time start = now();
    IS(HF_HELD, hf_lock_acquire(two, 0, &error));
    MUST(hf_lock_acquire(two, 20000, &error));
    ASSERT(ms_since(start) >= 390);
    ASSERT(hf_lock_check(one, &error) != HF_OK);
    ASSERT(hf_lock_token(two) > hf_lock_token(one));
    hf_lock_free(one);
    hf_lock_free(two);
}

static void it_lasts_five_minutes_at_most(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *longest = lock_held(&pair->one, SCOPE, 300000);
    struct hf_lock *longer = lock_of(&pair->one, "shard:domains/a4", 300001);
    IS(HF_INVALID, hf_lock_acquire(longer, 0, &error));
    hf_lock_free(longest);
    hf_lock_free(longer);
}

static void it_belongs_to_no_namespace(void **state)
{
    struct pair *pair = *state;
    struct peer other, none;
    struct hf_error error;
    struct hf_lock *adopted;
    char text[HF_LEASE_TEXT_MAX];
    struct hf_client_options options = HF_CLIENT_OPTIONS;
    options.ns = "team";
    peer_open(&other, &pair->world, &options);
    struct hf_lock *ours = lock_held(&pair->one, SCOPE, 60000);
    struct hf_lock *theirs = lock_of(&other, SCOPE, 60000);
    IS(HF_HELD, hf_lock_acquire(theirs, 0, &error));
    MUST(hf_lock_text(ours, text, &error));
    ASSERT(strstr(text, ":" LOCK));
    MUST(hf_lock_adopt(other.client, text, NULL, &adopted, &error));
    ASSERT(hf_lock_token(adopted) == hf_lock_token(ours));
    hf_lock_detach(adopted);
    hf_lock_free(ours);
    hf_lock_free(theirs);
    peer_close(&other);
    options.ns = "indexes";
    IS(HF_INVALID, peer_try_open(&none, &pair->world, &options, &error));
    ASSERT(strstr(error.why, "indexes"));
}

static void two_shards_are_no_lock(void **state)
{
    struct pair *pair = *state;
    const char *scopes[2] = { SCOPE, "shard:domains/a4" };
    struct hf_error error;
    struct hf_lock *lock;
    IS(HF_INVALID, hf_lock_new_many(pair->one.client, scopes, 2, NULL, &lock, &error));
    scopes[1] = "deploy";
    IS(HF_INVALID, hf_lock_new_many(pair->one.client, scopes, 2, NULL, &lock, &error));
}

static void its_key_is_told_from_others(void **state)
{
    (void)state;
    static const char *const ours[] = { LOCK, "indexes/x/shards/0.lock",
                                        "indexes/shards/shards/09af.lock",
                                        "indexes/meta/shards/ff.lock" };
    static const char *const others[] = {
        SHARD,
        "indexes/domains/shards/g0.lock",
        "indexes/domains/shards/00000.lock",
        "indexes/domains/shards/.lock",
        "indexes/domains/shards/A3.lock",
        "indexes/domains/shards/a3/b.lock",
        "indexes/domains/a3.lock",
        "indexes/shards/a3.lock",
        "indexes//shards/a3.lock",
        "indexes/.x/shards/a3.lock",
        "indexes/meta/index.json",
        "indexes/paths.json",
        "indexes/inode/7.json",
        "x/indexes/domains/shards/a3.lock",
    };
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        ASSERT(table_key_is_of_shard(view_of(ours[i])) && table_key_is_ours(view_of(ours[i])));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ASSERT(!table_key_is_of_shard(view_of(others[i])) &&
               !table_key_is_ours(view_of(others[i])));
}

/* ---- Locks of other programs --------------------------------------------------------- */

/* It is long over, by the calendar: which proves nothing. */
static const char theirs[] = "{\"worker_id\": \"rpi-7\", \"host\": [1, 2],\n"
                             " \"created_at\": \"2026-02-06T10:00:00.000000\",\n"
                             " \"expires_at\": \"2026-02-06T10:00:00.700000\"}\n";

static void a_lock_of_theirs_blocks_until_it_was_watched(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    world_write(&pair->world, LOCK, view_of(theirs));
    struct hf_lock *lock = lock_of(&pair->one, SCOPE, 60000);
    struct mono_time start = now();
    IS(HF_HELD, hf_lock_acquire(lock, 0, &error));
    ASSERT(strcmp(face_of(&pair->world).worker_id, "rpi-7") == 0);
    ASSERT(ms_of(face_of(&pair->world)) == 700);
    enum hf_status status = HF_HELD;
    while (status == HF_HELD && ms_since(start) < 20000) {
        pass_ms(10);
        status = hf_lock_acquire(lock, 0, &error);
    }
    IS(HF_OK, status);
    ASSERT(ms_since(start) >= 700);
    ASSERT(hf_lock_token(lock) >> 32 > 0); /* of an epoch of its own */
    json_t *tree = tree_of(&pair->world, LOCK);
    ASSERT(json_array_size(json_object_get(tree, "host")) == 2);
    json_decref(tree);
    ASSERT(ms_of(face_of(&pair->world)) == 60000);
    hf_lock_free(lock);
}

static void those_who_wait_get_it_after_them(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    world_write(&pair->world, LOCK, view_of(theirs));
    struct hf_lock *lock = lock_of(&pair->one, SCOPE, 60000);
    struct mono_time start = now();
    MUST(hf_lock_acquire(lock, 20000, &error));
    ASSERT(ms_since(start) >= 700);
    hf_lock_free(lock);
}

/* While we stand in line in their file it goes on saying what they wrote. */
static void their_words_stay_while_we_wait(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    world_write(&pair->world, LOCK,
                VIEW("{\"worker_id\":\"rpi-7\",\"created_at\":\"2026-02-06T10:00:00Z\","
                     "\"expires_at\":\"2026-02-06T10:05:00Z\"}"));
    struct hf_lock *lock = lock_of(&pair->one, SCOPE, 60000);
    IS(HF_HELD, hf_lock_begin(lock, &error));
    struct face face = face_of(&pair->world);
    ASSERT(strcmp(face.worker_id, "rpi-7") == 0);
    ASSERT(ms_of(face) == 300000);
    hf_lock_free(lock);
}

static void who_writes_over_our_lock_takes_it(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, SCOPE, 60000);
    world_write(&pair->world, LOCK, view_of(theirs));
    IS(HF_LOST, hf_lock_renew(lock, &error));
    ASSERT(hf_lock_check(lock, &error) != HF_OK);
    ASSERT(strcmp(face_of(&pair->world).worker_id, "rpi-7") == 0);
    hf_lock_free(lock);
}

/* Asks for the lock once, as a process does that ends then; tells how often it wrote. */
static enum hf_status ask_shortly(struct world *world, unsigned *ret_puts)
{
    struct peer peer;
    struct hf_error error;
    peer_open(&peer, world, NULL);
    struct hf_lock *lock = lock_of(&peer, SCOPE, 60000);
    script_counts(&peer.way);
    enum hf_status status = hf_lock_acquire(lock, 0, &error);
    *ret_puts = script_counts(&peer.way).puts;
    if (status == HF_OK)
        MUST(hf_lock_release(lock, &error));
    hf_lock_free(lock);
    peer_close(&peer);
    return status;
}

static void the_short_lived_take_over_theirs(void **state)
{
    struct pair *pair = *state;
    unsigned puts;
    world_write(&pair->world, LOCK, view_of(theirs));
    struct mono_time start = now();
    IS(HF_HELD, ask_shortly(&pair->world, &puts));
    ASSERT(puts > 0);
    ASSERT(world_times(&pair->world, LOCK, "\"expires_us\"") == 1);
    ASSERT(strcmp(face_of(&pair->world).worker_id, "rpi-7") == 0);
    ASSERT(ms_of(face_of(&pair->world)) == 700);
    char *text = world_text(&pair->world, LOCK);
    enum hf_status status = ask_shortly(&pair->world, &puts);
    if (ms_since(start) < 700) { /* else this machine was too slow to see it held */
        IS(HF_HELD, status);
        ASSERT(puts == 0);
        char *after = world_text(&pair->world, LOCK);
        ASSERT(strcmp(text, after) == 0);
        free(after);
    }
    free(text);
    while (status == HF_HELD && ms_since(start) < 20000) {
        pass_ms(10);
        status = ask_shortly(&pair->world, &puts);
    }
    IS(HF_OK, status);
    ASSERT(ms_since(start) >= 700 && ms_since(start) < 20000);
}

static void theirs_written_anew_lasts_anew(void **state)
{
    struct pair *pair = *state;
    unsigned puts;
    world_write(&pair->world, LOCK, view_of(theirs));
    IS(HF_HELD, ask_shortly(&pair->world, &puts));
    pass_ms(800);
    world_write(&pair->world, LOCK, view_of(theirs));
    IS(HF_HELD, ask_shortly(&pair->world, &puts));
    pass_ms(800);
    IS(HF_OK, ask_shortly(&pair->world, &puts));
}

static void delete_object(struct world *world, const char *key)
{
    struct delete_call call = { .key = view_of(key) };
    IS(HF_OK, store_delete(world->truth, &call));
}

/* They give a lock back by deleting it. It is born again, whether there is a shard or not, and
 * nothing is listed to find out. */
static void a_deleted_lock_is_born_again(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, SCOPE, 60000);
    MUST(hf_lock_release(lock, &error));
    world_write(&pair->world, SHARD, VIEW("records"));
    delete_object(&pair->world, LOCK);
    script_counts(&pair->one.way);
    MUST(hf_lock_acquire(lock, 0, &error));
    ASSERT(script_counts(&pair->one.way).others == 0);
    ASSERT(hf_lock_token(lock) >> 32 == 0);
    struct hf_lock *other = lock_of(&pair->two, SCOPE, 60000);
    IS(HF_HELD, hf_lock_acquire(other, 0, &error));
    hf_lock_free(lock);
    hf_lock_free(other);
}

/* Whoever held it finds out by asking the store. */
static void who_held_a_deleted_lock_has_lost_it(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *lock = lock_held(&pair->one, SCOPE, 60000);
    delete_object(&pair->world, LOCK);
    struct hf_lock *next = lock_held(&pair->two, SCOPE, 60000);
    IS(HF_LOST, hf_lock_renew(lock, &error));
    MUST(hf_lock_renew(next, &error));
    hf_lock_free(lock);
    hf_lock_free(next);
}

/* ---- Damage -------------------------------------------------------------------------- */

struct kept {
    unsigned count;
    char text[64];
};

static struct kept kept_of(struct world *world)
{
    struct kept kept = { .count = 0 };
    struct list_call list = { .prefix = VIEW(LAYOUT_KEPT_FOLDER LOCK) };
    IS(HF_OK, store_list(world->truth, &list));
    for (size_t i = 0; i < list.count; i++) {
        char key[KEY_BYTES_MAX + 1];
        snprintf(key, sizeof key, "%.*s", VIEW_ARGS(list.entries[i].key));
        char *text = world_text(world, key);
        snprintf(kept.text, sizeof kept.text, "%s", text);
        free(text);
        kept.count++;
    }
    list_release(&list);
    return kept;
}

static void garbage_is_replaced_behind_a_barrier(void **state)
{
    struct pair *pair = *state;
    struct hf_error error;
    struct hf_lock *holder = lock_held(&pair->one, SCOPE, 60000);
    uint64_t before = hf_lock_token(holder);
    world_write(&pair->world, LOCK, VIEW("{\"worker\": \"w\"} garbage"));
    struct hf_lock *lock = lock_of(&pair->two, SCOPE, 60000);
    IS(HF_HELD, hf_lock_acquire(lock, 0, &error));
    struct kept kept = kept_of(&pair->world);
    ASSERT(kept.count == 1);
    ASSERT(strcmp(kept.text, "{\"worker\": \"w\"} garbage") == 0);
    struct face face = face_of(&pair->world);
    ASSERT(strcmp(face.worker_id, "replaced a damaged table") == 0);
    ASSERT(ms_of(face) == 300000);
    json_t *tree = tree_of(&pair->world, LOCK), *leases = json_object_get(tree, "leases");
    void *first = json_object_iter(leases);
    ASSERT(json_object_size(leases) == 1);
    json_int_t ttl = 0, token = 0;
    ASSERT(json_unpack(json_object_iter_value(first), "{s:I, s:I}", "ttl_ms", &ttl, "token",
                       &token) == 0);
    ASSERT(ttl == 300000);
    char text[HF_LEASE_TEXT_MAX];
    snprintf(text, sizeof text, "%" PRId64 ":%s:" LOCK, (int64_t)token,
             json_object_iter_key(first));
    json_decref(tree);
    IS(HF_LOST, hf_lock_renew(holder, &error));
    MUST(hf_break(pair->two.client, text, "test", "all have stopped", &error));
    MUST(hf_lock_acquire(lock, 0, &error));
    ASSERT(hf_lock_token(lock) > before && hf_lock_token(lock) > (uint64_t)token);
    hf_lock_free(holder);
    hf_lock_free(lock);
}

/* ---- Looking ------------------------------------------------------------------------- */

struct shown {
    size_t count;
    char keys[512];
};

static enum hf_status note_table(void *argument, const struct table_snapshot *sight,
                                 struct hf_error *error)
{
    struct shown *shown = argument;
    (void)error;
    size_t used = strlen(shown->keys);
    shown->count++;
    snprintf(shown->keys + used, sizeof shown->keys - used, "%s%.*s%s", used ? " " : "",
             VIEW_ARGS(sight->key), sight->table ? "" : "!");
    ASSERT(sight->settings.ttl_max.us ==
           (table_key_is_of_shard(sight->key) ? SHARD_TTL_MAX.us : SPAN_S(3600).us));
    return HF_OK;
}

static void looking_finds_locks_and_nothing_else(void **state)
{
    struct pair *pair = *state;
    static const struct {
        const char *start, *keys;
    } rows[] = {
        { "shard:", "indexes/dom/shards/0.lock! " LOCK " indexes/domains/shards/b0.lock" },
        { "shard:dom", "indexes/dom/shards/0.lock! " LOCK " indexes/domains/shards/b0.lock" },
        { "shard:doma", LOCK " indexes/domains/shards/b0.lock" },
        { "shard:dom/", "indexes/dom/shards/0.lock!" },
        { "shard:domains/a", LOCK },
        { SCOPE, LOCK },
        { "shard:domains/a3/", "" },
        { "shard:none", "" },
        { "shard:none/", "" },
        { "shard:/", "" },
        { "deploy", "default/meta/deploy.json" },
        { "", "default/meta/deploy.json indexes/dom/shards/0.lock! " LOCK
              " indexes/domains/shards/b0.lock" },
    };
    struct hf_lock *ours = lock_held(&pair->one, SCOPE, 60000);
    struct hf_lock *named = lock_held(&pair->one, "deploy", 60000);
    world_write(&pair->world, "indexes/domains/shards/b0.lock", view_of(theirs));
    world_write(&pair->world, "indexes/dom/shards/0.lock", VIEW("garbage"));
    static const char *const others[] = {
        SHARD,
        "indexes/domains/shards/notes.lock",
        "indexes/domains/inbox/a3/x.lock",
        "indexes/domains/a3.lock",
        "indexes/meta/deploy.json",
        "indexes/x.lock",
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        world_write(&pair->world, others[i], VIEW("something else"));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shown shown = { .count = 0 };
        struct hf_error error;
        struct table_reader look;
        table_reader_init(&look, pair->two.client);
        MUST(table_reader_list(&look, view_of(rows[i].start), note_table, &shown, &error));
        table_reader_release(&look);
        if (strcmp(shown.keys, rows[i].keys) != 0)
            FAIL("'%s' shows %s", rows[i].start, shown.keys);
    }
    hf_lock_free(ours);
    hf_lock_free(named);
}

/* Inboxes can hold millions of entries: they are not listed. */
static void looking_does_not_list_inboxes(void **state)
{
    struct pair *pair = *state;
    struct shown shown = { .count = 0 };
    struct hf_error error;
    struct table_reader look;
    char key[128];
    struct hf_lock *lock = lock_held(&pair->one, SCOPE, 60000);
    for (int i = 0; i < 2500; i++) {
        snprintf(key, sizeof key, "indexes/domains/inbox/a3/k%04d~20260206T100000-0.usv", i);
        world_write(&pair->world, key, VIEW("x"));
        snprintf(key, sizeof key, "indexes/domains/flat%04d.usv", i);
        if (i < 500)
            world_write(&pair->world, key, VIEW("x"));
    }
    script_counts(&pair->two.way);
    table_reader_init(&look, pair->two.client);
    MUST(table_reader_list(&look, VIEW("shard:"), note_table, &shown, &error));
    table_reader_release(&look);
    ASSERT(strcmp(shown.keys, LOCK) == 0);
    struct counts counts = script_counts(&pair->two.way);
    ASSERT(counts.others == 2); /* indexes, and the shards of the one */
    ASSERT(counts.gets + counts.looks == 1);
    hf_lock_free(lock);
}

int main(int argc, char **argv)
{
    if (!world_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        PAIR("programs that know three members see who holds a shard, and that it is over",
             others_see_who_holds_it),
        PAIR("one holds a shard at a time, and tokens rise", one_holds_at_a_time),
        PAIR("warm, it is one put to take and one to give back", it_costs_one_put),
        PAIR("it is taken over with a proof only", it_is_taken_over_with_a_proof),
        PAIR("it lasts five minutes at most", it_lasts_five_minutes_at_most),
        PAIR("it belongs to no namespace, and none is called like its folder",
             it_belongs_to_no_namespace),
        PAIR("two shards are no lock", two_shards_are_no_lock),
        IT("its key is told from all others", its_key_is_told_from_others),
        PAIR("a lock of another program blocks until it was watched for its own time",
             a_lock_of_theirs_blocks_until_it_was_watched),
        PAIR("those who wait for it get it then", those_who_wait_get_it_after_them),
        PAIR("until then it says what the other program wrote", their_words_stay_while_we_wait),
        PAIR("who writes over our lock takes it", who_writes_over_our_lock_takes_it),
        PAIR("a process that does not watch takes it over when it is over by the store's clock",
             the_short_lived_take_over_theirs),
        PAIR("a lock that another program writes anew lasts anew",
             theirs_written_anew_lasts_anew),
        PAIR("a lock that another program deleted is born again", a_deleted_lock_is_born_again),
        PAIR("who held it by then has lost it", who_held_a_deleted_lock_has_lost_it),
        PAIR("garbage is kept aside and replaced behind a barrier of five minutes",
             garbage_is_replaced_behind_a_barrier),
        PAIR("looking around finds locks of shards and nothing else",
             looking_finds_locks_and_nothing_else),
        PAIR("looking around lists no inbox", looking_does_not_list_inboxes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
