/* SPDX-License-Identifier: Apache-2.0 */
/* index_adopt_test.c KIND: shards that another program wrote as bare records. KIND is mem or
 * sqlite. */
#include "index/read.h"
#include "index_scene.h"

#include <stdio.h>
#include <stdlib.h>

/* Two other keys of shard a3. */
static const char *other_key(unsigned n)
{
    static char keys[2][32];
    unsigned salt = n * 100000;
    do
        snprintf(keys[n], sizeof keys[n], "o%u", salt++);
    while (strcmp(yard_shard(keys[n]).text, "a3") != 0);
    return keys[n];
}

static void write_bare(void *argument)
{
    struct scene *scene = argument;
    char text[512];
    snprintf(text, sizeof text,
             "%s" US "x" US
             "2026-02-06T10:00:00Z\x1e" AT("example.com", "bare",
                                           "10") "\n"
                                                 "%s" US "y" US
                                                 "2026-02-06T10:00:00Z\x1e\n" AT("example.com",
                                                                                 "older", "09"),
             other_key(1), other_key(0));
    yard_write(&scene->yard, SHARD_OBJECT, view_of(text));
}

static void bare_records_are_like_ours(void **state)
{
    struct scene *scene = *state;
    write_bare(scene);
    yard_put(&scene->yard, AT("example.com", "past", "08"));
    for (int folded = 0; folded < 2; folded++) {
        assert_string_equal(scene_value(scene, "example.com"), "bare");
        assert_string_equal(scene_value(scene, other_key(0)), "y");
        assert_string_equal(scene_value(scene, other_key(1)), "x");
        assert_string_equal(scene_value(scene, "example.co"), "");
        assert_int_equal(scene_keys(scene), 3);
        if (folded == 0)
            crew_compile(&scene->other);
    }
    char *text = yard_read(&scene->yard, SHARD_OBJECT);
    assert_non_null(strstr(text, "\"format\":\"holdfast.shard/1\""));
    free(text);
}

static void nothing_is_lost_meanwhile(void **state)
{
    struct scene *scene = *state;
    yard_put(&scene->yard, AT("example.com", "new", "12"));
    /* The other program writes the shard between our read and our swap. */
    scene_happens(scene, CALL_PUT, SHARD_OBJECT, write_bare);
    struct compile_report report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_LOST);
    assert_int_equal(scene_waiting(scene, A3), 1);
    assert_string_equal(scene_value(scene, "example.com"), "new");
    assert_string_equal(scene_value(scene, other_key(0)), "y");
    report = crew_compile_shard(&scene->crew, A3);
    assert_int_equal(report.end, HF_INDEX_END_DONE);
    assert_int_equal(report.fold.records, 3);
    assert_string_equal(scene_value(scene, "example.com"), "new");
    assert_string_equal(scene_value(scene, other_key(0)), "y");
}

static void many_records_are_adopted(void **state)
{
    struct scene *scene = *state;
    struct buffer text = BUFFER_INIT(64 * MIB);
    size_t count = 0;
    for (unsigned i = 0; count < 2000; i++) {
        char key[32];
        snprintf(key, sizeof key, "m%u", i * 7919 % 1000003);
        if (strcmp(yard_shard(key).text, "a3") != 0)
            continue;
        buffer_print(&text, "%s" US "%0100u" US "%u\n", key, i, 1770000000 + i);
        count++;
    }
    yard_write(&scene->yard, SHARD_OBJECT, buffer_view(&text));
    buffer_release(&text);
    assert_int_equal(scene_keys(scene), 2000);
    yard_put(&scene->yard, AT("example.com", "new", "12"));
    crew_compile(&scene->other);
    assert_int_equal(scene_keys(scene), 2001);
}

static void what_is_not_bare_is_damaged(void **state)
{
    struct scene *scene = *state;
    static const char *const texts[] = {
        AT("example.com", "v", "10") "\nno record\n",
        AT("example.com", "v", "10") "\n" AT("another", "shard", "10") "\n",
        "{damaged",
        "{\"format\":\"holdfast.shard/1\"\n" AT("example.com", "v", "10") "\n",
    };
    struct buffer bytes = BUFFER_INIT(MIB);
    for (size_t i = 0; i < 4; i++) {
        yard_write(&scene->yard, SHARD_OBJECT, view_of(texts[i]));
        yard_put(&scene->yard, AT("example.com", "new", "12"));
        assert_status(HF_CORRUPT,
                      index_get(scene->crew.index, VIEW("example.com"), &bytes, &scene->error),
                      &scene->error);
        assert_non_null(strstr(scene->error.why, i < 2    ? "line 2"
                                                 : i == 2 ? "line 1"
                                                          : "start like a shard"));
        struct compile_report report = crew_compile_shard(&scene->crew, A3);
        assert_int_equal(report.end, HF_INDEX_END_FAILED);
        char *text = yard_read(&scene->yard, SHARD_OBJECT);
        assert_string_equal(text, texts[i]);
        free(text);
    }
    assert_int_equal(scene_waiting(scene, A3), 4);
    buffer_release(&bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        COMPILES("bare records are read, counted and folded like ours",
                 bare_records_are_like_ours),
        COMPILES("what another program writes meanwhile is not lost",
                 nothing_is_lost_meanwhile),
        COMPILES("a bare shard may have many records, in any order", many_records_are_adopted),
        COMPILES("what is neither ours nor bare records is damaged, and left alone",
                 what_is_not_bare_is_damaged),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
