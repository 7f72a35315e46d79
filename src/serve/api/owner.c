/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: the label of a client, as it is stored in the note of its lease, with the client's own
 * note: {"owner":"ci-7","note":{"rows":17}}. */
#include "serve/api/exchange.h"

#include "base/json.h"
#include "base/owner.h"

/* Without an owner, the note is the client's own. */
char *owner_note(const char *owner, struct view own)
{
    struct buffer note = BUFFER_INIT(8 * ASK_TEXT_MAX + own.size);
    if (!owner && own.size == 0)
        return NULL;
    if (owner) {
        buffer_append_byte(&note, '{');
        json_put_text(&note, "owner", owner);
        if (own.size > 0)
            json_put_raw(&note, "note", own);
        buffer_append_byte(&note, '}');
    } else {
        buffer_append(&note, own);
    }
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
