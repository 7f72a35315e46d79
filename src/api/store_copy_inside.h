/* SPDX-License-Identifier: Apache-2.0 */
/* store_copy_inside.h: declarations that src/api/store_copy.c and store_move.c share. */
#ifndef API_STORE_COPY_INSIDE_H
#define API_STORE_COPY_INSIDE_H

#include "api/store.h"

struct checksum {
    uint32_t crc;
    uint64_t size;
};

struct copying {
    struct store *from;
    struct store *to; /* may equal `from` */
    struct view source;
    struct view target;
    struct view source_in_target; /* how the source's keys start in `to`; or data NULL */
    bool many;                    /* all objects whose keys start with `source` */
    struct hf_store_copy_options options;
    struct progress progress;
    int spool;       /* bytes read from the source */
    int back_spool;  /* bytes read from the target */
    uint64_t total;  /* bytes of all objects; 0: unknown */
    uint64_t before; /* bytes of all objects before this one */
    uint64_t size;   /* bytes of this object ... */
    unsigned pass;   /* ... which is transferred PASSES times; this is the current pass */
    bool stopped;    /* the caller stopped the copy */
    struct hf_store_copy_report report;
    struct hf_error *error;
};

/* Whether the bytes in the spool may be moved to `target`. `equal`: the target already has them. */
enum hf_status move_check(struct copying *copying, struct view target, bool equal);

/* Replaces the error of a put whose condition did not hold. */
enum hf_status move_explain_conflict(struct copying *copying, const struct put_call *put);

/* Deletes the version that was copied. */
enum hf_status move_delete_source(struct copying *copying, struct view key,
                                  const struct etag *copied);

#endif
