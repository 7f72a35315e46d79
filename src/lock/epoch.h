/* epoch.h: the epoch of a namespace: the upper half of every token given in it.
 *
 * It is raised before anything forgets how far tokens had come (a stub is purged, a damaged table
 * is replaced, a backup was restored), so that tokens never fall. docs/design.md section 5. */
#ifndef LOCK_EPOCH_H
#define LOCK_EPOCH_H

#include "doc/doc.h"

/* Epochs stay below this, so that tokens stay below 2^53. */
#define EPOCH_MAX ((UINT64_C(1) << 21) - 1)

/* The current epoch; 0 when it was never raised. One get. */
enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error);

/* Raises it by one and tells the new one. Raised twice by a lost reply, it is just higher. */
enum hf_status epoch_raise(struct store *store, struct doc_clock *clock, struct view ns,
                           struct mono_time deadline, uint64_t *ret_epoch,
                           struct hf_error *error);

/* The same by more than one. */
enum hf_status epoch_raise_by(struct store *store, struct doc_clock *clock, struct view ns,
                              uint64_t by, struct mono_time deadline, uint64_t *ret_epoch,
                              struct hf_error *error);

#endif
