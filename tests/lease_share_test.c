/* SPDX-License-Identifier: Apache-2.0 */
/* lease_share_test.c: a table that is read again shares unchanged entries with the previous
 * reading, without visible effect; and a long queue, whose waiters store only their
 * differences. */
#include "base/limits.h"
#include "base/prng.h"
#include "lease_kit.h"
#include "test.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static struct lease_table *read_table(struct view text, int64_t arrived_us,
                                      const struct lease_table *previous)
{
    struct lease_table *table = NULL;
    struct hf_error error;
    assert_status(
        HF_OK, table_decode(text, (struct mono_time){ arrived_us }, previous, &table, &error),
        &error);
    return table;
}

static void join(struct lease_table *table, struct wish wish)
{
    struct table_op op;
    wish.wait = true;
    assert_status(HF_OK, kit_acquire(table, &op, kit_at(0), wish), &op.error);
}

/* "<session>-<n>" with a session of full length. */
static const char *long_id(char id[64], unsigned process, unsigned number)
{
    snprintf(id, 64, "%032x-%u", 0x9e3779b9u * (process + 1), number);
    return id;
}

/* One holds named:x, `waiters` wait for it. */
static struct lease_table *long_queue(unsigned waiters)
{
    struct lease_table *table = kit_table();
    char id[64];
    for (unsigned i = 0; i <= waiters; i++)
        join(table, (struct wish){ .id = long_id(id, i % 8, i), .scopes = "named:x" });
    assert_int_equal(table->waiter_count, waiters);
    return table;
}

/* ---- Sharing ------------------------------------------------------------------------- */

static void what_did_not_change_is_shared(void **state)
{
    (void)state;
    struct lease_table *table = long_queue(20);
    struct table_op op;
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "a-1", .scopes = "named:a" });
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "b-1", .scopes = "named:b" });
    struct buffer first = kit_encode(table);
    struct lease_table *before = read_table(buffer_view(&first), 1, NULL);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RENEW, "b-1", op.granted), HF_OK);
    char id[64];
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_CANCEL, long_id(id, 3, 3), 0), HF_OK);
    struct buffer second = kit_encode(table);
    struct lease_table *after = read_table(buffer_view(&second), 2, before);
    assert_ptr_equal(kit_lease(after, "a-1"), kit_lease(before, "a-1"));
    assert_ptr_not_equal(kit_lease(after, "b-1"), kit_lease(before, "b-1"));
    assert_int_equal(kit_lease(before, "b-1")->renewals, 0);
    assert_ptr_equal(after->wanted, before->wanted);
    for (size_t i = 0; i < after->waiter_count; i++)
        assert_ptr_equal(after->waiters[i].wanted, before->waiters[i + (i >= 2)].wanted);
    /* Either may go first. */
    table_free(before);
    assert_true(view_equal(kit_lease(after, "a-1")->wish.scopes[0].name, VIEW("a")));
    struct lease_table *again = read_table(buffer_view(&second), 3, after);
    table_free(again);
    table_check(after);
    table_free(after);
    table_free(table);
    buffer_release(&first);
    buffer_release(&second);
}

static void changes_of_one_are_not_seen_in_the_other(void **state)
{
    (void)state;
    struct lease_table *table = long_queue(10);
    struct buffer text = kit_encode(table), again = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    struct lease_table *other = read_table(buffer_view(&text), 1, table);
    struct table_op op;
    char id[64];
    uint64_t token = table->leases[0]->token;
    kit_do(other, &op, kit_at(1), TABLE_RELEASE, long_id(id, 0, 0), token);
    kit_do(other, &op, kit_at(1), TABLE_CLAIM, long_id(id, 1, 1), 0);
    kit_do(other, &op, kit_at(1), TABLE_CANCEL, long_id(id, 5, 5), 0);
    kit_barrier(other, &op, kit_at(1), "bar", 1000000, 5);
    table_check(table);
    assert_int_equal(table->waiter_count, 10);
    assert_true(table_encode(table, VIEW("n"), &again));
    assert_int_equal(again.size, text.size - KIT_WRITE_SIZE + 1);
    table_free(other);
    table_check(table);
    table_free(table);
    buffer_release(&text);
    buffer_release(&again);
}

