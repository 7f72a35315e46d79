/* SPDX-License-Identifier: Apache-2.0 */
/* index_inbox_test.c: listing and reading entries while others write, delete and leave foreign
 * objects. */
#include "alloc.h"
#include "index_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define MORNING "2026-02-06T10:00:00Z"
#define NOON    "2026-02-06T12:00:00Z"
#define EXAMPLE "example.com" US "Ex" US MORNING

/* What stands in another program's entry of example.com is judged like this; NULL: it is fine. */
static void assert_judged(struct yard *yard, struct view bytes, const char *why)
{
    yard_write(yard, "inbox/a3/example.com.usv", bytes);
    struct yard_load loaded = yard_load(yard, "example.com");
    assert_int_equal(loaded.load.count, 1);
    const struct entry_body *body = &loaded.load.bodies[0];
    if (!why) {
        assert_int_equal(body->state, ENTRY_READ);
    } else {
        assert_int_equal(body->state, ENTRY_BAD);
        assert_int_equal(body->why.status, HF_INVALID);
        if (!strstr(body->why.why, why))
            fail_msg("'%s' does not say '%s'", body->why.why, why);
    }
    yard_load_release(&loaded);
}

/* ---- Listing ------------------------------------------------------------------------- */

static void lists_one_folder(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    yard_write_entries(&yard, "a2", 600, /* markers */ false);
    yard_write_entries(&yard, "a4", 600, /* markers */ false);
    yard_write(&yard, "inbox/a30/x.usv", VIEW("x"));
    meter_reset(&yard.meter);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    assert_int_equal(list.count, 1);
    assert_false(list.more);
    assert_view(list.entries[0].key, "example.com");
    assert_int_equal(list.entries[0].size, strlen(EXAMPLE) + 1);
    assert_true(list.entries[0].modified.us > 0);
    assert_int_equal(yard_calls(&yard, CALL_LIST), 1);
    assert_int_equal(yard_calls(&yard, CALL_GET), 0);
    entry_list_release(&list);
    yard_close(&yard);
}

static void lists_page_by_page(void **state)
{
    (void)state;
    enum { COUNT = 2300 };
    struct yard yard;
    yard_open(&yard);
    yard_write_entries(&yard, "a3", COUNT, /* markers */ true);
    struct shard_id shard = yard_shard("example.com");
    struct entry_list all = yard_list(&yard, shard), some = { 0 };
    assert_int_equal(all.count, COUNT - COUNT / 10);
    assert_false(all.more);
    char after[KEY_BYTES_MAX];
    struct view last = VIEW("");
    size_t seen = 0;
    do {
        entry_list_release(&some);
        assert_status(HF_OK, inbox_list(yard.index, shard, last, 700, &some, &yard.error),
                      &yard.error);
        assert_true(some.count <= 700 && (some.count == 700) >= some.more);
        for (size_t i = 0; i < some.count; i++, seen++)
            assert_true(view_equal(some.entries[i].object, all.entries[seen].object));
        if (some.count > 0) {
            last = some.entries[some.count - 1].object;
            memcpy(after, last.data, last.size);
            last.data = after;
        }
    } while (some.more);
    assert_int_equal(seen, all.count);
    entry_list_release(&some);
    entry_list_release(&all);
    yard_close(&yard);
}

