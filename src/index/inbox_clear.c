/* SPDX-License-Identifier: Apache-2.0 */
/* inbox_clear.c: clears entries whose records are in the shard, and sets unreadable entries aside.
 * Another program may rewrite its entry after it has been read, and the new version must not be
 * removed. So foreign entries are cleared by ETag. */
#include "base/check.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/rule.h"
#include "file/new_file.h"
#include "index/inbox.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define ASIDE_FORMAT "holdfast.aside/1"
#define ASIDE_DIGITS 32

/* How many times an unanswered put is sent. */
#define ASIDE_TRIES_MAX 3

/* An object up to this size is copied through memory. */
#define ASIDE_MEMORY ((uint64_t)MIB)

#define ASIDE_NOTE_MAX ((size_t)64 * 1024)

/* ---- Clearing ------------------------------------------------------------------------ */

/* How an entry is cleared. Our entries are never rewritten, so the name is enough. Entries from
 * other programs may have been replaced since they were read. */
enum clearing {
    CLEAR_BY_NAME,
    CLEAR_BY_MATCH,
    CLEAR_BY_MARKER,
    CLEARING_COUNT,
};

static enum clearing clearing_of(const struct index *index, const struct cleared *cleared)
{
    if (RULE(CLEAR_BY_ETAG) && cleared->foreign)
        return index->store->traits.delete_conditional ? CLEAR_BY_MATCH : CLEAR_BY_MARKER;
    return CLEAR_BY_NAME;
}

static void count_answer(const struct hf_error *error, uint64_t *done,
                         struct clear_report *report, struct hf_error *why)
{
    if (error->status == HF_OK || error->status == HF_NOT_FOUND) {
        ++*done;
    } else if (error->status == HF_CONFLICT) {
        report->newer++;
    } else {
        report->left++;
        if (why->status == HF_OK)
            *why = *error;
    }
}

static void delete_cleared(struct index *index, const struct cleared *const *batch,
                           size_t count, bool match, struct clear_report *report,
                           struct hf_error *why)
{
    struct delete_call *calls = calloc(count, sizeof *calls);
    if (!calls) {
        report->left += count;
        error_no_memory(why);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        calls[i].key = batch[i]->object;
        if (match)
            calls[i].condition = if_match(&batch[i]->etag);
    }
    store_delete_many(index->store, calls, count);
    for (size_t i = 0; i < count; i++)
        count_answer(&calls[i].error, &report->deleted, report, why);
    free(calls);
}

/* If the store has no conditional deletes, an entry is replaced with an empty marker, on condition
 * of its ETag. The marker is never removed, because that would need a conditional delete too. */
static void mark_cleared(struct index *index, const struct cleared *const *batch, size_t count,
                         struct clear_report *report, struct hf_error *why)
{
    struct put_call *calls = calloc(count, sizeof *calls);
    if (!calls) {
        report->left += count;
        error_no_memory(why);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        calls[i] = (struct put_call){ .key = batch[i]->object, .quiet = true };
        if (RULE(MARK_BY_ETAG))
            calls[i].condition = if_match(&batch[i]->etag);
    }
    store_put_many(index->store, calls, count);
    for (size_t i = 0; i < count; i++)
        count_answer(&calls[i].error, &report->marked, report, why);
    free(calls);
}

static void clear_batch(struct index *index, enum clearing how,
                        const struct cleared *const *batch, size_t count,
                        struct clear_report *report, struct hf_error *why)
{
    if (count == 0)
        return;
    if (how == CLEAR_BY_MARKER)
        mark_cleared(index, batch, count, report, why);
    else
        delete_cleared(index, batch, count, how == CLEAR_BY_MATCH, report, why);
}

void inbox_clear(struct index *index, const struct cleared *cleared, size_t count,
                 struct clear_report *ret_report, struct hf_error *why)
{
    const struct cleared *batch[BATCH_MAX];
    struct clear_report report = { 0 };
    error_clear(why);
    for (enum clearing how = 0; how < CLEARING_COUNT; how++) {
        size_t filled = 0;
        for (size_t i = 0; i < count; i++) {
            if (clearing_of(index, &cleared[i]) != how)
                continue;
            batch[filled++] = &cleared[i];
            if (filled == BATCH_MAX) {
                clear_batch(index, how, batch, filled, &report, why);
                filled = 0;
            }
        }
        clear_batch(index, how, batch, filled, &report, why);
    }
    *ret_report = report;
}

/* ---- Setting aside ------------------------------------------------------------------- */

/* One version of an entry that is being set aside. */
struct removal {
    struct index *index;
    const struct entry *entry;
    const struct etag *etag;
    char id[ASIDE_DIGITS + 1];
    uint64_t size; /* of the copy */
};

/* The id of the copy is derived from the entry's name and ETag. So if the entry is set aside twice,
 * for example after a crash, the same object is written again. */
static bool name_copy(struct removal *removal)
{
    unsigned char digest[32];
    struct buffer text = BUFFER_INIT(KEY_BYTES_MAX + 1 + ETAG_BYTES_MAX);
    buffer_append(&text, removal->entry->object);
    buffer_append_byte(&text, '\0');
    bool ok = buffer_append(&text, etag_view(removal->etag));
    if (ok) {
        hash_sha256(buffer_view(&text), digest);
        hex_encode(digest, ASIDE_DIGITS / 2, removal->id);
    }
    buffer_release(&text);
    return ok;
}

