/* SPDX-License-Identifier: Apache-2.0 */
/* index_put_test.c: creating, extending and opening an index, and putting records into its
 * inbox, while others write too and replies are lost. */
#include "alloc.h"
#include "base/sanitizer.h"
#include "index_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define MORNING "2026-02-06T10:00:00Z"
#define NOON    "2026-02-06T12:00:00Z"
#define EXAMPLE "example.com" US "Ex" US MORNING

/* ---- The index ----------------------------------------------------------------------- */

static void made(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    assert_int_equal(yard_create(&yard, "domain,name,updated_at"), INDEX_UNCHANGED);
    assert_int_equal(yard_create(&yard, "domain,name,updated_at,rank"), INDEX_EXTENDED);
    assert_int_equal(yard_create(&yard, "domain,name,updated_at,rank"), INDEX_UNCHANGED);
    assert_int_equal(yard.index->schema.field_count, 3);
    assert_status(HF_OK, index_refresh(yard.index, &yard.error), &yard.error);
    assert_int_equal(yard.index->schema.field_count, 4);
    struct schema other = yard_schema("domain,title,updated_at");
    enum index_made how;
    assert_status(HF_INVALID,
                  index_create(&yard.store.base, NULL, VIEW("domains"), &other, &how,
                               &yard.error),
                  &yard.error);
    assert_status(HF_INVALID,
                  index_create(&yard.store.base, NULL, VIEW("Dom/ains"), &other, &how,
                               &yard.error),
                  &yard.error);
    yard_close(&yard);
}

/* A later version may have added something that matters to it. */
static void what_is_not_known_stays(void **state)
{
    (void)state;
    struct yard yard;
    struct schema schema = yard_schema("domain,name,updated_at");
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    char key[KEY_BYTES_MAX + 1];
    yard_open(&yard);
    assert_true(schema_encode(&schema, VIEW(",\"codec\":{\"x\":[1, 2]},\"note\":\"\\u00e9\""),
                              VIEW("00112233445566778899aabbccddeeff"), &text));
    yard_write(&yard, "index.json", buffer_view(&text));
    assert_int_equal(yard_create(&yard, "domain,name,updated_at,rank"), INDEX_EXTENDED);
    assert_int_equal(yard_create(&yard, "domain,name,updated_at,rank,more"), INDEX_EXTENDED);
    buffer_clear(&text);
    assert_true(index_key(yard.index, key, LAYOUT_INDEX));
    struct get_call get = { .key = view_of(key), .body = &text };
    assert_status(HF_OK, store_get(&yard.store.base, &get), &get.error);
    assert_non_null(
        strstr(buffer_text(&text), "]],\"codec\":{\"x\":[1, 2]},\"note\":\"\\u00e9\"}\n"));
    buffer_release(&text);
    yard_close(&yard);
}

static void made_without_answers(void **state)
{
    (void)state;
    struct yard yard;
    struct schema schema = yard_schema("domain,updated_at");
    enum index_made how;
    yard_open(&yard);
    yard_puts_meet(&yard, LOSE_REPLY);
    assert_status(HF_OK,
                  index_create(&yard.store.base, NULL, VIEW("b"), &schema, &how, &yard.error),
                  &yard.error);
    assert_int_equal(how, INDEX_CREATED);
    schema = yard_schema("domain,updated_at,more");
    yard_puts_meet(&yard, LOSE, LOSE, LOSE_REPLY);
    assert_status(HF_OK,
                  index_create(&yard.store.base, NULL, VIEW("b"), &schema, &how, &yard.error),
                  &yard.error);
    assert_int_equal(how, INDEX_EXTENDED);
    if (!WITH_ASAN) { /* it takes ten seconds, in which there is nothing to check */
        script_rule(&yard.store, .name = "puts", .on = ON_PUT, .fate = LOSE);
        assert_status(HF_UNSURE,
                      index_create(&yard.store.base, NULL, VIEW("c"), &schema, &how,
                                   &yard.error),
                      &yard.error);
    }
    yard_close(&yard);
}

static void not_opened(void **state)
{
    (void)state;
    struct yard yard;
    struct index *index;
    yard_open(&yard);
    struct store *store = &yard.store.base;
    assert_status(HF_NOT_FOUND, index_open(store, NULL, VIEW("none"), &index, &yard.error),
                  &yard.error);
    assert_status(HF_INVALID, index_open(store, NULL, VIEW("../x"), &index, &yard.error),
                  &yard.error);
    yard_write(&yard, "index.json", VIEW("{\"format\":"));
    assert_status(HF_CORRUPT, index_open(store, NULL, VIEW("domains"), &index, &yard.error),
                  &yard.error);
    char *large = calloc(1, INDEX_BYTES_MAX + 1);
    assert_non_null(large);
    yard_write(&yard, "index.json", (struct view){ large, INDEX_BYTES_MAX + 1 });
    assert_status(HF_CORRUPT, index_open(store, NULL, VIEW("domains"), &index, &yard.error),
                  &yard.error);
    free(large);
    yard_close(&yard);
}

