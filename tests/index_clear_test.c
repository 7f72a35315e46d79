/* SPDX-License-Identifier: Apache-2.0 */
/* index_clear_test.c: clearing entries away and setting them aside: exactly those that were
 * read. */
#include "alloc.h"
#include "base/hash.h"
#include "base/parse.h"
#include "index_kit.h"

#include <stdio.h>
#include <stdlib.h>

#define MORNING "2026-02-06T10:00:00Z"
#define NOON    "2026-02-06T12:00:00Z"
#define EXAMPLE "example.com" US "Ex" US MORNING

/* ---- Clearing away ------------------------------------------------------------------- */

static struct clear_report clear_list(struct yard *yard, const struct entry_list *list)
{
    struct clear_report report;
    struct hf_error why;
    struct cleared *cleared = calloc(list->count + 1, sizeof *cleared);
    assert_non_null(cleared);
    for (size_t i = 0; i < list->count; i++)
        cleared[i] = (struct cleared){ .object = list->entries[i].object,
                                       .foreign = list->entries[i].name.kind != ENTRY_OURS,
                                       .etag = list->entries[i].etag };
    inbox_clear(yard->index, cleared, list->count, &report, &why);
    assert_true((why.status == HF_OK) == (report.left == 0));
    free(cleared);
    return report;
}

static void clears(void **state)
{
    (void)state;
    for (int conditional = 0; conditional < 2; conditional++) {
        struct yard yard;
        yard_open(&yard);
        yard.store.base.traits.delete_conditional = conditional;
        yard_put(&yard, EXAMPLE);
        yard_put(&yard, EXAMPLE);
        yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE));
        struct entry_list list = yard_list(&yard, yard_shard("example.com"));
        yard_put(&yard, EXAMPLE); /* comes later, and stays */
        meter_reset(&yard.meter);
        struct clear_report report = clear_list(&yard, &list);
        assert_int_equal(report.deleted, conditional ? 3 : 2);
        assert_int_equal(report.marked, conditional ? 0 : 1);
        assert_int_equal(report.newer + report.left, 0);
        assert_int_equal(yard_calls(&yard, CALL_DELETE), conditional ? 3 : 2);
        entry_list_release(&list);
        list = yard_list(&yard, yard_shard("example.com"));
        assert_int_equal(list.count, 1);
        assert_int_equal(list.entries[0].name.kind, ENTRY_OURS);
        entry_list_release(&list);
        assert_true(yard_has(&yard, "inbox/a3/example.com.usv") == !conditional);
        yard_close(&yard);
    }
}

static void clears_not_what_is_newer(void **state)
{
    (void)state;
    for (int conditional = 0; conditional < 2; conditional++) {
        struct yard yard;
        yard_open(&yard);
        yard.store.base.traits.delete_conditional = conditional;
        yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE));
        yard_write(&yard, "example.com.usv", VIEW(EXAMPLE));
        struct entry_list list = yard_list(&yard, yard_shard("example.com"));
        struct entry_list flat = yard_flat(&yard, "a3");
        yard_write(&yard, "inbox/a3/example.com.usv", VIEW("example.com" US "b" US NOON));
        yard_write(&yard, "example.com.usv", VIEW("example.com" US "c" US NOON));
        struct clear_report report = clear_list(&yard, &list);
        assert_int_equal(report.newer, 1);
        assert_int_equal(report.deleted + report.marked + report.left, 0);
        report = clear_list(&yard, &flat);
        assert_int_equal(report.newer, 1);
        assert_int_equal(report.deleted + report.marked + report.left, 0);
        char *text = yard_read(&yard, "inbox/a3/example.com.usv");
        assert_string_equal(text, "example.com" US "b" US NOON);
        free(text);
        text = yard_read(&yard, "example.com.usv");
        assert_string_equal(text, "example.com" US "c" US NOON);
        free(text);
        entry_list_release(&list);
        entry_list_release(&flat);
        yard_close(&yard);
    }
}