static void lists_foreign(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write(&yard, "example.com.usv", VIEW(EXAMPLE "\n"));
    yard_write(&yard, "inbox/example.com.usv", VIEW(EXAMPLE "\n"));
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE "\n"));
    yard_write(&yard, "example.org.usv", VIEW("example.org" US US MORNING "\n"));
    yard_write(&yard, "empty.usv", VIEW(""));
    yard_write(&yard, "inbox/empty.usv", VIEW(""));
    yard_write(&yard, "inbox/a3/notes.txt", VIEW("what?"));
    yard_write(&yard, "inbox/a3/example.org.usv", VIEW("in the wrong folder"));
    yard_write(&yard, "inbox/notes.txt", VIEW("what?"));
    yard_write(&yard, "inbox/zz/example.com.usv",
               VIEW("in the folder of no shard: left alone"));
    yard_write(&yard, "inbox/a/b/c", VIEW("nor here"));
    yard_write(&yard, "readme.txt", VIEW("not in the inbox"));
    yard_write(&yard, "shards/a3.usv", VIEW("a shard"));

    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    assert_int_equal(list.count, 3);
    for (size_t i = 0; i < list.count; i++) {
        bool ok = view_ends_with(list.entries[i].object, VIEW("/example.com.usv"));
        assert_int_equal(list.entries[i].name.kind, ok ? ENTRY_FOREIGN : ENTRY_STRAY);
        assert_true((list.entries[i].key.data != NULL) == ok);
        assert_string_equal(list.entries[i].name.shard.text, "a3");
    }
    entry_list_release(&list);

    list = yard_flat(&yard, "a3");
    assert_int_equal(list.count, 2);
    assert_view(list.entries[0].object, "indexes/domains/example.com.usv");
    assert_view(list.entries[1].object, "indexes/domains/inbox/example.com.usv");
    for (size_t i = 0; i < list.count; i++)
        assert_view(list.entries[i].key, "example.com");
    entry_list_release(&list);

    list = yard_flat(&yard, "");
    assert_int_equal(list.count, 4); /* the stray in no folder, too */
    size_t strays = 0;
    for (size_t i = 0; i < list.count; i++)
        strays += list.entries[i].name.kind == ENTRY_STRAY;
    assert_int_equal(strays, 1);
    entry_list_release(&list);
    yard_close(&yard);
}

static void takes_none_of_others(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write(&yard, "example.com.usv", VIEW(EXAMPLE "\n"));
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE "\n"));
    yard.index->schema.foreign = false;
    meter_reset(&yard.meter);
    struct entry_list list = yard_flat(&yard, "");
    assert_int_equal(list.count, 0);
    assert_int_equal(yard_calls(&yard, CALL_LIST), 0);
    entry_list_release(&list);
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.list.count, 1);
    assert_int_equal(loaded.list.entries[0].name.kind, ENTRY_STRAY);
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_BAD);
    yard_load_release(&loaded);
    yard_close(&yard);
}

/* ---- Reading ------------------------------------------------------------------------- */

static void batches(void **state)
{
    (void)state;
    static struct entry entries[2 * BATCH_MAX];
    for (size_t i = 0; i < 2 * BATCH_MAX; i++)
        entries[i].size = 10;
    assert_int_equal(inbox_batch(entries, 0, 100), 0);
    assert_int_equal(inbox_batch(entries, 5, 100), 5);
    assert_int_equal(inbox_batch(entries, 50, 100), 10);
    assert_int_equal(inbox_batch(entries, 50, 5), 1);
    assert_int_equal(inbox_batch(entries, 2 * BATCH_MAX, UINT64_MAX), BATCH_MAX);
    entries[0].size = UINT64_MAX; /* is not read */
    assert_int_equal(inbox_batch(entries, 50, 100), 11);
}

static void loads_in_one_batch(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    yard_put(&yard, "example.com" US "x" US NOON);
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE "\x1e\n"));
    yard_write(&yard, "inbox/a3/stray", VIEW("x"));
    meter_reset(&yard.meter);
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.count, 4);
    size_t read = 0;
    for (size_t i = 0; i < 4; i++) {
        bool stray = loaded.list.entries[i].name.kind == ENTRY_STRAY;
        assert_int_equal(loaded.load.bodies[i].state, stray ? ENTRY_BAD : ENTRY_READ);
        assert_true(etag_equal(&loaded.load.bodies[i].etag, &loaded.list.entries[i].etag));
        read += !stray;
    }
    assert_int_equal(read, 3);
    assert_int_equal(yard_calls(&yard, CALL_GET), 3);
    assert_int_equal(yard_batches(&yard, CALL_GET), 1);
    yard_load_release(&loaded);
    struct entry_load none = { 0 };
    assert_status(HF_OK, inbox_load(yard.index, NULL, 0, &none, &yard.error), &yard.error);
    assert_int_equal(none.count, 0);
    yard_close(&yard);
}

