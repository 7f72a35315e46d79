/* SPDX-License-Identifier: Apache-2.0 */
/* store_contract_basics.c: single objects: puts, gets, deletes, conditions, keys, batches. */
#include "store_contract.h"

#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>

static const struct condition always = { 0 };

static struct etag wrong_etag(void)
{
    struct etag etag;
    etag_set(&etag, VIEW("d41d8cd98f00b204e9800998ecf8427e"));
    return etag;
}

static enum hf_status put_if(struct contract *c, struct view name, struct view body,
                             struct condition condition, struct etag *ret_etag)
{
    struct contract_key key;
    struct put_call put = { .key = contract_key(c, name, &key),
                            .body = body,
                            .condition = condition };
    enum hf_status status = store_put(c->store, &put);
    if (status == HF_OK && ret_etag)
        *ret_etag = put.etag;
    return status;
}

static enum hf_status delete_if(struct contract *c, struct view name,
                                struct condition condition)
{
    struct contract_key key;
    struct delete_call removal = { .key = contract_key(c, name, &key), .condition = condition };
    return store_delete(c->store, &removal);
}

/* ---- Conditions ---------------------------------------------------------------------- */

static void absent_creates_once(struct contract *c)
{
    EXPECT(c, put_if(c, VIEW("a"), VIEW("1"), if_absent(), NULL) == HF_OK);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("1")));
    EXPECT(c, put_if(c, VIEW("a"), VIEW("2"), if_absent(), NULL) == HF_CONFLICT);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("1")));
}

static void match_replaces_that_version_only(struct contract *c)
{
    struct etag first, second;
    struct etag wrong = wrong_etag();
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("1"), &first));
    EXPECT(c, put_if(c, VIEW("a"), VIEW("x"), if_match(&wrong), NULL) == HF_CONFLICT);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("1")));
    EXPECT(c, put_if(c, VIEW("a"), VIEW("2"), if_match(&first), &second) == HF_OK);
    EXPECT(c, !etag_equal(&first, &second));
    EXPECT(c, put_if(c, VIEW("a"), VIEW("x"), if_match(&first), NULL) == HF_CONFLICT);
    EXPECT(c, contract_holds(c, VIEW("a"), VIEW("2")));
}

static void match_never_creates(struct contract *c)
{
    struct etag wrong = wrong_etag();
    enum hf_status status = put_if(c, VIEW("none"), VIEW("x"), if_match(&wrong), NULL);
    EXPECT(c, status == HF_NOT_FOUND || status == HF_CONFLICT);
    EXPECT(c, contract_missing(c, VIEW("none")));
}

static void equal_bytes_and_etags(struct contract *c)
{
    struct etag first, second;
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("same"), &first));
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("same"), &second));
    if (c->store->traits.etag_fresh)
        EXPECT(c, !etag_equal(&first, &second));
}

static void get_tells_the_etag_of_the_put(struct contract *c)
{
    struct etag etag;
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("hello"), &etag));
    struct get_call get = { .key = contract_key(c, VIEW("a"), &key), .body = &body };
    enum hf_status status = store_get(c->store, &get);
    buffer_release(&body);
    EXPECT_STATUS(c, HF_OK, status, get.error);
    EXPECT(c, etag_equal(&etag, &get.info.etag));
    EXPECT(c, get.info.size == 5);
    EXPECT(c, get.info.modified.us > 0);
}

static void none_match_saves_the_body(struct contract *c)
{
    struct etag etag;
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("1"), &etag));
    struct get_call get = { .key = contract_key(c, VIEW("a"), &key),
                            .body = &body,
                            .none_match = etag };
    enum hf_status same = store_get(c->store, &get);
    size_t read_when_same = body.size;
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("2"), NULL));
    enum hf_status other = store_get(c->store, &get);
    bool new_body = view_equal(buffer_view(&body), VIEW("2"));
    buffer_release(&body);
    EXPECT(c, same == HF_NOT_MODIFIED);
    EXPECT(c, read_when_same == 0);
    EXPECT(c, other == HF_OK);
    EXPECT(c, new_body);
}

static void get_of_a_version_refuses_another(struct contract *c)
{
    struct etag first;
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("one"), &first));
    struct get_call get = { .key = contract_key(c, VIEW("a"), &key),
                            .body = &body,
                            .match = first };
    enum hf_status same = store_get(c->store, &get);
    EXPECT(c, contract_put(c, VIEW("a"), VIEW("two"), NULL));
    buffer_clear(&body);
    enum hf_status other = store_get(c->store, &get);
    size_t read_of_other = body.size;
    buffer_release(&body);
    EXPECT(c, same == HF_OK);
    EXPECT(c, other == HF_CONFLICT);
    EXPECT(c, read_of_other == 0);
}

