/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: declarations shared by the files that implement include/holdfast/store.h. */
#ifndef API_STORE_H
#define API_STORE_H

#include "base/options.h"
#include "store/handle.h"

/* A string from the caller: of the given size or, if the size is 0, NUL-terminated. */
static inline struct view caller_view(const char *text, size_t size)
{
    return size > 0 ? (struct view){ text, size } : view_of(text);
}

/* Whether the object with this key belongs to Holdfast itself. */
bool key_is_own(struct view key);

/* INVALID, with advice in the error, if the object belongs to Holdfast and `force` is false. */
enum hf_status check_not_own(struct view key, bool force, struct hf_error *error);

/* Checks that an object can have this key, and that it may be written. */
enum hf_status check_written_key(struct view key, bool force, struct hf_error *error);

#endif
