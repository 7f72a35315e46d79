/* SPDX-License-Identifier: Apache-2.0 */
/* key_kit.c: short calls for tests of keys, which fail the test on any error. */
#include "key_kit.h"

#include <stdio.h>
#include <stdlib.h>

static struct hf_error error;

struct hf_key *key_with(struct peer *peer, const char *name, int64_t ttl_ms, bool staged)
{
    struct hf_key_options options = HF_KEY_OPTIONS;
    struct hf_key *key;
    options.ttl_ms = ttl_ms;
    options.staged = staged;
    MUST(hf_key_new(peer->client, name, &options, &key, &error));
    return key;
}

struct hf_key *key_held(struct peer *peer, const char *name)
{
    struct hf_key *key = key_with(peer, name, 60000, false);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    return key;
}

struct hf_key *staged_held(struct peer *peer, const char *name)
{
    struct hf_key *key = key_with(peer, name, 60000, true);
    MUST(hf_key_acquire(key, 0, NULL, &error));
    return key;
}

void update(struct hf_key *key, const char *text)
{
    MUST(hf_key_update(key, text, strlen(text), NULL, NULL, &error));
}

void done(struct hf_key *key)
{
    MUST(hf_key_release(key, HF_COMMIT, &error));
    hf_key_free(key);
}

void publish(struct peer *peer, const char *name, const char *text)
{
    struct hf_key *key = key_held(peer, name);
    update(key, text);
    done(key);
}

struct hf_key_info reads(struct peer *peer, const char *name, const char *text)
{
    struct hf_key_info info = HF_KEY_INFO;
    void *data = NULL;
    size_t size = 0;
    enum hf_status status =
        hf_key_get(peer->client, name, BODY_BYTES_MAX, &data, &size, &info, &error);
    if (text) {
        must(status, &error, "hf_key_get", __LINE__);
        if (size != strlen(text) || memcmp(data, text, size) != 0)
            FAIL("%s is '%.*s', not '%s'", name, (int)size, (char *)data, text);
        hf_free(data);
    } else {
        answers(status, HF_NOT_FOUND, "hf_key_get", __LINE__);
    }
    return info;
}

char *bytes_of(size_t size, unsigned seed)
{
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (char)((i * 31 + i / 251 + seed) & 0xff);
    return bytes;
}

size_t bodies(struct world *world, const char *name)
{
    char prefix[256];
    snprintf(prefix, sizeof prefix, STATE_FOLDER "%s/", name);
    struct list_call list = { .prefix = view_of(prefix) };
    must(store_list(world->truth, &list), &list.error, "list", __LINE__);
    size_t count = list.count;
    list_release(&list);
    return count;
}

void take_away(struct peer *peer, struct hf_key *key)
{
    char text[HF_LEASE_TEXT_MAX];
    MUST(hf_lock_text(hf_key_lock(key), text, &error));
    MUST(hf_break(peer->client, text, "test", "to see what happens", &error));
}

void refuses(struct hf_key *key, const struct hf_key_if *when, enum hf_key_outcome outcome,
             enum hf_status status)
{
    struct hf_key_info info = HF_KEY_INFO;
    IS(status, hf_key_update(key, "no", 2, when, &info, &error));
    if (info.outcome != outcome)
        FAIL("%s, expected %s: %s", hf_key_outcome_name(info.outcome),
             hf_key_outcome_name(outcome), error.why);
    ASSERT(strlen(error.why) > 0);
}

void take_no_steps(struct peer *peer)
{
    peer->way.ops.change = NULL;
}
