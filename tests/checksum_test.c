/* SPDX-License-Identifier: Apache-2.0 */
/* checksum_test.c: every kind of document that has a checksum: a byte that changed is noticed,
 * wherever it is, and what versions without checksums write is read. */
#include "base/checksum.h"

#include "base/layout.h"
#include "compact/catalog/catalog.h"
#include "compact/catalog/prefixes.h"
#include "index/manifest.h"
#include "index_kit.h"
#include "key/record.h"
#include "lease/table.h"
#include "lock/epoch.h"
#include "lock/fence.h"
#include "store/bucket.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

#define NONCE "00112233445566778899aabbccddeeff"
#define STAMP "9f86d081884c7d65:1763200000000000"

/* ---- The kinds ----------------------------------------------------------------------- */

/* Decodes the text and, if that succeeds and `again` is not NULL, encodes it. */
struct kind {
    const char *name;
    const char *text; /* as a version without checksums writes it */
    enum hf_status (*read)(struct view text, struct buffer *again, struct hf_error *error);
};

static enum hf_status read_table(struct view text, struct buffer *again, struct hf_error *error)
{
    struct lease_table *table;
    enum hf_status status = table_decode(text, (struct mono_time){ 1 }, NULL, &table, error);
    if (status != HF_OK)
        return status;
    assert_true(!again || table_encode(table, VIEW(NONCE), again));
    table_free(table);
    return HF_OK;
}

static enum hf_status read_shard_lock(struct view text, struct buffer *again,
                                      struct hf_error *error)
{
    struct lease_table *table;
    enum hf_status status =
        table_decode_of_shard(text, (struct mono_time){ 1 }, NULL, &table, error);
    if (status != HF_OK)
        return status;
    assert_true(!again || table_encode(table, VIEW(NONCE), again));
    table_free(table);
    return HF_OK;
}

static enum hf_status read_record(struct view text, struct buffer *again,
                                  struct hf_error *error)
{
    struct txn_record record;
    enum hf_status status = record_decode(text, &record, error);
    if (status != HF_OK)
        return status;
    assert_true(!again || record_encode(&record, VIEW(NONCE), again));
    record_release(&record);
    return HF_OK;
}

static enum hf_status read_fence(struct view text, struct buffer *again, struct hf_error *error)
{
    struct fence fence;
    enum hf_status status = fence_decode(text, &fence, error);
    if (status == HF_OK)
        assert_true(!again || fence_encode(&fence, VIEW(NONCE), again));
    return status;
}

static enum hf_status read_catalog(struct view text, struct buffer *again,
                                   struct hf_error *error)
{
    struct catalog *catalog;
    enum hf_status status =
        catalog_decode(text, (struct mono_time){ 1 }, NULL, &catalog, error);
    if (status != HF_OK)
        return status;
    assert_true(!again || catalog_encode(catalog, VIEW(NONCE), again));
    catalog_free(catalog);
    return HF_OK;
}

static enum hf_status read_prefixes(struct view text, struct buffer *again,
                                    struct hf_error *error)
{
    struct prefix_list *list;
    enum hf_status status = prefix_list_decode(text, &list, error);
    if (status != HF_OK)
        return status;
    assert_true(!again || prefix_list_encode(list, VIEW(NONCE), again));
    prefix_list_free(list);
    return HF_OK;
}

static enum hf_status read_schema(struct view text, struct buffer *again,
                                  struct hf_error *error)
{
    struct schema schema;
    enum hf_status status = schema_decode(text, &schema, error);
    if (status == HF_OK)
        assert_true(!again || schema_encode(&schema, VIEW(""), VIEW(NONCE), again));
    return status;
}

#define LEASE                                                                              \
    "{\"lease_id\":\"7be0-4\",\"holder_id\":\"node-1\",\"scopes\":[\"named:deploy\"],"     \
    "\"session\":\"7be0\",\"mode\":\"exclusive\",\"token\":41,\"status\":\"active\","      \
    "\"ttl_ms\":30000,\"renewals\":2,\"nonce\":\"52d0\",\"note\":{\"write\":\"" NONCE "~1" \
    "2345678\"}}"

