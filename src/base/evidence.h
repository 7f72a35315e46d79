/* evidence.h: all that a pure transition may know of time. It is read once an attempt, before the
 * transition is applied, and passed down. docs/design.md section 4. */
#ifndef BASE_EVIDENCE_H
#define BASE_EVIDENCE_H

#include "base/moment.h"
#include "base/view.h"

/* A moment on the clock of the store: of its Date, or of the boot-time clock of the machine that a
 * local store lives on. Moments of two clocks cannot be compared; each clock has an id. */
struct store_time {
    int64_t us;
};

#define CLOCK_ID_MAX 64
#define NONCE_SIZE   32

struct evidence {
    struct mono_time now; /* t0 of this attempt, on our own boot-time clock */
    bool time_known;
    struct store_time earliest, latest; /* what the store's clock can be at `now` */
    struct view clock;                  /* which clock that is; empty when unknown */
    struct wall_time wall;              /* for display */
    struct view nonce;                  /* of this attempt, fresh */
};

#endif
