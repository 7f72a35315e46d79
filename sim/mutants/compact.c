/* SPDX-License-Identifier: Apache-2.0 */
/* compact.c: the mutants of src/compact. */
#include "sim/mutants/compact.h"

#include "base/hash.h"
#include "base/rule.h"
#include "compact/care/pin.h"
#include "compact/catalog/catalog_inside.h"
#include "lock/chunks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Catalogs ------------------------------------------------------------------------ */

void mutant_swaps_parent_first(struct catalog_ref *ref, struct catalog_op *swap)
{
    if (!RULE(SPLIT_SWAPS_LAST))
        catalog_ref_apply(ref, swap, (struct mono_time){ 0 });
}

void mutant_drops_deleted_names(struct catalog *catalog, struct catalog_op *op)
{
    if (RULE(DELETING_STAYS_FOR_D))
        return;
    for (size_t i = 0; i < op->done_count; i++) {
        struct removal *removal = catalog_removal_by_key(catalog, op->done[i]);
        if (!removal)
            continue;
        for (size_t k = 0; k < removal->count; k++)
            key_index_drop(&catalog->inside->index, removal->keys[k]);
        for (size_t k = 0; k < removal->file_id_count; k++)
            catalog_forget_file(catalog, removal->file_ids[k], removal->part.serial);
        removal->part.leaving = true;
        op->changed = true;
    }
}

static void take_out(struct catalog *catalog, struct view key)
{
    struct chunk *live = catalog_live_by_key(catalog, key);
    if (live)
        live->leaving = true;
    catalog_sweep_live(catalog);
    for (size_t i = 0; i < catalog->grave_count; i++)
        catalog_exhume(catalog, &catalog->graves[i], key);
    catalog_sweep_graves(catalog);
    size_t kept = 0;
    for (size_t i = 0; i < catalog->reference_count; i++)
        if (!view_equal(catalog->references[i].key, key))
            catalog->references[kept++] = catalog->references[i];
    catalog->reference_count = kept;
}

void mutant_condemns_known_names(struct catalog *catalog, const struct removal *removal)
{
    for (size_t i = 0; i < removal->count; i++)
        if (catalog_state(catalog, removal->keys[i]) != CHUNK_UNKNOWN)
            take_out(catalog, removal->keys[i]);
}

void mutant_enters_any_merge(struct catalog *catalog, const struct catalog_op *op,
                             struct divided_merge **merge)
{
    for (size_t i = catalog->merge_count; i > 0; i--) {
        struct divided_merge *other = &catalog->merges[i - 1];
        if (!RULE(RANGE_NAMES_ITS_MERGE) && other->source_count <= op->key_count &&
            other->level == op->target.level && op->range < other->range_count &&
            !other->ranges[op->range].done)
            *merge = other;
    }
}

/* ---- Jobs ---------------------------------------------------------------------------- */

void mutant_names_output_after_sources(const struct view *keys, size_t count,
                                       enum hf_status drawn, char *output)
{
    if (RULE(FRESH_OUTPUT_NAMES) || drawn != HF_OK)
        return;
    char digits[17], *name = strrchr(output, '/') + 1;
    struct hash_stream stream;
    hash_stream_init(&stream);
    for (size_t i = 0; i < count; i++)
        hash_stream_add(&stream, keys[i]);
    snprintf(digits, sizeof digits, "%016" PRIx64, hash_stream_xxh3(&stream));
    memcpy(name, digits, 16);
    memcpy(name + 16, digits, 16);
}

void mutant_deletes_unsure_output(struct store *store, struct view output)
{
    struct delete_call call = { .key = output };
    if (!RULE(UNSURE_COMMIT_IS_ASKED))
        store_delete(store, &call);
}

void mutant_deletes_uncondemned_output(struct store *store, struct view output)
{
    struct delete_call call = { .key = output };
    if (!RULE(CONDEMN_BEFORE_DELETE))
        store_delete(store, &call);
}