#define FIRST_ENTRY "inbox/a3/example.com~20260206T090000-00000000000000000000000000000000.usv"

static void fold_by_others(void *argument)
{
    struct delete_call call = { .key = VIEW("indexes/domains/" FIRST_ENTRY) };
    struct yard *yard = argument;
    assert_status(HF_OK, store_delete(yard->store.inner, &call), &call.error);
    yard_write(yard, "inbox/a3/example.com.usv", VIEW(""));
}

static void vanishes(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE));
    yard_write(&yard, FIRST_ENTRY, VIEW("example.com" US US "2026-02-06T09:00:00Z\n"));
    yard_put(&yard, EXAMPLE);
    script_rule(&yard.store, .on = ON_GET, .times = 1, .before = fold_by_others,
                .argument = &yard);
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.count, 3);
    for (size_t i = 0; i < 3; i++) {
        struct view object = loaded.list.entries[i].object;
        bool gone = view_ends_with(object, VIEW(FIRST_ENTRY)) ||
                    view_ends_with(object, VIEW("example.com.usv"));
        assert_int_equal(loaded.load.bodies[i].state, gone ? ENTRY_VANISHED : ENTRY_READ);
    }
    yard_load_release(&loaded);
    yard_close(&yard);
}

static void judges(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    assert_judged(&yard, VIEW(EXAMPLE "\n"), NULL);
    assert_judged(&yard, VIEW(EXAMPLE), NULL);
    assert_judged(&yard, VIEW(EXAMPLE "\x1e"), NULL);
    assert_judged(&yard, VIEW("example.com" US "\x1b_" US "1770372000"), NULL);
    assert_judged(&yard, VIEW("example.com" US "\x1bx" US MORNING), "ESC");
    assert_judged(&yard, VIEW("example.com" US "\0" US MORNING), "ESC");
    assert_judged(&yard, VIEW("example.com" US "\xc3\x28" US MORNING), "UTF-8");
    assert_judged(&yard, VIEW("example.com" US "x" US MORNING US "y"), "fields");
    assert_judged(&yard, VIEW("example.com,x," MORNING), "time");
    assert_judged(&yard, VIEW(US "x" US MORNING), "no key");
    assert_judged(&yard, VIEW("example.com" US "x"), "no time");
    assert_judged(&yard, VIEW("example.com" US "x" US "yesterday"), "not a time");
    assert_judged(&yard, VIEW("example.org" US "x" US MORNING), "differs from");
    assert_judged(&yard, VIEW("\n\n"), "no record");
    assert_judged(&yard, VIEW(EXAMPLE "\nexample.com" US), "no time");
    yard_close(&yard);
}

static void latest_of_an_entry(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write(&yard, "inbox/a3/example.com.usv",
               VIEW(EXAMPLE "\nexample.com" US "b" US "2026-02-06T13:00:00+01:00\x1e\n"
                            "example.com" US "a" US NOON "\n" EXAMPLE "\n"));
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_READ);
    assert_view(loaded.load.bodies[0].record.bytes,
                "example.com" US "b" US "2026-02-06T13:00:00+01:00");
    yard_load_release(&loaded);
    yard_close(&yard);
}

static void names_must_agree(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write(&yard,
               "inbox/a3/example.com~20260206T100000-00112233445566778899aabbccddeeff.usv",
               VIEW("example.com" US "x" US NOON "\n"));
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.count, 1);
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_BAD);
    assert_non_null(strstr(loaded.load.bodies[0].why.why, "time"));
    yard_load_release(&loaded);
    yard_close(&yard);
}

