/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.h: a timestamp as a document stores it, and whether a span has certainly passed since.
 *
 * A stamp is the latest time that the store's clock could have shown when the stamp was made, with
 * the id of that clock. There are two proofs that a span has passed, as for leases. Either the
 * earliest time that the same clock can show now is later than stamp + span + skew tolerance. Or we
 * have seen the stamp unchanged for the span plus clock drift, on our own boot-time clock. So a
 * stamp from another clock (on a machine that was rebooted) needs a process that watches it. A
 * process that does not live that long may restamp it: the span then starts again, by a clock that
 * the next process can read. The number of restamps is limited (STAMP_RESTAMPS_MAX), because two
 * machines that share a directory would otherwise restamp forever. No I/O. */
#ifndef BASE_STAMP_H
#define BASE_STAMP_H

#include "base/buffer.h"
#include "base/evidence.h"
#include "base/view.h"

#define STAMP_RESTAMPS_MAX 16

/* The drift of boot-time clocks, and a margin for unknown effects. */
#define STAMP_DRIFT_PPM 200
#define STAMP_MARGIN    SPAN_MS(50)

struct stamp {
    uint64_t clock; /* hash of the clock's id; 0: unknown */
    int64_t us;
};

/* The stamp of this attempt: the latest time that the store's clock can show. */
struct stamp stamp_now(const struct evidence *evidence);

/* Whether the stamp belongs to the clock of the evidence. */
bool stamp_is_readable(struct stamp stamp, const struct evidence *evidence);

/* Whether the span has certainly passed. `seen`: when we first saw the stamp as it is now. */
bool stamp_passed(struct stamp stamp, struct mono_time seen, struct span span,
                  struct span skew_tolerance, const struct evidence *evidence);

/* The least age of the stamp; 0 if it is unknown. Where the age is only used for an optimisation,
 * pass the age to assume for a stamp from another clock as `unreadable`. */
struct span stamp_age(struct stamp stamp, struct span unreadable,
                      const struct evidence *evidence);

/* "9f86d081884c7d65:1763200000000000", stored as a string. */
#define STAMP_TEXT_MAX 48
const char *stamp_text(struct stamp stamp, char text[STAMP_TEXT_MAX]);
bool stamp_parse(struct view text, struct stamp *ret_stamp);

#endif
