/* SPDX-License-Identifier: Apache-2.0 */
/* scrub.c: goes through a store in the order of its keys, examines each object, and reports what it
 * has found twice. It remembers the position, so that another scrub can continue there. */
#include "scrub/scrub.h"

#include "base/check.h"
#include "compact/catalog/chunk_object.h"
#include "lock/fence.h"
#include "scrub/scrub_inside.h"

#include <stdlib.h>
#include <string.h>

/* An object that is replaced each time is in use by somebody who would notice the damage. */
#define EXAMINE_TRIES 4

/* The memory of a longer document is given back. */
#define TEXT_KEPT_MAX ((size_t)4 * 1024 * 1024)

/* Separates the key of a catalog from that of a chunk in a position. */
#define INSIDE '#'

/* ---- Findings ------------------------------------------------------------------------ */

static void report_scrub_fault(struct scrub *scrub, struct view key, const struct fault *fault)
{
    struct hf_store_scrub_report *report = scrub->report;
    uint64_t *const counts[HF_SCRUB_KIND_COUNT] = {
        [HF_SCRUB_DAMAGED] = &report->damaged,       [HF_SCRUB_MISSING] = &report->missing,
        [HF_SCRUB_UNREADABLE] = &report->unreadable, [HF_SCRUB_TOO_NEW] = &report->too_new,
        [HF_SCRUB_UNKNOWN] = &report->unknown,
    };
    if (counts[fault->kind]) /* documents without a checksum are counted in any case */
        ++*counts[fault->kind];
    if (scrub->options->tell &&
        !scrub->options->tell(scrub->options->argument, fault->kind,
                              fault->key[0] ? view_of(fault->key) : key, fault->why))
        scrub->told_to_stop = true;
}

/* Whether two examinations have found the same in the same version of a document. */
static bool is_same_fault(const struct fault *a, const struct fault *b)
{
    return a->found && b->found && a->kind == b->kind && strcmp(a->key, b->key) == 0 &&
           view_equal(etag_view(&a->version), etag_view(&b->version));
}

/* ---- One object ---------------------------------------------------------------------- */

/* What becomes of a document that has no checksum. *ret_again: another client has changed it, or
 * may have, so it must be examined again. */
static enum hf_status handle_unsealed(struct scrub *scrub, struct view key,
                                      const struct etag *version, bool *ret_again,
                                      struct hf_error *error)
{
    const struct scrub_options *options = scrub->options;
    enum hf_status status = HF_OK;
    *ret_again = false;
    scrub->report->unsealed++;
    if (options->sealed) {
        struct fault fault = { .found = true, .kind = HF_SCRUB_UNSEALED };
        report_scrub_fault(scrub, key, &fault);
    }
    if (options->seal)
        status =
            options->seal(options->argument, key, buffer_view(&scrub->text), version, error);
    *ret_again = status == HF_CONFLICT || status == HF_UNSURE;
    return *ret_again ? HF_OK : status;
}

/* Examines an object until two examinations agree, or it is found to be right. */
static enum hf_status examine_twice(struct scrub *scrub, enum scrub_class class,
                                    struct view key, struct hf_error *error)
{
    struct fault before = { .found = false }, fault;
    struct hf_store_scrub_report counted = *scrub->report;
    for (int i = 0; i < EXAMINE_TRIES; i++) {
        scrub->report->documents = counted.documents; /* count it once */
        scrub->report->checked = counted.checked;
        scrub->report->unsealed = counted.unsealed;
        scrub->report->objects = counted.objects;
        scrub->report->skipped = counted.skipped;
        bool again = false;
        enum hf_status status = scrub_examine(scrub, class, key, &fault, error);
        if (status == HF_OK && fault.unsealed && !fault.found && !fault.busy)
            status = handle_unsealed(scrub, key, &fault.version, &again, error);
        if (again)
            continue;
        if (status != HF_OK || (!fault.found && !fault.busy))
            return status;
        if (is_same_fault(&before, &fault)) {
            report_scrub_fault(scrub, key, &fault);
            return HF_OK;
        }
        before = fault;
    }
    return HF_OK;
}

/* ---- Chunks of a catalog ------------------------------------------------------------- */

static int compare_chunks(const void *a, const void *b)
{
    const struct chunk *const *one = a, *const *two = b;
    return view_compare((*one)->key, (*two)->key);
}

/* Reads a catalog. *ret_catalog is NULL if it is gone or damaged, which its own examination
 * reports, and if it cannot be read, which is a fault. */
static enum hf_status load_catalog(struct scrub *scrub, struct view key,
                                   struct catalog **ret_catalog, struct fault *fault,
                                   struct hf_error *error)
{
    struct object_info info;
    struct hf_error why;
    *ret_catalog = NULL;
    *fault = (struct fault){ .found = false };
    enum hf_status status = scrub_get(scrub, key, CATALOG_BYTES_READ_MAX, &info, &why);
    enum hf_status noted = scrub_note_read(scrub, status, &why, fault, error);
    if (status != HF_OK)
        return noted;
    status =
        catalog_decode(buffer_view(&scrub->text), env_now(scrub->env), NULL, ret_catalog, &why);
    if (status == HF_CORRUPT || status == HF_UNSUPPORTED)
        return HF_OK;
    if (status != HF_OK)
        *error = why;
    return status;
}

