/* SPDX-License-Identifier: Apache-2.0 */
/* owner.c: finds the owner of a lease in its note. */
#include "base/owner.h"

#include "base/json.h"

bool owner_find(const char *note, struct view *ret_owner)
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

const char *owner_text(struct arena *arena, const char *note, const char *holder)
{
    struct view owner;
    bool found = owner_find(note, &owner);
    struct buffer plain = BUFFER_INIT(found ? owner.size + 1 : 1); /* escapes are longer */
    found = found && json_unescape(owner, &plain) && !plain.failed;
    const char *text = arena_copy(arena, found ? buffer_view(&plain) : view_of(holder)).data;
    buffer_release(&plain);
    return text;
}
