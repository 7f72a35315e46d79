/* SPDX-License-Identifier: Apache-2.0 */
/* position.c: keeps the position of the sweeper's scrub in .holdfast/sweep/.scrub.json (".scrub" is
 * not a valid namespace). To other programs, it is a record of the sweeper. */
#include "scrub/position.h"

#include "base/layout.h"
#include "base/members.h"
#include "base/parse.h"
#include "base/utf8.h"
#include "scrub/scrub.h"

#include <string.h>

#define POSITION_KEY      LAYOUT_SWEEP_FOLDER LAYOUT_SWEEP_SCRUB ".json"
#define POSITION_BYTES    ((size_t)64 * 1024)
#define UNKNOWN_BYTES_MAX ((size_t)32 * 1024)
#define POSITION_TIME     SPAN_S(10)
#define TEXT_MAX          HF_SCRUB_POSITION_MAX
#define HEX_MAX           (2 * TEXT_MAX)

/* The note. A position that is not text is in `hex`, and `text` is then its beginning, where
 * versions that do not know `hex` continue. */
struct position_note {
    struct wall_time at; /* when it was written, for display */
    char text[TEXT_MAX];
    char hex[HEX_MAX];
};

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
    MEMBER(position_note, "at_ms", MEMBER_MS, at.us, INT64_MAX / 1000, MEMBER_ALWAYS),
    MEMBER(position_note, "scrub_after", MEMBER_CHARS, text, TEXT_MAX, MEMBER_ALWAYS),
    MEMBER(position_note, "scrub_after_hex", MEMBER_CHARS, hex, HEX_MAX, MEMBER_OPTIONAL),
};
static const struct member_table position_table = MEMBER_TABLE(position_members, "no format");

/* The beginning of a position that a JSON string can hold. */
static struct view text_of_position(struct view position)
{
    size_t size = 0;
    while (size < position.size && position.data[size] != '\0' &&
           utf8_size(view_from(position, size)) > 0)
        size += utf8_size(view_from(position, size));
    return view_first(position, size);
}

/* An earlier version may have changed only the text: `hex` counts if it belongs to the text. */
static void decode_position(const struct position_note *note, struct scrub_position *position)
{
    char bytes[HF_SCRUB_POSITION_MAX];
    struct view hex = view_of(note->hex), after = { bytes, hex.size / 2 };
    for (size_t i = 0; i < after.size; i++)
        bytes[i] = (char)(16 * hex_digit(hex.data[2 * i]) + hex_digit(hex.data[2 * i + 1]));
    bool valid = text_is_hex(hex, 2 * after.size) && hex.size > 0 &&
                 view_equal(text_of_position(after), view_of(note->text));
    if (!valid)
        after = view_of(note->text);
    if (scrub_takes_position(after)) {
        memcpy(position->after, after.data, after.size);
        position->size = after.size;
    }
}

static void encode_position(struct view after, struct position_note *note)
{
    struct view text = text_of_position(after);
    if (text.size > 0) /* else it may be NULL */
        memcpy(note->text, text.data, text.size);
    note->text[text.size] = '\0';
    if (text.size < after.size)
        hex_encode(after.data, after.size, note->hex);
}

enum hf_status scrub_position_read(struct store *store, struct scrub_position *ret_position,
                                   struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(POSITION_BYTES);
    /* A longer note is cut, and therefore not valid. */
    struct get_call get = { .key = VIEW(POSITION_KEY),
                            .length = POSITION_BYTES,
                            .body = &text,
                            .deadline = mono_add(env_now(store->env), POSITION_TIME) };
    *ret_position = (struct scrub_position){ .unknown = BUFFER_INIT(UNKNOWN_BYTES_MAX) };
    enum hf_status status = store_get(store, &get);
    struct json_reader json = json_read(buffer_view(&text));
    struct member_reader reader = { &json, NULL, &ret_position->unknown, NULL };
    struct position_note note = { .text = "" };
    if (status == HF_OK)
        ret_position->unchanged = if_match(&get.info.etag);
    else if (status == HF_NOT_FOUND)
        ret_position->unchanged = if_absent();
    if (status == HF_OK && members_read(&reader, &position_table, &note) && json_end(&json))
        decode_position(&note, ret_position);
    else
        buffer_clear(&ret_position->unknown);
    buffer_release(&text);
    if (status == HF_OK || status == HF_NOT_FOUND || status == HF_CORRUPT)
        return error_clear(error);
    *error = get.error;
    error_prefix(error, "read the position in %s", POSITION_KEY);
    return status;
}

void scrub_position_release(struct scrub_position *position)
{
    buffer_release(&position->unknown);
}

enum hf_status scrub_position_write(struct store *store, const struct scrub_position *read,
                                    struct view after, struct hf_error *error)
{
    struct buffer text = BUFFER_INIT(POSITION_BYTES);
    struct position_note note = { .at = env_wall(store->env) };
    struct put_call put = { .key = VIEW(POSITION_KEY),
                            .condition = read->unchanged,
                            .quiet = true,
                            .deadline = mono_add(env_now(store->env), POSITION_TIME) };
    encode_position(after, &note);
    members_write(&position_table, &note, '{', &text);
    buffer_append(&text, buffer_view(&read->unknown));
    enum hf_status status = buffer_append(&text, VIEW("}\n")) ? HF_OK : error_no_memory(error);
    put.body = buffer_view(&text);
    if (status == HF_OK && (status = store_put(store, &put)) != HF_OK) {
        *error = put.error;
        error_prefix(error, "write the position in %s", POSITION_KEY);
    }
    buffer_release(&text);
    return status;
}