static void what_they_want_is_part_of_what_they_say(void **state)
{
    (void)state;
    static const char format[] =
        "{\"format\":\"" TABLE_FORMAT
        "\",\"next_token\":9,\"leases\":{\"h\":{\"lease_id\":\"h\","
        "\"scopes\":[\"named:x\"],\"token\":3}},\"wanted\":{\"scopes\":[\"named:%c\"],"
        "\"poll_ms\":100,\"ttl_ms\":1000},\"waiters\":[{\"lease_id\":\"w-1\"}]}";
    char text[2][512];
    snprintf(text[0], sizeof text[0], format, 'x');
    snprintf(text[1], sizeof text[1], format, 'y');
    struct lease_table *before = read_table(view_of(text[0]), 1, NULL);
    struct lease_table *after = read_table(view_of(text[1]), 2, before);
    assert_false(kit_waiter(before, "w-1")->reserved);
    assert_true(kit_waiter(after, "w-1")->reserved);
    assert_true(
        view_equal(kit_waiter(after, "w-1")->wanted->asked.wish.scopes[0].name, VIEW("y")));
    assert_true(
        view_equal(kit_waiter(before, "w-1")->wanted->asked.wish.scopes[0].name, VIEW("x")));
    table_free(before);
    table_free(after);
}

/* ---- Nobody can tell ----------------------------------------------------------------- */

/* Who came last is first. */
static void turn_queue(json_t *tree)
{
    json_t *waiters = json_object_get(tree, "waiters"), *back = json_array();
    for (size_t i = json_array_size(waiters); i-- > 0;)
        json_array_append(back, json_array_get(waiters, i));
    json_object_set_new(tree, "waiters", back);
}

/* Leases from the last to the first, and other white space. */
static struct buffer in_another_order(struct view text, struct prng *prng, bool queue_too)
{
    json_t *tree = json_loadb(text.data, text.size, 0, NULL);
    assert_non_null(tree);
    json_t *leases = json_object_get(tree, "leases"), *turned = json_object();
    const char *key;
    json_t *value;
    json_t *keys = json_array();
    json_object_foreach(leases, key, value) json_array_insert_new(keys, 0, json_string(key));
    for (size_t i = 0; i < json_array_size(keys); i++) {
        key = json_string_value(json_array_get(keys, i));
        json_object_set(turned, key, json_object_get(leases, key));
    }
    json_object_set_new(tree, "leases", turned);
    if (queue_too)
        turn_queue(tree);
    size_t flags =
        JSON_INDENT(prng_below(prng, 3)) | (prng_below(prng, 2) ? JSON_SORT_KEYS : 0);
    char *dumped = json_dumps(tree, flags);
    struct buffer out = BUFFER_INIT(TABLE_BYTES_READ_MAX);
    buffer_append(&out, view_of(dumped));
    free(dumped);
    json_decref(keys);
    json_decref(tree);
    return out;
}

static void assert_same_table(const struct lease_table *a, const struct lease_table *b)
{
    struct buffer first = BUFFER_INIT(TABLE_BYTES_READ_MAX), second = first;
    assert_true(table_encode(a, VIEW("n"), &first) && table_encode(b, VIEW("n"), &second));
    assert_true(view_equal(buffer_view(&first), buffer_view(&second)));
    assert_int_equal(a->bytes, b->bytes);
    assert_int_equal(a->bytes_to_come, b->bytes_to_come);
    for (size_t i = 0; i < a->waiter_count; i++) {
        const struct lease_wish *x = &a->waiters[i].wanted->asked.wish,
                                *y = &b->waiters[i].wanted->asked.wish;
        assert_true(wishes_alike(x, y) && x->ttl.us == y->ttl.us && x->poll.us == y->poll.us);
        assert_int_equal(a->waiters[i].reserved, b->waiters[i].reserved);
    }
    buffer_release(&first);
    buffer_release(&second);
}

/* Since when each should be seen, told by looking at all of the table before. */
static void assert_seen_since(const struct lease_table *table,
                              const struct lease_table *previous, int64_t arrived_us)
{
    for (size_t i = 0; i < table->lease_count; i++) {
        const struct lease *lease = table->leases[i];
        const struct lease *before = table_find(previous, lease->id);
        bool same = before && lease_unchanged(before, lease);
        assert_int_equal(lease->seen.us, same ? before->seen.us : arrived_us);
    }
    for (size_t i = 0; i < table->waiter_count; i++) {
        const struct waiter *waiter = &table->waiters[i];
        const struct waiter *before = table_find_waiter(previous, waiter->wanted->asked.id);
        bool same = before && before->reserved;
        if (waiter->reserved)
            assert_int_equal(waiter->reserved_seen.us,
                             same ? before->reserved_seen.us : arrived_us);
    }
}

