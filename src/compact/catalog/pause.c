/* SPDX-License-Identifier: Apache-2.0 */
/* pause.c: pauses and resumes the compaction of a partition. A partition is paused while an object
 * exists, so a worker pauses even if it cannot read the object's contents. Workers check for the
 * object before each plan; running jobs finish. */
#include "base/parse.h"
#include "compact/catalog/catalog_tree.h"
#include "store/retry.h"

#include <stdio.h>

#define PAUSE_BYTES_MAX ((size_t)16 * 1024)

/* How many times an unanswered write is sent. It has no condition, so repeating it is harmless. */
#define PAUSE_TRIES_MAX 4
#define PAUSE_WAIT      SPAN_MS(50)

static void pause_key(const struct catalog_tree *tree, char ret_key[KEY_BYTES_MAX + 1])
{
    layout_partition_key(view_of(tree->partition), LAYOUT_PAUSE, ret_key);
}

static bool encode_pause(struct catalog_tree *tree, struct view why, struct view by,
                         struct buffer *text)
{
    char nonce[NONCE_SIZE + 1], since[TIME_TEXT_MAX];
    env_random_hex(tree->env, NONCE_SIZE, nonce);
    buffer_print(text,
                 "{ \"format\": \"%s\", \"since\": \"%s\", \"why\": ", LAYOUT_PAUSE_FORMAT,
                 time_text(env_wall(tree->env), since));
    json_write_string(text, why);
    buffer_append(text, VIEW(", \"by\": "));
    json_write_string(text, by);
    return buffer_print(text, ", \"write\": \"%s\" }\n", nonce);
}

/* The partition is paused regardless of what the object contains; only the reason depends on the
 * contents. */
static void decode_pause(struct view bytes, char ret_why[HF_WHY_MAX])
{
    struct json_reader reader = json_read(bytes);
    struct buffer why = BUFFER_INIT(PAUSE_BYTES_MAX), by = BUFFER_INIT(PAUSE_BYTES_MAX);
    struct view name, raw;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("why")))
            json_take_string(&reader, &why);
        else if (view_equal(name, VIEW("by")))
            json_take_string(&reader, &by);
        else
            json_skip(&reader, &raw);
    }
    bool readable = json_end(&reader);
    struct view reason = view_first(buffer_view(&why), HF_WHY_MAX - 1);
    struct view person = view_first(buffer_view(&by), 60);
    if (reason.size == 0)
        reason = VIEW("no reason given");
    if (!readable)
        snprintf(ret_why, HF_WHY_MAX, "paused; the reason cannot be read");
    else if (person.size > 0)
        snprintf(ret_why, HF_WHY_MAX, "%.*s (%.*s)", VIEW_ARGS(view_first(reason, 160)),
                 VIEW_ARGS(person));
    else
        snprintf(ret_why, HF_WHY_MAX, "%.*s", VIEW_ARGS(reason));
    buffer_release(&why);
    buffer_release(&by);
}

enum hf_status catalog_tree_pause(struct catalog_tree *tree, struct view why, struct view by,
                                  struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(PAUSE_BYTES_MAX);
    struct put_call put = { .key = { key, 0 } };
    client_active(tree->client);
    pause_key(tree, key);
    if (!encode_pause(tree, why, by, &text)) {
        buffer_release(&text);
        return error_set(error, HF_INVALID, "the reason is too long");
    }
    put.key = view_of(key);
    put.body = buffer_view(&text);
    struct retry retry = { .store = tree->store,
                           .pause = PAUSE_WAIT,
                           .left = PAUSE_TRIES_MAX - 1 };
    enum hf_status status;
    do
        status = store_put(tree->store, &put);
    while (retry_after(&retry, status));
    *error = put.error;
    buffer_release(&text);
    return status;
}

enum hf_status catalog_tree_resume(struct catalog_tree *tree, struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    client_active(tree->client);
    pause_key(tree, key);
    struct delete_call call = { .key = view_of(key) };
    struct retry retry = { .store = tree->store,
                           .pause = PAUSE_WAIT,
                           .left = PAUSE_TRIES_MAX - 1 };
    enum hf_status status;
    do
        status = store_delete(tree->store, &call);
    while (retry_after(&retry, status));
    *error = call.error;
    return status;
}

enum hf_status catalog_tree_is_paused(struct catalog_tree *tree, bool *ret_paused,
                                      char ret_why[HF_WHY_MAX], struct hf_error *error)
{
    char key[KEY_BYTES_MAX + 1];
    struct buffer text = BUFFER_INIT(PAUSE_BYTES_MAX);
    pause_key(tree, key);
    struct get_call get = { .key = view_of(key), .body = &text };
    enum hf_status status = store_get(tree->store, &get);
    /* The object is too long to be read, but it exists. */
    bool too_long = status == HF_INVALID && get.info.size > PAUSE_BYTES_MAX;
    if (status == HF_OK || too_long) {
        *ret_paused = true;
        decode_pause(buffer_view(&text), ret_why);
        status = error_clear(error);
    } else if (status == HF_NOT_FOUND) {
        *ret_paused = false;
        ret_why[0] = '\0';
        status = error_clear(error);
    } else {
        *error = get.error;
    }
    buffer_release(&text);
    return status;
}
