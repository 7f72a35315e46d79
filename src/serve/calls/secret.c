/* SPDX-License-Identifier: Apache-2.0 */
/* secret.c: the secret of a bucket, from which the ids of leases are computed. It is created once,
 * by a put that succeeds for one server only, and never changes (docs/formats.md). */
#include "serve/calls/lease_id.h"

#include "base/check.h"
#include "base/json.h"
#include "base/parse.h"

#include <stdio.h>
#include <string.h>

#define SECRET_FORMAT    "holdfast.serve/1"
#define SECRET_SIZE_MAX  ((size_t)4096)
#define SECRET_TRIES_MAX 4

static bool decode_secret(struct view text, unsigned char ret_secret[LEASE_SECRET_BYTES])
{
    if (text.size != (size_t)2 * LEASE_SECRET_BYTES)
        return false;
    for (size_t i = 0; i < LEASE_SECRET_BYTES; i++) {
        int high = hex_digit(text.data[2 * i]), low = hex_digit(text.data[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        ret_secret[i] = (unsigned char)(high * 16 + low);
    }
    return true;
}

static enum hf_status read_secret(struct view text,
                                  unsigned char ret_secret[LEASE_SECRET_BYTES],
                                  struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    struct view name, raw, format = VIEW(""), secret = VIEW("");
    for (json_enter_object(&reader); json_next_member(&reader, &name);)
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("secret")))
            json_take_plain(&reader, &secret);
        else
            json_skip(&reader, &raw);
    bool readable = json_end(&reader);
    if (readable && view_starts_with(format, VIEW("holdfast.serve/")) &&
        !view_equal(format, VIEW(SECRET_FORMAT)))
        return error_set(error, HF_UNSUPPORTED,
                         "'" LEASE_SECRET_KEY "' was written by a later version");
    if (!readable || !view_equal(format, VIEW(SECRET_FORMAT)) ||
        !decode_secret(secret, ret_secret))
        return error_set(error, HF_CORRUPT,
                         "'" LEASE_SECRET_KEY "' is damaged; if no server of this bucket is "
                         "running, remove it, and the leases that servers granted expire");
    return error_clear(error);
}

static enum hf_status create_secret(struct env *env, struct hf_store *store,
                                    struct hf_error *error)
{
    struct hf_store_put_options options = HF_STORE_PUT_OPTIONS;
    char digits[2 * LEASE_SECRET_BYTES + 1], text[256];
    options.if_absent = options.force = true;
    env_random_hex(env, (size_t)2 * LEASE_SECRET_BYTES, digits);
    int size = snprintf(text, sizeof text, "{ \"format\": \"%s\", \"secret\": \"%s\" }\n",
                        SECRET_FORMAT, digits);
    check(size > 0 && (size_t)size < sizeof text);
    return hf_store_put(store, LEASE_SECRET_KEY, text, (size_t)size, &options, NULL, error);
}

enum hf_status lease_secret_load(struct env *env, struct hf_store *store,
                                 unsigned char ret_secret[LEASE_SECRET_BYTES],
                                 struct hf_error *error)
{
    enum hf_status status = HF_NOT_FOUND;
    for (int i = 0; i < SECRET_TRIES_MAX && status == HF_NOT_FOUND; i++) {
        void *data = NULL;
        size_t size = 0;
        status = hf_store_get(store, LEASE_SECRET_KEY, SECRET_SIZE_MAX, NULL, &data, &size,
                              NULL, error);
        if (status == HF_OK)
            status = read_secret((struct view){ data, size }, ret_secret, error);
        hf_free(data);
        if (status != HF_NOT_FOUND)
            return status;
        status = create_secret(env, store, error);
        /* CONFLICT: another server was faster. After UNSURE, the next read shows what is there. */
        if (status == HF_OK || status == HF_CONFLICT || status == HF_UNSURE)
            status = HF_NOT_FOUND;
    }
    return status == HF_NOT_FOUND
               ? error_set(error, HF_UNAVAILABLE, "'" LEASE_SECRET_KEY "' cannot be created")
               : status;
}
