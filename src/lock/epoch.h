/* epoch.h: the epoch of a namespace: the upper half of every token given in it.
 *
 * It is raised before anything forgets how far tokens had come (a stub is purged, a damaged table
 * is replaced, a backup was restored), so that tokens never fall. docs/design.md section 5.
 *
 * A purged table leaves no trace but the epoch, so the epoch stands in two objects: the document,
 * which is read, and its copy, which every change is written to first. So the copy is never behind,
 * and takes the place of a document that is missing or damaged. When neither can be read the epoch
 * is 0 only where no token was ever given; else it is lost, and a person has it rebuilt. */
#ifndef LOCK_EPOCH_H
#define LOCK_EPOCH_H

#include "lock/tables.h"

/* Epochs stay below this, so that tokens stay below 2^53. */
#define EPOCH_MAX ((UINT64_C(1) << 21) - 1)

/* The current epoch, as the document or else its copy says. NOT_FOUND: neither is there; CORRUPT:
 * neither can be read. One get where all is well. */
enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error);

/* How long leases can be. */
struct epoch_limits {
    bool known; /* else an older version has written it, or it was rebuilt: ttl_max */
    struct limits of[TABLE_KINDS];
};

/* The same for whoever is about to give tokens: what is missing or damaged is written anew.
 * CORRUPT: it is lost. `ret_limits` may be NULL. */
enum hf_status epoch_have(struct store *store, struct doc_clock *clock, struct view ns,
                          struct mono_time deadline, uint64_t *ret_epoch,
                          struct epoch_limits *ret_limits, struct hf_error *error);

/* Raises it by one and tells the new one. Raised twice by a lost reply, it is just higher. CORRUPT:
 * it is lost. */
enum hf_status epoch_raise(struct store *store, struct doc_clock *clock, struct view ns,
                           struct mono_time deadline, uint64_t *ret_epoch,
                           struct hf_error *error);

/* The same by more than one. */
enum hf_status epoch_raise_by(struct store *store, struct doc_clock *clock, struct view ns,
                              uint64_t by, struct mono_time deadline, uint64_t *ret_epoch,
                              struct hf_error *error);

/* Raises it by one, and tells how long a lease of this kind of table can be that is alive now. */
enum hf_status epoch_raise_after_damage(const struct table_space *space, enum table_kind kind,
                                        struct mono_time deadline, uint64_t *ret_epoch,
                                        struct span *ret_longest, struct hf_error *error);

/* Records that leases of this ttl may be granted, unless that is so for half of a period more. OK:
 * it is known to be recorded. One get where it was. */
enum hf_status epoch_record_limit(const struct table_space *space, enum table_kind kind,
                                  struct span ttl, struct mono_time deadline,
                                  struct ttl_limit *ret_limit, struct hf_error *error);

/* The same as epoch_raise_by, of a namespace that came back from a backup: whatever was recorded
 * since is not known, so leases can be as long as any. */
enum hf_status epoch_raise_restored(struct store *store, struct doc_clock *clock,
                                    struct view ns, uint64_t by, struct mono_time deadline,
                                    uint64_t *ret_epoch, struct hf_error *error);

/* Writes it anew where it is lost, as this or higher: as whatever can still be read says. */
enum hf_status epoch_rebuild(struct store *store, struct doc_clock *clock, struct view ns,
                             uint64_t at_least, struct mono_time deadline, uint64_t *ret_epoch,
                             struct hf_error *error);

#endif
