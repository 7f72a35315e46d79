/* SPDX-License-Identifier: Apache-2.0 */
/* documents.c: tells the documents of Holdfast by their keys, and checks each with the decoder that
 * every client uses. So a document that a scrub accepts is one that clients accept. */
#include "scrub/scrub_inside.h"

#include "base/checksum.h"
#include "base/json.h"
#include "compact/catalog/prefixes.h"
#include "index/manifest.h"
#include "index/sidecar.h"
#include "key/record.h"
#include "lock/epoch.h"
#include "lock/fence.h"
#include "store/bucket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOLDFAST_FOLDER ".holdfast/"
#define TXN_FOLDERS     ".txn-decisions/"
#define OLD_PROBE_KEY   ".holdfast/probe.json"
#define SERVE_KEY       ".holdfast/serve.json"
#define SMALL_MAX       ((size_t)256 * 1024)
#define JOBS_MAX        ((size_t)8 * 1024 * 1024)

static_assert(SIDECAR_BYTES_MAX < SCRUB_TEXT_MAX, "a sidecar can be read whole");
static_assert(CATALOG_BYTES_READ_MAX < SCRUB_TEXT_MAX, "a catalog can be read whole");

/* ---- Keys ---------------------------------------------------------------------------- */

static enum scrub_class classify_own(struct view key)
{
    static const struct {
        const char *start;
        enum scrub_class class;
    } folders[] = {
        { LAYOUT_EPOCH_FOLDER, CLASS_EPOCH },  { LAYOUT_EPOCH_COPY_FOLDER, CLASS_EPOCH },
        { LAYOUT_KEPT_FOLDER, CLASS_SKIPPED }, { LAYOUT_PROBE_SCRATCH, CLASS_SKIPPED },
        { LAYOUT_SWEEP_FOLDER, CLASS_SWEEP },  { LAYOUT_SIGHT_FOLDER, CLASS_SIGHT },
        { LAYOUT_TXN_FOLDER, CLASS_TXN },      { LAYOUT_TXN_EXPIRY_FOLDER, CLASS_DATA },
    };
    if (view_equal(key, VIEW(LAYOUT_BUCKET_KEY)))
        return CLASS_BUCKET;
    if (view_equal(key, VIEW(SERVE_KEY)))
        return CLASS_SERVE;
    if (view_equal(key, VIEW(OLD_PROBE_KEY)))
        return CLASS_SKIPPED;
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (view_starts_with(key, view_of(folders[i].start)))
            return folders[i].class;
    return CLASS_UNKNOWN;
}

/* A document of a partition: metadata/<leaf> or metadata/<partition>/<leaf>. */
static enum scrub_class classify_partition(struct view key)
{
    struct view leaf = view_from(key, strlen(LAYOUT_CHUNK_FOLDER));
    struct view rest = leaf, partition = view_cut(&rest, '/');
    if (view_equal(key, VIEW(LAYOUT_ADOPTED_KEY)))
        return CLASS_ADOPTED;
    if (partition.size < leaf.size)
        leaf = layout_partition_valid(partition) ? rest : VIEW("");
    return view_equal(leaf, VIEW(LAYOUT_CATALOG))  ? CLASS_CATALOG
           : view_equal(leaf, VIEW(LAYOUT_LEASES)) ? CLASS_TABLE
           : view_equal(leaf, VIEW(LAYOUT_JOBS))   ? CLASS_JOBS
           : view_equal(leaf, VIEW(LAYOUT_PAUSE))  ? CLASS_DATA /* it may contain anything */
                                                   : CLASS_UNKNOWN;
}

