/* SPDX-License-Identifier: Apache-2.0 */
/* store.c: the public calls on the objects in a store: URLs, single objects, batch deletes and
 * listings. They refuse to overwrite Holdfast's own objects unless the caller sets `force`. */
#include "api/store.h"

#include "base/layout.h"
#include "lock/tables.h"
#include "store/pages.h"
#include "store/stream.h"

#include <stdlib.h>

static_assert(HF_KEY_BYTES_MAX == KEY_BYTES_MAX && HF_ETAG_MAX == ETAG_BYTES_MAX + 1 &&
                  HF_STORE_URL_MAX == URL_BYTES_MAX + 1,
              "the public limits are ours");

/* ---- URLs ---------------------------------------------------------------------------- */

bool hf_store_is_url(const char *text)
{
    return text && store_is_url(view_of(text));
}

enum hf_status hf_store_url_absolute(const char *url, char ret_url[HF_STORE_URL_MAX],
                                     struct hf_error *error)
{
    struct hf_error why;
    struct buffer text = BUFFER_INIT(URL_BYTES_MAX);
    if (ERROR_IF_NULL(error, url, ret_url) != HF_OK)
        return HF_INVALID;
    enum hf_status status = HF_OK;
    if (!buffer_reserve(&text, URL_BYTES_MAX)) /* room for any valid URL */
        status = error_no_memory(&why);
    if (status == HF_OK)
        status = store_url_absolute(view_of(url), &text, &why);
    if (status == HF_OK) {
        memcpy(ret_url, buffer_view(&text).data, text.size);
        ret_url[text.size] = '\0';
    }
    buffer_release(&text);
    return error_tell(error, status, &why);
}

enum hf_status hf_store_check_present(const char *url, struct hf_error *error)
{
    struct hf_error why;
    if (ERROR_IF_NULL(error, url) != HF_OK)
        return HF_INVALID;
    enum hf_status status = store_check_present(view_of(url), &why);
    return error_tell(error, status, &why);
}

enum hf_status hf_store_url_split(const char *url, char ret_store[HF_STORE_URL_MAX],
                                  const char **ret_key, struct hf_error *error)
{
    if (ERROR_IF_NULL(error, url, ret_store, ret_key) != HF_OK)
        return HF_INVALID;
    struct view text = view_of(url);
    struct view shown = view_first(text, 80);
    size_t end = view_find(text, '#');
    size_t key_size = end < text.size ? text.size - end - 1 : 0;
    if (!store_is_url(text))
        return error_set(error, HF_INVALID, "'%.*s' is not the URL of an object",
                         VIEW_ARGS(shown));
    if (end == text.size)
        return error_set(error, HF_INVALID,
                         "'%.*s' names a store, not an object in it: append '#' and the key",
                         VIEW_ARGS(shown));
    if (end > URL_BYTES_MAX)
        return error_set(error, HF_INVALID, "a store URL can have at most %d bytes",
                         URL_BYTES_MAX);
    if (key_size < 1 || key_size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID,
                         "the key after '#' in '%.*s' must be 1 to %d bytes long, not %zu",
                         VIEW_ARGS(shown), KEY_BYTES_MAX, key_size);
    memcpy(ret_store, text.data, end);
    ret_store[end] = '\0';
    *ret_key = url + end + 1;
    return error_clear(error);
}

/* ---- Parts of a call ----------------------------------------------------------------- */

/* The deadline for a timeout. For a timeout of 0 the deadline is zero, which means the store's
 * default timeout. */
static enum hf_status timeout_deadline(struct hf_store *store, int64_t timeout_ms,
                                       struct mono_time *ret_deadline, struct hf_error *error)
{
    *ret_deadline = (struct mono_time){ 0 };
    if (timeout_ms < 0 || timeout_ms > INT64_C(366) * 24 * 3600 * 1000)
        return error_set(error, HF_INVALID, "timeout_ms must be between 0 and one year");
    if (timeout_ms > 0)
        *ret_deadline = mono_add(env_now(store->store->env), SPAN_MS(timeout_ms));
    return HF_OK;
}

/* The caller's progress function, for the layers below. */
struct caller_progress {
    hf_progress_fn *step; /* or NULL */
    void *argument;
};

static bool report_transfer(void *argument, uint64_t done, uint64_t total)
{
    const struct caller_progress *caller = argument;
    const struct hf_progress progress = { .struct_size = sizeof progress,
                                          .done_bytes = done,
                                          .total_bytes = total };
    return !caller->step || caller->step(caller->argument, &progress);
}

bool key_is_own(struct view key)
{
    return layout_is_own(key) || table_key_is_ours(key);
}

