/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_epoch.c: parses arbitrary bytes as the epoch document of a namespace and its copy. The
 * epoch must be known, missing, lost or of a later version, with a sentence. It must never
 * fall; a raise must be exact on a healthy store; a recorded limit must hold; and the document
 * of a later version must not be overwritten.
 *
 * The bytes before the first 0xff are the document, and those after it the copy. An empty one
 * is missing. */
#include "base/check.h"
#include "base/layout.h"
#include "fuzz.h"
#include "lock/client_inside.h"
#include "lock/epoch.h"

#define NAMESPACE VIEW(LAYOUT_NAMESPACE_DEFAULT)

struct pair {
    struct hf_client *client;
    struct mono_time deadline;
    struct view document, copy; /* as they were */
};

static const struct view document_key = { LAYOUT_EPOCH_FOLDER "default.json",
                                          sizeof LAYOUT_EPOCH_FOLDER "default.json" - 1 };
static const struct view copy_key = { LAYOUT_EPOCH_COPY_FOLDER "default.json",
                                      sizeof LAYOUT_EPOCH_COPY_FOLDER "default.json" - 1 };

static void put(const struct pair *pair, struct view key, struct view body)
{
    struct put_call call = { .key = key, .body = body };
    if (body.size > 0)
        check(store_put(pair->client->store, &call) == HF_OK);
}

static bool is_unchanged(const struct pair *pair, struct view key, struct view body)
{
    struct buffer now = BUFFER_INIT(MIB);
    struct get_call get = { .key = key, .body = &now };
    bool same =
        store_get(pair->client->store, &get) == HF_OK && view_equal(buffer_view(&now), body);
    buffer_release(&now);
    return same;
}

/* ---- What may be answered ------------------------------------------------------------ */

static enum hf_status told(enum hf_status status, const struct hf_error *error)
{
    check(status == HF_OK || (error->status == status && error->why[0] != '\0'));
    check(status == HF_OK || status == HF_NOT_FOUND || status == HF_CORRUPT ||
          status == HF_UNSUPPORTED || status == HF_UNAVAILABLE);
    return status;
}

static enum hf_status read_epoch(const struct pair *pair, uint64_t *ret_epoch)
{
    struct hf_error error = { .why = "" };
    enum hf_status status =
        told(epoch_read(pair->client->store, NAMESPACE, pair->deadline, ret_epoch, &error),
             &error);
    check(status != HF_OK || *ret_epoch <= EPOCH_MAX);
    check(status != HF_UNAVAILABLE);
    return status;
}

static enum hf_status raise(const struct pair *pair, uint64_t *ret_epoch)
{
    struct hf_error error = { .why = "" };
    struct epoch_ref ref = epoch_of_tables(&pair->client->space, pair->deadline);
    return told(epoch_raise(&ref, /* by */ 1, ret_epoch, &error), &error);
}

/* ---- What must hold ------------------------------------------------------------------ */

/* Raised twice: higher than it was, and the second time by one. */
static void raises_hold(const struct pair *pair, enum hf_status before, uint64_t epoch)
{
    uint64_t first, second, read;
    enum hf_status status = raise(pair, &first);
    if (status != HF_OK) {
        check(before != HF_OK || read_epoch(pair, &read) != HF_OK || read >= epoch);
        return;
    }
    check(before != HF_OK || first > epoch);
    check(read_epoch(pair, &read) == HF_OK && read == first);
    status = raise(pair, &second);
    check(status == HF_OK ? second == first + 1
                          : status == HF_UNAVAILABLE && first == EPOCH_MAX);
}

/* Every ttl that may be granted must be known to a client that finds a damaged table. */
static void limits_hold(const struct pair *pair)
{
    const struct table_space *space = &pair->client->space;
    const struct span ttl = SPAN_S(60);
    struct hf_error error = { .why = "" };
    struct ttl_limit limit;
    struct span longest;
    uint64_t epoch;
    if (told(epoch_record_limit(space, TABLES_OF_NAMES, ttl, pair->deadline, &limit, &error),
             &error) != HF_OK)
        return;
    check(limit.ttl.us >= ttl.us);
    if (told(epoch_raise_after_damage(space, TABLES_OF_NAMES, pair->deadline, &epoch, &longest,
                                      &error),
             &error) == HF_OK)
        check(longest.us >= ttl.us);
}

/* Either is asked for as it stood before. */
static void run_on(struct view document, struct view copy, void (*last)(const struct pair *))
{
    struct hf_error error = { .why = "" };
    struct pair pair = { .document = document, .copy = copy };
    uint64_t epoch = 0, had;
    check(hf_client_open("mem:", NULL, &pair.client, &error) == HF_OK);
    pair.deadline = mono_add(env_now(pair.client->env), SPAN_S(10));
    put(&pair, document_key, document);
    put(&pair, copy_key, copy);
    enum hf_status before = read_epoch(&pair, &epoch);
    if (last) {
        last(&pair);
    } else {
        struct epoch_ref ref = epoch_of_tables(&pair.client->space, pair.deadline);
        enum hf_status status = told(epoch_have(&ref, &had, NULL, &error), &error);
        check(before != HF_OK || status != HF_OK || had >= epoch);
        raises_hold(&pair, before, epoch);
    }
    if (before == HF_UNSUPPORTED)
        check(is_unchanged(&pair, document_key, document) ||
              is_unchanged(&pair, copy_key, copy));
    hf_client_close(pair.client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view rest = { (const char *)data, size };
    struct view document = view_cut(&rest, '\xff');
    run_on(document, rest, NULL);
    run_on(document, rest, limits_hold);
    return 0;
}
