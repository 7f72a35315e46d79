/* SPDX-License-Identifier: Apache-2.0 */
/* stamp.h: a timestamp as a document stores it, and whether a span is known to have passed since
 * then.
 *
 * A stamp is the latest time that the store's clock could have shown when the stamp was made,
 * together with the id of that clock. As for leases, there are two proofs that a span has passed.
 * Either the earliest time that the same clock can show now is later than stamp + span + skew
 * tolerance, or we have seen the stamp unchanged for the span plus clock drift, on our own
 * boot-time clock. So a stamp from another clock (for example, from before a reboot) needs a
 * process that watches it. A process that does not run that long may restamp it: the span is then
 * counted from the new stamp, on a clock that the next process can read. The number of restamps is
 * limited (STAMP_RESTAMPS_MAX), because two machines that share a directory would otherwise restamp
 * forever. No I/O. */
#ifndef BASE_STAMP_H
#define BASE_STAMP_H

#include "base/buffer.h"
#include "base/evidence.h"
#include "base/view.h"

#define STAMP_RESTAMPS_MAX 16

/* The drift of boot-time clocks, and a safety margin. */
#define STAMP_DRIFT_PPM 200
#define STAMP_MARGIN    SPAN_MS(50)

struct stamp {
    uint64_t clock; /* hash of the clock's id; 0: unknown */
    int64_t us;
};

/* The stamp for this attempt: the latest time that the store's clock can show. */
struct stamp stamp_now(const struct evidence *evidence);

/* Whether the stamp belongs to the clock of the evidence. */
bool stamp_is_readable(struct stamp stamp, const struct evidence *evidence);

/* Whether the span is known to have passed. `seen`: when we first saw the stamp as it is now. */
bool stamp_passed(struct stamp stamp, struct mono_time seen, struct span span,
                  struct span skew_tolerance, const struct evidence *evidence);

/* The minimum age of the stamp. If its clock is unknown, or is not the clock of the evidence,
 * returns `unreadable`. Pass 0, unless the age is used only for an optimisation. */
struct span stamp_age(struct stamp stamp, struct span unreadable,
                      const struct evidence *evidence);

/* "9f86d081884c7d65:1763200000000000", stored as a string. */
#define STAMP_TEXT_MAX 48
const char *stamp_text(struct stamp stamp, char text[STAMP_TEXT_MAX]);
bool stamp_parse(struct view text, struct stamp *ret_stamp);

#endif