/* The same, with a second attempt before the fault is reported. */
static enum hf_status load_catalog_twice(struct scrub *scrub, struct view key,
                                         struct catalog **ret_catalog, struct hf_error *error)
{
    struct fault fault;
    enum hf_status status = load_catalog(scrub, key, ret_catalog, &fault, error);
    if (status == HF_OK && fault.found)
        status = load_catalog(scrub, key, ret_catalog, &fault, error);
    if (status == HF_OK && fault.found)
        report_scrub_fault(scrub, key, &fault);
    return status;
}

/* Whether the catalog still lists the chunk as live, with this checksum. */
static enum hf_status is_still_live(struct scrub *scrub, struct view catalog_key,
                                    const struct chunk *chunk, bool *ret_live,
                                    struct hf_error *error)
{
    struct catalog *catalog;
    enum hf_status status = load_catalog_twice(scrub, catalog_key, &catalog, error);
    *ret_live = false;
    for (size_t i = 0; catalog && i < catalog->live_count; i++) {
        const struct chunk *live = &catalog->live[i];
        if (view_equal(live->key, chunk->key) && live->crc32c == chunk->crc32c &&
            live->size == chunk->size)
            *ret_live = true;
    }
    if (catalog)
        catalog_free(catalog);
    return status;
}

static enum hf_status visit_chunk(struct scrub *scrub, struct view catalog_key,
                                  const struct chunk *chunk, struct hf_error *error)
{
    struct fault fault;
    bool live = false;
    if (scrub_skips(scrub, chunk->size))
        return HF_OK;
    scrub->report->objects++;
    scrub->report->checked++;
    enum hf_status status = scrub_chunk(scrub, chunk, &fault, error);
    if (status == HF_OK && fault.found)
        status = scrub_chunk(scrub, chunk, &fault, error);
    if (status == HF_OK && fault.found)
        status = is_still_live(scrub, catalog_key, chunk, &live, error);
    if (status == HF_OK && live)
        report_scrub_fault(scrub, chunk->key, &fault);
    return status;
}

/* A position: after an object or, if `inside` is not NULL, within a catalog after this chunk. */
static void note_position(struct scrub *scrub, struct view key, const struct view *inside)
{
    struct hf_store_scrub_report *report = scrub->report;
    size_t size = key.size;
    check(key.size + (inside ? inside->size : 0) + 1 < sizeof report->position);
    memcpy(report->position, key.data, key.size);
    if (inside) {
        report->position[size++] = INSIDE;
        memcpy(report->position + size, inside->data, inside->size);
        size += inside->size;
    }
    report->position[size] = '\0';
    report->position_size = size;
}

/* A slice passes at least one object or chunk, however much is read on the way to it: the next one
 * must continue further on. */
static bool slice_is_done(const struct scrub *scrub)
{
    uint64_t most = scrub->options->bytes_max;
    return scrub->told_to_stop ||
           (most > 0 && scrub->has_passed && scrub->report->bytes_read >= most);
}

/* With a limit, an object that could not be read to its end must not stop the next slice. */
static enum hf_status pass_if_cut_short(struct scrub *scrub, enum hf_status status,
                                        struct view key, const struct view *inside)
{
    if (status == HF_OK || (status == HF_CANCELLED && scrub->options->bytes_max > 0)) {
        scrub->report->skipped += status != HF_OK;
        scrub->has_passed = true;
        note_position(scrub, key, inside);
    }
    return status;
}

/* The chunks in the order of their keys, after `inside`, and then the catalog has been passed. */
static enum hf_status visit_chunks(struct scrub *scrub, struct view key, struct view inside,
                                   struct hf_error *error)
{
    struct catalog *catalog;
    enum hf_status status = load_catalog_twice(scrub, key, &catalog, error);
    if (status != HF_OK)
        return status;
    if (!catalog) {
        note_position(scrub, key, /* inside */ NULL);
        return HF_OK;
    }
    const struct chunk **sorted = calloc(catalog->live_count + 1, sizeof *sorted);
    if (!sorted) {
        catalog_free(catalog);
        return error_no_memory(error);
    }
    for (size_t i = 0; i < catalog->live_count; i++)
        sorted[i] = &catalog->live[i];
    qsort(sorted, catalog->live_count, sizeof *sorted, compare_chunks);
    size_t i = 0;
    while (i < catalog->live_count && view_compare(sorted[i]->key, inside) <= 0)
        i++;
    for (; i < catalog->live_count && status == HF_OK && !slice_is_done(scrub); i++) {
        status = visit_chunk(scrub, key, sorted[i], error);
        status = pass_if_cut_short(scrub, status, key, &sorted[i]->key);
    }
    if (status == HF_OK && i == catalog->live_count)
        note_position(scrub, key, /* inside */ NULL);
    free(sorted);
    catalog_free(catalog);
    return status;
}

