/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_kit.c: a bucket with objects of other programs, and clients that adopt them. */
#include "adopt_kit.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- A bucket with objects ----------------------------------------------------------- */

void outside_open(struct outside *outside, void **state, const struct fault_plan *plan,
                  struct compact_settings settings)
{
    *outside = (struct outside){ .described = false };
    ground_open(&outside->ground, *state, plan, OUTSIDE_CROWD + 1);
    ground_create_with(&outside->ground, settings);
}

void outside_put_row(struct outside *outside, const char *key, unsigned row)
{
    char text[64];
    snprintf(text, sizeof text, "a%u\x1f%lld\n", row, (long long)SOME_HOUR / 1000 + row);
    put_bytes(&outside->ground, key, view_of(text));
}

void outside_put_objects(struct outside *outside, const char *prefix, size_t count)
{
    char key[KEY_BYTES_MAX + 1];
    for (size_t i = 0; i < count; i++) {
        snprintf(key, sizeof key, "%sobject-%04zu.usv", prefix, i);
        outside_put_row(outside, key, (unsigned)i);
    }
}

/* What a writer would know about the current version of an object. */
static bool describe(void *argument, struct view key, struct adopt_facts *ret_facts)
{
    static char etags[4096][ETAG_BYTES_MAX];
    static size_t next;
    struct outside *outside = argument;
    struct list_call list = { .prefix = key, .max = 1 };
    unsigned row = (unsigned)strtoul(key.data + key.size - strlen("0000.usv"), NULL, 10);
    char text[64];
    snprintf(text, sizeof text, "a%u\x1f%lld\n", row, (long long)SOME_HOUR / 1000 + row);
    if (outside->hook)
        outside->hook(outside);
    if (!outside->described)
        return false;
    assert_int_equal(store_list(outside->ground.store, &list), HF_OK);
    struct etag etag = list.entries[0].info.etag;
    list_release(&list);
    char *kept = etags[next++ % 4096];
    memcpy(kept, etag.data, etag.size);
    *ret_facts = (struct adopt_facts){ .etag = { kept, etag.size },
                                       .size = strlen(text),
                                       .rows_known = true,
                                       .rows = 1,
                                       .min_ms = SOME_HOUR + row * 1000,
                                       .max_ms = SOME_HOUR + row * 1000,
                                       .crc32c = crc32c(0, view_of(text)) };
    return true;
}

static void note(void *argument, const struct ingest_file *object, struct view etag)
{
    struct outside *outside = argument;
    (void)etag;
    if (object->error.status == HF_OK)
        return;
    outside->failures++;
    snprintf(outside->failed, sizeof outside->failed, "%s", object->error.why);
}

struct adopt_options outside_options(struct outside *outside, bool own)
{
    return (struct adopt_options){ .own = own,
                                   .writer = VIEW("w"),
                                   .patience = SPAN_S(2),
                                   .scratch = outside->ground.dir,
                                   .describe = describe,
                                   .each = note,
                                   .argument = outside };
}

enum hf_status outside_adopt(struct outside *outside, size_t bed, const char *path, bool own)
{
    struct adopt_options options = outside_options(outside, own);
    struct view paths[] = { view_of(path) };
    return adopt_paths(outside->ground.beds[bed].tree, paths, 1, &options, &outside->report,
                       &outside->error);
}

void outside_assert_live(struct outside *outside, size_t live)
{
    struct census census;
    tree_listing_take(&outside->ground.beds[OUTSIDE_CROWD], &census);
    assert_int_equal(census.twice, 0);
    assert_int_equal(census.live, live);
    tree_listing_release(&census);
}

static enum hf_status seek_object(void *argument, struct catalog_ref *ref,
                                  const struct catalog *catalog,
                                  const struct evidence *evidence, const struct hf_error *why)
{
    struct sought *sought = argument;
    (void)ref, (void)evidence, (void)why;
    for (size_t i = 0; catalog && i < catalog->live_count; i++) {
        const struct chunk *chunk = &catalog->live[i];
        if (!view_equal(chunk->object, view_of(sought->object)))
            continue;
        sought->found = true;
        snprintf(sought->key, sizeof sought->key, "%.*s", VIEW_ARGS(chunk->key));
    }
    return HF_OK;
}

struct sought outside_seek(struct outside *outside, const char *object)
{
    struct sought sought = { .object = object };
    struct bed *bed = &outside->ground.beds[OUTSIDE_CROWD];
    assert_status(HF_OK, catalog_tree_walk(bed->tree, seek_object, &sought, &bed->error),
                  &bed->error);
    return sought;
}

struct compact_settings outside_short_d(int64_t d_ms)
{
    struct compact_settings settings = settings_by_time();
    settings.late_bound_ms = d_ms;
    return settings;
}

void outside_merge(struct outside *outside, const char *const *objects, size_t count)
{
    struct sought sought[4];
    struct view sources[4];
    assert_in_range(count, 1, 4);
    for (size_t i = 0; i < count; i++) {
        sought[i] = outside_seek(outside, objects[i]);
        assert_true(sought[i].found);
        sources[i] = view_of(sought[i].key);
    }
    commit_merge(&outside->ground.beds[2], sources, count);
}

struct maintain_report outside_maintain(struct outside *outside)
{
    struct maintain_options options = { .short_lived = false };
    struct maintain_report report = { 0 };
    assert_status(
        HF_OK, maintain_round(outside->ground.beds[1].tree, &options, &report, &outside->error),
        &outside->error);
    return report;
}
