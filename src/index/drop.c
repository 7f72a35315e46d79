/* SPDX-License-Identifier: Apache-2.0 */
/* drop.c: marks an index as dropped, deletes its objects, and in the end index.json. The mark must
 * be the last object to go: without it, an entry that arrives late would join a new index of the
 * same name. And no delete may hit an object of such a new index. */
#include "index/drop.h"

#include "base/check.h"
#include "base/rule.h"
#include "store/pages.h"

#include <stdlib.h>

struct dropping {
    struct index *index;
    const struct drop_options *options;
    struct hf_index_drop_report *report;
    struct drop_mark mark;
    size_t root;   /* the length of indexes/<name>/ */
    uint64_t left; /* objects that were replaced before they could be deleted */
};

/* The deletes of one page of the listing. */
struct deletes {
    struct delete_call *calls;
    size_t count;
    bool by_name; /* an object of a new index could have one of these names */
};

/* Whether a new index could have an object of this name. The name of an entry of ours has a
 * nonce. */
static bool is_name_reused(const struct dropping *dropping, struct view object)
{
    struct buffer key = BUFFER_INIT(KEY_BYTES_MAX);
    struct view rest = view_from(object, dropping->root);
    unsigned digits = dropping->index->schema.digits;
    bool reused = entry_read(rest, digits > 0 ? digits : 1, &key).kind != ENTRY_OURS;
    buffer_release(&key);
    return reused;
}

static void plan_deletes(struct dropping *dropping, const struct list_call *page,
                         struct deletes *deletes)
{
    const bool conditional = dropping->index->store->traits.delete_conditional;
    for (size_t i = 0; i < page->count; i++) {
        const struct list_entry *object = &page->entries[i];
        if (object->is_prefix ||
            view_equal(view_from(object->key, dropping->root), VIEW(LAYOUT_INDEX)))
            continue;
        dropping->report->objects++;
        dropping->report->bytes += object->info.size;
        struct delete_call *call = &deletes->calls[deletes->count++];
        call->key = object->key;
        if (conditional)
            call->condition = if_match(&object->info.etag);
        else
            deletes->by_name = deletes->by_name || is_name_reused(dropping, object->key);
    }
}

/* What was listed while the mark was there belongs to the index that is dropped. By its ETag, only
 * that is deleted, however late. A delete by name may hit an object of a new index instead, so the
 * mark must stay until such a delete can no longer arrive: the wait begins anew before it is
 * sent. */
static enum hf_status may_delete(struct dropping *dropping, const struct deletes *deletes,
                                 struct hf_error *error)
{
    struct drop_mark *mark = &dropping->mark;
    struct span age = mono_since(env_now(dropping->index->env), mark->at);
    if (deletes->by_name && (!mark->stamped || age.us >= INDEX_TRUST.us))
        return index_mark(dropping->index, MARK_AGAIN, mark, error);
    if (RULE(DROPS_CHECK_THE_MARK) && mark->marked)
        return index_check_marked(dropping->index, mark, error);
    return HF_OK;
}

static enum hf_status send_deletes(struct dropping *dropping, const struct deletes *deletes,
                                   struct hf_error *error)
{
    enum hf_status status = HF_OK;
    store_delete_many(dropping->index->store, deletes->calls, deletes->count);
    for (size_t i = 0; i < deletes->count; i++) {
        const struct hf_error *answer = &deletes->calls[i].error;
        dropping->report->deleted += answer->status == HF_OK;
        dropping->left += answer->status == HF_CONFLICT;
        if (answer->status != HF_OK && answer->status != HF_NOT_FOUND &&
            answer->status != HF_CONFLICT && status == HF_OK) {
            status = answer->status;
            *error = *answer;
        }
    }
    return status;
}

static enum hf_status delete_page(struct dropping *dropping, const struct list_call *page,
                                  struct hf_error *error)
{
    struct deletes deletes = { .calls = calloc(page->count + 1, sizeof *deletes.calls) };
    enum hf_status status = HF_OK;
    if (!deletes.calls)
        return error_no_memory(error);
    plan_deletes(dropping, page, &deletes);
    if (deletes.count > 0 && !dropping->options->dry_run) {
        status = may_delete(dropping, &deletes, error);
        if (status == HF_OK)
            status = send_deletes(dropping, &deletes, error);
    }
    free(deletes.calls);
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
 * stays, because another client may have created the index anew by now. It then says that nothing
 * is left, and a new index replaces it. */
static enum hf_status delete_mark(struct dropping *dropping, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct index *index = dropping->index;
    enum hf_status status;
    if (index->store->traits.delete_conditional) {
        check(index_key(index, key, LAYOUT_INDEX));
        struct delete_call call = { .key = view_of(key),
                                    .condition = if_match(&dropping->mark.etag) };
        status = store_delete(index->store, &call);
        *error = call.error;
    } else {
        status = index_mark(index, MARK_EMPTIED, &dropping->mark, error);
    }
    if (status == HF_NOT_FOUND || status == HF_CONFLICT) /* another client was faster */
        status = HF_OK;
    dropping->report->gone = status == HF_OK;
    return status;
}

enum hf_status index_drop(struct hf_client *client, struct view name,
                          const struct drop_options *options,
                          struct hf_index_drop_report *ret_report, struct hf_error *error)
{
    struct dropping dropping = { .options = options, .report = ret_report };
    *ret_report = HF_INDEX_DROP_REPORT;
    client_active(client);
    enum hf_status status = index_open_to_drop(client, name, &dropping.index, error);
    if (status != HF_OK)
        return status;
    status = index_mark(dropping.index, options->dry_run ? MARK_LOOK : MARK_DROPPED,
                        &dropping.mark, error);
    if (status == HF_OK) {
        ret_report->marked = dropping.mark.marked;
        status = delete_all_objects(&dropping, error);
    }
    const struct span wait = dropping.mark.wait;
    ret_report->wait_ms = wait.us > 0 ? (wait.us + 999) / 1000 : 0;
    if (status == HF_OK && !options->dry_run && wait.us == 0 && dropping.left == 0)
        status = delete_mark(&dropping, error);
    index_close(dropping.index);
    return status;
}