/* A key that is too long for a name is told by its record only. */
static void hashed_keys(void **state)
{
    (void)state;
    struct yard yard;
    char key[601], record[700];
    memset(key, 'k', 600);
    key[600] = '\0';
    yard_open(&yard);
    snprintf(record, sizeof record, "%s" US US MORNING, key);
    yard_put(&yard, record);
    struct yard_load loaded = yard_load(&yard, key);
    assert_int_equal(loaded.load.count, 1);
    assert_true(loaded.list.entries[0].name.hashed);
    assert_null(loaded.list.entries[0].key.data);
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_READ);
    assert_view(loaded.load.bodies[0].record.key, key);

    struct view object = loaded.list.entries[0].object;
    char name[KEY_BYTES_MAX + 1];
    snprintf(name, sizeof name, "%.*s",
             VIEW_ARGS(view_from(object, strlen("indexes/domains/"))));
    record[0] = 'j';
    yard_write(&yard, name, view_of(record));
    yard_load_release(&loaded);
    loaded = yard_load(&yard, key);
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_BAD);
    yard_load_release(&loaded);
    yard_close(&yard);
}

static void keys_with_escapes(void **state)
{
    (void)state;
    struct yard yard;
    static const char key[] = "a\x1f\n%~/\xc3\xa4";
    yard_open(&yard);
    yard_put(&yard, "a\x1b_\x1bJ%~/\xc3\xa4" US "1" US MORNING);
    yard_put(&yard, "a\x1b_\x1bJ%~/\xc3\xa4" US "2" US NOON);
    struct yard_load loaded = yard_load(&yard, key);
    assert_int_equal(loaded.load.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(loaded.load.bodies[i].state, ENTRY_READ);
        assert_view(loaded.load.bodies[i].record.key, key);
        assert_view(loaded.list.entries[i].key, key);
    }
    yard_load_release(&loaded);
    yard_close(&yard);
}

static void too_large(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write_sparse(&yard, "inbox/a3/example.com.usv", 100 * MIB);
    yard_put(&yard, EXAMPLE);
    meter_reset(&yard.meter);
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.count, 2);
    for (size_t i = 0; i < 2; i++) {
        bool large = loaded.list.entries[i].size == 100 * MIB;
        const struct entry_body *body = &loaded.load.bodies[i];
        assert_int_equal(body->state, large ? ENTRY_BAD : ENTRY_READ);
        if (large)
            assert_non_null(strstr(body->why.why, "exceeds the maximum record size"));
        assert_true(etag_equal(&body->etag, &loaded.list.entries[i].etag));
    }
    assert_int_equal(yard_calls(&yard, CALL_GET), 1);
    yard_load_release(&loaded);
    yard_close(&yard);
}

/* Another program writes a longer one between the listing and the reading. */
static struct view grown;

static void grow(void *argument)
{
    yard_write(argument, "inbox/a3/example.com.usv", grown);
}

static void grows(void **state)
{
    (void)state;
    struct yard yard;
    size_t head = strlen("example.com" US);
    char *text = malloc(2 * MIB);
    assert_non_null(text);
    yard_open(&yard);
    const size_t sizes[] = { 100, 10000, INDEX_RECORD_BYTES_MAX, INDEX_RECORD_BYTES_MAX + 3,
                             2 * MIB };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        memset(text, 'x', sizes[i]);
        memcpy(text, "example.com" US, head);
        memcpy(text + sizes[i] - strlen(US MORNING), US MORNING, strlen(US MORNING));
        yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE));
        grown = (struct view){ text, sizes[i] };
        script_rule(&yard.store, .name = "grow", .on = ON_GET, .times = 1, .before = grow,
                    .argument = &yard);
        struct yard_load loaded = yard_load(&yard, "example.com");
        bool fits = sizes[i] <= INDEX_RECORD_BYTES_MAX;
        assert_int_equal(loaded.load.bodies[0].state, fits ? ENTRY_READ : ENTRY_BAD);
        if (fits)
            assert_true(view_equal(loaded.load.bodies[0].record.bytes, grown));
        assert_false(etag_equal(&loaded.load.bodies[0].etag, &loaded.list.entries[0].etag));
        struct entry_list now = yard_list(&yard, yard_shard("example.com"));
        assert_true(etag_equal(&loaded.load.bodies[0].etag, &now.entries[0].etag));
        entry_list_release(&now);
        yard_load_release(&loaded);
    }
    free(text);
    yard_close(&yard);
}

