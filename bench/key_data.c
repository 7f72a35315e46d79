#include "key_data.h"

#include "base/check.h"
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_SIZE  12 /* "live/0000000" */
#define STATE_SIZE 100

/* Live keys have an hour; those that are over have ended before anybody looks. */
#define LIVE_TTL_MS 3600000
#define GONE_TTL_MS 100
#define GONE_WAIT   SPAN_S(1)

void must(enum hf_status status, const struct hf_error *error, const char *what)
{
    if (status != HF_OK)
        bench_die("%s: %s: %s", what, hf_status_name(status), error->why);
}

/* ---- Moulds -------------------------------------------------------------------------- */

static void read_object(struct store *store, struct view key, struct buffer *body)
{
    struct get_call get = { .key = key, .body = body };
    *body = BUFFER_INIT(65536);
    must(store_get(store, &get), &get.error, "get");
}

/* Takes a key for so long, and leaves it to its fate. */
static void leave_key(struct key_site site, const char *name, int64_t ttl_ms, bool with_state)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    struct hf_error error;
    char state[STATE_SIZE];
    memset(state, '.', sizeof state);
    options.ttl_ms = ttl_ms;
    must(hf_key_new(site.client, name, &options, &key, &error), &error, "new");
    must(hf_key_acquire(key, 0, NULL, &error), &error, "acquire");
    if (with_state)
        must(hf_key_update(key, state, sizeof state, NULL, NULL, &error), &error, "update");
    hf_key_detach(key);
}

static struct key_mould mould_of(struct key_site site, const char *folder, int64_t ttl_ms,
                                 bool with_state, int64_t hours_from_now)
{
    struct key_mould mould = { .folder = folder };
    char name[NAME_SIZE + 1], key[64], entry[KEY_BYTES_MAX + 1];
    struct hf_error error;
    snprintf(name, sizeof name, "%s/%07d", folder, 0);
    snprintf(key, sizeof key, "default/meta/%s.json", name);
    mould.hour.number = env_wall(env_real()).us / HOUR_SPAN.us + hours_from_now;
    leave_key(site, name, ttl_ms, with_state);
    must(expiry_write(site.client, view_of(key), mould.hour, /* stub */ NULL,
                      (struct mono_time){ 0 }, &error),
         &error, "entry");
    check(expiry_key(site.client, view_of(key), mould.hour, entry));
    read_object(site.store, view_of(key), &mould.document);
    read_object(site.store, view_of(entry), &mould.entry);
    return mould;
}

static void mould_release(struct key_mould *mould)
{
    buffer_release(&mould->document);
    buffer_release(&mould->entry);
}

struct key_moulds key_moulds_make(struct key_site site)
{
    struct key_moulds moulds = { .live = mould_of(site, "live", LIVE_TTL_MS, true, 1),
                                 .gone = mould_of(site, "gone", GONE_TTL_MS, true, -1),
                                 .lock = mould_of(site, "lock", GONE_TTL_MS, false, -1) };
    env_sleep(env_real(), GONE_WAIT);
    return moulds;
}

void key_moulds_release(struct key_moulds *moulds)
{
    mould_release(&moulds->live);
    mould_release(&moulds->gone);
    mould_release(&moulds->lock);
}

/* ---- Copies -------------------------------------------------------------------------- */

/* Writes a number in the place of 0, wherever the name stands. */
static void set_number(char *bytes, size_t size, const char *folder, size_t number)
{
    char from[NAME_SIZE + 1], to[NAME_SIZE + 1];
    char *at = bytes;
    snprintf(from, sizeof from, "%s/%07d", folder, 0);
    snprintf(to, sizeof to, "%s/%07zu", folder, number % 10000000);
    while ((at = memmem(at, size - (size_t)(at - bytes), from, NAME_SIZE))) {
        memcpy(at, to, NAME_SIZE);
        at += NAME_SIZE;
    }
}

/* One copy: two puts, whose keys and bodies stand in `space`. */
static size_t cast_one(struct key_site site, const struct key_mould *mould, size_t number,
                       char *space, struct put_call puts[2])
{
    char *entry_key = space, *key = entry_key + KEY_BYTES_MAX + 1, *document = key + 64;
    char *entry = document + mould->document.size;
    int size = snprintf(key, 64, "default/meta/%s/%07zu.json", mould->folder, number);
    struct view table = { key, (size_t)size };
    check(expiry_key(site.client, table, mould->hour, entry_key));
    memcpy(document, mould->document.data, mould->document.size);
    set_number(document, mould->document.size, mould->folder, number);
    memcpy(entry, mould->entry.data, mould->entry.size);
    set_number(entry, mould->entry.size, mould->folder, number);
    puts[0] = (struct put_call){ .key = table, .body = { document, mould->document.size } };
    puts[1] =
        (struct put_call){ .key = view_of(entry_key), .body = { entry, mould->entry.size } };
    return (size_t)(entry + mould->entry.size - space);
}

void keys_cast(struct key_site site, const struct key_mould *mould, size_t count)
{
    static struct put_call puts[BATCH_MAX];
    size_t each = KEY_BYTES_MAX + 1 + 64 + mould->document.size + mould->entry.size;
    char *space = malloc(each * BATCH_MAX / 2);
    check(space);
    for (size_t done = 0; done < count;) {
        size_t batch = count - done < BATCH_MAX / 2 ? count - done : BATCH_MAX / 2, used = 0;
        for (size_t i = 0; i < batch; i++)
            used += cast_one(site, mould, ++done, space + used, &puts[2 * i]);
        must(store_put_many(site.store, puts, 2 * batch), &puts[0].error, "put");
    }
    free(space);
}
