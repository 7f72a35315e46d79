/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_alloc_test.c: fails every allocation of every transition, of reading and of writing
 * in turn. Each must return a status, leak nothing, and leave nothing half done. */
#include "alloc.h"
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#include <stdio.h>

/* Live ones, a grave that is over and one that is not, what is being deleted and what is
 * condemned. */
static struct buffer prepare(void)
{
    struct catalog *catalog = kit_catalog();
    struct catalog_op op;
    catalog_kit_add(catalog, 1, 40, catalog_kit_at(1));
    kit_commit(catalog, &op, 1, 1, 1, 5, catalog_kit_at(10));
    kit_maintain(catalog, catalog_kit_at(5000));
    kit_commit(catalog, &op, 1, 2, 6, 5, catalog_kit_at(5000));
    kit_commit(catalog, &op, 1, 3, 11, 5, catalog_kit_at(7000));
    kit_condemn(catalog, kit_key(1, 90), catalog_kit_at(7000));
    struct view key = kit_key(0, 20);
    op = (struct catalog_op){
        .kind = CATALOG_QUARANTINE, .keys = &key, .key_count = 1, .reason = VIEW("a \"reason\"")
    };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(7000)), &op.error);
    assert_true(buffer_append(&catalog->inside->unknown, VIEW(",\"theirs\":[1,2]")));
    struct buffer text = catalog_kit_encode(catalog);
    catalog_free(catalog);
    return text;
}

static struct catalog *load(const struct buffer *text)
{
    struct catalog *catalog = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  catalog_decode(buffer_view(text), (struct mono_time){ 7000000000 }, NULL,
                                 &catalog, &error),
                  &error);
    return catalog;
}

static enum hf_status move(struct catalog *catalog, enum catalog_op_kind kind,
                           struct catalog_op *op)
{
    static struct chunk chunks[64];
    static struct view keys[64], outputs[2], done;
    static struct compact_settings settings;
    static char names[CATALOG_CHILDREN][16];
    *op = (struct catalog_op){ .kind = kind, .keys = keys, .drawn = catalog_kit_at(7500).now };
    for (unsigned i = 0; i < 64; i++)
        chunks[i] = kit_chunk(0, 100 + i);
    chunks[3].writer = VIEW("another");
    op->chunks = chunks;
    op->chunk_count = 64;
    op->target = kit_chunk(1, 50);
    for (unsigned i = 0; i < 5; i++)
        keys[i] = kit_key(0, 20 + i);
    op->key_count = 5;
    if (kind == CATALOG_CONDEMN) {
        outputs[0] = kit_key(1, 60);
        outputs[1] = kit_key(1, 61);
        op->keys = outputs;
        op->key_count = 2;
        op->blame = HF_COMPACT_BLAME_GROUP;
        op->sources = keys;
        op->source_count = 5;
    }
    if (kind == CATALOG_UNDELETE) {
        keys[0] = kit_key(0, 12);
        op->key_count = 1;
    }
    op->reason = VIEW("the reason");
    op->cutoff_ms = INT64_C(1) << 50;
    done = kit_key(0, 2);
    op->done = &done;
    op->done_count = 1;
    op->restamp = true;
    op->split_by = SPLIT_BY_KEY;
    op->live_hash = catalog_live_hash(catalog);
    for (size_t i = 0; i < CATALOG_CHILDREN; i++) {
        snprintf(names[i], sizeof names[i], "child-%zu", i);
        op->children[i] = view_of(names[i]);
    }
    settings = catalog_kit_settings();
    settings.command = VIEW("sort -o {output} {inputs}");
    op->settings = &settings;
    struct evidence at = catalog_kit_at(7500);
    return catalog_apply(catalog, op, &at);
}

static void assert_same_bytes(const struct catalog *catalog, const struct buffer *text)
{
    struct buffer now = catalog_kit_encode(catalog);
    assert_true(view_equal(buffer_view(&now), buffer_view(text)));
    buffer_release(&now);
}

