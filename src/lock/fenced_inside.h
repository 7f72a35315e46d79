/* SPDX-License-Identifier: Apache-2.0 */
/* fenced_inside.h: shared by fenced.c and fenced_read.c. */
#ifndef LOCK_FENCED_INSIDE_H
#define LOCK_FENCED_INSIDE_H

#include "lock/client_inside.h"
#include "lock/fenced.h"

/* INVALID unless a user's object can have this key, and the key leaves room for body names. */
enum hf_status fenced_check_key(const struct hf_client *client, struct view key,
                                struct hf_error *error);

/* Hashes the first `size` bytes, in pieces. CORRUPT if the file is shorter. */
enum hf_status fenced_hash_file(int fd, uint64_t size, uint64_t *ret_xxh3,
                                struct hf_error *error);

#endif
