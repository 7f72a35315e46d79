/* stream.h: moving bytes between files in bounded pieces, with progress. */
#ifndef STORE_STREAM_H
#define STORE_STREAM_H

#include "store/store.h"

enum hf_status file_size(int fd, uint64_t *ret_size, struct hf_error *error);

/* Writes all of it at the offset; OK or the errno as an error. */
enum hf_status file_write_at(int fd, struct view bytes, uint64_t offset,
                             struct hf_error *error);

/* Reads up to `size` bytes at the offset, fewer only at the end of the file. */
enum hf_status file_read_at(int fd, void *bytes, size_t size, uint64_t offset, size_t *ret_size,
                            struct hf_error *error);

/* Cuts the file off, or extends it by zeros, to this size. */
enum hf_status file_set_size(int fd, uint64_t size, struct hf_error *error);

/* Copies `length` bytes of `from`, starting at `offset`, to the start of `to`. CORRUPT if the
 * file ends before. */
enum hf_status file_copy(int from, uint64_t offset, uint64_t length, int to,
                         const struct progress *progress, struct hf_error *error);

/* Gives an open file of the same file system this name too, so that no byte has to be copied. It
 * gets the mode and the group that a file has which is made there now: temporary files are private,
 * objects are not. False when that cannot be. */
bool file_link(int fd, int folder, const char *name);

/* False, with CANCELLED, when the one who watches says stop. `progress` may be NULL. */
bool progress_step(const struct progress *progress, uint64_t done, uint64_t total,
                   struct hf_error *error);

#endif
