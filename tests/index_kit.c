#include "index_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *kind = "mem";

bool yard_kind_set(int argc, char **argv)
{
    if (argc > 1)
        kind = argv[1];
    if (argc <= 2 && (strcmp(kind, "mem") == 0 || strcmp(kind, "sqlite") == 0))
        return true;
    fprintf(stderr, "usage: %s [mem|sqlite]\n", argv[0]);
    return false;
}

/* ---- The store in between ------------------------------------------------------------ */

static struct yard_store *yard_of(struct store *store)
{
    return (struct yard_store *)(void *)store;
}

static void yard_get(struct store *store, struct get_call *calls, size_t count)
{
    struct yard_store *yard = yard_of(store);
    void (*before)(void *) = yard->before_get;
    yard->before_get = NULL;
    if (before)
        before(yard->argument);
    if (yard->fail_batch > 0 && --yard->fail_batch == 0)
        for (size_t i = 0; i < count; i++)
            error_set(&calls[i].error, HF_UNAVAILABLE, "refused");
    else
        store_get_many(yard->inner, calls, count);
}

static void yard_do_put(struct yard_store *yard, struct put_call *call)
{
    if (yard->conflict > 0) {
        yard->conflict--;
        error_set(&call->error, HF_CONFLICT, "another one is under way");
    } else if (yard->lose > 0) {
        yard->lose--;
        error_set(&call->error, HF_UNSURE, "lost");
    } else if (yard->lose_reply > 0) {
        yard->lose_reply--;
        store_put(yard->inner, call);
        error_set(&call->error, HF_UNSURE, "its reply was lost");
    } else if (yard->refuse > 0) {
        yard->refuse--;
        error_set(&call->error, HF_UNAVAILABLE, "refused");
    } else {
        store_put(yard->inner, call);
    }
}

static void yard_do_puts(struct store *store, struct put_call *calls, size_t count)
{
    struct yard_store *yard = yard_of(store);
    void (*before)(void *) = yard->before_put;
    yard->before_put = NULL;
    if (before)
        before(yard->argument);
    if (yard->conflict + yard->lose + yard->lose_reply + yard->refuse == 0) {
        store_put_many(yard->inner, calls, count);
        return;
    }
    for (size_t i = 0; i < count; i++)
        yard_do_put(yard, &calls[i]);
}

static void yard_remove(struct store *store, struct delete_call *calls, size_t count)
{
    struct yard_store *yard = yard_of(store);
    for (; yard->lose_deletes > 0 && count > 0; yard->lose_deletes--, calls++, count--)
        error_set(&calls->error, HF_UNSURE, "lost");
    if (count > 0)
        store_delete_many(yard->inner, calls, count);
}

static void yard_list_page(struct store *store, struct list_call *call)
{
    struct store *inner = yard_of(store)->inner;
    inner->ops->list(inner, call); /* the call has its arena already */
}

static void yard_get_file(struct store *store, struct get_call *call, int fd,
                          const struct progress *progress)
{
    store_get_file(yard_of(store)->inner, call, fd, progress);
}

static void yard_put_file(struct store *store, struct put_call *call, int fd,
                          const struct progress *progress)
{
    store_put_file(yard_of(store)->inner, call, fd, progress);
}

static void yard_store_close(struct store *store)
{
    (void)store;
}

static const struct store_ops yard_ops = {
    .name = "yard",
    .get = yard_get,
    .put = yard_do_puts,
    .remove = yard_remove,
    .list = yard_list_page,
    .get_file = yard_get_file,
    .put_file = yard_put_file,
    .close = yard_store_close,
};

/* ---- The yard ------------------------------------------------------------------------ */

struct schema yard_schema(const char *fields)
{
    struct view names[INDEX_FIELDS_MAX], rest = view_of(fields);
    size_t count = 0;
    struct schema schema;
    struct hf_error error;
    while (rest.size > 0)
        names[count++] = view_cut(&rest, ',');
    assert_status(HF_OK,
                  schema_new(names, count, VIEW("domain"), VIEW("updated_at"), /* digits */ 2,
                             /* foreign */ true, &schema, &error),
                  &error);
    return schema;
}

enum index_made yard_create(struct yard *yard, const char *fields)
{
    struct schema schema = yard_schema(fields);
    enum index_made made;
    assert_status(
        HF_OK, index_create(yard->store.inner, VIEW("domains"), &schema, &made, &yard->error),
        &yard->error);
    return made;
}

void yard_open(struct yard *yard)
{
    char url[512];
    struct store *raw;
    *yard = (struct yard){ .dir = test_dir_make() };
    if (strcmp(kind, "mem") == 0)
        snprintf(url, sizeof url, "mem:");
    else
        snprintf(url, sizeof url, "sqlite:%s/bucket", yard->dir);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &raw, &yard->error),
                  &yard->error);
    meter_init(&yard->meter, env_real());
    assert_status(HF_OK,
                  store_observe(raw, meter_observer(&yard->meter), &yard->store.inner,
                                &yard->error),
                  &yard->error);
    yard->store.base = *yard->store.inner;
    yard->store.base.ops = &yard_ops;
    assert_int_equal(yard_create(yard, "domain,name,updated_at"), INDEX_CREATED);
    assert_status(
        HF_OK, index_open(&yard->store.base, NULL, VIEW("domains"), &yard->index, &yard->error),
        &yard->error);
    meter_reset(&yard->meter);
}