static void replaced(void **state)
{
    (void)state;
    struct yard yard;
    struct schema other = yard_schema("domain,title,updated_at");
    struct buffer text = BUFFER_INIT(INDEX_BYTES_MAX);
    yard_open(&yard);
    assert_true(
        schema_encode(&other, VIEW(""), VIEW("00112233445566778899aabbccddeeff"), &text));
    yard_write(&yard, "index.json", buffer_view(&text));
    assert_status(HF_CORRUPT, index_refresh(yard.index, &yard.error), &yard.error);
    assert_string_equal(yard.index->schema.fields[1], "name");
    buffer_release(&text);
    yard_close(&yard);
}

/* ---- Putting ------------------------------------------------------------------------- */

static void put_many(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct yard yard;
    static char texts[COUNT][64];
    struct view records[COUNT];
    size_t bad, found = 0;
    yard_open(&yard);
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(texts[i], sizeof texts[i], "k%zu" US US MORNING, i);
        records[i] = view_of(texts[i]);
    }
    assert_status(HF_OK, index_put(yard.index, records, COUNT, &bad, &yard.error), &yard.error);
    assert_int_equal(yard_calls(&yard, CALL_PUT), COUNT);
    assert_int_equal(yard_batches(&yard, CALL_PUT), 1);
    for (size_t i = 0; i < shard_count(2); i++) {
        struct entry_list list = yard_list(&yard, shard_of_number(i, 2));
        for (size_t j = 0; j < list.count; j++) {
            assert_int_equal(list.entries[j].name.kind, ENTRY_OURS);
            assert_string_equal(shard_of_key(list.entries[j].key, 2).text,
                                shard_of_number(i, 2).text);
        }
        found += list.count;
        entry_list_release(&list);
    }
    assert_int_equal(found, COUNT);
    assert_status(HF_OK, index_put(yard.index, NULL, 0, &bad, &yard.error), &yard.error);
    yard_close(&yard);
}

static void put_twice(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    yard_put(&yard, EXAMPLE);
    assert_int_equal(yard_count(&yard, "inbox/a3/example.com~20260206T100000-"), 2);
    struct yard_load loaded = yard_load(&yard, "example.com");
    assert_int_equal(loaded.load.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(loaded.load.bodies[i].state, ENTRY_READ);
        assert_view(loaded.load.bodies[i].record.bytes, EXAMPLE);
        assert_view(loaded.load.bodies[i].record.key, "example.com");
        assert_true(loaded.load.bodies[i].etag.size > 0);
    }
    yard_load_release(&loaded);
    yard_close(&yard);
}

static void put_bad(void **state)
{
    (void)state;
    struct yard yard;
    struct view records[] = { VIEW(EXAMPLE), VIEW("a" US US MORNING), VIEW("b" US US "soon"),
                              VIEW("c" US US "never") };
    const struct view worse[] = {
        VIEW(EXAMPLE "\n" EXAMPLE),
        VIEW(EXAMPLE "\x1e"),
        VIEW(""),
        VIEW(US "no key" US MORNING),
        VIEW("\xff" US US MORNING),
        VIEW(EXAMPLE US "one too many"),
    };
    size_t bad = 99;
    yard_open(&yard);
    assert_status(HF_INVALID, index_put(yard.index, records, 4, &bad, &yard.error),
                  &yard.error);
    assert_int_equal(bad, 2);
    for (size_t i = 0; i < sizeof worse / sizeof *worse; i++) {
        assert_status(HF_INVALID, index_put(yard.index, &worse[i], 1, &bad, &yard.error),
                      &yard.error);
        assert_int_equal(bad, 0);
    }
    assert_int_equal(yard_count(&yard, "inbox/"), 0);
    assert_int_equal(yard_calls(&yard, CALL_PUT), 0);
    yard_close(&yard);
}

static void put_after_extension(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_create(&yard, "domain,name,updated_at,rank");
    yard_put(&yard, EXAMPLE US "7");
    assert_int_equal(yard_count(&yard, "inbox/a3/"), 1);
    yard_close(&yard);
}

