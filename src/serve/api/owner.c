/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: the label of a client, as it is stored in the note of its lease: {"owner":"ci-7"}. */
#include "serve/api/exchange.h"

#include "base/json.h"
#include "base/owner.h"

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

void json_put_owner(struct buffer *json, const char *note, const char *holder)
{
    struct view owner;
    if (!owner_find(note, &owner)) {
        json_put_text(json, "owner", holder);
        return;
    }
    json_put_raw(json, "owner", VIEW("\""));
    buffer_append(json, owner);
    buffer_append_byte(json, '"');
}
