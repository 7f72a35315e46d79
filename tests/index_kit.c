/* SPDX-License-Identifier: Apache-2.0 */
/* index_kit.c: a bucket with an index behind a scripted store, for tests of src/index. */
#include "index_kit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static const char *kind = "mem";
static bool plain;

bool yard_kind_set(int argc, char **argv)
{
    if (argc > 1)
        kind = argv[1];
    plain = argc > 2;
    if (argc <= 3 && (strcmp(kind, "mem") == 0 || strcmp(kind, "sqlite") == 0) &&
        (!plain || strcmp(argv[2], "plain") == 0))
        return true;
    fprintf(stderr, "usage: %s [mem|sqlite [plain]]\n", argv[0]);
    return false;
}

bool yard_is_plain(void)
{
    return plain;
}

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
                  schema_new(&(struct schema_spec){ names, count, VIEW("domain"),
                                                    VIEW("updated_at"), /* digits */ 2,
                                                    /* foreign */ true, plain },
                             &schema, &error),
                  &error);
    return schema;
}

enum index_made yard_create(struct yard *yard, const char *fields)
{
    struct schema schema = yard_schema(fields);
    enum index_made made;
    assert_status(HF_OK,
                  index_create(yard->store.inner, NULL, VIEW("domains"), &schema, &made,
                               &yard->error),
                  &yard->error);
    return made;
}

void yard_script(struct script *script, struct store *inner)
{
    script_init(script, inner);
    script->ops.change = NULL;
    script->ops.listens = NULL;
    script->ops.listen = NULL;
    script->ops.ring = NULL;
}

void yard_open(struct yard *yard)
{
    char url[512];
    struct store *raw, *inner;
    *yard = (struct yard){ .dir = test_dir_make() };
    if (strcmp(kind, "mem") == 0)
        snprintf(url, sizeof url, "mem:");
    else
        snprintf(url, sizeof url, "sqlite:%s/bucket", yard->dir);
    assert_status(HF_OK, store_open(env_real(), view_of(url), &raw, &yard->error),
                  &yard->error);
    meter_init(&yard->meter, env_real());
    assert_status(HF_OK, store_observe(raw, meter_observer(&yard->meter), &inner, &yard->error),
                  &yard->error);
    yard_script(&yard->store, inner);
    yard->store.owns_inner = true;
    assert_int_equal(yard_create(yard, "domain,name,updated_at"), INDEX_CREATED);
    assert_status(
        HF_OK, index_open(&yard->store.base, NULL, VIEW("domains"), &yard->index, &yard->error),
        &yard->error);
    meter_reset(&yard->meter);
}

void yard_close(struct yard *yard)
{
    index_close(yard->index);
    store_close(&yard->store.base);
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