static void clears_many(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write_entries(&yard, "a3", 2300, /* markers */ false);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    meter_reset(&yard.meter);
    script_rule(&yard.store, .on = ON_DELETE, .times = 1, .fate = LOSE);
    struct clear_report report = clear_list(&yard, &list);
    assert_int_equal(report.deleted, 2299);
    assert_int_equal(report.left, 1);
    assert_int_equal(yard_batches(&yard, CALL_DELETE), 3);
    report = clear_list(&yard, &list); /* most of them are gone: that is no trouble */
    assert_int_equal(report.left, 0);
    assert_int_equal(yard_count(&yard, "inbox/"), 0);
    entry_list_release(&list);
    yard_close(&yard);
}

/* What cannot be cleared for want of memory is left, and counted. */
static void clears_without_memory(void **state)
{
    (void)state;
    for (int conditional = 0; conditional < 2; conditional++) {
        struct yard yard;
        struct clear_report report;
        struct hf_error why;
        yard_open(&yard);
        yard.store.base.traits.delete_conditional = conditional;
        yard_write(&yard, "inbox/a3/example.com.usv", VIEW(EXAMPLE));
        struct entry_list list = yard_list(&yard, yard_shard("example.com"));
        struct cleared cleared = { .object = list.entries[0].object,
                                   .foreign = true,
                                   .etag = list.entries[0].etag };
        alloc_fail_after(0);
        inbox_clear(yard.index, &cleared, 1, &report, &why);
        assert_true(alloc_stop());
        assert_int_equal(report.left, 1);
        assert_int_equal(why.status, HF_UNAVAILABLE);
        entry_list_release(&list);
        list = yard_list(&yard, yard_shard("example.com"));
        assert_int_equal(list.count, 1);
        entry_list_release(&list);
        yard_close(&yard);
    }
}

/* ---- Setting aside ------------------------------------------------------------------- */

static enum hf_status set_aside(struct yard *yard, const struct entry *entry)
{
    return inbox_set_aside(yard->index, entry, &entry->etag, "it is \"odd\"", &yard->error);
}

/* The key of the only copy or note. */
static void only_aside(struct yard *yard, const char *end, char name[KEY_BYTES_MAX + 1])
{
    struct list_call list = { .prefix = VIEW("indexes/domains/aside/") };
    size_t found = 0;
    assert_status(HF_OK, store_list(yard->store.inner, &list), &list.error);
    for (size_t i = 0; i < list.count; i++) {
        if (!view_ends_with(list.entries[i].key, view_of(end)))
            continue;
        found++;
        snprintf(name, KEY_BYTES_MAX + 1, "%.*s",
                 VIEW_ARGS(view_from(list.entries[i].key, strlen("indexes/domains/"))));
    }
    list_release(&list);
    assert_int_equal(found, 1);
}

static void set_aside_once(void **state)
{
    (void)state;
    struct yard yard;
    char name[KEY_BYTES_MAX + 1];
    yard_open(&yard);
    yard_write(&yard, "inbox/a3/rub bish",
               VIEW("rub\xff"
                    "bish"));
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    assert_int_equal(list.count, 1);
    yard_puts_meet(&yard, LOSE_REPLY);
    for (int i = 0; i < 2; i++)
        assert_status(HF_OK, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 2);

    unsigned char digest[32];
    char id[65], expected[KEY_BYTES_MAX + 1];
    struct buffer named = BUFFER_INIT(2 * KEY_BYTES_MAX);
    buffer_append(&named, VIEW("indexes/domains/inbox/a3/rub bish\0"));
    assert_true(buffer_append(&named, etag_view(&list.entries[0].etag)));
    hash_sha256(buffer_view(&named), digest);
    hex_encode(digest, sizeof digest, id);
    buffer_release(&named);
    only_aside(&yard, ".usv", name);
    snprintf(expected, sizeof expected, "aside/%.32s.usv", id);
    assert_string_equal(name, expected);
    char *text = yard_read(&yard, name);
    assert_string_equal(text, "rub\xff"
                              "bish");
    free(text);
    only_aside(&yard, ".json", name);
    text = yard_read(&yard, name);
    assert_non_null(strstr(text, "{\"format\":\"holdfast.aside/1\",\"entry\":\"indexes/domains/"
                                 "inbox/a3/rub bish\",\"etag\":"));
    assert_non_null(strstr(text, ",\"size\":8,\"reason\":\"it is \\\"odd\\\"\","));
    free(text);

    yard_write(&yard, "inbox/a3/rub bish", VIEW("another one"));
    assert_status(HF_CONFLICT, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 2);
    entry_list_release(&list);
    yard_close(&yard);
}

