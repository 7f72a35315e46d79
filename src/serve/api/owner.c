/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: the label of a client, as it is stored in the note of its lease: {"owner":"ci-7"}. */
#include "serve/api/exchange.h"

#include "base/json.h"

char *owner_note(const char *owner)
{
    struct buffer note = BUFFER_INIT(8 * ASK_TEXT_MAX);
    if (!owner)
        return NULL;
    buffer_append_byte(&note, '{');
    json_put_text(&note, "owner", owner);
    buffer_append_byte(&note, '}');
    return note.failed || !buffer_text(&note) ? (buffer_release(&note), NULL) : note.data;
}

/* The owner in a note, with its escapes. False: there is none. A note of another program may be
 * anything. */
static bool find_owner_in_note(const char *note, struct view *ret_owner)
{
    struct json_reader reader = json_read(view_of(note));
    struct json_text name, value, owner = { .kind = JSON_KIND_NONE };
    if (json_enter_object(&reader))
        while (json_next_pair(&reader, &name, &value))
            if (json_text_is(&name, VIEW("owner")))
                owner = value;
    *ret_owner = owner.text;
    return json_end(&reader) && owner.kind == JSON_KIND_STRING;
}

void json_put_owner(struct buffer *json, const char *note, const char *holder)
{
    struct view owner;
    if (!find_owner_in_note(note, &owner)) {
        json_put_text(json, "owner", holder);
        return;
    }
    json_put_raw(json, "owner", VIEW("\""));
    buffer_append(json, owner);
    buffer_append_byte(json, '"');
}

const char *owner_text(struct arena *arena, const char *note, const char *holder)
{
    struct view owner;
    struct buffer plain = BUFFER_INIT(8 * ASK_TEXT_MAX);
    bool found =
        find_owner_in_note(note, &owner) && json_unescape(owner, &plain) && !plain.failed;
    const char *text = arena_copy(arena, found ? buffer_view(&plain) : view_of(holder)).data;
    buffer_release(&plain);
    return text;
}
