/* SPDX-License-Identifier: Apache-2.0 */
/* lease_inside.h: shared by lease.c, which knows the JSON of a lease, and lease_new.c. */
#ifndef LEASE_LEASE_INSIDE_H
#define LEASE_LEASE_INSIDE_H

#include "base/json.h"
#include "lease/lease.h"

/* Where the texts of a lease are in its bytes, if they were written as they are. `scopes` is an
 * array. */
struct lease_positions {
    size_t id, holder, scopes, session, clock, nonce, output, note;
};

struct lease_positions lease_encode(const struct lease *lease, struct buffer *out);

/* `alike`: the waiter shares its terms. */
void waiter_encode(const struct lease_request *asked, bool alike, struct buffer *out);
void wanted_encode(const struct lease_wish *wish, struct buffer *out);

/* Allocates so many bytes and, after them, a copy of the entry: the text that precedes the bytes in
 * a table, and the bytes. Only a lease has a name. Sets only `bytes`, `entry` and `users` of the
 * fields, and clears the others. NULL: there is no memory. */
void *lease_allocate(size_t size, struct view name, struct view bytes,
                     struct lease *ret_fields);

/* Takes a note, which must not be too long. */
void lease_take_note(struct json_reader *reader, struct view *ret_note);

#endif