/* A conflict is not taken for a copy. */
static void set_aside_refused(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    yard_puts_meet(&yard, REFUSE(HF_CONFLICT), REFUSE(HF_CONFLICT), REFUSE(HF_CONFLICT));
    assert_true(set_aside(&yard, &list.entries[0]) != HF_OK);
    assert_int_equal(yard_count(&yard, "aside/"), 0);
    yard_puts_meet(&yard, REFUSE(HF_CONFLICT));
    assert_status(HF_OK, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 2);
    entry_list_release(&list);
    yard_close(&yard);
}

/* As if the index had been dropped while this process was suspended. */
static void drop_and_suspend(void *argument)
{
    struct yard *yard = argument;
    struct delete_call removal = { .key = VIEW("indexes/domains/index.json") };
    assert_status(HF_OK, store_delete(yard->store.inner, &removal), &removal.error);
    yard->index->checked = mono_add(env_now(env_real()), SPAN_US(-INDEX_TRUST.us));
}

static void set_aside_dropped(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    script_rule(&yard.store, .name = "aside", .on = ON_PUT, .times = 1, .fate = LOSE,
                .after = drop_and_suspend, .argument = &yard);
    assert_status(HF_UNSURE, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 0);
    assert_status(HF_NOT_FOUND, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 0);
    entry_list_release(&list);
    yard_close(&yard);
}

static void set_aside_gone(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    clear_list(&yard, &list);
    assert_status(HF_NOT_FOUND, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_int_equal(yard_count(&yard, "aside/"), 0);
    entry_list_release(&list);
    yard_close(&yard);
}

static void set_aside_without_memory(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_put(&yard, EXAMPLE);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    for (long n = 0;; n++) {
        alloc_fail_after(n);
        enum hf_status status = set_aside(&yard, &list.entries[0]);
        if (!alloc_stop()) {
            assert_status(HF_OK, status, &yard.error);
            assert_true(n > 2);
            break;
        }
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
    }
    assert_int_equal(yard_count(&yard, "aside/"), 2);
    entry_list_release(&list);
    yard_close(&yard);
}

static void set_aside_large(void **state)
{
    (void)state;
    struct yard yard;
    yard_open(&yard);
    yard_write_sparse(&yard, "inbox/a3/example.com.usv", 100 * MIB);
    struct entry_list list = yard_list(&yard, yard_shard("example.com"));
    meter_reset(&yard.meter);
    for (int i = 0; i < 2; i++)
        assert_status(HF_OK, set_aside(&yard, &list.entries[0]), &yard.error);
    assert_true(yard_received(&yard, CALL_GET) <= 2); /* streamed */
    struct list_call aside = { .prefix = VIEW("indexes/domains/aside/") };
    assert_status(HF_OK, store_list(yard.store.inner, &aside), &aside.error);
    assert_int_equal(aside.count, 2);
    assert_true(view_ends_with(aside.entries[1].key, VIEW(".usv")));
    assert_int_equal(aside.entries[1].info.size, 100 * MIB);
    list_release(&aside);
    entry_list_release(&list);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    if (!yard_kind_set(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        IT("what was folded is cleared away, and nothing else", clears),
        IT("what was written again meanwhile stays", clears_not_what_is_newer),
        IT("many are cleared in batches, and again does no harm", clears_many),
        IT("what cannot be cleared without memory is left", clears_without_memory),
        IT("setting aside twice is once", set_aside_once),
        IT("a put that the store refuses is not taken for a copy", set_aside_refused),
        IT("what is gone is not set aside", set_aside_gone),
        IT("nothing is set aside in an index that was dropped meanwhile", set_aside_dropped),
        IT("without memory it is set aside, or that is told", set_aside_without_memory),
        IT("a large one is streamed aside", set_aside_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
