/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_tree_kit.c: several clients that compact one bucket, each with its own catalog tree. */
#include "catalog_tree_kit.h"

#include "catalog_check.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- The ground ---------------------------------------------------------------------- */

void bed_open(struct bed *bed, struct store *store)
{
    assert_status(HF_OK, client_new(store, NULL, &bed->client, &bed->error), &bed->error);
    assert_status(
        HF_OK, catalog_tree_open(store, bed->client, VIEW("default"), &bed->tree, &bed->error),
        &bed->error);
}

void bed_close(struct bed *bed)
{
    catalog_tree_close(bed->tree);
    hf_client_close(bed->client);
}

void ground_open(struct ground *ground, const char *kind, const struct fault_plan *plan,
                 size_t beds)
{
    struct hf_error error;
    char url[512];
    *ground = (struct ground){ .dir = test_dir_make() };
    if (view_equal(view_of(kind), VIEW("mem")))
        snprintf(url, sizeof url, "mem:");
    else
        snprintf(url, sizeof url, "sqlite:%s/bucket", ground->dir);
    struct store *inner;
    assert_status(HF_OK, store_open(env_real(), view_of(url), &inner, &error), &error);
    meter_init(&ground->meter, env_real());
    assert_status(HF_OK,
                  store_observe(inner, meter_observer(&ground->meter), &ground->store, &error),
                  &error);
    if (plan) {
        inner = ground->store;
        assert_status(HF_OK, store_fault(inner, plan, &ground->store, &error), &error);
    }
    for (; ground->count < beds; ground->count++)
        bed_open(&ground->beds[ground->count], ground->store);
}

void ground_close(struct ground *ground)
{
    for (size_t i = 0; i < ground->count; i++)
        bed_close(&ground->beds[i]);
    store_close(ground->store);
    meter_release(&ground->meter);
    test_dir_remove(ground->dir);
}

struct compact_settings some_settings(void)
{
    struct compact_settings settings = compact_settings_default();
    settings.key = VIEW("1");
    settings.grace_ms = 0;
    settings.skew_tolerance_ms = 0;
    return settings;
}

struct compact_settings settings_by_time(void)
{
    struct compact_settings settings = some_settings();
    settings.time = VIEW("2");
    return settings;
}

void ground_create_with(struct ground *ground, struct compact_settings settings)
{
    struct bed *bed = &ground->beds[0];
    assert_status(HF_OK, catalog_tree_create(bed->tree, &settings, &bed->error), &bed->error);
}

void ground_create(struct ground *ground)
{
    ground_create_with(ground, some_settings());
}

struct catalog_ref *slot_of(struct bed *bed, const char *partition)
{
    struct catalog_ref *ref;
    struct view name = view_of(partition ? partition : bed->tree->partition);
    assert_status(HF_OK, catalog_tree_ref(bed->tree, name, &ref, &bed->error), &bed->error);
    return ref;
}

/* ---- Chunks -------------------------------------------------------------------------- */

enum hf_status add_chunks(struct bed *bed, const char *partition, size_t count, unsigned hours,
                          char (*ret_keys)[KEY_BYTES_MAX + 1])
{
    struct catalog_ref *ref = slot_of(bed, partition);
    struct compact_settings settings = some_settings();
    struct chunk *chunks = calloc(count, sizeof *chunks);
    char(*keys)[KEY_BYTES_MAX + 1] = ret_keys ? ret_keys : calloc(count, sizeof *keys);
    struct catalog_op op = { .kind = CATALOG_ADD, .chunks = chunks, .chunk_count = count };
    assert_true(chunks && keys);
    for (size_t i = 0; i < count; i++) {
        int64_t ms = SOME_HOUR + (int64_t)(i % hours) * HOUR_MS;
        struct mono_time drawn;
        assert_status(HF_OK,
                      chunk_key_draw(env_real(),
                                     &(struct chunk_key_parts){ view_of(ref->partition),
                                                                /* level */ 0, ms, &settings },
                                     keys[i], &drawn, &bed->error),
                      &bed->error);
        if (i == 0)
            op.drawn = drawn;
        chunks[i] = (struct chunk){ .key = view_of(keys[i]),
                                    .size = 1000,
                                    .rows_known = true,
                                    .rows = 10,
                                    .min_ms = ms,
                                    .max_ms = ms + 1000,
                                    .writer = VIEW("w"),
                                    .crc32c = 1 };
    }
    enum hf_status status = catalog_ref_apply(ref, &op, (struct mono_time){ 0 });
    bed->error = op.error;
    free(chunks);
    if (!ret_keys)
        free(keys);
    return status;
}

/* ---- Census -------------------------------------------------------------------------- */

