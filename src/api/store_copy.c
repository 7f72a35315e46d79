/* SPDX-License-Identifier: Apache-2.0 */
/* store_copy.c: copies objects from one store to another, or within one store.
 *
 * Each object passes through an unnamed temporary file. It is read from the source, checksummed,
 * put, read back from the target with the ETag of that put, and checksummed again. If the target
 * already has the same bytes, it is not written. A copy can therefore be restarted: its only state
 * is the two stores. */
#include "api/store.h"

#include "base/hash.h"
#include "base/layout.h"
#include "file/new_file.h"
#include "lock/placement.h"
#include "store/bucket.h"
#include "store/pages.h"
#include "store/stream.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define PASSES 3 /* read, write, read back */

struct checksum {
    uint32_t crc;
    uint64_t size;
};

struct copying {
    struct store *from;
    struct store *to; /* may equal `from` */
    struct view source;
    struct view target;
    bool many; /* all objects whose keys start with `source` */
    struct hf_store_copy_options options;
    struct progress progress;
    int spool;       /* bytes read from the source */
    int back_spool;  /* bytes read from the target */
    uint64_t total;  /* bytes of all objects; 0: unknown */
    uint64_t before; /* bytes of all objects before this one */
    uint64_t size;   /* bytes of this object ... */
    unsigned pass;   /* ... which is transferred PASSES times; this is the current pass */
    bool stopped;    /* the caller stopped the copy */
    struct hf_store_copy_report report;
    struct hf_error *error;
};

/* ---- One object ---------------------------------------------------------------------- */

/* Reports the progress of one pass as a fraction of the whole, if the total is known. */
static bool report_copy_progress(void *argument, uint64_t done, uint64_t total)
{
    struct copying *copying = argument;
    struct hf_progress progress = { .struct_size = sizeof progress,
                                    .done_bytes = done,
                                    .total_bytes = total };
    if (!copying->options.progress)
        return true;
    if (copying->total > 0) {
        progress.done_bytes = copying->before + (copying->pass * copying->size + done) / PASSES;
        progress.total_bytes = copying->total;
    }
    return copying->options.progress(copying->options.progress_argument, &progress);
}

static enum hf_status checksum_file(int fd, struct checksum *ret_sum, struct hf_error *error)
{
    char *piece = malloc(STREAM_PIECE);
    if (!piece)
        return error_no_memory(error);
    struct checksum sum = { 0 };
    size_t got = 0;
    enum hf_status status;
    do {
        status = file_read_at(fd, piece, STREAM_PIECE, sum.size, &got, error);
        if (status == HF_OK)
            sum.crc = crc32c(sum.crc, (struct view){ piece, got });
        sum.size += got;
    } while (status == HF_OK && got > 0);
    free(piece);
    *ret_sum = sum;
    return status;
}

/* Streams an object into a spool file. With an ETag, only that version is accepted. */
static enum hf_status spool_object(struct copying *copying, struct store *store,
                                   struct view key, const struct etag *etag, int spool,
                                   struct checksum *ret_sum)
{
    struct get_call get = { .key = key };
    if (etag)
        get.match = *etag;
    enum hf_status status = file_set_size(spool, 0, copying->error);
    if (status != HF_OK)
        return status;
    status = store_get_file(store, &get, spool, &copying->progress);
    if (status == HF_OK)
        return checksum_file(spool, ret_sum, copying->error);
    *copying->error = get.error;
    return status;
}

static bool sums_equal(struct checksum a, struct checksum b)
{
    return a.crc == b.crc && a.size == b.size;
}

