/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.h: everything that a pure transition may know about time. It is read once per
 * attempt, before the transition is applied, and passed down. See docs/design.md section 4. */
#ifndef BASE_EVIDENCE_H
#define BASE_EVIDENCE_H

#include "base/moment.h"
#include "base/view.h"

/* A time on the store's clock. The clock is the one that dates the store's replies or, for a local
 * store, the machine's boot-time clock. Times on different clocks cannot be compared, so each clock
 * has an id. */
struct store_time {
    int64_t us;
};

#define CLOCK_ID_MAX 64
#define NONCE_SIZE   32

struct evidence {
    struct mono_time now; /* t0 of this attempt, on our own boot-time clock */
    bool time_known;
    struct store_time earliest, latest; /* the range of the store's clock at `now` */
    struct view clock;                  /* the id of that clock; empty if unknown */
    struct wall_time wall;              /* for display, and for times in data; proves nothing */
    struct view nonce;                  /* new for each attempt */
};

#endif