/* Entries and objects that were set aside may contain anything. */
static enum scrub_class classify_index(struct view key)
{
    struct view rest = view_from(key, strlen(LAYOUT_INDEX_FOLDER));
    struct view name = view_cut(&rest, '/');
    struct view shard = view_from(rest, strlen(LAYOUT_SHARD_FOLDER));
    if (!layout_index_valid(name) || !view_starts_with(rest, VIEW(LAYOUT_SHARD_FOLDER)))
        return view_equal(rest, VIEW(LAYOUT_INDEX))      ? CLASS_INDEX
               : view_equal(rest, VIEW(LAYOUT_MANIFEST)) ? CLASS_MANIFEST
                                                         : CLASS_SKIPPED;
    struct view end = shard, digits = view_cut(&end, '.');
    end = view_from(shard, digits.size);
    if (table_key_is_of_shard(key))
        return CLASS_TABLE;
    if (layout_shard_valid(digits) && view_equal(end, VIEW(LAYOUT_SHARD)))
        return CLASS_SHARD;
    if (layout_shard_valid(digits) && view_equal(end, VIEW(LAYOUT_SIDECAR)))
        return CLASS_SIDECAR;
    return CLASS_UNKNOWN;
}

enum scrub_class scrub_classify(struct view key)
{
    if (view_starts_with(key, VIEW(HOLDFAST_FOLDER)) ||
        view_starts_with(key, VIEW(TXN_FOLDERS)))
        return classify_own(key);
    if (view_starts_with(key, VIEW(LAYOUT_CHUNK_FOLDER)))
        return classify_partition(key);
    if (view_starts_with(key, VIEW(LAYOUT_INDEX_FOLDER)))
        return classify_index(key);
    if (table_key_is_ours(key))
        return CLASS_TABLE;
    if (view_starts_with(key, VIEW(LAYOUT_ROSTER_FOLDER)))
        return CLASS_DATA;
    /* Chunks are read with their catalog; states and bodies, with the document that names them. */
    return layout_is_own(key) ? CLASS_SKIPPED : CLASS_OBJECT;
}

/* ---- Checks of one text -------------------------------------------------------------- */

typedef enum hf_status check_text(struct scrub *scrub, struct view key, struct view text,
                                  struct hf_error *error);

static enum hf_status check_bucket_text(struct scrub *scrub, struct view key, struct view text,
                                        struct hf_error *error)
{
    (void)scrub;
    (void)key;
    return bucket_check_text(text, error);
}

static enum hf_status check_epoch_text(struct scrub *scrub, struct view key, struct view text,
                                       struct hf_error *error)
{
    (void)scrub;
    (void)key;
    return epoch_check_text(text, error);
}

static enum hf_status check_table_text(struct scrub *scrub, struct view key, struct view text,
                                       struct hf_error *error)
{
    struct lease_table *table;
    struct mono_time now = env_now(scrub->env);
    if (placement_is_mark(text))
        return HF_OK;
    enum hf_status status = table_key_is_of_shard(key)
                                ? table_decode_of_shard(text, now, NULL, &table, error)
                                : table_decode(text, now, NULL, &table, error);
    if (status == HF_OK)
        table_free(table);
    return status;
}

static enum hf_status check_txn_text(struct scrub *scrub, struct view key, struct view text,
                                     struct hf_error *error)
{
    struct txn_record record;
    (void)scrub;
    (void)key;
    enum hf_status status = record_decode(text, &record, error);
    if (status == HF_OK)
        record_release(&record);
    return status;
}

static enum hf_status check_catalog_text(struct scrub *scrub, struct view key, struct view text,
                                         struct hf_error *error)
{
    struct catalog *catalog;
    (void)key;
    enum hf_status status = catalog_decode(text, env_now(scrub->env), NULL, &catalog, error);
    if (status == HF_OK)
        catalog_free(catalog);
    return status;
}

static enum hf_status check_adopted_text(struct scrub *scrub, struct view key, struct view text,
                                         struct hf_error *error)
{
    struct prefix_list *list;
    (void)scrub;
    (void)key;
    enum hf_status status = prefix_list_decode(text, &list, error);
    if (status == HF_OK)
        prefix_list_free(list);
    return status;
}

