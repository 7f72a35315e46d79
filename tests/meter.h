/* SPDX-License-Identifier: Apache-2.0 */
/* meter.h: what was asked of a store, counted. */
#ifndef TESTS_METER_H
#define TESTS_METER_H

#include "store/observe.h"

struct meter_counts {
    uint64_t calls;
    uint64_t batches;
    uint64_t failed; /* answered by anything but OK and NOT_MODIFIED */
    uint64_t bytes_sent;
    uint64_t bytes_received;
};

struct meter {
    struct env_mutex mutex;
    struct meter_counts kinds[CALL_KIND_COUNT];
    uint64_t depth; /* of the deepest request */
};

void meter_init(struct meter *meter, struct env *env);
void meter_release(struct meter *meter);
struct observer meter_observer(struct meter *meter);
void meter_reset(struct meter *meter);

/* A copy of all counts, indexed by call_kind. */
void meter_read(struct meter *meter, struct meter_counts ret_kinds[CALL_KIND_COUNT]);

#endif