/* Puts an object whose contents are always the same, so an existing one is as good. `fd` < 0: the
 * body is in the call. A put may also be refused because another put is in progress, so after a
 * refusal the client checks whether the object exists. Otherwise the entry could be cleared without
 * a copy. */
static enum hf_status put_aside(struct index *index, struct put_call *put, int fd,
                                struct hf_error *error)
{
    enum hf_status status = HF_UNSURE;
    bool there = false;
    if (fd < 0 || index->store->traits.put_file_conditional)
        put->condition = if_absent();
    for (int tries = 0; status == HF_UNSURE && tries < ASIDE_TRIES_MAX; tries++) {
        /* This process may have been suspended since its last look (rule 14). */
        if (index_check_mark(index, &put->error) != HF_OK) {
            status = tries > 0 ? HF_UNSURE : put->error.status;
            put->error.status = status;
            break;
        }
        status = fd < 0 ? store_put(index->store, put)
                        : store_put_file(index->store, put, fd, /* progress */ NULL);
        if (status != HF_CONFLICT)
            continue;
        status = index_has(index, put->key, &there, &put->error);
        if (status == HF_OK && !there)
            status = error_set(
                &put->error, HF_UNSURE,
                "the store refused the write although no object with this name exists");
    }
    *error = put->error;
    if (status != HF_OK)
        error_prefix(error, "%.*s", VIEW_ARGS(put->key));
    return status;
}

static enum hf_status name_get_error(const struct get_call *get, struct hf_error *error)
{
    *error = get->error;
    error_prefix(error, "%.*s", VIEW_ARGS(view_first(get->key, ERROR_PATH_MAX)));
    return error->status;
}

/* INVALID: the entry is larger than the memory for copies. */
static enum hf_status copy_in_memory(struct removal *removal, struct put_call *put,
                                     struct hf_error *error)
{
    struct buffer bytes = BUFFER_INIT(ASIDE_MEMORY);
    struct get_call get = { .key = removal->entry->object,
                            .match = *removal->etag,
                            .body = &bytes };
    enum hf_status status = store_get(removal->index->store, &get);
    if (status == HF_OK) {
        put->body = buffer_view(&bytes);
        removal->size = bytes.size;
        status = put_aside(removal->index, put, /* fd */ -1, error);
        put->body = VIEW("");
    } else {
        name_get_error(&get, error);
    }
    buffer_release(&bytes);
    return status;
}

static enum hf_status copy_by_file(struct removal *removal, struct put_call *put,
                                   struct hf_error *error)
{
    int fd;
    enum hf_status status = temporary_file(&fd, error);
    if (status != HF_OK)
        return status;
    struct get_call get = { .key = removal->entry->object, .match = *removal->etag };
    status = store_get_file(removal->index->store, &get, fd, /* progress */ NULL);
    if (status == HF_OK) {
        removal->size = get.info.size;
        status = put_aside(removal->index, put, fd, error);
    } else {
        name_get_error(&get, error);
    }
    close(fd);
    return status;
}

static enum hf_status keep_copy(struct removal *removal, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    check(index_key(removal->index, key, LAYOUT_ASIDE_FOLDER "%s.usv", removal->id));
    struct put_call put = { .key = view_of(key), .quiet = true };
    enum hf_status status = HF_INVALID;
    if (removal->entry->size <= ASIDE_MEMORY)
        status = copy_in_memory(removal, &put, error);
    return status == HF_INVALID ? copy_by_file(removal, &put, error) : status;
}

static enum hf_status keep_note(const struct removal *removal, const char *reason,
                                struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(ASIDE_NOTE_MAX);
    check(index_key(removal->index, key, LAYOUT_ASIDE_FOLDER "%s.json", removal->id));
    struct put_call put = { .key = view_of(key), .quiet = true };
    enum hf_status status = HF_OK;
    char at[TIME_TEXT_MAX];
    buffer_append(&text, VIEW("{\"format\":\"" ASIDE_FORMAT "\",\"entry\":"));
    json_write_string(&text, removal->entry->object);
    buffer_append(&text, VIEW(",\"etag\":"));
    json_write_string(&text, etag_view(removal->etag));
    buffer_append(&text, VIEW(",\"size\":"));
    buffer_append_u64(&text, removal->size);
    buffer_append(&text, VIEW(",\"reason\":"));
    json_write_string(&text, view_of(reason));
    if (buffer_print(&text, ",\"set_aside_at\":\"%s\"}\n",
                     time_text(env_wall(removal->index->env), at))) {
        put.body = buffer_view(&text);
        status = put_aside(removal->index, &put, /* fd */ -1, error);
    } else {
        status = error_no_memory(error);
    }
    buffer_release(&text);
    return status;
}

enum hf_status inbox_set_aside(struct index *index, const struct entry *entry,
                               const struct etag *etag, const char *reason,
                               struct hf_error *error)
{
    struct removal removal = { .index = index, .entry = entry, .etag = etag };
    if (!name_copy(&removal))
        return error_no_memory(error);
    enum hf_status status = keep_copy(&removal, error);
    return status == HF_OK ? keep_note(&removal, reason, error) : status;
}