static enum hf_status write_and_verify(struct copying *copying, struct view key,
                                       struct checksum sum)
{
    struct put_call put = { .key = key };
    struct checksum back = { 0 };
    if (copying->options.if_absent || (key_is_own(key) && !copying->options.force))
        put.condition = if_absent();
    copying->pass = 1;
    if (store_put_file(copying->to, &put, copying->spool, &copying->progress) != HF_OK) {
        *copying->error = put.error;
        return put.error.status;
    }
    copying->pass = 2;
    enum hf_status status =
        spool_object(copying, copying->to, key, &put.etag, copying->back_spool, &back);
    if (status == HF_NOT_FOUND)
        status = error_set(copying->error, HF_CORRUPT,
                           "the copy was written but cannot be read back: it is gone");
    if (status == HF_OK && !sums_equal(sum, back))
        status = error_set(copying->error, HF_CORRUPT,
                           "the copy reads back as %" PRIu64 " bytes with CRC32C %08" PRIx32
                           ", not %" PRIu64 " with %08" PRIx32,
                           back.size, back.crc, sum.size, sum.crc);
    return status;
}

/* Counts the object and reports it to the caller. */
static void report_copied(struct copying *copying, struct view from, struct view to,
                          struct checksum sum, bool written)
{
    char source[KEY_BYTES_MAX + 1], target[KEY_BYTES_MAX + 1];
    copying->report.equal += !written;
    copying->report.copied += written;
    copying->report.copied_bytes += written ? sum.size : 0;
    if (!copying->options.each)
        return;
    memcpy(source, from.data, from.size);
    source[from.size] = '\0';
    memcpy(target, to.data, to.size);
    target[to.size] = '\0';
    const struct hf_store_copied copied = {
        .struct_size = sizeof copied,
        .source = source,
        .source_size = from.size,
        .target = target,
        .target_size = to.size,
        .size = sum.size,
        .crc32c = sum.crc,
        .copied = written,
    };
    copying->stopped = !copying->options.each(copying->options.each_argument, &copied);
}

/* `there` is the object that the target store already has under that key, or NULL. Only an object
 * that is missing in the source counts as vanished; NOT_FOUND from the target is a failure. */
static enum hf_status copy_object(struct copying *copying, struct view from, struct view to,
                                  const struct object_info *there)
{
    struct checksum sum, old = { 0 };
    copying->pass = 0;
    enum hf_status status =
        spool_object(copying, copying->from, from, /* etag */ NULL, copying->spool, &sum);
    if (status == HF_NOT_FOUND && copying->many) {
        copying->report.vanished++;
        return HF_OK;
    }
    bool equal = false;
    if (status == HF_OK && there && there->size == sum.size) {
        copying->pass = 1;
        status =
            spool_object(copying, copying->to, to, &there->etag, copying->back_spool, &old);
        equal = status == HF_OK && sums_equal(sum, old);
        if (status == HF_NOT_FOUND || status == HF_CONFLICT)
            status = HF_OK; /* the object changed since it was listed: write it */
    }
    if (status == HF_OK && !equal && there)
        status = check_not_own(to, copying->options.force, copying->error);
    if (status == HF_OK && !equal)
        status = write_and_verify(copying, to, sum);
    if (status == HF_OK)
        report_copied(copying, from, to, sum, !equal);
    return status;
}

/* ---- Existing copies ----------------------------------------------------------------- */

static void prefix_key(struct copying *copying, struct view key)
{
    error_prefix(copying->error, "%.*s", VIEW_ARGS(view_first(key, 100)));
}

/* Reads one byte of each object. This is the cheapest call that returns size and ETag, and many
 * such calls run concurrently. Sets the result of each calls[i]; a missing object is not a
 * failure. */
static enum hf_status read_targets(struct copying *copying, struct get_call *calls,
                                   size_t count)
{
    store_get_many(copying->to, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        if (status != HF_OK && status != HF_NOT_FOUND) {
            *copying->error = calls[i].error;
            if (count > 1)
                prefix_key(copying, calls[i].key);
            return status;
        }
    }
    return HF_OK;
}

static const struct object_info *found(const struct get_call *call)
{
    return call->error.status == HF_OK ? &call->info : NULL;
}

static enum hf_status copy_single(struct copying *copying)
{
    struct buffer byte = BUFFER_INIT(1);
    struct get_call call = { .key = copying->target, .length = 1, .body = &byte };
    enum hf_status status = read_targets(copying, &call, 1);
    if (status == HF_OK)
        status = copy_object(copying, copying->source, copying->target, found(&call));
    buffer_release(&byte);
    return status;
}