/* Some moves of somebody else, from few to very many. */
static void others_move(struct lease_table *table, struct prng *prng, unsigned *number)
{
    static const char *const scopes[] = { "named:x", "named:y", "named:x named:y", "named:z" };
    for (uint64_t n = prng_below(prng, 4) ? prng_below(prng, 6) : prng_below(prng, 200); n;
         n--) {
        struct table_op op;
        char id[64];
        uint64_t luck = prng_below(prng, 10);
        if (luck < 5 && table->waiter_count < 250) {
            struct wish wish = { .id = long_id(id, (unsigned)prng_below(prng, 8), (*number)++),
                                 .scopes = scopes[prng_below(prng, 4)],
                                 .mode = prng_below(prng, 3) ? LEASE_EXCLUSIVE : LEASE_SHARED,
                                 .output = prng_below(prng, 5) ? NULL : "out",
                                 .wait = true,
                                 .ttl_us = prng_below(prng, 8) ? 10000000 : 20000000 };
            kit_acquire(table, &op, kit_at(0), wish);
            continue;
        }
        luck = luck < 5 ? 5 + luck : luck;
        size_t count = luck < 7 ? table->lease_count : table->waiter_count;
        if (count == 0)
            continue;
        size_t at = prng_below(prng, luck == 9 ? 1 : count);
        struct view one =
            luck < 7 ? table->leases[at]->id : table->waiters[at].wanted->asked.id;
        snprintf(id, sizeof id, "%.*s", VIEW_ARGS(one));
        kit_do(table, &op, kit_at(0),
               luck == 5   ? TABLE_RENEW
               : luck == 6 ? TABLE_RELEASE
               : luck == 7 ? TABLE_CANCEL
                           : TABLE_CLAIM,
               id, luck < 7 ? table->leases[at]->token : 0);
    }
}

static void nobody_can_tell(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(31);
    struct lease_table *theirs = long_queue(100), *ours = NULL;
    unsigned number = 1000;
    for (int i = 0; i < 400; i++) {
        int64_t arrived = 1000 + i;
        others_move(theirs, &prng, &number);
        struct buffer text = kit_encode(theirs);
        if (prng_below(&prng, 5) == 0) {
            struct buffer other =
                in_another_order(buffer_view(&text), &prng, /* queue_too */ false);
            buffer_release(&text);
            text = other;
        }
        struct lease_table *afresh = read_table(buffer_view(&text), arrived, NULL);
        struct lease_table *next = read_table(buffer_view(&text), arrived, ours);
        assert_same_table(afresh, next);
        if (i % 20 == 0)
            table_check(next);
        if (ours)
            assert_seen_since(next, ours, arrived);
        table_free(ours);
        table_free(afresh);
        buffer_release(&text);
        ours = next;
    }
    assert_true(theirs->waiter_count > 0 && theirs->lease_count > 0);
    table_free(ours);
    table_free(theirs);
}

/* However far an entry has moved, it is found again. */
static void sightings_survive_another_order(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(5);
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16], scope[16];
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        snprintf(scope, sizeof scope, "path:/%d", i);
        join(table, (struct wish){ .id = id, .scopes = scope });
    }
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "h-1", .scopes = "named:x" });
    for (int i = 0; i < 100; i++) {
        snprintf(id, sizeof id, "w-%d", i);
        join(table, (struct wish){ .id = id, .scopes = "named:x", .mode = LEASE_SHARED });
    }
    kit_do(table, &op, kit_at(0), TABLE_RELEASE, "h-1", op.granted);
    struct buffer text = kit_encode(table);
    struct buffer turned = in_another_order(buffer_view(&text), &prng, /* queue_too */ true);
    struct lease_table *before = read_table(buffer_view(&text), 1000, NULL);
    struct lease_table *after = read_table(buffer_view(&turned), 2000, before);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(after->leases[i]->seen.us, 1000);
        assert_true(after->waiters[i].reserved);
        assert_int_equal(after->waiters[i].reserved_seen.us, 1000);
    }
    table_free(before);
    table_free(after);
    table_free(table);
    buffer_release(&text);
    buffer_release(&turned);
}