static void count_key(struct census *census, const struct catalog *catalog, struct view key,
                      enum chunk_state state, const struct chunk *chunk)
{
    struct counted *counted = calloc(1, sizeof *counted);
    assert_non_null(counted);
    counted->state = state;
    if (chunk) {
        counted->tries = chunk->tries;
        counted->sequence = chunk->sequence;
        counted->quarantined = chunk->quarantine.size > 0;
    }
    snprintf(counted->partition, sizeof counted->partition, "%.*s",
             VIEW_ARGS(catalog->partition));
    snprintf(counted->key, sizeof counted->key, "%.*s", VIEW_ARGS(key));
    void *old;
    assert_true(map_put(&census->keys, view_of(counted->key), counted, &old));
    census->twice += old != NULL;
    free(old);
}

static enum hf_status count_catalog(void *argument, struct catalog_ref *ref,
                                    const struct catalog *catalog,
                                    const struct evidence *evidence, const struct hf_error *why)
{
    (void)ref;
    (void)evidence;
    struct census *census = argument;
    census->catalogs++;
    if (!catalog) {
        census->unreadable++;
        assert_true(why->status != HF_OK && why->why[0] != '\0');
        return HF_OK;
    }
    catalog_check(catalog);
    census->live += catalog->live_count;
    census->moved += catalog->reference_count;
    for (size_t i = 0; i < catalog->live_count; i++)
        count_key(census, catalog, catalog->live[i].key, CHUNK_LIVE, &catalog->live[i]);
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t j = 0; j < catalog->graves[i].count; j++, census->dead++)
            count_key(census, catalog, catalog->graves[i].chunks[j].key, CHUNK_TOMBSTONE, NULL);
    for (size_t i = 0; i < catalog->removal_count; i++)
        for (size_t j = 0; j < catalog->removals[i].count; j++, census->dead++)
            count_key(census, catalog, catalog->removals[i].keys[j],
                      catalog_state(catalog, catalog->removals[i].keys[j]), NULL);
    return HF_OK;
}

void tree_listing_take(struct bed *bed, struct census *census)
{
    *census = (struct census){ .keys = MAP_INIT };
    assert_status(HF_OK, catalog_tree_walk(bed->tree, count_catalog, census, &bed->error),
                  &bed->error);
}

void tree_listing_release(struct census *census)
{
    struct counted *counted;
    while ((counted = map_seek(&census->keys, VIEW(""), /* beyond */ false))) {
        map_take(&census->keys, view_of(counted->key));
        free(counted);
    }
    map_release(&census->keys);
}

const struct counted *census_find(const struct census *census, const char *key)
{
    return map_get(&census->keys, view_of(key));
}

void assert_listed(struct bed *bed, size_t live, size_t dead)
{
    struct census census;
    tree_listing_take(bed, &census);
    assert_int_equal(census.twice, 0);
    assert_int_equal(census.live, live);
    assert_int_equal(census.dead, dead);
    tree_listing_release(&census);
}

void commit_merge(struct bed *bed, const struct view *sources, size_t count)
{
    struct compact_settings settings = some_settings();
    struct chunk_key_parts parts = { VIEW("default"), /* level */ 1, SOME_HOUR, &settings };
    struct catalog_op op = { .kind = CATALOG_COMMIT, .keys = sources, .key_count = count };
    char target[KEY_BYTES_MAX + 1];
    assert_status(HF_OK, chunk_key_draw(env_real(), &parts, target, &op.drawn, &bed->error),
                  &bed->error);
    op.target = (struct chunk){ .key = view_of(target),
                                .level = 1,
                                .size = 10,
                                .min_ms = SOME_HOUR,
                                .max_ms = SOME_HOUR,
                                .crc32c = 2 };
    assert_status(HF_OK, catalog_ref_apply(slot_of(bed, NULL), &op, (struct mono_time){ 0 }),
                  &op.error);
}

/* ---- Objects ------------------------------------------------------------------------- */

size_t count_objects(struct ground *ground, const char *prefix)
{
    struct list_call list = { .prefix = view_of(prefix) };
    assert_status(HF_OK, store_list(ground->store, &list), &list.error);
    assert_false(list.more);
    size_t count = list.count;
    list_release(&list);
    return count;
}

void put_bytes(struct ground *ground, const char *key, struct view bytes)
{
    struct put_call put = { .key = view_of(key), .body = bytes };
    assert_status(HF_OK, store_put(ground->store, &put), &put.error);
}

char *get_bytes(struct ground *ground, const char *key)
{
    struct buffer text = BUFFER_INIT(CATALOG_BYTES_READ_MAX);
    struct get_call get = { .key = view_of(key), .body = &text };
    assert_status(HF_OK, store_get(ground->store, &get), &get.error);
    assert_non_null(buffer_text(&text));
    return text.data;
}