static const struct kind kinds[] = {
    { "table",
      "{\"format\":\"holdfast.leases/1\",\"next_token\":42,\"write\":\"" NONCE
      "\",\"reserved\":[],\"leases\":{\"7be0-4\":" LEASE "},\"waiters\":[],\"audit\":[],"
      "\"later\":{\"a\":1}}\n",
      read_table },
    { "lock of a shard",
      "{\"format\":\"holdfast.leases/1\",\"next_token\":42,\"write\":\"" NONCE
      "\",\"reserved\":[],\"worker_id\":\"" NONCE "~12345678\",\"created_at\":\"2026-11-15T10:"
      "00:00.000Z\",\"expires_at\":\"2026-11-15T10:00:00.000Z\",\"leases\":{},\"waiters\":[],"
      "\"audit\":[]}\n",
      read_shard_lock },
    { "record of a transaction",
      "{\"format\":\"holdfast.txn/1\",\"id\":\"" NONCE "\",\"state\":\"commit\",\"owner\":\""
      "ffeeddccbbaa99887766554433221100\",\"holder\":\"ann\",\"began\":\"" STAMP
      "\",\"began_ms\":1,\"open\":true,\"decided\":\"" STAMP
      "\",\"decided_ms\":2,\"keys\":[\"default/orders/42\"],\"write\":\"" NONCE "\"}\n",
      read_record },
    { "fence",
      "{ \"format\": \"holdfast.fenced/2\", \"table\": \"default/meta/job.json\", \"scopes\": "
      "[\"named:job\"], \"token\": 7, \"session\": \"7be0\", \"seq\": 4, \"size\": 11, "
      "\"xxh3\": \"d447b1ea40e6988b\", \"inline\": true, \"write\": \"" NONCE "\" }\n"
      "hello world",
      read_fence },
    { "catalog",
      "{\"format\":\"holdfast.catalog/1\",\"write\":\"" NONCE "\",\"partition\":\"default\","
      "\"depth\":0,\"settings\":{\"format\":\"usv\",\"key\":\"1\"},\"counts\":[],\"writers\":{"
      "\"w\":1},\"chunks\":[{\"key\":\"data/default/L0/a.usv\",\"level\":0,\"size\":12,"
      "\"rows\":3,\"min\":5,\"max\":7,\"writer\":\"w\",\"seq\":1,\"crc32c\":4294967295,"
      "\"since\":\"" STAMP "\"}],\"tombstones\":[],\"deleting\":[]}\n",
      read_catalog },
    { "list of adopted prefixes",
      "{\"format\":\"holdfast.adopted/1\",\"write\":\"" NONCE "\",\"prefixes\":[\n{\"path\":"
      "\"raw/\",\"partition\":\"events\"}]}\n",
      read_prefixes },
    { "definition of an index",
      "{\"format\":\"holdfast.index/2\",\"write\":\"e7fa4626a2463f3d4f12b16611c92992\","
      "\"digits\":2,\"foreign\":true,\"key\":\"id\",\"time\":\"at\",\"fields\":[\"id\","
      "\"state\",\"at\"],\"versions\":[[3,\"ba42cabaf1706171\"]],\"deletes\":true}\n",
      read_schema },
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static struct buffer sealed(const struct kind *kind)
{
    struct buffer text = BUFFER_INIT(64 * KIB);
    struct hf_error error;
    assert_status(HF_OK, kind->read(view_of(kind->text), &text, &error), &error);
    assert_int_equal(checksum_check(buffer_view(&text)),
                     view_equal(view_of(kind->name), VIEW("fence")) ? CHECKSUM_WRONG
                                                                    : CHECKSUM_RIGHT);
    return text;
}

/* The statuses with which a damaged document may be refused. A fence whose first bytes are damaged
 * is taken for an object of another program. */
static bool is_refusal(const struct kind *kind, enum hf_status status, size_t at)
{
    bool start = kind->read == read_fence && at < sizeof "{ \"format\": \"holdfast.fenced/" - 1;
    return status == HF_CORRUPT || (start && status == HF_MISMATCH);
}

/* ---- Tests --------------------------------------------------------------------------- */

static void a_seal_changes_only_the_member_write(void **state)
{
    (void)state;
    static const char nonce[] = "0123456789abcdef0123456789abcdef";
    struct hf_error error;
    for (size_t i = 0; i < KINDS; i++) {
        struct buffer text = BUFFER_INIT(64 * KIB);
        struct view before = view_of(kinds[i].text);
        struct view line = kinds[i].read == read_fence
                               ? view_first(before, view_find(before, '\n') + 1)
                               : before;
        assert_true(checksum_seal(line, view_of(nonce), &text));
        assert_int_equal(checksum_check(buffer_view(&text)), CHECKSUM_RIGHT);
        assert_true(text.size >= line.size + 7 && text.size <= line.size + 9);
        assert_true(buffer_append(&text, view_from(before, line.size)));
        assert_status(HF_OK, kinds[i].read(buffer_view(&text), NULL, &error), &error);
        buffer_release(&text);
    }
    static const char *const others[] = {
        "", "{}", "[]", "{\"write\":\"x\"}", "{\"format\":", "{\"format\":\"x\""
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct buffer text = BUFFER_INIT(1000);
        assert_false(checksum_seal(view_of(others[i]), view_of(nonce), &text));
        buffer_clear(&text);
        assert_false(checksum_seal(VIEW("{\"format\":\"x\"}"), VIEW("short"), &text));
        buffer_release(&text);
    }
}

static void earlier_documents_are_read(void **state)
{
    (void)state;
    struct hf_error error;
    for (size_t i = 0; i < KINDS; i++) {
        struct view text = view_of(kinds[i].text);
        assert_int_equal(checksum_check(text), CHECKSUM_NONE);
        assert_status(HF_OK, kinds[i].read(text, NULL, &error), &error);
    }
}

static void every_changed_bit_is_noticed(void **state)
{
    (void)state;
    struct hf_error error;
    for (size_t i = 0; i < KINDS; i++) {
        struct buffer text = sealed(&kinds[i]);
        assert_status(HF_OK, kinds[i].read(buffer_view(&text), NULL, &error), &error);
        for (size_t at = 0; at < text.size; at++)
            for (unsigned bit = 0; bit < 8; bit++) {
                text.data[at] = (char)(text.data[at] ^ 1 << bit);
                enum hf_status status = kinds[i].read(buffer_view(&text), NULL, &error);
                if (!is_refusal(&kinds[i], status, at))
                    fail_msg("%s, byte %zu, bit %u: %s", kinds[i].name, at, bit,
                             hf_status_name(status));
                text.data[at] = (char)(text.data[at] ^ 1 << bit);
            }
        buffer_release(&text);
    }
}

/* Every tail that is lost, and every four bytes that are zero. */
static void other_damage_is_noticed(void **state)
{
    (void)state;
    struct hf_error error;
    for (size_t i = 0; i < KINDS; i++) {
        struct buffer text = sealed(&kinds[i]);
        for (size_t size = 0; size < text.size; size++)
            assert_int_not_equal(
                kinds[i].read(view_first(buffer_view(&text), size), NULL, &error), HF_OK);
        for (size_t at = 0; at + 4 <= text.size; at++) {
            char before[4];
            memcpy(before, text.data + at, 4);
            memset(text.data + at, 0, 4);
            enum hf_status status = kinds[i].read(buffer_view(&text), NULL, &error);
            if (!is_refusal(&kinds[i], status, at))
                fail_msg("%s, byte %zu: %s", kinds[i].name, at, hf_status_name(status));
            memcpy(text.data + at, before, 4);
        }
        buffer_release(&text);
    }
}

/* A version that knows no checksums replaces `write`, wherever it puts it. */
static void an_earlier_version_may_write_again(void **state)
{
    (void)state;
    struct hf_error error;
    for (size_t i = 0; i < KINDS; i++) {
        struct buffer text = sealed(&kinds[i]);
        struct buffer again = BUFFER_INIT(64 * KIB);
        size_t mark = view_find(buffer_view(&text), '~');
        buffer_append(&again, view_first(buffer_view(&text), mark));
        buffer_append(&again, view_from(buffer_view(&text), mark + 9));
        size_t space = view_find(buffer_view(&again), ','); /* and it changes something else */
        buffer_clear(&text);
        buffer_append(&text, view_first(buffer_view(&again), space + 1));
        buffer_append_byte(&text, ' ');
        buffer_append(&text, view_from(buffer_view(&again), space + 1));
        assert_int_equal(checksum_check(buffer_view(&text)), CHECKSUM_NONE);
        assert_status(HF_OK, kinds[i].read(buffer_view(&text), NULL, &error), &error);
        buffer_release(&again);
        buffer_release(&text);
    }
}

static const struct {
    const char *what, *text;
    enum checksum_state state;
} forms[] = {
    { "nothing", "", CHECKSUM_NONE },
    { "no member", "{}", CHECKSUM_NONE },
    { "another program's", "{\"write\":\"x\"}", CHECKSUM_NONE },
    { "not a string", "{\"write\":7}", CHECKSUM_NONE },
    { "cut off", "{\"write\":", CHECKSUM_NONE },
    { "cut off in its value", "{\"write\":\"" NONCE "~1234", CHECKSUM_NONE },
    { "a later form", "{\"write\":\"" NONCE "~12345678~9\"}", CHECKSUM_NONE },
    { "of other bytes", "{\"write\":\"" NONCE "~12345678\"}", CHECKSUM_WRONG },
    { "right", "{\"write\":\"" NONCE "~f7b3fb1c\"}", CHECKSUM_RIGHT },
    { "in capitals", "{\"write\":\"" NONCE "~F7B3FB1C\"}", CHECKSUM_WRONG },
    { "of another name", "{\"wrote\":\"" NONCE "~f7b3fb1c\"}", CHECKSUM_WRONG },
    { "another mark", "{\"write\":\"" NONCE "-f7b3fb1c\"}", CHECKSUM_WRONG },
};

static void forms_are_told_apart(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (checksum_check(view_of(forms[i].text)) != forms[i].state)
            fail_msg("%s: %d", forms[i].what, (int)checksum_check(view_of(forms[i].text)));
}

/* ---- Documents that only their owners read ------------------------------------------- */

static enum hf_status read_stored_epoch(struct yard *yard)
{
    uint64_t epoch;
    struct mono_time deadline = mono_add(env_now(env_real()), SPAN_S(10));
    return epoch_read(&yard->store.base, VIEW("default"), deadline, &epoch, &yard->error);
}

static enum hf_status read_stored_manifest(struct yard *yard)
{
    struct manifest manifest = { 0 };
    enum hf_status status = manifest_read(yard->index, &manifest, &yard->error);
    manifest_release(&manifest);
    return status;
}

static enum hf_status read_stored_format(struct yard *yard)
{
    return bucket_check(&yard->store.base, BUCKET_LOCKS, &yard->error);
}

static void put_bytes(struct yard *yard, const char *key, struct view bytes)
{
    struct put_call put = { .key = view_of(key), .body = bytes };
    assert_status(HF_OK, store_put(&yard->store.base, &put), &put.error);
}

static void notices_stored(struct yard *yard, const char *key,
                           enum hf_status (*read)(struct yard *yard))
{
    struct buffer text = BUFFER_INIT(64 * KIB);
    struct get_call get = { .key = view_of(key), .body = &text };
    assert_status(HF_OK, store_get(&yard->store.base, &get), &get.error);
    assert_int_equal(checksum_check(buffer_view(&text)), CHECKSUM_RIGHT);
    assert_status(HF_OK, read(yard), &yard->error);
    for (size_t at = 0; at < text.size; at++) {
        unsigned bit = (unsigned)at % 7;
        text.data[at] = (char)(text.data[at] ^ 1 << bit);
        put_bytes(yard, key, buffer_view(&text));
        assert_status(HF_CORRUPT, read(yard), &yard->error);
        text.data[at] = (char)(text.data[at] ^ 1 << bit);
    }
    put_bytes(yard, key, buffer_view(&text));
    assert_status(HF_OK, read(yard), &yard->error);
    buffer_release(&text);
}

static void stored_documents_are_checked(void **state)
{
    (void)state;
    struct yard yard;
    struct manifest noted = { 0 };
    uint64_t epoch;
    yard_open(&yard);
    struct doc_clock clock;
    clock_init(&clock, &yard.store.base);
    struct epoch_ref ref = { .store = &yard.store.base,
                             .clock = &clock,
                             .ns = VIEW("default"),
                             .deadline = mono_add(env_now(env_real()), SPAN_S(10)) };
    assert_status(HF_OK, epoch_raise(&ref, 3, &epoch, &yard.error), &yard.error);
    struct delete_call copy = { .key = VIEW(LAYOUT_EPOCH_COPY_FOLDER "default.json") };
    assert_status(HF_OK, store_delete(&yard.store.base, &copy), &copy.error);
    notices_stored(&yard, LAYOUT_EPOCH_FOLDER "default.json", read_stored_epoch);
    assert_true(manifest_note(&noted, (struct manifest_row){ .shard = 1, .records = 2 }));
    assert_status(HF_OK, manifest_write(yard.index, &noted, &yard.error), &yard.error);
    manifest_release(&noted);
    notices_stored(&yard, "indexes/domains/manifest.json", read_stored_manifest);
    assert_status(HF_OK, bucket_use_feature(&yard.store.base, BUCKET_PATH_PAGES, &yard.error),
                  &yard.error);
    notices_stored(&yard, LAYOUT_BUCKET_KEY, read_stored_format);
    clock_release(&clock);
    yard_close(&yard);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("what earlier versions wrote is read", earlier_documents_are_read),
        IT("a seal changes only the member write", a_seal_changes_only_the_member_write),
        IT("every changed bit is noticed", every_changed_bit_is_noticed),
        IT("a lost tail and zeroed bytes are noticed", other_damage_is_noticed),
        IT("an earlier version may write again", an_earlier_version_may_write_again),
        IT("the forms of the member are told apart", forms_are_told_apart),
        IT("stored documents are checked by their readers", stored_documents_are_checked),
    };
    if (!yard_kind_set(argc, argv))
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
