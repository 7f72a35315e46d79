/* stamp.h: a moment as a document keeps it, and whether so much time has passed since for
 * certain.
 *
 * A stamp is the latest that the store's clock could be when it was made, and which clock that
 * was. Time is proven to have passed in one of two ways, as for leases: the earliest that the
 * same clock can be now is later than stamp + span + skew tolerance; or we have seen it stand
 * there for span and the drift of clocks, on our own boot-time clock. A stamp of another clock
 * (a machine that was booted anew) therefore needs somebody who watches. Who does not live
 * that long may restamp it, so that the time starts anew by a clock that the next one can
 * read; so often and no more (STAMP_RESTAMPS_MAX), since two machines that share a folder
 * would do so for ever. Pure. */
#ifndef BASE_STAMP_H
#define BASE_STAMP_H

#include "base/buffer.h"
#include "base/evidence.h"
#include "base/view.h"

#define STAMP_RESTAMPS_MAX 16

/* Boot-time clocks drift, and on top something nobody thought of. */
#define STAMP_DRIFT_PPM 200
#define STAMP_MARGIN    SPAN_MS(50)

struct stamp {
    uint64_t clock; /* hash of the clock's id; 0: unknown */
    int64_t us;
};

/* Of this attempt: the latest that the store's clock can be. */
struct stamp stamp_now(const struct evidence *evidence);

/* Whether it is of the clock that the evidence knows. */
bool stamp_is_readable(struct stamp stamp, const struct evidence *evidence);

/* Whether the span has certainly passed; `seen` is since when we see the stamp stand there. */
bool stamp_passed(struct stamp stamp, struct mono_time seen, struct span span,
                  struct span skew_tolerance, const struct evidence *evidence);

/* How long ago it was, at least: 0 when that cannot be told. For what is only an optimisation
 * a stamp of another clock was long ago: pass `unreadable` for that. */
struct span stamp_age(struct stamp stamp, struct span unreadable,
                      const struct evidence *evidence);

/* "9f86d081884c7d65:1763200000000000", in a document as a string. */
#define STAMP_TEXT_MAX 48
const char *stamp_text(struct stamp stamp, char text[STAMP_TEXT_MAX]);
bool stamp_parse(struct view text, struct stamp *ret_stamp);

#endif
