/* SPDX-License-Identifier: Apache-2.0 */
/* no_space.h: errors whose reason is a full disk. They are UNAVAILABLE, but not repeated like other
 * failures of a store: somebody has to make room first, and wants to know at once. The reason is
 * recognised by its words, because an error is a status and a text, and nothing else of it arrives
 * at a client of a server. */
#ifndef BASE_NO_SPACE_H
#define BASE_NO_SPACE_H

#include "holdfast.h"

#include <stdbool.h>

/* "cannot WHAT: no space left on the disk of 'FILE'" */
#define NO_SPACE_TEXT "no space left on the disk"

/* The same for an errno: ENOSPC or EDQUOT. */
#define NO_SPACE_ERRNO_TEXT "No space left on device"

/* Whether the reason of the error is one of these. */
bool error_is_no_space(const struct hf_error *error);

#endif