/* ---- Brief waiters ------------------------------------------------------------------- */

static void a_waiter_takes_little_room(void **state)
{
    (void)state;
    struct lease_table *table = long_queue(1), *more = long_queue(513);
    struct buffer one = kit_encode(table), many = kit_encode(more);
    size_t each = (many.size - one.size) / 512;
    print_message("# a waiter takes %zu bytes, a table of 513 %zu\n", each, many.size);
    assert_true(each <= 100);
    assert_true(many.size < SQLITE_INLINE_MAX);
    buffer_release(&one);
    buffer_release(&many);
    table_free(table);
    table_free(more);
}

static void brief_waiters_become_whole_leases(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    struct wish wish = {
        .id = "a-1", .scopes = "path:/a tree:/b", .mode = LEASE_SHARED, .ttl_us = 7000000
    };
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "h-1", .scopes = "tree:/" });
    uint64_t token = op.granted;
    join(table, wish);
    wish.id = "b-1", wish.output = "out/b", wish.note = "{\"n\":1}";
    join(table, wish);
    table = kit_reload_afresh(table, 0);
    assert_non_null(kit_waiter(table, "b-1")->wanted->like);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_RELEASE, "h-1", token), HF_OK);
    /* The last one who waits leaves nothing behind of what was wanted. */
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_CLAIM, "a-1", 0), HF_OK);
    assert_int_equal(kit_do(table, &op, kit_at(1), TABLE_CLAIM, "b-1", 0), HF_OK);
    assert_null(table->wanted);
    assert_int_equal(table->bytes_to_come, 0);
    table = kit_reload_afresh(table, 2);
    const struct lease *lease = kit_lease(table, "b-1");
    assert_int_equal(lease->wish.scope_count, 2);
    assert_int_equal(lease->wish.mode, LEASE_SHARED);
    assert_int_equal(lease->wish.ttl.us, 7000000);
    assert_true(view_equal(lease->output, VIEW("out/b")) &&
                view_equal(lease->note, VIEW("{\"n\":1}")));
    assert_true(view_equal(lease->session, VIEW("b")) &&
                view_equal(lease->holder, VIEW("tester")));
    table_check(table);
    table_free(table);
}

static void who_wants_something_else_says_so(void **state)
{
    (void)state;
    struct lease_table *table = kit_table();
    struct table_op op;
    static const struct wish wishes[] = {
        { .id = "a-1", .scopes = "named:x" },
        { .id = "b-1", .scopes = "named:x" },
        { .id = "c-1", .scopes = "named:x", .mode = LEASE_SHARED },
        { .id = "d-1", .scopes = "named:x", .ttl_us = 5000000 },
        { .id = "e-1", .scopes = "named:x", .poll_ms = 300 },
        { .id = "f-1", .scopes = "named:x named:y" },
        { .id = "g-1", .scopes = "named:x" },
    };
    for (size_t i = 0; i < 7; i++)
        join(table, wishes[i]);
    table = kit_reload_afresh(table, 0);
    table_check(table);
    for (size_t i = 1; i < 7; i++) {
        const struct waiter_entry *waiter = kit_waiter(table, wishes[i].id)->wanted;
        assert_int_equal(waiter->like != NULL, i == 1 || i == 6);
        assert_int_equal(waiter->asked.wish.mode, wishes[i].mode);
        assert_int_equal(waiter->asked.wish.ttl.us,
                         wishes[i].ttl_us ? wishes[i].ttl_us : 10000000);
        assert_int_equal(waiter->asked.wish.poll.us, i == 4 ? 300000 : 100000);
        assert_int_equal(waiter->asked.wish.scope_count, i == 5 ? 2 : 1);
    }
    /* When nobody wants the first any more, the next who comes says what others may be like. */
    kit_do(table, &op, kit_at(1), TABLE_CANCEL, "b-1", 0);
    kit_do(table, &op, kit_at(1), TABLE_CANCEL, "g-1", 0);
    join(table, (struct wish){ .id = "h-1", .scopes = "named:x", .ttl_us = 5000000 });
    join(table, (struct wish){ .id = "i-1", .scopes = "named:x", .ttl_us = 5000000 });
    table = kit_reload_afresh(table, 2);
    assert_non_null(kit_waiter(table, "h-1")->wanted->like);
    assert_non_null(kit_waiter(table, "i-1")->wanted->like);
    assert_null(kit_waiter(table, "d-1")->wanted->like);
    table_check(table);
    table_free(table);
}

