/* SPDX-License-Identifier: Apache-2.0 */
/* key_data.c: fills a bucket with very many keys, by copying the document of a real one. */
#include "key_data.h"

#include "base/check.h"
#include "env/env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NAME_SIZE  12 /* "live/0000000" */
#define STATE_SIZE 100

/* Live keys have a ttl of an hour; expired ones have ended before they are read. */
#define LIVE_TTL_MS 3600000
#define GONE_TTL_MS 100
#define GONE_WAIT   SPAN_S(1)

/* ---- Objects of the bucket (docs/formats.md) ----------------------------------------- */

static void put(struct hf_store *store, const char *key, const char *body, size_t size)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    struct hf_error error;
    options.force = true;
    must(hf_store_put(store, key, body, size, &options, NULL, &error), &error, key);
}

static void put_entry(struct hf_store *store, const struct key_mould *mould, size_t number)
{
    char key[100], body[40];
    snprintf(key, sizeof key, "default/.lease-index/%s/meta/%s/%07zu.json", mould->hour,
             mould->folder, number);
    int size = snprintf(body, sizeof body, "{\"write\":\"%016zx\"}", number);
    put(store, key, body, (size_t)size);
}

/* ---- Moulds -------------------------------------------------------------------------- */

/* Acquires a key with this ttl, and abandons it. */
static void leave_key(struct hf_client *client, const char *name, int64_t ttl_ms,
                      bool with_state)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    struct hf_error error;
    char state[STATE_SIZE];
    memset(state, '.', sizeof state);
    options.ttl_ms = ttl_ms;
    must(hf_key_new(client, name, &options, &key, &error), &error, "new");
    must(hf_key_acquire(key, 0, NULL, &error), &error, "acquire");
    if (with_state)
        must(hf_key_update(key, state, sizeof state, NULL, NULL, &error), &error, "update");
    hf_key_detach(key);
}

static struct key_mould mould_of(const struct client *site, const char *folder, int64_t ttl_ms,
                                 bool with_state, int hours_from_now)
{
    struct key_mould mould = { .folder = folder };
    char name[NAME_SIZE + 1], key[64];
    time_t at = time(NULL) + (time_t)hours_from_now * 3600;
    struct tm calendar;
    struct hf_error error;
    void *document;
    snprintf(name, sizeof name, "%s/%07d", folder, 0);
    snprintf(key, sizeof key, "default/meta/%s.json", name);
    strftime(mould.hour, sizeof mould.hour, "%Y%m%d%H", gmtime_r(&at, &calendar));
    leave_key(site->client, name, ttl_ms, with_state);
    put_entry(site->store, &mould, 0);
    must(hf_store_get(site->store, key, 65536, NULL, &document, &mould.size, NULL, &error),
         &error, key);
    mould.document = document;
    return mould;
}

struct key_moulds key_moulds_make(const struct client *site)
{
    struct key_moulds moulds = { .live = mould_of(site, "live", LIVE_TTL_MS, true, 1),
                                 .gone = mould_of(site, "gone", GONE_TTL_MS, true, -1),
                                 .lock = mould_of(site, "lock", GONE_TTL_MS, false, -1) };
    env_sleep(env_real(), GONE_WAIT);
    return moulds;
}

void key_moulds_release(struct key_moulds *moulds)
{
    hf_free(moulds->live.document);
    hf_free(moulds->gone.document);
    hf_free(moulds->lock.document);
}

/* ---- Copies -------------------------------------------------------------------------- */

/* Replaces the zeros of the name by a number, wherever the name occurs. */
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

/* Together, since a durable store takes many puts as fast as one. */
#define CASTERS 32

struct caster {
    struct hf_store *store;
    const struct key_mould *mould;
    size_t first, count; /* every CASTERS-th of them */
    struct env_task *task;
};

static void cast_keys(void *argument)
{
    const struct caster *caster = argument;
    const struct key_mould *mould = caster->mould;
    char *document = malloc(mould->size), key[64];
    check(document);
    for (size_t number = caster->first; number <= caster->count; number += CASTERS) {
        memcpy(document, mould->document, mould->size);
        set_number(document, mould->size, mould->folder, number);
        snprintf(key, sizeof key, "default/meta/%s/%07zu.json", mould->folder, number);
        put(caster->store, key, document, mould->size);
        put_entry(caster->store, mould, number);
    }
    free(document);
}

void keys_cast(const struct client *site, const struct key_mould *mould, size_t count)
{
    struct caster casters[CASTERS];
    struct hf_error error;
    for (size_t i = 0; i < CASTERS; i++) {
        casters[i] = (struct caster){ site->store, mould, i + 1, count, NULL };
        must(env_task_start(env_real(), cast_keys, &casters[i], &casters[i].task, &error),
             &error, "task");
    }
    for (size_t i = 0; i < CASTERS; i++)
        env_task_join(env_real(), casters[i].task);
}

/* ---- Transfers ----------------------------------------------------------------------- */

/* Reads a key, and makes the condition that it is unchanged. */
static void read_version(struct hf_client *client, const char *name, size_t size_max,
                         struct hf_key_if *ret_when)
{
    struct hf_key_info info = HF_KEY_INFO;
    struct hf_error error;
    void *data = NULL;
    size_t size;
    enum hf_status status = hf_key_get(client, name, size_max, &data, &size, &info, &error);
    if (status != HF_NOT_FOUND)
        must(status, &error, "get");
    hf_free(data);
    *ret_when = HF_KEY_IF;
    ret_when->version_set = true;
    ret_when->version = info.version;
}

enum hf_status keys_move(struct hf_client *client, char names[2][32], const void *data,
                         size_t size, struct hf_error *error)
{
    struct hf_key_write writes[2];
    struct hf_key_if when[2];
    for (size_t i = 0; i < 2; i++) {
        read_version(client, names[i], size, &when[i]);
        writes[i] = (struct hf_key_write){
            .name = names[i], .data = data, .size = size, .when = &when[i]
        };
    }
    return hf_key_change_many(client, writes, 2, /* wait_ms */ 60000, NULL, error);
}

/* ---- Accounts ------------------------------------------------------------------------ */

void account_name(size_t number, char name[32])
{
    snprintf(name, 32, "account/%04zu", number);
}

void accounts_open(struct hf_client *client, size_t count, const void *data, size_t size)
{
    struct hf_error error;
    char name[32];
    for (size_t i = 0; i < count; i++) {
        account_name(i, name);
        must(hf_key_change(client, name, data, size, NULL, NULL, &error), &error, "change");
    }
}
