/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h: reads and writes an open file at an offset, without partial results. */
#ifndef FILE_BYTES_H
#define FILE_BYTES_H

#include "base/error.h"
#include "base/view.h"

#include <stdint.h>

/* INVALID: the file is not a regular file. */
enum hf_status file_size(int fd, uint64_t *ret_size, struct hf_error *error);

/* Writes all bytes at the offset. Returns OK, or an error based on errno. */
enum hf_status file_write_at(int fd, struct view bytes, uint64_t offset,
                             struct hf_error *error);

/* Reads `size` bytes at the offset; fewer only if the file ends there. */
enum hf_status file_read_at(int fd, void *bytes, size_t size, uint64_t offset, size_t *ret_size,
                            struct hf_error *error);

/* Truncates the file, or extends it with zeros, to this size. */
enum hf_status file_set_size(int fd, uint64_t size, struct hf_error *error);

#endif