/* ---- Bodies and ranges --------------------------------------------------------------- */

static bool range_is(struct contract *c, struct view name, uint64_t offset, uint64_t length,
                     struct view expected)
{
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call get = {
        .key = contract_key(c, name, &key), .body = &body, .offset = offset, .length = length
    };
    bool good = store_get(c->store, &get) == HF_OK &&
                view_equal(buffer_view(&body), expected) && get.info.size == 10;
    buffer_release(&body);
    return good;
}

static void ranges(struct contract *c)
{
    struct contract_key key;
    struct buffer body = BUFFER_INIT(KIB);
    EXPECT(c, contract_put(c, VIEW("r"), VIEW("0123456789"), NULL));
    EXPECT(c, range_is(c, VIEW("r"), 0, 0, VIEW("0123456789")));
    EXPECT(c, range_is(c, VIEW("r"), 0, 1, VIEW("0")));
    EXPECT(c, range_is(c, VIEW("r"), 3, 4, VIEW("3456")));
    EXPECT(c, range_is(c, VIEW("r"), 9, 0, VIEW("9")));
    EXPECT(c, range_is(c, VIEW("r"), 7, 100, VIEW("789")));
    struct get_call beyond = { .key = contract_key(c, VIEW("r"), &key),
                               .body = &body,
                               .offset = 10 };
    enum hf_status status = store_get(c->store, &beyond);
    buffer_release(&body);
    EXPECT(c, status == HF_INVALID);
}

static void a_body_past_the_bound_is_refused(struct contract *c)
{
    struct contract_key key;
    struct buffer body = BUFFER_INIT(9);
    EXPECT(c, contract_put(c, VIEW("r"), VIEW("0123456789"), NULL));
    struct get_call get = { .key = contract_key(c, VIEW("r"), &key), .body = &body };
    enum hf_status status = store_get(c->store, &get);
    size_t size = body.size;
    buffer_release(&body);
    EXPECT(c, status == HF_INVALID);
    EXPECT(c, size <= 9);
}

static void any_bytes_in_bodies(struct contract *c)
{
    size_t sizes[] = { 0, 1, 4095, 65535, 65536, 65537, 1000000 };
    char *bytes = malloc(1000000);
    EXPECT(c, bytes != NULL);
    struct prng prng = prng_seeded(1);
    for (size_t i = 0; i < 1000000; i++)
        bytes[i] = (char)prng_next(&prng);
    bool good = true;
    for (size_t i = 0; good && i < sizeof sizes / sizeof sizes[0]; i++) {
        struct view body = { bytes, sizes[i] };
        good =
            contract_put(c, VIEW("body"), body, NULL) && contract_holds(c, VIEW("body"), body);
    }
    free(bytes);
}

/* ---- Deleting ------------------------------------------------------------------------ */

static void delete_removes(struct contract *c)
{
    EXPECT(c, contract_put(c, VIEW("d"), VIEW("1"), NULL));
    EXPECT(c, delete_if(c, VIEW("d"), always) == HF_OK);
    EXPECT(c, contract_missing(c, VIEW("d")));
    EXPECT(c, delete_if(c, VIEW("d"), always) == HF_OK);
}

static void delete_of_a_version(struct contract *c)
{
    struct etag first, second;
    EXPECT(c, contract_put(c, VIEW("d"), VIEW("1"), &first));
    EXPECT(c, contract_put(c, VIEW("d"), VIEW("2"), &second));
    enum hf_status status = delete_if(c, VIEW("d"), if_match(&first));
    if (!c->store->traits.delete_conditional) {
        EXPECT(c, status == HF_UNSUPPORTED);
        EXPECT(c, contract_holds(c, VIEW("d"), VIEW("2")));
        return;
    }
    EXPECT(c, status == HF_CONFLICT);
    EXPECT(c, contract_holds(c, VIEW("d"), VIEW("2")));
    EXPECT(c, delete_if(c, VIEW("d"), if_match(&second)) == HF_OK);
    EXPECT(c, contract_missing(c, VIEW("d")));
    status = delete_if(c, VIEW("d"), if_match(&second));
    EXPECT(c, status == HF_NOT_FOUND || status == HF_CONFLICT);
}