static enum hf_status check_index_text(struct scrub *scrub, struct view key, struct view text,
                                       struct hf_error *error)
{
    struct schema *schema = malloc(sizeof *schema);
    struct view rest = view_from(key, strlen(LAYOUT_INDEX_FOLDER));
    if (!schema)
        return error_no_memory(error);
    enum hf_status status = schema_decode(text, schema, error);
    snprintf(scrub->index, sizeof scrub->index, "%.*s", VIEW_ARGS(view_cut(&rest, '/')));
    scrub->index_is_known = status == HF_OK;
    scrub->index_is_plain = status == HF_OK && schema->plain;
    scrub->index_is_foreign = status == HF_OK && schema->foreign;
    free(schema);
    return status;
}

static enum hf_status check_sidecar_text(struct scrub *scrub, struct view key, struct view text,
                                         struct hf_error *error)
{
    struct sidecar sidecar = { .text = scrub->text }; /* which has this text, and keeps it */
    (void)key;
    (void)text;
    enum hf_status status = sidecar_parse(&sidecar, error);
    shard_head_release(&sidecar.head);
    return status;
}

/* A document that no decision depends on: only its form and its version are checked. */
static enum hf_status check_form(struct view text, struct view format, struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, found = VIEW("");
    if (checksum_check(text) == CHECKSUM_WRONG)
        return error_set(error, HF_CORRUPT, CHECKSUM_MISTAKE);
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &found);
        else
            json_skip(&reader, &raw);
    if (!json_end(&reader))
        return error_set(error, HF_CORRUPT, "%s", reader.why);
    if (view_equal(found, format))
        return HF_OK;
    if (view_starts_with(found, view_first(format, view_find(format, '/') + 1)))
        return error_set(error, HF_UNSUPPORTED,
                         "it has the format %.*s, but this version knows only %.*s",
                         VIEW_ARGS(view_first(found, 60)), VIEW_ARGS(format));
    return error_set(error, HF_CORRUPT, "it does not have the format %.*s", VIEW_ARGS(format));
}

/* ---- The table ----------------------------------------------------------------------- */

struct class_row {
    const char *name; /* NULL: not a document */
    size_t bytes_max; /* a longer object is not such a document */
    check_text *check;
    const char *format; /* without `check` */
    bool sealed;        /* has a checksum, unless an earlier version wrote it */
};

static const struct class_row rows[CLASSES] = {
    [CLASS_BUCKET] = { "format document", SMALL_MAX, check_bucket_text, NULL, true },
    [CLASS_EPOCH] = { "token epoch", SMALL_MAX, check_epoch_text, NULL, true },
    [CLASS_TABLE] = { "lease table", TABLE_BYTES_READ_MAX, check_table_text, NULL, true },
    [CLASS_TXN] = { "transaction record", RECORD_BYTES_MAX, check_txn_text, NULL, true },
    [CLASS_CATALOG] = { "catalog", CATALOG_BYTES_READ_MAX, check_catalog_text, NULL, true },
    [CLASS_ADOPTED] = { "list of adopted objects", PREFIXES_BYTES_MAX, check_adopted_text, NULL,
                        true },
    [CLASS_INDEX] = { "index definition", INDEX_BYTES_MAX, check_index_text, NULL, true },
    [CLASS_MANIFEST] = { "manifest", MANIFEST_BYTES_MAX, NULL, "holdfast.manifest/1", true },
    [CLASS_SIDECAR] = { "sidecar", SIDECAR_BYTES_MAX, check_sidecar_text, NULL, false },
    [CLASS_JOBS] = { "list of jobs", JOBS_MAX, NULL, LAYOUT_JOBS_FORMAT, false },
    [CLASS_SWEEP] = { "sweep record", SMALL_MAX, NULL, LAYOUT_SWEEP_FORMAT, false },
    [CLASS_SIGHT] = { "sight", SMALL_MAX, NULL, LAYOUT_SIGHT_FORMAT, false },
    [CLASS_SERVE] = { "secret of the servers", SMALL_MAX, NULL, "holdfast.serve/1", false },
};

