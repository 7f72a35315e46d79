/* SPDX-License-Identifier: Apache-2.0 */
/* lease_name.c: a lease as text, TOKEN:ID:TABLE. Only the exact printed form is accepted, or that
 * of earlier versions, so each lease has exactly one text that is printed. */
#include "lock/lease_name.h"

#include "base/layout.h"
#include "base/options.h"
#include "base/parse.h"
#include "lock/client_inside.h"
#include "lock/handle.h"

#include <stdio.h>

/* Room for the key in a text. */
#define KEY_TEXT_MAX (HF_LEASE_TEXT_MAX - sizeof "18446744073709551615::" - LEASE_ID_MAX)

static_assert(KEY_BYTES_MAX <= KEY_TEXT_MAX, "every lease of a store can be printed");

/* ---- Keys ---------------------------------------------------------------------------- */

/* How many bytes at the start of the text are written as %XX. The two bytes of a C1 control
 * character are not separated. */
static size_t bytes_to_escape(struct view text)
{
    unsigned char first = (unsigned char)text.data[0];
    if (first == 0xc2 && text.size > 1 && (unsigned char)text.data[1] < 0xa0)
        return 2;
    return first <= ' ' || first == 0x7f || strchr("!\"#$%&'()*;<>?[\\]^`{|}~", first) ? 1 : 0;
}

static void append_key(struct buffer *to, struct view key)
{
    if (!table_key_is_at_server(key)) {
        buffer_append(to, key);
        return;
    }
    while (key.size > 0) {
        size_t escaped = bytes_to_escape(key), size = escaped > 0 ? escaped : 1;
        for (size_t i = 0; i < escaped; i++)
            buffer_print(to, "%%%02X", (unsigned char)key.data[i]);
        if (escaped == 0)
            buffer_append_byte(to, key.data[0]);
        key = view_from(key, size);
    }
}

/* A buffer for the text of a key, which needs no memory. It fails if the text is too long. */
static struct buffer key_buffer(char text[KEY_TEXT_MAX + 1])
{
    return (struct buffer){ .data = text, .capacity = KEY_TEXT_MAX + 1, .max = KEY_TEXT_MAX };
}

bool lease_name_fits(struct view key)
{
    char text[KEY_TEXT_MAX + 1];
    struct buffer to = key_buffer(text);
    append_key(&to, key);
    return !to.failed;
}

/* The byte that is written as %XX at the start of the text; -1: none. */
static int byte_of_escape(struct view text)
{
    int high = text.size >= 3 ? hex_digit(text.data[1]) : -1;
    int low = text.size >= 3 ? hex_digit(text.data[2]) : -1;
    return high >= 0 && low >= 0 && text.data[0] == '%' ? high * 16 + low : -1;
}

/* The key with this text. If the decoded key would be printed otherwise, the text is the key. */
static struct view decode_key(struct view text, char space[KEY_BYTES_MAX])
{
    char printed[KEY_TEXT_MAX + 1];
    struct buffer again = key_buffer(printed);
    struct view rest = text;
    size_t size = 0;
    while (rest.size > 0 && size < KEY_BYTES_MAX) {
        int byte = byte_of_escape(rest);
        space[size++] = byte >= 0 ? (char)byte : rest.data[0];
        rest = view_from(rest, byte >= 0 ? 3 : 1);
    }
    struct view key = { space, size };
    append_key(&again, key);
    bool same = rest.size == 0 && !again.failed && view_equal(buffer_view(&again), text);
    return same ? key : text;
}

/* ---- Names --------------------------------------------------------------------------- */

void lease_name_append(struct buffer *to, const struct lease_name *name)
{
    buffer_append_u64(to, name->token);
    buffer_append_byte(to, ':');
    buffer_append(to, name->id);
    buffer_append_byte(to, ':');
    append_key(to, name->key);
}

/* Parses a token without leading zeros. */
static bool parse_token(struct view text, uint64_t *ret_token)
{
    return parse_u64(text, UINT64_MAX, ret_token, NULL) == HF_OK &&
           (text.size == 1 || text.data[0] != '0');
}

enum hf_status lease_name_parse(struct view text, char space[KEY_BYTES_MAX],
                                struct lease_name *ret_name, struct hf_error *error)
{
    struct lease_name name;
    struct view rest = text;
    struct view token = view_cut(&rest, ':');
    name.id = view_cut(&rest, ':');
    name.key = decode_key(rest, space);
    if (!parse_token(token, &name.token) || name.id.size == 0 || name.id.size > LEASE_ID_MAX ||
        !table_key_is_ours(name.key) || !lease_name_fits(name.key))
        return error_set(error, HF_INVALID,
                         "'%.*s' is not a lease; pass the TOKEN:ID:TABLE that 'holdfast "
                         "acquire' printed",
                         VIEW_ARGS(view_first(text, 80)));
    *ret_name = name;
    return HF_OK;
}

struct view lease_name_namespace(const struct lease_name *name)
{
    struct view rest = name->key;
    bool none = table_key_is_of_chunks(name->key) || table_key_is_of_shard(name->key);
    return none ? VIEW(LAYOUT_NAMESPACE_DEFAULT) : view_cut(&rest, '/');
}

enum hf_status hf_lease_parse(const char *text, struct hf_lease_name *name,
                              struct hf_error *error)
{
    struct hf_lease_name filled = HF_LEASE_NAME;
    struct lease_name parsed = { 0 };
    if (check_caller_report("HF_LEASE_NAME", name, error) != HF_OK ||
        ERROR_IF_NULL(error, text, name) != HF_OK)
        return HF_INVALID;
    char space[KEY_BYTES_MAX];
    enum hf_status status = lease_name_parse(view_of(text), space, &parsed, error);
    if (status != HF_OK)
        return status;
    struct view ns = lease_name_namespace(&parsed);
    filled.token = parsed.token;
    snprintf(filled.ns, sizeof filled.ns, "%.*s", VIEW_ARGS(ns));
    snprintf(filled.table, sizeof filled.table, "%.*s", VIEW_ARGS(parsed.key));
    name_of_table(ns, parsed.key, filled.key);
    write_caller_report(name, &filled, sizeof filled);
    return error_clear(error);
}