/* Who waits needs few bytes and has a right to a lease of many. */
static void a_table_that_granted_all_can_still_be_read(void **state)
{
    (void)state;
    static char scopes[64 * 1024];
    size_t used = 0;
    for (int i = 0; i < 20; i++)
        used += (size_t)snprintf(scopes + used, sizeof scopes - used, "%schunk:%0800d",
                                 i ? " " : "", i);
    struct lease_table *table = kit_table();
    struct table_op op;
    char id[16];
    kit_acquire(table, &op, kit_at(0), (struct wish){ .id = "h-1", .scopes = scopes });
    uint64_t token = op.granted;
    int count = 0;
    enum hf_status status = HF_OK;
    for (; status == HF_OK; count++) {
        snprintf(id, sizeof id, "a-%d", count);
        struct wish wish = { .id = id, .scopes = scopes, .mode = LEASE_SHARED, .wait = true };
        status = kit_acquire(table, &op, kit_at(0), wish);
    }
    assert_int_equal(status, HF_UNAVAILABLE);
    assert_true(count > 20);
    assert_int_equal(kit_do(table, &op, kit_at(0), TABLE_RELEASE, "h-1", token), HF_OK);
    for (int i = 0; i < count - 1; i++) {
        snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(kit_do(table, &op, kit_at(0), TABLE_CLAIM, id, 0), HF_OK);
        assert_int_equal(op.outcome, TABLE_GRANTED);
    }
    struct buffer text = kit_encode(table);
    assert_true(text.size < TABLE_BYTES_MAX + TABLE_BYTES_MAX / 4);
    buffer_release(&text);
    table = kit_reload_afresh(table, 1);
    table_check(table);
    table_free(table);
}

static void half_a_wish_is_corrupt(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"waiters\":[{\"lease_id\":\"w-1\"}]",
        "\"wanted\":{\"scopes\":[\"named:x\"]},\"waiters\":[]",
        "\"wanted\":{\"poll_ms\":5},\"waiters\":[]",
        "\"wanted\":[],\"waiters\":[]",
        "\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5},"
        "\"waiters\":[{\"lease_id\":\"w-1\",\"scopes\":[\"named:y\"]}]",
        "\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5},"
        "\"waiters\":[{\"lease_id\":\"w-1\",\"ttl_ms\":5}]",
        "\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5},"
        "\"waiters\":[{\"lease_id\":\"w-1\",\"poll_ms\":5}]",
        "\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5},"
        "\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5}",
        "\"waiters\":[{}],\"wanted\":{\"scopes\":[\"named:x\"],\"poll_ms\":5}",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[512];
        struct lease_table *table = NULL;
        struct hf_error error;
        snprintf(text, sizeof text,
                 "{\"format\":\"" TABLE_FORMAT "\",\"next_token\":9,\"leases\":{},%s}", bad[i]);
        if (table_decode(view_of(text), (struct mono_time){ 0 }, NULL, &table, &error) !=
            HF_CORRUPT)
            fail_msg("%s is taken", bad[i]);
        assert_null(table);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("what did not change is shared with the reading before",
           what_did_not_change_is_shared),
        IT("changes of one reading are not seen in the other",
           changes_of_one_are_not_seen_in_the_other),
        IT("a waiter that says the same but now wants another thing is not shared",
           what_they_want_is_part_of_what_they_say),
        IT("a table read with what was known before is as if read afresh, sightings kept",
           nobody_can_tell),
        IT("sightings survive another order of leases and waiters",
           sightings_survive_another_order),
        IT("a waiter takes at most 100 bytes, and 512 of them are a row of sqlite",
           a_waiter_takes_little_room),
        IT("brief waiters become whole leases", brief_waiters_become_whole_leases),
        IT("who wants something else says so", who_wants_something_else_says_so),
        IT("a table that granted to all who waited can still be read",
           a_table_that_granted_all_can_still_be_read),
        IT("one who waits for what nobody says is corrupt", half_a_wish_is_corrupt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