void yard_close(struct yard *yard)
{
    index_close(yard->index);
    store_close(yard->store.inner);
    meter_release(&yard->meter);
    test_dir_remove(yard->dir);
}

void yard_put(struct yard *yard, const char *record)
{
    struct view bytes = view_of(record);
    size_t bad;
    assert_status(HF_OK, index_put(yard->index, &bytes, 1, &bad, &yard->error), &yard->error);
}

struct shard_id yard_shard(const char *key)
{
    return shard_of_key(view_of(key), 2);
}

struct entry_list yard_list(struct yard *yard, struct shard_id shard)
{
    struct entry_list list = { 0 };
    assert_status(HF_OK,
                  inbox_list(yard->index, shard, /* after */ VIEW(""), INBOX_LIST_MAX, &list,
                             &yard->error),
                  &yard->error);
    return list;
}

struct entry_list yard_flat(struct yard *yard, const char *shard)
{
    struct entry_list list = { 0 };
    struct shard_id id = { "" };
    snprintf(id.text, sizeof id.text, "%s", shard);
    assert_status(HF_OK, inbox_list_flat(yard->index, id, &list, &yard->error), &yard->error);
    return list;
}

struct yard_load yard_load(struct yard *yard, const char *key)
{
    struct yard_load loaded = { .list = yard_list(yard, yard_shard(key)) };
    assert_status(HF_OK,
                  inbox_load(yard->index, loaded.list.entries, loaded.list.count, &loaded.load,
                             &yard->error),
                  &yard->error);
    assert_int_equal(loaded.load.count, loaded.list.count);
    return loaded;
}

void yard_load_release(struct yard_load *loaded)
{
    entry_load_release(&loaded->load);
    entry_list_release(&loaded->list);
}

void assert_view(struct view actual, const char *expected)
{
    assert_int_equal(actual.size, strlen(expected));
    assert_memory_equal(actual.data, expected, actual.size);
}

/* ---- Objects ------------------------------------------------------------------------- */

static struct view full_key(const char *name, char key[KEY_BYTES_MAX + 1])
{
    int size = snprintf(key, KEY_BYTES_MAX + 1, "indexes/domains/%s", name);
    return (struct view){ key, (size_t)size };
}

void yard_write(struct yard *yard, const char *name, struct view bytes)
{
    char key[KEY_BYTES_MAX + 1];
    struct put_call put = { .key = full_key(name, key), .body = bytes };
    assert_status(HF_OK, store_put(yard->store.inner, &put), &put.error);
}

void yard_write_entries(struct yard *yard, const char *folder, size_t count, bool markers)
{
    static char names[BATCH_MAX][160];
    static struct put_call calls[BATCH_MAX];
    for (size_t at = 0, some; at < count; at += some) {
        some = count - at < BATCH_MAX ? count - at : BATCH_MAX;
        for (size_t i = 0; i < some; i++) {
            bool marker = markers && (at + i) % 10 == 0;
            snprintf(names[i], sizeof names[i],
                     "indexes/domains/inbox/%s/example.com~20260206T100000-%032zx.usv", folder,
                     at + i);
            calls[i] = (struct put_call){ .key = view_of(names[i]),
                                          .body = marker ? VIEW("")
                                                         : VIEW("example.com" US "Ex" US
                                                                "2026-02-06T10:00:00Z\n") };
        }
        assert_status(HF_OK, store_put_many(yard->store.inner, calls, some), &calls[0].error);
    }
}

void yard_write_sparse(struct yard *yard, const char *name, uint64_t size)
{
    char path[4200], key[KEY_BYTES_MAX + 1];
    snprintf(path, sizeof path, "%s/sparse", yard->dir);
    snprintf(key, sizeof key, "indexes/domains/%s", name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
    struct put_call put = { .key = view_of(key) };
    assert_status(HF_OK, store_put_file(yard->store.inner, &put, fd, NULL), &put.error);
    close(fd);
}

char *yard_read(struct yard *yard, const char *name)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(BODY_BYTES_MAX);
    struct get_call get = { .key = full_key(name, key), .body = &text };
    enum hf_status status = store_get(yard->store.inner, &get);
    if (status == HF_NOT_FOUND) {
        buffer_release(&text);
        return NULL;
    }
    assert_status(HF_OK, status, &get.error);
    assert_non_null(buffer_text(&text));
    return text.data;
}

bool yard_has(struct yard *yard, const char *name)
{
    char *text = yard_read(yard, name);
    free(text);
    return text != NULL;
}

size_t yard_count(struct yard *yard, const char *folder)
{
    char key[KEY_BYTES_MAX + 1];
    struct list_call list = { .prefix = full_key(folder, key) };
    assert_status(HF_OK, store_list(yard->store.inner, &list), &list.error);
    assert_false(list.more);
    size_t count = list.count;
    list_release(&list);
    return count;
}

/* ---- Requests ------------------------------------------------------------------------ */

uint64_t yard_calls(struct yard *yard, enum call_kind call_kind)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    meter_read(&yard->meter, kinds);
    return kinds[call_kind].calls;
}

uint64_t yard_batches(struct yard *yard, enum call_kind call_kind)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    meter_read(&yard->meter, kinds);
    return kinds[call_kind].batches;
}

uint64_t yard_received(struct yard *yard, enum call_kind call_kind)
{
    struct meter_counts kinds[CALL_KIND_COUNT];
    meter_read(&yard->meter, kinds);
    return kinds[call_kind].bytes_received;
}