/* Whatever is lost on the way, there is one entry in the end, under one name. */
static void put_again(void **state)
{
    (void)state;
    const struct fate rows[][2] = { { LOSE, PASS },
                                    { LOSE, LOSE },
                                    { LOSE_REPLY, PASS },
                                    { LOSE_REPLY, LOSE_REPLY },
                                    { LOSE, LOSE_REPLY } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct yard yard;
        yard_open(&yard);
        yard_puts_meet(&yard, rows[i][0], rows[i][1]);
        yard_put(&yard, EXAMPLE);
        assert_int_equal(yard_count(&yard, "inbox/"), 1);
        yard_close(&yard);
    }
}

/* A conflict says that it is there, or that the store does not want it just now. */
static void put_refused(void **state)
{
    (void)state;
    struct yard yard;
    struct view records[] = { VIEW(EXAMPLE), VIEW("a" US US MORNING) };
    size_t bad;
    yard_open(&yard);
    yard_puts_meet(&yard, REFUSE(HF_CONFLICT));
    assert_status(HF_OK, index_put(yard.index, records, 2, &bad, &yard.error), &yard.error);
    assert_int_equal(yard_count(&yard, "inbox/"), 2);
    script_rule(&yard.store, .name = "puts", .on = ON_PUT, .times = 6, /* all tries of both */
                .fate = REFUSE(HF_CONFLICT));
    assert_status(HF_UNAVAILABLE, index_put(yard.index, records, 2, &bad, &yard.error),
                  &yard.error);
    assert_int_equal(yard_count(&yard, "inbox/"), 2);
    yard_puts_meet(&yard, LOSE_REPLY);
    /* Nobody says whether it is there: it is sent again. */
    script_rule(&yard.store, .on = ON_GET, .times = 1, .fate = REFUSE(HF_UNAVAILABLE));
    assert_status(HF_OK, index_put(yard.index, records, 1, &bad, &yard.error), &yard.error);
    assert_int_equal(yard_count(&yard, "inbox/"), 3);
    yard_close(&yard);
}

static void put_unsure(void **state)
{
    (void)state;
    struct yard yard;
    struct view records[] = { VIEW(EXAMPLE), VIEW("a" US US MORNING) };
    size_t bad;
    yard_open(&yard);
    yard_puts_meet(&yard, LOSE_REPLY, LOSE_REPLY, LOSE_REPLY);
    assert_status(HF_UNSURE, index_put(yard.index, records, 1, &bad, &yard.error), &yard.error);
    assert_int_equal(yard_count(&yard, "inbox/"), 1);
    yard_puts_meet(&yard, LOSE, LOSE, LOSE);
    assert_status(HF_UNSURE, index_put(yard.index, records, 1, &bad, &yard.error), &yard.error);
    yard_puts_meet(&yard, LOSE, REFUSE(HF_UNAVAILABLE)); /* the first may still arrive */
    assert_status(HF_UNSURE, index_put(yard.index, records, 1, &bad, &yard.error), &yard.error);
    yard_puts_meet(&yard, REFUSE(HF_UNAVAILABLE)); /* one of two */
    assert_status(HF_UNSURE, index_put(yard.index, records, 2, &bad, &yard.error), &yard.error);
    assert_non_null(strstr(yard.error.why, "1 of 2"));
    yard_puts_meet(&yard, REFUSE(HF_UNAVAILABLE), REFUSE(HF_UNAVAILABLE));
    assert_status(HF_UNAVAILABLE, index_put(yard.index, records, 2, &bad, &yard.error),
                  &yard.error);
    yard_close(&yard);
}

static void put_without_memory(void **state)
{
    (void)state;
    struct yard yard;
    long n;
    yard_open(&yard);
    struct view record = VIEW(EXAMPLE);
    size_t bad;
    for (n = 0;; n++) {
        alloc_fail_after(n);
        enum hf_status status = index_put(yard.index, &record, 1, &bad, &yard.error);
        if (!alloc_stop())
            break;
        assert_true(status == HF_OK || status == HF_UNAVAILABLE || status == HF_UNSURE);
    }
    assert_true(n > 1);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("an index is created, extended, or left as it is", made),
        IT("members of index.json that are not known survive its extension",
           what_is_not_known_stays),
        IT("an index is created once, whatever answers are lost", made_without_answers),
        IT("what is no index is not opened", not_opened),
        IT("a handle notices that its index was replaced", replaced),
        IT("many records become an entry each, in one batch", put_many),
        IT("a record that is put twice is two entries", put_twice),
        IT("of records one of which is none, nothing is put, and it is named", put_bad),
        IT("a record of a later schema is taken once that is known", put_after_extension),
        IT("a put without an answer is tried again under its name", put_again),
        IT("a put that the store refuses is not taken for one that landed", put_refused),
        IT("what nobody knows is told as unsure", put_unsure),
        IT("without memory it is put, or that is told", put_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