static void a_deleted_name_starts_anew(struct contract *c)
{
    struct etag first, again;
    EXPECT(c, contract_put(c, VIEW("d"), VIEW("1"), &first));
    EXPECT(c, delete_if(c, VIEW("d"), always) == HF_OK);
    enum hf_status status = put_if(c, VIEW("d"), VIEW("2"), if_match(&first), NULL);
    EXPECT(c, status == HF_NOT_FOUND || status == HF_CONFLICT);
    EXPECT(c, put_if(c, VIEW("d"), VIEW("2"), if_absent(), &again) == HF_OK);
    EXPECT(c, !etag_equal(&first, &again));
}

/* ---- Keys ---------------------------------------------------------------------------- */

static void readable_keys(struct contract *c)
{
    static const char *const names[] = {
        "plain",  "with space", "a",     "a/b",   "a/b/c",
        "a.b",    "a-b",        "UPPER", "upper", "%",
        "%41",    "a%2Fb",      "a+b",   "a?b",   "a#b",
        "a&b=c",  "~",          "'\"",   "(x)",   "[x]",
        "{x}",    "*",          "a:b",   "@!$;,", "data/L0/2026/02/0123456789abcdef.usv",
        "x.lock", ".hidden",    "tmp",   "lock",
    };
    size_t count = sizeof names / sizeof names[0];
    for (size_t i = 0; i < count; i++)
        EXPECT(c, put_if(c, view_of(names[i]), view_of(names[i]), if_absent(), NULL) == HF_OK);
    for (size_t i = 0; i < count; i++)
        EXPECT(c, contract_holds(c, view_of(names[i]), view_of(names[i])));
    for (size_t i = 0; i < count; i++) {
        EXPECT(c, delete_if(c, view_of(names[i]), always) == HF_OK);
        EXPECT(c, contract_missing(c, view_of(names[i])));
    }
}

static void a_beside_a_slash_b(struct contract *c)
{
    EXPECT(c, contract_put(c, VIEW("x/y/z"), VIEW("deep"), NULL));
    EXPECT(c, contract_put(c, VIEW("x/y"), VIEW("middle"), NULL));
    EXPECT(c, contract_put(c, VIEW("x"), VIEW("top"), NULL));
    EXPECT(c, contract_put(c, VIEW("m"), VIEW("top"), NULL));
    EXPECT(c, contract_put(c, VIEW("m/n"), VIEW("middle"), NULL));
    EXPECT(c, contract_put(c, VIEW("m/n/o"), VIEW("deep"), NULL));
    EXPECT(c, contract_holds(c, VIEW("x"), VIEW("top")));
    EXPECT(c, contract_holds(c, VIEW("x/y"), VIEW("middle")));
    EXPECT(c, contract_holds(c, VIEW("x/y/z"), VIEW("deep")));
    EXPECT(c, contract_holds(c, VIEW("m"), VIEW("top")));
    EXPECT(c, contract_holds(c, VIEW("m/n"), VIEW("middle")));
    EXPECT(c, contract_put(c, VIEW("m"), VIEW("top 2"), NULL));
    EXPECT(c, contract_holds(c, VIEW("m"), VIEW("top 2")));
    EXPECT(c, delete_if(c, VIEW("m/n/o"), always) == HF_OK);
    EXPECT(c, delete_if(c, VIEW("m/n"), always) == HF_OK);
    EXPECT(c, contract_holds(c, VIEW("m"), VIEW("top 2")));
    EXPECT(c, put_if(c, VIEW("m"), VIEW("no"), if_absent(), NULL) == HF_CONFLICT);
    EXPECT(c, delete_if(c, VIEW("m"), always) == HF_OK);
    EXPECT(c, contract_missing(c, VIEW("m")));
    EXPECT(c, delete_if(c, VIEW("x"), always) == HF_OK);
    EXPECT(c, contract_holds(c, VIEW("x/y"), VIEW("middle")));
    EXPECT(c, contract_holds(c, VIEW("x/y/z"), VIEW("deep")));
}

static void keys_of_every_byte(struct contract *c)
{
    if (!c->any_bytes)
        return;
    for (int byte = 0; byte < 256; byte++) {
        char one[3] = { 'k', (char)byte, 'k' };
        EXPECT(c, contract_put(c, (struct view){ one, 3 }, (struct view){ one, 3 }, NULL));
        EXPECT(c,
               contract_put(c, (struct view){ one + 1, 1 }, (struct view){ one + 1, 1 }, NULL));
    }
    for (int byte = 0; byte < 256; byte++) {
        char one[3] = { 'k', (char)byte, 'k' };
        EXPECT(c, contract_holds(c, (struct view){ one, 3 }, (struct view){ one, 3 }));
        EXPECT(c, contract_holds(c, (struct view){ one + 1, 1 }, (struct view){ one + 1, 1 }));
    }
    static const char *const odd[] = { ".",     "..",   "../x", "a/../b", "a//b",
                                       "/",     "//",   "a/",   "./.",    "\xff\xfe",
                                       "a/./b", "a/..", "%tmp", "%lock",  "a%" };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        EXPECT(c, contract_put(c, view_of(odd[i]), view_of(odd[i]), NULL));
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        EXPECT(c, contract_holds(c, view_of(odd[i]), view_of(odd[i])));
}