/* ---- Many objects -------------------------------------------------------------------- */

/* A page of the source listing, with one get call for the copy of each entry. */
struct copied_page {
    struct list_call *list;
    struct get_call *calls;
    struct buffer *bodies;
};

/* Computes the new key of each entry: the target prefix, followed by the part of the key after the
 * source prefix. */
static enum hf_status fill_calls(struct copying *copying, struct copied_page *page)
{
    for (size_t i = 0; i < page->list->count; i++) {
        struct view rest = view_from(page->list->entries[i].key, copying->source.size);
        size_t size = copying->target.size + rest.size;
        page->bodies[i] = BUFFER_INIT(1);
        if (size > KEY_BYTES_MAX) {
            error_set(copying->error, HF_INVALID,
                      "its new key would have %zu bytes, more than the limit of %d", size,
                      KEY_BYTES_MAX);
            prefix_key(copying, page->list->entries[i].key);
            return HF_INVALID;
        }
        char *key = arena_take(&page->list->arena, size + 1);
        if (!key)
            return error_no_memory(copying->error);
        memcpy(key, copying->target.data, copying->target.size);
        memcpy(key + copying->target.size, rest.data, rest.size);
        page->calls[i] = (struct get_call){
            .key = { key, size },
            .length = 1,
            .body = &page->bodies[i],
        };
    }
    return HF_OK;
}

/* The target must be probed separately, so the source's probe verdict is not copied. The placement
 * of a namespace is recorded anew, and so is the feature of buckets with adopted objects, before
 * anything uses it. */
static enum hf_status copy_entry(struct copying *copying, const struct list_entry *entry,
                                 const struct get_call *target)
{
    if (view_equal(target->key, VIEW(LAYOUT_BUCKET_KEY)))
        return HF_OK;
    copying->pass = 0;
    copying->size = entry->info.size;
    if (!progress_step(&copying->progress, 0, entry->info.size, copying->error))
        return copying->error->status;
    enum hf_status status = HF_OK;
    if (view_equal(target->key, VIEW(LAYOUT_ADOPTED_KEY)))
        status = bucket_use_feature(copying->to, BUCKET_ADOPTED_OBJECTS, copying->error);
    if (status == HF_OK)
        status = copy_object(copying, entry->key, target->key, found(target));
    if (status == HF_OK)
        status = placement_record_copied(copying->to, target->key, copying->error);
    copying->before += entry->info.size;
    if (status != HF_OK)
        prefix_key(copying, entry->key);
    return status;
}

static enum hf_status copy_page(struct copying *copying, struct copied_page *page)
{
    memset(page->bodies, 0, LIST_PAGE_MAX * sizeof *page->bodies);
    enum hf_status status = fill_calls(copying, page);
    if (status == HF_OK)
        status = read_targets(copying, page->calls, page->list->count);
    for (size_t i = 0; i < page->list->count; i++) {
        if (status != HF_OK || copying->stopped)
            break;
        status = copy_entry(copying, &page->list->entries[i], &page->calls[i]);
    }
    for (size_t i = 0; i < page->list->count; i++)
        buffer_release(&page->bodies[i]);
    return status;
}

static enum hf_status count_page(struct copying *copying, struct copied_page *page)
{
    uint64_t total = copying->total;
    for (size_t i = 0; i < page->list->count; i++)
        total += page->list->entries[i].info.size;
    copying->total = 0; /* unknown until the last page has been counted */
    bool go_on = progress_step(&copying->progress, 0, 0, copying->error);
    copying->total = total;
    return go_on ? HF_OK : copying->error->status;
}

/* Calls `visit` for each page of the source listing. */
static enum hf_status each_page(struct copying *copying, struct copied_page *page,
                                enum hf_status (*visit)(struct copying *, struct copied_page *))
{
    struct pages pages = { .list = { .prefix = copying->source, .after = VIEW("") } };
    enum hf_status status = HF_OK;
    page->list = &pages.list;
    while (status == HF_OK && !copying->stopped && pages_next(&pages, copying->from))
        status = visit(copying, page);
    return pages_end(&pages, status, copying->error);
}