void mutant_forgets_before_settling(struct hf_client *client, struct view home, struct view id)
{
    struct hf_error ignored;
    if (!RULE(SETTLE_BEFORE_FORGET))
        chunks_tidy(client, home, &id, 1, &ignored);
}

/* ---- Pins ---------------------------------------------------------------------------- */

/* The pins that workers have read most recently. Keys are random, so all workers can share one ring
 * buffer. */
#define EARLY_MAX 1024
static struct {
    const struct catalog_ref *ref;
    uint64_t key_hash;
    bool pinned;
} early[EARLY_MAX];
static size_t early_next;

struct tombstones {
    char text[EARLY_MAX][KEY_BYTES_MAX + 1];
    struct view keys[EARLY_MAX];
    bool pinned[EARLY_MAX];
    size_t count;
};

static void list_tombstones(void *argument, const struct catalog *catalog,
                            const struct evidence *evidence)
{
    struct tombstones *tombstones = argument;
    (void)evidence;
    tombstones->count = 0;
    for (size_t i = 0; i < catalog->grave_count; i++)
        for (size_t k = 0; k < catalog->graves[i].count; k++) {
            size_t at = tombstones->count;
            if (at == EARLY_MAX)
                return;
            snprintf(tombstones->text[at], sizeof tombstones->text[at], "%.*s",
                     VIEW_ARGS(catalog->graves[i].chunks[k].key));
            tombstones->keys[at] = view_of(tombstones->text[at]);
            tombstones->count++;
        }
}

void mutant_reads_pins_early(struct catalog_ref *ref)
{
    struct hf_error error;
    if (RULE(PINS_AFTER_THE_MOVE))
        return;
    struct tombstones *tombstones = calloc(1, sizeof *tombstones);
    struct pin_level level = { view_of(ref->partition), PIN_GENERATION_UNKNOWN };
    struct pin_query query = { .levels = &level, .level_count = 1 };
    bool read =
        tombstones && catalog_ref_show(ref, list_tombstones, tombstones, &error) == HF_OK;
    if (read) {
        query.keys = tombstones->keys;
        query.count = tombstones->count;
    }
    if (read && pin_find(ref->tree, &query, tombstones->pinned, &error) == HF_OK)
        for (size_t i = 0; i < tombstones->count; i++) {
            early[early_next].ref = ref;
            early[early_next].key_hash = hash_xxh3(tombstones->keys[i]);
            early[early_next].pinned = tombstones->pinned[i];
            early_next = (early_next + 1) % EARLY_MAX;
        }
    free(tombstones);
}

void mutant_reads_snapshot_early(enum hf_status (*read)(struct snapshot_walk *walk,
                                                        struct hf_error *error),
                                 struct snapshot_walk *walk, enum hf_status *status,
                                 struct hf_error *error)
{
    if (*status == HF_OK && !RULE(SNAPSHOT_READS_LAST))
        *status = read(walk, error);
}

void mutant_compares_generations(uint64_t pinned, uint64_t removed, bool *holds)
{
    if (!RULE(EARLIER_SNAPSHOTS_HOLD))
        *holds = pinned >= removed;
}

void mutant_trusts_early_pins(const struct catalog_ref *ref, const struct view *keys,
                              size_t count, bool *pinned)
{
    if (RULE(PINS_AFTER_THE_MOVE))
        return;
    for (size_t i = 0; i < count; i++)
        for (size_t back = 1; back <= EARLY_MAX; back++) {
            size_t at = (early_next + EARLY_MAX - back) % EARLY_MAX;
            if (early[at].ref == ref && early[at].key_hash == hash_xxh3(keys[i])) {
                pinned[i] = pinned[i] && early[at].pinned;
                break;
            }
        }
}

void mutant_drops_pinned_chunks(bool dropping, size_t count, bool *pinned)
{
    for (size_t i = 0; i < count; i++)
        pinned[i] = pinned[i] && (!dropping || RULE(DROP_RESPECTS_PINS));
}
