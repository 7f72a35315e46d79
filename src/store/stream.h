/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h: copies bytes between files in bounded pieces, and reports progress. */
#ifndef STORE_STREAM_H
#define STORE_STREAM_H

#include "file/bytes.h"
#include "store/store.h"

/* Copies `length` bytes of `from`, starting at `offset`, to the start of `to`. CORRUPT if the
 * file is shorter. */
enum hf_status file_copy(int from, uint64_t offset, uint64_t length, int to,
                         const struct progress *progress, struct hf_error *error);

/* Gives an open file on the same file system this name in the folder, without copying its bytes.
 * The file also gets the mode and the group that a new file in the folder would get, because
 * temporary files are private and objects are not. Returns false if this is not possible. */
bool file_link(int fd, int folder, const char *name);

/* False, with CANCELLED, when the callback stops the stream. `progress` may be NULL. */
bool progress_step(const struct progress *progress, uint64_t done, uint64_t total,
                   struct hf_error *error);

#endif
