/* SPDX-License-Identifier: Apache-2.0 */
/* lease_name.h: a lease as one word, TOKEN:ID:TABLE. `acquire` prints it; `release`, --lock and
 * $HOLDFAST_LEASE accept it. Pure.
 *
 * A lease that a server granted contains its scope in place of a table's key (tables.h). In it,
 * blanks, control bytes and bytes that are special to shells are written as %XX. Earlier versions
 * wrote them as they are. Such a text is accepted, too, unless it could also be a text of this
 * version. */
#ifndef LOCK_LEASE_NAME_H
#define LOCK_LEASE_NAME_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/limits.h"

struct lease_name {
    uint64_t token;
    struct view id;
    struct view key; /* of its table */
};

/* Appends the text form: fewer than HF_LEASE_TEXT_MAX bytes for every name that can be parsed. */
void lease_name_append(struct buffer *to, const struct lease_name *name);

/* Whether the text form of every lease with this key is shorter than HF_LEASE_TEXT_MAX. */
bool lease_name_fits(struct view key);

/* Accepts only the printed form; any other text is INVALID, with a message. The name points into
 * the text, or into `space`. */
enum hf_status lease_name_parse(struct view text, char space[KEY_BYTES_MAX],
                                struct lease_name *ret_name, struct hf_error *error);

/* The namespace whose epoch its token belongs to. Chunks and shards have no namespace of their
 * own. */
struct view lease_name_namespace(const struct lease_name *name);

#endif
