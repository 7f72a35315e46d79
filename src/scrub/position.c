/* SPDX-License-Identifier: Apache-2.0 */
/* position.c: keeps the position of the sweeper's scrub in .holdfast/sweep/.scrub.json (".scrub" is
 * not a valid namespace). To other programs, it is a record of the sweeper. */
#include "scrub/position.h"

#include "base/layout.h"
#include "base/members.h"

#include <string.h>

#define POSITION_KEY      LAYOUT_SWEEP_FOLDER LAYOUT_SWEEP_SCRUB ".json"
#define POSITION_BYTES    ((size_t)64 * 1024)
#define UNKNOWN_BYTES_MAX ((size_t)32 * 1024)
#define POSITION_TIME     SPAN_S(10)

static bool take_position_format(struct member_reader *reader, void *object)
{
    struct view format;
    (void)object;
    return json_take_plain(reader->json, &format) &&
           (view_equal(format, VIEW(LAYOUT_SWEEP_FORMAT)) ||
            json_fail(reader->json, "unknown format"));
}

static void write_position_format(const void *object, struct buffer *text)
{
    (void)object;
    json_write_string(text, VIEW(LAYOUT_SWEEP_FORMAT));
}

static const struct member position_members[] = {
    { .name = { "format", 6 },
      .need = MEMBER_NEEDED,
      .take = take_position_format,
      .write = write_position_format },
    MEMBER(scrub_position, "at_ms", MEMBER_MS, at.us, INT64_MAX / 1000, MEMBER_ALWAYS),
    MEMBER(scrub_position, "scrub_after", MEMBER_CHARS, after, HF_SCRUB_POSITION_MAX,
           MEMBER_ALWAYS),
};
static const struct member_table position_table = MEMBER_TABLE(position_members, "no format");

/* `unknown` gets the members that this version does not know; NULL: they are dropped. */
static enum hf_status read_position(struct store *store, struct buffer *unknown,
                                    struct scrub_position *ret_position, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(POSITION_BYTES);
    struct get_call get = { .key = VIEW(POSITION_KEY),
                            .body = &text,
                            .deadline = mono_add(env_now(store->env), POSITION_TIME) };
    enum hf_status status = store_get(store, &get);
    struct json_reader json = json_read(buffer_view(&text));
    struct member_reader reader = { &json, NULL, unknown, NULL };
    struct scrub_position position = { .at = { 0 } };
    if (status == HF_OK &&
        (!members_read(&reader, &position_table, &position) || !json_end(&json))) {
        memset(&position, 0, sizeof position);
        if (unknown)
            unknown->size = 0;
    }
    buffer_release(&text);
    if (status != HF_OK && status != HF_NOT_FOUND && status != HF_INVALID) {
        *error = get.error;
        return status;
    }
    *ret_position = position;
    return error_clear(error);
}

enum hf_status scrub_position_read(struct store *store, struct scrub_position *ret_position,
                                   struct hf_error *error)
{
    return read_position(store, NULL, ret_position, error);
}

enum hf_status scrub_position_write(struct store *store, struct view after,
                                    struct hf_error *error)
{
    struct scrub_position position;
    struct buffer unknown = BUFFER_INIT(UNKNOWN_BYTES_MAX), text = BUFFER_INIT(POSITION_BYTES);
    enum hf_status status = read_position(store, &unknown, &position, error);
    if (status == HF_OK && after.size < sizeof position.after) {
        if (after.size > 0) /* else it may be NULL */
            memcpy(position.after, after.data, after.size);
        position.after[after.size] = '\0';
        position.at = env_wall(store->env);
        members_write(&position_table, &position, '{', &text);
        buffer_append(&text, buffer_view(&unknown));
        struct put_call put = { .key = VIEW(POSITION_KEY),
                                .quiet = true,
                                .deadline = mono_add(env_now(store->env), POSITION_TIME) };
        status = buffer_append(&text, VIEW("}\n")) ? HF_OK : error_no_memory(error);
        put.body = buffer_view(&text);
        if (status == HF_OK && (status = store_put(store, &put)) != HF_OK)
            *error = put.error;
    }
    buffer_release(&unknown);
    buffer_release(&text);
    return status;
}
