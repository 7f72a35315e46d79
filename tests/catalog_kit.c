/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_kit.c: builds catalogs, evidence and operations for tests. */
#include "catalog_kit.h"

#include "test.h"

#include <stdio.h>

#define KIT_KEYS 65536

struct compact_settings catalog_kit_settings(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.key = VIEW("1");
    settings.time = VIEW("3");
    settings.grace_ms = 1000 * 1000;
    settings.late_bound_ms = 100000 * 1000;
    return settings;
}

struct catalog *kit_catalog(void)
{
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  catalog_new(VIEW(KIT_PARTITION), VIEW(""), 0, &settings, &catalog, &error),
                  &error);
    return catalog;
}

struct evidence kit_at_clock(int64_t seconds, const char *clock)
{
    return (struct evidence){ .now = { seconds * 1000000 },
                              .time_known = clock[0] != '\0',
                              .earliest = { seconds * 1000000 },
                              .latest = { (seconds + 1) * 1000000 },
                              .clock = view_of(clock),
                              .wall = { seconds * 1000000 },
                              .nonce = VIEW("0123456789abcdef0123456789abcdef") };
}

struct evidence catalog_kit_at(int64_t seconds)
{
    return kit_at_clock(seconds, "clock-a");
}

struct view kit_key_of(const char *partition, unsigned level, unsigned n)
{
    static char keys[KIT_KEYS][96];
    static unsigned next;
    char *key = keys[next++ % KIT_KEYS];
    snprintf(key, sizeof keys[0], "data/%s/L%u/2026/11/%032x.usv", partition, level, n);
    return view_of(key);
}

struct view kit_key(unsigned level, unsigned n)
{
    return kit_key_of(KIT_PARTITION, level, n);
}

struct chunk kit_chunk(unsigned level, unsigned n)
{
    int64_t start = INT64_C(1763200000000) / KIT_HOUR_MS * KIT_HOUR_MS;
    return (struct chunk){ .key = kit_key(level, n),
                           .level = level,
                           .size = 1000 + n,
                           .rows_known = true,
                           .rows = 10,
                           .min_ms = start + n / 100 * KIT_HOUR_MS,
                           .max_ms = start + n / 100 * KIT_HOUR_MS + 300000,
                           .writer = VIEW("w1"),
                           .crc32c = n * 2654435761U };
}

enum hf_status kit_apply(struct catalog *catalog, struct catalog_op *op, struct evidence at)
{
    enum hf_status status = catalog_apply(catalog, op, &at);
    catalog_check(catalog);
    assert_true(status == op->error.status);
    assert_true((op->error.why[0] == '\0') == (status == HF_OK));
    assert_true(status == HF_OK || !op->changed);
    return status;
}

void catalog_kit_add(struct catalog *catalog, unsigned first, unsigned count,
                     struct evidence at)
{
    struct chunk chunks[512];
    assert_true(count <= 512);
    for (unsigned i = 0; i < count; i++)
        chunks[i] = kit_chunk(0, first + i);
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = count, .drawn = at.now
    };
    assert_status(HF_OK, kit_apply(catalog, &op, at), &op.error);
}

enum hf_status kit_commit(struct catalog *catalog, struct catalog_op *op, unsigned level,
                          unsigned target, unsigned first, unsigned count, struct evidence at)
{
    struct view keys[512];
    assert_true(count <= 512);
    for (unsigned i = 0; i < count; i++)
        keys[i] = kit_key(level - 1, first + i);
    *op = (struct catalog_op){ .kind = CATALOG_COMMIT,
                               .keys = keys,
                               .key_count = count,
                               .target = kit_chunk(level, target),
                               .drawn = at.now };
    enum hf_status status = kit_apply(catalog, op, at);
    op->keys = NULL;
    return status;
}

enum condemned kit_condemn(struct catalog *catalog, struct view key, struct evidence at)
{
    enum condemned condemned = CONDEMN_HAPPENED;
    struct catalog_op op = {
        .kind = CATALOG_CONDEMN, .keys = &key, .key_count = 1, .ret_condemned = &condemned
    };
    assert_status(HF_OK, kit_apply(catalog, &op, at), &op.error);
    return condemned;
}

size_t kit_maintain(struct catalog *catalog, struct evidence at)
{
    struct catalog_op op = { .kind = CATALOG_MAINTAIN };
    assert_status(HF_OK, kit_apply(catalog, &op, at), &op.error);
    return op.moved;
}

struct buffer catalog_kit_encode(const struct catalog *catalog)
{
    struct buffer text = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    assert_true(catalog_encode(catalog, VIEW("nonce"), &text));
    return text;
}

struct catalog *catalog_kit_reload(const struct catalog *catalog,
                                   const struct catalog *previous, int64_t seconds)
{
    struct buffer text = catalog_kit_encode(catalog), again;
    struct catalog *read = NULL;
    struct hf_error error;
    assert_status(HF_OK,
                  catalog_decode(buffer_view(&text), (struct mono_time){ seconds * 1000000 },
                                 previous, &read, &error),
                  &error);
    catalog_check(read);
    again = catalog_kit_encode(read);
    assert_true(view_equal(buffer_view(&text), buffer_view(&again)));
    assert_int_equal(catalog_live_hash(read), catalog_live_hash(catalog));
    buffer_release(&text);
    buffer_release(&again);
    return read;
}

enum hf_status kit_decode(const char *text, struct catalog **ret_catalog,
                          struct hf_error *error)
{
    return catalog_decode(view_of(text), (struct mono_time){ 1000000 }, NULL, ret_catalog,
                          error);
}