static void long_keys(struct contract *c)
{
    char name[KEY_BYTES_MAX];
    memset(name, 'n', sizeof name);
    size_t room = KEY_BYTES_MAX - strlen(c->prefix);
    static const size_t sizes[] = {
        100, 199, 200, 201, 239, 240, 241, 254, 255, 256, 500, 976
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct view view = { name, sizes[i] };
        EXPECT(c, contract_put(c, view, view, NULL));
    }
    EXPECT(c, contract_put(c, (struct view){ name, room }, VIEW("longest"), NULL));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct view view = { name, sizes[i] };
        EXPECT(c, contract_holds(c, view, view));
    }
    EXPECT(c, contract_holds(c, (struct view){ name, room }, VIEW("longest")));
}

static void keys_out_of_bounds(struct contract *c)
{
    char name[KEY_BYTES_MAX + 1];
    memset(name, 'n', sizeof name);
    struct buffer body = BUFFER_INIT(KIB);
    struct put_call put = { .key = VIEW(""), .body = VIEW("x") };
    EXPECT(c, store_put(c->store, &put) == HF_INVALID);
    put.key = (struct view){ name, sizeof name };
    EXPECT(c, store_put(c->store, &put) == HF_INVALID);
    struct get_call get = { .key = put.key, .body = &body };
    EXPECT(c, store_get(c->store, &get) == HF_INVALID);
    struct delete_call removal = { .key = put.key };
    EXPECT(c, store_delete(c->store, &removal) == HF_INVALID);
}

/* ---- Batches ------------------------------------------------------------------------- */

#define BATCH 20

static void a_batch_is_answered_one_by_one(struct contract *c)
{
    struct contract_key keys[BATCH];
    struct put_call puts[BATCH];
    struct buffer bodies[BATCH];
    struct get_call gets[BATCH];
    EXPECT(c, contract_put(c, VIEW("n3"), VIEW("old"), NULL));
    for (size_t i = 0; i < BATCH; i++) {
        char name[8];
        snprintf(name, sizeof name, "n%zu", i);
        contract_key(c, view_of(name), &keys[i]);
        puts[i] = (struct put_call){ .key = keys[i].view,
                                     .body = keys[i].view,
                                     .condition = if_absent() };
        bodies[i] = BUFFER_INIT(KIB);
        gets[i] = (struct get_call){ .key = keys[i].view, .body = &bodies[i] };
    }
    EXPECT(c, store_put_many(c->store, puts, BATCH) == HF_CONFLICT);
    for (size_t i = 0; i < BATCH; i++)
        EXPECT(c, puts[i].error.status == (i == 3 ? HF_CONFLICT : HF_OK));
    EXPECT(c, delete_if(c, VIEW("n5"), always) == HF_OK);
    EXPECT(c, store_get_many(c->store, gets, BATCH) == HF_NOT_FOUND);
    bool good = true;
    for (size_t i = 0; i < BATCH; i++) {
        struct view expected = i == 3 ? VIEW("old") : keys[i].view;
        good = good && (i == 5 ? gets[i].error.status == HF_NOT_FOUND
                               : view_equal(buffer_view(&bodies[i]), expected));
        buffer_release(&bodies[i]);
    }
    EXPECT(c, good);
}

static void a_bad_call_fails_its_batch(struct contract *c)
{
    struct contract_key key;
    struct put_call puts[] = { { .key = contract_key(c, VIEW("good"), &key) },
                               { .key = VIEW("") } };
    struct delete_call removals[] = { { .key = key.view }, { .key = VIEW("") } };
    struct buffer body = BUFFER_INIT(KIB);
    struct get_call gets[] = { { .key = key.view, .body = &body }, { .key = VIEW("") } };
    EXPECT(c, store_put_many(c->store, puts, 2) == HF_INVALID);
    EXPECT(c, puts[0].error.status == HF_INVALID);
    EXPECT(c, contract_missing(c, VIEW("good")));
    EXPECT(c, contract_put(c, VIEW("good"), VIEW("1"), NULL));
    EXPECT(c, store_delete_many(c->store, removals, 2) == HF_INVALID);
    EXPECT(c, removals[0].error.status == HF_INVALID);
    EXPECT(c, contract_holds(c, VIEW("good"), VIEW("1")));
    EXPECT(c, store_get_many(c->store, gets, 2) == HF_INVALID);
    EXPECT(c, gets[0].error.status == HF_INVALID && body.size == 0);
}

