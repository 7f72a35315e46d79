/* SPDX-License-Identifier: Apache-2.0 */
/* pin.h: protects chunks from deletion while they are being read. A pin is a lease with scope
 * pin:KEY. It conflicts with no other lease; only deleters check it. A reader writes its pin,
 * *then* rereads the catalog. A deleter moves the names to deleting, *then* reads the current pins.
 * So at least one of them sees the other's write. */
#ifndef COMPACT_CARE_PIN_H
#define COMPACT_CARE_PIN_H

#include "compact/catalog/catalog_tree.h"

#define PIN_CHUNKS_MAX 512

/* Pins chunks of one home that are live or within their grace period. OK: none of them is deleted
 * while the lock is held. NOT_FOUND: one of them, named in the error, is gone; nothing is
 * pinned. */
enum hf_status pin_take(struct catalog_tree *tree, const char *const *keys, size_t count,
                        int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error);

/* Reads a chunk into a file, replacing its contents, and checks it. CORRUPT: size or checksum
 * differs from the catalog. */
enum hf_status pin_read(struct catalog_tree *tree, struct view key, uint64_t size, uint32_t crc,
                        int fd, struct hf_error *error);

/* Which of these keys are pinned, according to a fresh read of the tables. */
enum hf_status pin_find(struct catalog_tree *tree, const struct view *keys, size_t count,
                        bool *ret_pinned, struct hf_error *error);

#endif