static enum hf_status copy_many(struct copying *copying)
{
    struct copied_page page = {
        .calls = calloc(LIST_PAGE_MAX, sizeof *page.calls),
        .bodies = calloc(LIST_PAGE_MAX, sizeof *page.bodies),
    };
    enum hf_status status = HF_OK;
    if (!page.calls || !page.bodies)
        status = error_no_memory(copying->error);
    if (status == HF_OK && copying->options.count_first)
        status = each_page(copying, &page, count_page);
    if (status == HF_OK)
        status = each_page(copying, &page, copy_page);
    free(page.calls);
    free(page.bodies);
    return status;
}

/* ---- The calls ----------------------------------------------------------------------- */

static enum hf_status copy_with_spools(struct copying *copying)
{
    enum hf_status status = temporary_file(&copying->spool, copying->error);
    if (status != HF_OK)
        return status;
    status = temporary_file(&copying->back_spool, copying->error);
    if (status == HF_OK) {
        status = copying->many ? copy_many(copying) : copy_single(copying);
        close(copying->back_spool);
    }
    close(copying->spool);
    return status;
}

static enum hf_status check_names(const struct copying *copying, struct hf_error *error)
{
    bool same = copying->from == copying->to;
    if (same && view_equal(copying->source, copying->target))
        return error_set(error, HF_INVALID, "source and target are the same");
    if (same && copying->many && view_starts_with(copying->target, copying->source))
        return error_set(error, HF_INVALID,
                         "target starts with source, so the copies would be copied again");
    return copying->many ? HF_OK
                         : check_written_key(copying->target, copying->options.force, error);
}

/* What a call copies, as the caller specified it. */
struct copy_request {
    struct hf_store *from;
    const char *source;
    struct hf_store *to;
    const char *target;
    bool many;
};

static enum hf_status run_copy_request(const struct copy_request *request,
                                       const struct hf_store_copy_options *options,
                                       struct hf_store_copy_report *ret_report,
                                       struct hf_error *error)
{
    struct hf_store *from = request->from, *to = request->to;
    const char *source = request->source, *target = request->target;
    struct hf_error why;
    struct copying copying = { .many = request->many,
                               .options = HF_STORE_COPY_OPTIONS,
                               .report = HF_STORE_COPY_REPORT,
                               .error = &why };
    if (ERROR_IF_NULL(&why, from, source, to, target) != HF_OK ||
        READ_OPTIONS(HF_STORE_COPY_OPTIONS, options, &copying.options, &why) != HF_OK ||
        CHECK_REPORT(HF_STORE_COPY_REPORT, ret_report, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    copying.from = from->store;
    copying.to = to->store;
    copying.source = caller_view(source, copying.options.source_size);
    copying.target = caller_view(target, copying.options.target_size);
    copying.progress = (struct progress){ report_copy_progress, &copying };
    enum hf_status status = check_names(&copying, &why);
    if (status == HF_OK)
        status = copy_with_spools(&copying);
    if (status == HF_OK)
        write_caller_report(ret_report, &copying.report, sizeof copying.report);
    return error_tell(error, status, &why);
}

enum hf_status hf_store_copy(struct hf_store *from, const char *source, struct hf_store *to,
                             const char *target, const struct hf_store_copy_options *options,
                             struct hf_store_copy_report *ret_report, struct hf_error *error)
{
    const struct copy_request request = { from, source, to, target, .many = false };
    return run_copy_request(&request, options, ret_report, error);
}

enum hf_status hf_store_copy_all(struct hf_store *from, const char *source, struct hf_store *to,
                                 const char *target,
                                 const struct hf_store_copy_options *options,
                                 struct hf_store_copy_report *ret_report,
                                 struct hf_error *error)
{
    const struct copy_request request = { from, source, to, target, .many = true };
    return run_copy_request(&request, options, ret_report, error);
}