static void a_batch_has_one_winner_a_key(struct contract *c)
{
    struct contract_key key;
    struct put_call puts[8];
    contract_key(c, VIEW("one"), &key);
    for (size_t i = 0; i < 8; i++)
        puts[i] = (struct put_call){ .key = key.view,
                                     .body = (struct view){ &"01234567"[i], 1 },
                                     .condition = if_absent() };
    store_put_many(c->store, puts, 8);
    int winners = 0;
    for (size_t i = 0; i < 8; i++) {
        winners += puts[i].error.status == HF_OK;
        EXPECT(c, puts[i].error.status == HF_OK || puts[i].error.status == HF_CONFLICT);
        if (puts[i].error.status == HF_OK)
            EXPECT(c, contract_holds(c, VIEW("one"), puts[i].body));
    }
    EXPECT(c, winners == 1);
}

static void many_are_deleted_at_once(struct contract *c)
{
    struct contract_key keys[BATCH];
    struct delete_call removals[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        char name[8];
        snprintf(name, sizeof name, "g%zu", i);
        if (i != 4)
            EXPECT(c, contract_put(c, view_of(name), VIEW("x"), NULL));
        removals[i] = (struct delete_call){ .key = contract_key(c, view_of(name), &keys[i]) };
    }
    EXPECT_STATUS(c, HF_OK, store_delete_many(c->store, removals, BATCH), removals[0].error);
    struct contract_key prefix;
    struct list_call list = { .prefix = contract_key(c, VIEW("g"), &prefix) };
    EXPECT_STATUS(c, HF_OK, store_list(c->store, &list), list.error);
    size_t left = list.count;
    list_release(&list);
    EXPECT(c, left == 0);
}

static void a_reply_tells_the_time(struct contract *c)
{
    struct contract_key key;
    struct put_call put = { .key = contract_key(c, VIEW("t"), &key), .body = VIEW("1") };
    struct mono_time before = env_now(c->env);
    EXPECT_STATUS(c, HF_OK, store_put(c->store, &put), put.error);
    struct mono_time after = env_now(c->env);
    if (c->store->traits.clock != STORE_CLOCK_DATE)
        return;
    EXPECT(c, put.stamp.known);
    EXPECT(c, before.us <= put.stamp.sent.us && put.stamp.sent.us <= put.stamp.received.us);
    EXPECT(c, put.stamp.received.us <= after.us);
    EXPECT(c, put.stamp.date.us > 0);
}

static const struct contract_row rows[] = {
    { "a put if absent creates an object once and then changes nothing", absent_creates_once },
    { "a put if match replaces that version and no other", match_replaces_that_version_only },
    { "a put if match never creates an object", match_never_creates },
    { "equal bytes written again have a new ETag where the store says so",
      equal_bytes_and_etags },
    { "a get tells the ETag and size that the put told", get_tells_the_etag_of_the_put },
    { "a get if none match reads nothing while the version is the same",
      none_match_saves_the_body },
    { "a get of one version refuses another", get_of_a_version_refuses_another },
    { "a range gives exactly its bytes and one behind the end is invalid", ranges },
    { "an object larger than the reader's bound is refused, not cut",
      a_body_past_the_bound_is_refused },
    { "a body of any bytes and of sizes around every bound comes back whole",
      any_bytes_in_bodies },
    { "a delete removes, and deleting what is not there is fine", delete_removes },
    { "a delete of one version spares another, or is unsupported", delete_of_a_version },
    { "a deleted name starts anew", a_deleted_name_starts_anew },
    { "keys of all readable kinds are told apart", readable_keys },
    { "a and a/b live beside each other in every order", a_beside_a_slash_b },
    { "keys of every byte are told apart", keys_of_every_byte },
    { "keys of up to 1,024 bytes work", long_keys },
    { "an empty key and one of 1,025 bytes are invalid", keys_out_of_bounds },
    { "a batch is answered one by one", a_batch_is_answered_one_by_one },
    { "a call that is invalid fails its whole batch, and every call says so",
      a_bad_call_fails_its_batch },
    { "a batch of puts if absent of one key has one winner", a_batch_has_one_winner_a_key },
    { "many objects are deleted at once", many_are_deleted_at_once },
    { "a reply tells the store's time where the store has a clock", a_reply_tells_the_time },
};

const struct contract_rows contract_basics = { rows, sizeof rows / sizeof rows[0] };
