/* SPDX-License-Identifier: Apache-2.0 */
/* epoch.h: the epoch of a namespace: the upper half of every token issued in it.
 *
 * The epoch is raised before the highest token is forgotten (when a stub is purged, a damaged
 * table replaced, or a backup restored), so that tokens never decrease. docs/design.md section 5.
 *
 * The epoch is the only trace that a purged table leaves. So it is kept in two objects: the
 * document, which clients read, and its copy, to which every change is written first. The copy is
 * therefore never behind the document, and replaces the document if that is missing or damaged. If
 * neither can be read, the epoch is 0 only if no token was ever issued. Otherwise the epoch is
 * lost, and an operator must rebuild it. */
#ifndef LOCK_EPOCH_H
#define LOCK_EPOCH_H

#include "lock/tables.h"

/* The highest epoch. It keeps tokens below 2^53. */
#define EPOCH_MAX ((UINT64_C(1) << 21) - 1)

/* The epoch of a namespace, and the deadline of each request for it. */
struct epoch_ref {
    struct store *store;
    struct doc_clock *clock;
    struct view ns;
    struct mono_time deadline;
};

/* The epoch of these tables' namespace. */
struct epoch_ref epoch_of_tables(const struct table_space *space, struct mono_time deadline);

/* Whether the bytes are an epoch document or its copy: CORRUPT, or UNSUPPORTED. Pure. */
enum hf_status epoch_check_text(struct view bytes, struct hf_error *error);

/* The current epoch, from the document or, if that is lost, from its copy. NOT_FOUND: both are
 * absent. CORRUPT: neither can be read. If the document is intact, this takes one get. */
enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error);

/* The longest lease ttl per kind of table. */
struct epoch_limits {
    bool known; /* if not, an older version wrote it, or it was rebuilt: assume ttl_max */
    struct limits of[TABLE_KINDS];
};

/* The current epoch, for a client that is about to issue tokens. A missing or damaged object is
 * rewritten. CORRUPT: the epoch is lost. `ret_limits` may be NULL. */
enum hf_status epoch_have(const struct epoch_ref *ref, uint64_t *ret_epoch,
                          struct epoch_limits *ret_limits, struct hf_error *error);

/* Raises the epoch by this much and returns the new epoch. A lost reply may cause it to be raised
 * twice, which does no harm. CORRUPT: the epoch is lost. */
enum hf_status epoch_raise(const struct epoch_ref *ref, uint64_t by, uint64_t *ret_epoch,
                           struct hf_error *error);

/* Raises the epoch by one, and returns the longest ttl that a lease in a table of this kind may
 * now have. */
enum hf_status epoch_raise_after_damage(const struct table_space *space, enum table_kind kind,
                                        struct mono_time deadline, uint64_t *ret_epoch,
                                        struct span *ret_longest, struct hf_error *error);

/* Records that leases of this ttl may be granted, unless a recorded limit lasts for at least
 * another half period. OK: the limit is known to be recorded. If it already was, this takes one
 * get. */
enum hf_status epoch_record_limit(const struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct ttl_limit *ret_limit, struct hf_error *error);

/* Like epoch_raise, for a namespace that was restored from a backup. Limits recorded after the
 * backup are lost, so leases may have the longest possible ttl. */
enum hf_status epoch_raise_restored(const struct epoch_ref *ref, uint64_t by,
                                    uint64_t *ret_epoch, struct hf_error *error);

/* Rewrites a lost epoch. The new epoch is at least this value, and higher if the document or its
 * copy can be read and is higher. */
enum hf_status epoch_rebuild(const struct epoch_ref *ref, uint64_t at_least,
                             uint64_t *ret_epoch, struct hf_error *error);

#endif