void fault_set(struct fault *fault, enum hf_scrub_kind kind, const char *why)
{
    fault->found = true;
    fault->kind = kind;
    snprintf(fault->why, sizeof fault->why, "%s", why);
}

/* A placeholder that is about to be replaced has no checksum, and neither has a placement mark. */
static bool may_be_unsealed(struct view text)
{
    struct view head = view_first(text, CHECKSUM_HEAD);
    return placement_is_mark(text) ||
           memmem(head.data, head.size, "\"blank\"", strlen("\"blank\"")) != NULL;
}

void scrub_count_checksum(struct scrub *scrub, struct view text, struct fault *fault)
{
    enum checksum_state state = checksum_check(text);
    fault->unsealed = state == CHECKSUM_NONE && !may_be_unsealed(text);
    scrub->report->checked += state == CHECKSUM_RIGHT;
}

/* Whether the namespace of a table exists. Other programs may have a folder `meta` as well, and
 * their objects are not damaged tables. */
static enum hf_status find_namespace(struct scrub *scrub, struct view key, bool *ret_used,
                                     struct hf_error *error)
{
    char epoch[KEY_BYTES_MAX + 1];
    struct view rest = key, ns = view_cut(&rest, '/');
    struct object_info info;
    *ret_used = true;
    if (layout_namespace_reserved(ns))
        return HF_OK;
    if (!view_equal(view_of(scrub->ns), ns)) {
        enum hf_status status = HF_NOT_FOUND;
        for (size_t i = 0; i < 2 && status == HF_NOT_FOUND; i++) {
            snprintf(epoch, sizeof epoch, "%s%.*s.json",
                     i == 0 ? LAYOUT_EPOCH_FOLDER : LAYOUT_EPOCH_COPY_FOLDER, VIEW_ARGS(ns));
            status = scrub_get(scrub, view_of(epoch), 1, &info, error);
        }
        if (status != HF_OK && status != HF_NOT_FOUND)
            return status;
        snprintf(scrub->ns, sizeof scrub->ns, "%.*s", VIEW_ARGS(ns));
        scrub->ns_is_used = status == HF_OK;
    }
    *ret_used = scrub->ns_is_used;
    return HF_OK;
}

/* ---- One document -------------------------------------------------------------------- */

/* Turns the status of a decoder into a fault. A damaged table of a namespace that does not exist is
 * an object of another program. */
static enum hf_status judge_text(struct scrub *scrub, enum scrub_class class, struct view key,
                                 enum hf_status status, const struct hf_error *why,
                                 struct fault *fault, struct hf_error *error)
{
    bool ours = true;
    if (status == HF_UNSUPPORTED)
        fault_set(fault, HF_SCRUB_TOO_NEW, why->why);
    else if (status == HF_CORRUPT)
        fault_set(fault, HF_SCRUB_DAMAGED, why->why);
    else if (status != HF_OK) {
        *error = *why;
        return status;
    }
    struct view head = view_first(buffer_view(&scrub->text), CHECKSUM_HEAD);
    if (class != CLASS_TABLE || status != HF_CORRUPT ||
        memmem(head.data, head.size, "\"holdfast.", strlen("\"holdfast.")))
        return HF_OK;
    status = find_namespace(scrub, key, &ours, error);
    fault->found = ours;
    return status == HF_CANCELLED ? status : HF_OK;
}