enum hf_status check_not_own(struct view key, bool force, struct hf_error *error)
{
    if (force || !key_is_own(key))
        return HF_OK;
    return error_set(error, HF_INVALID,
                     "'%.*s' is an internal object of Holdfast; changing it by hand can break "
                     "locks and lose data; set force to do it anyway",
                     VIEW_ARGS(view_first(key, 60)));
}

enum hf_status check_written_key(struct view key, bool force, struct hf_error *error)
{
    if (key.size < 1 || key.size > KEY_BYTES_MAX)
        return error_set(error, HF_INVALID, "a key must be 1 to %d bytes long, not %zu",
                         KEY_BYTES_MAX, key.size);
    return check_not_own(key, force, error);
}

enum hf_status hf_store_check_key(const char *key, size_t key_size, bool force,
                                  struct hf_error *error)
{
    if (ERROR_IF_NULL(error, key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = check_written_key(caller_view(key, key_size), force, error);
    return status == HF_OK ? error_clear(error) : status;
}

/* Reads an ETag option, which may be NULL. */
static enum hf_status read_etag(const char *text, struct etag *etag, struct hf_error *error)
{
    if (text && !etag_set(etag, view_of(text)))
        return error_set(error, HF_INVALID, "an ETag must be 1 to %d bytes long",
                         ETAG_BYTES_MAX);
    return HF_OK;
}

static void write_info(struct hf_object_info *report, const struct etag *etag, uint64_t size,
                       int64_t modified_ms)
{
    struct hf_object_info info = HF_OBJECT_INFO;
    etag_to_text(etag, info.etag);
    info.size = size;
    info.modified_ms = modified_ms;
    write_caller_report(report, &info, sizeof info);
}

static int64_t wall_ms(struct wall_time time)
{
    return time.us / 1000 - (time.us % 1000 < 0);
}

/* ---- get ----------------------------------------------------------------------------- */

/* Fills in the call, and checks the caller's options and report. */
static enum hf_status prepare_get(struct hf_store *store, const char *key,
                                  const struct hf_store_get_options *given,
                                  struct hf_store_get_options *used, struct get_call *get,
                                  const struct hf_object_info *report)
{
    struct hf_error *error = &get->error;
    *used = HF_STORE_GET_OPTIONS;
    if (READ_OPTIONS(HF_STORE_GET_OPTIONS, given, used, error) != HF_OK ||
        CHECK_REPORT(HF_OBJECT_INFO, report, error) != HF_OK ||
        read_etag(used->if_match, &get->match, error) != HF_OK ||
        read_etag(used->if_none_match, &get->none_match, error) != HF_OK ||
        timeout_deadline(store, used->timeout_ms, &get->deadline, error) != HF_OK)
        return error->status;
    get->key = caller_view(key, used->key_size);
    get->offset = used->offset;
    get->length = used->length;
    return HF_OK;
}

static void write_got(struct hf_object_info *report, const struct get_call *get)
{
    write_info(report, &get->info.etag, get->info.size, wall_ms(get->info.modified));
}

enum hf_status hf_store_get(struct hf_store *store, const char *key, size_t size_max,
                            const struct hf_store_get_options *options, void **ret_data,
                            size_t *ret_size, struct hf_object_info *ret_info,
                            struct hf_error *error)
{
    struct buffer body = BUFFER_INIT(size_max < BODY_BYTES_MAX ? size_max : BODY_BYTES_MAX);
    struct get_call get = { .body = &body };
    struct hf_store_get_options used;
    if (ERROR_IF_NULL(error, store, key, ret_data, ret_size) != HF_OK)
        return HF_INVALID;
    enum hf_status status = prepare_get(store, key, options, &used, &get, ret_info);
    if (status != HF_OK)
        return error_tell(error, status, &get.error);
    status = store_get(store->store, &get);
    if (status == HF_OK && !buffer_reserve(&body, 0)) /* an empty body also needs memory */
        status = error_no_memory(&get.error);
    if (status == HF_OK) {
        *ret_data = body.data;
        *ret_size = body.size;
        write_got(ret_info, &get);
    } else {
        buffer_release(&body);
    }
    return error_tell(error, status, &get.error);
}

enum hf_status hf_store_get_file(struct hf_store *store, const char *key, int fd,
                                 const struct hf_store_get_options *options,
                                 struct hf_object_info *ret_info, struct hf_error *error)
{
    struct get_call get = { .body = NULL };
    struct hf_store_get_options used;
    if (ERROR_IF_NULL(error, store, key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = prepare_get(store, key, options, &used, &get, ret_info);
    if (status != HF_OK)
        return error_tell(error, status, &get.error);
    struct caller_progress caller = { used.progress, used.progress_argument };
    const struct progress progress = { report_transfer, &caller };
    status = store_get_file(store->store, &get, fd, &progress);
    if (status == HF_OK)
        write_got(ret_info, &get);
    return error_tell(error, status, &get.error);
}

/* ---- put ----------------------------------------------------------------------------- */

static enum hf_status prepare_put(struct hf_store *store, const char *key,
                                  const struct hf_store_put_options *given,
                                  struct hf_store_put_options *used, struct put_call *put,
                                  const struct hf_object_info *report)
{
    struct hf_error *error = &put->error;
    *used = HF_STORE_PUT_OPTIONS;
    if (READ_OPTIONS(HF_STORE_PUT_OPTIONS, given, used, error) != HF_OK ||
        CHECK_REPORT(HF_OBJECT_INFO, report, error) != HF_OK)
        return error->status;
    if (used->if_absent && used->if_match)
        return error_set(error, HF_INVALID, "if_absent and if_match cannot be used together");
    put->key = caller_view(key, used->key_size);
    put->condition.kind = used->if_absent  ? CONDITION_ABSENT
                          : used->if_match ? CONDITION_MATCH
                                           : CONDITION_ALWAYS;
    if (check_written_key(put->key, used->force, error) != HF_OK ||
        read_etag(used->if_match, &put->condition.etag, error) != HF_OK ||
        timeout_deadline(store, used->timeout_ms, &put->deadline, error) != HF_OK)
        return error->status;
    return HF_OK;
}

enum hf_status hf_store_put(struct hf_store *store, const char *key, const void *data,
                            size_t size, const struct hf_store_put_options *options,
                            struct hf_object_info *ret_info, struct hf_error *error)
{
    struct put_call put = { .body = { size > 0 ? data : "", size } };
    struct hf_store_put_options used;
    if (ERROR_IF_NULL(error, store, key) != HF_OK ||
        (size > 0 && ERROR_IF_NULL(error, data) != HF_OK))
        return HF_INVALID;
    enum hf_status status = prepare_put(store, key, options, &used, &put, ret_info);
    if (status != HF_OK)
        return error_tell(error, status, &put.error);
    status = store_put(store->store, &put);
    if (status == HF_OK)
        write_info(ret_info, &put.etag, size, /* modified_ms */ 0);
    return error_tell(error, status, &put.error);
}

enum hf_status hf_store_put_file(struct hf_store *store, const char *key, int fd,
                                 const struct hf_store_put_options *options,
                                 struct hf_object_info *ret_info, struct hf_error *error)
{
    struct put_call put = { .give = false };
    struct hf_store_put_options used;
    uint64_t size = 0;
    if (ERROR_IF_NULL(error, store, key) != HF_OK)
        return HF_INVALID;
    enum hf_status status = prepare_put(store, key, options, &used, &put, ret_info);
    if (status != HF_OK)
        return error_tell(error, status, &put.error);
    struct caller_progress caller = { used.progress, used.progress_argument };
    const struct progress progress = { report_transfer, &caller };
    status = file_size(fd, &size, &put.error);
    if (status == HF_OK)
        status = store_put_file(store->store, &put, fd, &progress);
    if (status == HF_OK)
        write_info(ret_info, &put.etag, size, /* modified_ms */ 0);
    return error_tell(error, status, &put.error);
}

/* ---- delete -------------------------------------------------------------------------- */

/* Fills in everything in a call except its key. */
static enum hf_status prepare_delete(struct hf_store *store,
                                     const struct hf_store_delete_options *used,
                                     struct delete_call *ret_call, struct hf_error *error)
{
    *ret_call = (struct delete_call){
        .condition = { .kind = used->if_match ? CONDITION_MATCH : CONDITION_ALWAYS }
    };
    enum hf_status status = read_etag(used->if_match, &ret_call->condition.etag, error);
    return status == HF_OK
               ? timeout_deadline(store, used->timeout_ms, &ret_call->deadline, error)
               : status;
}

enum hf_status hf_store_delete(struct hf_store *store, const char *key,
                               const struct hf_store_delete_options *options,
                               struct hf_error *error)
{
    struct hf_store_delete_options used = HF_STORE_DELETE_OPTIONS;
    struct delete_call call;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store, key) != HF_OK ||
        READ_OPTIONS(HF_STORE_DELETE_OPTIONS, options, &used, &why) != HF_OK ||
        prepare_delete(store, &used, &call, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    call.key = caller_view(key, used.key_size);
    if (check_written_key(call.key, used.force, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = store_delete(store->store, &call);
    return error_tell(error, status, &call.error);
}

/* Deletes in batches, and reports the result for each key. Returns the first failure. */
static enum hf_status delete_batches(struct hf_store *store, struct delete_call *calls,
                                     size_t count, hf_store_deleted_fn *each, void *argument,
                                     struct hf_error *error)
{
    bool go_on = true;
    size_t done = 0;
    error_clear(error);
    while (go_on && done < count) {
        size_t batch = count - done < BATCH_MAX ? count - done : BATCH_MAX;
        store_delete_many(store->store, calls + done, batch);
        for (size_t i = done; i < done + batch; i++) {
            if (error->status == HF_OK && calls[i].error.status != HF_OK)
                *error = calls[i].error;
            if (go_on && each)
                go_on = each(argument, i, &calls[i].error);
        }
        done += batch;
    }
    return error->status;
}

enum hf_status hf_store_delete_many(struct hf_store *store, const char *const *keys,
                                    const size_t *sizes, size_t count,
                                    const struct hf_store_delete_options *options,
                                    hf_store_deleted_fn *each, void *argument,
                                    struct hf_error *error)
{
    struct hf_store_delete_options used = HF_STORE_DELETE_OPTIONS;
    struct hf_error why;
    if (ERROR_IF_NULL(&why, store, keys) != HF_OK ||
        error_if_null_among(&why, "keys", keys, count) != HF_OK ||
        READ_OPTIONS(HF_STORE_DELETE_OPTIONS, options, &used, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    if (used.key_size > 0)
        return error_set(error, HF_INVALID,
                         "key_size is for a single key; for many keys, set sizes");
    struct delete_call *calls = calloc(count ? count : 1, sizeof *calls);
    if (!calls)
        return error_no_memory(error);
    struct delete_call common;
    enum hf_status status = prepare_delete(store, &used, &common, &why);
    for (size_t i = 0; i < count; i++) { /* if one of the calls is invalid, none is sent */
        if (status != HF_OK)
            break;
        calls[i] = common;
        calls[i].key = caller_view(keys[i], sizes ? sizes[i] : 0);
        status = check_written_key(calls[i].key, used.force, &why);
    }
    if (status == HF_OK)
        status = delete_batches(store, calls, count, each, argument, &why);
    free(calls);
    return error_tell(error, status, &why);
}

/* ---- list ---------------------------------------------------------------------------- */

/* Passes one entry to the caller, with NUL-terminated strings. False: stop. */
static bool report_entry(const struct list_entry *entry, bool last_of_page,
                         hf_store_each_fn *each, void *argument)
{
    char key[KEY_BYTES_MAX + 1], etag[HF_ETAG_MAX] = "";
    memcpy(key, entry->key.data, entry->key.size);
    key[entry->key.size] = '\0';
    struct hf_store_entry shown = {
        .struct_size = sizeof shown,
        .key = key,
        .key_size = entry->key.size,
        .is_prefix = entry->is_prefix,
        .etag = etag,
        .last_of_page = last_of_page,
    };
    if (!entry->is_prefix) {
        etag_to_text(&entry->info.etag, etag);
        shown.size = entry->info.size;
        shown.modified_ms = wall_ms(entry->info.modified);
    }
    return each(argument, &shown);
}

/* Passes a page, or its first `left` entries, to the caller. False: this was the last page. */
static bool report_page(const struct list_call *page, uint64_t *left, hf_store_each_fn *each,
                        void *argument)
{
    size_t count = *left < page->count ? (size_t)*left : page->count;
    for (size_t i = 0; i < count; i++)
        if (!report_entry(&page->entries[i], i + 1 == count, each, argument))
            return false;
    *left -= count;
    return *left > 0;
}

/* A page never requests more entries than are left to report. */
static size_t page_size(uint64_t left)
{
    return left < LIST_PAGE_MAX ? (size_t)left : LIST_PAGE_MAX;
}

enum hf_status hf_store_list(struct hf_store *store, const char *prefix,
                             const struct hf_store_list_options *options,
                             hf_store_each_fn *each, void *argument, struct hf_error *error)
{
    struct hf_store_list_options used = HF_STORE_LIST_OPTIONS;
    struct hf_error why;
    struct pages pages = { .list = { .after = VIEW("") } };
    if (ERROR_IF_NULL(&why, store, prefix) != HF_OK ||
        error_if_none(&why, "each", each) != HF_OK ||
        READ_OPTIONS(HF_STORE_LIST_OPTIONS, options, &used, &why) != HF_OK ||
        timeout_deadline(store, used.timeout_ms, &pages.list.deadline, &why) != HF_OK)
        return error_tell(error, why.status, &why);
    enum hf_status status = HF_OK;
    uint64_t left = used.max > 0 ? used.max : UINT64_MAX;
    bool more = true;
    pages.list.prefix = caller_view(prefix, used.prefix_size);
    if (used.after)
        pages.list.after = caller_view(used.after, used.after_size);
    if (used.delimiter)
        pages.list.delimiter = (struct view){ &used.delimiter, 1 };
    pages.list.max = page_size(left);
    while (more && pages_next(&pages, store->store)) {
        more = report_page(&pages.list, &left, each, argument);
        pages.list.max = page_size(left);
        status = timeout_deadline(store, used.timeout_ms, &pages.list.deadline, &why);
    }
    status = pages_end(&pages, status, &why);
    return error_tell(error, status, &why);
}