/* ---- The whole store ----------------------------------------------------------------- */

/* Objects that contain data, not documents. They are read only as far as the options allow. */
static bool is_data(enum scrub_class class)
{
    return class == CLASS_DATA || class == CLASS_SHARD || class == CLASS_OBJECT;
}

/* Whether an object is left out. Without data, those objects are read that can be fences. */
static bool is_left_out(struct scrub *scrub, enum scrub_class class,
                        const struct object_info *info)
{
    if (class == CLASS_SKIPPED)
        return true;
    if (!is_data(class))
        return false;
    if (scrub->options->documents)
        return class != CLASS_OBJECT || info->size > FENCE_BYTES_MAX;
    return scrub_skips(scrub, info->size);
}

static enum hf_status visit_entry(struct scrub *scrub, const struct list_entry *entry,
                                  struct hf_error *error)
{
    enum scrub_class class = scrub_classify(entry->key);
    enum hf_status status = HF_OK;
    uint64_t unreadable = scrub->report->unreadable;
    if (class == CLASS_UNKNOWN) {
        struct fault fault = { .found = true, .kind = HF_SCRUB_UNKNOWN };
        report_scrub_fault(scrub, entry->key, &fault);
    } else if (!is_left_out(scrub, class, &entry->info)) {
        scrub->report->objects++;
        status = examine_twice(scrub, class, entry->key, error);
    }
    /* The key of a catalog alone would be a position after its chunks. */
    bool has_chunks = class == CLASS_CATALOG && !scrub->options->documents &&
                      scrub->report->unreadable == unreadable;
    status = pass_if_cut_short(scrub, status, entry->key, has_chunks ? &VIEW("") : NULL);
    if (status == HF_OK && has_chunks && !slice_is_done(scrub))
        status = visit_chunks(scrub, entry->key, VIEW(""), error);
    return status;
}

static enum hf_status visit_page(struct scrub *scrub, const struct list_call *page,
                                 struct hf_error *error)
{
    enum hf_status status = HF_OK;
    for (size_t i = 0; i < page->count && status == HF_OK && !slice_is_done(scrub); i++) {
        status = visit_entry(scrub, &page->entries[i], error);
        if (scrub->text.capacity > TEXT_KEPT_MAX)
            buffer_release(&scrub->text);
    }
    return status;
}

/* From the key `after` to the end. */
static enum hf_status visit_all(struct scrub *scrub, struct view after, struct hf_error *error)
{
    char last[KEY_BYTES_MAX];
    enum hf_status status = HF_OK;
    bool more = true;
    check(after.size <= sizeof last);
    if (after.size > 0) /* else it may be NULL */
        memcpy(last, after.data, after.size);
    size_t last_size = after.size;
    uint64_t continuation = 0;
    while (status == HF_OK && more && !slice_is_done(scrub)) {
        struct list_call page;
        struct view from = { last, last_size };
        status = scrub_list(scrub, from, continuation, &page, error);
        if (status != HF_OK)
            break;
        status = visit_page(scrub, &page, error);
        more = page.more && page.count > 0;
        continuation = page.continuation;
        if (page.count > 0) {
            struct view key = page.entries[page.count - 1].key;
            memcpy(last, key.data, key.size);
            last_size = key.size;
        }
        if (status == HF_OK && !more && !slice_is_done(scrub))
            scrub->report->complete = true;
        list_release(&page);
    }
    return status;
}

/* Splits a position within a catalog into the catalog and the chunk. */
static bool cut_position(struct view *position, struct view *ret_inside)
{
    struct view rest = *position, key = view_cut(&rest, INSIDE);
    if (key.size == position->size || scrub_classify(key) != CLASS_CATALOG)
        return false;
    *ret_inside = rest;
    *position = key;
    return true;
}

bool scrub_takes_position(struct view after)
{
    struct view inside = VIEW("");
    (void)cut_position(&after, &inside);
    return after.size <= KEY_BYTES_MAX && inside.size <= KEY_BYTES_MAX;
}

enum hf_status scrub_run(struct store *store, const struct scrub_options *options,
                         struct hf_store_scrub_report *ret_report, struct hf_error *error)
{
    struct view after = options->after, inside = VIEW("");
    bool within = cut_position(&after, &inside);
    struct scrub scrub = { .env = store->env,
                           .store = store,
                           .options = options,
                           .report = ret_report,
                           .text = BUFFER_INIT(SCRUB_TEXT_MAX) };
    enum hf_status status = HF_OK;
    *ret_report = HF_STORE_SCRUB_REPORT;
    if (!scrub_takes_position(options->after))
        return error_set(error, HF_INVALID, "the position is too long");
    if (after.size > 0)
        note_position(&scrub, after, within ? &inside : NULL);
    if (within && !options->documents)
        status = visit_chunks(&scrub, after, inside, error);
    if (status == HF_OK)
        status = visit_all(&scrub, after, error);
    if (ret_report->complete)
        note_position(&scrub, VIEW(""), /* inside */ NULL);
    buffer_release(&scrub.text);
    return status;
}
