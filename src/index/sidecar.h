/* SPDX-License-Identifier: Apache-2.0 */
/* sidecar.h: shards/<xx>.json, the object beside a plain shard that has what the shard itself
 * cannot have: one line like the header line of a shard (shard.h), and after it the shard's
 * deletions, each ended by LF, in any order. plain.h says what it is used for. */
#ifndef INDEX_SIDECAR_H
#define INDEX_SIDECAR_H

#include "index/index.h"
#include "index/shard.h"

/* A fold writes old and new deletions together before it knows which of them are left. */
#define SIDECAR_BYTES_MAX (SHARD_LINE_MAX + 2 * DELETIONS_MAX)

struct sidecar {
    bool exists;
    struct etag etag; /* of the sidecar itself */
    struct shard_head head;
    struct buffer text;    /* the whole object */
    struct view deletions; /* in `text` */
};

void sidecar_release(struct sidecar *sidecar);

/* Parses `text`, and checks every byte. CORRUPT, UNSUPPORTED. Pure. */
enum hf_status sidecar_parse(struct sidecar *sidecar, struct hf_error *error);

/* Reads the sidecar of a shard, which may not exist. `known` may be NULL: NOT_MODIFIED if the
 * sidecar still has this ETag. CORRUPT, UNSUPPORTED: the error names the object. */
enum hf_status sidecar_read(struct index *index, struct shard_id shard,
                            const struct etag *known, struct sidecar *ret_sidecar,
                            struct hf_error *error);

/* Puts a sidecar with this head and these deletions by a swap: `etag` is the version to replace
 * (empty: there is none), and then the new version. Sets the deletions' size and checksum in the
 * head. CONFLICT: another compiler wrote it. UNSURE: the outcome is unknown. */
enum hf_status sidecar_swap(struct index *index, struct shard_id shard, struct shard_head *head,
                            struct view deletions, struct etag *etag, struct hf_error *error);

#endif
