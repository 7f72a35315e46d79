/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_catalog.c: parses arbitrary bytes as a catalog. An accepted catalog must be written and
 * read back as the same, and every transition on it must return a status and leave a readable
 * catalog. */
#include "../tests/catalog_check.h"
#include "base/check.h"
#include "fuzz.h"

#define TRIED_MAX 4 /* keys of each kind that are put through the transitions */

static const struct mono_time arrived = { 1000000 };

static struct evidence evidence_at(int64_t us)
{
    return (struct evidence){ .now = { us },
                              .time_known = true,
                              .earliest = { us },
                              .latest = { us + 1000 },
                              .clock = VIEW("clock-a"),
                              .nonce = VIEW("0123456789abcdef") };
}

/* Written, read and written again it is the same. */
static void survives_the_round_trip(const struct catalog *catalog)
{
    struct buffer first = BUFFER_INIT(4 * CATALOG_BYTES_READ_MAX), second = first;
    struct catalog *again;
    struct hf_error error;
    catalog_check(catalog);
    check(catalog_encode(catalog, VIEW("n"), &first));
    if (first.size <= CATALOG_BYTES_READ_MAX) {
        check(catalog_decode(buffer_view(&first), arrived, catalog, &again, &error) == HF_OK);
        check(again->live_bytes == catalog->live_bytes &&
              again->dead_bytes == catalog->dead_bytes);
        check(catalog_live_hash(again) == catalog_live_hash(catalog));
        check(catalog_encode(again, VIEW("n"), &second));
        check(view_equal(buffer_view(&first), buffer_view(&second)));
        catalog_free(again);
    }
    buffer_release(&first);
    buffer_release(&second);
}

static void applies(struct catalog *catalog, struct catalog_op *op)
{
    struct evidence evidence = evidence_at(INT64_C(4000000000000));
    enum hf_status status = catalog_apply(catalog, op, &evidence);
    check(status == op->error.status && (status == HF_OK || op->error.why[0] != '\0'));
    check(status == HF_OK || !op->changed);
    survives_the_round_trip(catalog);
}

/* Some keys of each state, which stay where they are while the catalog changes: its texts are
 * never freed before it is. */
static size_t pick_keys(const struct catalog *catalog, struct view *keys)
{
    size_t count = 0;
    for (size_t i = 0; i < catalog->live_count && i < TRIED_MAX; i++)
        keys[count++] = catalog->live[i].key;
    for (size_t i = 0; i < catalog->grave_count && i < TRIED_MAX; i++)
        keys[count++] = catalog->graves[i].chunks[0].key;
    for (size_t i = 0; i < catalog->removal_count && i < TRIED_MAX; i++)
        keys[count++] = catalog->removals[i].keys[0];
    for (size_t i = 0; i < catalog->reference_count && i < TRIED_MAX; i++)
        keys[count++] = catalog->references[i].key;
    return count;
}

static void go_through_the_transitions(struct catalog *catalog)
{
    struct view keys[4 * TRIED_MAX + 1];
    size_t count = pick_keys(catalog, keys);
    struct chunk chunk = { .key = VIEW("data/default/L1/2026/11/f.usv"),
                           .level = 1,
                           .writer = VIEW("fuzz") };
    struct compact_settings settings = catalog->settings;
    settings.tries_max = 1;
    struct catalog_op ops[] = {
        { .kind = CATALOG_SET, .settings = &settings },
        { .kind = CATALOG_QUARANTINE, .keys = keys, .key_count = 1, .reason = VIEW("\\\x01") },
        { .kind = CATALOG_COMMIT, .keys = keys, .key_count = 1, .target = chunk },
        { .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1 },
        { .kind = CATALOG_CONDEMN,
          .keys = keys,
          .key_count = count,
          .blame = HF_COMPACT_BLAME_GROUP,
          .sources = keys,
          .source_count = count },
        { .kind = CATALOG_UNDELETE, .keys = keys, .key_count = 1 },
        { .kind = CATALOG_MAINTAIN,
          .restamp = true,
          .most = 3,
          .done = keys,
          .done_count = count,
          .gone = keys,
          .gone_count = count },
        { .kind = CATALOG_RETIRE, .most = 2 },
        { .kind = CATALOG_MAINTAIN, .gone = keys, .gone_count = count },
        { .kind = CATALOG_SPLIT, .live_hash = catalog_live_hash(catalog) },
    };
    static const char *const names[CATALOG_CHILDREN] = {
        "a", "b", "c", "d", "e", "f", "g", "h"
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        ops[i].drawn.us = INT64_C(4000000000000);
        for (size_t k = 0; k < CATALOG_CHILDREN; k++)
            ops[i].children[k] = view_of(names[k]);
        if (ops[i].kind == CATALOG_SPLIT)
            ops[i].live_hash = catalog_live_hash(catalog);
        if (count > 0 || ops[i].kind == CATALOG_ADD || ops[i].kind == CATALOG_SPLIT)
            applies(catalog, &ops[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view text = { (const char *)data, size };
    struct catalog *catalog;
    struct hf_error error;
    enum hf_status status = catalog_decode(text, arrived, NULL, &catalog, &error);
    if (status != HF_OK) {
        check((status == HF_CORRUPT || status == HF_UNSUPPORTED) && error.why[0] != '\0');
        return 0;
    }
    survives_the_round_trip(catalog);
    go_through_the_transitions(catalog);
    catalog_free(catalog);
    return 0;
}
