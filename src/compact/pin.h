/* pin.h: reading chunks that must not be deleted meanwhile. A pin is a lease of scope pin:KEY,
 * which stands in nobody's way and is seen by those who delete. A reader pins, *then* reads
 * the catalog afresh; who deletes moves the names to deleting, *then* reads the pins afresh:
 * one of the two sees the other. */
#ifndef COMPACT_PIN_H
#define COMPACT_PIN_H

#include "compact/shelf.h"

#define PIN_CHUNKS_MAX 512

/* Pins chunks of one home that are live or in their grace. OK: none of them is deleted while
 * the lock is held. NOT_FOUND: one of them is not there any more (named in the error), nothing
 * is pinned. */
enum hf_status pin_take(struct shelf *shelf, const char *const *keys, size_t count,
                        int64_t ttl_ms, struct hf_lock **ret_lock, struct hf_error *error);

/* Reads a chunk into a file, over whatever is there, and checks it. CORRUPT: it is not what the
 * catalog says. */
enum hf_status pin_read(struct shelf *shelf, struct view key, uint64_t size, uint32_t crc,
                        int fd, struct hf_error *error);

/* Which of these are pinned now, read afresh. */
enum hf_status pin_find(struct shelf *shelf, const struct view *keys, size_t count,
                        bool *ret_pinned, struct hf_error *error);

#endif