/* How many there were: small texts fit into memory that is there already. */
static long fail_each_allocation_of(const struct buffer *text, enum catalog_op_kind kind)
{
    long failed = 0;
    for (long n = 0;; n++) {
        struct catalog *catalog = load(text);
        struct catalog_op op;
        alloc_fail_after(n);
        enum hf_status status = move(catalog, kind, &op);
        bool happened = alloc_stop();
        catalog_check(catalog);
        if (happened) {
            assert_int_equal(status, HF_UNAVAILABLE);
            assert_false(op.changed || op.full);
            assert_same_bytes(catalog, text);
            failed++;
            /* And then it works. */
            status = move(catalog, kind, &op);
        }
        assert_status(HF_OK, status, &op.error);
        assert_true(op.changed);
        catalog_check(catalog);
        catalog_free(catalog_kit_reload(catalog, NULL, 8000));
        catalog_free(catalog);
        if (!happened)
            return failed;
    }
}

static void transitions_fail_whole(void **state)
{
    (void)state;
    struct buffer text = prepare();
    long failed = 0;
    for (int kind = CATALOG_ADD; kind <= CATALOG_SET; kind++)
        failed += fail_each_allocation_of(&text, (enum catalog_op_kind)kind);
    assert_true(failed > 50);
    buffer_release(&text);
}

static void reading_fails_whole(void **state)
{
    (void)state;
    struct buffer text = prepare();
    long failed = 0;
    for (long n = 0;; n++) {
        struct catalog *catalog = NULL;
        struct hf_error error;
        alloc_fail_after(n);
        enum hf_status status =
            catalog_decode(buffer_view(&text), (struct mono_time){ 0 }, NULL, &catalog, &error);
        if (!alloc_stop()) {
            assert_status(HF_OK, status, &error);
            catalog_free(catalog);
            break;
        }
        assert_int_equal(status, HF_UNAVAILABLE);
        assert_null(catalog);
        failed++;
    }
    assert_true(failed > 5);
    buffer_release(&text);
}

static void making_and_writing_fail_whole(void **state)
{
    (void)state;
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *parent = kit_catalog();
    catalog_kit_add(parent, 1, 20, catalog_kit_at(1));
    for (long n = 0;; n++) {
        struct catalog *catalog = NULL;
        struct hf_error error;
        struct buffer text = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
        alloc_fail_after(n);
        enum hf_status status =
            catalog_new(VIEW("child"), VIEW(KIT_PARTITION), 1, &settings, &catalog, &error);
        for (size_t i = 0; i < parent->live_count && status == HF_OK; i++)
            status = catalog_copy_entry(catalog, &parent->live[i], &error);
        if (status == HF_OK)
            status = catalog_inherit(catalog, parent, &error);
        bool written = status == HF_OK && catalog_encode(catalog, VIEW("n"), &text);
        bool happened = alloc_stop();
        assert_true(happened == !written);
        assert_true(status == HF_OK || status == HF_UNAVAILABLE);
        buffer_release(&text);
        catalog_free(catalog);
        if (!happened)
            break;
    }
    catalog_free(parent);
}

/* Writing and reading back is part of a transition now and then. */
static void renewing_fails_whole(void **state)
{
    (void)state;
    struct buffer text = prepare();
    bool failed = true;
    for (long n = 0; failed; n++) {
        struct catalog *catalog = load(&text);
        struct catalog_op op;
        catalog->inside->spent = 64 * MIB;
        alloc_fail_after(n);
        enum hf_status status = move(catalog, CATALOG_RETIRE, &op);
        failed = alloc_stop();
        assert_int_equal(status, failed ? HF_UNAVAILABLE : HF_OK);
        catalog_check(catalog);
        if (failed)
            assert_same_bytes(catalog, &text);
        catalog_free(catalog);
    }
    buffer_release(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("a transition without memory leaves the catalog as it was", transitions_fail_whole),
        IT("reading without memory is unavailable, not corrupt", reading_fails_whole),
        IT("making and writing without memory leave nothing behind",
           making_and_writing_fail_whole),
        IT("renewing without memory leaves the catalog as it was", renewing_fails_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