static enum hf_status examine_text(struct scrub *scrub, enum scrub_class class, struct view key,
                                   const struct object_info *info, struct fault *fault,
                                   struct hf_error *error)
{
    const struct class_row *row = &rows[class];
    struct view text = buffer_view(&scrub->text);
    struct hf_error why = { .status = HF_OK };
    if (info->size > row->bytes_max) {
        snprintf(fault->why, sizeof fault->why, "it has %llu bytes, too many for a %s",
                 (unsigned long long)info->size, row->name);
        error_set(&why, HF_CORRUPT, "%s", fault->why);
        return judge_text(scrub, class, key, HF_CORRUPT, &why, fault, error);
    }
    enum hf_status status = row->check ? row->check(scrub, key, text, &why)
                                       : check_form(text, view_of(row->format), &why);
    scrub->report->documents++;
    if (row->sealed && status == HF_OK) /* else it may be another program's */
        scrub_count_checksum(scrub, text, fault);
    else if (class == CLASS_SIDECAR && status == HF_OK)
        scrub->report->checked++;
    return judge_text(scrub, class, key, status, &why, fault, error);
}

/* What a document refers to is examined while its bytes are known to be right. */
static enum hf_status examine_references(struct scrub *scrub, enum scrub_class class,
                                         struct view key, struct fault *fault,
                                         struct hf_error *error)
{
    struct lease_table *table;
    if (scrub->options->documents)
        return HF_OK;
    if (class == CLASS_SIDECAR)
        return scrub_sidecar(scrub, key, fault, error);
    if (class != CLASS_TABLE || table_key_is_of_shard(key) ||
        table_decode(buffer_view(&scrub->text), env_now(scrub->env), NULL, &table, error) !=
            HF_OK)
        return HF_OK;
    enum hf_status status = scrub_states(scrub, key, buffer_view(&table->state), fault, error);
    table_free(table);
    return status;
}

/* Reads the definition of the index that a shard belongs to, unless it is known. */
static enum hf_status know_index(struct scrub *scrub, struct view key, struct fault *fault,
                                 struct hf_error *error)
{
    char definition[KEY_BYTES_MAX + 1];
    struct view rest = view_from(key, strlen(LAYOUT_INDEX_FOLDER));
    struct view name = view_cut(&rest, '/');
    struct object_info info;
    struct hf_error why;
    if (view_equal(view_of(scrub->index), name))
        return HF_OK;
    snprintf(definition, sizeof definition, LAYOUT_INDEX_FOLDER "%.*s/" LAYOUT_INDEX,
             VIEW_ARGS(name));
    snprintf(scrub->index, sizeof scrub->index, "%.*s", VIEW_ARGS(name));
    scrub->index_is_known = false;
    enum hf_status status = scrub_get(scrub, view_of(definition), INDEX_BYTES_MAX, &info, &why);
    if (status == HF_OK)
        (void)check_index_text(scrub, view_of(definition), buffer_view(&scrub->text), &why);
    return scrub_note_read(scrub, status, &why, fault, error);
}

enum hf_status scrub_examine(struct scrub *scrub, enum scrub_class class, struct view key,
                             struct fault *fault, struct hf_error *error)
{
    const struct class_row *row = &rows[class];
    struct object_info info = { .size = 0 };
    struct hf_error why;
    enum hf_status status = HF_OK;
    size_t max = row->name ? row->bytes_max : FENCE_BYTES_MAX;
    *fault = (struct fault){ .found = false };
    if (class == CLASS_SHARD || class == CLASS_SIDECAR)
        status = know_index(scrub, key, fault, error);
    if (status != HF_OK || fault->found)
        return status;
    if (class == CLASS_SHARD)
        return scrub->options->documents ? HF_OK : scrub_shard(scrub, key, fault, error);
    if (class == CLASS_DATA)
        return scrub_data(scrub, key, fault, error);
    status = scrub_get(scrub, key, max, &info, &why);
    enum hf_status noted = scrub_note_read(scrub, status, &why, fault, error);
    if (noted != HF_OK || status != HF_OK)
        return noted;
    fault->version = info.etag;
    if (class == CLASS_OBJECT)
        return scrub_fenced(scrub, key, &info, fault, error);
    status = examine_text(scrub, class, key, &info, fault, error);
    if (status == HF_OK && !fault->found)
        status = examine_references(scrub, class, key, fault, error);
    return status;
}
