/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c: marks an index as dropped, deletes its objects, and in the end index.json. The mark must
 * be the last object to go: without it, an entry that arrives late would join a new index of the
 * same name. */
#include "index/drop.h"

#include "base/check.h"
#include "store/pages.h"

#include <stdlib.h>

struct dropping {
    struct index *index;
    const struct drop_options *options;
    struct hf_index_drop_report *report;
    size_t root; /* the length of indexes/<name>/ */
};

static enum hf_status delete_page(struct dropping *dropping, const struct list_call *page,
                                  struct hf_error *error)
{
    struct delete_call *calls = calloc(page->count + 1, sizeof *calls);
    size_t count = 0;
    if (!calls)
        return error_no_memory(error);
    for (size_t i = 0; i < page->count; i++) {
        const struct list_entry *object = &page->entries[i];
        if (object->is_prefix ||
            view_equal(view_from(object->key, dropping->root), VIEW(LAYOUT_INDEX)))
            continue;
        dropping->report->objects++;
        dropping->report->bytes += object->info.size;
        calls[count++].key = object->key;
    }
    enum hf_status status = HF_OK;
    if (dropping->options->dry_run)
        count = 0;
    if (count > 0)
        store_delete_many(dropping->index->store, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status answer = calls[i].error.status;
        dropping->report->deleted += answer == HF_OK;
        if (answer != HF_OK && answer != HF_NOT_FOUND && status == HF_OK) {
            status = answer;
            *error = calls[i].error;
        }
    }
    free(calls);
    return status;
}

/* Deletes, or counts, everything except index.json. */
static enum hf_status delete_all_objects(struct dropping *dropping, struct hf_error *error)
{
    char root[KEY_BYTES_MAX + 1];
    const struct drop_options *options = dropping->options;
    enum hf_status status = HF_OK;
    check(index_key(dropping->index, root, "%s", ""));
    dropping->root = strlen(root);
    struct pages pages = { .list = { .prefix = view_of(root), .max = BATCH_MAX } };
    while (status == HF_OK && pages_next(&pages, dropping->index->store)) {
        status = delete_page(dropping, &pages.list, error);
        if (status == HF_OK && options->progress && !options->progress(options->argument))
            status = error_set(error, HF_CANCELLED, "stopped by the caller");
    }
    return pages_end(&pages, status, error);
}

/* Deletes index.json in the version that has the mark. If the store has no conditional deletes, it
 * stays: another client may have created the index anew by now. A new index replaces it. */
static enum hf_status delete_mark(struct dropping *dropping, const struct etag *etag,
                                  struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct store *store = dropping->index->store;
    dropping->report->gone = true;
    if (!store->traits.delete_conditional)
        return HF_OK;
    check(index_key(dropping->index, key, LAYOUT_INDEX));
    struct delete_call call = { .key = view_of(key), .condition = if_match(etag) };
    enum hf_status status = store_delete(store, &call);
    if (status == HF_OK || status == HF_NOT_FOUND || status == HF_CONFLICT)
        return HF_OK;
    dropping->report->gone = false;
    *error = call.error;
    return status;
}

enum hf_status index_drop(struct hf_client *client, struct view name,
                          const struct drop_options *options,
                          struct hf_index_drop_report *ret_report, struct hf_error *error)
{
    struct dropping dropping = { .options = options, .report = ret_report };
    struct drop_mark mark;
    *ret_report = HF_INDEX_DROP_REPORT;
    client_active(client);
    enum hf_status status =
        index_mark_dropped(client, name, options->dry_run, &dropping.index, &mark, error);
    if (status != HF_OK)
        return status;
    ret_report->marked = mark.marked;
    ret_report->wait_ms = mark.wait.us > 0 ? (mark.wait.us + 999) / 1000 : 0;
    status = delete_all_objects(&dropping, error);
    if (status == HF_OK && !options->dry_run && mark.wait.us == 0)
        status = delete_mark(&dropping, &mark.etag, error);
    index_close(dropping.index);
    return status;
}
