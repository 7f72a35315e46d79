/* SPDX-License-Identifier: Apache-2.0 */
/* store.h: declarations that the calls of include/holdfast/store.h share. */
#ifndef API_STORE_H
#define API_STORE_H

#include "base/options.h"
#include "store/handle.h"

/* A string from the caller: with a size, or, if the size is 0, up to its NUL. */
static inline struct view caller_view(const char *text, size_t size)
{
    return size > 0 ? (struct view){ text, size } : view_of(text);
}

/* Whether the object with this key belongs to Holdfast itself. */
bool key_is_own(struct view key);

/* INVALID, with the remedy, if the object belongs to Holdfast and `force` is false. */
enum hf_status check_not_own(struct view key, bool force, struct hf_error *error);

/* Checks that an object can have this key, and that it may be written. */
enum hf_status check_written_key(struct view key, bool force, struct hf_error *error);

#endif