static void extended_meanwhile(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_create(&yard, "domain,name,updated_at,rank");
    assert_judged(&yard, VIEW(EXAMPLE US "7"), NULL);
    assert_int_equal(yard.index->schema.field_count, 4);
    assert_judged(&yard, VIEW(EXAMPLE US "7" US "8"), "fields");
    yard_close(&yard);
}

static void store_fails(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    script_rule(&yard.store, .on = ON_GET, .times = 1, .fate = REFUSE(HF_UNAVAILABLE));
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.bodies[0].state, ENTRY_FAILED);
    assert_int_equal(loaded.load.bodies[0].why.status, HF_UNAVAILABLE);
    yard_load_release(&loaded);

    yard_write(&yard, "inbox/a3/example.com.usv", VIEW("rubbish"));
    script_rule(&yard.store, .name = "schema", .on = ON_GET, .part = "/index.json", .times = 1,
                .fate = REFUSE(HF_UNAVAILABLE)); /* it cannot be read again */
    loaded = yard_load(&yard, "example.com");
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(loaded.load.bodies[i].state,
                         loaded.list.entries[i].name.kind == ENTRY_OURS ? ENTRY_READ
                                                                        : ENTRY_FAILED);
    yard_load_release(&loaded);
    yard_close(&yard);
}

/* Lists and loads the shard, whatever comes of it. */
static enum hf_status list_and_load(struct yard *yard)
{
    struct entry_list list = { 0 };
    struct entry_load load = { 0 };
    enum hf_status status = inbox_list(yard->index, yard_shard("example.com"), VIEW(""),
                                       INBOX_LIST_MAX, &list, &yard->error);
    if (status == HF_OK)
        status = inbox_load(yard->index, list.entries, list.count, &load, &yard->error);
    for (size_t i = 0; i < load.count && status == HF_OK; i++)
        if (load.bodies[i].state == ENTRY_FAILED)
            status = load.bodies[i].why.status;
    if (status == HF_OK) {
        assert_int_equal(load.count, 2);
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(load.bodies[i].state,
                             list.entries[i].name.kind == ENTRY_OURS ? ENTRY_READ : ENTRY_BAD);
    }
    entry_load_release(&load);
    entry_list_release(&list);
    return status;
}

static void no_memory(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    yard_write(&yard, "inbox/a3/example.com.usv", VIEW("rubbish"));
    long n = 0;
    for (;; n++) {
        alloc_fail_after(n);
        enum hf_status status = list_and_load(&yard);
        if (!alloc_stop()) {
            assert_status(HF_OK, status, &yard.error);
            break;
        }
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
    }
    assert_true(n > 5);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("a listing of a shard lists its folder and nothing else", lists_one_folder),
        IT("a listing goes on behind its last entry, and leaves markers out",
           lists_page_by_page),
        IT("entries of other programs are found in all three places", lists_foreign),
        IT("an index that takes none of others asks for none", takes_none_of_others),
        IT("a batch is bounded in bytes and in entries, and never empty", batches),
        IT("entries are read in one batch, strays not at all", loads_in_one_batch),
        IT("what is gone when it is read, or a marker, has vanished", vanishes),
        IT("what cannot be read is bad, and why", judges),
        IT("of several records in an entry the latest counts", latest_of_an_entry),
        IT("a time that is not that of the name is bad", names_must_agree),
        IT("a key that is too long for a name is read from its record", hashed_keys),
        IT("a key with escapes is read as a value", keys_with_escapes),
        IT("an entry that is too large is bad, and not read", too_large),
        IT("an entry that has grown meanwhile is read again, alone", grows),
        IT("a record with more fields is taken after the schema was extended meanwhile",
           extended_meanwhile),
        IT("what the store does not give is neither bad nor gone", store_fails),
        IT("without memory it ends with a status", no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
